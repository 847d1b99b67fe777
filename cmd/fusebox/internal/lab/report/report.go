package report

import (
	"html/template"
	"math"
)

// Report is what one run of an experiment found.
type Report struct {
	Name       string // of the experiment
	Title      string
	Seed       uint64
	Versions   []Named
	Parameters []Named
	Tables     []*Table
	Plots      []*Plot
	Checks     []Check
	// Widgets stand in the HTML after the tables and nowhere else.
	Widgets []Widget
}

// Named is a value with its name.
type Named struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Widget is a piece of HTML that is trusted: its author escapes what is not.
// It may have a script and a style of its own; its element's identifiers begin
// with the name of the experiment.
type Widget struct {
	Title string
	HTML  template.HTML
}

// Table adds an empty table and returns it.
func (r *Report) Table(name, title string, columns ...Column) *Table {
	t := &Table{Name: name, Title: title, Columns: columns}
	r.Tables = append(r.Tables, t)
	return t
}

// Plot adds p and returns it.
func (r *Report) Plot(p Plot) *Plot {
	r.Plots = append(r.Plots, &p)
	return &p
}

// Check compares what was found with what theory, or another way of finding it,
// says.
type Check struct {
	Name     string  `json:"name"`
	OK       bool    `json:"ok"`
	Got      float64 `json:"got"`
	Want     float64 `json:"want"`
	Distance float64 `json:"distance"` // in standard errors, or the difference itself
	Limit    float64 `json:"limit"`    // the greatest distance that passes
	Unit     string  `json:"unit,omitempty"`
}

// StandardErrors is the unit of a statistical check.
const StandardErrors = "standard errors"

// Limit is the distance, in standard errors, up to which a statistical check
// passes: one in 150 000 fails by chance.
const Limit = 4.5

// Statistical adds a check of a mean against what theory says, and returns its
// distance in standard errors, with its sign. each is by how much the mean
// changes if one run has one event more, 0 if that is not what is counted: where
// theory expects few events, or none, one too many must not be many standard
// errors. (The distance is that of Bernstein's inequality, which is the plain
// one where events are many.) With a standard error of 0 the two must be equal,
// but for rounding.
func (r *Report) Statistical(name string, got, want, standardError, each float64) float64 {
	d := got - want
	switch {
	case math.Abs(d) <= 1e-9*math.Max(1, math.Abs(want)):
		d = 0
	case standardError <= 1e-9*math.Abs(want):
		d = math.Copysign(beyond, d)
	default:
		d /= math.Sqrt(float64(standardError*standardError) + math.Abs(d)*each/3)
		d = math.Max(-beyond, math.Min(beyond, d))
	}
	r.Checks = append(r.Checks, Check{name, math.Abs(d) <= Limit, got, want, math.Abs(d), Limit, StandardErrors})
	return d
}

// beyond is the greatest distance that is told: beyond any limit, and still a
// number that JSON can hold.
const beyond = 999

// Near adds a check that got is at most limit away from want, in the given unit.
func (r *Report) Near(name string, got, want, limit float64, unit string) {
	d := math.Abs(float64(got) - float64(want)) // not fused with what makes it: the same on every machine
	r.Checks = append(r.Checks, Check{name, d <= limit, got, want, d, limit, unit})
}

// Failed returns the checks that failed.
func (r *Report) Failed() (failed []Check) {
	for _, c := range r.Checks {
		if !c.OK {
			failed = append(failed, c)
		}
	}
	return failed
}

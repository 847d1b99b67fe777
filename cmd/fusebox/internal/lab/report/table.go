package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// Kind is the type of a column's cells.
type Kind uint8

// The cells of a column are all of its kind, or nil where there is none.
const (
	Text     Kind = iota // string
	Count                // int
	Number               // float64
	Share                // float64, a fraction; shown in per cent
	Duration             // time.Duration; shown in the column's Unit
)

// Column describes a column of a table.
type Column struct {
	Key   string // in JSON, and for Row; a duration's has the unit behind it
	Title string // for people; the unit is added
	Kind  Kind
	// Decimals is how many are shown.
	Decimals int
	// Unit of a Duration: time.Millisecond, time.Second (0 too), time.Minute or
	// time.Hour.
	Unit time.Duration
}

// heading is the column's title with its unit.
func (c Column) heading() string {
	switch c.Kind {
	case Share:
		return c.Title + ", %"
	case Duration:
		return c.Title + ", " + unitName(c.Unit)
	}
	return c.Title
}

func (c Column) jsonKey() string {
	if c.Kind == Duration {
		return c.Key + "_" + unitName(c.Unit)
	}
	return c.Key
}

func unitName(d time.Duration) string {
	switch d {
	case time.Millisecond:
		return "ms"
	case time.Second, 0:
		return "s"
	case time.Minute:
		return "min"
	case time.Hour:
		return "h"
	}
	panic(fmt.Sprintf("lab: %v is no unit", d))
}

// Table is rows under typed columns.
type Table struct {
	Name    string
	Title   string
	Columns []Column
	Rows    [][]any
	Claims  []Claim
}

// Claim is a sentence that a table teaches. Its numbers come from the table,
// its title or the parameters, and Holds tells from the table alone whether the
// rest of it is true. One that is not, because somebody chose other parameters,
// is not shown as a lesson. A test sees to it that every claim holds for the
// parameters by default, and that none would hold whatever the table said.
type Claim struct {
	Text  string
	Holds func(*Table) bool
}

// Add adds a row. It panics if the cells do not fit the columns.
func (t *Table) Add(cells ...any) {
	if len(cells) != len(t.Columns) {
		panic(fmt.Sprintf("lab: table %s has %d columns, not %d", t.Name, len(t.Columns), len(cells)))
	}
	for i, c := range cells {
		if !t.Columns[i].fits(c) {
			panic(fmt.Sprintf("lab: table %s: %v is a %T and does not fit the column %s", t.Name, c, c, t.Columns[i].Key))
		}
	}
	t.Rows = append(t.Rows, cells)
}

func (c Column) fits(cell any) bool {
	switch v := cell.(type) {
	case nil:
		return true
	case string:
		return c.Kind == Text
	case int:
		return c.Kind == Count
	case float64:
		return (c.Kind == Number || c.Kind == Share) && !math.IsNaN(v) && !math.IsInf(v, 0)
	case time.Duration:
		return c.Kind == Duration
	}
	return false
}

// Teach adds a claim; the text is made as by fmt.Sprintf.
func (t *Table) Teach(holds func(*Table) bool, format string, args ...any) {
	t.Claims = append(t.Claims, Claim{fmt.Sprintf(format, args...), holds})
}

// format returns a cell as people read it, without its unit.
func (c Column) format(cell any) string {
	switch v := cell.(type) {
	case nil:
		return "-"
	case string:
		return v
	case int:
		return group(strconv.Itoa(v))
	}
	return group(strconv.FormatFloat(c.number(cell), 'f', c.Decimals, 64))
}

// number returns a cell as a number in the column's unit.
func (c Column) number(cell any) float64 {
	switch v := cell.(type) {
	case int:
		return float64(v)
	case float64:
		if c.Kind == Share {
			return 100 * v
		}
		return v
	case time.Duration:
		unit := c.Unit
		if unit == 0 {
			unit = time.Second
		}
		return float64(v) / float64(unit)
	}
	return math.NaN()
}

// group puts thin gaps between the thousands of numbers of five digits and
// more, as plain spaces: 12345.6 is "12 345.6". It drops the sign of a zero.
func group(s string) string {
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	whole := len(s)
	if i := slices.Index([]byte(s), '.'); i >= 0 {
		whole = i
	}
	head, tail := s[:whole], s[whole:]
	if len(head) > 4 {
		for i := len(head) - 3; i > 0; i -= 3 {
			head = head[:i] + " " + head[i:]
		}
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && f == 0 {
		sign = ""
	}
	return sign + head + tail
}

// Row is a row of a table, for claims, checks and tests; the zero Row is one
// that was not found.
type Row struct {
	table *Table
	cells []any
}

// Row returns the first row whose cells have the given values, written as key,
// value, key, value.
func (t *Table) Row(where ...any) Row {
	for _, r := range t.Rows {
		if (Row{t, r}).is(where) {
			return Row{t, r}
		}
	}
	return Row{}
}

// Select returns all rows whose cells have the given values, as Row does.
func (t *Table) Select(where ...any) (rows []Row) {
	for _, r := range t.Rows {
		if row := (Row{t, r}); row.is(where) {
			rows = append(rows, row)
		}
	}
	return rows
}

func (r Row) is(where []any) bool {
	for i := 0; i+1 < len(where); i += 2 {
		if r.Cell(where[i].(string)) != where[i+1] {
			return false
		}
	}
	return true
}

// Found reports whether there is such a row.
func (r Row) Found() bool { return r.table != nil }

func (r Row) column(key string) (i int) {
	if r.table == nil {
		return -1
	}
	i = slices.IndexFunc(r.table.Columns, func(c Column) bool { return c.Key == key })
	if i < 0 {
		panic(fmt.Sprintf("lab: table %s has no column %s", r.table.Name, key))
	}
	return i
}

// Cell returns a cell as it was added; nil in a row that was not found.
func (r Row) Cell(key string) any {
	if i := r.column(key); i >= 0 {
		return r.cells[i]
	}
	return nil
}

// Number returns a cell as a number in the column's unit, a share in per cent.
// Where there is none it is not a number, and every comparison is false.
func (r Row) Number(key string) float64 {
	if i := r.column(key); i >= 0 {
		return r.table.Columns[i].number(r.cells[i])
	}
	return math.NaN()
}

// Text returns a cell as it is shown, without its unit.
func (r Row) Text(key string) string {
	if i := r.column(key); i >= 0 {
		return r.table.Columns[i].format(r.cells[i])
	}
	return "-"
}

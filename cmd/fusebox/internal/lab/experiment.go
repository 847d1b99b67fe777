package lab

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
)

// Experiment is one thing to try.
type Experiment struct {
	Name  string // of the command, in lower case
	Title string // what it shows, in one line
	// Long is the help text. "": the title.
	Long string
	// Gobreaker is whether gobreaker runs in it too.
	Gobreaker bool
	// Flags declares the experiment's flags; nil: it has none.
	Flags func(*pflag.FlagSet)
	// Run makes the experiment. It returns the report even where checks in it
	// have failed; the error says why there is none.
	Run func(context.Context, *Params) (*report.Report, error)
	// Setup, if not nil, may change the experiment's command, once it is
	// finished.
	Setup func(*cobra.Command)
}

// Experiments returns all experiments, in the order of the report. They are new
// ones: the values of their flags belong to the caller.
func Experiments() []Experiment {
	return []Experiment{
		timeline(),
		halfopen(),
		recovery(),
		windows(),
		replicas(),
		backoff(),
		retryExperiment(),
		slow(),
		probes(),
		step(),
		runScenario(),
	}
}

// mostCalls is how many calls one run makes at most: beyond that it takes minutes.
const mostCalls = 1_000_000

// DefaultSeed is the seed where none is given.
const DefaultSeed = 1

// Params is what an experiment's run is given besides its own flags.
type Params struct {
	Seed uint64
	Args []string // of the command, if its Setup lets it have some

	experiment Experiment
	flags      *pflag.FlagSet
	progress   *progress
}

// newParams returns the parameters of a run without any command: flags at their
// defaults. Progress is written to w; nil: nowhere.
func newParams(e Experiment, seed uint64, w io.Writer) *Params {
	flags := pflag.NewFlagSet(e.Name, pflag.ContinueOnError)
	flags.SortFlags = false
	if e.Flags != nil {
		e.Flags(flags)
	}
	return &Params{Seed: seed, experiment: e, flags: flags, progress: newProgress(w, e.Name)}
}

// Rand returns a source of random numbers. Sources of one seed with different
// streams have nothing to do with one another, so that what one part of an
// experiment draws changes no other part.
func (p *Params) Rand(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(p.Seed, stream))
}

// Report returns a report with everything above the tables.
func (p *Params) Report() *report.Report {
	r := &report.Report{Name: p.experiment.Name, Title: p.experiment.Title, Seed: p.Seed, Versions: versions(p.experiment.Gobreaker)}
	p.flags.VisitAll(func(f *pflag.Flag) {
		r.Parameters = append(r.Parameters, report.Named{Name: f.Name, Value: f.Value.String()})
	})
	return r
}

// Parts makes a report of parts, one after another.
func (p *Params) Parts(parts ...func(*report.Report) error) (*report.Report, error) {
	r := p.Report()
	for i, part := range parts {
		p.Progress(i, len(parts))
		if err := part(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Progress says that so many of so many parts are done. It is for the
// experiment's own goroutine.
func (p *Params) Progress(done, of int) { p.progress.at(done, of) }

// UsageError is a flag or an argument that is not as it must be.
type UsageError struct{ text string }

// Error implements error.
func (e *UsageError) Error() string { return e.text }

// ExitCode returns what the program ends with.
func (e *UsageError) ExitCode() int { return 2 }

// Bad returns a UsageError about a flag, with its value and the rule.
func (p *Params) Bad(flag string, value any, rule string) error {
	return &UsageError{fmt.Sprintf("lab %s: --%s is %v, must be %s", p.experiment.Name, flag, value, rule)}
}

// Positive returns an error unless the flag's value is above 0.
func (p *Params) Positive(flag string, d time.Duration) error {
	if d > 0 {
		return nil
	}
	return p.Bad(flag, d, "above 0")
}

// Between returns an error unless the flag's value is within the bounds.
func (p *Params) Between(flag string, value, low, high int) error {
	if value >= low && value <= high {
		return nil
	}
	return p.Bad(flag, value, fmt.Sprintf("from %d to %d", low, high))
}

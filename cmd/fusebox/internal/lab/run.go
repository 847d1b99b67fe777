package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/scenario"
)

// runScenario is `lab run`.
func runScenario() Experiment {
	return Experiment{
		Name:  "run",
		Title: "scenarios: what is expected of breakers and policies, and what becomes of it",
		Long: `Plays a scenario: a file, or one of those that ship (lab scenarios lists them).
It prints a timeline, what became of the calls, and whether what the file expects
has come true; if not, the program ends with 1. A file that cannot be read ends it
with 2. Without a name it plays all that ship.

A scenario is a file in YAML. "fusebox lab schema --example" prints one that has
every key, with a comment for each; "fusebox lab scenarios NAME" prints one that
ships, to begin with; "fusebox lab schema" prints the JSON Schema, for editors.

A name that ships wins over a file of that name: write ./NAME for the file.`,
		Run: func(ctx context.Context, p *Params) (*report.Report, error) {
			if len(p.Args) > 0 {
				return runOne(ctx, p, p.Args[0])
			}
			return runShipped(ctx, p)
		},
		Setup: func(c *cobra.Command) {
			c.Use = "run [FILE | NAME]"
			c.Example = `  fusebox lab run hard-outage
  fusebox lab scenarios hard-outage > mine.yaml
  fusebox lab run mine.yaml --html report.html`
			c.Args = func(c *cobra.Command, args []string) error {
				if len(args) == 0 && c.Flags().Changed("plot") {
					return &UsageError{"lab run: --plot draws one scenario: name it"}
				}
				return cobra.MaximumNArgs(1)(c, args)
			}
		},
	}
}

// loadScenario reads a scenario. What is wrong with it is wrong usage.
func loadScenario(name string) (*scenario.Scenario, error) {
	s, err := scenario.Load(name)
	if err == nil {
		return s, nil
	}
	var errs config.Errors
	if errors.As(err, &errs) {
		return nil, &UsageError{fmt.Sprintf("lab: %s is no scenario:\n%v", name, err)}
	}
	return nil, &UsageError{fmt.Sprintf("lab: %v", err)}
}

// expect adds a check for each of the scenario's expectations.
func expect(r *report.Report, name string, verdicts []scenario.Verdict) (met int) {
	for _, v := range verdicts {
		got := 0.0
		if v.OK {
			got = 1
			met++
		}
		r.Checks = append(r.Checks, report.Check{
			Name: fmt.Sprintf("%s: %s, want %s, got %s", name, v.Text, v.Want, v.Got), OK: v.OK,
			Got: got, Want: 1, Distance: 1 - got, // no unit: the name says it all
		})
	}
	return met
}

// runShipped plays all scenarios that ship, and sums them up.
func runShipped(ctx context.Context, p *Params) (*report.Report, error) {
	r := p.Report()
	t := r.Table("scenarios", "The scenarios that ship",
		report.Column{Key: "scenario", Title: "scenario"},
		report.Column{Key: "expectations", Title: "expectations", Kind: report.Count},
		report.Column{Key: "met", Title: "met", Kind: report.Count},
		report.Column{Key: "trips", Title: "trips", Kind: report.Count},
		report.Column{Key: "calls", Title: "calls", Kind: report.Count},
		report.Column{Key: "served", Title: "served", Kind: report.Share, Decimals: 1},
		report.Column{Key: "failed", Title: "failed", Kind: report.Share, Decimals: 1},
		report.Column{Key: "rejected", Title: "rejected", Kind: report.Share, Decimals: 1},
		report.Column{Key: "title", Title: "what happens"},
	)
	names := scenario.Names()
	r.Parameters = append(r.Parameters, report.Named{Name: "scenarios", Value: strings.Join(names, " ")})
	for i, name := range names {
		p.Progress(i, len(names))
		s, err := loadScenario(name)
		if err != nil {
			return nil, err
		}
		result, err := scenario.Run(ctx, s, scenario.Options{Seed: p.Seed})
		if err != nil {
			return nil, err
		}
		all := total(result)
		verdicts := result.Verdicts()
		met := expect(r, name, verdicts)
		t.Add(name, len(verdicts), met, trips(result), all.Calls, all.Share(all.By[scenario.Served]+all.By[scenario.Answered]),
			all.Share(all.By[scenario.Failed]), all.Share(all.Rejected()), s.Title)
	}
	t.Teach(func(t *report.Table) bool {
		rows := t.Select()
		return len(rows) > 0 && !slices.ContainsFunc(rows, func(row report.Row) bool {
			return !(row.Number("met") == row.Number("expectations") && row.Number("met") > 0)
		})
	}, "Each of the %d scenarios does what its file expects.", len(t.Rows))
	storm, outage := t.Row("scenario", "retry-storm"), t.Row("scenario", "hard-outage")
	t.Teach(func(t *report.Table) bool {
		storm, outage := t.Row("scenario", "retry-storm"), t.Row("scenario", "hard-outage")
		return storm.Number("failed") > 10*outage.Number("failed") && outage.Number("rejected") > outage.Number("failed") && outage.Number("failed") > 0
	}, "In a hard outage that takes half the time %s %% of the calls fail and %s %% are rejected; in a storm of retries, half of it without a breaker and a budget, %s %% fail.",
		outage.Text("failed"), outage.Text("rejected"), storm.Text("failed"))
	return r, nil
}

// total counts all calls of a result.
func total(result *scenario.Result) (all scenario.Tally) {
	for i := range result.Scenario.Traffic {
		t := result.Tally(i, 0, result.Scenario.For)
		all.Calls += t.Calls
		for fate, n := range t.By {
			all.By[fate] += n
		}
	}
	return all
}

func trips(result *scenario.Result) (n int) {
	for _, t := range result.Transitions {
		if t.From == fusebox.Closed && t.To == fusebox.Open {
			n++
		}
	}
	return n
}

// runOne plays one scenario, and tells all about it.
func runOne(ctx context.Context, p *Params, name string) (*report.Report, error) {
	s, err := loadScenario(name)
	if err != nil {
		return nil, err
	}
	result, err := playScenario(ctx, p, s, scenario.Options{Seed: p.Seed})
	if err != nil {
		return nil, err
	}
	r := p.Report()
	r.Title = s.Title
	r.Parameters = append(r.Parameters, report.Named{Name: "scenario", Value: name}, report.Named{Name: "for", Value: s.For.String()})
	happenings(r, result)
	trafficTable(r, result)
	dependencyTable(r, result)
	verdicts := result.Verdicts()
	expect(r, name, verdicts)
	expectations(r, verdicts)
	r.Plot(statesOf(result, result.Breakers))
	r.Plot(ratesOf(result))
	return r, nil
}

// playScenario plays a scenario, and says how far it is. Inside it time is
// another, so that it is watched from outside.
func playScenario(ctx context.Context, p *Params, s *scenario.Scenario, o scenario.Options) (result *scenario.Result, err error) {
	o.Elapsed = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err = scenario.Run(ctx, s, o)
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return result, err
		case <-tick.C:
			p.Progress(int(time.Duration(o.Elapsed.Load()).Seconds()), int(s.For.Seconds()))
		}
	}
}

// mostHappenings is how many lines a timeline has at most: more are for --json
// of a smaller scenario.
const mostHappenings = 200

// happening is a line of the timeline.
type happening struct {
	at        time.Duration
	who, what string
}

// happenings is the timeline: what was done to the world, and what the breakers
// did.
func happenings(r *report.Report, result *scenario.Result) {
	lines := result.Scenario.Happenings()
	all := make([]happening, 0, len(lines)+len(result.Transitions))
	for _, h := range lines {
		all = append(all, happening{h.At, h.Who, h.What})
	}
	for _, t := range result.Transitions {
		all = append(all, happening{t.At, "breaker " + t.Breaker, fmt.Sprintf("%v → %v: %s", t.From, t.To, t.Why)})
	}
	slices.SortStableFunc(all, func(a, b happening) int { return cmp.Compare(a.at, b.at) })
	title := "Timeline"
	if len(all) > mostHappenings {
		title = fmt.Sprintf("Timeline: the first %d of %d things that happen", mostHappenings, len(all))
		all = all[:mostHappenings]
	}
	t := r.Table("timeline", title,
		report.Column{Key: "at", Title: "at", Kind: report.Duration, Decimals: 3},
		report.Column{Key: "who", Title: "who"},
		report.Column{Key: "what", Title: "what"},
	)
	for _, h := range all {
		t.Add(h.at, h.who, h.what)
	}
}

func trafficTable(r *report.Report, result *scenario.Result) {
	t := r.Table("traffic", "What became of the calls",
		report.Column{Key: "traffic", Title: "traffic"},
		report.Column{Key: "calls", Title: "calls that ended", Kind: report.Count},
		report.Column{Key: "served", Title: "served", Kind: report.Count},
		report.Column{Key: "answered", Title: "by a fallback", Kind: report.Count},
		report.Column{Key: "failed", Title: "failed", Kind: report.Count},
		report.Column{Key: "rejected", Title: "rejected by a breaker", Kind: report.Count},
		report.Column{Key: "full", Title: "for want of a place", Kind: report.Count},
		report.Column{Key: "under_way", Title: "under way at the end", Kind: report.Count},
		report.Column{Key: "p50", Title: "median of the served", Kind: report.Duration, Unit: time.Millisecond, Decimals: 1},
		report.Column{Key: "p99", Title: "99th percentile", Kind: report.Duration, Unit: time.Millisecond, Decimals: 1},
	)
	for i, traffic := range result.Scenario.Traffic {
		c := result.Tally(i, 0, result.Scenario.For)
		t.Add(traffic.Name, c.Calls, c.By[scenario.Served], c.By[scenario.Answered], c.By[scenario.Failed],
			c.By[scenario.RejectedBreaker], c.By[scenario.RejectedFull], result.CallsUnderWay[i], c.Quantile(0.5), c.Quantile(0.99))
	}
}

func dependencyTable(r *report.Report, result *scenario.Result) {
	t := r.Table("dependencies", "What reached the dependencies",
		report.Column{Key: "dependency", Title: "dependency"},
		report.Column{Key: "calls", Title: "attempts that ended", Kind: report.Count},
		report.Column{Key: "failures", Title: "failed, or given up", Kind: report.Count},
		report.Column{Key: "under_way", Title: "under way at the end", Kind: report.Count},
		report.Column{Key: "in_flight", Title: "most in flight", Kind: report.Count},
	)
	for i, d := range result.Scenario.Dependencies {
		calls, failures := result.Reached(i, 0, result.Scenario.For)
		t.Add(d.Name, calls, failures, result.AttemptsUnderWay[i], result.MostInFlight[i])
	}
}

func expectations(r *report.Report, verdicts []scenario.Verdict) {
	if len(verdicts) == 0 {
		return
	}
	t := r.Table("expectations", "What is expected",
		report.Column{Key: "expectation", Title: "expectation"},
		report.Column{Key: "want", Title: "want"},
		report.Column{Key: "got", Title: "got"},
		report.Column{Key: "met", Title: "met"},
	)
	for _, v := range verdicts {
		met := "yes"
		if !v.OK {
			met = "NO"
		}
		t.Add(v.Text, v.Want, v.Got, met)
	}
}

// mostStates is how many breakers a diagram of states shows.
const mostStates = 7

// statesOf draws the states of the breakers named, the first of them.
func statesOf(result *scenario.Result, breakers []string) report.Plot {
	p := report.Plot{Title: "State over time", X: "time, s", YTicks: []string{"closed", "half-open", "open"}}
	for _, name := range breakers[:min(len(breakers), mostStates)] {
		s := report.Series{Name: name, Style: report.Steps, Points: []report.Point{{}}}
		for _, t := range result.Transitions {
			if t.Breaker == name {
				s.Points = append(s.Points, report.Point{X: t.At.Seconds(), Y: float64(t.To)})
			}
		}
		last := s.Points[len(s.Points)-1]
		s.Points = append(s.Points, report.Point{X: result.Scenario.For.Seconds(), Y: last.Y})
		p.Series = append(p.Series, s)
	}
	return p
}

// ratesOf draws what became of the calls, in sixty parts of the time.
func ratesOf(result *scenario.Result) report.Plot {
	const parts = 60
	p := report.Plot{Title: "What became of the calls, by when they began", X: "time, s", Y: "calls a second"}
	series := []report.Series{{Name: "served"}, {Name: "failed"}, {Name: "rejected"}}
	width := result.Scenario.For / parts
	counts := make([][3]int, parts)
	for _, c := range result.Calls {
		kind := 0
		switch {
		case c.Fate == scenario.Failed:
			kind = 1
		case c.Fate.Rejected():
			kind = 2
		}
		counts[min(int(c.Began/max(width, 1)), parts-1)][kind]++
	}
	for i, n := range counts {
		for kind := range series {
			x := (time.Duration(i) * width).Seconds()
			series[kind].Points = append(series[kind].Points, report.Point{X: x, Y: float64(n[kind]) / width.Seconds()})
			series[kind].Style = report.Steps
		}
	}
	p.Series = series
	return p
}

// schemaCommand is `lab schema`.
func schemaCommand() *cobra.Command {
	var example bool
	c := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of scenario files, or an example of one with every key", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			text := scenario.Schema()
			if example {
				text = scenario.Example()
			}
			_, err := io.WriteString(c.OutOrStdout(), text)
			return err
		},
	}
	c.Flags().BoolVar(&example, "example", false, "an example with every key, and a comment for each, instead")
	return c
}

// scenariosCommand is `lab scenarios`.
func scenariosCommand() *cobra.Command {
	return &cobra.Command{
		Use: "scenarios [NAME]", Short: "List the scenarios that ship, or print the file of one", Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				source, ok := scenario.Source(args[0])
				if !ok {
					return &UsageError{"lab scenarios: there is no " + args[0]}
				}
				_, err := c.OutOrStdout().Write(source)
				return err
			}
			for _, name := range scenario.Names() {
				s, err := loadScenario(name)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(c.OutOrStdout(), "%-15s %s\n", name, s.Title); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

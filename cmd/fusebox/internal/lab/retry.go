package lab

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/scenario"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/theory"
)

// retryOptions are the flags of the experiment.
type retryOptions struct {
	rate        float64
	outage      time.Duration
	latency     time.Duration
	attempts    int
	delay       time.Duration
	open        time.Duration
	consecutive int
	probes      int
	trials      int
	errors      []float64
	length      time.Duration
}

func retryExperiment() Experiment {
	var o retryOptions
	return Experiment{
		Name:  "retry",
		Title: "retries inside and outside a breaker: what reaches a dependency that is down, and what they save",
		Long: `Calls arrive by chance at a dependency that is down for a while: how many attempts
reach it, with retries and without, and with the breaker around all attempts of a
call or around each. Then the dependency is up and some calls fail by chance: how
many are served.`,
		Flags: func(f *pflag.FlagSet) {
			f.Float64Var(&o.rate, "rate", 100, "calls a second")
			f.DurationVar(&o.outage, "outage", 30*time.Second, "length of the outage")
			f.DurationVar(&o.latency, "latency", 20*time.Millisecond, "how long an attempt takes")
			f.IntVar(&o.attempts, "attempts", 3, "attempts a call, the first included")
			f.DurationVar(&o.delay, "delay", 20*time.Millisecond, "wait before the first retry; it doubles, with full jitter")
			f.DurationVar(&o.open, "open", time.Second, "open period")
			f.IntVar(&o.consecutive, "consecutive", 5, "failures in a row that trip")
			f.IntVar(&o.probes, "probes", 3, "probes, and successes that close")
			f.IntVar(&o.trials, "trials", 4, "outages played for each row")
			f.Float64SliceVar(&o.errors, "errors", []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.5}, "fractions of attempts that fail by chance")
			f.DurationVar(&o.length, "for", 15*time.Second, "length of the runs with errors by chance")
		},
		Run: func(ctx context.Context, p *Params) (*report.Report, error) { return o.run(ctx, p) },
	}
}

func (o *retryOptions) validate(p *Params) error {
	for _, e := range []error{
		p.Positive("outage", o.outage),
		p.Positive("latency", o.latency),
		p.Positive("delay", o.delay),
		p.Positive("open", o.open),
		p.Positive("for", o.length),
		p.Between("attempts", o.attempts, 2, 100),
		p.Between("consecutive", o.consecutive, 1, 1_000_000),
		p.Between("probes", o.probes, 1, 1000),
		p.Between("trials", o.trials, 2, 1000),
	} {
		if e != nil {
			return e
		}
	}
	if !(o.rate >= 1 && o.rate <= 10_000) {
		return p.Bad("rate", o.rate, "from 1 to 10000")
	}
	for _, e := range o.errors {
		if !(e > 0 && e < 1) {
			return p.Bad("errors", e, "above 0 and below 1")
		}
	}
	return nil
}

func (o *retryOptions) run(ctx context.Context, p *Params) (*report.Report, error) {
	if err := o.validate(p); err != nil {
		return nil, err
	}
	r := p.Report()
	parts := len(o.ways()) + len(o.errors)
	if err := o.down(ctx, p, r, parts); err != nil {
		return nil, err
	}
	if err := o.flaky(ctx, p, r, parts); err != nil {
		return nil, err
	}
	return r, nil
}

// retryWay is a way of putting retries and a breaker together.
type retryWay struct {
	name    string
	key     string // of a column
	breaker bool
	retry   *scenario.Retry // nil: none
	// formula is about how many attempts reach the dependency in the outage; 0:
	// there is none.
	formula float64
	exact   bool // but for chance
}

const (
	bareName      = "no retry, no breaker"
	breakerName   = "no retry, a breaker"
	retriesName   = "retries, no breaker"
	budgetName    = "retries with a budget of 20 %, no breaker"
	insideName    = "retries inside the breaker"
	outsideName   = "retries outside: a rejection ends the call"
	waitName      = "retries outside: a rejection is waited for"
	unknowingName = "retries outside: a rejection is retried"
)

func (o *retryOptions) ways() []retryWay {
	calls := o.rate * o.outage.Seconds()
	theirs := func(took float64) float64 {
		return theory.Outage{
			Length: o.outage.Seconds(), Open: o.open.Seconds(), Rate: o.rate,
			Consecutive: o.consecutive, Probes: o.probes, Took: took,
		}.Outcomes()
	}
	n, latency := float64(o.attempts), o.latency.Seconds()
	inside := n*latency + o.delay.Seconds()/2*(math.Exp2(n-1)-1)
	settings := config.Retry{Attempts: o.attempts, BaseDelay: o.delay}
	unbounded := func(inside bool, rejections string) *scenario.Retry {
		return &scenario.Retry{Settings: settings, NoBudget: true, Inside: inside, Rejections: rejections}
	}
	return []retryWay{
		{bareName, "bare", false, nil, calls, true},
		{breakerName, "breaker", true, nil, theirs(latency), false},
		{retriesName, "retries", false, unbounded(false, "stop"), n * calls, true},
		{budgetName, "budget", false, &scenario.Retry{Settings: settings}, 0, false},
		{insideName, "inside", true, unbounded(true, "stop"), n * theirs(inside), false},
		{outsideName, "outside", true, unbounded(false, "stop"), theirs(latency), false},
		{waitName, "wait", true, unbounded(false, "wait"), 0, false},
		{unknowingName, "again", true, unbounded(false, "again"), 0, false},
	}
}

// world returns the scenario of a way.
func (o *retryOptions) world(w retryWay, d scenario.Dependency, length time.Duration) *scenario.Scenario {
	t := scenario.Traffic{Name: "calls", To: []string{d.Name}, Rate: config.Rate(o.rate), Retry: w.retry}
	s := &scenario.Scenario{For: length, Dependencies: []scenario.Dependency{d}}
	if w.breaker {
		t.Breaker = "breaker"
		s.Breakers = []scenario.Breaker{{Name: t.Breaker, Settings: config.Breaker{
			FailureRate: -1, Consecutive: o.consecutive, Probes: o.probes,
			OpenFor: o.open, OpenForMax: o.open, OpenJitter: -1,
		}}}
	}
	if w.retry != nil && w.retry.Rejections == "wait" {
		t.Deadline = 2*o.open + time.Second
	}
	s.Traffic = []scenario.Traffic{t}
	return s
}

// lead is how long all is well before an outage, and after it.
const lead = time.Second

// down plays the outage.
func (o *retryOptions) down(ctx context.Context, p *Params, r *report.Report, parts int) error {
	t := r.Table("outage", fmt.Sprintf("An outage of %v at %g calls a second: attempts that reach the dependency meanwhile", o.outage, o.rate),
		report.Column{Key: "way", Title: "way"},
		report.Column{Key: "reached", Title: "attempts, mean", Kind: report.Number},
		report.Column{Key: "deviation", Title: "standard deviation", Kind: report.Number, Decimals: 1},
		report.Column{Key: "formula", Title: "formula", Kind: report.Number},
		report.Column{Key: "per_call", Title: "attempts a call", Kind: report.Number, Decimals: 2},
	)
	d := scenario.Dependency{
		Name: "dependency", Behaviour: scenario.Behaviour{Latency: o.latency},
		Changes: []scenario.Change{{At: lead, For: o.outage, To: scenario.Behaviour{Failures: share(1)}}},
	}
	for i, w := range o.ways() {
		p.Progress(i, parts)
		var reached spread
		calls := 0
		for trial := range o.trials {
			result, err := scenario.Run(ctx, o.world(w, d, o.outage+2*lead), scenario.Options{Seed: p.Rand(uint64(trial)).Uint64()})
			if err != nil {
				return err
			}
			n, _ := result.Reached(0, lead, lead+o.outage)
			reached.add(float64(n))
			tally := result.Tally(0, lead, lead+o.outage)
			calls += tally.Calls
		}
		var formula any
		if w.formula > 0 {
			formula = w.formula
		}
		t.Add(w.name, reached.mean(), reached.deviation(), formula, reached.sum/float64(max(calls, 1)))
		switch {
		case w.exact:
			// The number of calls is Poisson's.
			each := w.formula / (o.rate * o.outage.Seconds())
			r.Statistical(w.name+": attempts", reached.mean(), w.formula, each*math.Sqrt(o.rate*o.outage.Seconds()/float64(o.trials)), each/float64(o.trials))
		case w.formula > 0:
			r.Near(w.name+": attempts", reached.mean(), w.formula, 0.15*w.formula, "attempts")
		}
	}
	row := func(t *report.Table, name string) report.Row { return t.Row("way", name) }
	t.Teach(func(t *report.Table) bool {
		bare, retries, breaker, outside := row(t, bareName), row(t, retriesName), row(t, breakerName), row(t, outsideName)
		return retries.Number("reached") > 0.8*float64(o.attempts)*bare.Number("reached") &&
			breaker.Number("reached") < bare.Number("reached")/5 &&
			math.Abs(outside.Number("reached")-breaker.Number("reached")) < 0.2*breaker.Number("reached")
	}, "Retries multiply what a dependency that is down must bear: %s attempts instead of %s. A breaker leaves %s, and as few (%s) with retries outside it, since a rejection ends the call.",
		row(t, retriesName).Text("reached"), row(t, bareName).Text("reached"), row(t, breakerName).Text("reached"), row(t, outsideName).Text("reached"))
	t.Teach(func(t *report.Table) bool {
		return row(t, insideName).Number("reached") > 2*row(t, outsideName).Number("reached")
	}, "Inside the breaker every probe is a call with all its attempts: %s.", row(t, insideName).Text("reached"))
	return nil
}

// flaky plays a dependency of which some attempts fail by chance.
func (o *retryOptions) flaky(ctx context.Context, p *Params, r *report.Report, parts int) error {
	columns := []report.Column{{Key: "q", Title: "attempts that fail", Kind: report.Share}}
	keys := []string{"bare", "retries", "breaker", "inside", "outside"}
	ways := make([]retryWay, len(keys))
	for i, key := range keys {
		all := o.ways()
		ways[i] = all[slices.IndexFunc(all, func(w retryWay) bool { return w.key == key })]
		columns = append(columns, report.Column{Key: key, Title: ways[i].name, Kind: report.Share, Decimals: 1})
		if ways[i].exact {
			columns = append(columns, report.Column{Key: key + "_formula", Title: "formula", Kind: report.Share, Decimals: 1})
		}
	}
	columns[len(columns)-1].Title = "retries outside the breaker"
	t := r.Table("errors", fmt.Sprintf("Attempts fail by chance, for %v: calls that are served", o.length), columns...)
	plot := report.Plot{Title: "Calls served while attempts fail by chance", X: "attempts that fail, %", Y: "calls served, %"}
	lines := make([]report.Series, len(ways))
	for i, failing := range o.errors {
		p.Progress(len(o.ways())+i, parts)
		cells := []any{failing}
		for k, w := range ways {
			d := scenario.Dependency{Name: "dependency", Behaviour: scenario.Behaviour{Latency: o.latency, Failures: share(failing)}}
			result, err := scenario.Run(ctx, o.world(w, d, o.length), scenario.Options{Seed: p.Rand(1<<32 + uint64(i)).Uint64()})
			if err != nil {
				return err
			}
			tally := result.Tally(0, 0, o.length)
			got := tally.Share(tally.By[scenario.Served])
			cells = append(cells, got)
			lines[k].Name = w.name
			lines[k].Points = append(lines[k].Points, report.Point{X: 100 * failing, Y: 100 * got})
			if w.exact {
				attempts := 1
				if w.retry != nil {
					attempts = o.attempts
				}
				want := theory.Attempts(failing, attempts)
				n := float64(max(tally.Calls, 1))
				r.Statistical(fmt.Sprintf("%s, %g %% of attempts fail: served", w.name, 100*failing), got, want, math.Sqrt(want*(1-want)/n), 1/n)
				cells = append(cells, want)
			}
		}
		t.Add(cells...)
	}
	plot.Series = lines
	r.Plot(plot)
	first, last := func(t *report.Table) report.Row { return t.Row("q", o.errors[0]) }, func(t *report.Table) report.Row { return t.Row("q", o.errors[len(o.errors)-1]) }
	t.Teach(func(t *report.Table) bool {
		return first(t).Number("outside") > first(t).Number("bare")+1 && first(t).Number("inside") > first(t).Number("bare")+1
	}, "With few errors by chance retries save what fails, on either side of the breaker: of %s %% of attempts that fail, %s %% of calls are served instead of %s %%.",
		first(t).Text("q"), first(t).Text("outside"), first(t).Text("bare"))
	t.Teach(func(t *report.Table) bool {
		return last(t).Number("inside") > 1.5*last(t).Number("outside") && last(t).Number("outside") < last(t).Number("bare")
	}, "With %s %% a breaker that sees every attempt trips on runs of %d (%s %% served); one around all attempts sees a call, which fails more rarely (%s %% served).",
		last(t).Text("q"), o.consecutive, last(t).Text("outside"), last(t).Text("inside"))
	return nil
}

// share is a share of a scenario.
func share(f float64) *config.Share {
	s := config.Share(f)
	return &s
}

// spread is the mean of numbers, and how far they lie from it.
type spread struct{ n, sum, squares float64 }

func (s *spread) add(x float64) { s.n, s.sum, s.squares = s.n+1, s.sum+x, s.squares+x*x }

func (s *spread) mean() float64 { return s.sum / s.n }

// deviation is the standard deviation, as estimated from the numbers.
func (s *spread) deviation() float64 {
	return math.Sqrt(max(0, (s.squares-s.sum*s.sum/s.n)/(s.n-1)))
}

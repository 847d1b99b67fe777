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
	errors      shares
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
			o.errors = shares{0.05, 0.1, 0.2, 0.3, 0.4, 0.5}
			f.Var(&o.errors, "errors", "shares of attempts that fail by chance")
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
	if longest := fromSeconds(o.call().Longest()); o.outage < longest {
		return p.Bad("outage", o.outage, fmt.Sprintf("at least what a call can take with all its attempts, %v", longest))
	}
	return nil
}

// call is a call of which every attempt fails.
func (o *retryOptions) call() theory.Retries {
	return theory.Retries{
		Attempts: o.attempts, Took: o.latency.Seconds(),
		Wait: o.delay.Seconds(), MaxWait: o.longestDelay().Seconds(),
	}
}

// longestDelay is that before a retry, up to which it doubles.
func (o *retryOptions) longestDelay() time.Duration { return max(10*time.Second, o.delay) }

func fromSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

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
	// reaches is where the mean lies of the attempts that reach the dependency in
	// the outage, and formula about where; zero: that is not known.
	reaches theory.Range
	formula float64
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
	settings := config.Retry{Attempts: o.attempts, BaseDelay: o.delay, MaxDelay: o.longestDelay()}
	unbounded := func(inside bool, rejections string) *scenario.Retry {
		return &scenario.Retry{Settings: settings, NoBudget: true, Inside: inside, Rejections: rejections}
	}
	ways := []retryWay{
		{name: bareName, key: "bare"},
		{name: breakerName, key: "breaker", breaker: true},
		{name: retriesName, key: "retries", retry: unbounded(false, "stop")},
		{name: budgetName, key: "budget", retry: &scenario.Retry{Settings: settings}},
		{name: insideName, key: "inside", breaker: true, retry: unbounded(true, "stop")},
		{name: outsideName, key: "outside", breaker: true, retry: unbounded(false, "stop")},
		{name: waitName, key: "wait", breaker: true, retry: unbounded(false, "wait")},
		{name: unknowingName, key: "again", breaker: true, retry: unbounded(false, "again")},
	}
	for i := range ways {
		ways[i].reaches, ways[i].formula = o.reaches(ways[i].key)
	}
	return ways
}

// reaches returns where the mean lies of the attempts that reach the dependency
// in the outage, and about what it is.
func (o *retryOptions) reaches(key string) (where theory.Range, about float64) {
	call, n := o.call(), float64(o.attempts)
	outage := func(shortest, longest float64) theory.Outage {
		return theory.Outage{
			Length: o.outage.Seconds(), Open: o.open.Seconds(), Rate: o.rate,
			Consecutive: o.consecutive, Probes: o.probes, Shortest: shortest, Longest: longest,
		}
	}
	middle := func(r theory.Range) float64 { return (r.Low + r.High) / 2 }
	calls := o.rate * o.outage.Seconds()
	switch key {
	case "bare":
		return theory.Range{Low: calls, High: calls, Variance: calls}, calls
	case "retries":
		mean := call.InOutage(o.outage.Seconds(), o.rate)
		return theory.Range{Low: mean, High: mean, Variance: n * n * calls}, mean
	case "breaker":
		where = outage(call.Took, call.Took).Admitted()
		return where, middle(where)
	case "outside":
		if call.LongestWait()+call.Took > o.open.Seconds() {
			return where, 0 // retries of calls from before the trip come as probes
		}
		one := outage(call.Took, call.Took)
		one.Retried = o.attempts
		return one.Admitted(), middle(outage(call.Took, call.Took).Admitted())
	case "inside":
		// A call that begins near the end of the outage does not make all its
		// attempts in it.
		all := outage(call.Shortest(), call.Longest())
		where = all.Admitted()
		all.Length -= call.Longest()
		where.Low = all.Admitted().Low
		return theory.Range{Low: n * where.Low, High: n * where.High, Variance: n * n * where.Variance},
			n * middle(outage(call.Mean(), call.Mean()).Admitted())
	}
	return where, 0
}

// world returns the scenario of a way: calls come for so long, and all of them end.
func (o *retryOptions) world(w retryWay, d scenario.Dependency, length time.Duration) *scenario.Scenario {
	longest := fromSeconds(o.call().Longest())
	t := scenario.Traffic{Name: "calls", To: []string{d.Name}, Rate: config.Rate(o.rate), Retry: w.retry, For: length}
	s := &scenario.Scenario{For: length + longest + time.Second, Dependencies: []scenario.Dependency{d}}
	if w.breaker {
		t.Breaker = "breaker"
		s.Breakers = []scenario.Breaker{{Name: t.Breaker, Settings: config.Breaker{
			FailureRate: -1, Consecutive: o.consecutive, Probes: o.probes,
			OpenFor: o.open, OpenForMax: o.open, OpenJitter: -1,
			ProbeTimeout: max(30*time.Second, 2*longest), // a probe with all its attempts is none that hangs
		}}}
	}
	if w.retry != nil && w.retry.Rejections == "wait" {
		t.Deadline = 2*o.open + time.Second
		s.For += t.Deadline
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
		if w.formula > 0 {
			got, trials := reached.mean(), float64(o.trials)
			r.Statistical(w.name+": attempts", got, min(max(got, w.reaches.Low), w.reaches.High),
				math.Sqrt(w.reaches.Variance/trials), float64(o.attempts)/trials)
		}
	}
	row := func(t *report.Table, name string) report.Row { return t.Row("way", name) }
	t.Teach(func(t *report.Table) bool {
		bare, retries, breaker := row(t, bareName), row(t, retriesName), row(t, breakerName)
		return retries.Number("reached") > 0.8*float64(o.attempts)*bare.Number("reached") && breaker.Number("reached") < bare.Number("reached")/5
	}, "Retries multiply what a dependency that is down must bear: %s attempts instead of %s. A breaker leaves %s.",
		row(t, retriesName).Text("reached"), row(t, bareName).Text("reached"), row(t, breakerName).Text("reached"))
	t.Teach(func(t *report.Table) bool {
		breaker := row(t, breakerName).Number("reached")
		for _, name := range []string{outsideName, waitName, unknowingName} {
			if got := row(t, name).Number("reached"); !(got > 0.8*breaker && got < 1.4*breaker) {
				return false
			}
		}
		return true
	}, "It leaves about as few with retries outside it, whatever becomes of a rejection: %s attempts where it ends the call, %s where it is waited for, %s where it is retried.",
		row(t, outsideName).Text("reached"), row(t, waitName).Text("reached"), row(t, unknowingName).Text("reached"))
	t.Teach(func(t *report.Table) bool {
		return row(t, insideName).Number("reached") > 0.8*float64(o.attempts)*row(t, breakerName).Number("reached")
	}, "Inside the breaker every probe is a call with all its attempts: %s.", row(t, insideName).Text("reached"))
	return nil
}

// flaky plays a dependency of which some attempts fail by chance.
func (o *retryOptions) flaky(ctx context.Context, p *Params, r *report.Report, parts int) error {
	columns := []report.Column{{Key: "q", Title: "attempts that fail", Kind: report.Share}}
	keys := []string{"bare", "retries", "breaker", "inside", "outside", "again"}
	ways := make([]retryWay, len(keys))
	for i, key := range keys {
		all := o.ways()
		ways[i] = all[slices.IndexFunc(all, func(w retryWay) bool { return w.key == key })]
		columns = append(columns, report.Column{Key: key, Title: ways[i].name, Kind: report.Share, Decimals: 1})
		if !ways[i].breaker {
			columns = append(columns, report.Column{Key: key + "_formula", Title: ways[i].name + ": formula", Kind: report.Share, Decimals: 1})
		}
	}
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
			if !w.breaker {
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
	dear := slices.IndexFunc(t.Select(), costs)
	if dear >= 0 {
		row := t.Select()[dear]
		t.Teach(func(t *report.Table) bool {
			for i, row := range t.Select() {
				if costs(row) != (i >= dear) {
					return false
				}
			}
			return true
		}, "From %s %% on a breaker that sees every attempt costs calls: with the retry outside it %s %% are served, without a breaker %s %%.",
			row.Text("q"), row.Text("outside"), row.Text("retries"))
	}
	t.Teach(func(t *report.Table) bool {
		return last(t).Number("inside") > 1.5*last(t).Number("outside") && last(t).Number("outside") < last(t).Number("bare")
	}, "With %s %% a breaker that sees every attempt trips on runs of %d (%s %% served); one around all attempts sees a call, which fails more rarely (%s %% served).",
		last(t).Text("q"), o.consecutive, last(t).Text("outside"), last(t).Text("inside"))
	return nil
}

// costs reports whether a breaker with retries outside it serves fewer calls than
// retries without a breaker, by more than a point.
func costs(row report.Row) bool { return row.Number("outside") < row.Number("retries")-1 }

// share is a share of a scenario.
func share(f float64) *config.Share {
	s := config.Share(f)
	return &s
}

// spread is the mean of numbers, and how far they lie from it.
type spread struct{ n, sum, squares float64 }

func (s *spread) add(x float64) { s.n, s.sum, s.squares = s.n+1, s.sum+x, s.squares+float64(x*x) }

func (s *spread) mean() float64 { return s.sum / s.n }

// deviation is the standard deviation, as estimated from the numbers.
func (s *spread) deviation() float64 {
	return math.Sqrt(max(0, (s.squares-float64(s.sum*s.sum)/s.n)/(s.n-1)))
}

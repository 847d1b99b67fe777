package lab

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/scenario"
)

// slowOptions are the flags of the experiment.
type slowOptions struct {
	slots, bulkhead    int
	wait               time.Duration
	rate               float64
	latency, slow      time.Duration
	lead, slowFor      time.Duration
	slowAfter, timeout time.Duration
	http               bool
}

func slow() Experiment {
	var o slowOptions
	return Experiment{
		Name:  "slow",
		Title: "a dependency that becomes slow takes a server's handlers from another that is well",
		Long: `A server with a bounded number of handlers calls two dependencies, half of the
requests each. One of them becomes a hundred times slower for a while; nothing
fails. How many of the requests that need the other one are still served, with what
around the calls to the slow one? With --http it is a server, and two more behind
it, on loopback, in real time; what is not set otherwise is then shorter. Its goroutines
and its heap are those of the whole process, which is also the callers and the
dependencies; no guard inherits garbage of the one before.`,
		Flags: func(f *pflag.FlagSet) {
			f.IntVar(&o.slots, "slots", 100, "handlers of the server")
			f.DurationVar(&o.wait, "wait", time.Second, "how long a request waits for a handler")
			f.Float64Var(&o.rate, "rate", 100, "requests a second for each dependency")
			f.DurationVar(&o.latency, "latency", 50*time.Millisecond, "how long a call takes")
			f.DurationVar(&o.slow, "slow", 5*time.Second, "how long it takes when it is slow")
			f.DurationVar(&o.lead, "lead", 10*time.Second, "how long all is well, before and after")
			f.DurationVar(&o.slowFor, "slow-for", 30*time.Second, "how long the one is slow")
			f.DurationVar(&o.slowAfter, "slow-after", time.Second, "from here on the breaker takes a call as slow")
			f.DurationVar(&o.timeout, "timeout", time.Second, "of a call")
			f.IntVar(&o.bulkhead, "bulkhead", 25, "calls in flight to the slow one")
			f.BoolVar(&o.http, "http", false, "real requests in real time")
		},
		Run: func(ctx context.Context, p *Params) (*report.Report, error) { return o.run(ctx, p) },
	}
}

// shorter are the flags of a run in real time, where they are not set.
func (o *slowOptions) shorter(p *Params) error {
	for _, f := range [][2]string{{"lead", "500ms"}, {"slow-for", "3s"}, {"slow", "2500ms"}, {"slow-after", "500ms"}, {"timeout", "500ms"}, {"wait", "250ms"}} {
		if p.flags.Changed(f[0]) {
			continue
		}
		if err := p.flags.Set(f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

func (o *slowOptions) validate(p *Params) error {
	for _, e := range []error{
		p.Between("slots", o.slots, 1, 10_000),
		p.Between("bulkhead", o.bulkhead, 1, 10_000),
		p.Positive("wait", o.wait),
		p.Positive("latency", o.latency),
		p.Positive("slow", o.slow),
		p.Positive("lead", o.lead),
		p.Positive("slow-for", o.slowFor),
		p.Positive("slow-after", o.slowAfter),
		p.Positive("timeout", o.timeout),
	} {
		if e != nil {
			return e
		}
	}
	if !(o.rate >= 1 && o.rate <= 10_000) {
		return p.Bad("rate", o.rate, "from 1 to 10000")
	}
	return nil
}

// slowGuard is what stands around the calls to the dependency that becomes slow.
type slowGuard struct {
	name     string
	breaker  bool
	slow     bool // the breaker has a rule for slow calls
	timeout  bool
	bulkhead bool
}

const (
	nothingName   = "nothing"
	failuresName  = "a breaker for failures only"
	slowRuleName  = "a breaker with a rule for slow calls"
	timeoutName   = "a timeout"
	bulkheadName  = "a bulkhead"
	everythingAll = "all: bulkhead, breaker with the rule, timeout"
)

func slowGuards() []slowGuard {
	return []slowGuard{
		{name: nothingName},
		{name: failuresName, breaker: true},
		{name: slowRuleName, breaker: true, slow: true},
		{name: timeoutName, timeout: true},
		{name: bulkheadName, bulkhead: true},
		{name: everythingAll, breaker: true, slow: true, timeout: true, bulkhead: true},
	}
}

// slowFound is what one guard came to.
type slowFound struct {
	served     float64       // share of the requests for the healthy one, while the other is slow
	p50, p99   time.Duration // of those that are served
	slowServed float64       // share of the requests that need the slow one
	slots      int           // most handlers that were busy
	toSlow     int           // most calls in flight to the slow one
	goroutines int           // most of the process, with --http
	memory     uint64        // most bytes of its heap, likewise
}

func (o *slowOptions) run(ctx context.Context, p *Params) (*report.Report, error) {
	if o.http {
		if err := o.shorter(p); err != nil {
			return nil, err
		}
	}
	if err := o.validate(p); err != nil {
		return nil, err
	}
	r := p.Report()
	play := o.virtual
	if o.http {
		play = o.real
	}
	var found []slowFound
	for i, g := range slowGuards() {
		p.Progress(i, len(slowGuards()))
		f, err := play(ctx, p, g)
		if err != nil {
			return nil, err
		}
		found = append(found, f)
	}
	o.table(r, found)
	return r, nil
}

// world is the server with one guard, as a scenario.
func (o *slowOptions) world(g slowGuard) *scenario.Scenario {
	s := &scenario.Scenario{
		For:   2*o.lead + o.slowFor,
		Slots: &config.Bulkhead{Limit: o.slots, MaxWait: o.wait, MaxWaiting: 10 * o.slots},
		Dependencies: []scenario.Dependency{
			{Name: "healthy", Behaviour: scenario.Behaviour{Latency: o.latency}},
			{Name: "slow", Behaviour: scenario.Behaviour{Latency: o.latency}, Changes: []scenario.Change{
				{At: o.lead, For: o.slowFor, To: scenario.Behaviour{Latency: o.slow}},
			}},
		},
	}
	other := scenario.Traffic{Name: "slow", To: []string{"slow"}, Rate: config.Rate(o.rate)}
	if g.breaker {
		b := scenario.Breaker{Name: "breaker"}
		if g.slow {
			b.Settings.SlowAfter = o.slowAfter
		}
		s.Breakers, other.Breaker = []scenario.Breaker{b}, b.Name
	}
	if g.timeout {
		other.Timeout = o.timeout
	}
	if g.bulkhead {
		other.Bulkhead = &config.Bulkhead{Limit: o.bulkhead}
	}
	s.Traffic = []scenario.Traffic{{Name: "healthy", To: []string{"healthy"}, Rate: config.Rate(o.rate)}, other}
	return s
}

func (o *slowOptions) virtual(ctx context.Context, p *Params, g slowGuard) (slowFound, error) {
	result, err := scenario.Run(ctx, o.world(g), scenario.Options{Seed: p.Rand(0).Uint64()}) // the same for all
	if err != nil {
		return slowFound{}, err
	}
	healthy := result.Tally(0, o.lead, o.lead+o.slowFor)
	other := result.Tally(1, o.lead, o.lead+o.slowFor)
	return slowFound{
		served: healthy.Share(healthy.By[scenario.Served]), p50: healthy.Quantile(0.5), p99: healthy.Quantile(0.99),
		slowServed: other.Share(other.By[scenario.Served]),
		slots:      result.MostSlots, toSlow: result.MostInFlight[1],
	}, nil
}

// asMany is within how many points two shares are said to be as many.
const asMany = 5

func (o *slowOptions) table(r *report.Report, found []slowFound) {
	columns := []report.Column{
		{Key: "guard", Title: "around the calls to the slow one"},
		{Key: "served", Title: "healthy served", Kind: report.Share, Decimals: 1},
		{Key: "p50", Title: "median", Kind: report.Duration, Unit: time.Millisecond},
		{Key: "p99", Title: "99th percentile", Kind: report.Duration, Unit: time.Millisecond},
		{Key: "slow_served", Title: "slow ones served", Kind: report.Share, Decimals: 1},
		{Key: "slots", Title: "most handlers busy", Kind: report.Count},
		{Key: "to_slow", Title: "most calls to the slow one", Kind: report.Count},
	}
	if o.http {
		columns = append(columns,
			report.Column{Key: "goroutines", Title: "most goroutines, callers and servers too", Kind: report.Count},
			report.Column{Key: "memory", Title: "most heap, likewise, MB", Kind: report.Number, Decimals: 1},
		)
	}
	t := r.Table("guards", fmt.Sprintf("Requests while one dependency takes %v instead of %v", o.slow, o.latency), columns...)
	plot := report.Plot{Title: "Requests served, by what is around the calls to the slow one", X: "served, %"}
	healthy, slow := report.Series{Name: "healthy", Style: report.Dots}, report.Series{Name: "slow", Style: report.Dots}
	for i, g := range slowGuards() {
		f := found[i]
		plot.YTicks = append(plot.YTicks, g.name)
		healthy.Points = append(healthy.Points, report.Point{X: 100 * f.served, Y: float64(i)})
		slow.Points = append(slow.Points, report.Point{X: 100 * f.slowServed, Y: float64(i)})
		cells := []any{g.name, f.served, f.p50, f.p99, f.slowServed, f.slots, f.toSlow}
		if o.http {
			cells = append(cells, f.goroutines, float64(f.memory)/1e6)
		}
		t.Add(cells...)
		r.Near(g.name+": handlers beyond the limit", float64(max(f.slots-o.slots, 0)), 0, 0, "handlers")
		if g.bulkhead {
			r.Near(g.name+": calls to the slow one beyond the bulkhead", float64(max(f.toSlow-o.bulkhead, 0)), 0, 0, "calls")
		}
	}
	plot.Series = []report.Series{healthy, slow}
	r.Plot(plot)
	row := func(t *report.Table, name string) report.Row { return t.Row("guard", name) }
	t.Teach(func(t *report.Table) bool {
		nothing, failures := row(t, nothingName), row(t, failuresName)
		return nothing.Number("served") < row(t, bulkheadName).Number("served")-10 && nothing.Number("slots") == float64(o.slots) &&
			math.Abs(failures.Number("served")-nothing.Number("served")) < asMany
	}, "With nothing around the calls, the slow ones take all %s handlers and %s %% of the requests for the healthy dependency are served; with a breaker that looks at failures only, and sees none, as many within %d points (%s %%).",
		row(t, nothingName).Text("slots"), row(t, nothingName).Text("served"), asMany, row(t, failuresName).Text("served"))
	t.Teach(func(t *report.Table) bool {
		all, bulkhead := row(t, everythingAll), row(t, bulkheadName)
		return bulkhead.Number("served") > 99 && all.Number("served") > 99 && all.Number("p99") < 1.5*float64(o.latency/time.Millisecond) &&
			row(t, slowRuleName).Number("served") > row(t, nothingName).Number("served") && row(t, slowRuleName).Number("served") < all.Number("served")
	}, "A bulkhead bounds the damage from the first moment (%s %%); the rule for slow calls sees a call only when it ends, and loses what comes before (%s %%); together with a timeout they serve %s %%.",
		row(t, bulkheadName).Text("served"), row(t, slowRuleName).Text("served"), row(t, everythingAll).Text("served"))
}

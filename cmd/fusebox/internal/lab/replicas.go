package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/sim"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/theory"
)

// replicasOptions are the flags of the experiment.
type replicasOptions struct {
	processes     []int
	rate          float64
	latency       time.Duration
	outage        time.Duration
	open, openMax time.Duration
	jitter        float64
	probes        int
	consecutive   int
}

func replicas() Experiment {
	var o replicasOptions
	return Experiment{
		Name:      "replicas",
		Title:     "what the breakers of many processes do together to one dependency that is down",
		Gobreaker: true,
		Long: `Each process has a breaker of its own and calls the same dependency, at random
instants. Beside them stands an ideal: all processes share one breaker, and so
one allowance of probes, at no cost.`,
		Flags: func(f *pflag.FlagSet) {
			byDefault, _ := defaultGrowth()
			f.IntSliceVar(&o.processes, "processes", []int{1, 5, 20, 100}, "numbers of processes")
			f.Float64Var(&o.rate, "rate", 40, "calls a second of each process, on average")
			f.DurationVar(&o.latency, "latency", 150*time.Millisecond, "how long a call takes")
			f.DurationVar(&o.outage, "outage", time.Minute, "how long the dependency is down")
			f.DurationVar(&o.open, "open", time.Second, "open period")
			f.DurationVar(&o.openMax, "open-max", byDefault.to, "open period up to which it grows, where it does")
			f.Float64Var(&o.jitter, "jitter", 0.2, "jitter of the open period, where there is one")
			f.IntVar(&o.probes, "probes", 2, "probes, and successes that close")
			f.IntVar(&o.consecutive, "consecutive", 5, "failures in a row that trip")
		},
		Run: func(ctx context.Context, p *Params) (*report.Report, error) { return o.run(ctx, p) },
	}
}

func (o *replicasOptions) validate(p *Params) error {
	for _, e := range []error{
		p.Positive("latency", o.latency),
		p.Positive("outage", o.outage),
		p.Positive("open", o.open),
		p.Between("probes", o.probes, 1, 1000),
		p.Between("consecutive", o.consecutive, 1, 1_000_000),
	} {
		if e != nil {
			return e
		}
	}
	if o.openMax < o.open {
		return p.Bad("open-max", o.openMax, fmt.Sprintf("at least --open, %v", o.open))
	}
	if !(o.jitter > 0 && o.jitter < 1) {
		return p.Bad("jitter", o.jitter, "above 0 and below 1")
	}
	if !(o.rate > 0 && o.rate <= 10_000) {
		return p.Bad("rate", o.rate, "above 0 and at most 10 000")
	}
	for _, n := range o.processes {
		if err := p.Between("processes", n, 1, 10_000); err != nil {
			return err
		}
	}
	return nil
}

// arrangement is how the breakers of the processes are set, and who has one.
type arrangement struct {
	name    string
	shared  bool
	periods []float64 // open periods, in seconds, for the formula
	make    func(l *sim.Loop, rng *rand.Rand, on sim.Change) sim.Breaker
}

const (
	steadyName = "one each, no jitter"
	jitterName = "one each, jitter"
	growsName  = "one each, jitter, growing"
	rivalName  = "one each, gobreaker"
	sharedName = "one for all"
)

func (o *replicasOptions) arrangements() []arrangement {
	ours := func(change func(*fusebox.Config)) func(*sim.Loop, *rand.Rand, sim.Change) sim.Breaker {
		return func(l *sim.Loop, rng *rand.Rand, on sim.Change) sim.Breaker {
			c := sim.Constant(fusebox.Config{FailureRate: -1, Consecutive: o.consecutive, Probes: o.probes, OpenFor: o.open, Rand: rng.Float64})
			change(&c)
			return sim.Fusebox(l, c, on)
		}
	}
	constant := []float64{o.open.Seconds()}
	growing := []float64{}
	for d := o.open; d < o.openMax; d *= 2 {
		growing = append(growing, d.Seconds())
	}
	growing = append(growing, o.openMax.Seconds())
	rival := gobreaker.Settings{MaxRequests: uint32(o.probes), Timeout: o.open, ReadyToTrip: sim.ConsecutiveRule(o.consecutive)}
	return []arrangement{
		{steadyName, false, constant, ours(func(*fusebox.Config) {})},
		{rivalName, false, constant, func(_ *sim.Loop, _ *rand.Rand, on sim.Change) sim.Breaker { return sim.Gobreaker(rival, on) }},
		{jitterName, false, constant, ours(func(c *fusebox.Config) { c.OpenJitter = o.jitter })},
		{growsName, false, growing, ours(func(c *fusebox.Config) { c.OpenJitter, c.OpenForMax = o.jitter, o.openMax })},
		{sharedName, true, constant, ours(func(*fusebox.Config) {})},
	}
}

// formula is how many probes fail in all, and in one half-open period of each
// breaker.
func (o *replicasOptions) formula(a arrangement, processes int) (all, period float64) {
	breakers, rate := float64(processes), o.rate
	if a.shared {
		breakers, rate = 1, o.rate*float64(processes)
	}
	latency := o.latency.Seconds()
	left := max(0, o.outage.Seconds()-float64(o.consecutive)/rate-latency) // after the trip
	period = breakers * theory.ProbesPerPeriod(o.probes, rate*latency)
	return theory.Cycles(left, a.periods, 1/rate+latency) * period, period
}

func (o *replicasOptions) run(ctx context.Context, p *Params) (*report.Report, error) {
	if err := o.validate(p); err != nil {
		return nil, err
	}
	r := p.Report()
	t := r.Table("probes", fmt.Sprintf("Probes that fail in an outage of %v", o.outage),
		report.Column{Key: "breakers", Title: "breakers"},
		report.Column{Key: "processes", Title: "processes", Kind: report.Count},
		report.Column{Key: "failed", Title: "failed probes", Kind: report.Count},
		report.Column{Key: "formula", Title: "formula", Kind: report.Number},
		report.Column{Key: "each", Title: "for each process", Kind: report.Number, Decimals: 1},
		report.Column{Key: "worst", Title: "in the worst 100 ms", Kind: report.Count},
		report.Column{Key: "closed", Title: "last closed after", Kind: report.Duration, Decimals: 2},
	)
	plot := report.Plot{Title: "Probes in the worst 100 ms", X: "processes", Y: "probes", LogX: true, LogY: true}
	arrangements := o.arrangements()
	for i, a := range arrangements {
		line := report.Series{Name: a.name}
		for j, n := range o.processes {
			p.Progress(i*len(o.processes)+j, len(arrangements)*len(o.processes))
			f, err := o.simulate(ctx, p, a, n)
			if err != nil {
				return nil, err
			}
			formula, period := o.formula(a, n)
			t.Add(a.name, n, len(f.probes), formula, float64(len(f.probes))/float64(n), f.worst(100*time.Millisecond), f.lag)
			r.Near(fmt.Sprintf("%s, %d processes: failed probes", a.name, n), float64(len(f.probes)), formula, float64(0.05*formula)+period, "probes")
			line.Points = append(line.Points, report.Point{X: float64(n), Y: float64(max(1, f.worst(100*time.Millisecond)))})
		}
		plot.Series = append(plot.Series, line)
	}
	r.Plot(plot)
	o.teach(t)
	return r, nil
}

func (o *replicasOptions) teach(t *report.Table) {
	few, many := o.processes[0], o.processes[len(o.processes)-1]
	row := func(t *report.Table, name string, n int) report.Row {
		return t.Row("breakers", name, "processes", n)
	}
	t.Teach(func(t *report.Table) bool {
		one, all := row(t, steadyName, few), row(t, steadyName, many)
		shared, sharedAll := row(t, sharedName, few), row(t, sharedName, many)
		return all.Number("failed") > 0.8*one.Number("failed")*float64(many)/float64(few) && sharedAll.Number("failed") < 1.2*shared.Number("failed")
	}, "With a breaker each, %s processes send %s probes into the outage; an allowance that all shared would send %s.",
		row(t, steadyName, many).Text("processes"), row(t, steadyName, many).Text("failed"), row(t, sharedName, many).Text("failed"))
	t.Teach(func(t *report.Table) bool {
		return row(t, jitterName, many).Number("worst") < 0.6*row(t, steadyName, many).Number("worst") &&
			row(t, growsName, many).Number("failed") < 0.5*row(t, jitterName, many).Number("failed") &&
			row(t, growsName, many).Number("closed") > row(t, jitterName, many).Number("closed")
	}, "Jitter spreads them: %s in the worst 100 ms instead of %s. An open period that grows sends %s in all, and closes the last breaker %s s after recovery instead of %s s.",
		row(t, jitterName, many).Text("worst"), row(t, steadyName, many).Text("worst"), row(t, growsName, many).Text("failed"),
		row(t, growsName, many).Text("closed"), row(t, jitterName, many).Text("closed"))
}

// fleet is what became of the processes.
type fleet struct {
	probes []time.Duration // when each probe that failed began
	lag    time.Duration   // from recovery to when the last breaker closed
}

// worst returns the most probes that began within a span.
func (f fleet) worst(span time.Duration) (most int) {
	slices.Sort(f.probes)
	first := 0
	for i, at := range f.probes {
		for f.probes[first] <= at-span {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// member is one breaker of a fleet.
type member struct {
	breaker sim.Breaker
	state   fusebox.State
}

func (o *replicasOptions) simulate(ctx context.Context, p *Params, a arrangement, processes int) (f fleet, err error) {
	const health = time.Second // before the outage
	recovered := health + o.outage
	end := recovered + 4*o.openMax + time.Minute
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	open := 0
	sim.Bubble(func(l *sim.Loop) {
		join := func(i int) *member {
			m := &member{}
			m.breaker = a.make(l, p.Rand(uint64(i)+1<<32), func(from, to fusebox.State) {
				m.state = to
				if from == fusebox.Closed {
					open++
				}
				if to == fusebox.Closed {
					open--
				}
				if open == 0 && l.Elapsed() >= recovered {
					f.lag = l.Elapsed() - recovered
					cancel() // the rest is health
				}
			})
			return m
		}
		var one *member
		for i := range processes {
			m := one
			if m == nil {
				m = join(i)
			}
			if a.shared {
				one = m
			}
			rng := p.Rand(uint64(i))
			var call func()
			call = func() {
				o.call(l, m, &f, health, recovered)
				l.After(o.wait(rng), call)
			}
			l.After(o.wait(rng), call)
		}
		err = l.Run(ctx, end)
	})
	if f.lag > 0 {
		return f, nil
	}
	if err == nil && open > 0 {
		err = fmt.Errorf("lab: %s, %d processes: not all breakers are closed %v after recovery", a.name, processes, end-recovered)
	}
	return f, err
}

// wait draws the time to a process's next call.
func (o *replicasOptions) wait(rng *rand.Rand) time.Duration {
	return time.Duration(rng.ExpFloat64() / o.rate * float64(time.Second))
}

func (o *replicasOptions) call(l *sim.Loop, m *member, f *fleet, from, until time.Duration) {
	done, v := m.breaker.Allow()
	if v != sim.Admitted {
		return
	}
	now := l.Elapsed()
	up := now < from || now >= until
	if !up && m.state == fusebox.HalfOpen {
		f.probes = append(f.probes, now)
	}
	l.After(o.latency, func() { done(up) })
}

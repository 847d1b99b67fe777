package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/sim"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/theory"
)

// halfopenOptions are the flags of the experiment.
type halfopenOptions struct {
	workers              int
	pause, latency       time.Duration
	length               time.Duration
	outage, outageLength time.Duration
	open                 time.Duration
	consecutive          int
	probes               []int
	http                 bool
}

func halfopen() Experiment {
	var o halfopenOptions
	return Experiment{
		Name:      "halfopen",
		Title:     "how many calls a half-open breaker lets run into a dependency that is still down",
		Gobreaker: true,
		Long: `Workers call one after another through one breaker. While the first probe is on
its way others may follow, up to the limit: all of them fail if the dependency is
still down. With --http the calls are HTTP requests to a server on loopback, made
by goroutines, in real time.`,
		Flags: func(f *pflag.FlagSet) {
			f.IntVar(&o.workers, "workers", 20, "workers, each with one call at a time")
			f.DurationVar(&o.pause, "pause", 25*time.Millisecond, "a worker's pause between calls")
			f.DurationVar(&o.latency, "latency", 8*time.Millisecond, "how long a call takes")
			f.DurationVar(&o.length, "for", 6*time.Second, "length of the run")
			f.DurationVar(&o.outage, "outage", 1500*time.Millisecond, "when the outage begins")
			f.DurationVar(&o.outageLength, "outage-for", 2500*time.Millisecond, "how long it lasts")
			f.DurationVar(&o.open, "open", time.Second, "open period")
			f.IntVar(&o.consecutive, "consecutive", 5, "failures in a row that trip")
			f.IntSliceVar(&o.probes, "probes", []int{1, 3, 10}, "probes, and successes that close")
			f.BoolVar(&o.http, "http", false, "real requests in real time")
		},
		Run: func(ctx context.Context, p *Params) (*report.Report, error) { return o.run(ctx, p) },
	}
}

func (o *halfopenOptions) validate(p *Params) error {
	for _, e := range []error{
		p.Between("workers", o.workers, 1, 1000),
		p.Positive("pause", o.pause),
		p.Positive("latency", o.latency),
		p.Positive("for", o.length),
		p.Positive("outage-for", o.outageLength),
		p.Positive("open", o.open),
		p.Between("consecutive", o.consecutive, 1, 1_000_000),
	} {
		if e != nil {
			return e
		}
	}
	if float64(o.rate()*o.length.Seconds()) > mostCalls {
		return p.Bad("for", o.length, "so short that there are at most 1 000 000 calls")
	}
	if o.outage < 0 {
		return p.Bad("outage", o.outage, "0 or more")
	}
	for _, n := range o.probes {
		if err := p.Between("probes", n, 1, 1000); err != nil {
			return err
		}
	}
	return nil
}

func (o *halfopenOptions) down(at time.Duration) bool {
	return at >= o.outage && at < o.outage+o.outageLength
}

// rate is how many calls a second the workers try while they are rejected.
func (o *halfopenOptions) rate() float64 { return float64(o.workers) / o.pause.Seconds() }

// periods is how many half-open periods lie in the outage.
func (o *halfopenOptions) periods() int {
	return int((o.outageLength - 1) / o.open)
}

// formula is how many calls fail in them: the first probe of each, and those
// that come while it is on its way.
func (o *halfopenOptions) formula(probes int) float64 {
	return float64(o.periods()) * min(float64(probes), 1+float64(o.rate()*o.latency.Seconds()))
}

// halfopenCounts is what became of the calls of one breaker.
type halfopenCounts struct {
	opens, halfOpens              int
	reached, probesFailed         int
	rejectedOpen, rejectedProbing int
	connectionErrors              int
}

// halfopenSubject is one breaker under the workers.
type halfopenSubject struct {
	name   string
	probes int
	after  bool // it probes strictly after the end of the open period, not at it
	make   func(l *sim.Loop, on sim.Change) sim.Breaker
}

func (o *halfopenOptions) subjects() (all []halfopenSubject) {
	for _, n := range o.probes {
		all = append(all,
			halfopenSubject{"fusebox", n, false, func(l *sim.Loop, on sim.Change) sim.Breaker {
				return sim.Fusebox(l, sim.Constant(fusebox.Config{
					FailureRate: -1, Consecutive: o.consecutive, Probes: n, OpenFor: o.open,
				}), on)
			}},
			halfopenSubject{"gobreaker", n, true, func(_ *sim.Loop, on sim.Change) sim.Breaker {
				return sim.Gobreaker(gobreaker.Settings{
					MaxRequests: uint32(n), Timeout: o.open, ReadyToTrip: sim.ConsecutiveRule(o.consecutive),
				}, on)
			}})
	}
	return all
}

func (o *halfopenOptions) run(ctx context.Context, p *Params) (*report.Report, error) {
	if err := o.validate(p); err != nil {
		return nil, err
	}
	subjects := o.subjects()
	play := o.virtual
	if o.http {
		play = o.real
	}
	starts := o.starts(p)
	counts, err := play(ctx, p, subjects, starts)
	if err != nil {
		return nil, err
	}
	r := p.Report()
	o.table(r, subjects, starts, counts)
	return r, nil
}

// starts draws when each worker makes its first call.
func (o *halfopenOptions) starts(p *Params) (all []time.Duration) {
	rng := p.Rand(0)
	for range o.workers {
		all = append(all, time.Duration(rng.Int64N(int64(o.pause))))
	}
	return all
}

// model is the workers and a breaker, in theory.
func (o *halfopenOptions) model(s halfopenSubject, starts []time.Duration) theory.Workers {
	return theory.Workers{
		Starts: starts, Pause: o.pause, Latency: o.latency, For: o.length, From: o.outage, Until: o.outage + o.outageLength,
		Consecutive: o.consecutive, Open: o.open, Probes: s.probes, After: s.after,
	}
}

// anyPhase is how many calls fail in half-open on average, if the open period
// ends anywhere in a pause.
func (o *halfopenOptions) anyPhase(s halfopenSubject, starts []time.Duration) float64 {
	const parts = 50
	sum := 0
	for i := range parts {
		w := o.model(s, starts)
		w.Open += time.Duration(2*i+1) * w.Pause / (2 * parts)
		sum += w.FailedProbes()
	}
	return float64(sum) / parts
}

// virtual runs the workers in a bubble, for one breaker after the other.
func (o *halfopenOptions) virtual(ctx context.Context, p *Params, subjects []halfopenSubject, starts []time.Duration) (counts []halfopenCounts, err error) {
	counts = make([]halfopenCounts, len(subjects))
	for i, s := range subjects {
		p.Progress(i, len(subjects))
		sim.Bubble(func(l *sim.Loop) {
			w := o.newWorld(l, s, &counts[i])
			for _, start := range starts {
				l.At(start, w.call)
			}
			err = l.Run(ctx, o.length)
		})
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// halfopenWorld is a loop with one breaker in it.
type halfopenWorld struct {
	*halfopenOptions
	loop    *sim.Loop
	breaker sim.Breaker
	state   fusebox.State // of the last change
	counts  *halfopenCounts
}

func (o *halfopenOptions) newWorld(l *sim.Loop, s halfopenSubject, counts *halfopenCounts) *halfopenWorld {
	w := &halfopenWorld{halfopenOptions: o, loop: l, counts: counts}
	w.breaker = s.make(l, func(_, to fusebox.State) {
		w.state = to
		switch to {
		case fusebox.Open:
			counts.opens++
		case fusebox.HalfOpen:
			counts.halfOpens++
		}
	})
	return w
}

// call is one call of a worker; it plans the next one.
func (w *halfopenWorld) call() {
	done, v := w.breaker.Allow()
	switch v {
	case sim.RejectedOpen:
		w.counts.rejectedOpen++
	case sim.RejectedProbing:
		w.counts.rejectedProbing++
	default:
		w.counts.reached++
		up, probe := !w.down(w.loop.Elapsed()), w.state == fusebox.HalfOpen
		w.loop.After(w.latency, func() {
			if probe && !up {
				w.counts.probesFailed++
			}
			done(up)
			w.loop.After(w.pause, w.call)
		})
		return
	}
	w.loop.After(w.pause, w.call)
}

func (o *halfopenOptions) table(r *report.Report, subjects []halfopenSubject, starts []time.Duration, counts []halfopenCounts) {
	formula := fmt.Sprintf("%d·min(N, 1+λL)", o.periods())
	t := r.Table("probes", fmt.Sprintf("%.0f calls a second are tried while open, each takes %v", o.rate(), o.latency),
		report.Column{Key: "breaker", Title: "breaker"},
		report.Column{Key: "probes", Title: "probes", Kind: report.Count},
		report.Column{Key: "opens", Title: "opens", Kind: report.Count},
		report.Column{Key: "half_opens", Title: "half-opens", Kind: report.Count},
		report.Column{Key: "probes_failed", Title: "failed in half-open", Kind: report.Count},
		report.Column{Key: "any_phase", Title: "mean, if the open period ends anywhere in a pause", Kind: report.Number, Decimals: 1},
		report.Column{Key: "formula", Title: formula, Kind: report.Number, Decimals: 1},
		report.Column{Key: "reached", Title: "reached the dependency", Kind: report.Count},
		report.Column{Key: "rejected_open", Title: "rejected while open", Kind: report.Count},
		report.Column{Key: "rejected_probing", Title: "for want of a probe", Kind: report.Count},
		report.Column{Key: "connection_errors", Title: "connection errors", Kind: report.Count},
	)
	plot := report.Plot{Title: "Calls that fail in half-open", X: "probes", Y: "calls"}
	even := report.Series{Name: formula, Style: report.Dashed}
	lines := map[string]*report.Series{}
	names := []string{}
	for i, s := range subjects {
		c := counts[i]
		t.Add(s.name, s.probes, c.opens, c.halfOpens, c.probesFailed, o.anyPhase(s, starts), o.formula(s.probes), c.reached, c.rejectedOpen, c.rejectedProbing, c.connectionErrors)
		if lines[s.name] == nil {
			lines[s.name], names = &report.Series{Name: s.name}, append(names, s.name)
		}
		lines[s.name].Points = append(lines[s.name].Points, report.Point{X: float64(s.probes), Y: float64(c.probesFailed)})
		if s.name == names[0] {
			even.Points = append(even.Points, report.Point{X: float64(s.probes), Y: o.formula(s.probes)})
		}
		if !o.http {
			// Not the formula, which takes workers as spread evenly. They are not: at
			// an open period that is a multiple of their pause the first probe is a
			// call of the worker whose failure tripped, and those whose calls were on
			// their way at the trip come while it is out, besides those whose turn it is.
			r.Near(fmt.Sprintf("%s, %d probes: failed in half-open", s.name, s.probes), float64(c.probesFailed),
				float64(o.model(s, starts).FailedProbes()), 0, "calls")
		}
	}
	for _, name := range names {
		plot.Series = append(plot.Series, *lines[name])
	}
	plot.Series = append(plot.Series, even)
	r.Plot(plot)

	few, many := t.Row("breaker", "fusebox", "probes", o.probes[0]), t.Row("breaker", "fusebox", "probes", o.probes[len(o.probes)-1])
	t.Teach(func(t *report.Table) bool {
		few, many := t.Row("breaker", "fusebox", "probes", o.probes[0]), t.Row("breaker", "fusebox", "probes", o.probes[len(o.probes)-1])
		return few.Number("probes") == 1 && few.Number("probes_failed") == few.Number("half_opens")-1 &&
			many.Number("probes_failed") > 4*few.Number("probes_failed") &&
			many.Number("probes_failed") < float64((many.Number("half_opens")-1)*many.Number("probes"))+1
	}, "With %s probe each half-open period of the outage costs one failed call, %s in all; with %s probes %s, as all that come while the first is on its way fail too.",
		few.Text("probes"), few.Text("probes_failed"), many.Text("probes"), many.Text("probes_failed"))
}

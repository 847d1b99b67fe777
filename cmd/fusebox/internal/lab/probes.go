package lab

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/sim"
)

// probesOptions are the flags of the experiment.
type probesOptions struct {
	every       time.Duration
	open        time.Duration
	consecutive int
	probes      int
	lease       time.Duration
	hangs       []time.Duration
	stragglers  float64
	length      time.Duration
}

func probes() Experiment {
	var o probesOptions
	return Experiment{
		Name:      "probes",
		Title:     "probes that hang, and results that come long after their call was made",
		Gobreaker: true,
		Long: `Probes meet a dependency that takes the call and does not answer; it recovers soon
after, but the probes hang on. How long until the breaker is closed? Then calls
some of which take seconds, through many outages: a result from before a change of
state must change nothing after it.`,
		Flags: func(f *pflag.FlagSet) {
			f.DurationVar(&o.every, "every", 50*time.Millisecond, "time between calls, on average")
			f.DurationVar(&o.open, "open", time.Second, "open period")
			f.IntVar(&o.consecutive, "consecutive", 5, "failures in a row that trip")
			f.IntVar(&o.probes, "probes", 3, "probes, and successes that close")
			f.DurationVar(&o.lease, "lease", 2*time.Second, "lease of a probe, besides the default of 30s")
			f.DurationSliceVar(&o.hangs, "hangs", []time.Duration{10 * time.Second, time.Minute, 4 * time.Minute}, "how long probes hang")
			f.Float64Var(&o.stragglers, "stragglers", 0.2, "fraction of calls that take long")
			f.DurationVar(&o.length, "for", 20*time.Minute, "length of the run with stragglers")
		},
		Run: func(ctx context.Context, p *Params) (*report.Report, error) { return o.run(ctx, p) },
	}
}

func (o *probesOptions) validate(p *Params) error {
	for _, e := range []error{
		p.Positive("every", o.every),
		p.Positive("open", o.open),
		p.Positive("lease", o.lease),
		p.Positive("for", o.length),
		p.Between("consecutive", o.consecutive, 1, 1_000_000),
		p.Between("probes", o.probes, 1, 1000),
	} {
		if e != nil {
			return e
		}
	}
	if !(o.stragglers >= 0 && o.stragglers <= 1) {
		return p.Bad("stragglers", o.stragglers, "from 0 to 1")
	}
	rest := o.hangUntil()
	longer := fmt.Sprintf("longer than the rest of the outage, %v", rest)
	if rest >= defaultLease {
		return p.Bad("every", o.every, fmt.Sprintf("so short that the rest of the outage, %v, is less than the default lease, %v", rest, defaultLease))
	}
	if o.lease <= rest {
		return p.Bad("lease", o.lease, longer)
	}
	for _, h := range o.hangs {
		if h <= rest {
			return p.Bad("hangs", h, longer)
		}
		if h/mostCalls > o.every {
			return p.Bad("hangs", h, fmt.Sprintf("at most 1 000 000 times --every, %v", o.every))
		}
	}
	if o.length/mostCalls > o.every {
		return p.Bad("for", o.length, fmt.Sprintf("at most 1 000 000 times --every, %v", o.every))
	}
	return nil
}

// defaultLease is that of a breaker whose configuration names none.
const defaultLease = 30 * time.Second

// hangUntil is how long after the first probe the dependency recovers: long
// enough for all probes to hang.
func (o *probesOptions) hangUntil() time.Duration { return time.Duration(o.probes+1) * o.every }

func (o *probesOptions) run(ctx context.Context, p *Params) (*report.Report, error) {
	if err := o.validate(p); err != nil {
		return nil, err
	}
	return p.Parts(
		func(r *report.Report) error { return o.hanging(ctx, r) },
		func(r *report.Report) error { return o.straggling(ctx, p, r) },
	)
}

// leaseCase is a breaker and the lease of its probes.
type leaseCase struct {
	name  string
	lease time.Duration // 0: none
	make  func(l *sim.Loop, on sim.Change) sim.Breaker
}

const (
	noLeaseName    = "fusebox, without a lease"
	rivalLeaseName = "gobreaker, which has none"
	plainName      = "plain model without generations"
)

func leaseName(lease time.Duration) string { return fmt.Sprintf("fusebox, lease of %v", lease) }

func (o *probesOptions) config() fusebox.Config {
	return sim.Constant(fusebox.Config{FailureRate: -1, Consecutive: o.consecutive, Probes: o.probes, OpenFor: o.open})
}

func (o *probesOptions) settings() gobreaker.Settings {
	return gobreaker.Settings{MaxRequests: uint32(o.probes), Timeout: o.open, ReadyToTrip: sim.ConsecutiveRule(o.consecutive)}
}

func (o *probesOptions) leaseCases() []leaseCase {
	ours := func(lease time.Duration) func(*sim.Loop, sim.Change) sim.Breaker {
		return func(l *sim.Loop, on sim.Change) sim.Breaker {
			c := o.config()
			c.ProbeTimeout = lease
			return sim.Fusebox(l, c, on)
		}
	}
	const unending = 1000 * time.Hour
	return []leaseCase{
		{leaseName(o.lease), o.lease, ours(o.lease)},
		{leaseName(defaultLease), defaultLease, ours(0)},
		{noLeaseName, 0, ours(unending)},
		{rivalLeaseName, 0, func(_ *sim.Loop, on sim.Change) sim.Breaker { return sim.Gobreaker(o.settings(), on) }},
	}
}

func (o *probesOptions) hanging(ctx context.Context, r *report.Report) error {
	t := r.Table("hangs", fmt.Sprintf("Probes that hang and then fail; the dependency recovers %v after the first one was sent", o.hangUntil()),
		report.Column{Key: "breaker", Title: "breaker"},
		report.Column{Key: "hang", Title: "probes hang for", Kind: report.Duration},
		report.Column{Key: "closed", Title: "closed after recovery", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "formula", Title: "formula", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "rejected", Title: "good calls rejected", Kind: report.Count},
	)
	plot := report.Plot{Title: "From recovery to closed", X: "probes hang for, s", Y: "s"}
	for _, c := range o.leaseCases() {
		line := report.Series{Name: c.name}
		for _, hang := range o.hangs {
			closed, rejected, err := o.hang(ctx, c, hang)
			if err != nil {
				return err
			}
			want := o.hangFormula(c, hang)
			t.Add(c.name, hang, closed, want, rejected)
			r.Near(fmt.Sprintf("%s, %v: closed after recovery", c.name, hang), closed.Seconds(), want.Seconds(), 2*o.every.Seconds(), "s")
			line.Points = append(line.Points, report.Point{X: hang.Seconds(), Y: closed.Seconds()})
		}
		plot.Series = append(plot.Series, line)
	}
	r.Plot(plot)
	longest := o.hangs[len(o.hangs)-1]
	row := func(t *report.Table, name string) report.Row { return t.Row("breaker", name, "hang", longest) }
	t.Teach(func(t *report.Table) bool {
		short, rival := row(t, leaseName(o.lease)), row(t, rivalLeaseName)
		none := row(t, noLeaseName)
		return rival.Number("closed") > 0.9*longest.Seconds() && none.Number("closed") > 0.9*longest.Seconds() &&
			short.Number("closed") < (o.lease+2*o.open).Seconds() && rival.Number("rejected") > 10*short.Number("rejected")
	}, "Without a lease, probes that hang for %s s keep a breaker half-open for as long: closed %s s after recovery, %s calls rejected that would have been answered. A lease of %v ends that after %s s.",
		row(t, rivalLeaseName).Text("hang"), row(t, rivalLeaseName).Text("closed"), row(t, rivalLeaseName).Text("rejected"), o.lease, row(t, leaseName(o.lease)).Text("closed"))
	return nil
}

// hangFormula: the probes count as failed at the end of the lease, or when they
// end; after another open period as many probes as close succeed.
func (o *probesOptions) hangFormula(c leaseCase, hang time.Duration) time.Duration {
	if c.lease > 0 {
		hang = min(hang, c.lease)
	}
	return hang - o.hangUntil() + o.open + time.Duration(o.probes-1)*o.every
}

// hang plays one breaker: it trips on a dependency that refuses calls, its
// probes hang, and everything after the recovery is answered at once.
func (o *probesOptions) hang(ctx context.Context, c leaseCase, hang time.Duration) (closed time.Duration, rejected int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first, at time.Duration // of the first probe; of the close
	sim.Bubble(func(l *sim.Loop) {
		state := fusebox.Closed
		b := c.make(l, func(_, to fusebox.State) {
			state = to
			switch {
			case to == fusebox.HalfOpen && first == 0:
				first = l.Elapsed()
			case to == fusebox.Closed:
				at = l.Elapsed()
				cancel()
			}
		})
		recovered := func() bool { return first > 0 && l.Elapsed() >= first+o.hangUntil() }
		var call func()
		call = func() {
			done, v := b.Allow()
			switch {
			case v != sim.Admitted:
				if recovered() {
					rejected++
				}
			case recovered():
				done(true)
			case state == fusebox.HalfOpen:
				l.After(hang, func() { done(false) })
			default:
				done(false)
			}
			l.After(o.every, call)
		}
		// Off the round instants at which leases and hangs end.
		l.After(o.every/3, call)
		err = l.Run(ctx, time.Hour+2*hang)
	})
	if at > 0 {
		return at - first - o.hangUntil(), rejected, nil
	}
	if err == nil {
		err = fmt.Errorf("lab: %s is not closed %v after its probes began to hang for %v", c.name, time.Hour, hang)
	}
	return 0, 0, err
}

func (o *probesOptions) straggling(ctx context.Context, p *Params, r *report.Report) error {
	t := r.Table("stragglers", fmt.Sprintf("Calls of which %.0f %% take up to %v, outages of %v every %v, for %v", 100*o.stragglers, longStraggler, stragglerOutage, stragglerCycle, o.length),
		report.Column{Key: "breaker", Title: "breaker"},
		report.Column{Key: "admitted", Title: "admitted", Kind: report.Count},
		report.Column{Key: "late", Title: "results of an earlier state", Kind: report.Count},
		report.Column{Key: "changes", Title: "changes of state", Kind: report.Count},
		report.Column{Key: "wrong", Title: "wrong ones", Kind: report.Count},
		report.Column{Key: "wrong_closed", Title: "closed by a late success", Kind: report.Count},
		report.Column{Key: "wrong_open", Title: "opened by a late failure", Kind: report.Count},
	)
	subjects := []struct {
		name string
		make func(l *sim.Loop, on sim.Change) sim.Breaker
	}{
		{"fusebox", func(l *sim.Loop, on sim.Change) sim.Breaker { return sim.Fusebox(l, o.config(), on) }},
		{"gobreaker", func(_ *sim.Loop, on sim.Change) sim.Breaker { return sim.Gobreaker(o.settings(), on) }},
		{plainName, func(l *sim.Loop, on sim.Change) sim.Breaker {
			return sim.Naive(l, o.consecutive, o.probes, o.open, on)
		}},
	}
	for _, s := range subjects {
		w, err := o.straggle(ctx, p, s.make)
		if err != nil {
			return err
		}
		t.Add(s.name, w.admitted, w.late, w.changes, w.wrongClosed+w.wrongOpen, w.wrongClosed, w.wrongOpen)
		if s.name != plainName {
			r.Near(s.name+": changes of state by results of an earlier one", float64(w.wrongClosed+w.wrongOpen), 0, 0, "changes")
		}
	}
	ours, plain := t.Row("breaker", "fusebox"), t.Row("breaker", plainName)
	t.Teach(func(t *report.Table) bool {
		ours, rival, plain := t.Row("breaker", "fusebox"), t.Row("breaker", "gobreaker"), t.Row("breaker", plainName)
		return ours.Number("late") > 0 && ours.Number("wrong") == 0 && rival.Number("wrong") == 0 && plain.Number("wrong") > 0.01*plain.Number("changes")
	}, "A result that comes after its state has ended must change nothing: of %s such results %s did in fusebox, and as few in gobreaker; a model that does not number its states made %s of %s changes wrongly.",
		ours.Text("late"), ours.Text("wrong"), plain.Text("wrong"), plain.Text("changes"))
	return nil
}

const (
	stragglerCycle  = 7 * time.Second // of health and outage
	stragglerOutage = 3 * time.Second
	longStraggler   = 6 * time.Second
)

// stragglerWorld is one breaker among calls that take long, and what is counted.
type stragglerWorld struct {
	*probesOptions
	loop    *sim.Loop
	breaker sim.Breaker

	admitted, late, changes int
	wrongClosed, wrongOpen  int

	period int // number of the present state
	// finishing is the period in which the call was admitted that is being
	// finished; -1: none is.
	finishing int
}

func (o *probesOptions) straggle(ctx context.Context, p *Params, makeBreaker func(*sim.Loop, sim.Change) sim.Breaker) (w stragglerWorld, err error) {
	rng := p.Rand(0)
	sim.Bubble(func(l *sim.Loop) {
		w = stragglerWorld{probesOptions: o, loop: l, finishing: -1}
		w.breaker = makeBreaker(l, w.changed)
		var call func()
		call = func() {
			latency := time.Duration(10+float64(40*rng.Float64())) * time.Millisecond
			if rng.Float64() < o.stragglers {
				latency = time.Duration(rng.Float64() * float64(longStraggler))
			}
			w.call(latency)
			l.After(time.Duration(rng.ExpFloat64()*float64(o.every)), call)
		}
		call()
		err = l.Run(ctx, o.length)
	})
	return w, err
}

func (w *stragglerWorld) call(latency time.Duration) {
	done, v := w.breaker.Allow()
	if v != sim.Admitted {
		return
	}
	w.admitted++
	period := w.period
	up := math.Mod(w.loop.Elapsed().Seconds(), stragglerCycle.Seconds()) < (stragglerCycle - stragglerOutage).Seconds()
	w.loop.After(latency, func() {
		if period != w.period {
			w.late++
		}
		w.finishing = period
		done(up)
		w.finishing = -1
	})
}

// changed counts a change of state. It is wrong if a result made it that
// belongs to an earlier state. (That an open period is over is nobody's doing,
// though gobreaker notes it when a result comes.)
func (w *stragglerWorld) changed(from, to fusebox.State) {
	over := from == fusebox.Open && to == fusebox.HalfOpen
	if w.finishing >= 0 && w.finishing != w.period && !over {
		if to == fusebox.Closed {
			w.wrongClosed++
		} else {
			w.wrongOpen++
		}
	}
	w.changes++
	w.period++
}

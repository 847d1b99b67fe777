package lab

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/sim"
)

// timelineOptions are the flags of the experiment.
type timelineOptions struct {
	clock        string
	calls        int
	every        time.Duration
	open         time.Duration
	consecutive  int
	probes       int
	outageStarts []time.Duration
	outage       time.Duration
}

func timeline() Experiment {
	var o timelineOptions
	return Experiment{
		Name:      "timeline",
		Title:     "one breaker through two outages, call by call",
		Gobreaker: true,
		Long: `Calls at a steady pace meet two outages. The changes of state are shown for
this project's breaker and gobreaker's with the same settings; then what an open
period does that ends exactly when a call comes.`,
		Flags: func(f *pflag.FlagSet) {
			f.StringVar(&o.clock, "clock", "virtual", "virtual, or real: on the machine's clock, in as much time")
			f.IntVar(&o.calls, "calls", 160, "number of calls")
			f.DurationVar(&o.every, "every", 50*time.Millisecond, "time between calls")
			f.IntVar(&o.consecutive, "consecutive", 5, "failures in a row that trip")
			f.IntVar(&o.probes, "probes", 3, "probes, and successes that close")
			f.DurationVar(&o.open, "open", 1025*time.Millisecond, "open period")
			f.DurationSliceVar(&o.outageStarts, "outages", []time.Duration{500 * time.Millisecond, 4 * time.Second}, "when the outages begin")
			f.DurationVar(&o.outage, "outage", 2*time.Second, "how long each lasts")
		},
		Run: func(ctx context.Context, p *Params) (*report.Report, error) { return o.run(ctx, p) },
	}
}

func (o *timelineOptions) validate(p *Params) error {
	if o.clock != "virtual" && o.clock != "real" {
		return p.Bad("clock", o.clock, "virtual or real")
	}
	for _, e := range []error{
		p.Between("calls", o.calls, 1, 1_000_000),
		p.Between("consecutive", o.consecutive, 1, 1_000_000),
		p.Between("probes", o.probes, 1, 1000),
		p.Positive("every", o.every),
		p.Positive("open", o.open),
		p.Positive("outage", o.outage),
	} {
		if e != nil {
			return e
		}
	}
	return nil
}

// run makes the report: the timeline on the clock asked for, and the boundary,
// which wants an exact clock, on the virtual one.
func (o *timelineOptions) run(ctx context.Context, p *Params) (*report.Report, error) {
	if err := o.validate(p); err != nil {
		return nil, err
	}
	r := p.Report()
	virtual, err := o.virtual(ctx, o.open)
	if err != nil {
		return nil, err
	}
	runs := virtual
	if o.clock == "real" {
		l := sim.Real()
		runs = o.subjects(l, o.open)
		if err := o.drive(ctx, l, runs); err != nil {
			return nil, err
		}
	}
	// What gobreaker does strictly after the end of an open period fusebox does at
	// the end of one that is longer by a nanosecond.
	strict, err := o.virtual(ctx, o.open+1)
	if err != nil {
		return nil, err
	}
	o.transitions(r, runs, virtual, len(strict[0].changes))
	o.counts(r, runs)
	if err := o.boundary(ctx, r); err != nil {
		return nil, err
	}
	r.Plot(o.plot(runs))
	return r, nil
}

// timelineRun is one breaker and what became of its calls.
type timelineRun struct {
	name    string
	breaker sim.Breaker
	changes []change

	calls, reached, failed, rejectedOpen, rejectedProbing int
}

// change is one change of state.
type change struct {
	from, to fusebox.State
	at       time.Duration
}

func (c change) name() string { return c.from.String() + " → " + c.to.String() }

// subjects makes the two breakers, in the time of the loop.
func (o *timelineOptions) subjects(l *sim.Loop, open time.Duration) []*timelineRun {
	ours, theirs := &timelineRun{name: "fusebox"}, &timelineRun{name: "gobreaker"}
	for _, run := range []*timelineRun{ours, theirs} {
		on := func(from, to fusebox.State) { run.changes = append(run.changes, change{from, to, l.Elapsed()}) }
		if run == ours {
			run.breaker = sim.Fusebox(l, sim.Constant(fusebox.Config{
				FailureRate: -1, Consecutive: o.consecutive, Probes: o.probes, OpenFor: open,
			}), on)
			continue
		}
		run.breaker = sim.Gobreaker(gobreaker.Settings{
			MaxRequests: uint32(o.probes), Timeout: open, ReadyToTrip: sim.ConsecutiveRule(o.consecutive),
		}, on)
	}
	return []*timelineRun{ours, theirs}
}

func (o *timelineOptions) virtual(ctx context.Context, open time.Duration) (runs []*timelineRun, err error) {
	sim.Bubble(func(l *sim.Loop) {
		runs = o.subjects(l, open)
		err = o.drive(ctx, l, runs)
	})
	return runs, err
}

// drive makes the calls. Whether one succeeds is decided by when it was planned,
// so that on a real clock each call meets what it meets on the virtual one.
func (o *timelineOptions) drive(ctx context.Context, l *sim.Loop, runs []*timelineRun) error {
	l.Every(0, o.every, o.calls, func(i int) {
		up := !o.down(time.Duration(i) * o.every)
		for _, run := range runs {
			run.call(up)
		}
	})
	return l.Run(ctx, time.Duration(o.calls)*o.every)
}

func (o *timelineOptions) down(at time.Duration) bool {
	return slices.ContainsFunc(o.outageStarts, func(from time.Duration) bool { return at >= from && at < from+o.outage })
}

func (t *timelineRun) call(up bool) {
	t.calls++
	done, v := t.breaker.Allow()
	switch v {
	case sim.RejectedOpen:
		t.rejectedOpen++
	case sim.RejectedProbing:
		t.rejectedProbing++
	default:
		t.reached++
		if !up {
			t.failed++
		}
		done(up)
	}
}

// transitions is the table of changes. Its checks: gobreaker changes as often as
// fusebox would with open periods that it is strict about and, on the real clock,
// both change as on the virtual one.
func (o *timelineOptions) transitions(r *report.Report, runs, virtual []*timelineRun, strict int) {
	t := r.Table("transitions", "Changes of state",
		report.Column{Key: "n", Title: "n", Kind: report.Count},
		report.Column{Key: "change", Title: "change"},
		report.Column{Key: "fusebox", Title: "fusebox", Kind: report.Duration, Unit: time.Millisecond},
		report.Column{Key: "gobreaker", Title: "gobreaker", Kind: report.Duration, Unit: time.Millisecond},
	)
	ours, theirs := runs[0].changes, runs[1].changes
	for i, c := range ours {
		var other any
		if i < len(theirs) && theirs[i].name() == c.name() {
			other = theirs[i].at.Round(time.Millisecond)
		}
		t.Add(i+1, c.name(), c.at.Round(time.Millisecond), other)
	}
	r.Near("gobreaker makes as many changes as fusebox just after the open period", float64(len(theirs)), float64(strict), 0, "changes")
	for k, run := range runs {
		r.Near(run.name+" makes the changes of the virtual clock", float64(common(run.changes, virtual[k].changes)), float64(len(virtual[k].changes)), 0, "changes")
	}
	t.Teach(func(t *report.Table) bool {
		rows := t.Select()
		if len(rows) == 0 {
			return false
		}
		for _, row := range rows {
			d := row.Number("fusebox") - row.Number("gobreaker")
			if !(math.Abs(d) < float64(o.every)/float64(time.Millisecond)) || row.Number("fusebox") <= 0 {
				return false
			}
		}
		return true
	}, "With an open period that ends between two calls both breakers make the same %d changes.", len(ours))
}

// common counts the changes up to the first that differs.
func common(a, b []change) (n int) {
	for n < min(len(a), len(b)) && a[n].name() == b[n].name() {
		n++
	}
	return n
}

func (o *timelineOptions) counts(r *report.Report, runs []*timelineRun) {
	t := r.Table("calls", "What became of the calls",
		report.Column{Key: "breaker", Title: "breaker"},
		report.Column{Key: "calls", Title: "calls", Kind: report.Count},
		report.Column{Key: "reached", Title: "reached the dependency", Kind: report.Count},
		report.Column{Key: "failed", Title: "failed", Kind: report.Count},
		report.Column{Key: "rejected_open", Title: "rejected while open", Kind: report.Count},
		report.Column{Key: "rejected_probing", Title: "for want of a probe", Kind: report.Count},
	)
	down := 0
	for i := range o.calls {
		if o.down(time.Duration(i) * o.every) {
			down++
		}
	}
	for _, run := range runs {
		t.Add(run.name, run.calls, run.reached, run.failed, run.rejectedOpen, run.rejectedProbing)
	}
	ours := t.Row("breaker", "fusebox")
	t.Teach(func(t *report.Table) bool {
		row := t.Row("breaker", "fusebox")
		return row.Number("failed") < float64(down) && row.Number("failed")+row.Number("rejected_open") > float64(down)
	}, "Of %s calls %s are rejected and %s fail; calls are rejected after an outage's end as well, until the open period is over.",
		ours.Text("calls"), ours.Text("rejected_open"), ours.Text("failed"))
}

// boundary tries open periods that end exactly at a call, and one that does not.
func (o *timelineOptions) boundary(ctx context.Context, r *report.Report) error {
	t := r.Table("boundary", "First change to half-open when the open period ends at a call, or between two",
		report.Column{Key: "open", Title: "open period", Kind: report.Duration, Unit: time.Millisecond, Decimals: 1},
		report.Column{Key: "ends", Title: "ends"},
		report.Column{Key: "fusebox", Title: "fusebox", Kind: report.Duration, Unit: time.Millisecond},
		report.Column{Key: "gobreaker", Title: "gobreaker", Kind: report.Duration, Unit: time.Millisecond},
		report.Column{Key: "later", Title: "gobreaker later by", Kind: report.Duration, Unit: time.Millisecond},
	)
	whole := max(1, o.open/o.every) * o.every
	for _, open := range []time.Duration{whole, whole + o.every/2, whole + o.every} {
		runs, err := o.virtual(ctx, open)
		if err != nil {
			return err
		}
		first := func(run *timelineRun) any {
			i := slices.IndexFunc(run.changes, func(c change) bool { return c.to == fusebox.HalfOpen })
			if i < 0 {
				return nil
			}
			return run.changes[i].at
		}
		ends := "at a call"
		if open%o.every != 0 {
			ends = "between two"
		}
		ours, theirs := first(runs[0]), first(runs[1])
		var later any
		if ours != nil && theirs != nil {
			later = theirs.(time.Duration) - ours.(time.Duration)
		}
		t.Add(open, ends, ours, theirs, later)
	}
	t.Teach(func(t *report.Table) bool {
		for _, row := range t.Select("ends", "at a call") {
			if row.Number("later") != float64(o.every)/float64(time.Millisecond) {
				return false
			}
		}
		between := t.Row("ends", "between two")
		return between.Number("later") == 0
	}, "Fusebox probes at the end of the open period or after it, gobreaker strictly after it: where a call comes at that very instant, gobreaker probes one call (%s) later.", o.every)
	return nil
}

func (o *timelineOptions) plot(runs []*timelineRun) report.Plot {
	p := report.Plot{
		Title: "State over time", X: "time, s", Y: "",
		YTicks: []string{"closed", "half-open", "open"},
	}
	for _, run := range runs {
		s := report.Series{Name: run.name, Style: report.Steps, Points: []report.Point{{}}}
		for _, c := range run.changes {
			s.Points = append(s.Points, report.Point{X: c.at.Seconds(), Y: float64(c.to)})
		}
		last := s.Points[len(s.Points)-1]
		s.Points = append(s.Points, report.Point{X: (time.Duration(o.calls) * o.every).Seconds(), Y: last.Y})
		p.Series = append(p.Series, s)
	}
	return p
}

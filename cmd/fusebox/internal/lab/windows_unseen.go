package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/sim"
)

// unseenCase is a kind of failure and a breaker that may not see it.
type unseenCase struct {
	failure string
	windowKind
	every   time.Duration
	latency time.Duration // of the calls that fail
	from    time.Duration // from when on every call fails
	look    time.Duration // how long it is looked at from then on
}

// unseen tries failures that some windows never see.
func (o *windowsOptions) unseen(ctx context.Context, r *report.Report) error {
	t := r.Table("unseen", "Failures that a window may not see; every call fails",
		report.Column{Key: "failure", Title: "failure"},
		report.Column{Key: "breaker", Title: "breaker"},
		report.Column{Key: "opens", Title: "opens after", Kind: report.Duration, Decimals: 1},
		report.Column{Key: "failed", Title: "failed calls", Kind: report.Count},
		report.Column{Key: "looked", Title: "looked at for", Kind: report.Duration},
	)
	for _, c := range o.unseenCases() {
		opened, failed, err := c.run(ctx)
		if err != nil {
			return err
		}
		t.Add(c.failure, c.name, opened, failed, c.look)
	}
	o.teachUnseen(t)
	return nil
}

const (
	requestsWindow = "gobreaker, tumbling, of requests"
	runRival       = "gobreaker, tumbling, 5 in a row"
	runOurs        = "fusebox, 5 in a row"
	endlessWindow  = "gobreaker, never cleared"
)

func (o *windowsOptions) slowName(latency time.Duration) string {
	return fmt.Sprintf("fails after %v", latency)
}

func (o *windowsOptions) rareName() string { return fmt.Sprintf("a call every %v", o.rareEvery()) }

// rareEvery is so that a window holds fewer than five calls.
func (o *windowsOptions) rareEvery() time.Duration { return o.window * 3 / 10 }

func (o *windowsOptions) unseenCases() (cases []unseenCase) {
	kinds := o.kinds()
	tumbling, fine, ours := kinds[0], kinds[3], kinds[4]
	requests := windowKind{requestsWindow, 1, 0, func(_ *sim.Loop, on sim.Change) sim.Breaker {
		return sim.Gobreaker(gobreaker.Settings{Interval: o.window, Timeout: time.Hour, ReadyToTrip: sim.RequestRule(o.minCalls, o.rate)}, on)
	}}
	for _, latency := range []time.Duration{o.window * 6 / 10, o.window * 11 / 10} {
		for _, k := range []windowKind{requests, tumbling, fine, ours} {
			cases = append(cases, unseenCase{o.slowName(latency), k, o.every, latency, 0, 20 * o.window})
		}
	}
	const inARow = 5
	runs := gobreaker.Settings{Interval: o.window, Timeout: time.Hour, ReadyToTrip: sim.ConsecutiveRule(inARow)}
	rolling := runs
	rolling.BucketPeriod = o.window / 10
	for _, k := range []windowKind{
		{runRival, 1, 0, func(_ *sim.Loop, on sim.Change) sim.Breaker { return sim.Gobreaker(runs, on) }},
		{"gobreaker, 10 buckets, 5 in a row", 10, 0, func(_ *sim.Loop, on sim.Change) sim.Breaker { return sim.Gobreaker(rolling, on) }},
		{runOurs, ourBuckets, inARow, func(l *sim.Loop, on sim.Change) sim.Breaker {
			c := o.config()
			c.FailureRate, c.Consecutive = -1, inARow
			return sim.Fusebox(l, c, on)
		}},
	} {
		cases = append(cases, unseenCase{o.rareName(), k, o.rareEvery(), 0, 0, 100 * o.rareEvery()})
	}
	endless := windowKind{endlessWindow, 1, 0, func(_ *sim.Loop, on sim.Change) sim.Breaker {
		return sim.Gobreaker(gobreaker.Settings{Timeout: time.Hour, ReadyToTrip: sim.RateRule(o.minCalls, o.rate)}, on)
	}}
	for _, k := range []windowKind{endless, ours} {
		cases = append(cases, unseenCase{healthName, k, o.every, 0, time.Hour, 2 * time.Hour})
	}
	return cases
}

const healthName = "after an hour of health"

// run returns how long after the failures' beginning the breaker opened, nil if
// it did not, and how many calls had failed by then.
func (c unseenCase) run(ctx context.Context) (opened any, failed int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var at time.Duration = -1
	sim.Bubble(func(l *sim.Loop) {
		b := c.make(l, func(_, to fusebox.State) {
			if to == fusebox.Open {
				at = l.Elapsed()
			}
		})
		l.Every(0, c.every, int((c.from+c.look)/c.every), func(int) {
			if at >= 0 {
				cancel() // it has been seen
				return
			}
			done, _ := b.Allow()
			if l.Elapsed() < c.from {
				done(true)
				return
			}
			l.After(c.latency, func() {
				if at < 0 {
					failed++
				}
				done(false)
			})
		})
		err = l.Run(ctx, c.from+c.look)
	})
	if at >= 0 {
		return at - c.from, failed, nil
	}
	return nil, failed, err
}

func (o *windowsOptions) teachUnseen(t *report.Table) {
	none := func(r report.Row) bool { return r.Found() && r.Cell("opens") == nil }
	slow, slower := o.slowName(o.window*6/10), o.slowName(o.window*11/10)
	ours := t.Row("failure", slower, "breaker", ourWindow)
	t.Teach(func(t *report.Table) bool {
		return none(t.Row("failure", slow, "breaker", requestsWindow)) && none(t.Row("failure", slower, "breaker", tumblingWindow)) &&
			none(t.Row("failure", slower, "breaker", "gobreaker, 10 buckets")) && t.Row("failure", slow, "breaker", ourWindow).Number("opens") > 0 &&
			t.Row("failure", slower, "breaker", ourWindow).Number("opens") > 0
	}, "gobreaker drops a result whose call began in an earlier window: what fails after %v never opens it. A rule over its Requests, which count calls in flight as if they were well, is blind already to what fails after %v. Fusebox counts a result when it comes: it opens after %s s where calls last longer than the window.",
		o.window*11/10, o.window*6/10, ours.Text("opens"))
	run := t.Row("failure", o.rareName(), "breaker", runOurs)
	t.Teach(func(t *report.Table) bool {
		return none(t.Row("failure", o.rareName(), "breaker", runRival)) && t.Row("failure", o.rareName(), "breaker", runOurs).Number("failed") == 5
	}, "With %s a run that is cleared with the window never reaches 5; fusebox's is not bound to the window and trips with failure %s.", o.rareName(), run.Text("failed"))
	endless, health := t.Row("failure", healthName, "breaker", endlessWindow), t.Row("failure", healthName, "breaker", ourWindow)
	t.Teach(func(t *report.Table) bool {
		endless, ours := t.Row("failure", healthName, "breaker", endlessWindow), t.Row("failure", healthName, "breaker", ourWindow)
		return endless.Number("opens") > 100*ours.Number("opens") && ours.Number("failed") > 0 && endless.Number("failed") > 100*ours.Number("failed")
	}, "A window that is never cleared, as gobreaker's without an Interval, remembers an hour of health: it lets %s calls fail, fusebox's %s.", endless.Text("failed"), health.Text("failed"))
}

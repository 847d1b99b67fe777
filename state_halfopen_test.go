package fusebox_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Half-open.

func TestHalfOpenAdmitsAsManyProbesAsCanMatter(t *testing.T) {
	for name, c := range map[string]struct{ probes, closeAfter, reopenAfter, want int }{
		"the defaults":                         {3, 3, 1, 3},
		"fewer wanted than allowed":            {5, 2, 1, 2},
		"one decides":                          {3, 1, 1, 1},
		"fewer allowed than wanted":            {2, 5, 3, 2},
		"a race":                               {10, 3, 2, 4},
		"failures only":                        {10, 1, 4, 4},
		"limits whose sum overflows an int":    {3, math.MaxInt, math.MaxInt, 3},
		"a limit that overflows by one or two": {3, math.MaxInt, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t, func(x *fusebox.Config) {
				x.Probes, x.CloseAfter, x.ReopenAfter = c.probes, c.closeAfter, c.reopenAfter
			})
			l.trip()
			p := l.probe()
			defer p.Cancel()
			admitted := 1
			for range 20 {
				q, err := l.Allow(l.ctx())
				if err != nil {
					if !errors.Is(err, fusebox.ErrProbing) || !errors.Is(err, fusebox.ErrOpen) {
						t.Fatalf("rejected with %v", err)
					}
					break
				}
				defer q.Cancel()
				admitted++
			}
			if got := l.Snapshot().Outstanding; admitted != c.want || got != c.want {
				t.Errorf("%d admitted, %d outstanding, want %d", admitted, got, c.want)
			}
			if got := l.Snapshot().Totals; got.RejectedProbing != 1 || got.RejectedOpen != 0 {
				t.Errorf("%d rejected probing and %d open, want 1 and 0", got.RejectedProbing, got.RejectedOpen)
			}
		})
	}
}

func TestResultsInHalfOpenNarrowWhatCanStillMatter(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	a := l.probe()
	a.Record(fusebox.Success)
	b, c := l.allow(), l.allow()
	l.refuse() // two more successes decide, and two are out
	b.Record(fusebox.Success)
	l.refuse()
	c.Record(fusebox.Success)
	l.want(fusebox.Closed)
}

func TestCloseAfterSuccessfulProbesClose(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	p.Record(fusebox.Success)
	l.succeed(1)
	l.want(fusebox.HalfOpen)
	l.wantCounts(fusebox.Counts{Calls: 2})
	g := l.generation()
	l.delivered()
	l.succeed(1)
	l.want(fusebox.Closed)
	r := l.wantRecord(fusebox.HalfOpen, fusebox.Closed, fusebox.CauseProbesSucceeded)
	if r.Generation != g+1 || r.Counts.Calls != 3 || r.Threshold != 3 {
		t.Errorf("generation %d, %+v, threshold %v", r.Generation, r.Counts, r.Threshold)
	}
	l.wantCounts(fusebox.Counts{})
	if got := l.Snapshot().Totals.Probes; got != (fusebox.ProbeTotals{Succeeded: 3}) {
		t.Errorf("probes %+v", got)
	}
}

func TestReopenAfterFailedProbesReopen(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.ReopenAfter = 2 })
	l.trip()
	p := l.probe()
	p.Record(fusebox.Failure)
	l.want(fusebox.HalfOpen)
	l.succeed(2)
	l.want(fusebox.HalfOpen)
	g := l.generation()
	l.delivered()
	l.fail(1)
	r := l.wantRecord(fusebox.HalfOpen, fusebox.Open, fusebox.CauseProbeFailed)
	if want := (fusebox.Counts{Calls: 4, Failures: 2, Consecutive: 1}); r.Counts != want || r.Generation != g+1 || r.Threshold != 2 {
		t.Errorf("counts %+v generation %d threshold %v", r.Counts, r.Generation, r.Threshold)
	}
	l.wantOpenFor(2 * time.Second)
	if got := l.Snapshot().Totals.Probes; got != (fusebox.ProbeTotals{Succeeded: 2, Failed: 2}) {
		t.Errorf("probes %+v", got)
	}
}

func TestASlowProbeCountsAgainstTheDependency(t *testing.T) {
	for _, o := range []fusebox.Outcome{fusebox.Success, fusebox.Failure} {
		l := newCellLab(t, func(c *fusebox.Config) { c.SlowAfter = 3 * time.Second })
		l.trip()
		p := l.probe()
		l.delivered()
		l.advance(3 * time.Second)
		p.Record(o)
		r := l.wantRecord(fusebox.HalfOpen, fusebox.Open, fusebox.CauseProbeFailed)
		if r.Counts.Slow != 1 || r.Counts.Calls != 1 {
			t.Errorf("%v: counts %+v", o, r.Counts)
		}
	}
}

func TestALeaseAtItsEndReopensAsOfThatInstant(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	began := l.time()
	l.delivered()
	l.advance(30*time.Second - 1)
	l.want(fusebox.HalfOpen)
	l.advance(1)
	l.want(fusebox.Open) // derived
	if r := l.delivered(); len(r) != 0 {
		t.Fatalf("reading left records: %v", r)
	}
	l.advance(time.Second)
	l.refuse()
	r := l.wantRecord(fusebox.HalfOpen, fusebox.Open, fusebox.CauseProbeExpired)
	end := began.Add(30 * time.Second)
	if !r.At.Equal(end) || !r.Until.Equal(end.Add(2*time.Second)) {
		t.Errorf("at %v until %v, want %v and 2s later", r.At, r.Until, end)
	}
	if p.Record(fusebox.Success) {
		t.Error("a probe whose lease has ended was accepted")
	}
	s := l.Snapshot().Totals
	if s.Late != 1 || s.Probes.Expired != 1 {
		t.Errorf("%d late, %d expired, want 1 and 1", s.Late, s.Probes.Expired)
	}
}

func TestALeaseAtItsEndFreesItsSlot(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.Probes, c.CloseAfter, c.ReopenAfter = 1, 2, 3 })
	l.trip()
	p := l.probe()
	l.refuse()
	l.advance(30 * time.Second)
	l.want(fusebox.HalfOpen)
	l.wantCounts(fusebox.Counts{Calls: 1, Failures: 1, Consecutive: 1})
	q := l.allow()
	if p.Record(fusebox.Success) {
		t.Error("the expired probe was accepted")
	}
	q.Record(fusebox.Success)
	l.succeed(1)
	l.want(fusebox.Closed)
}

func TestLeasesThatEndTogetherReopenOnce(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.ReopenAfter = 2 })
	l.trip()
	a := l.probe()
	b := l.allow()
	l.delivered()
	l.advance(30 * time.Second)
	if a.Record(fusebox.Success) || b.Record(fusebox.Success) {
		t.Error("an expired probe was accepted")
	}
	r := l.wantRecord(fusebox.HalfOpen, fusebox.Open, fusebox.CauseProbeExpired)
	if r.Counts.Failures != 2 {
		t.Errorf("counts %+v, want 2 failures", r.Counts)
	}
	if got := l.Snapshot().Totals.Late; got != 2 {
		t.Errorf("%d late, want 2", got)
	}
}

func TestAnIgnoredOrCancelledProbeGivesItsSlotBack(t *testing.T) {
	for name, end := range map[string]func(*fusebox.Permit){
		"ignored":   func(p *fusebox.Permit) { p.Record(fusebox.Ignored) },
		"cancelled": func(p *fusebox.Permit) { p.Cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t, func(c *fusebox.Config) { c.Probes = 1 })
			l.trip()
			p := l.probe()
			l.refuse()
			end(&p)
			l.want(fusebox.HalfOpen)
			l.wantCounts(fusebox.Counts{})
			if got := l.Snapshot().Totals.Probes; got != (fusebox.ProbeTotals{Ignored: 1}) {
				t.Errorf("probes %+v", got)
			}
			l.succeed(1)
			l.want(fusebox.Closed)
		})
	}
}

// Any: late.

func TestAPermitOfAnOlderGenerationIsLate(t *testing.T) {
	for _, o := range []fusebox.Outcome{fusebox.Success, fusebox.Failure, fusebox.Ignored} {
		l := newCellLab(t)
		old := l.allow()
		older := l.allow()
		l.trip()
		if old.Record(o) {
			t.Errorf("%v of a closed era accepted while open", o)
		}
		p := l.probe()
		p.Record(fusebox.Success)
		l.succeed(2)
		l.want(fusebox.Closed)
		before := l.Snapshot()
		if older.Record(o) {
			t.Errorf("%v of a closed era accepted in the next", o)
		}
		after := l.Snapshot()
		if after.Counts != before.Counts || after.Totals.Late != 2 || after.Totals.Successes != before.Totals.Successes ||
			after.Totals.Failures != before.Totals.Failures || after.Totals.Ignored != before.Totals.Ignored {
			t.Errorf("a late %v changed more than late: %+v", o, after)
		}
	}
}

func TestAProbeOfAnOlderHalfOpenPeriodIsLate(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	a := l.probe()
	b := l.allow()
	b.Record(fusebox.Failure)
	q := l.probe()
	if a.Record(fusebox.Failure) {
		t.Error("a probe of an older period was accepted")
	}
	l.want(fusebox.HalfOpen)
	q.Cancel()
}

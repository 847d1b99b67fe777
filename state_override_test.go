package fusebox_test

import (
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Overrides.

func TestForceOpenRejectsUntilLifted(t *testing.T) {
	l := newCellLab(t)
	g := l.generation()
	l.Override(fusebox.ForceOpen, fusebox.Note{Reason: "failover", By: "ana"})
	l.want(fusebox.Open)
	r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseOverride)
	if r.Generation != g+1 || r.Mode != fusebox.ForceOpen || r.Note.By != "ana" || r.Note.Reason != "failover" || !r.Until.IsZero() {
		t.Errorf("record %+v", r)
	}
	l.advance(1000 * time.Hour)
	if got := l.refuse().RetryAfter(); got != 0 {
		t.Errorf("retry after %v, want 0", got)
	}
	s := l.Snapshot()
	if !s.Override || s.Note.By != "ana" || s.Mode != fusebox.ForceOpen || !s.Until.IsZero() || s.OpenPeriod != 0 {
		t.Errorf("snapshot %+v", s)
	}
	l.Lift(fusebox.Note{By: "bob"})
	l.want(fusebox.HalfOpen)
	r = l.wantRecord(fusebox.Open, fusebox.HalfOpen, fusebox.CauseLift)
	if r.Note.By != "bob" || r.Generation != g+2 {
		t.Errorf("record %+v", r)
	}
	if got := l.Snapshot().Totals.Open; got != 1000*time.Hour {
		t.Errorf("open for %v, want 1000h", got)
	}
	l.succeed(3)
	l.want(fusebox.Closed)
}

func TestForceOpenOfAnOpenBreakerKeepsTheGeneration(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.delivered()
	g := l.generation()
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	r := l.wantRecord(fusebox.Open, fusebox.Open, fusebox.CauseOverride)
	if r.Generation != g {
		t.Errorf("generation %d, want %d", r.Generation, g)
	}
	l.advance(time.Hour)
	l.want(fusebox.Open)
	l.refuse()
	l.Lift(fusebox.Note{})
	l.wantRecord(fusebox.Open, fusebox.HalfOpen, fusebox.CauseLift)
}

func TestForceOpenEndsAtUntil(t *testing.T) {
	l := newCellLab(t)
	l.Override(fusebox.ForceOpen, l.note(time.Minute))
	end := l.time().Add(time.Minute)
	if r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseOverride); !r.Until.Equal(end) {
		t.Errorf("until %v, want %v", r.Until, end)
	}
	if got := l.refuse().RetryAfter(); got != time.Minute {
		t.Errorf("retry after %v, want 1m", got)
	}
	if got := l.Snapshot().Until; !got.Equal(end) {
		t.Errorf("snapshot until %v, want %v", got, end)
	}
	l.advance(time.Minute - 1)
	l.refuse()
	l.advance(1)
	l.want(fusebox.HalfOpen)
	if s := l.Snapshot(); s.Override || s.Mode != fusebox.Enforce {
		t.Errorf("override still in the snapshot: %+v", s)
	}
	if r := l.delivered(); len(r) != 0 {
		t.Fatalf("reading left records: %v", r)
	}
	l.advance(time.Minute)
	p := l.allow()
	r := l.wantRecord(fusebox.Open, fusebox.HalfOpen, fusebox.CauseOverrideEnded)
	if !r.At.Equal(end) || r.Note.By != "ops" || r.Mode != fusebox.Enforce {
		t.Errorf("record %+v", r)
	}
	p.Cancel()
}

func TestAnOverrideWhoseUntilHasPassedSetsNothing(t *testing.T) {
	for _, left := range []time.Duration{0, -1, -time.Hour} {
		l := newCellLab(t)
		l.Override(fusebox.ForceOpen, l.note(left))
		l.want(fusebox.Closed)
		r := l.wantRecord(fusebox.Closed, fusebox.Closed, fusebox.CauseOverrideEnded)
		if r.Note.Reason != "maintenance" || l.Snapshot().Override {
			t.Errorf("record %+v", r)
		}
	}
}

func TestForceClosedAdmitsAndCountsAndNeverTrips(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.delivered()
	g := l.generation()
	l.Override(fusebox.ForceClosed, fusebox.Note{})
	l.want(fusebox.Closed)
	if r := l.wantRecord(fusebox.Open, fusebox.Closed, fusebox.CauseOverride); r.Generation != g+1 {
		t.Errorf("generation %d, want %d", r.Generation, g+1)
	}
	l.wantCounts(fusebox.Counts{})
	l.fail(100)
	l.want(fusebox.Closed)
	l.wantCounts(fusebox.Counts{Calls: 100, Failures: 100, Consecutive: 100})
	l.Lift(fusebox.Note{})
	l.want(fusebox.Closed)
	l.wantRecord(fusebox.Closed, fusebox.Closed, fusebox.CauseLift)
	l.fail(1)
	l.want(fusebox.Open)
}

func TestForceClosedOfAClosedBreakerEmptiesTheWindowAndKeepsTheGeneration(t *testing.T) {
	l := newCellLab(t)
	p := l.allow()
	l.succeed(5)
	l.fail(1)
	g := l.generation()
	l.Override(fusebox.ForceClosed, fusebox.Note{})
	if got := l.generation(); got != g {
		t.Errorf("generation %d, want %d", got, g)
	}
	if got := l.Snapshot().Counts.Calls; got != 0 {
		t.Errorf("%d calls in the window, want 0", got)
	}
	if !p.Record(fusebox.Success) {
		t.Error("a permit of the same generation was late")
	}
	l.wantCounts(fusebox.Counts{Calls: 1})
}

func TestForceClosedEndsAtUntilAndStaysClosed(t *testing.T) {
	l := newCellLab(t)
	l.Override(fusebox.ForceClosed, l.note(time.Minute))
	l.fail(10)
	l.delivered()
	end := l.time().Add(time.Minute)
	l.advance(2 * time.Minute)
	l.want(fusebox.Closed)
	l.fail(1)
	r := l.delivered()
	if len(r) != 2 || r[0].Cause != fusebox.CauseOverrideEnded || !r[0].At.Equal(end) || r[1].Cause != fusebox.CauseConsecutive {
		t.Errorf("records %v", r)
	}
	l.want(fusebox.Open)
}

func TestLiftWithoutAnOverrideLeavesARecord(t *testing.T) {
	l := newCellLab(t)
	l.Lift(fusebox.Note{By: "ana"})
	if r := l.wantRecord(fusebox.Closed, fusebox.Closed, fusebox.CauseLift); r.Note.By != "ana" {
		t.Errorf("record %+v", r)
	}
}

func TestOneOverrideReplacesAnother(t *testing.T) {
	for name, c := range map[string]struct {
		first, second fusebox.Mode
		want          fusebox.State
		lifted        fusebox.State
	}{
		"force-open by force-closed":   {fusebox.ForceOpen, fusebox.ForceClosed, fusebox.Closed, fusebox.Closed},
		"force-closed by force-open":   {fusebox.ForceClosed, fusebox.ForceOpen, fusebox.Open, fusebox.HalfOpen},
		"force-open by shadow":         {fusebox.ForceOpen, fusebox.Shadow, fusebox.HalfOpen, fusebox.HalfOpen},
		"force-open by off":            {fusebox.ForceOpen, fusebox.Off, fusebox.Closed, fusebox.Closed},
		"off by force-open":            {fusebox.Off, fusebox.ForceOpen, fusebox.Open, fusebox.HalfOpen},
		"force-open by enforce":        {fusebox.ForceOpen, fusebox.Enforce, fusebox.HalfOpen, fusebox.HalfOpen},
		"force-open by itself, longer": {fusebox.ForceOpen, fusebox.ForceOpen, fusebox.Open, fusebox.HalfOpen},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t)
			l.Override(c.first, l.note(time.Minute))
			l.Override(c.second, fusebox.Note{By: "second"})
			l.advance(time.Hour) // the first one's end means nothing any more
			l.want(c.want)
			if s := l.Snapshot(); s.Mode != c.second || s.Note.By != "second" {
				t.Errorf("mode %v by %q", s.Mode, s.Note.By)
			}
			l.Lift(fusebox.Note{})
			l.want(c.lifted)
		})
	}
}

func TestAnUnknownModePanics(t *testing.T) {
	l := newCellLab(t)
	defer func() {
		if recover() == nil {
			t.Error("Override took a mode that there is not")
		}
	}()
	l.Override(fusebox.ForceClosed+1, fusebox.Note{})
}

// Shadow.

func TestShadowAdmitsWhatItWouldReject(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.Mode = fusebox.Shadow })
	l.trip()
	before := l.Snapshot()
	l.record(1, fusebox.Success)
	l.record(2, fusebox.Failure)
	l.record(3, fusebox.Ignored)
	s := l.Snapshot()
	if want := (fusebox.WouldReject{Successes: 1, Failures: 2, Ignored: 3}); s.Totals.WouldReject != want {
		t.Errorf("would reject %+v, want %+v", s.Totals.WouldReject, want)
	}
	if s.Counts != before.Counts || s.Totals.Failures != before.Totals.Failures || s.Totals.Successes != 0 ||
		s.Totals.Ignored != 0 || s.Totals.RejectedOpen != 0 || s.State != fusebox.Open || s.Mode != fusebox.Shadow {
		t.Errorf("would-be rejections fed more than their own counters: %+v", s)
	}
}

func TestShadowCountsAnUnknownOutcomeAsAFailure(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.Mode = fusebox.Shadow })
	l.trip()
	l.record(1, fusebox.Outcome(99))
	if got := l.Snapshot().Totals.WouldReject; got != (fusebox.WouldReject{Failures: 1}) {
		t.Errorf("would reject %+v, want 1 failure", got)
	}
}

func TestAShadowPermitIsNeverLate(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.Mode = fusebox.Shadow })
	l.trip()
	a, b := l.allow(), l.allow()
	l.Reset(fusebox.Note{})
	if !a.Record(fusebox.Failure) {
		t.Error("late after a reset")
	}
	l.change(func(c *fusebox.Config) { c.Mode = fusebox.Enforce })
	if !b.Record(fusebox.Success) {
		t.Error("late after the mode changed")
	}
	l.wantCounts(fusebox.Counts{})
	if got := l.Snapshot().Totals.Late; got != 0 {
		t.Errorf("%d late, want 0", got)
	}
}

func TestShadowGoesThroughTheStatesByItsProbes(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.Mode, c.Probes = fusebox.Shadow, 1 })
	l.trip()
	p := l.probe()
	q := l.allow() // would have been rejected
	if !q.Record(fusebox.Failure) {
		t.Error("the shadowed call was late")
	}
	l.want(fusebox.HalfOpen)
	p.Record(fusebox.Success)
	l.want(fusebox.Closed)
	if got := l.Snapshot().Totals.WouldReject.Failures; got != 1 {
		t.Errorf("%d failures that would have been rejected, want 1", got)
	}
}

func TestAShadowOverrideOfAnOpenBreakerAdmitsUntilItEnds(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor = time.Hour })
	l.trip()
	l.refuse()
	l.Override(fusebox.Shadow, l.note(time.Minute))
	l.want(fusebox.Open)
	l.succeed(2)
	l.advance(time.Minute)
	l.refuse()
	if got := l.Snapshot().Totals; got.WouldReject.Successes != 2 || got.RejectedOpen != 2 {
		t.Errorf("totals %+v", got)
	}
}

// Off.

func TestOffAdmitsCountsNothingAndReadsClosed(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.Mode = fusebox.Off })
	l.fail(100)
	l.succeed(5)
	l.record(2, fusebox.Ignored)
	l.want(fusebox.Closed)
	s := l.Snapshot()
	if s.Counts != (fusebox.Counts{}) || s.Totals.Failures+s.Totals.Successes+s.Totals.Ignored+s.Totals.Late != 0 {
		t.Errorf("mode off counted: %+v", s)
	}
}

func TestAnOffOverrideClosesAndEndsAtUntil(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.delivered()
	l.Override(fusebox.Off, l.note(time.Minute))
	l.wantRecord(fusebox.Open, fusebox.Closed, fusebox.CauseOverride)
	l.fail(10)
	p := l.allow()
	l.advance(time.Minute)
	if !p.Record(fusebox.Failure) {
		t.Error("a call admitted in mode off was late")
	}
	l.wantCounts(fusebox.Counts{})
	l.fail(2)
	l.want(fusebox.Closed)
	l.wantRecord(fusebox.Closed, fusebox.Closed, fusebox.CauseOverrideEnded)
	l.fail(1)
	l.want(fusebox.Open)
}

func TestACallAdmittedBeforeOffCountsNothingWhenItEndsInOff(t *testing.T) {
	for _, o := range []fusebox.Outcome{fusebox.Success, fusebox.Failure, fusebox.Ignored} {
		l := newCellLab(t)
		p := l.allow()
		l.Override(fusebox.Off, fusebox.Note{})
		if !p.Record(o) {
			t.Errorf("%v of the same generation was late", o)
		}
		if s := l.Snapshot(); s.Counts.Calls != 0 || s.Totals.Successes+s.Totals.Failures+s.Totals.Ignored != 0 {
			t.Errorf("%v was counted in mode off: %+v", o, s)
		}
	}
}

func TestOffAsTheConfigsModeComesBackAfterAnOverride(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.Mode = fusebox.Off })
	l.Override(fusebox.Enforce, l.note(time.Minute))
	l.trip()
	l.advance(time.Minute)
	l.want(fusebox.Closed)
	if s := l.Snapshot(); s.Mode != fusebox.Off || s.Counts != (fusebox.Counts{}) {
		t.Errorf("snapshot %+v", s)
	}
	l.fail(10)
	l.want(fusebox.Closed)
}

// Reset.

func TestResetBeginsAnotherClosedGenerationEvenIfClosed(t *testing.T) {
	l := newCellLab(t)
	old := l.allow()
	l.succeed(3)
	l.fail(2)
	g := l.generation()
	l.Reset(fusebox.Note{Reason: "deploy", By: "ana"})
	r := l.wantRecord(fusebox.Closed, fusebox.Closed, fusebox.CauseReset)
	if r.Generation != g+1 || r.Counts.Calls != 5 || r.Counts.Failures != 2 || r.Note.Reason != "deploy" {
		t.Errorf("record %+v", r)
	}
	l.wantCounts(fusebox.Counts{})
	if old.Record(fusebox.Success) {
		t.Error("a permit from before the reset was accepted")
	}
	l.fail(2)
	l.want(fusebox.Closed) // the run has been cleared
	if got := l.Snapshot().Totals; got.Failures != 4 || got.Successes != 3 {
		t.Errorf("totals %+v", got)
	}
}

func TestResetForgetsGrowth(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	p.Record(fusebox.Failure)
	l.wantOpenFor(2 * time.Second)
	l.Reset(fusebox.Note{})
	l.want(fusebox.Closed)
	l.trip()
	l.wantOpenFor(time.Second)
}

func TestResetLiftsForcedStatesOnly(t *testing.T) {
	for mode, stays := range map[fusebox.Mode]bool{
		fusebox.ForceOpen: false, fusebox.ForceClosed: false,
		fusebox.Shadow: true, fusebox.Off: true, fusebox.Enforce: true,
	} {
		l := newCellLab(t)
		l.Override(mode, fusebox.Note{By: "ana"})
		l.Reset(fusebox.Note{})
		l.want(fusebox.Closed)
		if s := l.Snapshot(); s.Override != stays || stays && s.Mode != mode || !stays && s.Mode != fusebox.Enforce {
			t.Errorf("%v: override %v, mode %v", mode, s.Override, s.Mode)
		}
		l.succeed(1)
	}
}

package fusebox_test

import (
	"context"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Closed.

func TestClosedTripsAtTheFailureRate(t *testing.T) {
	l := newCellLab(t, cellRates)
	l.succeed(2)
	l.fail(1)
	l.want(fusebox.Closed)
	g := l.generation()
	l.fail(1)
	l.want(fusebox.Open)
	if got := l.generation(); got != g+1 {
		t.Errorf("generation %d, want %d", got, g+1)
	}
	r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseFailureRate)
	if want := cellEpoch.Add(time.Second); !r.Until.Equal(want) || !l.Snapshot().Until.Equal(want) {
		t.Errorf("until %v and %v, want %v", r.Until, l.Snapshot().Until, want)
	}
	l.wantCounts(fusebox.Counts{})
}

func TestClosedDoesNotTripBelowTheFailureRate(t *testing.T) {
	l := newCellLab(t, cellRates)
	l.succeed(3)
	l.fail(2)
	l.want(fusebox.Closed)
	l.wantCounts(fusebox.Counts{Calls: 5, Failures: 2, Consecutive: 2})
}

func TestClosedDoesNotTripByRateBelowMinCalls(t *testing.T) {
	l := newCellLab(t, cellRates)
	l.fail(3)
	l.want(fusebox.Closed)
	l.fail(1)
	l.want(fusebox.Open)
}

func TestClosedTripsByRateInAWindowOfCalls(t *testing.T) {
	l := newCellLab(t, cellRates, func(c *fusebox.Config) { c.WindowCalls = 4 })
	l.fail(1)
	l.succeed(4)
	l.advance(time.Hour)
	l.fail(1)
	l.want(fusebox.Closed)
	l.fail(1)
	r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseFailureRate)
	if r.Window != 0 || r.Counts.Calls != 4 {
		t.Errorf("window %v with %d calls, want 0 with 4", r.Window, r.Counts.Calls)
	}
}

func TestClosedTripsAtTheSlowRateByASlowSuccess(t *testing.T) {
	l := newCellLab(t, cellSlow)
	l.succeed(2)
	for range 2 {
		l.take(time.Second, fusebox.Success)
	}
	l.want(fusebox.Closed)
	l.take(time.Second, fusebox.Success)
	r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseSlowRate)
	if want := (fusebox.Counts{Calls: 5, Slow: 3}); r.Counts != want || r.Threshold != 0.6 {
		t.Errorf("counts %+v threshold %v, want %+v and 0.6", r.Counts, r.Threshold, want)
	}
}

func TestClosedTripsAtTheSlowRateByASlowFailure(t *testing.T) {
	l := newCellLab(t, cellSlow, func(c *fusebox.Config) { c.FailureRate = -1 })
	for range 4 {
		l.take(time.Second, fusebox.Failure)
	}
	r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseSlowRate)
	if r.Counts.Failures != 4 || r.Counts.Slow != 4 {
		t.Errorf("counts %+v, want 4 failures and 4 slow", r.Counts)
	}
}

func TestACallIsSlowFromSlowAfterOn(t *testing.T) {
	l := newCellLab(t, cellSlow)
	l.take(time.Second-1, fusebox.Success)
	l.wantCounts(fusebox.Counts{Calls: 1})
	l.take(time.Second, fusebox.Success)
	l.wantCounts(fusebox.Counts{Calls: 2, Slow: 1})
}

func TestASlowSuccessJudgesTheSlowRuleOnly(t *testing.T) {
	l := newCellLab(t, cellSlow)
	l.fail(2)
	l.succeed(1)
	l.take(time.Second, fusebox.Success) // 2 of 4 failed by now
	l.want(fusebox.Closed)
	l.fail(1)
	l.want(fusebox.Open)
}

func TestClosedTripsAfterARunOfFailures(t *testing.T) {
	l := newCellLab(t)
	l.fail(2)
	l.succeed(1)
	l.fail(2)
	l.want(fusebox.Closed)
	l.fail(1)
	r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseConsecutive)
	if r.Counts.Consecutive != 3 || r.Threshold != 3 {
		t.Errorf("run %d threshold %v, want 3 and 3", r.Counts.Consecutive, r.Threshold)
	}
}

func TestTimeDoesNotClearARunOfFailures(t *testing.T) {
	l := newCellLab(t)
	l.fail(2)
	l.advance(24 * time.Hour)
	l.wantCounts(fusebox.Counts{Consecutive: 2})
	l.fail(1)
	l.want(fusebox.Open)
}

func TestASlowSuccessClearsARunOfFailures(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.SlowAfter = time.Second })
	l.fail(2)
	l.take(time.Second, fusebox.Success)
	l.wantCounts(fusebox.Counts{Calls: 3, Failures: 2, Slow: 1})
	l.fail(2)
	l.want(fusebox.Closed)
}

func TestAnIgnoredOutcomeLeavesTheRunAndTheWindow(t *testing.T) {
	l := newCellLab(t)
	l.fail(2)
	l.record(1, fusebox.Ignored)
	l.wantCounts(fusebox.Counts{Calls: 2, Failures: 2, Consecutive: 2})
	if got := l.Snapshot().Totals.Ignored; got != 1 {
		t.Errorf("%d ignored, want 1", got)
	}
	l.fail(1)
	l.want(fusebox.Open)
}

func TestAFastSuccessNeverTripsThoughItCompletesMinCalls(t *testing.T) {
	l := newCellLab(t, cellRates)
	l.fail(3)
	l.succeed(1)
	l.want(fusebox.Closed)
	l.fail(1)
	r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseFailureRate)
	if want := (fusebox.Counts{Calls: 5, Failures: 4, Consecutive: 1}); r.Counts != want {
		t.Errorf("counts %+v, want %+v", r.Counts, want)
	}
}

func TestWithEveryRuleOffABreakerOnlyCounts(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.Consecutive, c.FailureRate = -1, -1 })
	l.fail(1000)
	l.want(fusebox.Closed)
	l.wantCounts(fusebox.Counts{Calls: 1000, Failures: 1000, Consecutive: 1000})
}

func TestOutcomesOlderThanTheWindowDoNotCount(t *testing.T) {
	l := newCellLab(t, cellRates)
	l.fail(3)
	l.advance(10 * time.Second)
	l.fail(1)
	l.want(fusebox.Closed)
	l.wantCounts(fusebox.Counts{Calls: 1, Failures: 1, Consecutive: 4})
}

// TripWhen.

func TestTripWhenReplacesTheRules(t *testing.T) {
	var seen []fusebox.Counts
	l := newCellLab(t, func(c *fusebox.Config) {
		c.SlowAfter = time.Second
		c.TripWhen = func(n fusebox.Counts) bool {
			seen = append(seen, n)
			return n.Failures == 30
		}
	})
	l.succeed(1) // not asked
	l.take(time.Second, fusebox.Success)
	l.fail(29)
	l.want(fusebox.Closed)
	if len(seen) != 30 || seen[0] != (fusebox.Counts{Calls: 2, Slow: 1}) {
		t.Errorf("asked %d times, first about %+v", len(seen), seen[0])
	}
	l.fail(1)
	r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseTripWhen)
	if want := (fusebox.Counts{Calls: 32, Failures: 30, Slow: 1, Consecutive: 30}); r.Counts != want {
		t.Errorf("counts %+v, want %+v", r.Counts, want)
	}
}

func TestTripWhenIsCalledWithoutTheLock(t *testing.T) {
	var l *cellLab
	l = newCellLab(t, func(c *fusebox.Config) {
		c.TripWhen = func(fusebox.Counts) bool { return l.State() == fusebox.Closed }
	})
	l.fail(1)
	l.want(fusebox.Open)
}

func TestTripWhenIsNotObeyedOnceTheGenerationHasChanged(t *testing.T) {
	for name, change := range map[string]func(*cellLab){
		"reset":        func(l *cellLab) { l.Reset(fusebox.Note{}) },
		"force-closed": func(l *cellLab) { l.Override(fusebox.ForceClosed, fusebox.Note{}) },
		"off":          func(l *cellLab) { l.Override(fusebox.Off, fusebox.Note{}) },
	} {
		t.Run(name, func(t *testing.T) {
			var l *cellLab
			l = newCellLab(t, func(c *fusebox.Config) {
				c.TripWhen = func(fusebox.Counts) bool { change(l); return true }
			})
			l.fail(1)
			l.want(fusebox.Closed)
		})
	}
}

func TestAPanicOfTripWhenPassesOnAndTheOutcomeCounts(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) {
		c.TripWhen = func(fusebox.Counts) bool { panic("no idea") }
	})
	func() {
		defer func() {
			if r := recover(); r != "no idea" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = l.Do(l.ctx(), func(context.Context) error { return errCell })
	}()
	l.wantCounts(fusebox.Counts{Calls: 1, Failures: 1, Consecutive: 1})
}

func TestTripWhenIsNotAskedWhileForcedClosed(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) {
		c.TripWhen = func(fusebox.Counts) bool { t.Error("asked"); return true }
	})
	l.Override(fusebox.ForceClosed, fusebox.Note{})
	l.fail(5)
	l.want(fusebox.Closed)
}

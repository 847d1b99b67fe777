package fusebox_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// sum returns the counts of buckets, which know of no run of failures.
func sum(buckets []fusebox.Bucket) (c fusebox.Counts) {
	for _, b := range buckets {
		c.Calls += b.Calls
		c.Failures += b.Failures
		c.Slow += b.Slow
	}
	return c
}

func TestInspectHasWhatTheSnapshotHas(t *testing.T) {
	l := newCellLab(t)
	check := func() {
		t.Helper()
		i, s := l.Inspect(), l.Snapshot()
		if i.Totals.Transitions == nil != (s.Totals.Transitions == nil) || !slices.Equal(i.Totals.Transitions, s.Totals.Transitions) {
			t.Errorf("transitions are %v, want %v", i.Totals.Transitions, s.Totals.Transitions)
		}
		i.Totals.Transitions, s.Totals.Transitions = nil, nil
		if a, b := inspectText(i.Snapshot), inspectText(s); a != b {
			t.Errorf("%s, want %s", a, b)
		}
		if h := l.History(); !slices.Equal(i.History, h) {
			t.Errorf("the history is %v, want %v", i.History, h)
		}
		if i.Config.Window != l.Config().Window || i.Config.OpenFor != l.Config().OpenFor {
			t.Errorf("the settings are %+v", i.Config)
		}
	}
	check()
	l.succeed(5)
	check()
	l.trip()
	check()
	l.advance(time.Hour)
	check()
	p := l.allow()
	check()
	p.Record(fusebox.Failure)
	check()
	l.Override(fusebox.ForceOpen, l.note(time.Minute))
	check()
}

func inspectText(s fusebox.Snapshot) string {
	return s.Last.String() + s.Name + s.State.String() + s.Mode.String() + s.Since.String() + s.Until.String() + s.OpenPeriod.String() +
		strconv.FormatUint(s.Totals.Successes+s.Totals.Failures<<20+s.Totals.RejectedOpen<<40, 10) + strconv.Itoa(s.Counts.Calls) + s.Note.By
}

func TestSinceIsWhenTheStateWasEntered(t *testing.T) {
	l := newCellLab(t)
	since := func(want time.Time) {
		t.Helper()
		if got := l.Snapshot().Since; !got.Equal(want) {
			t.Errorf("%v since %v, want %v", l.State(), got, want)
		}
	}
	since(cellEpoch)
	l.advance(time.Minute)
	l.succeed(1)
	since(cellEpoch)
	l.trip()
	since(cellEpoch.Add(time.Minute))
	l.advance(time.Hour) // it reads half-open since its deadline, though nobody has called
	since(cellEpoch.Add(time.Minute + time.Second))
	p := l.allow()
	since(cellEpoch.Add(time.Minute + time.Hour))
	l.advance(time.Second)
	p.Record(fusebox.Failure)
	since(cellEpoch.Add(time.Minute + time.Hour + time.Second))
	l.advance(time.Millisecond)
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	since(l.time())
}

func TestTheBucketsOfTheWindowAreShown(t *testing.T) {
	l := newCellLab(t, cellSlow, func(c *fusebox.Config) { c.Window, c.Buckets, c.MinCalls = 40*time.Second, 4, 100 })
	if w := l.Inspect().Window; !slices.Equal(w, make([]fusebox.Bucket, 4)) {
		t.Errorf("an empty window has the buckets %v", w)
	}
	l.succeed(3)
	l.fail(1)
	l.advance(8 * time.Second)
	l.take(2*time.Second, fusebox.Success) // ends in the next bucket
	l.advance(10 * time.Second)
	l.succeed(2) // counted without the lock
	want := []fusebox.Bucket{{}, {4, 1, 0}, {1, 0, 1}, {2, 0, 0}}
	if i := l.Inspect(); !slices.Equal(i.Window, want) || sum(i.Window) != withoutRun(i.Counts) {
		t.Errorf("the buckets are %v of %+v, want %v", i.Window, i.Counts, want)
	}
	l.advance(30 * time.Second) // nobody calls
	want = []fusebox.Bucket{{2, 0, 0}, {}, {}, {}}
	if w := l.Inspect().Window; !slices.Equal(w, want) {
		t.Errorf("later the buckets are %v, want %v", w, want)
	}
	w := l.Inspect().Window
	w[0].Calls = 99 // a copy
	if got := l.Inspect().Window; !slices.Equal(got, want) {
		t.Errorf("the buckets are %v, want %v", got, want)
	}
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	if i := l.Inspect(); i.Window != nil || i.TripWindow != nil || i.Trip.Cause != fusebox.CauseNone {
		t.Errorf("forced open, which is no trip: %v, %v, %v", i.Window, i.TripWindow, i.Trip)
	}
}

func withoutRun(c fusebox.Counts) fusebox.Counts {
	c.Consecutive = 0
	return c
}

func TestTheBucketsAtTheLastTripAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fusebox.Config)
		want   []fusebox.Bucket
	}{
		"by a rate":         {cellRates, []fusebox.Bucket{{}, {}, {}, {}, {}, {}, {}, {}, {3, 1, 0}, {3, 2, 0}}},
		"by a run":          {func(c *fusebox.Config) { c.Consecutive, c.FailureRate = 2, -1 }, []fusebox.Bucket{{}, {}, {}, {}, {}, {}, {}, {}, {3, 1, 0}, {3, 2, 0}}},
		"by TripWhen":       {func(c *fusebox.Config) { c.TripWhen = func(n fusebox.Counts) bool { return n.Failures == 3 } }, []fusebox.Bucket{{}, {}, {}, {}, {}, {}, {}, {}, {3, 1, 0}, {3, 2, 0}}},
		"of a count window": {func(c *fusebox.Config) { c.WindowCalls, c.FailureRate, c.Consecutive = 20, -1, 2 }, []fusebox.Bucket{{2, 0, 0}, {2, 1, 0}, {2, 2, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t, c.change)
			l.succeed(2)
			l.fail(1)
			l.advance(time.Second)
			l.succeed(1)
			l.fail(2)
			l.want(fusebox.Open)
			trip := l.wantRecord(fusebox.Closed, fusebox.Open, l.Snapshot().Last.Cause)
			check := func() {
				t.Helper()
				i := l.Inspect()
				if !slices.Equal(i.TripWindow, c.want) || i.Trip != trip {
					t.Errorf("%v at %v, want %v at %v", i.TripWindow, i.Trip, c.want, trip)
				}
				if sum(i.TripWindow) != withoutRun(i.Trip.Counts) {
					t.Errorf("the buckets %v are not %+v", i.TripWindow, i.Trip.Counts)
				}
			}
			check()
			for range 20 { // the history has lost the trip
				p := l.probe()
				p.Record(fusebox.Failure)
			}
			check()
			l.Reset(fusebox.Note{})
			check()
			if i := l.Inspect(); sum(i.Window).Calls != 0 {
				t.Errorf("after a reset the window is %v", i.Window)
			}
		})
	}
}

// What is shown, and kept of a trip, stays small where the window is not.
func TestAWindowOfManyBucketsIsShownInFew(t *testing.T) {
	for buckets, want := range map[int]int{100: 100, 101: 51, 1000: 100, 1 << 20: 100} {
		l := newCellLab(t, func(c *fusebox.Config) {
			c.Window, c.Buckets, c.Consecutive = time.Duration(buckets)*time.Second, buckets, 4
		})
		l.succeed(1)
		l.fail(3)
		l.advance(time.Duration(buckets-1) * time.Second)
		i := l.Inspect()
		n := len(i.Window)
		if n != want || i.Window[0] != (fusebox.Bucket{Calls: 4, Failures: 3}) || sum(i.Window) != withoutRun(i.Counts) {
			t.Errorf("%d buckets are %d, want %d: %v", buckets, n, want, i.Window)
			continue
		}
		l.fail(1)
		trip := l.Inspect()
		if w := trip.TripWindow; len(w) != want || w[want-1] != (fusebox.Bucket{Calls: 1, Failures: 1}) || sum(w) != withoutRun(trip.Trip.Counts) {
			t.Errorf("of %d at the trip: %v", buckets, w)
		}
	}
}

func TestInspectTellsOfProbes(t *testing.T) {
	l := newCellLab(t, cellSlow, func(c *fusebox.Config) {
		c.Consecutive, c.Probes, c.CloseAfter, c.ReopenAfter, c.ProbeTimeout = 3, 4, 3, 3, 30*time.Second
	})
	if i := l.Inspect(); i.Probes != nil {
		t.Errorf("there was no probe, and %v", i.Probes)
	}
	l.trip()
	first := l.probe()
	start := l.time()
	slow, ignored, out := l.allow(), l.allow(), l.allow()
	l.advance(500 * time.Millisecond)
	first.Record(fusebox.Success)
	cancelled := l.allow()
	cancelled.Cancel()
	l.advance(time.Second)
	slow.Record(fusebox.Success)
	ignored.Record(fusebox.Ignored)
	l.advance(time.Second)
	out.Renew() // the probe goes on
	l.advance(10 * time.Second)
	at := func(d time.Duration, lasted time.Duration, r fusebox.ProbeResult, slow bool) fusebox.Probe {
		return fusebox.Probe{At: start.Add(d), Duration: lasted, Result: r, Slow: slow}
	}
	want := []fusebox.Probe{
		at(0, 500*time.Millisecond, fusebox.ProbeSucceeded, false),
		at(500*time.Millisecond, 0, fusebox.ProbeIgnored, false),
		at(0, 1500*time.Millisecond, fusebox.ProbeFailed, true),
		at(0, 1500*time.Millisecond, fusebox.ProbeIgnored, false),
		at(0, 12500*time.Millisecond, fusebox.ProbeOut, false),
	}
	i := l.Inspect()
	if !slices.Equal(i.Probes, want) || i.Passed != 1 || i.Failed != 1 || i.Outstanding != 1 {
		t.Errorf("%d passed, %d failed, %d out:\n%v, want\n%v", i.Passed, i.Failed, i.Outstanding, i.Probes, want)
	}
	l.advance(time.Hour) // its lease, renewed after 2.5 s, ended meanwhile; nothing is committed
	want[4] = at(0, 32500*time.Millisecond, fusebox.ProbeExpired, false)
	for range 2 {
		if i := l.Inspect(); !slices.Equal(i.Probes, want) || i.Failed != 2 || i.Totals.Probes.Expired != 1 {
			t.Errorf("%d failed:\n%v, want\n%v", i.Failed, i.Probes, want)
		}
	}
	for range 9 { // the last eight are kept
		p := l.allow()
		p.Cancel()
	}
	if i := l.Inspect(); len(i.Probes) != 8 || !i.Probes[0].At.Equal(l.time()) {
		t.Errorf("%d probes, the first %+v", len(i.Probes), i.Probes[0])
	}
	l.allow()
	l.advance(time.Hour) // while eight are kept, one more is due
	if a, b := l.Inspect().Probes, l.Inspect().Probes; !slices.Equal(a, b) || len(a) != 8 || a[7].Result != fusebox.ProbeExpired {
		t.Errorf("two looks:\n%v\n%v", a, b)
	}
	totals := l.Snapshot().Totals.Probes
	if want := (fusebox.ProbeTotals{Succeeded: 1, Failed: 1, Ignored: 11, Expired: 2}); totals != want {
		t.Errorf("%+v, want %+v", totals, want)
	}
}

func TestTheNextPeriodIsWhatComes(t *testing.T) {
	draws := []float64{0.1, 0.9, 0.4, 0.7, 0.3, 0.6, 0.2, 0.8}
	l := newCellLab(t, func(c *fusebox.Config) {
		c.OpenFor, c.OpenForMax, c.OpenJitter, c.CloseAfter, c.Probes = time.Second, 4*time.Second, 0.5, 1, 1
		c.Rand = func() float64 { d := draws[0]; draws = append(draws[1:], d); return d }
	})
	number := func(want int) time.Duration {
		t.Helper()
		i := l.Inspect()
		if i.PeriodNumber != want {
			t.Errorf("%v: period %d, want %d", i.State, i.PeriodNumber, want)
		}
		return i.NextPeriod
	}
	next := number(0)
	l.trip()
	for n := 1; n <= 6; n++ {
		l.wantOpenFor(next)
		next = number(n)
		p := l.probe()
		if again := number(n); again != next {
			t.Errorf("half-open: the next period is %v, was %v", again, next)
		}
		p.Record(fusebox.Failure)
	}
	l.wantOpenFor(next)
	p := l.probe()
	p.Record(fusebox.Success)
	l.want(fusebox.Closed)
	next = number(0)
	l.trip() // soon: with the period last used
	l.wantOpenFor(next)
	p = l.probe()
	p.Record(fusebox.Success)
	l.advance(time.Minute)
	next = number(0)
	l.trip()
	l.wantOpenFor(next)
	if next >= 2*time.Second {
		t.Errorf("the period begins anew with %v", next)
	}
}

// A reopening that is due, but which no call has committed, has drawn no jitter for
// the period after it: that one is shown without.
func TestTheNextPeriodIsWithoutJitterWhereNoneIsDrawn(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) {
		c.OpenFor, c.OpenForMax, c.OpenJitter, c.Probes = time.Second, time.Minute, 0.5, 1
		c.Rand = func() float64 { return 0 }
	})
	l.trip()
	l.probe()
	l.advance(l.Config().ProbeTimeout)
	if i := l.Inspect(); i.State != fusebox.Open || i.OpenPeriod != time.Second || i.NextPeriod != 4*time.Second {
		t.Errorf("%v for %v, then %v", i.State, i.OpenPeriod, i.NextPeriod)
	}
}

func TestAPermitTellsWhetherItIsOfAProbe(t *testing.T) {
	var zero fusebox.Permit
	l := newCellLab(t)
	p := l.allow()
	if zero.Probe() || p.Probe() {
		t.Error("no probe, and it says so")
	}
	p.Record(fusebox.Success)
	l.trip()
	_, err := l.Allow(l.ctx())
	if !errors.Is(err, fusebox.ErrOpen) {
		t.Fatal(err)
	}
	p = l.probe()
	taken := p.Take()
	if !p.Probe() || !taken.Probe() {
		t.Error("a probe, and it does not say so")
	}
	if taken.Record(fusebox.Success); !taken.Probe() {
		t.Error("a probe that is finished, and it does not say so")
	}
	l.Override(fusebox.Shadow, fusebox.Note{})
	p = l.allow()
	if !p.Probe() {
		t.Error("a probe in shadow mode, and it does not say so")
	}
}

func TestProbeResultsAreText(t *testing.T) {
	for r := fusebox.ProbeOut; r <= fusebox.ProbeExpired; r++ {
		text, err := r.MarshalText()
		var back fusebox.ProbeResult
		if err != nil || string(text) != r.String() || back.UnmarshalText(text) != nil || back != r {
			t.Errorf("%d is %q and back %d: %v", r, text, back, err)
		}
	}
	var r fusebox.ProbeResult
	if r.UnmarshalText([]byte("dead")) == nil {
		t.Error("there is a result that is not")
	}
	if _, err := (fusebox.ProbeExpired + 1).MarshalText(); err == nil {
		t.Error("an unknown result has a text")
	}
}

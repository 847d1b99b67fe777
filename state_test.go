package fusebox_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// cellEpoch is where the scripted clocks of these tests begin.
var cellEpoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

var errCell = errors.New("backend down")

// cellLab is a breaker with a scripted clock and a list of its records. It
// draws no jitter, trips after three failures in a row, and is open for 1 s.
type cellLab struct {
	testing.TB
	*fusebox.Breaker

	mu      sync.Mutex
	now     time.Time
	records []fusebox.Transition
}

func newCellLab(tb testing.TB, changes ...func(*fusebox.Config)) *cellLab {
	tb.Helper()
	l := &cellLab{TB: tb, now: cellEpoch}
	c := fusebox.Config{
		Consecutive: 3,
		OpenJitter:  -1,
		Now:         l.time,
		Observers: []fusebox.Observer{{Transition: func(t fusebox.Transition) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.records = append(l.records, t)
		}}},
	}
	for _, change := range changes {
		change(&c)
	}
	l.Breaker = fusebox.New("payments", c)
	return l
}

func (l *cellLab) time() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *cellLab) advance(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

// allow asks for a call, which must be admitted.
func (l *cellLab) allow() fusebox.Permit {
	l.Helper()
	p, err := l.Allow(l.ctx())
	if err != nil {
		l.Fatalf("not admitted: %v", err)
	}
	return p.Take()
}

func (l *cellLab) ctx() context.Context { return context.Background() }

// refuse asks for a call, which must be rejected.
func (l *cellLab) refuse() *fusebox.OpenError {
	l.Helper()
	p, err := l.Allow(l.ctx())
	var open *fusebox.OpenError
	if !errors.As(err, &open) || !errors.Is(err, fusebox.ErrOpen) {
		l.Fatalf("Allow = %v, want an *OpenError", err)
	}
	if p.Finish(l.ctx(), nil) {
		l.Fatal("the permit of a rejected call could be finished")
	}
	return open
}

func (l *cellLab) record(n int, o fusebox.Outcome) {
	l.Helper()
	for range n {
		p := l.allow()
		if !p.Record(o) {
			l.Fatalf("%v was not accepted", o)
		}
	}
}

func (l *cellLab) succeed(n int) { l.Helper(); l.record(n, fusebox.Success) }
func (l *cellLab) fail(n int)    { l.Helper(); l.record(n, fusebox.Failure) }

// take makes one call that lasts d.
func (l *cellLab) take(d time.Duration, o fusebox.Outcome) {
	l.Helper()
	p := l.allow()
	l.advance(d)
	if !p.Record(o) {
		l.Fatalf("%v was not accepted", o)
	}
}

// trip brings a closed breaker to open.
func (l *cellLab) trip() {
	l.Helper()
	l.fail(3)
	l.want(fusebox.Open)
}

// probe lets the open period pass and returns the first probe.
func (l *cellLab) probe() fusebox.Permit {
	l.Helper()
	until := l.Snapshot().Until
	l.advance(until.Sub(l.time()))
	p := l.allow()
	l.want(fusebox.HalfOpen)
	return p.Take()
}

func (l *cellLab) want(s fusebox.State) {
	l.Helper()
	if got := l.State(); got != s {
		l.Fatalf("state is %v, want %v", got, s)
	}
	if got := l.Snapshot().State; got != s {
		l.Fatalf("state in the snapshot is %v, want %v", got, s)
	}
}

// wantOpenFor checks the planned length of the open period.
func (l *cellLab) wantOpenFor(d time.Duration) {
	l.Helper()
	l.want(fusebox.Open)
	if got := l.Snapshot().OpenPeriod; got != d {
		l.Fatalf("open period is %v, want %v", got, d)
	}
}

// delivered returns the records so far, and forgets them.
func (l *cellLab) delivered() []fusebox.Transition {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.records
	l.records = nil
	return r
}

// wantRecord checks that there is one new record, and returns it.
func (l *cellLab) wantRecord(from, to fusebox.State, cause fusebox.Cause) fusebox.Transition {
	l.Helper()
	r := l.delivered()
	if len(r) != 1 {
		l.Fatalf("%d records, want 1: %v", len(r), r)
	}
	if r[0].From != from || r[0].To != to || r[0].Cause != cause {
		l.Fatalf("record %v -> %v by %v, want %v -> %v by %v", r[0].From, r[0].To, r[0].Cause, from, to, cause)
	}
	return r[0]
}

func (l *cellLab) generation() uint64 { return l.Snapshot().Generation }

func (l *cellLab) wantCounts(want fusebox.Counts) {
	l.Helper()
	if got := l.Snapshot().Counts; got != want {
		l.Fatalf("counts are %+v, want %+v", got, want)
	}
}

// change reconfigures the breaker.
func (l *cellLab) change(change func(*fusebox.Config)) {
	l.Helper()
	c := l.Config()
	change(&c)
	if err := l.Reconfigure(c); err != nil {
		l.Fatal(err)
	}
}

func (l *cellLab) note(left time.Duration) fusebox.Note {
	return fusebox.Note{Reason: "maintenance", By: "ops", Until: l.time().Add(left)}
}

func cellRates(c *fusebox.Config) { c.Consecutive, c.MinCalls = -1, 4 }

func cellSlow(c *fusebox.Config) {
	cellRates(c)
	c.SlowAfter = time.Second
}

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

// Open.

func TestOpenRejectsBeforeTheDeadline(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.advance(time.Second - 1)
	if err := l.refuse(); errors.Is(err, fusebox.ErrProbing) || err.State() != fusebox.Open {
		t.Errorf("rejected with %v (%v)", err, err.State())
	}
	if got := l.Snapshot().Totals; got.RejectedOpen != 1 || got.RejectedProbing != 0 {
		t.Errorf("%d rejected open and %d probing, want 1 and 0", got.RejectedOpen, got.RejectedProbing)
	}
	l.want(fusebox.Open)
}

func TestACallAtTheDeadlineIsTheFirstProbe(t *testing.T) {
	for _, after := range []time.Duration{0, 1, time.Hour} {
		l := newCellLab(t)
		l.trip()
		l.delivered()
		g := l.generation()
		l.advance(time.Second + after)
		p := l.allow()
		r := l.wantRecord(fusebox.Open, fusebox.HalfOpen, fusebox.CauseDeadline)
		if !r.At.Equal(l.time()) || !r.Until.IsZero() {
			t.Errorf("at %v until %v, want %v and zero", r.At, r.Until, l.time())
		}
		s := l.Snapshot()
		if s.Generation != g+1 || s.Outstanding != 1 || s.State != fusebox.HalfOpen {
			t.Errorf("generation %d, %d outstanding, %v; want %d, 1, half-open", s.Generation, s.Outstanding, s.State, g+1)
		}
		if s.Totals.Open != time.Second {
			t.Errorf("open for %v in all, want 1s", s.Totals.Open)
		}
		p.Cancel()
	}
}

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

// Lazy time.

func TestForcingAnOverdueBreakerOpenDoesNotCountTheTimeItReadHalfOpen(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.advance(time.Hour)
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	if got := l.Snapshot().Totals.Open; got != time.Second {
		t.Errorf("open for %v, want the 1s of its period", got)
	}
	l.advance(time.Minute)
	l.Lift(fusebox.Note{})
	if got := l.Snapshot().Totals.Open; got != time.Minute+time.Second {
		t.Errorf("open for %v, want 1m1s", got)
	}
}

func TestReadingCommitsNothing(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.delivered()
	l.advance(time.Hour)
	before := l.Snapshot()
	for range 3 {
		l.want(fusebox.HalfOpen)
	}
	if after := l.Snapshot(); after.Generation != before.Generation || after.Outstanding != 0 || after.Last.To != fusebox.Open {
		t.Errorf("reading changed the breaker: %+v", after)
	}
	if !before.Until.IsZero() {
		t.Errorf("half-open until %v", before.Until)
	}
	if before.Totals.Open != time.Second {
		t.Errorf("open for %v, want 1s", before.Totals.Open)
	}
	if r := l.delivered(); len(r) != 0 {
		t.Errorf("reading left records: %v", r)
	}
}

func TestEveryOperationCommitsWhatIsDue(t *testing.T) {
	for name, do := range map[string]func(*cellLab){
		"Override":    func(l *cellLab) { l.Override(fusebox.Enforce, fusebox.Note{}) },
		"Lift":        func(l *cellLab) { l.Lift(fusebox.Note{}) },
		"Reset":       func(l *cellLab) { l.Reset(fusebox.Note{}) },
		"Reconfigure": func(l *cellLab) { l.change(func(*fusebox.Config) {}) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t)
			l.trip()
			p := l.probe()
			defer p.Cancel()
			due := l.time().Add(30 * time.Second)
			l.delivered()
			l.advance(31 * time.Second)
			do(l)
			r := l.delivered()
			if len(r) != 2 || r[0].Cause != fusebox.CauseProbeExpired || !r[0].At.Equal(due) {
				t.Errorf("records %v, want probe-expired at %v first", r, due)
			}
		})
	}
}

func TestAClockThatGoesBackStandsStill(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	l.advance(-time.Hour)
	l.want(fusebox.HalfOpen)
	p.Record(fusebox.Failure)
	l.wantOpenFor(2 * time.Second)
	err := l.refuse()
	if got := err.RetryAfter(); got != 2*time.Second {
		t.Errorf("retry after %v, want 2s", got)
	}
	l.advance(time.Hour + 2*time.Second)
	q := l.allow()
	q.Cancel()
}

func TestAClockBeforeTheBirthOfTheBreakerStandsStill(t *testing.T) {
	l := newCellLab(t)
	l.advance(-time.Hour)
	l.succeed(1)
	l.wantCounts(fusebox.Counts{Calls: 1})
	l.trip()
	if got := l.Snapshot().Until; !got.Equal(cellEpoch.Add(time.Second)) {
		t.Errorf("until %v, want a second after the birth", got)
	}
	l.refuse()
}

func TestACallAfterTheDeadlineWasSeenIsAProbeThoughTheClockWentBack(t *testing.T) {
	l := newCellLab(t)
	old := l.allow()
	l.trip()
	l.advance(2 * time.Second)
	old.Record(fusebox.Failure) // late, but under the lock: 2 s have been seen
	l.advance(-1900 * time.Millisecond)
	l.want(fusebox.HalfOpen)
	p := l.allow()
	p.Cancel()
}

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

// Reconfigure.

func TestReconfigureKeepsStateGenerationWindowAndRun(t *testing.T) {
	l := newCellLab(t)
	p := l.allow()
	l.succeed(2)
	l.fail(2)
	g := l.generation()
	l.change(func(c *fusebox.Config) { c.Consecutive = 4 })
	if r := l.wantRecord(fusebox.Closed, fusebox.Closed, fusebox.CauseReconfigured); r.Generation != g {
		t.Errorf("generation %d, want %d", r.Generation, g)
	}
	l.wantCounts(fusebox.Counts{Calls: 4, Failures: 2, Consecutive: 2})
	if !p.Record(fusebox.Failure) {
		t.Error("a permit of the same generation was late")
	}
	l.want(fusebox.Closed)
	l.fail(1)
	l.want(fusebox.Open)
}

func TestReconfigureToAnotherWindowEmptiesItButNotTheRun(t *testing.T) {
	for name, change := range map[string]func(*fusebox.Config){
		"Window":      func(c *fusebox.Config) { c.Window = time.Minute },
		"Buckets":     func(c *fusebox.Config) { c.Buckets = 5 },
		"WindowCalls": func(c *fusebox.Config) { c.WindowCalls = 50 },
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t)
			l.succeed(5)
			l.fail(2)
			l.change(change)
			l.wantCounts(fusebox.Counts{Consecutive: 2})
			l.fail(1)
			l.want(fusebox.Open)
		})
	}
	t.Run("successes after it count", func(t *testing.T) {
		l := newCellLab(t)
		l.succeed(5)
		l.change(func(c *fusebox.Config) { c.WindowCalls = 50 })
		l.succeed(2)
		l.wantCounts(fusebox.Counts{Calls: 2})
		l.change(func(c *fusebox.Config) { c.WindowCalls = 0 })
		l.succeed(3)
		l.wantCounts(fusebox.Counts{Calls: 3})
		if got := l.Snapshot().Totals.Successes; got != 10 {
			t.Errorf("%d successes in all, want 10", got)
		}
	})
}

func TestReconfigureBringsTheDeadlineNearerAndNeverOut(t *testing.T) {
	t.Run("nearer", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor = time.Minute })
		l.trip()
		l.advance(time.Second)
		l.change(func(c *fusebox.Config) { c.OpenFor = 5 * time.Second })
		l.wantOpenFor(5 * time.Second)
		l.advance(4*time.Second - 1)
		l.refuse()
		l.advance(1)
		p := l.allow()
		p.Cancel()
	})
	t.Run("not out", func(t *testing.T) {
		l := newCellLab(t)
		l.trip()
		l.change(func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = time.Minute, time.Hour })
		l.wantOpenFor(time.Second)
	})
	t.Run("with the draw of the period", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) {
			c.OpenFor, c.OpenJitter = time.Minute, 0.5
			c.Rand = func() float64 { return 0.25 } // 0.75 of it
		})
		l.trip()
		l.wantOpenFor(45 * time.Second)
		l.change(func(c *fusebox.Config) { c.OpenFor = 40 * time.Second })
		l.wantOpenFor(30 * time.Second)
	})
	t.Run("with the growth of the period", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = 10*time.Second, time.Hour })
		l.trip()
		p := l.probe()
		p.Record(fusebox.Failure)
		l.wantOpenFor(20 * time.Second)
		l.change(func(c *fusebox.Config) { c.OpenFor = 3 * time.Second })
		l.wantOpenFor(6 * time.Second)
	})
	t.Run("to the past", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor = time.Minute })
		l.trip()
		l.advance(10 * time.Second)
		l.change(func(c *fusebox.Config) { c.OpenFor = time.Second })
		l.want(fusebox.HalfOpen)
		p := l.allow()
		p.Cancel()
	})
	t.Run("from an open period without end", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor = math.MaxInt64 })
		l.trip()
		l.advance(time.Hour)
		l.refuse()
		l.change(func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = time.Second, time.Second })
		p := l.allow()
		p.Cancel()
	})
	t.Run("not of a forced one", func(t *testing.T) {
		l := newCellLab(t)
		l.Override(fusebox.ForceOpen, fusebox.Note{})
		l.change(func(c *fusebox.Config) { c.OpenFor = time.Millisecond })
		l.advance(time.Hour)
		l.refuse()
	})
}

func TestReconfigureBringsTheEndOfALeaseNearerAndNeverOut(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	l.change(func(c *fusebox.Config) { c.ProbeTimeout = time.Hour })
	l.advance(10 * time.Second)
	l.want(fusebox.HalfOpen)
	l.change(func(c *fusebox.Config) { c.ProbeTimeout = 11 * time.Second })
	l.advance(time.Second)
	l.want(fusebox.Open)
	if p.Record(fusebox.Success) {
		t.Error("accepted after the end of its lease")
	}

	l = newCellLab(t)
	l.trip()
	p = l.probe()
	l.change(func(c *fusebox.Config) { c.ProbeTimeout = time.Hour })
	l.advance(30 * time.Second)
	l.want(fusebox.Open)
}

func TestLimitsLoweredInHalfOpenDoNotWedge(t *testing.T) {
	t.Run("CloseAfter below the successes so far", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.CloseAfter = 10 })
		l.trip()
		p := l.probe()
		p.Record(fusebox.Success)
		l.succeed(3)
		l.change(func(c *fusebox.Config) { c.CloseAfter = 2 })
		l.want(fusebox.HalfOpen)
		q := l.allow()
		l.refuse()
		q.Record(fusebox.Success)
		l.want(fusebox.Closed)
	})
	t.Run("ReopenAfter below the failures so far", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.CloseAfter, c.ReopenAfter = 10, 5 })
		l.trip()
		p := l.probe()
		p.Record(fusebox.Failure)
		l.fail(3)
		l.change(func(c *fusebox.Config) { c.CloseAfter, c.ReopenAfter = 1, 1 })
		l.want(fusebox.HalfOpen)
		l.fail(1)
		l.want(fusebox.Open)
	})
	t.Run("Probes below those outstanding", func(t *testing.T) {
		l := newCellLab(t)
		l.trip()
		a := l.probe()
		b, c := l.allow(), l.allow()
		l.change(func(c *fusebox.Config) { c.Probes = 1 })
		l.refuse()
		a.Record(fusebox.Success)
		l.refuse()
		b.Record(fusebox.Success)
		c.Record(fusebox.Success)
		l.want(fusebox.Closed)
	})
}

func TestReconfigureWithAnInvalidConfigChangesNothing(t *testing.T) {
	l := newCellLab(t)
	before := l.Config()
	err := l.Reconfigure(fusebox.Config{Probes: -1, FailureRate: 2})
	var field *fusebox.ConfigError
	if !errors.As(err, &field) {
		t.Fatalf("Reconfigure = %v, want a *ConfigError", err)
	}
	if after := l.Config(); after.Probes != before.Probes || after.FailureRate != before.FailureRate {
		t.Errorf("the settings changed")
	}
	if r := l.delivered(); len(r) != 0 {
		t.Errorf("records %v, want none", r)
	}
}

func TestReconfigureKeepsClockDrawAndObservers(t *testing.T) {
	l := newCellLab(t)
	if err := l.Reconfigure(fusebox.Config{Consecutive: 3, OpenJitter: -1}); err != nil {
		t.Fatal(err)
	}
	l.wantRecord(fusebox.Closed, fusebox.Closed, fusebox.CauseReconfigured)
	l.trip()
	if r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseConsecutive); !r.At.Equal(cellEpoch) {
		t.Errorf("at %v, want %v", r.At, cellEpoch)
	}
}

func TestReconfigureOfTheModeYieldsToAnOverride(t *testing.T) {
	l := newCellLab(t)
	l.Override(fusebox.Shadow, fusebox.Note{})
	l.change(func(c *fusebox.Config) { c.Mode = fusebox.Off })
	if got := l.Snapshot().Mode; got != fusebox.Shadow {
		t.Errorf("mode %v, want shadow", got)
	}
	l.Lift(fusebox.Note{})
	if got := l.Snapshot().Mode; got != fusebox.Off {
		t.Errorf("mode %v, want off", got)
	}
}

func TestReconfigureToOffClosesAnOpenBreaker(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.delivered()
	l.change(func(c *fusebox.Config) { c.Mode = fusebox.Off })
	l.wantRecord(fusebox.Open, fusebox.Closed, fusebox.CauseReconfigured)
	l.fail(5)
}

// Growth.

func TestEveryReopeningDoublesTheOpenPeriodUpToTheMaximum(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	for _, want := range []time.Duration{1, 2, 4, 5, 5, 5} {
		l.wantOpenFor(want * time.Second)
		p := l.probe()
		p.Record(fusebox.Failure)
	}
}

func TestAConstantOpenPeriodDoesNotGrow(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = 7*time.Second, 7*time.Second })
	l.trip()
	for range 5 {
		l.wantOpenFor(7 * time.Second)
		p := l.probe()
		p.Record(fusebox.Failure)
	}
}

func TestTheOpenPeriodIsScaledByTheJitterDrawn(t *testing.T) {
	draws := []float64{0, 0.5, 0.75, 0.25}
	l := newCellLab(t, func(c *fusebox.Config) {
		c.OpenFor, c.OpenForMax, c.OpenJitter = 10*time.Second, 10*time.Second, 0.2
		c.Rand = func() float64 {
			d := draws[0]
			draws = append(draws[1:], d)
			return d
		}
	})
	l.trip()
	for _, want := range []time.Duration{8000, 10000, 11000, 9000} {
		l.wantOpenFor(want * time.Millisecond)
		p := l.probe()
		p.Record(fusebox.Failure)
	}
}

func TestARandThatIsNoneIsReplaced(t *testing.T) {
	panics := false
	for name, random := range map[string]func() float64{
		"NaN":       math.NaN,
		"above one": func() float64 { return 2 },
		"one":       func() float64 { return 1 },
		"negative":  func() float64 { return -1 },
		"panics": func() float64 {
			if panics {
				panic("no entropy")
			}
			return 0.5
		},
	} {
		t.Run(name, func(t *testing.T) {
			panics = false
			l := newCellLab(t, func(c *fusebox.Config) {
				c.OpenFor, c.OpenForMax, c.OpenJitter, c.Rand = 10*time.Second, 10*time.Second, 0.2, random
			})
			panics = true
			l.trip()
			for range 10 {
				if got := l.Snapshot().OpenPeriod; got < 8*time.Second || got > 12*time.Second {
					t.Fatalf("open period %v, want 8s to 12s", got)
				}
				p := l.probe()
				p.Record(fusebox.Failure)
			}
			if got := l.Snapshot().Totals.Panics; (got > 0) != (name == "panics") {
				t.Errorf("%d panics counted", got)
			}
		})
	}
}

func TestATripSoonAfterTheCloseGoesOnWithThePeriodLastUsed(t *testing.T) {
	for name, c := range map[string]struct {
		stableAfter, closed, want time.Duration
	}{
		"at once":           {0, 0, 2 * time.Second},
		"at the last":       {0, 10 * time.Second, 2 * time.Second},
		"later":             {0, 10*time.Second + 1, time.Second},
		"within a long one": {time.Hour, time.Hour, 2 * time.Second},
		"negative":          {-1, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t, func(x *fusebox.Config) { x.StableAfter = c.stableAfter })
			l.trip()
			p := l.probe()
			p.Record(fusebox.Failure)
			l.wantOpenFor(2 * time.Second)
			p = l.probe()
			p.Record(fusebox.Success)
			l.succeed(2)
			l.want(fusebox.Closed)
			l.advance(c.closed)
			l.trip()
			l.wantOpenFor(c.want)
			p = l.probe()
			p.Record(fusebox.Failure)
			l.wantOpenFor(2 * c.want)
		})
	}
}

func TestHugeDurationsSaturate(t *testing.T) {
	t.Run("OpenFor", func(t *testing.T) {
		for _, jitter := range []float64{-1, 1} {
			l := newCellLab(t, func(c *fusebox.Config) {
				c.OpenFor, c.OpenJitter = math.MaxInt64-1, jitter
				c.Rand = func() float64 { return 0.999 }
			})
			l.advance(time.Hour)
			l.trip()
			l.advance(100 * 365 * 24 * time.Hour)
			l.want(fusebox.Open)
			if got := l.refuse().RetryAfter(); got < 0 {
				t.Errorf("retry after %v", got)
			}
			if s := l.Snapshot(); s.Totals.Open < 0 || s.OpenPeriod < 0 {
				t.Errorf("negative durations in %+v", s)
			}
		}
	})
	t.Run("growth", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = 1, math.MaxInt64 })
		l.trip()
		for range 62 {
			before := l.Snapshot().OpenPeriod
			p := l.probe()
			p.Record(fusebox.Failure)
			l.want(fusebox.Open)
			if after := l.Snapshot().OpenPeriod; after != 0 && after < before {
				t.Fatalf("open period went from %v to %v", before, after)
			} else if after == 0 {
				break // without end
			}
		}
		l.refuse()
	})
	t.Run("growth from half the maximum", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = math.MaxInt64/2+10, math.MaxInt64 })
		l.trip()
		l.Override(fusebox.ForceOpen, fusebox.Note{})
		l.Lift(fusebox.Note{})
		l.fail(1)
		l.want(fusebox.Open)
		l.refuse()
	})
	t.Run("ProbeTimeout", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.ProbeTimeout = math.MaxInt64 })
		l.trip()
		p := l.probe()
		l.advance(100 * 365 * 24 * time.Hour)
		l.want(fusebox.HalfOpen)
		p.Renew()
		if !p.Record(fusebox.Success) {
			t.Error("the lease ended")
		}
	})
	t.Run("SlowAfter and StableAfter", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.SlowAfter, c.StableAfter = math.MaxInt64, math.MaxInt64 })
		l.take(time.Hour, fusebox.Success)
		l.wantCounts(fusebox.Counts{Calls: 1})
		l.trip()
	})
	t.Run("Until", func(t *testing.T) {
		l := newCellLab(t)
		l.Override(fusebox.ForceOpen, fusebox.Note{Until: cellEpoch.AddDate(5000, 0, 0)})
		l.advance(time.Hour)
		l.refuse()
	})
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

// The records of a whole life chain.

func TestRecordsChain(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	p.Record(fusebox.Failure)
	p = l.probe()
	p.Record(fusebox.Success)
	l.succeed(2)
	l.Override(fusebox.ForceOpen, l.note(time.Minute))
	l.advance(time.Hour)
	l.Reset(fusebox.Note{})
	l.change(func(*fusebox.Config) {})
	state, generation := fusebox.Closed, uint64(0)
	records := l.delivered()
	for i, r := range records {
		if r.From != state || r.Generation < generation || r.From != r.To && r.Generation != generation+1 {
			t.Errorf("record %d does not follow the one before it: %v", i, r)
		}
		state, generation = r.To, r.Generation
	}
	if len(records) != 9 {
		t.Errorf("%d records, want 9", len(records))
	}
	var counted uint64
	for _, c := range l.Snapshot().Totals.Transitions {
		counted += c.Count
	}
	if counted != uint64(len(records)) {
		t.Errorf("totals count %d transitions, want %d", counted, len(records))
	}
}

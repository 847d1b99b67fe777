package fusebox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// The helpers that several files share: the lab of state_*_test.go first, the lab
// and the clock of the regressions and scripts after it.

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

func (l *cellLab) wantTotals(successes, failures, ignored, late uint64) {
	l.Helper()
	t := l.Snapshot().Totals
	if t.Successes != successes || t.Failures != failures || t.Ignored != ignored || t.Late != late {
		l.Fatalf("%d successes, %d failures, %d ignored, %d late; want %d, %d, %d, %d",
			t.Successes, t.Failures, t.Ignored, t.Late, successes, failures, ignored, late)
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

// Each test of a file regression_*_test.go holds the right behaviour where
// software of this kind has been found wrong, under the number of the case. The
// cases that are scripts stand in testdata/breaker.bt.

var (
	errCase    = errors.New("down")
	errCaseOdd = errors.New("odd")
)

// caseLab is a breaker with a scripted clock and a list of its records.
type caseLab struct {
	testing.TB
	*fusebox.Breaker
	clock *caseClock

	mu      sync.Mutex
	records []fusebox.Transition
}

// newCase returns a breaker with the settings of a cfg line of a case file.
func newCase(tb testing.TB, config string, changes ...func(*fusebox.Config)) *caseLab {
	tb.Helper()
	c, err := btConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	l := &caseLab{TB: tb, clock: newCaseClock()}
	c.Now = l.clock.Now
	c.Observers = []fusebox.Observer{{Transition: func(t fusebox.Transition) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.records = append(l.records, t)
	}}}
	for _, change := range changes {
		change(&c)
	}
	l.Breaker = fusebox.New("payments", c)
	return l
}

// call makes a call that returns err.
func (l *caseLab) call(err error) error {
	return l.Do(context.Background(), func(context.Context) error { return err })
}

// calls makes n calls, which must be admitted and return err.
func (l *caseLab) calls(n int, err error) {
	l.Helper()
	for range n {
		if got := l.call(err); got != err { //nolint:errorlint // it comes back unchanged
			l.Fatalf("Do = %v, want %v", got, err)
		}
	}
}

// allow asks for a permit, which must be given.
func (l *caseLab) allow() *fusebox.Permit {
	l.Helper()
	p, err := l.Allow(context.Background())
	if err != nil {
		l.Fatalf("not admitted: %v", err)
	}
	kept := p.Take()
	return &kept
}

// refused asks for a permit, which must not be given.
func (l *caseLab) refused() *fusebox.OpenError {
	l.Helper()
	_, err := l.Allow(context.Background())
	var open *fusebox.OpenError
	if !errors.As(err, &open) {
		l.Fatalf("Allow = %v, want an *OpenError", err)
	}
	return open
}

// halfOpen brings a closed breaker that trips at one failure to where the next
// call is a probe.
func (l *caseLab) halfOpen() {
	l.Helper()
	l.calls(1, errCase)
	l.want(fusebox.Open)
	l.clock.Set(l.Snapshot().Until)
	l.want(fusebox.HalfOpen)
}

func (l *caseLab) want(s fusebox.State) {
	l.Helper()
	if got := l.State(); got != s {
		l.Fatalf("state is %v, want %v", got, s)
	}
}

func (l *caseLab) wantOutstanding(n int) {
	l.Helper()
	if got := l.Snapshot().Outstanding; got != n {
		l.Fatalf("%d probes are outstanding, want %d", got, n)
	}
}

func (l *caseLab) wantCounts(want fusebox.Counts) {
	l.Helper()
	if got := l.Snapshot().Counts; got != want {
		l.Fatalf("counts are %+v, want %+v", got, want)
	}
}

// wantEvents compares all changes of state so far, written like "CO,OH".
func (l *caseLab) wantEvents(want string) {
	l.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var got []string
	for _, t := range l.records {
		if t.From != t.To {
			got = append(got, btState(t.From)+btState(t.To))
		}
	}
	if s := strings.Join(got, ","); s != want {
		l.Fatalf("changes of state are %s, want %s", s, want)
	}
}

func (l *caseLab) change(change func(*fusebox.Config)) {
	l.Helper()
	c := l.Config()
	change(&c)
	if err := l.Reconfigure(c); err != nil {
		l.Fatal(err)
	}
}

// caseSoon fails the test if f does not return: it waits for itself.
func caseSoon(tb testing.TB, f func()) {
	tb.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done) // also after Goexit
		f()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		tb.Fatal("deadlock")
	}
}

// caseRecover runs f and returns what it panics with.
func caseRecover(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// caseFullError is how a policy inside refuses a call.
type caseFullError struct{ retry time.Duration }

func (e *caseFullError) Error() string             { return "bulkhead is full" }
func (e *caseFullError) Rejected() bool            { return true }
func (e *caseFullError) RetryAfter() time.Duration { return e.retry }

// caseBulkhead is a bulkhead of a given size that does not wait.
type caseBulkhead chan struct{}

func (b caseBulkhead) Do(ctx context.Context, fn func(context.Context) error) error {
	select {
	case b <- struct{}{}:
	default:
		return &caseFullError{}
	}
	defer func() { <-b }()
	return fn(ctx)
}

// caseFinished returns how many calls have finished.
func caseFinished(t fusebox.Totals) uint64 { return t.Successes + t.Failures + t.Ignored + t.Late }

// caseClock is a clock that moves when told to. It may go back.
type caseClock struct {
	mu  sync.Mutex
	now time.Time
}

func newCaseClock() *caseClock {
	return &caseClock{now: time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)}
}

// Now returns the present time of the clock.
func (c *caseClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set sets the clock.
func (c *caseClock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Advance moves the clock on.
func (c *caseClock) Advance(d time.Duration) { c.Set(c.Now().Add(d)) }

func caseKeys(r *fusebox.Registry) (keys []string) {
	for key := range r.All() {
		keys = append(keys, key)
	}
	return keys
}

// cellBadError is an error whose text cannot be had.
type cellBadError struct{}

func (cellBadError) Error() string { panic("no text") }

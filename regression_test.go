package fusebox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Each test holds the right behaviour where software of this kind has been
// found wrong, under the number of the case. The cases that are scripts stand
// in testdata/breaker.bt.

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
func caseSoon(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done) // also after Goexit
		f()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("deadlock")
	}
}

// caseRandom returns a source for a random test. The seed is printed if the
// test fails, and taken back from CASE_SEED.
func caseRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("CASE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("CASE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
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

// caseTimeout is a timeout for each call.
func caseTimeout(d time.Duration) fusebox.Policy {
	return fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return fn(ctx)
	})
}

// TestC1LateResultsOfAnyEraChangeNothing goes through every pair of eras, one
// that issues a permit and one in which it is finished, with every outcome.
func TestC1LateResultsOfAnyEraChangeNothing(t *testing.T) {
	toHalfOpen := func(l *caseLab) {
		l.clock.Advance(10 * time.Second)
		l.allow()
	}
	pairs := map[string]struct{ before, between func(*caseLab) }{
		"closed, now open":      {func(*caseLab) {}, func(l *caseLab) { l.calls(1, errCase) }},
		"closed, now half-open": {func(*caseLab) {}, func(l *caseLab) { l.calls(1, errCase); toHalfOpen(l) }},
		"closed, now closed by reset": {func(*caseLab) {}, func(l *caseLab) {
			l.Reset(fusebox.Note{})
		}},
		"closed, now closed by probes": {func(*caseLab) {}, func(l *caseLab) {
			l.halfOpen()
			l.calls(2, nil)
		}},
		"closed, now forced open":         {func(*caseLab) {}, func(l *caseLab) { l.Override(fusebox.ForceOpen, fusebox.Note{}) }},
		"half-open, now open":             {(*caseLab).halfOpen, func(l *caseLab) { l.calls(1, errCase) }},
		"half-open, now the next one":     {(*caseLab).halfOpen, func(l *caseLab) { l.calls(1, errCase); toHalfOpen(l) }},
		"half-open, now closed by reset":  {(*caseLab).halfOpen, func(l *caseLab) { l.Reset(fusebox.Note{}) }},
		"half-open, now closed by force":  {(*caseLab).halfOpen, func(l *caseLab) { l.Override(fusebox.ForceClosed, fusebox.Note{}) }},
		"half-open, now forced open":      {(*caseLab).halfOpen, func(l *caseLab) { l.Override(fusebox.ForceOpen, fusebox.Note{}) }},
		"half-open, its lease now at end": {(*caseLab).halfOpen, func(l *caseLab) { l.clock.Advance(10 * time.Second) }},
	}
	ends := map[string]func(*fusebox.Permit) bool{
		"success":      func(p *fusebox.Permit) bool { return p.Record(fusebox.Success) },
		"failure":      func(p *fusebox.Permit) bool { return p.Record(fusebox.Failure) },
		"ignored":      func(p *fusebox.Permit) bool { return p.Record(fusebox.Ignored) },
		"slow success": func(p *fusebox.Permit) bool { return p.RecordAfter(fusebox.Success, time.Hour) },
		"error":        func(p *fusebox.Permit) bool { return p.Finish(context.Background(), errCase) },
		"no error":     func(p *fusebox.Permit) bool { return p.Finish(context.Background(), nil) },
	}
	for pair, eras := range pairs {
		for end, finish := range ends {
			t.Run(pair+"/"+end, func(t *testing.T) {
				l := newCase(t, "consec=1 openfor=10s probes=2 close=2", func(c *fusebox.Config) { c.SlowAfter = time.Minute })
				eras.before(l)
				late := l.allow()
				eras.between(l)
				before := l.Snapshot()
				if finish(late) {
					t.Error("a late result was accepted")
				}
				after := l.Snapshot()
				if after.Totals.Late != before.Totals.Late+1 {
					t.Errorf("late went from %d to %d", before.Totals.Late, after.Totals.Late)
				}
				after.Totals = before.Totals
				// The end of a lease may be committed only now: the record is new, the breaker is not.
				after.Last, after.Generation = before.Last, before.Generation
				if !reflect.DeepEqual(before, after) {
					t.Errorf("changed from\n%+v to\n%+v", before, after)
				}
			})
		}
	}
}

// TestC9APermitIsFinishedOnce tries every pair of ways to finish one.
func TestC9APermitIsFinishedOnce(t *testing.T) {
	ctx := context.Background()
	ends := map[string]func(*fusebox.Permit) bool{
		"Finish":      func(p *fusebox.Permit) bool { return p.Finish(ctx, errCase) },
		"Record":      func(p *fusebox.Permit) bool { return p.Record(fusebox.Failure) },
		"RecordAfter": func(p *fusebox.Permit) bool { return p.RecordAfter(fusebox.Failure, time.Second) },
		"success":     func(p *fusebox.Permit) bool { return p.Record(fusebox.Success) },
		"Cancel":      func(p *fusebox.Permit) bool { p.Cancel(); return false },
		"Take":        func(p *fusebox.Permit) bool { p.Take(); return false },
	}
	for first, end := range ends {
		for second, again := range ends {
			t.Run(first+", then "+second, func(t *testing.T) {
				for _, halfOpen := range []bool{false, true} {
					l := newCase(t, "consec=1 openfor=10s probes=3", func(c *fusebox.Config) { c.ReopenAfter = 9 })
					if halfOpen {
						l.halfOpen()
					} else {
						l.change(func(c *fusebox.Config) { c.Consecutive = 9 })
					}
					p := l.allow()
					accepted := end(p)
					if want := first != "Cancel" && first != "Take"; accepted != want {
						t.Errorf("the first was accepted: %v, want %v", accepted, want)
					}
					before := l.Snapshot()
					if again(p) {
						t.Error("the second was accepted")
					}
					p.Renew()
					if after := l.Snapshot(); !reflect.DeepEqual(before, after) {
						t.Errorf("changed from\n%+v to\n%+v", before, after)
					}
				}
			})
		}
	}
	var zero fusebox.Permit
	for name, end := range ends {
		if end(&zero) {
			t.Errorf("%s of the zero Permit was accepted", name)
		}
	}
}

// TestC12LostProbesDoNotWedge loses every probe of many periods in a row.
func TestC12LostProbesDoNotWedge(t *testing.T) {
	for _, reopen := range []int{1, 2, 3} {
		l := newCase(t, "consec=1 openfor=10s probes=3 close=3 ttl=30s", func(c *fusebox.Config) { c.ReopenAfter = reopen })
		l.calls(1, errCase)
		for range 50 {
			l.clock.Advance(10 * time.Second)
			for range 3 {
				l.allow() // and never finish it
			}
			l.clock.Advance(30*time.Second - 1)
			l.refused()
			l.clock.Advance(1)
			l.want(fusebox.Open)
		}
		l.clock.Advance(10 * time.Second)
		l.calls(3, nil)
		l.want(fusebox.Closed)
		if got := l.Snapshot().Totals.Probes.Expired; got != uint64(50*reopen) {
			t.Errorf("with ReopenAfter %d: %d probes expired, want %d", reopen, got, 50*reopen)
		}
	}
}

func TestC15AProbeThatAnInnerPolicyRefusesGivesItsSlotBack(t *testing.T) {
	bulkhead := make(caseBulkhead, 1)
	l := newCase(t, "consec=1 openfor=10s probes=1")
	l.halfOpen()
	guarded := fusebox.Chain(l.Breaker, bulkhead)

	bulkhead <- struct{}{} // another key's call
	ran := false
	err := guarded.Do(context.Background(), func(context.Context) error { ran = true; return nil })
	var full *caseFullError
	if !errors.As(err, &full) || errors.Is(err, fusebox.ErrOpen) || ran {
		t.Fatalf("Do = %v (ran: %v), want the bulkhead's refusal", err, ran)
	}
	l.wantOutstanding(0)
	l.want(fusebox.HalfOpen)

	<-bulkhead
	if err := guarded.Do(context.Background(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	l.want(fusebox.Closed)
}

func TestC15RefusalsOfAnyKindInsideAreIgnored(t *testing.T) {
	inner := newCase(t, "consec=1 openfor=10s")
	inner.calls(1, errCase)
	ok := func(context.Context) error { return nil }
	for name, refusal := range map[string]error{
		"bulkhead":        &caseFullError{},
		"wrapped":         fmt.Errorf("call: %w", &caseFullError{time.Second}),
		"joined":          errors.Join(errCase, &caseFullError{}),
		"another breaker": inner.Do(context.Background(), ok),
		"wrapped breaker": fmt.Errorf("call: %w", inner.Do(context.Background(), ok)),
	} {
		l := newCase(t, "consec=1 openfor=10s probes=1")
		l.calls(3, refusal)
		l.want(fusebox.Closed)
		l.wantCounts(fusebox.Counts{})
		l.halfOpen()
		l.calls(3, refusal)
		l.want(fusebox.HalfOpen)
		l.wantOutstanding(0)
		if got := l.Snapshot().Totals.Ignored; got != 6 {
			t.Errorf("%s: %d ignored, want 6", name, got)
		}
	}
}

func TestC16EveryExitPathSettles(t *testing.T) {
	type exit func(ctx context.Context, cancel func(), b fusebox.Policy)
	do := func(fn func(ctx context.Context, cancel func()) error) exit {
		return func(ctx context.Context, cancel func(), b fusebox.Policy) {
			_ = b.Do(ctx, func(ctx context.Context) error { return fn(ctx, cancel) })
		}
	}
	returns := func(err error) exit {
		return do(func(context.Context, func()) error { return err })
	}
	for name, row := range map[string]struct {
		exit exit
		want fusebox.State
	}{
		"returns nil":             {returns(nil), fusebox.Closed},
		"returns an error":        {returns(errCase), fusebox.Open},
		"wrapped ignored error":   {returns(fmt.Errorf("x: %w", fusebox.Ignore(errCase))), fusebox.HalfOpen},
		"refusal inside":          {returns(&caseFullError{}), fusebox.HalfOpen},
		"body cannot be read":     {returns(io.ErrUnexpectedEOF), fusebox.Open},
		"cancelled before":        {func(ctx context.Context, cancel func(), b fusebox.Policy) { cancel(); returns(nil)(ctx, cancel, b) }, fusebox.HalfOpen},
		"cancelled during":        {do(func(ctx context.Context, cancel func()) error { cancel(); return ctx.Err() }), fusebox.HalfOpen},
		"cancelled, still nil":    {do(func(_ context.Context, cancel func()) error { cancel(); return nil }), fusebox.Closed},
		"panics":                  {do(func(context.Context, func()) error { panic("x") }), fusebox.Open},
		"panics, cancelled":       {do(func(_ context.Context, cancel func()) error { cancel(); panic("x") }), fusebox.HalfOpen},
		"Goexit":                  {do(func(context.Context, func()) error { runtime.Goexit(); return nil }), fusebox.Open},
		"Goexit, cancelled":       {do(func(_ context.Context, cancel func()) error { cancel(); runtime.Goexit(); return nil }), fusebox.HalfOpen},
		"classifier panics":       {returns(errCaseOdd), fusebox.Open},
		"not found, an answer":    {func(ctx context.Context, _ func(), b fusebox.Policy) { caseNotFound(ctx, b) }, fusebox.Closed},
		"a permit never finished": {func(ctx context.Context, _ func(), b fusebox.Policy) { caseForgets(ctx, b.(*fusebox.Breaker)) }, fusebox.Open},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCase(t, "consec=1 openfor=10s probes=1", func(c *fusebox.Config) {
				c.Classify = func(ctx context.Context, err error) fusebox.Outcome {
					if err == errCaseOdd { //nolint:errorlint // this very error
						panic("classifier")
					}
					return fusebox.DefaultClassify(ctx, err)
				}
			})
			for range 3 {
				l.Reset(fusebox.Note{})
				l.halfOpen()
				ctx, cancel := context.WithCancel(context.Background())
				caseSoon(t, func() {
					_ = caseRecover(func() { row.exit(ctx, cancel, l.Breaker) })
				})
				cancel()
				l.wantOutstanding(0)
				l.want(row.want)
				if row.want == fusebox.Open {
					if wait := l.refused().RetryAfter(); wait != 10*time.Second {
						t.Errorf("RetryAfter is %v, want 10s", wait)
					}
					l.clock.Advance(9 * time.Second)
					refusal := l.refused()
					l.clock.Advance(time.Hour)
					if wait := refusal.RetryAfter(); wait != 0 {
						t.Errorf("RetryAfter is %v after the deadline, want 0", wait)
					}
				}
				l.allow().Record(fusebox.Success)
				l.want(fusebox.Closed)
			}
		})
	}
}

// caseNotFound makes a call that gets a response which says "not found".
func caseNotFound(ctx context.Context, b fusebox.Policy) {
	_, _ = fusebox.Call(ctx, b, func(context.Context) (int, error) { return 404, nil })
}

// caseForgets makes a call of the form that the documentation of Permit
// advises, whose author has forgotten a return.
func caseForgets(ctx context.Context, b *fusebox.Breaker) {
	p, err := b.Allow(ctx)
	if err != nil {
		return
	}
	defer p.Record(fusebox.Failure)
}

func TestC25TheCallThatEndsTheOpenPeriodIsAProbe(t *testing.T) {
	for _, period := range []time.Duration{1, time.Millisecond, time.Second, 120 * time.Second, 1000 * time.Hour} {
		l := newCase(t, "consec=1 openfor="+period.String())
		for range 20 {
			l.calls(1, errCase)
			l.clock.Advance(period - 1)
			l.refused()
			l.clock.Advance(1)
			l.calls(1, errCase) // reopens
			l.clock.Advance(period)
			l.calls(1, nil)
			l.want(fusebox.Closed)
		}
	}
}

func TestC26OnlyTheProbesOfABurstAreAdmitted(t *testing.T) {
	const callers = 100
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	for _, probes := range []int{1, 3} {
		l := newCase(t, fmt.Sprintf("consec=1 openfor=10s probes=%d", probes))
		for range rounds {
			l.calls(1, errCase)
			l.clock.Advance(10 * time.Second)
			var running, refused, other atomic.Int32
			var asked, returned sync.WaitGroup
			asked.Add(callers)
			start, end := make(chan struct{}), make(chan struct{})
			for range callers {
				returned.Go(func() {
					<-start
					err := l.Do(context.Background(), func(context.Context) error {
						running.Add(1)
						asked.Done()
						<-end
						return nil
					})
					switch {
					case errors.Is(err, fusebox.ErrProbing):
						refused.Add(1)
						asked.Done()
					case err != nil:
						other.Add(1)
						asked.Done()
					}
				})
			}
			close(start)
			asked.Wait()
			if running.Load() != int32(probes) || refused.Load() != int32(callers-probes) || other.Load() != 0 {
				t.Fatalf("%d ran, %d were refused for want of a probe, %d otherwise; want %d, %d, 0",
					running.Load(), refused.Load(), other.Load(), probes, callers-probes)
			}
			l.wantOutstanding(probes)
			close(end)
			returned.Wait()
			l.want(fusebox.Closed)
		}
	}
}

func TestC29LookingTakesNothing(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=1")
	look := func() {
		for range 10 {
			l.State()
			l.Snapshot()
			l.History()
			l.Config()
			l.Breaker.Name()
			_, _ = json.Marshal(l.Snapshot())
		}
	}
	look()
	l.calls(1, errCase)
	refusal := l.refused()
	l.clock.Advance(10 * time.Second)
	look()
	_, _, _ = refusal.Error(), refusal.RetryAfter(), refusal.State()
	l.wantEvents("CO")
	p := l.allow()
	look()
	l.refused()
	l.clock.Advance(10 * time.Second) // the end of the lease
	look()
	l.wantEvents("CO,OH")
	l.want(fusebox.Open)
	if p.Record(fusebox.Success) {
		t.Error("a probe was accepted after its lease")
	}
	l.wantEvents("CO,OH,HO")
	look()
	l.clock.Advance(10 * time.Second)
	look()
	l.calls(1, nil)
	look()
	l.wantEvents("CO,OH,HO,OH,HC")
}

func TestC30TheTwoRejectionsCanBeToldApart(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=3 close=3")
	check := func(err error, probing bool, s fusebox.State) {
		t.Helper()
		if !errors.Is(err, fusebox.ErrOpen) || errors.Is(err, fusebox.ErrProbing) != probing {
			t.Errorf("%v: ErrOpen %v, ErrProbing %v; want true, %v",
				err, errors.Is(err, fusebox.ErrOpen), errors.Is(err, fusebox.ErrProbing), probing)
		}
		if _, rejected := fusebox.Rejected(err); !rejected {
			t.Errorf("Rejected(%v) is false", err)
		}
		var open *fusebox.OpenError
		if !errors.As(err, &open) || open.State() != s {
			t.Errorf("%v: state is not %v", err, s)
		}
	}
	l.calls(1, errCase)
	check(l.call(nil), false, fusebox.Open)
	l.clock.Advance(10 * time.Second)
	first := l.allow()
	l.allow()
	l.allow()
	check(l.call(nil), true, fusebox.HalfOpen)
	first.Record(fusebox.Failure) // one failure ends the period, whatever else is out
	check(l.call(nil), false, fusebox.Open)
	l.clock.Advance(10 * time.Second)
	l.calls(3, nil)
	l.want(fusebox.Closed)
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	check(fmt.Errorf("wrapped: %w", l.call(nil)), false, fusebox.Open)
}

// TestC41CountsEqualARecount drives windows of both kinds with random outcomes
// and clock steps in both directions.
func TestC41CountsEqualARecount(t *testing.T) {
	type outcome struct {
		bucket     int64
		fail, slow bool
	}
	for _, config := range []string{"count=3", "count=64", "window=3s buckets=3", "window=10s buckets=7", "window=1s buckets=1"} {
		t.Run(config, func(t *testing.T) {
			random := caseRandom(t)
			l := newCase(t, config, func(c *fusebox.Config) {
				c.SlowAfter = 100 * time.Millisecond
				c.TripWhen = func(fusebox.Counts) bool { return false }
			})
			c := l.Config()
			begin := l.clock.Now()
			width := c.Window / time.Duration(c.Buckets)
			var seen []outcome
			latest, run := int64(0), 0 // the latest bucket seen
			recount := func(present int64) (n fusebox.Counts) {
				from := 0
				if c.WindowCalls > 0 {
					from = max(len(seen)-c.WindowCalls, 0)
				}
				for _, o := range seen[from:] {
					if c.WindowCalls == 0 && o.bucket <= present-int64(c.Buckets) {
						continue
					}
					n.Calls++
					if o.fail {
						n.Failures++
					}
					if o.slow {
						n.Slow++
					}
				}
				n.Consecutive = run
				return n
			}
			for step := range 10_000 {
				switch random.IntN(20) {
				case 0:
					l.clock.Advance(-time.Duration(random.Int64N(int64(3 * time.Second))))
					if l.clock.Now().Before(begin) {
						l.clock.Set(begin)
					}
				case 1:
					l.clock.Advance(time.Duration(random.Int64N(int64(30 * time.Second))))
				case 2, 3, 4:
					l.clock.Advance(time.Duration(random.Int64N(int64(time.Second))))
				}
				bucket := max(latest, int64(l.clock.Now().Sub(begin)/width))
				if random.IntN(10) > 0 {
					o := outcome{bucket, random.IntN(3) == 0, random.IntN(3) == 0}
					p := l.allow()
					result, d := fusebox.Success, time.Duration(0)
					if o.fail {
						result = fusebox.Failure
					}
					if o.slow {
						d = c.SlowAfter
					}
					if accepted := o.slow || random.IntN(2) == 0; accepted {
						accepted = p.RecordAfter(result, d)
						if !accepted {
							t.Fatal("not accepted")
						}
					} else if !p.Record(result) {
						t.Fatal("not accepted")
					}
					seen = append(seen, o)
					if len(seen) > 2000 {
						seen = seen[1000:] // more than a window holds, or fell out long ago
					}
					if run++; !o.fail {
						run = 0
					}
				}
				if got, want := l.Snapshot().Counts, recount(bucket); got != want {
					t.Fatalf("step %d: counts are %+v, recounted %+v", step, got, want)
				}
				latest = bucket // the Snapshot has seen it
			}
		})
	}
}

func TestC43MinCallsAboveWindowCallsIsAnError(t *testing.T) {
	c := fusebox.Config{FailureRate: 0.5, MinCalls: 10, WindowCalls: 5}
	err, _ := caseRecover(func() { fusebox.New("x", c) }).(error)
	if err == nil || !strings.Contains(err.Error(), "MinCalls") || !strings.Contains(err.Error(), "WindowCalls") {
		t.Errorf("New panics with %v", err)
	}
	l := newCase(t, "ratio=0.5 min=4 count=4")
	before := l.Config()
	if err := l.Reconfigure(c); err == nil || !strings.Contains(err.Error(), "MinCalls") {
		t.Errorf("Reconfigure = %v", err)
	}
	if after := l.Config(); after.MinCalls != before.MinCalls || after.WindowCalls != before.WindowCalls {
		t.Errorf("a refused Reconfigure changed the settings to %+v", after)
	}
	small := newCase(t, "ratio=0.5 count=5") // MinCalls not given: it fits by itself
	small.calls(4, errCase)
	small.want(fusebox.Closed)
	small.calls(1, errCase)
	small.want(fusebox.Open)
}

// TestC49StepsOfTheWallClock sets a clock without a monotonic part back and
// forth in every state.
func TestC49StepsOfTheWallClock(t *testing.T) {
	for _, back := range []time.Duration{time.Nanosecond, time.Second, time.Hour, 50 * 365 * 24 * time.Hour} {
		l := newCase(t, "consec=2 window=10s openfor=10s probes=1 ttl=30s")
		l.clock.Advance(100 * time.Second)
		l.calls(1, errCase)
		l.clock.Advance(-back)
		l.calls(1, nil) // counted, and ends the run
		l.wantCounts(fusebox.Counts{Calls: 2, Failures: 1})
		l.calls(2, errCase)
		l.want(fusebox.Open)
		if wait := l.refused().RetryAfter(); wait != 10*time.Second {
			t.Errorf("back by %v: RetryAfter is %v, want 10s", back, wait)
		}
		l.clock.Advance(-back)
		if wait := l.refused().RetryAfter(); wait != 10*time.Second {
			t.Errorf("back by twice %v: RetryAfter is %v, want 10s", back, wait)
		}
		if text := l.refused().Error(); !strings.Contains(text, "retry in 10s") {
			t.Errorf("back by %v: text is %s", back, text)
		}
		l.clock.Set(l.Snapshot().Until)
		p := l.allow()
		l.clock.Advance(-back)
		l.want(fusebox.HalfOpen)
		l.refused()
		if !p.Record(fusebox.Success) {
			t.Errorf("back by %v: the probe was late", back)
		}
		l.want(fusebox.Closed)
		for _, r := range l.History() {
			if r.At.Before(l.History()[0].At) {
				t.Errorf("record %v is earlier than the first", r)
			}
		}
	}
}

func TestC51TheRatesOfNothingAreZero(t *testing.T) {
	l := newCase(t, "ratio=0.5 min=1 window=10s openfor=10s", func(c *fusebox.Config) { c.SlowAfter = time.Second })
	check := func(when string) {
		t.Helper()
		for _, rate := range []float64{l.Snapshot().Counts.FailureRate(), l.Snapshot().Counts.SlowRate()} {
			if rate != 0 || math.IsNaN(rate) {
				t.Errorf("%s: the rate of nothing is %v", when, rate)
			}
		}
	}
	check("fresh")
	l.calls(5, nil)
	l.clock.Advance(time.Hour)
	check("the window has passed")
	l.want(fusebox.Closed)
	l.calls(1, errCase)
	l.want(fusebox.Open)
	check("open")
	l.clock.Advance(10 * time.Second)
	check("half-open, as read")
	p := l.allow()
	check("half-open, as entered")
	p.Cancel()
	l.Reset(fusebox.Note{})
	check("reset")
	if c := (fusebox.Config{Buckets: -1}); c.Validate() == nil {
		t.Error("-1 buckets are accepted")
	}
	if c := (fusebox.Config{Window: 5, Buckets: 10}); c.Validate() == nil {
		t.Error("10 buckets in 5 ns are accepted")
	}
	if got := (fusebox.Counts{}).FailureRate(); got != 0 {
		t.Errorf("the rate of zero counts is %v", got)
	}
}

func TestC52NoSuccessTripsByTheFailureRate(t *testing.T) {
	for _, d := range []time.Duration{0, time.Second} { // fast, slow
		l := newCase(t, "ratio=0.5 min=4 window=10s", func(c *fusebox.Config) { c.SlowAfter, c.SlowRate = time.Second, 1 })
		l.calls(3, errCase)
		l.allow().RecordAfter(fusebox.Success, d)
		l.want(fusebox.Closed)
		l.calls(1, errCase)
		l.want(fusebox.Open)
	}
}

func TestC53RejectionsAreNoOutcomes(t *testing.T) {
	l := newCase(t, "ratio=0.5 min=4 window=60s openfor=10s probes=1")
	l.calls(4, errCase)
	for range 1000 {
		l.refused()
	}
	l.clock.Advance(10 * time.Second)
	p := l.allow()
	for range 1000 {
		l.refused()
	}
	l.wantCounts(fusebox.Counts{})
	p.Record(fusebox.Success)
	l.wantCounts(fusebox.Counts{})
	if n := l.Snapshot().Totals; n.Failures != 4 || n.RejectedOpen != 1000 || n.RejectedProbing != 1000 {
		t.Errorf("totals are %+v", n)
	}
}

func TestC55TheSlowRule(t *testing.T) {
	const ms = time.Millisecond
	l := newCase(t, "min=2 count=2", func(c *fusebox.Config) { c.SlowAfter, c.SlowRate = 20*ms, 0.5 })
	for _, d := range []time.Duration{10 * ms, 30 * ms} {
		l.want(fusebox.Closed)
		_ = l.Do(context.Background(), func(context.Context) error { l.clock.Advance(d); return nil })
	}
	l.want(fusebox.Open)
	last := l.Snapshot().Last
	if last.Cause != fusebox.CauseSlowRate || last.Counts != (fusebox.Counts{Calls: 2, Slow: 1}) || last.Threshold != 0.5 {
		t.Errorf("the record is %+v", last)
	}
}

func TestC55SlowCallsAreCountedUnderContention(t *testing.T) {
	const workers, each = 8, 1000
	for _, config := range []string{"window=10s", "count=20000"} {
		l := newCase(t, config, func(c *fusebox.Config) {
			c.SlowAfter = 25 * time.Millisecond
			c.TripWhen = func(fusebox.Counts) bool { return false }
		})
		var slow atomic.Int64
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(w), 1))
				for range each {
					d := time.Duration(1+random.IntN(50)) * time.Millisecond
					if d >= 25*time.Millisecond {
						slow.Add(1)
					}
					p, _ := l.Allow(context.Background())
					p.RecordAfter(fusebox.Success, d)
				}
			})
		}
		all.Wait()
		l.wantCounts(fusebox.Counts{Calls: workers * each, Slow: int(slow.Load())})
	}
}

func TestC56CancelledCallersAreIgnored(t *testing.T) {
	leave := func(l *caseLab, err error) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		_ = l.Do(ctx, func(context.Context) error { cancel(); return err })
	}
	reasons := map[string]error{
		"text only": errors.New("query: context canceled"),
		"wrapped":   fmt.Errorf("query: %w", context.Canceled),
		"any error": errCase,
	}
	for name, err := range reasons {
		t.Run(name, func(t *testing.T) {
			l := newCase(t, "consec=5 openfor=10s probes=1")
			for range 100 {
				leave(l, err)
			}
			l.want(fusebox.Closed)
			l.wantCounts(fusebox.Counts{})
			if got := l.Snapshot().Totals.Ignored; got != 100 {
				t.Errorf("%d ignored, want 100", got)
			}
			l.calls(5, errCase)
			l.clock.Advance(10 * time.Second)
			for range 100 {
				leave(l, err)
				l.want(fusebox.HalfOpen)
				l.wantOutstanding(0)
			}
			l.calls(1, nil)
			l.want(fusebox.Closed)
		})
	}
	t.Run("the server cancelled", func(t *testing.T) {
		l := newCase(t, "consec=5 openfor=10s")
		l.calls(5, fmt.Errorf("x: %w", context.Canceled))
		l.want(fusebox.Open)
	})
	t.Run("with a cause", func(t *testing.T) {
		l := newCase(t, "consec=1 openfor=10s")
		ctx, cancel := context.WithCancelCause(context.Background())
		_ = l.Do(ctx, func(context.Context) error { cancel(errCaseOdd); return context.Cause(ctx) })
		l.want(fusebox.Closed)
		l.wantCounts(fusebox.Counts{})
	})
	t.Run("a group of calls", func(t *testing.T) {
		l := newCase(t, "consec=2 openfor=10s")
		ctx, cancel := context.WithCancel(context.Background())
		var group sync.WaitGroup
		for range 20 { // the failure of one cancels its siblings
			group.Go(func() {
				_ = l.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			})
		}
		_ = l.call(errCase)
		cancel()
		group.Wait()
		l.want(fusebox.Closed)
	})
	t.Run("after a hang", func(t *testing.T) {
		l := newCase(t, "consec=1 openfor=10s", func(c *fusebox.Config) { c.SlowAfter = time.Second })
		for _, lasted := range []time.Duration{time.Second - 1, time.Second} {
			l.want(fusebox.Closed)
			ctx, cancel := context.WithCancel(context.Background())
			_ = l.Do(ctx, func(ctx context.Context) error { l.clock.Advance(lasted); cancel(); return ctx.Err() })
		}
		l.want(fusebox.Open)
		if n := l.Snapshot().Totals; n.Slow != 1 || n.Failures != 1 || n.Ignored != 1 {
			t.Errorf("totals are %+v", n)
		}
	})
}

func TestC57AContextThatIsDoneTakesNothing(t *testing.T) {
	expired, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	gone, leave := context.WithCancel(context.Background())
	leave()
	for _, ctx := range []context.Context{expired, gone} {
		l := newCase(t, "consec=3 openfor=10s probes=1")
		ask := func() {
			t.Helper()
			for range 10 {
				err := l.Do(ctx, func(context.Context) error { t.Error("called"); return errCase })
				if err != ctx.Err() { //nolint:errorlint // unchanged
					t.Errorf("Do = %v, want %v", err, ctx.Err())
				}
				if _, err := l.Allow(ctx); !errors.Is(err, ctx.Err()) {
					t.Errorf("Allow = %v", err)
				}
				if _, err := fusebox.Call(ctx, fusebox.Chain(l.Breaker, make(caseBulkhead, 1)), func(context.Context) (int, error) {
					t.Error("called")
					return 0, nil
				}); !errors.Is(err, ctx.Err()) {
					t.Errorf("Call = %v", err)
				}
			}
		}
		ask()
		l.want(fusebox.Closed)
		if n := l.Snapshot().Totals; caseFinished(n) != 0 {
			t.Errorf("totals are %+v", n)
		}
		l.calls(3, errCase)
		l.clock.Advance(10 * time.Second)
		ask()
		l.wantOutstanding(0)
		l.wantEvents("CO") // no probe, so no half-open
		l.calls(1, nil)
		l.want(fusebox.Closed)
	}
}

func TestC58ATimeoutUnderAnotherNameIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newCase(t, "consec=3 openfor=10s", func(c *fusebox.Config) { c.Now = nil })
		guarded := fusebox.Chain(l.Breaker, caseTimeout(50*time.Millisecond))
		for range 3 {
			l.want(fusebox.Closed)
			_ = guarded.Do(context.Background(), func(ctx context.Context) error {
				select {
				case <-ctx.Done():
				case <-time.After(60 * time.Millisecond):
				}
				return errors.New("code = Unknown desc = context deadline exceeded")
			})
		}
		l.want(fusebox.Open)
	})
}

func TestC59ADeadlineDuringTheCallIsAFailure(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, test := range []struct {
		name            string
		deadline, leave time.Duration // of the caller; 0: none
		slowAfter       time.Duration
		want            fusebox.State
	}{
		{"long budget", time.Second, 0, 0, fusebox.Open},
		{"tiny budget", 5 * time.Millisecond, 0, 0, fusebox.Open}, // there is no minimum budget
		{"caller left", time.Second, 500 * time.Millisecond, 0, fusebox.Closed},
		{"caller left early", time.Second, 500 * time.Millisecond, 501 * time.Millisecond, fusebox.Closed},
		{"caller left after a hang", time.Second, 500 * time.Millisecond, 500 * time.Millisecond, fusebox.Open},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newCase(t, "consec=1 openfor=10s", func(c *fusebox.Config) { c.Now, c.SlowAfter = nil, test.slowAfter })
				ctx, cancel := context.WithTimeout(context.Background(), test.deadline)
				defer cancel()
				if test.leave > 0 {
					defer time.AfterFunc(test.leave, cancel).Stop()
				}
				_ = l.Do(ctx, hang)
				l.want(test.want)
			})
		})
	}
}

func TestC62MarksAndListsSeeThroughWrappers(t *testing.T) {
	errX, errY := errors.New("x"), errors.New("y")
	list := func(ctx context.Context, err error) fusebox.Outcome {
		if errors.Is(err, errX) {
			return fusebox.Ignored
		}
		return fusebox.DefaultClassify(ctx, err)
	}
	wrap := map[string]func(error) error{
		"itself":       func(err error) error { return err },
		"wrapped":      func(err error) error { return fmt.Errorf("a: %w", err) },
		"joined":       func(err error) error { return errors.Join(errY, err) },
		"joined first": func(err error) error { return errors.Join(err, errY) },
		"both":         func(err error) error { return fmt.Errorf("a: %w", errors.Join(errY, fmt.Errorf("b: %w", err))) },
		"two verbs":    func(err error) error { return fmt.Errorf("a: %w, %w", errY, err) },
		"marked twice": fusebox.Ignore,
	}
	for name, wrapped := range wrap {
		l := newCase(t, "consec=1 openfor=10s")
		l.calls(3, wrapped(fusebox.Ignore(errX)))
		if l.State() != fusebox.Closed || l.Snapshot().Totals.Ignored != 3 {
			t.Errorf("%s: Ignore is not seen", name)
		}
		l = newCase(t, "consec=1 openfor=10s", func(c *fusebox.Config) { c.Classify = list })
		l.calls(3, wrapped(errX))
		if l.State() != fusebox.Closed || l.Snapshot().Totals.Ignored != 3 {
			t.Errorf("%s: the list is not obeyed", name)
		}
		marked := wrapped(fusebox.Ignore(errX))
		if !errors.Is(marked, errX) || marked.Error() != wrapped(errX).Error() {
			t.Errorf("%s: a mark hides the error: %v", name, marked)
		}
	}
	if fusebox.Ignore(nil) != nil {
		t.Error("Ignore(nil) is an error")
	}
}

func TestC64APanicOfTheClassifierIsAFailureAndPassesOn(t *testing.T) {
	asked := 0
	l := newCase(t, "consec=2 openfor=10s probes=1", func(c *fusebox.Config) {
		c.Classify = func(ctx context.Context, err error) fusebox.Outcome {
			asked++
			if err == errCaseOdd { //nolint:errorlint // this very error
				panic("classifier")
			}
			return fusebox.DefaultClassify(ctx, err)
		}
	})
	panics := func(call func()) {
		t.Helper()
		before := asked
		if v := caseRecover(call); v != "classifier" {
			t.Fatalf("panics with %v", v)
		}
		if asked != before+1 {
			t.Errorf("the classifier was asked %d times", asked-before)
		}
	}
	panics(func() { _ = l.call(errCaseOdd) })
	l.wantCounts(fusebox.Counts{Calls: 1, Failures: 1, Consecutive: 1})
	panics(func() {
		p := l.allow()
		defer p.Record(fusebox.Failure)
		p.Finish(context.Background(), errCaseOdd)
	})
	l.want(fusebox.Open)
	l.clock.Advance(10 * time.Second)
	panics(func() { _ = l.call(errCaseOdd) })
	l.wantOutstanding(0)
	l.want(fusebox.Open)
	l.clock.Advance(10 * time.Second)
	before := asked
	l.calls(1, nil) // a classifier of the user's is asked about nil too, once
	if asked != before+1 {
		t.Errorf("the classifier was asked %d times about nil", asked-before)
	}
	l.want(fusebox.Closed)
}

func TestC66APanicLeaksNothing(t *testing.T) {
	type own struct{ n int }
	for _, value := range []any{"x", errCase, &own{7}} {
		bulkhead := make(caseBulkhead, 2)
		l := newCase(t, "consec=3 openfor=10s probes=1")
		guarded := fusebox.Chain(bulkhead, l.Breaker)
		crash := func() {
			t.Helper()
			if v := caseRecover(func() {
				_ = guarded.Do(context.Background(), func(context.Context) error { panic(value) })
			}); v != value {
				t.Fatalf("recovered %v, want %v", v, value)
			}
		}
		crash()
		crash()
		if len(bulkhead) != 0 {
			t.Errorf("%d places of the bulkhead are lost", len(bulkhead))
		}
		l.wantCounts(fusebox.Counts{Calls: 2, Failures: 2, Consecutive: 2})
		crash()
		l.want(fusebox.Open)
		l.clock.Advance(10 * time.Second)
		crash()
		l.want(fusebox.Open)
		l.wantOutstanding(0)
	}
	t.Run("Goexit", func(t *testing.T) {
		l := newCase(t, "consec=3 openfor=10s probes=1")
		exit := func() {
			caseSoon(t, func() {
				_ = l.Do(context.Background(), func(context.Context) error { runtime.Goexit(); return nil })
			})
		}
		exit()
		exit()
		l.want(fusebox.Closed)
		exit()
		l.want(fusebox.Open)
		l.clock.Advance(10 * time.Second)
		exit()
		l.want(fusebox.Open)
		l.wantOutstanding(0)
	})
}

func TestC68APanicOfACallbackCorruptsNothing(t *testing.T) {
	crash := func() { panic("callback") }
	for name, change := range map[string]func(*fusebox.Config){
		"Transition": func(c *fusebox.Config) {
			c.Observers = append(c.Observers, fusebox.Observer{Transition: func(fusebox.Transition) { crash() }})
		},
		"Finished": func(c *fusebox.Config) {
			c.Observers = append(c.Observers, fusebox.Observer{Finished: func(fusebox.Completion) { crash() }})
		},
		"Rejected": func(c *fusebox.Config) {
			c.Observers = append(c.Observers, fusebox.Observer{Rejected: func(*fusebox.OpenError) { crash() }})
		},
		"Transition ends the goroutine": func(c *fusebox.Config) {
			c.Observers = append(c.Observers, fusebox.Observer{Transition: func(fusebox.Transition) { runtime.Goexit() }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCase(t, "consec=1 openfor=10s probes=1", change)
			call := func(err error) (got error) {
				caseSoon(t, func() { got = l.call(err) })
				return got
			}
			exits := strings.Contains(name, "goroutine")
			if got := call(errCase); got != errCase && !exits { //nolint:errorlint // unchanged
				t.Errorf("Do = %v, want the function's own error", got)
			}
			l.want(fusebox.Open)
			if got := call(nil); !errors.Is(got, fusebox.ErrOpen) {
				t.Errorf("Do = %v, want ErrOpen", got)
			}
			for range 3 { // the first may end in Goexit as the deadline is committed
				l.clock.Advance(10 * time.Second)
				call(nil)
			}
			l.want(fusebox.Closed)
			l.wantOutstanding(0)
			if !exits && l.Snapshot().Totals.Panics == 0 {
				t.Error("the panics are not counted")
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			for i, r := range l.records[1:] {
				if r.From != l.records[i].To {
					t.Errorf("the records do not chain: %v, %v", l.records[i], r)
				}
			}
		})
	}
	t.Run("TripWhen", func(t *testing.T) {
		l := newCase(t, "openfor=10s", func(c *fusebox.Config) {
			c.TripWhen = func(fusebox.Counts) bool { panic("rule") }
		})
		for n := 1; n <= 3; n++ {
			var v any
			caseSoon(t, func() { v = caseRecover(func() { _ = l.call(errCase) }) })
			if v != "rule" {
				t.Errorf("recovered %v", v)
			}
			l.wantCounts(fusebox.Counts{Calls: n, Failures: n, Consecutive: n})
		}
		l.calls(1, nil)
		l.want(fusebox.Closed)
	})
	t.Run("Rand", func(t *testing.T) {
		draws := 0
		l := newCase(t, "consec=1 openfor=10s", func(c *fusebox.Config) {
			c.OpenJitter = 0.5
			c.Rand = func() float64 {
				if draws++; draws > 1 {
					panic("rand")
				}
				return 0.5
			}
		})
		l.calls(1, errCase)
		l.want(fusebox.Open)
		l.clock.Advance(15 * time.Second)
		l.calls(1, nil)
		l.want(fusebox.Closed)
	})
	t.Run("the text of an error", func(t *testing.T) {
		l := newCase(t, "consec=1 openfor=10s")
		err := caseBadError{}
		if got := l.call(err); got != err { //nolint:errorlint // unchanged
			t.Errorf("Do = %v", got)
		}
		l.want(fusebox.Open)
		if len(l.History()) != 1 {
			t.Errorf("history is %v", l.History())
		}
	})
}

// caseBadError is an error whose text cannot be had.
type caseBadError struct{}

func (caseBadError) Error() string { panic("no text") }

func TestC70ACallbackMayUseTheBreaker(t *testing.T) {
	var l *caseLab
	use := func() {
		l.State()
		l.Snapshot()
		l.History()
		l.Config()
		l.Observe(fusebox.Observer{})()
	}
	l = newCase(t, "consec=1 openfor=10s", func(c *fusebox.Config) {
		c.Observers = append(c.Observers, fusebox.Observer{
			Transition: func(t fusebox.Transition) {
				use()
				if t.To == fusebox.Open && t.From != t.To {
					l.Reset(fusebox.Note{By: "callback"})
				}
			},
			Finished: func(fusebox.Completion) { use() },
			Rejected: func(*fusebox.OpenError) { use() },
		})
	})
	caseSoon(t, func() { l.calls(1, errCase) })
	l.wantEvents("CO,OC")
	l.want(fusebox.Closed)

	var stop func()
	deep := 0
	stop = l.Observe(fusebox.Observer{Transition: func(t fusebox.Transition) {
		use()
		switch deep++; deep {
		case 1:
			_ = l.call(nil)
			p, _ := l.Allow(context.Background())
			p.Cancel()
			l.Override(fusebox.ForceOpen, fusebox.Note{})
			_ = l.call(nil) // refused: Rejected uses the breaker as well
		case 2:
			l.Lift(fusebox.Note{})
			l.change(func(c *fusebox.Config) { c.Consecutive = 7 })
			stop()
		}
	}})
	caseSoon(t, func() { l.Override(fusebox.Shadow, fusebox.Note{}) })
	if deep != 2 {
		t.Errorf("the observer was told %d times, want 2: it has stopped itself", deep)
	}
}

func TestC71WhatACallbackSees(t *testing.T) {
	var l *caseLab
	var seen []fusebox.Transition
	l = newCase(t, "consec=3 openfor=10s probes=1", func(c *fusebox.Config) {
		c.Observers = append(c.Observers, fusebox.Observer{Transition: func(r fusebox.Transition) {
			seen = append(seen, r)
			if s := l.Snapshot(); s.State != r.To || s.Generation != r.Generation {
				t.Errorf("in the callback of %v the state is %v", r, s.State)
			}
			if r.To == fusebox.Open && l.Snapshot().Counts != (fusebox.Counts{}) {
				t.Errorf("counts while open are %+v", l.Snapshot().Counts)
			}
			if !r.At.Equal(l.clock.Now()) {
				t.Errorf("%v is of %v, and it is %v", r, r.At, l.clock.Now())
			}
		}})
	})
	l.calls(2, nil)
	l.calls(3, errCase)
	l.clock.Advance(10 * time.Second)
	l.calls(1, errCase)
	l.clock.Advance(10 * time.Second)
	l.calls(1, nil)
	want := []struct {
		cause  fusebox.Cause
		counts fusebox.Counts
		err    string
	}{
		{fusebox.CauseConsecutive, fusebox.Counts{Calls: 5, Failures: 3, Consecutive: 3}, "down"},
		{fusebox.CauseDeadline, fusebox.Counts{}, ""},
		{fusebox.CauseProbeFailed, fusebox.Counts{Calls: 1, Failures: 1, Consecutive: 1}, "down"},
		{fusebox.CauseDeadline, fusebox.Counts{}, ""},
		{fusebox.CauseProbesSucceeded, fusebox.Counts{Calls: 1}, ""},
	}
	if len(seen) != len(want) {
		t.Fatalf("%d records: %v", len(seen), seen)
	}
	for i, r := range seen {
		if r.Name != "payments" || r.Cause != want[i].cause || r.Counts != want[i].counts || r.LastError != want[i].err {
			t.Errorf("record %d is %+v, want %+v", i, r, want[i])
		}
		if r.To == fusebox.Open && !r.Until.Equal(r.At.Add(10*time.Second)) {
			t.Errorf("record %d is of %v, and plans to probe at %v", i, r.At, r.Until)
		}
		if i > 0 && r.Generation != seen[i-1].Generation+1 {
			t.Errorf("record %d has generation %d after %d", i, r.Generation, seen[i-1].Generation)
		}
	}
}

func TestC72RecordsComeInOrder(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=1")
	for range 1000 {
		l.calls(1, errCase)
		l.clock.Advance(10 * time.Second)
		l.calls(1, nil)
	}
	l.wantEvents(strings.TrimSuffix(strings.Repeat("CO,OH,HC,", 1000), ","))

	l = newCase(t, "consec=1 openfor=10s probes=2")
	var callers sync.WaitGroup
	for w := range 8 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 2))
			for range 2000 {
				err := errCase
				if random.IntN(2) == 0 {
					err = nil
				}
				_ = l.call(err)
				l.clock.Advance(time.Duration(random.Int64N(int64(5 * time.Second))))
			}
		})
	}
	callers.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.records) < 100 {
		t.Fatalf("only %d records: the test is not worth much", len(l.records))
	}
	last := fusebox.Transition{Generation: l.records[0].Generation - 1}
	for i, r := range l.records {
		if r.From != last.To || r.Generation != last.Generation+1 || r.At.Before(last.At) {
			t.Fatalf("record %d, %+v, comes after %+v", i, r, last)
		}
		last = r
	}
}

func TestC74ABreakerHoldsNoGoroutine(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	goroutines, before := runtime.NumGoroutine(), heap()
	for range 10_000 {
		b := fusebox.New("x", fusebox.Config{Consecutive: 1})
		_ = b.Do(context.Background(), func(context.Context) error { return errCase })
		if b.State() != fusebox.Open {
			t.Fatal("not open")
		}
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("heap has grown from %d to %d bytes", before, after)
	}
}

func TestC75NothingKeepsADroppedBreakerAlive(t *testing.T) {
	const n = 100
	collected := make(chan int, n)
	for i := range n {
		b := fusebox.New("x", fusebox.Config{Consecutive: 1, OpenFor: time.Hour, Observers: []fusebox.Observer{{
			Transition: func(fusebox.Transition) {},
			Rejected:   func(*fusebox.OpenError) {},
		}}})
		_ = b.Do(context.Background(), func(context.Context) error { return errCase })
		_ = b.Do(context.Background(), func(context.Context) error { return nil })
		b.Observe(fusebox.Observer{})
		runtime.AddCleanup(b, func(i int) { collected <- i }, i)
	}
	late := time.After(30 * time.Second)
	for got := 0; got < n; {
		runtime.GC()
		select {
		case <-collected:
			got++
		case <-late:
			t.Fatalf("%d of %d breakers were collected", got, n)
		}
	}
}

func TestC76ARegistryIsBoundedAndKeepsWhatIsOpen(t *testing.T) {
	clock := newCaseClock()
	r := &fusebox.Registry{MaxKeys: 100, MaxIdle: 10 * time.Minute, Now: clock.Now, Config: func(string) fusebox.Config {
		return fusebox.Config{Consecutive: 1, OpenFor: time.Hour, OpenForMax: time.Hour, OpenJitter: -1, Now: clock.Now}
	}}
	held, err := r.Get("k5").Allow(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		r.Get(fmt.Sprintf("k%d", 10+i))
	}
	if n := r.Stats().Keys; n > 100 {
		t.Errorf("%d keys, want at most 100", n)
	}
	if _, ok := r.Lookup("k5"); ok {
		t.Fatal("k5 is still there: the test is not worth much")
	}
	anew := r.Get("k5")
	if !held.Record(fusebox.Failure) {
		t.Error("the permit of an evicted breaker was not accepted by it")
	}
	if n := anew.Snapshot().Totals; caseFinished(n) != 0 || anew.State() != fusebox.Closed {
		t.Errorf("it was counted by the new breaker of that key: %+v", n)
	}

	open := r.Get("k1")
	_ = open.Do(context.Background(), func(context.Context) error { return errCase })
	for i := range 1000 {
		r.Get(fmt.Sprintf("other%d", i))
	}
	if n := r.Stats().Keys; n > 100 {
		t.Errorf("%d keys, want at most 100", n)
	}
	if b, ok := r.Lookup("k1"); !ok || b != open || b.State() != fusebox.Open {
		t.Error("an open breaker made room")
	}
	clock.Advance(30 * time.Minute)
	if r.Stats(); !slices.Contains(caseKeys(r), "k1") {
		t.Error("an open breaker was dropped as idle")
	}
	clock.Advance(30 * time.Minute)
	r.Stats()
	clock.Advance(15 * time.Minute)
	r.Stats()
	if slices.Contains(caseKeys(r), "k1") {
		t.Error("a breaker that is no longer open and idle was kept")
	}
}

func caseKeys(r *fusebox.Registry) (keys []string) {
	for key := range r.All() {
		keys = append(keys, key)
	}
	return keys
}

// caseFields are the fields of Config that Reconfigure can change, with the
// value that TestC80 changes each to.
var caseFields = map[string]any{
	"Window":       3 * time.Second,
	"Buckets":      3,
	"WindowCalls":  12,
	"MinCalls":     4,
	"FailureRate":  0.3,
	"SlowAfter":    50 * time.Millisecond,
	"SlowRate":     0.2,
	"Consecutive":  2,
	"TripWhen":     func(c fusebox.Counts) bool { return c.Calls > 2 },
	"OpenFor":      3 * time.Second,
	"OpenForMax":   3 * time.Second,
	"OpenJitter":   0.9,
	"Probes":       1,
	"CloseAfter":   1,
	"ReopenAfter":  4,
	"ProbeTimeout": time.Second,
	"StableAfter":  time.Hour,
	"Mode":         fusebox.Shadow,
	"Classify":     func(context.Context, error) fusebox.Outcome { return fusebox.Success },
}

// TestC80EveryFieldTakesPart changes the fields of Config one by one: Config
// shows the value, and the breaker acts on it just like one made with it.
func TestC80EveryFieldTakesPart(t *testing.T) {
	base := fusebox.Config{
		Window: 10 * time.Second, Buckets: 10, MinCalls: 8, FailureRate: 0.6,
		SlowAfter: 200 * time.Millisecond, SlowRate: 0.6, Consecutive: 5,
		OpenFor: time.Second, OpenForMax: 8 * time.Second, OpenJitter: 0.2,
		Probes: 3, CloseAfter: 3, ReopenAfter: 2, ProbeTimeout: 5 * time.Second, StableAfter: 2 * time.Second,
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[fusebox.Config]()) {
		if !field.IsExported() || slices.Contains([]string{"Now", "Rand", "Observers"}, field.Name) {
			continue
		}
		t.Run(field.Name, func(t *testing.T) {
			value, ok := caseFields[field.Name]
			if !ok {
				t.Fatal("a new field: give it a value in caseFields")
			}
			changed := base
			to := reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index)
			to.Set(reflect.ValueOf(value))

			unchanged := caseTrace(t, base, nil)
			asMade := caseTrace(t, changed, nil)
			reconfigured := caseTrace(t, base, func(b *fusebox.Breaker) {
				if err := b.Reconfigure(changed); err != nil {
					t.Fatal(err)
				}
				got := reflect.ValueOf(b.Config()).FieldByIndex(field.Index)
				if field.Type.Kind() == reflect.Func {
					if got.Pointer() != to.Pointer() {
						t.Error("Config shows another function")
					}
				} else if !got.Equal(to) {
					t.Errorf("Config shows %v, want %v", got, to)
				}
			})
			if asMade == unchanged {
				t.Error("the field has no effect in this test")
			}
			if reconfigured != asMade {
				t.Error("a reconfigured breaker acts otherwise than one made with these settings")
			}
		})
	}
}

// caseTrace drives breakers through fixed sequences of calls, some of which
// have many slow ones, and returns all that was seen. then is called first.
func caseTrace(t *testing.T, c fusebox.Config, then func(*fusebox.Breaker)) string {
	t.Helper()
	var trace strings.Builder
	for _, slowness := range []time.Duration{1, 4} {
		clock := newCaseClock()
		c.Now, c.Rand = clock.Now, func() float64 { return 0.25 }
		b := fusebox.New("x", c)
		if then != nil {
			then(b)
		}
		caseDrive(&trace, b, clock, slowness)
	}
	return trace.String()
}

func caseDrive(trace io.Writer, b *fusebox.Breaker, clock *caseClock, slowness time.Duration) {
	ctx := context.Background()
	random := rand.New(rand.NewPCG(80, 80))
	for step := range 2000 {
		clock.Advance(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
		ill := step/250%2 == 1
		odds, d := random.IntN(10), time.Duration(random.Int64N(int64(250*time.Millisecond)))
		p, err := b.Allow(ctx)
		switch {
		case err != nil:
		case odds == 0: // lost
		case odds < 3:
			p.RecordAfter(fusebox.Success, slowness*d)
		case ill && odds < 9:
			p.Finish(ctx, errCase)
		default:
			p.RecordAfter(fusebox.Success, d/4)
		}
		s := b.Snapshot()
		fmt.Fprintln(trace, err != nil, s.State, s.Counts, s.Outstanding, s.OpenPeriod, s.Totals.WouldReject)
	}
}

func TestC81ReconfigureKeepsStateStatisticsAndDeadline(t *testing.T) {
	period := func(d time.Duration) func(*fusebox.Config) {
		return func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = d, d }
	}
	t.Run("a shorter open period", func(t *testing.T) {
		l := newCase(t, "consec=2 openfor=60s")
		l.calls(2, errCase)
		l.clock.Advance(10 * time.Second)
		l.change(period(30 * time.Second))
		if wait := l.refused().RetryAfter(); wait != 20*time.Second {
			t.Errorf("RetryAfter is %v, want 20s", wait)
		}
		l.clock.Advance(20*time.Second - 1)
		l.refused()
		l.clock.Advance(1)
		l.calls(1, nil)
		l.wantEvents("CO,OH,HC")
	})
	t.Run("a period that would be over", func(t *testing.T) {
		l := newCase(t, "consec=2 openfor=60s")
		l.calls(2, errCase)
		l.clock.Advance(10 * time.Second)
		l.change(period(5 * time.Second))
		l.calls(1, nil)
		l.want(fusebox.Closed)
	})
	t.Run("a longer open period", func(t *testing.T) {
		l := newCase(t, "consec=2 openfor=60s")
		l.calls(2, errCase)
		l.clock.Advance(10 * time.Second)
		l.change(period(time.Hour))
		if wait := l.refused().RetryAfter(); wait != 50*time.Second {
			t.Errorf("RetryAfter is %v, want 50s", wait)
		}
	})
	for _, next := range []error{errCase, nil} {
		l := newCase(t, "consec=5 openfor=60s")
		l.calls(3, errCase)
		l.change(func(c *fusebox.Config) { c.Consecutive = 2 })
		l.want(fusebox.Closed)
		l.wantCounts(fusebox.Counts{Calls: 3, Failures: 3, Consecutive: 3})
		l.calls(1, next)
		if next != nil {
			l.want(fusebox.Open)
		} else {
			l.wantCounts(fusebox.Counts{Calls: 4, Failures: 3})
		}
	}
	t.Run("half-open", func(t *testing.T) {
		l := newCase(t, "consec=1 openfor=60s probes=1 close=1")
		l.halfOpen()
		first := l.allow()
		l.refused()
		l.change(func(c *fusebox.Config) { c.Probes, c.CloseAfter = 3, 3 })
		second, third := l.allow(), l.allow()
		l.refused()
		for _, p := range []*fusebox.Permit{first, second, third} {
			l.want(fusebox.HalfOpen)
			if !p.Record(fusebox.Success) {
				t.Error("a probe was late")
			}
		}
		l.want(fusebox.Closed)
	})
	t.Run("the same settings again", func(t *testing.T) {
		l := newCase(t, "consec=3 ratio=0.5 min=10")
		l.calls(4, nil)
		l.calls(2, errCase)
		p := l.allow()
		for range 10 {
			l.change(func(*fusebox.Config) {})
		}
		l.wantCounts(fusebox.Counts{Calls: 6, Failures: 2, Consecutive: 2})
		if !p.Record(fusebox.Failure) {
			t.Error("a permit was late")
		}
		l.want(fusebox.Open)
	})
}

func TestC86TheStateReadsTheSameEverywhere(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=1 ttl=30s")
	step := func(want fusebox.State, committed bool) {
		t.Helper()
		l.want(want)
		s := l.Snapshot()
		if s.State != want {
			t.Errorf("Snapshot has %v, want %v", s.State, want)
		}
		if s.Until.IsZero() == (want == fusebox.Open && s.Mode != fusebox.ForceOpen) {
			t.Errorf("%v and Until is %v", want, s.Until)
		}
		if committed && s.Last.To != want {
			t.Errorf("the last record leads to %v, want %v", s.Last.To, want)
		}
		text, err := json.Marshal(s)
		if err != nil || !bytes.Contains(text, []byte(`"state":"`+want.String()+`"`)) {
			t.Errorf("as JSON: %s, %v", text, err)
		}
	}
	l.calls(1, errCase)
	step(fusebox.Open, true)
	l.clock.Advance(10 * time.Second)
	step(fusebox.HalfOpen, false)
	p := l.allow()
	step(fusebox.HalfOpen, true)
	p.Record(fusebox.Success)
	step(fusebox.Closed, true)
	l.halfOpen()
	l.allow() // lost
	l.clock.Advance(30 * time.Second)
	step(fusebox.Open, false)
	l.refused()
	step(fusebox.Open, true)
	l.Reset(fusebox.Note{})
	step(fusebox.Closed, true)
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	step(fusebox.Open, true)
	l.Override(fusebox.ForceClosed, fusebox.Note{})
	step(fusebox.Closed, true)
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	l.Lift(fusebox.Note{})
	step(fusebox.HalfOpen, true)
	l.Override(fusebox.Off, fusebox.Note{})
	step(fusebox.Closed, true)
	l.Lift(fusebox.Note{})
	step(fusebox.Closed, true)
}

func TestC88RatesAreNeverNegative(t *testing.T) {
	l := newCase(t, "ratio=0.5 min=10")
	l.calls(3, errCase)
	c := l.Snapshot().Counts
	if c.Calls != 3 || c.FailureRate() != 1 || c.SlowRate() != 0 {
		t.Errorf("%d calls, rates %v and %v; want 3, 1, 0", c.Calls, c.FailureRate(), c.SlowRate())
	}
	l.clock.Advance(time.Hour)
	if c := l.Snapshot().Counts; c.Calls != 0 || c.FailureRate() != 0 {
		t.Errorf("%d calls and rate %v; want 0, 0", c.Calls, c.FailureRate())
	}
	l.Reset(fusebox.Note{})
	if c := l.Snapshot().Counts; c.Calls != 0 || c.FailureRate() != 0 {
		t.Errorf("%d calls and rate %v after the reset", c.Calls, c.FailureRate())
	}
}

func TestC89RejectedCallsAreCountedByReason(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=1")
	l.calls(1, errCase)
	for range 5 {
		l.refused()
	}
	l.clock.Advance(10 * time.Second)
	p := l.allow()
	for range 3 {
		l.refused()
	}
	p.Record(fusebox.Success)
	n := l.Snapshot().Totals
	if n.RejectedOpen != 5 || n.RejectedProbing != 3 || caseFinished(n) != 2 {
		t.Errorf("%d rejected open, %d probing, %d finished; want 5, 3, 2", n.RejectedOpen, n.RejectedProbing, caseFinished(n))
	}
}

// TestC89EveryCallIsCountedOnce lets many callers do anything at random: the
// totals must say what each of them saw.
func TestC89EveryCallIsCountedOnce(t *testing.T) {
	for _, config := range []string{
		"consec=3 openfor=10s probes=2", "ratio=0.5 min=5 window=3s openfor=1s probes=3 close=2 ttl=2s", "ratio=0.4 min=5 count=10 openfor=2s",
	} {
		t.Run(config, func(t *testing.T) {
			seed := caseRandom(t).Uint64()
			l := newCase(t, config)
			var success, failure, ignored, late, open, probing atomic.Uint64
			counters := map[fusebox.Outcome]*atomic.Uint64{fusebox.Success: &success, fusebox.Failure: &failure, fusebox.Ignored: &ignored}
			finish := func(p *fusebox.Permit, o fusebox.Outcome) {
				if p.Record(o) {
					counters[o].Add(1)
				} else {
					late.Add(1)
				}
				if p.Record(o) || p.Finish(context.Background(), nil) {
					t.Error("accepted twice")
				}
			}
			var callers sync.WaitGroup
			for w := range 8 {
				callers.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(w)))
					var held []*fusebox.Permit
					for range 2000 {
						if random.IntN(20) == 0 {
							l.clock.Advance(time.Duration(random.Int64N(int64(time.Second))))
						}
						if random.IntN(500) == 0 {
							l.Reset(fusebox.Note{})
						}
						if len(held) > 0 && random.IntN(3) == 0 {
							i := random.IntN(len(held))
							finish(held[i], fusebox.Outcome(random.IntN(3)))
							held = slices.Delete(held, i, i+1)
						}
						p, err := l.Allow(context.Background())
						switch {
						case errors.Is(err, fusebox.ErrProbing):
							probing.Add(1)
						case err != nil:
							open.Add(1)
						case random.IntN(10) == 0:
							kept := p.Take()
							held = append(held, &kept)
						case random.IntN(10) == 0:
							p.Cancel()
						default:
							finish(&p, fusebox.Outcome(random.IntN(3)))
						}
					}
					for _, p := range held {
						finish(p, fusebox.Success)
					}
				})
			}
			callers.Wait()
			n := l.Snapshot().Totals
			got := []uint64{n.Successes, n.Failures, n.Ignored, n.Late, n.RejectedOpen, n.RejectedProbing}
			want := []uint64{success.Load(), failure.Load(), ignored.Load(), late.Load(), open.Load(), probing.Load()}
			if !slices.Equal(got, want) {
				t.Errorf("success, failure, ignored, late, rejected open and probing are %v, the callers saw %v", got, want)
			}
			if slices.Contains(want, 0) {
				t.Logf("not everything happened: %v", want)
			}
		})
	}
}

func TestC90OneCallIsOneOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var finished []fusebox.Completion
		l := newCase(t, "consec=9 openfor=10s", func(c *fusebox.Config) {
			c.Now = nil
			c.Observers = append(c.Observers, fusebox.Observer{Finished: func(c fusebox.Completion) { finished = append(finished, c) }})
		})
		fallbacks := 0
		fallback := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
			if fn(ctx) == nil {
				return nil
			}
			fallbacks++
			<-time.After(100 * time.Millisecond)
			return nil
		})
		p := fusebox.Chain(fallback, l.Breaker, caseTimeout(50*time.Millisecond))
		if err := p.Do(context.Background(), func(context.Context) error {
			<-time.After(5 * time.Millisecond)
			return errCase
		}); err != nil {
			t.Fatal(err)
		}
		n := l.Snapshot().Totals
		if n.Failures != 1 || caseFinished(n) != 1 || fallbacks != 1 || len(finished) != 1 {
			t.Errorf("totals are %+v, %d fallbacks, %d completions; want one of each", n, fallbacks, len(finished))
		}
		if finished[0].Outcome != fusebox.Failure || finished[0].Duration != 5*time.Millisecond || finished[0].Err != errCase { //nolint:errorlint // unchanged
			t.Errorf("the completion is %+v", finished[0])
		}
	})
}

func TestC91EveryMessageNamesItsBreaker(t *testing.T) {
	var log bytes.Buffer
	l := newCase(t, "consec=1 openfor=10s probes=1", func(c *fusebox.Config) {
		c.Observers = append(c.Observers, fusebox.LogObserver(slog.New(slog.NewTextHandler(&log, nil))))
	})
	l.calls(1, errCase)
	texts := []string{l.refused().Error(), l.Snapshot().Last.String(), log.String()}
	l.clock.Advance(10 * time.Second)
	l.allow()
	texts = append(texts, l.refused().Error())
	l.Override(fusebox.ForceOpen, fusebox.Note{Reason: "maintenance"})
	texts = append(texts, l.refused().Error())
	if l.refused().Name() != "payments" {
		t.Errorf("Name of a rejection is %q", l.refused().Name())
	}
	for _, text := range texts {
		if !strings.Contains(text, "payments") {
			t.Errorf("no name in %q", text)
		}
	}
	for i, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
		if !strings.Contains(line, "name=payments") {
			t.Errorf("no name in line %d of the log: %s", i, line)
		}
	}

	r := &fusebox.Registry{MaxKeys: 100}
	for i := range 10_000 {
		r.Get(strconv.Itoa(i))
	}
	if n := len(caseKeys(r)); n > 100 {
		t.Errorf("%d names, want at most 100", n)
	}
	if b := r.Get("host"); b.Name() != "host" {
		t.Errorf("the breaker of a key is called %q", b.Name())
	}
}

func TestC148TheZeroConfigProtects(t *testing.T) {
	c := fusebox.New("x", fusebox.Config{}).Config()
	if c.Consecutive <= 0 || c.FailureRate <= 0 || c.MinCalls <= 0 || c.OpenFor <= 0 || c.Probes <= 0 || c.ProbeTimeout <= 0 {
		t.Errorf("in effect is %+v", c)
	}
	for name, mixed := range map[string]int{"all fail": 1, "every other fails": 2} {
		b := fusebox.New("x", fusebox.Config{})
		for i := 0; i < 100 && b.State() == fusebox.Closed; i++ {
			_ = b.Do(context.Background(), func(context.Context) error {
				if i%mixed == 0 {
					return errCase
				}
				return nil
			})
		}
		if b.State() != fusebox.Open {
			t.Errorf("%s: after 100 calls it is %v", name, b.State())
		}
	}
}

func TestC149BadValuesAreRefusedAllAtOnce(t *testing.T) {
	for _, bad := range []struct {
		field  string
		config fusebox.Config
	}{
		{"OpenFor", fusebox.Config{OpenFor: -1}},
		{"OpenForMax", fusebox.Config{OpenForMax: -1}},
		{"OpenForMax", fusebox.Config{OpenFor: 2, OpenForMax: 1}},
		{"Probes", fusebox.Config{Probes: -1}},
		{"CloseAfter", fusebox.Config{CloseAfter: -1}},
		{"ReopenAfter", fusebox.Config{ReopenAfter: -1}},
		{"ProbeTimeout", fusebox.Config{ProbeTimeout: -1}},
		{"FailureRate", fusebox.Config{FailureRate: 1.0000001}},
		{"FailureRate", fusebox.Config{FailureRate: math.NaN()}},
		{"FailureRate", fusebox.Config{FailureRate: math.Inf(1)}},
		{"FailureRate", fusebox.Config{FailureRate: math.Inf(-1)}},
		{"SlowRate", fusebox.Config{SlowRate: -0.1}},
		{"SlowRate", fusebox.Config{SlowRate: 1.1}},
		{"SlowRate", fusebox.Config{SlowRate: math.NaN()}},
		{"OpenJitter", fusebox.Config{OpenJitter: 1.1}},
		{"OpenJitter", fusebox.Config{OpenJitter: math.NaN()}},
		{"OpenJitter", fusebox.Config{OpenJitter: math.Inf(-1)}},
		{"MinCalls", fusebox.Config{MinCalls: -1}},
		{"Buckets", fusebox.Config{Buckets: -1}},
		{"Window", fusebox.Config{Window: -1}},
		{"Window", fusebox.Config{Window: 9, Buckets: 10}},
		{"Window", fusebox.Config{Window: 9}},
		{"WindowCalls", fusebox.Config{WindowCalls: -1}},
		{"MinCalls", fusebox.Config{WindowCalls: 5, MinCalls: 6}},
		{"Mode", fusebox.Config{Mode: fusebox.ForceOpen}},
		{"Mode", fusebox.Config{Mode: 99}},
	} {
		err := bad.config.Validate()
		var of *fusebox.ConfigError
		if !errors.As(err, &of) || of.Field != bad.field || of.Rule == "" || !strings.Contains(err.Error(), bad.field) {
			t.Errorf("%+v: error is %v, want one about %s", bad.config, err, bad.field)
		}
		if v := caseRecover(func() { fusebox.New("x", bad.config) }); v == nil {
			t.Errorf("New takes %+v", bad.config)
		}
		if err := fusebox.New("x", fusebox.Config{}).Reconfigure(bad.config); err == nil {
			t.Errorf("Reconfigure takes %+v", bad.config)
		}
	}

	all := fusebox.Config{
		Window: -1, Buckets: -1, WindowCalls: -1, MinCalls: -1, FailureRate: 2, SlowRate: 2, OpenFor: -1, OpenForMax: -1,
		OpenJitter: 2, Probes: -1, CloseAfter: -1, ReopenAfter: -1, ProbeTimeout: -1, Mode: 99,
	}
	text := fmt.Sprint(all.Validate())
	for _, field := range []string{
		"Window", "Buckets", "WindowCalls", "MinCalls", "FailureRate", "SlowRate", "OpenFor", "OpenForMax",
		"OpenJitter", "Probes", "CloseAfter", "ReopenAfter", "ProbeTimeout", "Mode",
	} {
		if !strings.Contains(text, "Config."+field+" is ") {
			t.Errorf("%s is not in the error:\n%s", field, text)
		}
	}

	for _, good := range []fusebox.Config{
		{},
		{FailureRate: 1},
		{FailureRate: 1e-4},
		{OpenFor: 1},
		{OpenJitter: 1},
		{Window: 10},
		{Window: 1, Buckets: 1},
		{WindowCalls: 1},
		{WindowCalls: 5, MinCalls: 5},
		{OpenFor: time.Hour},
		{OpenFor: math.MaxInt64},
		{ProbeTimeout: math.MaxInt64},
		{FailureRate: -1, SlowAfter: -1, Consecutive: -1, OpenJitter: -1, StableAfter: -1},
		{Mode: fusebox.Off},
		{Probes: math.MaxInt, CloseAfter: math.MaxInt, ReopenAfter: math.MaxInt},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
			continue
		}
		c := fusebox.New("x", good).Config()
		if err := c.Validate(); err != nil {
			t.Errorf("the settings in effect are invalid: %v", err)
		}
		if again := fusebox.New("x", c).Config(); !reflect.DeepEqual(c, again) {
			t.Errorf("the settings in effect do not mean the same again:\n%+v\n%+v", c, again)
		}
	}

	l := newCase(t, "consec=1 openfor=1ns") // what stands for no wait
	l.calls(1, errCase)
	l.clock.Advance(1)
	l.calls(1, nil)
	l.want(fusebox.Closed)
}

func TestC150GrowthStopsAtTheMaximum(t *testing.T) {
	l := newCase(t, "consec=1 openfor=2s mult=2 maxopen=7s")
	l.calls(1, errCase)
	for i := range 100 {
		want := []time.Duration{2, 4, 7}[min(i, 2)] * time.Second
		if got := l.Snapshot().OpenPeriod; got != want {
			t.Fatalf("period %d is %v, want %v", i, got, want)
		}
		l.clock.Advance(want)
		l.calls(1, errCase)
	}
	l.clock.Advance(7 * time.Second)
	l.calls(1, nil)
	l.calls(1, errCase)
	if got := l.Snapshot().OpenPeriod; got != 2*time.Second {
		t.Errorf("after the recovery it is %v, want 2s", got)
	}

	for _, base := range []time.Duration{6 * time.Second, time.Hour, math.MaxInt64} {
		c := fusebox.Config{OpenFor: base}
		if err := c.Validate(); err != nil {
			t.Errorf("OpenFor %v alone: %v", base, err)
		}
		if got := fusebox.New("x", c).Config().OpenForMax; got != base {
			t.Errorf("OpenFor %v alone makes OpenForMax %v", base, got)
		}
	}
}

func TestC151TheDefaultsAreThoseDocumented(t *testing.T) {
	want := fusebox.Config{
		Window: 10 * time.Second, Buckets: 10, MinCalls: 20, FailureRate: 0.5, SlowAfter: -1, SlowRate: 0.6, Consecutive: 20,
		OpenFor: time.Second, OpenForMax: 5 * time.Second, OpenJitter: 0.2, Probes: 3, CloseAfter: 3, ReopenAfter: 1,
		ProbeTimeout: 30 * time.Second, StableAfter: 10 * time.Second,
	}
	if got := fusebox.New("x", fusebox.Config{}).Config(); !reflect.DeepEqual(got, want) {
		t.Errorf("the defaults are\n%+v, want\n%+v", got, want)
	}
	// Consecutive is on by default, and Config says so; a rule that is off reads -1.
	got := fusebox.New("x", fusebox.Config{FailureRate: 0.9, Probes: 7, Window: time.Minute, WindowCalls: 8}).Config()
	if got.Consecutive != 20 || got.FailureRate != 0.9 || got.CloseAfter != 7 || got.StableAfter != time.Minute || got.MinCalls != 8 {
		t.Errorf("in effect is %+v", got)
	}
	got = fusebox.New("x", fusebox.Config{FailureRate: -0.5, Consecutive: -7, SlowAfter: -3, OpenJitter: -2, StableAfter: -9}).Config()
	if got.Consecutive != -1 || got.FailureRate != -1 || got.SlowAfter != -1 || got.OpenJitter != -1 || got.StableAfter != -1 {
		t.Errorf("switched off it reads %+v", got)
	}
}

func TestC163AManualTripHolds(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=1")
	p, q := l.allow(), l.allow()
	note := fusebox.Note{Reason: "maintenance", By: "operator"}
	l.Override(fusebox.ForceOpen, note)
	for range 100 {
		l.clock.Advance(time.Hour)
		refusal := l.refused()
		if refusal.RetryAfter() != 0 {
			t.Fatalf("RetryAfter is %v, and nobody knows", refusal.RetryAfter())
		}
		l.change(func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = time.Second, time.Second })
	}
	if p.Record(fusebox.Success) || q.Record(fusebox.Failure) {
		t.Error("results of older calls were accepted")
	}
	l.want(fusebox.Open)
	if s := l.Snapshot(); !s.Override || s.Note != note || !s.Until.IsZero() {
		t.Errorf("the snapshot is %+v", s)
	}
	l.Lift(fusebox.Note{})
	l.want(fusebox.HalfOpen)
	l.calls(1, nil)
	l.want(fusebox.Closed)
	l.wantEvents("CO,OH,HC")

	l.Override(fusebox.ForceClosed, note)
	l.calls(1000, errCase)
	l.want(fusebox.Closed)
	l.Lift(fusebox.Note{})
	l.want(fusebox.Closed)
	l.calls(1, errCase)
	l.want(fusebox.Open)
}

// TestC163ARejectionGoesOnSayingWhoForcedIt holds that what happens to a
// breaker that is forced open does not take the place of why it is.
func TestC163ARejectionGoesOnSayingWhoForcedIt(t *testing.T) {
	for name, happens := range map[string]func(*caseLab){
		"nothing":     func(*caseLab) {},
		"time passes": func(l *caseLab) { l.clock.Advance(1000 * time.Hour) },
		"reconfigured": func(l *caseLab) {
			l.change(func(c *fusebox.Config) { c.Consecutive = 7 })
		},
		"an override that is over already": func(l *caseLab) {
			l.Override(fusebox.ForceClosed, fusebox.Note{Until: l.clock.Now().Add(-1)})
		},
		"an observer comes": func(l *caseLab) { l.Observe(fusebox.Observer{Rejected: func(*fusebox.OpenError) {}}) },
	} {
		for _, open := range []bool{false, true} {
			l := newCase(t, "consec=1 openfor=10s probes=1")
			if open {
				l.calls(1, errCase)
			}
			l.Override(fusebox.ForceOpen, fusebox.Note{Reason: "maintenance", By: "operator"})
			happens(l)
			refusal := l.refused()
			if refusal.Cause() != fusebox.CauseOverride || !strings.Contains(refusal.Error(), "operator: maintenance") {
				t.Errorf("open before: %v, then %s: the rejection has cause %v and says %q", open, name, refusal.Cause(), refusal)
			}
		}
	}
}

// TestC164TheLockFreePathCountsRight counts what many callers do at a time
// again, and holds that a call allocates nothing however long the window is.
func TestC164TheLockFreePathCountsRight(t *testing.T) {
	const workers, each = 8, 20_000
	for _, config := range []string{"ratio=1 window=10s", "ratio=1 window=3600s buckets=3600"} {
		l := newCase(t, config)
		var failures, outcomes atomic.Int64
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for i := range each {
					o := fusebox.Success
					if i%(w+50) == 49 {
						o = fusebox.Failure
						failures.Add(1)
					}
					p, err := l.Allow(context.Background())
					if err == nil && p.Record(o) {
						outcomes.Add(1)
					}
				}
			})
		}
		all.Wait()
		s := l.Snapshot()
		if outcomes.Load() != workers*each || s.Counts.Calls != workers*each || s.Counts.Failures != int(failures.Load()) {
			t.Errorf("%s: %+v counted, of %d calls with %d failures", config, s.Counts, workers*each, failures.Load())
		}
		if n := s.Totals; n.Successes != uint64(outcomes.Load()-failures.Load()) || n.Failures != uint64(failures.Load()) {
			t.Errorf("%s: totals are %+v", config, n)
		}
		ctx := context.Background()
		if n := testing.AllocsPerRun(1000, func() {
			p, _ := l.Allow(ctx)
			p.Record(fusebox.Success)
		}); n != 0 {
			t.Errorf("%s: a call allocates %v times", config, n)
		}
	}
}

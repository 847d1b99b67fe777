package fusebox_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

var errFault = errors.New("down")

// faultLab returns a breaker that one failure trips, for a second, on a clock.
func faultLab(change func(*fusebox.Config)) (*fusebox.Breaker, *fuseboxtest.Clock) {
	clock := &fuseboxtest.Clock{}
	c := fusebox.Config{
		Consecutive: 1, Probes: 1, OpenFor: time.Second, OpenJitter: -1, ProbeTimeout: time.Second, Now: clock.Now,
	}
	if change != nil {
		change(&c)
	}
	return fusebox.New("payments", c), clock
}

func faultTrip(b *fusebox.Breaker) {
	_ = b.Do(context.Background(), func(context.Context) error { return errFault })
}

// onGoroutine runs f on a goroutine that f may end, and returns what it panicked with.
func onGoroutine(f func()) (panicked any) {
	done := make(chan any)
	go func() {
		defer func() { done <- recover() }()
		f()
	}()
	return <-done
}

func TestAnObserverMayEndTheGoroutineOfARejectedCall(t *testing.T) {
	ctx := context.Background()
	b, clock := faultLab(nil)
	faultTrip(b)
	clock.Advance(time.Second)
	if _, err := b.Allow(ctx); err != nil { // a probe that is never finished
		t.Fatal(err)
	}
	b.Observe(fusebox.Observer{Transition: func(fusebox.Transition) { runtime.Goexit() }})
	clock.Advance(time.Second + 1)
	if p := onGoroutine(func() { _, _ = b.Allow(ctx) }); p != nil {
		t.Errorf("Allow panicked: %v", p)
	}
}

func TestAnErrorThatEndsTheGoroutineDoesNotFalsifyItsRecord(t *testing.T) {
	var got []fusebox.Transition
	b, _ := faultLab(func(c *fusebox.Config) {
		c.Observers = []fusebox.Observer{{Transition: func(r fusebox.Transition) { got = append(got, r) }}}
	})
	onGoroutine(func() {
		_ = b.Do(context.Background(), func(context.Context) error { return exitingError{} })
	})
	if len(got) != 1 || got[0].Cause != fusebox.CauseConsecutive {
		t.Errorf("delivered %v, want the trip", got)
	}
}

type exitingError struct{}

func (exitingError) Error() string { runtime.Goexit(); return "" }

func TestARandThatEndsTheGoroutineKeepsNoRecordBack(t *testing.T) {
	delivered, exit := 0, false
	b, _ := faultLab(func(c *fusebox.Config) {
		c.Rand = func() float64 {
			if exit {
				runtime.Goexit()
			}
			return 0.5
		}
		c.Observers = []fusebox.Observer{{Transition: func(fusebox.Transition) { delivered++ }}}
	})
	exit = true
	onGoroutine(func() { faultTrip(b) })
	if delivered != 1 {
		t.Errorf("%d records delivered, want 1", delivered)
	}
}

func TestReadingNeverGoesBack(t *testing.T) {
	b, clock := faultLab(nil)
	faultTrip(b)
	clock.Advance(time.Second)
	before := b.Snapshot()
	clock.Advance(-500 * time.Millisecond)
	if after := b.Snapshot(); after.Totals.Open < before.Totals.Open || after.State != before.State {
		t.Errorf("open for %v and %v, later for %v and %v", before.Totals.Open, before.State, after.Totals.Open, after.State)
	}
}

func TestAClockThatPanicsAtTheStartOfAProbeKeepsNoSlot(t *testing.T) {
	ctx := context.Background()
	reads := math.MaxInt
	var clock fuseboxtest.Clock
	b, _ := faultLab(func(c *fusebox.Config) {
		c.SlowAfter = time.Second
		c.Probes = 2
		c.Now = func() time.Time {
			if reads--; reads == -1 { // once
				panic("no time")
			}
			return clock.Now()
		}
	})
	faultTrip(b)
	clock.Advance(time.Second)
	first, err := b.Allow(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		reads = n
		onGoroutine(func() {
			p, err := b.Allow(ctx)
			reads = math.MaxInt
			if err == nil {
				p.Cancel()
			}
		})
	}
	reads = math.MaxInt
	first.Cancel()
	if n := b.Snapshot().Outstanding; n != 0 {
		t.Errorf("%d probes outstanding, want 0", n)
	}
}

func TestTheEndOfTimeIsNoNilError(t *testing.T) {
	ctx := context.Background()
	b, clock := faultLab(nil)
	faultTrip(b)
	clock.Set(clock.Now().AddDate(400, 0, 0))
	if _, err := b.Allow(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Allow(ctx); !errors.Is(err, fusebox.ErrProbing) || !strings.Contains(err.Error(), "half-open") {
		t.Error(err)
	}
}

func TestNothingIsSlowWithoutASlowRule(t *testing.T) {
	b, _ := faultLab(nil)
	p, err := b.Allow(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p.RecordAfter(fusebox.Success, math.MaxInt64)
	if n := b.Snapshot().Totals.Slow; n != 0 {
		t.Errorf("%d slow calls, want none", n)
	}
}

func TestTheResultOfACallThatPanicsIsNotThatOfTheOneBefore(t *testing.T) {
	twice := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) (err error) {
		_ = fn(ctx)
		defer func() {
			if recover() != nil {
				err = errFault
			}
		}()
		return fn(ctx)
	})
	n := 0
	v, err := fusebox.Call(context.Background(), twice, func(context.Context) (int, error) {
		if n++; n == 2 {
			panic("second")
		}
		return 5, errFault
	})
	if v != 0 || err == nil {
		t.Errorf("%d, %v, want 0 and an error", v, err)
	}
}

func TestAnIgnoredCallIsNotSlow(t *testing.T) {
	var got fusebox.Completion
	b, clock := faultLab(func(c *fusebox.Config) {
		c.SlowAfter = time.Second
		c.Observers = []fusebox.Observer{{Finished: func(c fusebox.Completion) { got = c }}}
	})
	_ = b.Do(context.Background(), func(context.Context) error {
		clock.Advance(time.Minute)
		return fusebox.Ignore(errFault)
	})
	if got.Outcome != fusebox.Ignored || got.Slow {
		t.Errorf("%+v, want ignored and not slow", got)
	}
}

func TestARejectionInHalfOpenSaysWhyTheBreakerOpened(t *testing.T) {
	ctx := context.Background()
	b, clock := faultLab(nil)
	faultTrip(b)
	clock.Advance(time.Second)
	if _, err := b.Allow(ctx); err != nil {
		t.Fatal(err)
	}
	_, err := b.Allow(ctx)
	const want = `fusebox: "payments" is half-open and its probes are out, after 1 failure in a row >= 1`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %v", err, want)
	}
}

func TestASmallRateIsNotWrittenAsZero(t *testing.T) {
	trip := fusebox.Transition{
		Cause: fusebox.CauseFailureRate, Threshold: 0.002, Counts: fusebox.Counts{Calls: 1000, Failures: 3}, Window: time.Second,
	}
	if got, want := trip.Why(), "failure rate 0.003 >= 0.002, 3 of 1000 calls in 1s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWhyAnOverrideEndedReadsAsASentence(t *testing.T) {
	for _, c := range []struct {
		note fusebox.Note
		want string
	}{
		{fusebox.Note{}, "override ended"},
		{fusebox.Note{Reason: "drill"}, "override ended: drill"},
		{fusebox.Note{By: "ann"}, "override ended, set by ann"},
		{fusebox.Note{By: "ann", Reason: "drill"}, "override ended, set by ann: drill"},
	} {
		if got := (fusebox.Transition{Cause: fusebox.CauseOverrideEnded, Note: c.note}).Why(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.note, got, c.want)
		}
	}
}

func TestTheTimeOpenNeverGoesBack(t *testing.T) {
	b, clock := faultLab(func(c *fusebox.Config) { c.OpenFor = 10 * time.Second })
	faultTrip(b)
	clock.Advance(5 * time.Second)
	c := b.Config()
	c.OpenFor, c.OpenForMax = time.Second, 0
	if err := b.Reconfigure(c); err != nil {
		t.Fatal(err)
	}
	if s := b.Snapshot(); s.Totals.Open != 5*time.Second || s.State != fusebox.HalfOpen {
		t.Errorf("%v open, %v, after 5s and a shorter period", s.Totals.Open, s.State)
	}
}

func TestASweepDropsNothingForcedOpenMeanwhile(t *testing.T) {
	clock := &fuseboxtest.Clock{}
	var asked func(key string)
	r := &fusebox.Registry{Now: clock.Now, Config: func(key string) fusebox.Config {
		return fusebox.Config{Now: func() time.Time {
			if asked != nil {
				asked(key)
			}
			return clock.Now()
		}}
	}}
	a := r.Get("a")
	r.Get("b")
	clock.Advance(2 * time.Hour)
	asked = func(key string) { // while the sweep asks b, it has asked a
		if key == "b" {
			asked = nil
			a.Override(fusebox.ForceOpen, fusebox.Note{})
		}
	}
	r.Stats()
	if asked != nil {
		t.Fatal("the sweep did not ask b")
	}
	if _, ok := r.Lookup("a"); !ok {
		t.Error("the breaker forced open was dropped")
	}
}

func TestTripWhenDoesNotTripByOutcomesThatAreCleared(t *testing.T) {
	for name, clear := range map[string]func(*fusebox.Breaker){
		"force-closed": func(b *fusebox.Breaker) {
			b.Override(fusebox.ForceClosed, fusebox.Note{})
			b.Lift(fusebox.Note{})
		},
		"another window": func(b *fusebox.Breaker) {
			c := b.Config()
			c.Window /= 2
			_ = b.Reconfigure(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var b *fusebox.Breaker
			b = fusebox.New("payments", fusebox.Config{TripWhen: func(c fusebox.Counts) bool {
				done := make(chan bool)
				go func() { clear(b); close(done) }()
				<-done
				return c.Failures >= 1
			}})
			faultTrip(b)
			if b.State() != fusebox.Closed {
				t.Errorf("tripped: %v", b.Snapshot().Last)
			}
		})
	}
}

func TestAClockFarBackMakesNoCallSlow(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := fusebox.New("payments", fusebox.Config{SlowAfter: time.Second, Now: func() time.Time { return now }})
	now = now.Add(time.Second)
	p, err := b.Allow(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	now = time.Time{}
	p.Record(fusebox.Success)
	if s := b.Snapshot(); s.Totals.Slow != 0 || s.Totals.Successes != 1 {
		t.Errorf("%+v", s.Totals)
	}
}

func TestALoggerThatPanicsDoesNotReachTheCaller(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(panickingHandler{}))
	b, _ := faultLab(nil)
	b.Observe(fusebox.LogObserver(nil))
	if p := onGoroutine(func() { faultTrip(b) }); p != nil {
		t.Errorf("the call panicked: %v", p)
	}
	if s := b.Snapshot(); s.State != fusebox.Open || s.Totals.Panics != 1 {
		t.Errorf("%v, %d panics", s.State, s.Totals.Panics)
	}
}

type panickingHandler struct{}

func (panickingHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (panickingHandler) Handle(context.Context, slog.Record) error { panic("disk full") }
func (h panickingHandler) WithAttrs([]slog.Attr) slog.Handler      { return h }
func (h panickingHandler) WithGroup(string) slog.Handler           { return h }

// What State has shown, the next call meets, also where the clock goes back.
func TestACallMeetsWhatStateHasShown(t *testing.T) {
	b, clock := faultLab(nil)
	faultTrip(b)
	clock.Advance(time.Second)
	if s := b.State(); s != fusebox.HalfOpen {
		t.Fatal(s)
	}
	clock.Advance(-500 * time.Millisecond)
	if _, err := b.Allow(context.Background()); err != nil {
		t.Error(err)
	}
}

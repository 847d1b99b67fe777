package retry_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/retry"
)

// Each test holds a fault that people met in such software, under its number.

// A timer that nobody stops is collected since Go 1.23; what a wait leaves can
// be seen by when it ends, and by its goroutines.
func TestC77CancelledWaitsEndAtOnceAndLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plain(func(c *retry.Config) { c.BaseDelay = time.Hour })
		for range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			go func() {
				time.Sleep(time.Second)
				cancel()
			}()
			start := time.Now()
			if err := p.Do(ctx, failing(errDown, 9).call); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if waited := time.Since(start); waited != time.Second {
				t.Fatalf("returned after %v", waited)
			}
		}
	}) // which fails if a goroutine is left
}

func TestC92RetryAfterAboveTheMaximum(t *testing.T) {
	for name, test := range map[string]struct {
		header   string
		capped   bool
		attempts []time.Duration
		after    time.Duration // in the error
	}{
		"given up":      {"3600", false, []time.Duration{0}, time.Hour},
		"capped":        {"3600", true, []time.Duration{0, 10 * time.Second}, 0},
		"within":        {"5", false, []time.Duration{0, 5 * time.Second}, 0},
		"absent":        {"", false, []time.Duration{0, 100 * time.Millisecond}, 0},
		"at the limit":  {"10", false, []time.Duration{0, 10 * time.Second}, 0},
		"a lifetime":    {"1743442449", false, []time.Duration{0}, 1743442449 * time.Second},
		"out of bounds": {"99999999999999999999", true, []time.Duration{0, 10 * time.Second}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := errDown
				if d, ok := retry.ParseAfter([]string{test.header}, time.Now()); ok {
					err = retry.After(err, d)
				}
				s := failing(err, 1)
				p := plain(func(c *retry.Config) { c.MaxRetryAfter, c.CapRetryAfter = 10*time.Second, test.capped })
				err = p.Do(t.Context(), s.call)
				if !slices.Equal(s.at, test.attempts) {
					t.Errorf("attempts at %v, want %v", s.at, test.attempts)
				}
				var e *retry.Error
				if test.after == 0 {
					if err != nil {
						t.Errorf("failed: %v", err)
					}
				} else if !errors.As(err, &e) || e.RetryAfter() != test.after || e.Attempts() != 1 || !errors.Is(err, retry.ErrRetryAfter) {
					t.Errorf("%v: want one that says retry after %v", err, test.after)
				}
			})
		})
	}
}

func TestC94OddValuesOfRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, test := range map[string]struct {
		want time.Duration
		ok   bool
	}{
		"0": {0, true}, "-5": {}, "1.5": {}, "abc": {}, "": {}, "NaN": {}, "1e3": {}, "0x10": {}, "Inf": {}, "5 s": {},
		"Fri, 02 Jan 2026 03:00:00 GMT": {0, true},
		"Fri, 02 Jan 2026 03:04:35 GMT": {30 * time.Second, true},
	} {
		if got, ok := retry.ParseAfter([]string{value}, now); got != test.want || ok != test.ok {
			t.Errorf("%q: %v, %v, want %v, %v", value, got, ok, test.want, test.ok)
		}
	}
	if got, ok := retry.ParseAfter([]string{"abc", "7"}, now); got != 7*time.Second || !ok {
		t.Errorf("two headers: %v, %v", got, ok)
	}
	synctest.Test(t, func(t *testing.T) { // 0 is at once, and still subject to the limit
		s := failing(retry.After(errDown, 0), 9)
		_ = plain(nil).Do(t.Context(), s.call)
		if !slices.Equal(s.at, []time.Duration{0, 0, 0}) {
			t.Errorf("attempts at %v", s.at)
		}
	})
}

func TestC95BackoffNeverOverflows(t *testing.T) {
	const ms = time.Millisecond
	wait := retry.Exponential(100*ms, 30*time.Second)
	for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000} {
		if got := wait(i + 1); got != want*ms {
			t.Errorf("retry %d: %v, want %v", i+1, got, want*ms)
		}
	}
	for _, base := range []time.Duration{1, ms, 100 * ms, time.Second, 2 * time.Second, 30 * time.Second} {
		for _, limit := range []time.Duration{30 * time.Second, math.MaxInt64} {
			last := time.Duration(0)
			wait := retry.Exponential(base, limit)
			for n := 1; n < 80; n++ {
				if d := wait(n); d < last || d > limit {
					t.Errorf("base %v, limit %v, retry %d: %v after %v", base, limit, n, d, last)
				} else {
					last = d
				}
			}
			for _, n := range []int{100, 1024, 1025, math.MaxInt32, math.MaxInt} {
				if d := wait(n); d != limit {
					t.Errorf("base %v, retry %d: %v, want %v", base, n, d, limit)
				}
			}
		}
	}
	// The first doublings that overflow.
	for base, n := range map[time.Duration]int{ms: 44, 100 * ms: 37, time.Second: 34, 2 * time.Second: 33} {
		for i := n - 1; i <= n+1; i++ {
			if d := retry.Exponential(base, 30*time.Second)(i + 1); d != 30*time.Second {
				t.Errorf("base %v, doubled %d times: %v", base, i, d)
			}
		}
	}
	if c := retry.New(retry.Config{}).Config(); c.MaxDelay != 10*time.Second {
		t.Errorf("without MaxDelay: %v", c.MaxDelay)
	}
}

func TestC97TheDelayGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits []time.Duration
		p := plain(func(c *retry.Config) {
			c.Attempts, c.BaseDelay, c.MaxDelay = 5, 10*time.Millisecond, 80*time.Millisecond
			c.OnRetry = func(_ context.Context, e retry.Event) { waits = append(waits, e.Delay/time.Millisecond) }
		})
		start := time.Now()
		_ = p.Do(t.Context(), failing(errDown, 5).call)
		if !slices.Equal(waits, []time.Duration{10, 20, 40, 80}) || time.Since(start) != 150*time.Millisecond {
			t.Errorf("waits %v, in all %v", waits, time.Since(start))
		}
	})
}

func TestC98TheContextEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plain(func(c *retry.Config) { c.BaseDelay = time.Hour })
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start, s := time.Now(), failing(errDown, 9)
		err := p.Do(ctx, s.call)
		var e *retry.Error
		if time.Since(start) != time.Second || !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Attempts() != 1 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		s = failing(errDown, 9)
		if err := p.Do(ctx, s.call); err != context.Canceled || len(s.at) != 0 { //nolint:errorlint // the very same
			t.Errorf("ended before: %v, %d attempts", err, len(s.at))
		}
	})
}

// The context ends between two attempts that follow one another at once.
func TestC98TheContextEndsWithoutAWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := plain(func(c *retry.Config) { c.Attempts = retry.Unlimited })
	n := 0
	err := p.Do(ctx, func(context.Context) error {
		if n++; n == 5 {
			cancel()
		}
		return retry.After(errDown, 0)
	})
	if n != 5 || !errors.Is(err, context.Canceled) || !errors.Is(err, errDown) {
		t.Errorf("%d attempts, %v", n, err)
	}
}

func TestC100TheLastErrorIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := plain(func(c *retry.Config) {
			c.Attempts, c.BaseDelay, c.MaxDelay = retry.Unlimited, 300*time.Millisecond, 300*time.Millisecond
		})
		err := p.Do(ctx, failing(errDown, 99).call)
		var e *retry.Error
		if !errors.As(err, &e) || e.Attempts() != 4 || !errors.Is(err, errDown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		// The deadline falls into an attempt.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = p.Do(ctx, func(context.Context) error { time.Sleep(2 * time.Second); return errDown })
		if !errors.As(err, &e) || e.Attempts() != 1 || !errors.Is(err, errDown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestC101ZeroAttemptsNilBackoff(t *testing.T) {
	if c := retry.New(retry.Config{}).Config(); c.Attempts != 3 {
		t.Errorf("default: %d attempts", c.Attempts)
	}
	p := plain(func(c *retry.Config) { c.Attempts = retry.Unlimited })
	s := failing(retry.Permanent(errDown), 9)
	if err := p.Do(t.Context(), s.call); !errors.Is(err, errDown) || len(s.at) != 1 {
		t.Errorf("%d attempts, %v", len(s.at), err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := failing(errDown, 100)
		if err := p.Do(t.Context(), s.call); err != nil || len(s.at) != 101 {
			t.Errorf("unlimited: %d attempts, %v", len(s.at), err)
		}
	})
}

// opened returns a breaker that is open for ten seconds.
func opened() *fusebox.Breaker {
	b := fusebox.New("b", fusebox.Config{Consecutive: 1, OpenFor: 10 * time.Second, OpenForMax: 10 * time.Second, OpenJitter: -1})
	_ = b.Do(context.Background(), func(context.Context) error { return errDown })
	return b
}

func TestC102ARefusalIsNotRetried(t *testing.T) {
	for name, test := range map[string]struct {
		wait     bool
		deadline time.Duration
		at       time.Duration // of the return
		calls    int
	}{
		"by default":             {false, 20 * time.Second, 0, 0},
		"waiting, no time":       {true, 5 * time.Second, 0, 0},
		"waiting, time enough":   {true, 20 * time.Second, 10 * time.Second, 1},
		"waiting, no time limit": {true, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				p := retry.New(retry.Config{BaseDelay: 10 * time.Millisecond, WaitRejected: test.wait})
				calls, start := 0, time.Now()
				err := fusebox.Chain(p, opened()).Do(ctx, func(context.Context) error { calls++; return nil })
				if time.Since(start) != test.at || calls != test.calls {
					t.Errorf("%d calls, returned after %v: %v", calls, time.Since(start), err)
				}
				if test.calls == 0 && !errors.Is(err, fusebox.ErrOpen) || test.calls > 0 && err != nil {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

func TestC103BothNestingsCountAsTheyAreNested(t *testing.T) {
	for name, test := range map[string]struct {
		attempts  int
		inside    bool // the retry is inside the breaker
		calls     int  // through the chain
		reached   int
		failures  int
		isRefusal bool
	}{
		"retry outside": {attempts: 8, calls: 1, reached: 5, failures: 5, isRefusal: true},
		"retry inside":  {attempts: 3, inside: true, calls: 5, reached: 15, failures: 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := fusebox.New("b", fusebox.Config{Consecutive: 5})
				p := plain(func(c *retry.Config) { c.Attempts, c.BaseDelay = test.attempts, time.Millisecond })
				chain := fusebox.Chain(p, b)
				if test.inside {
					chain = fusebox.Chain(b, p)
				}
				reached := 0
				var err error
				for range test.calls {
					err = chain.Do(t.Context(), func(context.Context) error { reached++; return errDown })
				}
				s := b.Snapshot()
				if reached != test.reached || s.State != fusebox.Open || s.Last.Counts.Failures != test.failures {
					t.Errorf("reached %d times, %v after %d failures", reached, s.State, s.Last.Counts.Failures)
				}
				if errors.Is(err, fusebox.ErrOpen) != test.isRefusal || !errors.Is(err, errDown) {
					t.Errorf("error %v", err)
				}
				if _, refused := fusebox.Rejected(err); refused {
					t.Errorf("%v counts as a refusal, though calls failed", err)
				}
			})
		})
	}
}

// A refusal inside, at the end of failures, is no reason to ignore these.
func TestC103AnOuterBreakerCountsFailuresThatEndInARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer := fusebox.New("outer", fusebox.Config{})
		chain := fusebox.Chain(outer, plain(func(c *retry.Config) { c.Attempts = 8 }), fusebox.New("inner", fusebox.Config{Consecutive: 5}))
		_ = chain.Do(t.Context(), func(context.Context) error { return errDown })
		if s := outer.Snapshot(); s.Totals.Failures != 1 || s.Totals.Ignored != 0 {
			t.Errorf("%+v", s.Totals)
		}
		_ = chain.Do(t.Context(), func(context.Context) error { return errDown }) // only refused
		if s := outer.Snapshot(); s.Totals.Failures != 1 || s.Totals.Ignored != 1 {
			t.Errorf("%+v", s.Totals)
		}
	})
}

func TestC106TheBudgetDrainsAndRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.New(retry.Config{
			Attempts: 2, Jitter: -1, BaseDelay: 1,
			Budget: retry.NewBudget(retry.BudgetConfig{Share: 0.2, MinPerSecond: -1}),
		})
		good := func(context.Context) error { return nil }
		for range 9 {
			_ = p.Do(t.Context(), good)
		}
		for i, want := range []int{2, 2, 1} { // the tenth call, and two more
			s := failing(errDown, 9)
			err := p.Do(t.Context(), s.call)
			if len(s.at) != want || errors.Is(err, retry.ErrBudget) != (want == 1) || !errors.Is(err, errDown) {
				t.Errorf("failing call %d: %d attempts, want %d: %v", i, len(s.at), want, err)
			}
		}
		for range 5 {
			_ = p.Do(t.Context(), good)
		}
		if s := failing(errDown, 1); p.Do(t.Context(), s.call) != nil {
			t.Error("it has not refilled")
		}
		for range 1000 { // in an earlier window: they are worth nothing now
			_ = p.Do(t.Context(), good)
		}
		time.Sleep(time.Minute)
		if s := failing(errDown, 9); !errors.Is(p.Do(t.Context(), s.call), retry.ErrBudget) {
			t.Error("calls of a past window are worth retries")
		}
	})
}

func TestC108TwoPoliciesOfOneConfigHaveTwoBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c retry.Config
		first, other := retry.New(c), retry.New(c)
		withdrawAll(first.Config().Budget)
		if err := first.Do(t.Context(), failing(errDown, 1).call); !errors.Is(err, retry.ErrBudget) {
			t.Errorf("drained: %v", err)
		}
		if err := other.Do(t.Context(), failing(errDown, 1).call); err != nil {
			t.Errorf("the other: %v", err)
		}
	})
}

func TestC109WhatABudgetCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retry.NewBudget(retry.BudgetConfig{Share: 0.2, MinPerSecond: -1})
		p := retry.New(retry.Config{Budget: b, BaseDelay: time.Second, Jitter: -1, Attempts: 2})
		denied := make(chan error, 11)
		call := func(ready <-chan struct{}) {
			err := p.Do(t.Context(), func(context.Context) error {
				<-ready
				return errDown
			})
			if errors.Is(err, retry.ErrBudget) {
				denied <- err
			}
		}
		ready := make(chan struct{})
		for range 10 {
			go call(ready)
		}
		synctest.Wait()
		close(ready) // all ten fail at once
		synctest.Wait()
		if s := b.Stats(); s.Waiting != 2 || s.Calls != 10 || len(denied) != 8 {
			t.Errorf("%+v, %d denied", s, len(denied))
		}
		go call(ready)
		synctest.Wait()
		if s := b.Stats(); s.Waiting != 2 || len(denied) != 9 {
			t.Errorf("the eleventh: %+v, %d denied", s, len(denied))
		}
	})
	synctest.Test(t, func(t *testing.T) { // the floor, with no traffic
		p := retry.New(retry.Config{Budget: retry.NewBudget(retry.BudgetConfig{Share: -1, MinPerSecond: 3})})
		if err := p.Do(t.Context(), failing(errDown, 1).call); err != nil {
			t.Error(err)
		}
	})
}

// The deadline falls into the last attempt.
func TestC100TheDeadlineIsKeptInTheLastAttemptToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		err := plain(func(c *retry.Config) { c.Attempts = 2 }).Do(ctx, func(context.Context) error {
			time.Sleep(time.Second)
			return errDown
		})
		if !errors.Is(err, errDown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

func TestC66APanicInARetryGivesTheBudgetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retry.NewBudget(retry.BudgetConfig{})
		p := retry.New(retry.Config{Budget: b})
		attempts := 0
		func() {
			defer func() {
				if r := recover(); r != "x" {
					t.Errorf("recovered %v", r)
				}
			}()
			_ = p.Do(t.Context(), func(context.Context) error {
				if attempts++; attempts == 2 {
					panic("x")
				}
				return held{func() {}}
			})
		}()
		if s := b.Stats(); s.Waiting != 0 || s.Retries != 1 {
			t.Errorf("a panic in the second attempt: %+v", s)
		}
		func() {
			defer func() { _ = recover() }()
			_ = p.Do(t.Context(), failing(held{func() { panic("in Discard") }}, 1).call)
		}()
		if s := b.Stats(); s.Waiting != 0 || s.Retries != 1 {
			t.Errorf("a panic in Discard: %+v", s)
		}
	})
}

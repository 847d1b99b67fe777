package bulkhead_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
)

// Each test holds the right behaviour where software of this kind has been
// found wrong, under the number of the case.

var errTimeout = errors.New("timeout")

// timeout is a policy that gives each call d.
func timeout(d time.Duration) fusebox.Policy {
	return fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		ctx, cancel := context.WithTimeoutCause(ctx, d, errTimeout)
		defer cancel()
		err := fn(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			return errors.Join(context.Cause(ctx), err)
		}
		return err
	})
}

func TestC9APlaceIsGivenBackOnceOrTheSecondTimeIsLoud(t *testing.T) {
	p := bulkhead.New(bulkhead.Config{Limit: 2})
	_ = p.Do(t.Context(), func(context.Context) error { return nil })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a second Release goes unnoticed")
			}
		}()
		p.Release()
	}()
	take(t, p, 2)
	if p.TryAcquire() {
		t.Error("the second Release made a place of nothing")
	}
}

func TestC15AFullBulkheadInsideABreakerGivesTheProbesSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := fusebox.New("payments", fusebox.Config{Consecutive: 1, OpenFor: 10 * time.Second, OpenJitter: -1, Probes: 1})
		p := bulkhead.New(bulkhead.Config{Limit: 1})
		chain := fusebox.Chain(breaker, p)
		_ = chain.Do(t.Context(), func(context.Context) error { return errDown })
		<-time.NewTimer(10 * time.Second).C

		take(t, p, 1) // by a call for another key
		for range 3 {
			err := chain.Do(t.Context(), func(context.Context) error { t.Error("called"); return nil })
			if !errors.Is(err, bulkhead.ErrFull) {
				t.Fatalf("Do = %v, want a refusal by the bulkhead", err)
			}
		}
		if got := breaker.State(); got != fusebox.HalfOpen {
			t.Errorf("the breaker is %v, want half-open", got)
		}
		p.Release()
		if err := chain.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Errorf("Do = %v", err)
		}
		if got := breaker.State(); got != fusebox.Closed {
			t.Errorf("the breaker is %v, want closed", got)
		}
	})
}

func TestC15AWaitThatTheCallersDeadlineEndedIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := fusebox.New("payments", fusebox.Config{Consecutive: 1})
		p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Hour})
		take(t, p, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := fusebox.Chain(breaker, p).Do(ctx, func(context.Context) error { return nil })
		if after, ok := fusebox.Rejected(err); !ok || after != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do = %v, want a refusal by the bulkhead that is the deadline too", err)
		}
		if got := breaker.State(); got != fusebox.Closed {
			t.Errorf("the breaker is %v, though the dependency was never asked", got)
		}
	})
}

func TestC66APanicGivesThePlaceBackAndKeepsItsValue(t *testing.T) {
	breaker := fusebox.New("payments", fusebox.Config{Consecutive: 3})
	p := bulkhead.New(bulkhead.Config{Limit: 2})
	chain := fusebox.Chain(p, breaker)
	for i := range 3 {
		func() {
			defer func() {
				if got := recover(); got != "x" {
					t.Errorf("recovered %v, want x", got)
				}
			}()
			_ = chain.Do(t.Context(), func(context.Context) error { panic("x") })
		}()
		want(t, p, bulkhead.Stats{Limit: 2})
		if open := breaker.State() == fusebox.Open; open != (i == 2) {
			t.Errorf("after %d panics the breaker is %v", i+1, breaker.State())
		}
	}
}

func TestC125WaitersThatGaveUpLeaveNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Limit: 8, MaxWait: time.Second})
		take(t, p, 8)
		order := line(t.Context(), p, 8)
		<-time.NewTimer(time.Second).C
		if got := arrived(order); len(got) != 8 {
			t.Fatalf("%d waiters of 8 have given up", len(got))
		}
		release(p, 8)
		want(t, p, bulkhead.Stats{Limit: 8, Rejected: 8})
		take(t, p, 8)
	})
}

// Eight waiters give up while eight places are given back, and one stays.
// Whatever comes first, no place is lost, and none comes of nothing.
func TestC125APlaceGivenWhileGivingUpIsPassedOn(t *testing.T) {
	const places = 8
	races := 100_000
	if testing.Short() {
		races = 10_000
	}
	p := bulkhead.New(bulkhead.Config{Limit: places, MaxWait: time.Hour, MaxWaiting: places + 1})
	results, last := make(chan error, places), make(chan error, 1)
	given := 0
	for range races / places {
		take(t, p, places)
		ctx, cancel := context.WithCancel(t.Context())
		for range places {
			go func() { results <- p.Acquire(ctx) }()
		}
		for p.Stats().Waiting < places {
			runtime.Gosched()
		}
		go func() { last <- p.Acquire(t.Context()) }()
		for p.Stats().Waiting < places+1 {
			runtime.Gosched()
		}
		go cancel()
		release(p, places)
		for range places {
			if err := <-results; err == nil {
				given++
				p.Release()
			} else if !errors.Is(err, bulkhead.ErrFull) || !errors.Is(err, context.Canceled) {
				t.Fatalf("Acquire = %v, want a refusal that is the context's too", err)
			}
		}
		if err := <-last; err != nil {
			t.Fatalf("who stayed has no place: %v", err)
		}
		p.Release()
		if s := p.Stats(); s.InFlight != 0 || s.Waiting != 0 {
			t.Fatalf("Stats = %+v, want all free", s)
		}
	}
	t.Logf("%d of %d waiters had the place before they gave up", given, races)
}

// endedContext has ended once ended is set, though its Done does not tell yet.
type endedContext struct {
	context.Context
	ended *atomic.Bool
}

func (c endedContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

// The waiter wakes with a place, and finds that its context has ended.
func TestC125APlaceGivenToACallThatHasEndedIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Hour, MaxWaiting: 2})
		take(t, p, 1)
		var ended atomic.Bool
		first := line(endedContext{t.Context(), &ended}, p, 1)
		second := line(t.Context(), p, 1)
		ended.Store(true)
		p.Release()
		if got := arrived(first); len(got) != 1 || got[0] >= 0 {
			t.Errorf("the first has %v, want a refusal", got)
		}
		if got := arrived(second); len(got) != 1 || got[0] != 0 {
			t.Errorf("the second has %v, want the place", got)
		}
		p.Release()
		want(t, p, bulkhead.Stats{Limit: 1, Rejected: 1})
	})
}

// A wait that runs out at the very moment a place is given.
func TestC125APlaceGivenAsTheWaitRunsOutIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Second})
		given := 0
		for range 1000 {
			take(t, p, 1)
			freed := time.NewTimer(time.Second)
			go func() { <-freed.C; p.Release() }()
			if p.Acquire(t.Context()) == nil {
				given++
				p.Release()
			}
			synctest.Wait()
			if s := p.Stats(); s.InFlight != 0 || s.Waiting != 0 {
				t.Fatalf("Stats = %+v, want all free", s)
			}
		}
		t.Logf("%d of 1000 got the place", given)
	})
}

func TestC127ACancelledCallGivesItsPlaceBack(t *testing.T) {
	p := bulkhead.New(bulkhead.Config{Limit: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Do(ctx, func(context.Context) error { t.Error("called"); return nil }); err != context.Canceled { //nolint:errorlint // unchanged
		t.Errorf("Do = %v", err)
	}
	want(t, p, bulkhead.Stats{Limit: 1})

	ctx, cancel = context.WithCancel(t.Context())
	err := p.Do(ctx, func(ctx context.Context) error {
		cancel()
		<-ctx.Done()
		want(t, p, bulkhead.Stats{InFlight: 1, Limit: 1}) // what runs holds its place
		return ctx.Err()
	})
	if err != context.Canceled { //nolint:errorlint // unchanged
		t.Errorf("Do = %v", err)
	}
	want(t, p, bulkhead.Stats{Limit: 1})
}

func TestC129TheLimitIsNeverOvershot(t *testing.T) {
	const limit, workers = 10, 64
	for _, c := range []struct {
		config bulkhead.Config
		rounds int
	}{
		{bulkhead.Config{Limit: limit}, 10_000},
		{bulkhead.Config{Limit: limit, MaxWait: time.Hour, MaxWaiting: workers}, 1000},
	} {
		p := bulkhead.New(c.config)
		var inside, refused atomic.Int64
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for i := range c.rounds {
					if p.Acquire(context.Background()) != nil {
						refused.Add(1)
						continue
					}
					if n := inside.Add(1); n > limit {
						t.Errorf("%d calls in flight", n)
					}
					if i%8 == 0 {
						runtime.Gosched()
					}
					inside.Add(-1)
					p.Release()
				}
			})
		}
		all.Wait()
		want(t, p, bulkhead.Stats{Limit: limit, Rejected: uint64(refused.Load())})
		if c.config.MaxWait > 0 && refused.Load() > 0 {
			t.Errorf("%d refused, though all may wait", refused.Load())
		}
	}
}

func TestC131ATimeoutAroundEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Hour})
		take(t, p, 1)
		began := time.Now()
		err := fusebox.Chain(timeout(50*time.Millisecond), p).Do(t.Context(), func(context.Context) error { return nil })
		if got := time.Since(began); got != 50*time.Millisecond {
			t.Errorf("waited %v, want 50ms", got)
		}
		if !errors.Is(err, errTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do = %v, want the timeout", err)
		}
		want(t, p, bulkhead.Stats{InFlight: 1, Limit: 1, Rejected: 1})
	})
}

func TestC131ARefusedTryTakesNothing(t *testing.T) {
	p := bulkhead.New(bulkhead.Config{Limit: 5})
	take(t, p, 5)
	for range 10 {
		p.TryAcquire()
	}
	release(p, 5)
	take(t, p, 5)
}

package limit_test

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
	"github.com/fusebox-go/fusebox/limit"
)

func TestC66PanicInTheFunctionLeaksNoPlace(t *testing.T) {
	p := limit.New(limit.Config{Initial: 2})
	breaker := fusebox.New("x", fusebox.Config{Consecutive: 3})
	guarded := fusebox.Chain(p, breaker)
	for range 3 {
		func() {
			defer func() {
				if got := recover(); got != "x" {
					t.Errorf("recovered %v, want x", got)
				}
			}()
			_ = guarded.Do(t.Context(), func(context.Context) error { panic("x") })
		}()
		if s := p.Stats(); s.InFlight != 0 || s.Limit != 2 {
			t.Errorf("stats %+v, want both places free", s)
		}
	}
	if got := breaker.Snapshot().State; got != fusebox.Open {
		t.Errorf("the breaker is %v", got)
	}
}

func TestC74NothingIsLeftBehindByAPolicy(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 1000 {
		_ = limit.New(limit.Config{}).Do(t.Context(), func(context.Context) error { return nil })
		_ = limit.NewThrottle(limit.ThrottleConfig{}).Do(t.Context(), func(context.Context) error { return errTest })
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, before %d", after, before)
	}
}

func TestC117APlaceIsHeldUntilTheFunctionReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit.New(limit.Config{Initial: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		var g sync.WaitGroup
		g.Go(func() {
			_ = p.Do(ctx, func(context.Context) error { // of no mind for its context
				time.Sleep(50 * time.Millisecond)
				return context.DeadlineExceeded
			})
		})
		time.Sleep(20 * time.Millisecond)
		if err := p.Do(t.Context(), func(context.Context) error { return nil }); !errors.Is(err, limit.ErrLimit) {
			t.Errorf("at 20ms: %v, want a refusal", err)
		}
		g.Wait()
		if err := p.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Errorf("at 50ms: %v", err)
		}
		if s := p.Stats(); s.Dropped != 1 {
			t.Errorf("%d dropped, want the timeout", s.Dropped)
		}
	})
}

func TestC122TheCallerSeesWhoRefused(t *testing.T) {
	p, _ := busy(t, 1)
	err := fusebox.Chain(p, fusebox.New("x", fusebox.Config{})).Do(t.Context(), func(context.Context) error { return nil })
	var refusal *limit.Error
	if !errors.As(err, &refusal) || errors.Is(err, fusebox.ErrOpen) {
		t.Errorf("%v, want the refusal of the limit", err)
	}
}

func TestC127ACallerThatCancelsGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit.New(limit.Config{Initial: 1, MinSamples: 1, Window: 1})
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			var g sync.WaitGroup
			g.Go(func() {
				err := p.Do(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want context.Canceled", err)
				}
			})
			synctest.Wait()
			if s := p.Stats(); s.InFlight != 1 {
				t.Fatalf("%d in flight while the function runs", s.InFlight)
			}
			time.Sleep(time.Second)
			cancel()
			g.Wait()
			if s := p.Stats(); s.InFlight != 0 || s.Latency != 0 || s.Dropped != 0 || s.Limit != 1 {
				t.Fatalf("stats %+v, want no trace", s)
			}
		}
	})
}

func TestC129TheLimitIsNeverOvershot(t *testing.T) {
	p := limit.New(limit.Config{Initial: 10, Max: 10})
	var inFlight, highest atomic.Int64
	var g sync.WaitGroup
	for range 64 {
		g.Go(func() {
			for i := range 2000 {
				_ = p.Do(t.Context(), func(context.Context) error {
					n := inFlight.Add(1)
					for h := highest.Load(); n > h && !highest.CompareAndSwap(h, n); h = highest.Load() {
					}
					if i%8 == 0 {
						runtime.Gosched()
					}
					inFlight.Add(-1)
					return nil
				})
			}
		})
	}
	g.Wait()
	s := p.Stats()
	if highest.Load() > 10 || highest.Load() < 2 {
		t.Errorf("%d calls at a time, want some and at most 10", highest.Load())
	}
	if s.InFlight != 0 || s.Admitted+s.Rejected != 64*2000 {
		t.Errorf("stats %+v", s)
	}
}

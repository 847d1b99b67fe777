package timeout_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/timeout"
)

func TestC66PanicLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T) { // a bubble fails if a goroutine stays
		p := timeout.New(time.Second)
		for range 3 {
			func() {
				defer func() { recover() }()
				p.Do(t.Context(), func(context.Context) error { panic("x") })
			}()
			func() {
				defer func() { recover() }()
				timeout.Abandon(t.Context(), p, explode)
			}()
		}
		if s := p.Stats(); s != (timeout.Stats{}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestC98NeitherSleepNorWaitOutlastsTheContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := timeout.New(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		if err := p.Do(ctx, heed); err != context.Canceled || time.Since(start) != time.Second { //nolint:errorlint // unchanged
			t.Error(err, time.Since(start))
		}
	})
}

func TestC113WorkersOfTimedOutCallsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) { // fails if one stays
		p := timeout.New(10 * time.Millisecond)
		for range 100 {
			if _, err := timeout.Abandon(t.Context(), p, after(20*time.Millisecond, 1, nil)); !errors.Is(err, timeout.ErrTimeout) {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s := p.Stats(); s != (timeout.Stats{Timeouts: 100, Dropped: 100}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestC114ResultIsNeverMixed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := timeout.New(5 * time.Millisecond)
		answers, timeouts := 0, 0
		for i := range 10_000 {
			d := 5 * time.Millisecond
			if i%2 == 0 { // every other one at the very instant
				d += time.Duration(i%2001-1000) * time.Microsecond
			}
			v, err := timeout.Abandon(t.Context(), p, after(d, i+1, nil))
			switch {
			case err == nil && v == i+1:
				answers++
			case errors.Is(err, timeout.ErrTimeout) && v == 0:
				timeouts++
			default:
				t.Fatalf("round %d: %v, %v", i, v, err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s := p.Stats(); answers == 0 || timeouts == 0 || s.Timeouts != uint64(timeouts) || s.Dropped != s.Timeouts || s.Abandoned != 0 {
			t.Errorf("%d answers, %d timeouts, %+v", answers, timeouts, s)
		}
	})
}

func TestC116OneTimeoutIsOneFailureAndOneFallback(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := fusebox.New("b", fusebox.Config{})
		p := timeout.New(10 * time.Millisecond)
		fallbacks := 0
		_, err := fusebox.Call(t.Context(), b, func(ctx context.Context) (int, error) {
			return timeout.Abandon(ctx, p, after(30*time.Millisecond, 0, errBroken))
		})
		if err != nil {
			fallbacks++
		}
		time.Sleep(time.Second)
		if s := b.Snapshot(); fallbacks != 1 || s.Counts.Failures != 1 || s.Counts.Calls != 1 {
			t.Errorf("%d fallbacks, %+v", fallbacks, s.Counts)
		}
	})
}

var errFull = errors.New("full")

// slots is the least bulkhead: it refuses at once.
type slots chan struct{}

func (s slots) Do(ctx context.Context, fn func(context.Context) error) error {
	select {
	case s <- struct{}{}:
		defer func() { <-s }()
		return fn(ctx)
	default:
		return errFull
	}
}

func TestC117PermitIsHeldUntilTheFunctionReturns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, bulkhead := timeout.New(10*time.Millisecond), make(slots, 1)
		work := func() error {
			_, err := timeout.Abandon(t.Context(), p, func(ctx context.Context) (int, error) {
				return fusebox.Call(ctx, bulkhead, after(50*time.Millisecond, 1, nil))
			})
			return err
		}
		start := time.Now()
		at := func(want time.Duration) {
			t.Helper()
			if d := time.Since(start); d > want*time.Millisecond {
				t.Fatalf("at %v already, want %dms", d, want)
			}
			time.Sleep(want*time.Millisecond - time.Since(start))
		}
		if err := work(); !errors.Is(err, timeout.ErrTimeout) {
			t.Error(err)
		}
		at(20)
		if err := work(); err != errFull || p.Stats().Abandoned != 1 { //nolint:errorlint // unchanged
			t.Error(err, p.Stats())
		}
		at(60)
		if err := work(); !errors.Is(err, timeout.ErrTimeout) { // admitted
			t.Error(err)
		}
		time.Sleep(time.Second)
	})
}

func TestC117PermitOutsideDoIsHeldToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		chain := fusebox.Chain(make(slots, 1), timeout.New(10*time.Millisecond))
		go chain.Do(t.Context(), func(context.Context) error { time.Sleep(50 * time.Millisecond); return nil })
		time.Sleep(20 * time.Millisecond)
		if err := chain.Do(t.Context(), heed); err != errFull { //nolint:errorlint // unchanged
			t.Error(err)
		}
		time.Sleep(40 * time.Millisecond)
		if err := chain.Do(t.Context(), heed); !errors.Is(err, timeout.ErrTimeout) {
			t.Error(err)
		}
	})
}

func TestC120AbandonReturnsAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		_, err := timeout.Abandon(t.Context(), timeout.New(20*time.Millisecond), after(time.Second, 0, nil))
		if d := time.Since(start); d != 20*time.Millisecond || !errors.Is(err, timeout.ErrTimeout) {
			t.Error(d, err)
		}
		time.Sleep(time.Second)
	})
}

func TestC120OuterTimeoutEndsTheRetriesInside(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		var starts []time.Duration
		retry := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
			for {
				if err := fn(ctx); err == nil || ctx.Err() != nil {
					return err
				}
			}
		})
		var cause error
		err := fusebox.Chain(timeout.New(500*time.Millisecond), retry).Do(t.Context(), func(ctx context.Context) error {
			starts = append(starts, time.Since(start))
			select {
			case <-time.After(200 * time.Millisecond):
				return errBroken
			case <-ctx.Done():
				cause = context.Cause(ctx)
				return ctx.Err()
			}
		})
		if len(starts) != 3 || starts[2] != 400*time.Millisecond || time.Since(start) != 500*time.Millisecond {
			t.Error(starts, time.Since(start))
		}
		if !errors.Is(cause, timeout.ErrTimeout) || !errors.Is(err, timeout.ErrTimeout) {
			t.Error(cause, err)
		}
	})
}

func TestC131WaitForAPermitEndsWithTheTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		permits := make(chan struct{}, 1)
		permits <- struct{}{}
		wait := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
			select {
			case permits <- struct{}{}:
				return fn(ctx)
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		start := time.Now()
		err := fusebox.Chain(timeout.New(50*time.Millisecond), wait).Do(t.Context(), heed)
		if !errors.Is(err, timeout.ErrTimeout) || time.Since(start) != 50*time.Millisecond {
			t.Error(err, time.Since(start))
		}
	})
}

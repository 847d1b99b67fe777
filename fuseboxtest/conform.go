package fuseboxtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Conform tests that a policy keeps the promises of [fusebox.Policy], whatever
// else it does: an error, a panic and runtime.Goexit in the function pass on,
// and leave no slot taken; a context that is done already means no call; the
// function's context ends with the caller's and carries its values; calls of
// the function never overlap, none runs when Do has returned, and no goroutine
// is left.
//
// policy is called for each test, inside a testing/synctest bubble of its own,
// and returns a new policy. It must admit a call, also when one in four of
// those before has failed: give a breaker or a limit room enough.
//
//	func TestConform(t *testing.T) {
//		fuseboxtest.Conform(t, func() fusebox.Policy { return mine.New() })
//	}
func Conform(t *testing.T, policy func() fusebox.Policy) {
	t.Helper()
	for _, c := range conformance {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := c.holds(policy()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

var (
	errConform   = errors.New("fuseboxtest: a failure")
	errNone      = errors.New("none")
	errNotCalled = errors.New("nil from Do, which did not call the function")
)

// conformance are the promises. Each has its test, which runs in a bubble.
var conformance = []struct {
	name  string
	holds func(fusebox.Policy) error
}{
	{"a success is nil", conformSuccess},
	{"an error passes on", conformError},
	{"a panic passes on", conformPanic},
	{"Goexit passes on", conformGoexit},
	{"a cancelled context means no call", conformCancelled},
	{"an expired context means no call", conformExpired},
	{"a context cancelled meanwhile reaches the function", conformCancelledMeanwhile},
	{"a deadline reaches the function", conformDeadline},
	{"values of the context reach the function", conformValue},
	{"calls do not overlap, and Do returns after them", conformOneAtATime},
	{"Do waits for a function that ignores its context", conformWaits},
	{"no goroutine is left", conformGoroutines},
}

func succeed(p fusebox.Policy) error {
	var called atomic.Bool
	err := p.Do(context.Background(), func(context.Context) error { called.Store(true); return nil })
	if err == nil && !called.Load() {
		return errNotCalled
	}
	return err
}

// afterwards does something many times, with three successes before each: more
// often than most policies have slots, so that a slot lost each time is found.
func afterwards(p fusebox.Policy, what string, do func() error) error {
	for i := range 200 {
		for range 3 {
			if err := succeed(p); err != nil {
				return fmt.Errorf("a call that succeeds, after %d %s: %w", i, what, err)
			}
		}
		if err := do(); err != nil {
			return err
		}
		time.Sleep(time.Minute) // what has been spent may come back, a slot does not
	}
	return nil
}

func conformSuccess(p fusebox.Policy) error {
	return afterwards(p, "successes", func() error { return nil })
}

func conformError(p fusebox.Policy) error {
	return afterwards(p, "failures", func() error {
		var calls atomic.Int32
		err := p.Do(context.Background(), func(context.Context) error { calls.Add(1); return errConform })
		switch {
		case calls.Load() == 0:
			return fmt.Errorf("the function was not called: %w", err)
		case calls.Load() == 1 && err != errConform: //nolint:errorlint // unchanged means the very same
			return fmt.Errorf("not the error of the only call itself but: %w", cmp.Or(err, errNone))
		case !errors.Is(err, errConform):
			return fmt.Errorf("not an error that wraps that of the last call: %w", cmp.Or(err, errNone))
		}
		return nil
	})
}

func conformPanic(p fusebox.Policy) error {
	return afterwards(p, "panics", func() (err error) {
		value := new(int)
		defer func() {
			if r := recover(); r != value {
				err = fmt.Errorf("the function panicked, and Do with %v, returning %w", r, err)
			}
		}()
		return errors.Join(p.Do(context.Background(), func(context.Context) error { panic(value) }), errors.New("no panic"))
	})
}

func conformGoexit(p fusebox.Policy) error {
	return afterwards(p, "calls of runtime.Goexit", func() error {
		ended := make(chan error)
		go func() {
			err := errors.New("ended")
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("panic of Do with %v", r)
				}
				ended <- err
			}()
			_ = p.Do(context.Background(), func(context.Context) error { runtime.Goexit(); return nil })
			err = errors.New("return of Do after a call that ended its goroutine")
		}()
		if err := <-ended; err.Error() != "ended" {
			return err
		}
		return nil
	})
}

func conformCancelled(p fusebox.Policy) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return afterwards(p, "calls with a cancelled context", func() error { return conformDone(ctx, p) })
}

func conformExpired(p fusebox.Policy) error {
	ctx, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	return afterwards(p, "calls with an expired context", func() error { return conformDone(ctx, p) })
}

func conformDone(ctx context.Context, p fusebox.Policy) error {
	var called atomic.Bool
	err := p.Do(ctx, func(context.Context) error { called.Store(true); return nil })
	switch {
	case called.Load():
		return fmt.Errorf("the function was called though the context was done: %w", ctx.Err())
	case !errors.Is(err, ctx.Err()):
		return fmt.Errorf("not the context's error (%w) but: %w", ctx.Err(), cmp.Or(err, errNone))
	}
	return nil
}

// patience is how long a function waits for its context: longer than a policy
// would let it.
const patience = 1000 * time.Hour

func conformCancelledMeanwhile(p fusebox.Policy) error {
	return afterwards(p, "calls cancelled meanwhile", func() error {
		ctx, cancel := context.WithCancel(context.Background())
		defer time.AfterFunc(time.Millisecond, cancel).Stop()
		return conformEnds(ctx, p)
	})
}

func conformDeadline(p fusebox.Policy) error {
	return afterwards(p, "calls that met their deadline", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		return conformEnds(ctx, p)
	})
}

// conformEnds makes a call that waits for its context, which ends in a
// millisecond.
func conformEnds(ctx context.Context, p fusebox.Policy) error {
	var missed atomic.Bool
	begin := time.Now()
	err := p.Do(ctx, func(ctx context.Context) error {
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			missed.Store(true)
			return errConform
		}
	})
	switch {
	case missed.Load() || time.Since(begin) != time.Millisecond:
		return fmt.Errorf("the caller's context ended after 1ms, and Do returned after %v: %w", time.Since(begin), err)
	case !errors.Is(err, ctx.Err()):
		return fmt.Errorf("not the error of the function (%w) but: %w", ctx.Err(), cmp.Or(err, errNone))
	}
	return nil
}

func conformValue(p fusebox.Policy) error {
	type key struct{}
	var got atomic.Value
	err := p.Do(context.WithValue(context.Background(), key{}, "v"), func(ctx context.Context) error {
		got.Store(fmt.Sprint(ctx.Value(key{})))
		return nil
	})
	if err == nil && got.Load() != "v" {
		err = fmt.Errorf("a value of the caller's context reads %v", got.Load())
	}
	return err
}

func conformOneAtATime(p fusebox.Policy) error {
	var running, overlaps, calls atomic.Int32
	for i := range 50 {
		var failed atomic.Bool
		err := p.Do(context.Background(), func(context.Context) error {
			if running.Add(1) != 1 {
				overlaps.Add(1)
			}
			defer running.Add(-1)
			calls.Add(1)
			time.Sleep(time.Hour)
			if i%4 == 1 && failed.CompareAndSwap(false, true) { // then it succeeds, if asked again
				return errConform
			}
			return nil
		})
		if running.Load() != 0 {
			return errors.New("return of Do while the function ran")
		}
		if err != nil && !errors.Is(err, errConform) {
			return err
		}
		before := calls.Load()
		time.Sleep(time.Minute)
		if calls.Load() != before {
			return errors.New("the function was called after Do had returned")
		}
	}
	if overlaps.Load() > 0 {
		return errors.New("calls of the function overlapped")
	}
	return nil
}

func conformWaits(p fusebox.Policy) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var returned atomic.Bool
	_ = p.Do(ctx, func(context.Context) error {
		time.Sleep(patience)
		returned.Store(true)
		return errConform
	})
	if !returned.Load() {
		return errors.New("return of Do before that of the function")
	}
	return nil
}

func conformGoroutines(p fusebox.Policy) error {
	before := goroutines()
	for i := range 100 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		err := p.Do(ctx, func(context.Context) error {
			if i%4 == 3 {
				return errConform
			}
			return nil
		})
		if err != nil && !errors.Is(err, errConform) {
			cancel()
			return err
		}
		cancel()
	}
	synctest.Wait()
	if after := goroutines(); after > before {
		return fmt.Errorf("%d goroutines after 100 calls, %d before", after, before)
	}
	return nil
}

// goroutines counts those of the present bubble: others may come and go. The
// heading of a goroutine's stack names its bubble.
func goroutines() int {
	heading, _, _ := bytes.Cut(stack(false), []byte("\n"))
	i := bytes.Index(heading, []byte("synctest bubble"))
	if i < 0 {
		return runtime.NumGoroutine()
	}
	return bytes.Count(stack(true), heading[i:])
}

func stack(all bool) []byte {
	b := make([]byte, 1<<16)
	for {
		if n := runtime.Stack(b, all); n < len(b) {
			return b[:n]
		}
		b = make([]byte, 2*len(b))
	}
}

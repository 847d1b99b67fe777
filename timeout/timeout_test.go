package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
	"github.com/fusebox-go/fusebox/timeout"
)

var errBroken = errors.New("broken")

// bubble runs f where time is virtual.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// heed waits until its context ends, and returns what ended it.
func heed(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// asError returns the *Error in the tree of err.
func asError(t *testing.T, err error) *timeout.Error {
	t.Helper()
	var e *timeout.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *Error", err)
	}
	return e
}

func TestNew(t *testing.T) {
	for _, limit := range []time.Duration{0, -time.Second} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if err == nil || !strings.Contains(err.Error(), "fusebox/timeout: limit is "+limit.String()+", must be positive") {
					t.Errorf("New(%v): %v", limit, err)
				}
			}()
			timeout.New(limit)
		}()
	}
	p := timeout.New(1500 * time.Millisecond)
	if p.Limit() != 1500*time.Millisecond || p.String() != "timeout(1.5s)" {
		t.Error(p.Limit(), p)
	}
}

func TestConform(t *testing.T) {
	fuseboxtest.Conform(t, func() fusebox.Policy { return timeout.New(time.Hour) })
}

func TestDoIsTransparentInTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "v")
		p := timeout.New(time.Second)
		for _, want := range []error{nil, errBroken, context.DeadlineExceeded} {
			var inner context.Context
			err := p.Do(ctx, func(ctx context.Context) error {
				inner = ctx
				if d, ok := ctx.Deadline(); !ok || time.Until(d) != time.Second {
					t.Error("deadline", d, ok)
				}
				if ctx.Value(key{}) != "v" || ctx.Err() != nil {
					t.Error("not the caller's context")
				}
				time.Sleep(time.Second - 1)
				return want
			})
			if err != want { //nolint:errorlint // the very error
				t.Errorf("got %v, want %v unchanged", err, want)
			}
			if inner.Err() != context.Canceled {
				t.Error("the context goes on after Do")
			}
		}
		if s := p.Stats(); s != (timeout.Stats{}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestErrorAfterTheDeadlineIsATimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := timeout.New(time.Second)
		start := time.Now()
		err := p.Do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			e := asError(t, context.Cause(ctx))
			if e.Limit() != time.Second || e.Unwrap() != nil || !errors.Is(e, timeout.ErrTimeout) {
				t.Errorf("cause %v", e)
			}
			return fmt.Errorf("reading: %w", errBroken)
		})
		if d := time.Since(start); d != time.Second {
			t.Error("took", d)
		}
		e := asError(t, err)
		for _, target := range []error{timeout.ErrTimeout, context.DeadlineExceeded, errBroken} {
			if !errors.Is(err, target) {
				t.Errorf("is not %v", target)
			}
		}
		if errors.Is(err, context.Canceled) {
			t.Error("is a cancellation")
		}
		var n net.Error
		if !errors.As(err, &n) || !n.Timeout() || !e.Temporary() {
			t.Error("is no net.Error that timed out")
		}
		if want := "fusebox: time limit of 1s exceeded: reading: broken"; err.Error() != want {
			t.Errorf("text %q, want %q", err, want)
		}
		if _, rejected := fusebox.Rejected(err); rejected {
			t.Error("a timeout is no refusal")
		}
		if s := p.Stats(); s.Timeouts != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestNilAfterTheDeadlineStaysNil(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := timeout.New(time.Second)
		err := p.Do(t.Context(), func(context.Context) error { time.Sleep(time.Minute); return nil })
		if err != nil || p.Stats().Timeouts != 0 {
			t.Error(err, p.Stats())
		}
	})
}

// The clock has reached the deadline, whether or not the timer has run yet.
func TestErrorAtTheDeadlineIsATimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := timeout.New(time.Second)
		for range 100 {
			err := p.Do(t.Context(), func(context.Context) error { time.Sleep(time.Second); return errBroken })
			if !errors.Is(err, timeout.ErrTimeout) || !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
		}
	})
}

func TestCauseIsNotWrappedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := timeout.New(time.Second)
		var want error
		for name, wrap := range map[string]func(error) error{
			"itself":  func(err error) error { return err },
			"wrapped": func(err error) error { return fmt.Errorf("reading: %w", err) },
		} {
			err := p.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				want = wrap(context.Cause(ctx))
				return want
			})
			if err != want { //nolint:errorlint // the very error
				t.Errorf("%s: got %v, want %v", name, err, want)
			}
		}
		if p.Stats().Timeouts != 2 {
			t.Error(p.Stats())
		}
	})
}

func TestWhereTheCallerEndsFirstItIsHisError(t *testing.T) {
	cause := errors.New("shutting down")
	for name, tt := range map[string]struct {
		derive func(context.Context) (context.Context, context.CancelFunc)
		err    error
		cause  error
	}{
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}, context.DeadlineExceeded, context.DeadlineExceeded},
		"deadline with a cause": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, cause)
		}, context.DeadlineExceeded, cause},
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		}, context.Canceled, cause},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := timeout.New(2 * time.Second)
				ctx, cancel := tt.derive(t.Context())
				defer cancel()
				start := time.Now()
				err := p.Do(ctx, func(ctx context.Context) error {
					err := heed(ctx)
					if context.Cause(ctx) != tt.cause { //nolint:errorlint // the very error
						t.Errorf("cause %v, want %v", context.Cause(ctx), tt.cause)
					}
					return err
				})
				if err != tt.err { //nolint:errorlint // the very error
					t.Errorf("Do: %v, want %v unchanged", err, tt.err)
				}
				again, cancel := tt.derive(t.Context())
				defer cancel()
				_, err = timeout.Abandon(again, p, func(ctx context.Context) (int, error) {
					time.Sleep(time.Hour)
					return 0, nil
				})
				if err != tt.err { //nolint:errorlint // the very error
					t.Errorf("Abandon: %v, want %v", err, tt.err)
				}
				if d := time.Since(start); d != 2*time.Second || p.Stats().Timeouts != 0 {
					t.Error(d, p.Stats())
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

func TestErrorAtTheCallersDeadlineIsHis(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, limit := range []time.Duration{time.Second, time.Second + 1} { // both at once, and his before
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := timeout.New(limit).Do(ctx, func(context.Context) error {
				time.Sleep(time.Second - 1)
				return errBroken
			})
			if err != errBroken { //nolint:errorlint // unchanged
				t.Error(err)
			}
			if limit > time.Second {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
				err = timeout.New(limit).Do(ctx, func(context.Context) error { time.Sleep(time.Second); return errBroken })
				if err != errBroken { //nolint:errorlint // unchanged
					t.Error(err)
				}
			}
			cancel()
		}
	})
}

func TestNestedTimeoutsTellWhoseItWas(t *testing.T) {
	for _, tt := range []struct{ outer, inner time.Duration }{
		{time.Second, 2 * time.Second},
		{2 * time.Second, time.Second},
	} {
		bubble(t, func(t *testing.T) {
			outer, inner := timeout.New(tt.outer), timeout.New(tt.inner)
			var seen error
			err := outer.Do(t.Context(), func(ctx context.Context) error {
				seen = inner.Do(ctx, heed)
				return seen
			})
			if e := asError(t, err); e.Limit() != time.Second {
				t.Errorf("limit %v passed", e.Limit())
			}
			if got := errors.Is(seen, timeout.ErrTimeout); got != (tt.inner < tt.outer) {
				t.Errorf("inner returned %v", seen)
			}
			if o, i := outer.Stats().Timeouts, inner.Stats().Timeouts; o+i != 1 || (o == 1) != (tt.outer < tt.inner) {
				t.Error("counted", o, i)
			}
		})
	}
}

// The cause of both contexts is the same value.
func TestNestedCallsOfOnePolicyTellWhoseItWas(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := timeout.New(time.Second)
		var seen error
		err := p.Do(t.Context(), func(ctx context.Context) error {
			time.Sleep(time.Millisecond)
			seen = p.Do(ctx, heed)
			return seen
		})
		if seen != context.DeadlineExceeded { //nolint:errorlint // unchanged
			t.Errorf("inner returned %v, though the deadline was its caller's", seen)
		}
		if errors.Unwrap(asError(t, err)) != seen || p.Stats().Timeouts != 1 { //nolint:errorlint // unchanged
			t.Error(err, p.Stats())
		}
	})
}

func TestDoneContextMeansNoCall(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errBroken)
	p := timeout.New(time.Second)
	fn := func(context.Context) error { t.Error("called"); return nil }
	if err := p.Do(ctx, fn); err != context.Canceled { //nolint:errorlint // unchanged
		t.Error("Do:", err)
	}
	if _, err := timeout.Abandon(ctx, p, func(ctx context.Context) (int, error) { return 0, fn(ctx) }); err != context.Canceled { //nolint:errorlint // unchanged
		t.Error("Abandon:", err)
	}
}

func TestPanicAndGoexitPassThroughDo(t *testing.T) {
	p := timeout.New(time.Second)
	var inner context.Context
	func() {
		defer func() {
			if r := recover(); r != "boom" {
				t.Error("recovered", r)
			}
		}()
		p.Do(t.Context(), func(ctx context.Context) error { inner = ctx; panic("boom") })
	}()
	if inner.Err() == nil {
		t.Error("the context goes on after a panic")
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		p.Do(t.Context(), func(ctx context.Context) error { inner = ctx; runtime.Goexit(); return nil })
		t.Error("returned")
	}()
	<-done
	if inner.Err() == nil {
		t.Error("the context goes on after Goexit")
	}
}

func TestAllocations(t *testing.T) {
	p, ctx := timeout.New(time.Second), t.Context()
	fn := func(context.Context) error { return nil }
	plain := testing.AllocsPerRun(100, func() {
		inner, cancel := context.WithTimeoutCause(ctx, time.Second, errBroken)
		fn(inner)
		cancel()
	})
	if got := testing.AllocsPerRun(100, func() { p.Do(ctx, fn) }); got > plain {
		t.Errorf("Do allocates %v times, the context alone %v", got, plain)
	}
}

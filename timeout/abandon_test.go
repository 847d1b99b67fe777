package timeout_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/timeout"
)

// after returns a function that ignores its context and returns v, err after d.
func after[T any](d time.Duration, v T, err error) func(context.Context) (T, error) {
	return func(context.Context) (T, error) {
		time.Sleep(d)
		return v, err
	}
}

func TestAbandonReturnsTheResult(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := timeout.New(time.Second)
		for _, want := range []error{nil, errBroken} {
			var inner context.Context
			v, err := timeout.Abandon(t.Context(), p, func(ctx context.Context) (string, error) {
				inner = ctx
				time.Sleep(time.Second - 1)
				return "v", want
			})
			if v != "v" || err != want { //nolint:errorlint // the very error
				t.Errorf("got %q, %v", v, err)
			}
			if inner.Err() != context.Canceled {
				t.Error("the context goes on after Abandon")
			}
		}
		if s := p.Stats(); s != (timeout.Stats{}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestAbandonLeavesAtTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := timeout.New(time.Second)
		start := time.Now()
		contexts := make(chan context.Context, 1)
		v, err := timeout.Abandon(t.Context(), p, func(ctx context.Context) (string, error) {
			contexts <- ctx
			time.Sleep(time.Minute)
			return "late", nil
		})
		if v != "" || !errors.Is(err, timeout.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %q, %v", v, err)
		}
		if e := asError(t, err); e.Unwrap() != nil || e.Error() != "fusebox: time limit of 1s exceeded" {
			t.Error(e)
		}
		if d := time.Since(start); d != time.Second {
			t.Error("took", d)
		}
		if cause := context.Cause(<-contexts); cause != err { //nolint:errorlint // the very error
			t.Error("cause", cause)
		}
		if s := p.Stats(); s != (timeout.Stats{Timeouts: 1, Abandoned: 1}) {
			t.Errorf("while it runs: %+v", s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := p.Stats(); s != (timeout.Stats{Timeouts: 1, Dropped: 1}) {
			t.Errorf("after it: %+v", s)
		}
	})
}

type closer struct{ closed *int }

func (c closer) Close() error { *c.closed++; return nil }

func TestLateResultIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		closed := 0
		p := timeout.New(time.Second)
		_, err := timeout.Abandon(t.Context(), p, after(2*time.Second, closer{&closed}, nil))
		time.Sleep(time.Minute)
		synctest.Wait()
		if closed != 1 || !errors.Is(err, timeout.ErrTimeout) {
			t.Error(closed, err)
		}
		if _, err = timeout.Abandon(t.Context(), p, after(0, closer{&closed}, nil)); closed != 1 || err != nil {
			t.Error("a result that was taken was closed", closed, err)
		}
	})
}

func TestPanicReachesTheOneWhoWaits(t *testing.T) {
	defer func() {
		p, _ := recover().(*timeout.Panic)
		if p == nil || p.Value != errBroken || !strings.Contains(p.Error(), "explode") { //nolint:errorlint // unchanged
			t.Errorf("recovered %v", p)
		}
	}()
	timeout.Abandon(t.Context(), timeout.New(time.Hour), explode)
}

func explode(context.Context) (int, error) { panic(errBroken) }

func TestGoexitReachesTheOneWhoWaits(t *testing.T) {
	done := make(chan bool)
	go func() {
		defer close(done)
		timeout.Abandon(t.Context(), timeout.New(time.Hour), func(context.Context) (int, error) {
			runtime.Goexit()
			return 0, nil
		})
		t.Error("returned")
	}()
	<-done
}

// logged returns what f logs.
func logged(f func()) string {
	var b bytes.Buffer
	old := slog.Default()
	defer slog.SetDefault(old)
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	f()
	return b.String()
}

func TestLatePanicIsCountedAndLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := timeout.New(time.Second)
		text := logged(func() {
			for range 3 {
				timeout.Abandon(t.Context(), p, func(ctx context.Context) (int, error) {
					time.Sleep(time.Minute)
					return explode(ctx)
				})
			}
			timeout.Abandon(t.Context(), p, func(context.Context) (int, error) {
				time.Sleep(time.Minute)
				runtime.Goexit() // nobody to end, and nothing to tell
				return 0, nil
			})
			time.Sleep(time.Hour)
			synctest.Wait()
		})
		if s := p.Stats(); s != (timeout.Stats{Timeouts: 4, Dropped: 4, Panics: 3}) {
			t.Errorf("%+v", s)
		}
		if strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "explode") || !strings.Contains(text, "panic=broken") {
			t.Errorf("logged %q", text)
		}
	})
}

func TestErrorOfAbandonedAfterTheDeadlineIsATimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := timeout.New(time.Second)
		for range 100 { // either the function is first, or the limit
			_, err := timeout.Abandon(t.Context(), p, after(time.Second, 0, errBroken))
			if !errors.Is(err, timeout.ErrTimeout) {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if s := p.Stats(); s.Timeouts != 100 || s.Abandoned != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestBreakerSeesTheTimeoutAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := fusebox.New("b", fusebox.Config{Consecutive: 1})
		p := timeout.New(10 * time.Millisecond)
		_, err := fusebox.Call(t.Context(), b, func(ctx context.Context) (int, error) {
			return timeout.Abandon(ctx, p, after(time.Hour, 0, nil))
		})
		if !errors.Is(err, timeout.ErrTimeout) || b.State() != fusebox.Open {
			t.Error(err, b.State())
		}
		time.Sleep(time.Hour)
	})
}

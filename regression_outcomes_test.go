package fusebox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// What an outcome is made of: contexts, timeouts, marks and lists.

// caseTimeout is a timeout for each call.
func caseTimeout(d time.Duration) fusebox.Policy {
	return fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		return fn(ctx)
	})
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

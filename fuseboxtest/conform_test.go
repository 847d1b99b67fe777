package fuseboxtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/retry"
)

type (
	do = func(context.Context, func(context.Context) error) error
	fn = func(context.Context) error
)

func TestConform(t *testing.T) {
	for name, make := range map[string]func() fusebox.Policy{
		"a breaker": func() fusebox.Policy { return fusebox.New("b", fusebox.Config{}) },
		"a retry":   func() fusebox.Policy { return retry.New(retry.Config{}) },
		"a chain": func() fusebox.Policy {
			return fusebox.Chain(retry.New(retry.Config{Attempts: 2}), fusebox.New("b", fusebox.Config{FailureRate: 0.9}))
		},
		"nothing": func() fusebox.Policy { return polite(func(ctx context.Context, f fn) error { return f(ctx) }) },
	} {
		t.Run(name, func(t *testing.T) { Conform(t, make) })
	}
}

// polite is a policy that does not call when the context is done.
func polite(f do) fusebox.PolicyFunc {
	return func(ctx context.Context, fn func(context.Context) error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return f(ctx, fn)
	}
}

// TestConformFindsWhatIsWrong breaks each promise in turn: its test, and no
// other but those named, must notice.
func TestConformFindsWhatIsWrong(t *testing.T) {
	const (
		success   = "a success is nil"
		fails     = "an error passes on"
		panics    = "a panic passes on"
		goexit    = "Goexit passes on"
		cancelled = "a cancelled context means no call"
		expired   = "an expired context means no call"
		meanwhile = "a context cancelled meanwhile reaches the function"
		deadline  = "a deadline reaches the function"
		value     = "values of the context reach the function"
		overlap   = "calls do not overlap, and Do returns after them"
		waits     = "Do waits for a function that ignores its context"
		left      = "no goroutine is left"
	)
	for name, bad := range map[string]struct {
		policy func() fusebox.Policy
		finds  []string
	}{
		"it calls though the context is done": {
			func() fusebox.Policy {
				return fusebox.PolicyFunc(func(ctx context.Context, f fn) error { return f(ctx) })
			},
			[]string{cancelled, expired},
		},
		"it hides errors": {
			func() fusebox.Policy {
				return polite(func(ctx context.Context, f fn) error { _ = f(ctx); return nil })
			},
			[]string{fails, meanwhile, deadline},
		},
		"it rewrites errors": {
			func() fusebox.Policy {
				return polite(func(ctx context.Context, f fn) error {
					if err := f(ctx); err != nil {
						return errors.New("failed: " + err.Error())
					}
					return nil
				})
			},
			[]string{fails, meanwhile, deadline, overlap, left},
		},
		"it wraps the only error": {
			func() fusebox.Policy {
				return polite(func(ctx context.Context, f fn) error {
					if err := f(ctx); err != nil {
						return fmt.Errorf("failed: %w", err)
					}
					return nil
				})
			},
			[]string{fails},
		},
		"it does not call": {
			func() fusebox.Policy { return polite(func(context.Context, fn) error { return nil }) },
			[]string{success, fails, panics, goexit, cancelled, expired, meanwhile, deadline, value, waits},
		},
		"it swallows panics": {
			func() fusebox.Policy {
				return polite(func(ctx context.Context, f fn) (err error) {
					defer func() {
						if r := recover(); r != nil {
							err = errors.New("panicked")
						}
					}()
					return f(ctx)
				})
			},
			[]string{panics},
		},
		"a panic keeps its slot": {
			func() fusebox.Policy {
				slots := make(chan struct{}, 150)
				return polite(func(ctx context.Context, f fn) error {
					select {
					case slots <- struct{}{}:
					default:
						return errors.New("full")
					}
					err := f(ctx)
					<-slots
					return err
				})
			},
			[]string{panics, goexit},
		},
		"an error keeps its slot": {
			func() fusebox.Policy {
				slots := 150
				return polite(func(ctx context.Context, f fn) error {
					if slots == 0 {
						return errors.New("full")
					}
					err := f(ctx)
					if err != nil {
						slots--
					}
					return err
				})
			},
			[]string{fails, meanwhile, deadline},
		},
		"it runs the function elsewhere": {
			func() fusebox.Policy {
				return polite(func(ctx context.Context, f fn) error {
					result := make(chan error, 1)
					go func() {
						err := errors.New("lost")
						defer func() { _ = recover(); result <- err }()
						err = f(ctx)
					}()
					return <-result
				})
			},
			[]string{panics, goexit},
		},
		"it does not wait for the function": {
			func() fusebox.Policy {
				return polite(func(ctx context.Context, f fn) error {
					result := make(chan error, 1)
					go func() { result <- f(ctx) }()
					select {
					case err := <-result:
						return err
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			},
			nil, // it crashes at a panic: only waits can be asked, below
		},
		"it gives the function another context": {
			func() fusebox.Policy {
				return polite(func(_ context.Context, f fn) error { return f(context.Background()) })
			},
			[]string{meanwhile, deadline, value},
		},
		"it hedges": {
			func() fusebox.Policy {
				return polite(func(ctx context.Context, f fn) error {
					var wg sync.WaitGroup
					wg.Go(func() { defer func() { _ = recover() }(); _ = f(ctx) })
					defer wg.Wait()
					return f(ctx)
				})
			},
			[]string{overlap},
		},
		"it hedges after a while": {
			func() fusebox.Policy {
				return polite(func(ctx context.Context, f fn) error {
					var wg sync.WaitGroup
					ctx, cancel := context.WithCancel(ctx)
					wg.Go(func() {
						defer func() { _ = recover() }()
						select {
						case <-ctx.Done():
						case <-time.After(10 * time.Millisecond):
							_ = f(ctx)
						}
					})
					defer wg.Wait()
					defer cancel()
					return f(ctx)
				})
			},
			[]string{overlap},
		},
		"it calls again afterwards": {
			func() fusebox.Policy {
				return polite(func(ctx context.Context, f fn) error {
					err := f(ctx)
					if err == nil {
						time.AfterFunc(time.Second, func() { _ = f(ctx) })
					}
					return err
				})
			},
			[]string{overlap},
		},
		"it leaves a goroutine": {
			func() fusebox.Policy {
				return polite(func(ctx context.Context, f fn) error {
					go time.Sleep(time.Hour)
					return f(ctx)
				})
			},
			[]string{left},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, c := range conformance {
				if bad.finds == nil && c.name != waits {
					continue
				}
				synctest.Test(t, func(*testing.T) {
					if c.holds(bad.policy()) != nil {
						found = append(found, c.name)
					}
					time.Sleep(2 * patience) // whatever is left ends
				})
			}
			want := bad.finds
			if want == nil {
				want = []string{waits}
			}
			if !slices.Equal(found, want) {
				t.Errorf("found %q, want %q", found, want)
			}
		})
	}
}

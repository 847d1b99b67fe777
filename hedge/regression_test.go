package hedge_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/hedge"
	"github.com/fusebox-go/fusebox/retry"
)

func TestC66PanicLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T) { // fails if a goroutine stays
		b := fusebox.New("b", fusebox.Config{Consecutive: 3})
		h := hedge.New(hedge.Config{Delay: 10 * ms})
		for range 3 {
			func() {
				defer func() {
					if p, ok := recover().(*hedge.Panic); !ok || p.Value != "x" {
						t.Error("recovered", p)
					}
				}()
				hedge.Call(t.Context(), b, func(context.Context) (int, error) { panic("x") }, h)
			}()
		}
		if s := b.Snapshot(); s.State != fusebox.Open || s.Totals.Failures != 3 {
			t.Errorf("%v %+v", s.State, s.Totals)
		}
	})
}

func TestC113LosersEndWhenTheirFunctionDoes(t *testing.T) {
	bubble(t, func(t *testing.T) { // fails if one stays
		h := hedge.New(hedge.Config{Delay: 10 * ms, Attempts: 3})
		var out atomic.Int32
		for range 100 {
			var n atomic.Int32
			_, err := hedge.Call(t.Context(), nil, func(context.Context) (int32, error) {
				out.Add(1)
				defer out.Add(-1)
				if n := n.Add(1); n < 3 {
					time.Sleep(time.Minute) // deaf
				}
				return 3, nil
			}, h)
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := out.Load(); n != 0 {
			t.Error(n, "functions run on")
		}
	})
}

// Attempts end at one instant, and the results must be whole. All but the
// winner are closed, once.
func TestC114ResultIsNeverMixed(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	bubble(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 0))
		h := hedge.New(hedge.Config{Delay: ms, Attempts: 3})
		var started, closed, kept atomic.Int32
		var calls sync.WaitGroup
		for range 1000 {
			delays := [3]time.Duration{}
			for i := range delays {
				delays[i] = time.Duration(r.IntN(4)) * ms
			}
			deaf, broken := r.IntN(2) == 0, r.IntN(4)
			calls.Go(func() {
				var attempts, out atomic.Int32
				v, err := hedge.Call(t.Context(), nil, func(ctx context.Context) (*tracked, error) {
					n := int(attempts.Add(1))
					if out.Add(1) > 3 {
						t.Error("too many at a time")
					}
					defer out.Add(-1)
					done := ctx.Done()
					if deaf {
						done = nil
					}
					select {
					case <-time.After(delays[n-1]):
					case <-done:
						return nil, ctx.Err()
					}
					if n == broken {
						return nil, errBroken
					}
					started.Add(1)
					return &tracked{closed: &closed}, nil
				}, h)
				switch {
				case err == nil && v != nil:
					kept.Add(1)
					if v.times.Load() != 0 {
						t.Error("the winner was closed")
					}
				case errors.Is(err, errBroken) && v == nil:
				default:
					t.Error(v, err)
				}
			})
		}
		calls.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if started.Load() != closed.Load()+kept.Load() {
			t.Errorf("%d results, %d closed, %d kept", started.Load(), closed.Load(), kept.Load())
		}
		if s := h.Stats(); s.Calls != 1000 || s.Panics != 0 || s.Hedged == 0 || s.Won == 0 {
			t.Errorf("%+v", s)
		}
	})
}

type tracked struct {
	times  atomic.Int32
	closed *atomic.Int32
}

func (c *tracked) Close() error {
	c.closed.Add(1)
	if c.times.Add(1) > 1 {
		panic("closed twice")
	}
	return nil
}

func TestC120NoAttemptBeginsAfterTheCallIsOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*ms)
		defer cancel()
		h := hedge.New(hedge.Config{Delay: 10 * ms, Attempts: 10})
		var starts atomic.Int32
		begin := time.Now()
		_, err := hedge.Call(ctx, nil, func(context.Context) (int, error) {
			starts.Add(1)
			time.Sleep(time.Second) // deaf
			return 0, nil
		}, h)
		if d := time.Since(begin); d != 25*ms || err != context.DeadlineExceeded { //nolint:errorlint // unchanged
			t.Error(d, err)
		}
		time.Sleep(time.Minute)
		if n := starts.Load(); n != 3 {
			t.Error(n, "attempts")
		}
	})
}

// body is the body of a response: it cannot be read once its context ended.
type body struct {
	ctx  context.Context
	left int
}

func (b *body) Read(p []byte) (int, error) {
	select {
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-time.After(10 * ms):
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	b.left--
	return copy(p, "x"), nil
}

func TestC134BodyOfTheWinnerStaysReadable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		breaker := fusebox.New("b", fusebox.Config{})
		h := hedge.New(hedge.Config{Delay: 10 * ms})
		for first, latency := range map[bool]time.Duration{true: 15 * ms, false: time.Hour} {
			var n atomic.Int32
			response, err := hedge.Call(t.Context(), breaker, func(ctx context.Context) (*body, error) {
				d := latency
				if n.Add(1) == 2 {
					d = 7 * ms
				}
				select {
				case <-time.After(d):
					return &body{ctx, 20}, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}, h)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response)
			if len(text) != 20 || err != nil {
				t.Errorf("first attempt won %v: %q, %v", first, text, err)
			}
		}
	})
}

// A policy inside the breaker turns what a loser returned into an error of its
// own; and the loser may be slow, or panic.
func TestC65LosersAreNoFailureWhateverPoliciesMakeOfThem(t *testing.T) {
	for name, first := range map[string]func(context.Context) error{
		"a retry waits": func(context.Context) error { return errors.New("down") },
		"it panics late": func(ctx context.Context) error {
			<-ctx.Done()
			panic("late")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := fusebox.New("b", fusebox.Config{SlowAfter: 50 * ms})
				chain := fusebox.Chain(b, retry.New(retry.Config{BaseDelay: time.Second, Jitter: -1}))
				var n atomic.Int32
				_, err := hedge.Call(t.Context(), chain, func(ctx context.Context) (int, error) {
					if n.Add(1) == 1 {
						return 0, first(ctx)
					}
					time.Sleep(80 * ms)
					return 1, nil
				}, hedge.New(hedge.Config{Delay: 20 * ms}))
				synctest.Wait()
				if s := b.Snapshot().Totals; err != nil || s.Failures != 0 || s.Ignored != 1 || s.Successes != 1 {
					t.Errorf("%v, %+v", err, s)
				}
			})
		})
	}
}

func TestC100TheErrorsOfAttemptsAreKeptWhenTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		down := errors.New("down")
		var n atomic.Int32
		_, err := hedge.Call(ctx, nil, func(ctx context.Context) (int, error) {
			if n.Add(1) == 1 {
				time.Sleep(20 * time.Millisecond)
				return 0, down
			}
			<-ctx.Done()
			return 0, ctx.Err()
		}, hedge.New(hedge.Config{Delay: 10 * time.Millisecond}))
		if !errors.Is(err, down) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// One failure is real: what another attempt marks does not hide it.
func TestAMarkInOneAttemptDoesNotHideTheFailureOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fusebox.New("b", fusebox.Config{})
		var n atomic.Int32
		_, err := fusebox.Call(t.Context(), b, func(ctx context.Context) (int, error) {
			return hedge.Call(ctx, nil, func(context.Context) (int, error) {
				time.Sleep(20 * time.Millisecond)
				if n.Add(1) == 1 {
					return 0, errors.New("down")
				}
				return 0, fusebox.Ignore(errors.New("mine"))
			}, hedge.New(hedge.Config{Delay: 10 * time.Millisecond}))
		})
		if s := b.Snapshot().Totals; err == nil || s.Failures != 1 || s.Ignored != 0 {
			t.Errorf("%v, %+v", err, s)
		}
	})
}

// Of latencies that are all the same none is in the tail.
func TestCallsOfConstantLatencyAreNotHedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hedge.New(hedge.Config{})
		for range 500 {
			_, _ = hedge.Call(t.Context(), nil, func(context.Context) (int, error) {
				time.Sleep(10 * time.Millisecond)
				return 0, nil
			}, h)
		}
		if s := h.Stats(); s.Hedged != 0 || s.Delay != 10*time.Millisecond {
			t.Errorf("%+v", s)
		}
	})
}

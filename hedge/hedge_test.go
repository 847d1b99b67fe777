package hedge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/hedge"
)

const ms = time.Millisecond

var errBroken = errors.New("broken")

// bubble runs f where time is virtual. It fails if a goroutine is left.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(2 * time.Hour) // for what runs on
		f(t)
	})
}

// answer is what one attempt does.
type answer struct {
	after time.Duration
	err   error
	deaf  bool // to its context
	end   func()
}

// script is a function that answers attempt n as its answers say, and records.
type script struct {
	answers []answer

	mu     sync.Mutex
	begin  time.Time
	starts []time.Duration // since the first
	ctxs   []context.Context
	out    int
	most   int
}

func (s *script) call(ctx context.Context) (int, error) {
	s.mu.Lock()
	n := len(s.starts)
	if n == 0 {
		s.begin = time.Now()
	}
	s.starts = append(s.starts, time.Since(s.begin))
	s.ctxs = append(s.ctxs, ctx)
	s.out++
	s.most = max(s.most, s.out)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.out--
	}()
	a := s.answers[n]
	done := ctx.Done()
	if a.deaf {
		done = nil
	}
	select {
	case <-time.After(a.after):
		if a.end != nil {
			a.end()
		}
		return n + 1, a.err
	case <-done:
		return 0, ctx.Err()
	}
}

func TestCall(t *testing.T) {
	boom := errors.New("boom")
	for name, tt := range map[string]struct {
		attempts int
		answers  []answer
		starts   []time.Duration
		value    int
		took     time.Duration
		err      string
		stats    hedge.Stats
	}{
		"an answer within the delay needs no second attempt": {
			2,
			[]answer{{after: 10*ms - 1}},
			[]time.Duration{0},
			1, 10*ms - 1, "",
			hedge.Stats{},
		},
		"the second attempt begins after the delay and may win": {
			2,
			[]answer{{after: time.Second}, {after: 3 * ms}},
			[]time.Duration{0, 10 * ms},
			2, 13 * ms, "",
			hedge.Stats{Hedged: 1, Won: 1},
		},
		"the first may win all the same": {
			2,
			[]answer{{after: 12 * ms}, {after: 3 * ms}},
			[]time.Duration{0, 10 * ms},
			1, 12 * ms, "",
			hedge.Stats{Hedged: 1},
		},
		"no more attempts than allowed, each after the one before": {
			3,
			[]answer{{after: time.Second}, {after: time.Second}, {after: 2 * time.Second}},
			[]time.Duration{0, 10 * ms, 20 * ms},
			1, time.Second, "",
			hedge.Stats{Hedged: 2},
		},
		"one attempt never hedges": {
			1,
			[]answer{{after: time.Second}},
			[]time.Duration{0},
			1, time.Second, "",
			hedge.Stats{},
		},
		"a failure starts no other attempt": {
			2,
			[]answer{{after: 2 * ms, err: boom}},
			[]time.Duration{0},
			1, 2 * ms, "boom",
			hedge.Stats{},
		},
		"a failure does not hasten the next attempt, nor prevent it": {
			3,
			[]answer{{after: 15 * ms, err: boom}, {after: time.Second}, {after: 5 * ms}},
			[]time.Duration{0, 10 * ms, 20 * ms},
			3, 25 * ms, "",
			hedge.Stats{Hedged: 2, Won: 1},
		},
		"those that are out go on when one fails": {
			2,
			[]answer{{after: 50 * ms}, {after: ms, err: boom}},
			[]time.Duration{0, 10 * ms},
			1, 50 * ms, "",
			hedge.Stats{Hedged: 1},
		},
		"all failed, the first attempt's error comes first": {
			2,
			[]answer{{after: 50 * ms, err: errBroken}, {after: ms, err: boom}},
			[]time.Duration{0, 10 * ms},
			0, 50 * ms,
			"fusebox: no hedged attempt succeeded: broken; boom",
			hedge.Stats{Hedged: 1},
		},
		"a loser that ignores its context is not waited for": {
			2,
			[]answer{{after: time.Hour, deaf: true}, {after: ms}},
			[]time.Duration{0, 10 * ms},
			2, 11 * ms, "",
			hedge.Stats{Hedged: 1, Won: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := hedge.New(hedge.Config{Delay: 10 * ms, Attempts: tt.attempts})
				s := &script{answers: tt.answers}
				begin := time.Now()
				value, err := hedge.Call(t.Context(), nil, s.call, h)
				took := time.Since(begin)
				synctest.Wait()
				if value != tt.value || took != tt.took || fmt.Sprint(err) != cmpText(tt.err) {
					t.Errorf("got %v, %v after %v; want %v, %v after %v", value, err, took, tt.value, tt.err, tt.took)
				}
				if !slices.Equal(s.starts, tt.starts) || s.most > tt.attempts {
					t.Errorf("attempts began at %v, %d at a time; want %v", s.starts, s.most, tt.starts)
				}
				tt.stats.Calls, tt.stats.Delay = 1, 10*ms
				if got := h.Stats(); got != tt.stats {
					t.Errorf("stats %+v, want %+v", got, tt.stats)
				}
				for i, ctx := range s.ctxs {
					won := err == nil && i+1 == value
					if lost := errors.Is(context.Cause(ctx), hedge.ErrLost); lost == won || ctx.Err() != nil && ctx.Err() != context.Canceled {
						t.Errorf("context of attempt %d ended with %v", i+1, context.Cause(ctx))
					}
				}
			})
		})
	}
}

func cmpText(err string) string {
	if err == "" {
		return "<nil>"
	}
	return err
}

func TestSingleErrorIsUnchanged(t *testing.T) {
	h := hedge.New(hedge.Config{Delay: time.Hour})
	_, err := hedge.Call(t.Context(), nil, func(context.Context) (int, error) { return 0, errBroken }, h)
	if err != errBroken { //nolint:errorlint // unchanged
		t.Error(err)
	}
}

func TestContextsOfTheWinner(t *testing.T) {
	for _, cancelWinner := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			h := hedge.New(hedge.Config{Delay: 10 * ms, CancelWinner: cancelWinner})
			s := &script{answers: []answer{{after: time.Second}, {after: ms}}}
			if v, err := hedge.Call(ctx, nil, s.call, h); v != 2 || err != nil {
				t.Fatal(v, err)
			}
			if got := s.ctxs[1].Err() != nil; got != cancelWinner {
				t.Errorf("CancelWinner %v: cancelled %v", cancelWinner, got)
			}
			cancel()
			synctest.Wait()
			if s.ctxs[1].Err() == nil {
				t.Error("the winner's context outlives the caller's")
			}
		})
	}
}

func TestCallerThatLeavesTakesAllAttemptsAlong(t *testing.T) {
	cause := errors.New("gone")
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(15*ms, func() { cancel(cause) })
		h := hedge.New(hedge.Config{Delay: 10 * ms, Attempts: 3})
		s := &script{answers: []answer{{after: time.Hour, deaf: true}, {after: time.Hour}, {}}}
		begin := time.Now()
		_, err := hedge.Call(ctx, nil, s.call, h)
		if err != context.Canceled || time.Since(begin) != 15*ms || len(s.starts) != 2 { //nolint:errorlint // unchanged
			t.Error(err, time.Since(begin), s.starts)
		}
		if context.Cause(s.ctxs[0]) != cause { //nolint:errorlint // the very same
			t.Error("cause", context.Cause(s.ctxs[0]))
		}
		_, err = hedge.Call(ctx, nil, func(context.Context) (int, error) { t.Error("called"); return 0, nil }, h)
		if err != context.Canceled || h.Stats().Calls != 1 { //nolint:errorlint // unchanged
			t.Error(err, h.Stats())
		}
	})
}

// The delay is over and ctx is done: no attempt is wasted on it.
func TestNoAttemptBeginsWithADoneContext(t *testing.T) {
	for range 100 { // either might be seen first
		ctx, cancel := context.WithCancel(t.Context())
		b := &budget{left: 5, onWithdraw: cancel}
		h := hedge.New(hedge.Config{Delay: 1, Attempts: 3, Budget: b})
		_, err := hedge.Call(ctx, nil, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			<-t.Context().Done() // deaf
			return 0, nil
		}, h)
		if err != context.Canceled || b.n != 1 { //nolint:errorlint // unchanged
			t.Fatal(err, b.n)
		}
	}
}

func TestAnswerGoesBeforeTheEndOfTheContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for range 50 { // either might be seen first
			ctx, cancel := context.WithCancel(t.Context())
			h := hedge.New(hedge.Config{Delay: 10 * ms, Budget: &budget{onWithdraw: func() {
				cancel()
				synctest.Wait() // for the answer
			}}})
			v, err := hedge.Call(ctx, nil, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 1, nil
			}, h)
			if v != 1 || err != nil {
				t.Fatal(v, err)
			}
		}
	})
}

func TestContextOfAFailedAttemptEndsWithIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hedge.New(hedge.Config{Delay: 10 * ms})
		s := &script{answers: []answer{{after: 15 * ms, err: errBroken}, {after: 20 * ms}}}
		time.AfterFunc(16*ms, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.ctxs[0].Err() == nil || s.ctxs[1].Err() != nil {
				t.Error("contexts:", s.ctxs[0].Err(), s.ctxs[1].Err())
			}
		})
		if v, err := hedge.Call(t.Context(), nil, s.call, h); v != 2 || err != nil {
			t.Error(v, err)
		}
	})
}

type closer struct {
	n      int
	closed chan int
}

func (c closer) Close() error { c.closed <- c.n; return nil }

func TestLateResultsAreClosed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		closed := make(chan int, 3)
		h := hedge.New(hedge.Config{Delay: 10 * ms, Attempts: 3})
		for range 50 { // all at one instant: whether the losers are late or early is open
			s := &script{answers: []answer{{after: 30 * ms, deaf: true}, {after: 20 * ms, deaf: true}, {after: 10 * ms, deaf: true}}}
			winner, err := hedge.Call(t.Context(), nil, func(ctx context.Context) (closer, error) {
				n, err := s.call(ctx)
				return closer{n, closed}, err
			}, h)
			synctest.Wait()
			if err != nil || len(closed) != 2 {
				t.Fatalf("%v, %d closed, want the losers", err, len(closed))
			}
			got := []int{winner.n, <-closed, <-closed}
			slices.Sort(got)
			if !slices.Equal(got, []int{1, 2, 3}) {
				t.Fatalf("winner %d, all %v", winner.n, got)
			}
		}
	})
}

func TestPanicReachesTheOneWhoWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hedge.New(hedge.Config{Delay: 10 * ms})
		s := &script{answers: []answer{{after: time.Second}, {end: func() { panic(errBroken) }}}}
		defer func() {
			p, _ := recover().(*hedge.Panic)
			if p == nil || p.Value != errBroken || !strings.Contains(p.Error(), "script") { //nolint:errorlint // unchanged
				t.Errorf("recovered %v", p)
			}
			if s.ctxs[0].Err() == nil {
				t.Error("the other attempt is not cancelled")
			}
		}()
		hedge.Call(t.Context(), nil, s.call, h)
	})
}

func TestGoexitReachesTheOneWhoWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hedge.New(hedge.Config{Delay: 10 * ms})
		s := &script{answers: []answer{{after: time.Second}, {end: runtime.Goexit}}}
		go func() {
			hedge.Call(t.Context(), nil, s.call, h)
			t.Error("returned")
		}()
		time.Sleep(11 * ms)
		synctest.Wait()
		if s.ctxs[0].Err() == nil || s.out != 0 {
			t.Error("the other attempt is not cancelled")
		}
	})
}

func TestLatePanicIsCountedAndLoggedOnce(t *testing.T) {
	var b bytes.Buffer
	old := slog.Default()
	defer slog.SetDefault(old)
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	bubble(t, func(t *testing.T) {
		h := hedge.New(hedge.Config{Delay: 10 * ms})
		for range 2 {
			s := &script{answers: []answer{{after: time.Second, deaf: true, end: func() { panic("boom") }}, {}}}
			if _, err := hedge.Call(t.Context(), nil, s.call, h); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if h.Stats().Panics != 2 {
			t.Errorf("%+v", h.Stats())
		}
	})
	if text := b.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "panic=boom") || !strings.Contains(text, "script") {
		t.Errorf("logged %q", text)
	}
}

// budget is one that does not refill.
type budget struct {
	mu                sync.Mutex
	deposits, left, n int
	onWithdraw        func()
}

func (b *budget) Deposit() { b.mu.Lock(); defer b.mu.Unlock(); b.deposits++ }
func (b *budget) Withdraw() bool {
	if b.onWithdraw != nil {
		b.onWithdraw()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}

func TestBudgetBoundsTheExtraAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := &budget{left: 3}
		h := hedge.New(hedge.Config{Delay: 10 * ms, Attempts: 3, Budget: b})
		slow, through := answer{after: time.Second}, fusebox.New("b", fusebox.Config{})
		starts := 0
		for range 4 {
			s := &script{answers: []answer{slow, slow, slow}}
			if _, err := hedge.Call(t.Context(), through, s.call, h); err != nil {
				t.Error(err)
			}
			starts += len(s.starts)
		}
		// Two, one, none, none; a call asks no more once it was denied.
		if starts != 4+3 || b.deposits != 4 || b.n != 6 {
			t.Errorf("%d attempts, %+v", starts, b)
		}
		if s := h.Stats(); s.Calls != 4 || s.Hedged != 3 || s.Denied != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// refuseExtra is a policy that lets the first call through only.
type refuseExtra struct{ calls atomic.Int32 }

type refused struct{}

func (refused) Error() string             { return "refused" }
func (refused) Rejected() bool            { return true }
func (refused) RetryAfter() time.Duration { return time.Minute }

func (r *refuseExtra) Do(ctx context.Context, fn func(context.Context) error) error {
	if r.calls.Add(1) > 1 {
		return refused{}
	}
	return fn(ctx)
}

func TestRefusalOfAnExtraAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hedge.New(hedge.Config{Delay: 10 * ms})
		s := &script{answers: []answer{{after: 50 * ms}}}
		v, err := hedge.Call(t.Context(), &refuseExtra{}, s.call, h)
		if v != 1 || err != nil {
			t.Error("it hides the answer of the first:", v, err)
		}
		s = &script{answers: []answer{{after: 50 * ms, err: errBroken}}}
		_, err = hedge.Call(t.Context(), &refuseExtra{}, s.call, h)
		if _, rejected := fusebox.Rejected(err); rejected || !errors.Is(err, errBroken) || !errors.Is(err, refused{}) {
			t.Error("it hides the failure of the first:", err)
		}
		if fusebox.DefaultClassify(t.Context(), err) != fusebox.Failure {
			t.Error("it hides the failure from a breaker")
		}
	})
}

func TestRefusalOfAllAttemptsIsARefusal(t *testing.T) {
	for first, want := range map[error]time.Duration{refused{}: time.Minute, fmt.Errorf("x: %w", refused{}): time.Minute, plainRefusal{}: 0} {
		bubble(t, func(t *testing.T) {
			s := &script{answers: []answer{{after: 50 * ms, err: first}, {err: refused{}}}}
			_, err := hedge.Call(t.Context(), nil, s.call, hedge.New(hedge.Config{Delay: 10 * ms}))
			var e *hedge.Error
			if !errors.As(err, &e) || len(e.Unwrap()) != 2 {
				t.Fatal(err)
			}
			if after, rejected := fusebox.Rejected(err); !rejected || after != want {
				t.Errorf("%v: %v, %v", first, after, rejected)
			}
		})
	}
	for _, failure := range []error{errBroken, sum{}} {
		bubble(t, func(t *testing.T) {
			s := &script{answers: []answer{{after: 50 * ms, err: refused{}}, {err: failure}}}
			_, err := hedge.Call(t.Context(), nil, s.call, hedge.New(hedge.Config{Delay: 10 * ms}))
			var e *hedge.Error
			if !errors.As(err, &e) || e.Rejected() || e.RetryAfter() != 0 {
				t.Error("one that failed, and it is a refusal:", err)
			}
		})
	}
}

// sum is an error that is no refusal and says so.
type sum struct{}

func (sum) Error() string  { return "five failures and a refusal" }
func (sum) Rejected() bool { return false }

// plainRefusal does not say when to come back.
type plainRefusal struct{}

func (plainRefusal) Error() string  { return "refused" }
func (plainRefusal) Rejected() bool { return true }

func TestBreakerIgnoresTheLosers(t *testing.T) {
	for name, c := range map[string]fusebox.Config{
		"quick": {Consecutive: 1},
		"slow":  {Consecutive: 1, SlowAfter: 5 * ms, SlowRate: 1}, // a call cancelled so late is a failure otherwise
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := fusebox.New("b", c)
				var lost []error
				see := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
					return b.Do(ctx, func(ctx context.Context) error {
						err := fn(ctx)
						if err != nil {
							lost = append(lost, err)
						}
						return err
					})
				})
				h := hedge.New(hedge.Config{Delay: 10 * ms})
				for range 20 {
					s := &script{answers: []answer{{after: time.Second}, {after: ms}}}
					if _, err := hedge.Call(t.Context(), see, s.call, h); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if s := b.Snapshot(); s.State != fusebox.Closed || s.Totals.Successes != 20 || s.Totals.Ignored != 20 || s.Totals.Failures != 0 {
					t.Errorf("%v %+v", s.State, s.Totals)
				}
				for _, err := range lost {
					if !errors.Is(err, context.Canceled) || err.Error() != "context canceled" {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A policy may call more than once; what an earlier call left does not get out.
func TestResultIsThatOfTheLastCallOfAPolicy(t *testing.T) {
	twice := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		fn(ctx)
		func() {
			defer func() { recover() }()
			fn(ctx)
		}()
		return nil
	})
	n := 0
	v, err := hedge.Call(t.Context(), twice, func(context.Context) (int, error) {
		if n++; n == 2 {
			panic("x")
		}
		return n, nil
	}, hedge.New(hedge.Config{Delay: time.Hour}))
	if v != 0 || err != nil {
		t.Error(v, err)
	}
}

func TestConfig(t *testing.T) {
	zero := hedge.New(hedge.Config{}).Config()
	want := hedge.Config{Delay: 100 * ms, Quantile: 0.95, Attempts: 2, Samples: 200, MinSamples: 20}
	if zero != want {
		t.Errorf("defaults %+v", zero)
	}
	for _, c := range []hedge.Config{{}, {Delay: ms}, {Quantile: 0.5}, {Samples: 5}, {Attempts: 1}, {Delay: ms, Quantile: 0.9, MinSamples: 7}} {
		filled := hedge.New(c).Config()
		if again := hedge.New(filled).Config(); again != filled {
			t.Errorf("%+v becomes %+v", filled, again)
		}
	}
	if c := hedge.New(hedge.Config{Delay: ms}).Config(); c.Quantile != 0 {
		t.Errorf("a Delay alone is not fixed: %+v", c)
	}
	if c := hedge.New(hedge.Config{Samples: 5}).Config(); c.MinSamples != 5 {
		t.Errorf("%+v", c)
	}
	if a, b := hedge.New(hedge.Config{Delay: ms}).String(), hedge.New(hedge.Config{Attempts: 3}).String(); a != "hedge(2 attempts, after 1ms)" || b != "hedge(3 attempts, after quantile 0.95)" {
		t.Error(a, b)
	}
}

func TestInvalidConfig(t *testing.T) {
	nan := 0.0
	nan /= nan
	for field, c := range map[string]hedge.Config{
		"Delay is -1ns":     {Delay: -1},
		"Quantile is -0.1":  {Quantile: -0.1},
		"Quantile is 1":     {Quantile: 1},
		"Quantile is NaN":   {Quantile: nan},
		"Attempts is -1":    {Attempts: -1},
		"Attempts is 101":   {Attempts: 101},
		"Samples is -1":     {Samples: -1},
		"Samples is 10001":  {Samples: 10_001},
		"MinSamples is -1":  {MinSamples: -1},
		"MinSamples is 201": {MinSamples: 201},
		"MinSamples is 6":   {Samples: 5, MinSamples: 6},
	} {
		err := c.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "fusebox/hedge: Config."+field+", must be ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", field, err)
		}
	}
	c := hedge.Config{Delay: -1, Quantile: 2, Attempts: -1, Samples: -1, MinSamples: -1}
	err := c.Validate()
	if n := strings.Count(err.Error(), "fusebox/hedge: Config."); n != 5 {
		t.Errorf("%d fields named: %v", n, err)
	}
	defer func() {
		if r, _ := recover().(error); r == nil || !reflect.DeepEqual(r.Error(), err.Error()) {
			t.Error("New panics with", r)
		}
	}()
	hedge.New(c)
}

// Learning from hedged calls does not drive the delay away from the quantile:
// about one call in twenty is hedged, thousands of calls on.
func TestDelaySettlesAtTheQuantile(t *testing.T) {
	seed := uint64(1)
	for _, tail := range []time.Duration{0, 20 * time.Second} { // without and with hangs
		bubble(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			fn := func(ctx context.Context) (int, error) {
				mu.Lock()
				d := time.Duration(10e6 * (1 + r.ExpFloat64()))
				if r.IntN(50) == 0 {
					d += tail
				}
				mu.Unlock()
				select {
				case <-time.After(d):
					return 0, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}
			h := hedge.New(hedge.Config{})
			for range 1000 {
				hedge.Call(t.Context(), nil, fn, h)
			}
			before := h.Stats()
			for range 3000 {
				hedge.Call(t.Context(), nil, fn, h)
			}
			after := h.Stats()
			if share := float64(after.Hedged-before.Hedged) / 3000; share < 0.04 || share > 0.08 {
				t.Errorf("seed %d, tail %v: %.3f of calls were hedged, delay %v", seed, tail, share, after.Delay)
			}
		})
	}
}

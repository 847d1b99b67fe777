package fallback_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fallback"
	"github.com/fusebox-go/fusebox/fuseboxtest"
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
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
		return err
	})
}

func TestC116TheFallbackAnswersOnceThoughTheCallFailsAfterItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := fusebox.New("payments", fusebox.Config{})
		n := 0
		f := fallback.New(fallback.Config[int]{Func: func(_ context.Context, cause error) (int, error) {
			if n++; !errors.Is(cause, errTimeout) {
				t.Errorf("cause %v, want the timeout", cause)
			}
			return 7, nil
		}})
		v, err := fallback.Call(t.Context(), fusebox.Chain(breaker, timeout(10*time.Millisecond)), func(context.Context) (int, error) {
			pass(30 * time.Millisecond)
			return 0, errA
		}, f)
		pass(time.Second)
		if v != 7 || err != nil || n != 1 {
			t.Errorf("Call = %v, %v, after %d answers; want 7, after 1", v, err, n)
		}
		if got := breaker.Snapshot().Counts.Failures; got != 1 {
			t.Errorf("the breaker saw %d failures, want 1", got)
		}
	})
}

func TestC121BothErrorsAreReachableAndTheBreakerCountsTheFirst(t *testing.T) {
	breaker := fusebox.New("payments", fusebox.Config{})
	var seen fallback.Event
	f := fallback.New(fallback.Config[int]{
		Func:    func(context.Context, error) (int, error) { return 8, errB },
		Observe: func(e fallback.Event) { seen = e },
	})
	v, err := fallback.Call(t.Context(), breaker, returns(1, errA), f)
	if v != 8 || !errors.Is(err, errA) || !errors.Is(err, errB) {
		t.Errorf("Call = %v, %v, want 8 and both errors", v, err)
	}
	if got := err.Error(); got != "fusebox: call and fallback failed: a; b" {
		t.Errorf("text %q", got)
	}
	var e *fallback.Error
	if !errors.As(err, &e) || e.Cause() != errA || !slices.Equal(e.Unwrap(), []error{errA, errB}) { //nolint:errorlint // the very ones
		t.Errorf("error %#v", err)
	}
	if seen.Cause != errA || seen.Err != errB { //nolint:errorlint // the very ones
		t.Errorf("event %+v", seen)
	}
	if got := breaker.Snapshot().Counts; got.Failures != 1 || got.Calls != 1 {
		t.Errorf("the breaker counted %+v, want one failure", got)
	}
	want(t, f, fallback.Stats{Failed: 1})
}

func TestC122TheCallerSeesThatTheBreakerWasOpen(t *testing.T) {
	var clock fuseboxtest.Clock
	breaker := fusebox.New("payments", fusebox.Config{Now: clock.Now})
	breaker.Override(fusebox.ForceOpen, fusebox.Note{Until: clock.Now().Add(time.Minute)})
	_, refused := breaker.Allow(t.Context())

	nothing := fallback.New(fallback.Config[int]{MaxAge: time.Hour})
	if _, err := fallback.Call(t.Context(), breaker, returns(1, nil), nothing); err != refused { //nolint:errorlint // unchanged
		t.Errorf("Call = %v, want the refusal unchanged", err)
	}
	failing := fallback.New(fallback.Config[int]{Func: func(context.Context, error) (int, error) { return 0, errB }})
	_, err := fallback.Call(t.Context(), breaker, returns(1, nil), failing)
	var open *fusebox.OpenError
	if !errors.As(err, &open) || open.Name() != "payments" || open.State() != fusebox.Open {
		t.Errorf("Call = %v, want the refusal in it", err)
	}
	if after, ok := fusebox.Rejected(err); !ok || after != time.Minute {
		t.Errorf("Rejected = %v, %v, want 1m, true", after, ok)
	}
}

// A real failure does not turn into a refusal because the fallback was refused.
func TestC122ARefusedFallbackHidesNoFailure(t *testing.T) {
	second := fusebox.New("second", fusebox.Config{})
	second.Override(fusebox.ForceOpen, fusebox.Note{})
	f := fallback.New(fallback.Config[int]{Func: func(ctx context.Context, _ error) (int, error) {
		return fusebox.Call(ctx, second, returns(2, nil))
	}})
	_, err := fallback.Call(t.Context(), direct, returns(1, errA), f)
	if after, ok := fusebox.Rejected(err); ok || after != 0 || !errors.Is(err, fusebox.ErrOpen) || !errors.Is(err, errA) {
		t.Errorf("Rejected(%v) = %v, %v", err, after, ok)
	}
	outer := fusebox.New("outer", fusebox.Config{})
	_ = outer.Do(t.Context(), func(context.Context) error { return err })
	if got := outer.Snapshot().Counts.Failures; got != 1 {
		t.Errorf("a breaker around it counts %d failures, want 1", got)
	}
}

// refusal can say whether it is one, and when to come back.
type refusal struct {
	is    bool
	after time.Duration
}

func (refusal) Error() string               { return "refused" }
func (r refusal) Rejected() bool            { return r.is }
func (r refusal) RetryAfter() time.Duration { return r.after }

type bareRefusal struct{ error }

func (bareRefusal) Rejected() bool { return true }

func TestC122ARefusalIsWhatItsCauseSays(t *testing.T) {
	f := fallback.New(fallback.Config[int]{Func: func(context.Context, error) (int, error) { return 0, refusal{true, time.Hour} }})
	for _, c := range []struct {
		cause    error
		rejected bool
		after    time.Duration
	}{
		{refusal{true, time.Second}, true, time.Second},
		{refusal{true, -time.Second}, true, 0},
		{refusal{false, time.Second}, false, 0},
		{bareRefusal{errA}, true, 0},
		{errors.Join(errA, refusal{true, time.Second}), true, time.Second},
	} {
		_, err := fallback.Call(t.Context(), direct, returns(0, c.cause), f)
		var e *fallback.Error
		if !errors.As(err, &e) || e.Rejected() != c.rejected || e.RetryAfter() != c.after {
			t.Errorf("%#v: %v, %v; want %v, %v", c.cause, e.Rejected(), e.RetryAfter(), c.rejected, c.after)
		}
	}
}

func TestC123TheFallbackKnowsWhyAndWhoseCallItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "value")
		breaker := fusebox.New("payments", fusebox.Config{Consecutive: 2, MinCalls: 100})
		chain := fusebox.Chain(breaker, timeout(time.Second))
		var causes []error
		look := func(ctx context.Context, cause error) {
			if ctx.Value(key{}) != "value" || ctx.Err() != nil {
				t.Errorf("the context is not the caller's: %v", ctx)
			}
			causes = append(causes, cause)
		}
		f := fallback.New(fallback.Config[int]{
			Func:    func(ctx context.Context, cause error) (int, error) { look(ctx, cause); return 0, nil },
			Observe: func(e fallback.Event) { look(e.Ctx, e.Cause) },
		})
		_, _ = fallback.Call(ctx, chain, returns(0, errA), f)
		_, _ = fallback.Call(ctx, chain, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }, f)
		_, _ = fallback.Call(ctx, chain, returns(0, nil), f)
		for i, err := range []error{errA, errA, errTimeout, errTimeout, fusebox.ErrOpen, fusebox.ErrOpen} {
			if i >= len(causes) || !errors.Is(causes[i], err) {
				t.Fatalf("causes %v, want number %d to be %v", causes, i, err)
			}
		}
	})
}

// A script is a row of steps: a time to wait, then a call and how it ends.
type step struct {
	wait time.Duration
	err  error
}

// run runs a script and returns the breaker's records and its totals.
func run(t *testing.T, script []step, call func(context.Context, fusebox.Policy, error)) ([]fusebox.Transition, fusebox.Snapshot) {
	var clock fuseboxtest.Clock
	var records []fusebox.Transition
	breaker := fusebox.New("payments", fusebox.Config{
		Consecutive: 3, FailureRate: 0.6, MinCalls: 8, OpenFor: time.Second, OpenJitter: -1, Probes: 2, Now: clock.Now,
		Observers: []fusebox.Observer{{Transition: func(r fusebox.Transition) { records = append(records, r) }}},
	})
	for _, s := range script {
		clock.Advance(s.wait)
		call(t.Context(), breaker, s.err)
	}
	return records, breaker.Snapshot()
}

func TestC124ABreakerGoesTheSameWayWithAFallback(t *testing.T) {
	const s = time.Second
	scripts := map[string][]step{
		"trips, probes, closes":  {{0, errA}, {0, errA}, {0, errA}, {0, nil}, {s, nil}, {0, nil}, {0, nil}},
		"reopens for longer":     {{0, errA}, {0, errA}, {0, errA}, {s, errA}, {s, nil}, {s, nil}, {0, nil}},
		"never quite trips":      {{0, errA}, {0, errA}, {0, nil}, {0, errA}, {0, errA}, {0, nil}},
		"ignored probes go free": {{0, errA}, {0, errA}, {0, errA}, {s, fusebox.Ignore(errA)}, {0, nil}, {0, nil}},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		var script []step
		for range 100 {
			script = append(script, step{time.Duration(r.IntN(3)) * 300 * time.Millisecond, []error{nil, errA, errA}[r.IntN(3)]})
		}
		scripts["random "+string(rune('A'+i))] = script
	}
	seen := 0
	for name, script := range scripts {
		records, end := run(t, script, func(ctx context.Context, p fusebox.Policy, err error) {
			_, _ = fusebox.Call(ctx, p, returns(1, err))
		})
		seen += len(records)
		for _, c := range []fallback.Config[int]{
			{Func: fallback.Value(2)},
			{Func: func(context.Context, error) (int, error) { return 0, errB }},
			{MaxAge: time.Hour},
		} {
			f := fallback.New(c)
			with, endWith := run(t, script, func(ctx context.Context, p fusebox.Policy, err error) {
				_, _ = fallback.Call(ctx, p, returns(1, err), f)
			})
			if !slices.EqualFunc(records, with, same) {
				t.Errorf("%s, %v: the breaker went\n%v\nwithout\n%v", name, f, with, records)
			}
			if end.State != endWith.State || end.Counts != endWith.Counts || end.Until != endWith.Until {
				t.Errorf("%s, %v: the breaker ends as %+v, without as %+v", name, f, endWith, end)
			}
		}
	}
	if seen < 500 {
		t.Errorf("only %d changes of state", seen)
	}
}

func same(a, b fusebox.Transition) bool {
	return a.From == b.From && a.To == b.To && a.Cause == b.Cause && a.At.Equal(b.At) && a.Counts == b.Counts && a.Generation == b.Generation
}

func TestC162AnyAnswerAndTheFallbacksOwnErrorsFeedNoBreaker(t *testing.T) {
	type response struct {
		status int
		body   string
	}
	breaker := fusebox.New("payments", fusebox.Config{})
	breaker.Override(fusebox.ForceOpen, fusebox.Note{})
	before := breaker.Snapshot()
	fails := false
	f := fallback.New(fallback.Config[response]{Func: func(context.Context, error) (response, error) {
		if fails {
			return response{}, errB
		}
		return response{204, ""}, nil
	}})
	call := func() (response, error) {
		return fallback.Call(t.Context(), breaker, returns(response{200, "hello"}, nil), f)
	}
	if got, err := call(); got != (response{204, ""}) || err != nil {
		t.Errorf("Call = %v, %v, want 204", got, err)
	}
	fails = true
	if _, err := call(); !errors.Is(err, errB) || !errors.Is(err, fusebox.ErrOpen) {
		t.Errorf("Call = %v, want both errors", err)
	}
	after := breaker.Snapshot()
	if after.Counts != before.Counts || after.Totals.Failures != before.Totals.Failures || after.Totals.RejectedOpen != before.Totals.RejectedOpen+2 {
		t.Errorf("the breaker has counted %+v, before %+v", after.Totals, before.Totals)
	}
}

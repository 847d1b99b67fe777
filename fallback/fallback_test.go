package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fallback"
)

var (
	errA = errors.New("a")
	errB = errors.New("b")
)

// direct is a chain of no policies.
var direct = fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) })

// returns is a function that returns v and err.
func returns[T any](v T, err error) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { return v, err }
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.NewTimer(d).C }

func want(tb testing.TB, f interface{ Stats() fallback.Stats }, s fallback.Stats) {
	tb.Helper()
	if got := f.Stats(); got != s {
		tb.Errorf("Stats = %+v, want %+v", got, s)
	}
}

func TestASuccessIsNotTouched(t *testing.T) {
	f := fallback.New(fallback.Config[int]{
		Func:    func(context.Context, error) (int, error) { t.Error("Func called"); return 0, nil },
		When:    func(context.Context, error) bool { t.Error("When called"); return true },
		Observe: func(fallback.Event) { t.Error("Observe called") },
	})
	if v, err := fallback.Call(t.Context(), direct, returns(1, nil), f); v != 1 || err != nil {
		t.Errorf("Call = %v, %v, want 1", v, err)
	}
	want(t, f, fallback.Stats{})
}

func TestFuncAnswersAFailure(t *testing.T) {
	var events []fallback.Event
	f := fallback.New(fallback.Config[int]{Func: fallback.Value(7), Observe: func(e fallback.Event) { events = append(events, e) }})
	if v, err := fallback.Call(t.Context(), direct, returns(1, errA), f); v != 7 || err != nil {
		t.Errorf("Call = %v, %v, want 7", v, err)
	}
	want(t, f, fallback.Stats{Answered: 1})
	if e := (fallback.Event{Ctx: t.Context(), Cause: errA}); !slices.Equal(events, []fallback.Event{e}) {
		t.Errorf("events %+v, want %+v", events, e)
	}
}

func TestTheLastGoodResultAnswersFirstWhileYoung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []fallback.Event
		f := fallback.New(fallback.Config[string]{
			Func:    fallback.Value("list"),
			MaxAge:  time.Minute,
			Stale:   func(v string, age time.Duration) string { return fmt.Sprintf("%s, %v old", v, age) },
			Observe: func(e fallback.Event) { events = append(events, e) },
		})
		call := func(v string, err error, answer string) {
			t.Helper()
			if got, err := fallback.Call(t.Context(), direct, returns(v, err), f); got != answer || err != nil {
				t.Errorf("Call = %q, %v, want %q", got, err, answer)
			}
		}
		call("", errA, "list") // nothing kept
		call("one", nil, "one")
		call("", errA, "one, 0s old")
		pass(time.Minute)
		call("", errA, "one, 1m0s old")
		call("", errA, "one, 1m0s old") // what Stale made is not what is kept
		pass(1)
		call("", errA, "list")
		call("two", nil, "two")
		pass(time.Second)
		call("half", errA, "two, 1s old") // a result that came with an error is not good
		want(t, f, fallback.Stats{Answered: 6, Stale: 4})
		if e := (fallback.Event{Ctx: t.Context(), Cause: errA, Stale: true, Age: time.Second}); len(events) != 6 || events[5] != e || events[4].Stale {
			t.Errorf("events %+v, the last ought to be %+v", events, e)
		}
	})
}

func TestALastGoodResultMayBeKeptForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fallback.New(fallback.Config[int]{MaxAge: math.MaxInt64})
		_, _ = fallback.Call(t.Context(), direct, returns(1, nil), f)
		pass(100 * 365 * 24 * time.Hour)
		if v, err := fallback.Call(t.Context(), direct, returns(0, errA), f); v != 1 || err != nil {
			t.Errorf("Call = %v, %v, want 1", v, err)
		}
	})
}

func TestWithNothingToAnswerWithTheErrorIsUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last fallback.Event
		f := fallback.New(fallback.Config[int]{MaxAge: time.Second, Observe: func(e fallback.Event) { last = e }})
		for range 2 {
			if v, err := fallback.Call(t.Context(), direct, returns(5, errA), f); v != 5 || err != errA { //nolint:errorlint // unchanged
				t.Errorf("Call = %v, %v, want 5, a", v, err)
			}
			if last != (fallback.Event{Ctx: t.Context(), Cause: errA, Err: errA}) {
				t.Errorf("event %+v", last)
			}
			_, _ = fallback.Call(t.Context(), direct, returns(1, nil), f)
			pass(2 * time.Second)
		}
		want(t, f, fallback.Stats{Failed: 2})
	})
}

func TestNothingIsKeptWithoutMaxAge(t *testing.T) {
	f := fallback.New(fallback.Config[int]{Func: fallback.Value(7)})
	_, _ = fallback.Call(t.Context(), direct, returns(1, nil), f)
	if v, _ := fallback.Call(t.Context(), direct, returns(0, errA), f); v != 7 {
		t.Errorf("Call = %v, want 7", v)
	}
	call := func() { _, _ = fallback.Call(t.Context(), direct, returns(1, nil), f) }
	if got := testing.AllocsPerRun(100, call); got > 3 { // closure, place of the result, and this test's
		t.Errorf("%v allocations", got)
	}
}

func TestACancelledCallerGetsNoAnswer(t *testing.T) {
	f := fallback.New(fallback.Config[int]{Func: fallback.Value(7)})
	ctx, cancel := context.WithCancel(t.Context())
	fn := func(context.Context) (int, error) { cancel(); return 3, errA }
	if v, err := fallback.Call(ctx, direct, fn, f); v != 3 || err != errA { //nolint:errorlint // unchanged
		t.Errorf("Call = %v, %v, want 3, a", v, err)
	}
	if v, err := fallback.Call(ctx, fusebox.New("", fusebox.Config{}), fn, f); v != 0 || err != context.Canceled { //nolint:errorlint // unchanged
		t.Errorf("Call = %v, %v, want the context's error", v, err)
	}
	want(t, f, fallback.Stats{})
}

func TestACallerWhoseDeadlinePassedGetsAnAnswer(t *testing.T) {
	f := fallback.New(fallback.Config[int]{Func: fallback.Value(7)})
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if v, err := fallback.Call(ctx, fusebox.New("", fusebox.Config{}), returns(1, nil), f); v != 7 || err != nil {
		t.Errorf("Call = %v, %v, want 7", v, err)
	}
}

func TestAnErrorThatOnlySaysCancelledIsAnswered(t *testing.T) { // the caller is there
	f := fallback.New(fallback.Config[int]{Func: fallback.Value(7)})
	if v, err := fallback.Call(t.Context(), direct, returns(0, context.Canceled), f); v != 7 || err != nil {
		t.Errorf("Call = %v, %v, want 7", v, err)
	}
}

func TestWhenChoosesWhichErrorsAreAnswered(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	f := fallback.New(fallback.Config[int]{
		Func:   fallback.Value(7),
		MaxAge: time.Hour,
		When: func(ctx context.Context, err error) bool {
			return ctx.Value(key{}) == "value" && !errors.Is(err, errB)
		},
	})
	if v, err := fallback.Call(ctx, direct, returns(0, errA), f); v != 7 || err != nil {
		t.Errorf("Call = %v, %v, want 7", v, err)
	}
	_, _ = fallback.Call(ctx, direct, returns(1, nil), f)
	if v, err := fallback.Call(ctx, direct, returns(2, errB), f); v != 2 || err != errB { //nolint:errorlint // unchanged
		t.Errorf("Call = %v, %v, want 2, b", v, err)
	}
}

func TestTheLastCallOfAPolicyThatRepeatsCounts(t *testing.T) {
	twice := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		_ = fn(ctx)
		return fn(ctx)
	})
	f := fallback.New(fallback.Config[int]{MaxAge: time.Hour})
	n := 0
	for _, c := range []struct{ first, second, want int }{{1, 2, 2}, {3, -1, 2}, {-1, 4, 4}} {
		v, err := fallback.Call(t.Context(), twice, func(context.Context) (int, error) {
			n++
			if v := []int{c.second, c.first}[n%2]; v >= 0 {
				return v, nil
			}
			return 0, errA
		}, f)
		if v != c.want || err != nil {
			t.Errorf("%+v: Call = %v, %v", c, v, err)
		}
	}
}

func TestOnlyASuccessOfTheFunctionIsKept(t *testing.T) {
	swallow := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		defer func() { _ = recover() }()
		_ = fn(ctx)
		return nil
	})
	skip := fusebox.PolicyFunc(func(context.Context, func(context.Context) error) error { return nil })
	spoil := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		_ = fn(ctx)
		return errB
	})
	thenPanic := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		defer func() { _ = recover() }()
		_ = fn(ctx)
		return fn(ctx)
	})
	calls := 0
	panics := func(context.Context) (int, error) {
		if calls++; calls != 2 {
			panic("x")
		}
		return 9, nil
	}
	f := fallback.New(fallback.Config[int]{MaxAge: time.Hour})
	for _, c := range []struct {
		name string
		p    fallback.Policy
		fn   func(context.Context) (int, error)
		want int
		err  error
	}{
		{"its error is swallowed", swallow, returns(1, errA), 1, nil},
		{"it panics, and the policy lives on", swallow, panics, 0, nil},
		{"it is not called", skip, returns(2, nil), 0, nil},
		{"it succeeds, then panics", thenPanic, panics, 0, nil},
		{"its success is refused", spoil, returns(3, nil), 3, errB},
	} {
		if v, err := fallback.Call(t.Context(), c.p, c.fn, f); v != c.want || err != c.err { //nolint:errorlint // unchanged
			t.Errorf("%s: Call = %v, %v, want %v, %v", c.name, v, err, c.want, c.err)
		}
		if v, err := fallback.Call(t.Context(), direct, returns(0, errA), f); err != errA { //nolint:errorlint // unchanged
			t.Errorf("%s, and %v was kept", c.name, v)
		}
	}
}

func TestAPanicAndAGoexitPassOnUnanswered(t *testing.T) {
	f := fallback.New(fallback.Config[int]{Func: func(context.Context, error) (int, error) { t.Error("Func called"); return 0, nil }})
	func() {
		defer func() {
			if got := recover(); got != "x" {
				t.Errorf("recovered %v, want x", got)
			}
		}()
		_, _ = fallback.Call(t.Context(), direct, func(context.Context) (int, error) { panic("x") }, f)
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = fallback.Call(t.Context(), direct, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }, f)
		t.Error("Call returned after Goexit")
	}()
	<-done
	want(t, f, fallback.Stats{})
}

func TestAPanicInAFunctionOfTheConfigPassesOnAndIsCounted(t *testing.T) {
	panics := func(what string, f *fallback.Fallback[int]) {
		t.Helper()
		defer func() {
			if got := recover(); got != what {
				t.Errorf("recovered %v, want %s", got, what)
			}
		}()
		_, _ = fallback.Call(t.Context(), direct, returns(0, errA), f)
	}
	f := fallback.New(fallback.Config[int]{Func: func(context.Context, error) (int, error) { panic("func") }})
	panics("func", f)
	want(t, f, fallback.Stats{Failed: 1})

	g := fallback.New(fallback.Config[int]{Func: fallback.Value(7), MaxAge: time.Hour, Observe: func(fallback.Event) { panic("observe") }})
	panics("observe", g)
	want(t, g, fallback.Stats{Answered: 1})
	_, _ = fallback.Call(t.Context(), direct, returns(1, nil), g)
	panics("observe", g)
	want(t, g, fallback.Stats{Answered: 2, Stale: 1})

	h := fallback.New(fallback.Config[int]{MaxAge: time.Hour, Stale: func(int, time.Duration) int { panic("stale") }})
	_, _ = fallback.Call(t.Context(), direct, returns(1, nil), h)
	panics("stale", h)
	panics("stale", h) // what is kept is still there
	want(t, h, fallback.Stats{Failed: 2})
}

// Of two calls that overlap, the one that began later is kept.
func TestAnOlderSuccessThatFinishesLaterReplacesNoNewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fallback.New(fallback.Config[string]{MaxAge: time.Hour})
		var all sync.WaitGroup
		call := func(v string, takes time.Duration) {
			all.Go(func() {
				_, _ = fallback.Call(t.Context(), direct, func(context.Context) (string, error) { pass(takes); return v, nil }, f)
			})
			pass(time.Second)
		}
		call("older", time.Minute)
		call("newer", time.Millisecond)
		all.Wait()
		if v, err := fallback.Call(t.Context(), direct, returns("", errA), f); v != "newer" || err != nil {
			t.Errorf("Call = %q, %v, want newer", v, err)
		}
	})
}

func TestAResultIsAsOldAsTheStartOfItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var age time.Duration
		f := fallback.New(fallback.Config[int]{MaxAge: time.Hour, Observe: func(e fallback.Event) { age = e.Age }})
		_, _ = fallback.Call(t.Context(), direct, func(context.Context) (int, error) { pass(time.Minute); return 1, nil }, f)
		pass(time.Second)
		_, _ = fallback.Call(t.Context(), direct, returns(0, errA), f)
		if age != 61*time.Second {
			t.Errorf("its age is %v, want 1m1s", age)
		}
	})
}

func TestCallsAtOnceSeeWholeResults(t *testing.T) {
	type large [64]int
	f := fallback.New(fallback.Config[large]{MaxAge: time.Hour})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 500 {
				var v large
				for j := range v {
					v[j] = i*1000 + n
				}
				_, _ = fallback.Call(t.Context(), direct, returns(v, nil), f)
				got, err := fallback.Call(t.Context(), direct, returns(large{}, errA), f)
				for _, x := range got {
					if x != got[0] || err != nil {
						t.Errorf("a torn result, %v", err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	want(t, f, fallback.Stats{Answered: 4000, Stale: 4000})
}

func TestValidateNamesEveryBadField(t *testing.T) {
	bad := fallback.Config[int]{MaxAge: -time.Second}
	if got := fmt.Sprint(bad.Validate()); got != "fusebox/fallback: Config.MaxAge is -1s, must not be negative (0: keep no result; forever: math.MaxInt64)" {
		t.Errorf("Validate: %s", got)
	}
	none := fallback.Config[int]{Stale: func(v int, _ time.Duration) int { return v }}
	const text = `fusebox/fallback: Config.Func is nil, must be set without MaxAge: nothing could answer
fusebox/fallback: Config.Stale is set, must be nil without MaxAge: no result is kept`
	if got := fmt.Sprint(none.Validate()); got != text {
		t.Errorf("Validate: %s", got)
	}
	for _, c := range []fallback.Config[int]{{Func: fallback.Value(1)}, {MaxAge: 1}} {
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		if err := fallback.New(c).Config().Validate(); err != nil {
			t.Error(err)
		}
	}
	defer func() {
		if got := recover(); fmt.Sprint(got) != text {
			t.Errorf("New panics with %v", got)
		}
	}()
	fallback.New(none)
}

func TestConfigShowsWhichErrorsAreAnsweredByDefault(t *testing.T) {
	when := fallback.New(fallback.Config[int]{MaxAge: 1}).Config().When
	ctx, cancel := context.WithCancel(t.Context())
	if !when(ctx, errA) {
		t.Error("an error is not answered")
	}
	cancel()
	if when(ctx, errA) {
		t.Error("a cancelled caller is answered")
	}
}

func TestStringSaysWhatAnswers(t *testing.T) {
	for text, c := range map[string]fallback.Config[int]{
		"fallback(function)":                         {Func: fallback.Value(1)},
		"fallback(last good up to 1m30s)":            {MaxAge: 90 * time.Second},
		"fallback(last good)":                        {MaxAge: math.MaxInt64},
		"fallback(last good up to 1s, function)":     {MaxAge: time.Second, Func: fallback.Value(1)},
		"fallback(last good, function)":              {MaxAge: math.MaxInt64, Func: fallback.Value(1)},
		"fallback(last good up to 2562047h47m16.8s)": {MaxAge: 2562047*time.Hour + 47*time.Minute + 16800*time.Millisecond},
	} {
		if got := fallback.New(c).String(); got != text {
			t.Errorf("String: %s, want %s", got, text)
		}
	}
}

// Package fallback answers in a call's place when it fails or is refused: with
// a fixed value, with what a function makes, or with the last good result.
//
//	var rates = fallback.New(fallback.Config[Rates]{
//		MaxAge: time.Minute,               // the last good result, up to a minute old,
//		Func:   fallback.Value(listPrices), // then these
//	})
//
//	r, err := fallback.Call(ctx, chain, fetchRates, rates)
//
// It needs the result of a call, so it is a function around a chain of
// policies, not a policy. It stands outside all of them: it answers last, once,
// and knows the cause; the breaker inside has seen the failure as without it.
//
// A last good result must belong to one question. Make one Fallback a key; one
// that different users share would show to one what belongs to another.
package fallback

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox/internal/invalid"
)

// Policy is what a call goes through: a breaker, or a chain of policies.
type Policy interface {
	Do(ctx context.Context, fn func(context.Context) error) error
}

// Config says what answers, and which errors. It needs a Func, a MaxAge or
// both. Every function in it may be called by many goroutines at a time, never
// under a lock; if it panics or ends the goroutine, that passes on to the
// caller.
type Config[T any] struct {
	// Func makes the answer: see [Value] for a fixed one. ctx is the caller's,
	// not one that a timeout inside the chain has ended; it has ended only if
	// the caller's own has. cause is the error of the chain:
	// errors.Is(cause, fusebox.ErrOpen) tells a refusal from a failure. Called at
	// most once a call. nil: only the last good result answers; then MaxAge must
	// be positive.
	Func func(ctx context.Context, cause error) (T, error)

	// MaxAge, if positive, keeps the last good result, and answers with it, in
	// preference to Func, while it is at most so old. It is as old as the call
	// that brought it, from that call's start: nothing in it was read before.
	// Forever is math.MaxInt64. Default 0: none is kept. Keeping costs a clock
	// read and an allocation for every success.
	//
	// The result must belong to one question: make one Fallback a key, and never
	// one for different users. Callers share the result: what T points to must
	// not be changed by them, nor used up, as the body of an HTTP response is.
	// Stale may make a copy.
	MaxAge time.Duration

	// Stale turns the last good result into the answer: it may mark it with its
	// age, or copy it. nil: as it was.
	Stale func(value T, age time.Duration) T

	// When reports whether err, the error of the chain, is to be answered. ctx
	// is the caller's. nil: every error is, unless the caller has cancelled ctx,
	// as nobody is left to read an answer. (A caller whose deadline has passed
	// gets one.)
	When func(ctx context.Context, err error) bool

	// Observe, if not nil, is told of each answer, and each that failed, before
	// the caller gets it and after it has been counted. (Where Func or Stale
	// panics, that is counted only.)
	Observe func(Event)
}

// Event is what a fallback did for one call.
type Event struct {
	Ctx   context.Context // of the caller
	Cause error           // what was answered: the error of the chain
	Err   error           // nil: answered; what Func returned; or Cause, if there was nothing to answer with
	Stale bool            // answered with the last good result
	Age   time.Duration   // of that result
}

// Validate returns nil or one error that joins an error for every field that is
// invalid or contradicts another. Each has a method
// Invalid() (field string, value any, rule string), for who tells it in other words.
func (c Config[T]) Validate() error {
	var errs []error
	reject := func(field string, value any, rule string) {
		errs = append(errs, invalid.Field("fallback: Config", field, value, "must "+rule))
	}
	if c.MaxAge < 0 {
		reject("MaxAge", c.MaxAge, "not be negative (0: keep no result; forever: math.MaxInt64)")
	}
	if c.Func == nil && c.MaxAge == 0 {
		reject("Func", "nil", "be set without MaxAge: nothing could answer")
	}
	if c.Stale != nil && c.MaxAge == 0 {
		reject("Stale", "set", "be nil without MaxAge: no result is kept")
	}
	return errors.Join(errs...)
}

// Value returns a function for Config.Func that always answers v. All callers
// share v: what it points to must not be changed.
func Value[T any](v T) func(context.Context, error) (T, error) {
	return func(context.Context, error) (T, error) { return v, nil }
}

// Fallback answers in the place of calls with results of type T. It is safe for
// concurrent use, holds no goroutine and needs no closing. Make one with [New],
// one for each question if Config.MaxAge is set.
type Fallback[T any] struct {
	config Config[T]
	good   atomic.Pointer[result[T]]

	made, stale, failed atomic.Uint64
}

// result is a good result. It is never changed.
type result[T any] struct {
	value T
	began time.Time // the call that brought it
}

// New returns a Fallback that has nothing kept. It panics with the error of
// c.Validate if c is invalid: call that first where c is data.
func New[T any](c Config[T]) *Fallback[T] {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	if c.When == nil {
		c.When = wanted
	}
	return &Fallback[T]{config: c}
}

// wanted reports whether the caller is there to read an answer.
func wanted(ctx context.Context, _ error) bool { return !errors.Is(ctx.Err(), context.Canceled) }

// Config returns the settings in effect, the default of When filled in.
func (f *Fallback[T]) Config() Config[T] { return f.config }

// String says what answers, in order: say, "fallback(last good up to 1m0s, function)".
func (f *Fallback[T]) String() string {
	last := ""
	switch f.config.MaxAge {
	case 0:
		return "fallback(function)"
	case math.MaxInt64:
		last = "last good"
	default:
		last = fmt.Sprintf("last good up to %v", f.config.MaxAge)
	}
	if f.config.Func == nil {
		return "fallback(" + last + ")"
	}
	return "fallback(" + last + ", function)"
}

// Stats counts what a Fallback has done since it was made.
type Stats struct {
	Answered uint64 // calls answered in their place
	Stale    uint64 // those of them answered with the last good result
	Failed   uint64 // calls to be answered that were not: Func failed, it or Stale panicked, or there was nothing to answer with
}

// Stats returns the totals. Calls that need no answer are not counted, and cost
// nothing here.
func (f *Fallback[T]) Stats() Stats {
	made, stale := f.made.Load(), f.stale.Load()
	return Stats{Answered: made + stale, Stale: stale, Failed: f.failed.Load()}
}

// Call calls fn under p, or directly if p is nil, and returns its result as fusebox.Call does: that of
// the last call of fn, should p call it more than once; zero if p does not call
// it, or its last call panics. If p returns an error that Config.When wants
// answered, f answers:
//
//   - with the last good result, while it is young enough,
//   - else with what Config.Func returns; if that fails too, with its value and
//     an [*Error] that holds both errors,
//   - else, if there is no Func, with the result and the error as they are.
//
// Any other error comes back unchanged. A panic or runtime.Goexit in fn passes
// on unanswered. A success under p is kept as the last good result if
// Config.MaxAge is set, unless the one kept is of a call of fn that began later:
// of two calls that overlap, the one that began first may have read older data,
// whenever it returns.
//
// A call allocates a closure and the place of the result, and one more place
// where a success is kept.
func Call[T any](ctx context.Context, p Policy, fn func(context.Context) (T, error), f *Fallback[T]) (T, error) {
	var last struct {
		result[T]
		good bool
	}
	var none result[T]
	err := do(ctx, p, func(ctx context.Context) (err error) {
		last.result, last.good = none, false // should fn panic, and p live on
		if f.config.MaxAge > 0 {
			last.began = time.Now()
		}
		last.value, err = fn(ctx)
		last.good = err == nil
		return err
	})
	if err != nil {
		return f.answer(ctx, last.value, err)
	}
	if last.good && f.config.MaxAge > 0 {
		f.keep(last.result)
	}
	return last.value, nil
}

func do(ctx context.Context, p Policy, fn func(context.Context) error) error {
	if p == nil {
		return fn(ctx)
	}
	return p.Do(ctx, fn)
}

// keep keeps r as the last good result, unless a later one is kept.
func (f *Fallback[T]) keep(r result[T]) {
	for {
		old := f.good.Load()
		if old != nil && old.began.After(r.began) || f.good.CompareAndSwap(old, &r) {
			return
		}
	}
}

// answer answers a call that ended with value and cause.
func (f *Fallback[T]) answer(ctx context.Context, value T, cause error) (T, error) {
	if !f.config.When(ctx, cause) {
		return value, cause
	}
	if last, age := f.kept(); last != nil {
		value = f.mark(last.value, age)
		f.tell(Event{Ctx: ctx, Cause: cause, Stale: true, Age: age})
		return value, nil
	}
	if f.config.Func == nil {
		f.failed.Add(1)
		f.tell(Event{Ctx: ctx, Cause: cause, Err: cause})
		return value, cause
	}
	value, err := f.ask(ctx, cause)
	f.tell(Event{Ctx: ctx, Cause: cause, Err: err})
	if err != nil {
		return value, &Error{cause: cause, err: err}
	}
	return value, nil
}

// kept returns the last good result and its age, or nil if it is too old.
func (f *Fallback[T]) kept() (*result[T], time.Duration) {
	r := f.good.Load()
	if r == nil {
		return nil, 0
	}
	age := time.Since(r.began)
	if age > f.config.MaxAge {
		return nil, 0
	}
	return r, age
}

// mark calls Stale, and counts how it ended: a panic as a failure.
func (f *Fallback[T]) mark(value T, age time.Duration) T {
	counter := &f.failed
	defer func() { counter.Add(1) }()
	if f.config.Stale != nil {
		value = f.config.Stale(value, age)
	}
	counter = &f.stale
	return value
}

// ask calls Func, and counts how it ended: a panic as a failure.
func (f *Fallback[T]) ask(ctx context.Context, cause error) (value T, err error) {
	counter := &f.failed
	defer func() { counter.Add(1) }()
	value, err = f.config.Func(ctx, cause)
	if err == nil {
		counter = &f.made
	}
	return value, err
}

func (f *Fallback[T]) tell(e Event) {
	if f.config.Observe != nil {
		f.config.Observe(e)
	}
}

// Package timeout gives calls a time limit.
//
// [Policy.Do] gives the function a context with a deadline, and waits for the
// function: it is for functions that heed their context, as nearly all that do
// I/O are. [Abandon] is for those that do not: it leaves at the deadline, and
// the function runs on without anybody waiting for it.
//
// In a chain a timeout stands inside the breaker and the retry, so that every
// attempt has one. Do ends the context when it returns: what the function
// returned must not need it any more. The body of an HTTP response does; such
// a call reads it inside.
package timeout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox/internal/spawn"
)

// Policy is a time limit for each call. It is safe for concurrent use, and
// holds no goroutine and no timer between calls. Make one with [New]; the zero
// Policy is not usable.
type Policy struct {
	limit time.Duration
	over  *Error // the cause of every context that a deadline of p ended

	timeouts  atomic.Uint64
	abandoned atomic.Int64
	dropped   atomic.Uint64
	panics    atomic.Uint64
}

// New returns a Policy with the limit given. It panics if that is not
// positive: no limit is no policy.
func New(limit time.Duration) *Policy {
	if limit <= 0 {
		panic(fmt.Errorf("fusebox/timeout: limit is %v, must be positive", limit))
	}
	return &Policy{limit: limit, over: &Error{limit: limit}}
}

// Limit returns the limit.
func (p *Policy) Limit() time.Duration { return p.limit }

// String returns "timeout(1s)".
func (p *Policy) String() string { return "timeout(" + p.limit.String() + ")" }

// Do calls fn with a context whose deadline is the limit from now, or that of
// ctx if it comes sooner, and returns when fn has. [context.Cause] of fn's
// context tells whose deadline ended it: it is an [*Error] if it was this
// policy's, and the cause of ctx otherwise.
//
// If fn returns an error after the deadline of this policy, Do returns an
// *Error that wraps it; one that has the cause in its tree already comes back
// as it is. So does every other error: before the deadline, or where ctx ended
// first. A nil error after the deadline stays nil: an answer is an answer. If
// ctx is done already, Do returns ctx.Err() and does not call fn.
//
// It costs what [context.WithTimeoutCause] costs.
func (p *Policy) Do(ctx context.Context, fn func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	inner, cancel := context.WithTimeoutCause(ctx, p.limit, p.over)
	defer cancel()
	return p.judge(ctx, inner, fn(inner))
}

// judge turns what fn returned into what the caller gets.
func (p *Policy) judge(ctx, inner context.Context, err error) error {
	if err == nil || !p.expired(ctx, inner) {
		return err
	}
	p.timeouts.Add(1)
	if errors.Is(err, p.over) {
		return err
	}
	return &Error{p.limit, err}
}

// expired reports whether the deadline that p gave inner has passed, and ctx,
// from which inner derives, had not ended by then.
func (p *Policy) expired(ctx, inner context.Context) bool {
	if cause := context.Cause(inner); cause != nil {
		// ctx may have ended by an earlier call of p, further out.
		return cause == p.over && context.Cause(ctx) != p.over //nolint:errorlint // this very value
	}
	// A connection that was told the deadline may notice it before the
	// context's timer does.
	deadline, _ := inner.Deadline()
	outer, ok := ctx.Deadline()
	return time.Until(deadline) <= 0 && (!ok || deadline.Before(outer))
}

// Stats are the totals of a Policy since it was made. Calls in time are not
// counted: a breaker around it does that.
type Stats struct {
	Timeouts  uint64 // calls that ended in an *Error of the policy
	Abandoned int    // functions that run although Abandon has left them
	Dropped   uint64 // of those, the ones that have ended since
	Panics    uint64 // of Dropped, those that ended in a panic
}

// Stats returns the totals. Each is exact; a function that ends meanwhile may
// be in none of them, or in two.
func (p *Policy) Stats() Stats {
	return Stats{
		Timeouts:  p.timeouts.Load(),
		Abandoned: int(p.abandoned.Load()),
		Dropped:   p.dropped.Load(),
		Panics:    p.panics.Load(),
	}
}

// late is told that an abandoned function has ended.
func (p *Policy) late(panicked *spawn.Panic) {
	if panicked != nil && p.panics.Add(1) == 1 {
		slog.Error("fusebox: an abandoned function panicked; further panics are only counted",
			"policy", p.String(), "panic", panicked.Value, "stack", string(panicked.Stack))
	}
	p.dropped.Add(1)
	p.abandoned.Add(-1)
}

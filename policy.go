package fusebox

import (
	"context"
	"fmt"
)

// Policy is something that stands around a call: a [*Breaker], or one of the
// policies in the packages beside this one.
//
// Do calls fn zero or more times, never concurrently, with ctx or a context
// derived from it, and fn has returned before Do returns. An error that Do
// makes up itself because it refuses the call has the methods that [Rejected]
// looks for.
type Policy interface {
	Do(ctx context.Context, fn func(context.Context) error) error
}

// PolicyFunc is a function as a Policy.
type PolicyFunc func(ctx context.Context, fn func(context.Context) error) error

// Do calls f.
func (f PolicyFunc) Do(ctx context.Context, fn func(context.Context) error) error { return f(ctx, fn) }

// Call calls fn under p and returns its result: that of the last call of fn,
// should p call it more than once. If p does not call it, or its last call
// panics, the result is zero. Under a Breaker it allocates nothing, under
// another policy a closure and the place of the result.
func Call[T any](ctx context.Context, p Policy, fn func(context.Context) (T, error)) (T, error) {
	if b, ok := p.(*Breaker); ok {
		return callBreaker(ctx, b, fn)
	}
	var value T
	err := p.Do(ctx, func(ctx context.Context) (err error) {
		var zero T
		value = zero // should fn panic, and p live on
		value, err = fn(ctx)
		return err
	})
	return value, err
}

// callBreaker is Breaker.Do for a function with a result.
func callBreaker[T any](ctx context.Context, b *Breaker, fn func(context.Context) (T, error)) (value T, err error) {
	permit, err := b.Allow(ctx)
	if err != nil {
		return value, err
	}
	defer permit.abandon(ctx)
	value, err = fn(ctx)
	permit.Finish(ctx, err)
	return value, err
}

// Chain returns the policies as one, each around those after it: the outermost
// comes first. Chain(retry, breaker, timeout) retries calls that the breaker
// sees one by one, each under its timeout; its String is "retry(…) →
// breaker(…) → timeout(…)". The order that serves most services is bulkhead,
// retry, breaker, timeout, and a fallback around them. Chain panics if a policy
// is nil.
//
// What a chain makes of an error is for the outermost to say: a retry inside a
// breaker makes one outcome of all attempts and hides single errors from it; a
// timeout outside a retry bounds all attempts together.
func Chain(outermost Policy, inner ...Policy) Policy {
	if outermost == nil {
		panic("fusebox: Chain: a policy is nil")
	}
	if len(inner) == 0 {
		return outermost
	}
	return &chain{outermost, Chain(inner[0], inner[1:]...)}
}

type chain struct{ outer, inner Policy }

func (c *chain) Do(ctx context.Context, fn func(context.Context) error) error {
	if b, ok := c.outer.(*Breaker); ok {
		return b.around(ctx, c.inner, fn) // needs no closure
	}
	return c.outer.Do(ctx, func(ctx context.Context) error { return c.inner.Do(ctx, fn) })
}

func (c *chain) String() string { return describe(c.outer) + " → " + describe(c.inner) }

// describe returns a policy's String or, if it has none, its type.
func describe(p Policy) string {
	if s, ok := p.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", p)
}

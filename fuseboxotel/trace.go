package fuseboxotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/fusebox-go/fusebox"
)

// Trace returns p as a policy that writes what it rejects into the trace: a call
// that a breaker, or another policy within p, refuses leaves an event
// "fusebox.rejected" in the span of the context given to Do, with the attributes
//
//   - fusebox.breaker: the name of the breaker,
//   - fusebox.state: "open" or "half-open",
//   - fusebox.cause: why it entered that state, "failure-rate" for instance,
//   - fusebox.retry_after: seconds until it is worth another try; absent if unknown.
//
// The first three are there if it was a breaker that rejected. fusebox.breaker is
// set on the span too, so that traces can be searched for it.
//
// Trace what rejects, inside of what hides it: Chain(retry, Trace(breaker),
// timeout) has an event for each rejected attempt, and a fallback outside of it
// changes nothing. Trace does nothing about errors that are no rejections, nor
// where no span is recorded. It adds no allocation to a call that is not rejected.
// One Trace inside another leaves two events. It panics if p is nil.
func Trace(p fusebox.Policy) fusebox.Policy {
	if p == nil {
		panic("fuseboxotel: Trace: the policy is nil")
	}
	return &traced{p}
}

type traced struct{ policy fusebox.Policy }

func (t *traced) Do(ctx context.Context, fn func(context.Context) error) error {
	err := t.policy.Do(ctx, fn)
	if err != nil {
		record(ctx, err)
	}
	return err
}

// String describes the policy within as the String of a chain does: by its own
// or, if it has none, by its type.
func (t *traced) String() string {
	if s, ok := t.policy.(fmt.Stringer); ok {
		return "trace(" + s.String() + ")"
	}
	return fmt.Sprintf("trace(%T)", t.policy)
}

// record writes err into the span of ctx if it is a rejection.
func record(ctx context.Context, err error) {
	retryAfter, rejected := fusebox.Rejected(err)
	span := trace.SpanFromContext(ctx)
	if !rejected || !span.IsRecording() {
		return
	}
	var attributes []attribute.KeyValue
	var open *fusebox.OpenError
	if errors.As(err, &open) {
		breaker := attribute.String("fusebox.breaker", open.Name())
		span.SetAttributes(breaker)
		attributes = append(attributes, breaker,
			attribute.String("fusebox.state", open.State().String()),
			attribute.String("fusebox.cause", open.Cause().String()))
	}
	if retryAfter > 0 {
		attributes = append(attributes, attribute.Float64("fusebox.retry_after", retryAfter.Seconds()))
	}
	span.AddEvent("fusebox.rejected", trace.WithAttributes(attributes...))
}

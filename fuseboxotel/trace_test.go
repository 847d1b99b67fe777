package fuseboxotel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxotel"
	"github.com/fusebox-go/fusebox/fuseboxtest"
	"github.com/fusebox-go/fusebox/retry"
)

// span runs do in a span and returns what was recorded of it.
func span(tb testing.TB, do func(context.Context)) sdktrace.ReadOnlySpan {
	tb.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	defer provider.Shutdown(context.Background())
	ctx, s := provider.Tracer("test").Start(context.Background(), "call")
	do(ctx)
	s.End()
	return recorder.Ended()[0]
}

func wantAttributes(tb testing.TB, got []attribute.KeyValue, want ...attribute.KeyValue) {
	tb.Helper()
	a, b := attribute.NewSet(got...), attribute.NewSet(want...)
	if !a.Equals(&b) {
		tb.Errorf("attributes %v, want %v", got, want)
	}
}

func TestARejectionIsAnEventOfTheSpan(t *testing.T) {
	l := newLab("payments")
	traced := fuseboxotel.Trace(l.Breaker)
	s := span(t, func(ctx context.Context) {
		if err := traced.Do(ctx, succeed); err != nil {
			t.Error(err)
		}
		if err := traced.Do(ctx, fail); !errors.Is(err, errDown) {
			t.Error(err)
		}
		if l.State() != fusebox.Open {
			t.Errorf("state %v", l.State())
		}
	})
	if len(s.Events()) != 0 || len(s.Attributes()) != 0 {
		t.Errorf("without a rejection: %v, %v", s.Events(), s.Attributes())
	}

	l.Advance(4 * time.Second)
	s = span(t, func(ctx context.Context) {
		err := traced.Do(ctx, func(context.Context) error { t.Error("called"); return nil })
		if want := l.Do(ctx, succeed); err != want { //nolint:errorlint // the very error of the breaker
			t.Errorf("%v, want %v", err, want)
		}
	})
	if len(s.Events()) != 1 || s.Events()[0].Name != "fusebox.rejected" {
		t.Fatalf("events: %v", s.Events())
	}
	wantAttributes(t, s.Events()[0].Attributes,
		attribute.String("fusebox.breaker", "payments"), attribute.String("fusebox.state", "open"),
		attribute.String("fusebox.cause", "consecutive"), attribute.Float64("fusebox.retry_after", 6))
	wantAttributes(t, s.Attributes(), attribute.String("fusebox.breaker", "payments"))

	l.Advance(6 * time.Second)
	l.allow(t)
	s = span(t, func(ctx context.Context) { traced.Do(ctx, succeed) })
	wantAttributes(t, s.Events()[0].Attributes,
		attribute.String("fusebox.breaker", "payments"), attribute.String("fusebox.state", "half-open"),
		attribute.String("fusebox.cause", "deadline"))
}

// full is the refusal of some other policy.
type full struct{}

func (full) Error() string             { return "full" }
func (full) Rejected() bool            { return true }
func (full) RetryAfter() time.Duration { return 1500 * time.Millisecond }

func TestARefusalOfAnotherPolicyIsAnEventToo(t *testing.T) {
	refuse := fusebox.PolicyFunc(func(context.Context, func(context.Context) error) error {
		return fmt.Errorf("the bulkhead: %w", full{})
	})
	s := span(t, func(ctx context.Context) { fuseboxotel.Trace(refuse).Do(ctx, succeed) })
	if len(s.Events()) != 1 || len(s.Attributes()) != 0 {
		t.Fatalf("%v, %v", s.Events(), s.Attributes())
	}
	wantAttributes(t, s.Events()[0].Attributes, attribute.Float64("fusebox.retry_after", 1.5))
}

func TestEachRejectedAttemptIsAnEvent(t *testing.T) {
	a, b := newLab("a"), newLab("b")
	a.Override(fusebox.ForceOpen, fusebox.Note{})
	b.Override(fusebox.ForceOpen, fusebox.Note{})
	s := span(t, func(ctx context.Context) {
		fuseboxotel.Trace(a.Breaker).Do(ctx, succeed)
		fusebox.Chain(retry.New(retry.Config{}), fuseboxotel.Trace(b.Breaker)).Do(ctx, succeed)
	})
	if len(s.Events()) != 2 {
		t.Fatalf("%v", s.Events())
	}
	for i, name := range []string{"a", "b"} {
		wantAttributes(t, s.Events()[i].Attributes,
			attribute.String("fusebox.breaker", name), attribute.String("fusebox.state", "open"), attribute.String("fusebox.cause", "override"))
	}
}

func TestTraceKeepsThePromisesOfAPolicy(t *testing.T) {
	fuseboxtest.Conform(t, func() fusebox.Policy {
		return fuseboxotel.Trace(fusebox.New("a", fusebox.Config{Consecutive: -1}))
	})
}

func TestTraceWithoutASpan(t *testing.T) {
	l := newLab("a")
	traced := fuseboxotel.Trace(l.Breaker)
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() { traced.Do(ctx, succeed) }); n != 0 {
		t.Errorf("a success allocates %v times", n)
	}
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	if n := testing.AllocsPerRun(100, func() { traced.Do(ctx, succeed) }); n != 0 {
		t.Errorf("a rejection allocates %v times", n)
	}
}

func TestTraceHasAName(t *testing.T) {
	l := newLab("a")
	for want, p := range map[string]fusebox.Policy{
		`trace(breaker("a"))`:                fuseboxotel.Trace(l.Breaker),
		`trace(breaker("a")) → breaker("a")`: fusebox.Chain(fuseboxotel.Trace(l.Breaker), l.Breaker),
		`trace(fusebox.PolicyFunc)`:          fuseboxotel.Trace(fusebox.PolicyFunc(nil)),
	} {
		if got := fmt.Sprint(p); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("nil was traced")
		}
	}()
	fuseboxotel.Trace(nil)
}

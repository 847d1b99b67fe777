//go:build !race

// The race detector allocates on its own.

package limit_test

import (
	"context"
	"testing"

	"github.com/fusebox-go/fusebox/limit"
)

func TestACallAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	p := limit.New(limit.Config{})
	full, _ := busy(t, 3)
	throttle := limit.NewThrottle(limit.ThrottleConfig{})
	closed := limit.NewThrottle(limit.ThrottleConfig{MinPerSecond: -1, Rand: func() float64 { return 0 }})
	down := func(context.Context) error { return context.DeadlineExceeded }
	_ = closed.Do(ctx, down)
	for range 2000 { // until the share is 100 %
		_ = closed.Do(ctx, down)
	}
	sum := 0
	for name, f := range map[string]func(){
		"Do":                    func() { n := 1; _ = p.Do(ctx, func(context.Context) error { sum += n; return nil }) },
		"Do that times out":     func() { _ = p.Do(ctx, down) },
		"Do that fails":         func() { _ = p.Do(ctx, func(context.Context) error { return errTest }) },
		"Acquire and Finish":    func() { permit, _ := p.Acquire(ctx); permit.Finish(ctx, nil) },
		"a refusal":             func() { _ = full.Do(ctx, down) },
		"throttle":              func() { n := 1; _ = throttle.Do(ctx, func(context.Context) error { sum += n; return nil }) },
		"refusal by a throttle": func() { _ = closed.Do(ctx, down) },
	} {
		if got := testing.AllocsPerRun(1000, f); got > 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
	if closed.Stats().Rejected < 3000 || full.Stats().Rejected < 1000 {
		t.Error("nothing was refused")
	}
}

func BenchmarkDo(b *testing.B) {
	ctx := context.Background()
	ok := func(context.Context) error { return nil }
	b.Run("limit", func(b *testing.B) {
		p := limit.New(limit.Config{})
		for b.Loop() {
			_ = p.Do(ctx, ok)
		}
	})
	b.Run("throttle", func(b *testing.B) {
		p := limit.NewThrottle(limit.ThrottleConfig{})
		for b.Loop() {
			_ = p.Do(ctx, ok)
		}
	})
}

//go:build !race

// The race detector allocates on its own and changes sizes: these tests are for
// the run without it.

package fusebox_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// cellAllocs checks how often f allocates, at most.
func cellAllocs(t *testing.T, most float64, f func()) {
	t.Helper()
	if got := testing.AllocsPerRun(1000, f); got > most {
		t.Errorf("%v allocations, want at most %v", got, most)
	}
}

func cellNoRules() fusebox.Config { return fusebox.Config{FailureRate: -1, Consecutive: -1} }

var cellSum int

func TestDoAllocatesNothingForAFunctionThatCaptures(t *testing.T) {
	ctx := context.Background()
	b := fusebox.New("payments", cellNoRules())
	cellAllocs(t, 0, func() {
		n := 0
		_ = b.Do(ctx, func(context.Context) error { n++; return nil })
		cellSum += n
	})
}

func TestACallAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	ok := func(context.Context) error { return nil }
	down := func(context.Context) error { return errCell }
	for name, c := range map[string]fusebox.Config{
		"by default":          cellNoRules(),
		"with a count window": {FailureRate: -1, Consecutive: -1, WindowCalls: 100},
		"with a slow rule":    {FailureRate: -1, Consecutive: -1, SlowAfter: time.Hour},
		"in mode off":         {Mode: fusebox.Off},
		"with an observer": {FailureRate: -1, Consecutive: -1, Observers: []fusebox.Observer{{
			Finished: func(fusebox.Completion) {},
		}}},
	} {
		b := fusebox.New("x", c)
		for call, f := range map[string]func(){
			"Do":               func() { _ = b.Do(ctx, ok) },
			"Do that fails":    func() { _ = b.Do(ctx, down) },
			"Allow and Finish": func() { p, _ := b.Allow(ctx); p.Finish(ctx, nil) },
			"Allow and Record": func() { p, _ := b.Allow(ctx); defer p.Record(fusebox.Failure); p.Record(fusebox.Success) },
			"Allow and fail":   func() { p, _ := b.Allow(ctx); p.Finish(ctx, errCell) },
			"RecordAfter":      func() { p, _ := b.Allow(ctx); p.RecordAfter(fusebox.Success, 1) },
			"ignored":          func() { p, _ := b.Allow(ctx); p.Record(fusebox.Ignored) },
			"Cancel":           func() { p, _ := b.Allow(ctx); p.Cancel() },
			"State":            func() { b.State() },
			"Probe":            func() { p, _ := b.Allow(ctx); p.Probe(); p.Finish(ctx, nil) },
		} {
			t.Run(name+"/"+call, func(t *testing.T) { cellAllocs(t, 0, f) })
		}
	}
}

func TestARejectionAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	ok := func(context.Context) error { return nil }
	b := fusebox.New("x", fusebox.Config{})
	b.Override(fusebox.ForceOpen, fusebox.Note{})
	t.Run("open", func(t *testing.T) {
		cellAllocs(t, 0, func() {
			if err := b.Do(ctx, ok); !errors.Is(err, fusebox.ErrOpen) {
				t.Fatal(err)
			}
		})
	})
	t.Run("told to an observer", func(t *testing.T) {
		stop := b.Observe(fusebox.Observer{Rejected: func(*fusebox.OpenError) {}})
		defer stop()
		cellAllocs(t, 0, func() { _ = b.Do(ctx, ok) })
	})
	t.Run("asked about", func(t *testing.T) {
		_, err := b.Allow(ctx)
		cellAllocs(t, 0, func() {
			if _, ok := fusebox.Rejected(err); !ok {
				t.Fatal("no rejection")
			}
		})
	})
	t.Run("probing", func(t *testing.T) {
		h := fusebox.New("x", fusebox.Config{Probes: 1, ProbeTimeout: time.Hour})
		h.Override(fusebox.ForceOpen, fusebox.Note{})
		h.Lift(fusebox.Note{})
		p, err := h.Allow(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Cancel()
		cellAllocs(t, 0, func() {
			if err := h.Do(ctx, ok); !errors.Is(err, fusebox.ErrProbing) {
				t.Fatal(err)
			}
		})
	})
	t.Run("that shadow mode admits", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.Mode = fusebox.Shadow })
		l.trip()
		cellAllocs(t, 0, func() { _ = l.Do(ctx, ok) })
		if got := l.Snapshot().Totals.WouldReject.Successes; got == 0 {
			t.Error("nothing was shadowed")
		}
	})
	t.Run("seen by a breaker outside", func(t *testing.T) {
		outer := fusebox.New("outer", cellNoRules())
		both := fusebox.Chain(outer, b)
		cellAllocs(t, 0, func() { _ = both.Do(ctx, ok) })
	})
}

func TestCallAllocatesAtMostAClosure(t *testing.T) {
	ctx := context.Background()
	b := fusebox.New("x", fusebox.Config{})
	n := 0
	cellAllocs(t, 1, func() {
		got, err := fusebox.Call(ctx, b, func(context.Context) (int, error) { return n, nil })
		if got != n || err != nil {
			t.Fatal(got, err)
		}
		n++
	})
}

func TestAChainOfBreakersAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	chain := fusebox.Chain(fusebox.New("a", cellNoRules()), fusebox.New("b", cellNoRules()), fusebox.New("c", cellNoRules()))
	ok := func(context.Context) error { return nil }
	down := func(context.Context) error { return errCell }
	cellAllocs(t, 0, func() {
		_ = chain.Do(ctx, ok)
		_ = chain.Do(ctx, down)
	})
}

func TestAnIdleBreakerIsSmallAndHoldsNoGoroutine(t *testing.T) {
	const n, most = 20_000, 768
	goroutines := runtime.NumGoroutine()
	breakers := make([]*fusebox.Breaker, n)
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	r := &fusebox.Registry{MaxKeys: -1} // its breakers share their settings
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i, key := range keys {
		breakers[i] = r.Get(key)
	}
	placed := (float64(heap()) - float64(before)) / n
	runtime.KeepAlive(r)
	r = nil
	each := (float64(heap()) - float64(before)) / n
	t.Logf("%.0f bytes for each idle breaker, %.0f with its place in the registry", each, placed)
	if each > most {
		t.Errorf("an idle breaker takes %.0f bytes, want at most %d", each, most)
	}
	if got := runtime.NumGoroutine(); got > goroutines {
		t.Errorf("%d goroutines, were %d", got, goroutines)
	}
	runtime.KeepAlive(breakers)
}

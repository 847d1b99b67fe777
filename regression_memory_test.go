package fusebox_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// What is held in memory, and for how long.

func TestC74ABreakerHoldsNoGoroutine(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	goroutines, before := runtime.NumGoroutine(), heap()
	for range 10_000 {
		b := fusebox.New("x", fusebox.Config{Consecutive: 1})
		_ = b.Do(context.Background(), func(context.Context) error { return errCase })
		if b.State() != fusebox.Open {
			t.Fatal("not open")
		}
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("heap has grown from %d to %d bytes", before, after)
	}
}

func TestC75NothingKeepsADroppedBreakerAlive(t *testing.T) {
	const n = 100
	collected := make(chan int, n)
	for i := range n {
		b := fusebox.New("x", fusebox.Config{Consecutive: 1, OpenFor: time.Hour, Observers: []fusebox.Observer{{
			Transition: func(fusebox.Transition) {},
			Rejected:   func(*fusebox.OpenError) {},
		}}})
		_ = b.Do(context.Background(), func(context.Context) error { return errCase })
		_ = b.Do(context.Background(), func(context.Context) error { return nil })
		b.Observe(fusebox.Observer{})
		runtime.AddCleanup(b, func(i int) { collected <- i }, i)
	}
	late := time.After(30 * time.Second)
	for got := 0; got < n; {
		runtime.GC()
		select {
		case <-collected:
			got++
		case <-late:
			t.Fatalf("%d of %d breakers were collected", got, n)
		}
	}
}

func TestC76ARegistryIsBoundedAndKeepsWhatIsOpen(t *testing.T) {
	clock := newCaseClock()
	r := &fusebox.Registry{MaxKeys: 100, MaxIdle: 10 * time.Minute, Now: clock.Now, Config: func(string) fusebox.Config {
		return fusebox.Config{Consecutive: 1, OpenFor: time.Hour, OpenForMax: time.Hour, OpenJitter: -1, Now: clock.Now}
	}}
	held, err := r.Get("k5").Allow(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		r.Get(fmt.Sprintf("k%d", 10+i))
	}
	if n := r.Stats().Keys; n > 100 {
		t.Errorf("%d keys, want at most 100", n)
	}
	if _, ok := r.Lookup("k5"); ok {
		t.Fatal("k5 is still there: the test is not worth much")
	}
	anew := r.Get("k5")
	if !held.Record(fusebox.Failure) {
		t.Error("the permit of an evicted breaker was not accepted by it")
	}
	if n := anew.Snapshot().Totals; caseFinished(n) != 0 || anew.State() != fusebox.Closed {
		t.Errorf("it was counted by the new breaker of that key: %+v", n)
	}

	open := r.Get("k1")
	_ = open.Do(context.Background(), func(context.Context) error { return errCase })
	for i := range 1000 {
		r.Get(fmt.Sprintf("other%d", i))
	}
	if n := r.Stats().Keys; n > 100 {
		t.Errorf("%d keys, want at most 100", n)
	}
	if b, ok := r.Lookup("k1"); !ok || b != open || b.State() != fusebox.Open {
		t.Error("an open breaker made room")
	}
	clock.Advance(30 * time.Minute)
	if r.Stats(); !slices.Contains(caseKeys(r), "k1") {
		t.Error("an open breaker was dropped as idle")
	}
	clock.Advance(30 * time.Minute)
	r.Stats()
	clock.Advance(15 * time.Minute)
	r.Stats()
	if slices.Contains(caseKeys(r), "k1") {
		t.Error("a breaker that is no longer open and idle was kept")
	}
}

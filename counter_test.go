package fusebox

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stripedCounter returns a counter that has met contention and has grown.
func stripedCounter(tb testing.TB) *counter {
	tb.Helper()
	c := &counter{}
	for range patience {
		c.crowded()
	}
	c.grow()
	if c.stripes.Load() == nil {
		tb.Fatal("a crowded counter has not grown")
	}
	return c
}

// allAtOnce runs fn on n goroutines that begin together, and waits for them.
func allAtOnce(n int, fn func(i int)) {
	var ready, wg sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(n)
	for i := range n {
		wg.Go(func() {
			ready.Done()
			<-begin
			fn(i)
		})
	}
	ready.Wait()
	close(begin)
	wg.Wait()
}

// onManyCores sets GOMAXPROCS for a test, so that goroutines meet.
func onManyCores(tb testing.TB) {
	tb.Helper()
	before := runtime.GOMAXPROCS(8)
	tb.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func TestACounterCountsEveryAddition(t *testing.T) {
	onManyCores(t)
	const goroutines, each = 32, 2000
	for name, c := range map[string]*counter{"one cell": {}, "striped": stripedCounter(t)} {
		t.Run(name, func(t *testing.T) {
			allAtOnce(goroutines, func(int) {
				for range each {
					c.add(c.cell.Load())
				}
			})
			if got := c.sum(); got != goroutines*each {
				t.Errorf("sum = %d, want %d", got, goroutines*each)
			}
		})
	}
}

func TestACounterThatNobodyCrowdsStaysOneCell(t *testing.T) {
	c := &counter{}
	for range 1000 {
		c.add(c.cell.Load())
		c.grow()
	}
	if c.stripes.Load() != nil || c.contended.Load() != 0 {
		t.Errorf("striped %v, contended %d times, want one cell in peace", c.stripes.Load() != nil, c.contended.Load())
	}
	if c.sum() != 1000 {
		t.Errorf("sum = %d, want 1000", c.sum())
	}
}

func TestACounterGrowsOnceAdditionsMeetAsARule(t *testing.T) {
	c := &counter{}
	for i := 1; i < patience; i++ {
		c.add(c.cell.Load() + 1) // somebody has added since
		if c.stripes.Load() != nil {
			t.Fatalf("grown after %d crowded additions, want %d", i, patience)
		}
	}
	c.add(c.cell.Load() + 1)
	if c.stripes.Load() == nil {
		t.Fatalf("not grown after %d crowded additions", patience)
	}
	before := c.cell.Load()
	for range 100 {
		c.add(0)
	}
	if c.cell.Load() != before {
		t.Error("a grown counter adds to its cell")
	}
	if got := c.sum(); got != patience+100 {
		t.Errorf("sum = %d, want %d", got, patience+100)
	}
}

func TestACounterGrowsOnce(t *testing.T) {
	c := stripedCounter(t)
	s := c.stripes.Load()
	c.addStriped()
	for range patience {
		c.crowded()
	}
	c.grow()
	if c.stripes.Load() != s {
		t.Error("grown again, and what had been counted is gone")
	}
}

func TestACounterThatManyGrowAtOnceLosesNothing(t *testing.T) {
	onManyCores(t)
	const goroutines, each = 8, 20
	for range 500 {
		c := &counter{}
		c.contended.Store(patience - 1)
		allAtOnce(goroutines, func(int) {
			for range each {
				c.add(c.cell.Load() + 1)
			}
		})
		if got := c.sum(); got != goroutines*each {
			t.Fatalf("sum = %d, want %d", got, goroutines*each)
		}
	}
}

func TestACalmCounterForgetsContention(t *testing.T) {
	c := &counter{}
	for range 10 * patience {
		c.add(c.cell.Load() + 1)
		c.calm()
	}
	c.grow()
	if c.stripes.Load() != nil {
		t.Error("grown, though additions met only now and then")
	}
}

func TestStripesArePowersOfTwoAboveTheCores(t *testing.T) {
	for n := 1; n <= 1024; n++ {
		s := stripes(n)
		if s&(s-1) != 0 {
			t.Errorf("stripes(%d) = %d, not a power of two", n, s)
		}
		if s < 4*n || s > 8*n {
			t.Errorf("stripes(%d) = %d, want from 4 to 8 a core", n, s)
		}
	}
}

func TestSealReturnsWhatHasBeenCounted(t *testing.T) {
	plain, striped := &counter{}, stripedCounter(t)
	grown := &counter{} // with a part in the cell
	for range 3 {
		plain.cell.Add(1)
	}
	for range 5 {
		striped.addStriped()
	}
	for range patience {
		grown.add(grown.cell.Load() + 1)
	}
	grown.addStriped()
	for _, c := range []struct {
		name string
		*counter
		want uint64
	}{
		{"empty", &counter{}, 0},
		{"one cell", plain, 3},
		{"striped", striped, 5},
		{"grown", grown, patience + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.sum(); got != c.want {
				t.Errorf("sum = %d, want %d", got, c.want)
			}
			if got := c.seal(); got != c.want {
				t.Errorf("seal = %d, want %d", got, c.want)
			}
			if got := c.sum(); got != c.want {
				t.Errorf("sum = %d once sealed, want %d", got, c.want)
			}
			if c.stripes.Load() != nil && c.addStriped() {
				t.Error("an addition to a sealed stripe says that it counts")
			}
			if c.cell.Add(1) < sealed {
				t.Error("an addition to a sealed cell says that it counts")
			}
		})
	}
}

// TestWhatCountsIsWhatTheSealFound adds from many goroutines while the counter
// is sealed: exactly the additions that were told that they count are in it.
func TestWhatCountsIsWhatTheSealFound(t *testing.T) {
	onManyCores(t)
	const goroutines = 8
	rounds := 30
	if testing.Short() {
		rounds = 10
	}
	for _, kind := range []string{"one cell", "striped", "growing"} {
		t.Run(kind, func(t *testing.T) {
			late := 0
			for range rounds {
				e := newEra(ticket{})
				if kind == "striped" {
					e.successes.stripes.Store(stripedCounter(t).stripes.Load())
				}
				var counted, missed atomic.Uint64
				var final uint64
				allAtOnce(goroutines+1, func(i int) {
					if i == 0 {
						for counted.Load() < 2*goroutines {
							runtime.Gosched()
						}
						if kind == "growing" { // as the lock would have it: never at the same time
							for range patience {
								e.successes.crowded()
							}
							e.successes.grow()
							for counted.Load() < 6*goroutines {
								runtime.Gosched()
							}
						}
						final = e.successes.seal()
						return
					}
					for n := i; ; n++ {
						if !e.count(e.successes.cell.Load()) {
							missed.Add(1)
							return
						}
						counted.Add(1)
						if n%16 == 0 { // let the seal come, on few cores too
							runtime.Gosched()
						}
					}
				})
				if final != counted.Load() {
					t.Fatalf("seal = %d, but %d additions were told that they count", final, counted.Load())
				}
				if got := e.successes.sum() - final; got > goroutines {
					t.Fatalf("%d additions by %d goroutines after the seal", got, goroutines)
				}
				late += int(missed.Load())
			}
			if late != rounds*goroutines {
				t.Errorf("%d goroutines were told that they are late, want %d", late, rounds*goroutines)
			}
		})
	}
}

func TestACrowdedEraSendsTheNextToTheLock(t *testing.T) {
	e := newEra(ticket{})
	e.until.Store(int64(forever))
	for i := range patience {
		if e.until.Load() != int64(forever) {
			t.Fatalf("sent to the lock after %d crowded additions, want %d", i, patience)
		}
		if !e.count(e.successes.cell.Load() + 1) {
			t.Fatal("an addition before the seal says that it does not count")
		}
	}
	if e.until.Load() == int64(forever) {
		t.Errorf("after %d crowded additions nobody is sent to the lock", patience)
	}
}

func TestHereSpreadsGoroutines(t *testing.T) {
	const goroutines, n = 256, 32
	var hits [n]atomic.Uint32
	var moved atomic.Uint32
	release := make(chan struct{})
	var counted, wg sync.WaitGroup
	counted.Add(goroutines)
	for range goroutines {
		wg.Go(func() {
			at := here() & (n - 1)
			hits[at].Add(1)
			if here()&(n-1) != at {
				moved.Add(1)
			}
			counted.Done()
			<-release // all stacks in use at the same time
		})
	}
	counted.Wait()
	close(release)
	wg.Wait()
	used, most := 0, uint32(0)
	for i := range hits {
		if h := hits[i].Load(); h > 0 {
			used++
			most = max(most, h)
		}
	}
	if used < n/2 || most > goroutines/4 {
		t.Errorf("%d goroutines use %d of %d stripes, up to %d one of them", goroutines, used, n, most)
	}
	if moved.Load() > goroutines/16 {
		t.Errorf("%d of %d goroutines changed stripes between two looks", moved.Load(), goroutines)
	}
}

// An observer of rejections costs a success nothing: it takes no lock.
func TestAnObserverOfRejectionsLeavesASuccessWithoutTheLock(t *testing.T) {
	b := New("b", Config{})
	b.Observe(Observer{Rejected: func(*OpenError) {}, Transition: func(Transition) {}})
	done := make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	go func() {
		defer close(done)
		p, _ := b.Allow(context.Background())
		p.Record(Success)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("a success waits for the lock")
	}
}

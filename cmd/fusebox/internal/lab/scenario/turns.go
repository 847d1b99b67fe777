package scenario

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// turns lets the goroutines of a bubble go on one at a time. Those that wake at
// one instant run in no fixed order; so each takes a turn before it touches what
// others see, and the turns go round by number once all are still. After a turn
// the goroutine has the world to itself until it waits for something.
type turns struct {
	woken  chan struct{} // somebody may be waiting for a turn
	active atomic.Int64  // goroutines that have not ended

	mu      sync.Mutex
	waiting waiters
}

func newTurns() *turns { return &turns{woken: make(chan struct{}, 1)} }

// start runs fn on a goroutine.
func (t *turns) start(fn func()) {
	t.active.Add(1)
	go func() {
		defer t.active.Add(-1)
		fn()
	}()
}

// take waits for a turn. A number waits for one at a time.
func (t *turns) take(number int) {
	w := waiter{number, make(chan struct{})}
	t.mu.Lock()
	heap.Push(&t.waiting, w)
	t.mu.Unlock()
	select {
	case t.woken <- struct{}{}:
	default:
	}
	<-w.turn
}

// give gives the turn to the lowest number, and reports whether there was one.
func (t *turns) give() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		return false
	}
	close(heap.Pop(&t.waiting).(waiter).turn)
	return true
}

// run gives turns until every goroutine has ended. At the end it calls stop, which
// must make them all end; when ctx ends, it does so at once. ctx is of the world
// outside: nobody can wait for it here. Now and then it calls progress.
func (t *turns) run(ctx context.Context, end time.Duration, stop, progress func()) error {
	timer := time.NewTimer(end)
	defer timer.Stop()
	for n := 0; ; n++ {
		synctest.Wait()
		if n%1024 == 0 {
			progress()
			if ctx.Err() != nil {
				stop()
			}
		}
		switch {
		case t.give():
		case t.active.Load() == 0:
			return ctx.Err()
		default:
			select {
			case <-t.woken:
			case <-timer.C:
				stop()
			}
		}
	}
}

type waiter struct {
	number int
	turn   chan struct{}
}

// waiters is a heap, the lowest number first.
type waiters []waiter

func (w waiters) Len() int           { return len(w) }
func (w waiters) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w waiters) Less(i, j int) bool { return w[i].number < w[j].number }
func (w *waiters) Push(x any)        { *w = append(*w, x.(waiter)) }
func (w *waiters) Pop() any {
	last := len(*w) - 1
	x := (*w)[last]
	(*w)[last] = waiter{}
	*w = (*w)[:last]
	return x
}

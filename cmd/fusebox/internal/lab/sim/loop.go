package sim

import (
	"container/heap"
	"context"
	"time"
)

// Epoch is the instant at which the time of a Virtual loop begins. It is that
// of a bubble, too.
var Epoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Loop runs functions at the instants they are planned for. It is for one
// goroutine: functions that it runs may plan others.
type Loop struct {
	now    time.Duration
	events events
	seq    uint64

	start time.Time
	wait  func(context.Context, time.Duration) // moves package time; nil: there is none to move
}

// Virtual returns a loop whose time is a number, and costs nothing to move.
func Virtual() *Loop { return &Loop{start: Epoch} }

// Real returns a loop on the machine's clock: it waits for the time of every
// event, and is late by what the machine makes it.
func Real() *Loop {
	return &Loop{start: time.Now(), wait: func(ctx context.Context, d time.Duration) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}}
}

// Now returns the present time, for Config.Now of a breaker.
func (l *Loop) Now() time.Time { return l.start.Add(l.Elapsed()) }

// Elapsed returns the time since the loop was made. In a Real loop it is what
// the clock says, which is later than what was planned.
func (l *Loop) Elapsed() time.Duration {
	if l.wait != nil {
		return time.Since(l.start)
	}
	return l.now
}

// At plans fn for an instant, as a time since the loop was made; one that has
// passed means now.
func (l *Loop) At(at time.Duration, fn func()) {
	l.seq++
	heap.Push(&l.events, event{max(at, l.now), l.seq, fn})
}

// After plans fn for d from now. In a Real loop now is the instant the running
// event was planned for: delays do not add up.
func (l *Loop) After(d time.Duration, fn func()) { l.At(l.now+d, fn) }

// Every plans n calls of fn, with 0, 1, 2 and so on, d apart, the first one at
// the instant first.
func (l *Loop) Every(first, d time.Duration, n int, fn func(i int)) {
	var next func(i int)
	next = func(i int) {
		if i >= n {
			return
		}
		l.At(first+time.Duration(i)*d, func() {
			fn(i)
			next(i + 1)
		})
	}
	next(0)
}

// Run runs the events that are due up to the instant until, it included, and
// leaves the loop there; later ones stay planned. The error is that of ctx, if
// it ends before.
func (l *Loop) Run(ctx context.Context, until time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for n := 1; len(l.events) > 0 && l.events[0].at <= until; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e := heap.Pop(&l.events).(event)
		if err := l.move(ctx, e.at); err != nil {
			return err
		}
		e.fn()
	}
	return l.move(ctx, until)
}

func (l *Loop) move(ctx context.Context, to time.Duration) error {
	l.now = max(l.now, to)
	if l.wait == nil {
		return nil
	}
	if d := l.now - l.Elapsed(); d > 0 {
		l.wait(ctx, d)
	}
	return ctx.Err()
}

type event struct {
	at  time.Duration
	seq uint64
	fn  func()
}

// events is a heap, the next one first.
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e *events) Push(x any) { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{} // let go of its function
	*e = (*e)[:last]
	return x
}

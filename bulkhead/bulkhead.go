// Package bulkhead bounds how many calls are in flight at a time, so that one
// slow dependency cannot take every goroutine, connection and byte of memory
// a process has. A call beyond the bound is refused at once, or waits a bounded
// time for a place, in order of arrival.
//
//	var payments = bulkhead.New(bulkhead.Config{Name: "payments", Limit: 50})
//
//	err := payments.Do(ctx, charge)
//	if errors.Is(err, bulkhead.ErrFull) { … } // not called
//
// In a chain it stands outside retry and breaker: a call that waits between
// two attempts keeps its place.
package bulkhead

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Policy bounds the calls in flight. It is safe for concurrent use, holds no
// goroutine and needs no closing. Make one with [New]; the zero Policy is not
// usable. One used in a testing/synctest bubble must have been made in it.
//
// What holds between any two steps:
//
//  1. At most as many calls are in flight as the highest limit in force since
//     the first of them was admitted.
//  2. While somebody waits, no place is free: a place goes to the first in the
//     queue in the step that frees it, so a newcomer never overtakes.
//  3. While places says that there are waiters, it changes only under mu, and no
//     place is free. Otherwise there are none, and admitting and releasing are
//     one compare-and-swap, and take no lock.
type Policy struct {
	config   Config        // defaults filled in, but for what follows from the limit
	places   atomic.Uint64 // a places
	full     atomic.Pointer[Error]
	rejected atomic.Uint64

	mu      sync.Mutex
	waiters queue

	idle sync.Pool // of *waiter, with timers that did not fire
}

// places is, in one word, how many calls are in flight (the low half), how many
// may be (31 bits), and whether there are waiters.
type places uint64

const (
	limitShift        = 32
	waiting    places = 1 << 63
)

func (s places) inFlight() int { return int(uint32(s)) }
func (s places) limit() int    { return int(s &^ waiting >> limitShift) }
func (s places) waited() bool  { return s&waiting != 0 }
func (s places) free() bool    { return !s.waited() && s.inFlight() < s.limit() }

func (s places) withLimit(n int) places {
	return s&waiting | places(n)<<limitShift | places(s.inFlight())
}

// New returns a bulkhead with all its places free. It panics with the error of
// c.Validate if c is invalid: call that first where c is data.
func New(c Config) *Policy {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	p := &Policy{config: c}
	p.setLimit(c.withDefaults().Limit)
	return p
}

// Config returns the settings in effect, defaults filled in; Limit is the one
// last set.
func (p *Policy) Config() Config {
	c := p.config
	c.Limit = p.load().limit()
	return c.withDefaults()
}

// String returns, say, "bulkhead(25)" or "bulkhead(25, wait 1s)".
func (p *Policy) String() string {
	limit := p.load().limit()
	if p.config.MaxWait == 0 {
		return fmt.Sprintf("bulkhead(%d)", limit)
	}
	return fmt.Sprintf("bulkhead(%d, wait %v)", limit, p.config.MaxWait)
}

// Do calls fn when it has a place, gives the place back however fn ends, by a
// panic or runtime.Goexit too, and returns the error of fn unchanged. Without a
// place it returns the error of [Policy.Acquire], and fn is not called.
//
// The place is held until fn returns, even if ctx is done before: what still
// runs still weighs on the dependency. Where no call has to wait, Do takes no
// lock and allocates nothing.
func (p *Policy) Do(ctx context.Context, fn func(context.Context) error) error {
	if err := p.Acquire(ctx); err != nil {
		return err
	}
	defer p.Release()
	return fn(ctx)
}

// Acquire takes a place for a call whose end is not the end of a function, such
// as the reading of an HTTP body. When it returns nil, [Policy.Release] is owed,
// once.
//
// If ctx is done already, Acquire returns ctx.Err() as it is, and nothing is
// counted. Otherwise an error is a refusal, an [*Error]: every place was taken
// and the wait was none (Config.MaxWait, MaxWaiting), or ran out, or ctx ended
// it. Who gives up leaves the queue at once; a place given in that very moment
// is kept if the wait had run out, and goes to the next if ctx had ended.
//
// Taking a free place and refusing at once allocate nothing; neither takes a
// lock, but for a refusal because the queue is full. A call that waits costs a
// timer, a channel and a place in a linked list, which others use again.
func (p *Policy) Acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.enter() {
		return nil
	}
	if p.config.MaxWait == 0 {
		return p.refuse()
	}
	return p.wait(ctx)
}

// TryAcquire takes a place if one is free, and reports whether it did. It never
// waits, and never overtakes a call that does. A false counts as a rejection.
// When it returns true, Release is owed.
func (p *Policy) TryAcquire() bool {
	if p.enter() {
		return true
	}
	p.rejected.Add(1)
	return false
}

// Release gives back the place that Acquire or TryAcquire took; the first
// waiter gets it. It may be called on any goroutine, once for each place: it
// panics if none is taken, and cannot know whose place it is if one is.
func (p *Policy) Release() {
	for {
		s := p.load()
		switch {
		case s.inFlight() == 0:
			panic("fusebox/bulkhead: Release without Acquire: no call is in flight")
		case s.waited():
			if p.handOver() {
				return
			}
		case p.swap(s, s-1):
			return
		}
	}
}

// SetLimit changes how many calls may be in flight, from now on. A higher limit
// admits as many waiters at once, in order. A lower one ends no call: those in
// flight finish, and none is admitted until there are fewer than n. If n is not
// from 1 to 2,147,483,647, SetLimit returns an error and changes nothing.
func (p *Policy) SetLimit(n int) error {
	if n < 1 || n > maxLimit {
		return fmt.Errorf("fusebox/bulkhead: limit is %d, must be from 1 to %d", n, maxLimit)
	}
	p.setLimit(n)
	return nil
}

func (p *Policy) setLimit(n int) {
	c := p.config
	c.Limit = n
	c = c.withDefaults()

	p.mu.Lock()
	defer p.mu.Unlock()
	p.full.Store(&Error{name: c.Name, limit: n, inFlight: n, waiting: c.MaxWaiting})
	for {
		s := p.load()
		if p.swap(s, s.withLimit(n)) {
			break
		}
	}
	p.grant()
}

// Stats is what a bulkhead is at and has done.
type Stats struct {
	InFlight int    // calls that have a place
	Waiting  int    // calls that wait for one
	Limit    int    // calls that may have one; less than InFlight for a while after it was lowered
	Rejected uint64 // calls refused so far, those whose wait ran out or was ended by their context among them
}

// Stats returns the present state, and totals. InFlight, Waiting and Limit are
// true of one instant.
func (p *Policy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.load()
	return Stats{InFlight: s.inFlight(), Waiting: p.waiters.len, Limit: s.limit(), Rejected: p.rejected.Load()}
}

func (p *Policy) load() places { return places(p.places.Load()) }

func (p *Policy) swap(from, to places) bool {
	return p.places.CompareAndSwap(uint64(from), uint64(to))
}

// enter takes a place if one is free. One step decides and takes it.
func (p *Policy) enter() bool {
	for {
		s := p.load()
		if !s.free() {
			return false
		}
		if p.swap(s, s+1) {
			return true
		}
	}
}

// refuse refuses a call that did not wait.
func (p *Policy) refuse() error {
	p.rejected.Add(1)
	return p.full.Load()
}

// wait waits for a place, at the end of the queue.
func (p *Policy) wait(ctx context.Context) error {
	done := ctx.Done()
	w, err := p.queue()
	if w == nil {
		return err
	}
	given := true
	select {
	case <-w.given:
	case <-done:
		given = p.leave(w)
	case <-w.timer.C:
		given = p.leave(w)
	}
	if w.timer.Stop() { // its channel is empty, whatever GODEBUG says about timers
		p.idle.Put(w)
	}
	cause := ctx.Err()
	if given && cause == nil {
		return nil
	}
	if given {
		p.Release() // to the next
	}
	s := p.Stats()
	p.rejected.Add(1)
	return &Error{
		name: p.config.Name, limit: s.Limit, inFlight: s.InFlight, waiting: s.Waiting,
		waited: p.config.MaxWait, cause: cause,
	}
}

// queue takes a place in the queue. It returns nil if there was no need, or
// with the refusal if the queue is full.
func (p *Policy) queue() (*waiter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		s := p.load()
		switch {
		case s.free(): // since a moment ago
			if p.swap(s, s+1) {
				return nil, nil
			}
		case p.waiters.len >= p.config.maxWaiting(s.limit()):
			return nil, p.refuse()
		case p.swap(s, s|waiting):
			w := p.newWaiter()
			p.waiters.push(w)
			return w, nil
		}
	}
}

// newWaiter returns a waiter whose time has begun.
func (p *Policy) newWaiter() *waiter {
	if w, ok := p.idle.Get().(*waiter); ok {
		w.timer.Reset(p.config.MaxWait)
		return w
	}
	return &waiter{given: make(chan struct{}, 1), timer: time.NewTimer(p.config.MaxWait)}
}

// leave takes a waiter out of the queue. It reports whether it has been given a
// place, and so stood there no more.
func (p *Policy) leave(w *waiter) (given bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.given:
		return true
	default:
		p.waiters.remove(w) // the next release sees whether it was the last
		return false
	}
}

// handOver is Release while there are waiters. It reports false if there are
// none any more.
func (p *Policy) handOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.load()
	if !s.waited() {
		return false
	}
	p.places.Store(uint64(s - 1))
	p.grant()
	return true
}

// grant gives free places to waiters, in order, and opens the way without a
// lock when none is left. A place counts as taken before its waiter hears of
// it, who may give it back at once. p.mu is held.
func (p *Policy) grant() {
	for s := p.load(); s.waited(); {
		w := p.waiters.first
		switch {
		case w == nil:
			s &^= waiting
		case s.inFlight() < s.limit():
			s++
		default:
			return
		}
		p.places.Store(uint64(s))
		if w != nil {
			p.waiters.remove(w)
			w.given <- struct{}{}
		}
	}
}

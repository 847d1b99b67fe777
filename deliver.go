package fusebox

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// watcher is an Observer in use.
type watcher struct {
	Observer
	stopped atomic.Bool
}

// watchers are those of one breaker, by what they want to be told. The value
// is immutable and replaced whole.
type watchers struct {
	all, transition, finished, rejected []*watcher
}

var noWatchers = &watchers{}

func (w *watchers) with(x *watcher) *watchers {
	return newWatchers(append(slices.Clip(w.all), x))
}

func (w *watchers) without(x *watcher) *watchers {
	return newWatchers(slices.DeleteFunc(slices.Clone(w.all), func(y *watcher) bool { return x == y }))
}

func newWatchers(all []*watcher) *watchers {
	w := &watchers{all: all}
	for _, x := range all {
		if x.Transition != nil {
			w.transition = append(w.transition, x)
		}
		if x.Finished != nil {
			w.finished = append(w.finished, x)
		}
		if x.Rejected != nil {
			w.rejected = append(w.rejected, x)
		}
	}
	return w
}

// Observe adds an observer. stop removes it, and does not wait: a callback that
// another goroutine is in, or about to enter, may still run. The observer may
// stop itself, and stop may be called twice.
func (b *Breaker) Observe(o Observer) (stop func()) {
	w := &watcher{Observer: o}
	b.watch(w)
	return func() { b.unwatch(w) }
}

func (b *Breaker) watch(w *watcher) {
	b.setWatchers(func(ws *watchers) *watchers { return ws.with(w) })
}

func (b *Breaker) unwatch(w *watcher) {
	w.stopped.Store(true)
	b.detach(w)
}

// detach removes a watcher that goes on elsewhere.
func (b *Breaker) detach(w *watcher) {
	b.setWatchers(func(ws *watchers) *watchers { return ws.without(w) })
}

func (b *Breaker) setWatchers(change func(*watchers) *watchers) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers = change(b.watchers)
	b.machine.changed = true
	b.publish()
}

// entry is a record in the history, and until it has been delivered in the
// queue. Its error is turned into text when somebody reads it, not under the
// lock of the call that failed.
type entry struct {
	Transition
	last atomic.Pointer[lastError] // nil: none
}

// lastError is an error, or its text once somebody has asked.
type lastError struct {
	err  error
	text string
}

// read returns the record, with its error as text; the error is let go of.
func (e *entry) read() Transition {
	t := e.Transition
	if l := e.last.Load(); l != nil {
		if l.err != nil {
			l = &lastError{text: errorText(l.err)}
			e.last.Store(l)
		}
		t.LastError = l.text
	}
	return t
}

// maxErrorText is how many bytes of an error's text a record keeps.
const maxErrorText = 200

// errorText returns the text of err, shortened; it survives an Error method
// that panics.
func errorText(err error) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprintf("%T, whose Error method panics", err)
		}
	}()
	text = err.Error()
	if len(text) > maxErrorText {
		const more = "…"
		text = strings.ToValidUTF8(text[:maxErrorText-len(more)], "") + more
	}
	return text
}

// maxHistory is how many records a breaker keeps.
const maxHistory = 16

// History returns the last 16 records, oldest first.
func (b *Breaker) History() []Transition {
	b.mu.Lock()
	var entries []*entry
	if b.journal != nil {
		entries = slices.Clone(b.journal.history)
	}
	b.mu.Unlock()
	return readAll(entries)
}

func readAll(entries []*entry) []Transition {
	records := make([]Transition, len(entries))
	for i, e := range entries {
		records[i] = e.read()
	}
	return records
}

// stamp turns the machine's effects into records. b.mu is held.
func (b *Breaker) stamp(s *story) {
	if b.journal == nil {
		b.journal = &journal{}
	}
	j := b.journal
	for _, r := range s.effects {
		e := &entry{Transition: r.Transition}
		e.Name, e.At = b.name, b.wallAt(r.at)
		if r.until != forever {
			e.Until = b.wallAt(r.until)
		}
		if r.err != nil {
			e.last.Store(&lastError{err: r.err})
		}
		if e.From != e.To || e.Cause == CauseOverride && e.Mode == ForceOpen {
			j.opening = e
			if e.To == Open {
				j.opened = e
			}
			if e.From == Closed && e.Cause.trips() {
				j.tripped = e
			}
		}
		if len(j.history) == maxHistory {
			j.history = slices.Delete(j.history, 0, 1)
		}
		j.history = append(j.history, e)
		j.pending = append(j.pending, e)
	}
	s.effects = nil
}

// settle does what an event has left to be done without the lock: it draws the
// jitter of the next open period and delivers the records.
func (b *Breaker) settle() {
	b.mu.Lock()
	drawn, random := b.machine.drawn, b.machine.cfg.Rand
	b.machine.drawn = false
	b.mu.Unlock()
	defer b.deliver() // also if random ends the goroutine
	if drawn {
		next := 0.5
		func() {
			defer b.survive()
			next = draw(random)
		}()
		b.mu.Lock()
		b.machine.nextDraw = next
		b.mu.Unlock()
	}
}

// draw returns a number in [0, 1): random's, if there is one and it keeps to that.
func draw(random func() float64) float64 {
	if random != nil {
		if d := random(); d >= 0 && d < 1 {
			return d
		}
	}
	return rand.Float64()
}

// deliver tells the observers of pending records, unless another goroutine is
// at it, or this one is, further up its stack: that one will come to them.
func (b *Breaker) deliver() {
	b.mu.Lock()
	j := b.journal
	begin := j != nil && !j.delivering
	if begin {
		j.delivering = true
	}
	b.mu.Unlock()
	if begin {
		(&delivery{b: b}).run()
	}
}

// delivery goes through the pending records and, for each, the observers.
type delivery struct {
	b      *Breaker
	record Transition
	left   []*watcher // not yet told of record
}

func (d *delivery) run() {
	done := false
	defer func() {
		if !done {
			d.run() // a callback ended the goroutine; the rest is still owed
		}
	}()
	for d.next() {
		for len(d.left) > 0 {
			w := d.left[0]
			d.left = d.left[1:]
			d.b.tellTransition(w, d.record)
		}
	}
	done = true
}

// next takes a record from the queue, if none is under way.
func (d *delivery) next() bool {
	if len(d.left) > 0 {
		return true
	}
	b := d.b
	b.mu.Lock()
	j := b.journal
	if len(j.pending) == 0 {
		j.pending = nil
		j.delivering = false
		b.mu.Unlock()
		return false
	}
	e := j.pending[0]
	j.pending = j.pending[1:]
	d.left = b.watchers.transition
	b.mu.Unlock()
	d.record = e.Transition // should the error end the goroutine
	d.record = e.read()
	return true
}

func (b *Breaker) tellTransition(w *watcher, t Transition) {
	defer b.survive()
	if !w.stopped.Load() {
		w.Transition(t)
	}
}

func (b *Breaker) tellFinished(w *watcher, c Completion) {
	defer b.survive()
	if !w.stopped.Load() {
		w.Finished(c)
	}
}

func (b *Breaker) tellRejected(w *watcher, e *OpenError) {
	defer b.survive()
	if !w.stopped.Load() {
		w.Rejected(e)
	}
}

// each tells every watcher, also where telling one ends the goroutine.
func each(ws []*watcher, tell func(*watcher)) {
	if len(ws) > 0 {
		defer each(ws[1:], tell)
		tell(ws[0])
	}
}

// survive, deferred, ends a panic in something of the user's that is not a
// call's own business.
func (b *Breaker) survive() {
	r := recover()
	if r == nil {
		return
	}
	b.mu.Lock()
	b.panics++
	first := b.panics == 1
	b.mu.Unlock()
	if first {
		defer func() { _ = recover() }() // the program's logger may be what panics
		slog.Error("fusebox: a callback panicked; further panics are only counted",
			"name", b.name, "panic", r, "stack", string(debug.Stack()))
	}
}

// wallAt returns the wall time of an instant of the machine's, without a
// monotonic part; zero for forever.
func (b *Breaker) wallAt(at time.Duration) time.Time {
	if at == forever {
		return time.Time{}
	}
	if b.clock != nil {
		return b.base.Add(at).Round(0)
	}
	now := time.Now()
	return now.Add(at - now.Sub(b.base)).Round(0)
}

package fusebox

import (
	"math"
	"sync/atomic"
	"time"
)

// gate is all that a call may know without the lock. It is immutable and
// replaced whole, by one atomic store, whenever the machine has changed in a
// way that calls notice: so no two things a call reads can contradict.
type gate struct {
	// era is the closed period to count in; nil unless every call is admitted
	// and judged.
	era *era
	// refusal is the rejection of every call before until; nil: ask the
	// machine, which is to be asked from until on in any case.
	refusal *OpenError
	until   time.Duration
	shadow  bool // admit what would be refused
	off     bool // admit every call before until, count nothing
	probing bool // refusal is for want of a probe

	timed     bool          // the start of a call must be known
	slowAfter time.Duration // forever: no call is slow
	watch     *watchers     // nil unless somebody watches calls
}

// era is the lock-free part of one closed generation. A late result lands in
// an era nobody reads.
type era struct {
	generation uint64
	successes  counter
	// until is the instant up to which a plain success is only counted here;
	// the beginning of time where all must take the lock. It is set to that
	// before successes is sealed, so that once one call was late all are.
	until atomic.Int64
}

// publish brings what the lock-free paths see in line with the machine, after
// every event. It returns the gate in force, and whether the event has left
// work for settle. b.mu is held.
func (b *Breaker) publish() (g *gate, more bool) {
	m := &b.machine
	if e := b.era; e != nil && (m.state != Closed || e.generation != m.generation) {
		e.until.Store(math.MinInt64)
		m.totals.Successes += e.successes.seal()
		b.era = nil
	}
	if m.state == Closed && b.era == nil {
		b.era = &era{generation: m.generation}
	}
	if b.era != nil {
		if until := int64(m.plainUntil()); until != b.era.until.Load() {
			b.era.until.Store(until)
		}
	}
	if len(m.effects) > 0 {
		b.stamp()
	}
	if m.changed != b.published {
		b.published = m.changed
		b.gate.Store(b.newGate())
	}
	return b.gate.Load(), m.drawn || len(b.pending) > 0
}

func (b *Breaker) newGate() *gate {
	m := &b.machine
	g := &gate{slowAfter: m.cfg.SlowAfter, shadow: m.mode == Shadow, off: m.mode == Off}
	if g.slowAfter <= 0 {
		g.slowAfter = forever
	}
	if w := b.watchers; len(w.finished) > 0 || len(w.rejected) > 0 {
		g.watch = w
	}
	g.timed = g.slowAfter != forever || g.watch != nil && len(g.watch.finished) > 0
	if g.shadow && b.would == nil {
		b.would = new([3]counter)
	}
	g.until, _ = m.nextDue()
	switch {
	case g.off:
	case m.state == Closed:
		g.era = b.era
	case m.state == Open:
		g.until = min(g.until, m.probesAt())
		g.refusal = b.openError(m.probesAt())
	case !m.probeFree():
		g.refusal = b.openError(forever)
		g.probing = true
	}
	return g
}

// openError returns the rejection of the present generation, the one already
// given out where it still holds.
func (b *Breaker) openError(deadline time.Duration) *OpenError {
	if e := b.refusal; e != nil && e.last == b.opening && e.deadline == deadline {
		return e
	}
	b.refusal = &OpenError{breaker: b, last: b.opening, opened: b.machine.since, deadline: deadline}
	return b.refusal
}

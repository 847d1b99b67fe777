package fusebox

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// gate is all that a call may know without the lock. It is immutable and
// replaced whole, by one atomic store, whenever the machine has changed in a
// way that calls notice: so no two things a call reads can contradict.
type gate struct {
	// era is the closed period to count in; nil unless every call is admitted
	// and judged, and nothing will fall due.
	era *era
	// refusal is the rejection of every call before until; nil: ask the
	// machine, which is to be asked from until on in any case. until is spent
	// once such an instant has been seen.
	refusal *OpenError
	until   time.Duration
	// pass is what a call is given that the mode alone admits: instead of a
	// refusal in Shadow; every call before until in Off; else nil.
	pass     *era
	rejected *counter // counts the refusals
	plain    *counter // rejected, if counting is all there is to do

	timed     bool          // the start of a call must be known
	slowAfter time.Duration // forever: no call is slow; also in era
	watch     *watchers     // nil unless somebody watches calls or rejections
	classify  func(context.Context, error) Outcome
}

// spent is an instant before all others.
const spent = time.Duration(math.MinInt64)

// era is what a permit was issued for. For a closed generation, which all its
// permits share, it has the lock-free part of the counting: a late result
// lands in an era nobody reads. Others are a ticket only.
type era struct {
	ticket
	successes counter
	// until is the instant up to which a plain success is only counted here:
	// the end of the window's bucket; the beginning of time where all must take
	// the lock, as where somebody watches calls, or a run of failures is to be
	// ended.
	until     atomic.Int64
	slowAfter atomic.Int64 // from this duration on a success is not plain
}

// newEra returns an era of which nothing is counted without the lock yet.
func newEra(t ticket) *era {
	e := &era{ticket: t}
	e.until.Store(math.MinInt64)
	return e
}

// count counts a plain success and reports whether that came before the seal.
// seen is as in counter.add. Where others count at the same time, and that is
// the rule, it sends the next to finish to the lock, under which the counter grows.
func (e *era) count(seen uint64) bool {
	c := &e.successes
	if c.stripes.Load() != nil {
		return c.addStriped()
	}
	n := c.cell.Add(1)
	if n != seen+1 && c.crowded() {
		e.until.Store(math.MinInt64)
	}
	return n < sealed
}

// publish brings what the lock-free paths see in line with the machine, after
// every event. It returns the gate in force, and whether the event has left
// work for settle. b.mu is held.
func (b *Breaker) publish() (g *gate, more bool) {
	m := &b.machine
	if e := b.era; e != nil && (m.state != Closed || e.generation != m.generation) {
		m.totals.successes += e.successes.seal()
		b.era = nil
	}
	if m.state == Closed && b.era == nil {
		b.era = newEra(ticket{kind: counted, generation: m.generation})
	}
	if m.story != nil && len(m.story.effects) > 0 {
		b.stamp(m.story)
	}
	if old := b.gate.Load(); m.changed || m.now >= old.until && old.until != spent {
		m.changed = false
		b.gate.Store(b.newGate())
	}
	g = b.gate.Load()
	if e := g.era; e != nil {
		until := int64(m.plainUntil())
		if g.watch != nil && len(g.watch.finished) > 0 {
			until = math.MinInt64
		}
		if until != e.until.Load() {
			e.until.Store(until)
		}
	}
	return g, m.drawn || b.journal != nil && len(b.journal.pending) > 0
}

func (b *Breaker) newGate() *gate {
	m := &b.machine
	g := &gate{slowAfter: m.cfg.SlowAfter, classify: m.cfg.Classify}
	if g.slowAfter <= 0 {
		g.slowAfter = forever
	}
	if w := b.watchers; len(w.finished) > 0 || len(w.rejected) > 0 {
		g.watch = w
	}
	g.timed = g.slowAfter != forever || g.watch != nil && len(g.watch.finished) > 0
	g.until, _ = m.nextDue()
	switch m.mode {
	case Off:
		g.pass = newEra(ticket{kind: unjudged})
	case Shadow:
		g.pass = newEra(ticket{kind: shadowed})
		if b.would == nil {
			b.would = new([3]counter)
		}
	}
	switch {
	case m.state == Closed && (m.mode == Off || g.until != forever):
		b.era.until.Store(math.MinInt64) // off, or an override will end: somebody must see to it
	case m.state == Closed:
		g.era = b.era
		g.era.slowAfter.Store(int64(g.slowAfter))
	case m.state == Open:
		g.until = min(g.until, m.probesAt())
		g.refusal = b.openError(m.probesAt())
		g.rejected = &b.rejected
	case !m.probeFree():
		g.refusal = b.openError(forever)
		if b.rejectedProbing == nil {
			b.rejectedProbing = new(counter)
		}
		g.rejected = b.rejectedProbing
	}
	if m.now >= g.until { // it has been seen, though the clock may go back behind it
		g.until = spent
	}
	if g.refusal != nil && g.pass == nil && g.watch == nil {
		g.plain = g.rejected
	}
	return g
}

// openError returns the rejection of the present generation, the one already
// given out where it still holds.
func (b *Breaker) openError(deadline time.Duration) *OpenError {
	j := b.journal
	if e := j.refusal; e == nil || e.opening != j.opening || e.deadline != deadline {
		j.refusal = &OpenError{breaker: b, opening: j.opening, opened: j.opened, since: b.machine.since, deadline: deadline}
	}
	return j.refusal
}

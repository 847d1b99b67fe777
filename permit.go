package fusebox

import (
	"context"
	"math"
	"time"
)

// Permit is the right to make one call, and the duty to say once what became
// of it. [Breaker.Allow] issues it. It is a value: kept in a variable of the
// caller's, it costs no allocation. The zero Permit is finished.
//
// A Permit may be finished on any goroutine, by one at a time: who has two
// finishers guards it. Finishing it through one variable twice counts once;
// go vet reports copies, and Take moves one.
//
// The safe way to use one:
//
//	permit, err := b.Allow(ctx)
//	if err != nil {
//		return err
//	}
//	defer permit.Record(fusebox.Failure) // a panic, a Goexit, a forgotten return
//	err = call(ctx)
//	permit.Finish(ctx, err)
//	return err
//
// The first of the two counts. (defer permit.Finish(ctx, err) would be wrong:
// it reads err before the call.)
type Permit struct {
	_     noCopy
	b     *Breaker // nil: finished
	era   *era     // kind counted
	start time.Duration
	lease uint32 // kind probe
	kind  kind
}

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// unknown is the start of a call of which nobody wants to know how long it
// takes: any instant minus unknown is a negative duration.
const unknown = time.Duration(math.MaxInt64)

// Finish classifies what the call returned and records it: see
// Config.Classify. ctx is the context the call was admitted with. It reports
// whether the result was accepted: false if it is late or the permit was
// finished before. An ignored outcome is accepted.
func (p *Permit) Finish(ctx context.Context, err error) bool {
	b := p.b
	if b == nil {
		return false
	}
	classify := b.settings.Load().Classify
	if err == nil && classify == nil {
		return p.success()
	}
	if classify == nil {
		classify = DefaultClassify
	}
	outcome := classify(ctx, err)
	if p.b == nil { // the classifier finished it
		return false
	}
	return p.end(outcome, measured, err, outcome == Ignored && err != nil && gaveUp(ctx, err))
}

// Record records an outcome the caller has decided on. It reports whether it
// was accepted, as Finish does. An unknown Outcome is a Failure.
func (p *Permit) Record(o Outcome) bool {
	if o == Success {
		return p.success()
	}
	return p.end(o, measured, nil, false)
}

// RecordAfter is Record for a call whose duration d the caller has measured:
// d, not the breaker's clock, decides whether it was slow.
func (p *Permit) RecordAfter(o Outcome, d time.Duration) bool {
	return p.end(o, max(d, 0), nil, false)
}

// measured stands for a duration that the breaker measures.
const measured = time.Duration(-1)

// success records a plain success: in the closed state without the lock, if
// there is nothing else to do than to count it.
func (p *Permit) success() bool {
	b := p.b
	if b == nil {
		return false
	}
	g := b.gate.Load()
	if e := p.era; e == nil || g.era != e || g.watch != nil {
		return p.end(Success, measured, nil, false)
	}
	now := b.elapsed()
	if now-p.start < g.slowAfter && int64(now) < p.era.until.Load() && p.era.successes.add() {
		p.b = nil
		return true
	}
	return p.endAt(now, Success, measured, nil, false)
}

func (p *Permit) end(o Outcome, d time.Duration, err error, gaveUp bool) bool {
	if p.b == nil {
		return false
	}
	if p.kind == unjudged {
		p.b = nil
		return true
	}
	return p.endAt(p.b.elapsed(), o, d, err, gaveUp)
}

// endAt finishes the permit as of now. From here on nothing the caller has
// given is called before the permit is finished.
func (p *Permit) endAt(now time.Duration, o Outcome, d time.Duration, err error, gaveUp bool) bool {
	b := p.b
	t := p.ticket()
	if d == measured {
		d = max(now-p.start, 0)
		if p.start == unknown {
			d = 0
		}
	}
	p.b = nil
	return b.finish(now, t, result{outcome: o, err: err}, d, gaveUp)
}

func (p *Permit) ticket() ticket {
	t := ticket{kind: p.kind, lease: p.lease}
	if p.era != nil {
		t.generation = p.era.generation
	}
	return t
}

// Cancel gives the permit back because no call was made. It counts nowhere.
func (p *Permit) Cancel() {
	if b := p.b; b != nil {
		p.b = nil
		if t := p.ticket(); t.kind == probe {
			b.event(func(m *machine, now time.Duration) { m.cancel(now, t) })
		}
	}
}

// Renew begins the lease of a probe anew, for a call that shows signs of life:
// a stream at each message. For other permits it does nothing.
func (p *Permit) Renew() {
	if t := p.ticket(); p.b != nil && t.kind == probe {
		p.b.event(func(m *machine, now time.Duration) { m.renew(now, t) })
	}
}

// Take moves the permit out of p, which is finished afterwards.
func (p *Permit) Take() Permit {
	b := p.b
	p.b = nil
	return Permit{b: b, era: p.era, start: p.start, lease: p.lease, kind: p.kind}
}

// abandon finishes a permit whose call did not return: it panicked, or ended
// its goroutine. That is a failure, unless its caller had gone away.
func (p *Permit) abandon(ctx context.Context) {
	if p.b == nil {
		return
	}
	o, left := Failure, gaveUp(ctx, nil)
	if left {
		o = Ignored
	}
	p.end(o, measured, nil, left)
}

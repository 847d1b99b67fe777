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
	era   *era     // what it was issued for
	start time.Duration
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
	if p.b == nil {
		return false
	}
	classify := p.b.gate.Load().classify
	if err == nil && classify == nil {
		return p.Record(Success)
	}
	if classify == nil {
		classify = DefaultClassify
	}
	return p.FinishAs(ctx, classify(ctx, err), err)
}

// FinishAs is Finish for who has classified the call himself, as an adapter
// does that sees more than an error: o stands in place of what Config.Classify
// would say, which is not asked. err, if not nil, is what records and observers
// show. All else is as in Finish, and a cancelled call that Config.SlowAfter
// makes a failure is one here too.
func (p *Permit) FinishAs(ctx context.Context, o Outcome, err error) bool {
	return p.end(o, measured, err, o == Ignored && err != nil && gaveUp(ctx, err))
}

// FinishAfter is FinishAs for a call whose duration d the caller has measured, as
// RecordAfter is Record: d, not the breaker's clock, decides whether it was slow.
func (p *Permit) FinishAfter(ctx context.Context, o Outcome, err error, d time.Duration) bool {
	return p.end(o, min(max(d, 0), forever-1), err, o == Ignored && err != nil && gaveUp(ctx, err))
}

// Record records an outcome the caller has decided on. It reports whether it
// was accepted, as Finish does. An unknown Outcome is a Failure.
//
// A plain success of the closed state, which nearly every call is, takes no
// lock: unless its era says that there is more to do, it is only counted.
func (p *Permit) Record(o Outcome) bool {
	b, e := p.b, p.era
	if b == nil || o != Success {
		return p.end(o, measured, nil, false)
	}
	seen := e.successes.cell.Load()
	var now time.Duration
	if b.clock == nil { // b.elapsed, by hand: it is not inlined
		now = time.Since(b.base)
	} else {
		now = b.elapsed()
	}
	if int64(now) >= e.until.Load() || int64(now-p.start) >= e.slowAfter.Load() || !e.count(seen) {
		return p.end(o, measured, nil, false)
	}
	p.b = nil
	return true
}

// RecordAfter is Record for a call whose duration d the caller has measured:
// d, not the breaker's clock, decides whether it was slow. It takes the
// breaker's lock, also for a success.
func (p *Permit) RecordAfter(o Outcome, d time.Duration) bool {
	return p.FinishAfter(context.Background(), o, nil, d)
}

// measured stands for a duration that the breaker measures.
const measured = time.Duration(-1)

// end finishes the permit. Nothing the caller has given is called before it is
// finished, but the clock.
func (p *Permit) end(o Outcome, d time.Duration, err error, gaveUp bool) bool {
	b := p.b
	if b == nil {
		return false
	}
	if p.era.kind == unjudged {
		p.b = nil
		return true
	}
	now := b.elapsed()
	if d == measured {
		d = 0
		if p.start != unknown {
			d = max(now-p.start, 0)
		}
	}
	p.b = nil
	return b.finish(now, p.era.ticket, result{outcome: o, err: err}, d, gaveUp)
}

// Cancel gives the permit back because no call was made. It counts nowhere.
func (p *Permit) Cancel() {
	b := p.b
	if b == nil {
		return
	}
	p.b = nil
	if t := p.era.ticket; t.kind == probe {
		b.event(func(m *machine, now time.Duration) { m.cancel(now, t) })
	}
}

// Renew begins the lease of a probe anew, for a call that shows signs of life:
// a stream at each message. For other permits it does nothing.
func (p *Permit) Renew() {
	if p.b == nil {
		return
	}
	if t := p.era.ticket; t.kind == probe {
		p.b.event(func(m *machine, now time.Duration) { m.renew(now, t) })
	}
}

// Probe reports whether the call was admitted as a probe. It may be asked of a
// finished permit too; the zero Permit says false.
func (p *Permit) Probe() bool { return p.era != nil && p.era.kind == probe }

// Take moves the permit out of p, which is finished afterwards.
func (p *Permit) Take() Permit {
	b := p.b
	p.b = nil
	return Permit{b: b, era: p.era, start: p.start}
}

// abandon finishes a permit whose call did not return: it panicked, or ended
// its goroutine: classified as an error of which nothing is known.
func (p *Permit) abandon(ctx context.Context) {
	if p.b != nil {
		p.lost(ctx)
	}
}

func (p *Permit) lost(ctx context.Context) {
	if cancelled(ctx) {
		p.end(Ignored, measured, nil, gaveUp(ctx, nil))
	} else {
		p.end(Failure, measured, nil, false)
	}
}

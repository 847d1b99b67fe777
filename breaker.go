package fusebox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Breaker guards calls to one dependency. It has no type parameter: one
// breaker guards calls of many result types. It is safe for concurrent use,
// holds no goroutine and no timer, and needs no closing. Make one with [New];
// the zero Breaker is not usable.
//
// A method that takes a Note wants to know who acts and why: the records carry
// it.
type Breaker struct {
	name  string
	base  time.Time        // time 0 of the machine
	clock func() time.Time // Config.Now

	gate            atomic.Pointer[gate]
	rejected        counter     // while open
	rejectedProbing *counter    // nil until there are some
	would           *[3]counter // by Outcome; nil until shadow mode is first in effect

	// mu guards what follows. Nothing under it blocks or calls out.
	mu       sync.Mutex
	panics   uint32
	machine  machine
	era      *era // of the present closed generation, else nil
	watchers *watchers
	journal  *journal // nil until there is a first record
}

// journal is a breaker's records, and what refers to them.
type journal struct {
	history    []*entry   // the last records, oldest first
	pending    []*entry   // records not yet delivered, oldest first
	delivering bool       // somebody is at it
	opening    *entry     // the last that began a generation, or a force-open
	opened     *entry     // the last of those that opened the breaker
	tripped    *entry     // the last trip
	refusal    *OpenError // the last given out
}

// New returns a closed breaker. The name stands in its records, errors and
// metrics. New panics with the error of c.Validate if c is invalid: call that
// first where c is data.
func New(name string, c Config) *Breaker {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	d := c.withDefaults()
	return newBreaker(name, &d)
}

// newBreaker makes a breaker of settings that are complete and valid, and may
// be shared.
func newBreaker(name string, c *Config) *Breaker {
	b := &Breaker{name: name, clock: c.Now, watchers: noWatchers}
	b.base = b.wall()
	b.machine = newMachine(c, draw(c.Rand))
	for _, o := range c.Observers {
		b.watchers = b.watchers.with(&watcher{Observer: o})
	}
	b.publish()
	return b
}

// Name returns the name.
func (b *Breaker) Name() string { return b.name }

// String returns `breaker("name")`, as it stands in the String of a Chain.
func (b *Breaker) String() string { return fmt.Sprintf("breaker(%q)", b.name) }

// Config returns the settings in effect, defaults filled in. A rule that is
// off reads -1. Who changes a field of it for Reconfigure looks at those whose
// default depends on it, which are filled in too: OpenForMax on OpenFor,
// CloseAfter on Probes, StableAfter on Window, MinCalls on WindowCalls.
func (b *Breaker) Config() Config { return *b.config() }

func (b *Breaker) config() *Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.cfg
}

// Do calls fn if the breaker admits the call and returns its error unchanged;
// otherwise fn is not called and the error is an [*OpenError]. If ctx is done
// already, Do returns its error and counts nothing. What fn returns is
// classified: see Config.Classify. A panic in fn passes on with its origin,
// and runtime.Goexit ends the goroutine; both count as an error would. Do
// allocates nothing but for a probe.
func (b *Breaker) Do(ctx context.Context, fn func(context.Context) error) error {
	permit, err := b.Allow(ctx)
	if err != nil {
		return err
	}
	defer permit.abandon(ctx)
	err = fn(ctx)
	if err == nil && b.gate.Load().classify == nil {
		permit.Record(Success) // as Finish does; going through it costs 3 ns
	} else {
		permit.Finish(ctx, err)
	}
	return err
}

// around is Do with a policy around fn. It stands apart because handing fn to
// an interface makes it escape: Do would allocate every closure.
func (b *Breaker) around(ctx context.Context, next Policy, fn func(context.Context) error) error {
	permit, err := b.Allow(ctx)
	if err != nil {
		return err
	}
	defer permit.abandon(ctx)
	err = next.Do(ctx, fn)
	permit.Finish(ctx, err)
	return err
}

// Allow asks to make a call. It returns a [Permit], which must be finished,
// or the reason why not: the error of ctx if that is done, in which case
// nothing is counted, or an [*OpenError]. It never blocks. Admitting a call while
// closed and rejecting one allocate nothing; admitting a probe does.
func (b *Breaker) Allow(ctx context.Context) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, err
	}
	g := b.gate.Load()
	if g.era != nil {
		return Permit{b: b, era: g.era, start: b.start(g)}, nil
	}
	if g.plain != nil {
		seen := g.plain.cell.Load()
		if b.elapsed() < g.until {
			g.plain.add(seen)
			return Permit{}, g.refusal
		}
	}
	return b.ask(g)
}

// start returns the start of a call made now, if somebody wants to know.
func (b *Breaker) start(g *gate) time.Duration {
	if g.timed {
		return b.elapsed()
	}
	return unknown
}

// ask decides about a call that the gate does not simply admit.
func (b *Breaker) ask(g *gate) (Permit, error) {
	if g.pass != nil && g.pass.kind == unjudged && g.until == forever {
		return Permit{b: b, era: g.pass}, nil
	}
	now := b.elapsed()
	if g.refusal != nil && now < g.until {
		return b.refuse(g)
	}
	b.mu.Lock()
	t := b.machine.admit(now)
	g, more := b.publish()
	p := Permit{b: b, era: b.era}
	b.mu.Unlock()

	switch t.kind {
	case probe:
		p.era = newEra(t)
	case unjudged:
		p.era = g.pass
	case rejected:
		p = Permit{}
	}
	p.start = now
	if more {
		// An observer may be slow, or end the goroutine: the time of the call
		// begins after it, and a probe that nobody will make is given back.
		defer func() { p.Cancel() }()
		b.settle()
		p.start = b.elapsed()
	}
	if t.kind == rejected {
		return b.refuse(g)
	}
	if !g.timed {
		p.start = unknown
	}
	return p.Take(), nil
}

// refuse rejects a call, or admits it as one that would have been rejected.
func (b *Breaker) refuse(g *gate) (Permit, error) {
	if g.pass != nil {
		return Permit{b: b, era: g.pass, start: b.start(g)}, nil
	}
	g.rejected.add(g.rejected.cell.Load())
	if g.watch != nil {
		each(g.watch.rejected, func(w *watcher) { b.tellRejected(w, g.refusal) })
	}
	return Permit{}, g.refusal
}

// finish takes a result that success did not take.
func (b *Breaker) finish(now time.Duration, t ticket, r result, d time.Duration, gaveUp bool) bool {
	if r.outcome > Ignored {
		r.outcome = Failure
	}
	g := b.gate.Load()
	if r.slow = d >= g.slowAfter; r.slow && gaveUp {
		r.outcome = Failure
	}
	r.slow = r.slow && r.outcome != Ignored
	if t.kind == shadowed {
		c := &b.would[r.outcome]
		c.add(c.cell.Load())
		if g.watch != nil {
			b.finished(g, t, r, d, true)
		}
		return true
	}
	b.mu.Lock()
	b.tend(now)
	r.fast = b.fast()
	v := b.machine.finish(now, t, r)
	generation, clears, tripWhen := b.machine.generation, b.machine.clears, b.machine.cfg.TripWhen
	var counts Counts
	if v.ask {
		counts = b.machine.counts(r.fast)
	}
	g, more := b.publish()
	b.mu.Unlock()

	// Any of these may end the goroutine; the others are owed all the same.
	if v.ask {
		defer func() {
			if tripWhen(counts) {
				b.event(func(m *machine, now time.Duration) { m.tripWhen(now, generation, clears, counts, b.fast()) })
			}
		}()
	}
	if g.watch != nil {
		defer b.finished(g, t, r, d, v.accepted)
	}
	if more {
		b.settle()
	}
	return v.accepted
}

// tend stripes the counter of successes if it is contended at present. b.mu is
// held, so that nobody seals it meanwhile.
func (b *Breaker) tend(now time.Duration) {
	if e := b.era; e != nil {
		e.successes.grow()
		if int64(now) >= e.until.Load() { // a bucket, or a run, has ended
			e.successes.calm()
		}
	}
}

// fast returns the successes of this closed period that were counted without
// the lock. b.mu is held.
func (b *Breaker) fast() uint64 {
	if b.era == nil {
		return 0
	}
	return b.era.successes.sum()
}

func (b *Breaker) finished(g *gate, t ticket, r result, d time.Duration, accepted bool) {
	c := Completion{
		Name: b.name, Outcome: r.outcome, Slow: r.slow, Duration: d, Err: r.err,
		Probe: t.kind == probe, Late: !accepted, WouldReject: t.kind == shadowed,
	}
	each(g.watch.finished, func(w *watcher) { b.tellFinished(w, c) })
}

// event does something to the machine, now, and all that follows from it.
func (b *Breaker) event(do func(*machine, time.Duration)) {
	now := b.elapsed()
	b.mu.Lock()
	do(&b.machine, now)
	_, more := b.publish()
	b.mu.Unlock()
	if more {
		b.settle()
	}
}

// State returns the state as of now. It takes no slot and moves no deadline:
// an open breaker past its deadline reads half-open, which the next call will
// make it.
func (b *Breaker) State() State {
	s, _ := b.standing()
	return s
}

// standing returns the state and whether there is an override.
func (b *Breaker) standing() (State, bool) {
	now := b.elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.look(now)
	return m.stateNow(), m.override != nil
}

// look returns the machine as of now. It commits nothing, but the reading of
// the clock has been seen: a later look never goes back behind it. b.mu is held.
func (b *Breaker) look(now time.Duration) machine {
	m := &b.machine
	m.now = max(m.now, now)
	b.publish()
	return m.at(m.now)
}

// closed reports whether the breaker is closed and not overridden. It needs no
// clock: time closes no breaker, and opens none.
func (b *Breaker) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.state == Closed && b.machine.override == nil
}

// evictable reports whether the breaker may be dropped for being unused: it is
// not overridden, nor open as far as has been seen. It needs no clock.
func (b *Breaker) evictable() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.machine.stateNow() != Open && b.machine.override == nil
}

// Snapshot returns all there is to know, true of one instant. Like State it
// changes nothing.
func (b *Breaker) Snapshot() Snapshot {
	s, last := b.snapshot(b.elapsed())
	if last != nil {
		s.Last = last.read() // not under the lock: it may ask an error for its text
	}
	return s
}

func (b *Breaker) snapshot(now time.Duration) (Snapshot, *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.look(now)
	return b.shown(&m, b.fast())
}

// shown returns what a Snapshot tells of m, a copy of the machine as of now, and
// the last record. b.mu is held.
func (b *Breaker) shown(m *machine, fast uint64) (s Snapshot, last *entry) {
	s = Snapshot{
		Name: b.name, State: m.stateNow(), Since: b.wallAt(m.sinceNow()), Mode: m.mode, Generation: m.generation,
		Counts: m.counts(fast), Totals: b.totals(m, fast),
	}
	if m.trial != nil {
		s.Outstanding = len(m.trial.leases)
	}
	if s.State == Open {
		s.Until = b.wallAt(m.probesAt())
		if m.deadline != forever {
			s.OpenPeriod = m.deadline - m.since
		}
	}
	if o := m.override; o != nil {
		s.Override, s.Note = true, o.note
	}
	if j := b.journal; j != nil {
		last = j.history[len(j.history)-1]
	}
	return s, last
}

// totals returns the totals of m, a copy of the machine as of now.
func (b *Breaker) totals(m *machine, fast uint64) Totals {
	t := Totals{
		Successes: m.totals.successes + fast, Failures: m.totals.failures, Ignored: m.totals.ignored,
		Late: m.totals.late, Slow: m.totals.slow,
		RejectedOpen: b.rejected.sum(), Open: m.openTime(), Panics: uint64(b.panics),
	}
	if c := b.rejectedProbing; c != nil {
		t.RejectedProbing = c.sum()
	}
	if w := b.would; w != nil {
		t.WouldReject = WouldReject{w[Success].sum(), w[Failure].sum(), w[Ignored].sum()}
	}
	if s := m.story; s != nil {
		t.Probes = s.probes
		t.Transitions = slices.Clone(b.machine.story.transitions)
	}
	return t
}

// Override sets the mode by hand, in place of the Config's, until n.Until or
// until Lift; one override replaces another. An n.Until that has passed sets
// nothing, and leaves a record that says so. Override panics if m is not a mode.
// Until an override that has an end is over, every call that is admitted takes
// the breaker's lock: somebody has to see the end come.
func (b *Breaker) Override(m Mode, n Note) {
	if m > ForceClosed {
		panic(fmt.Sprintf("fusebox: Override: no such mode: %d", m))
	}
	left := forever
	if !n.Until.IsZero() {
		left = n.Until.Sub(b.wall())
	}
	b.event(func(x *machine, now time.Duration) { x.setOverride(now, m, n, left, b.fast()) })
}

// Lift ends an override: the Config's mode is in effect again. After a
// force-open the breaker is half-open, after a force-closed it stays closed
// and is judged from the next failure on.
func (b *Breaker) Lift(n Note) {
	b.event(func(m *machine, now time.Duration) { m.lift(now, n) })
}

// Reset closes the breaker, empties its window, forgets how its open period
// has grown, and lifts force-open and force-closed (not another override).
// Permits that are out will be late. Totals and History stay.
func (b *Breaker) Reset(n Note) {
	b.event(func(m *machine, now time.Duration) { m.reset(now, n, b.fast()) })
}

// Reconfigure changes the settings, all but Now, Rand and Observers. State,
// generation, outcomes and the run of failures stay, and are judged by the new
// limits from the next result on; another Window, Buckets or WindowCalls
// begins with an empty window. The deadline of an open breaker comes nearer if
// the new open period is shorter, and never moves out. An invalid c changes
// nothing; the error is that of c.Validate.
func (b *Breaker) Reconfigure(c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	d := c.withDefaults()
	b.event(func(m *machine, now time.Duration) {
		d.Now, d.Rand, d.Observers = m.cfg.Now, m.cfg.Rand, m.cfg.Observers
		m.reconfigure(now, &d, b.fast())
	})
	return nil
}

// elapsed returns the time since the breaker was made, in nanoseconds of its clock.
func (b *Breaker) elapsed() time.Duration {
	if b.clock != nil {
		return max(min(b.clock().Sub(b.base), forever-1), 0) // within these bounds a difference does not overflow
	}
	return time.Since(b.base)
}

// wall returns the present wall time.
func (b *Breaker) wall() time.Time {
	if b.clock != nil {
		return b.clock()
	}
	return time.Now()
}

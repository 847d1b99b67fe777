package limit

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Policy is an adaptive concurrency limit. It admits a call while fewer than
// its limit are in flight, and refuses it at once otherwise. The limit follows
// what the dependency can take.
//
// Against a dependency that serves c calls at a time in about equal time, and
// under more load than that, the limit settles where Tolerance·c calls and
// the square root of the limit are in flight: all of the dependency is busy,
// and few calls wait in it. When c or the time of service halves or doubles,
// the limit comes within 30 per cent of its new place within 10 seconds, for
// latencies up to 100 ms and limits up to a few hundred (in general, in about
// 40 rounds, see Config.Window); meanwhile and after, more than 85 per cent of
// the answers that the dependency could give arrive in time. A test simulates
// this. Under less load nothing is refused, and the limit stays within about
// twice the calls in flight.
//
// Two things cost a little: while calls are being refused, the limit is halved
// for a moment every 30 rounds, to see the latency without a queue; and a limit
// grows by its square root a round, so that one cut by an outage takes some
// rounds to return. What it cannot see: other clients' calls. Many clients of
// one overloaded dependency take each other's queue for its latency; let the
// dependency, or timeouts, refuse as well, and set Max.
//
// Calls under one Policy should be of one kind. A call that never ends keeps
// its place for ever.
//
// It is safe for concurrent use. A call costs two short locks and two clock
// reads, and allocates nothing.
type Policy struct {
	config Config
	base   time.Time

	mu      sync.Mutex
	core    estimator
	stats   Stats  // the counters of it
	refusal *Error // the last, to be used again
}

// New returns a Policy. It panics with the error of c.Validate, if there is one.
func New(c Config) *Policy {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	c = c.withDefaults()
	return &Policy{config: c, base: time.Now(), core: newEstimator(c)}
}

// Do calls fn if the limit has a place, and gives the place back when fn has
// returned, panicked or ended its goroutine. The error of fn comes back
// unchanged. A refusal is an [*Error]. If ctx is done, fn is not called and
// ctx.Err() is returned.
func (p *Policy) Do(ctx context.Context, fn func(context.Context) error) error {
	permit, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	defer permit.Record(Ignored)
	err = fn(ctx)
	permit.Finish(ctx, err)
	return err
}

// Acquire takes a place for a call that does not fit into a function. Its
// errors are those of Do. It never waits.
func (p *Policy) Acquire(ctx context.Context) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return Permit{}, err
	}
	now := time.Since(p.base)
	p.mu.Lock()
	defer p.mu.Unlock()
	round, ok := p.core.admit(now)
	if !ok {
		p.stats.Rejected++
		if n := p.core.inFlight; p.refusal == nil || p.refusal.inFlight != n {
			p.refusal = &Error{p.config.Name, n}
		}
		return Permit{}, p.refusal
	}
	p.stats.Admitted++
	return Permit{p: p, round: round, start: now}, nil
}

// Permit is a place under the limit. [Policy.Acquire] issues it, and it must be
// given back: by Finish or Record, of which the first counts. It is a value and
// costs no allocation; the zero Permit is given back already. A Permit may be
// given back on any goroutine, by one at a time.
//
//	permit, err := p.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer permit.Record(limit.Ignored) // a panic, a Goexit, a forgotten return
//	err = call(ctx)
//	permit.Finish(ctx, err)
//	return err
type Permit struct {
	_     noCopy
	p     *Policy
	round uint64
	start time.Duration
}

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Finish classifies what the call returned, see Config.Classify, and gives the
// place back. ctx is the context the call was admitted with. It reports whether
// the place had not been given back before.
func (p *Permit) Finish(ctx context.Context, err error) bool {
	if p.p == nil {
		return false
	}
	classify := p.p.config.Classify
	if classify == nil {
		classify = DefaultClassify
	}
	return p.Record(classify(ctx, err))
}

// Record gives the place back with a sample the caller has decided on. An
// unknown one is Ignored. It reports whether the place had not been given back
// before.
func (p *Permit) Record(s Sample) bool {
	l := p.p
	if l == nil {
		return false
	}
	p.p = nil
	now := time.Since(l.base)
	l.mu.Lock()
	defer l.mu.Unlock()
	if s == Dropped {
		l.stats.Dropped++
	}
	l.core.finish(p.round, p.start, now, s)
	return true
}

// Stats is what a [Policy] has done and knows, at one instant.
type Stats struct {
	Limit    int // calls that may be in flight now
	InFlight int // calls that are

	// Baseline is the latency of a call that does not wait, Latency the mean of
	// the last round, both as far as known; 0 before the first round.
	Baseline, Latency time.Duration

	// Totals since New. Dropped calls are among the admitted.
	Admitted, Rejected, Dropped uint64
}

// Stats returns the present numbers. It takes the lock for a moment.
func (p *Policy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Limit, s.InFlight = p.core.bound(), p.core.inFlight
	s.Baseline, s.Latency = time.Duration(p.core.baseline), time.Duration(p.core.latency)
	return s
}

// Config returns the settings, with defaults filled in. A nil Classify stays nil.
func (p *Policy) Config() Config { return p.config }

// String returns the kind and the range of the limit: "limit(1 to 1000 in flight)".
func (p *Policy) String() string {
	return fmt.Sprintf("limit(%d to %d in flight)", p.config.Min, p.config.Max)
}

// Package hedge makes a second attempt while the first is still out, and takes
// the answer that comes first: it cuts the tail of the latency of calls that
// may be made twice, for a few per cent more load.
//
// The function given to [Call] is called CONCURRENTLY, up to Config.Attempts
// at a time. It must be safe for that, must not write what the caller reads,
// and what it asks for must be idempotent.
//
// A call is hedged from the outside: each attempt goes through the policies
// that Call is given, so that a breaker among them sees every attempt, and a
// bulkhead counts it. A fallback stands around Call.
//
// The method is "hedged requests" of Dean and Barroso, The Tail at Scale,
// Communications of the ACM 56(2), 2013.
package hedge

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox/internal/spawn"
)

// ErrLost is matched by the cause of an attempt's context when the call is over
// and nobody waits for the attempt: errors.Is(context.Cause(ctx), hedge.ErrLost).
// Another one answered first, mostly. [context.Context.Err] is
// [context.Canceled], so a breaker around the attempt ignores what it returns,
// however long it took.
var ErrLost = errors.New("fusebox: hedged attempt is not needed any more")

// Panic is what [Call] panics with when an attempt panicked on another
// goroutine. Its fields are Value (any), what the function panicked with, and
// Stack ([]byte), that of its goroutine. It is an error whose text shows both,
// and wraps Value if that is an error.
//
//nolint:errname // it is a panic, and an error for its text
type Panic = spawn.Panic

// Doer is what [Call] makes each attempt through: a breaker, a chain.
type Doer interface {
	Do(ctx context.Context, fn func(context.Context) error) error
}

// Budget bounds the extra attempts to a share of the calls. Package retry's
// budget is one: shared with a retry policy, retries and hedges are bounded
// together. (Each of the two counts a call: where one stands inside the other,
// a call is worth two shares.) It must be safe for concurrent use.
type Budget interface {
	// Deposit is called once for every call.
	Deposit()
	// Withdraw is called before every extra attempt, and reports whether there
	// may be one.
	Withdraw() bool
}

// Policy says when and how often [Call] makes extra attempts, and learns the
// delay. It is safe for concurrent use, and holds no goroutine and no timer
// between calls. Make one with [New], one for each kind of call, since they
// differ in latency; the zero Policy is not usable.
type Policy struct {
	config  Config
	latency *sample // nil: the delay is fixed

	calls  atomic.Uint64
	hedged atomic.Uint64
	won    atomic.Uint64
	denied atomic.Uint64
	panics atomic.Uint64
}

// New returns a Policy. It panics with the error of c.Validate if c is
// invalid: call that first where c is data.
func New(c Config) *Policy {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	c = c.withDefaults()
	p := &Policy{config: c}
	if c.Quantile > 0 {
		p.latency = newSample(c)
	}
	return p
}

// Config returns the settings, defaults filled in.
func (p *Policy) Config() Config { return p.config }

// Delay returns how long an attempt of a call that begins now is waited for
// before the next is made.
func (p *Policy) Delay() time.Duration {
	if p.latency == nil {
		return p.config.Delay
	}
	return p.latency.delay()
}

// patience is Delay, or a little more where it is learnt: of latencies that are
// all the same, none is longer.
func (p *Policy) patience() time.Duration {
	if p.latency == nil {
		return p.config.Delay
	}
	return p.latency.delay() + 1
}

// String returns "hedge(2 attempts, after 10ms)" or, where the delay is
// learnt, "hedge(2 attempts, after quantile 0.95)".
func (p *Policy) String() string {
	after := "quantile " + strconv.FormatFloat(p.config.Quantile, 'g', -1, 64)
	if p.latency == nil {
		after = p.config.Delay.String()
	}
	return "hedge(" + strconv.Itoa(p.config.Attempts) + " attempts, after " + after + ")"
}

// Stats are the totals of a Policy since it was made, and its delay.
type Stats struct {
	Calls  uint64        // calls begun
	Hedged uint64        // extra attempts made
	Won    uint64        // calls answered by an extra attempt
	Denied uint64        // extra attempts that the Budget did not give
	Panics uint64        // attempts that panicked when nobody waited for them
	Delay  time.Duration // before an extra attempt, at present
}

// Stats returns the totals. Each is exact; they are not read at one instant.
func (p *Policy) Stats() Stats {
	return Stats{
		Calls:  p.calls.Load(),
		Hedged: p.hedged.Load(),
		Won:    p.won.Load(),
		Denied: p.denied.Load(),
		Panics: p.panics.Load(),
		Delay:  p.Delay(),
	}
}

// late is told that an attempt that nobody waits for has ended.
func (p *Policy) late(panicked *spawn.Panic) {
	if panicked != nil && p.panics.Add(1) == 1 {
		slog.Error("fusebox: a hedged attempt panicked after the call was over; further panics are only counted",
			"policy", p.String(), "panic", panicked.Value, "stack", string(panicked.Stack))
	}
}

// answered learns from an attempt that succeeded.
func (p *Policy) answered(latency time.Duration) {
	if p.latency != nil {
		p.latency.add(latency)
	}
}

// gaveUp learns from an attempt that was cancelled after the time given,
// without an answer. Its latency is longer than that. If it was let run for
// the delay, it is one of the slow ones, and leaving all of those out would
// make the estimate creep down. Otherwise nothing is known about it.
func (p *Policy) gaveUp(after, delay time.Duration) {
	if p.latency != nil && after >= delay {
		p.latency.add(after)
	}
}

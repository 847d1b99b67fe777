package limit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox/internal/errtree"
)

// Throttle refuses a share of the calls, so that the dependency gets about K
// calls for each that it accepts. It is the adaptive throttling of Google's
// "Site Reliability Engineering", chapter "Handling Overload": with the calls
// of the window (requests) and those of them that the dependency accepted
// (accepts), the probability of a refusal is
//
//	max(0, (requests - K·accepts) / (requests + 1))
//
// Refused calls are requests as well: so the share grows while the load does.
// A call is counted when it ends. (The book does not say; counted when it
// begins, a burst of first calls would refuse itself.)
//
// A dependency that accepts at least 1/K of the calls is not throttled. One
// that accepts a number of calls a second gets K times that number. One that
// fails a fixed share of whatever it gets, and a larger one than 1-1/K, is left
// with the calls of MinPerSecond: take a breaker, or a larger K.
//
// After an outage as long as the window, at n calls a second, the share comes
// down to nothing in about 0.6·Window·ln(1 + n/MinPerSecond), for a K of 2:
// with the defaults and 100 calls a second that is six minutes, and half a
// minute with a Window of 10 s. A smaller share lost comes back sooner.
//
// It is safe for concurrent use. A call costs two short locks and two clock
// reads, and allocates nothing.
type Throttle struct {
	config ThrottleConfig
	base   time.Time

	mu      sync.Mutex
	core    throttler
	stats   ThrottleStats  // the totals of it
	refusal *ThrottleError // the last, to be used again
}

// NewThrottle returns a Throttle. It panics with the error of c.Validate, if
// there is one.
func NewThrottle(c ThrottleConfig) *Throttle {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	c = c.withDefaults()
	return &Throttle{config: c, base: time.Now(), core: newThrottler(c)}
}

// Do calls fn, or refuses to with a [*ThrottleError]. The error of fn comes
// back unchanged. A call that panics or ends its goroutine is dropped, or
// ignored if ctx is cancelled. If ctx is done before, fn is not called and
// ctx.Err() is returned.
func (t *Throttle) Do(ctx context.Context, fn func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.admit(); err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned {
			t.lost(ctx)
		}
	}()
	err := fn(ctx)
	s := t.classify(ctx, err)
	returned = true
	t.finish(s)
	return err
}

// admit returns nil or the refusal. It draws without the lock.
func (t *Throttle) admit() error {
	now := time.Since(t.base)
	t.mu.Lock()
	p := t.core.ask(now)
	if p == 0 {
		t.stats.Admitted++
	}
	t.mu.Unlock()
	if p == 0 {
		return nil
	}
	refused := t.draw() < p

	t.mu.Lock()
	defer t.mu.Unlock()
	if !refused {
		t.core.last = max(t.core.last, now)
		t.stats.Admitted++
		return nil
	}
	e := &t.refusal
	if percent := int(math.Round(100 * p)); *e == nil || (*e).percent != percent {
		c := t.core.window.total
		*e = &ThrottleError{t.config.Name, percent, c.requests, c.accepts, t.config.Window}
	}
	t.core.count(now, 1, 0)
	t.stats.Rejected++
	return *e
}

func (t *Throttle) draw() float64 {
	if t.config.Rand != nil {
		return t.config.Rand()
	}
	return rand.Float64()
}

func (t *Throttle) classify(ctx context.Context, err error) Sample {
	switch {
	case t.config.Classify != nil:
		return t.config.Classify(ctx, err)
	case err == nil:
		return Success
	case left(ctx), errtree.Refused(err):
		return Ignored
	default:
		return Dropped
	}
}

// lost counts a call that did not return.
func (t *Throttle) lost(ctx context.Context) {
	if left(ctx) {
		t.finish(Ignored)
	} else {
		t.finish(Dropped)
	}
}

func (t *Throttle) finish(s Sample) {
	now := time.Since(t.base)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch s {
	case Success:
		t.core.count(now, 1, 1)
	case Dropped:
		t.core.count(now, 1, 0)
	}
}

// ThrottleStats is what a [Throttle] has done and knows, at one instant.
type ThrottleStats struct {
	// Requests and Accepts are the counts of the window, Probability that with
	// which a call would be refused now, from 0 to 1, were none due for
	// MinPerSecond.
	Requests, Accepts uint64
	Probability       float64

	// Totals since NewThrottle.
	Admitted, Rejected uint64
}

// Stats returns the present numbers. It takes the lock for a moment.
func (t *Throttle) Stats() ThrottleStats {
	now := time.Since(t.base)
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	t.core.window.advance(now)
	s.Requests, s.Accepts = t.core.window.total.requests, t.core.window.total.accepts
	s.Probability = t.core.probability()
	return s
}

// Config returns the settings, with defaults filled in. A nil function stays nil.
func (t *Throttle) Config() ThrottleConfig { return t.config }

// String returns the kind, K and the window: "throttle(K 2 over 2m0s)".
func (t *Throttle) String() string {
	return fmt.Sprintf("throttle(K %v over %v)", t.config.K, t.config.Window)
}

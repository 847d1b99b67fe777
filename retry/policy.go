package retry

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox/internal/errtree"
)

// Policy makes a call again when it has failed. It is safe for concurrent use,
// holds no goroutine and no timer but those of calls that wait, and needs no
// closing. Make one with [New].
type Policy struct {
	c       Config
	backoff func(n int) time.Duration

	retries, recovered, exhausted atomic.Uint64
}

// New returns a policy. It panics with the error of c.Validate if c is invalid:
// call that first where c is data.
func New(c Config) *Policy {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	p := &Policy{c: c.withDefaults(), backoff: c.Backoff}
	if p.backoff == nil {
		p.backoff = Exponential(p.c.BaseDelay, p.c.MaxDelay)
	}
	if p.c.Budget == nil && !c.NoBudget {
		p.c.Budget = NewBudget(BudgetConfig{})
	}
	return p
}

// Config returns the settings in effect, defaults filled in. Budget is the
// policy's own where none was given, so that another policy can share it.
func (p *Policy) Config() Config { return p.c }

// String returns a short description: "retry(3 attempts, 100ms to 10s)".
func (p *Policy) String() string {
	attempts := fmt.Sprintf("%d attempts", p.c.Attempts)
	switch p.c.Attempts {
	case 1:
		return "retry(1 attempt)"
	case Unlimited:
		attempts = "unlimited attempts"
	}
	if p.c.Backoff != nil {
		return fmt.Sprintf("retry(%s, up to %v)", attempts, p.c.MaxDelay)
	}
	return fmt.Sprintf("retry(%s, %v to %v)", attempts, p.c.BaseDelay, p.c.MaxDelay)
}

// Stats are totals since the policy was made.
type Stats struct {
	Retries   uint64 // attempts after the first
	Recovered uint64 // calls that succeeded at a retry
	Exhausted uint64 // calls given up because the budget was empty
}

// Stats returns the totals.
func (p *Policy) Stats() Stats {
	return Stats{p.retries.Load(), p.recovered.Load(), p.exhausted.Load()}
}

// Do calls fn until it succeeds, but not more often than Config allows, nor
// after ctx is done. Between two attempts it waits. It returns nil, or an error
// that wraps that of the last attempt: see [Error]. A panic in fn passes on,
// and is not retried. If ctx is done already, Do returns its error. The first
// attempt allocates nothing.
//
// If the error of an attempt that is to be followed by another, or an error that
// it wraps, has a method Discard(), that is called before the wait: what the
// attempt still holds, such as the body of a response, is let go of there.
func (p *Policy) Do(ctx context.Context, fn func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.c.Budget.Deposit()
	err := fn(ctx)
	if err == nil {
		return nil
	}
	c := call{Policy: p, ctx: ctx}
	for {
		c.failed(err)
		delay, retry := c.next(err)
		if !retry || !c.wait(err, delay) {
			return c.result(err)
		}
		p.retries.Add(1)
		if err = fn(ctx); err == nil {
			p.recovered.Add(1)
			return nil
		}
	}
}

// call is a call whose first attempt has failed.
type call struct {
	*Policy
	ctx context.Context

	attempts int
	refused  int   // attempts
	answered error // of the last attempt that was not refused
	waited   bool  // after a refusal
	why      error // what prevents a retry that would else be made
}

func (c *call) failed(err error) {
	c.attempts++
	if errtree.Refused(err) {
		c.refused++
	} else {
		c.answered = err
	}
}

// next decides whether there is to be another attempt, and after which wait.
// If so, a retry has been reserved from the budget.
func (c *call) next(err error) (delay time.Duration, retry bool) {
	deadline, bounded := c.ctx.Deadline()
	delay, asked := askedFor(err)
	if errtree.Refused(err) {
		if !c.c.WaitRejected || c.waited || delay == 0 || !bounded {
			return 0, false
		}
		c.waited = true
	} else if !c.retryable(err) {
		return 0, false
	}
	if c.why = c.ctx.Err(); c.why != nil {
		return 0, false
	}
	switch {
	case c.attempts >= c.c.Attempts:
		return 0, false
	case !asked:
		delay = jittered(min(c.backoff(c.attempts), c.c.MaxDelay), max(c.c.Jitter, 0), draw(c.c.Rand))
	case delay > c.c.MaxRetryAfter && !errtree.Refused(err):
		if !c.c.CapRetryAfter {
			c.why = ErrRetryAfter
			return 0, false
		}
		delay = c.c.MaxRetryAfter
	}
	if bounded && time.Until(deadline) <= delay {
		c.why = context.DeadlineExceeded
		return 0, false
	}
	if !c.c.Budget.reserve() {
		c.exhausted.Add(1)
		c.why = ErrBudget
		return 0, false
	}
	return delay, true
}

func (c *call) retryable(err error) bool {
	var permanent *permanentError
	return !errors.As(err, &permanent) && (c.c.Retryable == nil || c.c.Retryable(c.ctx, err))
}

// wait waits for the next attempt and reports whether it is to be made. What
// was reserved from the budget is spent then, and else given back, also if a
// callback panics.
func (c *call) wait(err error, delay time.Duration) (ready bool) {
	defer func() {
		if ready {
			c.c.Budget.spend()
		} else {
			c.c.Budget.refund()
		}
	}()
	errtree.Walk(err, func(err error) bool {
		if d, ok := err.(interface{ Discard() }); ok {
			d.Discard()
		}
		return false
	})
	if c.c.OnRetry != nil {
		c.c.OnRetry(c.ctx, Event{c.attempts, err, delay})
	}
	if delay > 0 {
		t := time.NewTimer(delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-c.ctx.Done():
		}
	}
	c.why = c.ctx.Err()
	return c.why == nil
}

// result returns the error of a call whose last attempt failed with err.
func (c *call) result(err error) error {
	if c.attempts == 1 && (c.why == nil || errors.Is(err, c.why)) {
		return err // there is nothing to add
	}
	e := &Error{attempts: c.attempts, refused: c.refused, last: err, why: c.why}
	e.after, _ = askedFor(err)
	if errtree.Refused(err) {
		e.answered = c.answered
		if e.after == 0 {
			e.after, _ = askedFor(c.answered)
		}
	}
	return e
}

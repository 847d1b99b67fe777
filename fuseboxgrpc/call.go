package fuseboxgrpc

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	"github.com/fusebox-go/fusebox"
)

// errNoReturn is what a call is finished with that panicked, or ended its
// goroutine.
var errNoReturn = errors.New("fuseboxgrpc: the call did not return")

// call is one call that a breaker has admitted.
type call struct {
	ctx      context.Context // the call was admitted with
	breaker  *fusebox.Breaker
	classify func(context.Context, error) fusebox.Outcome // nil: the breaker's, or Classify
	server   bool
	permit   fusebox.Permit
}

// admit asks the breaker for a permit. The error has a status.
func (c *call) admit() error {
	permit, err := c.breaker.Allow(c.ctx)
	if err != nil {
		return &notAdmittedError{err}
	}
	c.permit = permit.Take()
	return nil
}

// finish records what came of the call. head, if positive, is what a stream
// took to show that the other side was alive.
func (c *call) finish(err error, head time.Duration) {
	switch {
	case err == nil && head <= 0 && c.classify == nil: // nearly every unary call
		c.permit.Finish(c.ctx, nil)
		return
	case errors.Is(err, errNoReturn): // nobody's to classify
		c.permit.FinishAs(c.ctx, fusebox.DefaultClassify(c.ctx, err), err)
		return
	}
	defer c.permit.Record(fusebox.Failure) // should classify panic

	config := c.breaker.Config()
	classify := c.classify
	if classify == nil {
		classify = config.Classify
	}
	standard := classify == nil
	if standard {
		classify = Classify
	}
	outcome := classify(c.ctx, err)
	if standard && c.server && outcome == fusebox.Ignored && c.metDeadline(err) {
		outcome = fusebox.Failure
	}
	switch {
	case head <= 0:
		c.permit.FinishAs(c.ctx, outcome, err)
	case outcome == fusebox.Ignored || outcome == fusebox.Success && config.SlowAfter <= 0:
		c.permit.Record(outcome) // no hang, however long it lasted
	default:
		c.permit.FinishAfter(c.ctx, outcome, err, head)
	}
}

// slack is how much earlier than its own timer a server may hear of a client's
// deadline.
const slack = 20 * time.Millisecond

// metDeadline reports whether a handler whose context was cancelled met the
// deadline of its client: the client resets the stream when its timer fires,
// and that mostly comes before the server's timer does.
func (c *call) metDeadline(err error) bool {
	deadline, ok := c.ctx.Deadline()
	return ok && time.Until(deadline) <= slack && errors.Is(c.ctx.Err(), context.Canceled) &&
		fusebox.DefaultClassify(context.WithoutCancel(c.ctx), err) == fusebox.Failure
}

// streamCall is a call that shows signs of life, and that several goroutines
// may end at a time. mu is never held while the permit is used, which can call
// observers. Instead:
//
//  1. Who sets renewing has the permit until he clears it.
//  2. Who sets ended finishes the permit, or leaves that to the one who has it.
type streamCall struct {
	call
	began     time.Time
	judgeHead bool

	mu       sync.Mutex
	head     time.Duration // from began to the first sign of the other side; 0: none yet
	renewing bool
	ended    bool
	err      error // once ended
	watched  bool
	unwatch  func() bool // nil: there is no watch over ctx
}

// watch ends the call with its context.
func (c *streamCall) watch() {
	c.mu.Lock()
	begin := !c.watched && !c.ended
	c.watched = true
	c.mu.Unlock()
	if !begin {
		return
	}
	unwatch := context.AfterFunc(c.ctx, func() { c.end(status.FromContextError(c.ctx.Err()).Err()) })
	c.mu.Lock()
	c.unwatch = unwatch
	ended := c.ended
	c.mu.Unlock()
	if ended {
		unwatch()
	}
}

// alive renews the lease of a probe, unless somebody is doing that. answered
// says that it was the callee who showed life.
func (c *streamCall) alive(answered bool) {
	c.mu.Lock()
	if answered && c.head == 0 && !c.ended {
		c.head = max(time.Since(c.began), 1)
	}
	renew := !c.renewing && !c.ended
	if renew {
		c.renewing = true
	}
	c.mu.Unlock()
	if renew {
		defer c.renewed() // an observer may end the goroutine
		c.permit.Renew()
	}
	if answered && c.judgeHead {
		c.end(nil)
	}
}

func (c *streamCall) renewed() {
	c.mu.Lock()
	c.renewing = false
	ended, err, head := c.ended, c.err, c.head
	c.mu.Unlock()
	if ended {
		c.finish(err, head)
	}
}

// end finishes the call, the first time.
func (c *streamCall) end(err error) {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended, c.err = true, err
	head, renewing, unwatch := c.head, c.renewing, c.unwatch
	c.mu.Unlock()
	if unwatch != nil {
		unwatch()
	}
	if !renewing {
		c.finish(err, head)
	}
}

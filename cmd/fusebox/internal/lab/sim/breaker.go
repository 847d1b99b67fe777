package sim

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/fusebox-go/fusebox"
)

// Verdict is what a breaker said to a call.
type Verdict uint8

const (
	// Admitted is a call that may be made, and whose end must be told.
	Admitted Verdict = iota
	// RejectedOpen is a call rejected because the breaker was open.
	RejectedOpen
	// RejectedProbing is one rejected in half-open, for want of a probe.
	RejectedProbing
)

// Breaker is a breaker as experiments see it, whoever made it. It is safe for
// concurrent use, but for a Naive one.
type Breaker interface {
	// Allow asks to make a call. If it is admitted, done must be called once,
	// with whether it succeeded; else done is nil.
	Allow() (done func(success bool), v Verdict)
	// State is the state as of now, by the breaker's own account.
	State() fusebox.State
	// RetryAfter is how long an open breaker will still reject every call; 0: it
	// is not open, or does not say.
	RetryAfter() time.Duration
}

// Change is told of a change of state, at the time it is made.
type Change func(from, to fusebox.State)

// ErrDown is the error of a simulated call that failed.
var ErrDown = errors.New("lab: the dependency is down")

// Fusebox returns one of this project's breakers in the time of the loop. c.Now
// and c.Observers are set, and c.Rand should be, where open periods are
// jittered. on may be nil.
func Fusebox(l *Loop, c fusebox.Config, on Change) Breaker {
	c.Now = l.Now
	if on != nil {
		c.Observers = append(c.Observers, fusebox.Observer{Transition: func(t fusebox.Transition) { on(t.From, t.To) }})
	}
	return ours{fusebox.New("lab", c), l.Now}
}

// Constant returns c with an open period that neither grows nor is jittered.
func Constant(c fusebox.Config) fusebox.Config {
	c.OpenForMax, c.OpenJitter = c.OpenFor, -1
	return c
}

type ours struct {
	*fusebox.Breaker
	now func() time.Time
}

func (o ours) RetryAfter() time.Duration {
	until := o.Snapshot().Until
	if until.IsZero() {
		return 0
	}
	return until.Sub(o.now())
}

func (o ours) Allow() (func(bool), Verdict) {
	p, err := o.Breaker.Allow(context.Background())
	switch {
	case errors.Is(err, fusebox.ErrProbing):
		return nil, RejectedProbing
	case err != nil:
		return nil, RejectedOpen
	}
	permit := p.Take()
	return func(success bool) {
		if success {
			permit.Record(fusebox.Success)
			return
		}
		permit.Finish(context.Background(), ErrDown)
	}, Admitted
}

// Gobreaker returns one of gobreaker's. It reads the clock itself: call this,
// and the breaker, in a Bubble, or on a Real loop. s.OnStateChange is set; on
// may be nil.
func Gobreaker(s gobreaker.Settings, on Change) Breaker {
	if on != nil {
		s.OnStateChange = func(_ string, from, to gobreaker.State) { on(gobreakerState(from), gobreakerState(to)) }
	}
	return rival{gobreaker.NewTwoStepCircuitBreaker[struct{}](s)}
}

type rival struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
}

func (rival) RetryAfter() time.Duration { return 0 }

func (r rival) State() fusebox.State { return gobreakerState(r.TwoStepCircuitBreaker.State()) }

func (r rival) Allow() (func(bool), Verdict) {
	done, err := r.TwoStepCircuitBreaker.Allow()
	switch {
	case errors.Is(err, gobreaker.ErrTooManyRequests):
		return nil, RejectedProbing
	case err != nil:
		return nil, RejectedOpen
	}
	return func(success bool) {
		if success {
			done(nil)
			return
		}
		done(ErrDown)
	}, Admitted
}

func gobreakerState(s gobreaker.State) fusebox.State {
	switch s {
	case gobreaker.StateOpen:
		return fusebox.Open
	case gobreaker.StateHalfOpen:
		return fusebox.HalfOpen
	}
	return fusebox.Closed
}

// ConsecutiveRule is gobreaker's ReadyToTrip for n failures in a row.
func ConsecutiveRule(n int) func(gobreaker.Counts) bool {
	return func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= n }
}

// RateRule is gobreaker's ReadyToTrip for a rate of failures among results, of
// which there must be minCalls.
func RateRule(minCalls int, rate float64) func(gobreaker.Counts) bool {
	return func(c gobreaker.Counts) bool {
		results := c.TotalSuccesses + c.TotalFailures
		return int(results) >= minCalls && float64(c.TotalFailures) >= rate*float64(results)
	}
}

// RequestRule is RateRule with the calls that have begun in place of the
// results, as in the example of gobreaker's documentation.
func RequestRule(minCalls int, rate float64) func(gobreaker.Counts) bool {
	return func(c gobreaker.Counts) bool {
		return int(c.Requests) >= minCalls && float64(c.TotalFailures) >= rate*float64(c.Requests)
	}
}

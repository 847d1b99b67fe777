package fuseboxtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrDown is what a failed call of a Dependency returns where no other error
// is set.
var ErrDown = errors.New("fuseboxtest: dependency is down")

// Dependency simulates something that is called: it answers after a while,
// fails now and then, and has outages. The zero Dependency answers every call
// at once, on package time. What a call meets is decided when it begins: by
// the outage of that instant, if there is one, and by one random draw, the
// n-th of its Seed for the n-th call.
//
// Its methods are safe for concurrent use; the fields may not change once one
// has been called. It may not be copied.
type Dependency struct {
	// FailureRate is the fraction of calls that fail while there is no outage;
	// 0: none, 1: all. (That zero is well here and ill in an Outage is why one
	// has a rate of failures and the other of successes.)
	FailureRate float64

	// Latency is how long a call takes while there is no outage; 0: it takes
	// no time.
	Latency time.Duration

	// Err is what a failed call returns; nil: ErrDown.
	Err error

	// Outages are the spans in which something else holds than what the fields
	// above say. Where they overlap, the first in the list counts.
	Outages []Outage

	// Timeout is how long a caller waits at most: a call that would take
	// longer ends then, with context.DeadlineExceeded. It is here because the
	// deadline of a context is in package time, which a Clock does not move.
	// 0: no limit.
	Timeout time.Duration

	// Seed makes another sequence of draws; 0 is a seed like any other.
	Seed uint64

	// Clock is the time the dependency lives in, and what its latency moves.
	// The breaker's Config.Now must be Clock.Now. nil: package time, which in
	// a testing/synctest bubble is that of the bubble.
	Clock *Clock

	mu    sync.Mutex
	start time.Time
	draws *rand.Rand // nil: time has not begun
	calls int
}

// Outage is a span in which a Dependency is not well. The zero Outage begins
// at once, never ends and fails every call at once, as a connection refused
// does. A hang is a large Latency with a Timeout in the Dependency, a brownout
// a SuccessRate of 1 with a Latency.
type Outage struct {
	// From and To count from the dependency's start (see [Dependency.Start]):
	// a call that begins at From meets the outage, one that begins at To does
	// not. To 0: it never ends.
	From, To time.Duration

	// SuccessRate is the fraction of calls that succeed all the same; 0: none.
	SuccessRate float64

	// Latency is how long a call takes, successful or not; 0: no time.
	Latency time.Duration

	// Err is what a failed call returns; nil: that of the Dependency.
	Err error
}

// Validate returns nil, or an error that joins one for every field that is
// invalid, with field, value and rule.
func (d *Dependency) Validate() error {
	var v invalid
	v.fraction("Dependency.FailureRate", d.FailureRate)
	v.notNegative("Dependency.Latency", d.Latency)
	v.notNegative("Dependency.Timeout", d.Timeout)
	for i, o := range d.Outages {
		field := fmt.Sprintf("Dependency.Outages[%d].", i)
		v.notNegative(field+"From", o.From)
		v.notNegative(field+"To", o.To)
		if o.To > 0 && o.To <= o.From {
			v.add(field+"To", o.To, fmt.Sprintf("must be after From (%v); 0: the outage never ends", o.From))
		}
		v.fraction(field+"SuccessRate", o.SuccessRate)
		v.notNegative(field+"Latency", o.Latency)
	}
	return errors.Join(v...)
}

// invalid collects what is wrong with the fields of a struct.
type invalid []error

func (v *invalid) add(field string, value any, rule string) {
	*v = append(*v, fmt.Errorf("fuseboxtest: %s is %v, %s", field, value, rule))
}

func (v *invalid) notNegative(field string, d time.Duration) {
	if d < 0 {
		v.add(field, d, "must not be negative")
	}
}

func (v *invalid) fraction(field string, f float64) {
	if !(f >= 0 && f <= 1) { // NaN is neither
		v.add(field, f, "must be a fraction from 0 to 1")
	}
}

// Start returns when the dependency's time began, from which its outages are
// counted. It begins with the first call of Start, Call or Drive. Start panics
// with the error of Validate if the dependency is invalid.
func (d *Dependency) Start() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begin()
	return d.start
}

func (d *Dependency) begin() {
	if d.draws != nil {
		return
	}
	if err := d.Validate(); err != nil {
		panic(err)
	}
	d.start = d.now()
	d.draws = rand.New(rand.NewPCG(d.Seed, 0))
}

// Calls returns how many calls have reached the dependency.
func (d *Dependency) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Call is one call: what a breaker guards, as in breaker.Do(ctx, d.Call). It
// takes as long as the dependency's latency, by moving the Clock or, without
// one, by waiting. If ctx is done before, Call returns its error. On a Clock
// the latencies of concurrent calls add up; [Drive] lets calls overlap. Call
// panics with the error of Validate if the dependency is invalid.
func (d *Dependency) Call(ctx context.Context) error {
	latency, err := d.meet()
	if ended := d.wait(ctx, latency); ended != nil {
		return ended
	}
	return err
}

// meet counts a call that begins now and decides what it meets.
func (d *Dependency) meet() (latency time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begin()
	d.calls++
	failureRate, latency, failure := d.FailureRate, d.Latency, d.Err
	if o := d.outage(d.now().Sub(d.start)); o != nil {
		failureRate, latency = 1-o.SuccessRate, o.Latency
		if o.Err != nil {
			failure = o.Err
		}
	}
	if failure == nil {
		failure = ErrDown
	}
	// One draw a call, needed or not: another outage leaves the calls outside
	// it what they were.
	if d.draws.Float64() < failureRate {
		err = failure
	}
	if d.Timeout > 0 && latency > d.Timeout {
		return d.Timeout, context.DeadlineExceeded
	}
	return latency, err
}

func (d *Dependency) outage(at time.Duration) *Outage {
	for i := range d.Outages {
		if o := &d.Outages[i]; at >= o.From && (at < o.To || o.To == 0) {
			return o
		}
	}
	return nil
}

func (d *Dependency) now() time.Time {
	if d.Clock != nil {
		return d.Clock.Now()
	}
	return time.Now()
}

// wait lets time pass: d's own, or package time. It returns the error of ctx
// if that is done before.
func (d *Dependency) wait(ctx context.Context, span time.Duration) error {
	if err := ctx.Err(); err != nil || span <= 0 {
		return err
	}
	if d.Clock != nil {
		d.Clock.Advance(span)
		return nil
	}
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package fuseboxtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Load is a stream of calls at a fixed pace. The zero Load is a call every
// 50 ms for 10 s.
type Load struct {
	// Every is the time from the beginning of one call to that of the next,
	// however long a call takes: calls overlap if they take longer. 0 stands
	// for 50 ms.
	Every time.Duration

	// For is how long calls are begun: at 0, Every, 2*Every and so on, before
	// For. 0 stands for 10 s.
	For time.Duration
}

// Validate returns nil, or an error that joins one for every field that is
// invalid, with field, value and rule.
func (l Load) Validate() error {
	var v invalid
	v.notNegative("Load.Every", l.Every)
	v.notNegative("Load.For", l.For)
	return errors.Join(v...)
}

// Report is what came of a [Drive].
type Report struct {
	// Start is when the dependency's time began: the instant from which all
	// durations in a Report and in an Outage count.
	Start time.Time

	// Began is when the run began, from Start on, and Ran how long it took:
	// nothing is known of what was before or came after.
	Began, Ran time.Duration

	// State is that of the breaker before the first call.
	State fusebox.State

	// Calls is how many were begun: Reached + RejectedOpen + RejectedProbing.
	Calls int

	Reached         int // admitted: they reached the dependency
	Failed          int // of Reached: the dependency returned an error
	RejectedOpen    int // the breaker was open
	RejectedProbing int // it was half-open, its probes out

	// Transitions are the breaker's records since the first call.
	Transitions []fusebox.Transition
}

// Drive calls the dependency through the breaker as load says and returns when
// the last call has ended. It is one goroutine: on a Clock, and in a
// testing/synctest bubble, the same arguments give the same report, whatever
// overlaps. Of things due at one instant, calls end before others begin.
//
// The error is that of an invalid argument, in which case nothing was called,
// or that of ctx, if it was done before the end; calls that were out have then
// been cancelled, and the report tells of what was before.
func Drive(ctx context.Context, b *fusebox.Breaker, d *Dependency, load Load) (Report, error) {
	if err := validate(b, d, load); err != nil {
		return Report{}, err
	}
	every, span := cmp.Or(load.Every, 50*time.Millisecond), cmp.Or(load.For, 10*time.Second)

	r := &run{breaker: b, dependency: d, begun: d.now()}
	r.report.Start, r.report.State = d.Start(), b.State()
	r.report.Began = r.begun.Sub(r.report.Start)
	stop := b.Observe(fusebox.Observer{Transition: r.record})
	defer r.cancel()
	defer stop()

	var err error
	for at := time.Duration(0); at < span && err == nil; at += every {
		if err = r.until(ctx, at); err == nil {
			err = r.call(ctx)
		}
	}
	if err == nil {
		err = r.until(ctx, span)
	}
	for len(r.out) > 0 && err == nil {
		err = r.until(ctx, r.out[0].end)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Ran = d.now().Sub(r.begun)
	return r.report, err
}

// longest is how long a call may take in a Drive: about a year, so that no sum
// of times overflows.
const longest = 10_000 * time.Hour

func validate(b *fusebox.Breaker, d *Dependency, load Load) error {
	if b == nil || d == nil {
		return errors.New("fuseboxtest: Drive: breaker and dependency must not be nil")
	}
	errs := []error{d.Validate(), load.Validate()}
	for _, o := range append([]Outage{{Latency: d.Latency}}, d.Outages...) {
		if o.Latency > longest && d.Timeout == 0 || d.Timeout > longest {
			errs = append(errs, fmt.Errorf("fuseboxtest: Dependency.Timeout is %v, must be set, to at most %v, where a Latency is longer than that: Drive returns when all calls have ended", d.Timeout, longest))
			break
		}
	}
	now := b.Config().Now
	switch {
	case d.Clock == nil && now != nil:
		errs = append(errs, errors.New("fuseboxtest: Dependency.Clock is nil, must be the clock that the breaker's Config.Now reads"))
	case d.Clock != nil && (now == nil || !now().Equal(d.Clock.Now())):
		errs = append(errs, errors.New("fuseboxtest: Config.Now of the breaker is not that of Dependency.Clock, must be: they live in one time"))
	}
	return errors.Join(errs...)
}

// run is a Drive under way. Durations count from begun.
type run struct {
	breaker    *fusebox.Breaker
	dependency *Dependency
	begun      time.Time
	out        []*call // by their ends

	mu     sync.Mutex // others may use the breaker at the same time
	report Report
}

type call struct {
	permit fusebox.Permit
	end    time.Duration
	err    error
}

func (r *run) record(t fusebox.Transition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Transitions = append(r.report.Transitions, t)
}

// call begins a call now.
func (r *run) call(ctx context.Context) error {
	permit, err := r.breaker.Allow(ctx)
	rejected := errors.Is(err, fusebox.ErrOpen)
	if err != nil && !rejected {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Calls++
	switch {
	case errors.Is(err, fusebox.ErrProbing):
		r.report.RejectedProbing++
	case rejected:
		r.report.RejectedOpen++
	default:
		r.report.Reached++
		c := &call{permit: permit.Take()}
		c.end, c.err = r.dependency.meet()
		c.end += r.dependency.now().Sub(r.begun)
		i, _ := slices.BinarySearchFunc(r.out, c.end, func(o *call, end time.Duration) int {
			if o.end <= end {
				return -1
			}
			return 1
		})
		r.out = slices.Insert(r.out, i, c)
	}
	return nil
}

// until lets time pass up to an instant, and ends the calls that end by then.
func (r *run) until(ctx context.Context, at time.Duration) error {
	for len(r.out) > 0 && r.out[0].end <= at {
		c := r.out[0]
		if err := r.wait(ctx, c.end); err != nil {
			return err
		}
		r.out = r.out[1:]
		if c.err != nil {
			r.report.Failed++
		}
		c.permit.Finish(ctx, c.err)
	}
	return r.wait(ctx, at)
}

func (r *run) wait(ctx context.Context, at time.Duration) error {
	return r.dependency.wait(ctx, at-r.dependency.now().Sub(r.begun))
}

// cancel gives back the permits of calls that are still out.
func (r *run) cancel() {
	for _, c := range r.out {
		c.permit.Cancel()
	}
}

// At returns when a transition was, as a time since Start.
func (r Report) At(t fusebox.Transition) time.Duration {
	return t.At.Sub(r.Start)
}

// Until returns how long after the instant since, which counts from Start, the
// breaker was in the given state for the first time; 0 if it was in it then.
// ok is false if that did not happen in the run, or since is outside of it. A
// breaker becomes half-open with the first call at or after its deadline, not
// before.
func (r Report) Until(s fusebox.State, since time.Duration) (d time.Duration, ok bool) {
	if since < r.Began {
		return 0, false
	}
	state := r.State
	for _, t := range r.Transitions {
		at := r.At(t)
		if at > since && state == s {
			return 0, true // it already was, and until now
		}
		if state = t.To; state == s && at >= since {
			return at - since, true
		}
	}
	return 0, state == s && since <= r.Began+r.Ran
}

// Within returns nil if the breaker was in the given state at some instant
// from since, which counts from Start, to since + limit, limit included: see
// Until. Else the error says when it was, if ever, and has the report's text.
func (r Report) Within(s fusebox.State, since, limit time.Duration) error {
	d, ok := r.Until(s, since)
	switch {
	case !ok && (since < r.Began || since > r.Began+r.Ran):
		return fmt.Errorf("fuseboxtest: %v within %v after %v: the run was from %v to %v\n%v", s, limit, since, r.Began, r.Began+r.Ran, r)
	case !ok:
		return fmt.Errorf("fuseboxtest: never %v after %v, want within %v\n%v", s, since, limit, r)
	case d > limit:
		return fmt.Errorf("fuseboxtest: %v only %v after %v, want within %v\n%v", s, d, since, limit, r)
	default:
		return nil
	}
}

// String returns the numbers on one line, and a line for every transition.
func (r Report) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d calls: %d reached the dependency, %d of them failed; %d rejected open, %d probing",
		r.Calls, r.Reached, r.Failed, r.RejectedOpen, r.RejectedProbing)
	for _, t := range r.Transitions {
		fmt.Fprintf(&s, "\n%v: %v → %v: %s", r.At(t), t.From, t.To, t.Why())
	}
	return s.String()
}

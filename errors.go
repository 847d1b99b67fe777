package fusebox

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrOpen is matched by every rejection by a breaker:
	// errors.Is(err, fusebox.ErrOpen).
	ErrOpen = errors.New("fusebox: breaker is open")

	// ErrProbing is matched, besides ErrOpen, by a rejection in half-open: all
	// the probes that can matter are out.
	ErrProbing = errors.New("fusebox: breaker is half-open and its probes are out")
)

// OpenError is the rejection of a call. One value serves a whole open period,
// so that rejecting allocates nothing. It never wraps an error of the
// dependency. It is safe for concurrent use.
type OpenError struct {
	breaker  *Breaker
	opening  *entry // what began the present state
	opened   *entry // what opened it: opening, or the one before
	since    time.Duration
	deadline time.Duration // forever: unknown
}

// Name returns the name of the breaker.
func (e *OpenError) Name() string { return e.opening.Name }

// State returns Open or HalfOpen: the breaker's state when it rejected.
func (e *OpenError) State() State { return e.opening.To }

// Cause returns why the breaker entered that state.
func (e *OpenError) Cause() Cause { return e.opening.Cause }

// RetryAfter returns how long to wait until the breaker probes, by the
// breaker's clock at the time of asking. It is never negative, and 0 where
// nobody knows: probing, or forced open without an end.
func (e *OpenError) RetryAfter() time.Duration {
	if e.deadline == forever {
		return 0
	}
	return max(e.deadline-max(e.breaker.elapsed(), e.since), 0)
}

// Rejected reports true; see the function [Rejected].
func (e *OpenError) Rejected() bool { return true }

// Is reports whether target is ErrOpen or, for a rejection in half-open,
// ErrProbing.
func (e *OpenError) Is(target error) bool {
	return target == ErrOpen || target == ErrProbing && e.opening.To == HalfOpen
}

// Error says which breaker, why it opened, in numbers, and when it probes.
func (e *OpenError) Error() string {
	text := fmt.Sprintf("fusebox: %q is %v", e.opening.Name, e.opening.To)
	if e.opening.To == HalfOpen {
		return text + " and its probes are out, after " + e.opened.Why()
	}
	text += " (" + e.opening.Why() + ")"
	if wait := e.RetryAfter(); wait > 0 {
		text += ", retry in " + round(wait).String()
	}
	return text
}

// round shortens a duration to about two digits, upwards, so that waiting as
// long as a text says is waiting long enough.
func round(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for d/unit >= 100 {
		unit *= 10
	}
	if r := d.Truncate(unit); r < d && r <= forever-unit {
		return r + unit
	}
	return d
}

package bulkhead

import (
	"errors"
	"fmt"
	"time"
)

// ErrFull is matched by every refusal: errors.Is(err, bulkhead.ErrFull).
var ErrFull = errors.New("fusebox: bulkhead is full")

// Error is the refusal of a call: the dependency was not asked. It matches
// [ErrFull] and, if the call's context ended its wait, the error of that
// context too. Calls refused without a wait share one value, so that refusing
// allocates nothing. It is safe for concurrent use.
type Error struct {
	name     string
	limit    int
	inFlight int // as many as the limit, if the call did not wait
	waiting  int
	waited   time.Duration // 0: not at all
	cause    error         // of the context
}

// Name returns Config.Name.
func (e *Error) Name() string { return e.name }

// Limit returns the limit that was in force.
func (e *Error) Limit() int { return e.limit }

// Rejected reports true: what a breaker around the bulkhead must not count,
// and a retry around it not repeat.
func (e *Error) Rejected() bool { return true }

// RetryAfter returns 0: nobody knows when a place will be free.
func (e *Error) RetryAfter() time.Duration { return 0 }

// Is reports whether target is ErrFull.
func (e *Error) Is(target error) bool { return target == ErrFull }

// Unwrap returns the error of the context that ended the wait, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Error says which bulkhead, how long the call waited, and how full it is. For
// a call that did not wait these are the limits, otherwise the numbers of the
// moment it gave up.
func (e *Error) Error() string {
	name := "bulkhead"
	if e.name != "" {
		name = fmt.Sprintf("bulkhead %q", e.name)
	}
	calls := "calls"
	if e.inFlight == 1 {
		calls = "call"
	}
	numbers := fmt.Sprintf("%d %s in flight", e.inFlight, calls)
	if e.waited > 0 || e.waiting > 0 {
		numbers += fmt.Sprintf(", %d waiting", e.waiting)
	}
	switch {
	case e.cause != nil:
		return fmt.Sprintf("fusebox: no place in %s before its context ended: %v (%s)", name, e.cause, numbers)
	case e.waited > 0:
		return fmt.Sprintf("fusebox: no place in %s within %v (%s)", name, e.waited, numbers)
	default:
		return fmt.Sprintf("fusebox: %s is full (limit: %s)", name, numbers)
	}
}

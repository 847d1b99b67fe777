package limit

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrLimit is matched by every refusal of a [Policy].
	ErrLimit = errors.New("fusebox: limit reached")

	// ErrThrottled is matched by every refusal of a [Throttle].
	ErrThrottled = errors.New("fusebox: throttled")
)

// Error is the refusal of a call by a [Policy]. It is immutable, and many
// refusals share one.
type Error struct {
	name     string
	inFlight int
}

// Name returns Config.Name.
func (e *Error) Name() string { return e.name }

// InFlight returns how many calls were in flight: the limit, or more for a
// moment after it fell.
func (e *Error) InFlight() int { return e.inFlight }

// Rejected reports true: this is a refusal, see fusebox.Rejected.
func (e *Error) Rejected() bool { return true }

// RetryAfter returns 0: nobody knows when a call will end.
func (e *Error) RetryAfter() time.Duration { return 0 }

// Is reports whether target is [ErrLimit].
func (e *Error) Is(target error) bool { return target == ErrLimit }

// Error says which limit refused, and how many calls were in flight.
func (e *Error) Error() string {
	return fmt.Sprintf("fusebox: %s reached (%d calls in flight)", named("limit", e.name), e.inFlight)
}

// ThrottleError is the refusal of a call by a [Throttle]. It is immutable, and
// many refusals share one: the numbers are those of the refusal, or of one
// shortly before with the same share in whole per cent.
type ThrottleError struct {
	name              string
	percent           int
	requests, accepts uint64
	window            time.Duration
}

// Name returns ThrottleConfig.Name.
func (e *ThrottleError) Name() string { return e.name }

// Rejected reports true: this is a refusal, see fusebox.Rejected.
func (e *ThrottleError) Rejected() bool { return true }

// RetryAfter returns 0: the next call may well be admitted.
func (e *ThrottleError) RetryAfter() time.Duration { return 0 }

// Is reports whether target is [ErrThrottled].
func (e *ThrottleError) Is(target error) bool { return target == ErrThrottled }

// Error says which throttle refused, what share of calls it refuses, and why.
func (e *ThrottleError) Error() string {
	return fmt.Sprintf("fusebox: %s refuses %d %% of calls (%d of %d accepted in %v)",
		named("throttle", e.name), e.percent, e.accepts, e.requests, e.window)
}

func named(kind, name string) string {
	if name == "" {
		return kind
	}
	return fmt.Sprintf("%s %q", kind, name)
}

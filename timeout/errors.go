package timeout

import (
	"context"
	"errors"
	"time"
)

// ErrTimeout is matched by every error of a policy of this package:
// errors.Is(err, timeout.ErrTimeout). A deadline of the caller's does not
// match it.
var ErrTimeout = errors.New("fusebox: time limit exceeded")

// Error says that the limit of a Policy passed. It is the cause of the context
// that the deadline ended, and what the caller gets; then it wraps what the
// function returned, if it returned. It is a failure, unless what it wraps is a
// refusal by a policy inside: the dependency was not asked then. It is immutable.
type Error struct {
	limit time.Duration
	err   error
}

// Limit returns the limit that passed.
func (e *Error) Limit() time.Duration { return e.limit }

// Timeout reports true, as [net.Error] wants it.
func (e *Error) Timeout() bool { return true }

// Temporary reports true, as [context.DeadlineExceeded] does: with Timeout it
// makes an Error a net.Error.
func (e *Error) Temporary() bool { return true }

// Is reports whether target is ErrTimeout or [context.DeadlineExceeded].
func (e *Error) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// Unwrap returns what the function returned after the deadline. It is nil for
// a function that has not returned, and for the cause of a context.
func (e *Error) Unwrap() error { return e.err }

// Error says the limit, and what the function returned.
func (e *Error) Error() string {
	text := "fusebox: time limit of " + e.limit.String() + " exceeded"
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

package retry

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox/internal/errtree"
)

var (
	// ErrBudget is matched by the error of a call that was not retried because
	// the budget had no retry left.
	ErrBudget = errors.New("fusebox: retry budget is empty")

	// ErrRetryAfter is matched by the error of a call that was not retried
	// because the dependency asked for a longer wait than Config.MaxRetryAfter.
	ErrRetryAfter = errors.New("fusebox: asked to wait longer than MaxRetryAfter")
)

// Error is what came of a call that was attempted more than once, or that
// would have been had something not prevented it. A call that failed at its
// only attempt, and was not to be retried, returns the error of that attempt
// as it is.
//
// It wraps the error of the last attempt; if that is a refusal, also that of
// the last attempt that was not; and what prevented a further attempt, if
// something did: [ErrBudget], [ErrRetryAfter], or the context's error (also
// where its deadline would pass during the wait).
type Error struct {
	attempts int
	refused  int   // how many of them were refused
	last     error // of the last attempt
	answered error // of the last one that was not refused, if that is not last
	why      error // what prevented another attempt; nil: nothing, there were enough
	after    time.Duration
}

// Attempts returns how many attempts were made.
func (e *Error) Attempts() int { return e.attempts }

// Unwrap returns the errors it wraps.
func (e *Error) Unwrap() []error {
	wrapped := []error{e.last}
	for _, err := range []error{e.answered, e.why} {
		if err != nil {
			wrapped = append(wrapped, err)
		}
	}
	return wrapped
}

// Rejected reports whether every attempt was refused by a policy inside, so
// that none reached the dependency.
func (e *Error) Rejected() bool { return e.attempts == e.refused }

// RetryAfter returns how long the dependency, or the policy that refused the
// last attempt, asked to wait; 0: unknown.
func (e *Error) RetryAfter() time.Duration { return e.after }

// Timeout reports whether the last attempt ended in a timeout, as [net.Error]
// has it: whoever wraps the error, such as a url.Error, asks.
func (e *Error) Timeout() bool {
	t, ok := errtree.Find[interface{ Timeout() bool }](e.last)
	return ok && t.Timeout()
}

// Error says how many attempts were made, why there were no more, and how the
// last one failed.
func (e *Error) Error() string {
	text := fmt.Sprintf("fusebox: gave up after %d attempt", e.attempts)
	if e.attempts != 1 {
		text += "s"
	}
	if e.why != nil {
		text += " (" + strings.TrimPrefix(e.why.Error(), "fusebox: ") + ")"
	}
	text += ": " + e.last.Error()
	if e.answered != nil {
		text += "; before that: " + e.answered.Error()
	}
	return text
}

// Permanent marks err as not worth another attempt. The text is that of err,
// and [errors.Is] and [errors.As] see through the mark, which stays on what Do
// returns: a retry further out stops too. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// After marks err with the time that the dependency asked to wait before the
// next attempt, as [ParseAfter] reads it from a Retry-After header. 0 is at
// once; a negative d is no mark. The text is that of err, and [errors.Is] and
// [errors.As] see through the mark. After(nil, d) is nil.
//
// A policy also honours the wait, if positive, of an error of another package
// that has a method RetryAfter() time.Duration.
func After(err error, d time.Duration) error {
	if err == nil || d < 0 {
		return err
	}
	return &afterError{err, d}
}

type afterError struct {
	err error
	d   time.Duration
}

func (e *afterError) Error() string             { return e.err.Error() }
func (e *afterError) Unwrap() error             { return e.err }
func (e *afterError) RetryAfter() time.Duration { return e.d }

// askedFor returns the wait that err asks for, if it does: that of the first
// error of its tree that knows one.
func askedFor(err error) (d time.Duration, ok bool) {
	errtree.Walk(err, func(err error) bool {
		if r, has := err.(interface{ RetryAfter() time.Duration }); has {
			_, exact := r.(*afterError)
			d = r.RetryAfter()
			ok = d > 0 || exact
		}
		return ok
	})
	return max(d, 0), ok
}

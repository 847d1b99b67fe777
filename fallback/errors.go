package fallback

import (
	"time"

	"github.com/fusebox-go/fusebox/internal/errtree"
)

// Error is what a caller gets when Config.Func fails too. It holds both errors,
// and errors.Is and errors.As see them: first the one that was to be answered.
type Error struct{ cause, err error }

// Cause returns the first error: that of the call.
func (e *Error) Cause() error { return e.cause }

// Unwrap returns the cause, and the error of Config.Func.
func (e *Error) Unwrap() []error { return []error{e.cause, e.err} }

// Error says both, the cause first.
func (e *Error) Error() string {
	return "fusebox: call and fallback failed: " + e.cause.Error() + "; " + e.err.Error()
}

// Rejected reports whether the cause is a refusal. What Config.Func returned has
// no say: a real failure does not become a refusal because the fallback was
// refused.
func (e *Error) Rejected() bool { return errtree.Refused(e.cause) }

// RetryAfter returns how long to wait before another try, if the cause is a
// refusal and says so; else 0.
func (e *Error) RetryAfter() time.Duration {
	r, ok := errtree.Find[interface{ Rejected() bool }](e.cause)
	if w, says := r.(interface{ RetryAfter() time.Duration }); ok && says && r.Rejected() {
		return max(w.RetryAfter(), 0)
	}
	return 0
}

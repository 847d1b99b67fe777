package hedge

import (
	"strings"
	"time"

	"github.com/fusebox-go/fusebox/internal/errtree"
)

// Error is what a call returns that made several attempts, all of which failed,
// or whose context ended after some had. It wraps their errors, in the order in
// which the attempts were made, and that of the context.
type Error struct{ errs []error }

// Unwrap returns the errors, that of the first attempt first. As with
// [errors.Join], the slice is not a copy.
func (e *Error) Unwrap() []error { return e.errs }

// Rejected reports whether every attempt was refused by a policy. One that was
// not has reached the dependency and failed there; a refusal of another does
// not hide that.
func (e *Error) Rejected() bool {
	for _, err := range e.errs {
		if !errtree.Refused(err) {
			return false
		}
	}
	return true
}

// RetryAfter returns what the refusal of the first attempt says about when it
// is worth another try; 0 if that is unknown, or not every attempt was refused.
func (e *Error) RetryAfter() time.Duration {
	if !e.Rejected() {
		return 0
	}
	if r, ok := errtree.Find[interface {
		Rejected() bool
		RetryAfter() time.Duration
	}](e.errs[0]); ok {
		return r.RetryAfter()
	}
	return 0
}

// lost is the cause of a context whose attempt is not needed any more. It
// says of itself that the dependency is not to blame: a breaker takes a
// cancelled call that was slow for a failure otherwise.
type lost struct{}

func (lost) Error() string        { return ErrLost.Error() }
func (lost) Is(target error) bool { return target == ErrLost }
func (lost) Rejected() bool       { return true }

// Error says how many attempts failed, and each with what.
func (e *Error) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = err.Error()
	}
	return "fusebox: no hedged attempt succeeded: " + strings.Join(texts, "; ")
}

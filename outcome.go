package fusebox

import (
	"context"
	"errors"
	"time"
)

// Outcome is what a finished call says about the dependency. That a call was
// slow is not an outcome but a property of a success or a failure.
type Outcome uint8

const (
	// Success is an answer, an unwelcome one too: "not found" is an answer.
	Success Outcome = iota
	// Failure is a call that shows the dependency unwell.
	Failure
	// Ignored is a call that shows nothing about the dependency. It is
	// accepted and counted in [Totals], and changes no window and no state.
	Ignored
)

var outcomeNames = names[Outcome]{"outcome", []string{"success", "failure", "ignored"}}

// String returns "success", "failure" or "ignored".
func (o Outcome) String() string { return outcomeNames.text(o) }

// MarshalText implements [encoding.TextMarshaler]; an unknown value is an error.
func (o Outcome) MarshalText() ([]byte, error) { return outcomeNames.marshal(o) }

// UnmarshalText implements [encoding.TextUnmarshaler]; it takes what String returns.
func (o *Outcome) UnmarshalText(text []byte) error { return outcomeNames.unmarshal(o, text) }

// DefaultClassify is the classification of a breaker whose Config names none.
// ctx is the context the call was admitted with, err what the call returned.
// The first rule that fits decides:
//
//  1. nil is a success.
//  2. An error marked with [Ignore], or a refusal by a policy inside the
//     breaker (see [Rejected]), is ignored.
//  3. Any error while ctx is cancelled is ignored: the caller left. (A call
//     that had lasted Config.SlowAfter by then is a slow failure all the
//     same; see Config.Classify. And a context whose cause is a deadline, as
//     context.DeadlineExceeded or an error that matches it, met a deadline.)
//  4. Everything else is a failure, an error after the deadline of ctx too: a
//     dependency that hangs shows itself in no other way.
//
// "Not found" is an error in many libraries and an answer to a breaker. Map it
// to a success:
//
//	Classify: func(ctx context.Context, err error) fusebox.Outcome {
//		if errors.Is(err, sql.ErrNoRows) {
//			return fusebox.Success
//		}
//		return fusebox.DefaultClassify(ctx, err)
//	}
//
// Wrapped and joined errors are seen through.
func DefaultClassify(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return Success
	case blameless(err), cancelled(ctx):
		return Ignored
	default:
		return Failure
	}
}

// cancelled reports whether ctx was cancelled, and not by its deadline, nor by
// a policy whose time limit is the cause.
func cancelled(ctx context.Context) bool {
	err := ctx.Err()
	return err != nil && errors.Is(err, context.Canceled) && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// Ignore marks err as not the dependency's fault: [DefaultClassify] ignores
// it, also where it is wrapped or joined. The text is that of err, and
// [errors.Is] and [errors.As] see through the mark. Ignore(nil) is nil.
func Ignore(err error) error {
	if err == nil {
		return nil
	}
	return &ignoredError{err}
}

type ignoredError struct{ err error }

func (e *ignoredError) Error() string { return e.err.Error() }
func (e *ignoredError) Unwrap() error { return e.err }

// blameless reports whether err says of itself that the dependency is not to
// blame, whatever the context says.
func blameless(err error) bool {
	marked, r := search(err)
	return marked || r != nil && r.Rejected()
}

// gaveUp reports whether a call ended, as far as can be known, because its
// caller went away, and not for a reason that err gives, or the cause of the
// context: who cancels a call that is not needed any more can say so.
func gaveUp(ctx context.Context, err error) bool {
	return cancelled(ctx) && !blameless(err) && !blameless(context.Cause(ctx))
}

// Rejected reports whether err is a refusal: by a breaker, or by any policy
// whose errors have the methods
//
//	Rejected() bool
//	RetryAfter() time.Duration
//
// and, if so, how long to wait before it is worth another try; 0 means
// unknown. The first error of the tree, outermost first, that has a Rejected
// method decides: an error that sums up five real failures and a refusal can
// say that it is not one. RetryAfter may be absent. A negative one is 0.
func Rejected(err error) (retryAfter time.Duration, ok bool) {
	_, r := search(err)
	if r == nil || !r.Rejected() {
		return 0, false
	}
	if w, has := r.(interface{ RetryAfter() time.Duration }); has {
		retryAfter = max(w.RetryAfter(), 0)
	}
	return retryAfter, true
}

type rejecter interface{ Rejected() bool }

// search walks the tree of err, outermost first. It returns whether there is a
// mark of Ignore, and the first error with a Rejected method. If that says that
// it is no refusal, marks after it do not count: it sums up errors of which one
// is real. Unlike errors.As
// it allocates nothing: a breaker asks at every failure.
func search(err error) (marked bool, first rejecter) {
	for err != nil {
		if first == nil {
			first, _ = err.(rejecter)
		}
		switch x := err.(type) { //nolint:errorlint // this is what walks the tree
		case *ignoredError:
			marked = marked || first == nil || first.Rejected()
			err = x.err
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				m, r := search(e)
				marked = marked || m && (first == nil || first.Rejected())
				if first == nil {
					first = r
				}
			}
			return marked, first
		default:
			return marked, first
		}
	}
	return marked, first
}

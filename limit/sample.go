package limit

import (
	"context"
	"errors"
	"strconv"

	"github.com/fusebox-go/fusebox/internal/errtree"
)

// Sample is what a finished call tells a policy of this package.
type Sample uint8

const (
	// Success is an answer. Its latency counts in a [Policy]; a [Throttle]
	// takes it as accepted.
	Success Sample = iota
	// Dropped is a sign of overload, such as a timeout. It lowers the limit
	// of a Policy; a Throttle takes it as not accepted.
	Dropped
	// Ignored tells nothing: the call gives its place back, and that is all.
	Ignored
)

// String returns "success", "dropped" or "ignored".
func (s Sample) String() string {
	if names := [...]string{"success", "dropped", "ignored"}; int(s) < len(names) {
		return names[s]
	}
	return "sample(" + strconv.Itoa(int(s)) + ")"
}

// DefaultClassify is the classification of a [Policy] whose Config names none.
// ctx is the context the call was admitted with, err what the call returned.
// The first rule that fits decides:
//
//  1. nil is a success.
//  2. A refusal by a policy inside (an error whose method Rejected reports
//     true, as that of every policy of this module does) is ignored: the
//     dependency was not asked.
//  3. Any error while ctx is cancelled is ignored: the caller left.
//  4. A timeout is dropped: [context.DeadlineExceeded], an error whose method
//     Timeout reports true, any error after the deadline of ctx.
//  5. Any other error is ignored: errors are often quicker than answers, and
//     their latency would make a broken dependency look fast.
//
// Wrapped and joined errors are seen through; of several the outermost that
// has the method decides. It is safe for concurrent use and allocates nothing.
func DefaultClassify(ctx context.Context, err error) Sample {
	if err == nil {
		return Success
	}
	if errtree.Refused(err) || left(ctx) {
		return Ignored
	}
	t, ok := errtree.Find[interface{ Timeout() bool }](err)
	if ok && t.Timeout() || errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return Dropped
	}
	return Ignored
}

// left reports whether the caller has cancelled ctx, and not its deadline.
func left(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

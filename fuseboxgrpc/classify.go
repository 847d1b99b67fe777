package fuseboxgrpc

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fusebox-go/fusebox"
)

// Classify judges what a gRPC call, or a handler, returned; ctx is the context
// the call was admitted with. The first rule that fits decides:
//
//  1. nil is a success.
//  2. An error marked with fusebox.Ignore, or a refusal by a policy inside, is
//     ignored.
//  3. An answer, while ctx is alive, is a success: a status InvalidArgument,
//     NotFound, AlreadyExists, PermissionDenied, FailedPrecondition, Aborted,
//     OutOfRange, Unimplemented or Unauthenticated.
//  4. Any error while ctx is cancelled is ignored: the caller left.
//  5. Everything else is a failure: Unavailable, DeadlineExceeded,
//     ResourceExhausted, Internal, Unknown, DataLoss, Canceled (by the server,
//     or by closing the connection), codes that gRPC does not know, errors that
//     are no status, and any error after the deadline of ctx, whatever its code.
//
// A [Server] takes a handler whose context is cancelled within 20 ms of its
// deadline, or later, for one that met the deadline: the client resets the
// stream then, and that is what the handler mostly sees.
//
// Wrapped and joined errors are seen through; where several statuses are
// joined, all of them have to be answers. Classify can stand in
// fusebox.Config.Classify, and in one that judges a few codes otherwise:
//
//	Classify: func(ctx context.Context, err error) fusebox.Outcome {
//		if status.Code(err) == codes.Aborted {
//			return fusebox.Failure
//		}
//		return fuseboxgrpc.Classify(ctx, err)
//	}
func Classify(ctx context.Context, err error) fusebox.Outcome {
	outcome := fusebox.DefaultClassify(ctx, err)
	if outcome != fusebox.Failure || ctx.Err() != nil {
		return outcome
	}
	if answer, other := statuses(err); answer && !other {
		return fusebox.Success
	}
	return fusebox.Failure
}

// statuses walks the tree of err. It returns whether a status in it is an
// answer, and whether one, or an error of a context, is not.
func statuses(err error) (answer, other bool) {
	for err != nil {
		if s, ok := err.(interface{ GRPCStatus() *status.Status }); ok {
			ok = isAnswer(s.GRPCStatus().Code())
			return ok, !ok
		}
		switch x := err.(type) { //nolint:errorlint // this is what walks the tree
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				a, o := statuses(e)
				answer, other = answer || a, other || o
			}
			return answer, other
		default:
			return false, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
		}
	}
	return false, false
}

// isAnswer reports whether an error with the code shows a dependency that is
// well. (OK is not the code of an error.)
func isAnswer(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.Aborted, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return true
	default:
		return false
	}
}

package fuseboxgrpc

import (
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fusebox-go/fusebox"
)

// notAdmittedError is the error of a call that a breaker did not admit, as gRPC
// wants to see it: with a status. It is made when somebody asks for it, so
// that a rejection stays cheap.
type notAdmittedError struct{ err error } // an *OpenError, or the error of a context

func (e *notAdmittedError) Error() string { return e.err.Error() }
func (e *notAdmittedError) Unwrap() error { return e.err }

// GRPCStatus is what package status looks for.
func (e *notAdmittedError) GRPCStatus() *status.Status {
	wait, rejected := fusebox.Rejected(e.err)
	if !rejected {
		return status.FromContextError(e.err)
	}
	s := status.New(codes.Unavailable, e.err.Error())
	if wait > 0 {
		if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}); err == nil {
			s = detailed
		}
	}
	return s
}

// RetryAfter returns how long err asks to wait before another try, and whether
// it does: err is a status with a RetryInfo among its details, or wraps one.
// Breakers of this package send such a status, and other servers do. 0 is at
// once; a RetryInfo without a valid delay is none. With package retry:
//
//	if d, ok := fuseboxgrpc.RetryAfter(err); ok {
//		err = retry.After(err, d)
//	}
func RetryAfter(err error) (d time.Duration, ok bool) {
	var s interface {
		error
		GRPCStatus() *status.Status
	}
	if !errors.As(err, &s) {
		return 0, false
	}
	for _, detail := range s.GRPCStatus().Details() {
		if info, is := detail.(*errdetails.RetryInfo); is {
			if delay := info.GetRetryDelay(); delay.IsValid() && delay.AsDuration() >= 0 {
				return delay.AsDuration(), true
			}
			return 0, false
		}
	}
	return 0, false
}

package fuseboxgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxgrpc"
)

// codeOutcomes is DESIGN 4.5, written out.
var codeOutcomes = map[codes.Code]fusebox.Outcome{
	codes.Canceled:           fusebox.Failure,
	codes.Unknown:            fusebox.Failure,
	codes.InvalidArgument:    fusebox.Success,
	codes.DeadlineExceeded:   fusebox.Failure,
	codes.NotFound:           fusebox.Success,
	codes.AlreadyExists:      fusebox.Success,
	codes.PermissionDenied:   fusebox.Success,
	codes.ResourceExhausted:  fusebox.Failure,
	codes.FailedPrecondition: fusebox.Success,
	codes.Aborted:            fusebox.Success,
	codes.OutOfRange:         fusebox.Success,
	codes.Unimplemented:      fusebox.Success,
	codes.Internal:           fusebox.Failure,
	codes.Unavailable:        fusebox.Failure,
	codes.DataLoss:           fusebox.Failure,
	codes.Unauthenticated:    fusebox.Success,
	codes.Code(99):           fusebox.Failure,
}

func TestC60CodesThatAreNoOutage(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, stop := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer stop()
	for code, outcome := range codeOutcomes {
		bare := status.Error(code, "text")
		for how, err := range map[string]error{
			"bare":           bare,
			"wrapped":        fmt.Errorf("a: %w", fmt.Errorf("b: %w", bare)),
			"joined":         errors.Join(bare),
			"with others":    errors.Join(errors.New("closing"), fmt.Errorf("a: %w", bare), errors.New("more")),
			"with an answer": errors.Join(status.Error(codes.NotFound, ""), bare),
		} {
			if got := fuseboxgrpc.Classify(t.Context(), err); got != outcome {
				t.Errorf("%v, %s: %v, want %v", code, how, got, outcome)
			}
			if got := fuseboxgrpc.Classify(cancelled, err); got != fusebox.Ignored {
				t.Errorf("%v, %s, the caller left: %v, want ignored", code, how, got)
			}
			if got := fuseboxgrpc.Classify(expired, err); got != fusebox.Failure {
				t.Errorf("%v, %s, deadline exceeded: %v, want failure", code, how, got)
			}
			if got := fuseboxgrpc.Classify(t.Context(), fusebox.Ignore(err)); got != fusebox.Ignored {
				t.Errorf("%v, %s, marked: %v, want ignored", code, how, got)
			}
		}
	}
}

// noStatus has a status of nil, which gRPC takes for Unknown.
type noStatus struct{}

func (noStatus) Error() string              { return "no status" }
func (noStatus) GRPCStatus() *status.Status { return nil }

func TestClassify(t *testing.T) {
	open := fusebox.New("inner", fusebox.Config{})
	open.Override(fusebox.ForceOpen, fusebox.Note{})
	refusal := open.Do(t.Context(), nil)
	notFound := status.Error(codes.NotFound, "")
	for _, test := range []struct {
		name string
		err  error
		want fusebox.Outcome
	}{
		{"nil", nil, fusebox.Success},
		{"an error that is no status", io.ErrUnexpectedEOF, fusebox.Failure},
		{"an error with a nil status", noStatus{}, fusebox.Failure},
		{"C56 cancelled, not by the caller", context.Canceled, fusebox.Failure},
		{"C56 the same, wrapped", fmt.Errorf("x: %w", context.Canceled), fusebox.Failure},
		{"a deadline that is no status", fmt.Errorf("x: %w", context.DeadlineExceeded), fusebox.Failure},
		{"C58 a deadline beside an answer", errors.Join(notFound, context.DeadlineExceeded), fusebox.Failure},
		{"C62 a refusal by a policy inside", refusal, fusebox.Ignored},
		{"C62 the same, wrapped", fmt.Errorf("a: %w", errors.Join(io.EOF, refusal)), fusebox.Ignored},
		{"C62 a mark beside another error", fmt.Errorf("a: %w", errors.Join(io.EOF, fusebox.Ignore(io.EOF))), fusebox.Ignored},
		{"a mark around an answer", fusebox.Ignore(notFound), fusebox.Ignored},
	} {
		if got := fuseboxgrpc.Classify(t.Context(), test.err); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestC56CallersCancellationUnderAnotherName(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{
		errors.New("query: context canceled"), status.Error(codes.Unknown, "context canceled"),
		context.Canceled, status.Error(codes.Canceled, ""),
	} {
		if got := fuseboxgrpc.Classify(ctx, err); got != fusebox.Ignored {
			t.Errorf("%v: %v, want ignored", err, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	with := func(details ...protoadapt.MessageV1) error {
		s, err := status.New(codes.Unavailable, "busy").WithDetails(details...)
		if err != nil {
			t.Fatal(err)
		}
		return s.Err()
	}
	delay := func(d time.Duration) *errdetails.RetryInfo {
		return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
	}
	for _, test := range []struct {
		name string
		err  error
		want time.Duration
		ok   bool
	}{
		{"nil", nil, 0, false},
		{"no status", io.EOF, 0, false},
		{"a nil status", noStatus{}, 0, false},
		{"no details", status.Error(codes.Unavailable, ""), 0, false},
		{"other details", with(&errdetails.DebugInfo{}), 0, false},
		{"a delay", with(delay(time.Second)), time.Second, true},
		{"after other details", with(&errdetails.DebugInfo{}, delay(time.Second)), time.Second, true},
		{"wrapped", fmt.Errorf("a: %w", errors.Join(io.EOF, with(delay(time.Second)))), time.Second, true},
		{"at once", with(delay(0)), 0, true},
		{"none given", with(&errdetails.RetryInfo{}), 0, false},
		{"negative", with(delay(-time.Second)), 0, false},
		{"not valid", with(&errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: 1 << 60}}), 0, false},
	} {
		if got, ok := fuseboxgrpc.RetryAfter(test.err); got != test.want || ok != test.ok {
			t.Errorf("%s: %v, %v, want %v, %v", test.name, got, ok, test.want, test.ok)
		}
	}
}

package fuseboxgrpc

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/fusebox-go/fusebox"
)

// Client guards the calls of client connections. The zero value works: it
// keeps one breaker a target, in a registry of its own, for unary calls and
// streams alike. One Client serves any number of connections. It is safe for
// concurrent use; the fields may not change once it is in use, and it may not
// be copied then.
type Client struct {
	// Breaker, if not nil, guards all calls; Registry and Key are not looked
	// at.
	Breaker *fusebox.Breaker

	// Registry keeps the breakers and has their settings. nil: one of the
	// Client's own, with the defaults. Give one to see the breakers, to
	// configure them, or to share them.
	Registry *fusebox.Registry

	// Key returns under which key the registry has the breaker of a call, on
	// the goroutine of the call. method is the full one, "/package.Service/Method".
	// nil: conn.Target(), which is what the connection was made with: all
	// the addresses behind it are one dependency.
	Key func(ctx context.Context, method string, conn *grpc.ClientConn) string

	// Classify judges what a call returned; ctx is the one the call was
	// made with. nil: Config.Classify of the breaker or, where that is nil
	// too, the function [Classify]. It is called once a call, by many
	// goroutines at a time. If it panics, the call is a failure and the panic
	// passes on: to the caller, but for a stream whose context has ended,
	// which is judged on a goroutine that nobody can recover.
	Classify func(ctx context.Context, err error) fusebox.Outcome

	// JudgeHead makes a stream a success as soon as its head or a message has
	// arrived, whatever becomes of it later. Set it where streams live for
	// hours: judged at their end, as many healthy ones as there are probes keep
	// a breaker half-open, and all other calls rejected, for as long as they live.
	JudgeHead bool

	own fusebox.Registry
}

// DialOptions returns both interceptors as options for grpc.NewClient. Those
// given to NewClient before them are outside, those after them inside.
func (c *Client) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(c.UnaryInterceptor()),
		grpc.WithChainStreamInterceptor(c.StreamInterceptor()),
	}
}

// UnaryInterceptor returns the interceptor for unary calls. The error of a
// call comes back unchanged; that of one that is not admitted is described in
// the package comment or, where the context is done already, has the status
// Canceled or DeadlineExceeded and matches the context's error: nothing is
// counted then. A call that panics or ends its goroutine is a failure, ignored
// if its context is cancelled. It allocates nothing of its own.
func (c *Client) UnaryInterceptor() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		guarded := call{ctx: ctx, breaker: c.breaker(ctx, method, conn), classify: c.Classify}
		if err := guarded.admit(); err != nil {
			return err
		}
		returned := false
		defer func() {
			if !returned {
				guarded.finish(errNoReturn, 0)
			}
		}()
		err := invoker(ctx, method, req, reply, conn, opts...)
		returned = true
		guarded.finish(err, 0)
		return err
	}
}

// StreamInterceptor returns the interceptor for streams; see the package
// comment for what is the end of one. Errors are as for unary calls. It holds
// no goroutine. It allocates twice a stream that has no more than three call
// options, and gRPC once more for the one it adds. A caller who neither receives
// a stream to its end nor ends its context, which leaks the stream in gRPC too,
// leaves its call uncounted; a probe's lease then comes to its end.
func (c *Client) StreamInterceptor() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		guarded := &clientStream{oneAnswer: !desc.ServerStreams}
		guarded.judgeHead = c.JudgeHead
		guarded.call = call{ctx: ctx, breaker: c.breaker(ctx, method, conn), classify: c.Classify}
		if err := guarded.admit(); err != nil {
			return nil, err
		}
		guarded.began = time.Now()
		guarded.asks = guarded.permit.Probe()
		returned := false
		defer func() {
			if !returned {
				guarded.end(errNoReturn)
			}
		}()
		stream, err := streamer(ctx, desc, conn, method, guarded.options(opts)...)
		returned = true
		if err != nil {
			guarded.end(err)
			return nil, err
		}
		guarded.ClientStream = stream
		return guarded, nil
	}
}

func (c *Client) breaker(ctx context.Context, method string, conn *grpc.ClientConn) *fusebox.Breaker {
	if c.Breaker != nil {
		return c.Breaker
	}
	key := ""
	if c.Key != nil {
		key = c.Key(ctx, method, conn)
	} else {
		key = conn.Target()
	}
	return registry(c.Registry, &c.own).Get(key)
}

func registry(given, own *fusebox.Registry) *fusebox.Registry {
	if given != nil {
		return given
	}
	return own
}

// clientStream is a stream a client has opened. It may end with its context
// when nobody looks at it any more. gRPC itself watches that, and says so to
// OnFinish, which costs a fraction of a watch of our own: that is there only
// where gRPC has finished and the caller may never hear of it.
type clientStream struct {
	grpc.ClientStream
	streamCall
	oneAnswer bool
	asks      bool               // for the head, before the first message: a probe's lease hangs on it
	room      [4]grpc.CallOption // for options
}

// options returns opts and one to hear of the end of the context. opts itself
// may be the caller's, and is not appended to.
func (s *clientStream) options(opts []grpc.CallOption) []grpc.CallOption {
	if s.ctx.Done() == nil {
		return opts
	}
	return append(append(s.room[:0], opts...), grpc.OnFinish(s.finished))
}

// finished is told by gRPC how the stream ended, or one of several that an
// interceptor inside has opened, on any goroutine: mostly in an operation of the
// program, which then returns the same and decides.
func (s *clientStream) finished(err error) {
	switch {
	case err == nil:
	case s.ctx.Err() != nil:
		s.end(err)
	default:
		s.watch()
	}
}

func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	switch {
	case err != nil:
		s.end(err)
	case md != nil:
		s.alive(true)
	default: // the stream has ended, and RecvMsg knows how
		s.watch()
	}
	return md, err
}

// SendMsg takes what gRPC cannot encode, or finds too large, for the caller's
// fault: failures of the other side are io.EOF here.
func (s *clientStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	switch code := status.Code(err); {
	case err == nil:
		s.alive(false)
	case errors.Is(err, io.EOF): // the stream has ended, and RecvMsg knows how
	case code == codes.Internal || code == codes.ResourceExhausted:
		s.end(fusebox.Ignore(err))
	default:
		s.end(err)
	}
	return err
}

// RecvMsg asks for the head of a probe, as gRPC itself does for its binary log.
// That takes nothing from gRPC's retries, which a head ends anyway.
func (s *clientStream) RecvMsg(m any) error {
	if s.asks {
		s.asks = false
		if md, err := s.ClientStream.Header(); err == nil && md != nil {
			s.alive(true)
		}
	}
	err := s.ClientStream.RecvMsg(m)
	switch {
	case errors.Is(err, io.EOF):
		s.end(nil)
	case err != nil || s.oneAnswer:
		s.end(err)
	default:
		s.alive(true)
	}
	return err
}

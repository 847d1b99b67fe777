package fuseboxgrpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/fusebox-go/fusebox"
)

// Server guards the handlers of servers. The zero value works: it keeps one
// breaker a method, in a registry of its own. One Server serves any number of
// grpc.Servers. It is safe for concurrent use; the fields may not change once
// it is in use, and it may not be copied then.
type Server struct {
	// Breaker, if not nil, guards all calls; Registry and Key are not looked
	// at.
	Breaker *fusebox.Breaker

	// Registry keeps the breakers and has their settings. nil: one of the
	// Server's own, with the defaults. Clients choose the names of methods
	// only where there is a grpc.UnknownServiceHandler; the registry is
	// bounded.
	Registry *fusebox.Registry

	// Key returns under which key the registry has the breaker of a call, on
	// the goroutine of the call. method is the full one, "/package.Service/Method".
	// nil: method.
	Key func(ctx context.Context, method string) string

	// Classify judges what a handler returned; ctx is that of the handler. nil:
	// Config.Classify of the breaker or, where that is nil too, the
	// function [Classify]. It is called once a call, by many goroutines at a
	// time. If it panics, the call is a failure and the panic passes on.
	Classify func(ctx context.Context, err error) fusebox.Outcome

	// JudgeHead makes a stream a success as soon as its handler has sent the
	// head or a message; see Client.JudgeHead.
	JudgeHead bool

	own fusebox.Registry
}

// ServerOptions returns both interceptors as options for grpc.NewServer. Those
// given to NewServer before them are outside, those after them inside: one
// that recovers panics belongs outside, or the breaker sees what it makes of
// them.
func (s *Server) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(s.UnaryInterceptor()),
		grpc.ChainStreamInterceptor(s.StreamInterceptor()),
	}
}

// UnaryInterceptor returns the interceptor for unary calls. The handler's error
// goes out unchanged; a call that is not admitted ends as the package comment
// says or, where its context is done already, with the status Canceled or
// DeadlineExceeded: nothing is counted then. A handler that panics or ends
// its goroutine is a failure, ignored if the client has left; the panic passes on.
// It allocates nothing of its own.
func (s *Server) UnaryInterceptor() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		guarded := call{ctx: ctx, breaker: s.breaker(ctx, info.FullMethod), classify: s.Classify, server: true}
		if err := guarded.admit(); err != nil {
			return nil, err
		}
		returned := false
		defer func() {
			if !returned {
				guarded.finish(errNoReturn, 0)
			}
		}()
		reply, err := handler(ctx, req)
		returned = true
		guarded.finish(err, 0)
		return reply, err
	}
}

// StreamInterceptor returns the interceptor for streams, which end when their
// handler returns. Errors and panics are as for unary calls. Streams are
// wrapped; a handler may go on using one from several goroutines as gRPC
// allows it.
func (s *Server) StreamInterceptor() grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		ctx := stream.Context()
		guarded := &serverStream{ServerStream: stream}
		guarded.judgeHead = s.JudgeHead
		guarded.call = call{ctx: ctx, breaker: s.breaker(ctx, info.FullMethod), classify: s.Classify, server: true}
		if err := guarded.admit(); err != nil {
			return err
		}
		guarded.began = time.Now()
		returned := false
		defer func() {
			if !returned {
				guarded.end(errNoReturn)
			}
		}()
		err := handler(srv, guarded)
		returned = true
		guarded.end(err)
		return err
	}
}

func (s *Server) breaker(ctx context.Context, method string) *fusebox.Breaker {
	if s.Breaker != nil {
		return s.Breaker
	}
	key := method
	if s.Key != nil {
		key = s.Key(ctx, method)
	}
	return registry(s.Registry, &s.own).Get(key)
}

// serverStream is a stream a handler serves.
type serverStream struct {
	grpc.ServerStream
	streamCall
}

func (s *serverStream) SendHeader(md metadata.MD) error {
	err := s.ServerStream.SendHeader(md)
	if err == nil {
		s.alive(true)
	}
	return err
}

func (s *serverStream) SendMsg(m any) error {
	err := s.ServerStream.SendMsg(m)
	if err == nil {
		s.alive(true)
	}
	return err
}

func (s *serverStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.alive(false)
	}
	return err
}

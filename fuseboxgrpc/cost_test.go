package fuseboxgrpc_test

import (
	"context"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxgrpc"
)

// quiet is a breaker that stays closed.
func quiet() *fusebox.Breaker {
	return fusebox.New("test", fusebox.Config{FailureRate: -1, Consecutive: -1})
}

// costs are the ways through the interceptors, around calls that do nothing,
// and what each may allocate of its own.
func costs(tb testing.TB) []struct {
	name   string
	allocs float64
	call   func()
} {
	tb.Helper()
	conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(cancel)

	var client fuseboxgrpc.Client
	var server fuseboxgrpc.Server
	notFound := status.Error(codes.NotFound, "")
	unary, unaryServer := client.UnaryInterceptor(), server.UnaryInterceptor()
	stream, streamServer := client.StreamInterceptor(), server.StreamInterceptor()
	open := fusebox.New("test", fusebox.Config{})
	open.Override(fusebox.ForceOpen, fusebox.Note{})
	rejecting := (&fuseboxgrpc.Client{Breaker: open}).UnaryInterceptor()
	judging := (&fuseboxgrpc.Client{Breaker: quiet()}).UnaryInterceptor()

	var noInvoker grpc.UnaryInvoker = func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	notFoundInvoker := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return notFound }
	var noHandler grpc.UnaryHandler = func(context.Context, any) (any, error) { return nil, nil }
	ended, opts := &eof{}, []grpc.CallOption{grpc.StaticMethod(), grpc.WaitForReady(true), grpc.UseCompressor("gzip")}
	streamer := func(_ context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		ended.opts = opts
		return ended, nil
	}
	info, streamInfo := &grpc.UnaryServerInfo{FullMethod: methodAsk}, &grpc.StreamServerInfo{FullMethod: methodChat}
	var served grpc.ServerStream = still{ctx: ctx}
	return []struct {
		name   string
		allocs float64
		call   func()
	}{
		{"unary client, without", 0, func() { noInvoker(ctx, methodAsk, nil, nil, conn) }},
		{"unary client", 0, func() { unary(ctx, methodAsk, nil, nil, conn, noInvoker) }},
		{"unary client, not found", 0, func() { judging(ctx, methodAsk, nil, nil, conn, notFoundInvoker) }},
		{"unary client, rejected", 1, func() { rejecting(ctx, methodAsk, nil, nil, conn, noInvoker) }},
		{"unary server", 0, func() { unaryServer(ctx, nil, info, noHandler) }},
		{"stream client", 2, func() {
			s, _ := stream(ctx, &descChat, conn, methodChat, streamer, opts...)
			s.RecvMsg(nil)
		}},
		{"stream server", 1, func() {
			streamServer(nil, served, streamInfo, func(any, grpc.ServerStream) error { return nil })
		}},
	}
}

// eof is a stream that has ended, and says so as gRPC does.
type eof struct {
	grpc.ClientStream
	opts []grpc.CallOption
}

func (e *eof) RecvMsg(any) error {
	for _, o := range e.opts {
		if f, ok := o.(grpc.OnFinishCallOption); ok {
			f.OnFinish(nil)
		}
	}
	return io.EOF
}

func TestAllocations(t *testing.T) {
	for _, c := range costs(t) {
		c.call() // makes the breaker
		if got := testing.AllocsPerRun(1000, c.call); got > c.allocs {
			t.Errorf("%s allocates %v, want %v at most", c.name, got, c.allocs)
		}
	}
}

func BenchmarkInterceptors(b *testing.B) {
	for _, c := range costs(b) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.call()
			}
		})
	}
}

package fuseboxgrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxgrpc"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

type text = wrapperspb.StringValue

const (
	methodAsk  = "/test.Test/Ask"  // unary
	methodDown = "/test.Test/Down" // the server streams
	methodUp   = "/test.Test/Up"   // the client streams
	methodChat = "/test.Test/Chat" // both do
)

// handlers is what a test server does. nil: it answers with what it got.
type handlers struct {
	ask    func(context.Context, *text) (*text, error)
	stream func(grpc.ServerStream) error
}

var (
	descDown = grpc.StreamDesc{StreamName: "Down", ServerStreams: true}
	descUp   = grpc.StreamDesc{StreamName: "Up", ClientStreams: true}
	descChat = grpc.StreamDesc{StreamName: "Chat", ServerStreams: true, ClientStreams: true}
)

func (h handlers) register(s *grpc.Server) {
	ask := func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := new(text)
		if err := decode(in); err != nil {
			return nil, err
		}
		handle := func(ctx context.Context, req any) (any, error) {
			if h.ask == nil {
				return req, nil
			}
			return h.ask(ctx, req.(*text))
		}
		if interceptor == nil {
			return handle(ctx, in)
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{FullMethod: methodAsk}, handle)
	}
	streams := []grpc.StreamDesc{descDown, descUp, descChat}
	for i := range streams {
		streams[i].Handler = func(_ any, stream grpc.ServerStream) error {
			if h.stream == nil {
				return echo(stream)
			}
			return h.stream(stream)
		}
	}
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Test",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Ask", Handler: ask}},
		Streams:     streams,
	}, struct{}{})
}

func echo(stream grpc.ServerStream) error {
	for {
		m := new(text)
		if err := stream.RecvMsg(m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
}

// noLeak fails the test if, when all its other cleanups are done, there are
// more goroutines than now.
func noLeak(tb testing.TB) {
	tb.Helper()
	before := runtime.NumGoroutine()
	tb.Cleanup(func() {
		if tb.Failed() {
			return
		}
		eventually(tb, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
	})
}

// poll waits until ok, for ten seconds, and reports whether it came to that.
func poll(ok func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

// eventually fails the test, with all stacks, if it never comes to ok.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	if !poll(ok) {
		buf := make([]byte, 1<<16)
		tb.Fatalf("it never came to this: %s\n%s", what, buf[:runtime.Stack(buf, true)])
	}
}

// listen serves h on a port of the loopback, or the given address of before.
func listen(tb testing.TB, addr string, h handlers, opts ...grpc.ServerOption) (*grpc.Server, string) {
	tb.Helper()
	var l net.Listener
	eventually(tb, "the port is free", func() (ok bool) {
		var err error
		l, err = new(net.ListenConfig).Listen(tb.Context(), "tcp", addr)
		return err == nil
	})
	return run(tb, l, h, opts...), l.Addr().String()
}

func run(tb testing.TB, l net.Listener, h handlers, opts ...grpc.ServerOption) *grpc.Server {
	tb.Helper()
	s := grpc.NewServer(opts...)
	h.register(s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(l)
	}()
	tb.Cleanup(func() {
		s.Stop()
		<-done
	})
	return s
}

// dial connects to addr.
func dial(tb testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	quick := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: time.Millisecond},
		MinConnectTimeout: time.Second,
	}
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(quick))
	conn, err := grpc.NewClient(addr, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// pair is a client and a server on a loopback port, the interceptors of each
// before opts.
func pair(tb testing.TB, c *fuseboxgrpc.Client, s *fuseboxgrpc.Server, h handlers, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	noLeak(tb)
	var serverOpts []grpc.ServerOption
	if s != nil {
		serverOpts = s.ServerOptions()
	}
	_, addr := listen(tb, "127.0.0.1:0", h, serverOpts...)
	if c != nil {
		opts = append(c.DialOptions(), opts...)
	}
	return dial(tb, addr, opts...)
}

// memory is like pair, through memory.
func memory(tb testing.TB, h handlers, serverOpts []grpc.ServerOption, opts ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	noLeak(tb)
	l := bufconn.Listen(1 << 16)
	run(tb, l, h, serverOpts...)
	opts = append(opts, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	return dial(tb, "passthrough:///memory", opts...)
}

func ask(ctx context.Context, conn *grpc.ClientConn, opts ...grpc.CallOption) error {
	return conn.Invoke(ctx, methodAsk, wrapperspb.String("hello"), new(text), opts...)
}

// open begins a stream; its context ends with the test at the latest.
func open(tb testing.TB, ctx context.Context, conn *grpc.ClientConn, desc *grpc.StreamDesc) grpc.ClientStream {
	tb.Helper()
	stream, err := conn.NewStream(ctx, desc, "/test.Test/"+desc.StreamName)
	if err != nil {
		tb.Fatal(err)
	}
	return stream
}

func send(tb testing.TB, stream interface{ SendMsg(any) error }, s string) {
	tb.Helper()
	if err := stream.SendMsg(wrapperspb.String(s)); err != nil {
		tb.Fatal("send:", err)
	}
}

func receive(tb testing.TB, stream interface{ RecvMsg(any) error }) string {
	tb.Helper()
	m := new(text)
	if err := stream.RecvMsg(m); err != nil {
		tb.Fatal("receive:", err)
	}
	return m.GetValue()
}

// breaker returns one that trips after three failures in a row, and only so,
// probes after a second, and lives by the clock.
func breaker(clock *fuseboxtest.Clock) *fusebox.Breaker {
	return fusebox.New("test", settings(clock))
}

func settings(clock *fuseboxtest.Clock) fusebox.Config {
	return fusebox.Config{
		Consecutive: 3, FailureRate: -1, OpenFor: time.Second, OpenForMax: time.Second, OpenJitter: -1,
		Probes: 1, ProbeTimeout: 30 * time.Second, Now: clock.Now,
	}
}

// halfOpen makes the next call a probe.
func halfOpen(tb testing.TB, b *fusebox.Breaker) {
	tb.Helper()
	b.Override(fusebox.ForceOpen, fusebox.Note{})
	b.Lift(fusebox.Note{})
	if got := b.State(); got != fusebox.HalfOpen {
		tb.Fatalf("state %v, want half-open", got)
	}
}

// outcomes is what is counted of finished calls.
type outcomes struct{ successes, failures, ignored, late uint64 }

func counted(b *fusebox.Breaker) outcomes {
	t := b.Snapshot().Totals
	return outcomes{t.Successes, t.Failures, t.Ignored, t.Late}
}

// want waits for the outcomes: that of a context that ends is counted by a
// goroutine of its own.
func want(tb testing.TB, b *fusebox.Breaker, o outcomes) {
	tb.Helper()
	var got outcomes
	poll(func() bool { got = counted(b); return got == o })
	if got != o {
		tb.Fatalf("outcomes %+v, want %+v", got, o)
	}
}

package fuseboxgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxgrpc"
	"github.com/fusebox-go/fusebox/fuseboxtest"
	"github.com/fusebox-go/fusebox/retry"
)

// fails returns handlers that end every call with the status of code.
func fails(code codes.Code) handlers {
	return handlers{
		ask:    func(context.Context, *text) (*text, error) { return nil, status.Error(code, "as told") },
		stream: func(grpc.ServerStream) error { return status.Error(code, "as told") },
	}
}

// counter is an interceptor that counts the calls that come to it.
func counter(n *atomic.Int64) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		n.Add(1)
		return invoker(ctx, method, req, reply, cc, opts...)
	}
}

func TestC60EveryCodeOnBothSidesOfTheWire(t *testing.T) {
	var clock fuseboxtest.Clock
	var code atomic.Int64
	client := fuseboxgrpc.Client{Breaker: fusebox.New("client", fusebox.Config{FailureRate: -1, Consecutive: -1, Now: clock.Now})}
	server := fuseboxgrpc.Server{Breaker: fusebox.New("server", fusebox.Config{FailureRate: -1, Consecutive: -1, Now: clock.Now})}
	conn := pair(t, &client, &server, handlers{ask: func(_ context.Context, m *text) (*text, error) {
		if c := codes.Code(code.Load()); c != codes.OK {
			return nil, fmt.Errorf("handler: %w", status.Error(c, "as told"))
		}
		return m, nil
	}})
	expect := outcomes{}
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		code.Store(int64(c))
		if err := ask(t.Context(), conn); status.Code(err) != c {
			t.Fatalf("%v: got %v", c, err)
		}
		if codeOutcomes[c] == fusebox.Success { // of OK too
			expect.successes++
		} else {
			expect.failures++
		}
		want(t, client.Breaker, expect)
		want(t, server.Breaker, expect)
	}
}

func TestC57ACallWithoutTimeIsNotMade(t *testing.T) {
	var clock fuseboxtest.Clock
	var reached atomic.Int64
	client := fuseboxgrpc.Client{Breaker: breaker(&clock)}
	conn := pair(t, &client, nil, fails(codes.Unavailable), grpc.WithChainUnaryInterceptor(counter(&reached)))
	expired, stop := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer stop()
	for range 10 {
		err := ask(expired, conn)
		if status.Code(err) != codes.DeadlineExceeded || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want DeadlineExceeded as a status and as an error", err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ask(cancelled, conn); status.Code(err) != codes.Canceled || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want Canceled", err)
	}
	if _, err := conn.NewStream(expired, &descChat, methodChat); status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("stream: got %v, want DeadlineExceeded", err)
	}
	want(t, client.Breaker, outcomes{})
	if n := reached.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}

	halfOpen(t, client.Breaker)
	ask(expired, conn)
	if n := client.Breaker.Snapshot().Outstanding; n != 0 {
		t.Errorf("%d probes outstanding", n)
	}
}

func TestC58ADeadlineThatFiresIsAFailure(t *testing.T) {
	var clock fuseboxtest.Clock
	gone := make(chan struct{}) // the client: the server's timer may be the first
	hang := handlers{ask: func(ctx context.Context, _ *text) (*text, error) {
		<-ctx.Done()
		<-gone
		return nil, status.Error(codes.NotFound, "nothing found, in the time there was")
	}}
	client := fuseboxgrpc.Client{Breaker: breaker(&clock)}
	server := fuseboxgrpc.Server{Breaker: breaker(&clock)}
	conn := pair(t, &client, &server, hang)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := ask(ctx, conn); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
		cancel()
		gone <- struct{}{}
	}
	want(t, client.Breaker, outcomes{failures: 3})
	if s := client.Breaker.State(); s != fusebox.Open {
		t.Errorf("the client's breaker is %v, want open", s)
	}
	// A reset stream mostly reaches the server before its deadline does, and the
	// handler's context then says cancelled.
	eventually(t, "the server has judged all three", func() bool {
		o := counted(server.Breaker)
		return o.failures == 3 && o.ignored == 0 && o.successes == 0
	})
}

func TestC58ATimeoutInsideUnderAnotherName(t *testing.T) {
	var clock fuseboxtest.Clock
	client := fuseboxgrpc.Client{Breaker: breaker(&clock)}
	timeout := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		if err := invoker(ctx, method, req, reply, cc, opts...); err != nil {
			return status.Error(codes.Unknown, "context deadline exceeded")
		}
		return nil
	}
	hang := handlers{ask: func(ctx context.Context, _ *text) (*text, error) { <-ctx.Done(); return nil, ctx.Err() }}
	conn := pair(t, &client, nil, hang, grpc.WithChainUnaryInterceptor(timeout))
	for range 3 {
		ask(t.Context(), conn)
	}
	if s := client.Breaker.State(); s != fusebox.Open {
		t.Errorf("state %v, want open", s)
	}
}

func TestC56C65WhoLeavesIsIgnored(t *testing.T) {
	var clock fuseboxtest.Clock
	client := fuseboxgrpc.Client{Breaker: breaker(&clock)}
	server := fuseboxgrpc.Server{Breaker: breaker(&clock)}
	arrived := make(chan struct{})
	hang := handlers{ask: func(ctx context.Context, _ *text) (*text, error) {
		arrived <- struct{}{}
		<-ctx.Done()
		return nil, errors.New("query: context canceled")
	}}
	conn := pair(t, &client, &server, hang)
	for _, state := range []fusebox.State{fusebox.Closed, fusebox.HalfOpen} {
		if state == fusebox.HalfOpen {
			halfOpen(t, client.Breaker)
			halfOpen(t, server.Breaker)
		}
		for range 5 { // a slot is free again each time
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-arrived
				cancel()
			}()
			if err := ask(ctx, conn); status.Code(err) != codes.Canceled {
				t.Errorf("got %v, want Canceled", err)
			}
			n := counted(client.Breaker).ignored
			want(t, server.Breaker, outcomes{ignored: n})
		}
		if got := client.Breaker.State(); got != state {
			t.Errorf("the client's breaker is %v, want %v", got, state)
		}
	}
	want(t, client.Breaker, outcomes{ignored: 10})
	want(t, server.Breaker, outcomes{ignored: 10})
}

func TestAServerThatIsKilled(t *testing.T) {
	noLeak(t)
	var clock fuseboxtest.Clock
	var reached atomic.Int64
	server, addr := listen(t, "127.0.0.1:0", handlers{})
	registry := fusebox.Registry{Config: func(string) fusebox.Config { return settings(&clock) }}
	client := fuseboxgrpc.Client{Registry: &registry}
	conn := dial(t, addr, append(client.DialOptions(), grpc.WithChainUnaryInterceptor(counter(&reached)))...)
	if err := ask(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	b, ok := registry.Lookup(addr)
	if !ok {
		t.Fatalf("no breaker for the target %q", addr)
	}

	server.Stop() // resets the connection
	for range 3 {
		if err := ask(t.Context(), conn); status.Code(err) != codes.Unavailable || errors.Is(err, fusebox.ErrOpen) {
			t.Fatalf("got %v, want gRPC's Unavailable", err)
		}
	}
	if b.State() != fusebox.Open {
		t.Fatalf("state %v, want open", b.State())
	}
	if last := b.Snapshot().Last.LastError; !strings.Contains(last, "Unavailable") {
		t.Errorf("the record of the trip has the error %q, want gRPC's", last)
	}
	before := reached.Load()
	for range 5 {
		if err := ask(t.Context(), conn); !errors.Is(err, fusebox.ErrOpen) {
			t.Fatalf("got %v, want a rejection", err)
		}
	}
	if n := reached.Load(); n != before {
		t.Errorf("%d rejected calls went on", n-before)
	}

	listen(t, addr, handlers{})
	clock.Advance(time.Second)
	if err := ask(t.Context(), conn, grpc.WaitForReady(true)); err != nil {
		t.Fatalf("the probe: %v", err)
	}
	want(t, b, outcomes{successes: 2, failures: 3})
	if b.State() != fusebox.Closed {
		t.Errorf("state %v, want closed", b.State())
	}
}

func TestARejectionByTheClient(t *testing.T) {
	var clock fuseboxtest.Clock
	client := fuseboxgrpc.Client{Breaker: breaker(&clock)}
	conn := pair(t, &client, nil, fails(codes.Unavailable))
	for range 3 {
		ask(t.Context(), conn)
	}
	clock.Advance(200 * time.Millisecond)
	unary := ask(t.Context(), conn)
	_, stream := conn.NewStream(t.Context(), &descChat, methodChat)
	for _, err := range []error{unary, stream, fmt.Errorf("wrapped: %w", unary)} {
		var open *fusebox.OpenError
		if !errors.Is(err, fusebox.ErrOpen) || !errors.As(err, &open) || open.Name() != "test" {
			t.Fatalf("%v is no rejection of the breaker", err)
		}
		if wait, ok := fusebox.Rejected(err); !ok || wait != 800*time.Millisecond {
			t.Errorf("Rejected: %v, %v, want 800ms", wait, ok)
		}
		if wait, ok := fuseboxgrpc.RetryAfter(err); !ok || wait != 800*time.Millisecond {
			t.Errorf("RetryAfter: %v, %v, want 800ms", wait, ok)
		}
		s, ok := status.FromError(err)
		if !ok || s.Code() != codes.Unavailable || !strings.Contains(s.Message(), open.Error()) {
			t.Errorf("status %v, want Unavailable with the text %q", s, open)
		}
	}
	if text := unary.Error(); !strings.Contains(text, `"test" is open`) { // C91
		t.Errorf("the text %q does not name the breaker", text)
	}
	want(t, client.Breaker, outcomes{failures: 3})
	if n := client.Breaker.Snapshot().Totals.RejectedOpen; n != 2 {
		t.Errorf("%d rejections counted, want 2", n)
	}

	var attempts int
	policy := retry.New(retry.Config{Attempts: 5, BaseDelay: 1, MaxDelay: 1})
	err := policy.Do(t.Context(), func(ctx context.Context) error {
		attempts++
		return ask(ctx, conn)
	})
	if attempts != 1 || !errors.Is(err, fusebox.ErrOpen) {
		t.Errorf("retry made %d attempts, want one, and %v", attempts, err)
	}
	outer := fusebox.New("outer", fusebox.Config{})
	outer.Do(t.Context(), func(ctx context.Context) error { return ask(ctx, conn) })
	want(t, outer, outcomes{ignored: 1})
}

func TestARejectionByTheServerGoesOverTheWire(t *testing.T) {
	var clock fuseboxtest.Clock
	client := fuseboxgrpc.Client{Breaker: fusebox.New("client", fusebox.Config{})}
	server := fuseboxgrpc.Server{Breaker: breaker(&clock)}
	var served atomic.Int64
	conn := pair(t, &client, &server, handlers{
		ask: func(context.Context, *text) (*text, error) {
			served.Add(1)
			return nil, status.Error(codes.Internal, "")
		},
		stream: func(grpc.ServerStream) error { served.Add(1); return nil },
	})
	for range 3 {
		ask(t.Context(), conn)
	}
	unary := ask(t.Context(), conn)
	stream := open(t, t.Context(), conn, &descChat).RecvMsg(new(text))
	for _, err := range []error{unary, stream} {
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), `fusebox: "test" is open (3 failures in a row >= 3), retry in 1s`) {
			t.Errorf("got %v, want Unavailable with the breaker's text", err)
		}
		if wait, ok := fuseboxgrpc.RetryAfter(err); !ok || wait != time.Second {
			t.Errorf("RetryAfter: %v, %v, want 1s", wait, ok)
		}
		if errors.Is(err, fusebox.ErrOpen) {
			t.Errorf("%v is taken for a rejection on this side", err)
		}
	}
	if n := served.Load(); n != 3 {
		t.Errorf("the handlers ran %d times, want 3", n)
	}
	want(t, server.Breaker, outcomes{failures: 3})
	want(t, client.Breaker, outcomes{failures: 5}) // a server that rejects is unwell

	server.Breaker.Override(fusebox.ForceOpen, fusebox.Note{}) // nobody knows for how long
	err := ask(t.Context(), conn)
	if wait, ok := fuseboxgrpc.RetryAfter(err); ok || status.Code(err) != codes.Unavailable {
		t.Errorf("RetryAfter: %v, want none; %v", wait, err)
	}
}

func TestARefusalBehindAHandlerIsIgnored(t *testing.T) {
	behind := fusebox.New("behind", fusebox.Config{})
	behind.Override(fusebox.ForceOpen, fusebox.Note{})
	inner := fuseboxgrpc.Client{Breaker: behind}
	far := memory(t, handlers{}, nil, inner.DialOptions()...)
	server := fuseboxgrpc.Server{Breaker: fusebox.New("server", fusebox.Config{})}
	conn := pair(t, nil, &server, handlers{ask: func(ctx context.Context, m *text) (*text, error) {
		return m, ask(ctx, far)
	}})
	if err := ask(t.Context(), conn); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	want(t, server.Breaker, outcomes{ignored: 1})
}

func TestOneBreakerATargetAndAMethod(t *testing.T) {
	noLeak(t)
	registry := fusebox.Registry{}
	var client fuseboxgrpc.Client
	client.Registry = &registry
	var methods fusebox.Registry
	server := fuseboxgrpc.Server{Registry: &methods}
	var targets []string
	for range 2 {
		_, addr := listen(t, "127.0.0.1:0", handlers{}, server.ServerOptions()...)
		targets = append(targets, addr)
		conn := dial(t, addr, client.DialOptions()...)
		if err := ask(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		s := open(t, t.Context(), conn, &descChat)
		s.CloseSend()
		s.RecvMsg(new(text))
	}
	for _, addr := range targets {
		b, ok := registry.Lookup(addr)
		if !ok {
			t.Fatalf("no breaker for %q", addr)
		}
		want(t, b, outcomes{successes: 2})
	}
	for _, method := range []string{methodAsk, methodChat} {
		b, ok := methods.Lookup(method)
		if !ok {
			t.Fatalf("no breaker for %q", method)
		}
		want(t, b, outcomes{successes: 2})
	}
}

func TestTheZeroClientGuardsUnaryCallsAndStreamsAsOne(t *testing.T) {
	var client fuseboxgrpc.Client
	var server fuseboxgrpc.Server
	conn := pair(t, &client, &server, fails(codes.Unavailable))
	for range 10 {
		ask(t.Context(), conn)
		open(t, t.Context(), conn, &descChat).RecvMsg(new(text))
	}
	err := ask(t.Context(), conn)
	var e *fusebox.OpenError
	if !errors.As(err, &e) || e.Name() != conn.Target() {
		t.Errorf("got %v, want a rejection by the breaker %q", err, conn.Target())
	}
}

func TestKeys(t *testing.T) {
	var clients, servers fusebox.Registry
	type tenant struct{}
	client := fuseboxgrpc.Client{Registry: &clients, Key: func(ctx context.Context, method string, conn *grpc.ClientConn) string {
		return fmt.Sprint(ctx.Value(tenant{}), method, conn.Target())
	}}
	server := fuseboxgrpc.Server{Registry: &servers, Key: func(ctx context.Context, method string) string {
		if _, ok := ctx.Deadline(); ok {
			return "urgent" + method
		}
		return "patient" + method
	}}
	conn := pair(t, &client, &server, handlers{})
	ctx := context.WithValue(t.Context(), tenant{}, "a")
	if err := ask(ctx, conn); err != nil {
		t.Fatal(err)
	}
	if _, ok := clients.Lookup("a" + methodAsk + conn.Target()); !ok {
		t.Error("the client's key was not used")
	}
	if _, ok := servers.Lookup("patient" + methodAsk); !ok {
		t.Error("the server's key was not used")
	}
}

func TestC91KeysAreBounded(t *testing.T) {
	registry := fusebox.Registry{MaxKeys: 100}
	server := fuseboxgrpc.Server{Registry: &registry}
	interceptor := server.UnaryInterceptor()
	for i := range 10_000 {
		info := &grpc.UnaryServerInfo{FullMethod: fmt.Sprint("/made.up/", i)}
		interceptor(t.Context(), nil, info, func(context.Context, any) (any, error) { return nil, nil })
	}
	if n := registry.Stats().Keys; n > 100 {
		t.Errorf("%d breakers, want 100 at most", n)
	}
}

func TestWhoClassifies(t *testing.T) {
	aborted := status.Error(codes.Aborted, "")
	as := func(o fusebox.Outcome) func(context.Context, error) fusebox.Outcome {
		return func(context.Context, error) fusebox.Outcome { return o }
	}
	for _, test := range []struct {
		name             string
		adapter, breaker func(context.Context, error) fusebox.Outcome
		err              error
		want             outcomes
	}{
		{"nobody: the table", nil, nil, aborted, outcomes{successes: 1}},
		{"the breaker", nil, as(fusebox.Failure), aborted, outcomes{failures: 1}},
		{"the breaker, of a nil error", nil, as(fusebox.Failure), nil, outcomes{failures: 1}},
		{"the adapter", as(fusebox.Failure), nil, aborted, outcomes{failures: 1}},
		{"the adapter, of a nil error", as(fusebox.Failure), nil, nil, outcomes{failures: 1}},
		{"the adapter ignores", as(fusebox.Ignored), nil, aborted, outcomes{ignored: 1}},
		{"the adapter before the breaker", as(fusebox.Failure), as(fusebox.Success), aborted, outcomes{failures: 1}},
		{"the adapter, success", as(fusebox.Success), as(fusebox.Failure), aborted, outcomes{successes: 1}},
	} {
		b := fusebox.New("test", fusebox.Config{Classify: test.breaker})
		calls := 0
		client := fuseboxgrpc.Client{Breaker: b}
		if test.adapter != nil {
			client.Classify = func(ctx context.Context, err error) fusebox.Outcome {
				calls++
				return test.adapter(ctx, err)
			}
		}
		err := client.UnaryInterceptor()(t.Context(), "", nil, nil, nil, invoker(func() error { return test.err }))
		if err != test.err { //nolint:errorlint // unchanged
			t.Errorf("%s: the error %v came back as %v", test.name, test.err, err)
		}
		if got := counted(b); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
		if test.adapter != nil && calls != 1 {
			t.Errorf("%s: classified %d times", test.name, calls)
		}
	}
}

func TestAllFourInterceptorsAskTheOptions(t *testing.T) {
	failing := func(context.Context, error) fusebox.Outcome { return fusebox.Failure }
	client := fuseboxgrpc.Client{Breaker: quiet(), Classify: failing}
	server := fuseboxgrpc.Server{Breaker: quiet(), Classify: failing}
	conn := pair(t, &client, &server, handlers{})
	if err := ask(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	want(t, client.Breaker, outcomes{failures: 1})
	want(t, server.Breaker, outcomes{failures: 1})
	stream := open(t, t.Context(), conn, &descChat)
	stream.CloseSend()
	stream.RecvMsg(new(text))
	want(t, client.Breaker, outcomes{failures: 2})
	want(t, server.Breaker, outcomes{failures: 2})
}

// invoker is what a call comes to where no connection is needed.
func invoker(f func() error) grpc.UnaryInvoker {
	return func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return f() }
}

func TestC64AClassifierThatPanicsLeavesNothingOut(t *testing.T) {
	var clock fuseboxtest.Clock
	b := breaker(&clock)
	halfOpen(t, b)
	client := fuseboxgrpc.Client{Breaker: b, Classify: func(context.Context, error) fusebox.Outcome { panic("classify") }}
	func() {
		defer func() {
			if r := recover(); r != "classify" {
				t.Errorf("recovered %v", r)
			}
		}()
		client.UnaryInterceptor()(t.Context(), "", nil, nil, nil, invoker(func() error { return nil }))
	}()
	want(t, b, outcomes{failures: 1})
	if n := b.Snapshot().Outstanding; n != 0 {
		t.Errorf("%d probes outstanding", n)
	}
}

// TestCallsThatDoNotReturn goes through all four interceptors.
func TestCallsThatDoNotReturn(t *testing.T) {
	lenient := func(context.Context, error) fusebox.Outcome { return fusebox.Success } // is not asked
	ways := map[string]func(ctx context.Context, b *fusebox.Breaker, vanish func()){
		"unary client": func(ctx context.Context, b *fusebox.Breaker, vanish func()) {
			c := fuseboxgrpc.Client{Breaker: b, Classify: lenient}
			c.UnaryInterceptor()(ctx, "", nil, nil, nil, invoker(func() error { vanish(); return nil }))
		},
		"stream client": func(ctx context.Context, b *fusebox.Breaker, vanish func()) {
			c := fuseboxgrpc.Client{Breaker: b, Classify: lenient}
			c.StreamInterceptor()(ctx, &descChat, nil, "", func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				vanish()
				return nil, nil
			})
		},
		"unary server": func(ctx context.Context, b *fusebox.Breaker, vanish func()) {
			s := fuseboxgrpc.Server{Breaker: b, Classify: lenient}
			s.UnaryInterceptor()(ctx, nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { vanish(); return nil, nil })
		},
		"stream server": func(ctx context.Context, b *fusebox.Breaker, vanish func()) {
			s := fuseboxgrpc.Server{Breaker: b, Classify: lenient}
			s.StreamInterceptor()(nil, still{ctx: ctx}, &grpc.StreamServerInfo{}, func(any, grpc.ServerStream) error { vanish(); return nil })
		},
	}
	for way, call := range ways {
		for _, left := range []bool{false, true} {
			for name, vanish := range map[string]func(){"panic": func() { panic("away") }, "Goexit": runtime.Goexit} {
				t.Run(fmt.Sprint(way, "/", name, "/left ", left), func(t *testing.T) {
					b := fusebox.New("test", fusebox.Config{})
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					passed := make(chan any, 1)
					go func() {
						defer func() { passed <- recover() }()
						call(ctx, b, func() {
							if left {
								cancel()
							}
							vanish()
						})
						t.Error("it returned")
					}()
					if r := <-passed; name == "panic" && r != "away" {
						t.Errorf("recovered %v", r)
					}
					if left {
						want(t, b, outcomes{ignored: 1})
					} else {
						want(t, b, outcomes{failures: 1})
					}
				})
			}
		}
	}
}

// still is a stream on which nothing happens.
type still struct {
	grpc.ServerStream
	ctx context.Context
}

func (s still) Context() context.Context { return s.ctx }

func TestAHandlerThatPanicsCountsAndGoesOn(t *testing.T) {
	server := fuseboxgrpc.Server{Breaker: fusebox.New("test", fusebox.Config{})}
	var seen atomic.Int64
	recovers := grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if recover() != nil {
				seen.Add(1)
				err = status.Error(codes.NotFound, "what a panic is made into")
			}
		}()
		return handler(ctx, req)
	})
	recoversStream := grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		defer func() {
			if recover() != nil {
				seen.Add(1)
				err = status.Error(codes.NotFound, "what a panic is made into")
			}
		}()
		return handler(srv, stream)
	})
	conn := memory(t, handlers{
		ask:    func(context.Context, *text) (*text, error) { panic("ask") },
		stream: func(grpc.ServerStream) error { panic("stream") },
	}, append([]grpc.ServerOption{recovers, recoversStream}, server.ServerOptions()...))
	if err := ask(t.Context(), conn); status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
	if err := open(t, t.Context(), conn, &descChat).RecvMsg(new(text)); status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
	want(t, server.Breaker, outcomes{failures: 2})
	if n := seen.Load(); n != 2 {
		t.Errorf("%d panics passed on, want 2", n)
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	server := fuseboxgrpc.Server{Breaker: fusebox.New("server", fusebox.Config{FailureRate: -1, Consecutive: -1})}
	client := fuseboxgrpc.Client{Breaker: fusebox.New("client", fusebox.Config{FailureRate: -1, Consecutive: -1})}
	var n atomic.Uint64
	h := handlers{ask: func(_ context.Context, m *text) (*text, error) {
		if n.Add(1)%4 == 0 {
			return nil, status.Error(codes.Internal, "")
		}
		return m, nil
	}}
	conn := memory(t, h, server.ServerOptions(), client.DialOptions()...)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 8 {
				ask(t.Context(), conn)
				s, err := conn.NewStream(t.Context(), &descChat, methodChat)
				if err != nil {
					t.Error(err)
					return
				}
				s.SendMsg(wrapperspb.String("x"))
				s.CloseSend()
				for s.RecvMsg(new(text)) == nil {
				}
			}
		})
	}
	wg.Wait()
	want(t, client.Breaker, outcomes{successes: 512 + 384, failures: 128})
	want(t, server.Breaker, outcomes{successes: 512 + 384, failures: 128})
}

// TestC90GRPCsOwnRetriesArePartOfACall: they happen below the interceptor.
func TestC90GRPCsOwnRetriesArePartOfACall(t *testing.T) {
	var served atomic.Int64
	client := fuseboxgrpc.Client{Breaker: fusebox.New("test", fusebox.Config{})}
	conn := pair(t, &client, nil, handlers{ask: func(_ context.Context, m *text) (*text, error) {
		if served.Add(1) < 3 {
			return nil, status.Error(codes.Unavailable, "")
		}
		return m, nil
	}}, grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["UNAVAILABLE"]}}]}`))
	if err := ask(t.Context(), conn); err != nil || served.Load() != 3 {
		t.Fatalf("%v after %d attempts, want success after 3", err, served.Load())
	}
	want(t, client.Breaker, outcomes{successes: 1})
}

// TestAConnectionResetInMidCall needs a peer that speaks no gRPC.
func TestAConnectionResetInMidCall(t *testing.T) {
	noLeak(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.(*net.TCPConn).SetLinger(0)
			c.Close() // resets
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	var clock fuseboxtest.Clock
	client := fuseboxgrpc.Client{Breaker: breaker(&clock)}
	conn := dial(t, l.Addr().String(), client.DialOptions()...)
	for range 3 {
		if err := ask(t.Context(), conn); status.Code(err) != codes.Unavailable {
			t.Fatalf("got %v, want Unavailable", err)
		}
	}
	if s := client.Breaker.State(); s != fusebox.Open {
		t.Errorf("state %v, want open", s)
	}
}

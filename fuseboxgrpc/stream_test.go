package fuseboxgrpc_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxgrpc"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

// guarded is a breaker on each side, and a connection between them.
type guarded struct {
	clock          fuseboxtest.Clock
	client, server *fusebox.Breaker
	conn           *grpc.ClientConn
}

// guard makes the breakers as settings says, changed by change if not nil.
func guard(tb testing.TB, h handlers, change func(*fusebox.Config)) *guarded {
	tb.Helper()
	g := new(guarded)
	config := settings(&g.clock)
	if change != nil {
		change(&config)
	}
	g.client, g.server = fusebox.New("client", config), fusebox.New("server", config)
	g.conn = pair(tb, &fuseboxgrpc.Client{Breaker: g.client}, &fuseboxgrpc.Server{Breaker: g.server}, h)
	return g
}

func (g *guarded) want(tb testing.TB, o outcomes) {
	tb.Helper()
	want(tb, g.client, o)
	want(tb, g.server, o)
}

// untilDone serves a message and waits for the client to leave.
func untilDone(stream grpc.ServerStream) error {
	if err := stream.SendMsg(wrapperspb.String("first")); err != nil {
		return err
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

func TestC135AStreamThatFailsAfterItsFirstMessage(t *testing.T) {
	g := guard(t, handlers{stream: func(stream grpc.ServerStream) error {
		stream.SendMsg(wrapperspb.String("first"))
		return status.Error(codes.Unavailable, "and no more")
	}}, nil)
	for range 3 {
		stream := open(t, t.Context(), g.conn, &descDown)
		send(t, stream, "go")
		stream.CloseSend()
		receive(t, stream)
		if err := stream.RecvMsg(new(text)); status.Code(err) != codes.Unavailable {
			t.Fatalf("got %v, want Unavailable", err)
		}
	}
	g.want(t, outcomes{failures: 3})
	for _, b := range []*fusebox.Breaker{g.client, g.server} {
		if b.State() != fusebox.Open {
			t.Errorf("%s is %v, want open", b.Name(), b.State())
		}
		if text := b.Snapshot().Last.LastError; text == "" {
			t.Errorf("%s: the record of the trip has no error", b.Name())
		}
	}
}

func TestAStreamIsJudgedAtItsEnd(t *testing.T) {
	g := guard(t, handlers{}, nil)
	chat := open(t, t.Context(), g.conn, &descChat)
	for i := range 3 {
		send(t, chat, strconv.Itoa(i))
		if got := receive(t, chat); got != strconv.Itoa(i) {
			t.Fatalf("got %q", got)
		}
	}
	chat.CloseSend()
	if got := counted(g.client); got != (outcomes{}) {
		t.Errorf("judged before its end: %+v", got)
	}
	for range 2 { // the second changes nothing
		if err := chat.RecvMsg(new(text)); err != io.EOF { //nolint:errorlint // callers of gRPC compare so
			t.Fatalf("got %v, want EOF as it is", err)
		}
	}
	g.want(t, outcomes{successes: 1})

	down := open(t, t.Context(), g.conn, &descDown)
	send(t, down, "x")
	down.CloseSend()
	receive(t, down)
	if got := counted(g.client); got != (outcomes{successes: 1}) {
		t.Errorf("judged before its end: %+v", got)
	}
	if err := down.RecvMsg(new(text)); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v, want EOF", err)
	}
	g.want(t, outcomes{successes: 2})
}

func TestAnUploadEndsWithItsAnswer(t *testing.T) {
	var code atomic.Int64
	g := guard(t, handlers{stream: func(stream grpc.ServerStream) error {
		n := 0
		for stream.RecvMsg(new(text)) == nil {
			n++
		}
		if c := codes.Code(code.Load()); c != codes.OK {
			return status.Error(c, "")
		}
		return stream.SendMsg(wrapperspb.String(strconv.Itoa(n)))
	}}, nil)
	upload := func() error {
		stream := open(t, t.Context(), g.conn, &descUp)
		send(t, stream, "a")
		send(t, stream, "b")
		stream.CloseSend()
		m := new(text)
		err := stream.RecvMsg(m)
		if err == nil && m.GetValue() != "2" {
			t.Errorf("got %q", m.GetValue())
		}
		return err
	}
	if err := upload(); err != nil {
		t.Fatal(err)
	}
	g.want(t, outcomes{successes: 1})
	code.Store(int64(codes.DataLoss))
	if err := upload(); status.Code(err) != codes.DataLoss {
		t.Fatal(err)
	}
	g.want(t, outcomes{successes: 1, failures: 1})
}

func TestC135WhoLeavesAStreamIsIgnored(t *testing.T) {
	g := guard(t, handlers{stream: untilDone}, nil)
	for n := range uint64(4) {
		if n == 2 {
			halfOpen(t, g.client)
			halfOpen(t, g.server)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stream := open(t, ctx, g.conn, &descDown)
		send(t, stream, "go")
		stream.CloseSend()
		receive(t, stream)
		cancel()
		if n%2 == 0 { // else the stream is never touched again
			if err := stream.RecvMsg(new(text)); status.Code(err) != codes.Canceled {
				t.Errorf("got %v, want Canceled", err)
			}
		}
		g.want(t, outcomes{ignored: n + 1})
	}
	if n := g.client.Snapshot().Outstanding; n != 0 {
		t.Errorf("%d probes outstanding", n)
	}
}

func TestAnAbandonedStreamWhoseDeadlinePassesIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fusebox.New("test", fusebox.Config{Consecutive: 3, OpenFor: time.Hour, OpenForMax: time.Hour})
		client := fuseboxgrpc.Client{Breaker: b}
		conn := memory(t, handlers{stream: untilDone}, nil, client.DialOptions()...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 3 {
			open(t, ctx, conn, &descDown)
		}
		time.Sleep(time.Second - 1)
		synctest.Wait()
		want(t, b, outcomes{})
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want(t, b, outcomes{failures: 3})
		if s := b.Snapshot(); s.State != fusebox.Open || s.Last.LastError == "" {
			t.Errorf("state %v, last error %q, want open with an error", s.State, s.Last.LastError)
		}
	})
}

// TestAnAbandonedStreamThatGRPCHasFinished is judged at the end of its own
// context: gRPC says only once that it has finished, and that came first.
func TestAnAbandonedStreamThatGRPCHasFinished(t *testing.T) {
	for _, c := range []struct {
		name   string
		config string
		serve  func(grpc.ServerStream) error
		finish func(*testing.T, *grpc.ClientConn, grpc.ClientStream)
	}{
		{"after the timeout of its method", `{"methodConfig": [{"name": [{}], "timeout": "1s"}]}`, untilDone, func(_ *testing.T, _ *grpc.ClientConn, stream grpc.ClientStream) {
			<-stream.Context().Done()
		}},
		{"with its connection", `{}`, untilDone, func(t *testing.T, conn *grpc.ClientConn, stream grpc.ClientStream) {
			receive(t, stream)
			conn.Close()
			<-stream.Context().Done()
		}},
		{"when it asked for a head", `{}`, nil, func(t *testing.T, _ *grpc.ClientConn, stream grpc.ClientStream) {
			stream.CloseSend()
			if md, err := stream.Header(); md != nil || err != nil {
				t.Errorf("head %v, %v, want none", md, err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fuseboxgrpc.Client{Breaker: fusebox.New("test", fusebox.Config{})}
				opts := append(client.DialOptions(), grpc.WithDefaultServiceConfig(c.config))
				conn := memory(t, handlers{stream: c.serve}, nil, opts...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stream := open(t, ctx, conn, &descChat)
				c.finish(t, conn, stream)
				synctest.Wait()
				if got := counted(client.Breaker); got != (outcomes{}) {
					t.Errorf("judged before its context ends: %+v", got)
				}
				cancel()
				want(t, client.Breaker, outcomes{ignored: 1})
			})
		})
	}
}

// TestAnInterceptorInsideMayOpenSeveralStreams for one: that the first has
// ended is not the end.
func TestAnInterceptorInsideMayOpenSeveralStreams(t *testing.T) {
	var served atomic.Int64
	client := fuseboxgrpc.Client{Breaker: fusebox.New("test", fusebox.Config{})}
	again := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		first, err := streamer(ctx, desc, conn, method, opts...)
		if err != nil {
			return nil, err
		}
		if err := first.RecvMsg(new(text)); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v, want Unavailable", err)
		}
		return streamer(ctx, desc, conn, method, opts...)
	}
	conn := pair(t, &client, nil, handlers{stream: func(stream grpc.ServerStream) error {
		if served.Add(1)%2 == 1 {
			return status.Error(codes.Unavailable, "")
		}
		return echo(stream)
	}}, grpc.WithChainStreamInterceptor(again))

	stream := open(t, t.Context(), conn, &descChat)
	send(t, stream, "x")
	receive(t, stream)
	stream.CloseSend()
	if err := stream.RecvMsg(new(text)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want EOF", err)
	}
	want(t, client.Breaker, outcomes{successes: 1})

	ctx, cancel := context.WithCancel(t.Context())
	open(t, ctx, conn, &descChat)
	cancel()
	want(t, client.Breaker, outcomes{successes: 1, ignored: 1})
}

func TestAServerKilledInMidStream(t *testing.T) {
	noLeak(t)
	var clock fuseboxtest.Clock
	client := fuseboxgrpc.Client{Breaker: breaker(&clock)}
	server, addr := listen(t, "127.0.0.1:0", handlers{stream: untilDone})
	conn := dial(t, addr, client.DialOptions()...)
	var streams []grpc.ClientStream
	for range 3 {
		stream := open(t, t.Context(), conn, &descChat)
		receive(t, stream)
		streams = append(streams, stream)
	}
	server.Stop()
	for _, stream := range streams {
		if err := stream.RecvMsg(new(text)); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v, want Unavailable", err)
		}
	}
	want(t, client.Breaker, outcomes{failures: 3})
	if s := client.Breaker.State(); s != fusebox.Open {
		t.Errorf("state %v, want open", s)
	}
	if _, err := conn.NewStream(t.Context(), &descChat, methodChat); !errors.Is(err, fusebox.ErrOpen) {
		t.Errorf("got %v, want a rejection", err)
	}
}

func TestAStreamThatCannotBeOpened(t *testing.T) {
	noLeak(t)
	var clock fuseboxtest.Clock
	client := fuseboxgrpc.Client{Breaker: breaker(&clock)}
	server, addr := listen(t, "127.0.0.1:0", handlers{})
	server.Stop()
	conn := dial(t, addr, client.DialOptions()...)
	if _, err := conn.NewStream(t.Context(), &descChat, methodChat); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	want(t, client.Breaker, outcomes{failures: 1})
}

func TestErrorsOfSendMsg(t *testing.T) {
	g := guard(t, handlers{stream: func(grpc.ServerStream) error { return status.Error(codes.NotFound, "") }}, nil)

	// EOF says that the stream has ended, and RecvMsg how.
	stream := open(t, t.Context(), g.conn, &descChat)
	eventually(t, "the client hears of the end", func() bool {
		return errors.Is(stream.SendMsg(wrapperspb.String("x")), io.EOF)
	})
	if got := counted(g.client); got != (outcomes{}) {
		t.Errorf("judged before anybody knows: %+v", got)
	}
	if err := stream.RecvMsg(new(text)); status.Code(err) != codes.NotFound {
		t.Errorf("got %v, want NotFound", err)
	}
	g.want(t, outcomes{successes: 1})

	// What cannot be encoded, or is too large, says nothing of the server.
	stream = open(t, t.Context(), g.conn, &descChat)
	if err := stream.SendMsg("no message"); status.Code(err) != codes.Internal {
		t.Errorf("got %v, want Internal", err)
	}
	want(t, g.client, outcomes{successes: 1, ignored: 1})
	stream, err := g.conn.NewStream(t.Context(), &descChat, methodChat, grpc.MaxCallSendMsgSize(10))
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(wrapperspb.String("more than ten bytes")); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want ResourceExhausted", err)
	}
	want(t, g.client, outcomes{successes: 1, ignored: 2})

	// Any other error ends the stream as what it is.
	gone := status.Error(codes.Unavailable, "")
	f := &fake{send: func() error { return gone }}
	if err := f.open(t, t.Context(), &fuseboxgrpc.Client{Breaker: g.client}).SendMsg(nil); !errors.Is(err, gone) {
		t.Errorf("got %v, want it unchanged", err)
	}
	want(t, g.client, outcomes{successes: 1, failures: 1, ignored: 2})
}

// TestTheLeaseOfAProbeIsRenewed moves the clock by 20 s, five times, under
// leases of 30 s.
func TestTheLeaseOfAProbeIsRenewed(t *testing.T) {
	const step, steps = 20 * time.Second, 5
	alive := func(t *testing.T, b *fusebox.Breaker) {
		t.Helper()
		if s := b.Snapshot(); s.State != fusebox.HalfOpen || s.Outstanding != 1 {
			t.Fatalf("%s is %v with %d probes outstanding, want half-open with one", b.Name(), s.State, s.Outstanding)
		}
	}
	t.Run("by messages received", func(t *testing.T) {
		next := make(chan struct{})
		g := guard(t, handlers{stream: func(stream grpc.ServerStream) error {
			for range next {
				stream.SendMsg(wrapperspb.String("x"))
			}
			return nil
		}}, nil)
		halfOpen(t, g.client)
		halfOpen(t, g.server) // by messages sent
		stream := open(t, t.Context(), g.conn, &descDown)
		send(t, stream, "go")
		stream.CloseSend()
		for range steps {
			next <- struct{}{}
			receive(t, stream)
			next <- struct{}{} // the handler is back: it has renewed
			receive(t, stream)
			g.clock.Advance(step)
			alive(t, g.client)
			alive(t, g.server)
		}
		close(next)
		stream.RecvMsg(new(text))
		g.want(t, outcomes{successes: 1})
	})
	t.Run("by messages sent", func(t *testing.T) {
		got := make(chan struct{})
		g := guard(t, handlers{stream: func(stream grpc.ServerStream) error {
			for stream.RecvMsg(new(text)) == nil {
				got <- struct{}{}
			}
			return stream.SendMsg(wrapperspb.String("done"))
		}}, nil)
		halfOpen(t, g.client)
		halfOpen(t, g.server) // by messages received
		stream := open(t, t.Context(), g.conn, &descUp)
		for range steps {
			send(t, stream, "x")
			<-got
			g.clock.Advance(step)
			alive(t, g.client)
			alive(t, g.server)
		}
		stream.CloseSend()
		receive(t, stream)
		g.want(t, outcomes{successes: 1})
	})
	t.Run("by the head", func(t *testing.T) {
		head, end := make(chan struct{}), make(chan struct{})
		g := guard(t, handlers{stream: func(stream grpc.ServerStream) error {
			head <- struct{}{}
			<-head
			stream.SendHeader(metadata.Pairs("a", "b"))
			head <- struct{}{}
			<-end
			return nil
		}}, nil)
		halfOpen(t, g.client)
		halfOpen(t, g.server)
		stream := open(t, t.Context(), g.conn, &descChat)
		<-head
		g.clock.Advance(step)
		head <- struct{}{}
		<-head
		if md, err := stream.Header(); err != nil || len(md.Get("a")) == 0 {
			t.Fatalf("head %v, %v", md, err)
		}
		g.clock.Advance(step)
		alive(t, g.client)
		alive(t, g.server)
		close(end)
		stream.RecvMsg(new(text))
		g.want(t, outcomes{successes: 1})
	})
	t.Run("by nothing else", func(t *testing.T) {
		g := guard(t, handlers{stream: untilDone}, nil)
		halfOpen(t, g.client)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := open(t, ctx, g.conn, &descChat)
		receive(t, stream)
		g.clock.Advance(30 * time.Second)
		if s := g.client.State(); s != fusebox.Open {
			t.Errorf("a silent probe: %v, want open", s)
		}
		cancel()
		want(t, g.client, outcomes{late: 1})
	})
}

// TestTheHeadRenewsTheLeaseOfAProbe although the program asks for messages
// only. A lease is 30 s; the time is that of a bubble.
func TestTheHeadRenewsTheLeaseOfAProbe(t *testing.T) {
	const silence = 20 * time.Second
	for _, c := range []struct {
		name  string
		serve func(grpc.ServerStream) error
		want  outcomes
	}{
		{"head, silence, message, silence, end", func(stream grpc.ServerStream) error {
			time.Sleep(silence)
			if err := stream.SendHeader(nil); err != nil {
				return err
			}
			time.Sleep(silence)
			if err := stream.SendMsg(wrapperspb.String("first")); err != nil {
				return err
			}
			time.Sleep(silence)
			return stream.SendMsg(wrapperspb.String("last"))
		}, outcomes{successes: 1}},
		{"no head", func(stream grpc.ServerStream) error {
			time.Sleep(2 * silence)
			return stream.SendMsg(wrapperspb.String("first"))
		}, outcomes{late: 1}},
		{"head, and silence for longer than a lease", func(stream grpc.ServerStream) error {
			if err := stream.SendHeader(nil); err != nil {
				return err
			}
			time.Sleep(2 * silence)
			return nil
		}, outcomes{late: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := fusebox.New("test", fusebox.Config{Consecutive: 3, Probes: 1, ProbeTimeout: 30 * time.Second, OpenFor: time.Hour, OpenForMax: time.Hour})
				client := fuseboxgrpc.Client{Breaker: b}
				conn := memory(t, handlers{stream: c.serve}, nil, client.DialOptions()...)
				halfOpen(t, b)
				stream := open(t, t.Context(), conn, &descChat)
				var err error
				for err == nil {
					err = stream.RecvMsg(new(text))
				}
				if !errors.Is(err, io.EOF) {
					t.Errorf("got %v, want EOF", err)
				}
				want(t, b, c.want)
			})
		})
	}
}

// TestC90GRPCRetriesTheStreamOfAProbe: asking for its head does not stop that.
func TestC90GRPCRetriesTheStreamOfAProbe(t *testing.T) {
	const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 4, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["UNAVAILABLE"]}}]}`
	for _, c := range []struct {
		name   string
		fails  int64
		served int64
		code   codes.Code
		want   outcomes
	}{
		{"which succeeds at last", 3, 4, codes.OK, outcomes{successes: 1}},
		{"which never does", 100, 4, codes.Unavailable, outcomes{failures: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var served atomic.Int64
			var clock fuseboxtest.Clock
			client := fuseboxgrpc.Client{Breaker: breaker(&clock)}
			conn := pair(t, &client, nil, handlers{stream: func(stream grpc.ServerStream) error {
				if served.Add(1) <= c.fails {
					return status.Error(codes.Unavailable, "")
				}
				return echo(stream)
			}}, grpc.WithDefaultServiceConfig(policy))
			halfOpen(t, client.Breaker)
			stream := open(t, t.Context(), conn, &descChat)
			send(t, stream, "x")
			stream.CloseSend()
			err := error(nil)
			for err == nil {
				err = stream.RecvMsg(new(text))
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if status.Code(err) != c.code || served.Load() != c.served {
				t.Errorf("%v after %d attempts, want %v after %d", err, served.Load(), c.code, c.served)
			}
			want(t, client.Breaker, c.want)
		})
	}
}

func TestSlowIsWhatAStreamTakesToBegin(t *testing.T) {
	end := make(chan struct{})
	first := func(stream grpc.ServerStream) error {
		stream.SendMsg(wrapperspb.String("first"))
		select {
		case <-end:
			return nil
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
	silent := func(stream grpc.ServerStream) error { <-stream.Context().Done(); return stream.Context().Err() }
	slowAfter := func(c *fusebox.Config) { c.SlowAfter = time.Minute }
	slow := func(t *testing.T, b *fusebox.Breaker, n uint64) {
		t.Helper()
		if got := b.Snapshot().Totals.Slow; got != n {
			t.Errorf("%s: %d slow, want %d", b.Name(), got, n)
		}
	}
	t.Run("a long stream is not slow", func(t *testing.T) {
		g := guard(t, handlers{stream: first}, slowAfter)
		stream := open(t, t.Context(), g.conn, &descChat)
		receive(t, stream)
		g.clock.Advance(time.Hour)
		end <- struct{}{}
		stream.RecvMsg(new(text))
		g.want(t, outcomes{successes: 1})
		slow(t, g.client, 0)
		slow(t, g.server, 0)
	})
	t.Run("nor is leaving one a hang", func(t *testing.T) {
		g := guard(t, handlers{stream: first}, slowAfter)
		ctx, cancel := context.WithCancel(t.Context())
		stream := open(t, ctx, g.conn, &descChat)
		receive(t, stream)
		g.clock.Advance(time.Hour)
		cancel()
		g.want(t, outcomes{ignored: 1})
	})
	t.Run("leaving one that never began is", func(t *testing.T) {
		g := guard(t, handlers{stream: silent}, slowAfter)
		ctx, cancel := context.WithCancel(t.Context())
		stream := open(t, ctx, g.conn, &descChat)
		send(t, stream, "which is no sign of the server")
		g.clock.Advance(time.Hour)
		cancel()
		if err := stream.RecvMsg(new(text)); status.Code(err) != codes.Canceled {
			t.Errorf("got %v", err)
		}
		want(t, g.client, outcomes{failures: 1})
		slow(t, g.client, 1)
	})
	t.Run("one without a message is judged as a whole", func(t *testing.T) {
		g := guard(t, handlers{stream: func(stream grpc.ServerStream) error {
			stream.RecvMsg(new(text)) // no sign of the handler
			end <- struct{}{}
			<-end
			return nil
		}}, slowAfter)
		stream := open(t, t.Context(), g.conn, &descChat)
		send(t, stream, "x")
		<-end
		g.clock.Advance(time.Hour)
		end <- struct{}{}
		stream.RecvMsg(new(text))
		g.want(t, outcomes{successes: 1})
		slow(t, g.client, 1)
		slow(t, g.server, 1)
	})
}

// fake is a stream under the client's interceptor that does as it is told, and
// tells of the end of its context as gRPC does.
type fake struct {
	grpc.ClientStream
	header   func() (metadata.MD, error) // nil: there is none
	recv     func() error
	send     func() error // nil: all goes well
	finished []func(error)
	unwatch  func() bool
	once     sync.Once
}

func (f *fake) Header() (metadata.MD, error) {
	if f.header == nil {
		return nil, nil
	}
	return f.header()
}

func (f *fake) RecvMsg(any) error {
	err := f.recv()
	switch {
	case errors.Is(err, io.EOF):
		f.finish(nil)
	case err != nil:
		f.finish(err)
	}
	return err
}

func (f *fake) SendMsg(any) error {
	if f.send == nil {
		return nil
	}
	return f.send()
}

func (f *fake) finish(err error) {
	f.once.Do(func() {
		f.unwatch()
		for _, tell := range f.finished {
			tell(err)
		}
	})
}

func (f *fake) open(tb testing.TB, ctx context.Context, c *fuseboxgrpc.Client) grpc.ClientStream {
	tb.Helper()
	stream, err := c.StreamInterceptor()(ctx, &descChat, nil, "", func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		for _, o := range opts {
			f.finished = append(f.finished, o.(grpc.OnFinishCallOption).OnFinish)
		}
		f.unwatch = context.AfterFunc(ctx, func() { f.finish(status.FromContextError(ctx.Err()).Err()) })
		return f, nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return stream
}

func TestTheHeadOfAStreamThatEnds(t *testing.T) {
	b := fusebox.New("test", fusebox.Config{})
	client := fuseboxgrpc.Client{Breaker: b}
	gone := status.Error(codes.Unavailable, "")
	f := &fake{header: func() (metadata.MD, error) { return nil, gone }} // older versions of gRPC, and interceptors
	if _, err := f.open(t, t.Context(), &client).Header(); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	want(t, b, outcomes{failures: 1})

	f = &fake{header: func() (metadata.MD, error) { return nil, nil }, recv: func() error { return gone }}
	stream := f.open(t, t.Context(), &client)
	stream.Header()
	want(t, b, outcomes{failures: 1})
	stream.RecvMsg(nil)
	want(t, b, outcomes{failures: 2})

	// No head is no sign of life either.
	var clock fuseboxtest.Clock
	client.Breaker = fusebox.New("test", fusebox.Config{SlowAfter: time.Minute, Now: clock.Now})
	f.recv = func() error { return io.EOF }
	stream = f.open(t, t.Context(), &client)
	stream.Header()
	clock.Advance(time.Hour)
	stream.RecvMsg(nil)
	if n := client.Breaker.Snapshot().Totals.Slow; n != 1 {
		t.Errorf("%d slow, want 1", n)
	}
}

// counting is Classify, and counts.
func counting(n *atomic.Int64) func(context.Context, error) fusebox.Outcome {
	return func(ctx context.Context, err error) fusebox.Outcome {
		n.Add(1)
		return fuseboxgrpc.Classify(ctx, err)
	}
}

// TestEndsRace has a stream ended from three sides while it is being renewed.
func TestEndsRace(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := fusebox.New("test", fusebox.Config{FailureRate: -1, Consecutive: -1, Probes: 1 << 20, CloseAfter: 1 << 20, ReopenAfter: 1 << 20})
	halfOpen(t, b)
	var judged atomic.Int64
	client := fuseboxgrpc.Client{Breaker: b, Classify: counting(&judged)}
	const rounds = 2000
	for range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var left atomic.Int64
		left.Store(random.Int64N(4))
		f := &fake{header: func() (metadata.MD, error) { return nil, io.ErrUnexpectedEOF }, recv: func() error {
			if left.Add(-1) < 0 {
				return io.EOF
			}
			return nil
		}}
		stream := f.open(t, ctx, &client)
		var wg sync.WaitGroup
		wg.Go(func() {
			for stream.RecvMsg(nil) == nil {
			}
		})
		wg.Go(func() { stream.SendMsg(nil); stream.SendMsg(nil) })
		wg.Go(func() { stream.SendMsg(nil); stream.Header() })
		wg.Go(cancel)
		wg.Wait()
		stream.SendMsg(nil) // after the end
	}
	eventually(t, "all are counted, once", func() bool {
		o, s := counted(b), b.Snapshot()
		if sum := o.successes + o.failures + o.ignored + o.late; sum > rounds || o.late > 0 {
			t.Fatalf("%+v, want %d in all", o, rounds)
		}
		return o.successes+o.failures+o.ignored == rounds && s.Outstanding == 0
	})
	if n := judged.Load(); n != rounds {
		t.Errorf("%d streams were judged %d times", rounds, n)
	}
}

// TestAnObserverMayEndTheStreamThatCallsIt: renewing a lease commits what time
// has changed, and tells of it.
func TestAnObserverMayEndTheStreamThatCallsIt(t *testing.T) {
	var clock fuseboxtest.Clock
	config := settings(&clock)
	config.Probes = 2
	b := fusebox.New("test", config)
	halfOpen(t, b)
	dead, err := b.Allow(t.Context()) // the other probe, whose lease will end
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(20 * time.Second)
	var judged atomic.Int64
	client := fuseboxgrpc.Client{Breaker: b, Classify: counting(&judged)}
	f := &fake{recv: func() error { return nil }}
	stream := f.open(t, t.Context(), &client)
	told := 0
	b.Observe(fusebox.Observer{Transition: func(fusebox.Transition) {
		told++
		f.recv = func() error { return io.EOF }
		stream.RecvMsg(nil)
	}})
	clock.Advance(10 * time.Second)
	stream.RecvMsg(nil)
	if n := judged.Load(); told != 1 || n != 1 {
		t.Errorf("told %d times, judged %d times, want once each", told, n)
	}
	want(t, b, outcomes{late: 1})
	dead.Record(fusebox.Success)
	want(t, b, outcomes{late: 2})
}

// TestAnEndedStreamIsForgotten, although its context lives on.
func TestAnEndedStreamIsForgotten(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := fuseboxgrpc.Client{Breaker: fusebox.New("test", fusebox.Config{})}
	var freed atomic.Int64
	for range 10 {
		f := &fake{recv: func() error { return io.EOF }}
		runtime.AddCleanup(f, func(int) { freed.Add(1) }, 0)
		f.open(t, ctx, &client).RecvMsg(nil)
	}
	eventually(t, "they are collected", func() bool {
		runtime.GC()
		return freed.Load() >= 9 // one may be on the stack yet
	})
}

func TestAStreamWhoseContextNeverEnds(t *testing.T) {
	b := fusebox.New("test", fusebox.Config{})
	client := fuseboxgrpc.Client{Breaker: b}
	stream := (&fake{recv: func() error { return io.EOF }}).open(t, context.Background(), &client)
	stream.RecvMsg(nil)
	want(t, b, outcomes{successes: 1})
}

// A stream that broke off after an hour was not slow: it had answered at once.
func TestALongStreamThatFailsIsNotSlow(t *testing.T) {
	g := guard(t, handlers{stream: func(s grpc.ServerStream) error {
		if err := s.SendMsg(wrapperspb.String("hello")); err != nil {
			return err
		}
		if err := s.RecvMsg(new(text)); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "gone")
	}}, func(c *fusebox.Config) { c.SlowAfter = time.Minute })
	chat := open(t, t.Context(), g.conn, &descChat)
	receive(t, chat)
	g.clock.Advance(time.Hour)
	send(t, chat, "go")
	if err := chat.RecvMsg(new(text)); status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
	for name, b := range map[string]*fusebox.Breaker{"client": g.client, "server": g.server} {
		eventually(t, name+" counts", func() bool { return counted(b).failures == 1 })
		if s := b.Snapshot(); s.Totals.Slow != 0 {
			t.Errorf("%s: %+v", name, s.Totals)
		}
	}
}

// Judged by its head, a probe that lives for hours holds nobody up.
func TestJudgeHead(t *testing.T) {
	var clock fuseboxtest.Clock
	client := fuseboxgrpc.Client{Breaker: breaker(&clock), JudgeHead: true}
	server := fuseboxgrpc.Server{Breaker: breaker(&clock), JudgeHead: true}
	conn := pair(t, &client, &server, handlers{})
	halfOpen(t, client.Breaker)
	halfOpen(t, server.Breaker)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range client.Breaker.Config().CloseAfter {
		chat := open(t, ctx, conn, &descChat)
		send(t, chat, "hello")
		receive(t, chat)
	}
	for name, b := range map[string]*fusebox.Breaker{"client": client.Breaker, "server": server.Breaker} {
		if s := b.State(); s != fusebox.Closed {
			t.Errorf("the %s's breaker is %v with its probes alive", name, s)
		}
	}
	cancel() // what becomes of them later counts nowhere
	eventually(t, "nothing else is counted", func() bool {
		return counted(client.Breaker).successes == uint64(client.Breaker.Config().CloseAfter) && counted(client.Breaker).ignored == 0
	})
}

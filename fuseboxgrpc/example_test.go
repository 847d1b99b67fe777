package fuseboxgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxgrpc"
	"github.com/fusebox-go/fusebox/retry"
)

var plaintext = grpc.WithTransportCredentials(insecure.NewCredentials())

// start serves gRPC's health service on a loopback port.
func start(opts ...grpc.ServerOption) (addr string, stop func()) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(opts...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	go server.Serve(listener)
	return listener.Addr().String(), server.Stop
}

func Example() {
	addr, stop := start()

	var breakers fuseboxgrpc.Client // one breaker a target
	conn, err := grpc.NewClient(addr, append(breakers.DialOptions(), plaintext)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	client := healthpb.NewHealthClient(conn)

	ctx := context.Background()
	reply, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
	fmt.Println(reply.GetStatus(), err)

	stop()
	for {
		_, err = client.Check(ctx, &healthpb.HealthCheckRequest{})
		if errors.Is(err, fusebox.ErrOpen) {
			break
		}
	}
	fmt.Println(status.Code(err), errors.Is(err, fusebox.ErrOpen))
	// Output:
	// SERVING <nil>
	// Unavailable true
}

func ExampleClient() {
	addr, stop := start()
	defer stop()

	// One breaker a method of each target, with settings, and in sight.
	registry := &fusebox.Registry{Config: func(string) fusebox.Config {
		return fusebox.Config{Consecutive: 5}
	}}
	breakers := fuseboxgrpc.Client{
		Registry: registry,
		Key: func(_ context.Context, method string, conn *grpc.ClientConn) string {
			return conn.Target() + method
		},
	}
	conn, err := grpc.NewClient(addr, append(breakers.DialOptions(), plaintext)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()

	_, err = healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{Service: "no such"})
	fmt.Println(status.Code(err))
	for key, breaker := range registry.All() {
		fmt.Println(key == addr+healthpb.Health_Check_FullMethodName, breaker.Snapshot().Totals.Successes)
	}
	// Output:
	// NotFound
	// true 1
}

func ExampleClient_DialOptions() {
	payments := fuseboxgrpc.Client{Breaker: fusebox.New("payments", fusebox.Config{})}
	payments.Breaker.Override(fusebox.ForceOpen, fusebox.Note{Reason: "maintenance", By: "ada"})

	conn, err := grpc.NewClient("localhost:9000", append(payments.DialOptions(), plaintext)...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	_, err = healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(err)
	// Output: fusebox: "payments" is open (force-open by ada: maintenance)
}

func ExampleClient_UnaryInterceptor() {
	addr, stop := start()
	defer stop()
	retries := retry.New(retry.Config{})
	retrying := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		return retries.Do(ctx, func(ctx context.Context) error {
			return invoker(ctx, method, req, reply, conn, opts...)
		})
	}

	// Each attempt is a call to the breaker, and a rejection ends the attempts.
	var breakers fuseboxgrpc.Client
	conn, err := grpc.NewClient(addr, grpc.WithChainUnaryInterceptor(retrying, breakers.UnaryInterceptor()), plaintext)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	reply, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(reply.GetStatus(), err)
	// Output: SERVING <nil>
}

func ExampleClient_StreamInterceptor() {
	addr, stop := start()
	defer stop()
	breaker := fusebox.New("health", fusebox.Config{})
	watches := fuseboxgrpc.Client{Breaker: breaker}
	conn, err := grpc.NewClient(addr, grpc.WithStreamInterceptor(watches.StreamInterceptor()), plaintext)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := stream.Recv()
	fmt.Println(reply.GetStatus(), err)
	fmt.Println("finished:", breaker.Snapshot().Totals.Ignored)

	cancel() // whoever leaves a stream says nothing against the server
	for breaker.Snapshot().Totals.Ignored == 0 {
		_, _ = stream.Recv()
	}
	fmt.Println("finished:", breaker.Snapshot().Totals.Ignored)
	// Output:
	// SERVING <nil>
	// finished: 0
	// finished: 1
}

func ExampleServer() {
	var breakers fuseboxgrpc.Server // one breaker a method
	addr, stop := start(breakers.ServerOptions()...)
	defer stop()

	conn, err := grpc.NewClient(addr, plaintext)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	reply, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(reply.GetStatus(), err)
	// Output: SERVING <nil>
}

func ExampleServer_ServerOptions() {
	registry := &fusebox.Registry{}
	breakers := fuseboxgrpc.Server{Registry: registry}
	addr, stop := start(breakers.ServerOptions()...)
	defer stop()
	until := fusebox.Note{Reason: "migration", Until: time.Now().Add(time.Hour)}
	registry.Get(healthpb.Health_Check_FullMethodName).Override(fusebox.ForceOpen, until)

	conn, err := grpc.NewClient(addr, plaintext)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	_, err = healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
	wait, ok := fuseboxgrpc.RetryAfter(err)
	fmt.Println(status.Code(err), wait.Round(time.Minute), ok)
	// Output: Unavailable 1h0m0s true
}

func ExampleServer_UnaryInterceptor() {
	breaker := fusebox.New("database", fusebox.Config{})
	guard := fuseboxgrpc.Server{Breaker: breaker}
	handler := func(context.Context, any) (any, error) {
		return nil, status.Error(codes.Internal, "no connection")
	}
	_, err := guard.UnaryInterceptor()(context.Background(), nil, &grpc.UnaryServerInfo{}, handler)
	fmt.Println(err, breaker.Snapshot().Totals.Failures)
	// Output: rpc error: code = Internal desc = no connection 1
}

func ExampleServer_StreamInterceptor() {
	// Only the streams of this server are guarded.
	breaker := fusebox.New("streams", fusebox.Config{})
	guard := fuseboxgrpc.Server{Breaker: breaker}
	addr, stop := start(grpc.StreamInterceptor(guard.StreamInterceptor()))
	defer stop()

	conn, err := grpc.NewClient(addr, plaintext)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	stream, err := healthpb.NewHealthClient(conn).Watch(context.Background(), &healthpb.HealthCheckRequest{})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := stream.Recv()
	fmt.Println(reply.GetStatus(), err)
	// Output: SERVING <nil>
}

func ExampleClassify() {
	conflicts := fusebox.New("orders", fusebox.Config{
		Classify: func(ctx context.Context, err error) fusebox.Outcome {
			if status.Code(err) == codes.Aborted {
				return fusebox.Failure
			}
			return fuseboxgrpc.Classify(ctx, err)
		},
	})
	for _, code := range []codes.Code{codes.NotFound, codes.Aborted} {
		_ = conflicts.Do(context.Background(), func(context.Context) error { return status.Error(code, "") })
	}
	totals := conflicts.Snapshot().Totals
	fmt.Println(totals.Successes, totals.Failures)
	// Output: 1 1
}

func ExampleRetryAfter() {
	s, _ := status.New(codes.Unavailable, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Millisecond)})
	answers := []error{s.Err(), nil}

	waited := retry.New(retry.Config{Jitter: -1, OnRetry: func(_ context.Context, e retry.Event) { fmt.Println("wait", e.Delay) }})
	err := waited.Do(context.Background(), func(context.Context) error {
		err := answers[0]
		answers = answers[1:]
		if d, ok := fuseboxgrpc.RetryAfter(err); ok {
			err = retry.After(err, d)
		}
		return err
	})
	fmt.Println(err)
	// Output:
	// wait 1ms
	// <nil>
}

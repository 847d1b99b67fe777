// Command grpc shows breakers on both sides of gRPC: the server's guards a
// method, the client's a target. It needs nothing from outside.
//
// The service loses its database for a while. The server's breaker opens first
// and spares it; its rejections are failures to the client, whose breaker then
// spares the server. Either says when to come back.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxgrpc"
)

// service is gRPC's health service; it cannot answer without its database.
type service struct {
	healthpb.UnimplementedHealthServer
	down  atomic.Bool
	calls atomic.Int64 // that reached it
}

func (s *service) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	s.calls.Add(1)
	if s.down.Load() {
		return nil, status.Error(codes.Unavailable, "no database")
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // it takes one or two
	defer cancel()
	tell := fusebox.Observer{Transition: func(t fusebox.Transition) {
		fmt.Fprintf(w, "  %s: %v → %v: %s\n", t.Name, t.From, t.To, t.Why())
	}}

	// The server: a breaker a method.
	methods := fuseboxgrpc.Server{Registry: &fusebox.Registry{Config: func(string) fusebox.Config {
		return fusebox.Config{Consecutive: 3, OpenFor: 500 * time.Millisecond, Observers: []fusebox.Observer{tell}}
	}}}
	server := grpc.NewServer(methods.ServerOptions()...)
	health := new(service)
	healthpb.RegisterHealthServer(server, health)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go server.Serve(listener) //nolint:errcheck // it ends with Stop
	defer server.Stop()

	// The client: a breaker a target.
	targets := fuseboxgrpc.Client{Registry: &fusebox.Registry{Config: func(string) fusebox.Config {
		return fusebox.Config{Consecutive: 5, OpenFor: time.Second, Observers: []fusebox.Observer{tell}}
	}}}
	conn, err := grpc.NewClient(listener.Addr().String(), append(targets.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	client := healthpb.NewHealthClient(conn)
	breaker := targets.Registry.Get(conn.Target())

	// ask makes a call and returns how long it is asked to wait.
	ask := func() time.Duration {
		reply, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
		after, said := fuseboxgrpc.RetryAfter(err)
		switch {
		case err == nil:
			fmt.Fprintf(w, "%v\n", reply.GetStatus())
		case errors.Is(err, fusebox.ErrOpen):
			fmt.Fprintf(w, "rejected here: %v\n", err)
		case said:
			fmt.Fprintf(w, "rejected there: %v\n", err)
		default:
			fmt.Fprintf(w, "failed: %v\n", err)
		}
		return after
	}

	fmt.Fprintln(w, "All is well.")
	ask()

	fmt.Fprintln(w, "\nThe database is gone.")
	health.down.Store(true)
	for breaker.State() == fusebox.Closed && ctx.Err() == nil {
		ask()
	}

	fmt.Fprintln(w, "\nIt is back. The client waits as long as it is told.")
	health.down.Store(false)
	for breaker.State() != fusebox.Closed && ctx.Err() == nil {
		time.Sleep(ask())
	}
	fmt.Fprintf(w, "%d of these calls reached the service.\n", health.calls.Load())
	return ctx.Err()
}

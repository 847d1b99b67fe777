// Command redis shows two ways to guard go-redis by a breaker, which are there
// to be copied: its Limiter option, and a hook, which is the better one, as
// guard.go explains. It needs nothing from outside: the server runs in process.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

func main() {
	logging.Disable() // the client logs failed dials; here they are the show
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	fmt.Fprintln(w, "By the Limiter option:")
	err := show(w, func(o *redis.Options, b *fusebox.Breaker) *redis.Client {
		o.Limiter = NewLimiter(b)
		return redis.NewClient(o)
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "\nBy a hook:")
	return show(w, func(o *redis.Options, b *fusebox.Breaker) *redis.Client {
		client := redis.NewClient(o)
		client.AddHook(NewHook(b))
		return client
	})
}

func show(w io.Writer, guarded func(*redis.Options, *fusebox.Breaker) *redis.Client) error {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return err
	}
	defer server.Close()
	var clock fuseboxtest.Clock // so that the show takes no time
	breaker := fusebox.New("sessions", fusebox.Config{
		Classify: Classify, Consecutive: 5,
		Now: clock.Now, OpenJitter: -1,
	})
	client := guarded(&redis.Options{
		Addr:          server.Addr(),
		MaxRetries:    -1, // a retry belongs around the breaker, where a rejection ends it
		DialerRetries: 1,
	}, breaker)
	defer client.Close() //nolint:errcheck // nothing is lost
	ctx := context.Background()

	fmt.Fprintf(w, "  set user: %v\n", client.Set(ctx, "user", "ann", 0).Err())
	fmt.Fprintf(w, "  get nobody: %v\n", client.Get(ctx, "nobody").Err())
	fmt.Fprintf(w, "  incr user: %v\n", client.Incr(ctx, "user").Err())
	fmt.Fprintf(w, "  The breaker is %v: %d failures.\n", breaker.State(), breaker.Snapshot().Totals.Failures)

	server.Close()
	failed := 0
	for ; breaker.State() == fusebox.Closed; failed++ {
		client.Get(ctx, "user")
	}
	fmt.Fprintf(w, "  The server is gone: %d commands failed.\n", failed)
	fmt.Fprintf(w, "  get user: %v\n", client.Get(ctx, "user").Err())

	if err := server.Restart(); err != nil {
		return err
	}
	clock.Advance(time.Second)
	for breaker.State() != fusebox.Closed {
		if err := client.Get(ctx, "user").Err(); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "  The server is back: the breaker is %v.\n", breaker.State())
	return nil
}

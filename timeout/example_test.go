package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/timeout"
)

// hang heeds its context, as what does I/O through one does.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Every attempt has its timeout: without one a dependency that hangs shows a
// breaker nothing.
func Example() {
	breaker := fusebox.New("payments", fusebox.Config{})
	chain := fusebox.Chain(breaker, timeout.New(5*time.Millisecond))

	err := chain.Do(context.Background(), hang)
	fmt.Println(err)
	fmt.Println(breaker.Snapshot().Counts.Failures, "failure")
	// Output:
	// fusebox: time limit of 5ms exceeded: context deadline exceeded
	// 1 failure
}

func ExampleNew() {
	fmt.Println(timeout.New(time.Second))
	// Output: timeout(1s)
}

func ExamplePolicy() {
	quick, patient := timeout.New(50*time.Millisecond), timeout.New(2*time.Second)
	fmt.Println(quick, patient)
	// Output: timeout(50ms) timeout(2s)
}

func ExamplePolicy_Limit() {
	fmt.Println(timeout.New(time.Second).Limit())
	// Output: 1s
}

// The cause tells whose deadline it was: here the caller's came first.
func ExamplePolicy_Do() {
	limit := timeout.New(time.Hour)
	ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Millisecond, errors.New("page budget used up"))
	defer cancel()

	err := limit.Do(ctx, func(ctx context.Context) error {
		err := hang(ctx)
		fmt.Println("cause:", context.Cause(ctx))
		return err
	})
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, timeout.ErrTimeout))
	// Output:
	// cause: page budget used up
	// true false
}

func ExamplePolicy_Stats() {
	limit := timeout.New(5 * time.Millisecond)
	_ = limit.Do(context.Background(), hang)
	fmt.Printf("%+v\n", limit.Stats())
	// Output: {Timeouts:1 Abandoned:0 Dropped:0 Panics:0}
}

func ExampleStats() {
	limit := timeout.New(time.Hour)
	_, err := timeout.Abandon(context.Background(), limit, func(context.Context) (int, error) { return 7, nil })
	stats := limit.Stats()
	fmt.Println(err, stats.Timeouts, "timeouts,", stats.Abandoned, "abandoned")
	// Output: <nil> 0 timeouts, 0 abandoned
}

func ExampleErrTimeout() {
	err := timeout.New(5*time.Millisecond).Do(context.Background(), hang)
	fmt.Println(errors.Is(err, timeout.ErrTimeout))
	// Output: true
}

func ExampleError() {
	err := timeout.New(5*time.Millisecond).Do(context.Background(), hang)
	var e *timeout.Error
	if errors.As(err, &e) {
		fmt.Println(e.Limit(), e.Timeout())
	}
	// Output: 5ms true
}

func ExampleError_Limit() {
	inner, outer := timeout.New(5*time.Millisecond), timeout.New(time.Hour)
	err := fusebox.Chain(outer, inner).Do(context.Background(), hang)
	var e *timeout.Error
	if errors.As(err, &e) {
		fmt.Println("it was the limit of", e.Limit())
	}
	// Output: it was the limit of 5ms
}

func ExampleError_Timeout() {
	err := timeout.New(5*time.Millisecond).Do(context.Background(), hang)
	var t interface{ Timeout() bool } // as os and net ask
	fmt.Println(errors.As(err, &t) && t.Timeout())
	// Output: true
}

func ExampleError_Temporary() {
	err := timeout.New(5*time.Millisecond).Do(context.Background(), hang)
	var t interface{ Temporary() bool } // the rest of net.Error
	fmt.Println(errors.As(err, &t) && t.Temporary())
	// Output: true
}

// What the function returned after the deadline is reached through the error.
func ExampleError_Unwrap() {
	err := timeout.New(5*time.Millisecond).Do(context.Background(), func(ctx context.Context) error {
		<-ctx.Done()
		return io.ErrUnexpectedEOF
	})
	fmt.Println(errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}

// The function does not look at its context. The breaker sees the timeout at
// once, and the function runs on without anybody waiting.
func ExampleAbandon() {
	breaker := fusebox.New("legacy", fusebox.Config{})
	limit := timeout.New(5 * time.Millisecond)
	proceed := make(chan bool)
	fetch := func(context.Context) (string, error) { <-proceed; return "Ada", nil }

	_, err := fusebox.Call(context.Background(), breaker, func(ctx context.Context) (string, error) {
		return timeout.Abandon(ctx, limit, fetch)
	})
	fmt.Println(err)
	fmt.Println(breaker.Snapshot().Counts.Failures, "failure,", limit.Stats().Abandoned, "abandoned")
	close(proceed)
	// Output:
	// fusebox: time limit of 5ms exceeded
	// 1 failure, 1 abandoned
}

// A panic on the other goroutine is raised where the caller waits.
func ExamplePanic() {
	defer func() {
		if p, ok := recover().(*timeout.Panic); ok {
			fmt.Println(p.Value, strings.Contains(string(p.Stack), "goroutine"))
		}
	}()
	_, _ = timeout.Abandon(context.Background(), timeout.New(time.Hour), func(context.Context) (int, error) {
		panic("no such user")
	})
	// Output: no such user true
}

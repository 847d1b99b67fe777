// Command ratelimit shows how golang.org/x/time/rate joins a chain: its limiter
// is a policy in a few lines. It needs nothing from outside.
//
// Twelve calls are made at once under a limit of five and one every 100 ms
// more. Those over the limit are refused, and because the refusal says so, a
// breaker around the limiter does not take it for a failure of the dependency.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/time/rate"

	"github.com/fusebox-go/fusebox"
)

// ErrLimited is matched by the refusal of a rate limiter.
var ErrLimited = errors.New("rate limit reached")

// refusal is a refusal as every policy makes it: breaker and retry know it by
// these two methods.
type refusal struct {
	after time.Duration
	cause error // of the context that ended a wait
}

func (refusal) Error() string               { return ErrLimited.Error() }
func (refusal) Is(target error) bool        { return target == ErrLimited }
func (r refusal) Unwrap() error             { return r.cause }
func (refusal) Rejected() bool              { return true }
func (r refusal) RetryAfter() time.Duration { return r.after }

// Limited is l as a policy that refuses a call for which there is no token. A
// refused call takes none.
func Limited(l *rate.Limiter) fusebox.Policy {
	return fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !l.Allow() { // (Reserve and Cancel lose tokens where others reserve in between)
			return refusal{after: untilToken(l)}
		}
		return fn(ctx)
	})
}

// untilToken returns about how long it takes until there is a token; 0: never.
func untilToken(l *rate.Limiter) time.Duration {
	if l.Limit() <= 0 || l.Burst() < 1 {
		return 0
	}
	missing := max(1-l.Tokens(), 0)
	return time.Duration(missing / float64(l.Limit()) * float64(time.Second))
}

// Waiting is l as a policy under which calls wait for their token, no longer
// than their context allows: Wait refuses at once where that is too short.
func Waiting(l *rate.Limiter) fusebox.Policy {
	return fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := l.Wait(ctx); err != nil {
			return refusal{cause: ctx.Err()} // the dependency was not asked
		}
		return fn(ctx)
	})
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	breaker := fusebox.New("payments", fusebox.Config{})
	limiter := rate.NewLimiter(rate.Every(100*time.Millisecond), 5)
	chain := fusebox.Chain(breaker, Limited(limiter))
	for i := range 12 {
		err := chain.Do(context.Background(), func(context.Context) error { return nil })
		if after, refused := fusebox.Rejected(err); refused {
			fmt.Fprintf(w, "call %d: %v, try again in %v\n", i, err, after.Round(10*time.Millisecond))
		} else {
			fmt.Fprintf(w, "call %d: made\n", i)
		}
	}
	t := breaker.Snapshot().Totals
	fmt.Fprintf(w, "The breaker is %v: %d successes, %d failures, %d ignored.\n", breaker.State(), t.Successes, t.Failures, t.Ignored)
}

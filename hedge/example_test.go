package hedge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/hedge"
	"github.com/fusebox-go/fusebox/retry"
)

// unlucky returns a function whose first call hangs until it is cancelled.
func unlucky() func(context.Context) (string, error) {
	var calls atomic.Int32
	return func(ctx context.Context) (string, error) {
		if calls.Add(1) == 1 {
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "Ada", nil
	}
}

// The first attempt hangs, the second answers. The breaker sees one success,
// and ignores the loser.
func Example() {
	breaker := fusebox.New("users", fusebox.Config{})
	users := hedge.New(hedge.Config{Delay: 5 * time.Millisecond})

	user, err := hedge.Call(context.Background(), breaker, unlucky(), users)
	fmt.Println(user, err)
	fmt.Println(breaker.Snapshot().Counts.Failures, "failures")
	// Output:
	// Ada <nil>
	// 0 failures
}

// The zero Config learns when to hedge.
func ExampleNew() {
	fmt.Println(hedge.New(hedge.Config{}))
	fmt.Println(hedge.New(hedge.Config{Delay: 20 * time.Millisecond, Attempts: 3}))
	// Output:
	// hedge(2 attempts, after quantile 0.95)
	// hedge(3 attempts, after 20ms)
}

func ExampleConfig() {
	c := hedge.New(hedge.Config{}).Config()
	fmt.Println(c.Delay, c.Quantile, c.Attempts, c.Samples, c.MinSamples)
	// Output: 100ms 0.95 2 200 20
}

func ExampleConfig_Validate() {
	fmt.Println(hedge.Config{Attempts: -1}.Validate())
	// Output: fusebox/hedge: Config.Attempts is -1, must be from 1 to 100 (0: the default of 2)
}

func ExamplePolicy() {
	// One policy for each kind of call: they differ in latency.
	reads, searches := hedge.New(hedge.Config{}), hedge.New(hedge.Config{Delay: 50 * time.Millisecond, Quantile: 0.9})
	fmt.Println(reads)
	fmt.Println(searches)
	// Output:
	// hedge(2 attempts, after quantile 0.95)
	// hedge(2 attempts, after quantile 0.9)
}

func ExamplePolicy_Config() {
	fmt.Println(hedge.New(hedge.Config{Attempts: 3}).Config().Attempts)
	// Output: 3
}

// Until enough latencies are known, the delay is that of the Config.
func ExamplePolicy_Delay() {
	h := hedge.New(hedge.Config{})
	fmt.Println(h.Delay())
	for range 20 {
		_, _ = hedge.Call(context.Background(), nil, func(context.Context) (int, error) { return 1, nil }, h)
	}
	fmt.Println(h.Delay() < 100*time.Millisecond)
	// Output:
	// 100ms
	// true
}

func ExamplePolicy_Stats() {
	h := hedge.New(hedge.Config{Delay: 5 * time.Millisecond})
	_, _ = hedge.Call(context.Background(), nil, unlucky(), h)
	fmt.Printf("%+v\n", h.Stats())
	// Output: {Calls:1 Hedged:1 Won:1 Denied:0 Panics:0 Delay:5ms}
}

func ExampleStats() {
	h := hedge.New(hedge.Config{Delay: 50 * time.Millisecond})
	for range 2 {
		_, _ = hedge.Call(context.Background(), nil, unlucky(), h)
	}
	s := h.Stats()
	fmt.Printf("%d of %d calls answered by an extra attempt\n", s.Won, s.Calls)
	// Output: 2 of 2 calls answered by an extra attempt
}

// Every attempt of the call goes through the policy; nil stands for none.
func ExampleCall() {
	h := hedge.New(hedge.Config{Delay: 5 * time.Millisecond, CancelWinner: true})
	user, err := hedge.Call(context.Background(), nil, unlucky(), h)
	fmt.Println(user, err)
	// Output: Ada <nil>
}

// A chain of policies is a Doer, and so is one alone.
func ExampleDoer() {
	var through hedge.Doer = fusebox.New("users", fusebox.Config{})
	user, err := hedge.Call(context.Background(), through, unlucky(), hedge.New(hedge.Config{Delay: 5 * time.Millisecond}))
	fmt.Println(user, err)
	// Output: Ada <nil>
}

// A budget of package retry: an extra attempt for every two calls. What is
// retried is best given the same budget.
func ExampleBudget() {
	var budget hedge.Budget = retry.NewBudget(retry.BudgetConfig{Share: 0.5, MinPerSecond: -1})
	h := hedge.New(hedge.Config{Delay: 5 * time.Millisecond, Budget: budget})
	for _, patience := range []time.Duration{15 * time.Millisecond, time.Minute} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		user, err := hedge.Call(ctx, nil, unlucky(), h)
		cancel()
		fmt.Printf("%q %v\n", user, err)
	}
	fmt.Println(h.Stats().Denied, "denied,", h.Stats().Hedged, "hedged")
	// Output:
	// "" context deadline exceeded
	// "Ada" <nil>
	// 1 denied, 1 hedged
}

func ExampleErrLost() {
	cause := make(chan error, 1)
	var calls atomic.Int32
	_, _ = hedge.Call(context.Background(), nil, func(ctx context.Context) (int, error) {
		if calls.Add(1) == 1 {
			<-ctx.Done()
			cause <- context.Cause(ctx)
		}
		return 1, nil
	}, hedge.New(hedge.Config{Delay: 5 * time.Millisecond}))
	fmt.Println(errors.Is(<-cause, hedge.ErrLost))
	// Output: true
}

// failing returns a function whose calls fail together, once both are out.
func failing(errs ...error) func(context.Context) (int, error) {
	var calls atomic.Int32
	both := make(chan bool)
	return func(context.Context) (int, error) {
		n := calls.Add(1)
		if n == 2 {
			close(both)
		}
		<-both
		return 0, errs[n-1]
	}
}

// refuse returns the refusal of a breaker that is open for an hour.
func refuse() error {
	b := fusebox.New("users", fusebox.Config{})
	b.Override(fusebox.ForceOpen, fusebox.Note{Until: time.Now().Add(time.Hour)})
	return b.Do(context.Background(), func(context.Context) error { return nil })
}

func ExampleError() {
	h := hedge.New(hedge.Config{Delay: 5 * time.Millisecond})
	_, err := hedge.Call(context.Background(), nil, failing(errors.New("refused"), errors.New("reset")), h)
	fmt.Println(err)
	// Output: fusebox: no hedged attempt succeeded: refused; reset
}

func ExampleError_Unwrap() {
	h := hedge.New(hedge.Config{Delay: 5 * time.Millisecond})
	_, err := hedge.Call(context.Background(), nil, failing(errors.New("refused"), errors.New("reset")), h)
	var e *hedge.Error
	if errors.As(err, &e) {
		fmt.Println(len(e.Unwrap()), "errors, the first is", e.Unwrap()[0])
	}
	// Output: 2 errors, the first is refused
}

// A refusal of one attempt does not hide that the other failed.
func ExampleError_Rejected() {
	h := hedge.New(hedge.Config{Delay: 5 * time.Millisecond})
	_, err := hedge.Call(context.Background(), nil, failing(errors.New("reset"), refuse()), h)
	_, rejected := fusebox.Rejected(err)
	fmt.Println(rejected, errors.Is(err, fusebox.ErrOpen))
	// Output: false true
}

func ExampleError_RetryAfter() {
	h := hedge.New(hedge.Config{Delay: 5 * time.Millisecond})
	_, err := hedge.Call(context.Background(), nil, failing(refuse(), refuse()), h)
	var e *hedge.Error
	if errors.As(err, &e) {
		fmt.Println(e.Rejected(), e.RetryAfter().Round(time.Hour))
	}
	// Output: true 1h0m0s
}

// A panic on the other goroutine is raised where the caller waits.
func ExamplePanic() {
	defer func() {
		if p, ok := recover().(*hedge.Panic); ok {
			fmt.Println(p.Value, strings.Contains(string(p.Stack), "goroutine"))
		}
	}()
	_, _ = hedge.Call(context.Background(), nil, func(context.Context) (int, error) {
		panic("no such user")
	}, hedge.New(hedge.Config{}))
	// Output: no such user true
}

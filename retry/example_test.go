package retry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/retry"
)

// flaky returns a function that fails n times and then succeeds.
func flaky(n int) func(context.Context) error {
	return func(context.Context) error {
		if n--; n >= 0 {
			return errors.New("connection reset")
		}
		return nil
	}
}

func Example() {
	again := retry.New(retry.Config{BaseDelay: time.Millisecond})
	err := again.Do(context.Background(), flaky(2))
	fmt.Println(err, again.Stats().Retries)
	// Output: <nil> 2
}

// The retry stands outside the breaker: the breaker sees every attempt, and
// once it is open its refusal ends the attempts.
func Example_outsideABreaker() {
	breaker := fusebox.New("payments", fusebox.Config{Consecutive: 2})
	again := retry.New(retry.Config{Attempts: 5, BaseDelay: time.Millisecond})
	err := fusebox.Chain(again, breaker).Do(context.Background(), flaky(10))
	fmt.Println(errors.Is(err, fusebox.ErrOpen), breaker.Snapshot().Totals.Failures)
	// Output: true 2
}

// Inside the breaker, a call with all its attempts is one outcome: single
// errors are hidden from the breaker, and it takes longer to see an outage.
func Example_insideABreaker() {
	breaker := fusebox.New("payments", fusebox.Config{Consecutive: 2})
	again := retry.New(retry.Config{Attempts: 5, BaseDelay: time.Millisecond})
	err := fusebox.Chain(breaker, again).Do(context.Background(), flaky(10))
	fmt.Println(errors.Is(err, fusebox.ErrOpen), breaker.Snapshot().Totals.Failures)
	// Output: false 1
}

func ExampleNew() {
	again := retry.New(retry.Config{Attempts: 5, BaseDelay: 50 * time.Millisecond})
	fmt.Println(again)
	// Output: retry(5 attempts, 50ms to 10s)
}

func ExamplePolicy() {
	again := retry.New(retry.Config{}) // one a dependency, shared by all its callers
	fmt.Println(again)
	// Output: retry(3 attempts, 100ms to 10s)
}

func ExamplePolicy_Do() {
	again := retry.New(retry.Config{BaseDelay: time.Millisecond})
	fmt.Println(again.Do(context.Background(), flaky(10)))
	// Output: fusebox: gave up after 3 attempts: connection reset
}

func ExamplePolicy_Config() {
	c := retry.New(retry.Config{}).Config()
	fmt.Println(c.Attempts, c.BaseDelay, c.MaxDelay, c.Jitter, c.MaxRetryAfter)
	// Output: 3 100ms 10s 1 30s
}

func ExamplePolicy_Stats() {
	again := retry.New(retry.Config{BaseDelay: time.Millisecond})
	_ = again.Do(context.Background(), flaky(1))
	fmt.Printf("%+v\n", again.Stats())
	// Output: {Retries:1 Recovered:1 Exhausted:0}
}

func ExampleStats() {
	s := retry.New(retry.Config{}).Stats()
	fmt.Println(s.Retries)
	// Output: 0
}

func ExampleConfig() {
	again := retry.New(retry.Config{
		Attempts:  4,
		BaseDelay: time.Millisecond,
		Retryable: func(_ context.Context, err error) bool { return !errors.Is(err, errNotFound) },
	})
	err := again.Do(context.Background(), func(context.Context) error { return errNotFound })
	fmt.Println(err)
	// Output: not found
}

var errNotFound = errors.New("not found")

func ExampleConfig_Validate() {
	fmt.Println(retry.Config{Attempts: -2, Jitter: 3}.Validate())
	// Output:
	// fusebox/retry: Config.Attempts is -2, must be at least 1; 0 stands for 3, and Unlimited is a constant
	// fusebox/retry: Config.Jitter is 3, must be a fraction up to 1; negative is none
}

func ExampleEvent() {
	again := retry.New(retry.Config{
		BaseDelay: time.Millisecond,
		Jitter:    -1,
		OnRetry: func(_ context.Context, e retry.Event) {
			fmt.Printf("attempt %d: %v, next in %v\n", e.Attempt, e.Err, e.Delay)
		},
	})
	_ = again.Do(context.Background(), flaky(2))
	// Output:
	// attempt 1: connection reset, next in 1ms
	// attempt 2: connection reset, next in 2ms
}

func ExampleUnlimited() {
	again := retry.New(retry.Config{Attempts: retry.Unlimited, BaseDelay: time.Microsecond, NoBudget: true})
	fmt.Println(again.Do(context.Background(), flaky(6)))
	// Output: <nil>
}

func ExampleExponential() {
	wait := retry.Exponential(100*time.Millisecond, 30*time.Second)
	fmt.Println(wait(1), wait(2), wait(3), wait(10), wait(62))
	// Output: 100ms 200ms 400ms 30s 30s
}

func ExamplePermanent() {
	again := retry.New(retry.Config{})
	err := again.Do(context.Background(), func(context.Context) error {
		return retry.Permanent(errors.New("no such account"))
	})
	fmt.Println(err)
	// Output: no such account
}

func ExampleAfter() {
	again := retry.New(retry.Config{
		Attempts: 2,
		OnRetry:  func(_ context.Context, e retry.Event) { fmt.Println("waiting", e.Delay) },
	})
	_ = again.Do(context.Background(), func(context.Context) error {
		return retry.After(errors.New("too many requests"), 3*time.Millisecond)
	})
	// Output: waiting 3ms
}

func ExampleParseAfter() {
	header := http.Header{"Retry-After": {"120"}}
	fmt.Println(retry.ParseAfter(header.Values("Retry-After"), time.Now()))
	fmt.Println(retry.ParseAfter([]string{"-5"}, time.Now()))
	// Output:
	// 2m0s true
	// 0s false
}

func ExampleError() {
	again := retry.New(retry.Config{BaseDelay: time.Millisecond})
	err := again.Do(context.Background(), flaky(10))
	var gaveUp *retry.Error
	fmt.Println(errors.As(err, &gaveUp))
	// Output: true
}

func ExampleError_Attempts() {
	again := retry.New(retry.Config{BaseDelay: time.Millisecond})
	err := again.Do(context.Background(), flaky(10))
	var gaveUp *retry.Error
	if errors.As(err, &gaveUp) {
		fmt.Println(gaveUp.Attempts())
	}
	// Output: 3
}

func ExampleError_RetryAfter() {
	again := retry.New(retry.Config{})
	err := again.Do(context.Background(), func(context.Context) error {
		return retry.After(errors.New("down for the night"), 8*time.Hour)
	})
	var gaveUp *retry.Error
	if errors.As(err, &gaveUp) {
		fmt.Println(gaveUp.RetryAfter())
	}
	// Output: 8h0m0s
}

func ExampleError_Unwrap() {
	again := retry.New(retry.Config{BaseDelay: time.Millisecond})
	err := again.Do(context.Background(), func(context.Context) error { return errNotFound })
	fmt.Println(errors.Is(err, errNotFound))
	// Output: true
}

var errorOfARetry = func(c retry.Config, err error) error {
	return retry.New(c).Do(context.Background(), func(context.Context) error { return err })
}

func Example_errRetryAfter() {
	err := errorOfARetry(retry.Config{}, retry.After(errNotFound, time.Hour))
	fmt.Println(errors.Is(err, retry.ErrRetryAfter))
	// Output: true
}

func Example_errBudget() {
	empty := retry.NewBudget(retry.BudgetConfig{Share: -1, MinPerSecond: -1})
	err := errorOfARetry(retry.Config{Budget: empty}, errNotFound)
	fmt.Println(errors.Is(err, retry.ErrBudget), errors.Is(err, errNotFound))
	// Output: true true
}

func ExampleNewBudget() {
	shared := retry.NewBudget(retry.BudgetConfig{Share: 0.1}) // one backend, two policies
	reads := retry.New(retry.Config{Attempts: 4, Budget: shared})
	writes := retry.New(retry.Config{Attempts: 2, Budget: shared})
	fmt.Println(reads.Config().Budget == writes.Config().Budget)
	// Output: true
}

func ExampleBudget() {
	budget := retry.New(retry.Config{}).Config().Budget // of the policy's own
	fmt.Println(budget.Stats().Left)
	// Output: 10
}

func ExampleBudgetConfig() {
	budget := retry.NewBudget(retry.BudgetConfig{Share: 0.5, MinPerSecond: -1, Window: time.Minute})
	budget.Deposit()
	budget.Deposit()
	fmt.Println(budget.Stats().Left)
	// Output: 1
}

func ExampleBudgetConfig_Validate() {
	fmt.Println(retry.BudgetConfig{Window: -time.Second}.Validate())
	// Output: fusebox/retry: BudgetConfig.Window is -1s, must be at least 10 ns; 0 stands for 10s
}

func ExampleBudget_Deposit() {
	budget := retry.NewBudget(retry.BudgetConfig{})
	for range 50 {
		budget.Deposit()
	}
	fmt.Println(budget.Stats().Left)
	// Output: 20
}

func ExampleBudget_Withdraw() {
	budget := retry.NewBudget(retry.BudgetConfig{MinPerSecond: 0.1})
	fmt.Println(budget.Withdraw(), budget.Withdraw())
	// Output: true false
}

func ExampleBudget_Stats() {
	budget := retry.NewBudget(retry.BudgetConfig{})
	budget.Withdraw()
	fmt.Printf("%+v\n", budget.Stats())
	// Output: {Calls:0 Retries:1 Waiting:0 Left:9}
}

func ExampleBudgetStats() {
	s := retry.NewBudget(retry.BudgetConfig{}).Stats()
	fmt.Println(s.Left)
	// Output: 10
}

package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/limit"
)

func search(context.Context) error { return nil }

// A limit is a policy, alone or in a chain.
func ExamplePolicy() {
	p := limit.New(limit.Config{Name: "search"})
	breaker := fusebox.New("search", fusebox.Config{})
	err := fusebox.Chain(p, breaker).Do(context.Background(), search)
	fmt.Println(p, err)
	// Output: limit(1 to 1000 in flight) <nil>
}

func ExampleNew() {
	p := limit.New(limit.Config{Name: "search", Initial: 50, Max: 200, Tolerance: 1.5})
	fmt.Println(p)
	// Output: limit(1 to 200 in flight)
}

func ExamplePolicy_Do() {
	ctx := context.Background()
	p := limit.New(limit.Config{Name: "search", Initial: 1})
	err := p.Do(ctx, func(ctx context.Context) error {
		return p.Do(ctx, search) // a second call at the same time
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, limit.ErrLimit))
	// Output:
	// fusebox: limit "search" reached (1 calls in flight)
	// true
}

// A call whose end is not that of a function: a stream, a message.
func ExamplePolicy_Acquire() {
	ctx := context.Background()
	p := limit.New(limit.Config{Name: "search"})
	call := func() error {
		permit, err := p.Acquire(ctx)
		if err != nil {
			return err
		}
		defer permit.Record(limit.Ignored) // a panic, a forgotten return
		err = search(ctx)
		permit.Finish(ctx, err)
		return err
	}
	fmt.Println(call(), p.Stats().InFlight)
	// Output: <nil> 0
}

func ExamplePolicy_Stats() {
	p := limit.New(limit.Config{})
	_ = p.Do(context.Background(), func(context.Context) error { return context.DeadlineExceeded })
	s := p.Stats()
	fmt.Printf("limit %d, in flight %d, admitted %d, dropped %d, rejected %d\n", s.Limit, s.InFlight, s.Admitted, s.Dropped, s.Rejected)
	// Output: limit 20, in flight 0, admitted 1, dropped 1, rejected 0
}

// The settings in effect.
func ExamplePolicy_Config() {
	c := limit.New(limit.Config{Max: 300}).Config()
	fmt.Println(c.Initial, c.Min, c.Max, c.Tolerance, c.Window, c.MinSamples)
	// Output: 20 1 300 1.1 100ms 20
}

func ExampleConfig() {
	errBusy := errors.New("429 too many requests")
	p := limit.New(limit.Config{
		Name: "search",
		Classify: func(ctx context.Context, err error) limit.Sample {
			if errors.Is(err, errBusy) {
				return limit.Dropped // the dependency says so itself
			}
			return limit.DefaultClassify(ctx, err)
		},
	})
	_ = p.Do(context.Background(), func(context.Context) error { return errBusy })
	fmt.Println(p.Stats().Dropped)
	// Output: 1
}

func ExampleConfig_Validate() {
	fmt.Println(limit.Config{Min: 20, Max: 10, Tolerance: 0.5}.Validate())
	// Output:
	// fusebox/limit: Config.Min is 20, must be at most Max (10)
	// fusebox/limit: Config.Tolerance is 0.5, must be a finite number of at least 1 (0: the default of 1.1)
}

func ExamplePermit() {
	ctx := context.Background()
	p := limit.New(limit.Config{})
	permit, err := p.Acquire(ctx)
	fmt.Println(err, p.Stats().InFlight)
	fmt.Println(permit.Record(limit.Success), permit.Record(limit.Dropped))
	// Output:
	// <nil> 1
	// true false
}

func ExamplePermit_Finish() {
	ctx := context.Background()
	p := limit.New(limit.Config{})
	permit, _ := p.Acquire(ctx)
	fmt.Println(permit.Finish(ctx, context.DeadlineExceeded), p.Stats().Dropped)
	// Output: true 1
}

func ExamplePermit_Record() {
	p := limit.New(limit.Config{})
	permit, _ := p.Acquire(context.Background())
	fmt.Println(permit.Record(limit.Dropped), p.Stats().Dropped)
	// Output: true 1
}

func ExampleStats() {
	fmt.Println(limit.New(limit.Config{Initial: 30}).Stats().Limit)
	// Output: 30
}

func ExampleSample() {
	fmt.Println(limit.Success, limit.Dropped, limit.Ignored)
	// Output: success dropped ignored
}

func ExampleDefaultClassify() {
	ctx := context.Background()
	fmt.Println(limit.DefaultClassify(ctx, nil))
	fmt.Println(limit.DefaultClassify(ctx, fmt.Errorf("search: %w", context.DeadlineExceeded)))
	fmt.Println(limit.DefaultClassify(ctx, errors.New("not found")))
	// Output:
	// success
	// dropped
	// ignored
}

func ExampleError() {
	p := limit.New(limit.Config{Name: "search", Initial: 1})
	err := p.Do(context.Background(), func(ctx context.Context) error { return p.Do(ctx, search) })
	var refusal *limit.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Name(), refusal.InFlight())
	}
	// Output: search 1
}

// always draws 0, which refuses whatever may be refused.
func always() float64 { return 0 }

func ExampleThrottle() {
	p := limit.NewThrottle(limit.ThrottleConfig{Name: "search"})
	fmt.Println(p, p.Do(context.Background(), search))
	// Output: throttle(K 2 over 2m0s) <nil>
}

func ExampleNewThrottle() {
	p := limit.NewThrottle(limit.ThrottleConfig{Name: "search", K: 1.5, Window: 10 * time.Second})
	fmt.Println(p)
	// Output: throttle(K 1.5 over 10s)
}

func ExampleThrottle_Do() {
	ctx := context.Background()
	p := limit.NewThrottle(limit.ThrottleConfig{Name: "search", Rand: always})
	for range 2 {
		fmt.Println(p.Do(ctx, func(context.Context) error { return errors.New("503 unavailable") }))
	}
	// Output:
	// 503 unavailable
	// fusebox: throttle "search" refuses 50 % of calls (0 of 1 accepted in 2m0s)
}

func ExampleThrottle_Stats() {
	p := limit.NewThrottle(limit.ThrottleConfig{})
	_ = p.Do(context.Background(), search)
	fmt.Printf("%+v\n", p.Stats())
	// Output: {Requests:1 Accepts:1 Probability:0 Admitted:1 Rejected:0}
}

func ExampleThrottle_Config() {
	c := limit.NewThrottle(limit.ThrottleConfig{}).Config()
	fmt.Println(c.K, c.Window, c.Buckets, c.MinPerSecond)
	// Output: 2 2m0s 10 1
}

func ExampleThrottleConfig() {
	errNotFound := errors.New("not found")
	p := limit.NewThrottle(limit.ThrottleConfig{
		Name: "search",
		Classify: func(_ context.Context, err error) limit.Sample {
			if err == nil || errors.Is(err, errNotFound) {
				return limit.Success // an answer
			}
			return limit.Dropped
		},
	})
	_ = p.Do(context.Background(), func(context.Context) error { return errNotFound })
	fmt.Println(p.Stats().Accepts)
	// Output: 1
}

func ExampleThrottleConfig_Validate() {
	fmt.Println(limit.ThrottleConfig{Window: -time.Second}.Validate())
	// Output: fusebox/limit: ThrottleConfig.Window is -1s, must be positive (0: the default of 2m0s)
}

func ExampleThrottleStats() {
	p := limit.NewThrottle(limit.ThrottleConfig{})
	_ = p.Do(context.Background(), func(context.Context) error { return errors.New("503 unavailable") })
	fmt.Println(p.Stats().Probability)
	// Output: 0.5
}

func ExampleThrottleError() {
	p := limit.NewThrottle(limit.ThrottleConfig{Name: "search", Rand: always})
	_ = p.Do(context.Background(), func(context.Context) error { return errors.New("503 unavailable") })
	err := p.Do(context.Background(), search)
	var refusal *limit.ThrottleError
	fmt.Println(errors.As(err, &refusal), errors.Is(err, limit.ErrThrottled))
	// Output: true true
}

func ExampleError_Name() {
	err := error(refused())
	var e *limit.Error
	fmt.Println(errors.As(err, &e), e.Name(), e.InFlight())
	// Output: true search 1
}

func ExampleError_InFlight() {
	fmt.Println(refused().InFlight())
	// Output: 1
}

// refused returns the refusal of a limit of one.
func refused() (refusal *limit.Error) {
	one := limit.New(limit.Config{Name: "search", Initial: 1})
	err := one.Do(context.Background(), func(ctx context.Context) error {
		return one.Do(ctx, func(context.Context) error { return nil })
	})
	errors.As(err, &refusal)
	return refusal
}

func ExampleThrottleError_Name() {
	throttle := limit.NewThrottle(limit.ThrottleConfig{Name: "search", MinPerSecond: -1, Rand: func() float64 { return 0 }})
	down := func(context.Context) error { return errors.New("down") }
	_ = throttle.Do(context.Background(), down)
	var e *limit.ThrottleError
	if errors.As(throttle.Do(context.Background(), down), &e) {
		fmt.Println(e.Name())
	}
	// Output: search
}

package bulkhead_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
)

func Example() {
	payments := bulkhead.New(bulkhead.Config{Name: "payments", Limit: 1})
	ctx := context.Background()

	err := payments.Do(ctx, func(context.Context) error {
		// Another call, while this one is in flight.
		return payments.Do(ctx, func(context.Context) error { return nil })
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, bulkhead.ErrFull))
	// Output:
	// fusebox: bulkhead "payments" is full (limit: 1 call in flight)
	// true
}

// In a chain the bulkhead stands outside: a call refused costs the breaker
// nothing, and one admitted keeps its place from its first attempt to its last.
func Example_chain() {
	payments := fusebox.Chain(
		bulkhead.New(bulkhead.Config{Name: "payments", MaxWait: 50 * time.Millisecond}),
		fusebox.New("payments", fusebox.Config{}),
	)
	answer, err := fusebox.Call(context.Background(), payments, func(context.Context) (string, error) {
		return "paid", nil
	})
	fmt.Println(answer, err)
	// Output: paid <nil>
}

func ExampleConfig() {
	fmt.Printf("%+v\n", bulkhead.New(bulkhead.Config{}).Config())
	fmt.Printf("%+v\n", bulkhead.New(bulkhead.Config{Name: "payments", MaxWait: time.Second}).Config())
	// Output:
	// {Name: Limit:25 MaxWait:0s MaxWaiting:0}
	// {Name:payments Limit:25 MaxWait:1s MaxWaiting:25}
}

func ExampleConfig_Validate() {
	fmt.Println(bulkhead.Config{Limit: -1, MaxWaiting: 5}.Validate())
	// Output:
	// fusebox/bulkhead: Config.Limit is -1, must be from 1 to 2147483647 (0: the default of 25)
	// fusebox/bulkhead: Config.MaxWaiting is 5, must be 0 without MaxWait: no call waits
}

func ExampleNew() {
	fmt.Println(bulkhead.New(bulkhead.Config{Limit: 50, MaxWait: 100 * time.Millisecond}))
	// Output: bulkhead(50, wait 100ms)
}

func ExamplePolicy() {
	p := bulkhead.New(bulkhead.Config{})
	fmt.Println(p)
	// Output: bulkhead(25)
}

func ExamplePolicy_Config() {
	p := bulkhead.New(bulkhead.Config{})
	fmt.Println(p.Config().Limit)
	// Output: 25
}

func ExamplePolicy_Do() {
	p := bulkhead.New(bulkhead.Config{})
	err := p.Do(context.Background(), func(context.Context) error {
		fmt.Println(p.Stats().InFlight, "in flight")
		return nil
	})
	fmt.Println(err, p.Stats().InFlight, "in flight")
	// Output:
	// 1 in flight
	// <nil> 0 in flight
}

// body gives a place back when it is closed, once.
type body struct {
	io.Reader
	place *bulkhead.Policy
}

func (b *body) Close() error {
	if p := b.place; p != nil {
		b.place = nil
		p.Release()
	}
	return nil
}

// A response is in flight until its body is closed.
func ExamplePolicy_Acquire() {
	p := bulkhead.New(bulkhead.Config{})
	get := func(ctx context.Context) (io.ReadCloser, error) {
		if err := p.Acquire(ctx); err != nil {
			return nil, err
		}
		return &body{strings.NewReader("hello"), p}, nil
	}

	response, err := get(context.Background())
	fmt.Println(err, p.Stats().InFlight)
	text, _ := io.ReadAll(response)
	response.Close()
	fmt.Println(string(text), p.Stats().InFlight)
	// Output:
	// <nil> 1
	// hello 0
}

func ExamplePolicy_TryAcquire() {
	refreshes := bulkhead.New(bulkhead.Config{Limit: 1})
	refresh := func() {
		if !refreshes.TryAcquire() {
			fmt.Println("another is at it")
			return
		}
		defer refreshes.Release()
		fmt.Println("refreshed")
	}
	refresh()
	refreshes.TryAcquire()
	refresh()
	// Output:
	// refreshed
	// another is at it
}

func ExamplePolicy_Release() {
	p := bulkhead.New(bulkhead.Config{})
	if err := p.Acquire(context.Background()); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer p.Release() // where the call ends
	}()
	<-done
	fmt.Println(p.Stats().InFlight)
	// Output: 0
}

func ExamplePolicy_SetLimit() {
	p := bulkhead.New(bulkhead.Config{Limit: 2})
	p.TryAcquire()
	p.TryAcquire()

	fmt.Println(p.SetLimit(1), p.TryAcquire()) // the two finish
	p.Release()
	fmt.Println(p.TryAcquire())
	p.Release()
	fmt.Println(p.TryAcquire())
	fmt.Println(p.SetLimit(0))
	// Output:
	// <nil> false
	// false
	// true
	// fusebox/bulkhead: limit is 0, must be from 1 to 2147483647
}

func ExamplePolicy_Stats() {
	p := bulkhead.New(bulkhead.Config{Limit: 1})
	p.TryAcquire()
	p.TryAcquire()
	fmt.Printf("%+v\n", p.Stats())
	// Output: {InFlight:1 Waiting:0 Limit:1 Rejected:1}
}

func ExampleStats() {
	p := bulkhead.New(bulkhead.Config{Limit: 4})
	p.TryAcquire()
	s := p.Stats()
	fmt.Printf("%d of %d places taken\n", s.InFlight, s.Limit)
	// Output: 1 of 4 places taken
}

func ExampleError() {
	p := bulkhead.New(bulkhead.Config{Name: "payments", Limit: 1})
	p.TryAcquire()
	err := p.Acquire(context.Background())

	var refusal *bulkhead.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Name(), refusal.Limit())
	}
	_, refused := fusebox.Rejected(err)
	fmt.Println(refused)
	// Output:
	// payments 1
	// true
}

func ExampleError_Name() {
	p := bulkhead.New(bulkhead.Config{Name: "payments", Limit: 1})
	p.TryAcquire()
	var refusal *bulkhead.Error
	fmt.Println(errors.As(p.Acquire(context.Background()), &refusal), refusal.Name())
	// Output: true payments
}

func ExampleError_Limit() {
	p := bulkhead.New(bulkhead.Config{Limit: 1})
	p.TryAcquire()
	var refusal *bulkhead.Error
	fmt.Println(errors.As(p.Acquire(context.Background()), &refusal), refusal.Limit())
	// Output: true 1
}

// Whether the wait was over, or the caller's time.
func ExampleError_Unwrap() {
	p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Hour})
	p.TryAcquire()
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	err := p.Acquire(ctx)
	fmt.Println(errors.Is(err, bulkhead.ErrFull), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}

func ExampleErrFull() {
	p := bulkhead.New(bulkhead.Config{Limit: 1})
	p.TryAcquire()
	if err := p.Acquire(context.Background()); errors.Is(err, bulkhead.ErrFull) {
		fmt.Println("later, please")
	}
	// Output: later, please
}

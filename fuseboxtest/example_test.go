package fuseboxtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
	"github.com/fusebox-go/fusebox/retry"
)

// With this outage my breaker opens within two seconds, and closes within five
// after it ends.
func Example() {
	var clock fuseboxtest.Clock
	breaker := fusebox.New("payments", fusebox.Config{OpenJitter: -1, Now: clock.Now})
	outage := fuseboxtest.Outage{From: 10 * time.Second, To: 40 * time.Second}
	payments := &fuseboxtest.Dependency{Clock: &clock, Outages: []fuseboxtest.Outage{outage}}

	report, err := fuseboxtest.Drive(context.Background(), breaker, payments, fuseboxtest.Load{For: time.Minute})
	err = errors.Join(err,
		report.Within(fusebox.Open, outage.From, 2*time.Second),
		report.Within(fusebox.Closed, outage.To, 5*time.Second))

	fmt.Println("wrong:", err)
	// Output: wrong: <nil>
}

// The same in a testing/synctest bubble: no Clock, package time.
func TestExampleInSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker := fusebox.New("payments", fusebox.Config{OpenJitter: -1})
		outage := fuseboxtest.Outage{From: 10 * time.Second, To: 40 * time.Second}
		payments := &fuseboxtest.Dependency{Outages: []fuseboxtest.Outage{outage}}

		report, err := fuseboxtest.Drive(t.Context(), breaker, payments, fuseboxtest.Load{For: time.Minute})
		if err = errors.Join(err,
			report.Within(fusebox.Open, outage.From, 2*time.Second),
			report.Within(fusebox.Closed, outage.To, 5*time.Second)); err != nil {
			t.Error(err)
		}
	})
}

func ExampleDrive() {
	var clock fuseboxtest.Clock
	breaker := fusebox.New("payments", fusebox.Config{
		Consecutive: 5, OpenFor: 1025 * time.Millisecond, OpenForMax: 1025 * time.Millisecond, OpenJitter: -1, Now: clock.Now,
	})
	payments := &fuseboxtest.Dependency{Clock: &clock, Outages: []fuseboxtest.Outage{
		{From: 500 * time.Millisecond, To: 2500 * time.Millisecond},
		{From: 4 * time.Second, To: 6 * time.Second},
	}}

	report, err := fuseboxtest.Drive(context.Background(), breaker, payments, fuseboxtest.Load{For: 8 * time.Second})
	fmt.Println(report, err)
	// Output:
	// 160 calls: 80 reached the dependency, 12 of them failed; 80 rejected open, 0 probing
	// 700ms: closed → open: 5 failures in a row >= 5
	// 1.75s: open → half-open: open period over
	// 1.75s: half-open → open: 1 of 1 probes failed
	// 2.8s: open → half-open: open period over
	// 2.9s: half-open → closed: 3 probes succeeded
	// 4.2s: closed → open: 5 failures in a row >= 5
	// 5.25s: open → half-open: open period over
	// 5.25s: half-open → open: 1 of 1 probes failed
	// 6.3s: open → half-open: open period over
	// 6.4s: half-open → closed: 3 probes succeeded <nil>
}

func ExampleReport_Until() {
	var clock fuseboxtest.Clock
	breaker := fusebox.New("payments", fusebox.Config{Now: clock.Now})
	payments := &fuseboxtest.Dependency{Clock: &clock, Outages: []fuseboxtest.Outage{{From: 3 * time.Second}}}

	report, _ := fuseboxtest.Drive(context.Background(), breaker, payments, fuseboxtest.Load{})
	seen, ok := report.Until(fusebox.Open, 3*time.Second)
	fmt.Println("seen after", seen, ok)
	_, ok = report.Until(fusebox.Closed, 5*time.Second)
	fmt.Println("recovered", ok)
	// Output:
	// seen after 950ms true
	// recovered false
}

func ExampleReport_Within() {
	var clock fuseboxtest.Clock
	breaker := fusebox.New("payments", fusebox.Config{Now: clock.Now, OpenJitter: -1})
	payments := &fuseboxtest.Dependency{Clock: &clock, Outages: []fuseboxtest.Outage{{From: 9 * time.Second}}}

	report, _ := fuseboxtest.Drive(context.Background(), breaker, payments, fuseboxtest.Load{})
	fmt.Println(report.Within(fusebox.Open, 9*time.Second, 500*time.Millisecond))
	// Output:
	// fuseboxtest: open only 950ms after 9s, want within 500ms
	// 200 calls: 200 reached the dependency, 20 of them failed; 0 rejected open, 0 probing
	// 9.95s: closed → open: 20 failures in a row >= 20
}

// A dependency that hangs shows itself by the timeout of its callers.
func ExampleDependency() {
	var clock fuseboxtest.Clock
	payments := &fuseboxtest.Dependency{
		Clock:   &clock,
		Latency: 20 * time.Millisecond,
		Timeout: time.Second,
		Outages: []fuseboxtest.Outage{{From: 5 * time.Second, Latency: time.Hour}},
	}
	call := func() {
		begun := clock.Now()
		err := payments.Call(context.Background())
		fmt.Println(clock.Now().Sub(begun), err)
	}
	call()
	clock.Advance(5 * time.Second)
	call()
	// Output:
	// 20ms <nil>
	// 1s context deadline exceeded
}

func ExampleDependency_Call() {
	breaker := fusebox.New("payments", fusebox.Config{})
	payments := &fuseboxtest.Dependency{FailureRate: 1}
	fmt.Println(breaker.Do(context.Background(), payments.Call))
	// Output: fuseboxtest: dependency is down
}

func ExampleDependency_Validate() {
	payments := &fuseboxtest.Dependency{FailureRate: 30, Outages: []fuseboxtest.Outage{{From: 2 * time.Second, To: time.Second}}}
	fmt.Println(payments.Validate())
	// Output:
	// fuseboxtest: Dependency.FailureRate is 30, must be a fraction from 0 to 1
	// fuseboxtest: Dependency.Outages[0].To is 1s, must be after From (2s); 0: the outage never ends
}

func ExampleClock() {
	var clock fuseboxtest.Clock
	breaker := fusebox.New("payments", fusebox.Config{Consecutive: 1, OpenJitter: -1, Now: clock.Now})
	_ = breaker.Do(context.Background(), func(context.Context) error { return errors.New("refused") })

	fmt.Println(breaker.State())
	clock.Advance(time.Second)
	fmt.Println(breaker.State())
	// Output:
	// open
	// half-open
}

func ExampleConform() {
	_ = func(t *testing.T) { // TestConform, in a test of your own
		fuseboxtest.Conform(t, func() fusebox.Policy { return retry.New(retry.Config{}) })
	}
	// Output:
}

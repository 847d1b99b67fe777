package fuseboxtest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

func ExampleClock_Now() {
	var clock fuseboxtest.Clock
	fmt.Println(clock.Now())
	// Output: 2000-01-01 00:00:00 +0000 UTC
}

func ExampleClock_Advance() {
	var clock fuseboxtest.Clock
	clock.Advance(90 * time.Second)
	clock.Advance(-30 * time.Second)
	fmt.Println(clock.Now().Format(time.TimeOnly))
	// Output: 00:01:00
}

func ExampleClock_Set() {
	var clock fuseboxtest.Clock
	clock.Set(time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC))
	fmt.Println(clock.Now().Format(time.DateTime))
	// Output: 2030-05-01 12:00:00
}

func ExampleDependency_Calls() {
	var clock fuseboxtest.Clock
	payments := &fuseboxtest.Dependency{Clock: &clock}
	for range 3 {
		_ = payments.Call(context.Background())
	}
	fmt.Println(payments.Calls())
	// Output: 3
}

func ExampleDependency_Start() {
	var clock fuseboxtest.Clock
	clock.Advance(time.Hour)
	payments := &fuseboxtest.Dependency{Clock: &clock}
	_ = payments.Call(context.Background()) // its time begins with the first use
	fmt.Println(payments.Start().Format(time.TimeOnly))
	// Output: 01:00:00
}

func ExampleOutage() {
	var clock fuseboxtest.Clock
	refused := errors.New("connection refused")
	payments := &fuseboxtest.Dependency{Clock: &clock, Outages: []fuseboxtest.Outage{{From: time.Second, Err: refused}}}
	fmt.Println(payments.Call(context.Background()))
	clock.Advance(time.Second)
	fmt.Println(payments.Call(context.Background()))
	// Output:
	// <nil>
	// connection refused
}

func ExampleLoad() {
	report := exampleRun(fuseboxtest.Load{Every: 10 * time.Millisecond, For: time.Second})
	fmt.Println(report.Calls)
	// Output: 100
}

func ExampleLoad_Validate() {
	err := fuseboxtest.Load{Every: -time.Second}.Validate()
	fmt.Println(err != nil)
	// Output: true
}

func ExampleReport() {
	report := exampleRun(fuseboxtest.Load{For: 10 * time.Second})
	fmt.Println(report.Calls == report.Reached+report.RejectedOpen+report.RejectedProbing)
	// Output: true
}

func ExampleReport_At() {
	report := exampleRun(fuseboxtest.Load{For: 10 * time.Second})
	trip := report.Transitions[0]
	fmt.Println(trip.To, report.At(trip))
	// Output: open 2.95s
}

// exampleRun runs a load against a dependency that is down from the second second on.
func exampleRun(load fuseboxtest.Load) fuseboxtest.Report {
	var clock fuseboxtest.Clock
	breaker := fusebox.New("payments", fusebox.Config{Now: clock.Now, OpenJitter: -1})
	payments := &fuseboxtest.Dependency{Clock: &clock, Outages: []fuseboxtest.Outage{{From: 2 * time.Second}}}
	report, err := fuseboxtest.Drive(context.Background(), breaker, payments, load)
	if err != nil {
		panic(err)
	}
	return report
}

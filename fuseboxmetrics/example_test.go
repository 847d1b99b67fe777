package fuseboxmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
	"github.com/fusebox-go/fusebox/retry"
)

// show writes the series of a set that are not 0.
func show(set *fuseboxmetrics.Set) {
	for r := range set.Read() {
		i := 0
		for _, m := range r.Subject.Metrics() {
			for _, labels := range m.Series {
				if r.Values[i] != 0 {
					fmt.Println(r.Name, m.Name, strings.Join(labels, " "), r.Values[i])
				}
				i++
			}
		}
	}
}

// An adapter to another metrics system is a loop like this one.
func ExampleSet() {
	payments := fusebox.New("payments", fusebox.Config{})
	payments.Do(context.Background(), func(context.Context) error { return errors.New("down") })

	var set fuseboxmetrics.Set
	set.Add(payments)
	for r := range set.Read() {
		i := 0
		for _, m := range r.Subject.Metrics() {
			for _, labels := range m.Series {
				if r.Values[i] != 0 {
					fmt.Println(r.Name, m.Name, m.Labels, labels, m.Kind, r.Values[i])
				}
				i++
			}
		}
	}
	// Output:
	// payments fusebox_state [state] [closed] gauge 1
	// payments fusebox_calls_total [outcome] [failure] counter 1
	// payments fusebox_window_failure_rate [] [] gauge 1
	// payments fusebox_window_calls [] [] gauge 1
}

func ExampleSet_Add() {
	var set fuseboxmetrics.Set
	remove := set.Add(fusebox.New("payments", fusebox.Config{}))
	show(&set)
	remove()
	show(&set)
	// Output: payments fusebox_state closed 1
}

func ExampleSet_AddRegistry() {
	var hosts fusebox.Registry
	var set fuseboxmetrics.Set
	set.AddRegistry("", &hosts)

	hosts.Get("a.example.com")
	hosts.Get("b.example.com")
	show(&set)
	hosts.Delete("a.example.com")
	show(&set)
	// Output:
	// a.example.com fusebox_state closed 1
	// b.example.com fusebox_state closed 1
	// b.example.com fusebox_state closed 1
}

func ExampleSet_AddRetry() {
	policy := retry.New(retry.Config{BaseDelay: 1})
	var set fuseboxmetrics.Set
	set.AddRetry("payments", func() (retries, exhausted uint64) {
		s := policy.Stats()
		return s.Retries, s.Exhausted
	})
	policy.Do(context.Background(), func(context.Context) error { return errors.New("down") })
	show(&set)
	// Output: payments fusebox_retries_total  2
}

func ExampleSet_AddBulkhead() {
	var set fuseboxmetrics.Set
	set.AddBulkhead("payments", func() (inFlight int, rejected uint64) {
		return 3, 41 // those of the bulkhead's Stats
	})
	show(&set)
	// Output:
	// payments fusebox_bulkhead_in_flight  3
	// payments fusebox_bulkhead_rejected_total  41
}

func ExampleSet_AddFallback() {
	var set fuseboxmetrics.Set
	set.AddFallback("users", func() (answered, stale, failed uint64) {
		return 12, 5, 1 // those of the fallback's Stats
	})
	show(&set)
	// Output:
	// users fusebox_fallbacks_total answered 7
	// users fusebox_fallbacks_total stale 5
	// users fusebox_fallbacks_total failed 1
}

func ExampleSet_Read() {
	var set fuseboxmetrics.Set
	set.Add(fusebox.New("payments", fusebox.Config{}))
	for r := range set.Read() {
		fmt.Println(r.Subject == fuseboxmetrics.Breaker, r.Name, len(r.Values))
	}
	// Output: true payments 62
}

func ExampleSet_Hidden() {
	var set fuseboxmetrics.Set
	set.Add(fusebox.New("payments", fusebox.Config{}))
	set.Add(fusebox.New("payments", fusebox.Config{Probes: 1}))
	fmt.Println(set.Hidden())
	// Output: [payments]
}

func ExampleAppendValues() {
	s := fusebox.New("payments", fusebox.Config{}).Snapshot()
	values := fuseboxmetrics.AppendValues(nil, &s)
	fmt.Println(values[:3]) // fusebox_state comes first: closed, half-open, open
	// Output: [1 0 0]
}

func ExampleSubjects() {
	for _, s := range fuseboxmetrics.Subjects() {
		fmt.Println(len(s.Metrics()), s.Metrics()[0].Name)
	}
	// Output:
	// 12 fusebox_state
	// 2 fusebox_retries_total
	// 2 fusebox_bulkhead_in_flight
	// 1 fusebox_fallbacks_total
}

func ExampleSubject() {
	fmt.Println(fuseboxmetrics.Breaker < fuseboxmetrics.Retry)
	// Output: true
}

func ExampleSubject_Metrics() {
	for _, m := range fuseboxmetrics.Fallback.Metrics() {
		fmt.Println(m.Name, m.Labels, m.Series)
	}
	// Output: fusebox_fallbacks_total [result] [[answered] [stale] [failed]]
}

func ExampleMetric() {
	m := fuseboxmetrics.Breaker.Metrics()[2]
	fmt.Println(m.Name, m.Kind, m.Unit, len(m.Series))
	fmt.Println(m.Help)
	// Output:
	// fusebox_open_seconds_total counter s 1
	// Time spent open, up to the end of each open period.
}

func ExampleKind() {
	fmt.Println(fuseboxmetrics.Counter, fuseboxmetrics.Gauge)
	// Output: counter gauge
}

func ExampleReading() {
	var set fuseboxmetrics.Set
	set.AddRetry("payments", func() (uint64, uint64) { return 4, 0 })
	for r := range set.Read() {
		fmt.Println(r.Name, r.Values) // in the order of r.Subject.Metrics()
	}
	// Output: payments [4 0]
}

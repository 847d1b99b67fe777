package fuseboxprom_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxprom"
	"github.com/fusebox-go/fusebox/retry"
)

func Example() {
	metrics, err := fuseboxprom.Register(prometheus.DefaultRegisterer)
	if err != nil {
		fmt.Println(err)
		return
	}
	payments := fusebox.New("payments", fusebox.Config{})
	metrics.Add(payments)
	hosts := &fusebox.Registry{}
	metrics.AddRegistry("", hosts)
	again := retry.New(retry.Config{})
	metrics.AddRetry("payments", func() (retries, exhausted uint64) {
		s := again.Stats()
		return s.Retries, s.Exhausted
	})
	http.Handle("/metrics", promhttp.Handler())

	payments.Do(context.Background(), func(context.Context) error { return errors.New("down") })
	hosts.Get("a.example.com")
	families, _ := prometheus.DefaultGatherer.Gather()
	for _, f := range families {
		if f.GetName() == "fusebox_window_failure_rate" {
			for _, m := range f.GetMetric() {
				fmt.Println(m.GetLabel()[0].GetValue(), m.GetGauge().GetValue())
			}
		}
	}
	// Output:
	// a.example.com 0
	// payments 1
}

func ExampleRegister() {
	reg := prometheus.NewRegistry()
	metrics, err := fuseboxprom.Register(reg)
	fmt.Println(err)

	// Another part of the program gets the same Collector.
	again, err := fuseboxprom.Register(reg)
	fmt.Println(again == metrics, err)
	// Output:
	// <nil>
	// true <nil>
}

func ExampleCollector() {
	payments := fusebox.New("payments", fusebox.Config{Consecutive: 1})
	payments.Do(context.Background(), func(context.Context) error { return errors.New("down") })

	var metrics fuseboxprom.Collector
	metrics.Add(payments)
	err := testutil.CollectAndCompare(&metrics, strings.NewReader(`
# HELP fusebox_state Whether the breaker is in this state: 1 for one of them, 0 for the others.
# TYPE fusebox_state gauge
fusebox_state{name="payments",state="closed"} 0
fusebox_state{name="payments",state="half-open"} 0
fusebox_state{name="payments",state="open"} 1
`), "fusebox_state")
	fmt.Println(err)
	// Output: <nil>
}

func ExampleCollector_Describe() {
	descs := make(chan *prometheus.Desc, 100)
	(&fuseboxprom.Collector{}).Describe(descs)
	fmt.Println(len(descs))
	// Output: 17
}

func ExampleCollector_Collect() {
	var metrics fuseboxprom.Collector
	metrics.Add(fusebox.New("payments", fusebox.Config{}))
	samples := make(chan prometheus.Metric, 100)
	metrics.Collect(samples)
	fmt.Println(len(samples))
	// Output: 62
}

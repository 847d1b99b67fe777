package fuseboxprom_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
	"github.com/fusebox-go/fusebox/fuseboxprom"
)

// crowd is a registry of n breakers that have seen a failure, a success and a
// trip, with what shows them.
func crowd(tb testing.TB, n int) (*fusebox.Registry, *fuseboxprom.Collector, *prometheus.Registry) {
	tb.Helper()
	breakers := &fusebox.Registry{Config: func(string) fusebox.Config {
		return fusebox.Config{Consecutive: 1}
	}}
	for i := range n {
		b := breakers.Get(fmt.Sprintf("backend-%d.example.com", i))
		_ = b.Do(context.Background(), func(context.Context) error { return nil })
		_ = b.Do(context.Background(), func(context.Context) error { return errors.New("down") })
	}
	reg := prometheus.NewRegistry()
	c, err := fuseboxprom.Register(reg)
	if err != nil {
		tb.Fatal(err)
	}
	c.AddRegistry("", breakers)
	return breakers, c, reg
}

// constant collects metrics that were made beforehand.
type constant []prometheus.Metric

func (c constant) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c constant) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c {
		ch <- m
	}
}

// constants returns a registry of the client library's constant metrics, with
// the names, labels, values and order of what c shows now.
func constants(c *fuseboxprom.Collector) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(constantsOf(c))
	return reg
}

func constantsOf(c *fuseboxprom.Collector) constant {
	kinds := map[fuseboxmetrics.Kind]prometheus.ValueType{
		fuseboxmetrics.Counter: prometheus.CounterValue,
		fuseboxmetrics.Gauge:   prometheus.GaugeValue,
	}
	descs := map[string]*prometheus.Desc{}
	var list constant
	for r := range c.Read() {
		i := 0
		for _, m := range r.Subject.Metrics() {
			if descs[m.Name] == nil {
				descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, append([]string{"name"}, m.Labels...), nil)
			}
			for _, labels := range m.Series {
				labels = append([]string{r.Name}, labels...)
				list = append(list, prometheus.MustNewConstMetric(descs[m.Name], kinds[m.Kind], r.Values[i], labels...))
				i++
			}
		}
	}
	return list
}

func gather(tb testing.TB, reg prometheus.Gatherer) []*dto.MetricFamily {
	tb.Helper()
	families, err := reg.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	return families
}

// BenchmarkScrape is a scrape of 1,000 breakers. It is to be compared with
// BenchmarkConstant, the client library's constant metrics in the same order and,
// which is the best case for it, in the order of the answer: sorting is a good
// part of the work.
func BenchmarkScrape(b *testing.B) {
	_, _, reg := crowd(b, 1000)
	benchmarkGather(b, reg)
}

func BenchmarkConstant(b *testing.B) {
	_, c, _ := crowd(b, 1000)
	list := constantsOf(c)
	for _, order := range []string{"as shown", "sorted"} {
		b.Run(order, func(b *testing.B) {
			if order == "sorted" {
				sortMetrics(b, list)
			}
			reg := prometheus.NewRegistry()
			reg.MustRegister(list)
			benchmarkGather(b, reg)
		})
	}
}

// sortMetrics brings metrics into the order in which a registry returns them.
func sortMetrics(tb testing.TB, list constant) {
	tb.Helper()
	keys := map[prometheus.Metric]string{}
	for _, m := range list {
		var d dto.Metric
		if err := m.Write(&d); err != nil {
			tb.Fatal(err)
		}
		key := m.Desc().String()
		for _, l := range d.GetLabel() {
			key += "\x00" + l.GetValue()
		}
		keys[m] = key
	}
	slices.SortFunc(list, func(a, b prometheus.Metric) int { return strings.Compare(keys[a], keys[b]) })
}

func benchmarkGather(b *testing.B, reg *prometheus.Registry) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		gather(b, reg)
	}
}

// BenchmarkCall is a call through one of 1,000 breakers, alone and with
// scrapes one after another beside it. The scrapes take a core of their own:
// what counts is what they cost beyond that.
func BenchmarkCall(b *testing.B) {
	for _, beside := range []string{"alone", "beside constants", "beside scrapes"} {
		b.Run(beside, func(b *testing.B) {
			breakers, c, reg := crowd(b, 1000)
			if beside == "beside constants" {
				reg = constants(c)
			}
			stop := make(chan struct{})
			var wg sync.WaitGroup
			if beside != "alone" {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							_, _ = reg.Gather()
						}
					}
				})
			}
			payments := breakers.Get("payments")
			ctx := context.Background()
			fn := func(context.Context) error { return nil }
			for b.Loop() {
				_ = payments.Do(ctx, fn)
			}
			close(stop)
			wg.Wait()
		})
	}
}

// Package fuseboxprom shows breakers, and the policies around them, to
// Prometheus.
//
//	metrics, err := fuseboxprom.Register(prometheus.DefaultRegisterer)
//	if err != nil {
//		return err
//	}
//	metrics.Add(payments)       // a *fusebox.Breaker
//	metrics.AddRegistry("", client.Breakers()) // a *fusebox.Registry: all its breakers, those to come too
//
// Package fuseboxmetrics says which metrics and labels there are; every series
// exists, with 0, as soon as its breaker does, and goes with it. A breaker has 62
// of them: with many keys look at what your Prometheus holds, or drop those of
// fusebox_transitions_total whose from and to are the same when scraping.
//
// The folders dashboards and alerts, beside the source, have a dashboard for
// Grafana and rules for Prometheus.
package fuseboxprom

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fusebox-go/fusebox/fuseboxmetrics"
)

// Collector is a prometheus.Collector that shows its Set. The zero Collector
// shows nothing yet and is ready for use; most programs get theirs from
// [Register]. It is safe for concurrent use, and may not be copied.
//
// It reads at each scrape, keeps nothing in between, and holds no goroutine.
// A scrape costs about what as many constant metrics do, and does not slow
// calls.
type Collector struct {
	// Set is what it shows. Its methods add breakers, registries and policies,
	// before or after the Collector is registered; what is shown once too often
	// never makes a scrape fail.
	fuseboxmetrics.Set
}

// Register returns the Collector of r, whose metrics r shows: a new one, or, if
// r has one already, that one. So the parts of a program may each register, and
// add what is theirs. The error is one of r: another collector has taken the
// name of a metric.
func Register(r prometheus.Registerer) (*Collector, error) {
	c := &Collector{}
	err := r.Register(c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if own, ok := already.ExistingCollector.(*Collector); ok {
			return own, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Describe implements prometheus.Collector. The descriptions are always the
// same: a registry takes one Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, list := range shapes {
		for _, s := range list {
			if s.first {
				ch <- s.desc
			}
		}
	}
}

// Collect implements prometheus.Collector. It takes no slot of a breaker and
// moves no deadline.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for r := range c.Read() {
		collect(ch, r)
	}
}

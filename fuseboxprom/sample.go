package fuseboxprom

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/fusebox-go/fusebox/fuseboxmetrics"
)

// shape is what the samples of one series have in common, whatever the name.
type shape struct {
	desc    *prometheus.Desc
	first   bool // of its metric
	counter bool
	labels  []*dto.LabelPair // sorted, as the registry wants them; nil: the pair of the name
}

// shapes are those of the series of a Reading, by subject. They are never
// changed: samples share the label pairs.
var shapes = func() (all [][]shape) {
	for _, subject := range fuseboxmetrics.Subjects() {
		var list []shape
		for _, m := range subject.Metrics() {
			list = append(list, shapesOf(m)...)
		}
		all = append(all, list)
	}
	return all
}()

func shapesOf(m fuseboxmetrics.Metric) (list []shape) {
	names := append([]string{"name"}, m.Labels...)
	desc := prometheus.NewDesc(m.Name, m.Help, names, nil)
	sorted := slices.Sorted(slices.Values(names))
	for i, values := range m.Series {
		s := shape{desc: desc, first: i == 0, counter: m.Kind == fuseboxmetrics.Counter}
		for _, name := range sorted {
			if name == "name" {
				s.labels = append(s.labels, nil)
				continue
			}
			s.labels = append(s.labels, pair(name, values[slices.Index(m.Labels, name)]))
		}
		list = append(list, s)
	}
	return list
}

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// collect sends the samples of a reading. All of one breaker share a handful of
// allocations, and those that the client library makes for a metric of its own
// are not needed: a breaker has many, and a program may have many breakers.
func collect(ch chan<- prometheus.Metric, r fuseboxmetrics.Reading) {
	list := shapes[r.Subject]
	name := pair("name", r.Name)
	samples := make([]sample, len(list))
	labels := make([]*dto.LabelPair, 0, 4*len(list)) // no metric has more
	for i := range list {
		begin := len(labels)
		for _, p := range list[i].labels {
			if p == nil {
				p = name
			}
			labels = append(labels, p)
		}
		s := &samples[i]
		s.shape, s.value = &list[i], r.Values[i]
		s.counter.Value, s.gauge.Value = &s.value, &s.value
		s.labels = labels[begin:len(labels):len(labels)] // at capacity: nobody appends in place
		ch <- s
	}
}

// sample is a prometheus.Metric: the value of a series at this scrape.
type sample struct {
	shape   *shape
	labels  []*dto.LabelPair // those of shape, with the name
	value   float64
	counter dto.Counter // one of these is handed out
	gauge   dto.Gauge
}

func (s *sample) Desc() *prometheus.Desc { return s.shape.desc }

func (s *sample) Write(m *dto.Metric) error {
	m.Label = s.labels
	if s.shape.counter {
		m.Counter = &s.counter
	} else {
		m.Gauge = &s.gauge
	}
	return nil
}

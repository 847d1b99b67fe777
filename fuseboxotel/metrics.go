package fuseboxotel

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fusebox-go/fusebox/fuseboxmetrics"
)

// ErrRegistered is returned by [Metrics.Register] while an earlier registration
// is in force: a second one would count everything twice.
var ErrRegistered = errors.New("fuseboxotel: these Metrics are registered already")

// Metrics shows its Set to a meter. The zero Metrics shows nothing yet and is
// ready for use. It is safe for concurrent use, and may not be copied.
//
// It reads when the SDK collects, keeps nothing in between, and holds no
// goroutine. Reading takes no slot of a breaker, moves no deadline, and does not
// slow calls. A breaker that has gone is not in the next collection.
//
// A meter wants one Metrics: the SDK adds up what two callbacks observe of one
// counter, so that a breaker shown by two counts twice. (Added twice to one, it
// counts once.)
type Metrics struct {
	// Set is what it shows. Its methods add breakers, registries and policies,
	// before or after Register.
	fuseboxmetrics.Set

	current atomic.Pointer[registration] // nil: none
}

// Register makes the instruments in meter and shows what the Set holds at each
// collection, until Unregister of the result, which may be called twice. Another
// Register before that is refused with [ErrRegistered], whatever its meter.
// Other errors are those of the meter.
func (m *Metrics) Register(meter metric.Meter) (metric.Registration, error) {
	r := &registration{metrics: m}
	if !m.current.CompareAndSwap(nil, r) {
		return nil, ErrRegistered
	}
	if err := r.begin(meter); err != nil {
		m.current.Store(nil)
		return nil, err
	}
	return r, nil
}

// registration is in force while it is the current one of its Metrics.
type registration struct {
	metric.Registration
	metrics *Metrics
}

func (r *registration) begin(meter metric.Meter) error {
	var all []metric.Observable
	var shapes [][]shape
	for _, subject := range fuseboxmetrics.Subjects() {
		var list []shape
		for _, m := range subject.Metrics() {
			instrument, err := instrumentOf(meter, m)
			if err != nil {
				return fmt.Errorf("fuseboxotel: %s: %w", m.Name, err)
			}
			all = append(all, instrument)
			list = append(list, shapesOf(m, instrument)...)
		}
		shapes = append(shapes, list)
	}
	var err error
	r.Registration, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		return observe(ctx, o, &r.metrics.Set, shapes)
	}, all...)
	if err != nil {
		return fmt.Errorf("fuseboxotel: %w", err)
	}
	return nil
}

// Unregister ends the registration, if it is in force: that of the meter may be
// ended twice.
func (r *registration) Unregister() error {
	err := r.Registration.Unregister()
	if err == nil {
		r.metrics.current.CompareAndSwap(r, nil)
	}
	return err
}

func instrumentOf(meter metric.Meter, m fuseboxmetrics.Metric) (metric.Float64Observable, error) {
	if m.Kind == fuseboxmetrics.Counter {
		return meter.Float64ObservableCounter(m.Name, metric.WithDescription(m.Help), metric.WithUnit(m.Unit))
	}
	return meter.Float64ObservableGauge(m.Name, metric.WithDescription(m.Help), metric.WithUnit(m.Unit))
}

// shape is what the observations of one series have in common, whatever the name.
type shape struct {
	instrument metric.Float64Observable
	attributes []attribute.KeyValue
}

func shapesOf(m fuseboxmetrics.Metric, instrument metric.Float64Observable) (list []shape) {
	for _, values := range m.Series {
		var attributes []attribute.KeyValue
		for i, value := range values {
			attributes = append(attributes, attribute.String(m.Labels[i], value))
		}
		list = append(list, shape{instrument, attributes})
	}
	return list
}

func observe(ctx context.Context, o metric.Observer, set *fuseboxmetrics.Set, shapes [][]shape) error {
	var attributes []attribute.KeyValue
	for r := range set.Read() {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := attribute.String("name", r.Name)
		for i, s := range shapes[r.Subject] {
			attributes = append(append(attributes[:0], s.attributes...), name)
			o.ObserveFloat64(s.instrument, r.Values[i], metric.WithAttributeSet(attribute.NewSet(attributes...)))
		}
	}
	return nil
}

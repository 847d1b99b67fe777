package fuseboxotel

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"

	"github.com/fusebox-go/fusebox/fuseboxmetrics"
)

// ErrRegistered is returned by [Metrics.Register] while the Metrics are
// registered with another meter: should both belong to one provider, everything
// would be there twice.
var ErrRegistered = errors.New("fuseboxotel: these Metrics are registered with another meter")

// Metrics shows its Set to a meter. The zero Metrics shows nothing yet and is
// ready for use. It is safe for concurrent use, and may not be copied.
//
// It reads when the SDK collects, keeps nothing in between, and holds no
// goroutine. Reading takes no slot of a breaker, moves no deadline, and does not
// slow calls. A breaker that has gone is not in the next collection.
//
// A meter wants one Metrics: the SDK adds up what two callbacks observe of one
// counter, and cannot be asked who else observes it, so that a breaker shown by
// two counts twice. Parts of a program that do not know one another share one:
// there a breaker added twice, and a meter registered twice, counts once.
type Metrics struct {
	// Set is what it shows. Its methods add breakers, registries and policies,
	// before or after Register.
	fuseboxmetrics.Set

	mu           sync.Mutex
	busy         chan struct{} // not nil: somebody talks to the meter, and closes it then
	users        int           // registrations that have not been ended
	meter        metric.Meter  // while there are users
	registration metric.Registration
}

// Register makes the instruments in meter and shows what the Set holds at each
// collection, until Unregister of the result. Registered twice with one meter is
// once: so the parts of a program may each register, and end, what they share.
// It is shown until the last of them has called Unregister, of which each result
// counts the first call only. With another meter the error is [ErrRegistered];
// what otel.Meter returns before otel.SetMeterProvider and what it returns after
// it are two. Other errors are those of the meter, and leave nothing registered.
func (m *Metrics) Register(meter metric.Meter) (metric.Registration, error) {
	m.lock()
	defer m.mu.Unlock()
	switch {
	case m.users == 0:
		var r metric.Registration
		var err error
		m.unlocked(func() { r, err = m.begin(meter) })
		if err != nil {
			return nil, err
		}
		m.meter, m.registration = meter, r
	case !same(m.meter, meter):
		return nil, ErrRegistered
	}
	m.users++
	return &registration{metrics: m}, nil
}

// same reports whether a and b are one meter. Those that cannot be compared
// never are.
func same(a, b metric.Meter) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// lock locks mu when nobody talks to the meter.
func (m *Metrics) lock() {
	for {
		m.mu.Lock()
		busy := m.busy
		if busy == nil {
			return
		}
		m.mu.Unlock()
		<-busy
	}
}

// unlocked calls talk, which talks to the meter, without the lock that its
// caller has. Who calls lock meanwhile waits.
func (m *Metrics) unlocked(talk func()) {
	busy := make(chan struct{})
	m.busy = busy
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.busy = nil
		close(busy)
	}()
	talk()
}

// registration is what one call of Register returned.
type registration struct {
	embedded.Registration
	metrics *Metrics
	ended   bool // guarded by metrics.mu
}

// Unregister ends what Register began, if nobody else uses it. After an error
// of the meter all is as before, and it may be called again.
func (r *registration) Unregister() error {
	m := r.metrics
	m.lock()
	defer m.mu.Unlock()
	if r.ended {
		return nil
	}
	if m.users == 1 {
		var err error
		m.unlocked(func() { err = m.registration.Unregister() })
		if err != nil {
			return err
		}
		m.meter, m.registration = nil, nil
	}
	r.ended = true
	m.users--
	return nil
}

func (m *Metrics) begin(meter metric.Meter) (metric.Registration, error) {
	var all []metric.Observable
	var shapes [][]shape
	for _, subject := range fuseboxmetrics.Subjects() {
		var list []shape
		for _, m := range subject.Metrics() {
			instrument, err := instrumentOf(meter, m)
			if err != nil {
				return nil, fmt.Errorf("fuseboxotel: %s: %w", m.Name, err)
			}
			all = append(all, instrument)
			list = append(list, shapesOf(m, instrument)...)
		}
		shapes = append(shapes, list)
	}
	r, err := meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		return observe(ctx, o, &m.Set, shapes)
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("fuseboxotel: %w", err)
	}
	return r, nil
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

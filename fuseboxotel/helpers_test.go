package fuseboxotel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxotel"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

var errDown = errors.New("down")

func succeed(context.Context) error { return nil }
func fail(context.Context) error    { return errDown }

// sdk is a meter of the SDK, and what it collects.
type sdk struct {
	metric.Meter
	reader *sdkmetric.ManualReader
}

func newSDK(tb testing.TB, options ...sdkmetric.Option) *sdk {
	tb.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(append(options, sdkmetric.WithReader(reader))...)
	tb.Cleanup(func() { provider.Shutdown(context.Background()) })
	return &sdk{provider.Meter("test"), reader}
}

// show returns Metrics that the SDK shows.
func (s *sdk) show(tb testing.TB) *fuseboxotel.Metrics {
	tb.Helper()
	m := &fuseboxotel.Metrics{}
	register(tb, m, s.Meter)
	return m
}

func register(tb testing.TB, m *fuseboxotel.Metrics, meter metric.Meter) metric.Registration {
	tb.Helper()
	r, err := m.Register(meter)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func (s *sdk) metrics(tb testing.TB) (all []metricdata.Metrics) {
	tb.Helper()
	var data metricdata.ResourceMetrics
	if err := s.reader.Collect(context.Background(), &data); err != nil {
		tb.Fatal(err)
	}
	for _, scope := range data.ScopeMetrics {
		all = append(all, scope.Metrics...)
	}
	return all
}

// series are values by name and attributes: `fusebox_state{name=a,state=open}`.
type series map[string]float64

// collect collects once.
func (s *sdk) collect(tb testing.TB) series {
	tb.Helper()
	all := series{}
	for _, m := range s.metrics(tb) {
		points, _ := pointsOf(tb, m)
		for _, p := range points {
			all[m.Name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = p.Value
		}
	}
	return all
}

// pointsOf returns the points of a metric, and whether it is a counter.
func pointsOf(tb testing.TB, m metricdata.Metrics) ([]metricdata.DataPoint[float64], bool) {
	tb.Helper()
	switch data := m.Data.(type) {
	case metricdata.Gauge[float64]:
		return data.DataPoints, false
	case metricdata.Sum[float64]:
		if !data.IsMonotonic || data.Temporality != metricdata.CumulativeTemporality {
			tb.Errorf("%s is a sum, but no counter", m.Name)
		}
		return data.DataPoints, true
	default:
		tb.Fatalf("%s is %T", m.Name, m.Data)
		return nil, false
	}
}

func (s series) want(tb testing.TB, want series) {
	tb.Helper()
	for key, v := range want {
		if got, ok := s[key]; !ok || got != v {
			tb.Errorf("%s is %v (%t), want %v", key, got, ok, v)
		}
	}
}

// count returns how many series begin so, and their sum.
func (s series) count(prefix string) (n int, sum float64) {
	for key, v := range s {
		if strings.HasPrefix(key, prefix) {
			n++
			sum += v
		}
	}
	return n, sum
}

// lab is a breaker with a scripted clock that trips at the first failure, is
// open for 10 s and probes with one call, whose lease is 5 s.
type lab struct {
	fuseboxtest.Clock
	*fusebox.Breaker
}

func newLab(name string) *lab {
	l := &lab{}
	l.Breaker = fusebox.New(name, fusebox.Config{
		Consecutive: 1, OpenFor: 10 * time.Second, OpenForMax: 10 * time.Second, OpenJitter: -1,
		Probes: 1, ProbeTimeout: 5 * time.Second, Now: l.Now,
	})
	return l
}

func (l *lab) allow(tb testing.TB) fusebox.Permit {
	tb.Helper()
	p, err := l.Allow(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return p.Take()
}

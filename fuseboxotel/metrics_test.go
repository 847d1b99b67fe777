package fuseboxotel_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
	"github.com/fusebox-go/fusebox/fuseboxotel"
)

func TestEverySeriesIsThereFromRegistration(t *testing.T) {
	s := newSDK(t)
	m := s.show(t)
	m.Add(fusebox.New("a", fusebox.Config{}))
	m.AddRetry("a", func() (uint64, uint64) { return 0, 0 })
	m.AddBulkhead("a", func() (int, uint64) { return 0, 0 })
	m.AddFallback("a", func() (uint64, uint64, uint64) { return 0, 0, 0 })
	got := s.collect(t)
	if want := 62 + 2 + 2 + 3; len(got) != want {
		t.Errorf("%d series, want %d", len(got), want)
	}
	for key, v := range got {
		if want := (series{"fusebox_state{name=a,state=closed}": 1})[key]; v != want {
			t.Errorf("%s is %v, want %v", key, v, want)
		}
	}
	got.want(t, series{
		"fusebox_transitions_total{cause=consecutive,from=closed,name=a,to=open}": 0,
		"fusebox_open_seconds_total{name=a}":                                      0,
		"fusebox_calls_total{name=a,outcome=late}":                                0,
		"fusebox_override{mode=force-open,name=a}":                                0,
		"fusebox_fallbacks_total{name=a,result=stale}":                            0,
	})
}

// TestTheInstrumentsAreThoseOfTheTable compares what the SDK knows with what
// fuseboxmetrics says.
func TestTheInstrumentsAreThoseOfTheTable(t *testing.T) {
	s := newSDK(t)
	m := s.show(t)
	m.Add(fusebox.New("a", fusebox.Config{}))
	m.AddRetry("a", func() (uint64, uint64) { return 0, 0 })
	m.AddBulkhead("a", func() (int, uint64) { return 0, 0 })
	m.AddFallback("a", func() (uint64, uint64, uint64) { return 0, 0, 0 })
	table := map[string]fuseboxmetrics.Metric{}
	for _, subject := range fuseboxmetrics.Subjects() {
		for _, x := range subject.Metrics() {
			table[x.Name] = x
		}
	}
	all := s.metrics(t)
	if len(all) != len(table) {
		t.Errorf("%d metrics, want %d", len(all), len(table))
	}
	for _, got := range all {
		want := table[got.Name]
		points, counter := pointsOf(t, got)
		if got.Description != want.Help || got.Unit != want.Unit || counter != (want.Kind == fuseboxmetrics.Counter) || len(points) != len(want.Series) {
			t.Errorf("%s: %q, unit %q, counter %t, %d series; want %+v", got.Name, got.Description, got.Unit, counter, len(points), want)
		}
	}
}

func TestC29ACollectionTakesNoProbeAndMovesNoDeadline(t *testing.T) {
	s, l := newSDK(t), newLab("a")
	s.show(t).Add(l.Breaker)
	l.Do(context.Background(), fail)
	until := l.Snapshot().Until
	for range 10 {
		l.Advance(time.Second)
		s.collect(t)
	}
	if last := l.History()[0]; !last.Until.Equal(until) {
		t.Errorf("the deadline moved from %v to %v", until, last.Until)
	}
	s.collect(t).want(t, series{"fusebox_state{name=a,state=half-open}": 1})
	p := l.allow(t)
	s.collect(t)
	if !p.Record(fusebox.Success) || l.State() != fusebox.Closed {
		t.Errorf("the probe did not close: %v", l.State())
	}
}

func TestC86TheStateIsWhatStateSays(t *testing.T) {
	s, l := newSDK(t), newLab("a")
	s.show(t).Add(l.Breaker)
	var permit fusebox.Permit
	for _, step := range []struct {
		do    func()
		state fusebox.State
		mode  string
	}{
		{func() {}, fusebox.Closed, ""},
		{func() { l.Do(context.Background(), fail) }, fusebox.Open, ""},
		{func() { l.Advance(10 * time.Second) }, fusebox.HalfOpen, ""},
		{func() { permit = l.allow(t) }, fusebox.HalfOpen, ""},
		{func() { permit.Record(fusebox.Success) }, fusebox.Closed, ""},
		{func() { l.Do(context.Background(), fail); l.Advance(10 * time.Second); l.allow(t) }, fusebox.HalfOpen, ""},
		{func() { l.Advance(5 * time.Second) }, fusebox.Open, ""},
		{func() { l.Reset(fusebox.Note{}) }, fusebox.Closed, ""},
		{func() { l.Override(fusebox.ForceOpen, fusebox.Note{}) }, fusebox.Open, "force-open"},
		{func() { l.Override(fusebox.ForceClosed, fusebox.Note{}) }, fusebox.Closed, "force-closed"},
		{func() { l.Lift(fusebox.Note{}) }, fusebox.Closed, ""},
	} {
		step.do()
		got := s.collect(t)
		got.want(t, series{"fusebox_state{name=a,state=" + l.State().String() + "}": 1})
		if _, sum := got.count("fusebox_state"); sum != 1 || l.State() != step.state {
			t.Errorf("%v states at once, the breaker is %v, want %v", sum, l.State(), step.state)
		}
		want := 0.0
		if step.mode != "" {
			want = 1
			got.want(t, series{"fusebox_override{mode=" + step.mode + ",name=a}": 1})
		}
		if _, sum := got.count("fusebox_override"); sum != want {
			t.Errorf("%v overrides, want %v", sum, want)
		}
	}
}

func TestC88AndC89RatesAndRejections(t *testing.T) {
	s, l := newSDK(t), newLab("a")
	m := s.show(t)
	m.Add(l.Breaker)
	empty := series{"fusebox_window_failure_rate{name=a}": 0, "fusebox_window_slow_rate{name=a}": 0, "fusebox_window_calls{name=a}": 0}
	s.collect(t).want(t, empty)
	l.Do(context.Background(), fail)
	for range 5 {
		l.Do(context.Background(), succeed)
	}
	l.Advance(10 * time.Second)
	p := l.allow(t)
	for range 3 {
		l.Do(context.Background(), succeed)
	}
	got := s.collect(t)
	got.want(t, empty)
	got.want(t, series{
		"fusebox_rejected_total{name=a,reason=open}":    5,
		"fusebox_rejected_total{name=a,reason=probing}": 3,
		"fusebox_calls_total{name=a,outcome=failure}":   1,
		"fusebox_open_seconds_total{name=a}":            10,
	})
	p.Record(fusebox.Failure)
	s.collect(t).want(t, series{"fusebox_probes_total{name=a,result=failed}": 1, "fusebox_calls_total{name=a,outcome=failure}": 2})
}

func TestC90OneCallHasOneOutcome(t *testing.T) {
	s, l := newSDK(t), newLab("a")
	m := s.show(t)
	m.Add(l.Breaker)
	m.AddFallback("a", func() (uint64, uint64, uint64) { return 1, 0, 0 })
	l.Do(context.Background(), fail)
	for range 3 { // collections add nothing up
		got := s.collect(t)
		got.want(t, series{"fusebox_calls_total{name=a,outcome=failure}": 1, "fusebox_fallbacks_total{name=a,result=answered}": 1})
		if _, sum := got.count("fusebox_calls_total"); sum != 1 {
			t.Errorf("%v calls, want 1", sum)
		}
	}
}

func TestC91SeriesAreBoundedAndGoWithTheirBreaker(t *testing.T) {
	s := newSDK(t)
	m := s.show(t)
	hosts := &fusebox.Registry{MaxKeys: 50}
	remove := m.AddRegistry("", hosts)
	for i := range 10_000 {
		hosts.Get(fmt.Sprint("host-", i))
		if i%2000 == 0 {
			s.collect(t)
		}
	}
	if n, _ := s.collect(t).count("fusebox_window_calls"); n != 50 {
		t.Errorf("%d names, want 50", n)
	}
	hosts.Delete("host-9999")
	got := s.collect(t)
	if n, _ := got.count("fusebox_window_calls"); n != 49 {
		t.Errorf("%d names, want 49", n)
	}
	if n, _ := got.count("fusebox_transitions_total"); n != 36*49 {
		t.Errorf("%d transitions, want %d", n, 36*49)
	}
	remove()
	if got := s.collect(t); len(got) != 0 {
		t.Errorf("after the registry was removed: %v", got)
	}
}

// TestMoreThan55BreakersNeedAHigherLimit holds what the documentation says about
// the SDK.
func TestMoreThan55BreakersNeedAHigherLimit(t *testing.T) {
	for _, c := range []struct {
		name     string
		breakers int
		options  []sdkmetric.Option
		overflow bool
	}{
		{"55 fit", 55, nil, false},
		{"56 do not", 56, nil, true},
		{"a higher limit", 100, []sdkmetric.Option{sdkmetric.WithCardinalityLimit(36*100 + 1)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSDK(t, c.options...)
			m := s.show(t)
			hosts := &fusebox.Registry{}
			m.AddRegistry("", hosts)
			for i := range c.breakers {
				hosts.Get(fmt.Sprint("host-", i))
			}
			n, _ := s.collect(t).count("fusebox_transitions_total{otel.metric.overflow=true}")
			if (n > 0) != c.overflow {
				t.Errorf("%d overflows, want some: %t", n, c.overflow)
			}
		})
	}
}

func TestRegisteredTwiceIsOnce(t *testing.T) {
	s := newSDK(t)
	var m fuseboxotel.Metrics
	b := fusebox.New("a", fusebox.Config{})
	hosts := &fusebox.Registry{}
	m.Add(b)
	m.Add(b)
	m.AddRegistry("", hosts)
	m.AddRegistry("", hosts)
	hosts.Get("h").Do(context.Background(), fail)
	b.Do(context.Background(), fail)
	want := series{"fusebox_calls_total{name=a,outcome=failure}": 1, "fusebox_calls_total{name=h,outcome=failure}": 1}

	first, second := register(t, &m, s), register(t, &m, s)
	s.collect(t).want(t, want)
	for range 2 { // twice is once here, too
		if err := first.Unregister(); err != nil {
			t.Error(err)
		}
	}
	s.collect(t).want(t, want) // the second goes on
	if err := second.Unregister(); err != nil {
		t.Error(err)
	}
	if got := s.collect(t); len(got) != 0 {
		t.Errorf("after the last Unregister: %v", got)
	}
	third := register(t, &m, s)
	if err := second.Unregister(); err != nil { // does not end the third
		t.Error(err)
	}
	s.collect(t).want(t, want)
	if err := third.Unregister(); err != nil {
		t.Error(err)
	}
}

func TestAnotherMeterIsRefused(t *testing.T) {
	first, other := newSDK(t), newSDK(t)
	var m fuseboxotel.Metrics
	m.Add(fusebox.New("a", fusebox.Config{}))
	registration := register(t, &m, first)
	for _, meter := range []metric.Meter{other, incomparable{other, nil}} {
		if r, err := m.Register(meter); !errors.Is(err, fuseboxotel.ErrRegistered) || r != nil {
			t.Errorf("%v, %v, want ErrRegistered", r, err)
		}
	}
	if err := registration.Unregister(); err != nil {
		t.Error(err)
	}
	registration = register(t, &m, other)
	if len(first.collect(t)) != 0 || len(other.collect(t)) == 0 {
		t.Error("shown where it was, or not where it is")
	}
	if err := registration.Unregister(); err != nil {
		t.Error(err)
	}
	register(t, &m, incomparable{other, nil})
	if _, err := m.Register(incomparable{other, nil}); !errors.Is(err, fuseboxotel.ErrRegistered) {
		t.Errorf("%v, want ErrRegistered: nobody can tell", err)
	}
}

// incomparable is a meter that == cannot compare.
type incomparable struct {
	metric.Meter
	_ []int
}

// TestRegistrationsRace has parts of a program come and go: what they share is
// shown once while somebody is there, and not otherwise.
func TestRegistrationsRace(t *testing.T) {
	s := newSDK(t)
	var m fuseboxotel.Metrics
	b := fusebox.New("a", fusebox.Config{})
	b.Do(context.Background(), fail)
	m.Add(b)
	stays := register(t, &m, s)
	once := series{"fusebox_calls_total{name=a,outcome=failure}": 1}
	for _, stay := range []bool{true, false} {
		if !stay {
			if err := stays.Unregister(); err != nil {
				t.Error(err)
			}
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					r, err := m.Register(s)
					if err != nil {
						t.Error(err)
						return
					}
					s.collect(t).want(t, once)
					if err := r.Unregister(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := len(s.collect(t)) > 0; got != stay {
			t.Errorf("shown: %t, want %t", got, stay)
		}
	}
}

func TestNamesAreValidAndShownOnce(t *testing.T) {
	s := newSDK(t)
	m := s.show(t)
	a := fusebox.New("caf\xe9", fusebox.Config{})
	a.Do(context.Background(), fail)
	m.Add(a)
	m.Add(fusebox.New("caf\xe8", fusebox.Config{}))
	got := s.collect(t)
	got.want(t, series{"fusebox_calls_total{name=caf\uFFFD,outcome=failure}": 1})
	for key := range got {
		if !utf8.ValidString(key) {
			t.Errorf("%q", key)
		}
	}
	if h := m.Hidden(); len(h) != 1 {
		t.Errorf("hidden: %q", h)
	}
}

// brokenMeter fails to make a gauge, or to register.
type brokenMeter struct {
	noop.Meter
	gauges, callback bool
}

func (m brokenMeter) Float64ObservableGauge(string, ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	if m.gauges {
		return nil, errDown
	}
	return noop.Float64ObservableGauge{}, nil
}

func (m brokenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	if m.callback {
		return nil, errDown
	}
	return brokenRegistration{}, nil
}

type brokenRegistration struct{ noop.Registration }

func (brokenRegistration) Unregister() error { return errDown }

func TestErrorsOfTheMeter(t *testing.T) {
	s := newSDK(t)
	var m fuseboxotel.Metrics
	m.Add(fusebox.New("a", fusebox.Config{}))
	for _, broken := range []brokenMeter{{gauges: true}, {callback: true}} {
		if r, err := m.Register(broken); !errors.Is(err, errDown) || r != nil {
			t.Errorf("%v, %v, want the error of the meter", r, err)
		}
	}
	stays := register(t, &m, brokenMeter{}) // the failures above have left nothing
	for range 2 {
		if err := stays.Unregister(); !errors.Is(err, errDown) {
			t.Errorf("Unregister: %v", err)
		}
	}
	if _, err := m.Register(s); !errors.Is(err, fuseboxotel.ErrRegistered) {
		t.Errorf("%v, want ErrRegistered: the other could not be ended", err)
	}
}

// TestAMeterThatPanicsLeavesNothing registered, and nobody waiting.
func TestAMeterThatPanicsLeavesNothing(t *testing.T) {
	s := newSDK(t)
	var m fuseboxotel.Metrics
	m.Add(fusebox.New("a", fusebox.Config{}))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		m.Register(nil)
	}()
	register(t, &m, s)
	if len(s.collect(t)) == 0 {
		t.Error("nothing is shown")
	}
}

func TestACollectionEndsWithItsContext(t *testing.T) {
	s := newSDK(t)
	m := s.show(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	asked := 0
	for _, name := range []string{"a", "b", "c"} {
		m.AddRetry(name, func() (uint64, uint64) { asked++; cancel(); return 0, 0 })
	}
	if err := s.reader.Collect(ctx, new(metricdata.ResourceMetrics)); !errors.Is(err, context.Canceled) || asked != 1 {
		t.Errorf("%v after %d readings", err, asked)
	}
}

func TestCollectionsBesideCalls(t *testing.T) {
	s := newSDK(t)
	m := s.show(t)
	hosts := &fusebox.Registry{MaxKeys: 20, Config: func(string) fusebox.Config {
		return fusebox.Config{Consecutive: 2, OpenFor: 1}
	}}
	m.AddRegistry("", hosts)
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range 300 {
				hosts.Get(fmt.Sprint("host-", (i+w)%100)).Do(context.Background(), []func(context.Context) error{succeed, fail, fail}[i%3])
			}
		})
		wg.Go(func() {
			for range 4 {
				got := s.collect(t)
				if n, sum := got.count("fusebox_state"); float64(n) != 3*sum || sum > 100 {
					t.Errorf("%d states, %v of them are 1", n, sum)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkCollect is a collection of 1,000 breakers.
func BenchmarkCollect(b *testing.B) {
	s := newSDK(b, sdkmetric.WithCardinalityLimit(0))
	m := s.show(b)
	hosts := &fusebox.Registry{}
	m.AddRegistry("", hosts)
	for i := range 1000 {
		hosts.Get(fmt.Sprintf("backend-%d.example.com", i))
	}
	b.ReportAllocs()
	var data metricdata.ResourceMetrics
	for b.Loop() {
		if err := s.reader.Collect(context.Background(), &data); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTwoMetricsOfAMeterCountTwice holds what the documentation warns of.
func TestTwoMetricsOfAMeterCountTwice(t *testing.T) {
	s := newSDK(t)
	b := fusebox.New("a", fusebox.Config{})
	b.Do(context.Background(), fail)
	for range 2 {
		s.show(t).Add(b)
	}
	s.collect(t).want(t, series{"fusebox_calls_total{name=a,outcome=failure}": 2})
}

package fuseboxprom_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxprom"
)

func TestEverySeriesIsThereFromRegistration(t *testing.T) {
	e := serve(t)
	if got := e.scrape(t); len(got) != 0 {
		t.Errorf("nothing was added, and there is %v", got)
	}
	e.Add(fusebox.New("a", fusebox.Config{}))
	e.AddRetry("a", func() (uint64, uint64) { return 0, 0 })
	e.AddBulkhead("a", func() (int, uint64) { return 0, 0 })
	e.AddFallback("a", func() (uint64, uint64, uint64) { return 0, 0, 0 })
	got := e.scrape(t)
	if want := 62 + 2 + 2 + 3; len(got) != want {
		t.Errorf("%d series, want %d", len(got), want)
	}
	for key, v := range got {
		if want := (series{`fusebox_state{name="a",state="closed"}`: 1})[key]; v != want {
			t.Errorf("%s is %v, want %v", key, v, want)
		}
	}
	got.want(t, series{
		`fusebox_transitions_total{cause="consecutive",from="closed",name="a",to="open"}`: 0,
		`fusebox_open_seconds_total{name="a"}`:                                            0,
		`fusebox_calls_total{name="a",outcome="late"}`:                                    0,
		`fusebox_rejected_total{name="a",reason="probing"}`:                               0,
		`fusebox_slow_calls_total{name="a"}`:                                              0,
		`fusebox_would_reject_total{name="a",outcome="ignored"}`:                          0,
		`fusebox_window_failure_rate{name="a"}`:                                           0,
		`fusebox_window_slow_rate{name="a"}`:                                              0,
		`fusebox_window_calls{name="a"}`:                                                  0,
		`fusebox_probes_total{name="a",result="expired"}`:                                 0,
		`fusebox_override{mode="force-open",name="a"}`:                                    0,
		`fusebox_retries_total{name="a"}`:                                                 0,
		`fusebox_retry_budget_exhausted_total{name="a"}`:                                  0,
		`fusebox_bulkhead_in_flight{name="a"}`:                                            0,
		`fusebox_bulkhead_rejected_total{name="a"}`:                                       0,
		`fusebox_fallbacks_total{name="a",result="stale"}`:                                0,
	})
}

func TestTheMetricsAreWellFormed(t *testing.T) {
	e := serve(t)
	e.AddRetry("a", func() (uint64, uint64) { return 0, 0 })
	e.AddBulkhead("a", func() (int, uint64) { return 0, 0 })
	e.AddFallback("a", func() (uint64, uint64, uint64) { return 0, 0, 0 })
	e.Add(fusebox.New("a", fusebox.Config{}))
	problems, err := testutil.GatherAndLint(e.registry)
	if err != nil {
		t.Error(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range gather(t, e.registry) {
		want := dto.MetricType_GAUGE
		if strings.HasSuffix(f.GetName(), "_total") {
			want = dto.MetricType_COUNTER
		}
		if f.GetType() != want {
			t.Errorf("%s is a %v", f.GetName(), f.GetType())
		}
		sorted := func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) }
		for _, m := range f.GetMetric() {
			if !slices.IsSortedFunc(m.GetLabel(), sorted) {
				t.Errorf("%s: the labels are not sorted: the client library sorts them at each scrape", f.GetName())
			}
		}
	}
}

func TestC29AScrapeTakesNoProbeAndMovesNoDeadline(t *testing.T) {
	e, l := serve(t), newLab("a")
	e.Add(l.Breaker)
	l.Do(context.Background(), fail)
	until := l.Snapshot().Until
	for range 10 {
		l.Advance(time.Second)
		e.scrape(t)
	}
	if last := l.History()[0]; !last.Until.Equal(until) {
		t.Errorf("the deadline moved from %v to %v", until, last.Until)
	}
	for range 10 {
		e.scrape(t).want(t, series{`fusebox_state{name="a",state="half-open"}`: 1})
	}
	p := l.allow(t)
	for range 10 {
		e.scrape(t)
	}
	if !p.Record(fusebox.Success) || l.State() != fusebox.Closed {
		t.Errorf("the probe did not close: %v", l.State())
	}
}

// TestC86TheStateIsWhatStateSays leads a breaker through everything that
// changes its state or its mode, and scrapes after each.
func TestC86TheStateIsWhatStateSays(t *testing.T) {
	e, l := serve(t), newLab("a")
	e.Add(l.Breaker)
	ctx := context.Background()
	var note fusebox.Note
	var permit fusebox.Permit
	for _, step := range []struct {
		name  string
		do    func()
		state fusebox.State
		mode  string // of the override
	}{
		{"new", func() {}, fusebox.Closed, ""},
		{"trip", func() { l.Do(ctx, fail) }, fusebox.Open, ""},
		{"deadline", func() { l.Advance(10 * time.Second) }, fusebox.HalfOpen, ""},
		{"probe", func() { permit = l.allow(t) }, fusebox.HalfOpen, ""},
		{"success", func() { permit.Record(fusebox.Success) }, fusebox.Closed, ""},
		{"second trip", func() { l.Do(ctx, fail) }, fusebox.Open, ""},
		{"second deadline", func() { l.Advance(10 * time.Second) }, fusebox.HalfOpen, ""},
		{"second probe", func() { permit = l.allow(t) }, fusebox.HalfOpen, ""},
		{"end of its lease", func() { l.Advance(5 * time.Second) }, fusebox.Open, ""},
		{"reset", func() { l.Reset(note) }, fusebox.Closed, ""},
		{"force-open", func() { l.Override(fusebox.ForceOpen, note) }, fusebox.Open, "force-open"},
		{"lift", func() { l.Lift(note) }, fusebox.HalfOpen, ""},
		{"force-closed", func() { l.Override(fusebox.ForceClosed, note) }, fusebox.Closed, "force-closed"},
		{"failure while forced", func() { l.Do(ctx, fail) }, fusebox.Closed, "force-closed"},
		{"shadow instead", func() { l.Override(fusebox.Shadow, note) }, fusebox.Closed, "shadow"},
		{"trip in shadow", func() { l.Do(ctx, fail) }, fusebox.Open, "shadow"},
		{"enforce by hand", func() { l.Override(fusebox.Enforce, note) }, fusebox.Open, "enforce"},
		{"off", func() { l.Override(fusebox.Off, note) }, fusebox.Closed, "off"},
		{"force-open for a minute", func() {
			l.Override(fusebox.ForceOpen, fusebox.Note{Until: l.Now().Add(time.Minute)})
		}, fusebox.Open, "force-open"},
		{"its end", func() { l.Advance(time.Minute) }, fusebox.HalfOpen, ""},
		{"mode off by configuration", func() {
			c := l.Config()
			c.Mode = fusebox.Off
			if err := l.Reconfigure(c); err != nil {
				t.Fatal(err)
			}
		}, fusebox.Closed, ""},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.do()
			got := e.scrape(t)
			if l.State() != step.state {
				t.Fatalf("the breaker is %v, want %v", l.State(), step.state)
			}
			for _, s := range []fusebox.State{fusebox.Closed, fusebox.HalfOpen, fusebox.Open} {
				want := 0.0
				if s == step.state {
					want = 1
				}
				got.want(t, series{fmt.Sprintf(`fusebox_state{name="a",state="%v"}`, s): want})
			}
			for _, m := range []string{"enforce", "shadow", "off", "force-open", "force-closed"} {
				want := 0.0
				if m == step.mode {
					want = 1
				}
				got.want(t, series{fmt.Sprintf(`fusebox_override{mode="%s",name="a"}`, m): want})
			}
		})
	}
}

func TestC88TheRateOfAnEmptyWindowIsZero(t *testing.T) {
	e := serve(t)
	b := fusebox.New("a", fusebox.Config{MinCalls: 10})
	e.Add(b)
	e.scrape(t).want(t, series{`fusebox_window_failure_rate{name="a"}`: 0, `fusebox_window_slow_rate{name="a"}`: 0, `fusebox_window_calls{name="a"}`: 0})
	b.Do(context.Background(), fail)
	b.Do(context.Background(), succeed)
	b.Do(context.Background(), succeed)
	b.Do(context.Background(), succeed)
	e.scrape(t).want(t, series{`fusebox_window_failure_rate{name="a"}`: 0.25, `fusebox_window_calls{name="a"}`: 4})
}

func TestC89RejectedCallsAreVisible(t *testing.T) {
	e, l := serve(t), newLab("a")
	e.Add(l.Breaker)
	l.Do(context.Background(), fail)
	for range 5 {
		l.Do(context.Background(), succeed)
	}
	l.Advance(10 * time.Second)
	p := l.allow(t)
	for range 3 {
		l.Do(context.Background(), succeed)
	}
	p.Record(fusebox.Ignored)
	got := e.scrape(t)
	got.want(t, series{
		`fusebox_rejected_total{name="a",reason="open"}`:                                  5,
		`fusebox_rejected_total{name="a",reason="probing"}`:                               3,
		`fusebox_calls_total{name="a",outcome="failure"}`:                                 1,
		`fusebox_calls_total{name="a",outcome="ignored"}`:                                 1,
		`fusebox_probes_total{name="a",result="ignored"}`:                                 1,
		`fusebox_open_seconds_total{name="a"}`:                                            10,
		`fusebox_transitions_total{cause="consecutive",from="closed",name="a",to="open"}`: 1,
	})
	if _, sum := got.count("fusebox_calls_total"); sum != 2 {
		t.Errorf("%v calls finished, want 2", sum)
	}
}

// TestC89ShadowCountsWhatItWouldReject: calls that a shadow breaker would have
// rejected are not rejected, and not among the calls.
func TestC89ShadowCountsWhatItWouldReject(t *testing.T) {
	e := serve(t)
	b := fusebox.New("a", fusebox.Config{Mode: fusebox.Shadow, Consecutive: 1})
	e.Add(b)
	for range 4 {
		b.Do(context.Background(), fail)
	}
	b.Do(context.Background(), succeed)
	e.scrape(t).want(t, series{
		`fusebox_would_reject_total{name="a",outcome="failure"}`: 3,
		`fusebox_would_reject_total{name="a",outcome="success"}`: 1,
		`fusebox_calls_total{name="a",outcome="failure"}`:        1,
		`fusebox_calls_total{name="a",outcome="success"}`:        0,
		`fusebox_rejected_total{name="a",reason="open"}`:         0,
	})
}

func TestC90OneCallHasOneOutcome(t *testing.T) {
	e := serve(t)
	b := fusebox.New("a", fusebox.Config{})
	e.Add(b)
	var answered uint64
	e.AddFallback("a", func() (uint64, uint64, uint64) { return answered, 0, 0 })
	if err := b.Do(context.Background(), fail); err != nil {
		answered++ // in the place of a fallback
	}
	got := e.scrape(t)
	got.want(t, series{`fusebox_calls_total{name="a",outcome="failure"}`: 1, `fusebox_fallbacks_total{name="a",result="answered"}`: 1})
	for _, prefix := range []string{"fusebox_calls_total", "fusebox_fallbacks_total"} {
		if _, sum := got.count(prefix); sum != 1 {
			t.Errorf("%s: %v, want 1", prefix, sum)
		}
	}
}

func TestC91SeriesGoWithTheirBreaker(t *testing.T) {
	e := serve(t)
	hosts := &fusebox.Registry{MaxKeys: 100}
	remove := e.AddRegistry("", hosts)
	hosts.Get("a").Do(context.Background(), fail)
	hosts.Get("b")
	if n, _ := e.scrape(t).count(`fusebox_`); n != 2*62 {
		t.Errorf("%d series, want those of two breakers", n)
	}
	hosts.Delete("a")
	got := e.scrape(t)
	if n, _ := got.count(`fusebox_window_calls`); n != 1 {
		t.Errorf("%v after a was deleted", got)
	}
	for i := range 10_000 {
		hosts.Get(fmt.Sprint("host-", i))
	}
	if n, _ := e.scrape(t).count(`fusebox_window_calls`); n != 100 {
		t.Errorf("%d label values, want 100", n)
	}
	remove()
	if got := e.scrape(t); len(got) != 0 {
		t.Errorf("after the registry was removed: %v", got)
	}
}

func TestRegisteredTwiceIsOnce(t *testing.T) {
	e := serve(t)
	again, err := fuseboxprom.Register(e.registry)
	if err != nil || again != e.Collector {
		t.Fatalf("%p, %v, want %p", again, err, e.Collector)
	}
	hosts := &fusebox.Registry{}
	b := hosts.Get("a")
	for _, c := range []*fuseboxprom.Collector{e.Collector, again} {
		c.Add(b)
		c.AddRegistry("", hosts)
	}
	b.Do(context.Background(), fail)
	e.scrape(t).want(t, series{`fusebox_calls_total{name="a",outcome="failure"}`: 1})

	var already prometheus.AlreadyRegisteredError
	if err := e.registry.Register(again); !errors.As(err, &already) {
		t.Errorf("registered by hand: %v, want an AlreadyRegisteredError", err)
	}
	e.scrape(t)
}

func TestRegisterUnderMoreLabels(t *testing.T) {
	reg := prometheus.NewRegistry()
	wrap := func(zone string) *fuseboxprom.Collector {
		c, err := fuseboxprom.Register(prometheus.WrapRegistererWith(prometheus.Labels{"zone": zone, "app": "x"}, reg))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b := wrap("a"), wrap("b")
	if a == b || wrap("a") != a {
		t.Error("each zone has one collector of its own")
	}
	one := fusebox.New("one", fusebox.Config{})
	a.Add(one)
	b.Add(one)
	b.Add(fusebox.New("two", fusebox.Config{}))
	for _, f := range gather(t, reg) { // it would find two series of the same labels, had one taken the other's place
		per := len(f.GetMetric()) / 3
		if len(f.GetMetric()) != 3*per {
			t.Errorf("%s has %d series, want %d", f.GetName(), len(f.GetMetric()), 3*per)
		}
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); l[0].GetName() != "app" || l[len(l)-1].GetName() != "zone" {
				t.Errorf("%s: %v", f.GetName(), l)
			}
		}
	}
}

func TestRegisterReportsWhatIsInItsWay(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "fusebox_state", Help: "Something else."}))
	c, err := fuseboxprom.Register(reg)
	if err == nil || c != nil {
		t.Errorf("%v, %v, want an error", c, err)
	}

	// The same descriptions, from a collector of another type.
	reg = prometheus.NewRegistry()
	reg.MustRegister(struct{ prometheus.Collector }{&fuseboxprom.Collector{}})
	var already prometheus.AlreadyRegisteredError
	if c, err := fuseboxprom.Register(reg); !errors.As(err, &already) || c != nil {
		t.Errorf("%v, %v, want an AlreadyRegisteredError", c, err)
	}
}

func TestNothingAddedMakesAScrapeFail(t *testing.T) {
	e := serve(t)
	first := fusebox.New("x", fusebox.Config{})
	first.Do(context.Background(), fail)
	hosts := &fusebox.Registry{}
	hosts.Get("x")
	hosts.Get("caf\xe9")
	hosts.Get("caf\xe8")
	hosts.Get("")
	hosts.Get("quote\" backslash\\ newline\n")
	e.Add(first)
	e.Add(fusebox.New("x", fusebox.Config{}))
	e.AddRegistry("", hosts)
	e.AddRetry("x", func() (uint64, uint64) { return 1, 0 })
	e.AddRetry("x", func() (uint64, uint64) { return 2, 0 })
	got := e.scrape(t)
	got.want(t, series{
		`fusebox_calls_total{name="x",outcome="failure"}`:            1,
		`fusebox_retries_total{name="x"}`:                            1,
		"fusebox_window_calls{name=\"caf\uFFFD\"}":                   0,
		`fusebox_window_calls{name=""}`:                              0,
		`fusebox_window_calls{name="quote\" backslash\\ newline\n"}`: 0,
	})
	if n, _ := got.count("fusebox_window_calls"); n != 4 {
		t.Errorf("%d breakers are shown, want 4", n)
	}
	hidden := e.Hidden()
	slices.Sort(hidden)
	if !slices.Equal(hidden, []string{"caf\uFFFD", "x"}) {
		t.Errorf("hidden: %q", hidden)
	}
}

// TestAScrapeAllocatesAsConstantMetricsDo holds the cost of a scrape without a
// stopwatch; the benchmarks have one.
func TestAScrapeAllocatesAsConstantMetricsDo(t *testing.T) {
	_, c, reg := crowd(t, 30)
	same := constants(c)
	scrape := testing.AllocsPerRun(3, func() { gather(t, reg) })
	constant := testing.AllocsPerRun(3, func() { gather(t, same) })
	if scrape > 1.15*constant {
		t.Errorf("%v allocations, with constant metrics %v", scrape, constant)
	}
}

// TestScrapesBesideCalls churns keys, changes states and scrapes, all at once.
func TestScrapesBesideCalls(t *testing.T) {
	e := serve(t)
	hosts := &fusebox.Registry{MaxKeys: 20, Config: func(string) fusebox.Config {
		return fusebox.Config{Consecutive: 2, OpenFor: 1}
	}}
	payments := fusebox.New("payments", fusebox.Config{Consecutive: 3, OpenFor: 1})
	e.AddRegistry("", hosts)
	e.Add(payments)
	var wg sync.WaitGroup
	const calls = 600
	for w := range 2 {
		wg.Go(func() {
			for i := range calls {
				f := []func(context.Context) error{succeed, fail, fail, fail}[i%4]
				hosts.Get(fmt.Sprint("host-", (i*(w+1))%100)).Do(context.Background(), f)
				payments.Do(context.Background(), f)
			}
		})
	}
	var before series
	for range 2 {
		wg.Go(func() {
			for range 5 {
				got := e.scrape(t)
				if n, sum := got.count("fusebox_state"); float64(n) != 3*sum || sum > 100 {
					t.Errorf("%d states, %v of them are 1", n, sum)
				}
			}
		})
	}
	wg.Go(func() {
		for range 5 {
			got := e.scrape(t)
			for key, v := range before {
				if now := got[key]; now < v {
					t.Errorf("%s went back from %v to %v", key, v, now)
				}
			}
			before = series{}
			for key, v := range got {
				if name := `name="payments"`; strings.Contains(key, "_total{") && strings.Contains(key, name) {
					before[key] = v
				}
			}
		}
	})
	wg.Wait()
	finished := 0.0
	got := e.scrape(t)
	for _, outcome := range []string{"success", "failure", "ignored", "late"} {
		finished += got[`fusebox_calls_total{name="payments",outcome="`+outcome+`"}`]
	}
	rejected := got[`fusebox_rejected_total{name="payments",reason="open"}`] + got[`fusebox_rejected_total{name="payments",reason="probing"}`]
	if finished+rejected != 2*calls {
		t.Errorf("%v finished, %v rejected, of %d calls", finished, rejected, 2*calls)
	}
}

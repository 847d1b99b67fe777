package fuseboxmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

func TestEverySeriesIsThereFromTheBeginning(t *testing.T) {
	var set fuseboxmetrics.Set
	if got := read(t, &set); len(got) != 0 {
		t.Errorf("an empty set has %v", got)
	}
	set.Add(fusebox.New("a", fusebox.Config{}))
	set.AddRetry("a", func() (uint64, uint64) { return 0, 0 })
	set.AddBulkhead("a", func() (int, uint64) { return 0, 0 })
	set.AddFallback("a", func() (uint64, uint64, uint64) { return 0, 0, 0 })
	got := read(t, &set)
	names := map[string]bool{}
	for _, s := range fuseboxmetrics.Subjects() {
		for _, m := range s.Metrics() {
			if names[m.Name] || m.Help == "" {
				t.Errorf("metric %q twice, or without help", m.Name)
			}
			names[m.Name] = true
		}
	}
	if len(names) != 17 {
		t.Errorf("%d metrics, want 17", len(names))
	}
	for key, v := range got {
		if want := map[string]float64{"fusebox_state{a,closed}": 1}[key]; v != want {
			t.Errorf("%s is %v, want %v", key, v, want)
		}
	}
	if fuseboxmetrics.Subject(99).Metrics() != nil {
		t.Error("there are metrics of no subject")
	}
}

func TestC29ReadingTakesNoProbe(t *testing.T) {
	l := newLab("a")
	l.Do(context.Background(), fail)
	l.Advance(10 * time.Second)
	for range 100 {
		read(t, &l.set).want(t, series{"fusebox_state{a,half-open}": 1, "fusebox_transitions_total{a,open,half-open,deadline}": 0})
	}
	p := allow(t, l.Breaker)
	if _, err := l.Allow(context.Background()); !errors.Is(err, fusebox.ErrProbing) {
		t.Errorf("the second call: %v, want a rejection for want of a probe", err)
	}
	for range 100 {
		read(t, &l.set)
	}
	if !p.Record(fusebox.Success) || l.State() != fusebox.Closed {
		t.Errorf("the probe did not close: %v", l.State())
	}
}

func TestC29ReadingMovesNoDeadline(t *testing.T) {
	l := newLab("a")
	l.Do(context.Background(), fail)
	until := l.Snapshot().Until
	for range 10 {
		l.Advance(time.Second - 1)
		read(t, &l.set).want(t, series{"fusebox_state{a,open}": 1})
		if now := l.Snapshot().Until; !now.Equal(until) {
			t.Fatalf("the deadline moved from %v to %v", until, now)
		}
	}
}

func TestC89RejectedCallsAreVisible(t *testing.T) {
	l := newLab("a")
	l.Do(context.Background(), fail)
	for range 5 {
		l.Do(context.Background(), succeed)
	}
	l.Advance(10 * time.Second)
	p := allow(t, l.Breaker)
	for range 3 {
		l.Do(context.Background(), succeed)
	}
	want := series{
		"fusebox_rejected_total{a,open}": 5, "fusebox_rejected_total{a,probing}": 3,
		"fusebox_calls_total{a,failure}": 1, "fusebox_calls_total{a,success}": 0,
		"fusebox_open_seconds_total{a}": 10,
	}
	read(t, &l.set).want(t, want)
	p.Record(fusebox.Success)
	want["fusebox_calls_total{a,success}"] = 1
	want["fusebox_probes_total{a,succeeded}"] = 1
	read(t, &l.set).want(t, want)
}

// TestEveryNumberHasItsSeries reads a Snapshot whose numbers all differ: none may
// be taken for another.
func TestEveryNumberHasItsSeries(t *testing.T) {
	s := fusebox.Snapshot{
		State: fusebox.HalfOpen, Mode: fusebox.ForceOpen, Override: true,
		Counts: fusebox.Counts{Calls: 8, Failures: 2, Slow: 4},
		Totals: fusebox.Totals{
			Successes: 11, Failures: 12, Ignored: 13, Late: 14, Slow: 15,
			RejectedOpen: 16, RejectedProbing: 17,
			WouldReject: fusebox.WouldReject{Successes: 18, Failures: 19, Ignored: 20},
			Probes:      fusebox.ProbeTotals{Succeeded: 21, Failed: 22, Ignored: 23, Expired: 24},
			Open:        25500 * time.Millisecond,
			Transitions: []fusebox.TransitionCount{
				{From: fusebox.Closed, To: fusebox.Open, Cause: fusebox.CauseSlowRate, Count: 26},
				{From: fusebox.HalfOpen, To: fusebox.HalfOpen, Cause: fusebox.CauseLift, Count: 27},
				{From: fusebox.Closed, To: fusebox.HalfOpen, Cause: fusebox.CauseDeadline, Count: 99}, // no breaker does that
			},
		},
	}
	got := series{}
	got.add(t, fuseboxmetrics.Reading{Name: "a", Values: fuseboxmetrics.AppendValues(nil, &s)})
	want := series{
		"fusebox_state{a,half-open}":                            1,
		"fusebox_override{a,force-open}":                        1,
		"fusebox_window_calls{a}":                               8,
		"fusebox_window_failure_rate{a}":                        0.25,
		"fusebox_window_slow_rate{a}":                           0.5,
		"fusebox_calls_total{a,success}":                        11,
		"fusebox_calls_total{a,failure}":                        12,
		"fusebox_calls_total{a,ignored}":                        13,
		"fusebox_calls_total{a,late}":                           14,
		"fusebox_slow_calls_total{a}":                           15,
		"fusebox_rejected_total{a,open}":                        16,
		"fusebox_rejected_total{a,probing}":                     17,
		"fusebox_would_reject_total{a,success}":                 18,
		"fusebox_would_reject_total{a,failure}":                 19,
		"fusebox_would_reject_total{a,ignored}":                 20,
		"fusebox_probes_total{a,succeeded}":                     21,
		"fusebox_probes_total{a,failed}":                        22,
		"fusebox_probes_total{a,ignored}":                       23,
		"fusebox_probes_total{a,expired}":                       24,
		"fusebox_open_seconds_total{a}":                         25.5,
		"fusebox_transitions_total{a,closed,open,slow-rate}":    26,
		"fusebox_transitions_total{a,half-open,half-open,lift}": 27,
	}
	for key, v := range got {
		if v != want[key] {
			t.Errorf("%s is %v, want %v", key, v, want[key])
		}
	}
	got.want(t, want)

	s.State, s.Mode = 9, 9 // from a later version, perhaps
	fuseboxmetrics.AppendValues(nil, &s)
}

func TestAppendValuesAllocatesNothingAndKeepsWhatIsThere(t *testing.T) {
	l := newLab("a")
	l.Do(context.Background(), fail)
	s := l.Snapshot()
	first := fuseboxmetrics.AppendValues([]float64{7, 7, 7}, &s)
	second := fuseboxmetrics.AppendValues(slices.Repeat([]float64{7}, 70)[:3], &s) // what lay there is cleared
	if !slices.Equal(first, second) || first[2] != 7 {
		t.Errorf("%v\nis not\n%v", first, second)
	}
	values := make([]float64, 0, 62)
	if n := testing.AllocsPerRun(100, func() { values = fuseboxmetrics.AppendValues(values[:0], &s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestC88TheRateOfAnEmptyWindowIsZero(t *testing.T) {
	l := newLab("a")
	empty := series{"fusebox_window_failure_rate{a}": 0, "fusebox_window_slow_rate{a}": 0, "fusebox_window_calls{a}": 0}
	read(t, &l.set).want(t, empty)
	l.Do(context.Background(), fail) // open: its window is empty
	read(t, &l.set).want(t, empty)

	b := fusebox.New("b", fusebox.Config{MinCalls: 10})
	l.set.Add(b)
	b.Do(context.Background(), fail)
	b.Do(context.Background(), succeed)
	read(t, &l.set).want(t, series{"fusebox_window_failure_rate{b}": 0.5, "fusebox_window_calls{b}": 2})
}

func TestC90OneCallHasOneOutcome(t *testing.T) {
	l := newLab("a")
	l.set.AddFallback("a", func() (uint64, uint64, uint64) { return 1, 0, 0 }) // it has answered in place of the failure
	l.Do(context.Background(), fail)
	got := read(t, &l.set)
	got.want(t, series{"fusebox_calls_total{a,failure}": 1, "fusebox_fallbacks_total{a,answered}": 1})
	if got.sum("fusebox_calls_total") != 1 || got.sum("fusebox_rejected_total") != 0 {
		t.Errorf("one call counts as %v", got)
	}
}

// Two clients of one host, each with a registry of its own.
func TestRegistriesWithAKeyInCommonAreToldApart(t *testing.T) {
	var payments, search fusebox.Registry
	var set fuseboxmetrics.Set
	set.AddRegistry("payments ", &payments)
	set.AddRegistry("search ", &search)
	payments.Get("api:443")
	search.Get("api:443").Override(fusebox.ForceOpen, fusebox.Note{})
	got := read(t, &set)
	got.want(t, series{"fusebox_override{payments api:443,force-open}": 0, "fusebox_override{search api:443,force-open}": 1})
	if hidden := set.Hidden(); len(hidden) != 0 {
		t.Errorf("hidden: %q", hidden)
	}
}

func TestC91SeriesAreBoundedAndGoWithTheirBreaker(t *testing.T) {
	var clock fuseboxtest.Clock
	r := &fusebox.Registry{MaxKeys: 100, Now: clock.Now}
	var set fuseboxmetrics.Set
	set.AddRegistry("", r)
	for i := range 10_000 {
		r.Get(fmt.Sprint("host-", i))
		if i%1000 == 0 {
			if n := read(t, &set).sum("fusebox_state"); n > 100 {
				t.Fatalf("%v breakers are shown", n)
			}
		}
	}
	if n := read(t, &set).sum("fusebox_state"); n != 100 {
		t.Errorf("%v breakers are shown, want 100", n)
	}
	r.Delete("host-9999")
	if _, there := read(t, &set)["fusebox_state{host-9999,closed}"]; there {
		t.Error("a deleted breaker is shown")
	}
	clock.Advance(time.Hour) // MaxIdle: being looked at is not a use
	if n := read(t, &set).sum("fusebox_state"); n != 0 {
		t.Errorf("%v idle breakers are shown", n)
	}
}

func TestTwiceIsOnce(t *testing.T) {
	r := &fusebox.Registry{}
	b := r.Get("b")
	var set fuseboxmetrics.Set
	set.AddRegistry("", r)
	set.AddRegistry("", r)
	remove := set.Add(b)
	set.Add(b)
	b.Do(context.Background(), fail)
	want := series{"fusebox_calls_total{b,failure}": 1} // read reports what is there twice
	read(t, &set).want(t, want)
	if h := set.Hidden(); len(h) != 0 {
		t.Errorf("%q is hidden by itself", h)
	}
	remove()
	remove()
	read(t, &set).want(t, want)
}

func TestOfOneNameTheFirstIsShown(t *testing.T) {
	a, b := fusebox.New("x", fusebox.Config{}), fusebox.New("x", fusebox.Config{})
	a.Do(context.Background(), fail)
	var set fuseboxmetrics.Set
	remove := set.Add(a)
	set.Add(b)
	set.Add(b)
	set.AddRetry("x", func() (uint64, uint64) { return 1, 2 }) // another subject: not in its way
	read(t, &set).want(t, series{"fusebox_calls_total{x,failure}": 1, "fusebox_retries_total{x}": 1})
	if h := set.Hidden(); !slices.Equal(h, []string{"x"}) {
		t.Errorf("hidden: %q", h)
	}
	set.AddRetry("y", func() (uint64, uint64) { return 5, 6 })
	set.AddRetry("y", func() (uint64, uint64) { return 7, 8 })
	read(t, &set).want(t, series{"fusebox_retries_total{y}": 5, "fusebox_retry_budget_exhausted_total{y}": 6})
	if h := set.Hidden(); !slices.Equal(h, []string{"x", "y"}) {
		t.Errorf("hidden: %q", h)
	}
	remove()
	read(t, &set).want(t, series{"fusebox_calls_total{x,failure}": 0})
	if h := set.Hidden(); !slices.Equal(h, []string{"y"}) {
		t.Errorf("hidden: %q", h)
	}
}

func TestNamesAreMadeValid(t *testing.T) {
	var set fuseboxmetrics.Set
	set.Add(fusebox.New("caf\xe9", fusebox.Config{}))
	set.Add(fusebox.New("caf\xe8", fusebox.Config{}))
	set.AddBulkhead("\xff", func() (int, uint64) { return 0, 0 })
	for r := range set.Read() {
		if !utf8.ValidString(r.Name) {
			t.Errorf("%q", r.Name)
		}
	}
	if h := set.Hidden(); !slices.Equal(h, []string{"caf\uFFFD"}) {
		t.Errorf("hidden: %q", h)
	}
}

func TestPolicies(t *testing.T) {
	var set fuseboxmetrics.Set
	removes := []func(){
		set.AddRetry("a", func() (uint64, uint64) { return 1, 2 }),
		set.AddBulkhead("a", func() (int, uint64) { return 3, 4 }),
		set.AddFallback("a", func() (uint64, uint64, uint64) { return 15, 6, 7 }),
		set.AddFallback("b", func() (uint64, uint64, uint64) { return 1, 2, 0 }), // not what package fallback says
	}
	read(t, &set).want(t, series{
		"fusebox_retries_total{a}": 1, "fusebox_retry_budget_exhausted_total{a}": 2,
		"fusebox_bulkhead_in_flight{a}": 3, "fusebox_bulkhead_rejected_total{a}": 4,
		"fusebox_fallbacks_total{a,answered}": 9, "fusebox_fallbacks_total{a,stale}": 6, "fusebox_fallbacks_total{a,failed}": 7,
		"fusebox_fallbacks_total{b,answered}": 0, "fusebox_fallbacks_total{b,stale}": 2,
	})
	for _, remove := range removes {
		remove()
	}
	if got := read(t, &set); len(got) != 0 {
		t.Errorf("after removal: %v", got)
	}
}

func TestAddRefusesNil(t *testing.T) {
	var set fuseboxmetrics.Set
	for name, add := range map[string]func(){
		"breaker":  func() { set.Add(nil) },
		"registry": func() { set.AddRegistry("", nil) },
		"retry":    func() { set.AddRetry("a", nil) },
		"bulkhead": func() { set.AddBulkhead("a", nil) },
		"fallback": func() { set.AddFallback("a", nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a nil %s was added", name)
				}
			}()
			add()
		}()
	}
}

// TestALoopOverReadingsMayStopAndMayChangeTheSet breaks off in each of the
// places where a reading can come from.
func TestALoopOverReadingsMayStopAndMayChangeTheSet(t *testing.T) {
	var set fuseboxmetrics.Set
	r := &fusebox.Registry{}
	r.Get("b")
	set.Add(fusebox.New("a", fusebox.Config{}))
	set.AddRegistry("", r)
	set.AddRetry("c", func() (uint64, uint64) { return 0, 0 })
	for _, last := range []string{"a", "b", "c"} {
		seen := ""
		for x := range set.Read() {
			set.Add(fusebox.New("later", fusebox.Config{}))() // added and removed: nothing is locked
			r.Get("b")
			if seen = x.Name; seen == last {
				break
			}
		}
		if seen != last {
			t.Errorf("the loop ended at %q, want %q", seen, last)
		}
	}
}

func TestASetInUseByMany(t *testing.T) {
	var set fuseboxmetrics.Set
	r := &fusebox.Registry{MaxKeys: 10, Config: func(string) fusebox.Config { return fusebox.Config{Consecutive: 2, OpenFor: 1} }}
	set.AddRegistry("", r)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 100 {
				b := r.Get(fmt.Sprint("host-", (i+w)%50))
				b.Do(context.Background(), []func(context.Context) error{succeed, fail, fail}[i%3])
				remove := set.Add(b)
				if i%10 == 0 {
					got := read(t, &set)
					if n := got.sum("fusebox_state"); n > 14 {
						t.Errorf("%v breakers, want 10 and one for each of 4 goroutines at most", n)
					}
					set.Hidden()
				}
				remove()
			}
		})
	}
	wg.Wait()
}

package fuseboxmetrics

import (
	"fmt"
	"slices"

	"github.com/fusebox-go/fusebox"
)

// Metric is a metric, and the series it has for one breaker or policy.
type Metric struct {
	// Name is unique: "fusebox_calls_total".
	Name string
	// Help is what it says, in a sentence.
	Help string
	// Unit is in the notation of UCUM: "s", "{call}". It is empty for
	// fractions and for series that are 0 or 1.
	Unit string
	// Kind is how its values move.
	Kind Kind
	// Labels are the names of its labels, but for "name", which every metric has.
	Labels []string
	// Series are the values of Labels, an element for each series. A metric
	// without further labels has one series, whose element is empty.
	Series [][]string

	// read fills in values, one for each of Series, that are 0 before; nil for
	// what is not read from a Snapshot.
	read func(s *fusebox.Snapshot, values []float64)
}

// Kind is how the values of a metric move.
type Kind uint8

const (
	// Counter only increases while its breaker or policy lives.
	Counter Kind = iota
	// Gauge goes up and down.
	Gauge
)

// String returns "counter" or "gauge".
func (k Kind) String() string {
	if k == Counter {
		return "counter"
	}
	return "gauge"
}

// Subject is what a metric tells about.
type Subject uint8

const (
	// Breaker is a fusebox.Breaker.
	Breaker Subject = iota
	// Retry is a policy of package retry.
	Retry
	// Bulkhead is one of package bulkhead.
	Bulkhead
	// Fallback is one of package fallback.
	Fallback
)

// Subjects returns all there are, in order from 0.
func Subjects() []Subject { return []Subject{Breaker, Retry, Bulkhead, Fallback} }

// Metrics returns the metrics of a subject; nil if there is no such subject.
// The slices in them are shared: they are to be read only.
func (s Subject) Metrics() []Metric {
	if int(s) >= len(tables) {
		return nil
	}
	return slices.Clone(tables[s])
}

var tables = [...][]Metric{Breaker: breakers, Retry: retries, Bulkhead: bulkheads, Fallback: fallbacks}

// breakers are the metrics of a breaker. Names and labels are an interface:
// dashboards and alert rules use them.
var breakers = []Metric{
	{
		Name: "fusebox_state", Help: "Whether the breaker is in this state: 1 for one of them, 0 for the others.",
		Kind:   Gauge,
		Labels: []string{"state"}, Series: each(fusebox.Closed, fusebox.HalfOpen, fusebox.Open),
		read: func(s *fusebox.Snapshot, values []float64) { mark(values, int(s.State)) },
	},
	{
		Name: "fusebox_transitions_total", Help: "Records of changes by states and cause; operations that left the state as it was among them.",
		Unit: "{transition}", Labels: []string{"from", "to", "cause"}, Series: seriesOf(transitions),
		read: countTransitions,
	},
	{
		Name: "fusebox_open_seconds_total", Help: "Time spent open, up to the end of each open period.",
		Unit: "s", Series: single,
		read: func(s *fusebox.Snapshot, values []float64) { values[0] = s.Totals.Open.Seconds() },
	},
	{
		Name: "fusebox_calls_total", Help: "Finished calls. Late ones came too late to count.",
		Unit: "{call}", Labels: []string{"outcome"}, Series: each[label]("success", "failure", "ignored", "late"),
		read: func(s *fusebox.Snapshot, values []float64) {
			t := &s.Totals
			fill(values, t.Successes, t.Failures, t.Ignored, t.Late)
		},
	},
	{
		Name: "fusebox_rejected_total", Help: "Rejected calls: the breaker was open, or half-open with its probes out.",
		Unit: "{call}", Labels: []string{"reason"}, Series: each[label]("open", "probing"),
		read: func(s *fusebox.Snapshot, values []float64) {
			fill(values, s.Totals.RejectedOpen, s.Totals.RejectedProbing)
		},
	},
	{
		Name: "fusebox_slow_calls_total", Help: "Slow successes and slow failures.",
		Unit: "{call}", Series: single,
		read: func(s *fusebox.Snapshot, values []float64) { fill(values, s.Totals.Slow) },
	},
	{
		Name: "fusebox_would_reject_total", Help: "Finished calls that a breaker in shadow mode would have rejected. They are not among fusebox_calls_total.",
		Unit: "{call}", Labels: []string{"outcome"}, Series: each(fusebox.Success, fusebox.Failure, fusebox.Ignored),
		read: func(s *fusebox.Snapshot, values []float64) {
			w := s.Totals.WouldReject
			fill(values, w.Successes, w.Failures, w.Ignored)
		},
	},
	{
		Name: "fusebox_window_failure_rate", Help: "Failures per call in the window, from 0 to 1; 0 if it is empty.",
		Kind: Gauge, Series: single,
		read: func(s *fusebox.Snapshot, values []float64) { values[0] = s.Counts.FailureRate() },
	},
	{
		Name: "fusebox_window_slow_rate", Help: "Slow calls per call in the window, from 0 to 1; 0 if it is empty.",
		Kind: Gauge, Series: single,
		read: func(s *fusebox.Snapshot, values []float64) { values[0] = s.Counts.SlowRate() },
	},
	{
		Name: "fusebox_window_calls", Help: "Calls in the window; in half-open the probes finished so far, while open 0.",
		Unit: "{call}", Kind: Gauge, Series: single,
		read: func(s *fusebox.Snapshot, values []float64) { values[0] = float64(s.Counts.Calls) },
	},
	{
		Name: "fusebox_probes_total", Help: "Ended probes. Slow ones failed; ignored ones told nothing; expired ones did not finish in time.",
		Unit: "{probe}", Labels: []string{"result"}, Series: each[label]("succeeded", "failed", "ignored", "expired"),
		read: func(s *fusebox.Snapshot, values []float64) {
			p := s.Totals.Probes
			fill(values, p.Succeeded, p.Failed, p.Ignored, p.Expired)
		},
	},
	{
		Name: "fusebox_override", Help: "Whether this mode is in effect because it was set by hand; 0 for all modes without an override.",
		Kind:   Gauge,
		Labels: []string{"mode"}, Series: each(fusebox.Enforce, fusebox.Shadow, fusebox.Off, fusebox.ForceOpen, fusebox.ForceClosed),
		read: func(s *fusebox.Snapshot, values []float64) {
			if s.Override {
				mark(values, int(s.Mode))
			}
		},
	},
}

// The metrics of policies. Their values come as plain numbers, in this order.
var (
	retries = []Metric{
		{Name: "fusebox_retries_total", Help: "Attempts after the first.", Unit: "{attempt}", Series: single},
		{Name: "fusebox_retry_budget_exhausted_total", Help: "Calls given up because the retry budget was empty.", Unit: "{call}", Series: single},
	}
	bulkheads = []Metric{
		{Name: "fusebox_bulkhead_in_flight", Help: "Calls in flight.", Unit: "{call}", Kind: Gauge, Series: single},
		{Name: "fusebox_bulkhead_rejected_total", Help: "Calls refused because there was no place for them.", Unit: "{call}", Series: single},
	}
	fallbacks = []Metric{
		{
			Name: "fusebox_fallbacks_total", Help: "Failed calls that a fallback answered, answered with the last good result, or failed to answer.",
			Unit: "{call}", Labels: []string{"result"}, Series: each[label]("answered", "stale", "failed"),
		},
	}
)

// AppendValues appends to values what s says, a value for each series: in the
// order of Breaker.Metrics(), and of Series in each. It allocates nothing if
// values has room for them, and keeps nothing of s.
func AppendValues(values []float64, s *fusebox.Snapshot) []float64 {
	for i := range breakers {
		m := &breakers[i]
		begin := len(values)
		values = slices.Grow(values, len(m.Series))[:begin+len(m.Series)]
		clear(values[begin:])
		m.read(s, values[begin:])
	}
	return values
}

// single is the Series of a metric without further labels.
var single = [][]string{nil}

// label is a label's value that no type of the root has a String for.
type label string

func (l label) String() string { return string(l) }

// each returns the Series of a metric with one label.
func each[T fmt.Stringer](values ...T) (series [][]string) {
	for _, v := range values {
		series = append(series, []string{v.String()})
	}
	return series
}

// mark sets one of values to 1.
func mark(values []float64, i int) {
	if i < len(values) {
		values[i] = 1
	}
}

func fill(values []float64, counts ...uint64) {
	for i, n := range counts {
		values[i] = float64(n)
	}
}

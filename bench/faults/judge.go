package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// answer is what a client got for a call.
type answer struct {
	Status int           // 0: no answer
	Theirs bool          // it has the upstream's mark: the upstream gave it
	Sent   time.Duration // since the beginning of the schedule, like planned
	Done   time.Duration
	Err    error // why there is no answer
}

// outcome of a call, by what both ends saw.
type outcome int

const (
	good    outcome = iota // the upstream's 200
	failed                 // another answer of the upstream's
	refused                // the upstream never saw the call
	broken                 // the upstream saw the call, the client did not get its answer
)

// turnedAway reports whether it was the proxy, not the upstream, that kept the
// caller from a good answer.
func (o outcome) turnedAway() bool { return o == refused || o == broken }

// judgeCall compares the two ends: a, what the client got, and reached, how
// often the call came to the upstream.
func judgeCall(a answer, reached int32) outcome {
	switch {
	case a.Theirs && a.Status == 200:
		return good
	case a.Theirs:
		return failed
	case reached == 0:
		return refused
	}
	return broken
}

// recoveredAfter and reopenedAfter define what a re-trip is, seen from outside:
// so many calls let through in a row, then so many in a row turned away.
const (
	recoveredAfter = 30
	reopenedAfter  = 5
)

// retrips counts how often a proxy turned away from a healthy upstream: recovered
// is whether it admits calls at the beginning of the span.
func retrips(span []outcome, recovered bool) (n int) {
	run, last := 0, false
	for _, o := range span {
		away := o.turnedAway()
		if away != last {
			run, last = 0, away
		}
		run++
		switch {
		case !away && run >= recoveredAfter:
			recovered = true
		case away && run >= reopenedAfter && recovered:
			recovered = false
			n++
		}
	}
	return n
}

// never stands for something that did not happen; it is more than any span.
const never = time.Duration(math.MaxInt64)

// opened returns how long after the beginning of a phase the first refusal of one
// of these calls, made in it, was answered; never if none was refused.
func opened(p phase, calls []int, answers []answer, outcomes []outcome) time.Duration {
	first := never
	for _, id := range calls {
		if outcomes[id] == refused {
			first = min(first, answers[id].Done-p.From)
		}
	}
	return first
}

// figures is what one run of one proxy comes to.
type figures struct {
	Calls   int `json:"calls"`
	Good    int `json:"good"`
	Failed  int `json:"failed"`
	Refused int `json:"refused"`
	Broken  int `json:"broken"`
	// Answers are what the refused and the broken were told, by status; 0
	// stands for no answer, and Error is the first reason for one.
	Answers map[int]int `json:"answers,omitempty"`
	Error   string      `json:"error,omitempty"`
	// Unseen are calls with an answer of the upstream that it never gave.
	// Anything but 0 means that the count is wrong.
	Unseen int `json:"unseen"`
	// Early are calls turned away before the first fault.
	Early int `json:"early"`

	Doomed      int    `json:"doomed"` // arrivals, retries included, in the 503 phase
	Opened      *milli `json:"opened_ms"`
	Lost        int    `json:"lost"`
	SlowReached int    `json:"slow_reached"` // arrivals in the slow phase
	SlowOpened  *milli `json:"slow_opened_ms"`
	SlowLost    int    `json:"slow_lost"`
	Retrips     int    `json:"retrips"`
	Checks      int    `json:"checks"` // the proxy's own health checks

	P50 milli `json:"healthy_p50_ms"` // of good calls in healthy phases, from the planned time
	P99 milli `json:"healthy_p99_ms"`
	// Lag is how late the latest call was made, which is nobody's fault but
	// that of the machine.
	Lag milli `json:"lag_ms"`
	// Repeats is how many runs before this one were thrown away for their Lag.
	Repeats int `json:"repeats"`

	CPU float64 `json:"cpu_seconds_per_1000"` // of the proxy
	RSS float64 `json:"peak_rss_mb"`
}

// disturbed reports whether the machine was too busy for the load: other
// programs, not the proxy, then decide the figures.
func (f figures) disturbed() bool { return f.Lag > 100 }

// milli is a duration in milliseconds.
type milli float64

func toMilli(d time.Duration) milli { return milli(float64(d) / float64(time.Millisecond)) }

func toMilliOrNil(d time.Duration) *milli {
	if d == never {
		return nil
	}
	m := toMilli(d)
	return &m
}

// judge computes the figures of a run.
func judge(s schedule, seen observation) figures {
	f := figures{Calls: len(seen.answers), Checks: int(seen.checks), Answers: make(map[int]int)}
	f.CPU = seen.used.CPU.Seconds() / float64(f.Calls) * 1000
	f.RSS = float64(seen.used.Peak) / 1e6
	outcomes := make([]outcome, f.Calls)
	var latencies []time.Duration
	for id, a := range seen.answers {
		outcomes[id] = judgeCall(a, seen.reached[id])
		switch outcomes[id] {
		case good:
			f.Good++
			if s[s.at(planned(id))].Kind == healthy {
				latencies = append(latencies, a.Done-planned(id))
			}
		case failed:
			f.Failed++
		case refused:
			f.Refused++
		case broken:
			f.Broken++
		}
		if outcomes[id].turnedAway() {
			f.Answers[a.Status]++
		}
		if a.Err != nil && f.Error == "" {
			f.Error = a.Err.Error()
		}
		if a.Theirs && seen.reached[id] == 0 {
			f.Unseen++
		}
		f.Lag = max(f.Lag, toMilli(a.Sent-planned(id)))
	}
	f.P50, f.P99 = toMilli(quantile(latencies, 0.5)), toMilli(quantile(latencies, 0.99))

	before := healthy
	for i, p := range s {
		var calls []int
		var span []outcome
		away := 0
		for id, a := range seen.answers {
			if s.at(a.Sent) == i { // a call that is late meets what is there by then
				calls, span = append(calls, id), append(span, outcomes[id])
				if outcomes[id].turnedAway() {
					away++
				}
			}
		}
		switch {
		case p.Kind == errors503:
			f.Doomed += int(seen.arrivals[i])
			f.Opened = toMilliOrNil(opened(p, calls, seen.answers, outcomes))
		case p.Kind == slow:
			f.SlowReached += int(seen.arrivals[i])
			f.SlowOpened = toMilliOrNil(opened(p, calls, seen.answers, outcomes))
		case before == errors503:
			f.Lost += away
		case before == slow:
			f.SlowLost += away
		default:
			f.Early += away
		}
		if p.Kind == healthy {
			f.Retrips += retrips(span, before == healthy)
		}
		before = p.Kind
	}
	return f
}

// quantile returns the smallest value that a share q of the values does not
// exceed (the nearest rank); the zero value of no values. The order of values
// is lost.
func quantile[T cmp.Ordered](values []T, q float64) (v T) {
	if len(values) == 0 {
		return v
	}
	slices.Sort(values)
	rank := int(math.Ceil(q * float64(len(values))))
	return values[min(max(rank, 1), len(values))-1]
}

// median returns the middle value, or the mean of the two; 0 of no values.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if n%2 == 1 || sorted[n/2] == sorted[n/2-1] { // equal: also where both are infinite
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

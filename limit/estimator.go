package limit

import (
	"math"
	"time"
)

// estimator is the pure part of the limit: it has no lock and reads no clock.
//
// It works in rounds. The first calls that begin in a round are its cohort,
// as many as were in flight; when nine tenths of them have ended, their mean
// latency R moves the limit L. (All that end within a span of time would do as
// little as all that begin and end in it: the one sees the limit before, the
// other sees short calls only.) With the baseline B, the latency of a call
// that does not wait, Little's law says how many of L calls are served and not
// waiting: L·B/R. So, with d for the share of dropped calls,
//
//	L = L·min(1, Tolerance·B/R)·(1 - d/2) + √L·(1 - d)
//
// The first factor is the gradient of Netflix's Gradient2 limit; B is measured
// otherwise. Dropped calls cut the limit as marked packets cut the window of
// DCTCP (RFC 8257). The last term is the allowance: the queue that TCP Vegas
// calls alpha, and the growth of a limit that is not too high. The square root
// is that of square-root staffing (Halfin and Whitt 1981), the slack that
// random times of service need.
//
// Everything depends on B, and no latency seen at the limit can tell a queue
// from a dependency that has become slower. So now and then a round is a
// probe: the limit is halved, at least, for its length, and R becomes B, be it higher or
// lower. That costs calls, so it happens only where the limit refuses some.
// Elsewhere the load, not the limit, decides how many calls are in flight, and
// B follows R slowly.
//
// Invariants:
//
//  1. min <= limit <= max, and min <= bound() <= limit.
//  2. limit, baseline and latency are finite; the last two are 0 (unknown) or
//     at least a nanosecond.
//  3. inFlight is the number of calls admitted and not finished.
//  4. A call is a sample of the round it began in, or of none.
type estimator struct {
	min, max   float64
	tolerance  float64
	window     time.Duration
	minSamples int

	limit    float64
	inFlight int
	baseline float64 // nanoseconds
	latency  float64 // of the last round, nanoseconds

	round    round
	valid    time.Duration // a call dropped that began before suffered a limit now given up
	probing  bool
	patience int     // rounds to the next probe
	summit   float64 // highest limit since the baseline was measured
}

// round is what has been seen in the present round.
type round struct {
	number  uint64 // from 1
	began   time.Duration
	peak    int  // calls in flight
	refused bool // at least one call

	// The cohort.
	size      int // wanted
	admitted  int
	ended     int
	successes int
	latency   float64 // sum of the successes', nanoseconds
	offset    float64 // sum of start - began of those in flight, nanoseconds

	// All calls that ended, but ignored ones.
	finished, dropped int
}

const (
	// patient is the number of rounds from probe to probe: a probe, which lasts
	// about two rounds at half the limit, costs three per cent of the calls.
	patient = 30
	// impatient is used before the first probe, and after one that found much
	// less latency than the baseline: the next one may find less again.
	impatient = 5
	// much is a change of the baseline that is no noise. A smaller one is
	// carried out to the share of calm.
	much = 0.7
	calm = 0.4

	// steepest is how far one round may lower the limit. A burst of timeouts,
	// or a clock that jumps, is one round.
	steepest = 0.5
	// damping is the share of a fall that is carried out: the other half
	// may be noise.
	damping = 0.5
	// cut is a fall after which calls begun before it are no samples.
	cut = 0.9

	// driftDown and driftUp are the share by which the baseline follows rounds
	// that are no probes. Upwards it has to be slower than a queue grows.
	driftDown = 0.3
	driftUp   = 0.02

	// overdue is the length, in latencies, of a probe that is given up (see
	// tedious) and, in cohorts, of a round that does not wait for the rest of its
	// own: calls that hang must not keep the limit where it is.
	overdue = 10
)

func newEstimator(c Config) estimator {
	e := estimator{
		min: float64(c.Min), max: float64(c.Max), tolerance: c.Tolerance,
		window: c.Window, minSamples: c.MinSamples,
		limit: float64(c.Initial), summit: float64(c.Initial), patience: impatient,
	}
	e.begin(0, true)
	return e
}

// bound is the number of calls that may be in flight. A probe leaves half of
// what is there without the allowance: half of a small limit might be a queue.
func (e *estimator) bound() int {
	if e.probing {
		return int(max((e.limit-math.Sqrt(e.limit))/2, e.min))
	}
	return int(e.limit)
}

// admit reports whether one more call may begin, and counts it. The number is
// that of the round of whose cohort it is, 0 for none.
func (e *estimator) admit(now time.Duration) (number uint64, ok bool) {
	if e.probing && now-e.round.began > e.window+time.Duration(min(e.tedious()*e.latency, 1<<62)) {
		e.probing, e.patience = false, patient
		e.begin(now, false)
	}
	r := &e.round
	if e.inFlight >= e.bound() {
		r.refused = true
		return 0, false
	}
	e.inFlight++
	r.peak = max(r.peak, e.inFlight)
	if r.admitted == r.size {
		return 0, true
	}
	r.admitted++
	r.offset += float64(now - r.began)
	return r.number, true
}

// tedious is how many latencies a probe may last: time enough for its cohort
// one after the other through few places, twice over.
func (e *estimator) tedious() float64 {
	return overdue + 2*float64(e.round.size)/float64(e.bound())
}

// finish takes the sample of a call that began at start, admitted with number,
// and ended at now.
func (e *estimator) finish(number uint64, start, now time.Duration, s Sample) {
	e.inFlight--
	if now < e.round.began-e.window { // a clock that went back, and not two calls that passed each other
		e.valid = min(e.valid, now)
		e.begin(now, false)
	}
	r := &e.round
	if start >= e.valid && s <= Dropped {
		r.finished++
		if s == Dropped {
			r.dropped++
		}
	}
	if number == r.number {
		r.offset -= float64(start - r.began)
		switch s {
		case Success:
			r.ended++
			r.successes++
			r.latency += float64(now - start)
		case Dropped:
			r.ended++
		default:
			r.admitted-- // another may take its part
		}
	}
	whole := r.admitted == r.size && r.ended >= r.size-r.size/10
	if (whole || r.finished >= overdue*r.size) && now-r.began >= e.window {
		e.end(now)
	}
}

// begin begins a round. After a cut, and with a probe, it begins anew: calls
// begun before are no samples. (Its cohort begins when bound() calls are left
// of them, and so without the queue they made.)
func (e *estimator) begin(now time.Duration, anew bool) {
	if anew {
		e.valid = now
	}
	e.round = round{
		number: e.round.number + 1, began: now,
		peak: e.inFlight, size: max(e.minSamples, e.inFlight),
	}
}

// end ends a round.
func (e *estimator) end(now time.Duration) {
	r := e.round
	measured := r.successes > 0
	if measured {
		e.latency = r.mean(now)
	}
	if e.probing {
		e.probing, e.patience, e.summit = false, patient, e.limit
		if measured {
			e.probed()
		}
		e.begin(now, true)
		return
	}
	if measured {
		e.drift(r.refused)
	}
	before := e.limit
	e.limit = e.next(r, measured)
	e.summit = max(e.summit, e.limit)
	e.patience--
	e.probing = r.refused && (e.patience <= 0 || e.limit <= e.summit/2)
	e.begin(now, e.probing || e.limit < cut*before)
}

// mean is the mean latency of the cohort: of its successes, and of what is in
// flight with the age it has, the longest calls as they are. It is at least a
// nanosecond, also by a clock that stands still.
func (r *round) mean(now time.Duration) float64 {
	inFlight := float64(r.admitted - r.ended)
	ages := inFlight*float64(now-r.began) - r.offset
	return max((r.latency+max(ages, 0))/(float64(r.successes)+inFlight), 1)
}

// probed takes the latency of a probe for the baseline.
func (e *estimator) probed() {
	switch ratio := e.latency / e.baseline; {
	case e.baseline == 0, ratio > 1/much:
		e.baseline = e.latency
	case ratio < much:
		e.baseline, e.patience = e.latency, impatient
	default:
		e.baseline += calm * (e.latency - e.baseline)
	}
}

// drift moves the baseline towards the latency of a round that was no probe.
func (e *estimator) drift(refused bool) {
	switch d := e.latency - e.baseline; {
	case e.baseline == 0:
		e.baseline = e.latency
	case d < 0:
		e.baseline += driftDown * d
	case !refused:
		e.baseline += driftUp * d
	}
}

// next is the limit after a round.
func (e *estimator) next(r round, measured bool) float64 {
	unused := float64(r.peak) < e.limit/2
	gradient := 1.0
	if measured && !unused { // else the limit has no part in the latency
		gradient = min(e.tolerance*e.baseline/e.latency, 1)
	}
	dropped := float64(r.dropped) / float64(max(r.finished, 1))
	l := max(e.limit*gradient*(1-dropped/2)+math.Sqrt(e.limit)*(1-dropped), e.limit*steepest)
	switch {
	case l < e.limit:
		l = e.limit + damping*(l-e.limit)
	case unused:
		l = e.limit
	}
	return min(max(l, e.min), e.max)
}

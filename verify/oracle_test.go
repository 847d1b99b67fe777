package verify

import (
	"math"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
)

const never = time.Duration(math.MaxInt64)

// epoch is the wall time at which every breaker of these tests is made.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// oracle is a breaker that keeps what has happened as flat lists and recounts
// them whenever it is asked. It is not safe for concurrent use.
type oracle struct {
	cfg     fusebox.Config // complete
	draws   []float64      // what Config.Rand gives, in this order
	watched bool           // an observer is told of finished calls

	seen       time.Duration // the latest reading under the lock
	state      fusebox.State
	mode       fusebox.Mode
	generation uint64
	since      time.Duration
	held       *held
	lastErr    string
	cause      fusebox.Cause // why it is in its state, for a rejection

	outcomes []outcome // of this closed period, in the order of their ends
	first    int       // of outcomes: where the window begins at the earliest
	plainEnd time.Duration

	deadline  time.Duration
	doublings int // -1: none since growth was forgotten
	draw      float64

	probes []outcome // of this half-open period
	leases []lease
	issued int

	openTime    time.Duration
	records     []fusebox.Transition
	totals      fusebox.Totals
	completions []fusebox.Completion
}

type held struct {
	note fusebox.Note
	end  time.Duration
}

type outcome struct {
	at            time.Duration
	failure, slow bool
}

type lease struct {
	id         int
	start, end time.Duration
}

type kind int

const (
	counted kind = iota
	probe
	shadowed
	unjudged
)

// slip is a permit as the oracle knows it.
type slip struct {
	kind       kind
	generation uint64
	lease      int
	start      time.Duration
	timed      bool
	finished   bool
}

// refusal is a rejection as the oracle expects it.
type refusal struct {
	state      fusebox.State
	cause      fusebox.Cause
	retryAfter time.Duration
}

// ending is how a call ended.
type ending struct {
	outcome  fusebox.Outcome
	err      error
	gaveUp   bool          // its caller went away
	measured bool          // the breaker measures the duration; else it is duration
	duration time.Duration // as told
	direct   bool          // no Classify was asked
}

func newOracle(c fusebox.Config, draws []float64, watched bool) *oracle {
	o := &oracle{cfg: complete(c), draws: draws, watched: watched, doublings: -1}
	o.mode = o.cfg.Mode
	o.emptyWindow()
	return o
}

// complete fills in the defaults the documentation gives.
func complete(c fusebox.Config) fusebox.Config {
	c.Window = def(c.Window, 10*time.Second)
	c.Buckets = def(c.Buckets, 10)
	if c.MinCalls == 0 && c.WindowCalls > 0 {
		c.MinCalls = min(20, c.WindowCalls)
	}
	c.MinCalls = def(c.MinCalls, 20)
	c.FailureRate = def(c.FailureRate, 0.5)
	c.SlowRate = def(c.SlowRate, 0.6)
	c.Consecutive = def(c.Consecutive, 20)
	c.OpenFor = def(c.OpenFor, time.Second)
	c.OpenForMax = def(c.OpenForMax, max(4*time.Second, c.OpenFor))
	c.OpenJitter = def(c.OpenJitter, 0.2)
	c.Probes = def(c.Probes, 3)
	c.CloseAfter = def(c.CloseAfter, c.Probes)
	c.ReopenAfter = def(c.ReopenAfter, 1)
	c.ProbeTimeout = def(c.ProbeTimeout, 30*time.Second)
	c.StableAfter = def(c.StableAfter, c.Window)
	return c
}

func def[T comparable](v, d T) T {
	if v == *new(T) {
		return d
	}
	return v
}

// after is a + b, never at most.
func after(a, b time.Duration) time.Duration {
	if b >= never-a {
		return never
	}
	return a + b
}

func wall(at time.Duration) time.Time {
	if at == never {
		return time.Time{}
	}
	return epoch.Add(at)
}

func (o *oracle) clone() *oracle {
	c := *o
	c.outcomes, c.probes = slices.Clone(o.outcomes), slices.Clone(o.probes)
	c.leases, c.records = slices.Clone(o.leases), slices.Clone(o.records)
	return &c
}

func (o *oracle) bucket(at time.Duration) int64 {
	return int64(at / (o.cfg.Window / time.Duration(o.cfg.Buckets)))
}

func (o *oracle) emptyWindow() {
	o.first = len(o.outcomes)
	o.movePlainEnd()
}

// movePlainEnd notes the end of the present bucket; a plain success before it
// takes no lock, and so leaves its reading of the clock unseen.
func (o *oracle) movePlainEnd() {
	o.plainEnd = time.Duration(o.bucket(o.seen)+1) * (o.cfg.Window / time.Duration(o.cfg.Buckets))
}

func count(list []outcome) (c fusebox.Counts) {
	for _, x := range list {
		c.Calls++
		if x.failure {
			c.Failures++
		}
		if x.slow {
			c.Slow++
		}
	}
	c.Consecutive = run(list)
	return c
}

// run returns the number of failures at the end of list.
func run(list []outcome) (n int) {
	for _, x := range slices.Backward(list) {
		if !x.failure {
			break
		}
		n++
	}
	return n
}

// counts recounts what Counts show.
func (o *oracle) counts() fusebox.Counts {
	switch o.state {
	case fusebox.Closed:
		in := o.outcomes[o.first:]
		if n := o.cfg.WindowCalls; n > 0 {
			in = in[max(0, len(in)-n):]
		} else {
			in = slices.DeleteFunc(slices.Clone(in), func(x outcome) bool {
				return o.bucket(x.at) <= o.bucket(o.seen)-int64(o.cfg.Buckets)
			})
		}
		c := count(in)
		c.Consecutive = run(o.outcomes)
		return c
	case fusebox.HalfOpen:
		return count(o.probes)
	default:
		return fusebox.Counts{}
	}
}

// good and bad are the probes that count towards closing and reopening.
func (o *oracle) good() (n int) {
	for _, p := range o.probes {
		if !p.failure && !p.slow {
			n++
		}
	}
	return n
}

func (o *oracle) bad() int { return len(o.probes) - o.good() }

// free reports whether another probe may go out.
func (o *oracle) free() bool {
	out := len(o.leases)
	return out == 0 || out < o.cfg.Probes && out < o.cfg.CloseAfter-o.good()+o.cfg.ReopenAfter-o.bad()-1
}

// unscaled is the open period after so many doublings, before jitter.
func (o *oracle) unscaled() time.Duration {
	d := o.cfg.OpenFor
	for range o.doublings {
		d = min(after(d, d), o.cfg.OpenForMax)
	}
	return d
}

// period is the open period, scaled by its draw.
func (o *oracle) period() time.Duration {
	d := o.unscaled()
	if o.cfg.OpenJitter <= 0 {
		return d
	}
	f := float64(d) * (1 + o.cfg.OpenJitter*(2*o.draw-1))
	if f >= math.MaxInt64 {
		return never
	}
	return time.Duration(f)
}

func (o *oracle) probesAt() time.Duration {
	if o.mode == fusebox.ForceOpen {
		return o.held.end
	}
	return o.deadline
}

func (o *oracle) record(from fusebox.State, at time.Duration, t fusebox.Transition) {
	t.Name, t.From, t.To, t.At = "model", from, o.state, wall(at)
	t.Mode, t.Generation, t.LastError = o.mode, o.generation, o.lastErr
	if o.state == fusebox.Open {
		t.Until = wall(o.probesAt())
		if from == fusebox.Closed && o.cfg.WindowCalls == 0 {
			t.Window = o.cfg.Window
		}
	}
	o.records = append(o.records, t)
	if from != o.state || t.Cause == fusebox.CauseOverride && o.mode == fusebox.ForceOpen {
		o.cause = t.Cause
	}
}

func (o *oracle) enter(to fusebox.State, at time.Duration, t fusebox.Transition) {
	from := o.state
	if from == fusebox.Open {
		o.openTime += min(at, o.deadline) - o.since
	}
	o.state, o.since = to, at
	o.generation++
	o.outcomes, o.probes, o.leases = nil, nil, nil
	o.emptyWindow()
	o.record(from, at, t)
	o.lastErr = ""
}

func (o *oracle) open(at time.Duration, t fusebox.Transition) {
	o.draw, o.draws = o.draws[0], o.draws[1:]
	o.deadline = after(at, o.period())
	o.enter(fusebox.Open, at, t)
}

func (o *oracle) forgetGrowth(at time.Duration) {
	if o.cfg.StableAfter < 0 || at-o.since > o.cfg.StableAfter {
		o.doublings = -1
	}
}

func (o *oracle) trip(cause fusebox.Cause, c fusebox.Counts, threshold float64) {
	o.forgetGrowth(o.seen)
	o.doublings = max(o.doublings, 0)
	o.open(o.seen, fusebox.Transition{Cause: cause, Counts: c, Threshold: threshold})
}

// probeEnded decides after one more probe has been listed.
func (o *oracle) probeEnded(at time.Duration, cause fusebox.Cause) {
	last := o.probes[len(o.probes)-1]
	t := fusebox.Transition{Counts: count(o.probes)}
	switch {
	case last.failure || last.slow:
		if o.bad() < o.cfg.ReopenAfter {
			return
		}
		if o.doublings < 0 || !o.atMaximum() {
			o.doublings++
		}
		t.Cause, t.Threshold = cause, float64(o.cfg.ReopenAfter)
		o.open(at, t)
	case o.good() >= o.cfg.CloseAfter:
		t.Cause, t.Threshold = fusebox.CauseProbesSucceeded, float64(o.cfg.CloseAfter)
		o.enter(fusebox.Closed, at, t)
	}
}

// atMaximum reports whether the period last used was the longest.
func (o *oracle) atMaximum() bool { return o.unscaled() >= o.cfg.OpenForMax }

// due is when time changes something next: -1 stands for the override, others
// for a lease.
func (o *oracle) due() (at time.Duration, i int) {
	at, i = never, -1
	if o.held != nil {
		at = o.held.end
	}
	for j, l := range o.leases {
		if l.end < at {
			at, i = l.end, j
		}
	}
	return at, i
}

// elapse commits what time has changed by a reading of the clock.
func (o *oracle) elapse(reading time.Duration) {
	o.seen = max(o.seen, reading)
	for {
		at, i := o.due()
		switch {
		case at > o.seen || at == never:
			return
		case i < 0:
			t := fusebox.Transition{Cause: fusebox.CauseOverrideEnded, Note: o.held.note}
			o.endOverride(at, t)
		default:
			o.leases = slices.Delete(o.leases, i, i+1)
			o.probes = append(o.probes, outcome{at: at, failure: true})
			o.totals.Probes.Expired++
			o.probeEnded(at, fusebox.CauseProbeExpired)
		}
	}
}

func (o *oracle) endOverride(at time.Duration, t fusebox.Transition) {
	forced := o.mode == fusebox.ForceOpen
	o.held, o.mode = nil, o.cfg.Mode
	o.follow(forced, at, t)
}

// follow takes the state that the mode asks for.
func (o *oracle) follow(forced bool, at time.Duration, t fusebox.Transition) {
	to := o.state
	if forced {
		to = fusebox.HalfOpen
	}
	switch o.mode {
	case fusebox.ForceOpen:
		to = fusebox.Open
	case fusebox.ForceClosed, fusebox.Off:
		to = fusebox.Closed
	}
	if to == o.state {
		o.record(to, at, t)
		return
	}
	if to == fusebox.Open {
		if o.state == fusebox.Closed {
			o.forgetGrowth(at)
		}
		o.deadline = never
	}
	o.enter(to, at, t)
}

// allow returns a slip or why there is none. What finds nothing to change
// takes no lock, and leaves its reading of the clock unseen.
func (o *oracle) allow(reading time.Duration) (*slip, *refusal) {
	reading = max(reading, 0) // time begins with the breaker
	s := &slip{timed: o.cfg.SlowAfter > 0 || o.watched, start: reading}
	if due, _ := o.due(); o.state == fusebox.Closed && o.mode != fusebox.Off && due == never {
		s.generation = o.generation
		return s, nil
	}
	if o.mode == fusebox.Off && (o.held == nil || o.held.end == never) {
		s.kind = unjudged
		return s, nil
	}
	now := max(o.seen, reading)
	at, _ := o.due()
	if o.mode != fusebox.Off && at > now &&
		(o.state == fusebox.Open && now < o.probesAt() || o.state == fusebox.HalfOpen && !o.free()) {
		return o.refuse(s, reading)
	}
	o.elapse(reading)
	switch {
	case o.mode == fusebox.Off:
		s.kind = unjudged
		return s, nil
	case o.state == fusebox.Closed:
		s.generation = o.generation
		return s, nil
	case o.state == fusebox.Open && o.seen < o.deadline:
		return o.refuse(s, reading)
	case o.state == fusebox.Open:
		o.enter(fusebox.HalfOpen, o.seen, fusebox.Transition{Cause: fusebox.CauseDeadline})
	}
	if !o.free() {
		return o.refuse(s, reading)
	}
	o.issued++
	s.kind, s.lease = probe, o.issued
	o.leases = append(o.leases, lease{o.issued, o.seen, after(o.seen, o.cfg.ProbeTimeout)})
	return s, nil
}

func (o *oracle) refuse(s *slip, reading time.Duration) (*slip, *refusal) {
	if o.mode == fusebox.Shadow {
		s.kind = shadowed
		return s, nil
	}
	r := &refusal{state: o.state, cause: o.cause}
	if o.state == fusebox.HalfOpen {
		o.totals.RejectedProbing++
		return nil, r
	}
	o.totals.RejectedOpen++
	if at := o.probesAt(); at != never {
		r.retryAfter = max(0, at-max(reading, o.since))
	}
	return nil, r
}

// finish reports whether the ending of a slip is accepted.
func (o *oracle) finish(reading time.Duration, s *slip, e ending) bool {
	if s.finished {
		return false
	}
	s.finished = true
	reading = max(reading, 0)
	if s.kind == unjudged {
		return true
	}
	d := e.duration
	if e.measured {
		d = 0
		if s.timed {
			d = max(0, reading-s.start)
		}
	}
	slow := o.cfg.SlowAfter > 0 && d >= o.cfg.SlowAfter
	result := min(e.outcome, fusebox.Ignored+1)
	if result > fusebox.Ignored || slow && e.gaveUp {
		result = fusebox.Failure
	}
	accepted, ask, generation := o.take(reading, s, e, result, slow)
	if o.watched {
		o.completions = append(o.completions, fusebox.Completion{
			Name: "model", Outcome: result, Slow: slow && result != fusebox.Ignored, Duration: d, Err: e.err,
			Probe: s.kind == probe, Late: !accepted, WouldReject: s.kind == shadowed,
		})
	}
	if ask {
		c := o.counts()
		if o.cfg.TripWhen(c) {
			o.elapse(reading)
			if o.generation == generation && o.mode != fusebox.ForceClosed && o.mode != fusebox.Off {
				o.trip(fusebox.CauseTripWhen, c, 0)
			}
		}
	}
	return accepted
}

func (o *oracle) take(reading time.Duration, s *slip, e ending, result fusebox.Outcome, slow bool) (accepted, ask bool, generation uint64) {
	if s.kind == shadowed {
		w := &o.totals.WouldReject
		*[]*uint64{&w.Successes, &w.Failures, &w.Ignored}[result]++
		return true, false, 0
	}
	if o.takesNoLock(reading, s, e, slow) {
		o.totals.Successes++
		o.outcomes = append(o.outcomes, outcome{at: max(o.seen, reading)})
		return true, false, 0
	}
	o.elapse(reading)
	i := slices.IndexFunc(o.leases, func(l lease) bool { return l.id == s.lease })
	if s.kind == counted && s.generation != o.generation || s.kind == probe && i < 0 {
		o.totals.Late++
		return false, false, 0
	}
	if s.kind == counted && o.mode == fusebox.Off {
		return true, false, 0
	}
	if s.kind == probe {
		o.leases = slices.Delete(o.leases, i, i+1)
	}
	switch result {
	case fusebox.Ignored:
		o.totals.Ignored++
		if s.kind == probe {
			o.totals.Probes.Ignored++
		}
		return true, false, 0
	case fusebox.Success:
		o.totals.Successes++
	default:
		o.totals.Failures++
		if e.err != nil {
			o.lastErr = e.err.Error()
		}
	}
	if slow {
		o.totals.Slow++
	}
	x := outcome{at: o.seen, failure: result == fusebox.Failure, slow: slow}
	if s.kind == probe {
		o.probes = append(o.probes, x)
		if x.failure || x.slow {
			o.totals.Probes.Failed++
		} else {
			o.totals.Probes.Succeeded++
		}
		o.probeEnded(o.seen, fusebox.CauseProbeFailed)
		return true, false, 0
	}
	o.outcomes = append(o.outcomes, x)
	o.movePlainEnd()
	if !x.failure && !x.slow || o.mode == fusebox.ForceClosed {
		return true, false, 0
	}
	if o.cfg.TripWhen != nil {
		return true, true, o.generation
	}
	o.judge(x)
	return true, false, 0
}

// takesNoLock reports whether a result is a plain success for which there is
// nothing to do but to count it.
func (o *oracle) takesNoLock(reading time.Duration, s *slip, e ending, slow bool) bool {
	due, _ := o.due()
	return s.kind == counted && s.generation == o.generation && o.mode != fusebox.Off && !o.watched &&
		e.outcome == fusebox.Success && e.measured && e.direct && !slow &&
		o.cfg.WindowCalls == 0 && run(o.outcomes) == 0 && max(o.seen, reading) < o.plainEnd && due == never
}

func (o *oracle) judge(x outcome) {
	c := o.counts()
	enough := c.Calls >= o.cfg.MinCalls
	failures, slow := float64(c.Failures)/float64(c.Calls), float64(c.Slow)/float64(c.Calls)
	switch {
	case x.failure && enough && o.cfg.FailureRate > 0 && failures >= o.cfg.FailureRate:
		o.trip(fusebox.CauseFailureRate, c, o.cfg.FailureRate)
	case enough && o.cfg.SlowAfter > 0 && slow >= o.cfg.SlowRate:
		o.trip(fusebox.CauseSlowRate, c, o.cfg.SlowRate)
	case x.failure && o.cfg.Consecutive > 0 && c.Consecutive >= o.cfg.Consecutive:
		o.trip(fusebox.CauseConsecutive, c, float64(o.cfg.Consecutive))
	}
}

func (o *oracle) cancel(reading time.Duration, s *slip) {
	if s.finished {
		return
	}
	s.finished = true
	if s.kind != probe {
		return
	}
	o.elapse(reading)
	n := len(o.leases)
	o.leases = slices.DeleteFunc(o.leases, func(l lease) bool { return l.id == s.lease })
	o.totals.Probes.Ignored += uint64(n - len(o.leases))
}

func (o *oracle) renew(reading time.Duration, s *slip) {
	if s.finished || s.kind != probe {
		return
	}
	o.elapse(reading)
	for i, l := range o.leases {
		if l.id == s.lease {
			o.leases[i] = lease{l.id, o.seen, after(o.seen, o.cfg.ProbeTimeout)}
		}
	}
}

func (o *oracle) override(reading time.Duration, m fusebox.Mode, n fusebox.Note) {
	o.elapse(reading)
	end := never
	if !n.Until.IsZero() {
		end = o.seen + n.Until.Sub(wall(reading))
	}
	if end <= o.seen {
		o.record(o.state, o.seen, fusebox.Transition{Cause: fusebox.CauseOverrideEnded, Note: n})
		return
	}
	t := fusebox.Transition{Cause: fusebox.CauseOverride, Counts: o.counts(), Note: n}
	forced := o.mode == fusebox.ForceOpen
	o.held, o.mode = &held{n, end}, m
	switch {
	case m == fusebox.ForceOpen && o.state == fusebox.Open:
		o.openTime += min(o.seen, o.deadline) - o.since // the rest was not open, whatever follows
		o.since, o.deadline = o.seen, never
	case m == fusebox.ForceClosed && o.state == fusebox.Closed:
		o.emptyWindow()
	}
	o.follow(forced, o.seen, t)
}

func (o *oracle) lift(reading time.Duration, n fusebox.Note) {
	o.elapse(reading)
	t := fusebox.Transition{Cause: fusebox.CauseLift, Note: n}
	if o.held == nil {
		o.record(o.state, o.seen, t)
		return
	}
	o.endOverride(o.seen, t)
}

func (o *oracle) reset(reading time.Duration, n fusebox.Note) {
	o.elapse(reading)
	t := fusebox.Transition{Cause: fusebox.CauseReset, Counts: o.counts(), Note: n}
	if o.mode == fusebox.ForceOpen || o.mode == fusebox.ForceClosed {
		o.held, o.mode = nil, o.cfg.Mode
	}
	o.doublings = -1
	o.enter(fusebox.Closed, o.seen, t)
}

func (o *oracle) reconfigure(reading time.Duration, c fusebox.Config) {
	o.elapse(reading)
	old := o.cfg
	o.cfg = complete(c)
	if c := o.cfg; c.Window != old.Window || c.Buckets != old.Buckets || c.WindowCalls != old.WindowCalls {
		o.emptyWindow()
	}
	for i, l := range o.leases {
		o.leases[i].end = min(l.end, after(l.start, o.cfg.ProbeTimeout))
	}
	if o.state == fusebox.Open && o.mode != fusebox.ForceOpen {
		o.deadline = min(o.deadline, max(o.seen, after(o.since, o.period())))
	}
	if o.held == nil {
		o.mode = o.cfg.Mode
	}
	o.follow(false, o.seen, fusebox.Transition{Cause: fusebox.CauseReconfigured})
}

// snapshot is what a Snapshot must show at a reading of the clock. It commits
// nothing, but its reading has been seen.
func (o *oracle) snapshot(reading time.Duration) fusebox.Snapshot {
	o.seen = max(o.seen, reading)
	v := o.clone()
	v.elapse(reading)
	s := fusebox.Snapshot{
		Name: "model", State: v.state, Mode: v.mode, Generation: v.generation, Counts: v.counts(),
		Outstanding: len(v.leases), Totals: v.totals,
	}
	s.Totals.Open = v.openTime
	if v.state == fusebox.Open {
		s.Totals.Open += min(v.seen, v.deadline) - v.since
		if v.seen >= v.deadline {
			s.State = fusebox.HalfOpen
		}
	}
	s.Since = wall(v.since)
	if s.State != v.state {
		s.Since = wall(v.deadline)
	}
	if s.State == fusebox.Open {
		s.Until = wall(v.probesAt())
		if v.deadline != never {
			s.OpenPeriod = v.deadline - v.since
		}
	}
	if v.held != nil {
		s.Override, s.Note = true, v.held.note
	}
	for _, r := range o.records {
		s.Last = r
		i := slices.IndexFunc(s.Totals.Transitions, func(t fusebox.TransitionCount) bool {
			return t.From == r.From && t.To == r.To && t.Cause == r.Cause
		})
		if i < 0 {
			i = len(s.Totals.Transitions)
			s.Totals.Transitions = append(s.Totals.Transitions, fusebox.TransitionCount{From: r.From, To: r.To, Cause: r.Cause})
		}
		s.Totals.Transitions[i].Count++
	}
	return s
}

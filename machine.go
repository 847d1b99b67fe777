package fusebox

import (
	"math"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox/internal/window"
)

// machine is the breaker without its concurrency: every rule is here, and
// nothing else. It takes no lock, reads no clock, draws no random number and
// calls nobody; an event method is told the present time, changes the machine
// and leaves records of what changed in effects. Breaker surrounds it with a
// lock, publishes what the lock-free paths may know, and delivers the records.
//
// Time is the span since the breaker was made. What time changes, it changes
// lazily: an event first commits, as of the instant it fell due, what is due
// (elapse); reading goes through a copy that has been brought up to date.
//
// Invariants, between events:
//  1. now never decreases.
//  2. trial is not nil exactly in HalfOpen, and len(trial.leases) is at most
//     cfg.Probes as of the last admission.
//  3. A state lasts one generation: state changes only in enter, which begins
//     the next one. (A reset begins another closed one.)
//  4. mode is override.mode while there is an override, else cfg.Mode. In
//     ForceOpen state is Open; in ForceClosed and Off it is Closed.
//  5. In HalfOpen, trial.passed < cfg.CloseAfter and trial.failed <
//     cfg.ReopenAfter, but after a reconfiguration that lowered them until the
//     next probe's end.
type machine struct {
	cfg *Config // defaults filled in; never written through

	now        time.Duration // the latest instant seen
	state      State
	mode       Mode
	generation uint64
	since      time.Duration // when state was entered, or forced anew
	override   *override     // nil: none

	// closed
	window  tally
	clears  uint32 // times the window was emptied within a generation
	plain   uint64 // successes of this closed period that came through finish, slow ones too
	run     int    // failures in a row
	lastErr error  // of this closed or half-open period

	// open
	deadline time.Duration // when it probes; forever while forced

	// growth of the open period
	doublings int // of the period last used; -1: none since growth was forgotten
	draw      float64
	nextDraw  float64 // for the next period, in [0, 1); supplied from outside
	drawn     bool    // nextDraw has been used and wants to be replaced

	trial     *trial
	lastLease uint32
	changed   bool // something that may change what a call meets; cleared outside

	totals totals
	story  *story // nil until there is a first record
}

// trial is one half-open period.
type trial struct {
	counts Counts
	passed int // probes that count towards CloseAfter
	failed int // probes that count towards ReopenAfter
	leases []lease
}

// probeEnd is how a probe ended.
type probeEnd struct {
	began, ended time.Duration
	result       ProbeResult
	slow         bool
}

// maxProbeEnds is how many of those are kept.
const maxProbeEnds = 8

// totals are those of Totals that a breaker needs which never trips.
type totals struct {
	successes, failures, ignored, late, slow uint64
}

// story is what only a breaker needs that has left records.
type story struct {
	probes      ProbeTotals
	ends        []probeEnd     // the last ones, oldest first
	periods     int            // open periods since the breaker was last closed
	tripped     []window.Tally // the window's buckets at the last trip; never written to
	open        time.Duration  // of ended open periods
	transitions []TransitionCount
	effects     []record // of the present event
}

// tally is what machine needs of a window; see package window.
type tally interface {
	Advance(now time.Duration, successes uint64)
	Add(failure, slow bool)
	Tally(now time.Duration, successes uint64) window.Tally
	Buckets(now time.Duration, successes uint64) []window.Tally
	Until() time.Duration
	Clear(now time.Duration, successes uint64)
}

// lease is the right of one probe to its slot.
type lease struct {
	id         uint32
	began      time.Duration // when the probe was admitted
	start, end time.Duration // of the lease, which may have been renewed
}

type override struct {
	mode Mode
	note Note
	end  time.Duration // forever: until lifted
}

// record is a Transition before it is stamped with wall time.
type record struct {
	Transition
	at, until time.Duration
	err       error // becomes LastError
}

// reason is what enter and note write into a record.
type reason struct {
	cause     Cause
	counts    Counts
	threshold float64
	note      Note
}

// ticket is the machine's part of a permit.
type ticket struct {
	kind       kind
	generation uint64 // counted
	lease      uint32 // probe
}

type kind uint8

const (
	counted  kind = iota // admitted closed: feeds the window
	probe                // admitted half-open: decides
	shadowed             // admitted by Shadow only; its end is not told to the machine
	unjudged             // admitted in mode Off: counts nowhere; likewise
	rejected             // not admitted
)

// result is an end of a call as the machine is told of it.
type result struct {
	outcome Outcome
	slow    bool
	err     error
	fast    uint64 // successes of the present closed period counted outside
}

// verdict is what came of a result.
type verdict struct {
	accepted bool // not late
	ask      bool // TripWhen is to be asked about the counts, and a yes to be told
}

const forever = time.Duration(math.MaxInt64)

func newMachine(cfg *Config, draw float64) machine {
	return machine{cfg: cfg, mode: cfg.Mode, window: newTally(cfg), doublings: -1, nextDraw: draw, changed: true}
}

func newTally(cfg *Config) tally {
	if cfg.WindowCalls > 0 {
		return window.NewCount(cfg.WindowCalls)
	}
	return window.NewTime(cfg.Window, cfg.Buckets)
}

// admit decides about a call. A call at or after the deadline of an open
// breaker is itself the first probe. What it returns as rejected, mode Shadow
// admits all the same.
func (m *machine) admit(now time.Duration) ticket {
	m.elapse(now)
	if m.mode == Off {
		return ticket{kind: unjudged}
	}
	if m.state == Closed {
		return ticket{kind: counted, generation: m.generation}
	}
	if m.state == Open {
		if m.now < m.deadline {
			return ticket{kind: rejected}
		}
		m.enter(HalfOpen, m.now, reason{cause: CauseDeadline})
	}
	if !m.probeFree() {
		return ticket{kind: rejected}
	}
	m.lastLease++
	m.trial.leases = append(m.trial.leases, lease{m.lastLease, m.now, m.now, later(m.now, m.cfg.ProbeTimeout)})
	m.changed = true
	return ticket{kind: probe, lease: m.lastLease}
}

// probeFree reports whether another probe may go out: a slot is free, and its
// result can still matter. Of as many results as there are successes wanted
// plus failures wanted less one, one kind has enough in any case; with so many
// out, nobody needs another. (One is always let through: limits that were
// lowered in mid-period must not lock it.)
func (m *machine) probeFree() bool {
	t := m.trial
	successes, failures := m.cfg.CloseAfter-t.passed, m.cfg.ReopenAfter-t.failed
	out := len(t.leases)
	return out == 0 || out < m.cfg.Probes && out-successes < failures-1 // in this order nothing overflows
}

// finish takes the result of an admitted call.
func (m *machine) finish(now time.Duration, t ticket, r result) verdict {
	m.elapse(now)
	if t.kind == probe {
		return m.finishProbe(t, r)
	}
	if t.generation != m.generation {
		m.totals.late++
		return verdict{}
	}
	if m.mode == Off {
		return verdict{accepted: true}
	}
	if r.outcome == Ignored {
		m.totals.ignored++
		return verdict{accepted: true}
	}
	failure := m.count(r)
	m.window.Advance(m.now, m.plain+r.fast)
	m.window.Add(failure, r.slow)
	if failure {
		m.run++
	} else {
		m.run = 0
		m.plain++
	}
	if m.mode == ForceClosed || !failure && !r.slow {
		return verdict{accepted: true}
	}
	return m.judge(failure, r.fast)
}

// count counts a success or a failure in the totals and keeps its error. It
// reports whether the outcome is a failure; anything unknown is.
func (m *machine) count(r result) (failure bool) {
	if r.slow {
		m.totals.slow++
	}
	if r.outcome == Success {
		m.totals.successes++
		return false
	}
	m.totals.failures++ // an unknown outcome too
	if r.err != nil {
		m.lastErr = r.err
	}
	return true
}

// judge applies the rules of the closed state after a failure or slow call. A
// slow success is judged by the slow rule only.
func (m *machine) judge(failure bool, fast uint64) verdict {
	c := m.cfg
	if c.TripWhen != nil {
		return verdict{accepted: true, ask: true}
	}
	counts := m.counts(fast)
	enough := counts.Calls >= c.MinCalls
	switch {
	case failure && enough && c.FailureRate >= 0 && counts.FailureRate() >= c.FailureRate:
		m.trip(CauseFailureRate, counts, c.FailureRate, fast)
	case enough && c.SlowAfter > 0 && counts.SlowRate() >= c.SlowRate:
		m.trip(CauseSlowRate, counts, c.SlowRate, fast)
	case failure && c.Consecutive > 0 && m.run >= c.Consecutive:
		m.trip(CauseConsecutive, counts, float64(c.Consecutive), fast)
	}
	return verdict{accepted: true}
}

// tripWhen takes TripWhen's yes about counts of the given generation, taken
// after so many clears, and reports whether it came in time; fast as in result.
func (m *machine) tripWhen(now time.Duration, generation uint64, clears uint32, counts Counts, fast uint64) bool {
	m.elapse(now)
	if m.generation != generation || m.clears != clears || m.mode == ForceClosed || m.mode == Off {
		return false
	}
	m.trip(CauseTripWhen, counts, 0, fast)
	return true
}

// trip opens a closed breaker. A trip does not double the period: soon after
// the close it goes on with the period last used, else it begins anew.
func (m *machine) trip(cause Cause, counts Counts, threshold float64, fast uint64) {
	buckets := m.window.Buckets(m.now, m.plain+fast)
	m.doublings = max(m.growth(m.now), 0)
	m.open(m.now, reason{cause: cause, counts: counts, threshold: threshold})
	m.story.tripped = buckets
}

// growth returns the doublings of the open period last used, forgotten if the
// breaker has by then been closed for long enough.
func (m *machine) growth(at time.Duration) int {
	if m.cfg.StableAfter < 0 || at-m.since > m.cfg.StableAfter {
		return -1
	}
	return m.doublings
}

// grown returns the doublings of the open period that a reopening begins.
func (m *machine) grown() int {
	if m.doublings < 0 || period(m.cfg, m.doublings) < m.cfg.OpenForMax {
		return m.doublings + 1
	}
	return m.doublings
}

// nextPeriod returns the open period that a trip now, or else a reopening,
// begins; without jitter while that has not been drawn.
func (m *machine) nextPeriod() time.Duration {
	doublings := m.grown()
	if m.state == Closed {
		doublings = max(m.growth(m.now), 0)
	}
	if m.drawn {
		return period(m.cfg, doublings)
	}
	return jittered(m.cfg, doublings, m.nextDraw)
}

// finishProbe takes the result of a probe. A probe whose lease is gone is late.
func (m *machine) finishProbe(t ticket, r result) verdict {
	i := m.findLease(t.lease)
	if i < 0 {
		m.totals.late++
		return verdict{}
	}
	if r.outcome == Ignored {
		m.totals.ignored++
		m.endProbe(i, m.now, ProbeIgnored, false)
		return verdict{accepted: true}
	}
	failure := m.count(r)
	c := &m.trial.counts
	c.Calls++
	if r.slow {
		c.Slow++
	}
	c.Consecutive++
	if failure {
		c.Failures++
	} else {
		c.Consecutive = 0
	}
	if failure || r.slow {
		m.endProbe(i, m.now, ProbeFailed, r.slow)
		m.probeFailed(m.now, CauseProbeFailed)
		return verdict{accepted: true}
	}
	m.endProbe(i, m.now, ProbeSucceeded, false)
	if m.trial.passed++; m.trial.passed >= m.cfg.CloseAfter {
		m.enter(Closed, m.now, reason{cause: CauseProbesSucceeded, counts: *c, threshold: float64(m.cfg.CloseAfter)})
	}
	return verdict{accepted: true}
}

// probeFailed counts a probe against the dependency and reopens if it was the
// last that may fail. A reopening doubles the open period up to the maximum.
func (m *machine) probeFailed(at time.Duration, cause Cause) {
	if m.trial.failed++; m.trial.failed < m.cfg.ReopenAfter {
		return
	}
	m.doublings = m.grown()
	m.open(at, reason{cause: cause, counts: m.trial.counts, threshold: float64(m.cfg.ReopenAfter)})
}

// cancel takes back the admission of a call that was not made.
func (m *machine) cancel(now time.Duration, t ticket) {
	m.elapse(now)
	if i := m.findLease(t.lease); t.kind == probe && i >= 0 {
		m.endProbe(i, m.now, ProbeIgnored, false)
	}
}

// renew begins the lease of a probe anew.
func (m *machine) renew(now time.Duration, t ticket) {
	m.elapse(now)
	if i := m.findLease(t.lease); t.kind == probe && i >= 0 {
		l := &m.trial.leases[i]
		l.start, l.end = m.now, later(m.now, m.cfg.ProbeTimeout)
		m.changed = true
	}
}

func (m *machine) findLease(id uint32) int {
	if m.trial == nil {
		return -1
	}
	return slices.IndexFunc(m.trial.leases, func(l lease) bool { return l.id == id })
}

// endProbe gives a slot back, and keeps how its probe ended.
func (m *machine) endProbe(i int, at time.Duration, result ProbeResult, slow bool) {
	s := m.story
	if s.ends == nil {
		s.ends = make([]probeEnd, 0, maxProbeEnds)
	}
	if len(s.ends) == maxProbeEnds {
		s.ends = slices.Delete(s.ends, 0, 1)
	}
	s.ends = append(s.ends, probeEnd{m.trial.leases[i].began, at, result, slow})
	s.probes.count(result)
	m.trial.leases = slices.Delete(m.trial.leases, i, i+1)
	m.changed = true
}

// elapse commits what time alone has changed up to now, each thing as of the
// instant it fell due: the end of an override, the end of a probe's lease. (An
// open breaker past its deadline waits for a call; see stateNow.)
func (m *machine) elapse(now time.Duration) {
	m.now = max(m.now, now)
	for {
		due, i := m.nextDue()
		switch {
		case due > m.now || due == forever:
			return
		case i < 0:
			m.endOverride(due, reason{cause: CauseOverrideEnded, note: m.override.note})
		default:
			m.endProbe(i, due, ProbeExpired, false)
			c := &m.trial.counts
			c.Calls++
			c.Failures++
			c.Consecutive++
			m.probeFailed(due, CauseProbeExpired)
		}
	}
}

// nextDue returns when something falls due next, forever if nothing will, and
// the lease that ends then; -1: the override does.
func (m *machine) nextDue() (due time.Duration, lease int) {
	due, lease = forever, -1
	if m.override != nil {
		due = m.override.end
	}
	if m.trial == nil {
		return due, lease
	}
	for i, l := range m.trial.leases {
		if l.end < due {
			due, lease = l.end, i
		}
	}
	return due, lease
}

// at returns a copy in which all that is due by now has been committed. The
// copy is to be read only. It shares the window, which time alone does not
// change while anybody looks at it.
func (m *machine) at(now time.Duration) machine {
	c := *m
	c.now = max(m.now, now)
	if due, _ := m.nextDue(); due > c.now {
		return c
	}
	s := *m.story
	s.transitions, s.ends, s.effects = slices.Clone(s.transitions), slices.Clone(s.ends), nil
	c.story = &s
	if m.trial != nil {
		t := *m.trial
		t.leases = slices.Clone(t.leases)
		c.trial = &t
	}
	c.elapse(now)
	return c
}

// stateNow returns the state as it reads: an open breaker past its deadline
// reads half-open, which the next call will make it. Nothing is due.
func (m *machine) stateNow() State {
	if m.state == Open && m.now >= m.deadline {
		return HalfOpen
	}
	return m.state
}

// sinceNow returns when the state that stateNow returns was entered.
func (m *machine) sinceNow() time.Duration {
	if m.stateNow() != m.state {
		return m.deadline
	}
	return m.since
}

// counts returns the counts of the present state; fast as in result.
func (m *machine) counts(fast uint64) Counts {
	switch m.state {
	case Closed:
		t := m.window.Tally(m.now, m.plain+fast)
		return Counts{Calls: t.Calls, Failures: t.Failures, Slow: t.Slow, Consecutive: m.run}
	case HalfOpen:
		return m.trial.counts
	default:
		return Counts{}
	}
}

// openTime returns how long the breaker has been open in all. An open period
// ends with its deadline, whenever the next call comes.
func (m *machine) openTime() time.Duration {
	switch {
	case m.story == nil:
		return 0
	case m.state != Open:
		return m.story.open
	default:
		return m.story.open + min(m.now, m.deadline) - m.since
	}
}

// plainUntil returns the instant up to which a plain success of this closed
// period only needs to be counted: the end of the window's bucket, or the
// beginning of time where the window is to move, or a run of failures to end.
func (m *machine) plainUntil() time.Duration {
	until := m.window.Until()
	if m.run > 0 || m.now >= until {
		return math.MinInt64
	}
	return until
}

// setOverride sets a mode by hand; left is the time until it ends by itself,
// fast as in result.
func (m *machine) setOverride(now time.Duration, mode Mode, n Note, left time.Duration, fast uint64) {
	m.elapse(now)
	end := later(m.now, left)
	if end <= m.now { // over before it began
		m.note(m.now, reason{cause: CauseOverrideEnded, note: n})
		return
	}
	forced := m.mode == ForceOpen
	m.override = &override{mode, n, end}
	m.mode = mode
	r := reason{cause: CauseOverride, counts: m.counts(fast), note: n}
	if mode == ForceOpen && m.state == Open {
		m.story.open += min(m.now, m.deadline) - m.since // after its deadline it read half-open
		m.since, m.deadline = m.now, forever
	}
	if mode == ForceClosed && m.state == Closed {
		m.clear(fast)
	}
	m.follow(forced, m.now, r)
}

// lift ends an override, if there is one.
func (m *machine) lift(now time.Duration, n Note) {
	m.elapse(now)
	r := reason{cause: CauseLift, note: n}
	if m.override == nil {
		m.note(m.now, r)
		return
	}
	m.endOverride(m.now, r)
}

func (m *machine) endOverride(at time.Duration, r reason) {
	forced := m.mode == ForceOpen
	m.override, m.mode = nil, m.cfg.Mode
	m.follow(forced, at, r)
}

// follow brings the state in line with a mode that has just been set: the
// state that the mode demands, half-open after the end of ForceOpen, else the
// state as it is. It leaves one record.
func (m *machine) follow(wasForcedOpen bool, at time.Duration, r reason) {
	to := m.state
	switch {
	case m.mode == ForceOpen:
		to = Open
	case m.mode == ForceClosed || m.mode == Off:
		to = Closed
	case wasForcedOpen:
		to = HalfOpen
	}
	switch to {
	case m.state:
		m.note(at, r)
	case Open:
		if m.state == Closed {
			m.doublings = m.growth(at)
		}
		m.deadline = forever
		m.enter(Open, at, r)
	default:
		m.enter(to, at, r)
	}
}

// reset closes the breaker and forgets everything but an override by Shadow,
// Enforce or Off.
func (m *machine) reset(now time.Duration, n Note, fast uint64) {
	m.elapse(now)
	counts := m.counts(fast)
	if m.mode == ForceOpen || m.mode == ForceClosed {
		m.override, m.mode = nil, m.cfg.Mode
	}
	m.doublings = -1
	m.enter(Closed, m.now, reason{cause: CauseReset, counts: counts, note: n})
}

// reconfigure takes new settings. State, generation, run of failures and the
// draw of the period stay; limits are judged from the next result on. A
// deadline or the end of a lease can only come nearer, a deadline at most up to
// now: the time already spent open has been. A window of another shape begins empty.
func (m *machine) reconfigure(now time.Duration, cfg *Config, fast uint64) {
	m.elapse(now)
	old := m.cfg
	m.cfg = cfg
	if cfg.Window != old.Window || cfg.Buckets != old.Buckets || cfg.WindowCalls != old.WindowCalls {
		m.window = newTally(cfg)
		m.clear(fast)
	}
	if m.trial != nil {
		for i := range m.trial.leases {
			l := &m.trial.leases[i]
			l.end = min(l.end, later(l.start, cfg.ProbeTimeout))
		}
	}
	if m.state == Open && m.mode != ForceOpen {
		m.deadline = min(m.deadline, max(m.now, later(m.since, jittered(cfg, m.doublings, m.draw))))
	}
	if m.override == nil {
		m.mode = cfg.Mode
	}
	m.follow(false, m.now, reason{cause: CauseReconfigured})
}

// clear empties the window of a closed period that goes on.
func (m *machine) clear(fast uint64) {
	m.window.Clear(m.now, m.plain+fast)
	m.clears++
}

// open begins an open period with a deadline.
func (m *machine) open(at time.Duration, r reason) {
	m.draw, m.drawn = m.nextDraw, true
	m.deadline = later(at, jittered(m.cfg, m.doublings, m.draw))
	m.enter(Open, at, r)
}

// enter begins a generation: the only place where the state changes.
func (m *machine) enter(to State, at time.Duration, r reason) {
	from := m.state
	if from == Open {
		m.story.open += min(at, m.deadline) - m.since
	}
	m.state, m.since = to, at
	m.generation++
	m.run = 0
	m.trial = nil
	if to == HalfOpen {
		m.trial = &trial{}
	}
	m.write(from, at, r)
	m.lastErr = nil
	if to == Open {
		m.story.periods++
	}
	if to == Closed {
		m.story.periods = 0
		m.plain = 0
		m.window.Clear(m.now, 0) // what is counted outside begins anew too
	}
}

// note leaves a record of something that did not change the state.
func (m *machine) note(at time.Duration, r reason) { m.write(m.state, at, r) }

func (m *machine) write(from State, at time.Duration, r reason) {
	t := Transition{
		From: from, To: m.state, Cause: r.cause, Mode: m.mode, Generation: m.generation,
		Counts: r.counts, Threshold: r.threshold, Note: r.note,
	}
	if from == Closed && m.state == Open && m.cfg.WindowCalls == 0 {
		t.Window = m.cfg.Window
	}
	until := forever
	if m.state == Open {
		until = m.probesAt()
	}
	if m.story == nil {
		m.story = &story{}
	}
	m.story.effects = append(m.story.effects, record{Transition: t, at: at, until: until, err: m.lastErr})
	m.story.count(from, m.state, r.cause)
	m.changed = true
}

// probesAt returns when an open breaker will probe: at its deadline, or at the
// end of the override that forces it open.
func (m *machine) probesAt() time.Duration {
	if m.mode == ForceOpen {
		return m.override.end
	}
	return m.deadline
}

func (s *story) count(from, to State, cause Cause) {
	for i := range s.transitions {
		if t := &s.transitions[i]; t.From == from && t.To == to && t.Cause == cause {
			t.Count++
			return
		}
	}
	s.transitions = append(s.transitions, TransitionCount{from, to, cause, 1})
}

// period returns the open period after so many doublings, before jitter. It
// stops at the maximum by comparing before it multiplies: nothing overflows.
func period(c *Config, doublings int) time.Duration {
	d := c.OpenFor
	for range doublings {
		if d >= c.OpenForMax/2 {
			return c.OpenForMax
		}
		d *= 2
	}
	return min(d, c.OpenForMax)
}

// jittered returns the open period scaled by 1 ± OpenJitter; draw is in [0, 1).
func jittered(c *Config, doublings int, draw float64) time.Duration {
	d := period(c, doublings)
	if c.OpenJitter <= 0 {
		return d
	}
	scaled := float64(d) * (1 + float64(c.OpenJitter*(2*draw-1))) // not fused: the same on every machine
	if scaled >= math.MaxInt64 {
		return forever
	}
	return time.Duration(scaled)
}

// later returns t + d, at most forever. t is not negative.
func later(t, d time.Duration) time.Duration {
	if t > 0 && d > forever-t {
		return forever
	}
	return t + d
}

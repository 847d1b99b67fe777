package fusebox

import (
	"time"

	"github.com/fusebox-go/fusebox/internal/window"
)

// Inspection is a breaker at one instant, in all detail: for who has to
// understand what it did, not for a metric. See [Breaker.Inspect].
type Inspection struct {
	Snapshot
	Config  Config       `json:"-"`       // in effect, as Breaker.Config returns it
	History []Transition `json:"history"` // as Breaker.History returns it

	// Window has the buckets of the window, oldest first, while closed; in other
	// states it is empty. A window of time has Config.Buckets of them, the last
	// of which is under way; if those are more than 100, neighbours are one here,
	// as many in each but the first, which may have fewer. One of the last
	// outcomes is cut into ten of the same number of outcomes, of which the first
	// may lack some, and is empty where there is no outcome.
	Window []Bucket `json:"window"`

	// Trip is the record of the last trip, also where History has lost it, and
	// TripWindow has the buckets of the window as they were then. The zero
	// Transition, and nil, where there was none. With Config.TripWhen, the buckets
	// may hold calls that finished while it was asked. A breaker that has tripped
	// keeps 24 bytes for each.
	Trip       Transition `json:"trip"`
	TripWindow []Bucket   `json:"trip_window"`

	// Passed and Failed are how many probes of this half-open period count
	// towards Config.CloseAfter and Config.ReopenAfter.
	Passed int `json:"passed"`
	Failed int `json:"failed"`

	// Probes are the last 8 probes that ended, of earlier half-open periods too,
	// in the order of their ends, and then those that are out.
	Probes []Probe `json:"probes"`

	// PeriodNumber is the number of the open period, or of the one before the
	// present half-open period, in a row: 1 after a trip, one more after each
	// reopening. 0 while closed. Forced ones count.
	PeriodNumber int `json:"period_number"`

	// NextPeriod is the open period that comes next, as planned: if this
	// half-open period fails, or while closed if a rule trips. Its jitter is
	// included, but where a reopening is due and no call has committed it.
	NextPeriod time.Duration `json:"next_period"`
}

// Bucket is a slice of a window.
type Bucket struct {
	Calls    int `json:"calls"` // successes and failures
	Failures int `json:"failures"`
	Slow     int `json:"slow"` // slow successes and slow failures
}

// Probe is a call that was admitted in half-open. One whose half-open period
// ended before it did is none of them.
type Probe struct {
	At       time.Time     `json:"at"`       // when it was admitted
	Duration time.Duration `json:"duration"` // from then to its end, by the breaker's clock; to now if it is out
	Result   ProbeResult   `json:"result"`
	Slow     bool          `json:"slow,omitempty"` // then it is a failed one, also where it succeeded
}

// ProbeResult is how a probe ended.
type ProbeResult uint8

const (
	// ProbeOut has not ended.
	ProbeOut ProbeResult = iota
	// ProbeSucceeded counts towards closing.
	ProbeSucceeded
	// ProbeFailed counts towards reopening: it failed, or was slow.
	ProbeFailed
	// ProbeIgnored gave its slot back: an ignored outcome, or Cancel.
	ProbeIgnored
	// ProbeExpired did not finish by the end of its lease, and counts towards
	// reopening.
	ProbeExpired
)

var probeResultNames = names[ProbeResult]{"probe result", []string{"out", "succeeded", "failed", "ignored", "expired"}}

// String returns "out", "succeeded", "failed", "ignored" or "expired".
func (r ProbeResult) String() string { return probeResultNames.text(r) }

// MarshalText implements [encoding.TextMarshaler]; an unknown value is an error.
func (r ProbeResult) MarshalText() ([]byte, error) { return probeResultNames.marshal(r) }

// UnmarshalText implements [encoding.TextUnmarshaler]; it takes what String returns.
func (r *ProbeResult) UnmarshalText(text []byte) error { return probeResultNames.unmarshal(r, text) }

// Inspect returns all there is to know, true of one instant. Like Snapshot it
// changes nothing; it allocates, and takes the breaker's lock for a few
// microseconds. A window of more than some hundred buckets, or of some thousand
// calls, makes that longer: it goes through each of them.
func (b *Breaker) Inspect() Inspection {
	i, last, tripped, history := b.inspect(b.elapsed())
	i.History = readAll(history) // not under the lock, as in Snapshot
	if last != nil {
		i.Last = last.read()
	}
	if tripped != nil {
		i.Trip = tripped.read()
	}
	return i
}

func (b *Breaker) inspect(now time.Duration) (i Inspection, last, tripped *entry, history []*entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, fast := b.look(now), b.fast()
	i.Snapshot, last = b.shown(&m, fast)
	i.Config, i.NextPeriod = *m.cfg, m.nextPeriod()
	if m.state == Closed {
		i.Window = buckets(m.window.Buckets(m.now, m.plain+fast))
	}
	if t := m.trial; t != nil {
		i.Passed, i.Failed = t.passed, t.failed
	}
	if s := m.story; s != nil {
		i.TripWindow, i.PeriodNumber = buckets(s.tripped), s.periods
		i.Probes = b.probes(&m)
	}
	if j := b.journal; j != nil {
		tripped, history = j.tripped, append(history, j.history...)
	}
	return i, last, tripped, history
}

// probes returns those of m, a copy of the machine as of now.
func (b *Breaker) probes(m *machine) (all []Probe) {
	for _, e := range m.story.ends {
		all = append(all, Probe{b.wallAt(e.began), e.ended - e.began, e.result, e.slow})
	}
	if m.trial == nil {
		return all
	}
	for _, l := range m.trial.leases {
		all = append(all, Probe{At: b.wallAt(l.began), Duration: m.now - l.began})
	}
	return all
}

func buckets(tallies []window.Tally) (all []Bucket) {
	for _, t := range tallies {
		all = append(all, Bucket(t))
	}
	return all
}

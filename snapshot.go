package fusebox

import "time"

// Counts are the outcomes of a window; in half-open, those of its probes.
type Counts struct {
	Calls       int `json:"calls"`       // successes and failures
	Failures    int `json:"failures"`    //
	Slow        int `json:"slow"`        // slow successes and slow failures
	Consecutive int `json:"consecutive"` // failures in a row, not bounded by the window
}

// FailureRate returns Failures/Calls, a fraction; 0 for an empty window.
func (c Counts) FailureRate() float64 { return c.rate(c.Failures) }

// SlowRate returns Slow/Calls, a fraction; 0 for an empty window.
func (c Counts) SlowRate() float64 { return c.rate(c.Slow) }

func (c Counts) rate(n int) float64 {
	if c.Calls == 0 {
		return 0
	}
	return float64(n) / float64(c.Calls)
}

// Snapshot is a breaker at one instant. A call finished before it is in it,
// one finished after it is not; one finishing meanwhile is in it or not, once,
// and later snapshots never go back.
type Snapshot struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Since is when the state was entered; a reset, and a force-open of an open
	// breaker, enters it anew.
	Since      time.Time `json:"since"`
	Mode       Mode      `json:"mode"` // in effect: the override's, or the Config's
	Generation uint64    `json:"generation"`
	// Counts are those of the window while closed, those of the probes so far
	// in half-open, and zero while open.
	Counts Counts `json:"counts"`
	// Outstanding is how many probes are out.
	Outstanding int `json:"outstanding"`
	// Until is when an open breaker probes; zero when it is not open, or
	// forced open without an end.
	Until time.Time `json:"until,omitzero"`
	// OpenPeriod is the planned length of the present open period, 0 if there is none.
	OpenPeriod time.Duration `json:"open_period,omitempty"`
	// Override is whether a mode set by hand is in effect, and Note whose.
	Override bool `json:"override,omitempty"`
	Note     Note `json:"note,omitzero"`
	// Last is the last record; what only time has changed leaves one with the
	// next event.
	Last   Transition `json:"last"`
	Totals Totals     `json:"totals"`
}

// Totals count since the breaker was made; they never decrease. Finished calls
// are Successes + Failures + Ignored + Late. What finishes in mode Off, and is
// not late, is counted nowhere, what a shadow breaker would have rejected only below WouldReject.
type Totals struct {
	Successes uint64 `json:"successes"`
	Failures  uint64 `json:"failures"`
	Ignored   uint64 `json:"ignored"`
	Late      uint64 `json:"late"`
	Slow      uint64 `json:"slow"` // of Successes and Failures

	RejectedOpen    uint64 `json:"rejected_open"`    // open
	RejectedProbing uint64 `json:"rejected_probing"` // half-open, its probes out

	WouldReject WouldReject `json:"would_reject"`
	Probes      ProbeTotals `json:"probes"`

	// Open is the time spent open, up to the end of each open period.
	Open time.Duration `json:"open"`
	// Panics counts those of observers and of Config.Rand.
	Panics uint64 `json:"panics"`
	// Transitions counts records by states and cause, in the order of their
	// first appearance.
	Transitions []TransitionCount `json:"transitions,omitempty"`
}

// WouldReject counts, by outcome, finished calls that a breaker in mode Shadow
// would have rejected, had it been enforcing.
type WouldReject struct {
	Successes uint64 `json:"successes"`
	Failures  uint64 `json:"failures"`
	Ignored   uint64 `json:"ignored"`
}

// ProbeTotals counts how probes ended. A slow success is Failed here: it
// counts against the dependency. A probe whose half-open period ended before it
// did is late, and not here.
type ProbeTotals struct {
	Succeeded uint64 `json:"succeeded"`
	Failed    uint64 `json:"failed"`
	Ignored   uint64 `json:"ignored"` // ignored outcome or Cancel
	Expired   uint64 `json:"expired"` // not finished by the end of the lease
}

func (p *ProbeTotals) count(r ProbeResult) {
	switch r {
	case ProbeSucceeded:
		p.Succeeded++
	case ProbeFailed:
		p.Failed++
	case ProbeIgnored:
		p.Ignored++
	case ProbeExpired:
		p.Expired++
	}
}

// TransitionCount is how many records had these states and this cause.
type TransitionCount struct {
	From  State  `json:"from"`
	To    State  `json:"to"`
	Cause Cause  `json:"cause"`
	Count uint64 `json:"count"`
}

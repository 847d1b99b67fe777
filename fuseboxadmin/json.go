package fuseboxadmin

import (
	"time"

	"github.com/fusebox-go/fusebox"
)

// Duration is a duration that is text in JSON: "1.5s".
type Duration time.Duration

// String returns the duration as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]; it takes what
// time.ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// List is the answer of GET /api/breakers.
type List struct {
	// Now is the time at the server, against which to read the others.
	Now time.Time `json:"now"`
	// LastEventID is that of the last event before the breakers were read:
	// whoever listens from it on misses nothing.
	LastEventID uint64 `json:"last_event_id"`
	// Breakers are sorted by severity (open, half-open, closed; those that only
	// judge after those that reject; of closed ones the overridden first), then
	// by name.
	Breakers []Breaker `json:"breakers"`
	// Hidden are names under which there is another breaker that is not shown.
	Hidden []string `json:"hidden,omitempty"`
}

// Breaker is a breaker at one instant: a [fusebox.Snapshot], with its
// durations as text. Where a name is both here and there, this one counts.
type Breaker struct {
	fusebox.Snapshot
	// Path is where it is, relative to where the handler is mounted; see [Path].
	Path        string  `json:"path"`
	FailureRate float64 `json:"failure_rate"` // of Counts, a fraction
	SlowRate    float64 `json:"slow_rate"`    // of Counts, a fraction
	// OpenPeriod is the planned length of the present open period; absent if
	// there is none.
	OpenPeriod Duration `json:"open_period,omitzero"`
	// Last is the last record; nil while there is none. It is not when the present
	// state began: Since is.
	Last   *Transition `json:"last,omitempty"`
	Totals Totals      `json:"totals"`
	// Judged is whether the rules are looked at now: the breaker is closed, and
	// its mode is enforce or shadow. Where it is not, their values are of
	// something else: of the probes in half-open.
	Judged bool `json:"judged"`
	// Rules are those that can trip the breaker. What is off is left out.
	Rules []Rule `json:"rules"`
}

// Totals are [fusebox.Totals], with durations as text. In a [List] the counts
// of transitions are left out.
type Totals struct {
	fusebox.Totals
	// Open is the time spent open, up to the end of each open period.
	Open Duration `json:"open"`
	// Fallbacks are the calls that a fallback answered in the breaker's place; nil
	// where the program does not know, see Handler.FallbacksOf.
	Fallbacks *uint64 `json:"fallbacks,omitempty"`
}

// Transition is a [fusebox.Transition], with durations as text and its cause in
// words. It is the data of an event "transition".
type Transition struct {
	fusebox.Transition
	// Window is the span of Counts where a closed breaker opened; absent with a
	// window of calls.
	Window Duration `json:"window,omitzero"`
	// Why is the cause in words, with its numbers.
	Why string `json:"why"`
}

// Detail is the answer of GET /api/breakers/{name}.
type Detail struct {
	Breaker
	// Now is the time at the server.
	Now    time.Time `json:"now"`
	Config Settings  `json:"config"`
	// Defaults names those of Config, by their names in JSON, whose value is the
	// default: the program has left them zero, or has written that very value. A
	// breaker cannot tell one from the other.
	Defaults []string `json:"defaults"`
	// History has the last records, oldest first.
	History []Transition `json:"history"`

	// Window has the buckets of the window, oldest first, while closed: one for each
	// of Config.Buckets, or slices of very many, or of a window of calls; see
	// fusebox.Inspection.
	Window []fusebox.Bucket `json:"window"`
	// Trip is the last trip, also where History has lost it, and TripWindow the
	// buckets as they were then. nil and empty where there was none.
	Trip       *Transition      `json:"trip,omitempty"`
	TripWindow []fusebox.Bucket `json:"trip_window"`

	// Passed and Failed are how many probes of this half-open period count towards
	// Config.CloseAfter and Config.ReopenAfter.
	Passed int `json:"passed"`
	Failed int `json:"failed"`
	// Probes are the last 8 that ended, then those that are out.
	Probes []Probe `json:"probes"`
	// PeriodNumber is the number of the open period in a row, 0 while closed, and
	// NextPeriod the planned length of the next: if this half-open period fails,
	// or, while closed, if a rule trips.
	PeriodNumber int      `json:"period_number"`
	NextPeriod   Duration `json:"next_period"`
}

// Probe is a [fusebox.Probe], with its duration as text.
type Probe struct {
	fusebox.Probe
	// Duration is the time to its end; to now if it is out.
	Duration Duration `json:"duration"`
}

// Settings is a [fusebox.Config] in effect: durations as text, what is off null,
// and for a function whether there is one. What is added to a Config has its
// place here, or a reason not to.
type Settings struct {
	Window       Duration     `json:"window"`
	Buckets      int          `json:"buckets"`
	WindowCalls  int          `json:"window_calls"` // 0: a window of time
	MinCalls     int          `json:"min_calls"`
	FailureRate  *float64     `json:"failure_rate"`
	SlowAfter    *Duration    `json:"slow_after"`
	SlowRate     float64      `json:"slow_rate"`
	Consecutive  *int         `json:"consecutive"`
	TripWhen     bool         `json:"trip_when"` // is set, and replaces the other rules
	OpenFor      Duration     `json:"open_for"`
	OpenForMax   Duration     `json:"open_for_max"`
	OpenJitter   *float64     `json:"open_jitter"`
	Probes       int          `json:"probes"`
	CloseAfter   int          `json:"close_after"`
	ReopenAfter  int          `json:"reopen_after"`
	ProbeTimeout Duration     `json:"probe_timeout"`
	StableAfter  *Duration    `json:"stable_after"`
	Mode         fusebox.Mode `json:"mode"`     // without an override
	Classify     bool         `json:"classify"` // is set
}

// newBreaker is what the API says of a breaker that is shown under a name.
func newBreaker(name string, s fusebox.Snapshot, c *fusebox.Config, fallbacks map[string]uint64) Breaker {
	s.Name, s.Since, s.Until, s.Note.Until = name, writable(s.Since), writable(s.Until), writable(s.Note.Until)
	shown := Breaker{
		Snapshot: s, Path: Path(name),
		FailureRate: s.Counts.FailureRate(), SlowRate: s.Counts.SlowRate(),
		OpenPeriod: Duration(s.OpenPeriod),
		Totals:     Totals{Totals: s.Totals, Open: Duration(s.Totals.Open)},
		Judged:     s.State == fusebox.Closed && (s.Mode == fusebox.Enforce || s.Mode == fusebox.Shadow),
		Rules:      newRules(c, s.Counts),
	}
	if n, known := fallbacks[name]; known {
		shown.Totals.Fallbacks = &n
	}
	shown.Last = someTransition(name, s.Last)
	return shown
}

func newTransition(name string, t fusebox.Transition) Transition {
	t.Name, t.At, t.Until, t.Note.Until = name, writable(t.At), writable(t.Until), writable(t.Note.Until)
	return Transition{t, Duration(t.Window), t.Why()}
}

// someTransition returns nil for a record of nothing.
func someTransition(name string, t fusebox.Transition) *Transition {
	if t.Cause == fusebox.CauseNone {
		return nil
	}
	shown := newTransition(name, t)
	return &shown
}

// newDetail is what the API says of one breaker, all of it of one instant.
func newDetail(name string, i fusebox.Inspection, fallbacks map[string]uint64) Detail {
	d := Detail{
		Breaker: newBreaker(name, i.Snapshot, &i.Config, fallbacks), Now: time.Now(), Config: newSettings(&i.Config), Defaults: defaults(&i.Config),
		History: []Transition{}, Trip: someTransition(name, i.Trip), Probes: []Probe{},
		Window: append([]fusebox.Bucket{}, i.Window...), TripWindow: append([]fusebox.Bucket{}, i.TripWindow...),
		Passed: i.Passed, Failed: i.Failed, PeriodNumber: i.PeriodNumber, NextPeriod: Duration(i.NextPeriod),
	}
	for _, t := range i.History {
		d.History = append(d.History, newTransition(name, t))
	}
	for _, p := range i.Probes {
		p.At = writable(p.At)
		d.Probes = append(d.Probes, Probe{p, Duration(p.Duration)})
	}
	return d
}

// writable returns the time, or the nearest to it that JSON has digits for: a
// breaker whose clock is in a far year is shown all the same.
func writable(t time.Time) time.Time {
	t = t.UTC()
	if y := t.Year(); y > 9999 {
		return time.Date(9999, time.December, 31, 23, 59, 59, 0, time.UTC)
	} else if y < 1 {
		return time.Time{}
	}
	return t
}

func newSettings(c *fusebox.Config) Settings {
	return Settings{
		Window: Duration(c.Window), Buckets: c.Buckets, WindowCalls: c.WindowCalls, MinCalls: c.MinCalls,
		FailureRate: on(c.FailureRate), SlowAfter: on(Duration(c.SlowAfter)), SlowRate: c.SlowRate,
		Consecutive: on(c.Consecutive), TripWhen: c.TripWhen != nil,
		OpenFor: Duration(c.OpenFor), OpenForMax: Duration(c.OpenForMax), OpenJitter: on(c.OpenJitter),
		Probes: c.Probes, CloseAfter: c.CloseAfter, ReopenAfter: c.ReopenAfter,
		ProbeTimeout: Duration(c.ProbeTimeout), StableAfter: on(Duration(c.StableAfter)),
		Mode: c.Mode, Classify: c.Classify != nil,
	}
}

// on returns nil for what is off.
func on[T int | float64 | Duration](v T) *T {
	if v < 0 {
		return nil
	}
	return &v
}

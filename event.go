package fusebox

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// State is what a breaker does with calls.
type State uint8

const (
	// Closed admits every call and judges outcomes.
	Closed State = iota
	// HalfOpen admits a few probes and rejects the rest.
	HalfOpen
	// Open rejects every call.
	Open
)

var stateNames = names[State]{"state", []string{"closed", "half-open", "open"}}

// String returns "closed", "half-open" or "open".
func (s State) String() string { return stateNames.text(s) }

// MarshalText implements [encoding.TextMarshaler]; an unknown value is an error.
func (s State) MarshalText() ([]byte, error) { return stateNames.marshal(s) }

// UnmarshalText implements [encoding.TextUnmarshaler]; it takes what String returns.
func (s *State) UnmarshalText(text []byte) error { return stateNames.unmarshal(s, text) }

// Mode is how far a breaker's judgement goes. The first three can stand in a
// Config; all five can be set by [Breaker.Override].
type Mode uint8

const (
	// Enforce judges and rejects.
	Enforce Mode = iota
	// Shadow judges and admits everything. A call that would have been
	// rejected is counted as such by its outcome and does not feed the window:
	// an enforcing breaker would not have seen it.
	Shadow
	// Off admits everything, counts nothing and reads closed.
	Off
	// ForceOpen rejects everything, until lifted or until its time is over;
	// the breaker is half-open then.
	ForceOpen
	// ForceClosed admits and counts everything and never trips, until lifted
	// or until its time is over; the next failure is judged again.
	ForceClosed
)

var modeNames = names[Mode]{"mode", []string{"enforce", "shadow", "off", "force-open", "force-closed"}}

// String returns "enforce", "shadow", "off", "force-open" or "force-closed".
func (m Mode) String() string { return modeNames.text(m) }

// MarshalText implements [encoding.TextMarshaler]; an unknown value is an error.
func (m Mode) MarshalText() ([]byte, error) { return modeNames.marshal(m) }

// UnmarshalText implements [encoding.TextUnmarshaler]; it takes what String returns.
func (m *Mode) UnmarshalText(text []byte) error { return modeNames.unmarshal(m, text) }

// Cause is why a Transition was made.
type Cause uint8

const (
	// CauseNone is the cause of the zero Transition: nothing has happened yet.
	CauseNone Cause = iota
	// CauseFailureRate tripped: Config.FailureRate.
	CauseFailureRate
	// CauseSlowRate tripped: Config.SlowRate.
	CauseSlowRate
	// CauseConsecutive tripped: Config.Consecutive.
	CauseConsecutive
	// CauseTripWhen tripped: Config.TripWhen returned true.
	CauseTripWhen
	// CauseProbeFailed reopened: Config.ReopenAfter probes failed or were slow.
	CauseProbeFailed
	// CauseProbeExpired reopened: the last of those reached the end of its lease.
	CauseProbeExpired
	// CauseProbesSucceeded closed: Config.CloseAfter probes succeeded.
	CauseProbesSucceeded
	// CauseDeadline made an open breaker half-open: its open period was over.
	CauseDeadline
	// CauseOverride is a call of Override.
	CauseOverride
	// CauseOverrideEnded is an override whose Until has passed.
	CauseOverrideEnded
	// CauseLift is a call of Lift.
	CauseLift
	// CauseReset is a call of Reset.
	CauseReset
	// CauseReconfigured is a call of Reconfigure.
	CauseReconfigured
)

var causeNames = names[Cause]{"cause", []string{
	"", "failure-rate", "slow-rate", "consecutive", "trip-when", "probe-failed", "probe-expired",
	"probes-succeeded", "deadline", "override", "override-ended", "lift", "reset", "reconfigured",
}}

// String returns the cause's name in lower case with hyphens, "failure-rate"
// for CauseFailureRate; "" for CauseNone.
func (c Cause) String() string { return causeNames.text(c) }

// MarshalText implements [encoding.TextMarshaler]; an unknown value is an error.
func (c Cause) MarshalText() ([]byte, error) { return causeNames.marshal(c) }

// UnmarshalText implements [encoding.TextUnmarshaler]; it takes what String returns.
func (c *Cause) UnmarshalText(text []byte) error { return causeNames.unmarshal(c, text) }

// trips reports whether a rule of the closed state was the cause.
func (c Cause) trips() bool { return c >= CauseFailureRate && c <= CauseTripWhen }

// Note says why an operator did something, and who it was.
type Note struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	// Until ends an override by itself. It is turned into a duration when the
	// note is given: later steps of the wall clock do not move it. Zero: it
	// holds until lifted. Only Override looks at it.
	Until time.Time `json:"until,omitzero"`
}

// Transition is the record of one change of a breaker. Those of one breaker
// chain: each From is the To before it. Override, Lift, Reset and Reconfigure
// leave a record even where From equals To.
type Transition struct {
	Name       string    `json:"name"`
	From       State     `json:"from"`
	To         State     `json:"to"`
	Cause      Cause     `json:"cause"`
	Mode       Mode      `json:"mode"`       // in effect afterwards
	At         time.Time `json:"at"`         // when it fell due, in wall time
	Generation uint64    `json:"generation"` // that it began, or left as it was

	// Counts are those that decided, before they were cleared: of the window,
	// or of the half-open period that ended. Successes that were finishing at
	// that very moment may be missing.
	Counts Counts `json:"counts"`
	// Threshold is what was reached: a rate, or a number of calls. 0 where no
	// rule decided.
	Threshold float64 `json:"threshold,omitempty"`
	// Window is the span of the Counts where a closed breaker opened; 0 with
	// a window of calls.
	Window time.Duration `json:"window,omitempty"`
	// LastError is the text of the last error seen before, 200 bytes at most.
	LastError string `json:"last_error,omitempty"`
	// Note is who did it and why; empty where nobody did.
	Note Note `json:"note,omitzero"`
	// Until is when the breaker will probe, as planned; zero when not open, or
	// forced open without an end.
	Until time.Time `json:"until,omitzero"`
}

// Why returns the cause in words, with its numbers: "failure rate 0.63 >=
// 0.50, 41 of 65 calls in 10s".
func (t Transition) Why() string {
	c := t.Counts
	span := ""
	if t.Window > 0 {
		span = " in " + t.Window.String()
	}
	by := func(what, by string) string {
		if t.Note.By != "" {
			what += by + t.Note.By
		}
		if t.Note.Reason != "" {
			what += ": " + t.Note.Reason
		}
		return what
	}
	switch t.Cause {
	case CauseNone:
		return "nothing has happened"
	case CauseFailureRate:
		return fmt.Sprintf("failure rate %s >= %s, %d of %d calls%s", rate(c.FailureRate()), rate(t.Threshold), c.Failures, c.Calls, span)
	case CauseSlowRate:
		return fmt.Sprintf("slow rate %s >= %s, %d of %d calls%s", rate(c.SlowRate()), rate(t.Threshold), c.Slow, c.Calls, span)
	case CauseConsecutive:
		return fmt.Sprintf("%s in a row >= %.0f", some(c.Consecutive, "failure"), t.Threshold)
	case CauseTripWhen:
		return fmt.Sprintf("TripWhen, %d of %d calls failed, %d slow%s", c.Failures, c.Calls, c.Slow, span)
	case CauseProbeFailed:
		text := fmt.Sprintf("%d of %d probes failed", c.Failures, c.Calls)
		if c.Slow > 0 {
			text += fmt.Sprintf(", %d slow", c.Slow)
		}
		return text
	case CauseProbeExpired:
		return fmt.Sprintf("%d of %d probes failed, the last by not finishing in time", c.Failures, c.Calls)
	case CauseProbesSucceeded:
		return some(int(t.Threshold), "probe") + " succeeded"
	case CauseDeadline:
		return "open period over"
	case CauseOverride:
		return by(t.Mode.String(), " by ")
	case CauseOverrideEnded:
		return by("override ended", ", set by ")
	case CauseLift:
		return by("override lifted", " by ")
	case CauseReset:
		return by("reset", " by ")
	case CauseReconfigured:
		return "reconfigured"
	default:
		return t.Cause.String()
	}
}

// some writes a number of things.
func some(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// rate writes a fraction with two decimals, a small one with two digits.
func rate(f float64) string {
	if f > 0 && f < 0.01 {
		return fmt.Sprintf("%.2g", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// String returns a line for a log: name, states, Why, and the last error.
func (t Transition) String() string {
	text := fmt.Sprintf("%q %v → %v: %s", t.Name, t.From, t.To, t.Why())
	if t.LastError != "" {
		text += "; last error: " + t.LastError
	}
	return text
}

// Completion describes a finished call to [Observer].Finished.
type Completion struct {
	Name    string
	Outcome Outcome
	Slow    bool
	// Duration is how long the call took; 0 when no observer asked for
	// durations, and no rule needed them, at its start.
	Duration time.Duration
	// Err is what Finish was given; nil where Record was used.
	Err error
	// Probe is whether the call was a probe.
	Probe bool
	// Late is whether the result came too late to count.
	Late bool
	// WouldReject is whether an enforcing breaker would have rejected the
	// call; only in shadow mode.
	WouldReject bool
}

// Observer is a set of functions that are told what happens; any may be nil.
//
// Transition is told of every record, one at a time and in order, none
// dropped, on the goroutine of some caller of the breaker: when a call
// returns, the records it made have been delivered or another goroutine is
// delivering them. Finished and Rejected are called by the goroutine of the
// call, many at a time.
//
// None is called under a lock: a callback may use the breaker. If it panics,
// the panic is recovered, counted in [Totals] and logged, the first one, with
// log/slog. If it ends in runtime.Goexit, it takes the caller's goroutine
// along; nothing else is lost.
//
// A Finished function costs every call a second clock read and the breaker's
// lock; the other two cost an admitted call nothing. Finished is not told of
// calls in mode Off, Rejected not of what a shadow breaker would have rejected.
type Observer struct {
	Transition func(Transition)
	Finished   func(Completion)
	Rejected   func(*OpenError)
}

// LogObserver returns an Observer that writes every Transition to l: at level
// Warn where it opened the breaker, Info else. nil stands for slog.Default()
// at the time of writing. An observer must not block for long; neither must
// the handler of l.
func LogObserver(l *slog.Logger) Observer {
	return Observer{Transition: func(t Transition) {
		log := l
		if log == nil {
			log = slog.Default()
		}
		level := slog.LevelInfo
		if t.To == Open && t.From != Open {
			level = slog.LevelWarn
		}
		log.LogAttrs(context.Background(), level, "fusebox: breaker "+t.To.String(), t.attrs()...)
	}}
}

func (t Transition) attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("name", t.Name),
		slog.String("from", t.From.String()),
		slog.String("to", t.To.String()),
		slog.String("cause", t.Cause.String()),
		slog.String("why", t.Why()),
		slog.Uint64("generation", t.Generation),
		slog.Time("at", t.At),
	}
	if t.LastError != "" {
		attrs = append(attrs, slog.String("last_error", t.LastError))
	}
	if !t.Until.IsZero() {
		attrs = append(attrs, slog.Time("until", t.Until))
	}
	return attrs
}

package fusebox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Config says when a breaker trips, for how long, and how it recovers. The
// zero value protects: every zero field stands for the default its comment
// gives. [Breaker.Config] shows the values in effect.
//
// A negative value switches a rule off where the comment says so, and is an
// error elsewhere. The rules FailureRate, SlowRate and Consecutive are OR-ed;
// with every rule off a breaker only counts.
//
// A Config is copied where it is used. The functions in it may be called by
// many goroutines at a time, never under a lock; they may not call the breaker
// back, and ought to be quick.
type Config struct {
	// Window is the span over which outcomes are counted, in Buckets slices:
	// the present one and the Buckets-1 before it. Default 10 s in 10 buckets.
	// A bucket costs 16 bytes; what a window holds costs nothing.
	Window  time.Duration
	Buckets int

	// WindowCalls, if positive, selects a window of the last WindowCalls
	// outcomes instead, however old. Each costs a byte, and every success
	// takes the breaker's lock. Default 0; at most 16,777,216.
	WindowCalls int

	// MinCalls is the number of outcomes in the window below which no rate
	// rule trips. Default 20; with WindowCalls, WindowCalls if that is less.
	MinCalls int

	// FailureRate trips the breaker when failures/outcomes in the window is at
	// or above it. A fraction: 0.5 is half. Default 0.5; negative: off.
	FailureRate float64

	// SlowAfter is the duration from which on (>=) a call is slow. A slow
	// success judges SlowRate only. Costs a second clock read a call.
	// Default 0, which like a negative value is off.
	SlowAfter time.Duration

	// SlowRate trips the breaker when slow calls/outcomes in the window is at or
	// above it. A fraction; default 0.6. Without SlowAfter no call is slow.
	SlowRate float64

	// Consecutive trips the breaker after this many failures in a row,
	// whatever the window holds; only a success (a slow one too), a trip or a
	// reset clears the run, never time. Default 20; negative: off. With a
	// FailureRate above 0.8 raise it or switch it off, or it decides first.
	Consecutive int

	// TripWhen, if not nil, replaces FailureRate, SlowRate, Consecutive and
	// MinCalls: called after every failure and every slow call with the counts
	// of the window, it trips the breaker by returning true, if nothing else
	// has changed the state since. A panic passes on to the caller of
	// the breaker; the outcome has been counted by then.
	TripWhen func(Counts) bool

	// OpenFor is how long a breaker that trips stays open before it probes.
	// Every reopening doubles it, up to OpenForMax; each period is then scaled
	// by a random factor from 1-OpenJitter to 1+OpenJitter, so that many
	// processes do not probe at once. Defaults: 1 s, 4 s (OpenFor if that is more), 0.2.
	// Negative OpenJitter: none. A constant period is OpenForMax = OpenFor
	// with OpenJitter -1. To probe at once, set OpenFor to a nanosecond.
	OpenFor    time.Duration
	OpenForMax time.Duration
	OpenJitter float64

	// Probes is how many probes may be outstanding at a time in half-open.
	// Default 3.
	Probes int

	// CloseAfter is how many probes must succeed in one half-open period
	// for the breaker to close. Default: Probes.
	CloseAfter int

	// ReopenAfter is how many probes must fail, or be slow, in one half-open
	// period for it to reopen. Default 1. Above 1, half-open is a race:
	// CloseAfter successes before ReopenAfter failures.
	ReopenAfter int

	// ProbeTimeout is the lease of a probe: a probe not finished by its end
	// counts as failed, its slot is free, and its own result will be late.
	// Default 30 s. Permit.Renew extends the lease of a stream.
	ProbeTimeout time.Duration

	// StableAfter is how long a breaker must have stayed closed for its next
	// trip to begin at OpenFor again; a trip up to then begins with the period
	// last used. Default: Window. Negative: it always begins at OpenFor.
	StableAfter time.Duration

	// Mode is Enforce (the default), Shadow or Off. See [Mode].
	Mode Mode

	// Classify turns what a call returned into an Outcome; ctx is the context
	// the call was admitted with. nil: [DefaultClassify], which is the
	// place to read about errors that are answers. With SlowAfter set, a call
	// that Classify ignores, with an error, whose context is cancelled and that had lasted
	// SlowAfter, is a slow failure: a hang whose callers give up is otherwise
	// invisible. (Errors marked with [Ignore] and refusals stay ignored.)
	// If it panics, the call is classified as one that panicked (a failure,
	// ignored if ctx is cancelled), and the panic passes on.
	Classify func(ctx context.Context, err error) Outcome

	// Observers are told what happens, as if added by [Breaker.Observe].
	Observers []Observer

	// Now replaces the clock, for simulations and tests (package fuseboxtest
	// has such a clock). nil: the monotonic clock; wall time then appears in
	// records only. A reading earlier than one before is taken as that one: a
	// clock that jumps far ahead and comes back makes the breaker wait for it.
	Now func() time.Time

	// Rand draws the jitter: a number in [0, 1). nil: math/rand/v2. A panic of
	// it is counted as one of an observer, but in New, where it passes on.
	Rand func() float64
}

const (
	maxWindowCalls = 1 << 24
	maxBuckets     = 1 << 20
)

// ConfigError is one invalid field of a Config.
type ConfigError struct {
	Field string // name of the field
	Value any    // its value
	Rule  string // what it must be: "must be …"
}

// Error returns `fusebox: Config.Field is Value, Rule`.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("fusebox: Config.%s is %v, %s", e.Field, e.Value, e.Rule)
}

// Validate returns nil or one error that joins a [*ConfigError] for every
// field that is invalid or contradicts another.
func (c Config) Validate() error {
	var errs []error
	reject := func(field string, value any, rule string) {
		errs = append(errs, &ConfigError{field, value, rule})
	}
	notNegative := func(field string, value, zero any, negative bool) {
		if negative {
			reject(field, value, fmt.Sprintf("must not be negative; 0 stands for %v", zero))
		}
	}
	rate := func(field string, value, low float64, rule string) {
		if math.IsNaN(value) || math.IsInf(value, 0) || value > 1 || value < low {
			reject(field, value, rule)
		}
	}
	d := c.withDefaults()
	zero := Config{WindowCalls: max(c.WindowCalls, 0), OpenFor: max(c.OpenFor, 0)}.withDefaults()

	notNegative("Window", c.Window, zero.Window, c.Window < 0)
	notNegative("Buckets", c.Buckets, zero.Buckets, c.Buckets < 0)
	switch {
	case c.Buckets > maxBuckets:
		reject("Buckets", c.Buckets, fmt.Sprintf("must be at most %d", maxBuckets))
	case c.Window >= 0 && c.Buckets >= 0 && d.Window < time.Duration(d.Buckets):
		reject("Window", d.Window, fmt.Sprintf("must be at least a nanosecond for each of Buckets (%d)", d.Buckets))
	}
	notNegative("WindowCalls", c.WindowCalls, "a time window", c.WindowCalls < 0)
	if c.WindowCalls > maxWindowCalls {
		reject("WindowCalls", c.WindowCalls, fmt.Sprintf("must be at most %d", maxWindowCalls))
	}
	notNegative("MinCalls", c.MinCalls, zero.MinCalls, c.MinCalls < 0)
	if c.WindowCalls > 0 && c.MinCalls > c.WindowCalls {
		reject("MinCalls", c.MinCalls, fmt.Sprintf("must be at most WindowCalls (%d), or no rate rule ever trips", c.WindowCalls))
	}
	rate("FailureRate", c.FailureRate, math.Inf(-1), "must be a fraction up to 1; negative is off")
	rate("SlowRate", c.SlowRate, 0, "must be a fraction from 0 to 1; to switch the rule off leave SlowAfter 0")
	notNegative("OpenFor", c.OpenFor, zero.OpenFor, c.OpenFor < 0)
	notNegative("OpenForMax", c.OpenForMax, zero.OpenForMax, c.OpenForMax < 0)
	if c.OpenForMax > 0 && d.OpenFor > c.OpenForMax {
		reject("OpenForMax", c.OpenForMax, fmt.Sprintf("must be at least OpenFor (%v)", d.OpenFor))
	}
	rate("OpenJitter", c.OpenJitter, math.Inf(-1), "must be a fraction up to 1; negative is off")
	notNegative("Probes", c.Probes, zero.Probes, c.Probes < 0)
	notNegative("CloseAfter", c.CloseAfter, "Probes", c.CloseAfter < 0)
	notNegative("ReopenAfter", c.ReopenAfter, zero.ReopenAfter, c.ReopenAfter < 0)
	notNegative("ProbeTimeout", c.ProbeTimeout, zero.ProbeTimeout, c.ProbeTimeout < 0)
	if c.Mode > Off {
		reject("Mode", c.Mode, "must be enforce, shadow or off; the others are set with Override")
	}
	return errors.Join(errs...)
}

// off is how [Breaker.Config] shows a rule that is switched off.
const off = -1

// withDefaults returns c with its defaults filled in. Every field of the
// result means the same again when handed in.
func (c Config) withDefaults() Config {
	c.Window = cmp.Or(c.Window, 10*time.Second)
	c.Buckets = cmp.Or(c.Buckets, 10)
	if c.MinCalls == 0 {
		c.MinCalls = 20
		if c.WindowCalls > 0 {
			c.MinCalls = min(c.MinCalls, c.WindowCalls)
		}
	}
	c.FailureRate = orOff(c.FailureRate, 0.5)
	c.SlowAfter = orOff(c.SlowAfter, off)
	c.SlowRate = cmp.Or(c.SlowRate, 0.6)
	c.Consecutive = orOff(c.Consecutive, 20)
	c.OpenFor = cmp.Or(c.OpenFor, time.Second)
	c.OpenForMax = cmp.Or(c.OpenForMax, max(c.OpenFor, 4*time.Second))
	c.OpenJitter = orOff(c.OpenJitter, 0.2)
	c.Probes = cmp.Or(c.Probes, 3)
	c.CloseAfter = cmp.Or(c.CloseAfter, c.Probes)
	c.ReopenAfter = cmp.Or(c.ReopenAfter, 1)
	c.ProbeTimeout = cmp.Or(c.ProbeTimeout, 30*time.Second)
	c.StableAfter = orOff(c.StableAfter, c.Window)
	return c
}

// orOff is cmp.Or for a field that a negative value switches off.
func orOff[T ~int | ~int64 | ~float64](v, d T) T {
	if v < 0 {
		return off
	}
	return cmp.Or(v, d)
}

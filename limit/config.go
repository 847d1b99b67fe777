package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fusebox-go/fusebox/internal/invalid"
)

// Config says how a [Policy] moves its limit. The zero value is ready for use:
// every zero field stands for the default its comment gives; a negative value
// is an error. [Policy.Config] shows the values in effect.
type Config struct {
	// Name is the name in the texts of errors. Default "".
	Name string

	// Initial is the limit before anything is known, Min the floor and Max the
	// cap. Defaults: 20, or the nearest to it from Min to Max; 1; 1000, or the
	// greatest of the other two if that is more. At most 1,048,576.
	//
	// Set Max to what could never be right: it is what holds where latency
	// says nothing, or where calls have no deadline.
	Initial, Min, Max int

	// Tolerance is the ratio of latency to the baseline up to which the limit
	// grows. A higher one suffers noise better and lets more calls wait in the
	// dependency. At least 1; default 1.1.
	Tolerance float64

	// Window is the least duration of a round of measurement, MinSamples the
	// least number of calls in it. A round lasts about two latencies in any
	// case. Longer rounds are less noisy and follow more slowly.
	// Defaults: 100 ms, 20 (at most 1,048,576).
	Window     time.Duration
	MinSamples int

	// Classify says what a finished call tells; ctx is the context the call
	// was admitted with. nil: [DefaultClassify], which is the place to read
	// about what errors mean. It may be called by many goroutines at a time,
	// never under a lock. If it panics, the call is ignored and the panic
	// passes on.
	Classify func(ctx context.Context, err error) Sample
}

// ThrottleConfig says how much a [Throttle] refuses. The zero value is ready
// for use: every zero field stands for the default its comment gives.
// [Throttle.Config] shows the values in effect.
type ThrottleConfig struct {
	// Name is the name in the texts of errors. Default "".
	Name string

	// K is how many calls may be made for each that the dependency accepts. A
	// higher one sends more calls that will fail, and learns sooner that they
	// do not fail any longer. At least 1; default 2.
	K float64

	// Window is the span over which calls are counted, in Buckets slices: the
	// present one and the Buckets-1 before it. A shorter one recovers sooner.
	// Defaults: 2 min, 10 (at most 1,048,576); negative is an error.
	Window  time.Duration
	Buckets int

	// MinPerSecond is a rate of calls below which nothing is refused: a call
	// is admitted if none was in the last 1/MinPerSecond seconds. So a quiet
	// client does not stop at its first error, and a throttle whose every call
	// fails keeps probing. Default 1. Negative: off, the bare algorithm, which
	// after an outage probes about once a Window.
	MinPerSecond float64

	// Classify says what a finished call tells; ctx is the context the call
	// was admitted with. nil: no error is a Success; a refusal by a policy
	// inside is Ignored, and so is an error while ctx is cancelled, the caller
	// left; any other error is Dropped. Map
	// errors that are answers, such as "not found", to Success. It may be
	// called by many goroutines at a time, never under a lock. If it panics,
	// the call is dropped (ignored, if ctx is cancelled) and the panic passes on.
	Classify func(ctx context.Context, err error) Sample

	// Rand draws a number in [0, 1) to decide about a call. nil: math/rand/v2.
	// It may be called by many goroutines at a time, never under a lock.
	Rand func() float64
}

const most = 1 << 20

// Validate returns nil, or one error that joins one for every field that is
// invalid or contradicts another. Each has a method
// Invalid() (field string, value any, rule string), for who tells it in other words.
func (c Config) Validate() error {
	d, zero := c.withDefaults(), Config{}.withDefaults()
	r := rules{kind: "Config"}
	r.count("Initial", c.Initial, zero.Initial)
	r.count("Min", c.Min, zero.Min)
	r.count("Max", c.Max, zero.Max)
	r.check(c.Min < 0 || c.Max < 0 || d.Min <= d.Max, "Min", d.Min, fmt.Sprintf("must be at most Max (%d)", d.Max))
	r.check(c.Initial <= 0 || d.Min <= c.Initial && c.Initial <= d.Max || d.Min > d.Max, "Initial", c.Initial,
		fmt.Sprintf("must be from Min (%d) to Max (%d)", d.Min, d.Max))
	r.atLeastOne("Tolerance", c.Tolerance, zero.Tolerance)
	r.check(c.Window >= 0, "Window", c.Window, fmt.Sprintf("must be positive (0: the default of %v)", zero.Window))
	r.count("MinSamples", c.MinSamples, zero.MinSamples)
	return errors.Join(r.broken...)
}

// Validate returns nil, or one error that joins one for every field that is
// invalid or contradicts another. Each has a method
// Invalid() (field string, value any, rule string), for who tells it in other words.
func (c ThrottleConfig) Validate() error {
	d, zero := c.withDefaults(), ThrottleConfig{}.withDefaults()
	r := rules{kind: "ThrottleConfig"}
	r.atLeastOne("K", c.K, zero.K)
	r.check(c.Window >= 0, "Window", c.Window, fmt.Sprintf("must be positive (0: the default of %v)", zero.Window))
	r.count("Buckets", c.Buckets, zero.Buckets)
	r.check(c.Window < 0 || d.Window >= time.Duration(d.Buckets), "Window", d.Window,
		fmt.Sprintf("must be at least a nanosecond for each of Buckets (%d)", d.Buckets))
	r.check(!math.IsNaN(c.MinPerSecond) && !math.IsInf(c.MinPerSecond, 0), "MinPerSecond", c.MinPerSecond,
		"must be a finite number (0: the default of 1; negative: off)")
	return errors.Join(r.broken...)
}

// rules collects the rules that a config breaks.
type rules struct {
	kind   string
	broken []error
}

func (r *rules) check(ok bool, field string, value any, rule string) {
	if !ok {
		r.broken = append(r.broken, invalid.Field("limit: "+r.kind, field, value, rule))
	}
}

func (r *rules) count(field string, value, standard int) {
	r.check(value >= 0 && value <= most, field, value, fmt.Sprintf("must be from 1 to %d (0: the default of %d)", most, standard))
}

func (r *rules) atLeastOne(field string, value, standard float64) {
	r.check(value == 0 || value >= 1 && !math.IsInf(value, 1), field, value,
		fmt.Sprintf("must be a finite number of at least 1 (0: the default of %v)", standard))
}

func (c Config) withDefaults() Config {
	c.Min = cmp.Or(c.Min, 1)
	c.Max = cmp.Or(c.Max, max(1000, c.Min, c.Initial))
	c.Initial = cmp.Or(c.Initial, min(max(20, c.Min), c.Max))
	c.Tolerance = cmp.Or(c.Tolerance, 1.1)
	c.Window = cmp.Or(c.Window, 100*time.Millisecond)
	c.MinSamples = cmp.Or(c.MinSamples, 20)
	return c
}

func (c ThrottleConfig) withDefaults() ThrottleConfig {
	c.K = cmp.Or(c.K, 2)
	c.Window = cmp.Or(c.Window, 2*time.Minute)
	c.Buckets = cmp.Or(c.Buckets, 10)
	c.MinPerSecond = cmp.Or(c.MinPerSecond, 1)
	if c.MinPerSecond < 0 {
		c.MinPerSecond = -1
	}
	return c
}

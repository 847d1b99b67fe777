package hedge

import (
	"errors"
	"fmt"
	"time"

	"github.com/fusebox-go/fusebox/internal/invalid"
)

// Config says when extra attempts are made. The zero value makes one, after
// the 95th percentile of the latencies seen: about one call in twenty is then
// made twice. Every zero field stands for the default its comment gives;
// negative values are errors.
type Config struct {
	// Delay is how long an attempt is waited for before the next is made. With
	// a Quantile, it is what holds until MinSamples latencies are known.
	// Default 100 ms.
	Delay time.Duration

	// Quantile, a fraction below 1, makes the delay that quantile of the
	// latencies seen. Default 0.95 if Delay is 0 too; otherwise 0, and the
	// delay is fixed.
	//
	// The latencies are those of attempts that succeeded and, as lower bounds,
	// the times after which attempts were cancelled that had been waited for
	// as long as the delay. An attempt that failed says nothing: its latency is
	// that of an error.
	Quantile float64

	// Attempts is how many attempts a call may make, all of them out at a time
	// if none has ended. Default 2; at most 100; 1 never hedges.
	Attempts int

	// Samples is the number of latencies the quantile is taken of, the last
	// ones. Each costs 16 bytes, and now and then they are sorted under a
	// lock. Default 200; at most 10,000.
	Samples int

	// MinSamples is how many must be known before the quantile is used.
	// Default 20; Samples if that is less.
	MinSamples int

	// Budget, if not nil, is asked before every extra attempt. Where it gives
	// none, the call goes on with those it has, and does not ask again.
	Budget Budget

	// CancelWinner ends the context of the attempt that answered when Call
	// returns. Set it if the result does not need its context any more.
	// Default false: the context ends with the caller's, so that the body of
	// an HTTP response can be read. Until then it hangs on the caller's, which
	// grows by a few hundred bytes a call: set it where that one is long-lived.
	CancelWinner bool
}

const (
	maxAttempts = 100
	maxSamples  = 10_000
)

// Validate returns nil or one error that joins one for every invalid field. Each has a
// method Invalid() (field string, value any, rule string), for who tells it in other words.
func (c Config) Validate() error {
	var errs []error
	reject := func(field string, value any, rule string) {
		errs = append(errs, invalid.Field("hedge: Config", field, value, rule))
	}
	d := c.withDefaults()
	if c.Delay < 0 {
		reject("Delay", c.Delay, "must be positive (0: the default of 100ms)")
	}
	if !(c.Quantile >= 0 && c.Quantile < 1) { // also if it is not a number
		reject("Quantile", c.Quantile, "must be a fraction below 1 (0: 0.95, or a fixed delay if Delay is set)")
	}
	if c.Attempts < 0 || c.Attempts > maxAttempts {
		reject("Attempts", c.Attempts, "must be from 1 to 100 (0: the default of 2)")
	}
	if c.Samples < 0 || c.Samples > maxSamples {
		reject("Samples", c.Samples, "must be from 1 to 10000 (0: the default of 200)")
	}
	if c.MinSamples < 0 {
		reject("MinSamples", c.MinSamples, "must be at least 1 (0: the default of 20)")
	} else if c.Samples >= 0 && c.MinSamples > d.Samples {
		reject("MinSamples", c.MinSamples, fmt.Sprintf("must be at most Samples (%d), or the quantile is never used", d.Samples))
	}
	return errors.Join(errs...)
}

// withDefaults returns c with its defaults filled in. Every field of the
// result means the same again when handed in.
func (c Config) withDefaults() Config {
	if c.Delay == 0 {
		c.Delay = 100 * time.Millisecond
		if c.Quantile == 0 {
			c.Quantile = 0.95
		}
	}
	if c.Attempts == 0 {
		c.Attempts = 2
	}
	if c.Samples == 0 {
		c.Samples = 200
	}
	if c.MinSamples == 0 {
		c.MinSamples = min(20, c.Samples)
	}
	return c
}

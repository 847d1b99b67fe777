package retry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fusebox-go/fusebox/internal/invalid"
)

// Unlimited is a number of attempts that is never reached: the budget, the
// context, or an error that is not to be retried ends them.
const Unlimited = math.MaxInt

// Config says how often a call is attempted and how long it waits in between.
// The zero value is usable: every zero field stands for the default its
// comment gives. A Config is copied where it is used. The functions in it may
// be called by many goroutines at a time.
type Config struct {
	// Attempts is how many times a call is made at most, the first included.
	// Default 3; 1 is no retry; see [Unlimited].
	Attempts int

	// The wait before retry n is BaseDelay doubled n-1 times, at most MaxDelay;
	// see [Exponential]. Defaults: 100 ms, 10 s (BaseDelay if that is more).
	BaseDelay time.Duration
	MaxDelay  time.Duration

	// Backoff, if not nil, replaces BaseDelay: the wait before retry n, which
	// is 1 for the first. What it returns is held between 0 and MaxDelay.
	Backoff func(n int) time.Duration

	// Jitter is the fraction of a wait that is left to chance: the wait is
	// multiplied by a random number between 1-Jitter and 1, so that callers
	// that failed together do not come back together. Default 1 ("full
	// jitter"); negative: none. A wait asked for by the dependency has none.
	Jitter float64

	// MaxRetryAfter is the longest wait that a dependency may ask for; see
	// [After]. Default 30 s (MaxDelay if that is more). If it asks for more,
	// the call is given up at once with an error that matches [ErrRetryAfter]
	// or, with CapRetryAfter, waits as long as MaxRetryAfter.
	MaxRetryAfter time.Duration
	CapRetryAfter bool

	// WaitRejected waits, once a call, when a policy inside refuses an attempt
	// and says for how long (an open breaker does), and attempts once more. It
	// never waits without a deadline, or past it. Without WaitRejected, and
	// else, a refusal ends the call at once.
	WaitRejected bool

	// Retryable reports whether a failed attempt may be followed by another.
	// nil: any may, also one that a breaker is told to ignore. It is not asked
	// about refusals, which WaitRejected decides on, nor about errors marked
	// with [Permanent].
	Retryable func(ctx context.Context, err error) bool

	// Budget bounds the retries of all calls together; give one to several
	// policies to bound them as one. nil: a budget of the policy's own with
	// the defaults of [BudgetConfig]. NoBudget: none.
	Budget   *Budget
	NoBudget bool

	// OnRetry is told of each retry before the wait, on the goroutine of the
	// call. A panic in it passes on to the caller.
	OnRetry func(ctx context.Context, e Event)

	// Rand draws the jitter: a number in [0, 1). nil: math/rand/v2.
	Rand func() float64
}

// Event describes a retry about to be made.
type Event struct {
	Attempt int           // the number of the attempt that failed, from 1
	Err     error         // how
	Delay   time.Duration // the wait until the next
}

// Validate returns nil or one error that joins an error for every field that is
// invalid or contradicts another. Each has a method
// Invalid() (field string, value any, rule string), for who tells it in other words.
func (c Config) Validate() error {
	var errs []error
	reject := func(field string, value any, rule string) {
		errs = append(errs, invalid.Field("retry: Config", field, value, rule))
	}
	d := c.withDefaults()
	zero := Config{Backoff: c.Backoff}.withDefaults()
	notNegative := func(field string, value, zero time.Duration) {
		if value < 0 {
			reject(field, value, fmt.Sprintf("must not be negative; 0 stands for %v", zero))
		}
	}
	if c.Attempts < 0 {
		reject("Attempts", c.Attempts, "must be at least 1; 0 stands for 3, and Unlimited is a constant")
	}
	notNegative("BaseDelay", c.BaseDelay, zero.BaseDelay)
	notNegative("MaxDelay", c.MaxDelay, zero.MaxDelay)
	notNegative("MaxRetryAfter", c.MaxRetryAfter, zero.MaxRetryAfter)
	if c.MaxDelay > 0 && d.BaseDelay > c.MaxDelay {
		reject("MaxDelay", c.MaxDelay, fmt.Sprintf("must be at least BaseDelay (%v)", d.BaseDelay))
	}
	if c.Backoff != nil && c.BaseDelay != 0 {
		reject("BaseDelay", c.BaseDelay, "must be 0 where Backoff is set, which replaces it")
	}
	if math.IsNaN(c.Jitter) || math.IsInf(c.Jitter, 0) || c.Jitter > 1 {
		reject("Jitter", c.Jitter, "must be a fraction up to 1; negative is none")
	}
	if c.NoBudget && c.Budget != nil {
		reject("NoBudget", c.NoBudget, "must be false where Budget is set")
	}
	return errors.Join(errs...)
}

// withDefaults returns c with its defaults filled in, but for the functions
// and the budget.
func (c Config) withDefaults() Config {
	if c.Attempts == 0 {
		c.Attempts = 3
	}
	if c.BaseDelay == 0 && c.Backoff == nil {
		c.BaseDelay = 100 * time.Millisecond
		if c.MaxDelay > 0 {
			c.BaseDelay = min(c.BaseDelay, c.MaxDelay)
		}
	}
	if c.MaxDelay == 0 {
		c.MaxDelay = max(10*time.Second, c.BaseDelay)
	}
	if c.Jitter == 0 {
		c.Jitter = 1
	}
	if c.MaxRetryAfter == 0 {
		c.MaxRetryAfter = max(30*time.Second, c.MaxDelay)
	}
	return c
}

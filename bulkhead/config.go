package bulkhead

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fusebox-go/fusebox/internal/invalid"
)

// Config says how many calls may be in flight, and what becomes of the others.
// The zero value admits 25 and refuses the others at once.
type Config struct {
	// Name stands in errors, to tell one bulkhead from another. May be empty.
	Name string

	// Limit is how many calls may be in flight at a time. Default 25; at most
	// 2,147,483,647. A start: calls a second in the busiest second, times the
	// seconds a call takes when all is well, and half as many again.
	// [Policy.SetLimit] changes it later.
	Limit int

	// MaxWait is how long a call may wait for a place. Default 0: not at all,
	// it is refused at once. It ought to be short: who waits is answered later
	// and holds its memory meanwhile.
	MaxWait time.Duration

	// MaxWaiting is how many calls may wait at a time; one more is refused at
	// once. Default: as many as the limit in force. Only with MaxWait.
	MaxWaiting int
}

const (
	defaultLimit = 25
	maxLimit     = math.MaxInt32
)

// Validate returns nil or one error that joins an error for every field that is
// invalid or contradicts another. Each has a method
// Invalid() (field string, value any, rule string), for who tells it in other words.
func (c Config) Validate() error {
	var errs []error
	reject := func(field string, value any, rule string) {
		errs = append(errs, invalid.Field("bulkhead: Config", field, value, "must "+rule))
	}
	if c.Limit < 0 || c.Limit > maxLimit {
		reject("Limit", c.Limit, fmt.Sprintf("be from 1 to %d (0: the default of %d)", maxLimit, defaultLimit))
	}
	if c.MaxWait < 0 {
		reject("MaxWait", c.MaxWait, "not be negative (0: refuse at once)")
	}
	switch {
	case c.MaxWaiting < 0:
		reject("MaxWaiting", c.MaxWaiting, "not be negative (0: as many as Limit)")
	case c.MaxWaiting > 0 && c.MaxWait == 0:
		reject("MaxWaiting", c.MaxWaiting, "be 0 without MaxWait: no call waits")
	}
	return errors.Join(errs...)
}

// withDefaults returns c with its defaults filled in.
func (c Config) withDefaults() Config {
	if c.Limit == 0 {
		c.Limit = defaultLimit
	}
	c.MaxWaiting = c.maxWaiting(c.Limit)
	return c
}

// maxWaiting returns how many calls may wait while limit is in force.
func (c Config) maxWaiting(limit int) int {
	if c.MaxWait > 0 && c.MaxWaiting == 0 {
		return limit
	}
	return c.MaxWaiting
}

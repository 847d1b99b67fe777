package fuseboxtest

import (
	"sync"
	"time"
)

// Clock is a clock that moves only when it is told to. Give its Now to
// Config.Now, and to Registry.Now. The zero Clock stands at midnight of
// 1 January 2000, UTC, as the clock of a testing/synctest bubble does at its
// start. It is safe for concurrent use and may not be copied.
type Clock struct {
	mu sync.Mutex
	t  time.Time // zero: epoch
}

// epoch is not the zero Time, which stands for "unknown" in records.
var epoch = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Now returns the time the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() time.Time {
	if c.t.IsZero() {
		return epoch
	}
	return c.t
}

// Advance moves the clock by d; a negative d moves it back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.now().Add(d)
}

// Set makes the clock show t, which may be earlier than what it shows: a
// breaker has to bear that. The zero Time stands for the start of the zero
// Clock.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = t
}

package retry

import (
	"math/rand/v2"
	"time"
)

// Exponential returns the wait before retry n, 1 being the first: base doubled
// n-1 times, at most limit. It is a pure function of n that never falls and
// never overflows. Negative durations are 0, and n below 1 is 1.
func Exponential(base, limit time.Duration) func(n int) time.Duration {
	base, limit = max(base, 0), max(limit, 0)
	return func(n int) time.Duration {
		doublings := max(n, 1) - 1
		if doublings >= 63 || base > limit>>doublings { // shifting limit down cannot overflow
			if base == 0 {
				return 0
			}
			return limit
		}
		return base << doublings
	}
}

// jittered takes a share of d away, so that the result is at most d:
// r in [0, 1) is by chance, jitter in [0, 1] the largest share. With jitter 1
// this is the full jitter of Marc Brooker, "Exponential Backoff And Jitter".
func jittered(d time.Duration, jitter, r float64) time.Duration {
	return max(d-time.Duration(float64(d)*jitter*r), 0)
}

// draw returns a number in [0, 1): random's, if there is one and it keeps to that.
func draw(random func() float64) float64 {
	if random != nil {
		if d := random(); d >= 0 && d < 1 {
			return d
		}
	}
	return rand.Float64()
}

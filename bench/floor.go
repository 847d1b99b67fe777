package bench

import (
	"sync/atomic"
	"time"
)

// floor is no breaker: it reads the clock and adds one to a counter nobody
// else touches.
type floor struct {
	base  time.Time
	reads int
}

func newFloor(r rules) breaker {
	f := floor{base: time.Now(), reads: 1}
	if r.slow > 0 {
		f.reads = 2
	}
	return f
}

// cell has a cache line, and its neighbour that is fetched with it, to itself.
type cell struct {
	_   [128]byte
	n   atomic.Uint64
	sum time.Duration // keeps the compiler from dropping the reads
	_   [128]byte
}

func (f floor) calls(load) func(int) int {
	c := new(cell)
	if f.reads == 1 {
		return func(n int) int {
			var sum time.Duration
			for range n {
				sum += time.Since(f.base)
				c.n.Add(1)
			}
			c.sum += sum
			return 0
		}
	}
	return func(n int) int {
		var sum time.Duration
		for range n {
			start := time.Since(f.base)
			sum += time.Since(f.base) - start
			c.n.Add(1)
		}
		c.sum += sum
		return 0
	}
}

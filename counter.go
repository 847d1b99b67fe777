package fusebox

import (
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"
)

// counter counts without a lock. It is one cell until additions get into one
// another's way, and then stripes, a cache line each, so that an idle breaker
// stays small and a busy one does not make its cores share a line. It only
// ever grows, and can be sealed: what is added afterwards does not count and
// is told so.
type counter struct {
	cell      atomic.Uint64
	contended atomic.Uint32 // crowded additions since calm
	stripes   atomic.Pointer[[]stripe]
}

type stripe struct {
	atomic.Uint64
	_ [56]byte
}

const (
	sealed   = 1 << 63
	patience = 8 // crowded additions before the cell is striped
)

// add adds one to a counter that is never sealed. seen is what cell held a
// little earlier: if it has grown since, others add at the same time, and if
// that is the rule the counter grows.
func (c *counter) add(seen uint64) {
	if c.stripes.Load() != nil {
		c.addStriped()
	} else if c.cell.Add(1) != seen+1 && c.crowded() {
		c.grow()
	}
}

// addStriped adds one to a striped counter and reports whether that came
// before the seal.
func (c *counter) addStriped() bool {
	s := *c.stripes.Load()
	return s[here()&uint32(len(s)-1)].Add(1) < sealed
}

// crowded notes that an addition met another, and reports whether that has
// become the rule.
func (c *counter) crowded() bool { return c.contended.Add(1) >= patience }

// grow stripes the cell if it is crowded. It must not run at the same time as
// seal.
func (c *counter) grow() {
	if c.contended.Load() >= patience && c.stripes.Load() == nil {
		s := make([]stripe, stripes(runtime.GOMAXPROCS(0)))
		c.stripes.CompareAndSwap(nil, &s)
	}
}

// stripes returns how many serve n cores: a power of two, and enough of them
// that few goroutines share one.
func stripes(n int) int { return 1 << bits.Len(uint(4*n-1)) }

// calm forgets contention: what happens now and then needs no stripes.
func (c *counter) calm() {
	if c.contended.Load() != 0 {
		c.contended.Store(0)
	}
}

// sum returns the present value: at some instant of the call it was true.
func (c *counter) sum() uint64 {
	n := c.cell.Load() &^ sealed
	if s := c.stripes.Load(); s != nil {
		for i := range *s {
			n += (*s)[i].Load() &^ sealed
		}
	}
	return n
}

// seal ends the counting and returns the final value.
func (c *counter) seal() uint64 {
	n := c.cell.Or(sealed) &^ sealed
	if s := c.stripes.Load(); s != nil {
		for i := range *s {
			n += (*s)[i].Or(sealed) &^ sealed
		}
	}
	return n
}

// here returns a number that differs between goroutines and rarely changes for
// one: a hash of where its stack lies.
func here() uint32 {
	var x byte
	h := uint32(uintptr(unsafe.Pointer(&x))>>11) * 0x9E3779B1
	return h >> 16
}

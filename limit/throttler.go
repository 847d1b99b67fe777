package limit

import (
	"math"
	"time"
)

// throttler is the pure part of the throttle: it has no lock and reads no clock.
type throttler struct {
	k        float64
	interval time.Duration // the longest without a call admitted
	last     time.Duration // when one was
	window   window
}

func newThrottler(c ThrottleConfig) throttler {
	t := throttler{k: c.K, interval: math.MaxInt64, window: newWindow(c.Window, c.Buckets)}
	if c.MinPerSecond > 0 {
		t.interval = time.Duration(min(float64(time.Second)/c.MinPerSecond, 1<<62))
	}
	return t
}

// ask returns the probability with which to refuse a call; 0 for one that the
// floor asks for. It takes note of a call that is sure to be admitted: a second
// one at the same time is not due.
func (t *throttler) ask(now time.Duration) float64 {
	t.window.advance(now)
	p := t.probability()
	if p == 0 || now-t.last >= t.interval {
		t.last = max(t.last, now)
		return 0
	}
	return p
}

func (t *throttler) probability() float64 {
	requests, accepts := float64(t.window.total.requests), float64(t.window.total.accepts)
	return max((requests-t.k*accepts)/(requests+1), 0)
}

func (t *throttler) count(now time.Duration, requests, accepts uint64) {
	t.window.advance(now)
	t.window.add(counts{requests, accepts})
}

// window counts over a span of time: in the present bucket and all others.
type window struct {
	width   time.Duration
	buckets []counts // a ring: the slice of time i is at i modulo length
	current int64    // the present slice of time
	total   counts   // of all buckets
}

type counts struct{ requests, accepts uint64 }

func newWindow(span time.Duration, buckets int) window {
	return window{width: span / time.Duration(buckets), buckets: make([]counts, buckets)}
}

// advance forgets what is too old. A clock that goes back changes nothing.
func (w *window) advance(now time.Duration) {
	n := int64(len(w.buckets))
	slice := int64(now / w.width)
	for i := max(w.current+1, slice-n+1); i <= slice; i++ {
		b := &w.buckets[i%n]
		w.total.requests -= b.requests
		w.total.accepts -= b.accepts
		*b = counts{}
	}
	w.current = max(w.current, slice)
}

// add counts in the present bucket.
func (w *window) add(c counts) {
	b := &w.buckets[w.current%int64(len(w.buckets))]
	b.requests += c.requests
	b.accepts += c.accepts
	w.total.requests += c.requests
	w.total.accepts += c.accepts
}

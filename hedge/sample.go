package hedge

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sample is the last latencies, and a quantile of them. The quantile is taken
// once MinSamples are known, and anew whenever a twentieth part of them has
// been replaced or added, so a call pays a small share of the sorting. Nothing
// is allocated after newSample.
type sample struct {
	quantile float64
	minimum  int
	estimate atomic.Int64 // the delay

	mu     sync.Mutex
	ring   []time.Duration // as long as there are latencies; then the oldest is at next
	next   int
	fresh  int // latencies that estimate does not know of
	sorted []time.Duration
}

func newSample(c Config) *sample {
	s := &sample{
		quantile: c.Quantile,
		minimum:  c.MinSamples,
		ring:     make([]time.Duration, 0, c.Samples),
		sorted:   make([]time.Duration, 0, c.Samples),
	}
	s.estimate.Store(int64(c.Delay))
	return s
}

func (s *sample) delay() time.Duration { return time.Duration(s.estimate.Load()) }

func (s *sample) add(latency time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) < cap(s.ring) {
		s.ring = append(s.ring, latency)
	} else {
		s.ring[s.next] = latency
		s.next = (s.next + 1) % len(s.ring)
	}
	s.fresh++
	n := len(s.ring)
	if n >= s.minimum && s.fresh >= max(n/20, 1) {
		s.fresh = 0
		s.sorted = append(s.sorted[:0], s.ring...)
		slices.Sort(s.sorted)
		s.estimate.Store(int64(s.sorted[rank(s.quantile, n)]))
	}
}

// rank returns the index of the quantile in n sorted values: the least value
// that a share of at least q of them do not exceed (nearest rank).
func rank(q float64, n int) int {
	return max(int(math.Ceil(q*float64(n)))-1, 0)
}

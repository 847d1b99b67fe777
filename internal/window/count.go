package window

import (
	"math"
	"time"
)

// Count is a window of the last n outcomes, however old. It has the methods of
// [Time], so that an owner can hold either; it keeps plain successes itself
// and never looks at the time or at the owner's counter.
//
// Invariants, after every method:
//  1. ring[:size] are the outcomes in the window; once size is n, ring[next]
//     is the oldest of them.
//  2. failures and slow are the sums over ring[:size].
type Count struct {
	ring     []outcome
	next     int
	size     int
	failures int
	slow     int
}

type outcome uint8

const (
	failed outcome = 1 << iota
	slowed
)

// NewCount returns an empty window of the last n outcomes, n at least 1.
// Memory: a byte an outcome.
func NewCount(n int) *Count {
	return &Count{ring: make([]outcome, n)}
}

// Advance does nothing: this window does not slide with time.
func (w *Count) Advance(time.Duration, uint64) {}

// Add counts one outcome, a plain success too, and drops the oldest if the
// window is full.
func (w *Count) Add(failure, slow bool) {
	if w.size == len(w.ring) {
		w.sum(w.ring[w.next], -1)
	} else {
		w.size++
	}
	var o outcome
	if failure {
		o |= failed
	}
	if slow {
		o |= slowed
	}
	w.sum(o, 1)
	w.ring[w.next] = o
	if w.next++; w.next == len(w.ring) {
		w.next = 0
	}
}

func (w *Count) sum(o outcome, n int) {
	if o&failed != 0 {
		w.failures += n
	}
	if o&slowed != 0 {
		w.slow += n
	}
}

// Tally returns the content.
func (w *Count) Tally(time.Duration, uint64) Tally {
	return Tally{Calls: w.size, Failures: w.failures, Slow: w.slow}
}

// maxBuckets is how many buckets a full window of calls is shown in, at most.
const maxBuckets = 10

// Buckets returns the content in order, oldest first, in slices of the same
// number of outcomes, but the first, which may hold fewer. There are as many as
// there are outcomes for: none for an empty window.
func (w *Count) Buckets(time.Duration, uint64) []Tally {
	each := (len(w.ring) + maxBuckets - 1) / maxBuckets
	tallies := make([]Tally, (w.size+each-1)/each)
	at := w.next
	for back := range w.size { // from the newest
		if at--; at < 0 {
			at = len(w.ring) - 1
		}
		t := &tallies[len(tallies)-1-back/each]
		t.Calls++
		if w.ring[at]&failed != 0 {
			t.Failures++
		}
		if w.ring[at]&slowed != 0 {
			t.Slow++
		}
	}
	return tallies
}

// Until returns the beginning of time: every outcome has to be added here.
func (w *Count) Until() time.Duration { return math.MinInt64 }

// Clear empties the window.
func (w *Count) Clear(time.Duration, uint64) {
	w.next, w.size, w.failures, w.slow = 0, 0, 0, 0
}

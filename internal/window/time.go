package window

import (
	"math"
	"time"
)

// Time is a sliding window over time: the present bucket and those before it,
// as many as [NewTime] was given. Buckets are aligned to multiples of their
// width, so a window of 10 buckets of 1 s covers between 9 and 10 s.
//
// Invariants, after every method:
//  1. buckets[i] is the bucket whose number is congruent to i, the present one
//     or one of the len(buckets)-1 before it.
//  2. failures and slow are the sums over all buckets.
//  3. first never decreases from an older bucket to a newer one.
type Time struct {
	width    time.Duration
	now      int64 // number of the present bucket
	failures int
	slow     int
	buckets  []bucket
}

type bucket struct {
	first    uint64 // the owner's successes when the bucket began
	failures uint32 // these two stay at the largest uint32, once there
	slow     uint32
}

// NewTime returns an empty window of n buckets that together span d.
// n is at least 1, d at least n nanoseconds. Memory: 16 bytes a bucket.
func NewTime(d time.Duration, n int) *Time {
	return &Time{width: d / time.Duration(n), buckets: make([]bucket, n)}
}

// Advance moves the window to now, dropping buckets that have left it.
// successes is the owner's counter. It costs a step for every bucket that has
// ended since, n at most.
func (w *Time) Advance(now time.Duration, successes uint64) {
	number := int64(now / w.width)
	n := int64(len(w.buckets))
	// After a gap of n buckets or more all of them begin anew, none twice.
	for w.now = max(w.now, number-n); w.now < number; {
		w.now++
		b := &w.buckets[w.now%n]
		w.failures -= int(b.failures)
		w.slow -= int(b.slow)
		*b = bucket{first: successes}
	}
}

// Add counts one outcome in the present bucket. A plain success changes
// nothing here: it is in the owner's counter.
func (w *Time) Add(failure, slow bool) {
	b := &w.buckets[w.now%int64(len(w.buckets))]
	if failure && b.failures < math.MaxUint32 {
		b.failures++
		w.failures++
	}
	if slow && b.slow < math.MaxUint32 {
		b.slow++
		w.slow++
	}
}

// Tally returns the content as it will be once the window has been advanced to
// now; it changes nothing.
func (w *Time) Tally(now time.Duration, successes uint64) Tally {
	n := int64(len(w.buckets))
	number := int64(now / w.width)
	failures, slow := w.failures, w.slow
	// oldest is the number of the oldest bucket still in the window.
	oldest := w.now - n + 1
	for end := number - n + 1; oldest < end; oldest++ {
		if oldest > w.now {
			return Tally{}
		}
		b := w.buckets[(oldest+n)%n]
		failures -= int(b.failures)
		slow -= int(b.slow)
	}
	first := successes
	if oldest <= w.now {
		first = w.buckets[(oldest+n)%n].first
	}
	return Tally{Calls: count(successes-first) + failures, Failures: failures, Slow: slow}
}

// Until returns the instant at which the present bucket ends. Up to then a
// success need only be counted by the owner.
func (w *Time) Until() time.Duration {
	if w.now >= int64(math.MaxInt64/w.width) {
		return math.MaxInt64
	}
	return time.Duration(w.now+1) * w.width
}

// Clear empties the window as of now.
func (w *Time) Clear(now time.Duration, successes uint64) {
	w.now = int64(now / w.width)
	w.failures, w.slow = 0, 0
	for i := range w.buckets {
		w.buckets[i] = bucket{first: successes}
	}
}

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
//  1. buckets[head] is the present bucket, number now; those before it stand
//     before it in the ring, the oldest after it.
//  2. failures and slow are the sums over all buckets.
//  3. first never decreases from an older bucket to a newer one.
//  4. end is when the present bucket ends.
type Time struct {
	width    time.Duration
	end      time.Duration
	now      int64
	head     int
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
	w := &Time{width: d / time.Duration(n), buckets: make([]bucket, n)}
	w.moveTo(0)
	return w
}

// Advance moves the window to now, dropping buckets that have left it.
// successes is the owner's counter. It costs a step for every bucket that has
// ended since, one for each of the window at most.
func (w *Time) Advance(now time.Duration, successes uint64) {
	if now < w.end {
		return
	}
	number := int64(now / w.width)
	for range w.ended(number) {
		w.head = w.after(w.head)
		b := &w.buckets[w.head]
		w.failures -= int(b.failures)
		w.slow -= int(b.slow)
		*b = bucket{first: successes}
	}
	w.moveTo(number)
}

// Add counts one outcome in the present bucket. A plain success changes
// nothing here: it is in the owner's counter.
func (w *Time) Add(failure, slow bool) {
	b := &w.buckets[w.head]
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
	failures, slow := w.failures, w.slow
	oldest := w.after(w.head)
	if now >= w.end {
		ended := w.ended(int64(now / w.width))
		if ended == len(w.buckets) {
			return Tally{}
		}
		for range ended {
			failures -= int(w.buckets[oldest].failures)
			slow -= int(w.buckets[oldest].slow)
			oldest = w.after(oldest)
		}
	}
	calls := count(successes - w.buckets[oldest].first + uint64(failures))
	return Tally{Calls: calls, Failures: failures, Slow: slow}
}

// maxSlices is in how many slices the buckets are shown, at most: thousands say no
// more, and are kept of each trip.
const maxSlices = 100

// Buckets returns the content of each bucket, oldest first, as it will be once
// the window has been advanced to now; it changes nothing. The last is the present
// one. Of more than maxSlices buckets, neighbours are put together, as many in each
// slice but the first, which may have fewer.
func (w *Time) Buckets(now time.Duration, successes uint64) []Tally {
	ended := 0
	if now >= w.end {
		ended = w.ended(int64(now / w.width))
	}
	each := (len(w.buckets) + maxSlices - 1) / maxSlices
	tallies := make([]Tally, (len(w.buckets)+each-1)/each)
	i := w.head
	for range ended {
		i = w.after(i)
	}
	for age := len(w.buckets) - 1; age >= ended; age-- {
		i = w.after(i)
		b, next := w.buckets[i], successes
		if i != w.head {
			next = w.buckets[w.after(i)].first
		}
		t := &tallies[len(tallies)-1-age/each]
		t.Calls = count(uint64(t.Calls) + next - b.first + uint64(b.failures))
		t.Failures += int(b.failures)
		t.Slow += int(b.slow)
	}
	return tallies
}

// Until returns the instant at which the present bucket ends. Up to then a
// success need only be counted by the owner.
func (w *Time) Until() time.Duration { return w.end }

// Clear empties the window as of now.
func (w *Time) Clear(now time.Duration, successes uint64) {
	w.moveTo(int64(now / w.width))
	w.failures, w.slow = 0, 0
	for i := range w.buckets {
		w.buckets[i] = bucket{first: successes}
	}
}

// ended returns how many buckets leave the window when number is the present
// one. After a long gap that is all of them, once.
func (w *Time) ended(number int64) int {
	return int(min(number-w.now, int64(len(w.buckets))))
}

// after returns the position after i in the ring.
func (w *Time) after(i int) int {
	if i++; i < len(w.buckets) {
		return i
	}
	return 0
}

func (w *Time) moveTo(number int64) {
	w.now = number
	w.end = math.MaxInt64
	if number < int64(math.MaxInt64/w.width) {
		w.end = time.Duration(number+1) * w.width
	}
}

//go:build !386 && !arm && !mips && !mipsle

// A tally as large as a bucket holds does not fit a 32-bit int.

package window

import (
	"math"
	"testing"
	"time"
)

func TestABucketsCountersStopAtTheLargestValue(t *testing.T) {
	w := NewTime(10*time.Second, 10)
	const largest = math.MaxUint32
	b := &w.buckets[w.head]
	b.failures, b.slow = math.MaxUint32-1, math.MaxUint32-1
	w.failures, w.slow = largest-1, largest-1
	for range 3 {
		w.Add(true, true)
		want := Tally{Calls: largest, Failures: largest, Slow: largest}
		if got := w.Tally(0, 0); got != want {
			t.Fatalf("Tally = %+v, want %+v", got, want)
		}
	}
	w.Advance(time.Second, 0)
	w.Add(true, false)
	if got := w.Tally(time.Second, 0).Failures; got != int(largest+1) {
		t.Errorf("with the next bucket Failures = %d, want %d", got, largest+1)
	}
	w.Advance(10*time.Second, 0)
	if got, want := w.Tally(10*time.Second, 0), (Tally{Calls: 1, Failures: 1}); got != want {
		t.Errorf("without the full bucket: %+v, want %+v", got, want)
	}
}

func TestATallyOfManySuccessesAndAFailureStopsAtTheLargestInt(t *testing.T) {
	w := NewTime(time.Hour, 4)
	w.Add(true, false)
	if got := w.Tally(0, math.MaxInt64).Calls; got != math.MaxInt {
		t.Errorf("Calls = %d", got)
	}
}

package window

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// windower is what both windows offer their owner.
type windower interface {
	Advance(now time.Duration, successes uint64)
	Add(failure, slow bool)
	Tally(now time.Duration, successes uint64) Tally
	Buckets(now time.Duration, successes uint64) []Tally
	Until() time.Duration
	Clear(now time.Duration, successes uint64)
}

var (
	_ windower = (*Time)(nil)
	_ windower = (*Count)(nil)
)

// owner uses a window as its owner has to: it hands in the present time and
// its own count of successes.
type owner struct {
	testing.TB
	windower
	now       time.Duration
	successes uint64
}

func (o *owner) add(n int, failure, slow bool) {
	o.Helper()
	o.Advance(o.now, o.successes)
	for range n {
		o.Add(failure, slow)
		if !failure {
			o.successes++
		}
	}
}

func (o *owner) fail(n int)     { o.Helper(); o.add(n, true, false) }
func (o *owner) failSlow(n int) { o.Helper(); o.add(n, true, true) }
func (o *owner) slow(n int)     { o.Helper(); o.add(n, false, true) }

// succeed counts plain successes at the owner, and advances the window first
// only where it asks for that.
func (o *owner) succeed(n int) {
	o.Helper()
	if o.now >= o.Until() {
		o.Advance(o.now, o.successes)
	}
	o.successes += uint64(n)
}

func (o *owner) want(calls, failures, slow int) {
	o.Helper()
	want := Tally{Calls: calls, Failures: failures, Slow: slow}
	if got := o.Tally(o.now, o.successes); got != want {
		o.Errorf("at %v: Tally = %+v, want %+v", o.now, got, want)
	}
}

func newOwner(tb testing.TB, d time.Duration, n int) *owner {
	tb.Helper()
	return &owner{TB: tb, windower: NewTime(d, n)}
}

func TestATimeWindowCountsWhatItIsTold(t *testing.T) {
	o := newOwner(t, 10*time.Second, 10)
	o.want(0, 0, 0)
	o.succeed(5)
	o.want(5, 0, 0)
	o.fail(3)
	o.want(8, 3, 0)
	o.slow(2)
	o.want(10, 3, 2)
	o.failSlow(1)
	o.want(11, 4, 3)
	o.Add(false, false) // a plain success is in the owner's counter only
	o.want(11, 4, 3)
}

func TestATimeWindowSpansItsBuckets(t *testing.T) {
	for _, c := range []struct {
		name string
		at   time.Duration // of the outcomes
		last time.Duration // at which they still count
	}{
		{"at the start of a bucket", 0, 10*time.Second - 1},
		{"within a bucket", 300 * time.Millisecond, 10*time.Second - 1},
		{"at the end of a bucket", time.Second - 1, 10*time.Second - 1},
		{"in a later bucket", time.Second, 11*time.Second - 1},
		{"in one far off", 1000 * time.Second, 1010*time.Second - 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOwner(t, 10*time.Second, 10)
			o.now = c.at
			o.fail(2)
			o.slow(3)
			o.succeed(4)
			o.now = c.last
			o.want(9, 2, 3)
			o.now = c.last + 1
			o.want(0, 0, 0)
			o.Advance(o.now, o.successes)
			o.want(0, 0, 0)
		})
	}
}

func TestATimeWindowDropsABucketAtATime(t *testing.T) {
	o := newOwner(t, 3*time.Second, 3)
	for i := 1; i <= 3; i++ {
		o.fail(i)
		o.succeed(10 * i)
		o.now += time.Second
	}
	o.want(55, 5, 0) // the first has left
	o.now += time.Second
	o.want(33, 3, 0)
	o.fail(1)
	o.want(34, 4, 0)
	o.now += time.Second
	o.want(1, 1, 0)
	o.now += time.Second
	o.want(1, 1, 0)
	o.now += time.Second
	o.want(0, 0, 0)
}

func TestBucketsAreTheWindowInSlices(t *testing.T) {
	o := newOwner(t, 3*time.Second, 3)
	want := func(want ...Tally) {
		t.Helper()
		if got := o.Buckets(o.now, o.successes); !slices.Equal(got, want) {
			t.Errorf("at %v: %v, want %v", o.now, got, want)
		}
	}
	want(Tally{}, Tally{}, Tally{})
	o.fail(1)
	o.succeed(2)
	want(Tally{}, Tally{}, Tally{3, 1, 0})
	o.now = time.Second
	want(Tally{}, Tally{3, 1, 0}, Tally{}) // told in advance
	o.slow(1)
	o.failSlow(1)
	o.now = 3 * time.Second
	want(Tally{2, 1, 2}, Tally{}, Tally{})
	o.succeed(4)
	want(Tally{2, 1, 2}, Tally{}, Tally{4, 0, 0})
	o.now = time.Hour
	want(Tally{}, Tally{}, Tally{})

	many := NewTime(250*time.Second, 250) // one failure in each, and one success more in the last
	for i := range 250 {
		many.Advance(time.Duration(i)*time.Second, 0)
		many.Add(true, i == 1)
	}
	slices250 := many.Buckets(250*time.Second, 1) // told in advance
	if n := len(slices250); n != 84 || slices250[0] != (Tally{1, 1, 1}) || slices250[1] != (Tally{3, 3, 0}) || slices250[83] != (Tally{3, 2, 0}) {
		t.Errorf("250 buckets are %d: %v", n, slices250)
	}

	w := NewCount(25)
	if got := w.Buckets(0, 0); len(got) != 0 {
		t.Errorf("an empty window has the buckets %v", got)
	}
	for i := range 40 {
		w.Add(i >= 36, i == 39)
	}
	buckets := w.Buckets(0, 0)
	if len(buckets) != 9 || buckets[0] != (Tally{Calls: 1}) || buckets[7] != (Tally{3, 1, 0}) || buckets[8] != (Tally{3, 3, 1}) {
		t.Errorf("the buckets of 25 are %v", buckets)
	}
}

func TestATimeWindowOfOneBucketForgetsAllAtItsEnd(t *testing.T) {
	o := newOwner(t, time.Second, 1)
	o.fail(1)
	o.succeed(1)
	o.now = time.Second - 1
	o.want(2, 1, 0)
	o.now = time.Second
	o.want(0, 0, 0)
	o.slow(1)
	o.want(1, 0, 1)
}

func TestATimeWindowOfNanoseconds(t *testing.T) {
	o := newOwner(t, 2, 2)
	o.fail(1)
	o.now = 1
	o.fail(1)
	o.want(2, 2, 0)
	o.now = 2
	o.want(1, 1, 0)
	o.now = 3
	o.want(0, 0, 0)
}

func TestUntilIsTheEndOfThePresentBucket(t *testing.T) {
	w := NewTime(10*time.Second, 10)
	for _, c := range []struct{ now, until time.Duration }{
		{0, time.Second},
		{time.Second - 1, time.Second},
		{time.Second, 2 * time.Second},
		{time.Hour + 1, time.Hour + time.Second},
	} {
		w.Advance(c.now, 0)
		if got := w.Until(); got != c.until {
			t.Errorf("Until after Advance(%v) = %v, want %v", c.now, got, c.until)
		}
	}
	w.Clear(2*time.Hour, 0)
	if got, want := w.Until(), 2*time.Hour+time.Second; got != want {
		t.Errorf("Until after Clear = %v, want %v", got, want)
	}
	if got := NewCount(3).Until(); got != math.MinInt64 {
		t.Errorf("Until of a window of calls = %v, want the beginning of time", got)
	}
}

func TestClearEmptiesATimeWindow(t *testing.T) {
	o := newOwner(t, 10*time.Second, 10)
	for range 25 {
		o.fail(1)
		o.slow(1)
		o.succeed(7)
		o.now += time.Second
	}
	o.Clear(o.now, o.successes)
	o.want(0, 0, 0)
	o.fail(1)
	o.want(1, 1, 0)
	o.now += 9 * time.Second
	o.want(1, 1, 0)
	o.now += time.Second
	o.want(0, 0, 0)
}

func TestClearTakesAnotherCounterFromThenOn(t *testing.T) {
	o := newOwner(t, 10*time.Second, 10)
	o.successes = 1000
	o.succeed(20)
	o.now = 4 * time.Second
	o.successes = 0
	o.Clear(o.now, 0)
	o.want(0, 0, 0)
	o.succeed(2)
	o.want(2, 0, 0)
	o.now = 14 * time.Second
	o.want(0, 0, 0)
}

func TestTheOwnersCounterMayWrapAround(t *testing.T) {
	o := newOwner(t, 10*time.Second, 10)
	o.successes = math.MaxUint64 - 2
	o.Clear(0, o.successes)
	o.succeed(5)
	o.want(5, 0, 0)
	o.now = 10 * time.Second
	o.want(0, 0, 0)
}

func TestTallyStopsAtTheLargestInt(t *testing.T) {
	w := NewTime(10*time.Second, 10)
	if got := w.Tally(0, math.MaxInt); got.Calls != math.MaxInt {
		t.Errorf("Calls = %d, want %d", got.Calls, math.MaxInt)
	}
	if got := w.Tally(0, math.MaxUint64); got.Calls != math.MaxInt {
		t.Errorf("Calls = %d, want %d", got.Calls, math.MaxInt)
	}
}

func TestTallyChangesNothing(t *testing.T) {
	o := newOwner(t, 10*time.Second, 10)
	o.fail(2)
	for _, later := range []time.Duration{time.Second, 5 * time.Second, time.Hour, math.MaxInt64} {
		o.Tally(later, o.successes)
		o.want(2, 2, 0)
		if got := o.Until(); got != time.Second {
			t.Fatalf("Until after a Tally at %v = %v, want 1s", later, got)
		}
	}
}

func TestAdvanceTwiceIsAdvanceOnce(t *testing.T) {
	o := newOwner(t, 10*time.Second, 10)
	o.fail(1)
	o.succeed(1)
	o.now = 9 * time.Second
	o.Advance(o.now, o.successes)
	o.Advance(o.now, o.successes)
	o.Advance(o.now-time.Second/2, o.successes) // the owner keeps time from going back; a little is borne
	o.want(2, 1, 0)
	o.now = 10*time.Second - 1
	o.want(2, 1, 0)
	o.now = 10 * time.Second
	o.want(0, 0, 0)
}

func TestTimeNearItsEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		span time.Duration
		n    int
	}{
		{"buckets of a second", 10 * time.Second, 10},
		{"buckets of a nanosecond", 4, 4},
		{"a bucket of all time", math.MaxInt64, 1},
		{"two buckets of all time", math.MaxInt64, 2},
		{"a width that divides all time", 7 * 7, 7}, // MaxInt64 is a multiple of 7
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOwner(t, c.span, c.n)
			width := c.span / time.Duration(c.n)
			o.now = math.MaxInt64 - width
			o.fail(1)
			o.succeed(1)
			o.want(2, 1, 0)
			if until := o.Until(); until <= o.now {
				t.Fatalf("Until = %v at %v, want a later instant", until, o.now)
			}
			o.now = math.MaxInt64
			if c.n > 1 {
				o.want(2, 1, 0)
			}
			o.fail(1)
			before := o.Tally(o.now, o.successes)
			o.succeed(1)
			if got := o.Tally(o.now, o.successes); got.Calls != before.Calls+1 {
				t.Errorf("at the end of time a success makes %d calls of %d", got.Calls, before.Calls)
			}
			if until := o.Until(); until != math.MaxInt64 {
				t.Errorf("Until = %v, want the end of time", until)
			}
			o.Clear(o.now, o.successes)
			o.want(0, 0, 0)
		})
	}
}

func TestAfterALongGapAWindowIsEmptyAndQuickToAdvance(t *testing.T) {
	// A step for every bucket of 1 ns that has ended would never end.
	o := newOwner(t, 1000, 1000)
	o.fail(1)
	o.now = math.MaxInt64 / 2
	o.want(0, 0, 0)
	o.Advance(o.now, o.successes)
	o.fail(1)
	o.want(1, 1, 0)
	o.now += 999
	o.want(1, 1, 0)
	o.now++
	o.want(0, 0, 0)
}

func TestACountWindowHoldsTheLastOutcomes(t *testing.T) {
	type add struct{ failure, slow bool }
	success, failure, slow, both := add{}, add{true, false}, add{false, true}, add{true, true}
	for _, c := range []struct {
		name string
		n    int
		adds []add
		want Tally
	}{
		{"empty", 3, nil, Tally{}},
		{"not yet full", 3, []add{success, failure}, Tally{2, 1, 0}},
		{"just full", 3, []add{failure, slow, both}, Tally{3, 2, 2}},
		{"a failure leaves", 3, []add{failure, slow, both, success}, Tally{3, 1, 2}},
		{"a slow success leaves", 3, []add{failure, slow, both, success, success}, Tally{3, 1, 1}},
		{"a slow failure leaves", 3, []add{failure, slow, both, success, success, success}, Tally{3, 0, 0}},
		{"twice round", 2, []add{failure, failure, both, success, slow}, Tally{2, 0, 1}},
		{"of one", 1, []add{failure, slow}, Tally{1, 0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := NewCount(c.n)
			for i, a := range c.adds {
				w.Advance(time.Duration(i)*time.Hour, uint64(i)*1000)
				w.Add(a.failure, a.slow)
			}
			if got := w.Tally(math.MaxInt64, math.MaxUint64); got != c.want {
				t.Errorf("Tally = %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestClearEmptiesACountWindow(t *testing.T) {
	w := NewCount(3)
	for range 5 {
		w.Add(true, true)
	}
	w.Clear(time.Hour, 7)
	if got := w.Tally(0, 0); got != (Tally{}) {
		t.Fatalf("Tally = %+v after Clear, want none", got)
	}
	for range 3 {
		w.Add(false, true)
	}
	if got, want := w.Tally(0, 0), (Tally{Calls: 3, Slow: 3}); got != want {
		t.Errorf("Tally = %+v, want %+v", got, want)
	}
}

func TestMemoryOfAWindow(t *testing.T) {
	if w := NewTime(10*time.Second, 10); len(w.buckets) != 10 || cap(w.buckets) != 10 {
		t.Errorf("%d buckets of %d, want 10", len(w.buckets), cap(w.buckets))
	}
	if w := NewCount(100); cap(w.ring) != 100 {
		t.Errorf("room for %d outcomes, want 100", cap(w.ring))
	}
	for _, w := range []windower{NewTime(10*time.Second, 10), NewCount(10)} {
		var now time.Duration
		if n := testing.AllocsPerRun(100, func() {
			now += time.Second / 2
			w.Advance(now, 3)
			w.Add(true, true)
			w.Tally(now+time.Second, 3)
			w.Clear(now, 3)
		}); n != 0 {
			t.Errorf("%T: %v allocations, want none", w, n)
		}
	}
}

// TestAWindowHasNoClock lets virtual time pass: only the argument counts.
func TestAWindowHasNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t, time.Second, 2)
		o.fail(1)
		<-time.After(time.Hour)
		o.want(1, 1, 0)
	})
}

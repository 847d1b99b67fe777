package window

import (
	"math"
	"slices"
	"testing"
	"time"
)

// heard is one outcome, in a list that is recounted for every answer.
type heard struct {
	at            time.Duration
	failure, slow bool
}

// recount returns the tally of a window of n buckets of the given width, from
// all that was heard since it was cleared.
func recount(all []heard, now, width time.Duration, n int) (t Tally) {
	for _, h := range all {
		if int64(now/width)-int64(h.at/width) < int64(n) {
			t.add(h)
		}
	}
	return t
}

func (t *Tally) add(h heard) {
	t.Calls++
	if h.failure {
		t.Failures++
	}
	if h.slow {
		t.Slow++
	}
}

// script gives out a fuzzer's bytes; zeros when they are used up.
type script []byte

func (s *script) next() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

// saturated returns a + b, at most the end of time.
func saturated(a, b time.Duration) time.Duration {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// step returns a span that a byte chooses: none, a part of a bucket, some
// buckets, or very long.
func step(b int, width time.Duration, n int) time.Duration {
	switch b % 8 {
	case 0:
		return 0
	case 1:
		return 1
	case 2:
		return width/2 + 1
	case 3:
		return width - 1
	case 4:
		return width
	case 5: // at most the end of time, as width*n is a span that was given
		return width * time.Duration(min(b/8%(n+2), n))
	case 6:
		return saturated(width*time.Duration(n), time.Duration(b))
	default:
		return math.MaxInt64 >> (b / 8 % 32)
	}
}

// wantBuckets holds the buckets of a window at an instant against a recount.
func wantBuckets(t *testing.T, w *Time, at time.Duration, successes uint64, all []heard) {
	t.Helper()
	want := make([]Tally, len(w.buckets))
	for _, h := range all {
		if age := int64(at/w.width) - int64(h.at/w.width); age < int64(len(want)) {
			want[len(want)-1-int(age)].add(h)
		}
	}
	if got := w.Buckets(at, successes); !slices.Equal(got, want) {
		t.Fatalf("at %d, buckets of %d: %+v, want %+v", at, w.width, got, want)
	}
}

func FuzzTime(f *testing.F) {
	for _, seed := range []string{
		"", "\x00\x00", "\x09\x03\x01\x04\x01\x05\x00\x04", "\x03\x01\x01\x02\x03\x00\x22\x01\x03\x00\x0c",
		"\x02\x05\x01\x01\x00\x07\x01\x03\x00\x04\x02\x05\x01\x00\x06", "\x00\x02\x03\x02\x04\x00\x3c\x05\x01\x00\x14",
		"\x05\x04\x07\x01\x02\x03\x04\x00\x02\x00\x03\x00\x04\x06\x01\x05\x00\xff\x01\x02\x00\x37",
	} {
		f.Add([]byte(seed))
	}
	widths := []time.Duration{1, 2, 7, 1000, time.Second, time.Hour, math.MaxInt64 >> 20, math.MaxInt64 >> 5}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 300 {
			return
		}
		s := script(data)
		n, width := 1+s.next()%12, widths[s.next()%len(widths)]
		w := NewTime(width*time.Duration(n)+time.Duration(n/2), n) // what does not divide is dropped
		var (
			now       time.Duration
			successes uint64
			all       []heard
		)
		for len(s) > 0 {
			switch s.next() % 8 {
			case 0:
				now = saturated(now, step(s.next(), width, n))
			case 1, 2: // a failure; or a slow one
				failure := heard{now, true, len(s)%2 == 0}
				w.Advance(now, successes)
				w.Add(failure.failure, failure.slow)
				all = append(all, failure)
			case 3: // a slow success
				w.Advance(now, successes)
				w.Add(false, true)
				successes++
				all = append(all, heard{now, false, true})
			case 4, 5: // plain successes, as they are counted without the lock
				if now >= w.Until() {
					w.Advance(now, successes)
				}
				for range 1 + s.next()%5 {
					successes++
					all = append(all, heard{at: now})
				}
			case 6: // empty, with another counter
				if b := s.next(); b%2 == 1 {
					successes = math.MaxUint64 - uint64(b)
				}
				w.Clear(now, successes)
				all = nil
			case 7:
				w.Advance(now, successes)
			}

			if got, want := w.Tally(now, successes), recount(all, now, width, n); got != want {
				t.Fatalf("at %d, %d buckets of %d: Tally = %+v, want %+v", now, n, width, got, want)
			}
			wantBuckets(t, w, now, successes, all)
			if until := w.Until(); until != math.MaxInt64 && until%width != 0 {
				t.Fatalf("Until = %d, not a multiple of %d", until, width)
			}
			// What will be, told in advance, is what comes about.
			for b := range 8 {
				then := saturated(now, step(b*len(s), width, n))
				ahead := w.Tally(then, successes)
				wantBuckets(t, w, then, successes, all)
				c := *w
				c.buckets = slices.Clone(w.buckets)
				c.Advance(then, successes)
				if got := c.Tally(then, successes); got != ahead {
					t.Fatalf("at %d, %d buckets of %d: Tally = %+v once advanced to %d, was told %+v",
						now, n, width, got, then, ahead)
				}
				if want := recount(all, then, width, n); ahead != want {
					t.Fatalf("at %d, %d buckets of %d: Tally at %d = %+v, want %+v", now, n, width, then, ahead, want)
				}
				if until := c.Until(); until <= then && until != math.MaxInt64 {
					t.Fatalf("Until = %d at %d, not later", until, then)
				}
			}
		}
	})
}

func FuzzCount(f *testing.F) {
	for _, seed := range []string{
		"", "\x00\x01\x02\x03", "\x03\x01\x02\x03\x00\x01\x02\x03\x00", "\x02\x01\x03\x04\x01\x02",
		"\x05\x03\x03\x03\x03\x03\x03\x03\x00\x00\x00\x00\x00\x00\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 300 {
			return
		}
		s := script(data)
		n := 1 + s.next()%12
		w := NewCount(n)
		var all []heard
		for len(s) > 0 {
			switch b := s.next(); b % 16 {
			case 4:
				w.Clear(time.Duration(b), uint64(b))
				all = nil
			case 5:
				w.Advance(time.Duration(b)*time.Hour, uint64(b))
			default:
				h := heard{failure: b&1 != 0, slow: b&2 != 0}
				w.Add(h.failure, h.slow)
				all = append(all, h)
			}
			var want Tally
			for _, h := range all[max(0, len(all)-n):] {
				want.add(h)
			}
			if got := w.Tally(time.Duration(len(s)), uint64(len(s))); got != want {
				t.Fatalf("the last %d of %v: Tally = %+v, want %+v", n, all, got, want)
			}
			rest, each := all[max(0, len(all)-n):], (n+9)/10
			buckets := w.Buckets(0, 0)
			for i := len(buckets) - 1; i >= 0; i-- { // from the newest
				var want Tally
				at := max(0, len(rest)-each)
				for _, h := range rest[at:] {
					want.add(h)
				}
				if rest = rest[:at]; buckets[i] != want || want.Calls == 0 {
					t.Fatalf("the last %d of %v: bucket %d of %v, want %+v", n, all, i, buckets, want)
				}
			}
			if len(rest) > 0 || len(buckets) > 10 {
				t.Fatalf("%d outcomes are in none of %d buckets", len(rest), len(buckets))
			}
		}
	})
}

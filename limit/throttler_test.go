package limit

import (
	"testing"
	"time"
)

// FuzzWindow compares the window with one that remembers every call.
func FuzzWindow(f *testing.F) {
	f.Add(uint8(3), []byte{0, 1, 7, 2, 200, 1, 255, 9})
	f.Add(uint8(0), []byte{1, 1, 3, 16, 1, 128, 1})
	f.Fuzz(func(t *testing.T, buckets uint8, script []byte) {
		n := int64(buckets%12) + 1
		width := 10 * time.Millisecond
		w := newWindow(time.Duration(n)*width, int(n))
		var now, latest time.Duration
		type entry struct {
			at time.Duration
			c  counts
		}
		var all []entry
		for _, b := range script {
			switch v := time.Duration(b >> 2); b & 3 {
			case 0:
				now += v * time.Millisecond
			case 1:
				c := counts{uint64(v), uint64(v) / 2}
				w.advance(now)
				w.add(c)
				all = append(all, entry{max(now, latest), c})
			case 2:
				now += v * v * width
			case 3:
				now -= v * time.Millisecond // counts as the latest instant
			}
			latest = max(latest, now)
			w.advance(now)
			var want counts
			for _, e := range all {
				if int64(e.at/width) > int64(latest/width)-n {
					want.requests += e.c.requests
					want.accepts += e.c.accepts
				}
			}
			if w.total != want {
				t.Fatalf("at %v: %+v, want %+v", now, w.total, want)
			}
		}
	})
}

func TestTheProbabilityIsThatOfTheBook(t *testing.T) {
	for _, c := range []struct {
		k                 float64
		requests, accepts uint64
		want              float64
	}{
		{2, 0, 0, 0},
		{2, 1, 0, 0.5},
		{2, 99, 0, 0.99},
		{2, 100, 50, 0},
		{2, 100, 80, 0},
		{2, 99, 24, 0.51},
		{1, 99, 49, 0.5},
	} {
		th := newThrottler(ThrottleConfig{K: c.k}.withDefaults())
		th.count(0, c.requests, c.accepts)
		if got := th.probability(); got != c.want {
			t.Errorf("K %v, %d requests, %d accepts: %v, want %v", c.k, c.requests, c.accepts, got, c.want)
		}
	}
}

func TestTheFloorAdmitsOneCallAtATime(t *testing.T) {
	th := newThrottler(ThrottleConfig{MinPerSecond: 10}.withDefaults())
	th.count(0, 100, 0)
	for _, c := range []struct {
		at  time.Duration
		due bool
	}{
		{99 * ms, false},
		{100 * ms, true},
		{100 * ms, false},
		{150 * ms, false},
		{199 * ms, false},
		{200 * ms, true},
		{time.Hour, true},
	} {
		if got := th.ask(c.at) == 0; got != c.due {
			t.Errorf("at %v: due %v, want %v", c.at, got, c.due)
		}
		th.count(c.at, 100, 0)
	}
}

func TestTheWindowForgetsWhatIsTooOld(t *testing.T) {
	for slices, want := range map[time.Duration]uint64{0: 5, 1: 4, 4: 1, 5: 0, 6: 0, 9: 0, 10: 0, 11: 0, 12: 0, 13: 0, 14: 0} {
		w := newWindow(5*ms, 5)
		for i := range time.Duration(5) {
			w.advance(i * ms)
			w.add(counts{1, 1})
		}
		w.advance((4 + slices) * ms)
		if w.total != (counts{want, want}) {
			t.Errorf("%d slices later: %+v, want %d", slices, w.total, want)
		}
	}
}

func TestCallsCountWhenTheyEnd(t *testing.T) {
	th := newThrottler(ThrottleConfig{}.withDefaults())
	th.count(0, 10, 0)
	th.count(110*time.Second, 5, 0)
	if th.window.advance(125 * time.Second); th.window.total.requests != 5 {
		t.Errorf("%+v, want the 5 of 15s ago", th.window.total)
	}
}

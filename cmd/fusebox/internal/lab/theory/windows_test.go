package theory

import "testing"

func TestBursts(t *testing.T) {
	burst := func(from, length int) Burst { return Burst{From: from, Length: length, MinCalls: 20, Rate: 0.5} }
	for _, c := range []struct {
		name string
		got  bool
		want bool
	}{
		{"20 failures after 20 successes of a window", burst(120, 20).TripsTumbling(100), true},
		{"after 21", burst(121, 20).TripsTumbling(100), false},
		{"19 at its beginning are too few", burst(100, 19).TripsTumbling(100), false},
		{"20 are enough", burst(100, 20).TripsTumbling(100), true},
		{"divided between two windows", burst(190, 20).TripsTumbling(100), false},
		{"20 in a window of 100 that rolls", burst(100, 20).TripsRolling(10, 10), false},
		{"46 among 91, in the first tick of a bucket", burst(245, 46).TripsRolling(10, 10), true},
		{"45 of 100", burst(245, 45).TripsRolling(10, 10), false},
		{"one bucket is a tumbling window", burst(120, 20).TripsRolling(1, 100), true},
	} {
		if c.got != c.want {
			t.Errorf("%s: trips: %v", c.name, c.got)
		}
	}
}

// By hand, of 100 phases: 0 to 50 leave room enough in the first window, from 70
// on there are 20 failures at the beginning of the next.
func TestKnownShares(t *testing.T) {
	share := func(length int) (n int) {
		for phase := range 100 {
			if (Burst{From: 200 + phase, Length: length, MinCalls: 20, Rate: 0.5}).TripsTumbling(100) {
				n++
			}
		}
		return n
	}
	if five, two := share(50), share(20); five != 81 || two != 21 {
		t.Errorf("of 100 phases %d trip with 5 s, %d with 2 s", five, two)
	}
}

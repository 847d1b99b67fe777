package theory

import (
	"math"
	"testing"
)

func TestBoundedPoisson(t *testing.T) {
	for _, c := range []struct {
		mean float64
		n    int
		want float64
	}{
		{2, 0, 0},
		{2, 1, 1 - math.Exp(-2)},
		{2, 2, 2 - math.Exp(-2)*(2+2)}, // P(1) + 2 P(2 and more)
		{2, 100, 2},
		{0, 5, 0},
	} {
		if got := boundedPoisson(c.mean, c.n); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("mean %v, at most %d: %v, want %v", c.mean, c.n, got, c.want)
		}
	}
}

func TestOutcomesOfAnOutage(t *testing.T) {
	// Calls that take no time: five trip, and one probe fails every 1.01 s.
	got := Outage{Length: 30, Open: 1, Rate: 100, Consecutive: 5, Probes: 3}.Outcomes()
	if want := 5 + (30-0.05)/1.01; math.Abs(got-want) > 1e-9 {
		t.Errorf("got %v, want %v", got, want)
	}
	// So long that every half-open period has all its probes out.
	got = Outage{Length: 30, Open: 1, Rate: 100, Consecutive: 5, Probes: 3, Took: 1}.Outcomes()
	if want := 5 + 100 + (30-1.05)/2.01*3; math.Abs(got-want) > 1e-6 {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAttempts(t *testing.T) {
	if got := Attempts(0.5, 3); got != 0.875 {
		t.Errorf("got %v", got)
	}
}

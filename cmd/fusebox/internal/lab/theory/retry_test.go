package theory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestAtLeast(t *testing.T) {
	near(t, "none", atLeast(0, 2), 1, 0)
	near(t, "nothing comes", atLeast(1, 0), 0, 0)
	near(t, "one", atLeast(1, 2), 1-math.Exp(-2), 1e-15)
	near(t, "two", atLeast(2, 2), 1-3*math.Exp(-2), 1e-15)
	near(t, "surely", atLeast(1, 1e5), 1, 1e-15)
	near(t, "never", atLeast(2e5, 1e5), 0, 1e-15)
	// Far beyond what a sum from 0 could do: the median is near the mean, and the
	// distribution is nearly normal.
	near(t, "median", atLeast(1e8, 1e8), 0.5, 1e-4)
	near(t, "two deviations", atLeast(1e8+2e4, 1e8), math.Erfc(2/math.Sqrt2)/2, 1e-5)
}

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
		{1e6, 2e6, 1e6},
	} {
		near(t, fmt.Sprintf("mean %v, at most %d", c.mean, c.n), boundedPoisson(c.mean, c.n), c.want, 1e-8*max(1, c.want))
	}
}

// plainOutage is a breaker in an outage, written down once more: calls come by
// chance, and each is over after a time between the shortest and the longest.
func plainOutage(o Outage, rng *rand.Rand) (admitted float64) {
	open, probes, failures := false, 0, 0 // probes: of this half-open period; 0: closed
	until := 0.0                          // of the open period
	var ends []float64                    // of calls of this period
	for now := rng.ExpFloat64() / o.Rate; now < o.Length; now += rng.ExpFloat64() / o.Rate {
		slices.Sort(ends)
		for len(ends) > 0 && ends[0] <= now {
			failures++
			if probes > 0 || failures >= o.Consecutive {
				open, until, ends = true, ends[0]+o.Open, nil
				break
			}
			ends = ends[1:]
		}
		if open {
			if now < until {
				continue
			}
			open, probes, ends = false, 1, nil
		} else if probes > 0 {
			if probes >= o.Probes {
				continue
			}
			probes++
		}
		admitted++
		ends = append(ends, now+o.Shortest+rng.Float64()*(o.Longest-o.Shortest))
	}
	return admitted
}

func TestAdmittedInAnOutage(t *testing.T) {
	usual := Outage{Length: 30, Open: 1, Rate: 100, Consecutive: 5, Probes: 3, Shortest: 0.02, Longest: 0.02}
	with := func(change func(*Outage)) Outage { o := usual; change(&o); return o }
	for name, o := range map[string]Outage{
		"usual":                     usual,
		"over before it trips":      with(func(o *Outage) { o.Length = 0.05 }),
		"over before the first end": with(func(o *Outage) { o.Length = 0.01 }),
		"over in half-open":         with(func(o *Outage) { o.Length = 1.09 }),
		"a call takes long":         with(func(o *Outage) { o.Length, o.Shortest, o.Longest = 3, 0.5, 0.5 }),
		"and not always as long":    with(func(o *Outage) { o.Shortest, o.Longest, o.Rate = 0.06, 0.12, 20 }),
		"few calls":                 with(func(o *Outage) { o.Rate, o.Length = 0.3, 100 }),
		"many probes":               with(func(o *Outage) { o.Probes, o.Shortest, o.Longest = 50, 0.3, 0.3 }),
		"a long run":                with(func(o *Outage) { o.Consecutive, o.Length = 400, 6 }),
	} {
		const trials = 4000
		rng := rand.New(rand.NewPCG(1, 2))
		sum, squares := 0.0, 0.0
		for range trials {
			n := plainOutage(o, rng)
			sum, squares = sum+n, squares+n*n
		}
		mean := sum / trials
		variance := squares/trials - mean*mean
		got := o.Admitted()
		if slack := 4.5 * math.Sqrt(variance/trials); mean < got.Low-slack || mean > got.High+slack {
			t.Errorf("%s: %v are admitted on average, not %v to %v", name, mean, got.Low, got.High)
		}
		if variance > 1.15*got.Variance || got.Variance > 3*variance+1 {
			t.Errorf("%s: the variance is %v, not about %v", name, variance, got.Variance)
		}
		if o.Shortest == o.Longest && got.High-got.Low > 1 {
			t.Errorf("%s: from %v to %v is a wide range", name, got.Low, got.High)
		}
	}
}

func TestRetriedOutsideABreakerTripsSooner(t *testing.T) {
	o := Outage{Length: 30, Open: 1, Rate: 1, Consecutive: 6, Probes: 1, Shortest: 0.02, Longest: 0.02}
	plain := o.Admitted()
	o.Retried = 3
	// Six failures are two calls: trip after 2 s instead of 6, and not two probes more
	// than 4 s hold.
	got := o.Admitted()
	near(t, "low", got.Low, plain.Low, 1e-12)
	if more := got.High - plain.High; more < 5 || more > 5+4/2.02+0.1 {
		t.Errorf("%v more than without retries", more)
	}
}

func TestRetriesOfACall(t *testing.T) {
	r := Retries{Attempts: 4, Took: 0.1, Wait: 1, MaxWait: 3}
	near(t, "shortest", r.Shortest(), 0.4, 1e-12)
	near(t, "longest", r.Longest(), 0.4+1+2+3, 1e-12)
	near(t, "mean", r.Mean(), 0.4+3, 1e-12)
	near(t, "longest wait", r.LongestWait(), 3, 0)
	// They begin 0, 0.1 + 1/2, 0.2 + 3/2 and 0.3 + 6/2 after the call.
	near(t, "in an outage", r.InOutage(10, 2), 2*(4*10-0.6-1.7-3.3), 1e-12)
	one := Retries{Attempts: 1, Took: 1, Wait: 1, MaxWait: 1}
	near(t, "one attempt", one.InOutage(10, 2)+one.Longest()+one.LongestWait(), 20+1, 1e-12)
}

func TestAttempts(t *testing.T) {
	if got := Attempts(0.5, 3); got != 0.875 {
		t.Errorf("got %v", got)
	}
}

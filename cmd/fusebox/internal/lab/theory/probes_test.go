package theory

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestProbesPerPeriodIsTheMeanOfATruncatedPoisson(t *testing.T) {
	near(t, "no others come", ProbesPerPeriod(5, 0), 1, 0)
	near(t, "one may go", ProbesPerPeriod(1, 3), 1, 1e-15)
	near(t, "two", ProbesPerPeriod(2, 3), 2-math.Exp(-3), 1e-15)
	near(t, "no limit that matters", ProbesPerPeriod(60, 3), 4, 1e-12)
	rng := rand.New(rand.NewPCG(3, 4))
	const trials = 100_000
	sum, squares := 0.0, 0.0
	for range trials {
		n := 1.0
		for at := rng.ExpFloat64(); at < 2.5 && n < 4; at += rng.ExpFloat64() {
			n++
		}
		sum, squares = sum+n, squares+n*n
	}
	mean := sum / trials
	near(t, "simulated", mean, ProbesPerPeriod(4, 2.5), 4.5*math.Sqrt((squares/trials-mean*mean)/trials))
}

func TestCycles(t *testing.T) {
	near(t, "constant", Cycles(60, []float64{1}, 0.2), 50, 1e-12)
	near(t, "growing", Cycles(60, []float64{1, 2, 4, 5}, 0), 3+53.0/5, 1e-12)
	near(t, "over before it has grown", Cycles(2, []float64{1, 2, 4}, 0), 1.5, 1e-12)
}

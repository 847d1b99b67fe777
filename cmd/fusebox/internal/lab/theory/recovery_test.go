package theory

import (
	"math"
	"math/rand/v2"
	"testing"
)

func always(q float64) func(int) float64 { return func(int) float64 { return q } }

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: %v, want %v (±%v)", what, got, want, tolerance)
	}
}

func TestMeanReopeningsAreOneOverTheChanceOfARunLessOne(t *testing.T) {
	for _, q := range []float64{1, 0.9, 0.7, 0.5} {
		for _, n := range []int{1, 2, 3} {
			o := Recovery{Periods: []float64{20}, Close: n, Reopen: 1, Success: always(q), Ticks: 20000}.Exact()
			near(t, "mean", o.Reopenings.Mean, RunReopenings(q, n), 1e-9)
			// Geometric.
			p := math.Pow(q, float64(n))
			near(t, "variance", o.Reopenings.Variance, (1-p)/(p*p), 1e-7)
			near(t, "never", o.Never, 0, 1e-9)
		}
	}
}

func TestMeanReopeningsOfARaceAreOneOverTheChanceToWinLessOne(t *testing.T) {
	for _, c := range []struct {
		q    float64
		n, m int
	}{{0.7, 10, 5}, {0.5, 3, 2}, {0.9, 10, 3}} {
		o := Recovery{Periods: []float64{20}, Close: c.n, Reopen: c.m, Success: always(c.q), Ticks: 30000}.Exact()
		near(t, "mean", o.Reopenings.Mean, 1/RaceWon(c.q, c.n, c.m)-1, 1e-9)
	}
}

// What 10 successes before 5 failures at 70 % needs, by hand: q¹⁰ times the
// number of ways to place 0 to 4 failures among the calls before the last.
func TestRaceWonIsNegativeBinomial(t *testing.T) {
	near(t, "10 before 5", RaceWon(0.7, 10, 5), math.Pow(0.7, 10)*(1+10*.3+55*.09+220*.027+715*.0081), 1e-12)
	near(t, "one failure is too many", RaceWon(0.7, 10, 1), math.Pow(0.7, 10), 1e-15)
	near(t, "a fair race", RaceWon(0.5, 7, 7), 0.5, 1e-12)
	for n := 1; n < 5; n++ {
		for m := 1; m < 5; m++ {
			near(t, "either side wins", RaceWon(0.3, n, m)+RaceWon(0.7, m, n), 1, 1e-12)
		}
	}
}

// Every sequence of outcomes of a few calls, one by one.
func TestExactIsTheSumOverAllSequences(t *testing.T) {
	const ticks = 17
	for _, r := range []Recovery{
		{Periods: []float64{2}, Close: 2, Reopen: 1},
		{Periods: []float64{1, 3}, Close: 2, Reopen: 2, Opened: true},
		{Periods: []float64{2.5, 4, 5}, Close: 1, Reopen: 1, Opened: true},
		{Periods: []float64{3}, Close: 3, Reopen: 2},
	} {
		q := func(tick int) float64 { return 0.3 + 0.03*float64(tick) }
		r.Success, r.Ticks = q, ticks-1
		closed := make([]float64, ticks)
		var r1, r2, f1, f2 float64
		for bits := range 1 << ticks {
			p := 1.0
			for i := range ticks {
				if bits>>i&1 == 1 {
					p *= q(i)
				} else {
					p *= 1 - q(i)
				}
			}
			at, reopenings, failures := play(r, func(i int) bool { return bits>>i&1 == 1 }, func() float64 { return 0.5 })
			if at >= 0 {
				closed[at] += p
			}
			r1, r2 = r1+p*float64(reopenings), r2+p*float64(reopenings*reopenings)
			f1, f2 = f1+p*float64(failures), f2+p*float64(failures*failures)
		}
		o := r.Exact()
		for i := range closed {
			near(t, "closed", o.Closed[i], closed[i], 1e-12)
		}
		near(t, "reopenings", o.Reopenings.Mean, r1, 1e-12)
		near(t, "variance of reopenings", o.Reopenings.Variance, r2-r1*r1, 1e-12)
		near(t, "failures", o.Failures.Mean, f1, 1e-12)
		near(t, "variance of failures", o.Failures.Variance, f2-f1*f1, 1e-12)
	}
}

// play is a breaker in the fewest words.
func play(r Recovery, success func(int) bool, draw func() float64) (closedAt, reopenings, failures int) {
	next, stage := 0, 0
	open := func(tick int) {
		factor := 1 - r.Jitter + 2*r.Jitter*draw()
		next = int(math.Ceil(float64(tick) + r.Periods[min(stage, len(r.Periods)-1)]*factor))
		stage++
	}
	if r.Opened {
		open(0)
	}
	for next <= r.Ticks {
		good, bad := 0, 0
		for tick := next; tick <= r.Ticks; tick++ {
			next = tick + 1
			if success(tick) {
				good++
			} else {
				bad, failures = bad+1, failures+1
			}
			if good == r.Close {
				return tick, reopenings, failures
			}
			if bad == r.Reopen {
				reopenings++
				open(tick)
				break
			}
		}
	}
	return -1, reopenings, failures
}

func TestJitterIsUniform(t *testing.T) {
	r := Recovery{
		Periods: []float64{3.3, 7.7}, Jitter: 0.4, Close: 1, Reopen: 1, Opened: true, Ticks: 60,
		Success: func(tick int) float64 { return min(1, float64(tick)/50) },
	}
	o := r.Exact()
	rng := rand.New(rand.NewPCG(1, 2))
	const trials = 200_000
	counts := make([]int, r.Ticks+1)
	reopenings := 0
	for range trials {
		at, n, _ := play(r, func(i int) bool { return rng.Float64() < r.Success(i) }, rng.Float64)
		if at >= 0 {
			counts[at]++
		}
		reopenings += n
	}
	for i, n := range counts {
		p := o.Closed[i]
		se := math.Sqrt(p * (1 - p) / trials)
		near(t, "closed", float64(n)/trials, p, 4.5*se+1e-12)
	}
	near(t, "reopenings", float64(reopenings)/trials, o.Reopenings.Mean, 4.5*math.Sqrt(o.Reopenings.Variance/trials))
	sum := o.Never
	for _, p := range o.Closed {
		sum += p
	}
	near(t, "sum", sum, 1, 1e-12)
}

// A span of ticks that goes beyond the last one loses nothing.
func TestNothingIsLostAtTheEnd(t *testing.T) {
	for ticks := 1; ticks < 40; ticks++ {
		o := Recovery{
			Periods: []float64{2, 9}, Jitter: 0.7, Close: 1, Reopen: 1, Opened: true, Ticks: ticks, Success: always(0),
		}.Exact()
		near(t, "never", o.Never, 1, 1e-12)
		// Every failure reopens here.
		near(t, "reopenings are failures", o.Reopenings.Mean, o.Failures.Mean, 1e-12)
		near(t, "their variances too", o.Reopenings.Variance, o.Failures.Variance, 1e-9)
	}
}

func TestKnownQuantiles(t *testing.T) {
	exact := func(q float64, n int) Outcome {
		return Recovery{Periods: []float64{20}, Close: n, Reopen: 1, Success: always(q), Ticks: 12000}.Exact()
	}
	quantile := func(o Outcome, p float64) float64 {
		tick, ok := o.Quantile(p)
		if !ok {
			return math.Inf(1)
		}
		return float64(tick) * 0.05
	}
	o := exact(0.7, 3)
	near(t, "median", quantile(o, 0.5), 1.15, 1e-9)
	near(t, "90th", quantile(o, 0.9), 5.3, 0.05)
	o = exact(0.7, 10)
	near(t, "median", quantile(o, 0.5), 26.55, 1e-9)
	near(t, "90th", quantile(o, 0.9), 88, 0.5)
	o = exact(0.5, 10)
	if _, ok := o.Quantile(0.5); ok {
		t.Error("the median is below the cap")
	}
	near(t, "reopenings", o.Reopenings.Mean, 438, 0.5)
}

package theory

import "math"

// Outage is what calls meet in an outage that fails them all, with a breaker that
// trips after a run of failures and whose open period is constant.
type Outage struct {
	Length, Open float64 // seconds
	Rate         float64 // calls a second, by chance
	Consecutive  int
	Probes       int
	Took         float64 // seconds from a call's beginning to its outcome
}

// Outcomes returns about how many calls the breaker admits in the outage. Those
// that trip it, those that begin before the last of them has ended; then, in every
// half-open period, the first probe and those that come while it is on its way.
func (o Outage) Outcomes() float64 {
	trip := float64(o.Consecutive)/o.Rate + o.Took
	periods := (o.Length - trip) / (o.Open + 1/o.Rate + o.Took)
	return float64(o.Consecutive) + o.Rate*o.Took + periods*(1+boundedPoisson(o.Rate*o.Took, o.Probes-1))
}

// boundedPoisson is the mean of the lesser of n and a Poisson number.
func boundedPoisson(mean float64, n int) float64 {
	sum, p := 0.0, math.Exp(-mean)
	rest := 1.0 // chance of k or more
	for k := 1; k <= n; k++ {
		rest -= p
		p *= mean / float64(k)
		sum += rest
	}
	return sum
}

// Attempts returns the chance that one of so many attempts succeeds, each of which
// fails with the chance given.
func Attempts(failure float64, attempts int) float64 {
	return 1 - math.Pow(failure, float64(attempts))
}

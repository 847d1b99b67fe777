package theory

import "math"

// Retries are attempts of one call, one after another. Before the first retry the
// call waits up to Wait, before each further one up to twice as long, but not more
// than MaxWait, and any time up to that is as likely. All times are in seconds.
type Retries struct {
	Attempts      int
	Took          float64 // of an attempt
	Wait, MaxWait float64
}

// LongestWait is the longest there is between two attempts.
func (r Retries) LongestWait() float64 {
	if r.Attempts < 2 {
		return 0
	}
	return min(r.MaxWait, float64(r.Wait*math.Exp2(float64(r.Attempts-2))))
}

// waits is how long the call waits at most before all of so many retries.
func (r Retries) waits(retries int) (sum float64) {
	for i := range retries {
		sum += min(r.MaxWait, float64(r.Wait*math.Exp2(float64(i))))
	}
	return sum
}

// Shortest is how long a call takes of which every attempt fails, without waits.
func (r Retries) Shortest() float64 { return float64(float64(r.Attempts) * r.Took) }

// Longest is Shortest with the longest waits.
func (r Retries) Longest() float64 { return r.Shortest() + r.waits(r.Attempts-1) }

// Mean is Shortest with waits as they are on average.
func (r Retries) Mean() float64 { return r.Shortest() + float64(r.waits(r.Attempts-1)/2) }

// InOutage returns how many attempts begin in an outage on average, without a
// breaker. The outage is no shorter than the longest call.
func (r Retries) InOutage(length, rate float64) (attempts float64) {
	for i := range r.Attempts {
		attempts += float64(rate * (length - float64(float64(i)*r.Took) - float64(r.waits(i)/2)))
	}
	return attempts
}

// Outage is what calls meet in an outage that fails them all, with a breaker that
// trips after a run of failures and whose open period is constant.
type Outage struct {
	Length, Open float64 // seconds
	Rate         float64 // calls a second, by chance
	Consecutive  int
	Probes       int
	// Shortest and Longest are how long it may take from a call's beginning to its
	// outcome, in seconds. With Retried they are the same.
	Shortest, Longest float64
	// Retried is how many attempts a call has, each of them an outcome, where a
	// retry stands outside the breaker and a rejection ends the call; 0 or 1: one.
	// No wait before a retry is so long that the next half-open period sees it.
	Retried int
}

// Range is where a mean lies, with the variance of what it is the mean of, or a
// little more. Low and High differ by what is not known: when in a call's time
// the first outcome comes, and what a call does whose end is past the outage's.
type Range struct{ Low, High, Variance float64 }

// Admitted returns how many calls a breaker admits in the outage, or attempts if
// they are retried outside it: those that trip it, those that begin before the
// last of them has ended, and in each half-open period the first probe and those
// that come while it is on its way.
func (o Outage) Admitted() Range {
	early, late := o.cycles(o.Longest, o.Consecutive, o.Length-o.Longest), o.cycles(o.Shortest, o.soonest(), o.Length)
	few, fewSpread := probesPerPeriod(o.Probes, o.Rate*o.Shortest)
	many, manySpread := probesPerPeriod(o.Probes, o.Rate*o.Longest)
	retried := 0.0
	if o.Retried > 1 {
		// Only failures that ended before the trip are retried before it.
		retried = float64(o.Consecutive - 1)
	}
	tripped := atLeast(o.Consecutive, o.Rate*(o.Length-o.Longest))
	return Range{
		Low:  o.untilTrip(o.Shortest) + float64(early.mean*few),
		High: o.untilTrip(o.Longest) + retried + float64(late.mean*many),
		Variance: min(float64(o.Rate*o.Longest)+float64(float64(o.Consecutive)*(1-tripped)), float64(o.Rate*o.Length)) + float64(retried*retried/4) +
			float64(late.mean*max(fewSpread, manySpread)) + float64(many*many*max(early.variance, late.variance)),
	}
}

// soonest is how many calls there are at least when the breaker trips.
func (o Outage) soonest() int {
	each := max(o.Retried, 1)
	return (o.Consecutive + each - 1) / each
}

// untilTrip is how many calls begin up to the trip, or the end of the outage: as
// many as the rate says for the mean of that time.
func (o Outage) untilTrip(took float64) float64 {
	if took >= o.Length {
		return float64(o.Rate * o.Length)
	}
	return float64(o.Rate*took) + boundedPoisson(o.Rate*(o.Length-took), o.Consecutive)
}

// counted is the mean and the variance of a count.
type counted struct{ mean, variance float64 }

// cycles is how many half-open periods begin before an instant, if every outcome
// takes as long as given. The k-th begins with the call that comes first after k
// open periods: all waits for calls together are those for so many more calls than
// trip.
func (o Outage) cycles(took float64, consecutive int, before float64) (c counted) {
	second := 0.0
	for k := 1; ; k++ {
		calling := before - float64(float64(k)*(o.Open+took)) // what is left for waits
		p := atLeast(consecutive+k, o.Rate*calling)
		if p < 1e-12 {
			return counted{c.mean, max(0, second-float64(c.mean*c.mean))}
		}
		c.mean += p
		second += float64(float64(2*k-1) * p)
	}
}

// atLeast returns the chance that a Poisson number of the given mean is n or more:
// that n calls have come in a time in which the mean is expected.
func atLeast(n int, mean float64) float64 {
	switch {
	case n <= 0:
		return 1
	case mean <= 0:
		return 0
	}
	// The tail that does not hold the mean is summed up, from its largest term.
	k, up := float64(n), float64(n) > mean
	if !up {
		k--
	}
	gamma, _ := math.Lgamma(k + 1)
	term, sum := math.Exp(float64(k*math.Log(mean))-mean-gamma), 0.0
	for term > 1e-17*sum {
		sum += term
		if up {
			k++
			term *= mean / k
		} else {
			term *= k / mean
			k--
		}
	}
	if up {
		return sum
	}
	return max(0, 1-sum)
}

// boundedPoisson is the mean of the lesser of n and a Poisson number.
func boundedPoisson(mean float64, n int) float64 {
	if n <= 0 {
		return 0
	}
	// Below n it counts as it is, and k times the chance of k is the mean times
	// that of k-1.
	return float64(mean*(1-atLeast(n-1, mean))) + float64(float64(n)*atLeast(n, mean))
}

// Attempts returns the chance that one of so many attempts succeeds, each of which
// fails with the chance given.
func Attempts(failure float64, attempts int) float64 {
	return 1 - math.Pow(failure, float64(attempts))
}

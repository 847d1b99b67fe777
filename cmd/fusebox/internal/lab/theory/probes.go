package theory

import "math"

// ProbesPerPeriod returns how many calls a half-open breaker lets through before
// the first result is there, on average: the first, and those of a Poisson
// process of the given mean, up to a limit in all.
func ProbesPerPeriod(limit int, mean float64) (probes float64) {
	chance, sum := math.Exp(-mean), 0.0 // of k more calls; of all below k
	for k := 0; k < limit-1; k++ {
		probes += chance * float64(k+1)
		sum += chance
		chance *= mean / float64(k+1)
	}
	return probes + (1-sum)*float64(limit)
}

// Cycles returns how often a breaker probes in vain in an outage: each open
// period, the last one again and again, is followed by a wait for the next call
// and by a probe's latency. A last cycle that does not fit counts as the part
// that does. All are in the same unit.
func Cycles(outage float64, periods []float64, waitAndLatency float64) (n float64) {
	for i := 0; ; i++ {
		cycle := periods[min(i, len(periods)-1)] + waitAndLatency
		if i >= len(periods)-1 || cycle > outage {
			return n + outage/cycle
		}
		n++
		outage -= cycle
	}
}

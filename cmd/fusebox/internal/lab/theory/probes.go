package theory

// ProbesPerPeriod returns how many calls a half-open breaker lets through before
// the first result is there, on average: the first, and those of a Poisson
// process of the given mean, up to a limit in all.
func ProbesPerPeriod(limit int, mean float64) float64 {
	probes, _ := probesPerPeriod(limit, mean)
	return probes
}

// probesPerPeriod returns the variance too.
func probesPerPeriod(limit int, mean float64) (probes, variance float64) {
	second := 0.0
	for k := 1; k < limit; k++ {
		p := atLeast(k, mean)
		if p < 1e-17 {
			break
		}
		probes += p
		second += float64(float64(2*k-1) * p)
	}
	return 1 + probes, max(0, second-float64(probes*probes))
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

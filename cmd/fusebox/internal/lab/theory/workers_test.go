package theory

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestFailedProbesOfWorkers(t *testing.T) {
	for _, c := range []struct {
		name string
		w    Workers
		want int
	}{
		// It trips at 8, is open to 108, is asked at 108, and again at 233: two
		// probes, with the outage over at 250.
		{"one worker", Workers{Starts: []time.Duration{0}, Until: 250 * ms, Consecutive: 1, Probes: 3}, 2},
		{"which comes at the very end", Workers{Starts: []time.Duration{0}, Until: 220 * ms, Consecutive: 1, Probes: 3, After: true}, 1},
		// Four more come while the first probe is on its way, of which two may.
		{"five workers", Workers{Starts: []time.Duration{0, 1 * ms, 2 * ms, 3 * ms, 4 * ms}, Until: 150 * ms, Consecutive: 1, Probes: 3}, 3},
		{"as many as there are", Workers{Starts: []time.Duration{0, 1 * ms, 2 * ms, 3 * ms, 20 * ms}, Until: 150 * ms, Consecutive: 1, Probes: 9}, 4},
		{"which does not trip", Workers{Starts: []time.Duration{0}, Until: 150 * ms, Consecutive: 7, Probes: 3}, 0},
		{"no outage", Workers{Starts: []time.Duration{0, 1 * ms}, Consecutive: 1, Probes: 3}, 0},
	} {
		c.w.Pause, c.w.Latency, c.w.Open, c.w.For = 25*ms, 8*ms, 100*ms, 400*ms
		if got := c.w.FailedProbes(); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// Where the end of the open period has nothing to do with the workers' pauses, as
// many fail as if they were spread evenly.
func TestFailedProbesOfWorkersAtAnyPhase(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, probes := range []int{1, 3, 10} {
		const trials = 400
		sum, tied := 0, 0
		for range trials {
			w := Workers{
				Pause: 25 * ms, Latency: 8 * ms, From: 1500 * ms, Until: 4000 * ms, For: 6000 * ms, Consecutive: 5,
				Open: 1000 * ms, Probes: probes,
			}
			for range 20 {
				w.Starts = append(w.Starts, time.Duration(rng.Int64N(int64(w.Pause))))
			}
			tied += w.FailedProbes()
			w.Open += time.Duration(rng.Int64N(int64(w.Pause)))
			sum += w.FailedProbes()
		}
		formula := 2 * min(float64(probes), 1+20*8./25)
		near(t, fmt.Sprintf("%d probes", probes), float64(sum)/trials, formula, 0.05*formula)
		if mean := float64(tied) / trials; probes == 10 && mean < 1.1*formula {
			t.Errorf("%v fail where the open period is a number of pauses, not more than %v", mean, formula)
		}
	}
}

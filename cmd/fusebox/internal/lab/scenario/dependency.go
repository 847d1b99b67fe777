package scenario

import (
	"container/heap"
	"errors"
	"math"
	"math/rand/v2"
	"time"
)

// The distributions of latency.
const (
	constant    = "constant"
	uniform     = "uniform"
	exponential = "exponential"
	logNormal   = "log-normal"
)

var (
	errFailed = errors.New("lab: the dependency failed")
	errHung   = errors.New("lab: the call hung")
	errFull   = errors.New("lab: the dependency's queue is full")
)

// behaviour is a Behaviour with nothing left out.
type behaviour struct {
	failures     float64
	latency, p99 time.Duration
	distribution string
	failsAfter   time.Duration // negative: as any other call
	hang         time.Duration // 0: does not
}

// apply puts a change on top, of which a fraction has been reached.
func (b *behaviour) apply(to Behaviour, reached float64) {
	toward := func(from, to time.Duration) time.Duration {
		return from + time.Duration(reached*float64(max(to, 0)-from))
	}
	if to.Failures != nil {
		b.failures += float64(reached * (float64(*to.Failures) - b.failures))
	}
	if to.Latency != 0 {
		b.latency = toward(b.latency, to.Latency)
	}
	if to.P99 != 0 {
		b.p99 = toward(b.p99, to.P99)
	}
	if to.Distribution != "" {
		b.distribution = to.Distribution
	}
	if to.FailsAfter != 0 {
		b.failsAfter = to.FailsAfter
	}
	if to.Hang != 0 {
		b.hang = max(to.Hang, 0)
	}
}

// began returns the beginning of the change, or of its last repetition, that is
// in effect at an instant.
func (c Change) began(at time.Duration) (began time.Duration, ok bool) {
	if at < c.At {
		return 0, false
	}
	began = c.At
	if c.Every > 0 {
		began += (at - c.At) / c.Every * c.Every
	}
	return began, c.For == 0 || at < began+c.For
}

// at returns how the dependency behaves at an instant.
func (d Dependency) at(at time.Duration) behaviour {
	b := behaviour{distribution: constant, failsAfter: -1}
	b.apply(d.Behaviour, 1)
	for _, c := range d.Changes {
		began, ok := c.began(at)
		if !ok {
			continue
		}
		reached := 1.0
		if c.Over > 0 {
			reached = min(1, float64(at-began)/float64(c.Over))
		}
		b.apply(c.To, reached)
	}
	return b
}

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// draw draws how long a call takes, and how it ends.
func (b behaviour) draw(rng *rand.Rand) (time.Duration, error) {
	fails := rng.Float64() < b.failures
	// Always as many numbers, so that what one setting draws moves no other.
	flat, normal, exp := rng.Float64(), rng.NormFloat64(), rng.ExpFloat64()
	latency := float64(b.latency)
	switch b.distribution {
	case uniform:
		latency *= 0.5 + flat
	case exponential:
		latency *= exp
	case logNormal:
		if b.latency > 0 && b.p99 > b.latency {
			latency *= math.Exp(normal * math.Log(float64(b.p99)/float64(b.latency)) / z99)
		}
	}
	latency = min(latency, float64(never))
	switch {
	case b.hang > 0:
		return b.hang, errHung
	case fails && b.failsAfter >= 0:
		return b.failsAfter, errFailed
	case fails:
		return time.Duration(latency), errFailed
	}
	return time.Duration(latency), nil
}

// never is later than the end of any scenario. What would be later still is then:
// sums of times stay in range.
const never = 2 * maxFor

// server is a dependency at work.
type server struct {
	Dependency
	rng    *rand.Rand
	places durations       // when each place of the capacity is free, a heap
	starts []time.Duration // of those that wait, in order

	begun    int // calls
	inFlight int // calls that somebody waits for
	most     int
}

func newServer(d Dependency, rng *rand.Rand) *server {
	return &server{Dependency: d, rng: rng, places: make(durations, d.Capacity)}
}

// accept takes a call, and returns when it will have been worked off and how it
// ends. With a capacity it begins when a place is free, in the order of arrival:
// so that is known at once.
func (s *server) accept(now time.Duration) (end time.Duration, err error) {
	start := now
	if s.Capacity > 0 {
		start = max(now, s.places[0])
		for len(s.starts) > 0 && s.starts[0] <= now {
			s.starts = s.starts[1:]
		}
		if start > now && s.Queue > 0 && len(s.starts) >= s.Queue {
			return now, errFull
		}
	}
	took, err := s.at(start).draw(s.rng)
	end = min(start+took, never)
	if s.Capacity > 0 {
		s.places[0] = end
		heap.Fix(&s.places, 0)
		if start > now {
			s.starts = append(s.starts, start)
		}
	}
	return end, err
}

type durations []time.Duration

func (d durations) Len() int           { return len(d) }
func (d durations) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d durations) Less(i, j int) bool { return d[i] < d[j] }
func (d *durations) Push(x any)        { *d = append(*d, x.(time.Duration)) }
func (d *durations) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	*d = (*d)[:last]
	return x
}

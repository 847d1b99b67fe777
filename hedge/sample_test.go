package hedge

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// oracle is the quantile by counting: the least of the values that a share of
// at least q do not exceed.
func oracle(values []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	for _, v := range sorted {
		n := 0
		for _, w := range values {
			if w <= v {
				n++
			}
		}
		if float64(n) >= q*float64(len(values)) {
			return v
		}
	}
	return sorted[len(sorted)-1]
}

func checkSample(t *testing.T, c Config, latencies []time.Duration) {
	t.Helper()
	s := newSample(c)
	want, fresh := c.Delay, 0
	for i, l := range latencies {
		s.add(l)
		fresh++
		last := latencies[max(0, i+1-c.Samples) : i+1]
		if n := len(last); n >= c.MinSamples && fresh >= max(n/20, 1) {
			want, fresh = oracle(last, c.Quantile), 0
		}
		if got := s.delay(); got != want {
			t.Fatalf("%+v: after %d latencies the delay is %v, want %v", c, i+1, got, want)
		}
	}
}

func TestDelayIsTheQuantileOfTheLastSamples(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, c := range []Config{
		{Quantile: 0.95},
		{Quantile: 0.5, Samples: 10, MinSamples: 10},
		{Quantile: 0.99, Samples: 100, MinSamples: 1},
		{Quantile: 0.001, Samples: 7, MinSamples: 3, Delay: time.Second},
		{Quantile: 0.9, Samples: 1},
	} {
		latencies := make([]time.Duration, 500)
		for i := range latencies {
			latencies[i] = time.Duration(r.IntN(100)) * time.Millisecond
		}
		checkSample(t, c.withDefaults(), latencies)
	}
}

func FuzzSample(f *testing.F) {
	f.Add(0.95, 20, 5, []byte("the quick brown fox jumps over the lazy dog"))
	f.Add(0.01, 1, 1, []byte{0, 255})
	f.Fuzz(func(t *testing.T, q float64, samples, minimum int, data []byte) {
		c := Config{Quantile: q, Samples: samples, MinSamples: minimum}
		if c.Validate() != nil || q == 0 || len(data) > 500 {
			return // no quantile to take, or only longer
		}
		latencies := make([]time.Duration, len(data))
		for i, b := range data {
			latencies[i] = time.Duration(b)
		}
		checkSample(t, c.withDefaults(), latencies)
	})
}

func TestLearningAllocatesNothing(t *testing.T) {
	s := newSample(Config{}.withDefaults())
	if n := testing.AllocsPerRun(1000, func() { s.add(time.Second) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWhatACancelledAttemptTeaches(t *testing.T) {
	p := New(Config{Samples: 1})
	p.answered(time.Second)
	p.gaveUp(time.Second-1, time.Second)
	if d := p.Delay(); d != time.Second {
		t.Errorf("one cancelled before the delay counted: %v", d)
	}
	p.gaveUp(2*time.Second, time.Second)
	if d := p.Delay(); d != 2*time.Second {
		t.Errorf("one cancelled after the delay did not count: %v", d)
	}
}

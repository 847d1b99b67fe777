package scenario

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

const ms = time.Millisecond

func failures(f float64) *config.Share {
	s := config.Share(f)
	return &s
}

func TestADependencyChangesWithTime(t *testing.T) {
	d := Dependency{
		Behaviour: Behaviour{Latency: 10 * ms},
		Changes: []Change{
			{At: 10 * time.Second, For: 5 * time.Second, To: Behaviour{Failures: failures(1), FailsAfter: ms}},
			{At: 20 * time.Second, Over: 10 * time.Second, To: Behaviour{Failures: failures(0.5), Latency: 110 * ms}},
			{At: 50 * time.Second, For: time.Second, Every: 10 * time.Second, To: Behaviour{Hang: time.Minute}},
			{At: 90 * time.Second, To: Behaviour{Latency: -1}},
		},
	}
	for _, c := range []struct {
		at   time.Duration
		want behaviour
	}{
		{0, behaviour{0, 10 * ms, 0, constant, -1, 0}},
		{10*time.Second - 1, behaviour{0, 10 * ms, 0, constant, -1, 0}},
		{10 * time.Second, behaviour{1, 10 * ms, 0, constant, ms, 0}},
		{15 * time.Second, behaviour{0, 10 * ms, 0, constant, -1, 0}},
		{25 * time.Second, behaviour{0.25, 60 * ms, 0, constant, -1, 0}},
		{40 * time.Second, behaviour{0.5, 110 * ms, 0, constant, -1, 0}},
		{50 * time.Second, behaviour{0.5, 110 * ms, 0, constant, -1, time.Minute}},
		{51 * time.Second, behaviour{0.5, 110 * ms, 0, constant, -1, 0}},
		{60500 * ms, behaviour{0.5, 110 * ms, 0, constant, -1, time.Minute}},
		{95 * time.Second, behaviour{0.5, 0, 0, constant, -1, 0}},
	} {
		if got := d.at(c.at); got != c.want {
			t.Errorf("at %v: %+v, want %+v", c.at, got, c.want)
		}
	}
}

// Means and shares lie within 4.5 standard errors of what they are meant to be.
func TestDistributions(t *testing.T) {
	const n = 100_000
	for _, c := range []struct {
		name             string
		b                behaviour
		mean, deviation  float64 // in ms
		quantile, within float64 // share of latencies up to quantile
	}{
		{"constant", behaviour{latency: 20 * ms, distribution: constant}, 20, 0, 20, 1},
		{"uniform", behaviour{latency: 20 * ms, distribution: uniform}, 20, 20 / math.Sqrt(12), 15, 0.25},
		{"exponential", behaviour{latency: 20 * ms, distribution: exponential}, 20, 20, 20, 1 - math.Exp(-1)},
		{"log-normal", behaviour{latency: 20 * ms, p99: 200 * ms, distribution: logNormal}, 0, 0, 200, 0.99},
		{"its median", behaviour{latency: 20 * ms, p99: 200 * ms, distribution: logNormal}, 0, 0, 20, 0.5},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		sum, below := 0.0, 0
		for range n {
			took, err := c.b.draw(rng)
			if err != nil {
				t.Fatal(err)
			}
			x := float64(took) / float64(ms)
			sum += x
			if x <= c.quantile {
				below++
			}
		}
		if c.mean > 0 && math.Abs(sum/n-c.mean) > 4.5*c.deviation/math.Sqrt(n)+1e-9 {
			t.Errorf("%s: mean %v, want %v", c.name, sum/n, c.mean)
		}
		if d := math.Abs(float64(below)/n - c.within); d > 4.5*math.Sqrt(c.within*(1-c.within)/n)+1e-9 {
			t.Errorf("%s: %v are at most %v, want %v", c.name, float64(below)/n, c.quantile, c.within)
		}
	}
}

func TestHowACallEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		b    behaviour
		took time.Duration
		err  error
	}{
		{"well", behaviour{latency: 5 * ms, failsAfter: ms}, 5 * ms, nil},
		{"failing at once", behaviour{failures: 1, latency: 5 * ms, failsAfter: ms}, ms, errFailed},
		{"failing as slowly as others", behaviour{failures: 1, latency: 5 * ms, failsAfter: -1}, 5 * ms, errFailed},
		{"hanging", behaviour{failures: 1, latency: 5 * ms, failsAfter: ms, hang: time.Hour}, time.Hour, errHung},
	} {
		if took, err := c.b.draw(rng); took != c.took || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, %v", c.name, took, err)
		}
	}
}

func TestACapacityServesInOrderAndRefusesBeyondTheQueue(t *testing.T) {
	s := newServer(Dependency{Capacity: 2, Queue: 2, Behaviour: Behaviour{Latency: 10 * ms}}, rand.New(rand.NewPCG(1, 2)))
	for i, c := range []struct {
		at, end time.Duration
		err     error
	}{
		{0, 10 * ms, nil},
		{1 * ms, 11 * ms, nil},
		{2 * ms, 20 * ms, nil},    // waits for the first
		{3 * ms, 21 * ms, nil},    // for the second
		{4 * ms, 4 * ms, errFull}, // two wait
		{10 * ms, 30 * ms, nil},   // one has begun
		{11 * ms, 31 * ms, nil},   // the other too
		{12 * ms, 12 * ms, errFull},
		{100 * ms, 110 * ms, nil},
	} {
		if end, err := s.accept(c.at); end != c.end || !errors.Is(err, c.err) {
			t.Errorf("call %d: ends at %v with %v, want %v", i, end, err, c.end)
		}
	}
}

func TestAQueuedCallMeetsTheDependencyAsItIsWhenItsTurnComes(t *testing.T) {
	d := Dependency{Capacity: 1, Behaviour: Behaviour{Latency: 10 * ms}, Changes: []Change{{At: 5 * ms, To: Behaviour{Failures: failures(1)}}}}
	s := newServer(d, rand.New(rand.NewPCG(1, 2)))
	if _, err := s.accept(0); err != nil {
		t.Error(err)
	}
	if end, err := s.accept(1 * ms); end != 20*ms || !errors.Is(err, errFailed) {
		t.Errorf("ends at %v with %v", end, err)
	}
}

// Whatever a file holds, no sum of times overflows.
func TestTimesBeyondAnyEnd(t *testing.T) {
	d := Dependency{Capacity: 1, Behaviour: Behaviour{Hang: maxFor}}
	s := newServer(d, rand.New(rand.NewPCG(1, 2)))
	for i := range 5000 {
		if end, _ := s.accept(0); end < maxFor {
			t.Fatalf("call %d ends at %v", i, end)
		}
	}
	b := behaviour{latency: time.Nanosecond, p99: maxFor, distribution: logNormal}
	for range 10_000 {
		if took, _ := b.draw(s.rng); took < 0 {
			t.Fatalf("a call takes %v", took)
		}
	}
	for _, at := range []time.Duration{time.Second, maxFor} {
		if _, ok := (Change{At: time.Second, For: maxFor}).began(at); !ok {
			t.Errorf("at %v the change is over", at)
		}
	}
}

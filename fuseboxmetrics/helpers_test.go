package fuseboxmetrics_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

var errDown = errors.New("down")

func succeed(context.Context) error { return nil }
func fail(context.Context) error    { return errDown }

// allow returns a permit that must be had.
func allow(tb testing.TB, b *fusebox.Breaker) fusebox.Permit {
	tb.Helper()
	p, err := b.Allow(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return p.Take()
}

// random returns a source for a random test. The seed is printed if the test
// fails, and taken back from CASE_SEED.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("CASE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("CASE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// series are values by metric and labels: `fusebox_state{a,open}`.
type series map[string]float64

// add adds a reading.
func (s series) add(tb testing.TB, r fuseboxmetrics.Reading) {
	tb.Helper()
	i := 0
	for _, m := range r.Subject.Metrics() {
		for _, labels := range m.Series {
			key := fmt.Sprintf("%s{%s}", m.Name, strings.Join(append([]string{r.Name}, labels...), ","))
			if _, twice := s[key]; twice {
				tb.Errorf("%s twice", key)
			}
			s[key] = r.Values[i]
			i++
		}
	}
	if i != len(r.Values) {
		tb.Errorf("%d values for %d series", len(r.Values), i)
	}
}

// read reads a set.
func read(tb testing.TB, set *fuseboxmetrics.Set) series {
	tb.Helper()
	all := series{}
	for r := range set.Read() {
		all.add(tb, r)
	}
	return all
}

// sum adds up what begins so.
func (s series) sum(prefix string) (sum float64) {
	for key, v := range s {
		if strings.HasPrefix(key, prefix) {
			sum += v
		}
	}
	return sum
}

func (s series) want(tb testing.TB, want map[string]float64) {
	tb.Helper()
	for key, v := range want {
		if got, ok := s[key]; !ok || got != v {
			tb.Errorf("%s is %v (%t), want %v", key, got, ok, v)
		}
	}
}

// lab is a breaker with a scripted clock that trips at the first failure, is
// open for 10 s and probes with one call.
type lab struct {
	fuseboxtest.Clock
	*fusebox.Breaker
	set fuseboxmetrics.Set
}

func newLab(name string) *lab {
	l := &lab{}
	l.Breaker = fusebox.New(name, fusebox.Config{
		Consecutive: 1, OpenFor: 10 * time.Second, OpenForMax: 10 * time.Second, OpenJitter: -1, Probes: 1, Now: l.Now,
	})
	l.set.Add(l.Breaker)
	return l
}

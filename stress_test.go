package fusebox_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// stressClock moves a little with every reading.
type stressClock struct{ now atomic.Int64 }

func (c *stressClock) Now() time.Time {
	return cellEpoch.Add(time.Duration(c.now.Add(int64(time.Microsecond))))
}

// stressRecords is what an observer has been told. It has no lock: the race
// detector sees whether records come one at a time.
type stressRecords struct {
	list    []fusebox.Transition
	inside  atomic.Int32
	overlap atomic.Bool
	periods atomic.Int64 // half-open ones
}

func (r *stressRecords) add(t fusebox.Transition) {
	if r.inside.Add(1) != 1 {
		r.overlap.Store(true)
	}
	r.list = append(r.list, t)
	if t.To == fusebox.HalfOpen {
		r.periods.Add(1)
	}
	r.inside.Add(-1)
}

// check asserts that the records chain, skip no state, and are all there are.
func (r *stressRecords) check(t *testing.T, b *fusebox.Breaker) {
	t.Helper()
	if r.overlap.Load() {
		t.Error("two records were delivered at the same time")
	}
	next := map[fusebox.State][]fusebox.State{
		fusebox.Closed:   {fusebox.Open},
		fusebox.Open:     {fusebox.HalfOpen},
		fusebox.HalfOpen: {fusebox.Closed, fusebox.Open},
	}
	state, generation, at := fusebox.Closed, uint64(0), time.Time{}
	for i, x := range r.list {
		if x.From != state || !slices.Contains(next[state], x.To) || x.Generation != generation+1 || x.At.Before(at) {
			t.Fatalf("record %d is %v, generation %d at %v, after %v, generation %d at %v",
				i, x, x.Generation, x.At, state, generation, at)
		}
		state, generation, at = x.To, x.Generation, x.At
	}
	s := b.Snapshot()
	if s.Generation != generation {
		t.Errorf("told of generation %d last, but it is %d", generation, s.Generation)
	}
	var n uint64
	for _, c := range s.Totals.Transitions {
		n += c.Count
	}
	if n != uint64(len(r.list)) {
		t.Errorf("told of %d records of %d", len(r.list), n)
	}
}

// stressSpan is what one accepted probe was at, in the order of all events. It
// lies within the lease.
type stressSpan struct {
	generation uint64
	from, to   int64
}

func stressCores(tb testing.TB) {
	tb.Helper()
	before := runtime.GOMAXPROCS(8)
	tb.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func TestStressHalfOpen(t *testing.T) {
	for _, c := range []struct {
		probes  int
		periods int64
	}{{1, 1000}, {3, 2000}} { // verify has ten thousand
		if testing.Short() {
			c.periods /= 10
		}
		t.Run(fmt.Sprintf("of %d", c.probes), func(t *testing.T) { stressHalfOpen(t, c.probes, c.periods) })
	}
}

func stressHalfOpen(t *testing.T, probes int, periods int64) {
	stressCores(t)
	var (
		clock   stressClock
		records stressRecords
		order   atomic.Int64
		mu      sync.Mutex
		spans   []stressSpan
		wg      sync.WaitGroup
	)
	b := fusebox.New("stress", fusebox.Config{
		Consecutive: 1, OpenFor: 3 * time.Microsecond, OpenForMax: 3 * time.Microsecond, OpenJitter: -1,
		Probes: probes, CloseAfter: probes, ReopenAfter: 2, ProbeTimeout: time.Hour, Now: clock.Now,
		Observers: []fusebox.Observer{{Transition: records.add}},
	})
	var accepted, late atomic.Uint64
	for g := range 64 {
		wg.Go(func() {
			draws := rand.New(rand.NewPCG(uint64(g), uint64(probes)))
			var own []stressSpan
			for records.periods.Load() < periods {
				permit, err := b.Allow(context.Background())
				if err != nil {
					runtime.Gosched()
					continue
				}
				span := stressSpan{from: order.Add(1)}
				s := b.Snapshot()
				span.generation = s.Generation
				if s.Outstanding > probes {
					t.Errorf("%d probes outstanding, want at most %d", s.Outstanding, probes)
				}
				if draws.IntN(4) == 0 {
					runtime.Gosched() // let others meet the probe
				}
				outcome := fusebox.Success
				if draws.IntN(2) == 0 {
					outcome = fusebox.Failure
				}
				span.to = order.Add(1)
				if !permit.Record(outcome) {
					late.Add(1)
					continue
				}
				// Accepted: up to here the generation was the permit's own.
				accepted.Add(1)
				if s.State == fusebox.HalfOpen && s.Outstanding > 0 {
					own = append(own, span)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			spans = append(spans, own...)
		})
	}
	wg.Wait()
	records.check(t, b)
	stressOverlap(t, spans, probes)

	totals := b.Snapshot().Totals
	if n := totals.Successes + totals.Failures; n != accepted.Load() || totals.Late != late.Load() {
		t.Errorf("%d counted and %d late, want %d and %d", n, totals.Late, accepted.Load(), late.Load())
	}
	if len(spans) < int(periods) {
		t.Errorf("%d probes seen in %d periods", len(spans), periods)
	}
}

// stressOverlap asserts that no more probes of one period overlap than may.
func stressOverlap(t *testing.T, spans []stressSpan, probes int) {
	t.Helper()
	slices.SortFunc(spans, func(a, b stressSpan) int {
		return cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.from, b.from))
	})
	var out []int64 // ends of those of this generation that are out
	most := 0
	for i, s := range spans {
		if i > 0 && spans[i-1].generation != s.generation {
			out = out[:0]
		}
		out = slices.DeleteFunc(out, func(end int64) bool { return end < s.from })
		out = append(out, s.to)
		most = max(most, len(out))
	}
	if most > probes {
		t.Errorf("%d probes of one period at the same time, want at most %d", most, probes)
	}
	if most < probes {
		t.Logf("never more than %d probes at the same time", most)
	}
}

// TestStressSuccesses counts on many cores while the breaker trips and closes:
// what was accepted is what is counted, to the last call.
func TestStressSuccesses(t *testing.T) {
	stressCores(t)
	each := 40_000
	if testing.Short() {
		each = 5000
	}
	for _, c := range []struct {
		name   string
		change fusebox.Config
	}{
		{"window of time", fusebox.Config{}},
		{"window of a few microseconds", fusebox.Config{Window: 50 * time.Microsecond}},
		{"window of calls", fusebox.Config{WindowCalls: 50}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var clock stressClock
			var records stressRecords
			config := c.change
			config.Consecutive, config.OpenFor, config.OpenForMax, config.OpenJitter = 1, 50*time.Microsecond, 50*time.Microsecond, -1
			config.Now, config.Observers = clock.Now, []fusebox.Observer{{Transition: records.add}}
			b := fusebox.New("stress", config)
			var accepted, late [2]atomic.Uint64
			var made, rejected atomic.Uint64
			var wg sync.WaitGroup
			for g := range 16 {
				wg.Go(func() {
					for i := 0; i < each || records.periods.Load() < 10; i++ {
						made.Add(1)
						permit, err := b.Allow(context.Background())
						if err != nil {
							rejected.Add(1)
							continue
						}
						outcome := fusebox.Success
						if (i+g*97)%1009 == 0 {
							outcome = fusebox.Failure
						}
						if i%31 == 0 { // be overtaken
							runtime.Gosched()
						}
						if permit.Record(outcome) {
							accepted[outcome].Add(1)
						} else {
							late[outcome].Add(1)
						}
					}
				})
			}
			wg.Wait()
			records.check(t, b)
			s := b.Snapshot().Totals
			if s.Successes != accepted[fusebox.Success].Load() {
				t.Errorf("%d successes counted, %d accepted", s.Successes, accepted[fusebox.Success].Load())
			}
			if s.Failures != accepted[fusebox.Failure].Load() {
				t.Errorf("%d failures counted, %d accepted", s.Failures, accepted[fusebox.Failure].Load())
			}
			if n := late[0].Load() + late[1].Load(); s.Late != n {
				t.Errorf("%d late counted, %d were told so", s.Late, n)
			}
			if n := s.RejectedOpen + s.RejectedProbing; n != rejected.Load() {
				t.Errorf("%d rejections counted, %d happened", n, rejected.Load())
			}
			if n := s.Successes + s.Failures + s.Late + rejected.Load(); n != made.Load() {
				t.Errorf("%d calls of %d", n, made.Load())
			}
		})
	}
}

func TestABreakerLivesInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var records []fusebox.Transition
		b := fusebox.New("bubble", fusebox.Config{
			OpenFor: 2 * time.Second, OpenJitter: -1,
			Observers: []fusebox.Observer{{Transition: func(r fusebox.Transition) { records = append(records, r) }}},
		})
		down := errors.New("down")
		call := func(result error) error {
			return b.Do(t.Context(), func(context.Context) error { return result })
		}
		for range 20 {
			if err := call(down); !errors.Is(err, down) {
				t.Fatalf("Do = %v, want the function's error", err)
			}
		}
		var open *fusebox.OpenError
		if err := call(nil); !errors.As(err, &open) || open.RetryAfter() != 2*time.Second {
			t.Fatalf("Do = %v, want a rejection for 2s", err)
		}
		<-time.After(2*time.Second - 1)
		if err := call(nil); !errors.Is(err, fusebox.ErrOpen) {
			t.Fatalf("Do = %v just before the deadline, want a rejection", err)
		}
		<-time.After(1)
		for range 3 {
			if err := call(nil); err != nil {
				t.Fatalf("Do = %v at the deadline, want a probe", err)
			}
		}
		if s := b.State(); s != fusebox.Closed {
			t.Fatalf("%v after three good probes, want closed", s)
		}
		var states []fusebox.State
		for _, r := range records {
			states = append(states, r.To)
		}
		if want := []fusebox.State{fusebox.Open, fusebox.HalfOpen, fusebox.Closed}; !slices.Equal(states, want) {
			t.Errorf("states %v, want %v", states, want)
		}
		for i, want := range []time.Duration{0, 2 * time.Second, 2 * time.Second} {
			if got := records[i].At.Sub(start); got != want {
				t.Errorf("record %d is of %v, want %v", i, got, want)
			}
		}
	})
}

// TestNothingWaits ends a bubble in which no time has passed: whoever waits for
// a timer would have moved it, and whoever waits for another goroutine, or
// keeps one, would not let the bubble end.
func TestNothingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var r fusebox.Registry
		for g := range 8 {
			go func() {
				for i := range 200 {
					b := r.Get(fmt.Sprint(i % 5))
					b.Do(t.Context(), func(context.Context) error {
						if i%3 == g%3 {
							return errors.New("down")
						}
						return nil
					})
					switch i % 50 {
					case 10:
						b.Override(fusebox.ForceOpen, fusebox.Note{Until: start.Add(time.Hour)})
					case 20:
						b.Lift(fusebox.Note{})
					case 30:
						b.Reset(fusebox.Note{})
					case 40:
						if p, err := b.Allow(t.Context()); err == nil {
							p.Cancel()
						}
					}
					b.Snapshot()
					b.History()
					r.Stats()
				}
			}()
		}
		synctest.Wait()
		if d := time.Since(start); d != 0 {
			t.Errorf("%v passed, want no time", d)
		}
	})
}

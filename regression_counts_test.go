package fusebox_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// What is counted, and the rates that the rules judge.

// caseRandom returns a source for a random test. The seed is printed if the
// test fails, and taken back from CASE_SEED.
func caseRandom(t *testing.T) *rand.Rand {
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

// TestC41CountsEqualARecount drives windows of both kinds with random outcomes
// and clock steps in both directions.
func TestC41CountsEqualARecount(t *testing.T) {
	type outcome struct {
		bucket     int64
		fail, slow bool
	}
	for _, config := range []string{"count=3", "count=64", "window=3s buckets=3", "window=10s buckets=7", "window=1s buckets=1"} {
		t.Run(config, func(t *testing.T) {
			random := caseRandom(t)
			l := newCase(t, config, func(c *fusebox.Config) {
				c.SlowAfter = 100 * time.Millisecond
				c.TripWhen = func(fusebox.Counts) bool { return false }
			})
			c := l.Config()
			begin := l.clock.Now()
			width := c.Window / time.Duration(c.Buckets)
			var seen []outcome
			latest, run := int64(0), 0 // the latest bucket seen
			recount := func(present int64) (n fusebox.Counts) {
				from := 0
				if c.WindowCalls > 0 {
					from = max(len(seen)-c.WindowCalls, 0)
				}
				for _, o := range seen[from:] {
					if c.WindowCalls == 0 && o.bucket <= present-int64(c.Buckets) {
						continue
					}
					n.Calls++
					if o.fail {
						n.Failures++
					}
					if o.slow {
						n.Slow++
					}
				}
				n.Consecutive = run
				return n
			}
			for step := range 10_000 {
				switch random.IntN(20) {
				case 0:
					l.clock.Advance(-time.Duration(random.Int64N(int64(3 * time.Second))))
					if l.clock.Now().Before(begin) {
						l.clock.Set(begin)
					}
				case 1:
					l.clock.Advance(time.Duration(random.Int64N(int64(30 * time.Second))))
				case 2, 3, 4:
					l.clock.Advance(time.Duration(random.Int64N(int64(time.Second))))
				}
				bucket := max(latest, int64(l.clock.Now().Sub(begin)/width))
				if random.IntN(10) > 0 {
					o := outcome{bucket, random.IntN(3) == 0, random.IntN(3) == 0}
					p := l.allow()
					result, d := fusebox.Success, time.Duration(0)
					if o.fail {
						result = fusebox.Failure
					}
					if o.slow {
						d = c.SlowAfter
					}
					if accepted := o.slow || random.IntN(2) == 0; accepted {
						accepted = p.RecordAfter(result, d)
						if !accepted {
							t.Fatal("not accepted")
						}
					} else if !p.Record(result) {
						t.Fatal("not accepted")
					}
					seen = append(seen, o)
					if len(seen) > 2000 {
						seen = seen[1000:] // more than a window holds, or fell out long ago
					}
					if run++; !o.fail {
						run = 0
					}
				}
				if got, want := l.Snapshot().Counts, recount(bucket); got != want {
					t.Fatalf("step %d: counts are %+v, recounted %+v", step, got, want)
				}
				latest = bucket // the Snapshot has seen it
			}
		})
	}
}

func TestC51TheRatesOfNothingAreZero(t *testing.T) {
	l := newCase(t, "ratio=0.5 min=1 window=10s openfor=10s", func(c *fusebox.Config) { c.SlowAfter = time.Second })
	check := func(when string) {
		t.Helper()
		for _, rate := range []float64{l.Snapshot().Counts.FailureRate(), l.Snapshot().Counts.SlowRate()} {
			if rate != 0 || math.IsNaN(rate) {
				t.Errorf("%s: the rate of nothing is %v", when, rate)
			}
		}
	}
	check("fresh")
	l.calls(5, nil)
	l.clock.Advance(time.Hour)
	check("the window has passed")
	l.want(fusebox.Closed)
	l.calls(1, errCase)
	l.want(fusebox.Open)
	check("open")
	l.clock.Advance(10 * time.Second)
	check("half-open, as read")
	p := l.allow()
	check("half-open, as entered")
	p.Cancel()
	l.Reset(fusebox.Note{})
	check("reset")
	if c := (fusebox.Config{Buckets: -1}); c.Validate() == nil {
		t.Error("-1 buckets are accepted")
	}
	if c := (fusebox.Config{Window: 5, Buckets: 10}); c.Validate() == nil {
		t.Error("10 buckets in 5 ns are accepted")
	}
	if got := (fusebox.Counts{}).FailureRate(); got != 0 {
		t.Errorf("the rate of zero counts is %v", got)
	}
}

func TestC52NoSuccessTripsByTheFailureRate(t *testing.T) {
	for _, d := range []time.Duration{0, time.Second} { // fast, slow
		l := newCase(t, "ratio=0.5 min=4 window=10s", func(c *fusebox.Config) { c.SlowAfter, c.SlowRate = time.Second, 1 })
		l.calls(3, errCase)
		l.allow().RecordAfter(fusebox.Success, d)
		l.want(fusebox.Closed)
		l.calls(1, errCase)
		l.want(fusebox.Open)
	}
}

func TestC53RejectionsAreNoOutcomes(t *testing.T) {
	l := newCase(t, "ratio=0.5 min=4 window=60s openfor=10s probes=1")
	l.calls(4, errCase)
	for range 1000 {
		l.refused()
	}
	l.clock.Advance(10 * time.Second)
	p := l.allow()
	for range 1000 {
		l.refused()
	}
	l.wantCounts(fusebox.Counts{})
	p.Record(fusebox.Success)
	l.wantCounts(fusebox.Counts{})
	if n := l.Snapshot().Totals; n.Failures != 4 || n.RejectedOpen != 1000 || n.RejectedProbing != 1000 {
		t.Errorf("totals are %+v", n)
	}
}

func TestC55TheSlowRule(t *testing.T) {
	const ms = time.Millisecond
	l := newCase(t, "min=2 count=2", func(c *fusebox.Config) { c.SlowAfter, c.SlowRate = 20*ms, 0.5 })
	for _, d := range []time.Duration{10 * ms, 30 * ms} {
		l.want(fusebox.Closed)
		_ = l.Do(context.Background(), func(context.Context) error { l.clock.Advance(d); return nil })
	}
	l.want(fusebox.Open)
	last := l.Snapshot().Last
	if last.Cause != fusebox.CauseSlowRate || last.Counts != (fusebox.Counts{Calls: 2, Slow: 1}) || last.Threshold != 0.5 {
		t.Errorf("the record is %+v", last)
	}
}

func TestC55SlowCallsAreCountedUnderContention(t *testing.T) {
	const workers, each = 8, 1000
	for _, config := range []string{"window=10s", "count=20000"} {
		l := newCase(t, config, func(c *fusebox.Config) {
			c.SlowAfter = 25 * time.Millisecond
			c.TripWhen = func(fusebox.Counts) bool { return false }
		})
		var slow atomic.Int64
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(w), 1))
				for range each {
					d := time.Duration(1+random.IntN(50)) * time.Millisecond
					if d >= 25*time.Millisecond {
						slow.Add(1)
					}
					p, _ := l.Allow(context.Background())
					p.RecordAfter(fusebox.Success, d)
				}
			})
		}
		all.Wait()
		l.wantCounts(fusebox.Counts{Calls: workers * each, Slow: int(slow.Load())})
	}
}

func TestC88RatesAreNeverNegative(t *testing.T) {
	l := newCase(t, "ratio=0.5 min=10")
	l.calls(3, errCase)
	c := l.Snapshot().Counts
	if c.Calls != 3 || c.FailureRate() != 1 || c.SlowRate() != 0 {
		t.Errorf("%d calls, rates %v and %v; want 3, 1, 0", c.Calls, c.FailureRate(), c.SlowRate())
	}
	l.clock.Advance(time.Hour)
	if c := l.Snapshot().Counts; c.Calls != 0 || c.FailureRate() != 0 {
		t.Errorf("%d calls and rate %v; want 0, 0", c.Calls, c.FailureRate())
	}
	l.Reset(fusebox.Note{})
	if c := l.Snapshot().Counts; c.Calls != 0 || c.FailureRate() != 0 {
		t.Errorf("%d calls and rate %v after the reset", c.Calls, c.FailureRate())
	}
}

func TestC89RejectedCallsAreCountedByReason(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=1")
	l.calls(1, errCase)
	for range 5 {
		l.refused()
	}
	l.clock.Advance(10 * time.Second)
	p := l.allow()
	for range 3 {
		l.refused()
	}
	p.Record(fusebox.Success)
	n := l.Snapshot().Totals
	if n.RejectedOpen != 5 || n.RejectedProbing != 3 || caseFinished(n) != 2 {
		t.Errorf("%d rejected open, %d probing, %d finished; want 5, 3, 2", n.RejectedOpen, n.RejectedProbing, caseFinished(n))
	}
}

// TestC89EveryCallIsCountedOnce lets many callers do anything at random: the
// totals must say what each of them saw.
func TestC89EveryCallIsCountedOnce(t *testing.T) {
	for _, config := range []string{
		"consec=3 openfor=10s probes=2", "ratio=0.5 min=5 window=3s openfor=1s probes=3 close=2 ttl=2s", "ratio=0.4 min=5 count=10 openfor=2s",
	} {
		t.Run(config, func(t *testing.T) {
			seed := caseRandom(t).Uint64()
			l := newCase(t, config)
			var success, failure, ignored, late, open, probing atomic.Uint64
			counters := map[fusebox.Outcome]*atomic.Uint64{fusebox.Success: &success, fusebox.Failure: &failure, fusebox.Ignored: &ignored}
			finish := func(p *fusebox.Permit, o fusebox.Outcome) {
				if p.Record(o) {
					counters[o].Add(1)
				} else {
					late.Add(1)
				}
				if p.Record(o) || p.Finish(context.Background(), nil) {
					t.Error("accepted twice")
				}
			}
			var callers sync.WaitGroup
			for w := range 8 {
				callers.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(w)))
					var held []*fusebox.Permit
					for range 2000 {
						if random.IntN(20) == 0 {
							l.clock.Advance(time.Duration(random.Int64N(int64(time.Second))))
						}
						if random.IntN(500) == 0 {
							l.Reset(fusebox.Note{})
						}
						if len(held) > 0 && random.IntN(3) == 0 {
							i := random.IntN(len(held))
							finish(held[i], fusebox.Outcome(random.IntN(3)))
							held = slices.Delete(held, i, i+1)
						}
						p, err := l.Allow(context.Background())
						switch {
						case errors.Is(err, fusebox.ErrProbing):
							probing.Add(1)
						case err != nil:
							open.Add(1)
						case random.IntN(10) == 0:
							kept := p.Take()
							held = append(held, &kept)
						case random.IntN(10) == 0:
							p.Cancel()
						default:
							finish(&p, fusebox.Outcome(random.IntN(3)))
						}
					}
					for _, p := range held {
						finish(p, fusebox.Success)
					}
				})
			}
			callers.Wait()
			n := l.Snapshot().Totals
			got := []uint64{n.Successes, n.Failures, n.Ignored, n.Late, n.RejectedOpen, n.RejectedProbing}
			want := []uint64{success.Load(), failure.Load(), ignored.Load(), late.Load(), open.Load(), probing.Load()}
			if !slices.Equal(got, want) {
				t.Errorf("success, failure, ignored, late, rejected open and probing are %v, the callers saw %v", got, want)
			}
			if slices.Contains(want, 0) {
				t.Logf("not everything happened: %v", want)
			}
		})
	}
}

// TestC164TheLockFreePathCountsRight counts what many callers do at a time
// again, and holds that a call allocates nothing however long the window is.
func TestC164TheLockFreePathCountsRight(t *testing.T) {
	const workers, each = 8, 20_000
	for _, config := range []string{"ratio=1 window=10s", "ratio=1 window=3600s buckets=3600"} {
		l := newCase(t, config)
		var failures, outcomes atomic.Int64
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for i := range each {
					o := fusebox.Success
					if i%(w+50) == 49 {
						o = fusebox.Failure
						failures.Add(1)
					}
					p, err := l.Allow(context.Background())
					if err == nil && p.Record(o) {
						outcomes.Add(1)
					}
				}
			})
		}
		all.Wait()
		s := l.Snapshot()
		if outcomes.Load() != workers*each || s.Counts.Calls != workers*each || s.Counts.Failures != int(failures.Load()) {
			t.Errorf("%s: %+v counted, of %d calls with %d failures", config, s.Counts, workers*each, failures.Load())
		}
		if n := s.Totals; n.Successes != uint64(outcomes.Load()-failures.Load()) || n.Failures != uint64(failures.Load()) {
			t.Errorf("%s: totals are %+v", config, n)
		}
		ctx := context.Background()
		if n := testing.AllocsPerRun(1000, func() {
			p, _ := l.Allow(ctx)
			p.Record(fusebox.Success)
		}); n != 0 {
			t.Errorf("%s: a call allocates %v times", config, n)
		}
	}
}

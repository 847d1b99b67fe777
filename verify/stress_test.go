package verify

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// wide runs a test on more threads than there may be cores, so that goroutines
// are preempted in the middle of what they do.
func wide(t *testing.T) {
	old := runtime.GOMAXPROCS(8)
	t.Cleanup(func() { runtime.GOMAXPROCS(old) })
}

// atomicClock is read by many goroutines.
type atomicClock struct{ at atomic.Int64 }

func (c *atomicClock) now() time.Time          { return epoch.Add(time.Duration(c.at.Load())) }
func (c *atomicClock) advance(d time.Duration) { c.at.Add(int64(d)) }

// chain checks records as they are delivered.
type chain struct {
	busy     atomic.Int32
	last     fusebox.Transition
	all      []fusebox.Transition
	halfOpen atomic.Int64
	wrong    []string
}

func (c *chain) observe(t fusebox.Transition) {
	if c.busy.Add(1) != 1 {
		panic("two records are delivered at a time")
	}
	defer c.busy.Add(-1)
	complain := func(what string) { c.wrong = append(c.wrong, what+": "+c.last.String()+" then "+t.String()) }
	if t.From != c.last.To {
		complain("records do not chain")
	}
	began := uint64(0)
	if t.From != t.To || t.Cause == fusebox.CauseReset {
		began = 1
	}
	if t.Generation != c.last.Generation+began {
		complain("a generation is missing, or twice")
	}
	if t.At.Before(c.last.At) {
		complain("records out of order")
	}
	if !legal(t) {
		complain("no such transition")
	}
	c.last = t
	c.all = append(c.all, t)
	if t.To == fusebox.HalfOpen && t.From != t.To {
		c.halfOpen.Add(1)
	}
}

// legal reports whether a cause can make a transition.
func legal(t fusebox.Transition) bool {
	const closed, halfOpen, open = fusebox.Closed, fusebox.HalfOpen, fusebox.Open
	is := func(from, to fusebox.State) bool { return t.From == from && t.To == to }
	switch t.Cause {
	case fusebox.CauseFailureRate, fusebox.CauseSlowRate, fusebox.CauseConsecutive, fusebox.CauseTripWhen:
		return is(closed, open)
	case fusebox.CauseDeadline:
		return is(open, halfOpen)
	case fusebox.CauseProbeFailed, fusebox.CauseProbeExpired:
		return is(halfOpen, open)
	case fusebox.CauseProbesSucceeded:
		return is(halfOpen, closed)
	case fusebox.CauseReset:
		return t.To == closed
	case fusebox.CauseReconfigured:
		return t.From == t.To
	case fusebox.CauseOverrideEnded, fusebox.CauseLift:
		return t.From == t.To || is(open, halfOpen)
	case fusebox.CauseOverride:
		return t.From == t.To || t.To != halfOpen || t.From == open
	default:
		return false
	}
}

func (c *chain) verify(t *testing.T, b *fusebox.Breaker) {
	t.Helper()
	for _, w := range c.wrong[:min(3, len(c.wrong))] {
		t.Error(w)
	}
	s := b.Snapshot()
	if c.last != s.Last {
		t.Errorf("the last record delivered is %v, want %v", c.last, s.Last)
	}
	if h := b.History(); !slices.Equal(h, c.all[max(0, len(c.all)-16):]) {
		t.Errorf("History is %v, want the end of what was delivered, %v", h, c.all[max(0, len(c.all)-16):])
	}
	var n uint64
	for _, x := range s.Totals.Transitions {
		n += x.Count
	}
	if n != uint64(len(c.all)) {
		t.Errorf("%d records delivered, want %d", len(c.all), n)
	}
}

// outstanding counts, by generation, the probes known to be out.
type outstanding struct {
	slots [1 << 16]atomic.Int64
	seen  atomic.Int64
	most  atomic.Int64
}

// enter counts a call if it is known to be a probe: if the same half-open
// period was in force before it was admitted and after. leave is to be called
// before it ends.
func (o *outstanding) enter(before, now fusebox.Snapshot) (leave func()) {
	if now.State != fusebox.HalfOpen || now.State != before.State || now.Generation != before.Generation {
		return func() {}
	}
	o.seen.Add(1)
	slot := &o.slots[now.Generation%uint64(len(o.slots))]
	n := slot.Add(1)
	for m := o.most.Load(); n > m && !o.most.CompareAndSwap(m, n); {
		m = o.most.Load()
	}
	return func() { slot.Add(-1) }
}

// TestTenThousandHalfOpenPeriods has many goroutines fight for probes.
func TestTenThousandHalfOpenPeriods(t *testing.T) {
	for _, tt := range []struct {
		name    string
		meddle  bool // overrides, resets, reconfigurations
		periods int64
	}{
		{"left alone", false, 10_000},
		{"while an operator meddles", true, 3_000},
	} {
		t.Run(tt.name, func(t *testing.T) { fight(t, tt.meddle, tt.periods) })
	}
}

func fight(t *testing.T, meddle bool, periods int64) {
	wide(t)
	const probes = 3
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var clock atomicClock
	var c chain
	var probing outstanding
	config := fusebox.Config{
		Now: clock.now, MinCalls: 2, Consecutive: 3, OpenFor: time.Millisecond, OpenForMax: time.Millisecond, OpenJitter: -1,
		Probes: probes, CloseAfter: 3, ReopenAfter: 3, ProbeTimeout: time.Hour,
		Observers: []fusebox.Observer{{Transition: c.observe}},
	}
	b := fusebox.New("stress", config)

	var admitted, rejected atomic.Int64
	call := func(rnd *rand.Rand, n int) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if rnd.IntN(16) == 0 {
			cancel()
		}
		defer func() {
			if p := recover(); p != nil && p != "boom" {
				panic(p)
			}
		}()
		var before fusebox.Snapshot
		if rnd.IntN(4) == 0 && b.State() == fusebox.HalfOpen { // a Snapshot takes its time
			before = b.Snapshot()
		}
		err := b.Do(ctx, func(context.Context) error {
			admitted.Add(1)
			if before.State == fusebox.HalfOpen {
				defer probing.enter(before, b.Snapshot())()
			}
			if n%3 == 0 {
				runtime.Gosched()
			}
			switch {
			case n < 5:
				panic("boom")
			case n < 7:
				runtime.Goexit()
			case n < 12:
				cancel()
				return context.Canceled
			case n < 45:
				return errDown
			}
			return nil
		})
		if _, ok := fusebox.Rejected(err); ok {
			rejected.Add(1)
			runtime.Gosched() // to those that are probing
		}
	}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(g)))
			for c.halfOpen.Load() < periods {
				if n := rnd.IntN(100); n != 5 && n != 6 {
					call(rnd, n)
				} else { // it ends its goroutine
					done := make(chan struct{})
					go func() {
						defer close(done)
						call(rnd, n)
					}()
					<-done
				}
				if rnd.IntN(4) == 0 {
					clock.advance(time.Millisecond / 4)
				}
				if meddle && rnd.IntN(50) == 0 {
					operator(b, config, rnd)
				}
			}
		})
	}
	wg.Wait()
	s := b.Snapshot()
	total := s.Totals
	if n := total.Successes + total.Failures + total.Ignored + total.Late; n != uint64(admitted.Load()) {
		t.Errorf("%d calls ended in the totals, want the %d that were made: %+v", n, admitted.Load(), total)
	}
	if n := total.RejectedOpen + total.RejectedProbing; n != uint64(rejected.Load()) {
		t.Errorf("%d rejections in the totals, want %d", n, rejected.Load())
	}
	if n := total.Probes.Succeeded + total.Probes.Failed + total.Probes.Ignored; n < uint64(c.halfOpen.Load())/2 && !meddle {
		t.Errorf("%d probes ended in %d half-open periods", n, c.halfOpen.Load())
	}
	if total.Panics != 0 {
		t.Errorf("observers panicked %d times: two at a time", total.Panics)
	}
	if s.Outstanding != 0 {
		t.Errorf("%d probes outstanding after all calls have ended", s.Outstanding)
	}
	if n := probing.most.Load(); n > probes {
		t.Errorf("%d probes outstanding at a time, want at most %d", n, probes)
	}
	if probing.seen.Load() == 0 {
		t.Error("no call was known to be a probe")
	}
	c.verify(t, b)
	t.Logf("%d calls, %d rejected, %d late, %d known probes, at most %d at a time",
		admitted.Load(), rejected.Load(), total.Late, probing.seen.Load(), probing.most.Load())
}

// operator does what an operator might.
func operator(b *fusebox.Breaker, c fusebox.Config, rnd *rand.Rand) {
	n := fusebox.Note{By: "operator"}
	switch rnd.IntN(6) {
	case 0:
		b.Override(fusebox.ForceOpen, n)
		b.Lift(n)
	case 1:
		b.Override(fusebox.ForceClosed, n)
		b.Lift(n)
	case 2:
		b.Reset(n)
	case 3:
		c.OpenForMax += time.Duration(rnd.IntN(3)) * time.Millisecond
		c.Probes = 1 + rnd.IntN(3)
		c.Window = time.Duration(1+rnd.IntN(3)) * time.Second
		b.Reconfigure(c)
	case 4:
		n.Until = epoch.Add(time.Hour)
		b.Override(fusebox.ForceOpen, n)
		b.Override(fusebox.Enforce, n)
		b.Lift(n)
	default:
		b.Lift(n)
	}
}

// TestNoSuccessIsLost drives successes from many goroutines through trips and
// closes: each that was accepted is in the totals, once, and each Snapshot
// shows those that had ended before it.
func TestNoSuccessIsLost(t *testing.T) {
	wide(t)
	const workers, calls = 64, 10_000
	var clock atomicClock
	var ticks atomic.Uint64
	b := fusebox.New("stress", fusebox.Config{
		// A goroutine that reads the clock is about to count: let others in.
		Now: func() time.Time {
			if ticks.Add(1)%3 == 0 {
				runtime.Gosched()
			}
			return clock.now()
		},
		Window: time.Hour, Buckets: 3600, MinCalls: 1, FailureRate: 1e-9, Consecutive: -1,
		OpenFor: time.Nanosecond, OpenForMax: time.Nanosecond, OpenJitter: -1, CloseAfter: 1, ProbeTimeout: time.Hour,
	})
	var begun, accepted, failed, late atomic.Uint64
	var stop atomic.Bool
	var readers, wg sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var last uint64
			for !stop.Load() {
				least := accepted.Load()
				n := b.Snapshot().Totals.Successes
				if most := begun.Load(); n < least || n > most || n < last {
					t.Errorf("a Snapshot has %d successes, want %d to %d, and no less than the %d before", n, least, most, last)
					return
				}
				last = n
				runtime.Gosched()
			}
		})
	}
	for g := range workers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(11, uint64(g)))
			for range calls {
				p, err := b.Allow(context.Background())
				if err != nil {
					clock.advance(1)
					runtime.Gosched()
					continue
				}
				if rnd.IntN(400) == 0 {
					if p.Record(fusebox.Failure) {
						failed.Add(1)
					} else {
						late.Add(1)
					}
					continue
				}
				begun.Add(1)
				if p.Record(fusebox.Success) {
					accepted.Add(1)
				} else {
					late.Add(1)
				}
			}
		})
	}
	wg.Wait()
	stop.Store(true)
	readers.Wait()
	total := b.Snapshot().Totals
	if total.Successes != accepted.Load() || total.Failures != failed.Load() || total.Late != late.Load() {
		t.Errorf("totals %+v, want %d successes, %d failures, %d late", total, accepted.Load(), failed.Load(), late.Load())
	}
	if b.Snapshot().Generation < 20 {
		t.Errorf("the breaker tripped too rarely: generation %d", b.Snapshot().Generation)
	}
}

// TestWindowCountsEverySuccess fills one window from many goroutines while
// buckets end.
func TestWindowCountsEverySuccess(t *testing.T) {
	wide(t)
	const workers, calls = 64, 5_000
	var clock atomicClock
	var ticks atomic.Uint64
	b := fusebox.New("stress", fusebox.Config{
		Now: func() time.Time {
			if n := ticks.Add(1); n%3 == 0 {
				runtime.Gosched()
				if n%999 == 0 {
					clock.advance(time.Second)
				}
			}
			return clock.now()
		},
		Window: 1000 * time.Second, Buckets: 1000, FailureRate: -1, Consecutive: -1,
	})
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range calls {
				p, _ := b.Allow(context.Background())
				if i%100 == 99 {
					p.Record(fusebox.Failure)
				} else {
					p.Record(fusebox.Success)
				}
			}
		})
	}
	wg.Wait()
	clock.advance(0)
	c := b.Snapshot().Counts
	if c.Calls != workers*calls || c.Failures != workers*calls/100 {
		t.Errorf("the window has %d calls, %d failed, want %d, %d", c.Calls, c.Failures, workers*calls, workers*calls/100)
	}
	clock.advance(1001 * time.Second)
	if c := b.Snapshot().Counts; c.Calls != 0 {
		t.Errorf("the window has %d calls after its span, want 0", c.Calls)
	}
}

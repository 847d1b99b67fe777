package lab

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/sim"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/theory"
)

// walk is the way of a breaker from open to closed, with calls at every tick
// that take no time: what theory.Recovery is about, made with a breaker.
//
// The breaker trips with the first failure; its first open period is openFor.
// Calls that an open breaker rejects change nothing: those before the
// end of the open period are counted, not made.
type walk struct {
	tick, openFor time.Duration
	ticks         int  // the last one
	opened        bool // the breaker trips at tick 0; else its open period ends there
	recovery      int  // tick from which on a rejected call is one rejected in vain
	success       func(tick int) bool
	// skip is how many calls are not made after a reopening, for a breaker
	// that would reject them but does not say so by RetryAfter.
	skip int
}

// walked is what became of a walk.
type walked struct {
	closed     int // at which tick; -1: not within the ticks
	reopenings int
	failures   int // of probes
	rejected   int // calls rejected after the recovery
}

// run makes the walk with a breaker that trips with the first failure.
func (w walk) run(ctx context.Context, l *sim.Loop, b sim.Breaker) (walked, error) {
	out := walked{closed: -1}
	start := l.Elapsed()
	done, _ := b.Allow()
	done(false)
	if !w.opened {
		start += w.openFor
	}
	for i := 0; i <= w.ticks; i++ {
		if err := l.Run(ctx, start+time.Duration(i)*w.tick); err != nil {
			return out, err
		}
		done, v := b.Allow()
		if v != sim.Admitted {
			wait := max(1, ceilDiv(b.RetryAfter(), w.tick))
			out.rejected += max(0, min(i+wait, w.ticks+1)-max(i, w.recovery))
			i += wait - 1
			continue
		}
		if w.success(i) {
			done(true)
			if b.State() == fusebox.Closed {
				out.closed = i
				return out, nil
			}
			continue
		}
		done(false)
		out.failures++
		if b.State() == fusebox.Open {
			out.reopenings++
			i += w.skip
		}
	}
	return out, nil
}

func ceilDiv(a, b time.Duration) int { return int((a + b - 1) / b) }

// fusebox makes the walk with one of this project's breakers.
func (w walk) fusebox(ctx context.Context, c fusebox.Config) (walked, error) {
	c.FailureRate, c.Consecutive = -1, 1
	l := sim.Virtual()
	return w.run(ctx, l, sim.Fusebox(l, c, nil))
}

// sample is what many walks came to.
type sample struct {
	closed               []int // ticks, sorted; those that never closed last, as never
	reopenings, failures mean
	rejected             mean
}

const never = math.MaxInt

func (s *sample) add(w walked) {
	at := w.closed
	if at < 0 {
		at = never
	}
	s.closed = append(s.closed, at)
	s.reopenings.add(float64(w.reopenings))
	s.failures.add(float64(w.failures))
	s.rejected.add(float64(w.rejected))
}

// quantile returns the tick up to which a share p has closed; never, if so.
func (s *sample) quantile(p float64) int {
	if !slices.IsSorted(s.closed) {
		slices.Sort(s.closed)
	}
	return s.closed[max(0, int(math.Ceil(p*float64(len(s.closed))))-1)]
}

// within returns the share that has closed up to a tick.
func (s *sample) within(tick int) float64 {
	n := 0
	for _, c := range s.closed {
		if c <= tick {
			n++
		}
	}
	return float64(n) / float64(len(s.closed))
}

// check compares the share that has closed up to a tick with what theory says.
func (s *sample) check(r *report.Report, name string, exact theory.Outcome, tick int) (distance float64) {
	p := exact.CDF(tick)
	return r.Statistical(name, s.within(tick), p, math.Sqrt(max(0, p*(1-p))/float64(len(s.closed))), 1/float64(len(s.closed)))
}

// mean adds up numbers.
type mean struct {
	n   int
	sum float64
}

func (m *mean) add(x float64) { m.n, m.sum = m.n+1, m.sum+x }

func (m *mean) value() float64 {
	if m.n == 0 {
		return 0
	}
	return m.sum / float64(m.n)
}

// check compares the mean with what theory says of it.
func (m *mean) check(r *report.Report, name string, exact theory.Moments) (distance float64) {
	return r.Statistical(name, m.value(), exact.Mean, math.Sqrt(max(0, exact.Variance)/float64(m.n)), 1/float64(m.n))
}

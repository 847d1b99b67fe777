package fusebox_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Open.

func TestOpenRejectsBeforeTheDeadline(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.advance(time.Second - 1)
	if err := l.refuse(); errors.Is(err, fusebox.ErrProbing) || err.State() != fusebox.Open {
		t.Errorf("rejected with %v (%v)", err, err.State())
	}
	if got := l.Snapshot().Totals; got.RejectedOpen != 1 || got.RejectedProbing != 0 {
		t.Errorf("%d rejected open and %d probing, want 1 and 0", got.RejectedOpen, got.RejectedProbing)
	}
	l.want(fusebox.Open)
}

func TestACallAtTheDeadlineIsTheFirstProbe(t *testing.T) {
	for _, after := range []time.Duration{0, 1, time.Hour} {
		l := newCellLab(t)
		l.trip()
		l.delivered()
		g := l.generation()
		l.advance(time.Second + after)
		p := l.allow()
		r := l.wantRecord(fusebox.Open, fusebox.HalfOpen, fusebox.CauseDeadline)
		if !r.At.Equal(l.time()) || !r.Until.IsZero() {
			t.Errorf("at %v until %v, want %v and zero", r.At, r.Until, l.time())
		}
		s := l.Snapshot()
		if s.Generation != g+1 || s.Outstanding != 1 || s.State != fusebox.HalfOpen {
			t.Errorf("generation %d, %d outstanding, %v; want %d, 1, half-open", s.Generation, s.Outstanding, s.State, g+1)
		}
		if s.Totals.Open != time.Second {
			t.Errorf("open for %v in all, want 1s", s.Totals.Open)
		}
		p.Cancel()
	}
}

// Growth.

func TestEveryReopeningDoublesTheOpenPeriodUpToTheMaximum(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	for _, want := range []time.Duration{1, 2, 4, 4, 4} {
		l.wantOpenFor(want * time.Second)
		p := l.probe()
		p.Record(fusebox.Failure)
	}
}

func TestAConstantOpenPeriodDoesNotGrow(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = 7*time.Second, 7*time.Second })
	l.trip()
	for range 5 {
		l.wantOpenFor(7 * time.Second)
		p := l.probe()
		p.Record(fusebox.Failure)
	}
}

// What could not grow any more is not remembered: once there is room again, the
// period goes on from where it stood.
func TestReopeningsAtTheMaximumDoNotCountAsGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		max, from, then time.Duration
		change          func(*fusebox.Config)
	}{
		"a higher maximum":  {2 * time.Second, 2 * time.Second, 4 * time.Second, func(c *fusebox.Config) { c.OpenForMax = time.Hour }},
		"a shorter OpenFor": {time.Second, time.Second, 200 * time.Millisecond, func(c *fusebox.Config) { c.OpenFor = 100 * time.Millisecond }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t, func(x *fusebox.Config) { x.OpenForMax = c.max })
			l.trip()
			for range 5 {
				p := l.probe()
				p.Record(fusebox.Failure)
				l.wantOpenFor(c.from)
			}
			p := l.probe()
			l.change(c.change)
			p.Record(fusebox.Failure)
			l.wantOpenFor(c.then)
		})
	}
}

func TestTheOpenPeriodIsScaledByTheJitterDrawn(t *testing.T) {
	draws := []float64{0, 0.5, 0.75, 0.25}
	l := newCellLab(t, func(c *fusebox.Config) {
		c.OpenFor, c.OpenForMax, c.OpenJitter = 10*time.Second, 10*time.Second, 0.2
		c.Rand = func() float64 {
			d := draws[0]
			draws = append(draws[1:], d)
			return d
		}
	})
	l.trip()
	for _, want := range []time.Duration{8000, 10000, 11000, 9000} {
		l.wantOpenFor(want * time.Millisecond)
		p := l.probe()
		p.Record(fusebox.Failure)
	}
}

func TestARandThatIsNoneIsReplaced(t *testing.T) {
	panics := false
	for name, random := range map[string]func() float64{
		"NaN":       math.NaN,
		"above one": func() float64 { return 2 },
		"one":       func() float64 { return 1 },
		"negative":  func() float64 { return -1 },
		"panics": func() float64 {
			if panics {
				panic("no entropy")
			}
			return 0.5
		},
	} {
		t.Run(name, func(t *testing.T) {
			panics = false
			l := newCellLab(t, func(c *fusebox.Config) {
				c.OpenFor, c.OpenForMax, c.OpenJitter, c.Rand = 10*time.Second, 10*time.Second, 0.2, random
			})
			panics = true
			l.trip()
			for range 10 {
				if got := l.Snapshot().OpenPeriod; got < 8*time.Second || got > 12*time.Second {
					t.Fatalf("open period %v, want 8s to 12s", got)
				}
				p := l.probe()
				p.Record(fusebox.Failure)
			}
			if got := l.Snapshot().Totals.Panics; (got > 0) != (name == "panics") {
				t.Errorf("%d panics counted", got)
			}
		})
	}
}

func TestATripSoonAfterTheCloseGoesOnWithThePeriodLastUsed(t *testing.T) {
	for name, c := range map[string]struct {
		stableAfter, closed, want time.Duration
	}{
		"at once":           {0, 0, 2 * time.Second},
		"at the last":       {0, 10 * time.Second, 2 * time.Second},
		"later":             {0, 10*time.Second + 1, time.Second},
		"within a long one": {time.Hour, time.Hour, 2 * time.Second},
		"negative":          {-1, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t, func(x *fusebox.Config) { x.StableAfter = c.stableAfter })
			l.trip()
			p := l.probe()
			p.Record(fusebox.Failure)
			l.wantOpenFor(2 * time.Second)
			p = l.probe()
			p.Record(fusebox.Success)
			l.succeed(2)
			l.want(fusebox.Closed)
			l.advance(c.closed)
			l.trip()
			l.wantOpenFor(c.want)
			p = l.probe()
			p.Record(fusebox.Failure)
			l.wantOpenFor(2 * c.want)
		})
	}
}

func TestHugeDurationsSaturate(t *testing.T) {
	t.Run("OpenFor", func(t *testing.T) {
		for _, jitter := range []float64{-1, 1} {
			l := newCellLab(t, func(c *fusebox.Config) {
				c.OpenFor, c.OpenJitter = math.MaxInt64-1, jitter
				c.Rand = func() float64 { return 0.999 }
			})
			l.advance(time.Hour)
			l.trip()
			l.advance(100 * 365 * 24 * time.Hour)
			l.want(fusebox.Open)
			if got := l.refuse().RetryAfter(); got < 0 {
				t.Errorf("retry after %v", got)
			}
			if s := l.Snapshot(); s.Totals.Open < 0 || s.OpenPeriod < 0 {
				t.Errorf("negative durations in %+v", s)
			}
		}
	})
	t.Run("growth", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = 1, math.MaxInt64 })
		l.trip()
		for range 62 {
			before := l.Snapshot().OpenPeriod
			p := l.probe()
			p.Record(fusebox.Failure)
			l.want(fusebox.Open)
			if after := l.Snapshot().OpenPeriod; after != 0 && after < before {
				t.Fatalf("open period went from %v to %v", before, after)
			} else if after == 0 {
				break // without end
			}
		}
		l.refuse()
	})
	t.Run("growth from half the maximum", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = math.MaxInt64/2+10, math.MaxInt64 })
		l.trip()
		l.Override(fusebox.ForceOpen, fusebox.Note{})
		l.Lift(fusebox.Note{})
		l.fail(1)
		l.want(fusebox.Open)
		l.refuse()
	})
	t.Run("ProbeTimeout", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.ProbeTimeout = math.MaxInt64 })
		l.trip()
		p := l.probe()
		l.advance(100 * 365 * 24 * time.Hour)
		l.want(fusebox.HalfOpen)
		p.Renew()
		if !p.Record(fusebox.Success) {
			t.Error("the lease ended")
		}
	})
	t.Run("SlowAfter and StableAfter", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.SlowAfter, c.StableAfter = math.MaxInt64, math.MaxInt64 })
		l.take(time.Hour, fusebox.Success)
		l.wantCounts(fusebox.Counts{Calls: 1})
		l.trip()
	})
	t.Run("Until", func(t *testing.T) {
		l := newCellLab(t)
		l.Override(fusebox.ForceOpen, fusebox.Note{Until: cellEpoch.AddDate(5000, 0, 0)})
		l.advance(time.Hour)
		l.refuse()
	})
}

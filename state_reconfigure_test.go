package fusebox_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Reconfigure.

func TestReconfigureKeepsStateGenerationWindowAndRun(t *testing.T) {
	l := newCellLab(t)
	p := l.allow()
	l.succeed(2)
	l.fail(2)
	g := l.generation()
	l.change(func(c *fusebox.Config) { c.Consecutive = 4 })
	if r := l.wantRecord(fusebox.Closed, fusebox.Closed, fusebox.CauseReconfigured); r.Generation != g {
		t.Errorf("generation %d, want %d", r.Generation, g)
	}
	l.wantCounts(fusebox.Counts{Calls: 4, Failures: 2, Consecutive: 2})
	if !p.Record(fusebox.Failure) {
		t.Error("a permit of the same generation was late")
	}
	l.want(fusebox.Closed)
	l.fail(1)
	l.want(fusebox.Open)
}

func TestReconfigureToAnotherWindowEmptiesItButNotTheRun(t *testing.T) {
	for name, change := range map[string]func(*fusebox.Config){
		"Window":      func(c *fusebox.Config) { c.Window = time.Minute },
		"Buckets":     func(c *fusebox.Config) { c.Buckets = 5 },
		"WindowCalls": func(c *fusebox.Config) { c.WindowCalls = 50 },
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t)
			l.succeed(5)
			l.fail(2)
			l.change(change)
			l.wantCounts(fusebox.Counts{Consecutive: 2})
			l.fail(1)
			l.want(fusebox.Open)
		})
	}
	t.Run("successes after it count", func(t *testing.T) {
		l := newCellLab(t)
		l.succeed(5)
		l.change(func(c *fusebox.Config) { c.WindowCalls = 50 })
		l.succeed(2)
		l.wantCounts(fusebox.Counts{Calls: 2})
		l.change(func(c *fusebox.Config) { c.WindowCalls = 0 })
		l.succeed(3)
		l.wantCounts(fusebox.Counts{Calls: 3})
		if got := l.Snapshot().Totals.Successes; got != 10 {
			t.Errorf("%d successes in all, want 10", got)
		}
	})
}

func TestReconfigureBringsTheDeadlineNearerAndNeverOut(t *testing.T) {
	t.Run("nearer", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor = time.Minute })
		l.trip()
		l.advance(time.Second)
		l.change(func(c *fusebox.Config) { c.OpenFor = 5 * time.Second })
		l.wantOpenFor(5 * time.Second)
		l.advance(4*time.Second - 1)
		l.refuse()
		l.advance(1)
		p := l.allow()
		p.Cancel()
	})
	t.Run("not out", func(t *testing.T) {
		l := newCellLab(t)
		l.trip()
		l.change(func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = time.Minute, time.Hour })
		l.wantOpenFor(time.Second)
	})
	t.Run("with the draw of the period", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) {
			c.OpenFor, c.OpenJitter = time.Minute, 0.5
			c.Rand = func() float64 { return 0.25 } // 0.75 of it
		})
		l.trip()
		l.wantOpenFor(45 * time.Second)
		l.change(func(c *fusebox.Config) { c.OpenFor = 40 * time.Second })
		l.wantOpenFor(30 * time.Second)
	})
	t.Run("with the growth of the period", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = 10*time.Second, time.Hour })
		l.trip()
		p := l.probe()
		p.Record(fusebox.Failure)
		l.wantOpenFor(20 * time.Second)
		l.change(func(c *fusebox.Config) { c.OpenFor = 3 * time.Second })
		l.wantOpenFor(6 * time.Second)
	})
	t.Run("to the past", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor = time.Minute })
		l.trip()
		l.advance(10 * time.Second)
		l.change(func(c *fusebox.Config) { c.OpenFor = time.Second })
		l.want(fusebox.HalfOpen)
		p := l.allow()
		p.Cancel()
	})
	t.Run("from an open period without end", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor = math.MaxInt64 })
		l.trip()
		l.advance(time.Hour)
		l.refuse()
		l.change(func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = time.Second, time.Second })
		p := l.allow()
		p.Cancel()
	})
	t.Run("not of a forced one", func(t *testing.T) {
		l := newCellLab(t)
		l.Override(fusebox.ForceOpen, fusebox.Note{})
		l.change(func(c *fusebox.Config) { c.OpenFor = time.Millisecond })
		l.advance(time.Hour)
		l.refuse()
	})
}

func TestReconfigureBringsTheEndOfALeaseNearerAndNeverOut(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	l.change(func(c *fusebox.Config) { c.ProbeTimeout = time.Hour })
	l.advance(10 * time.Second)
	l.want(fusebox.HalfOpen)
	l.change(func(c *fusebox.Config) { c.ProbeTimeout = 11 * time.Second })
	l.advance(time.Second)
	l.want(fusebox.Open)
	if p.Record(fusebox.Success) {
		t.Error("accepted after the end of its lease")
	}

	l = newCellLab(t)
	l.trip()
	p = l.probe()
	l.change(func(c *fusebox.Config) { c.ProbeTimeout = time.Hour })
	l.advance(30 * time.Second)
	l.want(fusebox.Open)
}

func TestLimitsLoweredInHalfOpenDoNotWedge(t *testing.T) {
	t.Run("CloseAfter below the successes so far", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.CloseAfter = 10 })
		l.trip()
		p := l.probe()
		p.Record(fusebox.Success)
		l.succeed(3)
		l.change(func(c *fusebox.Config) { c.CloseAfter = 2 })
		l.want(fusebox.HalfOpen)
		q := l.allow()
		l.refuse()
		q.Record(fusebox.Success)
		l.want(fusebox.Closed)
	})
	t.Run("ReopenAfter below the failures so far", func(t *testing.T) {
		l := newCellLab(t, func(c *fusebox.Config) { c.CloseAfter, c.ReopenAfter = 10, 5 })
		l.trip()
		p := l.probe()
		p.Record(fusebox.Failure)
		l.fail(3)
		l.change(func(c *fusebox.Config) { c.CloseAfter, c.ReopenAfter = 1, 1 })
		l.want(fusebox.HalfOpen)
		l.fail(1)
		l.want(fusebox.Open)
	})
	t.Run("Probes below those outstanding", func(t *testing.T) {
		l := newCellLab(t)
		l.trip()
		a := l.probe()
		b, c := l.allow(), l.allow()
		l.change(func(c *fusebox.Config) { c.Probes = 1 })
		l.refuse()
		a.Record(fusebox.Success)
		l.refuse()
		b.Record(fusebox.Success)
		c.Record(fusebox.Success)
		l.want(fusebox.Closed)
	})
}

func TestReconfigureWithAnInvalidConfigChangesNothing(t *testing.T) {
	l := newCellLab(t)
	before := l.Config()
	err := l.Reconfigure(fusebox.Config{Probes: -1, FailureRate: 2})
	var field *fusebox.ConfigError
	if !errors.As(err, &field) {
		t.Fatalf("Reconfigure = %v, want a *ConfigError", err)
	}
	if after := l.Config(); after.Probes != before.Probes || after.FailureRate != before.FailureRate {
		t.Errorf("the settings changed")
	}
	if r := l.delivered(); len(r) != 0 {
		t.Errorf("records %v, want none", r)
	}
}

func TestReconfigureKeepsClockDrawAndObservers(t *testing.T) {
	l := newCellLab(t)
	if err := l.Reconfigure(fusebox.Config{Consecutive: 3, OpenJitter: -1}); err != nil {
		t.Fatal(err)
	}
	l.wantRecord(fusebox.Closed, fusebox.Closed, fusebox.CauseReconfigured)
	l.trip()
	if r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseConsecutive); !r.At.Equal(cellEpoch) {
		t.Errorf("at %v, want %v", r.At, cellEpoch)
	}
}

func TestReconfigureOfTheModeYieldsToAnOverride(t *testing.T) {
	l := newCellLab(t)
	l.Override(fusebox.Shadow, fusebox.Note{})
	l.change(func(c *fusebox.Config) { c.Mode = fusebox.Off })
	if got := l.Snapshot().Mode; got != fusebox.Shadow {
		t.Errorf("mode %v, want shadow", got)
	}
	l.Lift(fusebox.Note{})
	if got := l.Snapshot().Mode; got != fusebox.Off {
		t.Errorf("mode %v, want off", got)
	}
}

func TestReconfigureToOffClosesAnOpenBreaker(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.delivered()
	l.change(func(c *fusebox.Config) { c.Mode = fusebox.Off })
	l.wantRecord(fusebox.Open, fusebox.Closed, fusebox.CauseReconfigured)
	l.fail(5)
}

package fusebox_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Deadlines, steps of the wall clock, and growth of the open period.

func TestC25TheCallThatEndsTheOpenPeriodIsAProbe(t *testing.T) {
	for _, period := range []time.Duration{1, time.Millisecond, time.Second, 120 * time.Second, 1000 * time.Hour} {
		l := newCase(t, "consec=1 openfor="+period.String())
		for range 20 {
			l.calls(1, errCase)
			l.clock.Advance(period - 1)
			l.refused()
			l.clock.Advance(1)
			l.calls(1, errCase) // reopens
			l.clock.Advance(period)
			l.calls(1, nil)
			l.want(fusebox.Closed)
		}
	}
}

// TestC49StepsOfTheWallClock sets a clock without a monotonic part back and
// forth in every state.
func TestC49StepsOfTheWallClock(t *testing.T) {
	for _, back := range []time.Duration{time.Nanosecond, time.Second, time.Hour, 50 * 365 * 24 * time.Hour} {
		l := newCase(t, "consec=2 window=10s openfor=10s probes=1 ttl=30s")
		l.clock.Advance(100 * time.Second)
		l.calls(1, errCase)
		l.clock.Advance(-back)
		l.calls(1, nil) // counted, and ends the run
		l.wantCounts(fusebox.Counts{Calls: 2, Failures: 1})
		l.calls(2, errCase)
		l.want(fusebox.Open)
		if wait := l.refused().RetryAfter(); wait != 10*time.Second {
			t.Errorf("back by %v: RetryAfter is %v, want 10s", back, wait)
		}
		l.clock.Advance(-back)
		if wait := l.refused().RetryAfter(); wait != 10*time.Second {
			t.Errorf("back by twice %v: RetryAfter is %v, want 10s", back, wait)
		}
		if text := l.refused().Error(); !strings.Contains(text, "retry in 10s") {
			t.Errorf("back by %v: text is %s", back, text)
		}
		l.clock.Set(l.Snapshot().Until)
		p := l.allow()
		l.clock.Advance(-back)
		l.want(fusebox.HalfOpen)
		l.refused()
		if !p.Record(fusebox.Success) {
			t.Errorf("back by %v: the probe was late", back)
		}
		l.want(fusebox.Closed)
		for _, r := range l.History() {
			if r.At.Before(l.History()[0].At) {
				t.Errorf("record %v is earlier than the first", r)
			}
		}
	}
}

func TestC150GrowthStopsAtTheMaximum(t *testing.T) {
	l := newCase(t, "consec=1 openfor=2s mult=2 maxopen=7s")
	l.calls(1, errCase)
	for i := range 100 {
		want := []time.Duration{2, 4, 7}[min(i, 2)] * time.Second
		if got := l.Snapshot().OpenPeriod; got != want {
			t.Fatalf("period %d is %v, want %v", i, got, want)
		}
		l.clock.Advance(want)
		l.calls(1, errCase)
	}
	l.clock.Advance(7 * time.Second)
	l.calls(1, nil)
	l.calls(1, errCase)
	if got := l.Snapshot().OpenPeriod; got != 2*time.Second {
		t.Errorf("after the recovery it is %v, want 2s", got)
	}

	for _, base := range []time.Duration{6 * time.Second, time.Hour, math.MaxInt64} {
		c := fusebox.Config{OpenFor: base}
		if err := c.Validate(); err != nil {
			t.Errorf("OpenFor %v alone: %v", base, err)
		}
		if got := fusebox.New("x", c).Config().OpenForMax; got != base {
			t.Errorf("OpenFor %v alone makes OpenForMax %v", base, got)
		}
	}
}

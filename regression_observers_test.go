package fusebox_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// What callbacks see and may do.

func TestC70ACallbackMayUseTheBreaker(t *testing.T) {
	var l *caseLab
	use := func() {
		l.State()
		l.Snapshot()
		l.History()
		l.Config()
		l.Observe(fusebox.Observer{})()
	}
	l = newCase(t, "consec=1 openfor=10s", func(c *fusebox.Config) {
		c.Observers = append(c.Observers, fusebox.Observer{
			Transition: func(t fusebox.Transition) {
				use()
				if t.To == fusebox.Open && t.From != t.To {
					l.Reset(fusebox.Note{By: "callback"})
				}
			},
			Finished: func(fusebox.Completion) { use() },
			Rejected: func(*fusebox.OpenError) { use() },
		})
	})
	caseSoon(t, func() { l.calls(1, errCase) })
	l.wantEvents("CO,OC")
	l.want(fusebox.Closed)

	var stop func()
	deep := 0
	stop = l.Observe(fusebox.Observer{Transition: func(t fusebox.Transition) {
		use()
		switch deep++; deep {
		case 1:
			_ = l.call(nil)
			p, _ := l.Allow(context.Background())
			p.Cancel()
			l.Override(fusebox.ForceOpen, fusebox.Note{})
			_ = l.call(nil) // refused: Rejected uses the breaker as well
		case 2:
			l.Lift(fusebox.Note{})
			l.change(func(c *fusebox.Config) { c.Consecutive = 7 })
			stop()
		}
	}})
	caseSoon(t, func() { l.Override(fusebox.Shadow, fusebox.Note{}) })
	if deep != 2 {
		t.Errorf("the observer was told %d times, want 2: it has stopped itself", deep)
	}
}

func TestC71WhatACallbackSees(t *testing.T) {
	var l *caseLab
	var seen []fusebox.Transition
	l = newCase(t, "consec=3 openfor=10s probes=1", func(c *fusebox.Config) {
		c.Observers = append(c.Observers, fusebox.Observer{Transition: func(r fusebox.Transition) {
			seen = append(seen, r)
			if s := l.Snapshot(); s.State != r.To || s.Generation != r.Generation {
				t.Errorf("in the callback of %v the state is %v", r, s.State)
			}
			if r.To == fusebox.Open && l.Snapshot().Counts != (fusebox.Counts{}) {
				t.Errorf("counts while open are %+v", l.Snapshot().Counts)
			}
			if !r.At.Equal(l.clock.Now()) {
				t.Errorf("%v is of %v, and it is %v", r, r.At, l.clock.Now())
			}
		}})
	})
	l.calls(2, nil)
	l.calls(3, errCase)
	l.clock.Advance(10 * time.Second)
	l.calls(1, errCase)
	l.clock.Advance(10 * time.Second)
	l.calls(1, nil)
	want := []struct {
		cause  fusebox.Cause
		counts fusebox.Counts
		err    string
	}{
		{fusebox.CauseConsecutive, fusebox.Counts{Calls: 5, Failures: 3, Consecutive: 3}, "down"},
		{fusebox.CauseDeadline, fusebox.Counts{}, ""},
		{fusebox.CauseProbeFailed, fusebox.Counts{Calls: 1, Failures: 1, Consecutive: 1}, "down"},
		{fusebox.CauseDeadline, fusebox.Counts{}, ""},
		{fusebox.CauseProbesSucceeded, fusebox.Counts{Calls: 1}, ""},
	}
	if len(seen) != len(want) {
		t.Fatalf("%d records: %v", len(seen), seen)
	}
	for i, r := range seen {
		if r.Name != "payments" || r.Cause != want[i].cause || r.Counts != want[i].counts || r.LastError != want[i].err {
			t.Errorf("record %d is %+v, want %+v", i, r, want[i])
		}
		if r.To == fusebox.Open && !r.Until.Equal(r.At.Add(10*time.Second)) {
			t.Errorf("record %d is of %v, and plans to probe at %v", i, r.At, r.Until)
		}
		if i > 0 && r.Generation != seen[i-1].Generation+1 {
			t.Errorf("record %d has generation %d after %d", i, r.Generation, seen[i-1].Generation)
		}
	}
}

func TestC72RecordsComeInOrder(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=1")
	for range 1000 {
		l.calls(1, errCase)
		l.clock.Advance(10 * time.Second)
		l.calls(1, nil)
	}
	l.wantEvents(strings.TrimSuffix(strings.Repeat("CO,OH,HC,", 1000), ","))

	l = newCase(t, "consec=1 openfor=10s probes=2")
	var callers sync.WaitGroup
	for w := range 8 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 2))
			for range 2000 {
				err := errCase
				if random.IntN(2) == 0 {
					err = nil
				}
				_ = l.call(err)
				l.clock.Advance(time.Duration(random.Int64N(int64(5 * time.Second))))
			}
		})
	}
	callers.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.records) < 100 {
		t.Fatalf("only %d records: the test is not worth much", len(l.records))
	}
	last := fusebox.Transition{Generation: l.records[0].Generation - 1}
	for i, r := range l.records {
		if r.From != last.To || r.Generation != last.Generation+1 || r.At.Before(last.At) {
			t.Fatalf("record %d, %+v, comes after %+v", i, r, last)
		}
		last = r
	}
}

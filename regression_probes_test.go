package fusebox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Which calls are probes, and what gives a slot back.

// TestC12LostProbesDoNotWedge loses every probe of many periods in a row.
func TestC12LostProbesDoNotWedge(t *testing.T) {
	for _, reopen := range []int{1, 2, 3} {
		l := newCase(t, "consec=1 openfor=10s probes=3 close=3 ttl=30s", func(c *fusebox.Config) { c.ReopenAfter = reopen })
		l.calls(1, errCase)
		for range 50 {
			l.clock.Advance(10 * time.Second)
			for range 3 {
				l.allow() // and never finish it
			}
			l.clock.Advance(30*time.Second - 1)
			l.refused()
			l.clock.Advance(1)
			l.want(fusebox.Open)
		}
		l.clock.Advance(10 * time.Second)
		l.calls(3, nil)
		l.want(fusebox.Closed)
		if got := l.Snapshot().Totals.Probes.Expired; got != uint64(50*reopen) {
			t.Errorf("with ReopenAfter %d: %d probes expired, want %d", reopen, got, 50*reopen)
		}
	}
}

func TestC15AProbeThatAnInnerPolicyRefusesGivesItsSlotBack(t *testing.T) {
	bulkhead := make(caseBulkhead, 1)
	l := newCase(t, "consec=1 openfor=10s probes=1")
	l.halfOpen()
	guarded := fusebox.Chain(l.Breaker, bulkhead)

	bulkhead <- struct{}{} // another key's call
	ran := false
	err := guarded.Do(context.Background(), func(context.Context) error { ran = true; return nil })
	var full *caseFullError
	if !errors.As(err, &full) || errors.Is(err, fusebox.ErrOpen) || ran {
		t.Fatalf("Do = %v (ran: %v), want the bulkhead's refusal", err, ran)
	}
	l.wantOutstanding(0)
	l.want(fusebox.HalfOpen)

	<-bulkhead
	if err := guarded.Do(context.Background(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	l.want(fusebox.Closed)
}

func TestC15RefusalsOfAnyKindInsideAreIgnored(t *testing.T) {
	inner := newCase(t, "consec=1 openfor=10s")
	inner.calls(1, errCase)
	ok := func(context.Context) error { return nil }
	for name, refusal := range map[string]error{
		"bulkhead":        &caseFullError{},
		"wrapped":         fmt.Errorf("call: %w", &caseFullError{time.Second}),
		"joined":          errors.Join(errCase, &caseFullError{}),
		"another breaker": inner.Do(context.Background(), ok),
		"wrapped breaker": fmt.Errorf("call: %w", inner.Do(context.Background(), ok)),
	} {
		l := newCase(t, "consec=1 openfor=10s probes=1")
		l.calls(3, refusal)
		l.want(fusebox.Closed)
		l.wantCounts(fusebox.Counts{})
		l.halfOpen()
		l.calls(3, refusal)
		l.want(fusebox.HalfOpen)
		l.wantOutstanding(0)
		if got := l.Snapshot().Totals.Ignored; got != 6 {
			t.Errorf("%s: %d ignored, want 6", name, got)
		}
	}
}

func TestC26OnlyTheProbesOfABurstAreAdmitted(t *testing.T) {
	const callers = 100
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	for _, probes := range []int{1, 3} {
		l := newCase(t, fmt.Sprintf("consec=1 openfor=10s probes=%d", probes))
		for range rounds {
			l.calls(1, errCase)
			l.clock.Advance(10 * time.Second)
			var running, refused, other atomic.Int32
			var asked, returned sync.WaitGroup
			asked.Add(callers)
			start, end := make(chan struct{}), make(chan struct{})
			for range callers {
				returned.Go(func() {
					<-start
					err := l.Do(context.Background(), func(context.Context) error {
						running.Add(1)
						asked.Done()
						<-end
						return nil
					})
					switch {
					case errors.Is(err, fusebox.ErrProbing):
						refused.Add(1)
						asked.Done()
					case err != nil:
						other.Add(1)
						asked.Done()
					}
				})
			}
			close(start)
			asked.Wait()
			if running.Load() != int32(probes) || refused.Load() != int32(callers-probes) || other.Load() != 0 {
				t.Fatalf("%d ran, %d were refused for want of a probe, %d otherwise; want %d, %d, 0",
					running.Load(), refused.Load(), other.Load(), probes, callers-probes)
			}
			l.wantOutstanding(probes)
			close(end)
			returned.Wait()
			l.want(fusebox.Closed)
		}
	}
}

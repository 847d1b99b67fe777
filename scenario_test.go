package fusebox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// caseScenario is a breaker whose records are written down with their time since
// the start, under a scripted clock or in the time of a bubble.
type caseScenario struct {
	testing.TB
	*fusebox.Breaker
	clock *caseClock // nil: a bubble
	begin time.Time

	mu      sync.Mutex
	records []string
}

// caseBothTimes runs a scenario by the scripted clock and in a bubble.
func caseBothTimes(t *testing.T, c fusebox.Config, run func(*caseScenario)) {
	t.Helper()
	start := func(t *testing.T, clock *caseClock) {
		s := &caseScenario{TB: t, clock: clock}
		c := c
		if clock != nil {
			c.Now = clock.Now
		}
		c.Observers = []fusebox.Observer{{Transition: s.note}}
		s.begin = s.now()
		s.Breaker = fusebox.New("scenario", c)
		run(s)
	}
	t.Run("scripted clock", func(t *testing.T) { start(t, newCaseClock()) })
	t.Run("bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { start(t, nil) })
	})
}

func (s *caseScenario) now() time.Time {
	if s.clock != nil {
		return s.clock.Now()
	}
	return time.Now()
}

// until lets the time come that lies at after the start.
func (s *caseScenario) until(at time.Duration) {
	if s.clock != nil {
		s.clock.Set(s.begin.Add(at))
		return
	}
	<-time.After(time.Until(s.begin.Add(at)))
}

func (s *caseScenario) note(t fusebox.Transition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, fmt.Sprintf("%v %v→%v %v", t.At.Sub(s.begin.Round(0)), t.From, t.To, t.Cause))
}

func (s *caseScenario) wantRecords(want ...string) {
	s.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.records, want) {
		s.Fatalf("records are\n%q, want\n%q", s.records, want)
	}
}

func (s *caseScenario) wantState(want fusebox.State) {
	s.Helper()
	if got := s.State(); got != want {
		s.Fatalf("state at %v is %v, want %v", s.now().Sub(s.begin), got, want)
	}
}

// ask lets n callers ask at the same time, and returns the permits of those
// who got one.
func (s *caseScenario) ask(n int) []*fusebox.Permit {
	s.Helper()
	var mu sync.Mutex
	var permits []*fusebox.Permit
	var callers sync.WaitGroup
	for range n {
		callers.Go(func() {
			p, err := s.Allow(context.Background())
			if err != nil {
				if !errors.Is(err, fusebox.ErrOpen) {
					s.Errorf("Allow: %v", err)
				}
				return
			}
			kept := p.Take()
			mu.Lock()
			defer mu.Unlock()
			permits = append(permits, &kept)
		})
	}
	callers.Wait()
	return permits
}

// call lets n calls begin together, which must be admitted, and end after d.
func (s *caseScenario) call(n int, d time.Duration, o fusebox.Outcome) {
	s.Helper()
	permits := s.ask(n)
	if len(permits) != n {
		s.Fatalf("%d of %d calls were admitted", len(permits), n)
	}
	if d > 0 {
		s.until(s.now().Sub(s.begin) + d)
	}
	for _, p := range permits {
		if !p.Record(o) {
			s.Fatalf("a %v was not accepted", o)
		}
	}
}

var caseConfig = fusebox.Config{
	Window: 10 * time.Second, MinCalls: 10, FailureRate: 0.5,
	SlowAfter: 100 * time.Millisecond, SlowRate: 0.6,
	OpenFor: 5 * time.Second, OpenForMax: 5 * time.Second, OpenJitter: -1,
	Probes: 3, CloseAfter: 3,
}

func TestScenarioFailuresOpenAndThreeProbesDecide(t *testing.T) {
	caseBothTimes(t, caseConfig, func(s *caseScenario) {
		s.call(9, 0, fusebox.Failure)
		s.wantState(fusebox.Closed)
		s.call(1, 0, fusebox.Failure)
		s.wantState(fusebox.Open)
		if got := s.ask(5); len(got) != 0 {
			s.Fatalf("an open breaker admitted %d", len(got))
		}

		s.until(5*time.Second - 1)
		if got := s.ask(1); len(got) != 0 {
			s.Fatal("admitted before the end of the open period")
		}
		s.until(5 * time.Second)
		probes := s.ask(20)
		if len(probes) != 3 {
			s.Fatalf("%d of 20 got a permit, want 3", len(probes))
		}
		probes[1].Record(fusebox.Failure)
		s.wantState(fusebox.Open)
		for _, i := range []int{0, 2} {
			if probes[i].Record(fusebox.Success) {
				s.Error("a probe of the period that is over was accepted")
			}
		}

		s.until(10 * time.Second)
		s.call(3, 0, fusebox.Success)
		s.wantState(fusebox.Closed)
		s.wantRecords(
			"0s closed→open failure-rate",
			"5s open→half-open deadline",
			"5s half-open→open probe-failed",
			"10s open→half-open deadline",
			"10s half-open→closed probes-succeeded",
		)
	})
}

func TestScenarioSlowSuccessesOpenAndASlowProbeReopens(t *testing.T) {
	c := caseConfig
	c.FailureRate = 1
	caseBothTimes(t, c, func(s *caseScenario) {
		s.call(10, 100*time.Millisecond, fusebox.Success)
		s.wantState(fusebox.Open)
		s.until(5100 * time.Millisecond)
		s.call(1, 100*time.Millisecond, fusebox.Success)
		s.wantState(fusebox.Open)
		s.until(10200 * time.Millisecond)
		s.call(3, 99*time.Millisecond, fusebox.Success)
		s.wantState(fusebox.Closed)
		s.wantRecords(
			"100ms closed→open slow-rate",
			"5.1s open→half-open deadline",
			"5.2s half-open→open probe-failed",
			"10.2s open→half-open deadline",
			"10.299s half-open→closed probes-succeeded",
		)
	})
}

func TestScenarioForceOpenHoldsUntilResetOrItsEnd(t *testing.T) {
	caseBothTimes(t, caseConfig, func(s *caseScenario) {
		s.Override(fusebox.ForceOpen, fusebox.Note{Reason: "maintenance"})
		for _, at := range []time.Duration{0, time.Second, 5 * time.Second, 100 * time.Hour} {
			s.until(at)
			if got := s.ask(3); len(got) != 0 {
				s.Fatalf("%d calls were admitted after %v", len(got), at)
			}
		}
		s.Reset(fusebox.Note{})
		s.wantState(fusebox.Closed)
		s.call(20, 0, fusebox.Success)

		s.Override(fusebox.ForceOpen, fusebox.Note{Until: s.now().Add(time.Second)})
		s.until(100*time.Hour + time.Second - 1)
		if got := s.ask(3); len(got) != 0 {
			s.Fatalf("%d calls were admitted before the end of the override", len(got))
		}
		s.until(100*time.Hour + time.Second)
		s.wantState(fusebox.HalfOpen)
		s.call(3, 0, fusebox.Success)
		s.wantState(fusebox.Closed)
		s.wantRecords(
			"0s closed→open override",
			"100h0m0s open→closed reset",
			"100h0m0s closed→open override",
			"100h0m1s open→half-open override-ended",
			"100h0m1s half-open→closed probes-succeeded",
		)
	})
}

func TestScenarioTwoOutagesUnderSteadyTraffic(t *testing.T) {
	const ms = time.Millisecond
	c := fusebox.Config{
		Consecutive: 5, FailureRate: -1, Probes: 3, CloseAfter: 3,
		OpenFor: 1025 * ms, OpenForMax: 1025 * ms, OpenJitter: -1,
	}
	caseBothTimes(t, c, func(s *caseScenario) {
		reached, failed := 0, 0
		for at := time.Duration(0); at < 8*time.Second; at += 50 * ms {
			s.until(at)
			err := s.Do(context.Background(), func(context.Context) error {
				reached++
				if 500*ms <= at && at < 2500*ms || 4000*ms <= at && at < 6000*ms {
					failed++
					return errCase
				}
				return nil
			})
			if err != nil && !errors.Is(err, errCase) && !errors.Is(err, fusebox.ErrOpen) {
				s.Errorf("at %v: %v", at, err)
			}
		}
		s.wantRecords(
			"700ms closed→open consecutive",
			"1.75s open→half-open deadline",
			"1.75s half-open→open probe-failed",
			"2.8s open→half-open deadline",
			"2.9s half-open→closed probes-succeeded",
			"4.2s closed→open consecutive",
			"5.25s open→half-open deadline",
			"5.25s half-open→open probe-failed",
			"6.3s open→half-open deadline",
			"6.4s half-open→closed probes-succeeded",
		)
		total := s.Snapshot().Totals
		if reached != 80 || failed != 12 || total.RejectedOpen != 80 || total.RejectedProbing != 0 {
			s.Errorf("%d reached it, %d failed, %d rejected open, %d for want of a probe; want 80, 12, 80, 0",
				reached, failed, total.RejectedOpen, total.RejectedProbing)
		}
		if total.Successes != 68 || total.Failures != 12 {
			s.Errorf("totals have %d successes and %d failures, want 68 and 12", total.Successes, total.Failures)
		}
	})
}

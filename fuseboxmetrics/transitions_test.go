package fuseboxmetrics_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

// drive makes a random breaker do random things, and calls after each.
func drive(r *rand.Rand, steps int, after func(b *fusebox.Breaker)) {
	var clock fuseboxtest.Clock
	modes := []fusebox.Mode{fusebox.Enforce, fusebox.Shadow, fusebox.Off}
	config := func() fusebox.Config {
		c := fusebox.Config{
			MinCalls: 3, FailureRate: 0.5, SlowAfter: time.Second, SlowRate: 0.5, Consecutive: 2,
			OpenFor: 4 * time.Second, Probes: 1 + r.IntN(3), ProbeTimeout: 3 * time.Second,
			Mode: modes[r.IntN(len(modes))], Now: clock.Now, Rand: r.Float64,
		}
		if r.IntN(2) == 0 {
			c.Consecutive = -1
		}
		if r.IntN(4) == 0 {
			c.TripWhen = func(c fusebox.Counts) bool { return c.Failures > 1 }
		}
		return c
	}
	b := fusebox.New("b", config())
	var permits []fusebox.Permit
	for range steps {
		switch r.IntN(12) {
		case 0, 1, 2:
			if p, err := b.Allow(context.Background()); err == nil {
				permits = append(permits, p.Take())
			}
		case 3, 4, 5, 6:
			if len(permits) > 0 {
				p := permits[0].Take()
				permits = permits[1:]
				d := time.Duration(r.IntN(2)) * time.Second
				p.RecordAfter([]fusebox.Outcome{fusebox.Success, fusebox.Failure, fusebox.Failure, fusebox.Ignored}[r.IntN(4)], d)
			}
		case 7, 8:
			clock.Advance(time.Duration(1+r.IntN(5)) * time.Second)
		case 9:
			var n fusebox.Note
			if r.IntN(2) == 0 {
				n.Until = clock.Now().Add(time.Duration(r.IntN(4)-1) * time.Second)
			}
			b.Override(fusebox.Mode(r.IntN(5)), n)
		case 10:
			if r.IntN(4) == 0 {
				b.Reset(fusebox.Note{})
			} else {
				b.Lift(fusebox.Note{})
			}
		case 11:
			if err := b.Reconfigure(config()); err != nil {
				panic(err)
			}
		}
		after(b)
	}
}

// TestTransitionsAreAllThatABreakerCanMake holds the table of transitions: what
// breakers do is in it, and all that is in it is what breakers do.
func TestTransitionsAreAllThatABreakerCanMake(t *testing.T) {
	var listed []string
	for _, m := range fuseboxmetrics.Breaker.Metrics() {
		if m.Name == "fusebox_transitions_total" {
			for _, labels := range m.Series {
				listed = append(listed, fmt.Sprint(labels))
			}
		}
	}
	r := random(t)
	made := map[string]bool{}
	for walks := 0; walks < 300 || walks < 10_000 && len(made) < len(listed); walks++ { // 300 nearly always do
		var last *fusebox.Breaker
		drive(r, 100, func(b *fusebox.Breaker) { last = b })
		for _, c := range last.Snapshot().Totals.Transitions {
			made[fmt.Sprint([]string{c.From.String(), c.To.String(), c.Cause.String()})] = true
		}
	}
	for _, name := range listed {
		if !made[name] {
			t.Errorf("%s is in the table, and no breaker has made it", name)
		}
	}
	for name := range made {
		if !slices.Contains(listed, name) {
			t.Errorf("a breaker has made %s, which is not in the table", name)
		}
	}
	if len(listed) != 36 {
		t.Errorf("%d transitions in the table, the documentation says 36", len(listed))
	}
}

// TestC86AndC89HoldWhateverABreakerDoes compares what is read with the
// breaker's own account, after every step.
func TestC86AndC89HoldWhateverABreakerDoes(t *testing.T) {
	r := random(t)
	for range 40 {
		var set fuseboxmetrics.Set
		remove := func() {}
		var shown *fusebox.Breaker
		before := series{}
		drive(r, 50, func(b *fusebox.Breaker) {
			if b != shown {
				remove()
				shown, remove = b, set.Add(b)
			}
			got := read(t, &set)
			snapshot := b.Snapshot()
			totals := snapshot.Totals

			if len(got) != 62 {
				t.Fatalf("%d series, the documentation says 62", len(got))
			}
			if got["fusebox_state{b,"+b.State().String()+"}"] != 1 || got.sum("fusebox_state") != 1 {
				t.Fatalf("in state %v the states are %v", b.State(), got)
			}
			want := 0.0
			if snapshot.Override {
				want = 1
			}
			if got["fusebox_override{b,"+snapshot.Mode.String()+"}"] != want || got.sum("fusebox_override") != want {
				t.Fatalf("in mode %v, override %t, the overrides are %v", snapshot.Mode, snapshot.Override, got)
			}
			finished := totals.Successes + totals.Failures + totals.Ignored + totals.Late
			if got.sum("fusebox_calls_total") != float64(finished) {
				t.Fatalf("%d calls finished: %v", finished, got)
			}
			var transitions uint64
			for _, c := range totals.Transitions {
				transitions += c.Count
			}
			if got.sum("fusebox_transitions_total") != float64(transitions) {
				t.Fatalf("%d transitions: %v", transitions, got)
			}
			for _, m := range fuseboxmetrics.Breaker.Metrics() {
				if m.Kind == fuseboxmetrics.Counter {
					for key, v := range before {
						if strings.HasPrefix(key, m.Name+"{") && got[key] < v {
							t.Fatalf("%s went back from %v to %v", key, v, got[key])
						}
					}
				}
			}
			before = got
		})
	}
}

package bench

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
)

// contenders returns every contender that makes a breaker, once.
func contenders() []contender {
	return all([]contender{ctRecord, ctFinish, ctDo, ctDoCtx, {name: nameCall, build: newFuseboxCall, counts: true}}, peers, []contender{
		ctCalls, ctGobreakerTwoStep,
		{name: "gobreaker Execute, closure that captures", build: newGobreakerValue},
		ctFailsafeTimeRun, ctFailsafeCountRun, ctSentinelEntry,
	})
}

func (c contender) under(r rules) breaker {
	if c.rules != nil {
		r = c.rules(r)
	}
	return c.build(r)
}

func TestEveryContenderAdmitsWhileClosed(t *testing.T) {
	for _, c := range contenders() {
		t.Run(c.name, func(t *testing.T) {
			b := c.under(usual)
			if n := b.calls(succeed)(500); n != 0 {
				t.Errorf("rejected %d of 500 calls that succeed", n)
			}
			b = c.under(usual.standsFailures())
			if n := b.calls(fail)(500); n != 0 {
				t.Errorf("rejected %d of 500 calls that fail, under rules that stand it", n)
			}
			b = c.under(usual.standsHalf())
			if n := b.calls(half)(500); n != 0 {
				t.Errorf("rejected %d of 500 calls of which half fail, under rules that stand it", n)
			}
		})
	}
}

func TestEveryContenderRejectsWhileOpen(t *testing.T) {
	for _, c := range contenders() {
		t.Run(c.name, func(t *testing.T) {
			b := c.under(usual.staysOpen())
			if !trip(b) {
				t.Fatal("does not open")
			}
			// aegis has no open period: it admits fewer as it drops more.
			if n := b.calls(fail)(2000); n < 1950 {
				t.Errorf("rejected %d of 2000 calls", n)
			}
		})
	}
}

// A breaker that did not count the successes before would open on the
// failures after them.
func TestContendersThatCountSuccessesCountThem(t *testing.T) {
	rule := usual
	rule.consecutive = 0
	for _, c := range contenders() {
		if !c.counts && c.name != nameRecord && c.name != nameDo {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			b := c.under(rule)
			b.calls(succeed)(80)
			settle(b)
			if n := b.calls(fail)(40); n != 0 {
				t.Errorf("rejected %d calls at a failure rate of a third", n)
			}
			settle(b)
			if n := b.calls(fail)(100); n == 0 {
				settle(b)
				if n = b.calls(fail)(100); n == 0 {
					t.Error("rejected none at a failure rate of two thirds")
				}
			}
		})
	}
}

func TestGobreakerCountsCalls(t *testing.T) {
	for _, build := range []func(rules) breaker{newGobreaker, newGobreakerRolling} {
		b := build(usual).(gobreakerExecute)
		b.calls(succeed)(30)
		b.calls(fail)(10)
		if c := b.Counts(); c.Requests != 40 || c.TotalSuccesses != 30 || c.TotalFailures != 10 {
			t.Errorf("counts %+v, want 30 successes and 10 failures", c)
		}
	}
}

func TestFuseboxCountsCallsAndRejections(t *testing.T) {
	b := newFusebox(usual.staysOpen())
	fuseboxDo{b, t.Context()}.calls(succeed)(30)
	fuseboxRecord{b}.calls(fail)(20)
	rejected := fuseboxRecord{b}.calls(succeed)(500) + fuseboxDo{b, t.Context()}.calls(succeed)(500)
	totals := b.Snapshot().Totals
	if rejected != 1000 || totals.Successes != 30 || totals.Failures != 20 || totals.RejectedOpen != 1000 {
		t.Errorf("rejected %d, totals %+v; want 1000, 30 successes, 20 failures, 1000 rejected", rejected, totals)
	}
}

func TestFilledWindowHoldsWhatItSays(t *testing.T) {
	for _, calls := range []int{0, 1000} {
		r := usual.standsHalf()
		r.calls = calls
		f := newFuseboxAt(r)
		for range 3 {
			f.fill(r, half, 1000)
			if c := f.Snapshot().Counts; c.Calls != 1000 || c.Failures != 500 {
				t.Errorf("window of %d calls: %+v, want 1000 calls, 500 failures", calls, c)
			}
		}
	}
}

func TestFuseboxAllocations(t *testing.T) {
	open := newFusebox(usual.staysOpen())
	trip(fuseboxRecord{open})
	for _, test := range []struct {
		name string
		b    breaker
		max  float64
	}{
		{"Allow and Record", newFuseboxRecord(usual), 0},
		{"Allow and Record with a slow rule", newFuseboxRecord(usual.withSlow()), 0},
		{"Allow and Record in a window of calls", newFuseboxRecord(usual.withCalls(100)), 0},
		{"Allow, deferred Record and Finish", newFuseboxFinish(usual), 0},
		{"Do", newFuseboxDo(usual), 0},
		{"Do under a cancellable context", newFuseboxDoCancellable(usual), 0},
		{"Call with a closure that captures", newFuseboxCall(usual), 1},
		{"Allow while open", fuseboxRecord{open}, 0},
		{"Do while open", fuseboxDo{open, t.Context()}, 0},
	} {
		call := test.b.calls(succeed)
		if n := testing.AllocsPerRun(1000, func() { call(1) }); n > test.max {
			t.Errorf("%s: %v allocations a call, want at most %v", test.name, n, test.max)
		}
	}
}

func TestIdleBreakersHoldNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	kept := make([]breaker, 1000)
	for i := range kept {
		kept[i] = newFuseboxDo(usual)
		kept[i].calls(succeed)(1)
	}
	if n := runtime.NumGoroutine() - before; n > 0 {
		t.Errorf("%d goroutines more with 1000 breakers", n)
	}
	runtime.KeepAlive(kept)
}

func TestRowsAreMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every contender")
	}
	results, err := Measure(Rows(), 1, time.Millisecond, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, r := range results {
		if names[r.Name] {
			t.Errorf("two rows are called %s", r.Name)
		}
		names[r.Name] = true
		lines := map[string]bool{}
		for _, l := range r.Lines {
			if lines[l.Name] || l.Nanoseconds <= 0 || math.IsInf(l.Nanoseconds, 0) {
				t.Errorf("%s: %s: %v ns, or not the only one of its name", r.Name, l.Name, l.Nanoseconds)
			}
			lines[l.Name] = true
		}
		for _, g := range r.Goals {
			if !lines[g.Of] || g.Value == 0 && g.High == 0 && !strings.Contains(g.Short, "allocations") {
				t.Errorf("%s: goal %q compares nothing", r.Name, g.Goal)
			}
		}
	}
}

func TestQuantile(t *testing.T) {
	for _, test := range []struct {
		values  []float64
		q, want float64
	}{
		{nil, 0.5, 0},
		{[]float64{3}, 0.5, 3},
		{[]float64{4, 1, 2, 3}, 0.5, 2.5},
		{[]float64{5, 1, 2, 3, 4}, 0.25, 2},
		{[]float64{1, 2}, 1, 2},
	} {
		if got := quantile(test.values, test.q); got != test.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", test.values, test.q, got, test.want)
		}
	}
}

func TestOrderTakesEveryoneOnceAndStartsElsewhereEachRound(t *testing.T) {
	seen := map[int]bool{}
	for round := range 5 {
		o := order(5, round)
		in := map[int]bool{}
		for _, i := range o {
			in[i] = true
		}
		if len(o) != 5 || len(in) != 5 {
			t.Errorf("round %d: %v", round, o)
		}
		seen[o[0]] = true
	}
	if len(seen) < 3 {
		t.Errorf("five rounds began with %d different contenders", len(seen))
	}
}

package fusebox_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/fallback"
	"github.com/fusebox-go/fusebox/fuseboxtest"
	"github.com/fusebox-go/fusebox/retry"
	"github.com/fusebox-go/fusebox/timeout"
)

// TestTheWholeChainThroughAnOutage makes a call every 50 ms for a minute while
// the dependency hangs from the tenth second to the fortieth, and counts what
// reaches it.
func TestTheWholeChainThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			from, to = 10 * time.Second, 40 * time.Second
			every    = 50 * time.Millisecond
			calls    = int(time.Minute / every)
			room     = 4
		)
		payments := &fuseboxtest.Dependency{
			Latency: 20 * time.Millisecond,
			Outages: []fuseboxtest.Outage{{From: from, To: to, Latency: time.Hour}},
		}
		rooms := bulkhead.New(bulkhead.Config{Limit: room})
		budget := retry.NewBudget(retry.BudgetConfig{Share: 0.1, MinPerSecond: 0.5})
		again := retry.New(retry.Config{BaseDelay: 50 * time.Millisecond, Jitter: -1, Budget: budget})
		breaker := fusebox.New("payments", fusebox.Config{OpenJitter: -1})
		limit := timeout.New(200 * time.Millisecond)
		chain := fusebox.Chain(rooms, again, breaker, limit)
		last := fallback.New(fallback.Config[time.Duration]{MaxAge: 20 * time.Second, Func: fallback.Value(time.Duration(-1))})

		start := payments.Start()
		reached := map[time.Duration]int{} // when something was looked at
		var (
			wg               sync.WaitGroup
			out              atomic.Int32
			mu               sync.Mutex
			slowest          time.Duration
			fresh, old, none int
			lastNotFresh     time.Duration // when the last call began that got no fresh answer
		)
		call := func() {
			began := time.Since(start)
			got, err := fallback.Call(t.Context(), chain, func(ctx context.Context) (time.Duration, error) {
				if n := out.Add(1); n > room {
					t.Errorf("%d calls out at %v, room for %d", n, time.Since(start), room)
				}
				defer out.Add(-1)
				return began, payments.Call(ctx)
			}, last)
			mu.Lock()
			defer mu.Unlock()
			slowest = max(slowest, time.Since(start)-began)
			switch {
			case err != nil:
				t.Errorf("the call at %v was not answered: %v", began, err)
			case got == began:
				fresh++
				return
			case got == -1:
				none++
			default:
				old++
			}
			lastNotFresh = began
		}
		for i := range calls {
			if at := time.Duration(i) * every; at == from || at == to {
				reached[at] = payments.Calls()
			}
			wg.Go(call)
			time.Sleep(every)
		}
		wg.Wait()

		// Three attempts of 200 ms, and waits of 50 and 100 ms.
		if slowest > 750*time.Millisecond {
			t.Errorf("the slowest answer took %v", slowest)
		}
		// 600 calls were made in the outage. Tripping takes 20 failures, and
		// those that are out then; each later open period costs a few probes.
		if n := reached[to] - reached[from]; n < 20 || n > 60 {
			t.Errorf("%d calls reached the dependency in the outage", n)
		}
		if lastNotFresh < to-every || lastNotFresh > to+6*time.Second || breaker.State() != fusebox.Closed {
			t.Errorf("back to normal at %v, breaker %v", lastNotFresh, breaker.State())
		}
		if fresh < 480 || old < 300 || none < 150 || fresh+old+none != calls {
			t.Errorf("%d answers were fresh, %d the last good, %d a fixed one", fresh, old, none)
		}
		if s := last.Stats(); s.Stale != uint64(old) || s.Answered != uint64(old+none) || s.Failed != 0 {
			t.Errorf("fallback: %+v, want %d and %d", s, old, old+none)
		}
		b := breaker.Snapshot().Totals
		if n := b.Successes + b.Failures + b.Ignored + b.Late; n != uint64(payments.Calls()) {
			t.Errorf("the breaker counts %d calls (%+v), the dependency %d", n, b, payments.Calls())
		}
		if s := again.Stats(); s.Retries == 0 || s.Retries > uint64(calls/10) || s.Exhausted == 0 {
			t.Errorf("retry: %+v", s)
		}
		if s := limit.Stats(); s.Timeouts != b.Failures+b.Late {
			t.Errorf("timeout: %+v, breaker %+v", s, b)
		}
		if s, r := budget.Stats(), rooms.Stats(); s.Waiting != 0 || r.InFlight != 0 || r.Rejected == 0 {
			t.Errorf("left over, or never full: %+v, %+v", s, r)
		}
	})
}

package bench

import (
	"context"
	"time"

	"github.com/fusebox-go/fusebox"
)

func fuseboxConfig(r rules) fusebox.Config {
	c := fusebox.Config{
		Window:      r.window,
		Buckets:     r.buckets,
		WindowCalls: r.calls,
		MinCalls:    r.minCalls,
		FailureRate: r.rate,
		Consecutive: r.consecutive,
		SlowAfter:   r.slow,
		SlowRate:    slowRate,
		OpenFor:     r.open,
		OpenForMax:  r.open,
		OpenJitter:  -1,
		Probes:      probes,
	}
	if r.consecutive == 0 {
		c.Consecutive = -1
	}
	if r.calls > 0 && r.minCalls > r.calls {
		c.FailureRate, c.MinCalls = -1, 0 // no rate trips: a minimum above the window is an error
	}
	return c
}

func newFusebox(r rules) *fusebox.Breaker { return fusebox.New("bench", fuseboxConfig(r)) }

func fuseboxUp(context.Context) error   { return nil }
func fuseboxDown(context.Context) error { return errDown }

// fuseboxRecord uses Allow and Record.
type fuseboxRecord struct{ *fusebox.Breaker }

func newFuseboxRecord(r rules) breaker { return fuseboxRecord{newFusebox(r)} }

func (f fuseboxRecord) calls(l load) func(int) int {
	ctx := context.Background()
	outcomes := turns(l, fusebox.Success, fusebox.Failure)
	return func(n int) (rejected int) {
		for i := range n {
			p, err := f.Allow(ctx)
			if err != nil {
				rejected++
				continue
			}
			p.Record(outcomes[i&1])
		}
		return rejected
	}
}

// fuseboxFinish uses Allow and Finish with the deferred Record that its
// documentation asks for.
type fuseboxFinish struct{ *fusebox.Breaker }

func newFuseboxFinish(r rules) breaker { return fuseboxFinish{newFusebox(r)} }

func (f fuseboxFinish) calls(l load) func(int) int {
	ctx := context.Background()
	errs := l.errors()
	one := func(err error) bool {
		p, rejection := f.Allow(ctx)
		if rejection != nil {
			return false
		}
		defer p.Record(fusebox.Failure)
		p.Finish(ctx, err)
		return true
	}
	return func(n int) (rejected int) {
		for i := range n {
			if !one(errs[i&1]) {
				rejected++
			}
		}
		return rejected
	}
}

// fuseboxDo uses Do.
type fuseboxDo struct {
	*fusebox.Breaker
	ctx context.Context
}

func newFuseboxDo(r rules) breaker { return fuseboxDo{newFusebox(r), context.Background()} }

// newFuseboxDoCancellable uses Do with a context that can be cancelled, and
// never is.
func newFuseboxDoCancellable(r rules) breaker {
	ctx, cancel := context.WithCancel(context.Background())
	_ = cancel // the context lives as long as the process
	return fuseboxDo{newFusebox(r), ctx}
}

func (f fuseboxDo) calls(l load) func(int) int {
	fns := turns(l, fuseboxUp, fuseboxDown)
	return func(n int) (rejected int) {
		for i := range n {
			if refused(f.Do(f.ctx, fns[i&1])) {
				rejected++
			}
		}
		return rejected
	}
}

// fuseboxCall uses Call with a closure that captures a variable.
type fuseboxCall struct{ *fusebox.Breaker }

func newFuseboxCall(r rules) breaker { return fuseboxCall{newFusebox(r)} }

func (f fuseboxCall) calls(l load) func(int) int {
	ctx := context.Background()
	errs := l.errors()
	return func(n int) (rejected int) {
		sum := 0
		for i := range n {
			v, err := fusebox.Call(ctx, f.Breaker, func(context.Context) (int, error) {
				return i, errs[i&1]
			})
			if refused(err) {
				rejected++
			}
			sum += v
		}
		if sum < 0 {
			panic("overflow")
		}
		return rejected
	}
}

// fuseboxAt uses Allow and Record under a clock that only its owner moves.
type fuseboxAt struct {
	fuseboxRecord
	now *time.Time
}

func newFuseboxAt(r rules) fuseboxAt {
	now := time.Now()
	c := fuseboxConfig(r)
	c.Now = func() time.Time { return now }
	return fuseboxAt{fuseboxRecord{fusebox.New("bench", c)}, &now}
}

// fill leaves n outcomes in the window, spread over all of it, none older.
func (f fuseboxAt) fill(r rules, l load, n int) {
	*f.now = f.now.Add(r.window)
	call := f.calls(l)
	for range 100 {
		call(n / 100)
		*f.now = f.now.Add(r.window / 100 * 9 / 10)
	}
}

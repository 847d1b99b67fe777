package bench

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go"
	fsbulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	fstimeout "github.com/failsafe-go/failsafe-go/timeout"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/retry"
	"github.com/fusebox-go/fusebox/timeout"
)

// places is how many calls a bulkhead admits: no call of a row is refused.
const places = 1000

// fuseboxPolicy uses Do of any policy.
type fuseboxPolicy struct{ fusebox.Policy }

func newFuseboxChain(r rules) breaker {
	return fuseboxPolicy{fusebox.Chain(retry.New(retry.Config{}), newFusebox(r), timeout.New(time.Second))}
}

func newFuseboxRetry(rules) breaker { return fuseboxPolicy{retry.New(retry.Config{})} }

func newFuseboxRetryAlone(rules) breaker {
	return fuseboxPolicy{retry.New(retry.Config{NoBudget: true})}
}

func newFuseboxBulkhead(rules) breaker {
	return fuseboxPolicy{bulkhead.New(bulkhead.Config{Limit: places})}
}

func newFuseboxTimeout(rules) breaker { return fuseboxPolicy{timeout.New(time.Second)} }

func (f fuseboxPolicy) calls(l load) func(int) int {
	ctx := context.Background()
	fns := turns(l, fuseboxUp, fuseboxDown)
	return func(n int) (rejected int) {
		for i := range n {
			if refused(f.Do(ctx, fns[i&1])) {
				rejected++
			}
		}
		return rejected
	}
}

func failsafeRetry() retrypolicy.RetryPolicy[any] {
	return retrypolicy.NewBuilder[any]().WithMaxAttempts(3).
		WithBackoff(100*time.Millisecond, 10*time.Second).Build()
}

func newFailsafeChain(r rules) breaker {
	return failsafeRun{failsafe.With[any](failsafeRetry(), failsafeTime(r), fstimeout.New[any](time.Second))}
}

func newFailsafeRetry(rules) breaker { return failsafeRun{failsafe.With[any](failsafeRetry())} }

func newFailsafeBulkhead(rules) breaker {
	return failsafeRun{failsafe.With[any](fsbulkhead.New[any](places))}
}

func newFailsafeTimeout(rules) breaker {
	return failsafeRun{failsafe.With[any](fstimeout.New[any](time.Second))}
}

const (
	nameChain         = "fusebox Chain(retry, breaker, timeout)"
	nameRetry         = "fusebox retry"
	nameBulkhead      = "fusebox bulkhead"
	nameTimeout       = "fusebox timeout"
	nameChainPeer     = "failsafe retry, breaker, timeout"
	nameRetryPeer     = "failsafe retry"
	nameBulkheadPeer  = "failsafe bulkhead"
	nameTimeoutPeer   = "failsafe timeout"
	policyNote        = "Run without a context of the caller's, the cheapest way of failsafe; a caller's context costs it an executor a call."
	retryWithoutShare = "fusebox retry, no budget"
)

// policyRows compares policies with those of failsafe-go that do the same.
func policyRows() (rows []Row) {
	rows = append(rows, Row{
		Name: "chain", Title: "Retry, breaker and timeout around an instant success", Note: policyNote,
		rules: usual, cores: 1,
		contenders: []contender{
			{name: nameChain, build: newFuseboxChain},
			{name: nameChainPeer, build: newFailsafeChain},
			{name: nameTimeout + " alone", build: newFuseboxTimeout},
			{name: nameTimeoutPeer + " alone", build: newFailsafeTimeout},
		},
		goals: []goal{
			{of: nameChain, over: nameChainPeer, max: 0.5},
			{of: nameChain, over: nameChainPeer, max: 0.5, allocs: true},
		},
	})
	for _, on := range []struct {
		suffix, title  string
		cores, perCore int
	}{{"", "", 1, 0}, {"-2", ", contended: 8 goroutines on each of two cores", 2, 8}} {
		rows = append(rows,
			Row{
				Name: "retry" + on.suffix, Title: "Retry alone, every call succeeds" + on.title, Note: policyNote,
				rules: usual, cores: on.cores, perCore: on.perCore,
				contenders: []contender{
					{name: nameRetry, build: newFuseboxRetry, note: "counts every call in its budget"},
					{name: retryWithoutShare, build: newFuseboxRetryAlone},
					{name: nameRetryPeer, build: newFailsafeRetry, note: "no budget"},
				},
				goals: []goal{{of: nameRetry, over: nameRetryPeer, max: 1}},
			},
			Row{
				Name: "bulkhead" + on.suffix, Title: "Bulkhead alone, a place is free" + on.title, Note: policyNote,
				rules: usual, cores: on.cores, perCore: on.perCore,
				contenders: []contender{
					{name: nameBulkhead, build: newFuseboxBulkhead},
					{name: nameBulkheadPeer, build: newFailsafeBulkhead},
				},
				goals: []goal{{of: nameBulkhead, over: nameBulkheadPeer, max: 1}},
			})
	}
	return rows
}

package bench

import (
	"github.com/cenk/backoff"
	circuit "github.com/rubyist/circuitbreaker"
)

// rubyist uses Call without a timeout. A constant back-off is the cheapest:
// every success resets it, and the default one reads the clock for that.
type rubyist struct{ *circuit.Breaker }

func newRubyist(r rules) breaker {
	return rubyist{circuit.NewBreakerWithOptions(&circuit.Options{
		BackOff:       backoff.NewConstantBackOff(r.open),
		ShouldTrip:    circuit.RateTripFunc(r.rate, int64(r.minCalls)),
		WindowTime:    r.window,
		WindowBuckets: r.buckets,
	})}
}

func (r rubyist) calls(l load) func(int) int {
	fns := turns(l, up, down)
	return func(n int) (rejected int) {
		for i := range n {
			if refused(r.Call(fns[i&1], 0)) {
				rejected++
			}
		}
		return rejected
	}
}

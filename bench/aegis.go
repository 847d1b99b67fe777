package bench

import (
	"github.com/go-kratos/aegis/circuitbreaker"
	"github.com/go-kratos/aegis/circuitbreaker/sre"
)

// aegis drops calls with a probability and has no open period: it never
// rejects all of them, and a rejection is marked failed, as its comment asks.
type aegis struct{ circuitbreaker.CircuitBreaker }

func newAegis(r rules) breaker {
	return aegis{sre.NewBreaker(
		sre.WithSuccess(1-r.rate),
		sre.WithRequest(int64(r.minCalls)),
		sre.WithWindow(r.window),
		sre.WithBucket(r.buckets),
	)}
}

func (a aegis) calls(l load) func(int) int {
	fails := l.fails()
	return func(n int) (rejected int) {
		for i := range n {
			switch err := a.Allow(); {
			case err != nil:
				a.MarkFailed()
				rejected++
			case fails[i&1]:
				a.MarkFailed()
			default:
				a.MarkSuccess()
			}
		}
		return rejected
	}
}

package bench

import (
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
)

// failsafeTime makes a time window, of ten buckets whatever r says.
func failsafeTime(r rules) circuitbreaker.CircuitBreaker[any] {
	return circuitbreaker.NewBuilder[any]().
		WithFailureRateThreshold(r.rate, uint(r.minCalls), r.window).
		WithSuccessThreshold(probes).
		WithDelay(r.open).
		Build()
}

// failsafeCalls is the size of the count windows.
const failsafeCalls = 100

// failsafeCount makes a window of the last hundred calls.
func failsafeCount(r rules) circuitbreaker.CircuitBreaker[any] {
	failures := uint(r.rate * failsafeCalls)
	if r.minCalls == never {
		failures = failsafeCalls + 1
	}
	return circuitbreaker.NewBuilder[any]().
		WithFailureThresholdRatio(failures, failsafeCalls).
		WithSuccessThreshold(probes).
		WithDelay(r.open).
		Build()
}

// failsafePermit uses TryAcquirePermit and RecordSuccess or RecordFailure.
type failsafePermit struct {
	circuitbreaker.CircuitBreaker[any]
}

func newFailsafeTimePermit(r rules) breaker  { return failsafePermit{failsafeTime(r)} }
func newFailsafeCountPermit(r rules) breaker { return failsafePermit{failsafeCount(r)} }

func (f failsafePermit) calls(l load) func(int) int {
	fails := l.fails()
	return func(n int) (rejected int) {
		for i := range n {
			switch {
			case !f.TryAcquirePermit():
				rejected++
			case fails[i&1]:
				f.RecordFailure()
			default:
				f.RecordSuccess()
			}
		}
		return rejected
	}
}

// failsafeRun uses an executor that is made once.
type failsafeRun struct{ failsafe.Executor[any] }

func newFailsafeTimeRun(r rules) breaker  { return failsafeRun{failsafe.With(failsafeTime(r))} }
func newFailsafeCountRun(r rules) breaker { return failsafeRun{failsafe.With(failsafeCount(r))} }

func (f failsafeRun) calls(l load) func(int) int {
	fns := turns(l, up, down)
	return func(n int) (rejected int) {
		for i := range n {
			if refused(f.Run(fns[i&1])) {
				rejected++
			}
		}
		return rejected
	}
}

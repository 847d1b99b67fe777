package bench

import (
	"time"

	"github.com/sony/gobreaker/v2"
)

// gobreakerSettings makes the default window, which never ends and is cleared
// by a change of state only.
func gobreakerSettings(r rules) gobreaker.Settings {
	return gobreaker.Settings{
		Name:        "bench",
		MaxRequests: probes,
		Timeout:     r.open,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return r.consecutive > 0 && c.ConsecutiveFailures >= uint32(r.consecutive)
		},
	}
}

// gobreakerRolling makes the rolling window.
func gobreakerRolling(r rules) gobreaker.Settings {
	s := gobreakerSettings(r)
	s.Interval = r.window
	s.BucketPeriod = r.window / time.Duration(r.buckets)
	s.ReadyToTrip = func(c gobreaker.Counts) bool {
		calls := c.TotalSuccesses + c.TotalFailures
		return r.consecutive > 0 && c.ConsecutiveFailures >= uint32(r.consecutive) ||
			calls >= uint32(r.minCalls) && float64(c.TotalFailures) >= r.rate*float64(calls)
	}
	return s
}

func gobreakerUp() (struct{}, error)   { return struct{}{}, nil }
func gobreakerDown() (struct{}, error) { return struct{}{}, errDown }

// gobreakerExecute uses Execute.
type gobreakerExecute struct {
	*gobreaker.CircuitBreaker[struct{}]
}

func newGobreaker(r rules) breaker {
	return gobreakerExecute{gobreaker.NewCircuitBreaker[struct{}](gobreakerSettings(r))}
}

func newGobreakerRolling(r rules) breaker {
	return gobreakerExecute{gobreaker.NewCircuitBreaker[struct{}](gobreakerRolling(r))}
}

func (g gobreakerExecute) calls(l load) func(int) int {
	fns := turns(l, gobreakerUp, gobreakerDown)
	return func(n int) (rejected int) {
		for i := range n {
			if _, err := g.Execute(fns[i&1]); refused(err) {
				rejected++
			}
		}
		return rejected
	}
}

// gobreakerTwoStep uses Allow and the function it returns.
type gobreakerTwoStep struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
}

func newGobreakerTwoStep(r rules) breaker {
	return gobreakerTwoStep{gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreakerSettings(r))}
}

func (g gobreakerTwoStep) calls(l load) func(int) int {
	errs := l.errors()
	return func(n int) (rejected int) {
		for i := range n {
			done, err := g.Allow()
			if err != nil {
				rejected++
				continue
			}
			done(errs[i&1])
		}
		return rejected
	}
}

// gobreakerValue uses Execute with a closure that captures a variable.
type gobreakerValue struct {
	*gobreaker.CircuitBreaker[int]
}

func newGobreakerValue(r rules) breaker {
	return gobreakerValue{gobreaker.NewCircuitBreaker[int](gobreakerSettings(r))}
}

func (g gobreakerValue) calls(l load) func(int) int {
	errs := l.errors()
	return func(n int) (rejected int) {
		sum := 0
		for i := range n {
			v, err := g.Execute(func() (int, error) { return i, errs[i&1] })
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

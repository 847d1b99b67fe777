package bench

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/afex/hystrix-go/hystrix"
)

// hystrixCommand runs each call in a goroutine of its own, with a second one
// and a timer beside it, and counts in a third, which drops what it cannot keep
// up with: part of the cost falls after Do has returned, on another core if
// there is one. Commands live in a table of the whole process, by name.
type hystrixCommand struct{ name string }

var hystrixCommands atomic.Uint64

func newHystrix(r rules) breaker {
	return newHystrixOf(r, 1<<16) // tickets come back late under load
}

// newHystrixOf makes a command with so many tickets: calls at a time.
func newHystrixOf(r rules, tickets int) breaker {
	h := hystrixCommand{fmt.Sprintf("bench-%d", hystrixCommands.Add(1))}
	percent := int(r.rate * 100)
	if r.rate > usual.rate {
		// It lets go of old calls before the old errors among them, and for a
		// moment sees more errors than calls.
		percent = never
	}
	hystrix.ConfigureCommand(h.name, hystrix.CommandConfig{
		Timeout:                60_000,
		MaxConcurrentRequests:  tickets,
		RequestVolumeThreshold: r.minCalls,
		SleepWindow:            int(r.open.Milliseconds()),
		ErrorPercentThreshold:  percent,
	})
	return h
}

func (h hystrixCommand) calls(l load) func(int) int {
	fns := turns(l, up, down)
	return func(n int) (rejected int) {
		for i := range n {
			if refused(hystrix.Do(h.name, fns[i&1], nil)) {
				rejected++
			}
		}
		return rejected
	}
}

func (hystrixCommand) settle() { time.Sleep(20 * time.Millisecond) }

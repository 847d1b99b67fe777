package bench

import (
	"errors"
	"time"
)

// rules are the settings every contender is made with, as far as it has them.
type rules struct {
	window      time.Duration
	buckets     int
	calls       int     // window of the last calls instead; 0: time window
	rate        float64 // failure rate that trips
	minCalls    int
	consecutive int           // failures in a row that trip; 0: no such rule
	slow        time.Duration // calls this long are slow; 0: no slow rule
	open        time.Duration
}

// slowRate is the rate of slow calls that trips, where there is a slow rule.
const slowRate = 0.6

// probes is how many probes close.
const probes = 3

// never is a number of calls that no run reaches.
const never = 1 << 30

var usual = rules{
	window: 10 * time.Second, buckets: 10,
	rate: 0.5, minCalls: 20, consecutive: 20, open: time.Second,
}

func (r rules) withSlow() rules { r.slow = time.Second; return r }

func (r rules) with(window time.Duration, buckets int) rules {
	r.window, r.buckets = window, buckets
	return r
}

func (r rules) withCalls(n int) rules { r.calls = n; return r }

// staysOpen keeps a breaker that has tripped open.
func (r rules) staysOpen() rules { r.open = time.Hour; return r }

// standsFailures does not trip when every call fails.
func (r rules) standsFailures() rules { r.minCalls, r.consecutive = never, never; return r }

// standsHalf does not trip when every other call fails, and has to look at the
// rate to know.
func (r rules) standsHalf() rules { r.rate = 0.9; return r }

// A load says how the calls end.
type load uint8

const (
	succeed load = iota
	fail
	half // every other call fails
)

// fails says which of two calls, taken in turn, fails.
func (l load) fails() [2]bool { return [2]bool{l == fail, l != succeed} }

// errDown is how calls fail.
var errDown = errors.New("down")

// refused reports whether err comes from the breaker and not from the call.
func refused(err error) bool {
	return err != nil && err != errDown //nolint:errorlint // errors.Is would be measured too
}

func (l load) errors() (errs [2]error) {
	for i, fails := range l.fails() {
		if fails {
			errs[i] = errDown
		}
	}
	return errs
}

// turns returns ok or bad for each of two calls taken in turn.
func turns[F any](l load, ok, bad F) (fns [2]F) {
	for i, fails := range l.fails() {
		fns[i] = ok
		if fails {
			fns[i] = bad
		}
	}
	return fns
}

func up() error   { return nil }
func down() error { return errDown }

// A breaker is one breaker of some library, used in one way.
type breaker interface {
	// calls returns a loop for one goroutine: it makes n calls, whose ends l
	// says, and returns how many of them were rejected. The loop calls the
	// library directly; nothing lies between.
	calls(l load) func(n int) (rejected int)
}

// A settler works on after its calls have returned; settle waits until it is done.
type settler interface{ settle() }

func settle(b breaker) {
	if s, ok := b.(settler); ok {
		s.settle()
	}
}

// trip makes calls that fail until b rejects, and reports whether it came to that.
func trip(b breaker) bool {
	failing := b.calls(fail)
	for range 100 {
		if failing(20) > 0 {
			return true
		}
		settle(b)
	}
	return false
}

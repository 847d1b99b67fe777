package fuseboxadmin

import (
	"sort"

	"github.com/fusebox-go/fusebox"
)

// Rule is how close a rule is to tripping the breaker.
type Rule struct {
	// Cause is the one a trip would have: failure-rate, slow-rate, consecutive
	// or trip-when.
	Cause fusebox.Cause `json:"cause"`
	// Value is what the rule looks at, a rate or a number of calls, and
	// Threshold where it trips. Both are 0 for trip-when, a function.
	Value     float64 `json:"value"`
	Threshold float64 `json:"threshold"`
	// MinCalls is how many calls the window must hold, and Enough whether it
	// does. 0 and true for a rule that asks for none.
	MinCalls int  `json:"min_calls"`
	Enough   bool `json:"enough"`
	// CallsToTrip is the distance: the least number of calls from now on, all
	// of them failures (for the slow rate: slow), with which the rule trips, if
	// no failure leaves the window meanwhile. 0 if no number does: a rate of 1
	// where there was a success, a function.
	CallsToTrip int `json:"calls_to_trip,omitempty"`
}

// newRules returns the rules of c that are on, in the order in which they are
// asked.
func newRules(c *fusebox.Config, n fusebox.Counts) []Rule {
	rules := []Rule{}
	if c.TripWhen != nil {
		return append(rules, Rule{Cause: fusebox.CauseTripWhen, Enough: true})
	}
	rate := func(cause fusebox.Cause, part int, threshold float64) {
		value := fusebox.Counts{Calls: n.Calls, Failures: part}.FailureRate()
		rules = append(rules, Rule{
			Cause: cause, Value: value, Threshold: threshold, MinCalls: c.MinCalls, Enough: n.Calls >= c.MinCalls,
			CallsToTrip: toTrip(part, n.Calls, c.MinCalls, c.WindowCalls, threshold),
		})
	}
	if c.FailureRate >= 0 {
		rate(fusebox.CauseFailureRate, n.Failures, c.FailureRate)
	}
	if c.SlowAfter > 0 {
		rate(fusebox.CauseSlowRate, n.Slow, c.SlowRate)
	}
	if c.Consecutive > 0 {
		rules = append(rules, Rule{
			Cause: fusebox.CauseConsecutive, Value: float64(n.Consecutive), Threshold: float64(c.Consecutive), Enough: true,
			CallsToTrip: max(c.Consecutive-n.Consecutive, 1),
		})
	}
	return rules
}

// toTrip returns the least k >= 1 with which calls+k is at least least, and
// (part+k)/(calls+k) at least threshold; a window of so many calls grows to
// that, and then a success leaves it for each call that comes. 0: there is none
// within reason.
func toTrip(part, calls, least, window int, threshold float64) int {
	const reason = 1 << 30
	first := max(least-calls, 1)
	more := sort.Search(reason, func(i int) bool { // as k grows, so does the rate
		k := first + i
		n := calls + k
		if window > 0 {
			n = min(n, window)
		}
		return float64(min(part+k, n))/float64(n) >= threshold
	})
	if more == reason {
		return 0
	}
	return first + more
}

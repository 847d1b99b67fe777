package scenario

import (
	"math"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Result is what became of a scenario. Instants are times since its start; what
// had not ended at its end is in it as a number only.
type Result struct {
	Scenario *Scenario
	Seed     uint64

	Breakers     []string     // names, of all processes
	Transitions  []Transition // in the order of time
	Calls        []Call       // in the order of their ends
	Attempts     []Attempt    // in the order of their ends
	MostInFlight []int        // attempts at a time, by dependency
	// CallsUnderWay and AttemptsUnderWay are how many had begun and not ended at
	// the end, by traffic and by dependency.
	CallsUnderWay, AttemptsUnderWay []int
	MostSlots                       int // taken at a time; 0 without Slots

	Steps     []Step // if asked for
	MoreSteps int    // that were not kept
}

// Transition is a record of a breaker.
type Transition struct {
	Breaker  string
	At       time.Duration
	From, To fusebox.State
	Cause    fusebox.Cause
	Why      string
	Until    time.Duration // when an open breaker probes, as planned; 0: it is not open, or nobody knows
}

// Fate is what became of a call.
type Fate uint8

// The fates of calls.
const (
	Served          Fate = iota
	Answered             // by the fallback
	Failed               // an attempt reached a dependency
	RejectedBreaker      // no attempt did: a breaker rejected them
	RejectedFull         // no place was free
)

// Rejected reports whether no attempt of the call reached a dependency, and it
// has no answer.
func (f Fate) Rejected() bool { return f == RejectedBreaker || f == RejectedFull }

// Call is a call of traffic, with all its attempts.
type Call struct {
	Index        int // from 0, in the order of beginning
	Traffic      int
	Began, Ended time.Duration
	Attempts     int // that reached a dependency
	Fate         Fate
}

// Attempt is a call as a dependency sees it.
type Attempt struct {
	Dependency, Call int
	Began, Ended     time.Duration
	Failed           bool // or was given up
}

// Step is something that happened to a breaker, and the rule by which it did.
type Step struct {
	At            time.Duration
	Breaker       string
	Call          int // from 1
	What          string
	Rule          string
	Before, After Held
}

// Changed reports whether the state is another after the step.
func (s Step) Changed() bool { return s.Before.State != s.After.State }

// Held is what a breaker holds, in words.
type Held struct {
	State fusebox.State
	Text  string
}

// StateAt returns the state of a breaker at an instant: an open one whose period
// is over is half-open, although no call has told it.
func (r *Result) StateAt(breaker string, at time.Duration) fusebox.State {
	state, until := fusebox.Closed, time.Duration(0)
	for _, t := range r.Transitions {
		if t.Breaker == breaker && t.At <= at {
			state, until = t.To, t.Until
		}
	}
	if state == fusebox.Open && until > 0 && at >= until {
		return fusebox.HalfOpen
	}
	return state
}

// firstAt returns the first instant from which on, or after which, the breaker
// is in a state.
func (r *Result) firstAt(breaker string, state fusebox.State, after time.Duration) (time.Duration, bool) {
	if r.StateAt(breaker, after) == state {
		return after, true
	}
	for _, t := range r.Transitions {
		if t.Breaker == breaker && t.At > after && t.To == state {
			return t.At, true
		}
	}
	return 0, false
}

// statesBetween returns the states that a breaker is in between two instants.
func (r *Result) statesBetween(breaker string, after, until time.Duration) []fusebox.State {
	states := []fusebox.State{r.StateAt(breaker, after), r.StateAt(breaker, until)}
	for _, t := range r.Transitions {
		if t.Breaker == breaker && t.At > after && t.At <= until {
			states = append(states, t.To)
		}
	}
	slices.Sort(states)
	return slices.Compact(states)
}

// trips counts the trips of a breaker between two instants.
func (r *Result) trips(breaker string, after, until time.Duration) (n int) {
	for _, t := range r.Transitions {
		if t.Breaker == breaker && t.At >= after && t.At < until && t.From == fusebox.Closed && t.To == fusebox.Open {
			n++
		}
	}
	return n
}

// Tally counts calls by what became of them.
type Tally struct {
	Calls  int
	By     [RejectedFull + 1]int
	served []time.Duration // how long the served ones took, sorted
}

// Rejected is how many calls were rejected.
func (t *Tally) Rejected() int { return t.By[RejectedBreaker] + t.By[RejectedFull] }

// Share returns n as a share of the calls; 0 where there are none.
func (t *Tally) Share(n int) float64 {
	if t.Calls == 0 {
		return 0
	}
	return float64(n) / float64(t.Calls)
}

// Quantile returns how long at most the given share of the served calls took; 0
// where there are none.
func (t *Tally) Quantile(p float64) time.Duration {
	if len(t.served) == 0 {
		return 0
	}
	return t.served[max(0, int(math.Ceil(p*float64(len(t.served))))-1)]
}

// Tally counts the calls of traffic, by its index, that began between two
// instants.
func (r *Result) Tally(traffic int, after, until time.Duration) Tally {
	var t Tally
	for _, c := range r.Calls {
		if c.Traffic != traffic || c.Began < after || c.Began >= until {
			continue
		}
		t.Calls++
		t.By[c.Fate]++
		if c.Fate == Served {
			t.served = append(t.served, c.Ended-c.Began)
		}
	}
	slices.Sort(t.served)
	return t
}

// Reached counts the attempts that reached a dependency, by its index, and began
// between two instants.
func (r *Result) Reached(dependency int, after, until time.Duration) (calls, failures int) {
	for _, a := range r.Attempts {
		if a.Dependency != dependency || a.Began < after || a.Began >= until {
			continue
		}
		calls++
		if a.Failed {
			failures++
		}
	}
	return calls, failures
}

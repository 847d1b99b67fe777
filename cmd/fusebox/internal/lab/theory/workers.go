package theory

import (
	"slices"
	"time"
)

// Workers call one after another through one breaker that trips after a run of
// failures, and come back a pause after an answer or a rejection. No two of them
// do anything at one instant.
type Workers struct {
	Starts         []time.Duration // of the first call of each, within one pause
	Pause, Latency time.Duration
	For            time.Duration
	From, Until    time.Duration // what begins from one up to the other fails
	Consecutive    int
	Open           time.Duration
	Probes         int  // at a time, and successes that close
	After          bool // a call at the very end of the open period is rejected
}

// FailedProbes returns how many calls fail that are admitted in half-open. It
// follows every call, with a breaker of as few words as there can be.
func (w Workers) FailedProbes() (failed int) {
	type answer struct {
		at     time.Duration
		probe  bool
		fails  bool
		period int // that admitted the call
	}
	// All pauses are as long, and all calls: both lists are in order of time.
	calls, answers := slices.Sorted(slices.Values(w.Starts)), []answer{}
	const closed, halfOpen, open = 0, 1, 2
	state, period, run, admitted := closed, 0, 0, 0
	var until time.Duration // of the open period
	enter := func(next int) { state, period, run, admitted = next, period+1, 0, 0 }
	for len(calls)+len(answers) > 0 {
		if len(answers) == 0 || len(calls) > 0 && calls[0] <= answers[0].at {
			now := calls[0]
			calls = calls[1:]
			if now > w.For {
				break
			}
			if state == open && (now > until || now == until && !w.After) {
				enter(halfOpen)
			}
			if state == open || state == halfOpen && admitted >= w.Probes {
				calls = append(calls, now+w.Pause)
				continue
			}
			admitted++
			answers = append(answers, answer{now + w.Latency, state == halfOpen, now >= w.From && now < w.Until, period})
			continue
		}
		next := answers[0]
		answers = answers[1:]
		if next.at > w.For {
			break
		}
		if next.probe && next.fails {
			failed++
		}
		if next.period == period {
			switch {
			case next.fails:
				if run++; state == halfOpen || run >= w.Consecutive {
					enter(open)
					until = next.at + w.Open
				}
			case state == closed:
				run = 0
			default: // half-open: the run is of successes
				if run++; run >= w.Probes {
					enter(closed)
				}
			}
		}
		calls = append(calls, next.at+w.Pause)
	}
	return failed
}

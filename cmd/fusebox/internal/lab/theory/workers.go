package theory

import "time"

// Workers call one after another through one breaker that trips after a run of
// failures, and come back a pause after an answer or a rejection. No two of them
// do anything at one instant.
type Workers struct {
	Starts         []time.Duration // of the first call of each
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
	type worker struct {
		at     time.Duration // of the next call, or of the answer
		out    bool          // there is a call, admitted in period
		probe  bool
		fails  bool
		period int
	}
	workers := make([]worker, len(w.Starts))
	for i, start := range w.Starts {
		workers[i].at = start
	}
	const closed, halfOpen, open = 0, 1, 2
	state, period, run, admitted := closed, 0, 0, 0
	var until time.Duration // of the open period
	enter := func(next int) { state, period, run, admitted = next, period+1, 0, 0 }
	for {
		next := &workers[0]
		for i := range workers {
			if workers[i].at < next.at {
				next = &workers[i]
			}
		}
		now := next.at
		if now > w.For {
			return failed
		}
		if !next.out {
			if state == open && (now > until || now == until && !w.After) {
				enter(halfOpen)
			}
			if state == open || state == halfOpen && admitted >= w.Probes {
				next.at += w.Pause
				continue
			}
			admitted++
			*next = worker{now + w.Latency, true, state == halfOpen, now >= w.From && now < w.Until, period}
			continue
		}
		if next.probe && next.fails {
			failed++
		}
		if next.period == period {
			switch {
			case next.fails:
				if run++; state == halfOpen || run >= w.Consecutive {
					enter(open)
					until = now + w.Open
				}
			case state == closed:
				run = 0
			default: // half-open: the run is of successes
				if run++; run >= w.Probes {
					enter(closed)
				}
			}
		}
		next.at, next.out = now+w.Pause, false
	}
}

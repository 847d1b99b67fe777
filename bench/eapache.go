package bench

import resiliency "github.com/eapache/go-resiliency/breaker"

// eapache counts no successes and has no window: while closed, a success is
// one load of the state. It trips after a number of failures without a pause.
type eapache struct{ *resiliency.Breaker }

func newEapache(r rules) breaker {
	failures := r.consecutive
	if r.rate > usual.rate || failures == 0 {
		failures = never // no success ever clears its failures
	}
	return eapache{resiliency.New(failures, probes, r.open)}
}

func (e eapache) calls(l load) func(int) int {
	fns := turns(l, up, down)
	return func(n int) (rejected int) {
		for i := range n {
			if refused(e.Run(fns[i&1])) {
				rejected++
			}
		}
		return rejected
	}
}

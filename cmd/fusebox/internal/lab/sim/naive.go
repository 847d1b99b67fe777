package sim

import (
	"time"

	"github.com/fusebox-go/fusebox"
)

// Naive returns a breaker as it is often written by hand: it trips after so
// many failures in a row, admits so many probes at a time once openFor is over,
// and closes when as many have succeeded. It does not remember in which period
// a call was admitted, so the result of any call counts in the period in which
// it comes.
func Naive(l *Loop, consecutive, probes int, openFor time.Duration, on Change) Breaker {
	return &naive{loop: l, consecutive: consecutive, probes: probes, openFor: openFor, on: on}
}

type naive struct {
	loop                *Loop
	consecutive, probes int
	openFor             time.Duration
	on                  Change

	state    fusebox.State
	run      int // failures in a row, or in half-open successes
	out      int // probes
	openedAt time.Duration
}

func (n *naive) State() fusebox.State {
	if n.state == fusebox.Open && n.loop.Elapsed() >= n.openedAt+n.openFor {
		return fusebox.HalfOpen
	}
	return n.state
}

func (*naive) RetryAfter() time.Duration { return 0 }

func (n *naive) enter(s fusebox.State) {
	from := n.state
	n.state, n.run, n.out = s, 0, 0
	n.openedAt = n.loop.Elapsed()
	if n.on != nil {
		n.on(from, s)
	}
}

func (n *naive) Allow() (func(bool), Verdict) {
	if n.state == fusebox.Open {
		if n.State() == fusebox.Open {
			return nil, RejectedOpen
		}
		n.enter(fusebox.HalfOpen)
	}
	if n.state == fusebox.HalfOpen {
		if n.out >= n.probes {
			return nil, RejectedProbing
		}
		n.out++
	}
	return n.done, Admitted
}

func (n *naive) done(success bool) {
	switch n.state {
	case fusebox.Closed:
		n.run++
		if success {
			n.run = 0
		}
		if n.run >= n.consecutive {
			n.enter(fusebox.Open)
		}
	case fusebox.HalfOpen:
		n.out--
		if !success {
			n.enter(fusebox.Open)
			return
		}
		if n.run++; n.run >= n.probes {
			n.enter(fusebox.Closed)
		}
	}
}

package main

import (
	"math/rand/v2"
	"slices"
	"time"
)

// What the upstream does. Times do not shrink with the schedule: a breaker's
// settings do not either.
const (
	callsPerSecond = 150
	meanHealthy    = 5 * time.Millisecond
	meanSlow       = 600 * time.Millisecond
)

// kind is what the upstream does in a phase.
type kind int

const (
	healthy kind = iota
	errors503
	slow
)

// phase is a span of the schedule: from its beginning up to, not including, its end.
type phase struct {
	Kind     kind
	From, To time.Duration
}

// schedule is the phases in order, without gaps, from 0 on.
type schedule []phase

// newSchedule returns the schedule of 45 s, every instant of it times scale.
func newSchedule(scale float64) schedule {
	at := func(seconds float64) time.Duration {
		return time.Duration(seconds * scale * float64(time.Second)).Round(time.Millisecond)
	}
	return schedule{
		{healthy, 0, at(10)},
		{errors503, at(10), at(20)},
		{healthy, at(20), at(28)},
		{slow, at(28), at(36)},
		{healthy, at(36), at(45)},
	}
}

func (s schedule) length() time.Duration { return s[len(s)-1].To }

// at returns the number of the phase at t. Before the schedule it is the first,
// after it the last.
func (s schedule) at(t time.Duration) int {
	i := slices.IndexFunc(s, func(p phase) bool { return t < p.To })
	if i < 0 {
		return len(s) - 1
	}
	return i
}

// calls returns how many calls the schedule has.
func (s schedule) calls() int {
	return int((s.length()*callsPerSecond + time.Second - 1) / time.Second)
}

// planned returns when the call of that number is made.
func planned(id int) time.Duration {
	return time.Duration(id) * time.Second / callsPerSecond
}

// within returns the numbers of the calls planned in a phase: from, up to but
// not including to.
func (s schedule) within(p phase) (from, to int) {
	first := func(t time.Duration) int {
		return min(int((t*callsPerSecond+time.Second-1)/time.Second), s.calls())
	}
	return first(p.From), first(p.To)
}

// latency is how long the answer to a call takes: half the mean at least, and
// an exponential tail. It is drawn by the call's number, so that each proxy
// meets the same.
func latency(k kind, id int) time.Duration {
	mean := meanHealthy
	if k == slow {
		mean = meanSlow
	}
	draw := rand.New(rand.NewPCG(uint64(id), uint64(k)))
	return mean/2 + time.Duration(draw.ExpFloat64()*float64(mean/2))
}

package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fusebox-go/fusebox"
)

// The clock moves, and the totals are read, between phases only: a call reads
// the clock before it takes the lock, and a success that takes none is, for a
// Snapshot, finishing until it has returned.
const (
	clients = 4
	phases  = 4
	each    = 4 // operations of a client in a phase
)

type action int

const (
	allow action = iota
	succeed
	fail
	ignore
	cancel
	readState
	reset
	forceOpen
	forceClosed
	lift
	readTotals
	advance
)

func (a action) String() string {
	return []string{
		"allow", "succeed", "fail", "ignore", "cancel", "state", "reset", "force-open", "force-closed", "lift", "totals", "advance",
	}[a]
}

// in is an operation; permit is the number of the operation that is, or was,
// the Allow.
type in struct {
	action action
	permit int
	by     uint8
}

// answer is what came of it.
type answer struct {
	rejected, probing bool
	accepted          bool
	state             fusebox.State
	totals            sums
}

type sums struct{ successes, failures, ignored, late, rejectedOpen, rejectedProbing uint64 }

// The settings that the specification knows.
const (
	inARow      = 2
	openFor     = 10
	probesOut   = 2
	closeAfter  = 2
	reopenAfter = 2
)

// spec is the sequential breaker. Its operations happen one after another.
type spec struct {
	now, deadline    uint8
	state            fusebox.State
	forced           int8 // 1: open, -1: closed
	generation       uint8
	run, passed, bad uint8
	sums             sums
	permits          [clients * phases * each]uint8 // generation + 1; 0: none or finished
}

func (s *spec) enter(to fusebox.State) {
	s.state = to
	s.generation++
	s.run, s.passed, s.bad = 0, 0, 0
	s.deadline = s.now + openFor
}

func (s *spec) out() (n uint8) {
	for _, g := range s.permits {
		if g == s.generation+1 {
			n++
		}
	}
	return n
}

func (s *spec) overdue() bool {
	return s.state == fusebox.Open && s.forced != 1 && s.now >= s.deadline
}

func (s *spec) allow(permit int) (a answer) {
	if s.overdue() {
		s.enter(fusebox.HalfOpen)
	}
	out := s.out()
	switch {
	case s.state == fusebox.Open:
		s.sums.rejectedOpen++
		return answer{rejected: true}
	case s.state == fusebox.HalfOpen && (out >= probesOut || out >= closeAfter-s.passed+reopenAfter-s.bad-1):
		s.sums.rejectedProbing++
		return answer{rejected: true, probing: true}
	}
	s.permits[permit] = s.generation + 1
	return answer{}
}

func (s *spec) finish(permit int, how action) (a answer) {
	g := s.permits[permit]
	s.permits[permit] = 0
	if how == cancel {
		return a
	}
	if g != s.generation+1 {
		s.sums.late++
		return a
	}
	a.accepted = true
	switch how {
	case ignore:
		s.sums.ignored++
		return a
	case succeed:
		s.sums.successes++
		s.run = 0
	default:
		s.sums.failures++
		s.run++
	}
	switch {
	case s.state == fusebox.Closed && s.forced == 0 && how == fail && s.run >= inARow:
		s.enter(fusebox.Open)
	case s.state == fusebox.HalfOpen && how == succeed:
		if s.passed++; s.passed == closeAfter {
			s.enter(fusebox.Closed)
		}
	case s.state == fusebox.HalfOpen:
		if s.bad++; s.bad == reopenAfter {
			s.enter(fusebox.Open)
		}
	}
	return a
}

func (s *spec) step(i in) (a answer) {
	switch i.action {
	case allow:
		return s.allow(i.permit)
	case succeed, fail, ignore, cancel:
		return s.finish(i.permit, i.action)
	case readState:
		a.state = s.state
		if s.overdue() {
			a.state = fusebox.HalfOpen
		}
	case readTotals:
		a.totals = s.sums
	case advance:
		s.now += i.by
	case reset:
		s.enter(fusebox.Closed)
		s.forced = 0
	case forceOpen:
		if s.state != fusebox.Open {
			s.enter(fusebox.Open)
		}
		s.forced = 1
	case forceClosed:
		if s.state != fusebox.Closed {
			s.enter(fusebox.Closed)
		}
		s.forced = -1
	case lift:
		if s.forced == 1 {
			s.enter(fusebox.HalfOpen)
		}
		s.forced = 0
	}
	return a
}

var sequential = porcupine.Model{
	Init: func() any { return spec{} },
	Step: func(state, input, output any) (bool, any) {
		s := state.(spec)
		a := s.step(input.(in))
		return a == output.(answer), s
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// history runs one history.
func history(seed uint64) []porcupine.Operation {
	var clock atomicClock
	b := fusebox.New("lin", fusebox.Config{
		Now: clock.now, FailureRate: -1, Consecutive: inARow, OpenFor: openFor, OpenForMax: openFor, OpenJitter: -1,
		Probes: probesOut, CloseAfter: closeAfter, ReopenAfter: reopenAfter, ProbeTimeout: time.Hour,
	})
	var tick atomic.Int64
	var permits [clients * phases * each]fusebox.Permit
	var ops [clients + 1][]porcupine.Operation
	do := func(client int, i in) answer {
		called := tick.Add(1)
		a := perform(b, &clock, &permits[i.permit], i)
		ops[client] = append(ops[client], porcupine.Operation{ClientId: client, Input: i, Output: a, Call: called, Return: tick.Add(1)})
		return a
	}
	var mine [clients][]int // permits that are out
	conductor := rand.New(rand.NewPCG(seed, clients))
	for phase := range phases {
		var wg sync.WaitGroup
		start := make(chan struct{})
		for c := range clients {
			rnd := rand.New(rand.NewPCG(seed, uint64(c*phases+phase)))
			wg.Go(func() {
				<-start
				for n := range each {
					i := in{action: allow, permit: (c*phases+phase)*each + n}
					held := mine[c]
					switch k := rnd.IntN(20); {
					case k < 11 && len(held) > 0:
						j := rnd.IntN(len(held))
						i.permit = held[j]
						mine[c] = append(held[:j:j], held[j+1:]...)
						i.action = []action{succeed, succeed, succeed, fail, fail, fail, ignore, cancel}[rnd.IntN(8)]
					case k == 12, k == 13:
						i.action = readState
					case k == 14:
						i.action = []action{reset, forceOpen, forceClosed, lift, lift}[rnd.IntN(5)]
					}
					if a := do(c, i); i.action == allow && !a.rejected {
						mine[c] = append(mine[c], i.permit)
					}
				}
			})
		}
		close(start)
		wg.Wait()
		do(clients, in{action: readTotals})
		do(clients, in{action: advance, by: uint8(conductor.IntN(3) * 6)})
	}
	var all []porcupine.Operation
	for _, list := range ops {
		all = append(all, list...)
	}
	return all
}

func perform(b *fusebox.Breaker, clock *atomicClock, p *fusebox.Permit, i in) (a answer) {
	switch i.action {
	case allow:
		permit, err := b.Allow(context.Background())
		*p = permit.Take()
		a.rejected = err != nil
		open, _ := err.(*fusebox.OpenError) //nolint:errorlint // Allow returns it as it is.
		a.probing = open != nil && open.Is(fusebox.ErrProbing)
	case succeed:
		a.accepted = p.Record(fusebox.Success)
	case fail:
		a.accepted = p.Record(fusebox.Failure)
	case ignore:
		a.accepted = p.Record(fusebox.Ignored)
	case cancel:
		p.Cancel()
	case readState:
		a.state = b.State()
	case readTotals:
		t := b.Snapshot().Totals
		a.totals = sums{t.Successes, t.Failures, t.Ignored, t.Late, t.RejectedOpen, t.RejectedProbing}
	case advance:
		clock.advance(time.Duration(i.by))
	case reset:
		b.Reset(fusebox.Note{})
	case forceOpen:
		b.Override(fusebox.ForceOpen, fusebox.Note{})
	case forceClosed:
		b.Override(fusebox.ForceClosed, fusebox.Note{})
	case lift:
		b.Lift(fusebox.Note{})
	}
	return a
}

// TestPermitsAreLinearizable runs short histories of a few clients, and looks
// for an order of their operations that a sequential breaker could have shown.
func TestPermitsAreLinearizable(t *testing.T) {
	wide(t)
	base := rand.Uint64()
	unknown := 0
	for n := range uint64(400) {
		ops := history(base + n)
		switch porcupine.CheckOperationsTimeout(sequential, ops, 5*time.Second) {
		case porcupine.Illegal:
			for _, op := range ops {
				t.Logf("client %d: %d to %d: %v", op.ClientId, op.Call, op.Return, sequential.DescribeOperation(op.Input, op.Output))
			}
			t.Fatalf("history %d of seed %d is not linearizable", n, base)
		case porcupine.Unknown:
			unknown++
		}
	}
	if unknown > 20 {
		t.Errorf("%d histories could not be checked in time", unknown)
	}
}

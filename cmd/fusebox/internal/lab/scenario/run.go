package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/sim"
)

// Options are what a run is given besides the scenario.
type Options struct {
	Seed uint64
	// Steps is how many steps of the breakers are kept: the first ones. 0: none.
	Steps int
	// StepsOf is the breaker whose steps are kept, as an expectation names it; "":
	// any.
	StepsOf string
	// Elapsed, if not nil, is set to how far the run is, in nanoseconds of the
	// scenario, now and then.
	Elapsed *atomic.Int64

	most int // calls and attempts; 0: maxCalls
}

// Run plays a scenario. The error is that of ctx, or says that there are too many
// calls.
func Run(ctx context.Context, s *Scenario, o Options) (r *Result, err error) {
	sim.Bubble(func(*sim.Loop) {
		w := newWorld(s, o)
		w.begin()
		err = w.turns.run(ctx, s.For, w.end, w.progress)
		err = cmp.Or(err, w.err)
		r = w.finish()
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// world is a scenario being played. What it holds is touched by who has the
// turn.
type world struct {
	scenario *Scenario
	options  Options
	turns    *turns
	start    time.Time
	ctx      context.Context // of all calls
	stop     context.CancelFunc
	step     time.Duration // of the wall clock
	servers  []*server
	streams  []*stream
	slots    *bulkhead.Policy // nil: no bound
	taken    int              // slots

	breakers []*guard
	actors   int // numbers given to actors, which come before those of calls
	calls    int
	result   *Result
	err      error // why it was stopped
}

const firstCall = 1 << 24 // number of the first call

func newWorld(s *Scenario, o Options) *world {
	w := &world{scenario: s, options: o, turns: newTurns(), start: time.Now(), result: &Result{Scenario: s, Seed: o.Seed}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	for i, d := range s.Dependencies {
		w.servers = append(w.servers, newServer(d, w.rand(1, uint64(i))))
	}
	if s.Slots != nil {
		w.slots = bulkhead.New(s.Slots.Config("slots"))
	}
	return w
}

// rand returns a source of its own for one part of the world.
func (w *world) rand(kind, number uint64) *rand.Rand {
	return rand.New(rand.NewPCG(w.options.Seed, kind<<32|number))
}

func (w *world) elapsed() time.Duration { return time.Since(w.start) }

// wall is what the wall clock says: the steps reach it.
func (w *world) wall() time.Time { return time.Now().Round(0).Add(w.step) }

// over reports whether the scenario has ended: what happens then is no part of it.
func (w *world) over() bool { return w.ctx.Err() != nil || w.elapsed() >= w.scenario.For }

// progress tells how far the run is.
func (w *world) progress() {
	if w.options.Elapsed != nil {
		w.options.Elapsed.Store(int64(w.elapsed()))
	}
}

// bound stops the run if there are too many calls, with their attempts.
func (w *world) bound() {
	most := cmp.Or(w.options.most, maxCalls)
	if n := w.calls + len(w.result.Attempts); n > most && w.err == nil {
		w.err = fmt.Errorf("the scenario makes more than %d calls and attempts up to %v", most, w.elapsed())
		w.stop()
	}
}

// wait waits, and reports whether the scenario goes on.
func (w *world) wait(d time.Duration) bool {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-w.ctx.Done():
		}
	}
	return w.ctx.Err() == nil
}

// actor runs fn on a goroutine, with a number for its turns.
func (w *world) actor(fn func(number int)) {
	w.actors++
	number := w.actors
	w.turns.start(func() { fn(number) })
}

// at does something once at an instant.
func (w *world) at(at time.Duration, fn func()) {
	w.actor(func(number int) {
		if !w.wait(at) {
			return
		}
		if w.turns.take(number); !w.over() {
			fn()
		}
	})
}

// begin starts everything that acts by itself.
func (w *world) begin() {
	for _, step := range w.scenario.ClockSteps {
		w.at(step.At, func() { w.step += step.By - step.Back })
	}
	for i, t := range w.scenario.Traffic {
		w.streams = append(w.streams, w.newStream(i, t))
	}
	for _, o := range w.scenario.Overrides {
		w.at(o.At, func() { w.override(o) })
	}
	for _, s := range w.streams {
		s.begin()
	}
}

func (w *world) override(o Override) {
	for _, g := range w.breakers {
		if !matches(o.Breaker, g.name) {
			continue
		}
		note := fusebox.Note{Reason: "the scenario says so", By: "operator"}
		switch o.Do {
		case "lift":
			g.b.Lift(note)
		case "reset":
			g.b.Reset(note)
		default:
			var m fusebox.Mode
			if err := m.UnmarshalText([]byte(o.Do)); err != nil {
				panic(err) // Parse has seen to it
			}
			if o.For > 0 {
				note.Until = g.now().Add(o.For)
			}
			g.b.Override(m, note)
		}
	}
}

// end ends the scenario. What has fallen due by then and no call has told, such
// as the end of a lease, is told now: the state at a time depends on it.
func (w *world) end() {
	if w.elapsed() >= w.scenario.For {
		for _, g := range w.breakers {
			g.b.Lift(fusebox.Note{}) // its own record is no part of the result any more
		}
	}
	w.stop()
}

func (w *world) finish() *Result {
	slices.SortStableFunc(w.result.Transitions, func(a, b Transition) int { return cmp.Compare(a.At, b.At) })
	for i, s := range w.servers {
		ended, _ := w.result.Reached(i, 0, w.scenario.For)
		w.result.MostInFlight = append(w.result.MostInFlight, s.most)
		w.result.AttemptsUnderWay = append(w.result.AttemptsUnderWay, s.begun-ended)
	}
	for i, s := range w.streams {
		ended := w.result.Tally(i, 0, w.scenario.For)
		w.result.CallsUnderWay = append(w.result.CallsUnderWay, s.begun-ended.Calls)
	}
	for _, g := range w.breakers {
		w.result.Breakers = append(w.result.Breakers, g.name)
	}
	return w.result
}

// attempt is one attempt of a call at a dependency. It begins and ends in the
// caller's turn.
func (w *world) attempt(ctx context.Context, c *call, to int) error {
	server := w.servers[to]
	now := w.elapsed()
	end, err := server.accept(now)
	a := Attempt{Dependency: to, Call: c.index, Began: now}
	c.attempts++
	w.bound()
	server.inFlight++
	if !w.over() {
		server.begun++
	}
	server.most = max(server.most, server.inFlight)
	// A timer and a deadline of one instant would wake in no fixed order: the
	// deadline decides.
	if deadline, ok := ctx.Deadline(); ok && !w.start.Add(end).Before(deadline) {
		<-ctx.Done()
		err = ctx.Err()
	} else if d := end - now; d > 0 {
		t := time.NewTimer(d)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			err = ctx.Err()
		}
	}
	w.turns.take(c.number)
	server.inFlight--
	if !w.over() {
		a.Ended, a.Failed = w.elapsed(), err != nil
		w.result.Attempts = append(w.result.Attempts, a)
	}
	return err
}

// fateOf says what became of a call that ended with err.
func (c *call) fateOf(err error) Fate {
	switch {
	case err == nil && c.answered:
		return Answered
	case err == nil:
		return Served
	case c.attempts > 0:
		return Failed
	case errors.Is(err, bulkhead.ErrFull):
		return RejectedFull
	}
	return RejectedBreaker
}

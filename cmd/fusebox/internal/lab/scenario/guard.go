package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
)

// guard is a breaker of the world.
type guard struct {
	*world
	name   string
	b      *fusebox.Breaker
	policy fusebox.Policy // the breaker itself, or the guard, which keeps steps
	last   []fusebox.Transition
	wall   bool // it reads the wall clock
}

// guardOf returns the breaker of that name, which several kinds of traffic may
// share.
func (w *world) guardOf(name string, b Breaker, draw func() float64) *guard {
	if i := slices.IndexFunc(w.breakers, func(g *guard) bool { return g.name == name }); i >= 0 {
		return w.breakers[i]
	}
	g := &guard{world: w, name: name}
	c := b.config()
	c.Rand = draw
	if b.Clock == "wall" {
		c.Now, g.wall = w.wall, true
	}
	c.Observers = append(c.Observers, fusebox.Observer{Transition: g.changed})
	g.b = fusebox.New(name, c)
	g.policy = g.b
	if w.options.Steps > 0 && (w.options.StepsOf == "" || matches(w.options.StepsOf, name)) {
		g.policy = g
	}
	w.breakers = append(w.breakers, g)
	return g
}

// changed is told of every record.
func (g *guard) changed(t fusebox.Transition) {
	g.last = append(g.last, t)
	now := g.elapsed()
	if !g.wall { // the end of a lease or an override is older than the call that commits it
		now = t.At.Sub(g.start)
	}
	if g.ctx.Err() != nil || now >= g.scenario.For {
		return
	}
	change := Transition{Breaker: g.name, At: now, From: t.From, To: t.To, Cause: t.Cause, Why: t.Why()}
	if !t.Until.IsZero() && !g.wall { // the wall clock may step before that
		change.Until = now + t.Until.Sub(t.At)
	}
	g.result.Transitions = append(g.result.Transitions, change)
}

// Do is that of the breaker, with its steps kept.
func (g *guard) Do(ctx context.Context, fn func(context.Context) error) error {
	c := callOf(ctx)
	before := g.look()
	permit, err := g.b.Allow(ctx)
	g.step(c, fmt.Sprintf("call %d asks", c.index+1), before, func(i fusebox.Inspection) string { return g.asked(before, i, err) })
	if err != nil {
		return err
	}
	defer permit.Cancel() // of a panic only: it is finished below
	began := g.elapsed()
	err = fn(ctx)
	before = g.look()
	counts := permit.Finish(ctx, err)
	what := fmt.Sprintf("call %d succeeds", c.index+1)
	if err != nil {
		what = fmt.Sprintf("call %d fails", c.index+1)
	}
	if took := g.elapsed() - began; took > 0 {
		what += fmt.Sprintf(" after %v", took.Round(time.Microsecond))
	}
	g.step(c, what, before, func(i fusebox.Inspection) string { return g.finished(before, i, err, counts) })
	return err
}

// look returns what the breaker holds, and forgets the records so far.
func (g *guard) look() fusebox.Inspection {
	g.last = nil
	return g.b.Inspect()
}

// step keeps a step.
func (g *guard) step(c *call, what string, before fusebox.Inspection, rule func(fusebox.Inspection) string) {
	if g.over() {
		return
	}
	if len(g.result.Steps) >= g.options.Steps {
		g.result.MoreSteps++
		return
	}
	after := g.b.Inspect()
	g.result.Steps = append(g.result.Steps, Step{
		At: g.elapsed(), Breaker: g.name, Call: c.index + 1, What: what, Rule: rule(after),
		Before: g.held(before), After: g.held(after),
	})
}

// held says what a breaker holds, in words.
func (g *guard) held(i fusebox.Inspection) Held {
	h := Held{State: i.State}
	switch i.State {
	case fusebox.Closed:
		h.Text = fmt.Sprintf("%s in the window, %d of them failed, %d in a row", plural(i.Counts.Calls, "call"), i.Counts.Failures, i.Counts.Consecutive)
		if i.Config.SlowAfter > 0 {
			h.Text += fmt.Sprintf(", %d slow", i.Counts.Slow)
		}
	case fusebox.HalfOpen:
		if i.Last.To == fusebox.Open {
			h.Text = "the open period is over, and no call has come since"
			break
		}
		h.Text = fmt.Sprintf("%s out, %d succeeded, %d failed", plural(i.Outstanding, "probe"), i.Passed, i.Failed)
	case fusebox.Open:
		h.Text = "rejects every call"
		if !i.Until.IsZero() {
			h.Text = fmt.Sprintf("for %v more", g.remaining(i).Round(time.Microsecond))
		}
	}
	return h
}

// now is what the breaker's clock says.
func (g *guard) now() time.Time {
	if g.wall {
		return g.world.wall()
	}
	return time.Now()
}

// remaining is how long an open breaker stays open, by its clock.
func (g *guard) remaining(i fusebox.Inspection) time.Duration { return max(i.Until.Sub(g.now()), 0) }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// asked says which rule admitted a call or rejected it.
func (g *guard) asked(before, after fusebox.Inspection, err error) string {
	if lapsed := g.lapsed(); lapsed != "" {
		g.last = g.last[1:]
		return lapsed + "; " + g.asked(before, after, err)
	}
	switch {
	case errors.Is(err, fusebox.ErrProbing):
		return fmt.Sprintf("half-open, and the probes that can matter are out: rejected (probes %d)", after.Config.Probes)
	case err != nil:
		retryAfter, _ := fusebox.Rejected(err)
		if retryAfter == 0 {
			return "open: rejected"
		}
		return fmt.Sprintf("open: rejected, worth another try in %v", retryAfter.Round(time.Microsecond))
	case after.Mode != fusebox.Enforce:
		return fmt.Sprintf("mode %v: admitted", after.Mode)
	case after.State == fusebox.HalfOpen && len(g.last) > 0:
		return "the open period is over: half-open, and this call is the first probe"
	case after.State == fusebox.HalfOpen:
		return fmt.Sprintf("half-open with %s out of at most %d: admitted as one more", plural(before.Outstanding, "probe"), after.Config.Probes)
	}
	return "closed: every call is admitted"
}

// lapsed says what had fallen due before the call that commits it, if something
// has.
func (g *guard) lapsed() string {
	if len(g.last) == 0 {
		return ""
	}
	switch t := g.last[0]; t.Cause {
	case fusebox.CauseProbeExpired:
		return fmt.Sprintf("had reopened %v ago: %s", g.now().Sub(t.At).Round(time.Microsecond), t.Why())
	case fusebox.CauseOverrideEnded:
		return t.Why()
	default:
	}
	return ""
}

// finished says what the end of a call did.
func (g *guard) finished(before, after fusebox.Inspection, err error, counts bool) string {
	if lapsed := g.lapsed(); lapsed != "" {
		g.last = g.last[1:]
		return lapsed + "; " + g.finished(before, after, err, counts)
	}
	for _, t := range g.last {
		switch {
		case t.From == fusebox.Closed && t.To == fusebox.Open:
			return "trips: " + t.Why()
		case t.To == fusebox.Open:
			return "reopens: " + t.Why()
		case t.From == fusebox.HalfOpen && t.To == fusebox.Closed:
			return "closes: " + t.Why()
		}
	}
	switch {
	case !counts:
		return "late: it was admitted before the last change of state, and counts nowhere"
	case before.State == fusebox.HalfOpen && after.Passed > before.Passed:
		return fmt.Sprintf("a probe has succeeded: %d of the %d that close", after.Passed, after.Config.CloseAfter)
	case before.State == fusebox.HalfOpen && after.Failed > before.Failed:
		return fmt.Sprintf("a probe has failed: %d of the %d that reopen", after.Failed, after.Config.ReopenAfter)
	case before.State == fusebox.HalfOpen:
		return "ignored: the probe's slot is free again"
	case err == nil && before.Counts.Consecutive > 0:
		return "a success counts, and ends the run of failures"
	case err == nil:
		return "a success counts"
	}
	return "a failure counts" + distance(after)
}

// distance says how far a closed breaker is from tripping.
func distance(i fusebox.Inspection) (text string) {
	if n := i.Config.Consecutive; n > 0 {
		text += fmt.Sprintf("; %d in a row of the %d that trip", i.Counts.Consecutive, n)
	}
	if rate := i.Config.FailureRate; rate > 0 {
		if i.Counts.Calls < i.Config.MinCalls {
			text += fmt.Sprintf("; %s of the %d that a rate needs", plural(i.Counts.Calls, "call"), i.Config.MinCalls)
		} else {
			text += fmt.Sprintf("; a failure rate of %.2f, and %.2f trips", i.Counts.FailureRate(), rate)
		}
	}
	return text
}

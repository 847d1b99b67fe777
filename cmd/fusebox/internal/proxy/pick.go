package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// allOpenError is the rejection of a request when the breakers of all endpoints
// refuse it. It says what the one says that is the first to come back.
type allOpenError struct {
	*fusebox.OpenError
	upstream string
}

// Unwrap returns the rejection by that breaker.
func (e *allOpenError) Unwrap() error { return e.OpenError }

// Error names the upstream.
func (e *allOpenError) Error() string {
	return fmt.Sprintf("fusebox: all endpoints of %q are open; the first to come back: %v", e.upstream, e.OpenError)
}

// admit chooses the endpoint of an attempt and asks its breaker.
func (u *upstream) admit(req *http.Request) (*http.Request, fusebox.Permit, error) {
	s := req.Context().Value(stageKey{}).(*stage)
	to, permit, err := u.pick(s)
	if err != nil {
		s.call.refused(err)
		return nil, fusebox.Permit{}, err
	}
	if len(u.endpoints) > 1 {
		s.tried = append(s.tried, to.endpoint)
	}
	s.endpoint = to.endpoint
	if log := s.call.log; log != nil {
		log.admitted(to, permit.Probe())
	}
	return req, permit.Take(), nil
}

// choice is where an attempt goes, and the breaker that was asked.
type choice struct {
	endpoint *endpoint
	guard    *guard
	state    fusebox.State // before it was asked, if there is an access log
	forced   bool          // although the breaker refuses
}

// ask asks the breaker of g for e.
func (s *stage) ask(g *guard, e *endpoint) (choice, fusebox.Permit, error) {
	to := choice{endpoint: e, guard: g}
	if s.call.log != nil {
		to.state = g.State()
	}
	permit, err := g.Allow(s)
	return to, permit.Take(), err
}

// pick chooses, and asks the breaker.
func (u *upstream) pick(s *stage) (choice, fusebox.Permit, error) {
	turn := 0
	if len(u.endpoints) > 1 {
		turn = int(u.turn.Add(1) % uint64(len(u.endpoints)))
	}
	if u.guard != nil {
		return s.ask(u.guard, u.inTurn(s, turn))
	}
	return u.choose(s, turn)
}

// inTurn returns the first endpoint, from that on whose turn it is, that the request
// has not tried.
func (u *upstream) inTurn(s *stage, turn int) *endpoint {
	for e := range u.from(turn) {
		if !slices.Contains(s.tried, e) {
			return e
		}
	}
	return u.endpoints[turn]
}

// from returns the endpoints, beginning with that whose turn it is.
func (u *upstream) from(turn int) func(yield func(*endpoint) bool) {
	return func(yield func(*endpoint) bool) {
		for i := range u.endpoints {
			if !yield(u.endpoints[(turn+i)%len(u.endpoints)]) {
				return
			}
		}
	}
}

// choose is pick where each endpoint has a breaker.
func (u *upstream) choose(s *stage, turn int) (choice, fusebox.Permit, error) {
	now := time.Now()
	var kept []*endpoint
	known := false
	var asked refusal
	for _, again := range []bool{false, true} {
		for e := range u.from(turn) {
			if slices.Contains(s.tried, e) != again {
				continue
			}
			if !e.skips(now) {
				to, permit, err := s.ask(e.guard, e)
				if err == nil || !asked.add(err) {
					return to, permit.Take(), err
				}
			}
			if !known {
				kept, known = u.keptIn(now), true
			}
			if slices.Contains(kept, e) {
				return u.force(s, e)
			}
		}
		if len(s.tried) == 0 {
			break
		}
	}
	return u.allOpen(s, turn, now, asked)
}

// keptIn returns the endpoints that are used although they are open, because
// only so many may be left out: those held open by hand are, and of the others those
// that come first in the file.
func (u *upstream) keptIn(now time.Time) (kept []*endpoint) {
	most := u.mostOut
	if most >= len(u.endpoints) {
		return nil
	}
	out := 0
	for _, e := range u.endpoints {
		if e.held() {
			out++
		}
	}
	for _, e := range u.endpoints {
		if e.held() || !e.skips(now) && e.guard.State() == fusebox.Closed {
			continue
		}
		if out++; out > most {
			kept = append(kept, e)
		}
	}
	return kept
}

// force uses an endpoint whose breaker refuses. The result goes to its meter.
func (u *upstream) force(s *stage, e *endpoint) (choice, fusebox.Permit, error) {
	permit, err := e.guard.meter.Allow(s)
	return choice{endpoint: e, guard: e.guard, forced: true}, permit.Take(), err
}

// allOpen decides what becomes of a request that no endpoint would be chosen for.
// A breaker that is held open by hand stays so. asked are those that have refused it
// already, by the one that comes back first.
func (u *upstream) allOpen(s *stage, turn int, now time.Time, asked refusal) (choice, fusebox.Permit, error) {
	var best *endpoint
	for e := range u.from(turn) {
		switch {
		case e.held():
		case u.whenAllOpen == config.Spread && (best == nil || slices.Contains(s.tried, best) && !slices.Contains(s.tried, e)),
			u.whenAllOpen == config.LeastBad && (best == nil || e.badness() < best.badness()):
			best = e
		}
	}
	if best != nil {
		return u.force(s, best)
	}
	for e := range u.from(turn) {
		if asked.first != nil && !e.skips(now) {
			continue // has been asked, or has changed since a moment ago
		}
		to, permit, err := s.ask(e.guard, e)
		if err == nil || !asked.add(err) { // it may admit since a moment ago
			return to, permit.Take(), err
		}
	}
	return choice{}, fusebox.Permit{}, &allOpenError{asked.first, u.name}
}

// refusal is what the endpoints asked so far have answered.
type refusal struct {
	first *fusebox.OpenError // of the one that comes back first
}

// add reports whether err is a refusal, and not the end of the request's context.
func (r *refusal) add(err error) bool {
	var open *fusebox.OpenError
	if !errors.As(err, &open) {
		return false
	}
	if r.first == nil || sooner(open, r.first) {
		r.first = open
	}
	return true
}

// sooner reports whether a comes back before b, as far as they know. One that is
// probing may at any time, one that is held open does not.
func sooner(a, b *fusebox.OpenError) bool {
	known := func(e *fusebox.OpenError) bool { return e.State() == fusebox.HalfOpen || e.RetryAfter() > 0 }
	if known(a) != known(b) {
		return known(a)
	}
	return a.RetryAfter() < b.RetryAfter()
}

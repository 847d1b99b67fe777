package scenario

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/fallback"
	"github.com/fusebox-go/fusebox/retry"
	"github.com/fusebox-go/fusebox/timeout"
)

// poisson is what arrives by chance.
const poisson = "poisson"

// stream is traffic being made.
type stream struct {
	*world
	Traffic
	index     int
	rng       *rand.Rand
	to        []int // dependencies, by index
	processes []*process
	next      int // process
	begun     int // calls
}

// process is one of those that share the traffic: policies of its own.
type process struct {
	*stream
	chain    fusebox.Policy
	fallback *fallback.Fallback[struct{}] // nil: none
	guards   []*guard                     // by place in To; nil: no breaker
	next     int                          // dependency, by place in To
}

// call is a call on its way. Its context carries it.
type call struct {
	number   int // for its turns
	index    int // from 0, in the order of beginning
	to       int // place in To of the present attempt
	attempts int
	answered bool // by the fallback
}

type callKey struct{}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

func (w *world) newStream(index int, t Traffic) *stream {
	s := &stream{world: w, Traffic: t, index: index, rng: w.rand(2, uint64(index))}
	for _, name := range t.To {
		s.to = append(s.to, slices.IndexFunc(w.scenario.Dependencies, func(d Dependency) bool { return d.Name == name }))
	}
	for i := range max(t.Processes, 1) {
		s.processes = append(s.processes, s.newProcess(i))
	}
	return s
}

func (s *stream) newProcess(number int) *process {
	p := &process{stream: s}
	draw := s.world.rand(3, uint64(s.index)<<16|uint64(number)).Float64
	policies := []fusebox.Policy{s.turn()}
	// A turn on either side of every policy that may wait.
	add := func(policy fusebox.Policy) { policies = append(policies, policy, s.turn()) }
	if s.slots != nil {
		add(s.slots)
		add(fusebox.PolicyFunc(s.counted))
	}
	if s.Bulkhead != nil {
		add(bulkhead.New(s.Bulkhead.Config(s.Name)))
	}
	if i := slices.IndexFunc(s.scenario.Breakers, func(b Breaker) bool { return b.Name == s.Breaker }); i >= 0 {
		p.guards = s.guards(number, s.scenario.Breakers[i], draw)
	}
	guarded := fusebox.PolicyFunc(p.guarded)
	switch r := s.Retry; {
	case r == nil:
		policies = append(policies, guarded)
	case r.Inside:
		add(guarded)
		add(s.retry(draw))
	default:
		add(s.retry(draw))
		if r.Rejections == "again" {
			policies = append(policies, fusebox.PolicyFunc(unknowing))
		}
		policies = append(policies, guarded)
	}
	if s.Timeout > 0 {
		policies = append(policies, timeout.New(s.Timeout))
	}
	p.chain = fusebox.Chain(policies[0], policies[1:]...)
	if s.Fallback {
		p.fallback = fallback.New(fallback.Config[struct{}]{Func: func(ctx context.Context, _ error) (struct{}, error) {
			callOf(ctx).answered = true
			return struct{}{}, nil
		}})
	}
	return p
}

// turn is a policy that takes a turn before the call goes on, inwards and
// outwards: it stands beside every policy in which a call can wait.
func (s *stream) turn() fusebox.Policy {
	return fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		number := callOf(ctx).number
		s.turns.take(number)
		err := fn(ctx)
		s.turns.take(number)
		return err
	})
}

// counted counts the calls that have a slot.
func (w *world) counted(ctx context.Context, fn func(context.Context) error) error {
	w.taken++
	w.result.MostSlots = max(w.result.MostSlots, w.taken)
	err := fn(ctx)
	w.taken--
	return err
}

func (s *stream) retry(draw func() float64) *retry.Policy {
	c := s.Retry.Settings.Config()
	c.Rand = draw
	c.WaitRejected = s.Retry.Rejections == "wait"
	if c.NoBudget = s.Retry.NoBudget; !c.NoBudget {
		c.Budget = retry.NewBudget(s.Retry.Settings.Budget())
	}
	return retry.New(c)
}

// guards makes the breakers of a process, one for all dependencies or one for
// each.
func (s *stream) guards(process int, b Breaker, draw func() float64) (guards []*guard) {
	for _, to := range s.To {
		guards = append(guards, s.guardOf(s.breakerName(b, process, to), b, draw))
	}
	return guards
}

// guarded chooses a dependency for an attempt, and lets it pass the breaker.
func (p *process) guarded(ctx context.Context, fn func(context.Context) error) error {
	c := callOf(ctx)
	c.to = p.choose()
	if p.guards == nil {
		return fn(ctx)
	}
	return p.guards[c.to].policy.Do(ctx, fn)
}

// choose returns the next dependency in turn, by its place in To.
func (p *process) choose() int {
	first := p.next
	p.next = (p.next + 1) % len(p.to)
	if !p.SkipOpen {
		return first
	}
	for i := range p.to {
		if at := (first + i) % len(p.to); p.guards[at].b.State() != fusebox.Open {
			p.next = (at + 1) % len(p.to)
			return at
		}
	}
	return first
}

// unknowing is what stands around a breaker in a program whose retry takes its
// rejection for a failure.
func unknowing(ctx context.Context, fn func(context.Context) error) error {
	err := fn(ctx)
	if errors.Is(err, fusebox.ErrOpen) {
		return errors.New(err.Error())
	}
	return err
}

// begin starts what makes the calls.
func (s *stream) begin() {
	if s.Rate > 0 {
		s.actor(s.arrive)
		return
	}
	for range s.Workers {
		first := s.After
		switch {
		case s.Arrivals == poisson:
			first += s.pause()
		case s.Pause > 0:
			first += time.Duration(s.rng.Int64N(int64(s.Pause)))
		}
		s.actor(func(number int) { s.work(number, first) })
	}
}

// end is when the traffic ends.
func (s *stream) end() time.Duration {
	if s.For > 0 {
		return min(s.After+s.For, s.scenario.For)
	}
	return s.scenario.For
}

// arrive makes calls at a rate.
func (s *stream) arrive(number int) {
	next := s.After
	every := float64(time.Second) / float64(s.Rate)
	for i := 0; ; i++ {
		if s.Arrivals == "steady" {
			next = s.After + time.Duration(float64(i)*every)
		} else {
			next += time.Duration(min(every*s.rng.ExpFloat64(), float64(never)))
		}
		if next >= s.end() || !s.wait(next-s.elapsed()) {
			return
		}
		s.turns.take(number)
		c := s.newCall(firstCall + s.calls)
		p := s.process()
		s.turns.start(func() { p.do(c) })
	}
}

// work is one worker.
func (s *stream) work(number int, first time.Duration) {
	for ok := s.wait(first); ok && s.elapsed() < s.end(); ok = s.wait(s.pause()) {
		s.turns.take(number)
		s.process().do(s.newCall(number))
	}
}

// pause is never 0: a worker whose calls take no time would not end.
func (s *stream) pause() time.Duration {
	pause := s.Pause
	if s.Arrivals == poisson {
		pause = time.Duration(min(float64(pause)*s.rng.ExpFloat64(), float64(never)))
	}
	return max(pause, time.Microsecond)
}

func (s *stream) process() *process {
	p := s.processes[s.next]
	s.next = (s.next + 1) % len(s.processes)
	return p
}

func (s *stream) newCall(number int) *call {
	c := &call{number: number, index: s.calls}
	s.calls++
	s.begun++
	return c
}

// do makes a call.
func (p *process) do(c *call) {
	began := p.elapsed()
	ctx := context.WithValue(p.ctx, callKey{}, c)
	if p.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Deadline)
		defer cancel()
	}
	var err error
	attempt := func(ctx context.Context) error { return p.attempt(ctx, c, p.to[c.to]) }
	if p.fallback == nil {
		err = p.chain.Do(ctx, attempt)
	} else {
		_, err = fallback.Call(ctx, p.chain, func(ctx context.Context) (struct{}, error) { return struct{}{}, attempt(ctx) }, p.fallback)
	}
	if !p.over() {
		p.result.Calls = append(p.result.Calls, Call{
			Index: c.index, Traffic: p.index, Began: began, Ended: p.elapsed(), Attempts: c.attempts, Fate: c.fateOf(err),
		})
	}
}

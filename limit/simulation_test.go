//go:build !race

// One goroutine runs all of this: the race detector could find nothing, and
// would take ten times as long.

package limit_test

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox/limit"
)

// phase is what a simulated dependency can do from an instant on: servers
// calls at a time, each for about service; the rest wait in arrival order.
type phase struct {
	from    time.Duration
	servers int
	service time.Duration
}

// gate is what stands before the dependency: a policy, or what it is compared
// with. A gate without a policy admits as many calls as places says.
type gate struct {
	policy   *limit.Policy
	places   func(phase) int
	inFlight int
}

// scenario is a dependency and its load: arrivals at random instants at a rate,
// whatever becomes of them. An answer is useful within three times of the
// service of the moment of the call. With leave, the client goes away then, but
// the dependency does the work all the same.
type scenario struct {
	phases []phase
	length time.Duration
	rate   float64 // a second
	spread float64 // standard deviation of the time of service, over its mean; log-normal
	leave  bool
	seed   uint64
}

// report is what came of it.
type report struct {
	arrived, refused, useful int
	limits                   []int // each 100 ms
}

// A call of a client, and an event.
type call struct {
	permit   *limit.Permit // nil: no policy
	deadline time.Duration
	over     bool
}

type event struct {
	at   time.Duration
	kind int
	call *call
}

const (
	arrival = iota
	answer
	leaving
	reading
)

type events []event

func (h events) Len() int           { return len(h) }
func (h events) Less(i, j int) bool { return h[i].at < h[j].at }
func (h events) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)        { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// run runs the scenario in virtual time. For a policy it waits from event to
// event: that takes a microsecond or two, which the others do without.
func (s scenario) run(t *testing.T, g gate) (r report) {
	t.Helper()
	random := rand.New(rand.NewPCG(s.seed, 0))
	sigma := math.Sqrt(math.Log(1 + s.spread*s.spread))
	present, busy, queue := s.phases[0], 0, []*call(nil)
	var agenda events
	at := func(at time.Duration, kind int, c *call) { heap.Push(&agenda, event{at, kind, c}) }
	end := func(c *call, err error) {
		c.over = true
		g.inFlight--
		if c.permit != nil && !c.permit.Finish(t.Context(), err) {
			t.Fatal("a place was given back twice")
		}
	}
	at(0, arrival, nil)
	at(0, reading, nil)
	base := time.Now()
	timer := time.NewTimer(0)
	<-timer.C
	for e := heap.Pop(&agenda).(event); e.at < s.length; e = heap.Pop(&agenda).(event) {
		if wait := e.at - time.Since(base); wait > 0 && g.policy != nil {
			timer.Reset(wait)
			<-timer.C
		}
		for _, p := range s.phases {
			if p.from <= e.at {
				present = p
			}
		}
		switch e.kind {
		case arrival:
			at(e.at+time.Duration(random.ExpFloat64()/s.rate*float64(time.Second)), arrival, nil)
			r.arrived++
			c := &call{deadline: e.at + 3*present.service}
			if g.policy != nil {
				permit, err := g.policy.Acquire(t.Context())
				if err != nil {
					r.refused++
					break
				}
				c.permit = &permit
			} else if g.inFlight >= g.places(present) {
				r.refused++
				break
			}
			g.inFlight++
			queue = append(queue, c)
			if s.leave {
				at(c.deadline, leaving, c)
			}
		case answer:
			busy--
			if !e.call.over {
				end(e.call, nil)
				if e.at <= e.call.deadline {
					r.useful++
				}
			}
		case leaving:
			if !e.call.over {
				end(e.call, context.DeadlineExceeded)
			}
		case reading:
			at(e.at+100*time.Millisecond, reading, nil)
			if g.policy != nil {
				r.limits = append(r.limits, g.policy.Stats().Limit)
			}
		}
		for busy < present.servers && len(queue) > 0 {
			busy++
			service := float64(present.service) * math.Exp(sigma*random.NormFloat64()-sigma*sigma/2)
			at(e.at+time.Duration(service), answer, queue[0])
			queue = queue[1:]
		}
	}
	return r
}

// changing is a dependency whose capacity halves, doubles, and whose time of
// service doubles and halves, under at least 1.25 times the load it can take.
func changing() scenario {
	return scenario{
		phases: []phase{
			{0, 40, 50 * time.Millisecond},
			{12 * time.Second, 20, 50 * time.Millisecond},
			{24 * time.Second, 40, 50 * time.Millisecond},
			{36 * time.Second, 40, 100 * time.Millisecond},
			{48 * time.Second, 40, 50 * time.Millisecond},
		},
		length: 60 * time.Second,
		rate:   1000,
		spread: 0.3,
	}
}

// oracle knows the number of servers at each instant, and keeps all of them busy.
func oracle() gate { return gate{places: func(p phase) int { return p.servers + p.servers/4 }} }

func fixed(n int) gate { return gate{places: func(phase) int { return n }} }

// right is where the documentation says the limit settles.
func right(p phase) float64 {
	root := (1 + math.Sqrt(1+4*1.1*float64(p.servers))) / 2
	return root * root
}

// settled returns how long after its beginning the limits of a phase are right
// for the rest of it: within 30 %, by the median of each second. A probe is a
// reading or two.
func settled(p phase, limits []int) time.Duration {
	seconds := slices.Collect(slices.Chunk(limits, 10))
	for i := len(seconds) - 1; i >= 0; i-- {
		second := slices.Sorted(slices.Values(seconds[i]))
		if math.Abs(float64(second[len(second)/2])/right(p)-1) > 0.3 {
			return time.Duration(i+1) * time.Second
		}
	}
	return 0
}

func TestTheLimitFollowsADependencyThatChanges(t *testing.T) {
	for spread, seeds := range map[float64]uint64{0.3: 3, 1: 2} {
		for seed := range seeds {
			s := changing()
			s.spread, s.seed, s.leave = spread, seed, seed%2 == 0
			t.Run(fmt.Sprintf("spread %v seed %d", spread, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					best := s.run(t, oracle())
					r := s.run(t, gate{policy: limit.New(limit.Config{})})
					share := float64(r.useful) / float64(best.useful)
					t.Logf("%.3f of the oracle's answers", share)
					if share < 0.85 {
						t.Errorf("%d useful answers, the oracle has %d: want 85 %%", r.useful, best.useful)
					}
					if spread > 0.3 {
						return // the limit swings with so much noise; the answers count
					}
					for i, p := range s.phases {
						end := s.length
						if i+1 < len(s.phases) {
							end = s.phases[i+1].from
						}
						limits := r.limits[p.from/(100*time.Millisecond) : end/(100*time.Millisecond)]
						took := settled(p, limits)
						t.Logf("phase %d settled after %v at %.0f", i, took, right(p))
						if took > 10*time.Second {
							t.Errorf("phase %d: the limit is not right, about %.0f, 10s after the change: %v", i, right(p), limits)
						}
					}
				})
			})
		}
	}
}

func TestWithoutTheRightLimitUsefulAnswersAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := changing()
		best := float64(s.run(t, oracle()).useful)
		for name, c := range map[string]struct {
			gate gate
			most float64
		}{
			"no limit":              {fixed(math.MaxInt), 0.05},
			"a fixed one too low":   {fixed(15), 0.6},
			"a fixed one too high":  {fixed(130), 0.6},
			"a floor much too high": {gate{policy: limit.New(limit.Config{Min: 130})}, 0.6},
		} {
			if share := float64(s.run(t, c.gate).useful) / best; share > c.most {
				t.Errorf("%s: %.2f of the oracle's answers, want at most %v: the simulation proves nothing", name, share, c.most)
			}
		}
	})
}

func TestBelowCapacityNothingIsRefused(t *testing.T) {
	for seed := range uint64(2) {
		synctest.Test(t, func(t *testing.T) {
			s := changing()
			s.phases, s.length, s.seed, s.spread = s.phases[:1], 30*time.Second, seed, 1
			s.rate = 0.7 * 40 / 0.05 // 28 calls in flight
			p := limit.New(limit.Config{Initial: 50})
			r := s.run(t, gate{policy: p})
			if r.refused*1000 > r.arrived {
				t.Errorf("seed %d: %d of %d calls refused, want less than 0.1 %%", seed, r.refused, r.arrived)
			}
			if highest := slices.Max(r.limits); highest > 150 {
				t.Errorf("seed %d: the limit rose to %d with some 28 calls in flight, and never 70", seed, highest)
			}
		})
	}
}

package main

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	library "github.com/fusebox-go/fusebox"
)

// simulated is the breaker alone on the schedule, under a clock of its own: what
// its settings come to, without a network, a proxy or a busy machine.
type simulated struct {
	name   string
	config library.Config
}

// simulations are those of the README.
var simulations = []simulated{
	{"defaults", library.Config{}},
	{"open-for-max: 5s", library.Config{OpenForMax: 5 * time.Second}},
	{"open-for-max: 2s", library.Config{OpenForMax: 2 * time.Second}},
	{"constant 1s (fast-recovery.yaml)", library.Config{OpenForMax: time.Second, OpenJitter: -1}},
}

// completion is a call under way.
type completion struct {
	at     time.Duration
	id     int
	permit *library.Permit
	failed bool
}

type completions []completion

func (c completions) Len() int           { return len(c) }
func (c completions) Less(i, j int) bool { return c[i].at < c[j].at }
func (c completions) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *completions) Push(x any)        { *c = append(*c, x.(completion)) }
func (c *completions) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

var errFault = errors.New("503")

// run takes the breaker through the schedule, and returns how many calls reached
// the upstream in the 503 phase, and how many were rejected in the healthy phase
// after it. The seed is for the jitter.
func (s simulated) run(plan schedule, seed uint64) (doomed, lost int) {
	now := time.Duration(0)
	epoch := time.Unix(0, 0)
	config := s.config
	config.Now = func() time.Time { return epoch.Add(now) }
	config.Rand = rand.New(rand.NewPCG(seed, 0)).Float64
	b := library.New(s.name, config)

	ctx := context.Background()
	var under completions
	for id := range plan.calls() {
		arrival := planned(id)
		for len(under) > 0 && under[0].at <= arrival {
			c := heap.Pop(&under).(completion)
			now = c.at
			var err error
			if c.failed {
				err = errFault
			}
			c.permit.Finish(ctx, err)
		}
		now = arrival
		n := plan.at(arrival)
		kind := plan[n].Kind
		permit, err := b.Allow(ctx)
		switch {
		case err != nil && kind == healthy && n == 2:
			lost++
		case err != nil:
		default:
			if kind == errors503 {
				doomed++
			}
			moved := permit.Take()
			heap.Push(&under, completion{arrival + latency(kind, id), id, &moved, kind == errors503})
		}
	}
	return doomed, lost
}

// simulate runs every simulation n times, and returns a table of what was lost
// after the 503 phase, and of how often the median of five runs, and the worst of
// them, met the goal.
func simulate(n int) string {
	plan := newSchedule(1)
	var b strings.Builder
	b.WriteString("| settings | doomed, worst | lost, median | 90 % at most | worst | median of five ≤ 350 | worst of five ≤ 750 |\n")
	b.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, s := range simulations {
		lost := make([]int, n)
		mostDoomed := 0
		for i := range lost {
			var doomed int
			doomed, lost[i] = s.run(plan, uint64(i))
			mostDoomed = max(mostDoomed, doomed)
		}
		median, worst := 0, 0
		for five := range slices.Chunk(lost[:n/5*5], 5) {
			five = slices.Sorted(slices.Values(five))
			if five[2] <= 350 {
				median++
			}
			if five[4] <= 750 {
				worst++
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d %% | %d %% |\n", s.name, mostDoomed,
			quantile(lost, 0.5), quantile(lost, 0.9), slices.Max(lost), 100*median/(n/5), 100*worst/(n/5))
	}
	return b.String()
}

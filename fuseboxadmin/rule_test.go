package fuseboxadmin_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

// In a window of time the distance is exact: a breaker trips with the call that
// the rules say, and not before.
func TestABreakerTripsWhereTheRulesSay(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("CASE_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("CASE_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		seen := map[fusebox.Cause]int{}
		for range 500 {
			c := fusebox.Config{
				MinCalls: 1 + random.IntN(20), FailureRate: float64(min(1+random.IntN(120), 100)) / 100, Window: 1000 * time.Hour, // nothing leaves it

				SlowAfter: time.Second, SlowRate: float64(min(1+random.IntN(120), 100)) / 100, Consecutive: 1 + random.IntN(30),
			}
			slow := random.IntN(2) == 0
			if random.IntN(2) == 0 {
				c.Consecutive = -1
			}
			b := fusebox.New("x", c)
			for range random.IntN(40) {
				fn := succeed
				if random.IntN(4) == 0 {
					fn = fail
				}
				b.Do(t.Context(), fn)
			}
			if b.State() != fusebox.Closed {
				continue
			}
			least := 0
			var cause fusebox.Cause
			for _, r := range fuseboxadmin.RulesOf(b.Config(), b.Snapshot().Counts) {
				if (r.Cause == fusebox.CauseSlowRate) == slow && r.CallsToTrip > 0 && (least == 0 || r.CallsToTrip < least) {
					least, cause = r.CallsToTrip, r.Cause
				}
			}
			calls := 0
			for ; b.State() == fusebox.Closed && calls < 5000; calls++ {
				p, err := b.Allow(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if slow {
					time.Sleep(time.Second)
					p.Record(fusebox.Success)
				} else {
					p.Record(fusebox.Failure)
				}
			}
			tripped := b.State() == fusebox.Open
			if tripped != (least > 0) || tripped && (calls != least || b.Snapshot().Last.Cause != cause) {
				t.Fatalf("%+v: tripped is %t after %d by %v, want %d by %v", c, tripped, calls, b.Snapshot().Last.Cause, least, cause)
			}
			seen[cause]++
		}
		for _, cause := range []fusebox.Cause{fusebox.CauseNone, fusebox.CauseFailureRate, fusebox.CauseSlowRate, fusebox.CauseConsecutive} {
			if seen[cause] == 0 {
				t.Errorf("no breaker tripped by %q", cause)
			}
		}
	})
}

func TestTheDistanceInAWindowOfCalls(t *testing.T) {
	for name, c := range map[string]struct {
		counts fusebox.Counts
		rate   float64
		want   int
	}{
		"it grows first":              {fusebox.Counts{Calls: 4, Failures: 0}, 0.5, 6}, // to its 10, and one success leaves
		"it is full":                  {fusebox.Counts{Calls: 10, Failures: 1}, 0.5, 4},
		"it is full and rate 1":       {fusebox.Counts{Calls: 10, Failures: 1}, 1, 9},
		"the threshold was reached":   {fusebox.Counts{Calls: 10, Failures: 10}, 0.5, 1},
		"not a rate that floats have": {fusebox.Counts{Calls: 10, Failures: 0}, 0.3, 3},
	} {
		config := fusebox.New("x", fusebox.Config{WindowCalls: 10, FailureRate: c.rate, Consecutive: -1}).Config()
		rules := fuseboxadmin.RulesOf(config, c.counts)
		if len(rules) != 1 || rules[0].CallsToTrip != c.want {
			t.Errorf("%s: %+v, want %d", name, rules, c.want)
		}
	}
}

func TestARuleThatIsOffIsNotShown(t *testing.T) {
	config := fusebox.New("x", fusebox.Config{FailureRate: -1, Consecutive: -1}).Config()
	if rules := fuseboxadmin.RulesOf(config, fusebox.Counts{}); rules == nil || len(rules) != 0 {
		t.Errorf("%+v, want an empty list", rules)
	}
}

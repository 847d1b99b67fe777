package scenario

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// parse reads a scenario of a test.
func parse(tb testing.TB, text string) *Scenario {
	tb.Helper()
	s, err := Parse("test.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestKnownTimeline(t *testing.T) {
	r := play(t, load(t, "timeline"), Options{Seed: 1})
	var got []string
	for _, c := range r.Transitions {
		got = append(got, fmt.Sprintf("%v %v %d", c.From, c.To, c.At.Milliseconds()))
	}
	want := []string{
		"closed open 700", "open half-open 1750", "half-open open 1750", "open half-open 2800", "half-open closed 2900",
		"closed open 4200", "open half-open 5250", "half-open open 5250", "open half-open 6300", "half-open closed 6400",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	tally := r.Tally(0, 0, r.Scenario.For)
	if want := [...]int{68, 0, 12, 80, 0}; tally.Calls != 160 || tally.By != want {
		t.Errorf("of %d calls: %v, want %v", tally.Calls, tally.By, want)
	}
}

// tangled is a scenario in which much happens at the same instants, with every
// policy there is.
const tangled = `title: everything at once
for: 20s
slots: {limit: 30, max-wait: 100ms, max-waiting: 20}
dependencies:
  - name: a
    capacity: 8
    queue: 10
    behaviour: {latency: 50ms}
    changes: [{at: 5s, for: 5s, to: {failures: 50%, latency: 200ms}}]
  - {name: b, behaviour: {latency: 50ms, failures: 10%}}
breakers:
  - {name: x, settings: {consecutive: 4, scope: endpoint, open-for: 1s, slow-after: 300ms}}
traffic:
  - name: open
    to: [a, b]
    rate: 100
    arrivals: steady
    processes: 3
    deadline: 1s
    fallback: true
    bulkhead: {limit: 10, max-wait: 50ms}
    retry: {settings: {jitter: off, base-delay: 50ms}, rejections: wait}
    breaker: x
    skip-open: true
    timeout: 250ms
  - {name: closed, to: [a], workers: 5, pause: 50ms, breaker: x, deadline: 300ms, retry: {inside: true}}
overrides:
  - {at: 12s, breaker: x, do: force-open, for: 1s}
`

func TestTheSameSeedIsTheSameRun(t *testing.T) {
	s := parse(t, tangled)
	first := play(t, s, Options{Seed: 7, Steps: 1000})
	for range 3 {
		if again := play(t, s, Options{Seed: 7, Steps: 1000}); !reflect.DeepEqual(first, again) {
			t.Fatal("two runs of one seed differ")
		}
	}
	if other := play(t, s, Options{Seed: 8, Steps: 1000}); reflect.DeepEqual(first.Calls, other.Calls) {
		t.Error("another seed gives the same")
	}
	if len(first.Calls) < 2000 || len(first.Transitions) < 10 || len(first.Steps) != 1000 || first.MoreSteps == 0 {
		t.Errorf("%d calls, %d transitions, %d steps and %d more", len(first.Calls), len(first.Transitions), len(first.Steps), first.MoreSteps)
	}
}

// Steps are looked at only: what happens is the same with and without them.
func TestLookingChangesNothing(t *testing.T) {
	s := parse(t, tangled)
	with, without := play(t, s, Options{Seed: 7, Steps: 1000}), play(t, s, Options{Seed: 7})
	if !reflect.DeepEqual(with.Calls, without.Calls) || !reflect.DeepEqual(with.Transitions, without.Transitions) {
		t.Error("the runs differ")
	}
}

func TestTurnsGoByNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		var order []int
		for _, n := range []int{5, 3, 9, 1, 7} {
			turns.start(func() {
				for range 3 {
					time.Sleep(time.Second) // all wake at one instant
					turns.take(n)
					order = append(order, n)
				}
			})
		}
		if err := turns.run(context.Background(), time.Hour, func() {}, func() {}); err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 3, 5, 7, 9, 1, 3, 5, 7, 9, 1, 3, 5, 7, 9}; !slices.Equal(order, want) {
			t.Errorf("turns %v", order)
		}
	})
}

func TestARunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, load(t, "retry-storm"), Options{Seed: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// one returns a scenario of one dependency and the traffic given.
func one(tb testing.TB, length, behaviour, breaker, traffic string) *Scenario {
	tb.Helper()
	breakers := ""
	if strings.Contains(traffic, "breaker: b") {
		breakers = "breakers: [{name: b, settings: " + breaker + "}]\n"
	}
	return parse(tb, fmt.Sprintf(`title: one
for: %s
dependencies: [{name: d, behaviour: %s}]
%straffic: [{name: t, to: [d], %s}]
`, length, behaviour, breakers, traffic))
}

func TestTraffic(t *testing.T) {
	steady := play(t, one(t, "10s", "{}", "{}", "rate: 20, arrivals: steady, after: 1s, for: 2s"), Options{})
	if len(steady.Calls) != 40 || steady.Calls[0].Began != time.Second || steady.Calls[39].Began != 2950*ms {
		t.Errorf("steady: %d calls, the first at %v, the last at %v", len(steady.Calls), steady.Calls[0].Began, steady.Calls[len(steady.Calls)-1].Began)
	}
	const mean = 50 * 200
	poisson := play(t, one(t, "200s", "{}", "{}", "rate: 50"), Options{Seed: 3})
	if n := float64(len(poisson.Calls)); math.Abs(n-mean) > 4.5*math.Sqrt(mean) {
		t.Errorf("Poisson: %v calls, want about %v", n, mean)
	}
	gaps, sum := 0, 0.0
	for i := 1; i < len(poisson.Calls); i++ {
		gap := poisson.Calls[i].Began - poisson.Calls[i-1].Began
		sum += gap.Seconds() * gap.Seconds()
		gaps++
	}
	// The mean square of an exponential time is twice the square of its mean, and
	// has a standard deviation of the root of 20 times that square.
	want := 2.0 / 2500
	if got := sum / float64(gaps); math.Abs(got-want) > 4.5*math.Sqrt(20)/2500/math.Sqrt(float64(gaps)) {
		t.Errorf("Poisson: the mean square of the gaps is %v, want %v", got, want)
	}
	closed := play(t, one(t, "10s", "{latency: 40ms}", "{}", "workers: 3, pause: 60ms"), Options{})
	if n := len(closed.Calls); n < 3*98 || n > 3*100 || closed.MostInFlight[0] > 3 {
		t.Errorf("3 workers: %d calls, %d at a time", n, closed.MostInFlight[0])
	}
	// Of a worker whose calls take 40 ms and whose pauses are exponential with a
	// mean of 60 ms a call comes every 100 ms, with a deviation of 60 ms.
	chance := play(t, one(t, "1000s", "{latency: 40ms}", "{}", "workers: 1, pause: 60ms, arrivals: poisson"), Options{Seed: 3})
	if n := float64(len(chance.Calls)); math.Abs(n-10_000) > 4.5*math.Sqrt(10_000)*0.6 {
		t.Errorf("pauses by chance: %v calls, want about 10000", n)
	}
	short := 0
	for i := 1; i < len(chance.Calls); i++ {
		if chance.Calls[i].Began-chance.Calls[i-1].Ended < 60*ms {
			short++
		}
	}
	if got, want := float64(short)/float64(len(chance.Calls)), 1-math.Exp(-1); math.Abs(got-want) > 4.5*math.Sqrt(want*(1-want)/10_000) {
		t.Errorf("%v of the pauses are below their mean, want %v", got, want)
	}
	restless := play(t, one(t, "5ms", "{}", "{}", "workers: 1, pause: off"), Options{})
	if n := len(restless.Calls); n < 1000 || n > 5001 {
		t.Errorf("a worker without a pause: %d calls", n)
	}
}

func TestTooManyCallsAreAnError(t *testing.T) {
	s := one(t, "1h", "{}", "{}", "workers: 10, pause: off")
	if _, err := Run(t.Context(), s, Options{most: 20_000}); err == nil || !strings.Contains(err.Error(), "makes more than 20000 calls and attempts up to ") {
		t.Errorf("got %v", err)
	}
}

func TestARunTellsHowFarItIs(t *testing.T) {
	var elapsed atomic.Int64
	play(t, load(t, "hard-outage"), Options{Seed: 1, Elapsed: &elapsed})
	if d := time.Duration(elapsed.Load()); d < 30*time.Second || d > time.Minute {
		t.Errorf("it was last seen at %v", d)
	}
}

// fates plays and returns what became of the calls.
func fates(tb testing.TB, s *Scenario) [RejectedFull + 1]int {
	tb.Helper()
	t := play(tb, s, Options{Seed: 1}).Tally(0, 0, s.For)
	return t.By
}

func TestPolicies(t *testing.T) {
	const down, steady = "{failures: 100%, latency: 1ms}", "rate: 10, arrivals: steady"
	for _, c := range []struct {
		name string
		s    *Scenario
		want [RejectedFull + 1]int // served, by a fallback, failed, rejected, full
		// reached is how many attempts there are.
		reached int
	}{
		{"none", one(t, "10s", "{latency: 1ms}", "{}", steady), [...]int{100, 0, 0, 0, 0}, 100},
		{"a breaker", one(t, "10s", down, "{consecutive: 4, open-for: 1h, open-for-max: 1h}", steady+", breaker: b"), [...]int{0, 0, 4, 96, 0}, 4},
		{"a breaker in shadow", one(t, "10s", down, "{consecutive: 4, mode: shadow}", steady+", breaker: b"), [...]int{0, 0, 100, 0, 0}, 100},
		{"a fallback", one(t, "10s", down, "{consecutive: 4, open-for: 1h, open-for-max: 1h}", steady+", breaker: b, fallback: true"), [...]int{0, 100, 0, 0, 0}, 4},
		{"retries", one(t, "10s", down, "{}", steady+", retry: {no-budget: true, settings: {base-delay: 1ms}}"), [...]int{0, 0, 100, 0, 0}, 300},
		// A retry for every five calls, and one a second besides: at most 10 at first.
		{"retries with a budget", one(t, "10s", down, "{}", steady+", retry: {settings: {base-delay: 1ms, attempts: 2, budget-share: 20%, budget-per-second: off}}"), [...]int{0, 0, 100, 0, 0}, 120},
		// Two calls of three attempts each trip it.
		{"retries inside", one(t, "10s", down, "{consecutive: 2, open-for: 1h, open-for-max: 1h}", steady+", breaker: b, retry: {inside: true, no-budget: true, settings: {base-delay: 1ms}}"), [...]int{0, 0, 2, 98, 0}, 6},
		// The first two attempts trip it.
		{"retries outside", one(t, "10s", down, "{consecutive: 2, open-for: 1h, open-for-max: 1h}", steady+", breaker: b, retry: {no-budget: true, settings: {base-delay: 1ms}}"), [...]int{0, 0, 1, 99, 0}, 2},
		{"a timeout", one(t, "10s", "{latency: 50ms}", "{}", steady+", timeout: 20ms"), [...]int{0, 0, 100, 0, 0}, 100},
		{"a timeout at the very end of the call", one(t, "10s", "{latency: 50ms}", "{}", steady+", timeout: 50ms"), [...]int{0, 0, 100, 0, 0}, 100},
		{"a timeout after it", one(t, "10s", "{latency: 50ms}", "{}", steady+", timeout: 51ms"), [...]int{100, 0, 0, 0, 0}, 100},
		{"a deadline", one(t, "10s", "{latency: 50ms}", "{}", steady+", deadline: 20ms"), [...]int{0, 0, 100, 0, 0}, 100},
		// Five calls at a time, each for a second, in which ten come; of the last
		// second's one has ended.
		{"a bulkhead", one(t, "10s", "{latency: 950ms}", "{}", steady+", bulkhead: {limit: 5}"), [...]int{46, 0, 0, 0, 50}, 46},
	} {
		if got := fates(t, c.s); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if got, _ := play(t, c.s, Options{Seed: 1}).Reached(0, 0, c.s.For); got != c.reached {
			t.Errorf("%s: %d attempts, want %d", c.name, got, c.reached)
		}
	}
}

// A rejection that is waited for is made good once; one that is retried blindly
// only wastes the attempts.
func TestRejectionsThatAreWaitedFor(t *testing.T) {
	const text = `title: wait
for: 10s
dependencies: [{name: d, changes: [{at: 1s, for: 1s, to: {failures: 100%%}}]}]
breakers: [{name: b, settings: {consecutive: 1, open-for: 2s, open-for-max: 2s, open-jitter: off, probes: 1}}]
traffic: [{name: t, to: [d], rate: 2, arrivals: steady, breaker: b, deadline: 5s, retry: {no-budget: true, rejections: %s, settings: {base-delay: 1ms}}}]
`
	for rejections, want := range map[string][RejectedFull + 1]int{
		"stop":  {16, 0, 1, 3, 0},
		"wait":  {20, 0, 0, 0, 0}, // the call that trips waits too
		"again": {16, 0, 1, 3, 0},
	} {
		if got := fates(t, parse(t, fmt.Sprintf(text, rejections))); got != want {
			t.Errorf("%s: %v, want %v", rejections, got, want)
		}
	}
}

func TestOneBreakerForEachDependencyAndProcess(t *testing.T) {
	s := parse(t, `title: many
for: 5s
dependencies: [{name: a}, {name: c, behaviour: {failures: 100%}}]
breakers: [{name: b, settings: {scope: endpoint, consecutive: 2, open-for: 1h, open-for-max: 1h}}]
traffic: [{name: t, to: [a, c], rate: 100, arrivals: steady, processes: 2, breaker: b, skip-open: true}]
`)
	r := play(t, s, Options{})
	if want := []string{"b#1/a", "b#1/c", "b#2/a", "b#2/c"}; !slices.Equal(r.Breakers, want) {
		t.Errorf("breakers %v", r.Breakers)
	}
	// Two failures in each process; the open ones are skipped.
	if tally := r.Tally(0, 0, s.For); tally.By != [...]int{496, 0, 4, 0, 0} {
		t.Errorf("got %v", tally.By)
	}
}

// What hangs beyond the end is a number.
func TestWhatHasNotEndedAtTheEnd(t *testing.T) {
	r := play(t, one(t, "10s", "{latency: 2500ms}", "{}", "rate: 1, arrivals: steady"), Options{})
	if len(r.Calls) != 8 || r.CallsUnderWay[0] != 2 || r.AttemptsUnderWay[0] != 2 {
		t.Errorf("%d calls have ended, %d and %d attempts have not", len(r.Calls), r.CallsUnderWay[0], r.AttemptsUnderWay[0])
	}
	// What waits for a place is under way, and has reached nothing.
	r = play(t, one(t, "10s", "{latency: 100s}", "{}", "rate: 1, arrivals: steady, bulkhead: {limit: 1, max-wait: 4500ms, max-waiting: 10}"), Options{})
	if len(r.Calls) != 5 || r.CallsUnderWay[0] != 5 || r.AttemptsUnderWay[0] != 1 {
		t.Errorf("%d calls have ended, %d and %d attempts have not", len(r.Calls), r.CallsUnderWay[0], r.AttemptsUnderWay[0])
	}
}

func TestTrafficOfTwoKindsSharesABreaker(t *testing.T) {
	r := play(t, parse(t, `title: one breaker, two callers
for: 2s
dependencies:
  - {name: bad, behaviour: {failures: 100%}}
  - {name: good}
breakers:
  - {name: x, settings: {consecutive: 5, open-for: 10s, open-for-max: 10s}}
traffic:
  - {name: one, to: [bad], rate: 20, arrivals: steady, breaker: x}
  - {name: two, to: [good], rate: 1, arrivals: steady, breaker: x}
`), Options{Seed: 1})
	if len(r.Transitions) != 1 || r.Transitions[0].Breaker != "x" {
		t.Fatalf("%+v", r.Transitions)
	}
	// The second call of two comes at 1 s, when the failures of one have opened x.
	if reached, _ := r.Reached(1, 900*time.Millisecond, 2*time.Second); reached != 0 {
		t.Errorf("%d calls of the other reach their dependency", reached)
	}
}

func TestOverridesAndTheWallClock(t *testing.T) {
	s := parse(t, `title: by hand
for: 10s
dependencies: [{name: d}]
breakers: [{name: b}, {name: other}]
traffic:
  - {name: t, to: [d], rate: 10, arrivals: steady, breaker: b}
  - {name: u, to: [d], rate: 10, arrivals: steady, breaker: other}
overrides:
  - {at: 2s, breaker: b, do: force-open, for: 3s}
  - {at: 7s, breaker: b, do: force-open}
  - {at: 8s, breaker: b, do: reset}
`)
	r := play(t, s, Options{})
	for _, c := range []struct {
		at   time.Duration
		want fusebox.State
	}{{1900 * ms, fusebox.Closed}, {2100 * ms, fusebox.Open}, {4900 * ms, fusebox.Open}, {5300 * ms, fusebox.Closed}, {7500 * ms, fusebox.Open}, {8100 * ms, fusebox.Closed}} {
		if got := r.StateAt("b", c.at); got != c.want {
			t.Errorf("at %v it is %v, want %v", c.at, got, c.want)
		}
	}
	if got := r.StateAt("other", 3*time.Second); got != fusebox.Closed {
		t.Errorf("the other one is %v", got)
	}
}

// Every condition is met where it is true, and not where it is not.
func TestConditions(t *testing.T) {
	r := play(t, load(t, "timeline"), Options{Seed: 1})
	n := func(i int) *int { return &i }
	at := func(d time.Duration) *time.Duration { return &d }
	for _, c := range []struct {
		e    Expect
		want bool
		got  string
	}{
		{Expect{Breaker: "breaker", After: 500 * ms, OpensWithin: 200 * ms}, true, "200ms"},
		{Expect{Breaker: "breaker", After: 500 * ms, OpensWithin: 199 * ms}, false, "200ms"},
		{Expect{Breaker: "breaker", After: 800 * ms, OpensWithin: ms}, true, "0s"},
		{Expect{Breaker: "breaker", After: 6500 * ms, OpensWithin: time.Hour}, false, "never"},
		{Expect{Breaker: "breaker", After: 2500 * ms, ClosesWithin: 400 * ms}, true, "400ms"},
		{Expect{Breaker: "breaker", After: 2500 * ms, ClosesWithin: 399 * ms}, false, "400ms"},
		{Expect{Breaker: "breaker", State: "open", At: at(700 * ms)}, true, "open"},
		{Expect{Breaker: "breaker", State: "open", At: at(699 * ms)}, false, "closed"},
		{Expect{Breaker: "breaker", State: "half-open", At: at(1725 * ms)}, true, "half-open"}, // no call has told it
		{Expect{Breaker: "breaker", State: "closed", At: at(0)}, true, "closed"},
		{Expect{Breaker: "breaker", State: "open", At: at(0)}, false, "closed"},
		{Expect{Breaker: "breaker", After: 500 * ms, Until: 700 * ms, OpensWithin: time.Second}, true, "200ms"},
		{Expect{Breaker: "breaker", After: 500 * ms, Until: 699 * ms, OpensWithin: time.Second}, false, "not until then"},
		{Expect{Breaker: "breaker", After: 2500 * ms, Until: 2899 * ms, ClosesWithin: time.Second}, false, "not until then"},
		{Expect{Breaker: "breaker", State: "closed", Until: 699 * ms}, true, "closed"},
		{Expect{Breaker: "breaker", State: "closed", Until: 700 * ms}, false, "closed, open"},
		{Expect{Breaker: "breaker", TripsAtLeast: n(2)}, true, "2"},
		{Expect{Breaker: "breaker", TripsAtLeast: n(3)}, false, "2"},
		{Expect{Breaker: "breaker", TripsAtMost: n(2)}, true, "2"},
		{Expect{Breaker: "breaker", TripsAtMost: n(1)}, false, "2"},
		{Expect{Breaker: "breaker", TripsAtMost: n(1), After: 701 * ms}, true, "1"},
		{Expect{Traffic: "caller", ServedAtLeast: failures(0.425)}, true, "42.5%"},
		{Expect{Traffic: "caller", ServedAtLeast: failures(0.43)}, false, "42.5%"},
		{Expect{Traffic: "caller", ServedAtMost: failures(0.42)}, false, "42.5%"},
		{Expect{Traffic: "caller", FailedAtMost: failures(0.075)}, true, "7.5%"},
		{Expect{Traffic: "caller", FailedAtMost: failures(0.07)}, false, "7.5%"},
		{Expect{Traffic: "caller", FailedAtLeast: failures(0.08)}, false, "7.5%"},
		{Expect{Traffic: "caller", RejectedAtMost: failures(0.5)}, true, "50%"},
		{Expect{Traffic: "caller", RejectedAtMost: failures(0.49)}, false, "50%"},
		{Expect{Traffic: "caller", RejectedAtLeast: failures(0.51)}, false, "50%"},
		{Expect{Traffic: "caller", RejectedAtMost: failures(0), Until: 500 * ms}, true, "0%"},
		{Expect{Traffic: "caller", P99AtMost: time.Second}, true, "0s"},
		{Expect{Traffic: "caller", P99AtMost: time.Second, After: 500 * ms, Until: ms * 1000}, false, "none served"},
		{Expect{Traffic: "caller", RejectedAtMost: failures(1), After: 1001 * ms, Until: 1049 * ms}, false, "no calls"},
		{Expect{Dependency: "dependency", CallsAtLeast: n(80)}, true, "80"},
		{Expect{Dependency: "dependency", CallsAtLeast: n(81)}, false, "80"},
		{Expect{Dependency: "dependency", CallsAtMost: n(79)}, false, "80"},
		{Expect{Dependency: "dependency", CallsAtMost: n(10), Until: 500 * ms}, true, "10"},
		{Expect{Dependency: "dependency", FailuresAtMost: n(12)}, true, "12"},
		{Expect{Dependency: "dependency", FailuresAtMost: n(11)}, false, "12"},
		{Expect{Dependency: "dependency", FailuresAtLeast: n(13)}, false, "12"},
		{Expect{Dependency: "dependency", InFlightAtMost: n(1)}, true, "1"},
		{Expect{Dependency: "dependency", InFlightAtLeast: n(2)}, false, "1"},
	} {
		r.Scenario.Expect = []Expect{c.e}
		v := r.Verdicts()
		if len(v) != 1 || v[0].OK != c.want || v[0].Got != c.got {
			t.Errorf("got %+v, want %v, %s", v, c.want, c.got)
		}
	}
	slow := play(t, one(t, "10s", "{latency: 40ms}", "{}", "rate: 10, arrivals: steady"), Options{})
	for limit, want := range map[time.Duration]bool{40 * ms: true, 39 * ms: false} {
		slow.Scenario.Expect = []Expect{{Traffic: "t", P99AtMost: limit}}
		if v := slow.Verdicts()[0]; v.OK != want || v.Got != "40ms" {
			t.Errorf("at most %v: %+v", limit, v)
		}
	}
}

// An expectation of a name that stands for several breakers is one of each.
func TestAnExpectationOfSeveralBreakers(t *testing.T) {
	r := play(t, load(t, "one-bad-host"), Options{Seed: 1})
	for name, want := range map[string]string{"each/c": "true 1", "each": "false each/c: 1", "one": "true 0"} {
		limit := 0
		if name == "each/c" {
			limit = 1
		}
		r.Scenario.Expect = []Expect{{Breaker: name, TripsAtMost: &limit}}
		v := r.Verdicts()
		if got := fmt.Sprint(v[0].OK, " ", v[0].Got); len(v) != 1 || got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// rules are the beginnings of what a step may say.
var rules = []string{
	"closed: every call is admitted", "a success counts", "a failure counts", "trips: ", "reopens: ", "closes: ",
	"open: rejected, worth another try in ", "the open period is over: ", "half-open with ", "a probe has succeeded: ", "late: ",
	"half-open, and the probes that can matter are out",
}

func TestStepsSayTheRuleThatApplied(t *testing.T) {
	s := parse(t, `title: steps
for: 12s
dependencies:
  - name: d
    behaviour: {latency: 400ms, distribution: uniform}
    changes: [{at: 1s, for: 4s, to: {failures: 100%, latency: 100ms}}]
breakers: [{name: b, settings: {consecutive: 3, open-for: 1s, probes: 2}}]
traffic: [{name: t, to: [d], rate: 20, breaker: b}]
`)
	r := play(t, s, Options{Seed: 1, Steps: 10_000, StepsOf: "b"})
	seen := map[string]int{}
	for i, step := range r.Steps {
		at := slices.IndexFunc(rules, func(rule string) bool { return strings.HasPrefix(step.Rule, rule) })
		if at < 0 {
			t.Fatalf("step %d says %q", i, step.Rule)
		}
		seen[rules[at]]++
		changes := strings.HasPrefix(step.Rule, "trips") || strings.HasPrefix(step.Rule, "reopens") || strings.HasPrefix(step.Rule, "closes")
		if changes != step.Changed() {
			t.Errorf("step %d: %s, from %v to %v", i, step.Rule, step.Before, step.After)
		}
		if i > 0 && r.Steps[i-1].After.State != step.Before.State && (r.Steps[i-1].After.State != fusebox.Open || step.Before.State != fusebox.HalfOpen) {
			t.Errorf("step %d begins %v, the one before ended %v", i, step.Before.State, r.Steps[i-1].After.State)
		}
	}
	for _, rule := range rules {
		if seen[rule] == 0 {
			t.Errorf("no step says %q", rule)
		}
	}
	if none := play(t, s, Options{Seed: 1, Steps: 100, StepsOf: "c"}); len(none.Steps) != 0 {
		t.Error("steps of a breaker that was not asked for")
	}
}

// A lease ends at its instant, although it takes a call, or the end, to tell it.
func TestALeaseThatLapsedIsToldAsOfItsEnd(t *testing.T) {
	const text = `title: hung probes
for: 19s
dependencies: [{name: d, changes: [{at: 0s, for: 1s, to: {failures: 100%%}}, {at: 1s, to: {hang: %s}}]}]
breakers: [{name: b, settings: {consecutive: 1, open-for: 4s, open-for-max: 8s, open-jitter: off, probes: 1, probe-timeout: 2s}}]
traffic: [{name: t, to: [d], rate: 0.2, arrivals: steady, breaker: b}]
`
	r := play(t, parse(t, fmt.Sprintf(text, "1m")), Options{Steps: 100})
	var got []string
	for _, c := range r.Transitions {
		got = append(got, fmt.Sprint(c.From, " ", c.To, " ", c.At, " ", c.Until))
	}
	want := []string{
		"closed open 0s 4s", "open half-open 5s 0s", "half-open open 7s 15s",
		"open half-open 15s 0s", "half-open open 17s 25s", // no call has told the last one
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for at, want := range map[time.Duration]fusebox.State{6900 * ms: fusebox.HalfOpen, 7 * time.Second: fusebox.Open, 18 * time.Second: fusebox.Open} {
		if got := r.StateAt("b", at); got != want {
			t.Errorf("at %v it is %v, want %v", at, got, want)
		}
	}
	rule := func(r *Result, what string) string {
		i := slices.IndexFunc(r.Steps, func(s Step) bool { return strings.HasPrefix(s.What, what) })
		if i < 0 {
			t.Fatalf("no step %q in %+v", what, r.Steps)
		}
		return r.Steps[i].Rule
	}
	const lapsed = "had reopened 3s ago: 1 of 1 probes failed, the last by not finishing in time; "
	if got, want := rule(r, "call 3 asks"), lapsed+"open: rejected, worth another try in 5s"; got != want {
		t.Errorf("the call after it: %q, want %q", got, want)
	}
	// The open period after the lease is over as well.
	shorter := strings.Replace(text, "open-for: 4s, open-for-max: 8s", "open-for: 1s, open-for-max: 1s", 1)
	r = play(t, parse(t, fmt.Sprintf(shorter, "1m")), Options{Steps: 100})
	if got, want := rule(r, "call 3 asks"), lapsed+"the open period is over: half-open, and this call is the first probe"; got != want {
		t.Errorf("the call after it and the open period: %q, want %q", got, want)
	}
	// The probe itself is the first to come by.
	r = play(t, parse(t, fmt.Sprintf(text, "3s")), Options{Steps: 100})
	if got, want := rule(r, "call 2 fails"), "had reopened 1s ago: 1 of 1 probes failed, the last by not finishing in time; late: it was admitted before the last change of state, and counts nowhere"; got != want {
		t.Errorf("the probe's own end: %q, want %q", got, want)
	}
}

// What an operator sets for a while is for so long by the breaker's clock.
func TestAnOverrideOfABreakerThatReadsTheWallClock(t *testing.T) {
	s := parse(t, `title: by hand, by the wall clock
for: 10s
dependencies: [{name: d}]
breakers: [{name: b, clock: wall}]
traffic: [{name: t, to: [d], rate: 10, arrivals: steady, breaker: b}]
clock-steps: [{at: 1s, by: 1h}]
overrides: [{at: 2s, breaker: b, do: force-open, for: 3s}]
`)
	r := play(t, s, Options{Steps: 1000})
	for at, want := range map[time.Duration]fusebox.State{1900 * ms: fusebox.Closed, 2100 * ms: fusebox.Open, 4900 * ms: fusebox.Open, 6 * time.Second: fusebox.Closed} {
		if got := r.StateAt("b", at); got != want {
			t.Errorf("at %v it is %v, want %v", at, got, want)
		}
	}
	if !slices.ContainsFunc(r.Steps, func(s Step) bool {
		return s.Rule == "override ended, set by operator: the scenario says so; half-open with 0 probes out of at most 3: admitted as one more"
	}) {
		t.Error("no step tells that the override has ended")
	}
}

func TestHappenings(t *testing.T) {
	s := &Scenario{
		For: 10 * time.Second,
		Dependencies: []Dependency{{Name: "d", Changes: []Change{
			{At: time.Second, For: time.Second, Every: 4 * time.Second, To: Behaviour{Failures: failures(1), Hang: -1}},
			{At: 3 * time.Second, Over: time.Second, To: Behaviour{Latency: time.Second}},
		}}},
		ClockSteps: []ClockStep{{At: 2500 * ms, Back: time.Hour}},
		Overrides:  []Override{{At: 9500 * ms, Breaker: "b", Do: "off", For: time.Second}},
	}
	var got []string
	for _, h := range s.Happenings() {
		got = append(got, fmt.Sprint(h.At, " ", h.Who, ": ", h.What))
	}
	want := []string{
		"1s dependency d: now failures 100%, hang off", "2s dependency d: as before", "2.5s wall clock: steps by -1h0m0s", "3s dependency d: now latency 1s, over 1s",
		"5s dependency d: now failures 100%, hang off", "6s dependency d: as before", "9s dependency d: now failures 100%, hang off", "9.5s operator: b: off for 1s",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A scenario made in Go leaves out what a file's defaults fill in.
func TestAScenarioMadeInGo(t *testing.T) {
	s := &Scenario{
		For:          time.Second,
		Dependencies: []Dependency{{Name: "d", Behaviour: Behaviour{Failures: failures(1)}}},
		Breakers:     []Breaker{{Name: "b", Settings: config.Breaker{Consecutive: 2}}},
		Traffic:      []Traffic{{Name: "t", To: []string{"d"}, Rate: 10, Arrivals: "steady", Breaker: "b", Retry: &Retry{}}},
	}
	if got := fates(t, s); got != [...]int{0, 0, 2, 8, 0} && got != [...]int{0, 0, 1, 9, 0} {
		t.Errorf("got %v", got)
	}
}

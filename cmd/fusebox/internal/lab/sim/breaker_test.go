package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/fusebox-go/fusebox"
)

// subjects are the three breakers with the same settings: 2 failures in a row
// trip, for 10 ms, 2 probes.
func subjects(l *Loop, on Change) map[string]Breaker {
	return map[string]Breaker{
		"fusebox": Fusebox(l, Constant(fusebox.Config{FailureRate: -1, Consecutive: 2, Probes: 2, OpenFor: 10 * ms}), on),
		"gobreaker": Gobreaker(gobreaker.Settings{
			MaxRequests: 2, Timeout: 10 * ms, ReadyToTrip: ConsecutiveRule(2),
		}, on),
		"naive": Naive(l, 2, 2, 10*ms, on),
	}
}

func TestTheBreakersSayTheSame(t *testing.T) {
	for _, name := range []string{"fusebox", "gobreaker", "naive"} {
		Bubble(func(l *Loop) {
			var changes []string
			b := subjects(l, func(from, to fusebox.State) { changes = append(changes, fmt.Sprint(from, " ", to)) })[name]
			var verdicts []Verdict
			var out []func(bool)
			call := func() {
				done, v := b.Allow()
				verdicts = append(verdicts, v)
				if (v == Admitted) != (done != nil) {
					t.Errorf("%s: verdict %v, done is nil: %v", name, v, done == nil)
				}
				if done != nil {
					out = append(out, done)
				}
			}
			finish := func(success bool) {
				out[0](success)
				out = out[1:]
			}
			wait := func(d time.Duration) {
				if err := l.Run(t.Context(), l.Elapsed()+d); err != nil {
					t.Error(err)
				}
			}
			call()
			finish(false)
			call()
			finish(false) // trips
			call()
			if b.State() != fusebox.Open {
				t.Errorf("%s is %v", name, b.State())
			}
			wait(11 * ms)
			if b.State() != fusebox.HalfOpen {
				t.Errorf("%s is %v", name, b.State())
			}
			call()
			call()
			call() // one too many
			finish(true)
			finish(true)
			if b.State() != fusebox.Closed {
				t.Errorf("%s is %v", name, b.State())
			}
			want := []Verdict{Admitted, Admitted, RejectedOpen, Admitted, Admitted, RejectedProbing}
			if !slices.Equal(verdicts, want) {
				t.Errorf("%s said %v, want %v", name, verdicts, want)
			}
			if want := []string{"closed open", "open half-open", "half-open closed"}; !slices.Equal(changes, want) {
				t.Errorf("%s changed %q, want %q", name, changes, want)
			}
		})
	}
}

// What Naive is for: the result of a call counts whenever it comes.
func TestOnlyTheNaiveBreakerTakesALateResult(t *testing.T) {
	for name, wrong := range map[string]bool{"fusebox": false, "gobreaker": false, "naive": true} {
		Bubble(func(l *Loop) {
			b := subjects(l, nil)[name]
			straggler, _ := b.Allow()
			for range 2 {
				done, _ := b.Allow()
				done(false)
			}
			if err := l.Run(t.Context(), 11*ms); err != nil {
				t.Error(err)
			}
			probe, _ := b.Allow()
			if probe == nil {
				t.Errorf("%s does not probe", name)
				return
			}
			straggler(false)
			if got := b.State() == fusebox.Open; got != wrong {
				t.Errorf("%s: open after a late failure: %v", name, got)
			}
		})
	}
}

func TestOnlyFuseboxSaysHowLongItRejects(t *testing.T) {
	Bubble(func(l *Loop) {
		all := subjects(l, nil)
		for name, b := range all {
			for range 2 {
				done, _ := b.Allow()
				done(false)
			}
			want := time.Duration(0)
			if name == "fusebox" {
				want = 10 * ms
			}
			if got := b.RetryAfter(); got != want {
				t.Errorf("%s: retry after %v, want %v", name, got, want)
			}
		}
	})
}

func TestRulesOfGobreaker(t *testing.T) {
	counts := gobreaker.Counts{Requests: 40, TotalSuccesses: 10, TotalFailures: 12, ConsecutiveFailures: 3}
	for _, c := range []struct {
		name string
		rule func(gobreaker.Counts) bool
		want bool
	}{
		{"3 in a row", ConsecutiveRule(3), true},
		{"4 in a row", ConsecutiveRule(4), false},
		{"12 of 22", RateRule(22, 0.5), true},
		{"too few", RateRule(23, 0.5), false},
		{"not 3 of 5", RateRule(22, 0.6), false},
		{"12 of 40 that began", RequestRule(20, 0.5), false},
		{"more than a quarter of them", RequestRule(20, 0.25), true},
		{"too few began", RequestRule(41, 0.25), false},
	} {
		if got := c.rule(counts); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

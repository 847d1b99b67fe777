package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// Verdict is what became of one condition.
type Verdict struct {
	Text string // what was expected of what
	Want string
	Got  string
	OK   bool
}

// Verdicts holds the result to the scenario's expectations, in their order.
func (r *Result) Verdicts() (all []Verdict) {
	for _, e := range r.Scenario.Expect {
		for _, c := range e.conditions() {
			if !c.given {
				continue
			}
			all = append(all, e.verdict(r, c))
		}
	}
	return all
}

func (e Expect) verdict(r *Result, c condition) Verdict {
	names := e.subjects(r)
	v := Verdict{Text: fmt.Sprintf("%s %s: %s%s", c.of, e.Breaker+e.Traffic+e.Dependency, c.key, e.span()), Want: c.want, OK: true}
	for _, name := range names {
		got, ok := c.found(r, e, name)
		switch {
		case len(names) == 1:
			v.Got, v.OK = got, ok
		case !ok:
			v.Got, v.OK = name+": "+got, false
			return v
		}
	}
	if len(names) > 1 {
		v.Got = fmt.Sprintf("all %d", len(names))
	}
	return v
}

// kind is what the expectation is of.
func (e Expect) kind() string {
	switch {
	case e.Breaker != "":
		return "breaker"
	case e.Traffic != "":
		return "traffic"
	}
	return "dependency"
}

// subjects are the names of what the expectation is of: of several breakers all
// that the name stands for.
func (e Expect) subjects(r *Result) (names []string) {
	if e.Breaker == "" {
		return []string{e.Traffic + e.Dependency}
	}
	for _, name := range r.Breakers {
		if matches(e.Breaker, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// span says in words between which instants the expectation holds.
func (e Expect) span() (text string) {
	if e.At != nil {
		text += fmt.Sprintf(" at %v", *e.At)
	}
	if e.After > 0 {
		text += fmt.Sprintf(", after %v", e.After)
	}
	if e.Until > 0 {
		text += fmt.Sprintf(", until %v", e.Until)
	}
	return text
}

// until is the end of the span.
func (e Expect) until(r *Result) time.Duration { return cmp.Or(e.Until, r.Scenario.For) }

// condition is one thing that can be expected.
type condition struct {
	of, key string
	whole   bool // of the whole time
	given   bool
	want    string
	// found says what was found of the subject, and whether that is as expected.
	found func(r *Result, e Expect, name string) (got string, ok bool)
}

// conditions returns all, whether or not they are given.
func (e Expect) conditions() []condition {
	return []condition{
		e.within("opens-within", e.OpensWithin, fusebox.Open),
		e.within("closes-within", e.ClosesWithin, fusebox.Closed),
		{"breaker", "state", false, e.State != "", e.State, state},
		e.trips("trips-at-least", e.TripsAtLeast, 1),
		e.trips("trips-at-most", e.TripsAtMost, -1),
		e.share("served-at-least", e.ServedAtLeast, 1, served),
		e.share("served-at-most", e.ServedAtMost, -1, served),
		e.share("failed-at-least", e.FailedAtLeast, 1, failed),
		e.share("failed-at-most", e.FailedAtMost, -1, failed),
		e.share("rejected-at-least", e.RejectedAtLeast, 1, (*Tally).Rejected),
		e.share("rejected-at-most", e.RejectedAtMost, -1, (*Tally).Rejected),
		e.p99("p99-at-least", e.P99AtLeast, 1),
		e.p99("p99-at-most", e.P99AtMost, -1),
		e.reached("calls-at-least", e.CallsAtLeast, 1, func(calls, _ int) int { return calls }),
		e.reached("calls-at-most", e.CallsAtMost, -1, func(calls, _ int) int { return calls }),
		e.reached("failures-at-least", e.FailuresAtLeast, 1, func(_, failures int) int { return failures }),
		e.reached("failures-at-most", e.FailuresAtMost, -1, func(_, failures int) int { return failures }),
		inFlight("in-flight-at-least", e.InFlightAtLeast, 1),
		inFlight("in-flight-at-most", e.InFlightAtMost, -1),
	}
}

// served counts the answers that calls got, those of a fallback among them.
func served(t *Tally) int { return t.By[Served] + t.By[Answered] }

func failed(t *Tally) int { return t.By[Failed] }

func (e Expect) within(key string, limit time.Duration, state fusebox.State) condition {
	return condition{"breaker", key, false, limit > 0, limit.String(), func(r *Result, e Expect, name string) (string, bool) {
		at, ok := r.firstAt(name, state, e.After)
		switch {
		case !ok:
			return "never", false
		case at > e.until(r):
			return "not until then", false
		}
		return (at - e.After).Round(time.Microsecond).String(), at-e.After <= limit
	}}
}

func state(r *Result, e Expect, name string) (string, bool) {
	if e.At != nil {
		got := r.StateAt(name, *e.At).String()
		return got, got == e.State
	}
	var names []string
	for _, s := range r.statesBetween(name, e.After, e.until(r)) {
		names = append(names, s.String())
	}
	return strings.Join(names, ", "), len(names) == 1 && names[0] == e.State
}

func (e Expect) trips(key string, want *int, sign int) condition {
	return counted("breaker", key, want, sign, func(r *Result, name string) int { return r.trips(name, e.After, e.until(r)) })
}

func (e Expect) reached(key string, want *int, sign int, which func(calls, failures int) int) condition {
	return counted("dependency", key, want, sign, func(r *Result, name string) int {
		return which(r.Reached(slices.Index(r.Scenario.dependencyNames(), name), e.After, e.until(r)))
	})
}

func inFlight(key string, want *int, sign int) condition {
	c := counted("dependency", key, want, sign, func(r *Result, name string) int {
		return r.MostInFlight[slices.Index(r.Scenario.dependencyNames(), name)]
	})
	c.whole = true
	return c
}

// counted is a condition about a number: at least want if sign is 1, at most if -1.
func counted(of, key string, want *int, sign int, count func(r *Result, name string) int) condition {
	if want == nil {
		return condition{of: of, key: key}
	}
	return condition{of, key, false, true, strconv.Itoa(*want), func(r *Result, _ Expect, name string) (string, bool) {
		n := count(r, name)
		return strconv.Itoa(n), sign*(n-*want) >= 0
	}}
}

func (e Expect) tally(r *Result, name string) Tally {
	return r.Tally(slices.Index(r.Scenario.trafficNames(), name), e.After, e.until(r))
}

func (e Expect) share(key string, want *config.Share, sign float64, count func(*Tally) int) condition {
	if want == nil {
		return condition{of: "traffic", key: key}
	}
	return condition{"traffic", key, false, true, percent(float64(*want)), func(r *Result, e Expect, name string) (string, bool) {
		t := e.tally(r, name)
		if t.Calls == 0 {
			return "no calls", false
		}
		got := t.Share(count(&t))
		return percent(got), sign*(got-float64(*want)) >= 0
	}}
}

func percent(f float64) string { return fmt.Sprintf("%.4g%%", 100*f) }

func (e Expect) p99(key string, want time.Duration, sign int) condition {
	return condition{"traffic", key, false, want > 0, want.String(), func(r *Result, e Expect, name string) (string, bool) {
		t := e.tally(r, name)
		if t.By[Served] == 0 {
			return "none served", false
		}
		got := t.Quantile(0.99)
		return got.Round(time.Microsecond).String(), time.Duration(sign)*(got-want) >= 0
	}}
}

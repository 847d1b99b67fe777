package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Happening is something that is done to the world: to a dependency, a clock, a
// breaker.
type Happening struct {
	At        time.Duration
	Who, What string
}

// Happenings returns what the scenario does, in the order of time. What breakers
// do is in the Result.
func (s *Scenario) Happenings() (all []Happening) {
	for _, d := range s.Dependencies {
		for _, c := range d.Changes {
			all = append(all, s.changes("dependency "+d.Name, c)...)
		}
	}
	for _, step := range s.ClockSteps {
		all = append(all, Happening{step.At, "wall clock", fmt.Sprintf("steps by %v", step.By-step.Back)})
	}
	for _, o := range s.Overrides {
		what := o.Do
		if o.For > 0 {
			what += fmt.Sprintf(" for %v", o.For)
		}
		all = append(all, Happening{o.At, "operator", fmt.Sprintf("%s: %s", o.Breaker, what)})
	}
	slices.SortStableFunc(all, func(a, b Happening) int { return cmp.Compare(a.At, b.At) })
	return all
}

// changes returns the beginnings and ends of a change.
func (s *Scenario) changes(name string, c Change) (all []Happening) {
	for at := c.At; at < s.For; at += c.Every {
		what := "now " + c.To.String()
		if c.Over > 0 {
			what += fmt.Sprintf(", over %v", c.Over)
		}
		all = append(all, Happening{at, name, what})
		if c.For > 0 && at+c.For < s.For {
			all = append(all, Happening{at + c.For, name, "as before"})
		}
		if c.Every == 0 {
			break
		}
	}
	return all
}

// String says what is given, as the file has it.
func (b Behaviour) String() string {
	var parts []string
	add := func(key, value string) { parts = append(parts, key+" "+value) }
	if b.Failures != nil {
		add("failures", percent(float64(*b.Failures)))
	}
	for _, d := range []struct {
		key   string
		value time.Duration
	}{{"latency", b.Latency}, {"p99", b.P99}, {"fails after", b.FailsAfter}, {"hang", b.Hang}} {
		switch {
		case d.value > 0:
			add(d.key, d.value.String())
		case d.value < 0:
			add(d.key, "off")
		}
	}
	if b.Distribution != "" {
		parts = append(parts, b.Distribution)
	}
	return strings.Join(parts, ", ")
}

package scenario

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

func (c *checker) expect(path string, e Expect) {
	s := c.s
	subjects := 0
	for _, name := range []string{e.Breaker, e.Traffic, e.Dependency} {
		if name != "" {
			subjects++
		}
	}
	if subjects != 1 {
		c.Fail(path, "must have exactly one of breaker, traffic and dependency")
		return
	}
	if e.Breaker != "" && !slices.ContainsFunc(s.breakersByName(), func(name string) bool { return matches(e.Breaker, name) }) {
		c.known(path+".breaker", e.Breaker, "breakers in use", s.breakersByName())
	}
	c.known(path+".traffic", e.Traffic, "traffic", s.trafficNames())
	c.known(path+".dependency", e.Dependency, "dependencies", s.dependencyNames())
	c.instant(path+".after", e.After)
	c.span(path, e)
	c.bounds(path, e)
	count := 0
	for _, condition := range e.conditions() {
		switch {
		case condition.whole && condition.given && (c.Set(path+".after") || c.Set(path+".until")):
			c.Fail(path+"."+condition.key, "is of the whole time, must be without after and until")
		case !condition.given:
		case condition.of != e.kind():
			c.Fail(path+"."+condition.key, "is a condition for %s, not for %s", article(condition.of), article(e.kind()))
		default:
			count++
		}
	}
	if count == 0 && !c.FailedIn(path) {
		c.Fail(path, "expects nothing")
	}
}

// span looks at the times of an expectation.
func (c *checker) span(path string, e Expect) {
	end, what := c.s.For, "the end"
	switch {
	case e.Until > end && end > 0:
		c.Fail(path+".until", "is %v, must be at most the end at %v", e.Until, end)
	case e.Until > 0 && e.Until <= e.After:
		c.Fail(path+".until", "is %v, must be later than after, %v", e.Until, e.After)
	case e.Until > 0:
		end, what = e.Until, "until"
	}
	for key, within := range map[string]time.Duration{"opens-within": e.OpensWithin, "closes-within": e.ClosesWithin} {
		if e.After+within > end && end > e.After && within > 0 && !c.Failed(path+".until") {
			c.Fail(path+"."+key, "is %v, must be at most %v, which is from after to %s", within, end-e.After, what)
		}
	}
	if e.At == nil || c.Failed(path+".at") {
		return
	}
	for _, key := range []string{"after", "until"} {
		if c.Set(path + "." + key) {
			c.Fail(path+".at", "is %v, but there is %s too: a state is expected at an instant, or all the time between two", *e.At, key)
			return
		}
	}
	switch {
	case e.State == "" && !c.Failed(path+".state"):
		c.Fail(path+".at", "is set, but there is no state")
	case *e.At > c.s.For && c.s.For > 0:
		c.Fail(path+".at", "is %v, must be at most the end at %v", *e.At, c.s.For)
	}
}

// bounds reports what must be at least more than it may be at most.
func (c *checker) bounds(path string, e Expect) {
	atMost(c, path, "trips", e.TripsAtLeast, e.TripsAtMost, strconv.Itoa)
	atMost(c, path, "served", e.ServedAtLeast, e.ServedAtMost, share)
	atMost(c, path, "failed", e.FailedAtLeast, e.FailedAtMost, share)
	atMost(c, path, "rejected", e.RejectedAtLeast, e.RejectedAtMost, share)
	if e.P99AtMost > 0 {
		atMost(c, path, "p99", &e.P99AtLeast, &e.P99AtMost, time.Duration.String)
	}
	atMost(c, path, "calls", e.CallsAtLeast, e.CallsAtMost, strconv.Itoa)
	atMost(c, path, "failures", e.FailuresAtLeast, e.FailuresAtMost, strconv.Itoa)
	atMost(c, path, "in-flight", e.InFlightAtLeast, e.InFlightAtMost, strconv.Itoa)
}

func atMost[T cmp.Ordered](c *checker, path, what string, least, most *T, show func(T) string) {
	if least != nil && most != nil && *least > *most {
		c.Fail(path+"."+what+"-at-least", "is %s, must be at most %s-at-most, %s", show(*least), what, show(*most))
	}
}

func share(s config.Share) string { return percent(float64(s)) }

func article(kind string) string {
	if kind == "traffic" {
		return kind
	}
	return "a " + kind
}

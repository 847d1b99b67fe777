package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// checker looks for what the types do not say.
type checker struct {
	*config.Document
	s *Scenario
}

func (c *checker) check() {
	s := c.s
	if s.Slots != nil {
		c.Validate("slots", *s.Slots, s.Slots.Config("slots").Validate())
	}
	unique(c, "dependencies", s.Dependencies, func(d Dependency) string { return d.Name })
	unique(c, "breakers", s.Breakers, func(b Breaker) string { return b.Name })
	unique(c, "traffic", s.Traffic, func(t Traffic) string { return t.Name })
	for i, d := range s.Dependencies {
		c.dependency(fmt.Sprintf("dependencies[%d]", i), d)
	}
	for i, b := range s.Breakers {
		path := fmt.Sprintf("breakers[%d]", i)
		c.Validate(path+".settings", b.Settings, b.config().Validate())
		if c.Set(path+".settings.slow-rate") && b.Settings.SlowAfter == 0 {
			c.Fail(path+".settings.slow-rate", "is set, but no answer is slow without slow-after")
		}
	}
	if len(s.Traffic) == 0 && c.Set("traffic") && !c.Failed("traffic") {
		c.Fail("traffic", "is empty, must have one kind at least")
	}
	calls := 0.0
	for i, t := range s.Traffic {
		path := fmt.Sprintf("traffic[%d]", i)
		c.traffic(path, t)
		if calls += s.calls(t); calls > maxCalls {
			c.Fail(path, "makes too many calls: about %.0f with those before, must be at most %d", calls, maxCalls)
			break
		}
	}
	c.unused()
	for i, step := range s.ClockSteps {
		path := fmt.Sprintf("clock-steps[%d]", i)
		c.instant(path+".at", step.At)
		if (step.By == 0) == (step.Back == 0) && !c.Failed(path+".by") && !c.Failed(path+".back") {
			c.Fail(path, "must have either by or back")
		}
	}
	for i, o := range s.Overrides {
		path := fmt.Sprintf("overrides[%d]", i)
		c.instant(path+".at", o.At)
		c.known(path+".breaker", o.Breaker, "breakers", s.breakerNames())
		if o.For > 0 && (o.Do == "lift" || o.Do == "reset") {
			c.Fail(path+".for", "is %v, but a %s does not last", o.For, o.Do)
		}
	}
	for i, e := range s.Expect {
		c.expect(fmt.Sprintf("expect[%d]", i), e)
	}
}

// unused reports what no traffic uses: nothing would come of it.
func (c *checker) unused() {
	if c.FailedIn("traffic") && len(c.s.Traffic) == 0 {
		return
	}
	var called, passed []string
	for i, t := range c.s.Traffic {
		path := fmt.Sprintf("traffic[%d]", i)
		if c.Failed(path) && len(t.To) == 0 || c.FailedIn(path+".to") || c.FailedIn(path+".breaker") {
			return // nobody can tell
		}
		called, passed = append(called, t.To...), append(passed, t.Breaker)
	}
	for i, d := range c.s.Dependencies {
		if d.Name != "" && !slices.Contains(called, d.Name) {
			c.Fail(fmt.Sprintf("dependencies[%d].name", i), "is %q, which no traffic calls: name it in the to of some, or remove it", d.Name)
		}
	}
	for i, b := range c.s.Breakers {
		if b.Name != "" && !slices.Contains(passed, b.Name) {
			c.Fail(fmt.Sprintf("breakers[%d].name", i), "is %q, which no traffic passes: name it as the breaker of some, or remove it", b.Name)
		}
	}
}

// calls estimates how many calls traffic makes: workers that are never held up
// make most. Those that do not pause are held up by their calls only; Run counts
// them.
func (s *Scenario) calls(t Traffic) float64 {
	length := s.For - t.After
	if t.For > 0 {
		length = min(length, t.For)
	}
	if t.Rate > 0 {
		return float64(t.Rate) * length.Seconds()
	}
	if t.Pause <= 0 {
		return 0
	}
	return float64(t.Workers) * length.Seconds() / t.Pause.Seconds()
}

func unique[T any](c *checker, path string, list []T, name func(T) string) {
	seen := map[string]int{}
	for i, item := range list {
		at := fmt.Sprintf("%s[%d].name", path, i)
		first, twice := seen[name(item)]
		switch {
		case name(item) == "": // is reported already
		case strings.ContainsAny(name(item), "/#"):
			c.Fail(at, "is %q, must be without / and #", name(item))
		case twice:
			c.Fail(at, "is %q, which %s[%d] is already", name(item), path, first)
		default:
			seen[name(item)] = i
		}
	}
}

func (c *checker) instant(path string, at time.Duration) {
	if at >= c.s.For && c.s.For > 0 {
		c.Fail(path, "is %v, must be before the end at %v", at, c.s.For)
	}
}

// known reports a name that nothing has.
func (c *checker) known(path, name, what string, names []string) {
	switch {
	case name == "" || slices.Contains(names, name):
	case slices.Contains(names, ""): // one is in error already: perhaps this one
	case len(names) == 0:
		c.Fail(path, "is %q, but there are no %s", name, what)
	default:
		c.Fail(path, "is %q, must be one of the %s: %s", name, what, strings.Join(names, ", "))
	}
}

func (c *checker) dependency(path string, d Dependency) {
	if d.Queue > 0 && d.Capacity == 0 {
		c.Fail(path+".queue", "is set, but nobody waits without capacity")
	}
	spread := d.Behaviour.Distribution == logNormal
	c.behaviour(path+".behaviour", d, d.Behaviour)
	c.p99(path+".behaviour", d.Behaviour, spread)
	for i, change := range d.Changes {
		path := fmt.Sprintf("%s.changes[%d]", path, i)
		spread = spread || change.To.Distribution == logNormal
		c.change(path, change)
		c.behaviour(path+".to", d, change.To)
		c.p99(path+".to", change.To, spread)
		if then := d.at(change.At + change.Over); then.distribution == logNormal && then.latency > 0 && then.p99 <= then.latency &&
			change.To.P99 == 0 && change.To.Latency > 0 && !c.FailedIn(path+".to") {
			c.Fail(path+".to.latency", "is %v, must be shorter than p99, %v then: give p99 too", change.To.Latency, then.p99)
		}
	}
}

// change looks at when a change is made.
func (c *checker) change(path string, change Change) {
	c.instant(path+".at", change.At)
	if every := change.Every; every > 0 {
		switch {
		case (change.For == 0 || every <= change.For) && !c.Failed(path+".for"):
			c.Fail(path+".every", "is %v, must be longer than for, which must be given", every)
		case c.s.For/every > maxRepetitions:
			c.Fail(path+".every", "is %v, must be longer: the change would be made %d times, at most %d", every, c.s.For/every, maxRepetitions)
		case change.At+every >= c.s.For && c.s.For > 0:
			c.Fail(path+".every", "is %v, must be shorter: it is not made again before the end at %v", every, c.s.For)
		}
	}
	if change.For > 0 && change.Over > change.For {
		c.Fail(path+".over", "is %v, must be at most for, %v", change.Over, change.For)
	}
	to := change.To
	switch {
	case c.FailedIn(path + ".to"):
	case to == (Behaviour{}) && c.Set(path+".to"):
		c.Fail(path+".to", "changes nothing")
	case change.Over > 0 && to.Failures == nil && to.Latency == 0 && to.P99 == 0:
		c.Fail(path+".over", "is %v, but nothing changes by and by: only failures, latency and p99 do", change.Over)
	}
}

// behaviour looks at one of those of a dependency.
func (c *checker) behaviour(path string, d Dependency, b Behaviour) {
	switch {
	case b.Distribution == logNormal && b.P99 == 0:
		if !c.Failed(path + ".p99") {
			c.Fail(path+".distribution", "is log-normal, which needs p99")
		}
	case b.Distribution == logNormal && b.Latency <= 0:
		if !c.Failed(path + ".latency") {
			c.Fail(path+".distribution", "is log-normal, which needs latency")
		}
	case c.FailedIn(path):
		return
	case b.Distribution != "" && !d.ever(func(b Behaviour) bool { return b.Latency > 0 }):
		c.Fail(path+".distribution", "is %s, but no call takes any time without latency", b.Distribution)
	case b.P99 > 0 && b.P99 <= b.Latency:
		c.Fail(path+".p99", "is %v, must be longer than latency, %v", b.P99, b.Latency)
	}
	if b.FailsAfter > 0 && !d.ever(func(b Behaviour) bool { return b.Failures != nil && *b.Failures > 0 }) {
		c.Fail(path+".fails-after", "is %v, but no call fails without failures", b.FailsAfter)
	}
	if b.Hang <= 0 || d.ever(func(b Behaviour) bool { return b.Hang < 0 }) {
		return
	}
	for _, beside := range []struct {
		key   string
		given bool
	}{{"failures", b.Failures != nil}, {"latency", b.Latency != 0}, {"distribution", b.Distribution != ""}, {"p99", b.P99 != 0}, {"fails-after", b.FailsAfter != 0}} {
		if beside.given {
			c.Fail(path+"."+beside.key, "is set beside hang, %v, which every call does", b.Hang)
		}
	}
}

// ever reports whether something is so of one of a dependency's behaviours.
func (d Dependency) ever(is func(Behaviour) bool) bool {
	return is(d.Behaviour) || slices.ContainsFunc(d.Changes, func(c Change) bool { return is(c.To) })
}

// p99 reports one that nothing looks at. spread tells whether latencies are
// log-normal, here or before.
func (c *checker) p99(path string, b Behaviour, spread bool) {
	if b.P99 > 0 && (!spread || b.Distribution != "" && b.Distribution != logNormal) && !c.Failed(path+".distribution") && !c.Failed(path+".p99") {
		c.Fail(path+".p99", "is set, but the distribution is not log-normal")
	}
}

func (c *checker) traffic(path string, t Traffic) {
	s := c.s
	for i, to := range t.To {
		c.known(fmt.Sprintf("%s.to[%d]", path, i), to, "dependencies", s.dependencyNames())
	}
	if len(t.To) == 0 && c.Set(path+".to") && !c.Failed(path+".to") {
		c.Fail(path+".to", "is empty, must name a dependency")
	}
	c.known(path+".breaker", t.Breaker, "breakers", s.breakerNames())
	c.instant(path+".after", t.After)
	if (t.Rate == 0) == (t.Workers == 0) && !c.Failed(path+".rate") && !c.Failed(path+".workers") {
		c.Fail(path, "must have either rate or workers")
	}
	if t.Workers > 0 && t.Arrivals == poisson && t.Pause <= 0 && !c.Failed(path+".pause") {
		c.Fail(path+".arrivals", "is poisson, but workers without a pause leave nothing to chance")
	}
	if t.Workers == 0 && c.Set(path+".pause") {
		c.Fail(path+".pause", "is set, but only workers pause")
	}
	c.skipOpen(path+".skip-open", t)
	if t.Processes > 1 && t.Breaker == "" && t.Bulkhead == nil && t.Retry == nil && len(t.To) < 2 {
		c.Fail(path+".processes", "is %d, but they have no breaker, bulkhead or retry of their own", t.Processes)
	}
	if t.Deadline > 0 && t.Timeout > t.Deadline {
		c.Fail(path+".timeout", "is %v, must be at most deadline, %v", t.Timeout, t.Deadline)
	}
	if t.Bulkhead != nil {
		c.Validate(path+".bulkhead", *t.Bulkhead, t.Bulkhead.Config(t.Name).Validate())
	}
	if t.Retry != nil {
		c.retry(path+".retry", t)
	}
}

func (c *checker) skipOpen(path string, t Traffic) {
	if !t.SkipOpen {
		return
	}
	i := slices.IndexFunc(c.s.Breakers, func(b Breaker) bool { return b.Name == t.Breaker })
	switch {
	case t.Breaker == "":
		c.Fail(path, "is set, but there is no breaker")
	case i >= 0 && c.s.Breakers[i].Settings.Scope != config.ScopeEndpoint && !c.Failed(fmt.Sprintf("breakers[%d].settings.scope", i)):
		c.Fail(path, "is set, but all dependencies have one breaker: that must have the scope endpoint")
	case len(t.To) < 2:
		c.Fail(path, "is set, but there is no other dependency in to")
	}
}

func (c *checker) retry(path string, t Traffic) {
	r := t.Retry
	c.Validate(path+".settings", r.Settings, errors.Join(r.Settings.Config().Validate(), r.Settings.Budget().Validate()))
	if c.Set(path + ".settings.max-body") {
		c.Fail(path+".settings.max-body", "is set, but calls have no body here")
	}
	for _, key := range []string{"budget-share", "budget-per-second", "budget-window"} {
		if r.NoBudget && c.Set(path+".settings."+key) {
			c.Fail(path+".settings."+key, "is set beside no-budget")
		}
	}
	if c.Failed(path + ".rejections") {
		return
	}
	if t.Breaker == "" && (r.Inside || r.Rejections != "stop") {
		c.Fail(path, "speaks of a breaker, but there is none")
	}
	switch {
	case r.Inside && r.Rejections != "stop":
		c.Fail(path+".rejections", "is %s, but a retry inside the breaker sees none", r.Rejections)
	case r.Rejections == "wait" && t.Deadline == 0:
		c.Fail(path+".rejections", "is wait, but nobody waits without a deadline")
	}
}

func (s *Scenario) dependencyNames() (names []string) {
	for _, d := range s.Dependencies {
		names = append(names, d.Name)
	}
	return names
}

func (s *Scenario) breakerNames() (names []string) {
	for _, b := range s.Breakers {
		names = append(names, b.Name)
	}
	return names
}

func (s *Scenario) trafficNames() (names []string) {
	for _, t := range s.Traffic {
		names = append(names, t.Name)
	}
	return names
}

// breakersByName are the names that an expectation may use: of a breaker, of one
// of a process, of one of a dependency.
func (s *Scenario) breakersByName() (names []string) {
	for _, t := range s.Traffic {
		for i := range s.Breakers {
			if s.Breakers[i].Name != t.Breaker {
				continue
			}
			for process := range max(t.Processes, 1) {
				for _, to := range t.To {
					names = append(names, t.breakerName(s.Breakers[i], process, to))
				}
			}
		}
	}
	return names
}

// breakerName is the name of a breaker of a process: NAME, NAME#2, NAME/HOST,
// NAME#2/HOST.
func (t Traffic) breakerName(b Breaker, process int, to string) string {
	name := b.Name
	if t.Processes > 1 {
		name += fmt.Sprintf("#%d", process+1)
	}
	if b.Settings.Scope == config.ScopeEndpoint {
		name += "/" + to
	}
	return name
}

// matches reports whether a name stands for a breaker: it is the whole name, or
// the part before # or /.
func matches(name, breaker string) bool {
	rest, ok := strings.CutPrefix(breaker, name)
	return ok && (rest == "" || rest[0] == '#' || rest[0] == '/')
}

package scenario

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// maxFor bounds a scenario, and maxCalls the calls it would make: more would
// take longer than anybody waits, and memory.
const (
	maxFor   = 1000 * time.Hour
	maxCalls = 2_000_000

	maxRepetitions = 10_000
)

// Parse reads a scenario. name stands in errors. The error is [config.Errors]:
// all that is wrong, each with line and column.
func Parse(name string, data []byte) (*Scenario, error) {
	s := new(Scenario)
	check := func(doc *config.Document) { (&checker{doc, s}).check() }
	if err := config.Decode(name, data, "title, for, dependencies and traffic", s, check); err != nil {
		return nil, err
	}
	return s, nil
}

// Load reads the scenario of a file or, if there is no such file, the one that
// ships under the name.
func Load(name string) (*Scenario, error) {
	data, err := os.ReadFile(name)
	if err == nil {
		return Parse(name, data)
	}
	if source, ok := Source(name); ok && errors.Is(err, os.ErrNotExist) {
		return Parse(name, source)
	}
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, "./\\") {
		return nil, fmt.Errorf("there is no file %s, and no scenario of that name; there are %s", name, strings.Join(Names(), ", "))
	}
	return nil, err
}

// checker looks for what the types do not say.
type checker struct {
	*config.Document
	s *Scenario
}

func (c *checker) check() {
	s := c.s
	if s.For > maxFor {
		c.Fail("for", "is %v, must be at most %v", s.For, maxFor)
	}
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
	calls := 0.0
	for i, t := range s.Traffic {
		path := fmt.Sprintf("traffic[%d]", i)
		c.traffic(path, t)
		if calls += s.calls(t); calls > maxCalls {
			c.Fail(path, "makes too many calls: about %.0f with those before, must be at most %d", calls, maxCalls)
			break
		}
	}
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
	c.behaviour(path+".behaviour", d.Behaviour)
	spread := d.Behaviour.Distribution == logNormal
	c.p99(path+".behaviour", d.Behaviour, spread)
	for i, change := range d.Changes {
		path := fmt.Sprintf("%s.changes[%d]", path, i)
		c.instant(path+".at", change.At)
		if change.Every > 0 && (change.For == 0 || change.Every <= change.For) && !c.Failed(path+".for") {
			c.Fail(path+".every", "is %v, must be longer than for, which must be given", change.Every)
		}
		if change.Every > 0 && c.s.For/change.Every > maxRepetitions {
			c.Fail(path+".every", "is %v, must be longer: the change would be made %d times, at most %d", change.Every, c.s.For/change.Every, maxRepetitions)
		}
		if change.For > 0 && change.Over > change.For {
			c.Fail(path+".over", "is %v, must be at most for, %v", change.Over, change.For)
		}
		c.behaviour(path+".to", change.To)
		spread = spread || change.To.Distribution == logNormal
		c.p99(path+".to", change.To, spread)
		if change.To == (Behaviour{}) && c.Set(path+".to") && !c.failedBelow(path+".to") {
			c.Fail(path+".to", "changes nothing")
		}
	}
}

// failedBelow reports whether a key of a behaviour is in error already.
func (c *checker) failedBelow(path string) bool {
	return slices.ContainsFunc([]string{"", ".failures", ".latency", ".distribution", ".p99", ".fails-after", ".hang"},
		func(key string) bool { return c.Failed(path + key) })
}

func (c *checker) behaviour(path string, b Behaviour) {
	switch {
	case b.Distribution == logNormal && b.P99 == 0:
		if !c.Failed(path + ".p99") {
			c.Fail(path+".distribution", "is log-normal, which needs p99")
		}
	case b.Distribution == logNormal && b.Latency <= 0:
		if !c.Failed(path + ".latency") {
			c.Fail(path+".distribution", "is log-normal, which needs latency")
		}
	case b.P99 > 0 && b.P99 <= b.Latency:
		c.Fail(path+".p99", "is %v, must be longer than latency, %v", b.P99, b.Latency)
	}
}

// p99 reports one that nothing looks at. spread tells whether latencies are
// log-normal, here or before.
func (c *checker) p99(path string, b Behaviour, spread bool) {
	if b.P99 > 0 && (!spread || b.Distribution != "" && b.Distribution != logNormal) && !c.Failed(path+".distribution") {
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
	if t.Rate == 0 && t.Arrivals != "" {
		c.Fail(path+".arrivals", "is set, but only calls at a rate arrive")
	}
	if t.Workers == 0 && c.Set(path+".pause") {
		c.Fail(path+".pause", "is set, but only workers pause")
	}
	if t.SkipOpen && t.Breaker == "" {
		c.Fail(path+".skip-open", "is set, but there is no breaker")
	}
	if t.Bulkhead != nil {
		c.Validate(path+".bulkhead", *t.Bulkhead, t.Bulkhead.Config(t.Name).Validate())
	}
	if r := t.Retry; r != nil {
		c.Validate(path+".retry.settings", r.Settings, errors.Join(r.Settings.Config().Validate(), r.Settings.Budget().Validate()))
		if r.Rejections == "wait" && t.Deadline == 0 {
			c.Fail(path+".retry.rejections", "is wait, but nobody waits without a deadline")
		}
		if t.Breaker == "" && (r.Inside || r.Rejections != "stop") && !c.Failed(path+".retry.rejections") {
			c.Fail(path+".retry", "speaks of a breaker, but there is none")
		}
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
	switch {
	case e.Until > s.For && s.For > 0:
		c.Fail(path+".until", "is %v, must be at most the end at %v", e.Until, s.For)
	case e.Until > 0 && e.Until <= e.After:
		c.Fail(path+".until", "is %v, must be later than after, %v", e.Until, e.After)
	}
	if e.At > 0 && e.State == "" && !c.Failed(path+".state") {
		c.Fail(path+".at", "is set, but there is no state")
	}
	if e.At > s.For && s.For > 0 {
		c.Fail(path+".at", "is %v, must be at most the end at %v", e.At, s.For)
	}
	count := 0
	for _, condition := range e.conditions() {
		switch {
		case strings.HasPrefix(condition.key, "in-flight") && condition.given && (e.After > 0 || e.Until > 0):
			c.Fail(path+"."+condition.key, "is of the whole time, must be without after and until")
		case !condition.given:
		case condition.of != e.kind():
			c.Fail(path+"."+condition.key, "is a condition for %s, not for %s", article(condition.of), article(e.kind()))
		default:
			count++
		}
	}
	for _, condition := range e.conditions() {
		if c.Failed(path + "." + condition.key) {
			return
		}
	}
	if count == 0 {
		c.Fail(path, "expects nothing")
	}
}

func article(kind string) string {
	if kind == "traffic" {
		return kind
	}
	return "a " + kind
}

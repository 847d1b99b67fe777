package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// good is a scenario to which tests add something wrong.
const good = `title: t
for: 10s
dependencies:
  - name: d
breakers:
  - name: b
traffic:
  - {name: t, to: [d], rate: 10, breaker: b}
`

func TestABadFileGivesAllErrorsWithTheirPlaces(t *testing.T) {
	const text = `title: bad
for: 10
colour: red
dependencies:
  - name: d
    queue: 3
    behaviour: {latency: 20ms, distribution: log-normal, failures: 150%}
    changes:
      - {at: 1s, every: 2s, to: {failures: 0%}}
      - {at: 1s, to: {}}
  - {name: d}
breakers:
  - name: a/b
    settings: {consecutive: 0, open-for: 10s, open-for-max: 1s, slow-rate: 50%}
traffic:
  - {name: t, to: [d, e], breaker: z, pause: 1s, arrivals: steady}
  - name: u
    to: [d]
    rate: 10
    workers: 2
    skip-open: true
    bulkhead: {max-waiting: 3}
    retry: {settings: {base-delay: 20s, max-delay: 1s}, rejections: wait}
clock-steps:
  - {at: 3s}
overrides:
  - {breaker: y, do: explode}
expect:
  - {breaker: q, opens-within: 1s}
  - {traffic: t, opens-within: 1s}
  - {breaker: a/b, traffic: t}
  - {dependency: d}
  - {traffic: t, after: 5s, until: 4s, served-at-least: 50}
`
	_, err := Parse("f.yaml", []byte(text))
	var errs config.Errors
	if !errors.As(err, &errs) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range errs {
		first, _, _ := strings.Cut(e.Error(), "\n")
		got = append(got, first)
	}
	for _, want := range []string{
		`f.yaml:2:6: for is 10, must have a unit: 10s is seconds, 10ms milliseconds`,
		`f.yaml:3:1: colour is not a key here; known are title, about, for, slots, dependencies, breakers, traffic, clock-steps, overrides, expect`,
		`f.yaml:6:12: dependencies[0].queue is set, but nobody waits without capacity`,
		`f.yaml:7:46: dependencies[0].behaviour.distribution is log-normal, which needs p99`,
		`f.yaml:7:68: dependencies[0].behaviour.failures is "150%", must be at most 100%, which is 1`,
		`f.yaml:9:25: dependencies[0].changes[0].every is 2s, must be longer than for, which must be given`,
		`f.yaml:10:18: dependencies[0].changes[1].to changes nothing`,
		`f.yaml:11:12: dependencies[1].name is "d", which dependencies[0] is already`,
		`f.yaml:13:11: breakers[0].name is "a/b", must be without / and #`,
		`f.yaml:14:29: breakers[0].settings.consecutive is 0, must be a whole number of at least 1, or off`,
		`f.yaml:14:76: breakers[0].settings.slow-rate is set, but no answer is slow without slow-after`,
		`f.yaml:14:61: breakers[0].settings.open-for-max is 1s, must be at least open-for (10s)`,
		`f.yaml:22:29: traffic[1].bulkhead.max-waiting is 3, must be 0 without max-wait: no call waits`,
		`f.yaml:23:52: traffic[1].retry.settings.max-delay is 1s, must be at least base-delay (20s)`,
		`f.yaml:16:23: traffic[0].to[1] is "e", must be one of the dependencies: d, d`,
		`f.yaml:16:36: traffic[0].breaker is "z", must be one of the breakers: a/b`,
		`f.yaml:16:46: traffic[0].pause is set, but only workers pause`,
		`f.yaml:16:6: traffic[0] must have either rate or workers`,
		`f.yaml:17:5: traffic[1] must have either rate or workers`,
		`f.yaml:21:16: traffic[1].skip-open is set, but there is no breaker`,
		`f.yaml:23:69: traffic[1].retry.rejections is wait, but nobody waits without a deadline`,
		`f.yaml:25:6: clock-steps[0] must have either by or back`,
		`f.yaml:27:15: overrides[0].breaker is "y", must be one of the breakers: a/b`,
		`f.yaml:27:22: overrides[0].do is "explode", must be enforce, shadow, off, force-open, force-closed, lift or reset`,
		`f.yaml:29:15: expect[0].breaker is "q", but there are no breakers in use`,
		`f.yaml:30:32: expect[1].opens-within is a condition for a breaker, not for traffic`,
		`f.yaml:31:6: expect[2] must have exactly one of breaker, traffic and dependency`,
		`f.yaml:32:6: expect[3] expects nothing`,
		`f.yaml:33:36: expect[4].until is 4s, must be later than after, 5s`,
		`f.yaml:33:57: expect[4].served-at-least is 50, must be a fraction up to 1: write 50% or 0.5`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no error %q", want)
		}
	}
	if t.Failed() {
		t.Logf("there are\n%s", strings.Join(got, "\n"))
	}
	for i := 1; i < len(errs); i++ {
		if errs[i].Origin.Line < errs[i-1].Origin.Line {
			t.Errorf("line %d comes after line %d", errs[i].Origin.Line, errs[i-1].Origin.Line)
		}
	}
}

func TestOneWrongThing(t *testing.T) {
	for _, c := range []struct{ name, add, want string }{
		{"too long", "x: 1", "x is not a key here"},
		{"expect of an unknown breaker", "expect: [{breaker: c, trips-at-most: 1}]", `expect[0].breaker is "c", must be one of the breakers in use: b`},
		{"expect of unknown traffic", "expect: [{traffic: c, served-at-least: 1}]", `expect[0].traffic is "c", must be one of the traffic: t`},
		{"after the end", "expect: [{traffic: t, after: 10s, served-at-least: 1}]", `expect[0].after is 10s, must be before the end at 10s`},
		{"until after the end", "expect: [{traffic: t, until: 11s, served-at-least: 1}]", `expect[0].until is 11s, must be at most the end at 10s`},
		{"at without a state", "expect: [{breaker: b, at: 1s, trips-at-most: 0}]", `expect[0].at is set, but there is no state`},
		{"in flight of a part", "expect: [{dependency: d, after: 1s, in-flight-at-most: 5}]", `is of the whole time, must be without after and until`},
		{"an override that cannot last", "overrides: [{breaker: b, do: lift, for: 1s}]", `overrides[0].for is 1s, but a lift does not last`},
		{"a tag", "about: !!str x", "the tag"},
		{"a number that is none", "expect: [{breaker: b, trips-at-most: -1}]", "trips-at-most is -1, must be a whole number of at least 0"},
	} {
		if _, err := Parse("f.yaml", []byte(good+c.add+"\n")); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "f.yaml:") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"too long", "for: 10s", "for: 1001h", `for is "1001h", must be a positive duration with a unit: 250ms, 10s, 1m30s of at most 1000h`},
		{"too many calls", "rate: 10", "rate: 1000000", "traffic[0] makes too many calls"},
		{"too many workers", "rate: 10", "workers: 10000, pause: 10ms", "traffic[0] makes too many calls"},
		{"no dependency", "to: [d]", "to: []", "traffic[0].to is empty, must name a dependency"},
		{"repeated too often", "- name: d", "- {name: d, changes: [{at: 1s, for: 1us, every: 10us, to: {latency: 1s}}]}", "would be made 1000000 times"},
		{"p99 of a constant", "- name: d", "- {name: d, behaviour: {latency: 1s, p99: 2s, distribution: uniform}}", "p99 is set, but the distribution is not log-normal"},
		{"p99 of a constant by default", "- name: d", "- {name: d, behaviour: {latency: 1s, p99: 2s}}", "behaviour.p99 is set, but the distribution is not log-normal"},
		{"p99 of a change", "- name: d", "- {name: d, changes: [{at: 1s, to: {p99: 2s}}]}", "changes[0].to.p99 is set, but the distribution is not log-normal"},
		{"p99 below the median", "- name: d", "- {name: d, behaviour: {latency: 2s, p99: 1s, distribution: log-normal}}", "p99 is 1s, must be longer than latency, 2s"},
		{"retries that speak of a breaker", "breaker: b", "retry: {inside: true}", "traffic[0].retry speaks of a breaker, but there is none"},
	} {
		if _, err := Parse("f.yaml", []byte(strings.Replace(good, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Parse("f.yaml", []byte(good)); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "# nothing\n"} {
		if _, err := Parse("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "f.yaml:1:1: the file is empty; it must have title, for, dependencies and traffic") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// contradictions are files with one thing wrong: %s stands for text to add, or
// what is to be replaced in good.
var contradictions = []struct {
	name, from, to string // from "": to is added
	want           string // of the message, from the place on
	schema         bool   // the schema refuses it too
}{
	// Unknown keys, in every section.
	{"a key of nothing", "", "breaker: b", "9:1: breaker is not a key here; known are title, ", true},
	{"a key of a dependency", "- name: d", "- {name: d, down: 1s}", "4:15: dependencies[0].down is not a key here; known are name, capacity, ", true},
	{"a key of a behaviour", "- name: d", "- {name: d, behaviour: {error-rate: 5%}}", "4:27: dependencies[0].behaviour.error-rate is not a key here; known are failures, ", true},
	{"a key of a change", "- name: d", "- {name: d, changes: [{at: 1s, until: 2s, to: {latency: 1s}}]}", "dependencies[0].changes[0].until is not a key here", true},
	{"a key of a breaker", "- name: b", "- {name: b, open-for: 1s}", "breakers[0].open-for is not a key here; known are name, clock, settings", true},
	{"a key of settings", "- name: b", "- {name: b, settings: {openfor: 1s}}", "breakers[0].settings.openfor is not a key here; it is spelt open-for", true},
	{"a key of traffic", "breaker: b", "breaker: b, retries: 3", "traffic[0].retries is not a key here", true},
	{"a key of an expectation", "", "expect: [{breaker: b, trips: 1}]", "expect[0].trips is not a key here", true},
	{"a key of an override", "", "overrides: [{at: 1s, breaker: b, do: lift, by: me}]", "overrides[0].by is not a key here", true},

	// Wrong types.
	{"a list for a mapping", "- name: d", "- [d]", "dependencies[0] is a list, must be a mapping of keys to values", true},
	{"a mapping for a list", "to: [d]", "to: {d: 1}", "traffic[0].to is a mapping, must be a list", true},
	{"a name for a list", "to: [d]", "to: d", `traffic[0].to is "d", must be a list`, true},
	{"a number for a duration", "for: 10s", "for: 10", "2:6: for is 10, must have a unit: 10s is seconds, 10ms milliseconds", true},
	{"a word for a number", "rate: 10", "rate: fast", `traffic[0].rate is "fast", must be a positive number`, true},
	{"half a worker", "rate: 10", "workers: 1.5", "traffic[0].workers is 1.5, must be a whole number from 1 to 10000", true},
	{"nothing", "rate: 10", "rate: ", "traffic[0].rate is empty, must be a positive number", true},
	{"a word for a bool", "breaker: b", "breaker: b, fallback: yes", `traffic[0].fallback is "yes", must be true or false`, true},

	// Numbers and times out of range.
	{"a negative length", "for: 10s", "for: -10s", `2:6: for is "-10s", must be a positive duration with a unit`, true},
	{"no length", "for: 10s", "for: 0s", `2:6: for is "0s", must be a positive duration with a unit`, false},
	{"a negative instant", "- name: d", "- {name: d, changes: [{at: -1s, to: {latency: 1s}}]}", `changes[0].at is "-1s", must be 0s, or a positive duration with a unit: 250ms, 10s, 1m30s of at most 1000h`, true},
	{"an instant without a unit", "", "expect: [{breaker: b, state: closed, at: 0}]", "expect[0].at is 0, must be 0s, or a positive duration with a unit", true},
	{"a negative beginning", "breaker: b", "breaker: b, after: -1s", `traffic[0].after is "-1s", must be 0s, or`, true},
	{"a change at the end", "- name: d", "- {name: d, changes: [{at: 10s, to: {latency: 1s}}]}", "changes[0].at is 10s, must be before the end at 10s", false},
	{"traffic after the end", "breaker: b", "breaker: b, after: 11s", "traffic[0].after is 11s, must be before the end at 10s", false},
	{"an override after the end", "", "overrides: [{at: 1h, breaker: b, do: lift}]", "overrides[0].at is 1h0m0s, must be before the end at 10s", false},
	{"a clock step after the end", "", "clock-steps: [{at: 1h, by: 1s}]", "clock-steps[0].at is 1h0m0s, must be before the end at 10s", false},
	{"a state after the end", "", "expect: [{breaker: b, state: closed, at: 11s}]", "expect[0].at is 11s, must be at most the end at 10s", false},
	{"a limit after the end", "", "expect: [{breaker: b, after: 9s, opens-within: 2s}]", "expect[0].opens-within is 2s, must be at most 1s, which is from after to the end", false},
	{"a hang that never ends", "- name: d", "- {name: d, behaviour: {hang: 2000000h}}", `behaviour.hang is "2000000h", must be a positive duration with a unit: 250ms, 10s, 1m30s of at most 1000h, or off`, false},
	{"a change that lasts for ever", "- name: d", "- {name: d, changes: [{at: 1s, for: 2562047h, to: {latency: 1s}}]}", `changes[0].for is "2562047h", must be`, false},
	{"a share above 1", "", "expect: [{traffic: t, served-at-least: 101%}]", `served-at-least is "101%", must be at most 100%, which is 1`, true},
	{"a share below 0", "", "expect: [{traffic: t, served-at-least: -0.1}]", "served-at-least is -0.1, must be a fraction", true},

	// Names of nothing.
	{"an unknown dependency", "to: [d]", "to: [e]", `8:20: traffic[0].to[0] is "e", must be one of the dependencies: d`, false},
	{"an unknown breaker", "breaker: b", "breaker: c", `8:43: traffic[0].breaker is "c", must be one of the breakers: b`, false},
	{"an override of an unknown breaker", "", "overrides: [{at: 1s, breaker: c, do: lift}]", `overrides[0].breaker is "c", must be one of the breakers: b`, false},
	{"an expectation of an unknown dependency", "", "expect: [{dependency: c, calls-at-most: 1}]", `expect[0].dependency is "c", must be one of the dependencies: d`, false},
	{"an unknown process", "", "expect: [{breaker: b#2, trips-at-most: 1}]", `expect[0].breaker is "b#2", must be one of the breakers in use: b`, false},
	{"an unknown state", "", "expect: [{breaker: b, state: ajar}]", `expect[0].state is "ajar", must be closed, half-open or open`, true},
	{"an unknown distribution", "- name: d", "- {name: d, behaviour: {latency: 1s, distribution: normal}}", `distribution is "normal", must be constant, uniform, exponential or log-normal`, true},

	// What nobody uses, or nothing comes of.
	{"a dependency of nobody", "- name: d", "- name: d\n  - name: e", `5:11: dependencies[1].name is "e", which no traffic calls`, false},
	{"a breaker of nobody", "breaker: b}", "timeout: 1s}", `6:11: breakers[0].name is "b", which no traffic passes`, false},
	{"no traffic", "traffic:\n  - {name: t, to: [d], rate: 10, breaker: b}", "traffic: []", "traffic is empty, must have one kind at least", true},
	{"skipping nothing", "breaker: b", "breaker: b, skip-open: true", "traffic[0].skip-open is set, but all dependencies have one breaker: that must have the scope endpoint", false},
	{"processes of nothing", "breaker: b}", "processes: 3}\n  - {name: u, to: [d], rate: 1, breaker: b}", "traffic[0].processes is 3, but they have no breaker, bulkhead or retry of their own", false},
	{"bodies", "breaker: b", "breaker: b, retry: {settings: {max-body: 1kB}}", "traffic[0].retry.settings.max-body is set, but calls have no body here", true},
	{"a distribution of no latency", "- name: d", "- {name: d, behaviour: {distribution: uniform}}", "behaviour.distribution is uniform, but no call takes any time without latency", false},
	{"how long failures take that do not happen", "- name: d", "- {name: d, behaviour: {fails-after: 1s}}", "behaviour.fails-after is 1s, but no call fails without failures", false},
	{"a slow change of what cannot be half", "- name: d", "- {name: d, changes: [{at: 1s, over: 2s, to: {hang: 1m}}]}", "changes[0].over is 2s, but nothing changes by and by", false},
	{"a change that would be repeated after the end", "- name: d", "- {name: d, changes: [{at: 4s, for: 1s, every: 6s, to: {latency: 1s}}]}", "changes[0].every is 6s, must be shorter: it is not made again before the end at 10s", false},

	// Contradictions.
	{"failures beside a hang", "- name: d", "- {name: d, behaviour: {hang: 1m, failures: 50%}}", "4:47: dependencies[0].behaviour.failures is set beside hang, 1m0s, which every call does", false},
	{"a latency beyond the 99th percentile", "- name: d", "- {name: d, behaviour: {latency: 10ms, p99: 50ms, distribution: log-normal}, changes: [{at: 1s, to: {latency: 1s}}]}", "changes[0].to.latency is 1s, must be shorter than p99, 50ms then: give p99 too", false},
	{"budgets", "breaker: b", "breaker: b, retry: {no-budget: true, settings: {budget-share: 5%}}", "traffic[0].retry.settings.budget-share is set beside no-budget", false},
	{"rejections that nobody sees", "breaker: b", "breaker: b, retry: {inside: true, rejections: again}", "retry.rejections is again, but a retry inside the breaker sees none", false},
	{"a timeout after the deadline", "breaker: b", "breaker: b, deadline: 1s, timeout: 2s", "traffic[0].timeout is 2s, must be at most deadline, 1s", false},
	{"a rate and workers", "rate: 10", "rate: 10, workers: 2", "traffic[0] must have either rate or workers", true},
	{"pauses by chance that are none", "rate: 10", "workers: 2, arrivals: poisson", "traffic[0].arrivals is poisson, but workers without a pause leave nothing to chance", false},
	{"neither", "rate: 10, ", "", "traffic[0] must have either rate or workers", true},
	{"ahead and back", "", "clock-steps: [{at: 1s, by: 1s, back: 1s}]", "clock-steps[0] must have either by or back", true},
	{"an instant beside a beginning", "", "expect: [{breaker: b, state: closed, at: 1s, after: 0s}]", "9:42: expect[0].at is 1s, but there is after too: a state is expected at an instant, or all the time between two", true},
	{"an instant beside an end", "", "expect: [{breaker: b, state: closed, at: 0s, until: 5s}]", "expect[0].at is 0s, but there is until too", true},
	{"an instant of nothing", "", "expect: [{breaker: b, at: 0s, trips-at-most: 0}]", "expect[0].at is set, but there is no state", true},
	{"a limit beyond the span", "", "expect: [{breaker: b, after: 1s, until: 3s, closes-within: 4s}]", "expect[0].closes-within is 4s, must be at most 2s, which is from after to until", false},
	{"an end before the beginning", "", "expect: [{breaker: b, after: 3s, until: 3s, trips-at-most: 0}]", "expect[0].until is 3s, must be later than after, 3s", false},
	{"two subjects", "", "expect: [{breaker: b, traffic: t, trips-at-most: 0}]", "expect[0] must have exactly one of breaker, traffic and dependency", true},
	{"no subject", "", "expect: [{trips-at-most: 0}]", "expect[0] must have exactly one of breaker, traffic and dependency", true},
	{"a condition for something else", "", "expect: [{dependency: d, served-at-least: 50%}]", "expect[0].served-at-least is a condition for traffic, not for a dependency", true},
	{"no condition", "", "expect: [{dependency: d, after: 1s}]", "expect[0] expects nothing", true},
	{"trips", "", "expect: [{breaker: b, trips-at-least: 2, trips-at-most: 1}]", "expect[0].trips-at-least is 2, must be at most trips-at-most, 1", false},
	{"shares", "", "expect: [{traffic: t, failed-at-least: 20%, failed-at-most: 10%}]", "expect[0].failed-at-least is 20%, must be at most failed-at-most, 10%", false},
	{"percentiles", "", "expect: [{traffic: t, p99-at-least: 2s, p99-at-most: 1s}]", "expect[0].p99-at-least is 2s, must be at most p99-at-most, 1s", false},
	{"calls in flight of a part", "", "expect: [{dependency: d, after: 0s, in-flight-at-most: 5}]", "expect[0].in-flight-at-most is of the whole time, must be without after and until", true},
}

func badFile(from, to string) string {
	if from == "" {
		return good + to + "\n"
	}
	return strings.Replace(good, from, to, 1)
}

// Every key acts, or is refused: with the file, the line, the field, the value and
// the rule.
func TestContradictions(t *testing.T) {
	for _, c := range contradictions {
		text := badFile(c.from, c.to)
		if text == good {
			t.Errorf("%s: nothing is wrong", c.name)
		}
		_, err := Parse("f.yaml", []byte(text))
		var errs config.Errors
		if !errors.As(err, &errs) || len(errs) != 1 {
			t.Errorf("%s: %v, want one error: %s", c.name, err, c.want)
			continue
		}
		first, _, _ := strings.Cut(err.Error(), "\n")
		if !strings.Contains(first, c.want) || !placed.MatchString(first) || errs[0].Source == "" {
			t.Errorf("%s: %q, want %q", c.name, first, c.want)
		}
	}
}

var placed = regexp.MustCompile(`^f\.yaml:[1-9][0-9]*:[1-9][0-9]*: `)

// noContradictions look like some.
var noContradictions = []struct{ from, to string }{
	{"", "expect: [{breaker: b, state: closed, at: 0s}]"},
	{"", "expect: [{breaker: b, state: closed, at: 10s}]"},
	{"", "expect: [{breaker: b, after: 0s, until: 10s, closes-within: 10s, trips-at-least: 0, trips-at-most: 0}]"},
	{"", "overrides: [{at: 0s, breaker: b, do: force-open}, {breaker: b, do: lift}]"},
	{"", "clock-steps: [{at: 0s, by: 1h}]"},
	{"breaker: b", "breaker: b, after: 0s"},
	{"rate: 10", "workers: 2, pause: 1s, arrivals: poisson"},
	{"rate: 10", "workers: 2, arrivals: steady"},
	{"- name: d", "- {name: d, behaviour: {hang: 1m, latency: 1s}, changes: [{at: 0s, to: {hang: off}}]}"},
	{"- name: d", "- {name: d, behaviour: {fails-after: 1s}, changes: [{at: 3s, for: 1h, to: {failures: 1%}}]}"},
	{"- name: d", "- {name: d, behaviour: {distribution: uniform}, changes: [{at: 3s, over: 1s, to: {latency: 1s}}]}"},
	{"- name: d", "- {name: d, behaviour: {latency: 10ms, p99: 50ms, distribution: log-normal}, changes: [{at: 1s, to: {latency: 1s, p99: 2s}}]}"},
}

func TestWhatIsNoContradiction(t *testing.T) {
	for _, c := range noContradictions {
		if _, err := Parse("f.yaml", []byte(badFile(c.from, c.to))); err != nil {
			t.Errorf("%s: %v", c.to, err)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name string) string {
		if err := os.WriteFile(name, []byte(good), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const shipped, own = "a dependency that is down for 30 seconds", "t"
	for _, folder := range []string{"flapping", "folder", "folder.yaml"} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("hard-outage")
	write("hard-outage.yaml")
	write("bare")
	for name, want := range map[string]string{
		"hard-outage":                          shipped, // whatever lies about
		"./hard-outage":                        own,
		"hard-outage.yaml":                     own,
		"bare":                                 own,
		filepath.Join(dir, "hard-outage"):      own,
		filepath.Join(dir, "hard-outage.yaml"): own,
		"flapping":                             "a dependency that is down for 4 seconds of every 12",
	} {
		if s, err := Load(name); err != nil || s.Title != want {
			t.Errorf("%s: %v, %+v, want %q", name, err, s, want)
		}
	}
	for name, want := range map[string]string{
		"hard-outag":             "there is no file hard-outag, and no scenario of that name; there are brown-out, clock-step, ",
		"folder":                 "folder is a folder, not the file of a scenario",
		"./flapping":             "./flapping is a folder, not the file of a scenario",
		"folder.yaml":            "folder.yaml is a folder, not the file of a scenario",
		"brown-out.yaml":         "no such file or directory; the scenario that ships is brown-out",
		"shipped/brown-out.yaml": "no such file or directory; the scenario that ships is brown-out",
		"none.yaml":              "open none.yaml: no such file or directory",
	} {
		if _, err := Load(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := Load(filepath.Join(dir, "no.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestTheScenariosThatShip(t *testing.T) {
	want := []string{
		"brown-out", "clock-step", "flapping", "hard-outage", "hung-probe", "low-traffic",
		"one-bad-host", "retry-storm", "slow-leak", "thundering-herd", "timeline",
	}
	if got := Names(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if _, ok := Source("../doc.go"); ok {
		t.Error("a path out of the folder is a scenario")
	}
}

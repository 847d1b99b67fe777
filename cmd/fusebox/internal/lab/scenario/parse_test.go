package scenario

import (
	"errors"
	"os"
	"path/filepath"
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
		`f.yaml:16:60: traffic[0].arrivals is set, but only calls at a rate arrive`,
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
		{"too long", "for: 10s", "for: 1001h", "for is 1001h0m0s, must be at most 1000h0m0s"},
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

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "own.yaml")
	if err := os.WriteFile(path, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Load(path); err != nil || s.Title != "t" {
		t.Errorf("a file: %v", err)
	}
	if s, err := Load("hard-outage"); err != nil || s.For == 0 {
		t.Errorf("one that ships: %v", err)
	}
	if _, err := Load("hard-outag"); err == nil || !strings.Contains(err.Error(), "there are brown-out, clock-step, ") {
		t.Errorf("a name that nothing has: %v", err)
	}
	if _, err := Load(filepath.Join(dir, "no.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	// A file beats what ships.
	t.Chdir(dir)
	if err := os.WriteFile("hard-outage", []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Load("hard-outage"); err != nil || s.Title != "t" {
		t.Errorf("a file with the name of one that ships: %v", err)
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

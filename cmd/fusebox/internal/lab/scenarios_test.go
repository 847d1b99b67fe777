package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/scenario"
)

// The known values were measured with another program, in one run with calls that
// arrive by chance: a mean of several runs differs from one run by what the model
// says, and from the model's mean by less. That tells the ways apart.
func TestKnownRetry(t *testing.T) {
	const errors = 4.5
	o := retryOptions{
		rate: 100, outage: 30 * time.Second, latency: 20 * time.Millisecond, attempts: 3, delay: 20 * time.Millisecond,
		open: time.Second, consecutive: 5, probes: 3, trials: 4,
	}
	trials := float64(o.trials)
	r := runOnce(t, "retry")
	outage := table(t, r, "outage")
	known := map[string]float64{"breaker": 75, "outside": 75, "inside": 281, "retries": 9048}
	for _, w := range o.ways() {
		want, ok := known[w.key]
		if !ok {
			continue
		}
		row := outage.Row("way", w.name)
		deviation := math.Sqrt(w.reaches.Variance)
		band := errors * deviation * math.Sqrt(1+1/trials)
		within(t, w.name, row.Number("reached"), want-band, want+band)
		within(t, w.name+", the formula", row.Number("formula"), w.formula-1, w.formula+1)
		band = errors * deviation / math.Sqrt(trials)
		for _, other := range o.ways() {
			if known[other.key] == 0 {
				continue
			}
			reached := outage.Row("way", other.name).Number("reached")
			near := reached >= w.reaches.Low-band && reached <= w.reaches.High+band
			if same := known[other.key] == want; near != same {
				t.Errorf("%s: %v attempts, %+v within %.1f, which is %s: %v", other.name, reached, w.reaches, band, w.name, near)
			}
		}
	}
	// Who does not take the rejection for the end of the call adds to it.
	for _, name := range []string{waitName, unknowingName} {
		row := outage.Row("way", name)
		_, single := o.reaches("breaker")
		least := single + errors*max(row.Number("deviation"), 2)/math.Sqrt(trials)
		within(t, name, row.Number("reached"), least, 2*least)
	}
	errs := table(t, r, "errors")
	within(t, "three attempts of which half fail", errs.Row("q", 0.5).Number("retries"), 84, 91)
	within(t, "the breaker that sees each of them", errs.Row("q", 0.5).Number("outside"), 0, 40)
}

func TestKnownSlow(t *testing.T) {
	guards := table(t, runOnce(t, "slow"), "guards")
	nothing := guards.Row("guard", nothingName)
	equal(t, "nothing", cells(t, nothing, "slots", "to_slow"), "100 100")
	// 100 handlers, freed after 5 s each and asked for by 200 requests a second
	// that wait for a second at most: about 20 a second go on, of which those for
	// the healthy dependency at once.
	within(t, "nothing", nothing.Number("served"), 10, 35)
	equal(t, "failures only", cells(t, guards.Row("guard", failuresName), "served", "p99"), cells(t, nothing, "served", "p99"))
	equal(t, "bulkhead", cells(t, guards.Row("guard", bulkheadName), "served", "p50", "p99", "to_slow"), "100.0 50 50 25")
	all := guards.Row("guard", everythingAll)
	equal(t, "all", cells(t, all, "served", "p99"), "100.0 50")
	within(t, "all", all.Number("to_slow"), 1, 25)
}

// The requests are real, and machines differ: only what must be so is asserted.
func TestSlowOverHTTP(t *testing.T) {
	t.Parallel()
	r := run(t, "slow", "http=true", "lead=50ms", "slow-for=600ms", "slow=400ms", "slots=10", "bulkhead=3", "wait=50ms")
	for _, name := range []string{nothingName, failuresName, slowRuleName, timeoutName, bulkheadName, everythingAll} {
		row := table(t, r, "guards").Row("guard", name)
		within(t, name+": handlers", row.Number("slots"), 1, 10)
		within(t, name+": goroutines", row.Number("goroutines"), 5, 1e6)
		within(t, name+": heap", row.Number("memory"), 0.1, 1e4)
	}
	within(t, "bulkhead", table(t, r, "guards").Row("guard", bulkheadName).Number("to_slow"), 1, 3)
	for _, c := range r.Failed() {
		t.Error(c)
	}
}

func TestFlagsOfRetrySlowAndStep(t *testing.T) {
	for _, c := range []struct{ experiment, flag, want string }{
		{"retry", "attempts=1", "lab retry: --attempts is 1, must be from 2 to 100"},
		{"retry", "rate=NaN", "--rate is NaN, must be from 1 to 10000"},
		{"retry", "errors=0.5,1", "--errors is 1, must be above 0 and below 1"},
		{"retry", "trials=1", "--trials is 1"},
		{"retry", "delay=0s", "--delay is 0s, must be above 0"},
		{"slow", "slots=0", "lab slow: --slots is 0, must be from 1 to 10000"},
		{"slow", "rate=0", "--rate is 0"},
		{"slow", "timeout=-1s", "--timeout is -1s"},
		{"step", "steps=0", "lab step: --steps is 0, must be from 1 to 100000"},
		{"step", "breaker=fuse", "lab step: timeline has no steps: no call passes a breaker fuse; there are breaker"},
	} {
		e, p := find(t, c.experiment, c.flag)
		_, err := e.Run(t.Context(), p)
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s --%s: %v, want %q", c.experiment, c.flag, err, c.want)
		}
	}
}

// quick is a scenario that takes no time to play.
const quick = `title: quick
for: 3s
dependencies: [{name: d, changes: [{at: 1s, to: {failures: 100%}}]}]
breakers: [{name: b, settings: {consecutive: 5}}]
traffic: [{name: t, to: [d], rate: 50, breaker: b}]
expect:
  - {breaker: b, after: 1s, opens-within: WITHIN}
  - {traffic: t, rejected-at-least: 10%}
`

func quickFile(tb testing.TB, within string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "quick.yaml")
	if err := os.WriteFile(path, []byte(strings.Replace(quick, "WITHIN", within, 1)), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func TestRunTellsAllAboutAScenario(t *testing.T) {
	page := filepath.Join(t.TempDir(), "r.html")
	out, _, err := execute(t, Command(), "run", quickFile(t, "500ms"), "--html", page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"run: quick\n", "  1.000  dependency d  now failures 100%\n", "closed → open: 5 failures in a row >= 5\n",
		"breaker b: opens-within, after 1s  500ms  ", "2 of 2 checks passed.",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if text, err := os.ReadFile(page); err != nil || strings.Count(string(text), "<svg") != 2 {
		t.Errorf("the page: %v", err)
	}
	again, _, _ := execute(t, Command(), "run", quickFile(t, "500ms"))
	file := regexp.MustCompile(`scenario \S+,`)
	if file.ReplaceAllString(again, "") != file.ReplaceAllString(out, "") {
		t.Error("the same seed gives another output")
	}
	text, _, err := execute(t, Command(), "run", "timeline", "--json")
	var got struct{ Tables []struct{ Name string } }
	if err := errors.Join(err, json.Unmarshal([]byte(text), &got)); err != nil || len(got.Tables) != 4 {
		t.Errorf("as JSON: %v, %+v", err, got)
	}
}

func TestAnExpectationThatIsNotMetIsAnError(t *testing.T) {
	out, _, err := execute(t, Command(), "run", quickFile(t, "1ms"))
	var failed *FailedError
	if !errors.As(err, &failed) || failed.ExitCode() != 1 || !strings.Contains(err.Error(), "lab run: 1 of 2 checks failed") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out, "FAILED ") || !strings.Contains(out, " NO\n") || !strings.Contains(out, "quick.yaml: breaker b: opens-within, after 1s, want 1ms, got 113.851ms\n") {
		t.Errorf("the report is\n%s", out)
	}
}

func TestAScenarioThatCannotBeReadIsWrongUsage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte("title: x\nfor: 3\ncolour: red\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"run", "step"} {
		_, _, err := execute(t, Command(), command, path)
		var usage *UsageError
		if !errors.As(err, &usage) || usage.ExitCode() != 2 {
			t.Errorf("%s: %v", command, err)
			continue
		}
		for _, want := range []string{path + ":2:6: for is 3", path + ":3:1: colour is not a key", "dependencies is missing", "traffic is missing", "    2 | for: 3"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %v", command, want, err)
			}
		}
		if _, _, err := execute(t, Command(), command, "nothing"); !errors.As(err, &usage) || !strings.Contains(err.Error(), "there are brown-out, ") {
			t.Errorf("%s nothing: %v", command, err)
		}
		if _, _, err := execute(t, Command(), command, "a", "b"); err == nil {
			t.Errorf("%s takes two scenarios", command)
		}
	}
}

func TestScenariosListsThemAndPrintsOne(t *testing.T) {
	out, _, err := execute(t, Command(), "scenarios")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
		if !strings.HasPrefix(line, scenario.Names()[i]+" ") {
			t.Errorf("line %d is %q", i, line)
		}
	}
	one, _, err := execute(t, Command(), "scenarios", "flapping")
	if source, _ := scenario.Source("flapping"); err != nil || one != string(source) {
		t.Errorf("flapping: %v, %q", err, one)
	}
	var usage *UsageError
	if _, _, err := execute(t, Command(), "scenarios", "nothing"); !errors.As(err, &usage) {
		t.Errorf("got %v", err)
	}
}

func TestTheFormatIsPrinted(t *testing.T) {
	for want, args := range map[string][]string{scenario.Schema(): {"schema"}, scenario.Example(): {"schema", "--example"}} {
		if out, _, err := execute(t, Command(), args...); err != nil || out != want {
			t.Errorf("%q: %v, %.80q", args, err, out)
		}
	}
	// What is printed can be run.
	path := filepath.Join(t.TempDir(), "example.yaml")
	if err := os.WriteFile(path, []byte(scenario.Example()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := execute(t, Command(), "run", path); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"run", "step"} {
		help, _, err := execute(t, Command(), command, "--help")
		if err != nil || !strings.Contains(help, "lab s") {
			t.Errorf("%s: %v, %s", command, err, help)
		}
		for _, named := range regexp.MustCompile(`fusebox lab (schema|scenarios)[a-z -]*`).FindAllString(help, -1) {
			if _, _, err := execute(t, Command(), strings.Fields(named)[2:]...); err != nil {
				t.Errorf("the help of %s names %q: %v", command, named, err)
			}
		}
	}
}

// stepThrough goes through the timeline as somebody types, and returns the numbers
// of the steps that were shown.
func stepThrough(t *testing.T, typed string, args ...string) (shown []string, out string) {
	t.Helper()
	c := Command()
	c.SetIn(strings.NewReader(typed))
	out, _, err := execute(t, c, append([]string{"step"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^step (\d+) of`).FindAllStringSubmatch(out, -1) {
		shown = append(shown, m[1])
	}
	return shown, out
}

func TestSteppingInTheTerminal(t *testing.T) {
	for typed, want := range map[string]string{
		"":                   "1",
		"\n\nn\nnext\n":      "1 2 3 4 5",
		"n\nn\nb\nback\nb\n": "1 2 3 2 1",
		"r\nr\nrun\n":        "1 30 51 52",
		"s 240\nn\nb\n":      "1 240 239",
		"s 0\ns x\ns 241\nn": "1 2",
		"r\nq\nn\n":          "1 30",
		"what\nN\n":          "1 2",
		"s 178\nr\n":         "1 178 240", // no change after the last one
		"s 237\ne\n":         "1 237 238 239 240",
	} {
		shown, out := stepThrough(t, typed)
		if got := strings.Join(shown, " "); got != want {
			t.Errorf("typed %q: steps %s, want %s", typed, got, want)
		}
		if !strings.Contains(out, "n or enter: next") {
			t.Error("nobody says what to type")
		}
	}
	_, out := stepThrough(t, "r\n")
	want := "step 30 of 240, at 0.700 s, breaker breaker\n  call    call 15 fails\n" +
		"  before  closed: 14 calls in the window, 4 of them failed, 4 in a row\n" +
		"  rule    trips: 5 failures in a row >= 5\n  after   open: for 1.025s more\n"
	if !strings.Contains(out, want) {
		t.Errorf("no\n%s in\n%s", want, out)
	}
	_, out = stepThrough(t, "e\nn\nb\nb\nb\n", "--steps", "2")
	for _, want := range []string{"the last step that was kept; 238 more were made", "this is the first step"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestStepDrawsTheStates(t *testing.T) {
	for _, c := range []struct{ args, has, lacks string }{
		{"", "breaker", ""},
		{"clock-step", "monotonic", ""},
		{"clock-step --breaker wall", "wall", "monotonic"},
	} {
		path := filepath.Join(t.TempDir(), "p.svg")
		if _, _, err := execute(t, Command(), append(strings.Fields("step "+c.args), "--plot", path)...); err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		plot, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(plot, []byte(">half-open<")) || !bytes.Contains(plot, []byte(">"+c.has+"<")) ||
			c.lacks != "" && bytes.Contains(plot, []byte(">"+c.lacks+"<")) {
			t.Errorf("%s: %v, %.2000s", c.args, err, plot)
		}
	}
}

func TestStepsInThePage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.html")
	if _, _, err := execute(t, Command(), "step", quickFile(t, "1s"), "--html", path); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"step-back", "step-next", "step-run", "step-change", "step-strip"} {
		if !bytes.Contains(page, []byte(`id="`+id+`"`)) {
			t.Errorf("there is no %s", id)
		}
	}
	if bytes.Contains(page, []byte("ZgotmplZ")) || regexp.MustCompile(`(src|href)="[^#]`).Match(page) {
		t.Error("the page asks for something outside, or has something that could not be written")
	}
	found := regexp.MustCompile(`(?m)^const steps = (\[.*\]);$`).FindSubmatch(page)
	if found == nil {
		t.Fatal("there are no steps")
	}
	var steps []stepView
	if err := json.Unmarshal(found[1], &steps); err != nil {
		t.Fatal(err)
	}
	if len(steps) < 100 || steps[0].What != "call 1 asks" || steps[0].Before.State != "closed" {
		t.Errorf("%d steps, the first is %+v", len(steps), steps[0])
	}
}

// What a scenario's author writes cannot become a script.
func TestTextOfAScenarioIsNoScript(t *testing.T) {
	path := filepath.Join(t.TempDir(), "evil.yaml")
	text := strings.NewReplacer("WITHIN", "1s", "name: b,", `name: "</script><script>alert(1)</script>",`, "breaker: b", `breaker: "</script><script>alert(1)</script>"`,
		"title: quick", "title: <script>alert(2)</script>").Replace(quick)
	text = strings.ReplaceAll(text, "</script>", "<!--") // a / is for one of several breakers
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"run", "step"} {
		page := filepath.Join(t.TempDir(), "r.html")
		if _, _, err := execute(t, Command(), command, path, "--html", page); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(page)
		if err != nil || bytes.Contains(got, []byte("<script>alert")) || bytes.Contains(got, []byte("<!--")) {
			t.Errorf("%s: %v: the text is in the page as it stands", command, err)
		}
	}
}

func TestEveryShippedScenarioCanBeStepped(t *testing.T) {
	for _, name := range scenario.Names() {
		if _, _, err := execute(t, Command(), "step", name, "--print"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

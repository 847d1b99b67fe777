package browser_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// building keeps tests that run beside one another from each building the program:
// go run remembers what it has built.
var building sync.Mutex

// lab runs the program's laboratory, and returns what it prints.
func lab(tb testing.TB, stdin string, args ...string) string {
	tb.Helper()
	building.Lock()
	defer building.Unlock()
	c := exec.CommandContext(tb.Context(), "go", append([]string{"run", "-buildvcs=false", ".", "lab"}, args...)...)
	c.Dir = filepath.Join("..", "..", "cmd", "fusebox")
	c.Env = append(os.Environ(), "GOWORK=off")
	c.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		tb.Fatalf("fusebox lab %q: %v\n%s", args, err, stderr.Bytes())
	}
	return string(out)
}

// stepPage opens the report of `lab step`, with a scenario or without, in a tab
// that may ask for nothing but that file.
func stepPage(t *testing.T, args ...string) *tab {
	t.Helper()
	startBrowser(t) // or skip, before anything is built
	path := filepath.Join(t.TempDir(), "step.html")
	lab(t, "", append([]string{"step", "--html", path}, args...)...)
	p := open(t, "file://"+path, "")
	p.reads("#step-where", "step 1 of ")
	return p
}

// shown is the step that the page shows, as the terminal writes it.
func shown(p *tab) string {
	p.Helper()
	return fmt.Sprintf("%s call %s before %s rule %s after %s",
		p.text("#step-where"), p.text("#step-what"), p.text("#step-before"), p.text("#step-rule"), p.text("#step-after"))
}

// terminal returns the steps that the terminal shows for what is typed.
func terminal(t *testing.T, typed string, args ...string) (steps []string) {
	t.Helper()
	out := lab(t, typed, append([]string{"step"}, args...)...)
	for _, step := range regexp.MustCompile(`(?m)^step \d+ of \d+, .*\n(  .*\n){4}`).FindAllString(out, -1) {
		steps = append(steps, plain(strings.TrimSpace(step)))
	}
	return steps
}

func (p *tab) at(step, of int) {
	p.Helper()
	p.reads("#step-where", fmt.Sprintf("step %d of %d, ", step, of))
}

func TestStepButtons(t *testing.T) {
	t.Parallel()
	p := stepPage(t)
	const last = 240
	disabled := func(want ...string) {
		t.Helper()
		for _, name := range []string{"Back", "Next", "Run", "To the next change"} {
			got := p.the("button", name).properties["disabled"] == "true"
			if is := containsAny(name, want); got != is {
				t.Errorf("%s: the button %s is disabled: %v", p.text("#step-where"), name, got)
			}
		}
	}
	disabled("Back")
	p.click("button", "Next")
	p.at(2, last)
	disabled()
	p.click("button", "Next")
	p.click("button", "Back")
	p.at(2, last)
	p.click("button", "Back")
	p.at(1, last)
	disabled("Back")
	for _, change := range []int{30, 51, 52} { // the terminal's r stops there too
		p.click("button", "To the next change")
		p.at(change, last)
	}
	for range 20 { // to the last one, of which there is none after 178
		if p.text("#step-where") == fmt.Sprintf("step %d of %d, at 7.950 s, breaker breaker", last, last) {
			break
		}
		p.click("button", "To the next change")
	}
	p.at(last, last)
	disabled("Next", "To the next change")
	// The keys work although the button that was pressed cannot be any more.
	p.press(kb.ArrowLeft)
	p.at(last-1, last)
	p.press(kb.Home, kb.ArrowRight)
	p.at(2, last)
	p.click("button", "Back")
	p.at(1, last)
	p.press("n")
	p.at(2, last)
}

// step is the number of the step that is shown.
func (p *tab) step() int {
	p.Helper()
	return eval[int](p, `Number(document.getElementById("step-where").textContent.match(/step (\d+)/)[1])`)
}

func TestStepRunsAndStops(t *testing.T) {
	t.Parallel()
	const last = 200
	p := stepPage(t, "--steps", "200")
	p.reads("#step-view", "Here are the first 200 steps; 40 more were made.")
	stopped := func(what string) (at int) {
		t.Helper()
		p.the("button", "Run")
		at = p.step()
		if got := eval[string](p, `document.getElementById("step-run").getAttribute("aria-pressed")`); got != "false" {
			t.Errorf("%s: the button's aria-pressed is %s", what, got)
		}
		eval[any](p, `new Promise((done) => setTimeout(done, 900))`) // two of its beats
		if later := p.step(); later != at {
			t.Errorf("%s: it was at %d, and is at %d", what, at, later)
		}
		return at
	}
	runs := func(from, to int) {
		t.Helper()
		p.until(fmt.Sprintf("it does not run from %d", from), func() bool { at := p.step(); return at > from && at <= to })
		if got := eval[string](p, `document.getElementById("step-run").getAttribute("aria-pressed")`); got != "true" {
			t.Errorf("the button's aria-pressed is %s while it runs", got)
		}
	}
	p.click("button", "Run")
	runs(2, last-1)
	p.click("button", "Stop")
	stopped("stopped by the button")
	p.click("button", "Run")
	p.the("button", "Stop")
	p.press(kb.Home) // going by hand stops it as well
	if at := stopped("taken back"); at != 1 {
		t.Errorf("Home has gone to step %d", at)
	}
	p.press("r")
	runs(1, last-1)
	p.press("r")
	stopped("stopped by a key")
	// It stops by itself at the last one, and begins again from there.
	p.press(kb.End, "b", "r")
	p.at(last, last)
	stopped("at the last step")
	p.press("r")
	runs(0, last-1)
	p.press("r")
	stopped("begun again")
}

func TestStepKeys(t *testing.T) {
	t.Parallel()
	p := stepPage(t)
	const last = 240
	p.press("n") // nothing has the focus
	p.at(1, last)
	eval[any](p, `document.getElementById("step-view").focus()`)
	for _, c := range []struct {
		key  string
		want int
	}{
		{kb.ArrowRight, 2},
		{"n", 3},
		{kb.ArrowLeft, 2},
		{"b", 1},
		{"b", 1},
		{"c", 30},
		{"c", 51},
		{kb.End, last},
		{"n", last},
		{kb.Home, 1},
	} {
		p.press(c.key)
		p.at(c.want, last)
	}
	p.press(" ")
	p.at(3, last)
	p.press(" ")
	p.the("button", "Run")
	p.press(kb.Home)
	// On a button space presses that, and nothing else.
	eval[any](p, `document.getElementById("step-next").focus()`)
	p.press(" ")
	p.at(2, last)
	if got := p.the("button", "Run"); got.name != "Run" {
		t.Errorf("space on a button has started %q", got.name)
	}
	// What the browser has keys for stays its own.
	eval[any](p, `document.dispatchEvent(new Event("x")); document.getElementById("step-view").dispatchEvent(new KeyboardEvent("keydown", {key: "n", ctrlKey: true, bubbles: true}))`)
	p.at(2, last)
	// The strip goes to where it is clicked.
	at := eval[[]float64](p, `(() => { const e = document.getElementById("step-strip"); e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect(); return [r.left + r.width * 0.5, r.top + r.height / 2]; })()`)
	p.do(chromedp.MouseClickXY(at[0], at[1]))
	p.at(121, last)
}

func TestStepsAreThoseOfTheTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		steps []int
	}{
		{nil, []int{1, 30, 31, 51, 52, 78, 178, 240}},
		{[]string{"hung-probe", "--breaker", "short-lease"}, []int{1, 2, 500, 1000, 2000}},
	} {
		p := stepPage(t, c.args...)
		var typed strings.Builder
		for _, step := range c.steps {
			fmt.Fprintf(&typed, "s %d\n", step)
		}
		want := terminal(t, typed.String(), c.args...)[1:] // the first is shown before anything is typed
		if len(want) != len(c.steps) {
			t.Fatalf("%q: the terminal shows %q", c.args, want)
		}
		eval[any](p, `document.getElementById("step-view").focus()`)
		here := 1
		for i, step := range c.steps {
			if step > here+5 { // about there by the strip, and the rest by hand
				eval[any](p, fmt.Sprintf(`(() => { const e = document.getElementById("step-strip"), r = e.getBoundingClientRect(), all = Number(document.getElementById("step-where").textContent.match(/of (\d+)/)[1]);
					e.dispatchEvent(new MouseEvent("click", {clientX: r.left + (%d - 0.5) / all * r.width, clientY: r.top + 5, bubbles: true})); })()`, step))
			}
			here = p.step()
			for ; here < step; here++ {
				p.press("n")
			}
			for ; here > step; here-- {
				p.press("b")
			}
			if got := shown(p); got != want[i] {
				t.Errorf("%q:\nthe page has     %s\nthe terminal has %s", c.args, got, want[i])
			}
		}
	}
}

// What a scenario's author has written is text, whatever it looks like.
func TestStepShowsMarkupAsText(t *testing.T) {
	t.Parallel()
	const evil = `<img src=x onerror="window.evil = 1"><script>window.evil = 1<!--`
	path := filepath.Join(t.TempDir(), "evil.yaml")
	text := `title: '` + evil + `'
for: 3s
dependencies: [{name: d, changes: [{at: 1s, to: {failures: 100%}}]}]
breakers: [{name: '` + evil + `', settings: {consecutive: 5}}]
traffic: [{name: t, to: [d], rate: 50, breaker: '` + evil + `'}]
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := stepPage(t, path)
	eval[any](p, `document.getElementById("step-view").focus()`)
	p.press("c")
	p.reads("#step-where", "breaker "+evil)
	p.reads("#step-rule", "trips: 5 failures in a row >= 5")
	p.reads("section h3:last-of-type", "One step at a time: "+evil)
	p.reads("table", evil)
	if n := eval[int](p, `document.images.length + (window.evil ?? 0)`); n != 0 {
		t.Errorf("%d of it has become more than text", n)
	}
}

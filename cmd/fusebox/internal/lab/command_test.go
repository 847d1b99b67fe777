package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
)

// execute runs the command with arguments.
func execute(tb testing.TB, c *cobra.Command, args ...string) (out, progress string, err error) {
	tb.Helper()
	var stdout, stderr bytes.Buffer
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	err = c.ExecuteContext(tb.Context())
	return stdout.String(), stderr.String(), err
}

func TestListNamesTheExperiments(t *testing.T) {
	out, _, err := execute(t, Command(), "list")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, e := range Experiments() {
		if !strings.HasPrefix(lines[i], e.Name+" ") || !strings.HasSuffix(lines[i], e.Title) {
			t.Errorf("line %d is %q", i, lines[i])
		}
	}
	if out, _, err := execute(t, Command()); err != nil || !strings.Contains(out, "timeline") {
		t.Errorf("lab alone: %v, %q", err, out)
	}
}

func TestTheTablesAreWrittenIntoADocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.md")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const places = "a\n<!-- lab halfopen -->\n<!-- end -->\nb\n<!-- lab halfopen/probes -->\n<!-- end -->\n"
	write(places)
	if _, _, err := execute(t, Command(), "halfopen", "--markdown", path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), "a\n<!-- lab halfopen -->\n`fusebox lab halfopen`: ") || !strings.Contains(string(text), "| fusebox | 1 | 3 | 3 | 2 |") {
		t.Errorf("%v\n%s", err, text)
	}
	write("no place")
	_, _, err = execute(t, Command(), "halfopen", "--markdown", path)
	text, _ = os.ReadFile(path)
	if err == nil || !strings.Contains(err.Error(), "d.md: lab: the document has no place for halfopen") || string(text) != "no place" {
		t.Errorf("no place: %v, and the file has %q", err, text)
	}
	_, progress, err := execute(t, Command(), "all", "--markdown", filepath.Join(t.TempDir(), "none.md"))
	var usage *UsageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), "none.md") || progress != "" {
		t.Errorf("no document: %v, after %q", err, progress)
	}
}

func TestAnExperimentWritesWhatIsAskedFor(t *testing.T) {
	dir := t.TempDir()
	page, plot := filepath.Join(dir, "r.html"), filepath.Join(dir, "p.svg")
	out, progress, err := execute(t, Command(), "timeline", "--json", "--seed", "9", "--probes", "2", "--html", page, "--plot", plot)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Name       string
		Seed       int
		Parameters []report.Named
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "timeline" || got.Seed != 9 || !strings.Contains(out, `"probes"`) {
		t.Errorf("got %+v", got)
	}
	for _, p := range got.Parameters {
		if p.Name == "probes" && p.Value != "2" || p.Name == "seed" || p.Name == "json" || p.Name == "plot" {
			t.Errorf("parameter %v", p)
		}
	}
	if progress != "" {
		t.Errorf("progress of what takes no time: %q", progress)
	}
	for path, want := range map[string]string{page: "<!doctype html>", plot: "<svg"} {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %.80q", path, err, text)
		}
	}
	text, _, err := execute(t, Command(), "timeline")
	if err != nil || !strings.HasPrefix(text, "timeline: ") || !strings.Contains(text, "seed 1\n") {
		t.Errorf("as text: %v, %.80q", err, text)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{
		{"timeline", "--plot", "x.pdf"},
		{"timeline", "--calls", "0"},
		{"run", "--plot", filepath.Join(t.TempDir(), "x.svg")},
	} {
		_, _, err := execute(t, Command(), args...)
		var code interface{ ExitCode() int }
		if !errors.As(err, &code) || code.ExitCode() != 2 {
			t.Errorf("%q: %v", args, err)
		}
	}
	// Where a file cannot be, nothing is begun.
	for _, flag := range []string{"--html", "--plot"} {
		path := filepath.Join(t.TempDir(), "none", "x.svg")
		out, _, err := execute(t, Command(), "timeline", flag, path)
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), "lab: "+flag+" "+path+": ") || out != "" {
			t.Errorf("%s: %v, after %q", flag, err, out)
		}
	}
	for _, args := range [][]string{{"timeline", "more"}, {"timeline", "--test.v"}, {"all", "--plot", "x.svg"}, {"nothing"}} {
		if _, _, err := execute(t, Command(), args...); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestWhatHasAFlagForPlotsDraws(t *testing.T) {
	forEach(t, func(t *testing.T, r *report.Report) {
		e := Experiments()[slices.IndexFunc(Experiments(), func(e Experiment) bool { return e.Name == r.Name })]
		// A scenario is drawn, all that ship are not.
		if flag := e.command().Flags().Lookup("plot") != nil; flag != (len(r.Plots) > 0) && r.Name != "run" {
			t.Errorf("%d plots, and a flag for them: %v", len(r.Plots), flag)
		}
	})
}

// fake is an experiment that finds what it is told to.
func fake(ok bool, setup func(*cobra.Command)) Experiment {
	return Experiment{
		Name: "fake", Title: "nothing", Setup: setup,
		Run: func(_ context.Context, p *Params) (*report.Report, error) {
			r := p.Report()
			want := 1.0
			if !ok {
				want = 2
			}
			r.Near("one", 1, want, 0, "things")
			return r, nil
		},
	}
}

func TestAFailedCheckIsAnErrorAfterTheReport(t *testing.T) {
	out, _, err := execute(t, fake(false, nil).command())
	var failed *FailedError
	if !errors.As(err, &failed) || failed.ExitCode() != 1 || !strings.Contains(err.Error(), "lab fake: 1 of 1 checks failed, the first one: one: got 1, want 2") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(out, "FAILED one") {
		t.Errorf("the report is %q", out)
	}
	if _, _, err := execute(t, fake(true, nil).command()); err != nil {
		t.Error(err)
	}
	plot := filepath.Join(t.TempDir(), "p.png")
	if _, _, err := execute(t, fake(true, nil).command(), "--plot", plot); err == nil || !strings.Contains(err.Error(), "draws nothing") {
		t.Errorf("a plot of nothing: %v", err)
	}
}

func TestSetupHasTheLastWord(t *testing.T) {
	c := fake(true, func(c *cobra.Command) { c.Args = cobra.ExactArgs(1) }).command()
	if _, _, err := execute(t, c); err == nil {
		t.Error("an argument is missing and nobody says so")
	}
	if _, _, err := execute(t, c, "x"); err != nil {
		t.Error(err)
	}
}

func TestProgressIsForThoseWhoWait(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b, "x")
	p.at(1, 10)
	if b.Len() > 0 {
		t.Errorf("at once: %q", b.String())
	}
	p.next = p.next.Add(-progressAfter)
	p.at(2, 10)
	p.at(3, 10)
	if b.String() != "x: 2 of 10\n" {
		t.Errorf("after a while: %q", b.String())
	}
	newProgress(nil, "x").at(1, 2)
}

package lab

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
)

const (
	labDocument      = "../../../../docs/lab.md"
	choosingDocument = "../../../../docs/choosing.md"
)

func document(tb testing.TB, path string) string {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// byDefault runs all experiments as they are by default, once for all tests,
// two at a time.
var byDefault = sync.OnceValues(func() ([]*report.Report, error) {
	experiments := Experiments()
	reports, errs := make([]*report.Report, len(experiments)), make([]error, len(experiments))
	var wg sync.WaitGroup
	places := make(chan struct{}, 2)
	for i, e := range experiments {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			reports[i], errs[i] = e.Run(context.Background(), newParams(e, DefaultSeed, nil))
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return reports, nil
})

func TestTheTablesOfTheDocumentAreThoseOfAFreshRun(t *testing.T) {
	reports, err := byDefault()
	if err != nil {
		t.Fatal(err)
	}
	old := document(t, labDocument)
	fresh, err := report.UpdateMarkdown([]byte(old), reports...)
	if err != nil {
		t.Fatal(err)
	}
	a, b := strings.Split(old, "\n"), strings.Split(string(fresh), "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("docs/lab.md:%d is stale:\n%s\na fresh run says\n%s\nWrite it anew with: go run ./cmd/fusebox lab all --markdown docs/lab.md", i+1, a[i], b[i])
		}
	}
	if len(a) != len(b) {
		t.Errorf("docs/lab.md has %d lines, a fresh one %d", len(a), len(b))
	}
}

// part is what the laboratory wrote in a place of docs/lab.md.
var part = regexp.MustCompile(`(?s)<!-- lab ([a-z0-9_-]+)(/[a-z0-9_-]+)? -->\n(.*?)<!-- end -->`)

// labFigures returns the numbers of docs/lab.md: those of each table, by its
// anchor, with the parameters it was made with; and those of each experiment.
func labFigures(tb testing.TB) (figures map[string]map[string]bool) {
	tb.Helper()
	figures = map[string]map[string]bool{}
	add := func(anchor string, text string) {
		if figures[anchor] == nil {
			figures[anchor] = map[string]bool{}
		}
		for _, n := range number.FindAllString(text, -1) {
			figures[anchor][n] = true
		}
	}
	head := "" // of the experiment
	for _, p := range part.FindAllStringSubmatch(document(tb, labDocument), -1) {
		experiment, table, text := p[1], strings.TrimPrefix(p[2], "/"), p[3]
		add(experiment, text)
		if table == "" {
			head = text
			continue
		}
		add(experiment+"-"+table, text)
		add(experiment+"-"+table, head)
	}
	return figures
}

// Each section of docs/lab.md says what to do about each of its tables, in
// figures that stand there.
func TestWhatTheDocumentSaysStandsInItsTables(t *testing.T) {
	text, figures := document(t, labDocument), labFigures(t)
	for _, e := range Experiments() {
		_, section, found := strings.Cut(text, "\n## "+e.Name+"\n")
		if !found {
			t.Errorf("docs/lab.md has no section %s", e.Name)
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		tables := strings.Count(section, "<!-- lab "+e.Name+"/")
		if n := strings.Count(section, "\n**What to do.** "); n != tables || n == 0 {
			t.Errorf("%s: %d tables, and %d times what to do", e.Name, tables, n)
		}
		for _, n := range number.FindAllString(plain(part.ReplaceAllString(section, "")), -1) {
			if !figures[e.Name][n] {
				t.Errorf("%s: no table says %s", e.Name, n)
			}
		}
	}
}

// link is a link to a table of docs/lab.md; anyLink one of any kind.
var (
	link    = regexp.MustCompile(`\]\(lab\.md#([a-z0-9_-]+)\)`)
	anyLink = regexp.MustCompile(`\]\([^)]*\)`)
)

// plain returns a text as it is read, on one line and without where its links go.
func plain(text string) string {
	return strings.Join(strings.Fields(anyLink.ReplaceAllString(text, "]")), " ")
}

// quotable returns the numbers of each table, by its anchor, with the parameters
// it was made with. What was sampled where the exact number stands beside it is
// left out.
func quotable(tb testing.TB) (figures map[string]map[string]bool) {
	tb.Helper()
	reports, err := byDefault()
	if err != nil {
		tb.Fatal(err)
	}
	figures = map[string]map[string]bool{}
	for _, r := range reports {
		for _, t := range r.Tables {
			known := givenNumbers(r, t)
			for _, c := range t.Columns {
				if slices.ContainsFunc(t.Columns, func(exact report.Column) bool { return exact.Key == c.Key+"_exact" }) {
					continue
				}
				for _, row := range t.Select() {
					for _, n := range number.FindAllString(row.Text(c.Key), -1) {
						known[n] = true
					}
				}
			}
			figures[r.Name+"-"+t.Name] = known
		}
	}
	return figures
}

// A figure of docs/choosing.md that is said to be measured stands in a table
// that the same sentences link to: those up to the link. It is the exact one where
// there is one.
func TestFiguresOfTheAdviceStandInTheTablesItNames(t *testing.T) {
	figures := quotable(t)
	quoted := 0
	for i, paragraph := range strings.Split(document(t, choosingDocument), "\n\n") {
		if !strings.HasPrefix(paragraph, "**Measured:**") {
			if link.MatchString(paragraph) {
				t.Errorf("paragraph %d quotes a table and is not measured: %s", i, paragraph)
			}
			continue
		}
		rest := paragraph
		for _, at := range link.FindAllStringSubmatchIndex(paragraph, -1) {
			anchor := paragraph[at[2]:at[3]]
			until := len(paragraph) - len(rest)
			if figures[anchor] == nil {
				t.Errorf("docs/lab.md has no table %s", anchor)
			}
			for _, n := range number.FindAllString(plain(paragraph[until:at[0]]), -1) {
				quoted++
				if !figures[anchor][n] {
					t.Errorf("table %s does not say %s:\n%s", anchor, n, paragraph)
				}
			}
			rest = paragraph[at[1]:]
		}
		for _, n := range number.FindAllString(plain(rest), -1) {
			if link.MatchString(paragraph) && !strings.Contains(paragraph[:len(paragraph)-len(rest)], n) {
				t.Errorf("%s stands behind the last table that is named:\n%s", n, paragraph)
			}
		}
	}
	if quoted < 50 {
		t.Errorf("only %d figures are quoted", quoted)
	}
}

func TestEveryFieldOfConfigHasItsSectionAndItsDefault(t *testing.T) {
	text := document(t, choosingDocument)
	sections := map[string]string{}
	for _, s := range strings.Split(text, "\n### ")[1:] {
		heading, body, _ := strings.Cut(s, "\n")
		for name := range strings.SplitSeq(heading, ", ") {
			sections[name] = heading
			for _, want := range []string{"\n**Advised:** ", "\n**Here:** ", "\n**Measured:** "} {
				if strings.Count(body, want) != 1 {
					t.Errorf("section %s: not once %q", heading, strings.TrimSpace(want))
				}
			}
		}
	}
	var names []string
	byDefault := reflect.ValueOf(fusebox.New("", fusebox.Config{}).Config())
	for i := range byDefault.NumField() {
		field := byDefault.Type().Field(i)
		names = append(names, field.Name)
		heading, found := sections[field.Name]
		if !found {
			t.Errorf("docs/choosing.md has no section for Config.%s", field.Name)
		}
		anchor := strings.ToLower(strings.NewReplacer(",", "", " ", "-").Replace(heading))
		row := fmt.Sprintf("\n| [%s](#%s) | ", field.Name, anchor)
		_, cell, found := strings.Cut(text, row)
		if !found {
			t.Errorf("the table of fields has no row %q", row)
			continue
		}
		cell, _, _ = strings.Cut(cell, " |")
		if want := shownDefault(byDefault.Field(i)); want != "" && cell != want {
			t.Errorf("Config.%s is %s by default, not %s", field.Name, want, cell)
		}
	}
	if len(names) < 15 {
		t.Errorf("fields: %q", names)
	}
}

// shownDefault is a default as the table of fields shows it; "" if it is no
// number and no mode.
func shownDefault(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Func, reflect.Slice:
		return ""
	}
	if slices.Contains([]string{"-1", "-1ns"}, fmt.Sprint(v.Interface())) {
		return "off"
	}
	return fmt.Sprint(v.Interface())
}

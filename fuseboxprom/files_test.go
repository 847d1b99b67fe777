package fuseboxprom_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"

	"github.com/fusebox-go/fusebox"
)

// lively is an endpoint where things have happened.
func lively(tb testing.TB) *endpoint {
	tb.Helper()
	e, l := serve(tb), newLab("a")
	e.Add(l.Breaker)
	e.AddRetry("a", func() (uint64, uint64) { return 3, 1 })
	e.AddBulkhead("a", func() (int, uint64) { return 2, 1 })
	e.AddFallback("a", func() (uint64, uint64, uint64) { return 3, 1, 1 })
	l.Do(context.Background(), succeed)
	l.Do(context.Background(), fail)
	l.Do(context.Background(), succeed)
	l.Advance(10 * time.Second)
	l.Do(context.Background(), succeed)
	l.Override(fusebox.Shadow, fusebox.Note{})
	return e
}

// expression is a query of a file, and where it stands.
type expression struct{ where, text string }

// rules returns those of the alert rules.
func rules(t *testing.T) (list []expression) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert       string
				Expr        string
				For         string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	text, err := os.ReadFile("alerts/fusebox.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("rule %q lacks its name, severity, summary or description", r.Alert)
			}
			if r.For != "" {
				if _, err := time.ParseDuration(r.For); err != nil {
					t.Errorf("rule %s: %v", r.Alert, err)
				}
			}
			list = append(list, expression{r.Alert, r.Expr})
		}
	}
	return list
}

// panels returns the queries of the dashboard.
func panels(t *testing.T) (list []expression) {
	t.Helper()
	type target struct{ RefID, Expr, LegendFormat string }
	var board struct {
		Title  string
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []target
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	text, err := os.ReadFile("dashboards/fusebox.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q: the number is taken, or there is no title, or no query", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			list = append(list, expression{p.Title, target.Expr})
		}
	}
	for _, v := range board.Templating.List {
		if v.Type == "query" {
			list = append(list, expression{"variable " + v.Name, v.Definition})
		}
	}
	return list
}

var (
	selector = regexp.MustCompile(`(fusebox_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)(=~|!=|=)"([^"]*)"`)
	grouping = regexp.MustCompile(`(?:by|without|ignoring|on) \(([^)]*)\)`)
)

// TestTheFilesNameWhatALiveEndpointShows holds every metric, label and value
// that the dashboard and the rules name against a scrape.
func TestTheFilesNameWhatALiveEndpointShows(t *testing.T) {
	live := map[string]map[string][]string{} // metric, label, values
	labels := map[string]bool{}
	for key := range lively(t).scrape(t) {
		m := selector.FindStringSubmatch(key)
		if live[m[1]] == nil {
			live[m[1]] = map[string][]string{}
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			live[m[1]][l[1]] = append(live[m[1]][l[1]], l[3])
			labels[l[1]] = true
		}
	}
	named := map[string]bool{}
	check := func(e expression) {
		for _, m := range selector.FindAllStringSubmatch(e.text, -1) {
			metric := live[m[1]]
			if named[m[1]] = true; metric == nil {
				t.Errorf("%s: there is no %s", e.where, m[1])
			}
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if values := metric[l[1]]; values == nil || l[2] != "=~" && !slices.Contains(values, l[3]) {
					t.Errorf("%s: %s has no %s %q, but %q", e.where, m[1], l[1], l[3], values)
				}
			}
		}
		for _, g := range grouping.FindAllStringSubmatch(e.text, -1) {
			for _, l := range strings.Split(g[1], ",") {
				if !labels[strings.TrimSpace(l)] {
					t.Errorf("%s: no metric has the label %q", e.where, l)
				}
			}
		}
		if len(selector.FindAllString(e.text, -1)) == 0 {
			t.Errorf("%s: %q names no metric", e.where, e.text)
		}
	}
	alerts, board := rules(t), panels(t)
	if len(alerts) < 4 || len(board) < 15 {
		t.Errorf("%d rules and %d queries seen", len(alerts), len(board))
	}
	for _, e := range alerts {
		check(e)
	}
	clear(named)
	for _, e := range board {
		check(e)
	}
	for name := range live {
		if !named[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

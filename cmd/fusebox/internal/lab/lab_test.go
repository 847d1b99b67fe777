package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
)

// smaller are flags with which an experiment shows the same as by default, in a
// fraction of the time.
var smaller = map[string][]string{
	"retry":    {"trials=3", "for=10s", "errors=0.05,0.2,0.5"},
	"recovery": {"trials=30"},
	"replicas": {"processes=1,20"},
	"backoff":  {"trials=10", "outages=3s,600s"},
	"probes":   {"for=3m"},
}

// least are flags with which an experiment runs, whatever it shows.
var least = map[string][]string{
	"retry":    {"trials=2", "outage=3s", "for=1s", "errors=0.2"},
	"slow":     {"lead=1s", "slow-for=2s"},
	"recovery": {"trials=10", "cap=30s"},
	"replicas": {"processes=1,3"},
	"backoff":  {"trials=10", "outages=3s", "flaky-after=3s"},
	"probes":   {"for=1m"},
}

// find returns an experiment and its parameters.
func find(tb testing.TB, name string, flags ...string) (Experiment, *Params) {
	tb.Helper()
	i := slices.IndexFunc(Experiments(), func(e Experiment) bool { return e.Name == name })
	if i < 0 {
		tb.Fatalf("there is no experiment %s", name)
	}
	e := Experiments()[i]
	p := newParams(e, DefaultSeed, nil)
	for _, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		if err := p.flags.Set(name, value); err != nil {
			tb.Fatal(err)
		}
	}
	return e, p
}

// run runs an experiment.
func run(tb testing.TB, name string, flags ...string) *report.Report {
	tb.Helper()
	e, p := find(tb, name, flags...)
	r, err := e.Run(context.Background(), p)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

var once sync.Map // of func() *report.Report, by name

// runOnce runs an experiment with the smaller flags, once for all tests.
func runOnce(tb testing.TB, name string) *report.Report {
	tb.Helper()
	if smaller[name] == nil {
		return runByDefault(tb, name)
	}
	f, _ := once.LoadOrStore(name, sync.OnceValue(func() *report.Report { return run(tb, name, smaller[name]...) }))
	return f.(func() *report.Report)()
}

// runByDefault returns the report of an experiment as it is by default.
func runByDefault(tb testing.TB, name string) *report.Report {
	tb.Helper()
	reports, err := byDefault()
	if err != nil {
		tb.Fatal(err)
	}
	return reports[slices.IndexFunc(reports, func(r *report.Report) bool { return r.Name == name })]
}

func forEach(t *testing.T, f func(t *testing.T, r *report.Report)) {
	for _, e := range Experiments() {
		t.Run(e.Name, func(t *testing.T) { f(t, runOnce(t, e.Name)) })
	}
}

func TestEveryCheckPasses(t *testing.T) {
	forEach(t, func(t *testing.T, r *report.Report) {
		for _, c := range r.Failed() {
			t.Error(c)
		}
		if len(r.Checks) == 0 {
			t.Error("nothing is checked")
		}
	})
}

func TestEveryTableTeachesWhatItShows(t *testing.T) {
	forEach(t, func(t *testing.T, r *report.Report) {
		for _, table := range r.Tables {
			if len(table.Claims) == 0 || len(table.Rows) == 0 {
				t.Errorf("table %s has %d rows and teaches %d things", table.Name, len(table.Rows), len(table.Claims))
			}
			for _, c := range table.Claims {
				if !c.Holds(table) {
					t.Errorf("table %s does not show: %s", table.Name, c.Text)
				}
				if !slices.ContainsFunc(spoilt(table), func(s *report.Table) bool { return !c.Holds(s) }) {
					t.Errorf("whatever table %s says, this holds: %s", table.Name, c.Text)
				}
				for _, n := range foreignNumbers(r, table, c.Text) {
					t.Errorf("table %s has no %s: %s", table.Name, n, c.Text)
				}
			}
		}
	})
}

// spoilt returns tables with the same texts and other numbers: the columns
// upside down, mirrored, levelled to their first value, and to zero.
func spoilt(t *report.Table) (tables []*report.Table) {
	for _, change := range []func(column []any, row int) any{
		func(column []any, row int) any { return column[len(column)-1-row] },
		func(column []any, row int) any { return mirror(column, row) },
		func(column []any, _ int) any { return column[0] },
		func(column []any, row int) any { return nothing(column[row]) },
	} {
		s := &report.Table{Name: t.Name, Columns: t.Columns}
		for i, cells := range t.Rows {
			changed := slices.Clone(cells)
			for j, c := range t.Columns {
				if c.Kind != report.Text && !isKey(c.Key) {
					changed[j] = change(columnOf(t, j), i)
				}
			}
			s.Rows = append(s.Rows, changed)
		}
		tables = append(tables, s)
	}
	return tables
}

// isKey reports whether a column says what a row is about.
func isKey(key string) bool {
	return slices.Contains([]string{"q", "n", "m", "probes", "processes", "hang", "jitter", "outage"}, key)
}

func columnOf(t *report.Table, j int) (cells []any) {
	for _, row := range t.Rows {
		cells = append(cells, row[j])
	}
	return cells
}

// mirror is the sum of the greatest and the least of the column, less the cell.
func mirror(column []any, row int) any {
	switch v := column[row].(type) {
	case int:
		low, high := bounds[int](column)
		return low + high - v
	case float64:
		low, high := bounds[float64](column)
		return low + high - v
	case time.Duration:
		low, high := bounds[time.Duration](column)
		return low + high - v
	}
	return nil
}

func nothing(cell any) any {
	switch cell.(type) {
	case int:
		return 0
	case float64:
		return 0.0
	case time.Duration:
		return time.Duration(0)
	}
	return cell
}

func bounds[T int | float64 | time.Duration](column []any) (low, high T) {
	first := true
	for _, c := range column {
		if v, ok := c.(T); ok {
			if first {
				low, high, first = v, v, false
			}
			low, high = min(low, v), max(high, v)
		}
	}
	return low, high
}

// number finds numbers as they are printed, with gaps between thousands.
var number = regexp.MustCompile(`[0-9]+( [0-9]{3})*(\.[0-9]+)?`)

// foreignNumbers returns the numbers of a text that stand neither in the table
// nor in the parameters.
func foreignNumbers(r *report.Report, t *report.Table, text string) (foreign []string) {
	known := map[string]bool{}
	learn := func(s string) {
		for _, n := range number.FindAllString(s, -1) {
			known[n] = true
		}
	}
	learn(t.Title)
	for _, p := range r.Parameters {
		learn(p.Value)
	}
	for _, c := range t.Columns {
		learn(c.Title)
	}
	for _, row := range t.Select() {
		for _, c := range t.Columns {
			learn(row.Text(c.Key))
		}
	}
	known[fmt.Sprint(len(t.Rows))] = true
	for _, n := range number.FindAllString(text, -1) {
		if !known[n] {
			foreign = append(foreign, n)
		}
	}
	return foreign
}

// The tests of the tables would be worth nothing if these did not see.
func TestTheTestOfLessonsSees(t *testing.T) {
	table := &report.Table{Columns: []report.Column{{Key: "x", Title: "x", Kind: report.Count}}}
	table.Add(1)
	table.Add(20000)
	r := &report.Report{Parameters: []report.Named{{Name: "open", Value: "1.5s"}}}
	if got := foreignNumbers(r, table, "20 000 of 1, after 1.5s, and 3 or 20 of 2 rows"); !slices.Equal(got, []string{"3", "20"}) {
		t.Errorf("foreign numbers: %v", got)
	}
	for i, want := range [][]any{{20000, 1}, {20000, 1}, {1, 1}, {0, 0}} {
		if got := columnOf(spoilt(table)[i], 0); !slices.Equal(got, want) {
			t.Errorf("spoilt: %v, want %v", got, want)
		}
	}
}

func TestTheSameSeedIsTheSameOutput(t *testing.T) {
	forEach(t, func(t *testing.T, r *report.Report) {
		again := run(t, r.Name, least[r.Name]...)
		if least[r.Name] == nil {
			r = runByDefault(t, r.Name)
		} else {
			r = run(t, r.Name, least[r.Name]...)
		}
		for name, write := range map[string]func(*bytes.Buffer, *report.Report) error{
			"text": func(b *bytes.Buffer, r *report.Report) error { return report.WriteText(b, r) },
			"JSON": func(b *bytes.Buffer, r *report.Report) error { return report.WriteJSON(b, r) },
			"HTML": func(b *bytes.Buffer, r *report.Report) error { return report.WriteHTML(b, r) },
		} {
			var a, b bytes.Buffer
			if err := errors.Join(write(&a, r), write(&b, again)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Errorf("%s differs", name)
			}
		}
	})
}

func TestAnotherSeedIsAnotherRun(t *testing.T) {
	e, p := find(t, "recovery", "trials=20", "cap=1m")
	p.Seed = 2
	r, err := e.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	same := run(t, "recovery", "trials=20", "cap=1m")
	if fmt.Sprint(r.Tables[0].Rows) == fmt.Sprint(same.Tables[0].Rows) {
		t.Error("seeds 1 and 2 give the same")
	}
}

func TestParametersAndVersionsStandAbove(t *testing.T) {
	forEach(t, func(t *testing.T, r *report.Report) {
		if len(r.Parameters) == 0 || r.Seed != DefaultSeed || r.Title == "" {
			t.Errorf("above the tables: %v, seed %d", r.Parameters, r.Seed)
		}
		if got := fmt.Sprint(r.Versions); !strings.Contains(got, "{gobreaker v2.4.0}") || !strings.Contains(got, "{fusebox devel}") {
			t.Errorf("versions %s", got)
		}
	})
}

func TestARunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, e := range Experiments() {
		if _, err := e.Run(ctx, newParams(e, 1, nil)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
	if _, err := All(ctx, 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("all: %v", err)
	}
}

func TestFlagsThatAreNotAsTheyMustBe(t *testing.T) {
	for _, c := range []struct{ experiment, flag, want string }{
		{"timeline", "clock=sun", "lab timeline: --clock is sun, must be virtual or real"},
		{"timeline", "calls=0", "lab timeline: --calls is 0, must be from 1 to 1000000"},
		{"timeline", "every=0s", "lab timeline: --every is 0s, must be above 0"},
		{"timeline", "open=-1s", "--open is -1s"},
		{"timeline", "outage=0s", "--outage is 0s"},
		{"timeline", "probes=0", "--probes is 0"},
		{"timeline", "consecutive=0", "--consecutive is 0"},
		{"halfopen", "probes=1,0", "lab halfopen: --probes is 0, must be from 1 to 1000"},
		{"halfopen", "workers=0", "--workers is 0"},
		{"halfopen", "outage=-1ms", "--outage is -1ms, must be 0 or more"},
		{"recovery", "trials=1", "--trials is 1, must be from 10"},
		{"recovery", "open=1010ms", "lab recovery: --open is 1.01s, must be a multiple of --every, 50ms"},
		{"recovery", "cap=1000h", "--cap is 1000h0m0s"},
		{"windows", "failure-rate=1.5", "lab windows: --failure-rate is 1.5, must be above 0 and at most 1"},
		{"windows", "failure-rate=NaN", "--failure-rate is NaN"},
		{"windows", "bursts=2s,0s", "--bursts is 0s"},
		{"windows", "phases=0", "--phases is 0"},
		{"windows", "consecutive=0", "--consecutive is 0"},
		{"windows", "window=1ms", "--window is 1ms"},
		{"replicas", "open-max=1ms", "lab replicas: --open-max is 1ms, must be at least --open, 1s"},
		{"replicas", "processes=0", "--processes is 0"},
		{"replicas", "rate=NaN", "--rate is NaN"},
		{"replicas", "jitter=1", "--jitter is 1"},
		{"backoff", "flaky=0", "lab backoff: --flaky is 0, must be above 0 and at most 1"},
		{"backoff", "outages=1ms", "--outages is 1ms"},
		{"backoff", "every=70ms", "--every is 70ms"},
		{"backoff", "jitter=0", "--jitter is 0"},
		{"probes", "hangs=1ms", "lab probes: --hangs is 1ms, must be longer than the rest of the outage, 200ms"},
		{"probes", "stragglers=2", "--stragglers is 2"},
		{"probes", "lease=0s", "--lease is 0s"},
	} {
		e, p := find(t, c.experiment, c.flag)
		_, err := e.Run(t.Context(), p)
		var usage *UsageError
		if !errors.As(err, &usage) || usage.ExitCode() != 2 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s --%s: %v, want %q", c.experiment, c.flag, err, c.want)
		}
	}
}

func TestNamesOfExperimentsAndTablesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Experiments() {
		if seen[e.Name] || e.Name == "all" || e.Name == "list" || e.Title == "" {
			t.Errorf("experiment %q, %q", e.Name, e.Title)
		}
		seen[e.Name] = true
	}
	forEach(t, func(t *testing.T, r *report.Report) {
		names := map[string]bool{}
		for _, table := range r.Tables {
			if names[table.Name] {
				t.Errorf("two tables are named %s", table.Name)
			}
			names[table.Name] = true
			keys := map[string]bool{}
			for _, c := range table.Columns {
				if keys[c.Key] {
					t.Errorf("table %s has two columns %s", table.Name, c.Key)
				}
				keys[c.Key] = true
			}
		}
	})
}

func TestFlagsOfTestsAreNotOurs(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		if strings.Contains(c.UsageString(), "test.") {
			t.Errorf("%s has flags of go test:\n%s", c.Name(), c.UsageString())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(Command())
}

func TestTheVersionIsThatOfTheModuleFile(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "github.com/sony/gobreaker/v2 "+gobreakerVersion+"\n") {
		t.Errorf("go.mod does not want gobreaker %s", gobreakerVersion)
	}
}

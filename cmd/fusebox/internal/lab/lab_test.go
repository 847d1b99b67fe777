package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
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
				for _, n := range idleNumbers(r, table, c) {
					t.Errorf("table %s: this would be said whatever stood in the place of %s: %s", table.Name, n, c.Text)
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

// givenNumbers returns the numbers that a table has from the parameters.
func givenNumbers(r *report.Report, t *report.Table) (known map[string]bool) {
	known = map[string]bool{}
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
	return known
}

// idleNumbers returns the numbers of a claim that are found in the table, and
// could be any others: the claim holds whatever stands in a cell that shows them.
func idleNumbers(r *report.Report, t *report.Table, c report.Claim) (idle []string) {
	given := givenNumbers(r, t)
	for _, n := range number.FindAllString(c.Text, -1) {
		shown, held := false, false
		for i, row := range t.Select() {
			for j, column := range t.Columns {
				if column.Kind == report.Text || isKey(column.Key) || given[n] || row.Text(column.Key) != n {
					continue
				}
				shown = true
				held = held || slices.ContainsFunc(otherCells(t.Rows[i][j]), func(cell any) bool {
					s := &report.Table{Name: t.Name, Columns: t.Columns, Rows: slices.Clone(t.Rows)}
					s.Rows[i] = slices.Clone(t.Rows[i])
					s.Rows[i][j] = cell
					return !c.Holds(s)
				})
			}
		}
		if shown && !held {
			idle = append(idle, n)
		}
	}
	return idle
}

// otherCells returns cells that are far from one.
func otherCells(cell any) []any {
	switch v := cell.(type) {
	case int:
		return []any{0, v / 100, 1000*v + 1000, -v}
	case float64:
		return []any{0.0, v / 100, 1000*v + 1000, -v}
	case time.Duration:
		return []any{time.Duration(0), v / 100, 1000*v + time.Hour, -v}
	}
	return nil
}

// foreignNumbers returns the numbers of a text that stand neither in the table
// nor in the parameters.
func foreignNumbers(r *report.Report, t *report.Table, text string) (foreign []string) {
	known := givenNumbers(r, t)
	for _, row := range t.Select() {
		for _, c := range t.Columns {
			for _, n := range number.FindAllString(row.Text(c.Key), -1) {
				known[n] = true
			}
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
	says := func(holds func(*report.Table) bool) report.Claim {
		return report.Claim{Text: "1 and 20 000", Holds: holds}
	}
	if got := idleNumbers(r, table, says(func(t *report.Table) bool { return t.Row("x", 20000).Found() })); !slices.Equal(got, []string{"1"}) {
		t.Errorf("numbers that do not matter: %v", got)
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
		got := fmt.Sprint(r.Versions)
		if !strings.Contains(got, "{fusebox devel}") || !strings.Contains(got, "{Go go1.") {
			t.Errorf("versions %s", got)
		}
		// Where gobreaker runs, and nowhere else, its version says with what.
		if beside := strings.Contains(got, "{gobreaker v2.4.0}"); beside != runsGobreaker(r) {
			t.Errorf("versions %s, and gobreaker runs: %v", got, runsGobreaker(r))
		}
	})
}

// runsGobreaker reports whether a table has a row or a column of gobreaker.
func runsGobreaker(r *report.Report) bool {
	about := func(text string) bool { return strings.Contains(text, "gobreaker") }
	return slices.ContainsFunc(r.Tables, func(t *report.Table) bool {
		return slices.ContainsFunc(t.Columns, func(c report.Column) bool { return about(c.Title) }) ||
			slices.ContainsFunc(t.Rows, func(row []any) bool {
				return slices.ContainsFunc(row, func(cell any) bool { text, _ := cell.(string); return about(text) })
			})
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
		{"probes", "lease=200ms", "lab probes: --lease is 200ms, must be longer than the rest of the outage, 200ms"},
		{"probes", "every=10s", "lab probes: --every is 10s, must be so short that the rest of the outage, 40s, is less than the default lease, 30s"},
		{"probes", "hangs=1000h", "lab probes: --hangs is 1000h0m0s, must be at most 1 000 000 times --every, 50ms"},
		{"probes", "for=1000h", "lab probes: --for is 1000h0m0s, must be at most 1 000 000 times --every, 50ms"},
		{"halfopen", "for=1000h", "lab halfopen: --for is 1000h0m0s, must be so short that there are at most 1 000 000 calls"},
		{"halfopen", "pause=10ns", "lab halfopen: --for is 6s, must be so short that there are at most 1 000 000 calls"},
		{"retry", "errors=5%,100%", "lab retry: --errors is 1, must be above 0 and below 1"},
		{"retry", "errors=0", "--errors is 0, must"},
		{"retry", "outage=119ms", "lab retry: --outage is 119ms, must be at least what a call can take with all its attempts, 120ms"},
		{"retry", "attempts=20", "--outage is 30s, must be at least"},
	} {
		e, p := find(t, c.experiment, c.flag)
		_, err := e.Run(t.Context(), p)
		var usage *UsageError
		if !errors.As(err, &usage) || usage.ExitCode() != 2 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s --%s: %v, want %q", c.experiment, c.flag, err, c.want)
		}
	}
}

func TestSharesAreShownInPerCent(t *testing.T) {
	var s shares
	for text, want := range map[string]string{"5%": "5%", "0.05,7%, 0.125": "5%,7%,12.5%"} {
		if err := s.Set(text); err != nil || s.String() != want {
			t.Errorf("%q: %q, %v", text, s.String(), err)
		}
	}
	for _, text := range []string{"", "x%", "5%,", "0.1 0.2"} {
		if err := s.Set(text); err == nil || len(s) != 3 && len(s) != 1 {
			t.Errorf("%q: %v, and %v is left", text, err, s)
		}
	}
}

// What is expected of an outage holds wherever it ends, however rare the calls are
// and however long they take.
func TestChecksOfRetriesHoldForOtherParameters(t *testing.T) {
	for _, flags := range [][]string{
		{"outage=120ms"},
		{"outage=1100ms"},
		{"outage=3s"},
		{"outage=3s", "latency=900ms"},
		{"outage=5s", "latency=1ms", "delay=1ms", "rate=5"},
		{"outage=60s", "rate=1", "consecutive=2"},
		{"outage=3s", "open=50ms", "rate=300", "probes=20"},
		{"outage=8s", "attempts=6", "delay=100ms"},
		{"outage=4s", "consecutive=100", "attempts=2"},
		{"outage=4s", "consecutive=1000000"},
	} {
		r := run(t, "retry", append([]string{"trials=3", "for=2s", "errors=20%"}, flags...)...)
		for _, c := range r.Failed() {
			t.Errorf("%q: %v", flags, c)
		}
	}
}

// gobreaker probes a call later where an open period ends at a call, and so makes
// fewer changes: that is no failure.
func TestTheTimelineHoldsForOpenPeriodsThatEndAtACall(t *testing.T) {
	for _, open := range []string{"50ms", "250ms", "850ms", "1s", "1550ms", "1600ms"} {
		for _, c := range run(t, "timeline", "open="+open).Failed() {
			t.Errorf("%s: %v", open, c)
		}
	}
}

func TestChecksOfReplicasHoldForOtherParameters(t *testing.T) {
	for _, flags := range [][]string{
		{"outage=1s"},
		{"outage=5s"},
		{"outage=100ms"},
		{"outage=10s", "open=3s", "open-max=1m"},
		{"consecutive=1000"},
		{"consecutive=1000", "outage=20s"},
		{"jitter=0.9", "outage=12s"},
		{"rate=2"},
		{"latency=3s"},
		{"probes=10", "outage=7s"},
	} {
		for _, c := range run(t, "replicas", append([]string{"processes=1,5,20"}, flags...)...).Failed() {
			t.Errorf("%q: %v", flags, c)
		}
	}
}

func TestTheHeapOfAGuardIsNotThatOfTheOneBefore(t *testing.T) {
	const size = 256 << 20
	done := make(chan struct{})
	close(done)
	_, before := watchProcess(done)
	garbage := make([]byte, size)
	runtime.KeepAlive(garbage)
	if _, after := watchProcess(done); after > before+size/2 {
		t.Errorf("%d bytes after %d, which is what was let go", after, before)
	}
}

func TestSharesOfOtherWindowsAreThoseOfTheory(t *testing.T) {
	for _, c := range run(t, "windows", "window=40s", "bursts=3s,17s,20s").Failed() {
		t.Error(c)
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
			keys, titles := map[string]bool{}, map[string]bool{}
			for _, c := range table.Columns {
				if keys[c.Key] || titles[c.Title] {
					t.Errorf("table %s has two columns %s, %s", table.Name, c.Key, c.Title)
				}
				keys[c.Key], titles[c.Title] = true, true
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

package lab

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/theory"
)

// Values that are known from elsewhere: by hand, by formula, or measured with
// another program.

func cells(t *testing.T, r report.Row, keys ...string) string {
	t.Helper()
	if !r.Found() {
		t.Fatal("there is no such row")
	}
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = r.Text(k)
	}
	return strings.Join(texts, " ")
}

func table(t *testing.T, r *report.Report, name string) *report.Table {
	t.Helper()
	i := slices.IndexFunc(r.Tables, func(t *report.Table) bool { return t.Name == name })
	if i < 0 {
		t.Fatalf("%s has no table %s", r.Name, name)
	}
	return r.Tables[i]
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func within(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	if !(got >= low && got <= high) {
		t.Errorf("%s: %v, want %v to %v", what, got, low, high)
	}
}

var timelineChanges = []string{
	"closed → open 700", "open → half-open 1750", "half-open → open 1750", "open → half-open 2800", "half-open → closed 2900",
	"closed → open 4200", "open → half-open 5250", "half-open → open 5250", "open → half-open 6300", "half-open → closed 6400",
}

func TestKnownTimeline(t *testing.T) {
	r := runOnce(t, "timeline")
	for _, breaker := range []string{"fusebox", "gobreaker"} {
		var got []string
		for _, row := range table(t, r, "transitions").Select() {
			got = append(got, cells(t, row, "change", breaker))
		}
		if !slices.Equal(got, timelineChanges) {
			t.Errorf("%s: %q", breaker, got)
		}
		row := table(t, r, "calls").Row("breaker", breaker)
		equal(t, breaker, cells(t, row, "calls", "reached", "failed", "rejected_open", "rejected_probing"), "160 80 12 80 0")
	}
	var boundary []string
	for _, row := range table(t, r, "boundary").Select() {
		boundary = append(boundary, cells(t, row, "open", "fusebox", "gobreaker", "later"))
	}
	equal(t, "boundary", strings.Join(boundary, ", "), "1000.0 1700 1750 50, 1025.0 1750 1750 0, 1050.0 1750 1800 50")
}

// On the machine's clock only the order is sure. A machine that stops for long
// enough to change even that gets another chance.
func TestTimelineInRealTime(t *testing.T) {
	t.Parallel()
	var got [2][]string
	for range 3 {
		r := run(t, "timeline", "clock=real")
		for i, breaker := range []string{"fusebox", "gobreaker"} {
			got[i] = nil
			for _, row := range table(t, r, "transitions").Select() {
				if row.Cell(breaker) != nil {
					got[i] = append(got[i], row.Text("change"))
				}
			}
		}
		if right(got[0]) && right(got[1]) && len(r.Failed()) == 0 {
			return
		}
		t.Logf("changes %q, checks that failed: %v", got, r.Failed())
	}
	t.Errorf("three times not the changes of the virtual clock")
}

func right(changes []string) bool {
	return slices.EqualFunc(changes, timelineChanges, func(got, want string) bool { return strings.HasPrefix(want, got+" ") })
}

func TestKnownHalfopen(t *testing.T) {
	for _, row := range table(t, runOnce(t, "halfopen"), "probes").Select() {
		name := cells(t, row, "breaker", "probes")
		equal(t, name, cells(t, row, "opens", "half_opens", "connection_errors"), "3 3 0")
		low, high := 2*row.Number("probes"), 2*row.Number("probes")
		if row.Number("probes") == 10 {
			low, high = 14, 20
		}
		within(t, name, row.Number("probes_failed"), low, high)
		within(t, name+": what no probe was left for", row.Number("rejected_probing"), 1, 60)
	}
}

func TestKnownRecovery(t *testing.T) {
	runs := table(t, runOnce(t, "recovery"), "runs")
	exact := []string{"median_exact", "p90_exact", "reopenings_exact"}
	equal(t, "70 %, 3", cells(t, runs.Row("q", 0.7, "n", 3), exact...), "1.15 5.30 1.9")
	equal(t, "70 %, 10", cells(t, runs.Row("q", 0.7, "n", 10), exact...), "26.55 88.45 34.4")
	equal(t, "50 %, 10", cells(t, runs.Row("q", 0.5, "n", 10), exact...), "600.00 600.00 438.1")
	equal(t, "100 %, 10", cells(t, runs.Row("q", 1.0, "n", 10), "median", "p90", "reopenings", "gobreaker"), "0.45 0.45 0.0 0.0")
	races := table(t, runOnce(t, "recovery"), "races")
	equal(t, "70 %, 10 before 5", cells(t, races.Row("q", 0.7, "n", 10, "m", 5), "won", "reopenings_formula"), "58.42 0.7")
}

func TestKnownWindows(t *testing.T) {
	r := runOnce(t, "windows")
	shares := table(t, r, "shares")
	for _, c := range []struct {
		window, burst string
		low, high     float64
	}{
		{tumblingWindow, "burst_5s", 78, 82},
		{tumblingWindow, "burst_2s", 19, 23},
		{"gobreaker, 10 buckets", "burst_5s", 100, 100},
		{"gobreaker, 10 buckets", "burst_2s", 0, 0},
		{ourWindow, "burst_5s", 100, 100},
		{ourWindow, "burst_2s", 0, 0},
		{ourWindow + ", or 20 in a row", "burst_2s", 100, 100},
		{tumblingWindow, "burst_10s", 100, 100},
	} {
		got := shares.Row("window", c.window).Number(c.burst)
		within(t, c.window+", "+c.burst, got, c.low-1e-9, c.high+1e-9)
	}
	unseen := table(t, r, "unseen")
	for _, c := range [][3]string{
		{"fails after 6s", requestsWindow, "- 1941"},
		{"fails after 6s", ourWindow, "7.9 20"},
		{"fails after 11s", tumblingWindow, "- 1891"},
		{"fails after 11s", "gobreaker, 10 buckets", "- 1891"},
		{"fails after 11s", ourWindow, "12.9 20"},
		{"a call every 3s", runRival, "- 100"},
		{"a call every 3s", runOurs, "12.0 5"},
		{healthName, endlessWindow, "3599.9 36 000"},
		{healthName, ourWindow, "4.9 50"},
	} {
		equal(t, fmt.Sprint(c[0], ", ", c[1]), cells(t, unseen.Row("failure", c[0], "breaker", c[1]), "opens", "failed"), c[2])
	}
}

func TestKnownChance(t *testing.T) {
	chance := table(t, runOnce(t, "windows"), "chance")
	for _, traffic := range []string{"1 a second", "10 a second"} {
		row := func(rule chanceRule) report.Row { return chance.Row("traffic", traffic, "rule", rule.name) }
		if got := row(runRule(20)).Number("trips_40"); got != 0 {
			t.Errorf("%s: 20 in a row come %v times an hour", traffic, got)
		}
		// The times between the calls of a run, on average.
		every := map[string]float64{"1 a second": 1, "10 a second": 0.1}[traffic]
		within(t, traffic+": 20 in a row see an outage", row(runRule(20)).Number("seen"), 18*every, 22*every)
		within(t, traffic+": 5 in a row", row(runRule(5)).Number("seen"), 4*every, 6*every)
	}
	if got := chance.Row("traffic", "1 a second", "rule", rateRule(50, 0.5).name).Cell("seen"); got != nil {
		t.Errorf("a window of ten calls sees fifty: %v", got)
	}
}

func TestKnownReplicas(t *testing.T) {
	probes := table(t, runOnce(t, "replicas"), "probes")
	for _, row := range probes.Select() {
		n := row.Number("processes")
		switch name := row.Text("breakers"); name {
		case steadyName, jitterName, rivalName:
			within(t, name, row.Number("failed"), 95*n, 105*n)
		case sharedName:
			within(t, name, row.Number("failed"), 98, 110)
		}
	}
	if got := len(probes.Select("breakers", sharedName)); got != 2 {
		t.Errorf("%d rows of a shared allowance", got)
	}
}

// Where one failure trips, one late failure that counts shows.
func TestNoLateResultChangesAStateWhereOneFailureTrips(t *testing.T) {
	stragglers := table(t, run(t, "probes", "for=3m", "consecutive=1"), "stragglers")
	equal(t, "fusebox", cells(t, stragglers.Row("breaker", "fusebox"), "wrong"), "0")
}

func TestKnownProbes(t *testing.T) {
	r := runOnce(t, "probes")
	stragglers := table(t, r, "stragglers")
	for _, name := range []string{"fusebox", "gobreaker"} {
		row := stragglers.Row("breaker", name)
		equal(t, name, cells(t, row, "wrong"), "0")
		within(t, name+": late results", row.Number("late"), 50, 1e6)
	}
	within(t, plainName, stragglers.Row("breaker", plainName).Number("wrong"), 1, 1e6)
	hangs := table(t, r, "hangs")
	for _, row := range hangs.Select("breaker", rivalLeaseName) {
		within(t, "gobreaker", row.Number("closed"), row.Number("hang"), row.Number("hang")+1.5)
	}
	for _, row := range hangs.Select("breaker", leaseName(2e9)) {
		within(t, "a lease of 2 s", row.Number("closed"), 2.5, 3.5)
	}
}

// The requests are real: some of them are on their way at any time, and
// machines differ. One that is too busy for the outage gets a longer one.
func TestHalfopenOverHTTP(t *testing.T) {
	t.Parallel()
	var r *report.Report
	for slower := time.Duration(1); slower <= 16; slower *= 4 {
		r = run(t, "halfopen", "http=true", "probes=1,3", "open=250ms", "outage=300ms",
			fmt.Sprint("for=", slower*2*time.Second), fmt.Sprint("outage-for=", slower*700*time.Millisecond))
		if !slices.ContainsFunc(table(t, r, "probes").Select(), func(row report.Row) bool { return row.Number("half_opens") == 0 }) {
			break
		}
	}
	rows := table(t, r, "probes").Select()
	if len(rows) != 4 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		name := cells(t, row, "breaker", "probes")
		within(t, name+": connection errors", row.Number("connection_errors"), 0, 0)
		within(t, name+": reached", row.Number("reached"), 10, 1e6)
		within(t, name+": opens", row.Number("opens"), 1, 1e3)
		within(t, name+": half-opens", row.Number("half_opens"), 1, 1e3)
		within(t, name+": rejected while open", row.Number("rejected_open"), 10, 1e6)
		within(t, name+": failed in half-open", row.Number("probes_failed"), 0, row.Number("half_opens")*row.Number("probes"))
	}
}

func TestAServerThatIsNotThereIsAConnectionError(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	server.Close()
	w := &halfopenWorkers{
		halfopenOptions: &halfopenOptions{}, client: &http.Client{}, url: url,
		state: fusebox.HalfOpen, counts: &halfopenCounts{},
	}
	up := true
	w.request(t.Context(), func(success bool) { up = success })
	if up || *w.counts != (halfopenCounts{reached: 1, connectionErrors: 1}) {
		t.Errorf("up: %v, counted %+v", up, *w.counts)
	}
}

// More than the experiments check: the whole distribution, of many walks, with
// jitter, growth and a race.
func TestWalksAreSpreadAsTheorySays(t *testing.T) {
	const trials = 3000
	for name, c := range map[string]struct {
		config fusebox.Config
		theory theory.Recovery
	}{
		"jitter": {
			fusebox.Config{OpenFor: time.Second, OpenForMax: time.Second, OpenJitter: 0.4, Probes: 1},
			theory.Recovery{Periods: []float64{20}, Jitter: 0.4, Close: 1, Reopen: 1},
		},
		"growth": {
			fusebox.Config{OpenFor: time.Second, OpenForMax: 3 * time.Second, OpenJitter: 0.1, Probes: 1, CloseAfter: 2},
			theory.Recovery{Periods: []float64{20, 40, 60}, Jitter: 0.1, Close: 2, Reopen: 1},
		},
		"race": {
			fusebox.Config{OpenFor: time.Second, OpenForMax: time.Second, OpenJitter: 0.1, Probes: 1, CloseAfter: 3, ReopenAfter: 2},
			theory.Recovery{Periods: []float64{20}, Jitter: 0.1, Close: 3, Reopen: 2},
		},
	} {
		const recovered, ticks = 50, 200
		q := func(tick int) float64 { return 0.6 * float64(min(1, tick/recovered)) }
		c.theory.Opened, c.theory.Ticks, c.theory.Success = true, ticks, q
		exact := c.theory.Exact()
		rng := rand.New(rand.NewPCG(5, 6))
		c.config.Rand = rng.Float64
		var s sample
		for range trials {
			w := walk{
				tick: 50 * time.Millisecond, openFor: time.Second, ticks: ticks, opened: true,
				success: func(tick int) bool { return rng.Float64() < q(tick) },
			}
			one, err := w.fusebox(t.Context(), c.config)
			if err != nil {
				t.Fatal(err)
			}
			s.add(one)
		}
		r := &report.Report{}
		for tick := recovered; tick < ticks; tick += 3 {
			s.check(r, fmt.Sprint("closed by tick ", tick), exact, tick)
		}
		s.failures.check(r, "failures", exact.Failures)
		s.reopenings.check(r, "reopenings", exact.Reopenings)
		for _, f := range r.Failed() {
			t.Errorf("%s: %v", name, f)
		}
	}
}

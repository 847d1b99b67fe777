package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// goal is one of the project's, and what was measured.
type goal struct {
	What     string `json:"what"`
	Limit    string `json:"limit"`
	Measured string `json:"measured"`
	Met      bool   `json:"met"`
}

// goals compares a result with the goals that it has figures for. Those of the
// faults are for the schedule in full.
func goals(r result) (list []goal) {
	add := func(met bool, what, limit, format string, args ...any) {
		list = append(list, goal{what, limit, fmt.Sprintf(format, args...), met})
	}
	runs := func(name string) []figures {
		i := slices.IndexFunc(r.Faults, func(f faultResult) bool { return f.Name == name })
		if i < 0 || r.Scale != 1 {
			return nil
		}
		return r.Faults[i].Runs
	}
	if f := runs("fusebox"); len(f) > 0 {
		mid, worst := summary(f, doomed)
		add(worst <= 40, "doomed, defaults, worst run", "40 of 1,500", "%s", pair(mid, worst, 0))
		mid, worst = summary(f, openedAfter)
		add(mid <= 0.15, "opens after, defaults, median", "0.15 s", "%s s", pair(mid, worst, 3))
		mid, worst = summary(f, lost)
		add(mid <= 350, "lost after the 503 phase, defaults, median", "350", "%s", pair(mid, worst, 0))
		add(worst <= 750, "the same, worst run", "750", "%s", pair(mid, worst, 0))
	}
	if f := runs("fusebox-fast"); len(f) > 0 {
		mid, worst := summary(f, lost)
		add(worst <= 200, "lost after the 503 phase, fast-recovery.yaml, worst run", "200", "%s", pair(mid, worst, 0))
	}
	if f := runs("fusebox-slow"); len(f) > 0 {
		mid, worst := summary(f, slowOpenedAfter)
		add(!math.IsInf(worst, 1), "opened by the slow rule, slow-rule.yaml, every run", "yes", "after %s s", pair(mid, worst, 3))
		mid, worst = summary(f, slowLost)
		add(worst <= 200, "lost after the slow phase, slow-rule.yaml, worst run", "200 of 1,350", "%s", pair(mid, worst, 0))
	}
	most, measured := 0, false
	for _, name := range []string{"fusebox", "fusebox-fast", "fusebox-slow"} {
		for _, f := range runs(name) {
			most, measured = max(most, f.Retrips), true
		}
	}
	if measured {
		add(most == 0, "re-trips on a healthy upstream, all three, worst run", "0", "%d", most)
	}
	if c := r.CPU; c != nil {
		add(c.wholeChain().Ratio <= 1.15, "CPU of a call, whole chain, against httputil.ReverseProxy", "1.15 ×", "%.2f ×", c.wholeChain().Ratio)
	}
	if m := r.Memory; m != nil {
		add(m.Peak <= 60, "peak memory at 64 connections", "60 MB", "%.0f MB", m.Peak)
		add(m.flat(), "growth over the second half", "5 % of the peak", "%+.1f %%", 100*m.Growth/m.Peak)
	}
	return list
}

// What a column shows of a run.
func doomed(f figures) float64          { return float64(f.Doomed) }
func openedAfter(f figures) float64     { return seconds(f.Opened) }
func lost(f figures) float64            { return float64(f.Lost) }
func slowReached(f figures) float64     { return float64(f.SlowReached) }
func slowOpenedAfter(f figures) float64 { return seconds(f.SlowOpened) }
func slowLost(f figures) float64        { return float64(f.SlowLost) }
func tripped(f figures) float64         { return float64(f.Retrips) }
func cpuOf(f figures) float64           { return f.CPU }
func rssOf(f figures) float64           { return f.RSS }

// seconds returns m in seconds; infinity for never.
func seconds(m *milli) float64 {
	if m == nil {
		return math.Inf(1)
	}
	return float64(*m) / 1000
}

// summary returns the median and the worst of the runs, the highest: for every
// figure less is better.
func summary(runs []figures, of func(figures) float64) (mid, worst float64) {
	var values []float64
	for _, f := range runs {
		values = append(values, of(f))
	}
	return median(values), slices.Max(values)
}

// pair renders median and worst; once where they read the same.
func pair(mid, worst float64, decimals int) string {
	render := func(v float64) string {
		if math.IsInf(v, 1) {
			return "never"
		}
		return fmt.Sprintf("%.*f", decimals, v)
	}
	a, b := render(mid), render(worst)
	if a == b {
		return a
	}
	return a + " / " + b
}

// markdown writes the tables of what was measured.
func (r result) markdown(b *strings.Builder, runs int, took time.Duration) {
	fmt.Fprintf(b, "%s %s, %d cores; measured within %v.\n", r.Go, r.Arch, r.Cores, took.Round(time.Second))
	if r.Faults != nil {
		r.faultTable(b, runs)
	}
	if c := r.CPU; c != nil {
		fmt.Fprintf(b, `
| CPU of a call, %d connections, median of %d rounds | µs | ratio |
| --- | ---: | ---: |
`, c.Connections, len(c.Rows[0].Micros))
		for _, row := range c.Rows {
			fmt.Fprintf(b, "| %s | %.1f | %.2f |\n", row.Title, row.Median, row.Ratio)
		}
	}
	if m := r.Memory; m != nil {
		fmt.Fprintf(b, `
| memory, %d connections, %d calls in %d s | MB |
| --- | ---: |
| after 1 s | %.1f |
| median | %.1f |
| peak | %.1f |
| growth over the second half | %+.2f |
`, memoryConnections, m.Calls, len(m.Samples), m.Samples[0], median(m.Samples), m.Peak, m.Growth)
	}
	if len(r.Goals) > 0 {
		fmt.Fprint(b, "\n| goal | at most | measured | |\n| --- | ---: | ---: | --- |\n")
		for _, g := range r.Goals {
			verdict := "met"
			if !g.Met {
				verdict = "**missed**"
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s |\n", g.What, g.Limit, g.Measured, verdict)
		}
	}
}

func (r result) faultTable(b *strings.Builder, runs int) {
	s := newSchedule(r.Scale)
	var size [5]int
	for i, p := range s {
		from, to := s.within(p)
		size[i] = to - from
	}
	fmt.Fprintf(b, "Schedule of %v, %d runs; median, and after the stroke the worst where it differs.\n\n", s.length(), runs)
	fmt.Fprintf(b, "| proxy | doomed (of %d) | opens after, s | lost (of %d) | slow calls (of %d) | opens after, s | lost (of %d) | re-trips | CPU s per 1000 | peak RSS, MB |\n",
		size[1], size[2], size[3], size[4])
	fmt.Fprint(b, "| --- |"+strings.Repeat(" ---: |", 9)+"\n")
	columns := []struct {
		of       func(figures) float64
		decimals int
	}{
		{doomed, 0},
		{openedAfter, 2},
		{lost, 0},
		{slowReached, 0},
		{slowOpenedAfter, 2},
		{slowLost, 0},
		{tripped, 0},
		{cpuOf, 3},
		{rssOf, 0},
	}
	var absent []string
	var wrong, all, late, again int
	var latest milli
	for _, f := range r.Faults {
		if f.Skipped != "" {
			absent = append(absent, f.Title)
			continue
		}
		fmt.Fprintf(b, "| %s |", f.Title)
		for i, c := range columns {
			if f.Name == "none" && i >= 7 {
				fmt.Fprint(b, " |") // there is no process
				continue
			}
			mid, worst := summary(f.Runs, c.of)
			fmt.Fprintf(b, " %s |", pair(mid, worst, c.decimals))
		}
		fmt.Fprintln(b)
		for _, run := range f.Runs {
			wrong += run.Unseen
			all++
			again += run.Repeats
			if run.disturbed() {
				late++
				latest = max(latest, run.Lag)
			}
		}
	}
	fmt.Fprintln(b)
	if len(absent) > 0 {
		fmt.Fprintf(b, "Not run, the program is not on this machine: %s.\n", strings.Join(absent, ", "))
	}
	if wrong > 0 {
		fmt.Fprintf(b, "**%d answers bore the upstream's mark and were not its: the counts are wrong.**\n", wrong)
	}
	if again > 0 {
		fmt.Fprintf(b, "%d runs were made again because the load was late.\n", again)
	}
	if late > 0 {
		fmt.Fprintf(b, "**In %d of %d runs calls were made up to %.0f ms late: the machine was too busy for these figures.**\n", late, all, latest)
	}
	var versions []string
	for _, f := range r.Faults {
		if f.Version != "" && !slices.Contains(versions, f.Version) {
			versions = append(versions, f.Version)
		}
	}
	if len(versions) > 0 {
		fmt.Fprintf(b, "Versions: %s.\n", strings.Join(versions, "; "))
	}
}

// The markers in a file between which the tables go.
const (
	markBegin = "<!-- faults:begin -->"
	markEnd   = "<!-- faults:end -->"
)

// writeBetween replaces what stands between the markers of a file.
func writeBetween(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(old), markBegin)
	_, after, ok2 := strings.Cut(rest, markEnd)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no lines %s and %s, in this order", path, markBegin, markEnd)
	}
	// Beside the file and renamed, so that it is never half written.
	half := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(half, []byte(before+markBegin+"\n"+text+markEnd+after), 0o644); err != nil {
		return err
	}
	return os.Rename(half, path)
}

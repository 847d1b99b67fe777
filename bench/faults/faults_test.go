package main

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test's own binary be the plain proxy, as the program is.
func TestMain(m *testing.M) {
	if isPlain(os.Args) {
		exit(servePlain(os.Args[2], os.Args[3], os.Args[4]))
	}
	os.Exit(m.Run())
}

func self(t *testing.T) programs {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Cleanup(func() {
		left, err := os.ReadDir(os.TempDir())
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return programs{self: path}
}

func TestThroughAPlainProxyBothEndsCountTheSame(t *testing.T) {
	s := newSchedule(0.05)
	seen, err := observe(t.Context(), self(t), plainContender(unpooled), s)
	if err != nil {
		t.Fatal(err)
	}
	n, down := s.calls(), s[1]
	if len(seen.answers) != n || n != 338 {
		t.Fatalf("%d answers, %d calls, want 338 both", len(seen.answers), n)
	}
	for id, a := range seen.answers {
		if !a.Theirs || seen.reached[id] != 1 {
			t.Errorf("call %d: %+v, and it reached the upstream %d times", id, a, seen.reached[id])
		}
		if a.Sent < planned(id) || a.Done < a.Sent {
			t.Errorf("call %d: planned for %v, sent at %v, done at %v", id, planned(id), a.Sent, a.Done)
		}
		// A call cannot arrive before its time, and may on a slow machine after it.
		switch p := planned(id); {
		case a.Done < down.From || p >= down.To:
			if a.Status != 200 {
				t.Errorf("call %d, planned for %v, answered at %v: status %d outside of %v", id, p, a.Done, a.Status, down)
			}
		case p >= down.From && a.Done < down.To && a.Status != 503:
			t.Errorf("call %d, planned for %v, answered at %v: status %d within %v", id, p, a.Done, a.Status, down)
		}
		if p := planned(id); p >= s[3].From && a.Done < s[3].To && a.Done-p < meanSlow/2 {
			t.Errorf("call %d, within the slow phase, took %v", id, a.Done-p)
		}
	}
	if !slices.ContainsFunc(seen.answers[1:], func(a answer) bool {
		return slices.ContainsFunc(seen.answers, func(b answer) bool { return b.Sent < a.Sent && a.Sent < b.Done-meanSlow/4 })
	}) {
		t.Error("no call was made while another was out: the load waits for answers")
	}
	sum := 0
	for _, k := range seen.arrivals {
		sum += int(k)
	}
	f := judge(s, seen)
	if sum != n || f.Good+f.Failed != n || f.Failed != f.Doomed || f.Doomed == 0 || f.SlowReached == 0 {
		t.Errorf("arrivals %v of %d calls do not agree with %+v", seen.arrivals, n, f)
	}
	if f.Refused+f.Broken+f.Unseen+f.Lost+f.SlowLost+f.Early+f.Retrips != 0 || f.Opened != nil || f.SlowOpened != nil {
		t.Errorf("a proxy that refuses nothing: %+v", f)
	}
	if f.CPU <= 0 || f.RSS <= 1 {
		t.Errorf("%v s CPU for 1000 calls, %v MB: nothing was measured", f.CPU, f.RSS)
	}
}

func TestAClosedLoopCountsWhatAPlainProxyCosts(t *testing.T) {
	url, stop, err := flatUpstream()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	p, err := self(t).start(t.Context(), plainContender(pooled), [2]string{url, url})
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	micros, err := cpuOfACall(t.Context(), p, cpuOptions{slice: 500 * time.Millisecond, connections: 4})
	if err != nil || micros <= 0 {
		t.Errorf("%v µs a call, %v", micros, err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for what, to := range map[string]target{
		"a call that cannot be made":   {p.base + "/%zz", url},
		"an answer that is not 200":    {other.URL, ""},
		"an answer of somebody else's": {p.base, other.URL},
	} {
		if n, err := closedLoop(t.Context(), 1, time.Second, to); err == nil || n != 0 {
			t.Errorf("%s is no error, and counts %d", what, n)
		}
	}
	p.process.stop()
	if ended, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ended.Signal() != syscall.SIGTERM {
		t.Errorf("it ended by %v, want to be asked", p.cmd.ProcessState)
	}
	if _, err := p.usage(); err == nil {
		t.Error("a process that has ended has a usage")
	}
}

func TestAProxyThatDoesNotStartSaysWhy(t *testing.T) {
	c := plainContender(pooled)
	c.args = []string{plainMode, pooled, "nonsense", "http://{{.Upstream}}"}
	_, err := self(t).start(t.Context(), c, [2]string{})
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v, want what the program said", err)
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("enough"))
	defer cancel()
	_, err := observe(ctx, self(t), contenders()[0], newSchedule(1))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestSchedule(t *testing.T) {
	for _, scale := range []float64{1, 0.2, 0.05, 0.0333} {
		s := newSchedule(scale)
		next, calls := time.Duration(0), 0
		for i, p := range s {
			if p.From != next || p.To <= p.From {
				t.Errorf("scale %v: phase %d is %v, want it to begin at %v", scale, i, p, next)
			}
			next = p.To
			from, to := s.within(p)
			if from != calls {
				t.Errorf("scale %v: the calls of phase %d begin with %d, want %d", scale, i, from, calls)
			}
			calls = to
			if s.at(p.From) != i || s.at(p.To-1) != i {
				t.Errorf("scale %v: phase %d does not hold at its ends", scale, i)
			}
			if planned(from) < p.From || planned(to-1) >= p.To {
				t.Errorf("scale %v: the calls of phase %d are planned from %v to %v, outside of %v", scale, i, planned(from), planned(to-1), p)
			}
		}
		if calls != s.calls() {
			t.Errorf("scale %v: the phases have %d calls, the schedule %d", scale, calls, s.calls())
		}
	}
	s := newSchedule(1)
	if s.length() != 45*time.Second || s.calls() != 6750 {
		t.Errorf("%v, %d calls", s.length(), s.calls())
	}
	if from, to := s.within(s[1]); from != 1500 || to != 3000 {
		t.Errorf("the 503 phase has the calls %d to %d, want 1500 to 3000", from, to)
	}
	if s.at(-time.Second) != 0 || s.at(time.Hour) != 4 {
		t.Error("before and after the schedule its first and its last phase hold")
	}
}

func TestLatencyHasItsMeanAndIsTheSameForEachProxy(t *testing.T) {
	for k, mean := range map[kind]time.Duration{healthy: meanHealthy, errors503: meanHealthy, slow: meanSlow} {
		var sum time.Duration
		const n = 20000
		for id := range n {
			l := latency(k, id)
			if l < mean/2 || l != latency(k, id) {
				t.Fatalf("latency(%v, %d) is %v, then %v", k, id, l, latency(k, id))
			}
			sum += l
		}
		if got := sum / n; got < mean*97/100 || got > mean*103/100 {
			t.Errorf("kind %v: mean %v, want %v", k, got, mean)
		}
	}
}

func TestJudgeCall(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  answer
		reached int32
		want    outcome
	}{
		{"answered by the upstream", answer{Status: 200, Theirs: true}, 1, good},
		{"answered after a retry", answer{Status: 200, Theirs: true}, 2, good},
		{"an error of the upstream's", answer{Status: 503, Theirs: true}, 1, failed},
		{"an error of the proxy's", answer{Status: 503}, 0, refused},
		{"no answer, and the upstream not asked", answer{}, 0, refused},
		{"a good answer of the proxy's", answer{Status: 200}, 0, refused},
		{"the upstream asked, and its answer lost", answer{Status: 502}, 1, broken},
	} {
		if got := judgeCall(c.answer, c.reached); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// span makes outcomes of a text: g and r, each with a count after it.
func span(parts ...int) (o []outcome) {
	for i, n := range parts {
		o = append(o, slices.Repeat([]outcome{[]outcome{good, refused}[i%2]}, n)...)
	}
	return o
}

func TestRetrips(t *testing.T) {
	for _, c := range []struct {
		name      string
		span      []outcome
		recovered bool
		want      int
	}{
		{"nothing", nil, true, 0},
		{"all good", span(500), false, 0},
		{"open at first, then good", span(0, 200, 500), false, 0},
		{"probes before it closes", span(0, 100, 3, 2, 3, 2, 500), false, 0},
		{"reopens before it has recovered", span(0, 100, 29, 5, 300), false, 0},
		{"reopens after it has recovered", span(0, 100, 30, 5, 300), false, 1},
		{"closed before, then open", span(10, 5, 300), true, 1},
		{"four refused are no re-trip", span(100, 4, 300), true, 0},
		{"five with a good one between are none", span(100, 3, 1, 2, 300), true, 0},
		{"twice", span(100, 50, 30, 50, 100), true, 2},
		{"flaps once, while it comes back", span(100, 50, 10, 50, 100), true, 1},
	} {
		if got := retrips(c.span, c.recovered); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if got := retrips(append(span(100), broken, refused, refused, broken, refused), true); got != 1 {
		t.Errorf("five turned away, of both sorts: %d, want 1", got)
	}
	if got := retrips(append(span(100), slices.Repeat([]outcome{failed}, 10)...), true); got != 0 {
		t.Errorf("ten answers of the upstream: %d, want 0", got)
	}
}

// perfect is what a proxy that lets everything through comes to at scale 1,
// every call answered after a millisecond.
func perfect(s schedule) (o observation) {
	o.arrivals = make([]int32, len(s))
	for id := range s.calls() {
		a := answer{Status: 200, Theirs: true, Sent: planned(id), Done: planned(id) + time.Millisecond}
		i := s.at(planned(id))
		if s[i].Kind == errors503 {
			a.Status = 503
		}
		o.answers = append(o.answers, a)
		o.reached = append(o.reached, 1)
		o.arrivals[i]++
	}
	return o
}

// refuse makes calls refused by the proxy.
func (o observation) refuse(s schedule, from, to int) {
	for id := from; id < to; id++ {
		o.answers[id].Status, o.answers[id].Theirs = 503, false
		o.reached[id] = 0
		o.arrivals[s.at(planned(id))]--
	}
}

func TestJudge(t *testing.T) {
	s := newSchedule(1)
	f := judge(s, perfect(s))
	if f.Doomed != 1500 || f.Failed != 1500 || f.Good != 5250 || f.SlowReached != 1200 || f.Opened != nil || f.P99 != 1 {
		t.Errorf("a proxy that does nothing: %+v", f)
	}

	o := perfect(s)
	o.used = usage{CPU: 27 * time.Second / 4, Peak: 30e6}
	o.refuse(s, 100, 103)   // before any fault
	o.refuse(s, 1520, 3300) // 20 calls into the 503 phase, to 2 s after it
	o.refuse(s, 3600, 3650) // again, while the upstream is well
	o.refuse(s, 4350, 5500) // 1 s into the slow phase, to 100 calls after it
	o.answers[6000].Theirs = false
	o.answers[4000].Status, o.answers[4000].Theirs, o.answers[4000].Err = 0, false, errors.New("reset")
	f = judge(s, o)
	want := map[string][2]float64{
		"early":        {float64(f.Early), 3},
		"doomed":       {float64(f.Doomed), 20},
		"opened after": {seconds(f.Opened), 0.134333}, // call 20, answered 1 ms later
		"lost":         {float64(f.Lost), 351},
		"slow reached": {float64(f.SlowReached), 150},
		"slow opened":  {seconds(f.SlowOpened), 1.001},
		"slow lost":    {float64(f.SlowLost), 101},
		"re-trips":     {float64(f.Retrips), 1},
		"broken":       {float64(f.Broken), 2},
		"refused":      {float64(f.Refused), 3 + 1780 + 50 + 1150},
		"cpu":          {f.CPU, 1},
		"rss":          {f.RSS, 30},
	}
	for what, v := range want {
		if math.Abs(v[0]-v[1]) > 1e-6 {
			t.Errorf("%s: %v, want %v", what, v[0], v[1])
		}
	}

	if f.Answers[503] != f.Refused || f.Answers[200] != 1 || f.Answers[0] != 1 || f.Error != "reset" {
		t.Errorf("answers %v, error %q", f.Answers, f.Error)
	}
	if f.disturbed() || f.Lag != 0 {
		t.Errorf("calls that were made in time are %v ms late", f.Lag)
	}
	o.answers[7].Sent += 101 * time.Millisecond
	if f := judge(s, o); !f.disturbed() || f.Lag != 101 {
		t.Errorf("a call that was made 101 ms late is %v ms late", f.Lag)
	}
	before := judge(s, o)
	for id := 1490; id < 1500; id++ { // the end of the first phase
		o.answers[id].Status, o.answers[id].Theirs, o.answers[id].Sent = 503, false, 10*time.Second
	}
	if f := judge(s, o); f.Early != before.Early || f.Retrips != before.Retrips {
		t.Errorf("refusals of calls that were made late, in the fault, count as early: %+v", f)
	}
	o.answers[0].Theirs, o.reached[0] = true, 0
	if f := judge(s, o); f.Unseen != 1 {
		t.Errorf("%d answers that the upstream never gave, want 1", f.Unseen)
	}
}

func TestQuantileAndMedian(t *testing.T) {
	values := []int{50, 10, 40, 20, 30}
	for q, want := range map[float64]int{0: 10, 0.2: 10, 0.21: 20, 0.5: 30, 0.99: 50, 1: 50} {
		if got := quantile(slices.Clone(values), q); got != want {
			t.Errorf("quantile %v: %d, want %d", q, got, want)
		}
	}
	if quantile([]int(nil), 0.5) != 0 || median(nil) != 0 {
		t.Error("no values have the quantile 0")
	}
	inf := math.Inf(1)
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{1, inf, inf}, inf}, {[]float64{inf, inf}, inf}, {[]float64{1, 2, inf}, 2},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: %v, want %v", c.values, got, c.want)
		}
	}
}

func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{7}, 0}, {[]float64{5, 5, 5}, 0}, {[]float64{1, 2, 3, 4}, 3}, {[]float64{4, 1}, -3}, {[]float64{0, 2, 0, 2}, 1.2},
	} {
		if got := growth(c.values); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("growth of %v: %v, want %v", c.values, got, c.want)
		}
	}
}

func TestProcFiles(t *testing.T) {
	s, err := parseStat("42 (a) b) (c) S 7 42 42 0 -1 4194304 1 2 3 4 250 50 9 9 20 0 1 0 100 1 1\n")
	if err != nil || s.parent != 7 || s.cpu != 3*time.Second {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "42 (x) S 7", "42 x S 7 1 1 1 1 1 1 1 1 1 1 1 1 1", "42 (x) S seven 1 1 1 1 1 1 1 1 1 1 1 1 1"} {
		if s, err := parseStat(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, s)
		}
	}
	status := "Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t    1024 kB\n"
	if statusBytes(status, "VmRSS") != 1<<20 || statusBytes(status, "VmHWM") != 2<<20 || statusBytes(status, "VmSwap") != 0 {
		t.Error("values of status are misread")
	}
}

func TestChoose(t *testing.T) {
	for list, want := range map[string]string{
		"none":                  "none",
		"fusebox":               "fusebox fusebox-fast fusebox-slow",
		"nginx-two,none":        "none nginx-two",
		"haproxy,haproxy-table": "haproxy haproxy-table",
	} {
		chosen, err := choose(list)
		var names []string
		for _, c := range chosen {
			names = append(names, c.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", list, got, err, want)
		}
	}
	if _, err := choose("fuse"); err == nil || !strings.Contains(err.Error(), `"fuse"`) || !strings.Contains(err.Error(), "haproxy-table") {
		t.Errorf("got %v", err)
	}
	if all, err := choose(""); err != nil || len(all) != len(contenders()) {
		t.Errorf("%d of %d, %v", len(all), len(contenders()), err)
	}
}

func TestEveryTemplateIsThereAndNamesOnlyWhatThereIs(t *testing.T) {
	at := place{Listen: "127.0.0.1:1111", Admin: "127.0.0.1:2222", Upstream: "127.0.0.1:3333", Second: "127.0.0.1:4444", Folder: "/folder", File: "/folder/file"}
	for _, c := range append(contenders(), plainContender(pooled)) {
		var all strings.Builder
		for _, name := range c.files {
			text, err := files.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			filled, err := fill(string(text), at)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			all.WriteString(filled)
		}
		rest, err := fillAll(slices.Concat(c.args, c.environ), at)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		all.WriteString(strings.Join(rest, "\n"))
		for _, port := range []string{"1111", "3333"} {
			if c.program != direct && !strings.Contains(all.String(), port) {
				t.Errorf("%s is not told of port %s:\n%s", c.Name, port, all.String())
			}
		}
	}
}

func TestGoals(t *testing.T) {
	s := newSchedule(1)
	o := perfect(s)
	o.refuse(s, 1520, 3300)
	o.refuse(s, 4350, 5500)
	f := judge(s, o)
	with := func(name string, f ...figures) faultResult { return faultResult{Name: name, Title: name, Runs: f} }
	r := result{
		Scale:  1,
		Faults: []faultResult{with("fusebox", f, f), with("fusebox-fast", f), with("fusebox-slow", f), {Name: "envoy", Title: "Envoy", Skipped: "not there"}},
		CPU:    &cpuResult{Rows: []cpuRow{{Title: "plain", Micros: []float64{50}, Median: 50, Ratio: 1}, {Title: "fusebox", Median: 55, Ratio: 1.1}}},
		Memory: &memoryResult{Peak: 40, Growth: 1.9, Samples: []float64{1, 2}},
	}
	missed := func() (list []string) {
		for _, g := range goals(r) {
			if !g.Met {
				list = append(list, g.What)
			}
		}
		return list
	}
	if got := missed(); len(got) != 1 || !strings.Contains(got[0], "fast-recovery") { // 300 of 200
		t.Errorf("missed: %q", got)
	}
	f.Doomed, f.Opened, f.Lost, f.SlowLost, f.SlowOpened, f.Retrips = 41, nil, 751, 201, nil, 1
	r.Faults[0].Runs, r.Faults[2].Runs = []figures{f}, []figures{f}
	r.CPU.Rows[1].Ratio, r.Memory.Peak, r.Memory.Growth = 1.16, 61, 3.1
	all := goals(r)
	if got := missed(); len(got) != len(all) || len(all) != 11 {
		t.Errorf("%d of %d missed, want all of 11: %q", len(got), len(all), got)
	}

	var b strings.Builder
	r.Goals = all
	r.markdown(&b, 1, time.Minute)
	for _, want := range []string{"| fusebox | 41 | never | 751 | 150 | never | 201 | 1 |", "Not run, the program is not on this machine: Envoy.", "| **missed** |", "| plain | 50.0 | 1.00 |\n| fusebox | 55.0 | 1.16 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	r.Scale = 0.2
	if n := len(goals(r)); n != 3 {
		t.Errorf("%d goals of a scaled run, want the 3 of CPU and memory", n)
	}
	if got := pair(math.Inf(1), math.Inf(1), 0) + " " + pair(2, 3, 0) + " " + pair(0.131, 0.132, 2); got != "never 2 / 3 0.13" {
		t.Error(got)
	}
}

func TestWriteBetween(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	read := func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, bad := range []string{"", "before " + markBegin, markEnd + markBegin} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writeBetween(path, "text"); err == nil || read() != bad {
			t.Errorf("%q became %q, %v", bad, read(), err)
		}
	}
	if err := os.WriteFile(path, []byte("before\n"+markBegin+"\nold\n"+markEnd+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := writeBetween(path, "new\n"); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := read(), "before\n"+markBegin+"\nnew\n"+markEnd+"\nafter\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

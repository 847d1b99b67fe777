package browser_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/fusebox-go/fusebox"
)

func TestFiveThousandBreakersScroll(t *testing.T) {
	t.Parallel()
	const many = 5000
	s := newStage(t)
	var last *fusebox.Breaker
	for i := range many {
		last = s.breaker(fmt.Sprintf("host-%04d.example.com", i), tripping())
	}
	p := open(t, s.url, "/")
	p.reads("fb-list", "host-0000.example.com")
	p.the("button", "5 000 closed")
	if n := p.the("table", "Breakers"); n.role != "table" {
		t.Error("the list is no table")
	}
	rows := func() int { return eval[int](p, `document.querySelectorAll('fb-list .sizer .row').length`) }
	if n := rows(); n > 100 {
		t.Errorf("%d rows are drawn", n)
	}
	if n := eval[string](p, `document.querySelector('fb-list').getAttribute('aria-rowcount')`); n != "5001" {
		t.Errorf("the table says that it has %s rows", n)
	}
	slowest := eval[float64](p, `(async () => {
		const scroller = document.querySelector('.scroller');
		let slowest = 0;
		for (let i = 1; i <= 20; i++) {
			const began = performance.now();
			scroller.scrollTop = i * (scroller.scrollHeight - scroller.clientHeight) / 20;
			await new Promise((done) => scroller.addEventListener('scroll', done, { once: true }));
			document.querySelector('fb-list').getBoundingClientRect();
			slowest = Math.max(slowest, performance.now() - began);
		}
		return slowest;
	})()`)
	t.Logf("the slowest of 20 jumps through the list took %.0f ms, with %d rows drawn", slowest, rows())
	p.reads("fb-list", "host-4999.example.com")
	if n := rows(); n > 100 {
		t.Errorf("%d rows are drawn at the end", n)
	}
	p.until("the rows that are seen have no numbers", func() bool {
		return eval[bool](p, `[...document.querySelectorAll('.sizer .c-calls')].every((c) => c.textContent === '0/s')`)
	})
	p.mu.Lock()
	most := 0 // names in one request
	for _, r := range p.requests {
		u, err := url.Parse(r.url)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(u.Path, "/api/breakers/") {
			t.Errorf("with no breaker selected it asks for %s", u.Path)
		}
		if only := u.Query()["only"]; slices.Contains(only, "host-4999.example.com") {
			most = max(most, len(only))
		}
	}
	p.mu.Unlock()
	if most < 15 {
		t.Errorf("at most %d rows are asked for at a time, of those that are seen", most)
	}
	calls(last, 24, 41)
	p.reads("h1", "1 breaker open")
	eval[any](p, `document.querySelector('.scroller').scrollTop = 0`)
	p.until("what is open is not the first", func() bool {
		return strings.Contains(eval[string](p, `document.querySelector('fb-list .sizer [aria-rowindex="2"]')?.innerText ?? ''`), "host-4999")
	})
	p.fill("searchbox", "Filter by name", "host-2500")
	p.reads("fb-list", "host-2500.example.com")
}

func TestANameIsShownAsItIs(t *testing.T) {
	t.Parallel()
	const name = `<img src=x onerror=alert(1)>`
	s := newStage(t)
	s.config = `{"entries":[{"path":"upstreams.x.breaker.window","value":"<img src=x onerror=alert(2)>","origin":"<script>alert(3)</script>"}]}`
	b := s.breaker(name, fusebox.Config{Consecutive: 1, OpenFor: hour, OpenForMax: hour})
	for _, other := range []string{"", "..", "a/b?c#d", "zero\u0000width\u202e", `"quoted"`, "javascript:alert(4)"} {
		s.breaker(other, fusebox.Config{})
	}
	_ = b.Do(t.Context(), func(ctxIgnored) error { return errors.New("<svg onload=alert(5)>") })
	b.Override(fusebox.ForceOpen, fusebox.Note{By: "<b>anna</b>", Reason: "<script>alert(6)</script>"})
	p := open(t, s.url, "/")
	eval[any](p, `window.alerted = 0; window.alert = () => window.alerted++`)
	p.click("link", name)
	p.reads("fb-list", name, "(no name)", `"quoted"`)
	p.reads("fb-detail h2", name)
	p.reads("fb-detail", "Set to force-open by <b>anna</b>: <script>alert(6)</script>", "last error: <svg onload=alert(5)>")
	p.click("button", "Reset")
	p.the("dialog", "Reset: "+name)
	p.click("button", "Cancel")
	for _, other := range []string{"(no name)", "..", "a/b?c#d", "javascript:alert(4)"} {
		p.click("link", other)
		p.reads("fb-detail", other, "Settings", "probes")
	}
	if n := eval[int](p, `document.querySelectorAll('img, main script, main b:not(.bars-head b), iframe').length + window.alerted`); n != 0 {
		t.Errorf("%d elements were made of texts", n)
	}
}

func TestTheKeyboardReachesEverything(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for i := range 100 {
		s.breaker(fmt.Sprintf("breaker %02d", i), fusebox.Config{})
	}
	p := open(t, s.url, "/")
	p.reads("fb-list", "breaker 00")
	focused := func() string { return plain(eval[string](p, `document.activeElement.innerText ?? ''`)) }
	p.press("/")
	p.until("/ does not lead to the filter", func() bool { return eval[string](p, "document.activeElement.id") == "search" })
	p.press(kb.ArrowDown)
	p.until("the arrow does not lead to the list", func() bool { return focused() == "breaker 00" })
	p.press(kb.ArrowDown, kb.ArrowDown)
	p.until("the arrow does not go on", func() bool { return focused() == "breaker 02" })
	p.press(kb.End)
	p.until("End does not lead to the end", func() bool { return focused() == "breaker 99" })
	p.press(kb.Home)
	p.until("Home does not lead to the beginning", func() bool { return focused() == "breaker 00" })
	p.press(kb.Enter)
	p.reads("fb-detail h2", "breaker 00")
	p.until("the detail does not have the focus", func() bool { return focused() == "breaker 00" })
	var stops []string
	for range 12 {
		p.press(kb.Tab)
		stops = append(stops, focused())
	}
	for _, want := range []string{"×", "Force open", "Reset", "Copy as YAML"} {
		if !slices.Contains(stops, want) {
			t.Errorf("Tab does not lead to %q but to %q", want, stops)
		}
	}
	p.press(kb.Escape)
	p.until("Escape does not lead back to the row", func() bool { return focused() == "breaker 00" && p.text("fb-detail") == "" })
}

func TestAScreenReaderHasNamesAndStates(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", tripping())
	calls(b, 24, 41)
	s.breaker("search", fusebox.Config{})
	p := open(t, s.url, "/#/breaker/payments")
	p.reads("fb-detail", "At the trip")
	tree := p.tree()
	has := func(role, name string) {
		t.Helper()
		if !slices.ContainsFunc(tree, func(n node) bool { return n.role == role && strings.Contains(n.name, name) }) {
			t.Errorf("there is no %s %q", role, name)
		}
	}
	for _, want := range []struct{ role, name string }{
		{"heading", "1 breaker open"},
		{"status", ""},
		{"group", "Show only"},
		{"button", "1 open"},
		{"searchbox", "Filter by name"},
		{"group", "Time axis"},
		{"main", ""},
		{"table", "Breakers"},
		{"columnheader", "State"},
		{"columnheader", "Time line"},
		{"cell", "open"},
		{"cell", "payments"},
		{"link", "payments"},
		{"cell", "closed"},
		{"image", "open once"},
		{"image", "never open"},
		{"image", "At the trip, 10 buckets, oldest first"},
		{"region", "Breaker payments"},
		{"heading", "payments"},
		{"region", "Why"},
		{"region", "How close"},
		{"meter", "Failure rate"},
		{"group", "Change this breaker"},
		{"button", "Force open"},
		{"rowheader", "failure-rate"},
		{"group", "What it costs: all breakers"},
	} {
		has(want.role, want.name)
	}
	for _, n := range tree {
		if n.name == "" && slices.Contains([]string{"button", "link", "textbox", "searchbox", "combobox", "image", "meter", "heading", "table"}, n.role) &&
			n.properties["hidden"] != "true" {
			t.Errorf("a %s has no name", n.role)
		}
	}
}

func TestWhatIsTransferredAndWhenItIsPainted(t *testing.T) {
	s := newStage(t)
	s.breaker("payments", tripping())
	const painted = `performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0`
	paint := func(p *tab) (at float64) {
		p.until("nothing is painted", func() bool {
			at = eval[float64](p, painted)
			return at > 0
		})
		return at
	}
	bare := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>bare</title><link rel=icon href=data:,><h1>Fusebox</h1>"))
	}))
	first, listed, floor := math.Inf(1), math.Inf(1), math.Inf(1)
	for range 3 { // tabs of their own; the cache is off
		floor = min(floor, paint(open(t, bare, "/", noCache)))
		p := open(t, s.url, "/", noCache)
		p.reads("#status", "Live")
		p.reads("fb-list", "payments")
		first = min(first, paint(p))
		listed = min(listed, eval[float64](p, `performance.getEntriesByName(new URL('api/breakers', location.href).href)[0].responseEnd`))
		p.mu.Lock()
		total, files := 0.0, 0
		for _, r := range p.requests {
			if !strings.Contains(r.url, "/api/") {
				total += r.size
				files++
			}
		}
		p.mu.Unlock()
		if total > 100_000 || files < 3 || total < 10_000 {
			t.Errorf("%d files are transferred in %.0f bytes, want less than 100 kB", files, total)
		}
		t.Logf("%d files in %.0f bytes", files, total)
	}
	t.Logf("in the best of three, first paint after %.0f ms, where one line of text takes %.0f ms, and the breakers are there after %.0f ms", first, floor, listed)
}

func TestTheReportNeedsNoServer(t *testing.T) {
	t.Parallel()
	past := liveThrough(t)
	file := filepath.Join(t.TempDir(), "incident.html")
	if err := os.WriteFile(file, past.report, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(past.report))
	p := open(t, "file://", filepath.ToSlash(file))
	p.reads("#status", "Report of 2026-11-30, ")
	p.reads("h1", "2 breakers open")
	p.reads("fb-list", "inventory", "payments", "would be open", "suggestions", "half-open", "search", "closed", "mail")
	p.the("image", "open 13 times")
	p.click("link", "payments")
	p.reads("fb-detail", "tripped", "20 failures in a row ≥ 20; last error: dial tcp 10.0.0.7:443: connect: connection refused",
		"At the trip 20 of 116 failed", "It tries again in ", "open-for 4s program")
	if _, ok := p.find("button", "Force open"); ok {
		t.Error("a report has buttons that change something")
	}
	p.click("link", "Changes")
	p.reads("#changes", "anna", "inventory", "INC-2041, stock is being moved", "reload", "2 changed, SIGHUP")
	p.click("button", "6 h")
	p.reads("h1", "2 breakers open")
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) != 1 {
		t.Errorf("a report asks for %d things", len(p.requests))
	}
}

func TestThePageIsMountedBelowAPrefix(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.breaker("payments", tripping())
	mux := http.NewServeMux()
	mux.Handle("/ops/", http.StripPrefix("/ops", s.handler))
	url := serve(t, mux)
	p := open(t, url, "/ops/#/breaker/payments")
	p.reads("#status", "Live")
	p.reads("fb-detail", "payments", "Settings")
}

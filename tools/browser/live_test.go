package browser_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

// behind serves the page of a stage behind something that may answer in its place.
func behind(s *stage, instead func(w http.ResponseWriter, r *http.Request) (done bool)) (url string) {
	s.Helper()
	return serve(s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !instead(w, r) {
			s.handler.ServeHTTP(w, r)
		}
	}))
}

// modules opens a page that has the modules of the page as they are, to look into
// what they keep. What fetch was asked for is in asked.
func modules(s *stage) *tab {
	s.Helper()
	files := http.FileServer(http.Dir("../../fuseboxadmin/page/assets"))
	url := behind(s, func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Path == "/modules":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<!doctype html><title>modules</title><link rel=icon href=data:,>`))
		case strings.HasSuffix(r.URL.Path, ".js"):
			files.ServeHTTP(w, r)
		default:
			return false
		}
		return true
	})
	p := open(s, url, "/modules")
	eval[any](p, `(() => {
		window.asked = [];
		const real = fetch;
		window.fetch = (url, ...more) => { asked.push(String(url)); return real(url, ...more); };
		window.canonical = (v) => JSON.stringify(v, (k, x) => x && typeof x === 'object' && !Array.isArray(x) ? Object.fromEntries(Object.entries(x).sort()) : x);
		// differs says in which fields a breaker of the store is not as the server shows it now.
		window.differs = async (name, without) => {
			const list = await (await real('api/breakers?only=' + encodeURIComponent(name))).json();
			if (store.last !== list.last_event_id) return 'not told yet';
			const [is, want] = [store.breakers.get(name) ?? {}, list.breakers[0] ?? {}];
			const all = [...new Set([...Object.keys(is), ...Object.keys(want)])];
			return all.filter((k) => !without.includes(k) && canonical(is[k]) !== canonical(want[k]))
				.map((k) => k + ' is ' + canonical(is[k]) + ', want ' + canonical(want[k])).join('; ');
		};
		return null;
	})()`)
	return p
}

// startStore starts a store in a page of modules.
func startStore(p *tab) {
	p.Helper()
	eval[any](p, `import('/store.js').then(async ({ Store }) => { window.store = new Store(); await store.start(); return null; })`)
	p.until("the stream is not live", func() bool { return eval[string](p, "store.status") == "live" })
}

// step is one thing that may happen to a breaker.
type step struct {
	name  string
	do    func()
	later string // fields that the event does not tell, beside the totals
}

// everything is every kind of event that a breaker can leave, in an order that can be.
func everything(t *testing.T, b *fusebox.Breaker, c fusebox.Config, clock *fuseboxtest.Clock) []step {
	t.Helper()
	var permit fusebox.Permit
	allow := func() {
		p, err := b.Allow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		permit = p.Take()
	}
	anna := func(left time.Duration) fusebox.Note {
		n := fusebox.Note{By: "anna", Reason: "INC-2041"}
		if left != 0 {
			n.Until = clock.Now().Add(left)
		}
		return n
	}
	configure := func(change func(*fusebox.Config)) func() {
		return func() {
			change(&c)
			if err := b.Reconfigure(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	half := func() {
		clock.Advance(time.Minute)
		allow()
	}
	return []step{
		{"trip", func() { calls(b, 2, 5) }, ""},
		{"half-open", half, ""},
		{"reopen", func() { permit.Record(fusebox.Failure) }, ""},
		{"half-open again", half, ""},
		{"close", func() { permit.Record(fusebox.Success); allow(); permit.Record(fusebox.Success) }, ""},
		{"force-open", func() { calls(b, 1, 2); b.Override(fusebox.ForceOpen, anna(0)) }, ""},
		{"force-open anew", func() { clock.Advance(time.Second); b.Override(fusebox.ForceOpen, anna(hour)) }, ""},
		{"reset of a forced one", func() { b.Reset(anna(0)) }, ""},
		{"force-closed, with a run of failures", func() { calls(b, 1, 3); b.Override(fusebox.ForceClosed, anna(0)) }, ""},
		{"reset of a forced-closed one", func() { b.Reset(anna(0)) }, ""},
		{"shadow", func() { b.Override(fusebox.Shadow, anna(0)) }, ""},
		{"trip in shadow", func() { calls(b, 0, 5) }, ""},
		{"reset, which leaves shadow", func() { b.Reset(anna(0)) }, ""},
		{"lift", func() { b.Lift(anna(0)) }, ""},
		{"lift of nothing", func() { b.Lift(anna(0)) }, ""},
		{"enforce, for a time", func() { b.Override(fusebox.Enforce, anna(hour)) }, ""},
		{"one that is over before it begins", func() { b.Override(fusebox.ForceOpen, anna(-time.Second)) }, ""},
		{"the end of its time", func() { clock.Advance(2 * hour); b.Reset(anna(0)) }, ""},
		{"off", func() { b.Override(fusebox.Off, anna(0)) }, ""},
		{"lift of off", func() { b.Lift(anna(0)) }, ""},
		{"force-open, for a time", func() { b.Override(fusebox.ForceOpen, anna(time.Minute)) }, ""},
		{"its end", func() { clock.Advance(2 * time.Minute); b.Lift(anna(0)) }, ""},
		{"reset of a half-open one", func() { b.Reset(anna(0)) }, ""},
		{"reset of a closed one", func() { b.Reset(anna(0)) }, ""},
		{"other settings: shadow", configure(func(c *fusebox.Config) { c.Mode = fusebox.Shadow }), ""},
		{"other settings: off", configure(func(c *fusebox.Config) { c.Mode = fusebox.Off }), ""},
		{"other settings: enforce, and another window", configure(func(c *fusebox.Config) { c.Mode = fusebox.Enforce; c.Window = 20 * time.Second; c.MinCalls = 7 }), "rules counts failure_rate slow_rate"},
		{"trip, with them", func() { calls(b, 0, 5) }, "rules"},
		{"other settings: a shorter period", configure(func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = 10*time.Second, 10*time.Second }), "rules"},
	}
}

func scripted(clock *fuseboxtest.Clock) fusebox.Config {
	clock.Set(time.Now())
	return fusebox.Config{Now: clock.Now, Consecutive: 5, OpenFor: 30 * time.Second, OpenForMax: 50 * time.Second, OpenJitter: -1, Probes: 2}
}

// Each event leaves a breaker as a list would show it, at once: also one that is
// out of view, and of which no numbers are asked for.
func TestEachEventLeavesTheBreakerAsAListShowsIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var clock fuseboxtest.Clock
	c := scripted(&clock)
	b := fusebox.New("payments", c)
	remove := s.admin.Add(b)
	s.breaker("search", fusebox.Config{})
	p := modules(s)
	eval[any](p, `Object.defineProperty(document, 'hidden', { get: () => window.away }), window.away = true, null`)
	startStore(p)
	differs := func(without string) (text string) {
		p.until("the event is not told", func() bool {
			text = eval[string](p, fmt.Sprintf(`differs('payments', %q.split(' '))`, without))
			return text != "not told yet"
		})
		return text
	}
	for _, step := range everything(t, b, c, &clock) {
		clock.Advance(time.Second)
		step.do()
		if text := differs("totals open_period " + step.later); text != "" {
			t.Errorf("after %s: %s", step.name, text)
		}
		// The rest is asked for, though nobody looks at the row.
		eval[any](p, "window.away = false, null")
		p.until("after "+step.name+" the numbers are not asked for", func() bool { return differs("") == "" })
		eval[any](p, "window.away = true, null")
	}
	remove()
	p.until("a breaker that was removed stays", func() bool { return !eval[bool](p, "store.breakers.has('payments')") })
	s.admin.Add(b)
	p.until("a breaker that was added is not there", func() bool { return eval[bool](p, "store.breakers.has('payments')") && differs("") == "" })
}

// The same as a person sees it: the row that the stream has brought about reads as
// it does after a reload of the page. No numbers of single rows are to be had here.
func TestARowReadsAsAfterAReload(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var clock fuseboxtest.Clock
	c := scripted(&clock)
	b := fusebox.New("payments", c)
	remove := s.admin.Add(b)
	s.breaker("search", fusebox.Config{})
	url := behind(s, func(w http.ResponseWriter, r *http.Request) bool {
		if !r.URL.Query().Has("only") {
			return false
		}
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return true
	})
	p, q := open(t, url, "/"), open(t, url, "/")
	p.expect("status of 503")
	q.expect("status of 503")
	p.reads("#status", "Live")
	rows := func(p *tab) string {
		return plain(eval[string](p, `[document.querySelector('#answer'), ...document.querySelectorAll('.chip:not([hidden])'), ...document.querySelectorAll('fb-list .sizer .row')].map((e) => e.innerText).join('\n')`))
	}
	same := func(after string) {
		t.Helper()
		q.do(chromedp.Reload())
		q.reads("fb-list", "search")
		q.reads("#status", "Live")
		if !comesTrueWithin(10*time.Second, func() bool { return rows(p) == rows(q) }) {
			t.Errorf("after %s the page reads\n%s\nand after a reload\n%s", after, rows(p), rows(q))
		}
	}
	for _, step := range everything(t, b, c, &clock) {
		if strings.HasPrefix(step.name, "other settings: enforce, and") {
			break // what new limits are no event tells; the numbers do, which are not to be had here
		}
		clock.Advance(time.Second)
		step.do()
		same(step.name)
	}
	remove()
	p.until("it is not removed", func() bool { return !strings.Contains(p.text("fb-list"), "payments") })
	same("a removal")
}

// comesTrueWithin is comesTrue where the test goes on if it does not.
func comesTrueWithin(limit time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(limit); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// A tab that is open for long keeps what there is, not what there was; and when
// breakers come and go it does not read the whole past again.
func TestATabThatIsOpenForLongDoesNotGrow(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.breaker("payments", tripping())
	registry := fusebox.Registry{Config: func(string) fusebox.Config { return fusebox.Config{Consecutive: 1, OpenFor: hour, OpenForMax: hour} }}
	s.admin.AddRegistry("host ", &registry)
	p := modules(s)
	startStore(p)
	eval[any](p, "store.select('payments')")
	size := func(what string) int { return eval[int](p, "store."+what) }
	for round := range 4 {
		for i := range 50 {
			name := fmt.Sprintf("%d-%d", round, i)
			calls(registry.Get(name), 0, 1)
		}
		p.until("the breakers that came are not there", func() bool { return size("breakers.size") == 51 })
		for i := range 50 {
			registry.Delete(fmt.Sprintf("%d-%d", round, i))
		}
		p.until("the breakers that went are there", func() bool { return size("breakers.size") == 1 })
	}
	full := func() int {
		return eval[int](p, "asked.filter((u) => u.includes('/api/history') && !u.includes('last_event_id')).length")
	}
	if n := full(); n != 1 {
		t.Errorf("the whole history was read %d times, want once", n)
	}
	if n := eval[int](p, "asked.filter((u) => u.endsWith('/api/breakers')).length"); n < 8 {
		t.Errorf("the breakers were listed %d times, want at least 8", n)
	}
	if n := size("timeline.size"); n != 200 {
		t.Errorf("%d time lines of breakers, want 200: their past is on the axis", n)
	}
	// Breakers that nobody looks at are asked for when they change, and not followed.
	var standing []*fusebox.Breaker
	for i := range 30 {
		standing = append(standing, s.breaker(fmt.Sprintf("standing %d", i), fusebox.Config{Consecutive: 1, OpenFor: hour, OpenForMax: hour}))
	}
	p.until("those that were added are not there", func() bool { return size("breakers.size") == 31 })
	for _, b := range standing {
		calls(b, 0, 1)
	}
	p.until("they are not asked for", func() bool {
		return eval[int](p, "[...store.breakers.values()].filter((b) => b.totals.failures === 1).length") == 30 && size("stale.size") == 0
	})
	const many = 20_000
	for i := range many {
		if err := s.admin.Publish("test", i); err != nil {
			t.Fatal(err)
		}
	}
	p.until("the last event is not there", func() bool { return eval[bool](p, fmt.Sprintf("store.events.at(-1).data === %d", many-1)) })
	const most = 16_384
	for what, limit := range map[string]int{
		"events.length": most * 11 / 10, "written.length": most * 11 / 10, "marked.length": most * 11 / 10,
		"timeline.size": 230, "breakers.size": 31, "touched.size": 31, "stale.size": 31, "details.size": 1, "samples.size": 1,
		"watched.size": 1, "refused.length": 64, "sums.length": 2160, "hidden.length": 0,
	} {
		if n := size(what); n > limit {
			t.Errorf("the store has %d of %s, want at most %d", n, what, limit)
		}
	}
	if n := full(); n != 1 {
		t.Errorf("the whole history was read %d times, want once", n)
	}
	eval[any](p, "store.forget(), null")
	if n := size("events.length"); n != most {
		t.Errorf("%d events are kept, want %d", n, most)
	}

	// Hours later all of that is forgotten, and what comes then is kept.
	left := eval[[]int](p, `(() => {
		const real = Date.now;
		try {
			Date.now = () => real() + 7 * 3600_000;
			store.forget();
			return [store.events.length, store.written.length, store.marked.length, store.timeline.size, store.audits.length, Math.round(Math.abs(store.known - store.now()) / 1000)];
		} finally {
			Date.now = real;
		}
	})()`)
	if fmt.Sprint(left) != "[0 0 0 0 0 0]" {
		t.Errorf("after 7 h there are %v events, audit records, marks, time lines, changes, and seconds that it says it knows", left)
	}
	calls(registry.Get("late"), 0, 1)
	p.until("what comes later is not kept", func() bool { return eval[int](p, "store.records('host late').length") == 1 })
}

func TestOfWhatWasSeenAQuarterOfAnHourIsKept(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.breaker("payments", fusebox.Config{})
	p := modules(s)
	startStore(p)
	eval[any](p, `Object.defineProperty(document, 'hidden', { get: () => true }), store.select('payments')`)
	got := eval[[]float64](p, `(() => {
		const b = store.breakers.get('payments');
		store.seen = [];
		const began = 1_700_000_000_000;
		for (let i = 0; i <= 1200; i++) store.merge({ ...b, totals: { ...b.totals, successes: 3 * i } }, new Date(began + i * 1000).toISOString(), Infinity);
		const { seen } = store;
		const points = store.points((t) => t.successes);
		return [seen.length, seen.at(-1).at - seen[0].at, points.length, Math.min(...points.map((x) => x.value)), Math.max(...points.map((x) => x.value)), store.samples.get('payments').length];
	})()`)
	// One in 2 s, over 15 min and the one before them.
	if got[0] < 450 || got[0] > 453 || got[1] < 900_000 || got[1] > 904_000 || got[2] != got[0]-1 || got[3] != 3 || got[4] != 3 || got[5] > 10 {
		t.Errorf("%v are kept, want 451 of 15 min, with 3 a second in each", got)
	}
	eval[any](p, "store.select(null), store.select('payments')")
	if n := eval[int](p, "store.seen.length"); n > 2 {
		t.Errorf("of a breaker that is selected anew %d are kept from before", n)
	}
}

func TestOddNamesAreAskedForAsTheyAre(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	names := []string{"a/b", "100% sure", "größe 東京 🚀", "two  spaces", "a+b&only=c", "d?e#f", "%2F", "~", "back\\slash", `"quoted"`}
	breakers := map[string]*fusebox.Breaker{}
	for _, name := range names {
		breakers[name] = s.breaker(name, tripping())
	}
	p := open(t, s.url, "/")
	p.reads("#status", "Live")
	for _, name := range names {
		quoted := fmt.Sprintf("%q", name)
		href := eval[string](p, fmt.Sprintf(`[...document.querySelectorAll('fb-list a')].find((a) => a.textContent === %s)?.getAttribute('href') ?? ''`, quoted))
		if href == "" {
			t.Errorf("%s has no link", name)
			continue
		}
		eval[any](p, fmt.Sprintf("location.hash = %q, null", href))
		p.until(name+" has no detail", func() bool {
			return eval[string](p, `document.querySelector('fb-detail h2').textContent`) == name && strings.Contains(p.text("fb-detail"), "Settings") && strings.Contains(p.text("fb-detail"), "never open")
		})
		calls(breakers[name], 24, 0)
		p.reads("fb-detail", "24 in all") // of the detail that is asked for
		eval[any](p, "location.hash = '#/', null")
		// The row by itself, from the samples that are asked for by name.
		p.until(name+" has no numbers in its row", func() bool {
			text := eval[string](p, fmt.Sprintf(`[...document.querySelectorAll('fb-list .sizer .row')].find((r) => r.querySelector('a').textContent === %s)?.querySelector('.c-calls').textContent ?? ''`, quoted))
			return strings.HasSuffix(text, "/s")
		})
		calls(breakers[name], 0, 41)
		p.until(name+" is not open", func() bool {
			text := eval[string](p, fmt.Sprintf(`[...document.querySelectorAll('fb-list .sizer .row')].find((r) => r.querySelector('a').textContent === %s)?.querySelector('.c-state').innerText ?? ''`, quoted))
			return plain(text) == "open"
		})
	}
	p.reads("h1", fmt.Sprintf("%d breakers open", len(names)))
}

// The token is in the memory of the page, and nowhere that a browser writes to a disk.
func TestTheTokenIsStoredNowhere(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.breaker("payments", fusebox.Config{})
	p := open(t, s.url, "/#/breaker/payments")
	p.click("button", "Shadow")
	p.reads("dialog", "keeps it in its memory only, until you close or reload it", "nothing is stored", "no other tab has it")
	p.fill("textbox", "Reason", "to try")
	p.fill("textbox", "Your name", "anna")
	p.fill("textbox", "Token", token)
	p.click("button", "Yes, shadow")
	p.reads("#note", "Shadow: done for payments")
	const stored = `JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie, history.state, window.name, location.href])`
	if text := eval[string](p, stored); strings.Contains(text, token) {
		t.Errorf("the token is in %s", text)
	}
	if n := eval[int](p, "indexedDB.databases().then((d) => d.length)"); n != 0 {
		t.Errorf("there are %d databases", n)
	}
	p.click("button", "Reset") // it is known still
	if n := p.the("textbox", "Token"); n.value == "" {
		t.Error("the token is asked for again")
	}
	p.click("button", "Cancel")
	q := open(t, s.url, "/#/breaker/payments")
	q.click("button", "Reset")
	if n := q.the("textbox", "Token"); n.value != "" {
		t.Error("another tab has the token")
	}
	p.do(chromedp.Reload())
	p.click("button", "Reset")
	if n := p.the("textbox", "Token"); n.value != "" {
		t.Error("the token is there after a reload")
	}
}

// A reader is told each time, in a region that was there before.
func TestWhatWasDoneIsToldEachTime(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.breaker("payments", fusebox.Config{})
	p := open(t, s.url, "/#/breaker/payments")
	n := p.the("heading", "payments")
	if n.role != "heading" {
		t.Fatal("no detail")
	}
	there := false
	for _, n := range p.tree() {
		there = there || n.role == "status" && n.name == "" && n.properties["live"] == "polite"
	}
	if !there {
		t.Error("before there is something to tell, there is no region for it")
	}
	eval[any](p, `window.told = []; new MutationObserver(() => told.push(document.querySelector('#told').textContent))
		.observe(document.querySelector('#told'), { childList: true, characterData: true, subtree: true }), null`)
	for i := range 3 { // the last is the same text as the one before it
		p.click("button", "Reset")
		p.fill("textbox", "Reason", "to try")
		p.fill("textbox", "Your name", "anna")
		p.fill("textbox", "Token", token)
		p.click("button", "Yes, reset")
		p.until("nobody is told", func() bool { return eval[int](p, "told.length") == i+1 })
	}
	told := eval[[]string](p, "told")
	for i, text := range told {
		if plain(text) != "Reset: done for payments" {
			t.Errorf("a reader is told %q", text)
		}
		if i > 0 && text == told[i-1] {
			t.Error("a reader that compares texts is not told again")
		}
	}
}

// Question 7, of those who were refused; and question 5 where the program knows.
func TestRefusalsAndFallbacksAreShown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var answered atomic.Uint64
	s.admin.FallbacksOf = func() map[string]uint64 { return map[string]uint64{"payments": answered.Load()} }
	s.breaker("payments", fusebox.Config{})
	s.breaker("search", fusebox.Config{})
	answered.Store(17)
	for range 3 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/api/breakers/payments/reset", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	p := open(t, s.url, "/#/changes")
	p.reads("#changes", "unauthenticated from 127.0.0.1:", "payments", "reset", "refused (401, 3 times): a write needs the header")
	p.click("link", "payments")
	p.reads("fb-detail", "Fallbacks", "17 in all", "unauthenticated from 127.0.0.1:")
	answered.Add(6)
	p.reads("fb-detail", "23 in all")
	p.click("link", "search")
	p.reads("fb-detail h2", "search")
	p.reads("fb-detail", "Slow calls")
	if strings.Contains(p.text("fb-detail"), "Fallbacks") {
		t.Error("of a breaker of which nothing is known fallbacks are shown")
	}
	// While the page is open, too.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/api/breakers/gone/lift", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	p.click("link", "Changes")
	p.reads("#changes", `refused (404): there is no breaker "gone"`)
}

// When another day has begun, times of the one before are to be read with it: the
// list of changes is drawn anew, though nothing has changed in it. Here the day
// changes with the zone.
func TestChangesAreDrawnAnewOnAnotherDay(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	publish(s, 1, 1)
	p := open(t, s.url, "/#/changes")
	p.reads("#changes", "n1")
	zone := "Pacific/Kiritimati" // far ahead, where it is another day when it is afternoon in Berlin
	if time.Now().In(berlin(t)).Hour() < 12 {
		zone = "Pacific/Pago_Pago" // far behind
	}
	eval[any](p, "document.querySelector('#changes time').dataset.before = '', null")
	call(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
	p.until("it is not drawn anew", func() bool {
		return eval[bool](p, "document.querySelector('#changes time:not([data-before])') !== null")
	})
}

package browser_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/fusebox-go/fusebox"
)

// post writes to the API, and returns the status of the answer.
func (s *stage) post(path, body string) int {
	s.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.url+"/"+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// pointed is the text of the tooltip that the browser shows at the middle of an element.
func pointed(p *tab, element string) string {
	p.Helper()
	return plain(eval[string](p, fmt.Sprintf(`((e) => {
		if (!e) return '';
		const r = e.getBoundingClientRect();
		return document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2)?.closest('[title]')?.title ?? '';
	})(%s)`, element)))
}

func TestMarksOfTheAxisTellWhoAndWhy(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", fusebox.Config{})
	s.breaker("search", fusebox.Config{})
	p := open(t, s.url, "/")
	p.reads("#status", "Live")
	p.click("button", "15 min")
	post := func(action, body string) {
		t.Helper()
		r := s.post("api/breakers/payments/"+action, body)
		if r != 200 {
			t.Fatalf("%s: %d", action, r)
		}
	}
	post("override", `{"mode":"force-closed","reason":"INC-2041, stock is being moved","by":"anna","ttl":"15m"}`)
	at := b.Snapshot().Last.At.In(berlin(t)).Format("15:04")
	p.until("the mark of the override does not tell who and why", func() bool {
		return contains(pointed(p, `document.querySelector('.axis .marked')`), at, "payments, force-closed, by anna: INC-2041, stock is being moved")
	})
	marks := func(name string) int {
		return eval[int](p, fmt.Sprintf(`[...document.querySelectorAll('.sizer .row')].find((r) => r.innerText.includes(%q)).querySelectorAll('fb-band .mark').length`, name))
	}
	p.until("the band has no mark", func() bool { return marks("payments") == 1 })
	if n := marks("search"); n != 0 {
		t.Errorf("the band of another breaker has %d marks", n)
	}
	p.click("link", "payments")
	p.reads("fb-detail h2", "payments")
	p.until("the mark on the band does not tell who and why", func() bool {
		age := time.Since(b.Snapshot().Last.At).Seconds()
		p.do(hover(p, `document.querySelector('fb-detail fb-band')`, 1-age/900))
		return contains(p.text(".tip"), "payments, force-closed, by anna: INC-2041, stock is being moved", "closed for ")
	})
	if err := s.admin.Publish("reload", map[string]any{"cause": "SIGHUP", "success": true, "changes": "2 changed"}); err != nil {
		t.Fatal(err)
	}
	p.until("the mark of the reload does not tell what and why", func() bool {
		return contains(pointed(p, `[...document.querySelectorAll('.axis .marked')].at(-1)`), "reload: 2 changed, SIGHUP")
	})
	p.until("a reload is not marked on all bands", func() bool { return marks("payments") == 2 && marks("search") == 1 })
}

func TestABandTellsEachPeriodInWords(t *testing.T) {
	t.Parallel()
	past := liveThrough(t)
	p := open(t, past.serve(t), "/#/breaker/geocoder")
	p.reads("fb-detail", "open 6 times")
	// The breaker is closed, trips, probes, reopens and closes: each is there to be pointed at.
	var said []string
	for x := 0.62; x < 0.75; x += 0.002 {
		p.do(hover(p, `document.querySelector('fb-detail fb-band')`, x))
		if text := p.text(".tip"); !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	all := strings.Join(said, "\n")
	for _, want := range []string{"tripped 03:4", "failure rate ", "% ≥ 50 % (", "last error: i/o timeout open for ", "reopened 03:4", "of 1 probe failed", "closed 03:47:55: 3 probes succeeded closed for 18 min", "so far"} {
		if !strings.Contains(all, want) {
			t.Errorf("nowhere on the band it says %q: %q", want, said)
		}
	}
}

func TestNothingMovesWhereReducedMotionIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, motion := range []string{"reduce", "no-preference"} {
		s := newStage(t)
		b := s.breaker("payments", tripping())
		p := open(t, s.url, "/")
		call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: motion}}})
		p.expect("ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE", "Failed to fetch")
		p.reads("fb-list", "payments")
		p.reads("#status", "Live")
		eval[any](p, `window.moved = []; for (const kind of ['transitionrun', 'animationstart']) document.addEventListener(kind, (e) => window.moved.push(e.target.className + ' ' + (e.propertyName ?? e.animationName)))`)
		calls(b, 24, 41)
		p.reads("h1", "1 breaker open")
		s.cut()
		p.reads("#lost", "Connection lost")
		eval[any](p, `new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`)
		moved := eval[[]string](p, `window.moved`)
		could := eval[int](p, `[...document.querySelectorAll('*')].filter((e) => { const s = getComputedStyle(e); return (s.transitionDuration + s.animationDuration).match(/[1-9]/); }).length`)
		if still := motion == "reduce"; still != (len(moved) == 0) || still != (could == 0) {
			t.Errorf("with %s %d elements could move, and these have: %q", motion, could, moved)
		}
	}
}

// TestServeInAnotherProcess is no test: it is the program that
// TestTimesAreInTheZoneOfTheViewer starts.
func TestServeInAnotherProcess(t *testing.T) {
	if os.Getenv("FUSEBOX_BROWSER_SERVE") == "" {
		return
	}
	s := newStage(t)
	calls(s.breaker("payments", tripping()), 24, 41)
	zone, ahead := time.Now().Zone()
	fmt.Println("serves", s.url, zone, ahead)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the other one has gone
}

func TestTimesAreInTheZoneOfTheViewer(t *testing.T) {
	t.Parallel()
	// The context of a test ends before its tabs are closed, which still ask.
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	server := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestServeInAnotherProcess$")
	server.Env = append(os.Environ(), "FUSEBOX_BROWSER_SERVE=1", "TZ=Asia/Tokyo")
	input, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		stop()
		_ = server.Wait()
	})
	var url, zone string
	var ahead int
	for lines := bufio.NewScanner(output); url == "" && lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "serves %s %s %d", &url, &zone, &ahead)
	}
	if zone != "JST" || ahead != 9*3600 {
		t.Fatalf("the server at %q is in the zone %q, %d s ahead of UTC", url, zone, ahead)
	}
	for _, place := range []string{"America/St_Johns", "Pacific/Auckland"} {
		here, err := time.LoadLocation(place)
		if err != nil {
			t.Fatal(err)
		}
		p := open(t, url, "/#/breaker/payments", inZone(place))
		p.reads("fb-detail .records", "tripped")
		utc := pointed(p, `document.querySelector('fb-detail .records time')`)
		at, err := time.Parse("2006-01-02 15:04:05 UTC", utc)
		if err != nil {
			t.Fatalf("on hover the time is %q: %v", utc, err)
		}
		if age := time.Since(at); age < -time.Minute || age > hour {
			t.Errorf("on hover the time is %q, %v ago", utc, age)
		}
		clock := at.In(here).Format("15:04:05")
		p.reads("fb-detail .records time", clock)
		p.reads("fb-detail .d-why", "tripped "+clock+": ", "failure rate 63 %")
		p.reads("fb-detail .d-status", "since "+clock)
		p.reads("fb-detail .d-axis", time.Now().Add(-hour).In(here).Format("15:0")[:3])
	}
}

// largeText is what a reader asks the browser for whose eyes are not good.
func largeText(size int64) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.SetFontSizes, page.SetFontSizesParams{FontSizes: &page.FontSizes{Standard: size, Fixed: size}})
		return err
	})
}

func TestRowsGrowWithTheText(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for i := range 300 {
		s.breaker(fmt.Sprintf("breaker %03d", i), fusebox.Config{})
	}
	for _, width := range []int64{1440, 360} {
		p := open(t, s.url, "/", largeText(32))
		p.size(width, 900)
		p.reads("fb-list", "breaker 000")
		if size := eval[string](p, `getComputedStyle(document.querySelector('.sizer .c-name')).fontSize`); size < "26px" || len(size) != 4 {
			t.Errorf("at %d text is %s high", width, size)
		}
		p.until("text is cut off or rows overlap", func() bool {
			return eval[bool](p, `(() => {
				const rows = [...document.querySelectorAll('.sizer .row')];
				const tops = rows.map((r) => r.getBoundingClientRect()).sort((a, b) => a.top - b.top);
				return rows.length > 3 && rows.every((r) => r.scrollHeight <= r.clientHeight && [...r.children].every((c) => c.getBoundingClientRect().bottom <= r.getBoundingClientRect().bottom)) &&
					tops.every((r, i) => i === 0 || Math.abs(r.top - tops[i - 1].bottom) < 0.5);
			})()`)
		})
		if wide := eval[int64](p, `document.documentElement.scrollWidth`); wide > width {
			t.Errorf("at %d the page is %d wide", width, wide)
		}
	}
	p := open(t, s.url, "/", largeText(32))
	p.reads("fb-list", "breaker 000")
	at := func() int {
		return eval[int](p, `Number(document.activeElement.closest('.row')?.getAttribute('aria-rowindex') ?? 0) - 2`)
	}
	eval[any](p, `document.querySelector('fb-list .sizer a').focus()`)
	p.press(kb.Home)
	p.until("Home does not lead to the first", func() bool { return at() == 0 })
	seen := eval[int](p, `Math.floor(document.querySelector('.scroller').clientHeight / document.querySelector('.sizer .row').getBoundingClientRect().height)`)
	p.press(kb.PageDown)
	p.until(fmt.Sprintf("a page of %d rows is not as far as can be seen, without a gap", seen), func() bool { return at() == max(1, seen-1) })

	// It changes while the list is open: the place in it stays.
	p.press(kb.End)
	p.until("End does not lead to the end", func() bool { return at() == 299 })
	p.do(largeText(16))
	p.until("the rows do not shrink", func() bool {
		return eval[bool](p, `document.querySelector('.sizer .row').getBoundingClientRect().height < 50`)
	})
	p.until("the place in the list is lost", func() bool { return strings.Contains(p.text("fb-list"), "breaker 290") })
}

func TestNothingInARowOverlaps(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := tripping()
	c.Mode, c.OpenFor = fusebox.Shadow, time.Nanosecond
	calls(s.breaker("a-name-that-is-too-long.for.a.column.of.any.list.that.has.others.beside.it", c), 24, 41)
	s.breaker("forced-with-another-name-that-is-too-long.for.a.column", fusebox.Config{}).Override(fusebox.ForceOpen, fusebox.Note{Until: time.Now().Add(55 * time.Minute)})
	p := open(t, s.url, "/")
	p.reads("fb-list", "would be half-open", "forced open", "in 5")
	for _, address := range []string{"#/", "#/breaker/a-name-that-is-too-long.for.a.column.of.any.list.that.has.others.beside.it"} {
		eval[any](p, fmt.Sprintf("location.hash = %q", address))
		for _, width := range []int64{360, 500, 768, 900, 1000, 1100, 1200, 1280, 1360, 1440, 1600, 1750, 1920, 2200, 3840} {
			if width < 1100 && address != "#/" {
				continue // there the list is not beside it
			}
			p.size(width, 900)
			p.until(fmt.Sprintf("at %d and %.9s parts of a row overlap", width, address), func() bool {
				return eval[bool](p, `[...document.querySelectorAll('.sizer .row')].every((row) => {
					const inner = row.getBoundingClientRect();
					const texts = [...row.querySelectorAll('.state, .c-name a, .c-next')].filter((e) => e.checkVisibility()).map((e) => {
						const range = document.createRange();
						range.selectNodeContents(e);
						const r = e.matches('a') ? e.getBoundingClientRect() : range.getBoundingClientRect();
						return { left: r.left, right: r.right, top: r.top, bottom: r.bottom };
					});
					return texts.every((a, i) => a.left >= inner.left && a.right <= inner.right &&
						texts.every((b, j) => i === j || a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top));
				})`)
			})
		}
	}
}

func TestTheAxisHasRoomForItsTimes(t *testing.T) {
	t.Parallel()
	past := liveThrough(t)
	p := open(t, past.serve(t), "/")
	for _, width := range []int64{360, 800, 1440, 3840} {
		p.size(width, 900)
		for _, button := range []string{"15 min", "1 h", "6 h"} {
			p.click("button", button)
			p.until(fmt.Sprintf("at %d the times of %s overlap or are missing", width, button), func() bool {
				return eval[bool](p, `(() => {
					const axis = document.querySelector('.axis').getBoundingClientRect();
					const ticks = [...document.querySelectorAll('.axis .tick, .axis .now')].map((e) => e.getBoundingClientRect()).sort((a, b) => a.left - b.left);
					return ticks.length > 1 && ticks[0].left >= axis.left - 1 && ticks.every((r, i) => i === 0 || r.left > ticks[i - 1].right + 2);
				})()`)
			})
		}
		p.until(fmt.Sprintf("at %d a name of a column is cut off", width), func() bool {
			return eval[bool](p, `(() => {
				const head = document.querySelector('.row.head').getBoundingClientRect();
				return [...document.querySelectorAll('.row.head > *')].filter((c) => c.checkVisibility()).every((c) => c.getBoundingClientRect().top >= head.top && c.getBoundingClientRect().bottom <= head.bottom);
			})()`)
		})
	}
}

func TestAReaderHearsStatesOfTheListAndOfTheDetail(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", tripping())
	calls(b, 24, 41)
	b.Override(fusebox.ForceOpen, fusebox.Note{By: "anna", Reason: "INC-2041"})
	shadow := tripping()
	shadow.Mode = fusebox.Shadow
	calls(s.breaker("search", shadow), 24, 41)
	s.breaker("accounts", fusebox.Config{})
	p := open(t, s.url, "/#/breaker/payments")
	p.reads("fb-detail", "Set to force-open", "At the trip", "failure-rate")
	p.reads("fb-detail .audit, fb-detail section:nth-of-type(6)", "Nobody has changed anything since ")
	tree := p.tree()
	has := func(role, name string) {
		t.Helper()
		if !slices.ContainsFunc(tree, func(n node) bool { return n.role == role && plain(n.name) == name }) {
			t.Errorf("there is no %s %q", role, name)
		}
	}
	for _, name := range []string{"forced open", "would be open", "closed", "when lifted"} {
		has("cell", name)
	}
	for _, name := range []string{"Since when, how often", "Why", "How close", "What it costs", "Next try", "Who did this", "Settings"} {
		has("heading", name)
		has("region", name)
	}
	for _, name := range []string{"State", "Breaker", "Time line", "Next try"} {
		has("columnheader", name)
	}
	has("link", "Back to all breakers")
	has("table", "Settings")
	for _, n := range tree {
		if n.role == "image" && (n.name == "" || strings.HasPrefix(n.name, "NaN")) {
			t.Errorf("a drawing says %q", n.name)
		}
	}
	p.size(360, 740)
	eval[any](p, `location.hash = '#/changes'`)
	post := s.post("api/breakers/payments/lift", `{"reason":"it is moved","by":"joe"}`)
	if post != 200 {
		t.Fatalf("lift: %d", post)
	}
	p.reads("#changes", "joe", "payments", "lift", "it is moved")
	tree = p.tree()
	has("table", "Changes")
	has("columnheader", "Why")
	has("cell", "it is moved")
}

package browser_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxadmin/page"
)

// inZone makes the viewer be in a zone.
func inZone(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
		return err
	})
}

// altered serves the page of a stage over another handler of the API.
func (s *stage) altered(api http.HandlerFunc) (url string) {
	s.Helper()
	return serve(s, page.Handler(api))
}

// later is an answer with another time at the server in it.
type later struct {
	http.ResponseWriter
	by time.Duration
}

var now = regexp.MustCompile(`"now":\s*"([^"]*)"`)

func (l later) Write(b []byte) (int, error) {
	_, err := l.ResponseWriter.Write(now.ReplaceAllFunc(b, func(field []byte) []byte {
		at, err := time.Parse(time.RFC3339Nano, string(now.FindSubmatch(field)[1]))
		if err != nil {
			panic(err)
		}
		return fmt.Appendf(nil, `"now":%q`, at.Add(l.by).Format(time.RFC3339Nano))
	}))
	return len(b), err
}

func TestARateHasTheDigitsItNeeds(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rate := func(name string, threshold float64, minimum, good, bad int) {
		b := s.breaker(name, fusebox.Config{FailureRate: threshold, MinCalls: minimum, Consecutive: -1, Window: hour, OpenFor: hour, OpenForMax: hour})
		calls(b, good, bad)
	}
	rate("an eighth", 0.125, 8, 7, 1)
	rate("a two-hundredth", 0.005, 200, 199, 1)
	rate("a little above", 0.5042, 117, 58, 59)
	rate("almost a half", 0.5, 20, 64, 63)
	rate("almost all", 1, 20, 1, 2499)
	rate("one of many", 0.5, 20, 4999, 1)
	rate("a little below", 0.5043, 117, 58, 59)
	p := open(t, s.url, "/")
	for name, want := range map[string]string{
		"an eighth":       "failure rate 12.5 % ≥ 12.5 % (1 of 8 calls in 1 h)",
		"a two-hundredth": "failure rate 0.5 % ≥ 0.5 % (1 of 200 calls in 1 h)",
		"a little above":  "failure rate 50.43 % ≥ 50.42 % (59 of 117 calls in 1 h)",
	} {
		p.click("link", name)
		p.reads("fb-detail h2", name)
		p.reads("fb-detail .d-why", want)
	}
	for name, want := range map[string]string{
		"almost a half":  "49.6 % of 50 %",
		"almost all":     "99.96 % of 100 %",
		"one of many":    "0.02 % of 50 %",
		"a little below": "50.427 % of 50.43 %",
	} {
		p.click("link", name)
		p.reads("fb-detail .rule-text", want)
		p.reads("fb-list", want)
		if text := plain(eval[string](p, `document.querySelector('fb-detail fb-meter').getAttribute('aria-valuetext')`)); text != want {
			t.Errorf("of %s a reader hears %q, want %q", name, text, want)
		}
	}
}

func TestWhyTellsTheLastChangeAndThenTheTrip(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", tripping())
	calls(b, 24, 41)
	p := open(t, s.url, "/#/breaker/payments")
	trip := "tripped " + b.Snapshot().Last.At.In(berlin(t)).Format("15:04:05") + ": failure rate 63 % ≥ 50 % (41 of 65 calls in 10 s); last error: " + errRefused.Error()
	p.reads("fb-detail .d-why", trip)
	if text := p.text("fb-detail .d-earlier"); text != "" {
		t.Errorf("it is told twice: %s", text)
	}
	b.Override(fusebox.ForceOpen, fusebox.Note{By: "anna", Reason: "INC-2041"})
	last := "forced open " + b.Snapshot().Last.At.In(berlin(t)).Format("15:04:05") + " by anna: INC-2041"
	p.until("who forced it is not told", func() bool { return p.text("fb-detail .d-why") == last })
	p.until("the trip is not told", func() bool { return p.text("fb-detail .d-earlier") == "Before that, it "+trip })
	p.reads("fb-detail", "Not judged now: it is open, set to force-open.")
}

func TestWhatTrippedBeforeItIsKnownOfIsShownInItsMode(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	// They trip before the handler listens to them: no event tells of it.
	add := func(name string, c fusebox.Config, before func(*fusebox.Breaker)) *fusebox.Breaker {
		b := fusebox.New(name, c)
		before(b)
		s.admin.Add(b)
		return b
	}
	trip := func(b *fusebox.Breaker) { calls(b, 24, 41) }
	shadow := tripping()
	shadow.Mode = fusebox.Shadow
	brief := shadow
	brief.OpenFor = time.Nanosecond
	add("really", tripping(), trip)
	add("shadow", shadow, trip)
	add("over", brief, trip)
	lifted := add("lifted", tripping(), func(b *fusebox.Breaker) {
		b.Override(fusebox.Shadow, fusebox.Note{})
		calls(b, 24, 41)
	})
	lifted.Lift(fusebox.Note{By: "joe"})
	p := open(t, s.url, "/")
	p.reads("#status", "Live")
	band := func(name string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('.sizer .row')].find((r) => r.querySelector('a').innerText === %q)?.querySelector('fb-band')`, name)
	}
	for name, want := range map[string]string{
		"really": "open once, ",
		"shadow": "would have been open once, ",
		"over":   "would be half-open",
		"lifted": "open once, .* in all; would have been open once, ",
	} {
		p.until("the band of "+name+" does not read "+want, func() bool {
			if name == "over" { // its open period was too short to be drawn as one
				return eval[int](p, band(name)+`?.querySelectorAll('.half-open.would').length ?? 0`) > 0 && eval[int](p, band(name)+`.querySelectorAll(':is(.open, .half-open):not(.would)').length`) == 0
			}
			return regexp.MustCompile("^" + want).MatchString(plain(eval[string](p, band(name)+`?.getAttribute('aria-label') ?? ''`)))
		})
	}
	p.until("the band tells nothing at the pointer", func() bool {
		p.do(hover(p, band("shadow"), 0.9999))
		return contains(p.text(".tip"), "would have tripped ", "failure rate 63 % ≥ 50 %", "would be open for ", " so far")
	})
	p.until("the band knows what was before", func() bool {
		p.do(hover(p, band("shadow"), 0.5))
		return p.text(".tip") == "not known"
	})
	p.click("link", "over")
	p.reads("fb-detail", "would be half-open", "shadow", "In the last 1 h: would have been open once, 0 s in all; not known before ")
}

func TestOpenOnceIsToldOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", tripping())
	calls(b, 24, 41)
	b.Override(fusebox.ForceOpen, fusebox.Note{By: "anna"})
	b.Override(fusebox.ForceOpen, fusebox.Note{By: "anna", Reason: "longer"})
	b.Override(fusebox.Shadow, fusebox.Note{By: "anna"})
	calls(b, 24, 41)
	p := open(t, s.url, "/")
	p.the("image", "open once, ")
	again := s.breaker("search", tripping())
	for range 3 {
		calls(again, 24, 41)
		again.Reset(fusebox.Note{})
	}
	p.the("image", "open 3 times, ")
}

func TestWhatIsNotKnownYetIsNotCalledNeverOpen(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.breaker("payments", tripping())
	told := make(chan struct{})
	p := open(t, s.altered(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/history" {
			select {
			case <-told:
			case <-r.Context().Done():
			}
		}
		s.admin.ServeHTTP(w, r)
	}), "/#/breaker/payments")
	p.reads("fb-detail", "In the last 1 h: not known yet.")
	p.the("image", "not known yet")
	if _, ok := p.find("image", "never open"); ok {
		t.Error("of what is not known it is said that it was never open")
	}
	close(told)
	p.reads("fb-detail", "In the last 1 h: never open; not known before ")
}

func TestTheWordsOfShadow(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	c := tripping()
	c.Mode, c.OpenFor = fusebox.Shadow, time.Nanosecond
	b := s.breaker("search", c)
	calls(b, 24, 41)
	calls(b, 0, 1) // a probe
	long := tripping()
	long.Mode = fusebox.Shadow
	calls(s.breaker("payments", long), 24, 41)
	p := open(t, s.url, "/#/breaker/search")
	p.reads("h1", "Nothing is open")
	p.the("button", "2 would be open") // or half-open: neither rejects
	p.reads("fb-list", "would be open", "would be half-open")
	p.reads("fb-detail .d-status", "would be half-open", "shadow")
	p.reads("fb-detail .records", "would have reopened", "would have begun to probe: the open period is over", "would have tripped: failure rate 63 % ≥ 50 %")
	p.reads("fb-detail .d-why", "would have reopened ", "1 of 1 probe failed")
	p.reads("fb-detail .d-earlier", "Before that, it would have tripped ")
	text := regexp.MustCompile(`would (have been|have|be) `).ReplaceAllString(p.text("fb-detail"), "would-")
	if found := regexp.MustCompile(` (tripped|reopened|began to probe|open once|open \d+ times|half-open since)`).FindString(text); found != "" {
		t.Errorf("of a breaker that rejects nothing it says %q in: %s", found, text)
	}
}

// Times of yesterday have their date, also in a tab that was open all night.
func TestAfterMidnightTimesHaveTheirDate(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", fusebox.Config{})
	b.Override(fusebox.ForceOpen, fusebox.Note{By: "anna"})
	b.Lift(fusebox.Note{By: "anna"})
	_ = b.Do(t.Context(), func(ctxIgnored) error { return nil }) // a probe
	var by atomic.Int64
	url := s.altered(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/breakers") && r.Method == http.MethodGet {
			w = later{w, time.Duration(by.Load())}
		}
		s.admin.ServeHTTP(w, r)
	})
	ahead := 23 - time.Now().UTC().Hour() // where it is eleven in the evening
	if ahead > 12 {
		ahead -= 24
	}
	zone := time.FixedZone("", ahead*3600)
	name := fmt.Sprintf("Etc/GMT%+d", -ahead)
	history := b.History()
	at := history[len(history)-1].At.In(zone)
	if err := s.admin.Publish("reload", "fusebox.yaml"); err != nil {
		t.Fatal(err)
	}
	p := open(t, url, "/#/breaker/payments", inZone(name))
	q := open(t, url, "/#/changes", inZone(name))
	clock := at.Format("15:04:05")
	places := []string{"fb-list .sizer .c-why", "fb-detail .d-why", "fb-detail .records li"}
	p.size(3840, 2160) // there the list has room for the last change, beside the detail
	for _, place := range places {
		p.reads(place, clock)
	}
	p.reads("fb-detail table", at.Format("15:04"))
	q.reads("#changes", at.Format("15:04"))
	by.Store(int64(hour))
	dated := regexp.MustCompile(at.Format("(2 Jan|Jan 2), 15:04")) // by the browser's language
	for _, place := range append(places, "fb-detail table") {
		p.until(place+" has no date", func() bool { return dated.MatchString(p.text(place)) })
	}
	q.until("the changes have no date", func() bool { return dated.MatchString(q.text("#changes")) })
}

func TestTheFocusAndWhatIsUnfoldedStay(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", fusebox.Config{})
	other := s.breaker("search", fusebox.Config{})
	for range 4 {
		b.Reset(fusebox.Note{By: "joe"})
		other.Reset(fusebox.Note{By: "joe"})
	}
	p := open(t, s.url, "/#/breaker/payments")
	focused := func() string {
		return plain(eval[string](p, `document.hasFocus() ? document.activeElement.localName + ' ' + document.activeElement.innerText : ''`))
	}
	p.click("DisclosureTriangle", "1 earlier record")
	p.until("the earlier records do not open", func() bool {
		return eval[int](p, `document.querySelectorAll('fb-detail details[open] li').length`) == 1
	})
	b.Reset(fusebox.Note{By: "anna"})
	p.reads("fb-detail summary", "2 earlier records")
	if n := eval[int](p, `document.querySelectorAll('fb-detail details[open] li').length`); n != 2 || focused() != "summary 2 earlier records" {
		t.Errorf("%d earlier records are shown, and the focus is on %q", n, focused())
	}

	change := func(label string) {
		t.Helper()
		eval[any](p, fmt.Sprintf(`[...document.querySelectorAll('fb-detail button')].find((b) => b.checkVisibility() && b.innerText === %q).focus()`, label))
		p.press(kb.Enter)
		p.the("dialog", "")
		p.fill("textbox", "Your name", "anna")
		p.fill("textbox", "Token", token)
		p.fill("textbox", "Reason", "INC-2041")
		p.press(kb.Enter)
		p.until("the dialog stays", func() bool { _, open := p.find("dialog", ""); return !open })
	}
	change("Force open")
	p.reads("fb-detail", "forced open", "Set to force-open by anna: INC-2041")
	if got := focused(); got != "button Force open" {
		t.Errorf("after Force open the focus is on %q", got)
	}
	if n := p.the("button", "Force open"); !eval[bool](p, `document.activeElement.getAttribute('aria-current') === 'true'`) {
		t.Errorf("a reader is not told that it is in force: %v", n.properties)
	}
	change("Undo")
	p.until("the override stays", func() bool { return p.text("fb-detail .d-override") == "" })
	p.until("after Undo the focus is not on the title", func() bool { return focused() == "h2 payments" })
	change("Shadow")
	p.reads("fb-detail", "Set to shadow by anna")
	change("Lift override")
	p.until("after Lift override the focus is not on the title", func() bool { return focused() == "h2 payments" })

	p.click("link", "search")
	p.reads("fb-detail summary", "1 earlier record")
	if eval[bool](p, `document.querySelector('fb-detail details').open`) {
		t.Error("of another breaker the earlier records are shown")
	}
}

func TestAReportSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	admin := &fuseboxadmin.Handler{}
	t.Cleanup(admin.Close)
	const many = 205
	for i := range many {
		b := fusebox.New(fmt.Sprintf("open %03d", i), tripping())
		admin.Add(b)
		calls(b, 24, 41)
		b = fusebox.New(fmt.Sprintf("closed %03d", i), fusebox.Config{})
		admin.Add(b)
		b.Reset(fusebox.Note{By: "joe"})
	}
	forced := fusebox.New("forced", fusebox.Config{})
	admin.Add(forced)
	forced.Override(fusebox.ForceClosed, fusebox.Note{By: "anna"})
	var out bytes.Buffer
	if err := page.Report(t.Context(), &out, page.FromHandler(admin)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "incident.html")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	p := open(t, "file://", filepath.ToSlash(file))
	p.reads("#left-out", "This report has everything about 206 of 411 breakers, the most severe first. Of the other 205 it has what the list says")
	show := func(name string) {
		t.Helper()
		eval[any](p, fmt.Sprintf(`location.hash = '#/breaker/' + encodeURIComponent(%q)`, name))
		p.reads("fb-detail h2", name)
	}
	for _, name := range []string{"open 204", "forced"} {
		show(name)
		p.reads("fb-detail", "failure-rate 50% default")
	}
	show("closed 204")
	p.reads("fb-detail", "reset by joe", "The calls of its window are not in this report.", "How close", "0 % of 50 %", "Its probes are not in this report.", "Its settings are not in this report.")
	if strings.Contains(p.text("fb-detail"), "failure-rate") {
		t.Error("it shows the settings of another breaker")
	}
	if empty := eval[[]string](p, `[...document.querySelectorAll('fb-detail section')].filter((s) => s.innerText.trim() === s.querySelector('h3').innerText).map((s) => s.innerText)`); len(empty) > 0 {
		t.Errorf("sections are empty: %q", empty)
	}

	// However many are open, it is a file that can be sent.
	const size = 1 << 20
	var list []string
	for i := range 40 {
		list = append(list, fmt.Sprintf(`{"name":"b%d","path":"api/breakers/b%d","state":"open"}`, i, i))
	}
	out.Reset()
	err := page.Report(t.Context(), &out, func(_ context.Context, path string) ([]byte, error) {
		switch path {
		case "api/breakers":
			return []byte(`{"breakers":[` + strings.Join(list, ",") + `]}`), nil
		case "api/history", "api/config":
			return nil, fs.ErrNotExist
		}
		return []byte(`"` + strings.Repeat("x", size) + `"`), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := out.Len(); n < 10*size || n > 20*size || !strings.Contains(out.String(), "everything about 16 of 40 breakers") {
		t.Errorf("of 40 MB there are %d bytes in the report", n)
	}
}

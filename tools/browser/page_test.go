package browser_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

const hour = time.Hour

func TestABreakerThatTripsIsShownWithinASecondWithoutReload(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := open(t, s.url, "/")
	p.reads("#status", "Live")
	eval[any](p, `window.sameDocument = true; window.seen = {};
		new MutationObserver(() => { window.seen[document.querySelector('h1').innerText] ??= Date.now(); })
			.observe(document.querySelector('h1'), { childList: true, characterData: true, subtree: true })`)
	best := time.Duration(math.MaxInt64) // one of several: the machine may be busy
	for i := 1; i <= 5; i++ {
		b := s.breaker(fmt.Sprint("breaker ", i), tripping())
		p.reads("fb-list", fmt.Sprint("breaker ", i))
		calls(b, 24, 41)
		title := fmt.Sprintf("%d breaker", i)
		p.until("it is not shown", func() bool { return strings.HasPrefix(p.text("h1"), title) })
		seen := eval[float64](p, fmt.Sprintf(`Object.entries(window.seen).find(([text]) => text.startsWith(%q))[1]`, title))
		best = min(best, time.UnixMilli(int64(seen)).Sub(b.Snapshot().Last.At))
	}
	t.Logf("a trip is shown after %v, in the best of five", best)
	if best > time.Second {
		t.Errorf("a trip is shown after %v", best)
	}
	if !eval[bool](p, `window.sameDocument === true`) {
		t.Error("the page was loaded anew")
	}
}

// Question 1.
func TestIsAnythingOpen(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	open1, open2 := s.breaker("zulu", tripping()), s.breaker("payments", tripping())
	probing := s.breaker("search", fusebox.Config{Consecutive: 1, OpenFor: time.Nanosecond})
	shadow := tripping()
	shadow.Mode = fusebox.Shadow
	would := s.breaker("recommendations", shadow)
	forced := s.breaker("inventory", fusebox.Config{})
	s.breaker("accounts", fusebox.Config{})
	p := open(t, s.url, "/")
	p.reads("h1", "Nothing is open")
	if title := eval[string](p, "document.title"); title != "Fusebox" {
		t.Errorf("the title is %q", title)
	}
	for _, b := range []*fusebox.Breaker{open1, open2, would} {
		calls(b, 24, 41)
	}
	calls(probing, 0, 1)
	forced.Override(fusebox.ForceClosed, fusebox.Note{By: "anna"})

	p.reads("h1", "2 breakers open")
	for _, count := range []string{"2 open", "1 half-open", "1 forced", "1 would be open", "2 closed"} {
		p.the("button", count)
	}
	if title := eval[string](p, "document.title"); title != "2 open · Fusebox" {
		t.Errorf("the title is %q", title)
	}
	if icon := eval[string](p, `document.querySelector('link[rel=icon]').href`); !strings.HasSuffix(icon, "/open.svg") {
		t.Errorf("the icon is %s", icon)
	}
	order := func() string {
		return eval[string](p, `[...document.querySelectorAll('fb-list [role=row] a')].map((a) => a.innerText).join(' ')`)
	}
	if got, want := order(), "payments zulu recommendations search inventory accounts"; got != want {
		t.Errorf("the order is %s, want %s", got, want)
	}
	p.click("button", "1 half-open")
	p.until("the filter does not filter", func() bool { return order() == "search" })
	if n := p.the("button", "1 half-open"); n.properties["pressed"] != "true" {
		t.Errorf("the filter is not pressed: %v", n.properties)
	}
	p.click("button", "1 half-open")
	p.fill("searchbox", "Filter by name", "VENT")
	p.until("the name does not filter", func() bool { return order() == "inventory" })
	p.fill("searchbox", "Filter by name", "nothing of this name")
	p.reads("fb-list", "None of 6 breakers matches.")
}

// Question 2.
func TestSinceWhenAndHowOften(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", tripping())
	s.breaker("search", tripping())
	calls(b, 24, 41)
	b.Reset(fusebox.Note{By: "joe", Reason: "try again"})
	calls(b, 24, 41)
	if err := s.admin.Publish("reload", map[string]string{"text": "fusebox.yaml"}); err != nil {
		t.Fatal(err)
	}
	p := open(t, s.url, "/")
	p.until("the band does not say how often", func() bool {
		n, ok := p.find("image", "open 2 times")
		return ok && strings.Contains(n.name, "in all")
	})
	p.the("image", "never open")
	if marks := eval[string](p, `[...document.querySelectorAll('.axis .marked')].map((m) => m.title).join()`); !strings.Contains(marks, "reload: fusebox.yaml") {
		t.Errorf("the marks of the axis are %q", marks)
	}
	for _, button := range []string{"15 min", "6 h", "1 h"} {
		p.click("button", button)
		if n := p.the("button", button); n.properties["pressed"] != "true" {
			t.Errorf("%s is not pressed", button)
		}
	}
	p.click("button", "15 min")
	p.until("the band does not tell the transition", func() bool {
		p.do(hover(p, `[...document.querySelectorAll('.row')].find((r) => r.innerText.includes('payments')).querySelector('fb-band')`, 0.9999))
		return contains(p.text(".tip"), "tripped", "failure rate 63 % ≥ 50 %", "open for")
	})
	p.click("link", "payments")
	p.reads("fb-detail", "since ", "In the last 15 min: open 2 times", "reset by joe: try again")
}

// Question 3.
func TestWhy(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", tripping())
	calls(b, 24, 41)
	p := open(t, s.url, "/#/breaker/payments")
	at := b.Snapshot().Last.At.In(berlin(t)).Format("15:04:05")
	p.reads("fb-detail", "tripped "+at+": failure rate 63 % ≥ 50 % (41 of 65 calls in 10 s); last error: "+errRefused.Error())
	bars := p.the("image", "At the trip")
	if sum := sumOfBars(t, bars.name); sum != [2]int{41, 65} {
		t.Errorf("the buckets at the trip have %v, want 41 of 65: %s", sum, bars.name)
	}
	p.reads("fb-detail", "At the trip 41 of 65 failed", "Now: no calls are admitted")
	utc := eval[string](p, `document.querySelector('fb-detail time').title`)
	if want := b.Snapshot().Last.At.UTC().Format("2006-01-02 15:04:05") + " UTC"; utc != want {
		t.Errorf("on hover the time is %q, want %q", utc, want)
	}
	b.Reset(fusebox.Note{})
	calls(b, 3, 2)
	p.until("the buckets of now are not shown", func() bool {
		n, ok := p.find("image", "Now, 10 buckets")
		return ok && sumOfBars(t, n.name) == [2]int{2, 5}
	})
}

// sumOfBars adds up "failures of calls 1 of 2, 0 of 3".
func sumOfBars(t *testing.T, name string) (sum [2]int) {
	t.Helper()
	_, list, _ := strings.Cut(name, "failures of calls ")
	for part := range strings.SplitSeq(list, ", ") {
		var failures, all int
		if _, err := fmt.Sscanf(part, "%d of %d", &failures, &all); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		sum[0] += failures
		sum[1] += all
	}
	return sum
}

// Question 4.
func TestHowCloseAreTheOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("mail", fusebox.Config{Window: hour, MinCalls: 20, Consecutive: 30, SlowAfter: time.Minute})
	calls(b, 18, 12)
	few := s.breaker("rarely", fusebox.Config{Window: hour})
	calls(few, 1, 2)
	p := open(t, s.url, "/#/breaker/mail")
	p.reads("fb-detail", "How close", "Failure rate", "40 % of 50 %", "30 of at least 20 calls, trips after 6 more failures",
		"Slow rate", "0 % of 60 %", "Failures in a row", "12 of 30", "trips after 18 more failures")
	for name, want := range map[string]float64{"Failure rate": 0.4, "Failures in a row": 12, "Slow rate": 0} {
		n := p.the("meter", name)
		if got, err := strconv.ParseFloat(n.value, 64); err != nil || math.Abs(got-want) > 1e-6 {
			t.Errorf("the meter %q has the value %q, want %v", name, n.value, want)
		}
	}
	p.reads("fb-list", "40 % of 50 %")
	p.click("link", "rarely")
	p.reads("fb-detail", "67 % of 50 %", "3 of at least 20 calls, trips after 17 more failures")
}

// Question 5.
func TestWhatDoesItCost(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.admin.Fallbacks = func() uint64 { return 3 }
	b := s.breaker("payments", fusebox.Config{Consecutive: 5, OpenFor: hour, OpenForMax: hour})
	calls(b, 20, 5)
	calls(b, 7, 0) // rejected
	shadow := s.breaker("search", fusebox.Config{Mode: fusebox.Shadow, Consecutive: 5, OpenFor: hour, OpenForMax: hour})
	calls(shadow, 20, 5)
	calls(shadow, 4, 3)
	p := open(t, s.url, "/#/breaker/payments")
	for _, line := range []string{"Calls", "Failures", "Slow calls", "Rejected", "Fallbacks"} {
		p.the("image", line+":") // over all breakers
	}
	p.reads("fb-detail", "What it costs", "Calls", "25 in all", "Failures", "5 in all", "Slow calls", "0 in all", "Rejected", "7 in all")
	p.until("no rejections a second are shown", func() bool {
		calls(b, 50, 0) // all of them rejected
		line := p.text("fb-detail fb-line:nth-child(4)")
		return strings.HasPrefix(line, "Rejected ") && strings.Contains(line, "/s ") && !strings.HasPrefix(line, "Rejected 0/s")
	})
	p.the("cell", "/s rejected")
	p.click("link", "search")
	p.reads("fb-detail", "would be open", "Would reject, good", "4 in all", "Would reject, bad", "3 in all")
}

// Question 6.
func TestWhenDoesItTryAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	// By the breaker's clock it trips 1,000 s ago, and probes in vain after 200 s and after 400 s more.
	var clock fuseboxtest.Clock
	clock.Set(time.Now().Add(-1000 * time.Second))
	b := s.breaker("payments", fusebox.Config{Consecutive: 1, OpenFor: 200 * time.Second, OpenForMax: hour, OpenJitter: -1, Probes: 1, Now: clock.Now})
	calls(b, 0, 1)
	clock.Advance(200 * time.Second)
	calls(b, 0, 1)
	clock.Advance(400 * time.Second)
	calls(b, 0, 1)
	p := open(t, s.url, "/#/breaker/payments")
	p.reads("fb-detail", "Next try", "It tries again in ", "This is open period 3 in a row. If the probes fail, the next one is 26 min 40 s.", "Last probes", "0 s failed")
	// Not only since when it is in this open period: the dependency has failed for much longer.
	p.reads("fb-detail .d-status", "open since ", "; not closed since "+b.History()[0].At.In(berlin(t)).Format("15:04:05")+", 16 min ")
	p.reads("fb-list", "in ")
	left := func() time.Duration {
		_, text, _ := strings.Cut(p.text("fb-detail"), "It tries again in ")
		text, _, _ = strings.Cut(text, ".")
		d, err := time.ParseDuration(strings.ReplaceAll(strings.ReplaceAll(text, " min", "m"), " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := left()
	if first < time.Second || first > 400*time.Second {
		t.Errorf("it tries again in %v, want at most 400 s", first)
	}
	p.until("the countdown stands still", func() bool { return left() < first })
	b.Reset(fusebox.Note{})
	p.reads("fb-detail", "It is closed: calls pass.")
}

func TestTheAddressOfABreakerAndItsSettings(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.config = `{"entries":[{"path":"upstreams.pay/ments.breaker.open-for","value":"7s","origin":"fusebox.yaml:12:17"},
		{"path":"upstreams.pay/ments.breaker.window","value":"10s","origin":"default"}]}`
	s.breaker("pay/ments", fusebox.Config{OpenFor: 7 * time.Second, FailureRate: -1})
	s.breaker("search", fusebox.Config{})
	p := open(t, s.url, "/")
	p.click("link", "pay/ments")
	p.reads("fb-detail h2", "pay/ments")
	address := eval[string](p, "location.href")
	q := open(t, s.url, strings.TrimPrefix(address, s.url))
	q.reads("fb-detail", "pay/ments", "open-for 7s fusebox.yaml:12:17", "window 10s default", "failure-rate off program", "probes 3 default")
	allowClipboard(q)
	q.click("button", "Copy as YAML")
	q.reads("fb-detail .copy", "Copied.")
	text := eval[string](q, "navigator.clipboard.readText()")
	if !contains(text, "upstreams:\n  \"pay/ments\":\n    breaker:\n", "      open-for: 7s # fusebox.yaml:12:17\n", "      failure-rate: off # program\n", "      open-jitter: 20%") {
		t.Errorf("the YAML is\n%s", text)
	}
	q.press(kb.Escape)
	q.until("Escape does not lead back", func() bool { return eval[string](q, "location.hash") == "#/" })
	r := open(t, s.url, "/#/breaker/no%20such")
	r.reads("fb-detail", `There is no breaker "no such" now.`)
}

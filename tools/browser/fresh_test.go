package browser_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/fusebox-go/fusebox"
)

// Who reads the list of changes is not thrown out of it by what has nothing to do
// with it, and keeps the place when there is one more.
func TestTheListOfChangesStaysWhereItIs(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", tripping())
	s.breaker("search", tripping())
	if status := s.post("api/breakers/payments/reset", `{"reason":"try again","by":"joe"}`); status != http.StatusOK {
		t.Fatal(status)
	}
	p := open(t, s.url, "/#/changes")
	p.reads("#changes", "joe")
	eval[any](p, `document.querySelector('#changes td a').focus(), document.querySelector('#changes tbody tr').dataset.drawn = 'before'`)
	focused := func() string { return eval[string](p, `document.activeElement.innerText`) }
	calls(b, 24, 41)
	p.reads("h1", "1 breaker open")
	if !eval[bool](p, `document.querySelector('#changes tbody tr').dataset.drawn === 'before'`) || focused() != "payments" {
		t.Errorf("after a trip it is drawn anew, and the focus is on %q", focused())
	}
	if status := s.post("api/breakers/search/reset", `{"reason":"that one too","by":"anna"}`); status != http.StatusOK {
		t.Fatal(status)
	}
	p.reads("#changes", "anna")
	if focused() != "payments" {
		t.Errorf("after another change the focus is on %q", focused())
	}
}

// A list of changes says how far back it goes: nobody is said to have changed
// nothing who did so before that.
func TestTheListOfChangesSaysSinceWhen(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.breaker("payments", fusebox.Config{})
	if status := s.post("api/breakers/payments/reset", `{"reason":"try again","by":"joe"}`); status != http.StatusOK {
		t.Fatal(status)
	}
	// Two hours later nobody has looked since then, or changed anything.
	url := s.altered(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/events" {
			w = later{w, 2 * time.Hour}
		}
		s.admin.ServeHTTP(w, r)
	})
	p := open(t, url, "/#/changes")
	p.reads("#changes", "Nobody has changed anything since ", "A longer time axis may show earlier changes.")
	p.click("button", "6 h")
	p.reads("#changes", "joe", "try again", "Changes before ", " are not shown.")
	if strings.Contains(p.text("#changes"), "A longer time axis") {
		t.Error("there is no longer time axis")
	}
	p.click("link", "payments")
	p.reads("fb-detail .audit", "joe", "try again")
}

// UTC is there wherever a time is.
func TestTimesOfABreakerHaveUTCOnHover(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", fusebox.Config{OpenFor: time.Nanosecond, OpenJitter: -1, Consecutive: 1})
	calls(b, 0, 2)
	p := open(t, s.url, "/#/breaker/payments")
	p.reads("fb-detail", "reopened", "Before that, it tripped")
	history := b.History()
	utc := func(at time.Time) string { return at.UTC().Format(time.DateTime) + " UTC" }
	for element, at := range map[string]time.Time{
		".d-why": history[2].At, ".d-earlier": history[0].At, ".d-status": b.Snapshot().Since,
	} {
		if got := pointed(p, "document.querySelector('fb-detail "+element+" time')"); got != utc(at) {
			t.Errorf("over the time of %s it says %q, want %q", element, got, utc(at))
		}
	}
}

// A probe that was answered too late is not told as one that failed.
func TestASlowProbeIsToldAsOne(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", fusebox.Config{OpenFor: time.Nanosecond, OpenJitter: -1, Consecutive: 1, SlowAfter: time.Second, Probes: 1})
	calls(b, 0, 1)
	probe, err := b.Allow(t.Context())
	if err != nil || !probe.Probe() {
		t.Fatalf("it is no probe: %v", err)
	}
	probe.RecordAfter(fusebox.Success, 2*time.Second)
	p := open(t, s.url, "/#/breaker/payments")
	p.reads("fb-detail", "reopened", "0 of 1 probe failed, 1 slow")
	p.reads("fb-detail .verdict", "slow")
	if text := p.text("fb-detail .verdict"); strings.Contains(text, "failed") {
		t.Errorf("the verdict is %q", text)
	}
}

// Who opens the list of changes by the keyboard is in it, and afterwards in the list
// of breakers again, not at the beginning of the page.
func TestTheKeyboardLeadsToTheListOfChangesAndBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.breaker("payments", fusebox.Config{})
	p := open(t, s.url, "/")
	p.reads("#status", "Live")
	focused := func() string { return eval[string](p, `document.activeElement.innerText`) }
	eval[any](p, `document.querySelector('#changes-link').focus()`)
	p.press(kb.Enter)
	p.until("the focus is not in the list of changes", func() bool {
		return eval[string](p, `document.activeElement.localName + " " + document.activeElement.innerText`) == "h2 Changes"
	})
	p.press(kb.Tab)
	p.until("the next is not the way back", func() bool { return focused() == "×" })
	p.press(kb.Enter)
	p.until("the focus is not in the list of breakers", func() bool { return focused() == "payments" })
}

package browser_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

// Question 7.
func TestForceOpenFromThePage(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var clock fuseboxtest.Clock
	clock.Set(time.Now())
	b := s.breaker("payments", fusebox.Config{Now: clock.Now})
	p := open(t, s.url, "/#/breaker/payments")
	p.click("button", "Force open")
	p.the("dialog", "Force open: payments")
	if n := p.the("combobox", "Holds"); plain(n.value) != "for 15 min" {
		t.Errorf("an override holds %q by default", n.value)
	}
	p.fill("textbox", "Reason", "INC-2041")
	p.fill("textbox", "Your name", "anna")
	p.fill("textbox", "Token", token)
	p.click("button", "Yes, force open")
	p.until("it is not forced open", func() bool { return b.Snapshot().Mode == fusebox.ForceOpen })
	called := false
	if err := b.Do(t.Context(), nothing(&called)); !errors.Is(err, fusebox.ErrOpen) || called {
		t.Errorf("the next call was not rejected: %v", err)
	}
	p.reads("#note", "Force open: done for payments")
	p.reads("fb-detail", "forced open", "Set to force-open by anna: INC-2041", "left", "Undo")
	p.reads("fb-detail .audit", "anna", "force-open for 15 min", "INC-2041")
	p.reads("fb-list", "forced open")
	p.the("button", "1 forced")
	p.click("link", "Changes")
	p.reads("#changes", "anna", "payments", "force-open for 15 min", "INC-2041")
	if eval[int](p, "localStorage.length") != 0 || eval[string](p, "document.cookie") != "" {
		t.Error("the page keeps something beyond the tab")
	}

	p.click("link", "payments")
	clock.Advance(15*time.Minute + time.Second)
	p.until("it does not run out", func() bool {
		text := p.text("fb-detail")
		return strings.Contains(text, "half-open") && !strings.Contains(text, "Undo")
	})
	if err := b.Do(t.Context(), nothing(&called)); err != nil || !called {
		t.Errorf("after its time a call is not a probe: %v", err)
	}
	p.reads("fb-detail", "override ended")
}

func TestEveryChangeCanBeMadeAndUndone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", fusebox.Config{})
	p := open(t, s.url, "/#/breaker/payments")
	for i, change := range []struct {
		button string
		mode   fusebox.Mode
	}{
		{"Force closed", fusebox.ForceClosed},
		{"Shadow", fusebox.Shadow},
		{"Force open", fusebox.ForceOpen},
		{"Reset", fusebox.Enforce},
		{"Enforce", fusebox.Enforce},
		{"Undo", fusebox.Enforce},
	} {
		p.click("button", change.button)
		p.fill("textbox", "Reason", "to try")
		if i == 0 { // they are known from then on
			p.fill("textbox", "Your name", "anna")
			p.fill("textbox", "Token", token)
		}
		p.click("button", "Yes, ")
		p.until(change.button+" is not in the audit", func() bool { return len(s.audited()) == i+1 })
		if got := b.Snapshot().Mode; got != change.mode {
			t.Errorf("after %s the mode is %v, want %v", change.button, got, change.mode)
		}
		p.until("the dialog stays", func() bool { _, open := p.find("dialog", ""); return !open })
	}
	if b.Snapshot().Override {
		t.Error("Undo has left the override")
	}
	for _, r := range s.audited() {
		if r.By != "anna" || r.Reason != "to try" || r.Status != 200 || r.Action == "override" && r.TTL != fuseboxadmin.Duration(15*time.Minute) {
			t.Errorf("the audit has %+v", r)
		}
	}
}

func TestWithoutATokenNothingChangesAndThePageSaysWhy(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", fusebox.Config{})
	p := open(t, s.url, "/#/breaker/payments")
	p.expect("status of 401", "status of 403")
	p.click("button", "Force open")
	p.fill("textbox", "Reason", "INC-2041")
	p.fill("textbox", "Your name", "anna")
	p.click("button", "Yes, force open")
	p.reads("dialog", "Nothing was changed: a write needs the header", "Enter the token of the admin handler above and confirm again.")
	p.fill("textbox", "Token", "a wrong one")
	p.click("button", "Yes, force open")
	p.reads("dialog", "Nothing was changed: the token is not the right one.")
	if n := p.the("alert", ""); n.role != "alert" {
		t.Error("a screen reader is not told")
	}
	p.click("button", "Cancel")

	unguarded := newStage(t)
	unguarded.admin.Token = ""
	c := unguarded.breaker("payments", fusebox.Config{})
	q := open(t, unguarded.url, "/#/breaker/payments")
	q.expect("status of 403")
	q.click("button", "Reset")
	q.fill("textbox", "Reason", "INC-2041")
	q.fill("textbox", "Your name", "anna")
	q.click("button", "Yes, reset")
	q.reads("dialog", "Nothing was changed: this is for reading only, as no token has been set: set Handler.Token")
	for _, b := range []*fusebox.Breaker{b, c} {
		if n := b.Snapshot(); n.Override || len(b.History()) > 0 {
			t.Errorf("it was changed: %+v", n)
		}
	}
}

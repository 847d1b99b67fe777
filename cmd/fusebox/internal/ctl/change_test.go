package ctl

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

func TestEachChangeIsMade(t *testing.T) {
	t.Setenv("FUSEBOX_TOKEN", token)
	a := newAdmin(t)
	b := a.breaker("payments", fusebox.Config{})
	for _, c := range []struct {
		command  string
		mode     fusebox.Mode
		override bool
		state    fusebox.State
		says     string
	}{
		{"force-open", fusebox.ForceOpen, true, fusebox.Open, "open, force-open until 2"},
		{"lift", fusebox.Enforce, false, fusebox.HalfOpen, "half-open, no override"},
		{"force-closed", fusebox.ForceClosed, true, fusebox.Closed, "closed, force-closed until 2"},
		{"shadow", fusebox.Shadow, true, fusebox.Closed, "closed (shadow), shadow until 2"},
		{"enforce", fusebox.Enforce, true, fusebox.Closed, "closed, enforce until 2"},
		{"lift", fusebox.Enforce, false, fusebox.Closed, "closed, no override"},
	} {
		ctl(t, c.command, "payments", "--reason", "a reason", "--by", "ann", "--target", a.url).ended(0).says(a.url + ": payments: " + c.says)
		s := b.Snapshot()
		if s.Mode != c.mode || s.Override != c.override || s.State != c.state {
			t.Errorf("after %s: %v %v %v", c.command, s.Mode, s.Override, s.State)
		}
		if s.Last.Note.Reason != "a reason" || s.Last.Note.By != "ann" {
			t.Errorf("after %s the note is %+v", c.command, s.Last.Note)
		}
		if left := time.Until(s.Note.Until); c.override && (left > 15*time.Minute || left < 10*time.Minute) {
			t.Errorf("after %s it holds for %v, want 15 m", c.command, left)
		}
	}
	trip(t, b, errors.New("down"))
	ctl(t, "reset", "payments", "--reason", "r", "--target", a.url).ended(0).says("payments: closed, no override")
	if b.State() != fusebox.Closed {
		t.Errorf("after reset it is %v", b.State())
	}
}

func TestAnOverrideHoldsAsLongAsItIsSaid(t *testing.T) {
	t.Setenv("FUSEBOX_TOKEN", token)
	a := newAdmin(t, "payments")
	shadow := []string{"shadow", "payments", "--reason", "r", "--target", a.url, "--ttl"}
	ctl(t, append(shadow, "2h")...).ended(0)
	if r := a.audit(); time.Duration(r.TTL) != 2*time.Hour {
		t.Errorf("%+v", r)
	}
	ctl(t, append(shadow, "0")...).ended(0).says("shadow until lifted")
	if r := a.audit(); r.TTL != 0 {
		t.Errorf("%+v", r)
	}
	for _, wrong := range []string{"-1s", "1ms", "15", "soon"} {
		ctl(t, append(shadow, wrong)...).ended(2).complains("ttl")
	}
	ctl(t, "lift", "payments", "--reason", "r", "--ttl", "1h", "--target", a.url).ended(2).complains("--ttl")
	if len(a.audits) > 0 {
		t.Errorf("wrong usage was sent: %+v", a.audit())
	}
}

func TestAChangeNeedsAReasonAndHasAnAuthor(t *testing.T) {
	t.Setenv("FUSEBOX_TOKEN", token)
	a := newAdmin(t, "payments")
	for _, ch := range changes {
		ctl(t, ch.name, "payments", "--target", a.url).ended(2).complains("--reason is missing")
		ctl(t, ch.name, "payments", "--reason", " ", "--target", a.url).ended(2).complains("--reason is missing")
		ctl(t, ch.name, "--reason", "r", "--target", a.url).ended(2).complains("NAME")
	}
	ctl(t, "lift", "payments", "--reason", "r", "--target", a.url).ended(0)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if r := a.audit(); !strings.HasSuffix(r.By, "@"+host) || strings.HasPrefix(r.By, "@") {
		t.Errorf("the author is %q, want somebody at %q", r.By, host)
	}
}

func TestAChangeOfManyTellsOfEach(t *testing.T) {
	t.Setenv("FUSEBOX_TOKEN", token)
	a, b := newAdmin(t, "pay/1", "pay/2", "stock"), newAdmin(t, "pay/1")
	down := nobody(t)
	o := ctl(t, "force-open", "pay/*", "pay/1", "--reason", "r", "--target", a.url, "--target", b.url, "--target", down, "-o", "json").ended(3)
	r := decode[fuseboxadmin.Breaker](o)
	if len(r) != 5 || r[0].Name != "pay/1" || r[1].Name != "pay/2" || r[2].Target != b.url || r[2].Data.State != fusebox.Open || r[3].Error == "" || r[4].Data != nil {
		t.Fatalf("the results are %+v", r)
	}
	ctl(t, "lift", "pay/2", "--reason", "r", "--target", a.url, "--target", b.url).ended(3).
		says(a.url + ": pay/2: half-open").complains(b.url + ": pay/2: there is no breaker")
	ctl(t, "lift", "pay/3", "--reason", "r", "--target", a.url, "--target", b.url).ended(1)
}

func TestABreakerThatIsCalledLikeAPatternGoesFirst(t *testing.T) {
	t.Setenv("FUSEBOX_TOKEN", token)
	a := newAdmin(t, "pay", "pay*")
	ctl(t, "force-open", "pay*", "--reason", "r", "--target", a.url).ended(0).says("pay*: open").saysNot("pay: open")
}

func TestAChangeWithoutAnAnswerMayHaveBeenMade(t *testing.T) {
	t.Setenv("FUSEBOX_TOKEN", token)
	silent := served(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = r.Body.Read(make([]byte, 1000))
		<-r.Context().Done()
	})
	lift := []string{"lift", "x", "--reason", "r", "--timeout", "200ms", "--target"}
	ctl(t, append(lift, silent)...).ended(1).complains("no answer within 200ms; it may have been done")
	aborts := served(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	ctl(t, append(lift, aborts)...).ended(1).complains("it may have been done")
	ctl(t, append(lift, nobody(t))...).ended(1).complains("refused").saysNot("may have been")
	ctl(t, "ls", "--timeout", "200ms", "--target", silent).ended(1).saysNot("may have been")
}

func TestReloadTellsWhatIsDifferent(t *testing.T) {
	t.Setenv("FUSEBOX_TOKEN", token)
	answer := func(status int, body string) string {
		return served(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.Path != "/-/reload" || r.Header.Get("Authorization") != "Bearer "+token {
				t.Errorf("a request %s %s", r.Method, r.URL)
			}
			var asked request
			if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.By == "" {
				t.Errorf("nobody does it: %v", err)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	good := answer(200, `{"changed": ["upstreams.pay.breaker.open-for"], "added": ["stock"], "removed": ["old"], "restart": ["listen"]}`)
	same := answer(200, `{"changed": []}`)
	bad := answer(422, `{"errors": [{"path": "listen", "file": "f.yaml", "line": 3, "column": 5, "origin": "f.yaml:3:5", "message": "is no address"},
		{"path": "x", "origin": "env FUSEBOX_X", "message": "is\u001b unknown"}, {"message": "it is gone"}]}`)
	ctl(t, "reload", "--target", good, "--target", same, "--target", bad).ended(3).
		says(good+": changed upstreams.pay.breaker.open-for", good+": added stock", good+": removed old",
			good+": holds only after a restart: listen", same+": nothing has changed").
		complains(bad + ": the configuration is as before: f.yaml:3:5: listen is no address; env FUSEBOX_X: x is\\x1b unknown; it is gone")
	r := decode[reloaded](ctl(t, "reload", "--target", good, "--target", bad, "-o", "json").ended(3))
	if r[0].Data.Added[0] != "stock" || r[1].Status != 422 || !strings.Contains(r[1].Error, "f.yaml:3:5") {
		t.Errorf("the results are %+v", r)
	}
	a := newAdmin(t) // that reads no configuration
	ctl(t, "reload", "--target", a.url).ended(1).complains(`there is nothing at "/-/reload"`)
	ctl(t, "reload", "x", "--target", a.url).ended(2).complains("no argument")
}

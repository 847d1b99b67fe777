package fuseboxadmin_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

// refusals returns those of the history.
func (l *lab) refusals() []fuseboxadmin.Refusal {
	l.Helper()
	return into[fuseboxadmin.History](l.get("/api/history")).Refused
}

func TestWhatWasRefusedIsInTheHistory(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	if got := l.refusals(); got == nil || len(got) != 0 {
		t.Errorf("before there was one: %+v", got)
	}
	l.post(lift, "", anonymous)
	l.post(lift, "", header("Authorization", "Bearer wrong"))
	l.post("/api/breakers/another/lift", `{"by":"mallory"}`, anonymous)
	l.post(lift, "", header("Origin", "http://evil.example"))
	l.post("/api/breakers/y/reset", `{"by":"kim"}`)
	l.post(override, `{"mode":"off","by":"kim","ttl":"-1m"}`)
	l.post(override, `{"mode":"off","by":"kim","ttl":"-1m"}`)
	l.post(lift, `{"by":"kim"}`) // is done
	got := l.refusals()
	want := []struct {
		action, name, by string
		status, times    int
	}{
		{"lift", "another", "unauthenticated from 127.0.0.1:", 401, 3}, // alike, whatever name was asked for
		{"lift", "x", "unauthenticated from 127.0.0.1:", 403, 1},
		{"reset", "y", "", 404, 1},
		{"override", "x", "kim", 400, 2},
	}
	if len(got) != len(want) {
		t.Fatalf("%d refusals, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		r := got[i]
		if r.Action != w.action || r.Name != w.name || !strings.HasPrefix(r.By, w.by) || r.Status != w.status || r.Times != w.times ||
			r.Error == "" || r.First.IsZero() || r.First.After(r.At) || (r.Times == 1) != r.First.Equal(r.At) {
			t.Errorf("the refusal is %+v, want %+v", r, w)
		}
	}
	if e := into[fuseboxadmin.History](l.get("/api/history")).Events; len(e) != 2 { // what the lift did, and its audit record
		t.Errorf("%d events, want 2", len(e))
	}
}

// However many attempts a stranger makes, from however many addresses: what others
// have done stays, and so does what was refused to those who have the token.
func TestAStrangerDrivesNothingOut(t *testing.T) {
	h := &fuseboxadmin.Handler{Token: token, Logger: slog.New(slog.DiscardHandler)}
	defer h.Close()
	h.Add(fusebox.New("x", fusebox.Config{}))
	post := func(from, path, body string, edit ...func(*http.Request)) {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "http://localhost/api/breakers/"+path, strings.NewReader(body))
		r.RemoteAddr = from
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		for _, e := range edit {
			e(r)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	past := func() fuseboxadmin.History {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://localhost/api/history", nil))
		return into[fuseboxadmin.History](&answered{t, w.Result(), w.Body.Bytes()})
	}
	post("10.0.0.1:1", "x/override", `{"mode":"shadow","by":"kim"}`)
	post("10.0.0.1:1", "gone/lift", "{}")
	before := len(past().Events)
	for i := range 4000 {
		from := fmt.Sprintf("[2001:db8:%x:%x::1]:99", i%500, i%7) // 3,500 networks
		post(from, fmt.Sprintf("name-%d/%s", i, []string{"lift", "reset"}[i%2]), "", anonymous)
	}
	p := past()
	if n := len(p.Events); n != before || n == 0 {
		t.Errorf("%d events, want %d as before", n, before)
	}
	if n := len(p.Refused); n != 64 {
		t.Errorf("%d refusals are kept, want 64", n)
	}
	kept := false
	for _, r := range p.Refused {
		kept = kept || r.Name == "gone" && r.Status == http.StatusNotFound
	}
	if !kept {
		t.Error("what was refused to somebody with the token has been driven out")
	}
	// And of one network there is one, whatever it asks for.
	for i := range 300 {
		post(fmt.Sprintf("[2001:db8:ffff:ffff::%x]:99", i+1), fmt.Sprintf("n%d/lift", i), "", anonymous)
	}
	last := past().Refused[63]
	if last.Times != 300 || last.Name != "n299" {
		t.Errorf("the last is %+v, want one of 300 times", last)
	}
}

// What a program's own endpoint fails to do is no event, but it is known.
func TestWhatFailsBehindGuardIsKept(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	guarded := l.Guard("reload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) }))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/-/reload", strings.NewReader(`{"by":"kim"}`))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	guarded.ServeHTTP(httptest.NewRecorder(), r)
	if got := l.refusals(); len(got) != 1 || got[0].Action != "reload" || got[0].By != "kim" || got[0].Status != 422 {
		t.Errorf("the refusals are %+v", got)
	}
}

func TestTheProgramSaysWhatToDo(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	l.Token, l.TokenHelp, l.HostHelp = "", "set admin.token", "add it to admin.hosts"
	if e := l.post(lift, "").refused(403, "for reading only", "no token has been set: set admin.token"); strings.Contains(e.Message, "Handler") {
		t.Errorf("the message is %q", e.Message)
	}
	l.request(http.MethodGet, "/api/breakers", "", func(r *http.Request) { r.Host = "other.example" }).refused(421, `"other.example"`, "localhost, or add it to admin.hosts")
}

func TestFallbacksOfABreaker(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	l.breaker("y", fusebox.Config{})
	known := func(name string, want string) {
		t.Helper()
		list := into[fuseboxadmin.List](l.get("/api/breakers?only=" + name))
		detail := into[fuseboxadmin.Detail](l.get("/api/breakers/" + name))
		changed := into[fuseboxadmin.Breaker](l.post("/api/breakers/"+name+"/lift", ""))
		for what, n := range map[string]*uint64{"list": list.Breakers[0].Totals.Fallbacks, "detail": detail.Totals.Fallbacks, "change": changed.Totals.Fallbacks} {
			got := "unknown"
			if n != nil {
				got = fmt.Sprint(*n)
			}
			if got != want {
				t.Errorf("%s of %s: %s, want %s", what, name, got, want)
			}
		}
	}
	known("x", "unknown")
	l.FallbacksOf = func() map[string]uint64 { return map[string]uint64{"x": 7, "z": 1} }
	known("x", "7")
	known("y", "unknown")
	l.FallbacksOf = func() map[string]uint64 { return map[string]uint64{"y": 0} }
	known("x", "unknown")
	known("y", "0")
}

// A client that knows the events up to one asks for those after it.
func TestHistoryAfterAnEvent(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	for i := range 5 {
		l.Publish("n", i)
	}
	all := into[fuseboxadmin.History](l.get("/api/history"))
	if len(all.Events) != 5 {
		t.Fatalf("%d events", len(all.Events))
	}
	long := all.Since.Add(-time.Hour).Format("2006-01-02T15:04:05Z07:00")
	ask := func(id uint64) fuseboxadmin.History {
		return into[fuseboxadmin.History](l.get(fmt.Sprintf("/api/history?since=%s&last_event_id=%d", strings.ReplaceAll(long, "+", "%2B"), id)))
	}
	for i, e := range all.Events {
		p := ask(e.ID)
		if len(p.Events) != 4-i || p.Since.Unix() != all.Since.Add(-time.Hour).Unix() || p.LastEventID != all.LastEventID {
			t.Errorf("after the event %d: %d events since %v, want %d since %s", i, len(p.Events), p.Since, 4-i, long)
		}
	}
	for _, gone := range []uint64{1, all.LastEventID + 1} { // it never was here, or not yet
		if p := ask(gone); len(p.Events) != 5 || !p.Since.Equal(all.Since) {
			t.Errorf("after one that is not here: %d events since %v, want 5 since %v", len(p.Events), p.Since, all.Since)
		}
	}
	if p := into[fuseboxadmin.History](l.get(fmt.Sprintf("/api/history?last_event_id=%d", all.LastEventID))); len(p.Events) != 0 || !p.Since.Equal(all.Since) {
		t.Errorf("without a time: %+v", p)
	}
	for _, bad := range []string{"x", "-1", "", "1&last_event_id=2"} {
		if e := l.get("/api/history?last_event_id=" + bad).refused(400); e.Field != "last_event_id" {
			t.Errorf("%q: %+v", bad, e)
		}
	}
}

// The settings that are the library's say so, also where they follow others.
func TestSettingsThatAreDefaults(t *testing.T) {
	l := newLab(t)
	const hour = time.Hour
	for name, c := range map[string]struct {
		config fusebox.Config
		own    string // what is not a default
	}{
		"zero":               {fusebox.Config{}, ""},
		"a window":           {fusebox.Config{Window: 7 * time.Second}, "window"},
		"a tiny window":      {fusebox.Config{Window: 3, Buckets: 2}, "window buckets"},
		"a window of calls":  {fusebox.Config{WindowCalls: 5}, "window_calls"},
		"very many calls":    {fusebox.Config{WindowCalls: 1 << 24}, "window_calls"},
		"an open period":     {fusebox.Config{OpenFor: hour}, "open_for"},
		"its maximum":        {fusebox.Config{OpenForMax: hour}, "open_for_max"},
		"probes":             {fusebox.Config{Probes: 9}, "probes"},
		"fewer to close":     {fusebox.Config{Probes: 9, CloseAfter: 3}, "probes close_after"},
		"switched off":       {fusebox.Config{FailureRate: -1, Consecutive: -3, OpenJitter: -1, StableAfter: -1}, "failure_rate consecutive open_jitter stable_after"},
		"slow calls":         {fusebox.Config{SlowAfter: time.Second, SlowRate: 0.9}, "slow_after slow_rate"},
		"the rest":           {fusebox.Config{MinCalls: 3, ReopenAfter: 2, ProbeTimeout: hour, Mode: fusebox.Shadow}, "min_calls reopen_after probe_timeout mode"},
		"a function":         {fusebox.Config{TripWhen: func(fusebox.Counts) bool { return false }}, ""},
		"off, as by default": {fusebox.Config{SlowAfter: -1}, ""},
	} {
		b := l.breaker(name, c.config)
		got := into[fuseboxadmin.Detail](l.get("/" + fuseboxadmin.Path(b.Name()))).Defaults
		var own []string
		for _, field := range strings.Fields("window buckets window_calls min_calls failure_rate slow_after slow_rate consecutive open_for open_for_max open_jitter probes close_after reopen_after probe_timeout stable_after mode") {
			if !strings.Contains(" "+strings.Join(got, " ")+" ", " "+field+" ") {
				own = append(own, field)
			}
		}
		if strings.Join(own, " ") != c.own || len(got)+len(own) != 17 {
			t.Errorf("%s: %q are not defaults, want %q; the others are %q", name, own, c.own, got)
		}
	}
}

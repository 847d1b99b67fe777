package fuseboxadmin_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

const override = "/api/breakers/x/override"

func TestAnOverrideSetsEachMode(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	for _, mode := range []fusebox.Mode{fusebox.ForceOpen, fusebox.ForceClosed, fusebox.Shadow, fusebox.Enforce, fusebox.Off} {
		got := into[fuseboxadmin.Breaker](l.post(override, fmt.Sprintf(`{"mode":%q,"reason":"why","by":"kim"}`, mode)))
		s := b.Snapshot()
		if got.Mode != mode || s.Mode != mode || !s.Override || s.Note != (fusebox.Note{Reason: "why", By: "kim"}) || got.Note != s.Note {
			t.Errorf("%v: the answer is %+v, the breaker %+v", mode, got.Snapshot, s)
		}
	}
	got := into[fuseboxadmin.Breaker](l.post(lift, `{"reason":"mended","by":"lee"}`))
	if got.Override || got.Mode != fusebox.Enforce || got.Last.Why != "override lifted by lee: mended" {
		t.Errorf("lifted: %+v", got)
	}
}

func TestAResetClosesTheBreaker(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{Consecutive: 1, OpenFor: time.Hour})
	b.Do(t.Context(), fail)
	got := into[fuseboxadmin.Breaker](l.post("/api/breakers/x/reset", ` { "by" : "kim" } `))
	if got.State != fusebox.Closed || b.State() != fusebox.Closed || got.Last.Why != "reset by kim" {
		t.Errorf("reset: %+v", got)
	}
}

func TestATTLIsByTheClockOfTheBreaker(t *testing.T) {
	l := newLab(t)
	var clock fuseboxtest.Clock // far from today
	b := l.breaker("x", fusebox.Config{Now: clock.Now})
	got := into[fuseboxadmin.Breaker](l.post(override, `{"mode":"force-open","ttl":"15m"}`))
	if want := clock.Now().Add(15 * time.Minute); !got.Note.Until.Equal(want) || got.State != fusebox.Open {
		t.Errorf("%v until %v, want open until %v", got.State, got.Note.Until, want)
	}
	clock.Advance(15*time.Minute - 1)
	if b.State() != fusebox.Open {
		t.Error("the override ended too early")
	}
	clock.Advance(1)
	if s := b.Snapshot(); s.Override || s.State != fusebox.HalfOpen {
		t.Errorf("after its end: %+v", s)
	}
}

func TestABadBodyIsRefused(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	long := strings.Repeat("ä", 1001)
	for _, c := range []struct{ body, field, value, rule string }{
		{`{}`, "mode", "", "must be force-open, force-closed, shadow, enforce or off"},
		{``, "mode", "", "must be force-open"},
		{`{"mode":"open"}`, "mode", "open", "must be force-open"},
		{`{"mode":"Off"}`, "mode", "Off", "must be force-open"},
		{`{"mode":null}`, "mode", "null", "must be a text"},
		{`{"mode":3}`, "mode", "3", "must be a text"},
		{`{"mode":["off"]}`, "mode", `["off"]`, "must be a text"},
		{`{"mode":"off","reason":{"a":{}}}`, "reason", `{"a":{}}`, "must be a text"},
		{`{"mode":"off","reason":true}`, "reason", "true", "must be a text"},
		{`{"mode":"off","mode":"off"}`, "mode", `"off"`, "must be there once"},
		{`{"mode":"off","\u006dode":"off"}`, "mode", `"off"`, "must be there once"},
		{`{"Mode":"off"}`, "Mode", `"off"`, "is no field here, but mode, reason, by, ttl"},
		{`{"mode":"off","TTL":"5m"}`, "TTL", `"5m"`, "is no field here"},
		{`{"mode":"off","":1}`, "", "1", "is no field here"},
		{`{"mode":"off","ttl":"5"}`, "ttl", "5", `must be a Go duration of at least 1s, such as "15m"`},
		{`{"mode":"off","ttl":""}`, "ttl", "", "must be a Go duration"},
		{`{"mode":"off","ttl":"1ns"}`, "ttl", "1ns", "must be a Go duration of at least 1s"},
		{`{"mode":"off","ttl":"0s"}`, "ttl", "0s", "must be a Go duration"},
		{`{"mode":"off","ttl":"-5m"}`, "ttl", "-5m", "must be a Go duration"},
		{`{"mode":"off","ttl":"9999999h"}`, "ttl", "9999999h", "must be a Go duration"},
		{`{"mode":"off","ttl":300}`, "ttl", "300", "must be a text"},
		{`{"mode":"off","reason":"` + long + `"}`, "reason", strings.Repeat("ä", 48) + "…", "must be at most 1000 characters, not 1001"},
		{`{"mode":"off","by":"` + long + `"}`, "by", strings.Repeat("ä", 48) + "…", "must be at most 200 characters, not 1001"},
	} {
		e := l.post(override, c.body).refused(400)
		if e.Field != c.field || e.Value != c.value || !strings.HasPrefix(e.Rule, c.rule) {
			t.Errorf("%s: %+v, want %q %q %q", c.body, e, c.field, c.value, c.rule)
		}
	}
	for body, text := range map[string]string{
		`{"mode":"off"} {}`:         "after top-level value",
		`{"mode":"off"}x`:           "at byte 15",
		`{"mode":"off",}`:           "not one JSON value",
		`{"mode":"off"`:             "unexpected end",
		`{mode:"off"}`:              "not one JSON value",
		` `:                         "unexpected end",
		`[]`:                        "must be a JSON object",
		`null`:                      "must be a JSON object",
		`"off"`:                     "must be a JSON object",
		"{\"mode\":\"off\xff\"}":    "not UTF-8",
		"\xef\xbb\xbf{}":            "not one JSON value",
		strings.Repeat("[", 20_000): "not one JSON value",
	} {
		l.post(override, body).refused(400, text)
	}
	for _, op := range []string{"lift", "reset"} {
		if e := l.post("/api/breakers/x/"+op, `{"ttl":"5m"}`).refused(400); e.Field != "ttl" || e.Rule != "is no field here, but reason, by" {
			t.Errorf("%s: %+v", op, e)
		}
	}
	l.post(override+"?mode=off", `{"mode":"off"}`).refused(400, "is no parameter here")
	if n := len(b.History()); n != 0 {
		t.Errorf("%d records of writes that were refused", n)
	}
	fits := strings.Repeat("ä", 1000)
	if s := into[fuseboxadmin.Breaker](l.post(override, `{"mode":"off","reason":"`+fits+`"}`)); s.Note.Reason != fits {
		t.Errorf("the reason is %q", s.Note.Reason)
	}
}

func TestABodyThatIsTooLong(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	const body = `{"mode":"off"}`
	fits := body + strings.Repeat(" ", fuseboxadmin.MaxBody-len(body))
	into[fuseboxadmin.Breaker](l.post(override, fits))
	l.post(override, fits+" ").refused(413, "at most 65536 bytes")
	endless := func(r *http.Request) { // of no length that is told beforehand
		r.Body, r.ContentLength = io.NopCloser(io.LimitReader(zeros{}, 1<<20)), -1
	}
	l.post(override, body, endless).refused(413, "at most 65536 bytes")
	if n := len(b.History()); n != 1 {
		t.Errorf("%d records, want 1", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestTheContentTypeIsLookedAt(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	const body = `{"mode":"off"}`
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", "application/jsonx", "///"} {
		l.post(override, body, header("Content-Type", kind)).refused(415, fmt.Sprintf("%q", kind), "must be application/json")
	}
	for _, kind := range []string{"application/json", "application/json; charset=UTF-8", "Application/JSON"} {
		into[fuseboxadmin.Breaker](l.post(override, body, header("Content-Type", kind)))
	}
}

// A body that ends before it should is the client's doing.
func TestABodyThatIsCutOff(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, l.url+override, io.MultiReader(strings.NewReader(`{"mode":"off"}`), broken{}))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if resp, err := http.DefaultClient.Do(r); err == nil {
		resp.Body.Close()
		t.Fatalf("the answer is %s", resp.Status)
	}
	soon(t, "no audit record", func() bool { return len(l.audited()) == 1 })
	if r := l.audited()[0]; r.Status != 400 || !strings.Contains(r.Error, "cannot be read") || len(b.History()) != 0 {
		t.Errorf("%+v", r)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errDown }

// A body may be long in coming; the breaker that is changed is that which has the
// name when it is there.
func TestAChangeIsOfTheBreakerThatIsShown(t *testing.T) {
	var r fusebox.Registry
	h := &fuseboxadmin.Handler{Token: token, Logger: slog.New(slog.DiscardHandler)}
	defer h.Close()
	h.AddRegistry("", &r)
	r.Get("x")
	body := readerFunc(func(p []byte) (int, error) {
		r.Delete("x")
		r.Get("x")
		return copy(p, `{"mode":"force-open"}`), io.EOF
	})
	q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/breakers/x/override", body)
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	if b, _ := r.Peek("x"); w.Code != http.StatusOK || b.State() != fusebox.Open {
		t.Errorf("status %d, and it is %v", w.Code, b.State())
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

package fuseboxadmin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

const lift = "/api/breakers/x/lift"

func TestAWriteNeedsTheToken(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	for _, given := range []string{
		"", "Bearer", "Bearer ", "Bearer let me", "Bearer let me in!", "Bearer let me i", "Bearer LET ME IN", "Basic " + token, token,
		"Bearer Bearer " + token,
	} {
		a := l.post(lift, "", header("Authorization", given))
		a.refused(401)
		if got := a.Header.Get("WWW-Authenticate"); got != `Bearer realm="fusebox"` {
			t.Errorf("WWW-Authenticate is %q", got)
		}
	}
	l.post(lift, "", anonymous).refused(401, "Authorization: Bearer TOKEN")
	l.post(lift, "", header("Authorization", "Bearer wrong")).refused(401, "not the right one")
	if n := len(b.History()); n != 0 {
		t.Fatalf("%d records of writes that were refused", n)
	}
	into[fuseboxadmin.Breaker](l.post(lift, ""))
	into[fuseboxadmin.Breaker](l.post(lift, "", header("Authorization", "bearer "+token)))
	if n := len(b.History()); n != 2 {
		t.Errorf("%d records of writes that were allowed, want 2", n)
	}
	// Reading needs none.
	if a := l.request(http.MethodGet, "/api/breakers/x", "", anonymous); a.StatusCode != 200 {
		t.Error(a.Status)
	}
}

func TestWithoutATokenNobodyWrites(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	for _, none := range []string{"", " \n"} {
		l.Token = none
		for _, given := range []string{"", "Bearer ", "Bearer " + token, "Bearer  "} {
			l.post(lift, "", header("Authorization", given)).refused(403, "for reading only", "Handler.Token", "Handler.Trusted")
		}
	}
	l.Trusted = func(*http.Request) bool { return false }
	l.post(lift, "").refused(403, "for reading only")
}

func TestATokenCanBeReplaced(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	var current atomic.Value
	current.Store("first\n") // of a file
	l.TokenFunc = func() string { return current.Load().(string) }
	as := func(token string) func(*http.Request) { return header("Authorization", "Bearer "+token) }
	into[fuseboxadmin.Breaker](l.post(lift, "", as("first")))
	l.post(lift, "", as(token)).refused(401) // Token does not count
	current.Store("second")
	l.post(lift, "", as("first")).refused(401)
	into[fuseboxadmin.Breaker](l.post(lift, "", as("second")))
	current.Store("") // the file has gone
	l.post(lift, "", as("second")).refused(403)
	l.post(lift, "", as("")).refused(403)
}

func TestOverAUnixSocketNoTokenIsNeeded(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	l.Token, l.Trusted = "", fuseboxadmin.OnUnixSocket
	path := filepath.Join(t.TempDir(), "s")
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: l}
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}
	client := &http.Client{Transport: transport}
	for _, host := range []string{"localhost", "any.example"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+host+lift, nil)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("as %s: %s", host, resp.Status)
		}
	}
	transport.CloseIdleConnections()
	server.Close()
	<-done
	if n := len(b.History()); n != 2 {
		t.Errorf("%d records, want 2", n)
	}
	l.post(lift, "").refused(403) // over TCP it is
}

func TestAnotherOriginIsRefused(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	for name, edit := range map[string]func(*http.Request){
		"another site":      header("Sec-Fetch-Site", "cross-site"),
		"the same site":     header("Sec-Fetch-Site", "same-site"),
		"an old browser":    header("Origin", "https://evil.example"),
		"a sandboxed frame": header("Origin", "null"),
		"another port":      header("Origin", "http://127.0.0.1:1"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, op := range []string{"override", "lift", "reset"} {
				l.post("/api/breakers/x/"+op, `{"mode":"off"}`, edit).refused(403, "cross-origin")
			}
			l.request(http.MethodGet, "/api/events", "", edit).refused(403, "cross-origin")
			if a := l.request(http.MethodGet, "/api/breakers", "", edit); a.StatusCode != 200 || a.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("a link to the list: %s", a.Status) // which the page cannot read
			}
		})
	}
	if n := len(b.History()); n != 0 {
		t.Errorf("%d records of writes that were refused", n)
	}
	into[fuseboxadmin.Breaker](l.post(lift, "", header("Sec-Fetch-Site", "same-origin"), header("Origin", l.url)))
	into[fuseboxadmin.Breaker](l.post(lift, "", header("Origin", l.url)))
}

func TestANameOfAnotherIsRefused(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	l.Hosts = []string{"Payments.internal", "with.port:80"}
	as := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	for _, host := range []string{
		"evil.example", "evil.example:8080", "localhost.evil.example", "notlocalhost", "127.0.0.1.evil.example", "127.1", "0x7f000001",
		"payments.internal.evil.example", "x.payments.internal", "evil.example.",
	} {
		for _, path := range []string{"/api/breakers", "/api/breakers/x", "/api/events"} {
			l.request(http.MethodGet, path, "", as(host)).refused(421, "Handler.Hosts", strings.TrimSuffix(strings.Split(host, ":")[0], "."))
		}
		l.post(lift, "", as(host)).refused(421, "Handler.Hosts")
		records := l.audited()
		if last := records[len(records)-1]; last.Status != 421 || last.Action != "lift" || last.Name != "x" || !strings.Contains(last.Error, "Handler.Hosts") {
			t.Errorf("as %s: the audit record is %+v", host, last)
		}
	}
	if n := len(l.audited()); n != 10 {
		t.Errorf("%d audit records of 10 writes", n)
	}
	for _, host := range []string{
		"localhost", "LOCALHOST:99", "localhost.", "page.localhost:80", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:80", "10.1.2.3:80",
		"payments.internal", "PAYMENTS.internal.:8080", "with.port", "with.port:1",
	} {
		if a := l.request(http.MethodGet, "/api/breakers", "", as(host)); a.StatusCode != 200 {
			t.Errorf("as %s: %s", host, a.Status)
		}
	}
	// Without a Host, as HTTP/1.0 may be.
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write([]byte("GET /api/breakers HTTP/1.0\r\n\r\n"))
	status := make([]byte, len("HTTP/1.0 421"))
	if _, err := conn.Read(status); err != nil || string(status) != "HTTP/1.0 421" {
		t.Errorf("%q: %v", status, err)
	}
}

func TestEveryAttemptToWriteIsAudited(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	events := l.listen("")
	events.next()
	l.post("/api/breakers/x/override", `{"mode":"force-open","reason":"bad deploy","by":"kim","ttl":"15m"}`)
	l.post("/api/breakers/x/override", `{"mode":"force-open","reason":"bad deploy","by":"kim","ttl":"-1m"}`)
	l.post("/api/breakers/x/lift", `{"reason":"mended","by":"kim"}`, anonymous)
	l.post("/api/breakers/y/reset", `{}`)
	l.post("/api/breakers/x/reset", `{}`, header("Origin", "http://evil.example"))
	l.post("/api/breakers/x/reset", ``)
	want := []fuseboxadmin.AuditRecord{
		{Action: "override", Name: "x", Mode: "force-open", Reason: "bad deploy", By: "kim", TTL: 900e9, Status: 200},
		{Action: "override", Name: "x", Mode: "force-open", Reason: "bad deploy", By: "kim", Status: 400},
		{Action: "lift", Name: "x", By: "unauthenticated", Status: 401},
		{Action: "reset", Name: "y", Status: 404},
		{Action: "reset", Name: "x", By: "unauthenticated", Status: 403},
		{Action: "reset", Name: "x", Status: 200},
	}
	got := l.audited()
	if len(got) != len(want) {
		t.Fatalf("%d audit records, want %d", len(got), len(want))
	}
	for i, r := range got {
		if r.At.IsZero() || !strings.HasPrefix(r.Remote, "127.0.0.1:") || (r.Error == "") != (r.Status == 200) {
			t.Errorf("the record is %+v", r)
		}
		r.By = strings.Replace(r.By, " from "+r.Remote, "", 1)
		r.At, r.Remote, r.Error = want[i].At, "", ""
		if r != want[i] {
			t.Errorf("the record is\n%+v, want\n%+v", r, want[i])
		}
	}
	lines := strings.Split(strings.TrimSpace(l.log.String()), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines in the log, want %d", len(lines), len(want))
	}
	first := lines[0]
	for _, part := range []string{
		"level=INFO", `msg="fusebox: admin"`, "action=override", "name=x", "mode=force-open", `reason="bad deploy"`, "by=kim", "ttl=15m0s",
		"remote=127.0.0.1:", "status=200",
	} {
		if !strings.Contains(first, part) {
			t.Errorf("the line %s has no %s", first, part)
		}
	}
	if !strings.Contains(lines[1], "level=WARN") || !strings.Contains(lines[1], `error="ttl is`) {
		t.Errorf("the line is %s", lines[1])
	}
	for i, r := range want { // those that were refused too
		for _, part := range []string{"action=" + r.Action, "name=" + r.Name, "status=" + strconv.Itoa(r.Status), "remote=127.0.0.1:", map[bool]string{true: "level=INFO", false: "level=WARN"}[r.Status == 200]} {
			if !strings.Contains(lines[i], part) {
				t.Errorf("the line %s has no %s", lines[i], part)
			}
		}
	}
	if !strings.Contains(lines[2], `by="unauthenticated from 127.0.0.1:`) {
		t.Errorf("the line is %s", lines[2])
	}
	// Events are those that changed something.
	for _, action := range []string{"override", "reset"} {
		events.next().transition(t)
		e := events.next()
		l.spec.data(t, "AuditRecord", e.data)
		var r fuseboxadmin.AuditRecord
		if err := json.Unmarshal([]byte(e.data), &r); err != nil || e.kind != "audit" || r.Action != action || r.Status != 200 {
			t.Errorf("the event is %+v: %v", e, err)
		}
	}
}

// A program's own endpoints are protected as those of the API.
func TestGuard(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	var served []string
	mux := http.NewServeMux()
	mux.Handle("/", l)
	mux.Handle("/-/reload", l.Guard("reload", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		served = append(served, r.Method+string(body))
		if err != nil || http.NewResponseController(w).Flush() != nil {
			t.Errorf("the body: %v; or it cannot be flushed", err)
		}
	})))
	answer := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			w.Write([]byte(`{"status":1,"error":"x"}`))
		})
	}
	mux.Handle("/-/fail", l.Guard("fail", answer(422)))
	mux.Handle("/-/panic", l.Guard("panic", answer(0)))
	server := httptest.NewServer(mux)
	defer server.Close()
	events := l.listen("")
	events.next()
	l.url = server.URL
	do := func(method, path, body string, edits ...func(*http.Request)) int {
		r, _ := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		for _, e := range edits {
			e(r)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		if resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s has no security headers", method, path)
		}
		if (resp.StatusCode == 401) != (resp.Header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s %s: %s with WWW-Authenticate %q", method, path, resp.Status, resp.Header.Get("WWW-Authenticate"))
		}
		return resp.StatusCode
	}
	host := func(r *http.Request) { r.Host = "evil.example" }
	writes := 0
	for _, c := range []struct {
		method, path, body string
		edit               func(*http.Request)
		want               int
	}{
		{"POST", "/-/reload", `{"by":"kim","reason":"new limits"}`, nil, 200},
		{"PUT", "/-/reload", ``, nil, 200},
		{"POST", "/-/reload", ``, anonymous, 401},
		{"POST", "/-/reload", ``, header("Authorization", "Bearer wrong"), 401},
		{"DELETE", "/-/reload", ``, header("Origin", "http://evil.example"), 403},
		{"POST", "/-/reload", ``, host, 421},
		{"POST", "/-/reload", `{"mode":"off"}`, nil, 400},
		{"POST", "/-/fail", ``, nil, 422},
		{"POST", "/-/panic", ``, nil, 0},
		{"GET", "/-/reload", ``, anonymous, 200},
		{"HEAD", "/-/reload", ``, header("Origin", "http://evil.example"), 200},
		{"GET", "/-/reload", ``, host, 421},
	} {
		if c.edit == nil {
			c.edit = func(*http.Request) {}
		}
		if got := do(c.method, c.path, c.body, c.edit); got != c.want {
			t.Errorf("%s %s %s: %d, want %d", c.method, c.path, c.body, got, c.want)
		}
		if c.method != http.MethodGet && c.method != http.MethodHead {
			writes++
		}
		soon(t, "there is no record", func() bool { return len(l.audited()) == writes }) // it may come after the answer
	}
	if got := strings.Join(served, " "); got != "POST PUT GET HEAD" {
		t.Errorf("served: %s", got)
	}
	want := []fuseboxadmin.AuditRecord{
		{Action: "reload", By: "kim", Reason: "new limits", Status: 200},
		{Action: "reload", Status: 200},
		{Action: "reload", By: "unauthenticated", Status: 401},
		{Action: "reload", By: "unauthenticated", Status: 401},
		{Action: "reload", By: "unauthenticated", Status: 403},
		{Action: "reload", By: "unauthenticated", Status: 421},
		{Action: "reload", Status: 400},
		{Action: "fail", Status: 422, Error: "Unprocessable Entity"},
		{Action: "panic", Status: 500, Error: "Internal Server Error"},
	}
	if n := len(l.audited()); n != len(want) {
		t.Fatalf("%d records, want %d", n, len(want))
	}
	for i, r := range l.audited() {
		if r.At.IsZero() || r.Remote == "" || (r.Error == "") != (r.Status == 200) {
			t.Errorf("the record is %+v", r)
		}
		if want[i].Error == "" {
			r.Error = ""
		}
		r.By = strings.Replace(r.By, " from "+r.Remote, "", 1)
		if r.At, r.Remote = want[i].At, ""; r != want[i] {
			t.Errorf("the record is\n%+v, want\n%+v", r, want[i])
		}
	}
	for _, by := range []string{"kim", ""} {
		e := events.next()
		l.spec.data(t, "AuditRecord", e.data)
		var r fuseboxadmin.AuditRecord
		if err := json.Unmarshal([]byte(e.data), &r); err != nil || e.kind != "audit" || r.Action != "reload" || r.By != by {
			t.Errorf("the event is %+v: %v", e, err)
		}
	}
	l.Publish("end", nil)
	if e := events.next(); e.kind != "end" {
		t.Errorf("what was refused is an event: %+v", e)
	}
	for _, action := range []string{"", "override", "lift", "reset"} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, "must be one of the program's own") {
					t.Errorf("%q: the panic is %v", action, v)
				}
			}()
			l.Guard(action, l)
		}()
	}
	func() {
		defer func() {
			if v := recover(); v != "fuseboxadmin: Guard: next is nil" {
				t.Errorf("the panic is %v", v)
			}
		}()
		l.Guard("x", nil)
	}()
}

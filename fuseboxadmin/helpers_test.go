package fuseboxadmin_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

const token = "let me in"

var errDown = errors.New("down")

func succeed(context.Context) error { return nil }
func fail(context.Context) error    { return errDown }

// soon waits until ok, which real goroutines make true.
func soon(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("after 10 s: %s", what)
		}
	}
}

// logged is the text of a log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// lab is a handler behind a real server, and a client. Every answer is held
// against openapi.json. At the end no goroutine may be left.
type lab struct {
	testing.TB
	*fuseboxadmin.Handler
	url  string
	log  logged
	spec spec

	mu     sync.Mutex
	audits []fuseboxadmin.AuditRecord
}

func newLab(tb testing.TB) *lab {
	tb.Helper()
	before := runtime.NumGoroutine()
	l := &lab{TB: tb, spec: readSpec(tb)}
	l.Handler = &fuseboxadmin.Handler{
		Token: token, Logger: slog.New(slog.NewTextHandler(&l.log, nil)),
		Audit: func(r fuseboxadmin.AuditRecord) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.audits = append(l.audits, r)
		},
	}
	server := httptest.NewServer(l)
	l.url = server.URL
	tb.Cleanup(func() {
		l.Close()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
		soon(tb, "goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
	})
	return l
}

// audited returns the audit records so far.
func (l *lab) audited() []fuseboxadmin.AuditRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.audits
}

func (l *lab) breaker(name string, c fusebox.Config) *fusebox.Breaker {
	b := fusebox.New(name, c)
	l.Add(b)
	return b
}

// answered is an answer.
type answered struct {
	testing.TB
	*http.Response
	text []byte
}

// request is an authorised one; edit changes it.
func (l *lab) request(method, path, body string, edit ...func(*http.Request)) *answered {
	l.Helper()
	r, err := http.NewRequestWithContext(l.Context(), method, l.url+path, strings.NewReader(body))
	if err != nil {
		l.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edit {
		e(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		l.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		l.Fatal(err)
	}
	l.spec.checkAnswer(l, r, path, resp, text)
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
		"Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	} {
		if got := resp.Header.Get(name); got != want {
			l.Errorf("%s %s: %s is %q, want %q", method, path, name, got, want)
		}
	}
	return &answered{l, resp, text}
}

func (l *lab) get(path string) *answered {
	l.Helper()
	return l.request(http.MethodGet, path, "")
}

func (l *lab) post(path, body string, edit ...func(*http.Request)) *answered {
	l.Helper()
	return l.request(http.MethodPost, path, body, edit...)
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func anonymous(r *http.Request) { r.Header.Del("Authorization") }

// refused checks that the answer is an error of a status that says all of the
// texts, and returns it.
func (a *answered) refused(status int, texts ...string) (e fuseboxadmin.APIError) {
	a.Helper()
	if a.StatusCode != status {
		a.Fatalf("%s %s: %s %s, want %d", a.Request.Method, a.Request.URL, a.Status, a.text, status)
	}
	if err := json.Unmarshal(a.text, &e); err != nil || e.Status != status {
		a.Errorf("%s: %v", a.text, err)
	}
	for _, text := range texts {
		if !strings.Contains(e.Message, text) {
			a.Errorf("the error is %q, want %q in it", e.Message, text)
		}
	}
	return e
}

// into decodes a success.
func into[T any](a *answered) (v T) {
	a.Helper()
	if a.StatusCode != http.StatusOK {
		a.Fatalf("%s %s: %s %s", a.Request.Method, a.Request.URL, a.Status, a.text)
	}
	if err := json.Unmarshal(a.text, &v); err != nil {
		a.Fatalf("%s: %v", a.text, err)
	}
	return v
}

// sse is a server-sent event; of the first one only the id is there.
type sse struct {
	id               uint64
	kind, data, note string
}

// listener reads an event stream.
type listener struct {
	tb   testing.TB
	body io.ReadCloser
	r    *bufio.Reader
}

// listen opens a stream. from is a Last-Event-ID, "" for none.
func (l *lab) listen(from string) *listener {
	l.Helper()
	r, err := http.NewRequestWithContext(l.Context(), http.MethodGet, l.url+"/api/events", nil)
	if err != nil {
		l.Fatal(err)
	}
	if from != "" {
		r.Header.Set("Last-Event-ID", from)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		l.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		l.Fatalf("%s, Content-Type %q", resp.Status, resp.Header.Get("Content-Type"))
	}
	return newListener(l, resp.Body)
}

func newListener(tb testing.TB, body io.ReadCloser) *listener {
	tb.Cleanup(func() { body.Close() })
	return &listener{tb, body, bufio.NewReader(body)}
}

// read returns the next block of the stream.
func (s *listener) read() (e sse, err error) {
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return e, err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "": // an empty line, or a comment
			if value != "" {
				e.note = value
			} else if e != (sse{}) {
				return e, nil
			}
		case "id":
			if e.id, err = strconv.ParseUint(value, 10, 64); err != nil {
				return e, err
			}
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "retry":
		default:
			s.tb.Errorf("the stream has a line %q", line)
		}
	}
}

// next is read, of a stream that goes on.
func (s *listener) next() sse {
	s.tb.Helper()
	e, err := s.read()
	if err != nil {
		s.tb.Fatal(err)
	}
	return e
}

// transition decodes an event "transition".
func (e sse) transition(tb testing.TB) (t fuseboxadmin.Transition) {
	tb.Helper()
	if err := json.Unmarshal([]byte(e.data), &t); err != nil || e.kind != "transition" {
		tb.Fatalf("an event %+v: %v", e, err)
	}
	return t
}

package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

const token = "let-me-in"

// TestMain is the program itself where a test has started it as such.
func TestMain(m *testing.M) {
	if os.Getenv("CTL_TEST_PROGRAM") == "" {
		os.Exit(m.Run())
	}
	c := Command()
	c.SetArgs(os.Args[1:])
	c.SilenceErrors = true
	os.Exit(codeOf(c.Execute(), os.Stderr))
}

// codeOf prints an error as the program does, and returns its exit code.
func codeOf(err error, w io.Writer) int {
	if err == nil {
		return 0
	}
	_, _ = io.WriteString(w, err.Error()+"\n")
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return 1
}

// soon waits until ok, which real goroutines make true.
func soon(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("after 20 s: %s", what)
		}
	}
}

// text is a buffer for many goroutines.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// outcome is what a run of the program left.
type outcome struct {
	testing.TB
	out, err string
	code     int
}

// ctl runs the program.
func ctl(tb testing.TB, args ...string) *outcome {
	tb.Helper()
	var out, errs text
	code := start(tb, tb.Context(), &out, &errs, args...)()
	return &outcome{tb, out.String(), errs.String(), code}
}

// start runs the program on a goroutine of its own; end waits for its exit code.
func start(tb testing.TB, ctx context.Context, out, errs io.Writer, args ...string) (end func() int) {
	tb.Helper()
	c := Command()
	c.SilenceErrors = true
	c.SetArgs(args)
	c.SetOut(out)
	c.SetErr(errs)
	code := make(chan int, 1)
	go func() { code <- codeOf(c.ExecuteContext(ctx), errs) }()
	return func() int {
		tb.Helper()
		select {
		case n := <-code:
			return n
		case <-time.After(60 * time.Second):
			tb.Fatal("the program has not ended after 60 s")
			return -1
		}
	}
}

// ended checks the exit code.
func (o *outcome) ended(code int) *outcome {
	o.Helper()
	if o.code != code {
		o.Fatalf("the exit code is %d, want %d\n%s%s", o.code, code, o.out, o.err)
	}
	return o
}

// says checks that all texts are in what was printed; not that none of the others is.
func (o *outcome) says(texts ...string) *outcome {
	o.Helper()
	return o.check(o.out, true, texts)
}

func (o *outcome) saysNot(texts ...string) *outcome {
	o.Helper()
	return o.check(o.out+o.err, false, texts)
}

// complains is says, of errors.
func (o *outcome) complains(texts ...string) *outcome {
	o.Helper()
	return o.check(o.err, true, texts)
}

func (o *outcome) check(in string, want bool, texts []string) *outcome {
	o.Helper()
	for _, t := range texts {
		if strings.Contains(in, t) != want {
			o.Errorf("%q in the output is %v, want %v:\n%s", t, !want, want, in)
		}
	}
	return o
}

// admin is the admin API of a program.
type admin struct {
	testing.TB
	*fuseboxadmin.Handler
	url    string
	audits chan fuseboxadmin.AuditRecord
}

// newAdmin serves an API on loopback, with breakers of these names.
func newAdmin(tb testing.TB, names ...string) *admin {
	tb.Helper()
	a := newHandler(tb, names...)
	server := httptest.NewServer(a)
	a.url = server.URL
	tb.Cleanup(func() {
		a.Close()
		server.Close()
	})
	return a
}

func newHandler(tb testing.TB, names ...string) *admin {
	a := &admin{TB: tb, audits: make(chan fuseboxadmin.AuditRecord, 100)}
	a.Handler = &fuseboxadmin.Handler{
		Token: token, Trusted: fuseboxadmin.OnUnixSocket, Logger: slog.New(slog.DiscardHandler),
		Audit: func(r fuseboxadmin.AuditRecord) { a.audits <- r },
	}
	for _, name := range names {
		a.breaker(name, fusebox.Config{})
	}
	return a
}

// newSocket serves an API on a unix socket, and returns its path.
func newSocket(tb testing.TB, names ...string) (a *admin, path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(tb.Context(), "unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	a = newHandler(tb, names...)
	server := &http.Server{Handler: a}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	tb.Cleanup(func() {
		a.Close()
		server.Close()
		<-served
	})
	return a, path
}

func (a *admin) breaker(name string, c fusebox.Config) *fusebox.Breaker {
	b := fusebox.New(name, c)
	a.Add(b)
	return b
}

// audit returns the next audit record.
func (a *admin) audit() fuseboxadmin.AuditRecord {
	a.Helper()
	select {
	case r := <-a.audits:
		return r
	case <-time.After(20 * time.Second):
		a.Fatal("there is no audit record")
		panic("not reached")
	}
}

// trip opens a breaker of the default Config.
func trip(tb testing.TB, b *fusebox.Breaker, err error) {
	tb.Helper()
	for range b.Config().Consecutive {
		_ = b.Do(tb.Context(), func(context.Context) error { return err })
	}
	if b.State() != fusebox.Open {
		tb.Fatalf("%s is %v", b.Name(), b.State())
	}
}

// served serves whatever a function answers, and returns the URL.
func served(tb testing.TB, f http.HandlerFunc) string {
	tb.Helper()
	server := httptest.NewServer(f)
	tb.Cleanup(server.Close)
	return server.URL
}

// nobody is a target where nobody listens.
func nobody(tb testing.TB) string {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// answers is the output as JSON.
type answers[T any] struct {
	Results []result[T] `json:"results"`
}

func decode[T any](o *outcome) []result[T] {
	o.Helper()
	var a answers[T]
	d := json.NewDecoder(strings.NewReader(o.out))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		o.Fatalf("%v in %s", err, o.out)
	}
	return a.Results
}

// direct is a client that a handler answers without a network: in a bubble of
// testing/synctest there can be none.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// session is a session with handlers, in a bubble.
func bubble(handlers ...http.Handler) *session {
	s := &session{
		timeout: time.Second,
		style:   style{zone: time.FixedZone("CET", 3600), cells: &runewidth.Condition{}},
	}
	for i, h := range handlers {
		name := "http://10.0.0." + string(rune('1'+i)) + ":9901"
		s.targets = append(s.targets, &target{name: name, base: name, client: &http.Client{Transport: direct{h}}})
	}
	return s
}

package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/accesslog"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/proxy"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
)

// fixture is a proxy on a listener of loopback.
type fixture struct {
	*proxy.Proxy
	tb      testing.TB
	url     string
	addr    string
	admin   *fuseboxadmin.Handler
	metrics *fuseboxmetrics.Set
	access  string // path of the access log
	client  *http.Client
	server  *http.Server
}

// configuration parses a file whose lines may be indented by tabs in front.
func configuration(tb testing.TB, text string, args ...any) *config.Config {
	tb.Helper()
	text = fmt.Sprintf(text, args...)
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimLeft(line, "\t"))
	}
	f, err := config.Parse(filepath.Join(tb.TempDir(), "fusebox.yaml"), []byte(strings.Join(lines, "")), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return &config.Config{File: *f}
}

// start serves a configuration until the end of the test.
func start(tb testing.TB, c *config.Config, set ...func(*proxy.Options)) *fixture {
	tb.Helper()
	f := &fixture{tb: tb, admin: &fuseboxadmin.Handler{Token: adminToken, Logger: slog.New(slog.DiscardHandler)}, metrics: new(fuseboxmetrics.Set), access: filepath.Join(tb.TempDir(), "access.log")}
	access, err := accesslog.Open(f.access)
	if err != nil {
		tb.Fatal(err)
	}
	o := proxy.Options{Admin: f.admin, Metrics: f.metrics, Access: access, Logger: slog.New(slog.DiscardHandler)}
	for _, s := range set {
		s(&o)
	}
	f.Proxy, err = proxy.New(c, o)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	f.server = &http.Server{Handler: f, Protocols: protocols, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	over := make(chan error, 1)
	go func() { over <- f.server.Serve(l) }()
	f.addr = l.Addr().String()
	f.url = "http://" + f.addr
	transport := &http.Transport{DisableCompression: true}
	f.client = &http.Client{Transport: transport}
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := f.server.Shutdown(ctx); err != nil {
			tb.Errorf("requests did not end: %v", err)
			f.server.Close()
		}
		<-over
		f.Close()
		access.Close()
		f.admin.Close()
	})
	return f
}

// answer is what a client got.
type answer struct {
	*http.Response
	body string
	err  error // of the body
}

// dial connects to the proxy.
func (f *fixture) dial() (net.Conn, error) {
	return new(net.Dialer).DialContext(f.tb.Context(), "tcp", f.addr)
}

// open makes a request whose answer the test reads itself.
func (f *fixture) open(method string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(f.tb.Context(), method, f.url, body)
	if err != nil {
		return nil, err
	}
	return f.client.Do(req)
}

// get makes a GET request, with headers in pairs.
func (f *fixture) get(path string, headers ...string) answer {
	f.tb.Helper()
	return f.do(http.MethodGet, path, nil, headers...)
}

func (f *fixture) do(method, path string, body io.Reader, headers ...string) answer {
	f.tb.Helper()
	req, err := http.NewRequestWithContext(f.tb.Context(), method, f.url+path, body)
	if err != nil {
		f.tb.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	return f.send(req)
}

func (f *fixture) send(req *http.Request) answer {
	f.tb.Helper()
	resp, err := f.client.Do(req)
	if err != nil {
		f.tb.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp, string(b), err}
}

// want checks status and body.
func (a answer) want(tb testing.TB, status int, body string) {
	tb.Helper()
	if a.StatusCode != status || a.body != body || a.err != nil {
		tb.Errorf("answer %d %q (%v), want %d %q", a.StatusCode, a.body, a.err, status, body)
	}
}

// breaker returns what the admin API says of a breaker.
func (f *fixture) breaker(name string) fusebox.Snapshot {
	f.tb.Helper()
	w := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(f.tb.Context(), http.MethodGet, "/"+fuseboxadmin.Path(name), nil)
	req.Host = "localhost"
	f.admin.ServeHTTP(w, req)
	var d fuseboxadmin.Detail
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != http.StatusOK {
		f.tb.Fatalf("breaker %q: %d %s (%v)", name, w.Code, w.Body, err)
	}
	s := d.Snapshot
	s.Totals = d.Totals.Totals
	if d.Last != nil {
		s.Last = d.Last.Transition
	}
	return s
}

// names returns those of all breakers that the admin API shows.
func (f *fixture) names() (names []string) {
	f.tb.Helper()
	for r := range f.metrics.Read() {
		if r.Subject == fuseboxmetrics.Breaker {
			names = append(names, r.Name)
		}
	}
	return names
}

// line is one of the access log.
type line struct {
	Start, End, Method, Host, Path string
	Status                         int
	Bytes                          int64
	Upstream, Endpoint             string
	Attempts                       int
	Outcome, Fallback              string
	Breaker, State                 string
	Probe                          bool
	Duration                       float64 `json:"duration_ms"`
}

// readLines returns the lines of the access log so far, once nothing is in flight.
func readLines(tb testing.TB, f *fixture) []string {
	tb.Helper()
	eventually(tb, "the end of all requests", func() bool { return f.InFlight() == 0 })
	data, err := os.ReadFile(f.access)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// lines waits until the access log has n lines, and returns them.
func (f *fixture) lines(n int) (lines []line) {
	f.tb.Helper()
	eventually(f.tb, "lines in the access log", func() bool {
		data, err := os.ReadFile(f.access)
		if err != nil {
			f.tb.Fatal(err)
		}
		return bytes.Count(data, []byte("\n")) >= n
	})
	data, _ := os.ReadFile(f.access)
	for _, text := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			f.tb.Fatalf("line %q: %v", text, err)
		}
		lines = append(lines, l)
	}
	if len(lines) != n {
		f.tb.Fatalf("%d lines, want %d:\n%s", len(lines), n, data)
	}
	return lines
}

// eventually polls until something holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			tb.Fatalf("waited in vain for: %s", what)
		case <-tick.C:
		}
	}
}

// backend is a server that a test tells what to do.
type backend struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	calls  int
}

// newBackend answers with its status, and its name as the body.
func newBackend(tb testing.TB, name string, status int) *backend {
	b := &backend{status: status}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		b.calls++
		status := b.status
		b.mu.Unlock()
		w.WriteHeader(status)
		io.WriteString(w, name)
	}))
	tb.Cleanup(b.Close)
	return b
}

func (b *backend) set(status int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status = status
}

func (b *backend) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

// handler serves a handler until the end of the test, and returns its address.
func handler(tb testing.TB, h http.HandlerFunc) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.Start()
	tb.Cleanup(s.Close)
	return s.URL
}

// raw serves connections with a function until the end of the test, and returns the
// URL. The function has the connection; it is closed when it returns.
func raw(tb testing.TB, serve func(net.Conn)) string {
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[conn] = true
			mu.Unlock()
			all.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	tb.Cleanup(func() {
		l.Close()
		mu.Lock()
		for conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return "http://" + l.Addr().String()
}

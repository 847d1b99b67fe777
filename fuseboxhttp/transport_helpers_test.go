package fuseboxhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
	"github.com/fusebox-go/fusebox/retry"
)

// clientLab is a real server on loopback and a Transport that calls it, whose
// breakers trip after three failures in a row and then stay open. At the end of
// the test no connection may be in use and no goroutine left.
type clientLab struct {
	*testing.T
	server    *httptest.Server
	base      *http.Transport
	transport *fuseboxhttp.Transport
	client    *http.Client

	mu    sync.Mutex
	conns map[net.Conn]http.ConnState
}

func clientConfig(string) fusebox.Config {
	return fusebox.Config{Consecutive: 3, FailureRate: -1, OpenFor: time.Hour, OpenForMax: time.Hour, OpenJitter: -1}
}

func newClientLab(t *testing.T, handler http.HandlerFunc, changes ...func(*clientLab)) *clientLab {
	t.Helper()
	before := runtime.NumGoroutine()
	l := &clientLab{T: t, conns: map[net.Conn]http.ConnState{}}
	l.server = httptest.NewUnstartedServer(handler)
	l.server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns[c] = s
	}
	l.base = &http.Transport{}
	l.transport = &fuseboxhttp.Transport{Base: l.base, Registry: &fusebox.Registry{Config: clientConfig}}
	l.client = &http.Client{Transport: l.transport}
	for _, change := range changes {
		change(l)
	}
	if l.server.URL == "" {
		l.server.Start()
	}
	t.Cleanup(func() {
		if t.Failed() {
			return // a connection in use would block Close
		}
		eventually(t, "connections in use", func() bool { return l.inUse() == 0 })
		l.client.CloseIdleConnections()
		l.server.Close()
		l.base.CloseIdleConnections()
		eventually(t, "goroutines left", func() bool { return runtime.NumGoroutine() <= before })
	})
	return l
}

// with changes the transport of a lab before it starts.
func with(change func(*fuseboxhttp.Transport)) func(*clientLab) {
	return func(l *clientLab) { change(l.transport) }
}

func (l *clientLab) inUse() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.conns {
		if s == http.StateActive || s == http.StateNew {
			n++
		}
	}
	return n
}

// breaker returns the breaker of the lab's server.
func (l *clientLab) breaker() *fusebox.Breaker {
	l.Helper()
	b, ok := l.transport.Breakers().Lookup(strings.TrimPrefix(strings.TrimPrefix(l.server.URL, "http://"), "https://"))
	if !ok {
		l.Fatal("the server has no breaker")
	}
	return b
}

func (l *clientLab) totals() fusebox.Totals { return l.breaker().Snapshot().Totals }

// want checks the outcomes of the lab's breaker so far. The last may be a moment
// late: it is that of a context, on a goroutine of its own.
func (l *clientLab) want(successes, failures, ignored uint64) {
	l.Helper()
	t := l.totals()
	for end := time.Now().Add(2 * time.Second); t.Successes+t.Failures+t.Ignored < successes+failures+ignored && time.Now().Before(end); t = l.totals() {
		<-time.After(time.Millisecond)
	}
	if t.Successes != successes || t.Failures != failures || t.Ignored != ignored {
		l.Errorf("%d successes, %d failures, %d ignored; want %d, %d, %d",
			t.Successes, t.Failures, t.Ignored, successes, failures, ignored)
	}
}

func (l *clientLab) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	l.Helper()
	req, err := http.NewRequestWithContext(ctx, method, l.server.URL+path, body)
	if err != nil {
		l.Fatal(err)
	}
	return req
}

// get calls the server and returns the status and the body, read and closed.
func (l *clientLab) get(path string) (status int, body string, err error) {
	l.Helper()
	return fetch(l.client, l.request(context.Background(), "GET", path, nil))
}

func fetch(c *http.Client, req *http.Request) (status int, body string, err error) {
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// getURL is http.Client.Get, and requestTo httptest.NewRequest, with a context.
func getURL(c *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(context.Background(), "GET", url, nil)
	if err != nil {
		return nil, err
	}
	return c.Do(req)
}

func requestTo(method, url string, body io.Reader) *http.Request {
	return httptest.NewRequestWithContext(context.Background(), method, url, body)
}

// eventually waits for something that other goroutines bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(5 * time.Second)
	for !ok() {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%s\n%s", what, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
		<-time.After(time.Millisecond)
	}
}

// memory is a Base that answers by a function.
type memory func(*http.Request) (*http.Response, error)

func (f memory) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answer is a response from memory; body may be nil.
func answer(status int, body io.ReadCloser) *http.Response {
	length := int64(-1)
	if body == nil {
		body, length = http.NoBody, 0
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, ContentLength: length}
}

// counted is a body that counts how often it is closed.
type counted struct {
	io.Reader
	closed atomic.Int32
}

func (c *counted) Close() error { c.closed.Add(1); return nil }

func text(s string) *counted { return &counted{Reader: strings.NewReader(s)} }

// quick is a retry policy that hardly waits and has no budget.
func quick(changes ...func(*retry.Config)) *retry.Policy {
	c := retry.Config{BaseDelay: time.Microsecond, NoBudget: true}
	for _, change := range changes {
		change(&c)
	}
	return retry.New(c)
}

// pipes is a network inside a testing/synctest bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "bubble"} }
func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble starts a server of package net/http and a client for it, both inside
// the bubble of t. http://bubble/ is its address.
func bubble(t *testing.T, handler http.HandlerFunc, tr *fuseboxhttp.Transport) *http.Client {
	t.Helper()
	network := make(pipes)
	server := &http.Server{Handler: handler}
	served := make(chan error, 1)
	go func() { served <- server.Serve(network) }()
	base := &http.Transport{DialContext: network.dial}
	tr.Base = base
	t.Cleanup(func() {
		base.CloseIdleConnections()
		server.Shutdown(context.Background()) // handlers may sleep on
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return &http.Client{Transport: tr}
}

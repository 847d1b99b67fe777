package fuseboxhttp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

// status answers with the status its path names, and that as text.
func status(w http.ResponseWriter, r *http.Request) {
	var code int
	fmt.Sscanf(r.URL.Path, "/%d", &code)
	w.WriteHeader(code)
	fmt.Fprintf(w, "this is %d", code)
}

func TestTheZeroTransportGuardsEachHost(t *testing.T) {
	l := newClientLab(t, status)
	zero := &fuseboxhttp.Transport{}
	client := &http.Client{Transport: zero}
	defer client.CloseIdleConnections() // those of http.DefaultTransport
	if code, body, err := fetch(client, l.request(t.Context(), "GET", "/200", nil)); code != 200 || body != "this is 200" || err != nil {
		t.Fatal(code, body, err)
	}
	b, ok := zero.Breakers().Lookup(l.server.Listener.Addr().String())
	if !ok || b.Snapshot().Totals.Successes != 1 {
		t.Errorf("the breaker of the host has not seen the call: %v", b)
	}
	if _, ok := l.transport.Breakers().Lookup(b.Name()); ok {
		t.Error("two transports share a registry that nobody gave them")
	}
}

func TestHost(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"http://example.com/x", "example.com"},
		{"http://example.com:80/", "example.com"},
		{"https://example.com:443/", "example.com"},
		{"http://example.com:443/", "example.com:443"},
		{"https://example.com:80/", "example.com:80"},
		{"https://example.com:8443/", "example.com:8443"},
		{"http://example.com:/", "example.com"},
		{"HTTP://EXAMPLE.com:80/", "example.com"},
		{"http://user:secret@example.com/", "example.com"},
		{"http://[2001:DB8::1]:80/", "[2001:db8::1]"},
		{"https://[::1]:8443/", "[::1]:8443"},
		{"http://[::80]/", "[::80]"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "elsewhere"
		if got := fuseboxhttp.Host(req); got != c.want {
			t.Errorf("Host of %s is %q, want %q", c.url, got, c.want)
		}
	}
	handmade := &http.Request{URL: &url.URL{Scheme: "http", Host: "example.com:"}} // a parser takes the colon away
	if got := fuseboxhttp.Host(handmade); got != "example.com" {
		t.Errorf("Host of a URL with an empty port is %q", got)
	}
	if got := fuseboxhttp.Host(&http.Request{}); got != "" {
		t.Errorf("Host without a URL is %q", got)
	}
}

func TestKeyNamesTheBreakerOrNone(t *testing.T) {
	l := newClientLab(t, status, with(func(tr *fuseboxhttp.Transport) {
		tr.Key = func(r *http.Request) string { return r.Header.Get("Tenant") }
	}))
	for range 5 {
		if code, _, err := l.get("/503"); code != 503 || err != nil {
			t.Fatal(code, err) // no key, no breaker
		}
	}
	req := l.request(t.Context(), "GET", "/200", nil)
	req.Header.Set("Tenant", "a")
	if _, _, err := fetch(l.client, req); err != nil {
		t.Fatal(err)
	}
	for name, b := range l.transport.Breakers().All() {
		if s := b.Snapshot().Totals; name != "a" || s.Successes != 1 || s.Failures != 0 {
			t.Errorf("breaker %q: %+v", name, s)
		}
	}
}

func TestARejectionIsReturnedAsItIs(t *testing.T) {
	l := newClientLab(t, status)
	for range 3 {
		l.get("/503")
	}
	body := text("never read")
	req := l.request(t.Context(), "POST", "/200", body)
	_, err := l.client.Do(req)
	var open *fusebox.OpenError
	if !errors.Is(err, fusebox.ErrOpen) || !errors.As(err, &open) || open.Name() != l.breaker().Name() {
		t.Errorf("%v, want an OpenError", err)
	}
	if wait, ok := fusebox.Rejected(err); !ok || wait <= 0 {
		t.Errorf("Rejected: %v, %v", wait, ok)
	}
	if n := body.closed.Load(); n != 1 {
		t.Errorf("the request's body was closed %d times", n)
	}
	if last := l.breaker().Snapshot().Last; last.LastError != "503 Service Unavailable" {
		t.Errorf("the last error is %q", last.LastError)
	}
	if _, err := l.transport.RoundTrip(l.request(t.Context(), "GET", "/", nil)); err != error(open) { //nolint:errorlint // as it is
		t.Errorf("RoundTrip wraps the rejection: %v", err)
	}
}

func TestC56ACallerThatLeavesIsIgnored(t *testing.T) {
	arrived := make(chan struct{})
	l := newClientLab(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-arrived; cancel() }()
		if _, err := l.client.Do(l.request(ctx, "GET", "/", nil)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	l.want(0, 0, 5)
	if s := l.breaker().State(); s != fusebox.Closed {
		t.Errorf("the breaker is %v", s)
	}
}

func TestC57ADeadlineThatHasPassedCountsNothing(t *testing.T) {
	l := newClientLab(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was called") })
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for range 10 {
		body := text("x")
		_, err := l.transport.RoundTrip(l.request(ctx, "POST", "/", body))
		if !errors.Is(err, context.DeadlineExceeded) || body.closed.Load() != 1 {
			t.Fatalf("%v, body closed %d times", err, body.closed.Load())
		}
		if _, err := l.client.Do(l.request(ctx, "GET", "/", nil)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	l.want(0, 0, 0)
}

func TestC58TheClientsTimeoutIsAFailure(t *testing.T) {
	l := newClientLab(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	l.client.Timeout = 20 * time.Millisecond
	for range 3 {
		var timeout net.Error
		if _, _, err := l.get("/"); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v, want a timeout", err)
		}
	}
	l.want(0, 3, 0)
	if s := l.breaker().State(); s != fusebox.Open {
		t.Errorf("the breaker is %v", s)
	}
}

func TestC61TheStatusOfAResponseDecides(t *testing.T) {
	for code, want := range map[int]fusebox.State{
		200: fusebox.Closed, 304: fusebox.Closed, 401: fusebox.Closed, 404: fusebox.Closed, 408: fusebox.Closed,
		429: fusebox.Open, 500: fusebox.Open, 501: fusebox.Closed, 502: fusebox.Open, 503: fusebox.Open, 599: fusebox.Open, 600: fusebox.Open,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			l := newClientLab(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(code)
				io.WriteString(w, `{"ok":false}`)
			})
			for range 3 {
				if got, _, err := l.get("/"); got != code || err != nil {
					t.Fatal(got, err)
				}
			}
			if s := l.breaker().State(); s != want {
				t.Errorf("three times %d: the breaker is %v, want %v", code, s, want)
			}
		})
	}
	t.Run("transport error", func(t *testing.T) {
		l := newClientLab(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		for range 3 {
			if _, _, err := l.get("/"); err == nil {
				t.Fatal("no error")
			}
		}
		if s := l.breaker().State(); s != fusebox.Open {
			t.Errorf("the breaker is %v", s)
		}
	})
}

func TestClassifyDecidesIfThereIsOne(t *testing.T) {
	l := newClientLab(t, status, with(func(tr *fuseboxhttp.Transport) {
		tr.Classify = func(resp *http.Response) fusebox.Outcome {
			switch resp.StatusCode {
			case 404:
				return fusebox.Failure
			case 418:
				return fusebox.Ignored
			case 420:
				return 77
			}
			return fusebox.Success
		}
	}))
	for _, code := range []string{"/404", "/418", "/503", "/420"} {
		l.get(code)
	}
	l.want(1, 2, 1) // an unknown outcome is a failure
}

func TestTheBreakersClassifySeesTheStatus(t *testing.T) {
	var seen error
	l := newClientLab(t, status, with(func(tr *fuseboxhttp.Transport) {
		tr.Registry.Config = func(string) fusebox.Config {
			return fusebox.Config{Classify: func(_ context.Context, err error) fusebox.Outcome {
				seen = err
				return fusebox.Ignored
			}}
		}
	}))
	l.get("/502")
	var e *fuseboxhttp.StatusError
	if !errors.As(seen, &e) || e.StatusCode != 502 {
		t.Errorf("Config.Classify was asked about %v", seen)
	}
	l.want(0, 0, 1)
}

func TestC138TheResponseIsHandedOverUnread(t *testing.T) {
	l := newClientLab(t, status)
	resp, err := l.client.Do(l.request(t.Context(), "GET", "/503", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	l.want(0, 1, 0) // judged by its head
	if body, err := io.ReadAll(resp.Body); string(body) != "this is 503" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
}

func TestWithoutSettingsRequestAndResponsePassUntouched(t *testing.T) {
	want := answer(200, text("x"))
	body := want.Body
	var got *http.Request
	tr := &fuseboxhttp.Transport{Base: memory(func(r *http.Request) (*http.Response, error) {
		got = r
		return want, nil
	})}
	req := requestTo("GET", "http://example.com/", nil)
	resp, err := tr.RoundTrip(req)
	if resp != want || resp.Body != body || err != nil || got != req {
		t.Errorf("%v, %v", resp, err)
	}
	tr.JudgeBody = true
	want.StatusCode = 503
	if resp, err := tr.RoundTrip(req); resp.Body != body || err != nil {
		t.Errorf("judged at its head: %v, %v", resp.Body, err)
	}
}

func TestC64APanicInClassifyCountsAndPassesOn(t *testing.T) {
	for _, settings := range []*fuseboxhttp.Transport{
		{},
		{Timeout: time.Minute, JudgeBody: true},
		{Timeout: time.Minute, Retry: quick()},
	} {
		body := text("x")
		tr := settings
		tr.Classify = func(*http.Response) fusebox.Outcome { panic("mine") }
		var ctx context.Context
		tr.Base = memory(func(r *http.Request) (*http.Response, error) { ctx = r.Context(); return answer(200, body), nil })
		wantPanic(t, "mine", func() { tr.RoundTrip(requestTo("GET", "http://example.com/", nil)) })
		b, _ := tr.Breakers().Lookup("example.com")
		if s := b.Snapshot().Totals; s.Failures != 1 || s.Successes != 0 {
			t.Errorf("%+v", s)
		}
		if n := body.closed.Load(); n != 1 {
			t.Errorf("the body was closed %d times", n)
		}
		if tr.Timeout > 0 && ctx.Err() == nil {
			t.Error("the context of the attempt goes on")
		}
	}
}

func TestC66APanicInBaseLosesNoProbe(t *testing.T) {
	mode := "panic"
	tr := &fuseboxhttp.Transport{
		Registry: &fusebox.Registry{Config: func(string) fusebox.Config {
			return fusebox.Config{Consecutive: 1, OpenFor: time.Nanosecond, OpenForMax: time.Nanosecond, Probes: 1}
		}},
		Base: memory(func(*http.Request) (*http.Response, error) {
			switch mode {
			case "panic":
				panic("base")
			case "exit":
				runtime.Goexit()
			}
			return answer(200, nil), nil
		}),
	}
	req := requestTo("GET", "http://example.com/", nil)
	for range 3 { // the first trips, the others are probes
		wantPanic(t, "base", func() { tr.RoundTrip(req) })
	}
	mode = "exit"
	done := make(chan struct{})
	go func() { defer close(done); tr.RoundTrip(req) }()
	<-done
	mode = ""
	b, _ := tr.Breakers().Lookup("example.com")
	if s := b.Snapshot(); s.Totals.Failures != 4 || s.Outstanding != 0 {
		t.Errorf("%d failures, %d probes out; want 4, 0", s.Totals.Failures, s.Outstanding)
	}
	if _, err := tr.RoundTrip(req); err != nil || b.State() != fusebox.Closed {
		t.Errorf("%v, %v", err, b.State())
	}
}

func wantPanic(t *testing.T, want any, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != want {
			t.Errorf("recovered %v, want %v", got, want)
		}
	}()
	f()
}

func TestABaseThatAnswersNothingIsAnError(t *testing.T) {
	for _, tr := range []*fuseboxhttp.Transport{{}, {Timeout: time.Minute}} {
		tr.Base = memory(func(*http.Request) (*http.Response, error) { return nil, nil })
		_, err := tr.RoundTrip(requestTo("GET", "http://example.com/", nil))
		if err == nil || !strings.Contains(err.Error(), "Transport.Base") {
			t.Error(err)
		}
	}
}

func TestANegativeTimeoutIsAnError(t *testing.T) {
	tr := &fuseboxhttp.Transport{Timeout: -time.Second}
	body := text("x")
	req := requestTo("POST", "http://example.com/", body)
	const want = "fusebox: Transport.Timeout is -1s, must not be negative; 0 is none"
	if _, err := tr.RoundTrip(req); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if n := body.closed.Load(); n != 1 {
		t.Errorf("the body was closed %d times", n)
	}
}

func TestEachRedirectHasTheBreakerOfItsHost(t *testing.T) {
	for _, judgeBody := range []bool{false, true} {
		end := newClientLab(t, status)
		l := newClientLab(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, end.server.URL+"/503", http.StatusFound)
		}, with(func(tr *fuseboxhttp.Transport) { tr.JudgeBody = judgeBody; tr.Timeout = time.Minute }))
		for range 4 {
			l.get("/")
		}
		l.want(4, 0, 0) // has redirected each time
		b, _ := l.transport.Breakers().Lookup(end.server.Listener.Addr().String())
		if s := b.Snapshot(); s.Totals.Failures != 3 || s.Totals.RejectedOpen != 1 {
			t.Errorf("the host redirected to: %+v", s.Totals)
		}
	}
}

// http2 makes a lab speak HTTP/2.
func http2(l *clientLab) {
	l.server.EnableHTTP2 = true
	l.server.StartTLS()
	pool := l.server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	l.base.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	l.base.ForceAttemptHTTP2 = true
}

func TestHTTP2WithEverythingOn(t *testing.T) {
	l := newClientLab(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Error(r.Proto)
		}
		io.Copy(w, r.Body)
	}, http2, with(func(tr *fuseboxhttp.Transport) {
		tr.JudgeBody, tr.TimeoutBody, tr.Timeout, tr.Retry = true, true, time.Minute, quick()
	}))
	long := strings.Repeat("0123456789", 100_000)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, body, err := fetch(l.client, l.request(t.Context(), "PUT", "/", strings.NewReader(long))); body != long || err != nil {
				t.Errorf("%d bytes, %v", len(body), err)
			}
		})
	}
	all.Wait()
	l.want(5, 0, 0)
	l.base.CloseIdleConnections()
}

func TestExpectContinue(t *testing.T) {
	l := newClientLab(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		io.Copy(w, r.Body)
	}, func(l *clientLab) {
		l.base.ExpectContinueTimeout = time.Minute
		l.transport.Timeout, l.transport.Retry = time.Minute, quick()
	})
	for path, want := range map[string]string{"/": "hello", "/refuse": ""} {
		body := text("hello")
		req := l.request(t.Context(), "PUT", path, body)
		req.ContentLength = 5
		req.Header.Set("Expect", "100-continue")
		if _, got, err := fetch(l.client, req); got != want || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
		eventually(t, "the body is not closed", func() bool { return body.closed.Load() == 1 })
	}
}

func TestAnUpgradedConnectionIsLeftAlone(t *testing.T) {
	const timeout = time.Minute
	for _, settings := range []func(*fuseboxhttp.Transport){
		func(*fuseboxhttp.Transport) {},
		func(tr *fuseboxhttp.Transport) { tr.JudgeBody = true },
		func(tr *fuseboxhttp.Transport) { tr.Timeout = timeout },
		func(tr *fuseboxhttp.Transport) { tr.Timeout, tr.TimeoutBody, tr.JudgeBody = timeout, true, true },
		func(tr *fuseboxhttp.Transport) { tr.Timeout, tr.Retry = timeout, quick() },
	} {
		l := newClientLab(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "echo")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			line, _ := rw.ReadString('\n')
			rw.WriteString("echo " + line)
			rw.Flush()
			io.Copy(io.Discard, rw) // until the other side has no more to say
			rw.WriteString("bye\n")
			rw.Flush()
		}, with(settings))
		req := l.request(t.Context(), "GET", "/", nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := l.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		l.want(1, 0, 0)
		conn, ok := resp.Body.(io.ReadWriteCloser)
		if !ok {
			t.Fatalf("the body is a %T", resp.Body)
		}
		io.WriteString(conn, "hello\n")
		r := bufio.NewReader(conn)
		if line, err := r.ReadString('\n'); line != "echo hello\n" || err != nil {
			t.Errorf("%q, %v", line, err)
		}
		if half, ok := conn.(interface{ CloseWrite() error }); !ok {
			t.Error("the body has no CloseWrite")
		} else if err := half.CloseWrite(); err != nil {
			t.Error(err)
		}
		if line, err := r.ReadString('\n'); line != "bye\n" || err != nil {
			t.Errorf("%q, %v", line, err)
		}
		conn.Close()
		l.want(1, 0, 0)
	}
}

// No timeout ends the context of a connection, whatever Base it came from.
func TestTheContextOfAnUpgradedConnectionEndsWithIt(t *testing.T) {
	for _, total := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var ctx context.Context
			conn := &closeCounted{ReadCloser: text("")}
			tr := &fuseboxhttp.Transport{
				Timeout: time.Second, TimeoutBody: total,
				Base: memory(func(r *http.Request) (*http.Response, error) {
					ctx = r.Context()
					return answer(101, struct {
						io.ReadCloser
						io.Writer
					}{conn, io.Discard}), nil
				}),
			}
			resp, err := tr.RoundTrip(requestTo("GET", "http://example.com/", nil))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			io.ReadAll(resp.Body)
			if ctx.Err() != nil {
				t.Error("the context has ended")
			}
			if err := resp.Body.(interface{ CloseWrite() error }).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
				t.Error(err) // as package net/http says of a connection that cannot
			}
			resp.Body.Close()
			if ctx.Err() == nil || conn.closed.Load() != 1 {
				t.Errorf("context %v, closed %d times", ctx.Err(), conn.closed.Load())
			}
		})
	}
}

func TestCloseIdleConnectionsIsPassedOn(t *testing.T) {
	l := newClientLab(t, status)
	l.get("/200")
	eventually(t, "the connection is not idle", func() bool { return l.inState(http.StateIdle) == 1 })
	l.client.CloseIdleConnections()
	eventually(t, "the connection is open", func() bool { return l.inState(http.StateClosed) == 1 })

	(&fuseboxhttp.Transport{Base: memory(nil)}).CloseIdleConnections() // cannot
}

func (l *clientLab) inState(s http.ConnState) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, is := range l.conns {
		if is == s {
			n++
		}
	}
	return n
}

func TestAProbeThatCannotConnectReopens(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	tr := &fuseboxhttp.Transport{
		Base: &http.Transport{},
		Registry: &fusebox.Registry{Config: func(string) fusebox.Config {
			return fusebox.Config{Consecutive: 1, OpenFor: time.Nanosecond, OpenForMax: time.Nanosecond}
		}},
	}
	for range 2 {
		_, err := tr.RoundTrip(requestTo("GET", "http://"+listener.Addr().String(), nil))
		var dial *net.OpError
		if !errors.As(err, &dial) {
			t.Error(err)
		}
	}
	b, _ := tr.Breakers().Lookup(listener.Addr().String())
	if p := b.Snapshot().Totals.Probes; p.Failed != 1 {
		t.Errorf("%+v", p)
	}
}

func TestStatusErrorNamesTheStatus(t *testing.T) {
	for code, want := range map[int]string{503: "503 Service Unavailable", 599: "599"} {
		if got := (&fuseboxhttp.StatusError{StatusCode: code}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

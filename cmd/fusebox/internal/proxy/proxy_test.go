package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestARequestIsPassedOn(t *testing.T) {
	at := handler(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", r.Host+" "+r.URL.String()+" "+r.Header.Get("X-Forwarded-For"))
		w.Write([]byte("hello"))
	})
	f := start(t, configuration(t, `
		upstreams:
		  a:
		    endpoints: ["%s/base"]
	`, at))
	a := f.get("/x?q=1;2")
	a.want(t, 200, "hello")
	if got, want := a.Header.Get("X-Seen"), at[len("http://"):]+" /base/x?q=1;2 127.0.0.1"; got != want {
		t.Errorf("seen %q, want %q", got, want)
	}
	if l := f.lines(1)[0]; l.Path != "/x" || l.Upstream != "a" || l.Outcome != "success" || l.Bytes != 5 || l.State != "closed" {
		t.Errorf("logged %+v", l)
	}
}

// An upstream that is the proxy itself is a mistake that is soon made.
func TestARequestInCirclesIsRefused(t *testing.T) {
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [\"http://127.0.0.1:1\"], breaker: {mode: off}}}"))
	if err := f.Apply(configuration(t, "upstreams: {x: {endpoints: [%q], breaker: {mode: off}}}", f.url)); err != nil {
		t.Fatal(err)
	}
	f.get("/").want(t, http.StatusLoopDetected, "the request goes in circles\n")
	if n := len(readLines(t, f)); n != 11 {
		t.Errorf("%d requests, want 11", n)
	}
	ok := newBackend(t, "ok", 200)
	if err := f.Apply(configuration(t, "upstreams: {x: {endpoints: [%q]}}", ok.URL)); err != nil {
		t.Fatal(err)
	}
	f.get("/", "Via", strings.Repeat("1.1 fusebox, ", 9)+"1.1 another").want(t, 200, "ok")
}

// To pretend that a request has gone in circles brings nobody's breaker to open.
func TestCirclesThatAClientPretendsAreNoFailure(t *testing.T) {
	ok := newBackend(t, "ok", 200)
	inner := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", ok.URL))
	outer := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], breaker: {consecutive: 1}, fallback: {status: 204}}}", inner.url))
	outer.get("/", "Via", strings.Repeat("1.1 fusebox, ", 9)).want(t, http.StatusLoopDetected, "the request goes in circles\n")
	outer.get("/").want(t, 200, "ok")
	if s := outer.breaker("x").Totals; s.Ignored != 1 || s.Successes != 1 {
		t.Errorf("%+v", s)
	}
	if l := outer.lines(2)[0]; l.Outcome != "ignored" || l.Status != http.StatusLoopDetected {
		t.Errorf("logged %+v", l)
	}
	is := newBackend(t, "webdav", http.StatusLoopDetected) // who has got no Via from the client says it of himself
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", is.URL))
	f.get("/").want(t, http.StatusLoopDetected, "webdav")
	if s := f.breaker("x").Totals; s.Failures != 1 {
		t.Errorf("%+v", s)
	}
}

// Over HTTP/2 a method or a query may be something that over HTTP/1 would end it.
func TestMalformedRequestsOverHTTP2AreRefused(t *testing.T) {
	at := handler(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method, " ", r.RequestURI) })
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", at))
	const refused = "the method or the target is malformed\n"
	for _, c := range [][3]string{
		{"M-SEARCH", "/?a=b", "M-SEARCH /?a=b"},
		{"GET", "/a b", "GET /a%20b"},
		{"G T", "/", refused},
		{"GET /?", "/", refused},
		{"G\u00e9T", "/", refused},
		{"GET", "/?a HTTP/1.1", refused},
	} {
		conn, err := f.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		field := func(index byte, value string) string { return string([]byte{index, byte(len(value))}) + value }
		const method, path, authority, http, endStream, endHeaders = 2, 4, 1, "\x86", 1, 4
		block := field(method, c[0]) + http + field(path, c[1]) + field(authority, "x")
		io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+
			string([]byte{0, 0, byte(len(block)), 1, endStream | endHeaders, 0, 0, 0, 1})+block)
		got := ""
		for got == "" {
			h := make([]byte, 9)
			if _, err := io.ReadFull(conn, h); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, int(h[0])<<16|int(h[1])<<8|int(h[2]))
			if _, err := io.ReadFull(conn, b); err != nil {
				t.Fatal(err)
			}
			if h[3] == 0 { // data
				got = string(b)
			}
		}
		if got != c[2] {
			t.Errorf("%q %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
	if s := f.breaker("x").Totals; s.Failures+s.Ignored != 0 || s.Successes != 2 {
		t.Errorf("%+v", s)
	}
}

// HTTP/2 has no upgrades, and servers that set a limit to what they take of a head. What
// a client asks for is not their fault.
func TestWhatHTTP2CannotCarryIsNoFailure(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ", r.Header.Get("Connection"), " ", r.Header.Get("Upgrade"))
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.MaxHeaderBytes = 4 << 10
	s.Start()
	t.Cleanup(s.Close)
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], retry: {attempts: 3}}}", "h2c"+strings.TrimPrefix(s.URL, "http")))
	for _, to := range []string{"websocket", "echo"} {
		f.get("/", "Connection", "Upgrade", "Upgrade", to).want(t, 200, "HTTP/2.0  ")
	}
	f.get("/", "X-Large", strings.Repeat("x", 20<<10)).want(t, http.StatusRequestHeaderFieldsTooLarge, "the head of the request is too large for x\n")
	if s := f.breaker("x").Totals; s.Failures != 0 || s.Ignored != 1 || s.Successes != 2 {
		t.Errorf("%+v", s)
	}
	if l := f.lines(3)[2]; l.Outcome != "ignored" || l.Attempts != 1 {
		t.Errorf("logged %+v", l)
	}
}

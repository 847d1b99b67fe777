package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/proxy"
)

// h2c returns a client that speaks HTTP/2 without TLS.
func h2c(tb testing.TB) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	t := &http.Transport{Protocols: protocols, DisableCompression: true}
	tb.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// h2cServer serves HTTP/2 without TLS, and returns the URL with the scheme of the file.
func h2cServer(tb testing.TB, h http.HandlerFunc) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	tb.Cleanup(s.Close)
	return "h2c" + strings.TrimPrefix(s.URL, "http")
}

func TestProtocols(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Proto", r.Proto)
		w.Header().Set("X-Via", r.Header.Get("Via"))
		w.Header().Set("X-Upgrade", r.Header.Get("Upgrade"))
		io.Copy(w, r.Body)
	}
	secure := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	secure.EnableHTTP2 = true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	f := start(t, configuration(t, `
		upstreams:
		  plain: {endpoints: [%q]}
		  h2c: {endpoints: [%q]}
		  tls: {endpoints: [%q]}
		routes: [{prefix: /plain, upstream: plain}, {prefix: /h2c, upstream: h2c}, {prefix: /tls, upstream: tls}]
	`, handler(t, echo), h2cServer(t, echo), secure.URL), func(o *proxy.Options) { o.RootCAs = roots })
	f1 := f.client
	for client, via := range map[*http.Client]string{f1: "1.1 fusebox", h2c(t): "2.0 fusebox"} {
		f.client = client
		for path, proto := range map[string]string{"/plain": "HTTP/1.1", "/h2c": "HTTP/2.0", "/tls": "HTTP/2.0"} {
			got := f.do(http.MethodPost, path, strings.NewReader("body"))
			got.want(t, 200, "body")
			if got.Header.Get("X-Proto") != proto || got.Header.Get("X-Via") != via {
				t.Errorf("%s: %q, %q, want %q, %q", path, got.Header.Get("X-Proto"), got.Header.Get("X-Via"), proto, via)
			}
		}
	}
	f.client = f1
	for path, want := range map[string]string{"/plain": "HTTP/1.1 echo", "/h2c": "HTTP/2.0 ", "/tls": "HTTP/1.1 echo"} { // HTTP/2 has no upgrades
		h := f.get(path, "Connection", "Upgrade", "Upgrade", "echo").Header
		if got := h.Get("X-Proto") + " " + h.Get("X-Upgrade"); got != want {
			t.Errorf("an upgrade to %s: %q, want %q", path, got, want)
		}
	}
}

func TestGRPCPassesWithItsTrailers(t *testing.T) {
	at := h2cServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Te") != "trailers" || r.Header.Get("Content-Type") != "application/grpc" || r.ProtoMajor != 2 {
			t.Errorf("headers %v", r.Header)
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
		w.WriteHeader(200)
		buf := make([]byte, 5)
		for { // each message is echoed before the next is read
			n, err := io.ReadFull(r.Body, buf)
			w.Write(buf[:n])
			w.(http.Flusher).Flush()
			if err != nil {
				break
			}
		}
		w.Header().Set("Grpc-Status", "5")
		w.Header().Set("Grpc-Message", "not found")
	})
	f := start(t, configuration(t, `
		upstreams:
		  x: {endpoints: [%q], retry: {}, bulkhead: {}}
	`, at))
	body, feed := io.Pipe()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/svc/Method", body)
	req.Header.Set("Te", "trailers")
	req.Header.Set("Content-Type", "application/grpc")
	go feed.Write([]byte("12345"))
	resp, err := h2c(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make([]byte, 5)
	for _, message := range []string{"12345", "abcde", "fghij"} {
		if message != "12345" {
			io.WriteString(feed, message)
		}
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != message {
			t.Fatalf("%q, %v, want %q while the stream is open", got, err, message)
		}
	}
	feed.Close()
	if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if resp.Trailer.Get("Grpc-Status") != "5" || resp.Trailer.Get("Grpc-Message") != "not found" {
		t.Errorf("trailers %v", resp.Trailer)
	}
}

func TestTrailersPassBothWays(t *testing.T) {
	at := handler(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
		w.Header().Set("X-Sum", r.Trailer.Get("X-Check"))
		w.Header().Set(http.TrailerPrefix+"X-Late", "unannounced")
	})
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], retry: {}}}", at))
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, f.url, struct{ io.Reader }{strings.NewReader("body")})
	req.Trailer = http.Header{"X-Check": {"42"}}
	got := f.send(req)
	got.want(t, 200, "body")
	if got.Trailer.Get("X-Sum") != "42" || got.Trailer.Get("X-Late") != "unannounced" {
		t.Errorf("trailers %v", got.Trailer)
	}
}

func TestServerSentEventsAreNotHeldBack(t *testing.T) {
	next := make(chan struct{})
	at := handler(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	})
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], timeouts: {total: 5s, per-try: 5s}, bulkhead: {limit: 1}}}", at))
	resp, err := f.open(http.MethodGet, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(resp.Body)
	for i := range 3 {
		line, err := lines.ReadString('\n')
		if want := fmt.Sprintf("data: %d\n", i); line != want || err != nil {
			t.Fatalf("%q, %v, want %q", line, err, want)
		}
		lines.ReadString('\n')
		if i < 2 {
			next <- struct{}{}
		}
	}
	resp.Body.Close() // the client leaves the stream
	eventually(t, "the end of the stream", func() bool { return f.InFlight() == 0 })
	s := f.breaker("x")
	if s.Totals.Failures != 0 || s.Totals.Ignored+s.Totals.Successes != 1 {
		t.Errorf("%+v", s.Totals)
	}
}

func TestAnUpgradePassesAndHoldsItsPlace(t *testing.T) {
	at := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" || r.Header.Get("Connection") != "Upgrade" {
			w.Write([]byte("plain"))
			return
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(conn, rw)
	})
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], timeouts: {total: 300ms, per-try: 300ms}, bulkhead: {limit: 1}, retry: {}}}", at))
	conn, err := f.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "echo" {
		t.Fatalf("%+v, %v", resp, err)
	}
	if s := f.breaker("x"); s.Totals.Successes != 1 {
		t.Errorf("an upgrade is judged at its 101: %+v", s.Totals)
	}
	timeouts := time.After(400 * time.Millisecond) // have passed by the second message
	for i := range 2 {
		message := strings.Repeat("m", 10+i)
		io.WriteString(conn, message)
		got := make([]byte, len(message))
		if _, err := io.ReadFull(in, got); err != nil || string(got) != message {
			t.Fatalf("%q, %v", got, err)
		}
		if i == 0 {
			<-timeouts
		}
	}
	f.get("/").want(t, 503, "x is not available\n") // the place is taken
	conn.Close()
	eventually(t, "the end of the upgraded connection", func() bool { return f.InFlight() == 0 })
	f.get("/").want(t, 200, "plain")
	for _, l := range f.lines(3) {
		if l.Path == "/ws" && (l.Status != 101 || l.Outcome != "success") {
			t.Errorf("logged %+v", l)
		}
	}
}

func TestExpectContinue(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		at := handler(t, func(w http.ResponseWriter, r *http.Request) {
			if refuse {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			io.Copy(w, r.Body)
		})
		f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], retry: {}}}", at))
		conn, err := f.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
		in := bufio.NewReader(conn)
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if refuse {
			if !strings.HasPrefix(line, "HTTP/1.1 403") {
				t.Errorf("%q, want 403 before the body is sent", line)
			}
			continue
		}
		if line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("%q, want 100", line)
		}
		in.ReadString('\n')
		io.WriteString(conn, "body")
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != "body" {
			t.Errorf("%d %q", resp.StatusCode, b)
		}
	}
}

// A server may answer in many wrong ways.
func TestServersThatAreUnwell(t *testing.T) {
	say := func(text string) string {
		return raw(t, func(c net.Conn) {
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, text)
		})
	}
	reset := func(text string) string {
		return raw(t, func(c net.Conn) {
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, text)
			c.(*net.TCPConn).SetLinger(0)
		})
	}
	for name, c := range map[string]struct {
		at     string
		status int // 0: the answer breaks off
	}{
		"says nothing and closes":      {say(""), 502},
		"answers garbage":              {say("\x00\x01\x02 what is this\r\n\r\n"), 502},
		"answers half a head":          {say("HTTP/1.1 200 OK\r\nContent-Le"), 502},
		"sends a header of 10 MB":      {say("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 10<<20) + "\r\n\r\n"), 502},
		"sends two lengths":            {say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), 502},
		"closes within a body":         {say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), 0},
		"resets within a body":         {reset("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), 0},
		"breaks its chunks":            {say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"), 0},
		"switches without being asked": {say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), 502},
		"answers a status of two":      {say("HTTP/1.1 099 What\r\nContent-Length: 0\r\n\r\n"), 502},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", c.at))
			resp, err := f.open(http.MethodGet, nil)
			switch {
			case err != nil && c.status != 0:
				t.Fatal(err)
			case err == nil:
				defer resp.Body.Close()
				_, err := io.ReadAll(resp.Body)
				if c.status == 0 && err == nil || c.status != 0 && resp.StatusCode != c.status {
					t.Errorf("%d, %v", resp.StatusCode, err)
				}
			}
			eventually(t, "the end of the request", func() bool { return f.InFlight() == 0 })
			l := f.lines(1)[0]
			if s := f.breaker("x"); s.Totals.Failures != 1 || l.Outcome != "failure" || c.status != 0 && l.Status != c.status {
				t.Errorf("%+v, logged %+v", s.Totals, l)
			}
		})
	}
}

// frames serves HTTP/2 without TLS by hand, and returns the URL. A connection begins with
// the settings; the function is told of each request's head, with the number of the
// connection, and answers a frame or more, and whether the connection ends then. A request
// without an answer gets status 200 when its body is over.
func frames(tb testing.TB, head func(conn, stream uint32) (frames string, end bool)) string {
	var conns atomic.Uint32
	frame := func(kind, flags byte, stream uint32, payload string) string {
		n := len(payload)
		return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}) + payload
	}
	const data, headers, settings, endStream = 0, 1, 4, 1
	at := raw(tb, func(c net.Conn) {
		conn := conns.Add(1)
		in := bufio.NewReader(c)
		if _, err := in.Discard(24); err != nil {
			return
		}
		io.WriteString(c, frame(settings, 0, 0, ""))
		for {
			h := make([]byte, 9)
			if _, err := io.ReadFull(in, h); err != nil {
				return
			}
			if _, err := in.Discard(int(h[0])<<16 | int(h[1])<<8 | int(h[2])); err != nil {
				return
			}
			kind, flags, stream := h[3], h[4], binary.BigEndian.Uint32(h[5:])
			if kind == headers {
				said, end := head(conn, stream)
				io.WriteString(c, said)
				if end {
					io.Copy(io.Discard, in) // until the client has gone
					return
				}
				if said != "" {
					continue
				}
			}
			if (kind == headers || kind == data) && flags&endStream != 0 {
				io.WriteString(c, frame(headers, 4|endStream, stream, "\x88")) // :status 200
			}
		}
	})
	return "h2c" + strings.TrimPrefix(at, "http")
}

const goAwayFromAll = "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// A server that is on its way out says with a GOAWAY what it has not processed: that is
// sent again, body and all, whether there are retries or not.
func TestAGoAwayIsNoFailure(t *testing.T) {
	at := frames(t, func(conn, _ uint32) (string, bool) {
		if conn == 1 {
			return goAwayFromAll, true
		}
		return "", false
	})
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", at))
	f.do(http.MethodPost, "/", strings.NewReader("body")).want(t, 200, "")
	if s := f.breaker("x"); s.Totals.Successes != 1 || s.Totals.Failures != 0 {
		t.Errorf("%+v", s.Totals)
	}
}

// One that leaves every connection is down: it is not asked again without end, and it is
// to blame, not the client.
func TestAServerThatAlwaysGoesAwayIsDown(t *testing.T) {
	var conns atomic.Uint32
	at := frames(t, func(conn, _ uint32) (string, bool) {
		conns.Store(conn)
		return goAwayFromAll, true
	})
	for retry, failures := range map[string]uint64{"": 1, "retry: {attempts: 2, base-delay: 1ns}": 2} {
		for _, body := range []string{"", "body"} {
			t.Run(retry+body, func(t *testing.T) {
				f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], %s}}", at, retry))
				f.do(http.MethodPost, "/", strings.NewReader(body)).want(t, 502, "x gave no answer\n")
				if s := f.breaker("x"); s.Totals.Failures != failures || s.Totals.Ignored != 0 {
					t.Errorf("%+v", s.Totals)
				}
			})
		}
	}
	if n := conns.Load(); n > 100 {
		t.Errorf("%d connections", n)
	}
}

func TestATrickleIsPassedOnAsItComes(t *testing.T) {
	step := make(chan struct{})
	at := raw(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for range step {
			io.WriteString(c, "1\r\nx\r\n")
		}
		io.WriteString(c, "0\r\n\r\n")
	})
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], timeouts: {total: 1s, per-try: 1s}}}", at))
	resp, err := f.open(http.MethodGet, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	one := make([]byte, 1)
	for range 5 {
		step <- struct{}{}
		if _, err := io.ReadFull(resp.Body, one); err != nil {
			t.Fatal(err)
		}
	}
	close(step)
	if _, err := resp.Body.Read(one); err != io.EOF {
		t.Error(err)
	}
}

// What a client does wrong is not the upstream's fault.
func TestClientsThatAreUnwell(t *testing.T) {
	for name, c := range map[string]struct {
		send   string
		leave  bool
		status int
	}{
		"trickles its body":       {"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", false, 408},
		"leaves within its body":  {"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", true, 0},
		"sends a bad chunk":       {"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n\r\n", false, 400},
		"sends two lengths":       {"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", false, 400},
		"sends another encoding":  {"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", false, 501},
		"has no host":             {"GET / HTTP/1.1\r\n\r\n", false, 400},
		"climbs":                  {"GET /a/../../b HTTP/1.1\r\nHost: x\r\n\r\n", false, 400},
		"climbs in disguise":      {"GET /%2e%2e/b HTTP/1.1\r\nHost: x\r\n\r\n", false, 400},
		"wants a tunnel":          {"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", false, 405},
		"speaks another language": {"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03 hello\r\n\r\n", false, 400},
	} {
		for _, retry := range []string{"", "retry: {}, "} {
			t.Run(name+" "+retry, func(t *testing.T) {
				at := handler(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
				f := start(t, configuration(t, "upstreams: {x: {%sendpoints: [%q], timeouts: {per-try: 100ms}}}", retry, at))
				conn, err := f.dial()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				io.WriteString(conn, c.send)
				if c.leave {
					eventually(t, "its arrival", func() bool { return f.InFlight() == 1 })
					conn.Close()
				} else {
					resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						t.Fatal(err)
					}
					if resp.StatusCode != c.status {
						t.Errorf("%d, want %d", resp.StatusCode, c.status)
					}
					conn.Close()
				}
				eventually(t, "the end of the request", func() bool { return f.InFlight() == 0 })
				if c.leave {
					if l := f.lines(1)[0]; l.Status != 499 || l.Outcome != "ignored" {
						t.Errorf("logged %+v", l)
					}
				}
				if s := f.breaker("x"); s.Totals.Failures != 0 || s.State != fusebox.Closed {
					t.Errorf("%+v", s.Totals)
				}
			})
		}
	}
}

// With both a length and chunks the chunks count, and the length does not reach the
// upstream: nobody can take the one for the other.
func TestALengthBesideChunksIsDropped(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	at := handler(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprint(r.Method, r.URL, r.Header["Content-Length"], r.TransferEncoding, string(b)))
	})
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", at))
	conn, err := f.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	io.ReadAll(conn)
	mu.Lock()
	defer mu.Unlock()
	if len(seen) == 0 || seen[0] != "POST/a [] [chunked]abc" || len(seen) > 2 || len(seen) == 2 && seen[1] != "GET/b [] []" {
		t.Errorf("the upstream has seen %q", seen)
	}
}

func TestHeaders(t *testing.T) {
	at := handler(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Keep-Alive", "timeout=1")
		w.Header().Set("X-Hop", "1")
		w.Header().Set("Connection", "X-Hop")
		fmt.Fprintf(w, "%s\n", r.Host)
		for _, name := range []string{
			"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Via", "X-Secret-Hop",
			"Proxy-Authorization", "Keep-Alive", "Te", "User-Agent", "Accept-Encoding",
		} {
			fmt.Fprintf(w, "%s: %s\n", name, strings.Join(r.Header[name], "|"))
		}
	})
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", at))
	conn, err := f.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: www.example.com:81\r\nForwarded: for=1.2.3.4\r\nX-Forwarded-For: 1.2.3.4\r\n"+
		"X-Forwarded-Host: evil\r\nX-Forwarded-Proto: https\r\nVia: 1.0 other\r\nConnection: close, X-Secret-Hop\r\nX-Secret-Hop: 1\r\n"+
		"Proxy-Authorization: Basic x\r\nKeep-Alive: 1\r\nTE: gzip\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	want := strings.TrimPrefix(at, "http://") + `
Forwarded: for=127.0.0.1;host="www.example.com:81";proto=http
X-Forwarded-For: 127.0.0.1
X-Forwarded-Host: www.example.com:81
X-Forwarded-Proto: http
Via: 1.0 other|1.1 fusebox
X-Secret-Hop: 
Proxy-Authorization: 
Keep-Alive: 
Te: 
User-Agent: 
Accept-Encoding: 
`
	if string(b) != want {
		t.Errorf("the upstream has seen\n%s\nwant\n%s", b, want)
	}
	if resp.Header.Get("X-Hop") != "" || resp.Header.Get("Keep-Alive") != "" {
		t.Errorf("headers %v", resp.Header)
	}
}

func TestABodyIsSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		size, max int
		chunked   bool
		status    int
	}{
		"small":                 {1000, 64 << 10, false, 200},
		"at the limit":          {1000, 1000, false, 200},
		"over the limit":        {1001, 1000, false, 503},
		"chunked":               {1000, 64 << 10, true, 200},
		"chunked, over":         {100_000, 1000, true, 503},
		"of the size of buffer": {64 << 10, 64 << 10, true, 200},
	} {
		t.Run(name, func(t *testing.T) {
			body := bytes.Repeat([]byte("0123456789"), c.size/10+1)[:c.size]
			var mu sync.Mutex
			n := 0
			at := handler(t, func(w http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				mu.Lock()
				n++
				first := n == 1
				mu.Unlock()
				if !bytes.Equal(b, body) {
					t.Errorf("the body of request %d has %d bytes, want %d", n, len(b), len(body))
				}
				if first {
					w.WriteHeader(503)
				}
			})
			f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], retry: {base-delay: 1ms, max-body: %dB}}}", at, c.max))
			var r io.Reader = bytes.NewReader(body)
			if c.chunked {
				r = struct{ io.Reader }{r}
			}
			f.do(http.MethodPut, "/", r).want(t, c.status, "")
		})
	}
}

// A retry does not wait for a client that has stopped sending.
func TestARetryDoesNotWaitForAClientBeyondTheTimeout(t *testing.T) {
	at := raw(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	})
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], timeouts: {total: 300ms}, retry: {base-delay: 1ms}}}", at))
	conn, err := f.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode < 400 {
		t.Errorf("status %d", resp.StatusCode)
	}
	conn.Close()
	eventually(t, "the end of the request", func() bool { return f.InFlight() == 0 })
}

func TestOverHTTP2AClientThatLeavesIsIgnored(t *testing.T) {
	arrived := make(chan struct{})
	at := handler(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", at))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if resp, err := h2c(t).Do(req); err == nil {
		t.Errorf("%v", resp)
	}
	eventually(t, "the end of the request", func() bool { return f.InFlight() == 0 })
	if s := f.breaker("x"); s.Totals.Ignored != 1 || s.Totals.Failures != 0 {
		t.Errorf("%+v", s.Totals)
	}
}

// Behind an upgrade to HTTP/2 requests would pass by routes and breakers.
func TestAnUpgradeToHTTP2DoesNotPass(t *testing.T) {
	at := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header["Upgrade"])+len(r.Header["Http2-Settings"])+len(r.Header["Connection"]) > 0 {
			w.WriteHeader(500)
		}
	})
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", at))
	for _, u := range []string{"h2c", "H2C", "foo, h2c"} {
		f.get("/", "Connection", "Upgrade", "Upgrade", u, "HTTP2-Settings", "AAMAAABkAAQAAP__").want(t, 200, "")
	}
}

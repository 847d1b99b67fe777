package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A client that has stopped sending gets what there is to say, and holds nothing.
func TestAnAnswerDoesNotWaitForTheRestOfTheBody(t *testing.T) {
	early := raw(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
		io.Copy(io.Discard, c)
	})
	f := start(t, configuration(t, `
		upstreams:
		  x: {endpoints: [%q], bulkhead: {limit: 1}}
		  open: {endpoints: [%q]}
		  fallback: {endpoints: [%q], fallback: {status: 204}}
		routes: [{prefix: /x, upstream: x}, {prefix: /open, upstream: open}, {prefix: /fallback, upstream: fallback}]
	`, early, early, early))
	f.force(t, "open")
	f.force(t, "fallback")
	for path, status := range map[string]int{"/x": 403, "/open": 503, "/fallback": 204, "/none": 404} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			conn, err := f.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc", path)
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != status {
				t.Errorf("status %d, want %d", resp.StatusCode, status)
			}
			io.Copy(io.Discard, resp.Body)
			if _, err := in.ReadByte(); err == nil {
				t.Error("there is more")
			}
		})
	}
}

// What the upstream answers before it has read the whole body passes, and so does the
// rest of the body, over HTTP/1 too: also where it could have been tried again, but is not.
func TestAnAnswerMayBeginBeforeTheBodyIsOver(t *testing.T) {
	first, rest := strings.Repeat("a", 1000), strings.Repeat("b", 100_000)
	for retry, status := range map[string]int{"": 200, "retry: {attempts: 1, max-body: 1MiB}": 503, "retry: {attempts: 1, max-body: 2KiB}": 503} {
		t.Run(retry, func(t *testing.T) {
			read := make(chan string, 1)
			at := raw(t, func(c net.Conn) {
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				b := make([]byte, len(first))
				io.ReadFull(r.Body, b)
				fmt.Fprintf(c, "HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n", status)
				more, err := io.ReadAll(r.Body)
				read <- fmt.Sprint(bytes.Equal(more, []byte(rest)), len(more), err)
				io.WriteString(c, "4\r\nrest\r\n0\r\n\r\n")
			})
			f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], %s}}", at, retry))
			conn, err := f.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			fmt.Fprintf(conn, "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(first), first)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 5)
			if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "first" || resp.StatusCode != status {
				t.Fatalf("%d %q, %v", resp.StatusCode, b, err)
			}
			fmt.Fprintf(conn, "%x\r\n%s\r\n0\r\n\r\n", len(rest), rest)
			if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "rest" {
				t.Errorf("%q, %v", b, err)
			}
			if got, want := <-read, fmt.Sprint(true, len(rest), nil); got != want {
				t.Errorf("the upstream has read %s, want %s", got, want)
			}
		})
	}
}

// What is kept of a body for another try goes when there will be none: the answer may
// be a stream that lasts for hours.
func TestABodyIsNotKeptBehindItsAnswer(t *testing.T) {
	const streams, size = 24, 2 << 20
	const all = streams * size
	body := strings.Repeat("x", size)
	end := make(chan struct{})
	var calls atomic.Int64
	at := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); n != size || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		if calls.Add(1)%2 == 1 { // each is sent twice
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		http.NewResponseController(w).Flush()
		<-end
	})
	f := start(t, configuration(t, `
		upstreams:
		  x:
		    endpoints: [%q]
		    breaker: {mode: off}
		    retry: {attempts: 100, base-delay: 1ns, budget-per-second: 1000, max-body: 4MiB}
	`, at))
	used := func() int64 {
		runtime.GC()
		runtime.GC() // what a pool holds goes with the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := used()
	for range streams {
		resp, err := f.open(http.MethodPut, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	if n := used() - before; n > all/3 {
		t.Errorf("%d bytes are in use behind %d answers to %d bytes each", n, streams, size)
	}
	close(end)
}

// The timeout of a try stops its body, and not that of the next, however late it comes.
func TestATimeoutDoesNotStopTheBodyOfTheNextTry(t *testing.T) {
	const body = "the whole body"
	var calls atomic.Int64
	at := handler(t, func(_ http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); string(b) != body || err != nil {
			t.Errorf("read %q, %v", b, err)
		}
		if calls.Add(1)%2 == 1 {
			<-r.Context().Done()
		}
	})
	f := start(t, configuration(t, `
		upstreams:
		  x:
		    endpoints: [%q]
		    timeouts: {per-try: 20ms}
		    breaker: {mode: off}
		    retry: {attempts: 20, base-delay: 1ns, budget-per-second: 1000}
	`, at))
	for range 10 {
		f.do(http.MethodPut, "/", strings.NewReader(body)).want(t, 200, "")
	}
}

package proxy_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestTheLastGoodAnswer(t *testing.T) {
	var down atomic.Bool
	at := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(500)
			return
		}
		switch r.URL.Path {
		case "/private":
			w.Header().Set("Cache-Control", "max-age=1, private")
		case "/cookie":
			w.Header().Set("Set-Cookie", "a=b")
		case "/vary":
			w.Header().Set("Vary", "Accept-Language")
		case "/large":
			w.Write([]byte(strings.Repeat("x", 100<<10)))
		}
		if r.URL.Path == "/whose" {
			w.Write([]byte("for " + r.Header.Get("X-Api-Key")))
			return
		}
		w.Header().Set("Content-Type", "text/x-test")
		w.Header().Set("Age", "7")
		w.Write([]byte(r.URL.String()))
	})
	f := start(t, configuration(t, `
		upstreams:
		  x:
		    endpoints: [%q]
		    breaker: {consecutive: 12, failure-rate: off, open-for: 1h, open-for-max: 1h}
		    fallback: {last-good: {max-age: 1m, max-size: 64KiB}}
	`, at))
	requests := [][]string{
		{"/a?b=1"},
		{"/private"},
		{"/cookie"},
		{"/large"},
		{"/vary", "Accept-Language", "de"},
		{"/credentials", "Authorization", "x"},
		{"/with-cookie", "Cookie", "x=y"},
		{"/whose", "X-Api-Key", "alice"},
	}
	for _, r := range requests {
		if a := f.get(r[0], r[1:]...); a.StatusCode != 200 || a.err != nil {
			t.Fatal(a)
		}
	}
	down.Store(true)
	got := f.get("/a?b=1")
	got.want(t, 200, "/a?b=1")
	if got.Header.Get("Age") != "7" || got.Header.Get("Content-Type") != "text/x-test" || got.Header.Get("Fusebox-Breaker") != "" {
		t.Errorf("headers %v", got.Header)
	}
	f.get("/a?b=2").want(t, 500, "")
	f.get("/vary", "Accept-Language", "de").want(t, 200, "/vary")
	f.get("/vary", "Accept-Language", "fr").want(t, 500, "")
	for _, r := range requests[1:4] {
		f.get(r[0], r[1:]...).want(t, 500, "")
	}
	f.get("/credentials").want(t, 500, "")
	f.get("/with-cookie").want(t, 500, "")
	f.get("/whose", "X-Api-Key", "alice").want(t, 200, "for alice")
	f.get("/whose", "X-Api-Key", "bob").want(t, 500, "")
	f.get("/whose").want(t, 500, "")
	f.get("/a?b=1", "Cookie", "x=y").want(t, 503, "x is not available\n")
	got = f.get("/a?b=1") // refused now
	got.want(t, 200, "/a?b=1")
	if got.Header.Get("Fusebox-Breaker") != "x; state=open; cause=consecutive" {
		t.Errorf("headers %v", got.Header)
	}
	lines := f.lines(len(requests) + 14)
	if l := lines[len(lines)-1]; l.Fallback != "last-good" || l.Outcome != "rejected" || l.Status != 200 {
		t.Errorf("logged %+v", l)
	}
}

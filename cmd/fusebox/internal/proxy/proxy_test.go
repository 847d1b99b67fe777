package proxy_test

import (
	"net/http"
	"strings"
	"testing"
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

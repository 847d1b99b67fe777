package proxy_test

import (
	"net/http"
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

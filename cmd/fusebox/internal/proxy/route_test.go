package proxy_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"
)

func TestRoutes(t *testing.T) {
	at := map[string]string{}
	for _, name := range []string{"any", "pay", "api", "apipay", "wild", "deep"} {
		at[name] = newBackend(t, name, 200).URL
	}
	text := "upstreams:\n"
	for name, url := range at {
		text += "  " + name + ": {endpoints: [\"" + url + "\"]}\n"
	}
	f := start(t, configuration(t, text+`
routes:
  - {prefix: /any, upstream: any}
  - {prefix: /pay/, upstream: pay}
  - {host: "*.example.com", upstream: wild}
  - {host: "*.b.example.com", upstream: deep}
  - {host: api.example.com, prefix: /api, upstream: api}
  - {host: api.example.com, prefix: /api/pay, upstream: apipay}
`))
	for _, c := range []struct {
		host, path string
		want       string // "": no route
	}{
		{"localhost", "/any", "any"},
		{"localhost", "/any/", "any"},
		{"localhost", "/any/thing?x=/pay", "any"},
		{"localhost", "/anything", ""},
		{"localhost", "/", ""},
		{"localhost", "/pay", "pay"},
		{"localhost", "/pay/1", "pay"},
		{"localhost", "/payments", ""},
		{"localhost", "/any/../pay", "pay"}, // where the path leads decides
		{"localhost", "/any/%2e%2e/pay", "pay"},
		{"localhost", "//pay", "pay"},
		{"api.example.com", "/api", "api"},
		{"API.example.com.:8080", "/api/x", "api"},
		{"api.example.com", "/api/pay/x", "apipay"},
		{"api.example.com", "/other", "wild"}, // the next that matches
		{"x.example.com", "/pay", "wild"},
		{"x.y.example.com", "/", "wild"},
		{"a.b.example.com", "/", "deep"},
		{"example.com", "/pay", "pay"},
		{"example.com", "/x", ""},
		{"[::1]:80", "/pay", "pay"},
	} {
		got := f.get(c.path, "Host", c.host)
		if c.want == "" {
			got.want(t, 404, "no route\n")
		} else {
			got.want(t, 200, c.want)
		}
	}
}

func TestTargetsThatAreNoPathsAreRefused(t *testing.T) {
	b := newBackend(t, "b", 200)
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [\"%s/base\"]}}", b.URL))
	for _, target := range []string{"http:secret", "x:secret", "*"} {
		conn, err := f.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 400 || b.count() != 0 {
			t.Errorf("%s: status %d, %d requests to the upstream", target, resp.StatusCode, b.count())
		}
	}
}

package lastgood_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lastgood"
)

func request(path string, headers ...string) *http.Request {
	r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://x"+path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func response(body io.Reader, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(body), ContentLength: -1}
}

func pass(c *lastgood.Cache, r *http.Request, resp *http.Response) string {
	c.Keep(lastgood.Key(r), r, resp)
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	return string(b)
}

func get(c *lastgood.Cache, r *http.Request) string {
	resp := c.Get(lastgood.Key(r), r, time.Minute)
	if resp == nil {
		return ""
	}
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

func TestWhatIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		headers []string
		status  int
		kept    bool
	}{
		"plain":              {nil, 200, true},
		"203":                {nil, 203, true},
		"206":                {nil, 206, false},
		"301":                {nil, 301, false},
		"500":                {nil, 500, false},
		"no-store":           {[]string{"Cache-Control", "No-Store"}, 200, false},
		"private with names": {[]string{"Cache-Control", `max-age=1, private="x"`}, 200, false},
		"public":             {[]string{"Cache-Control", "public, max-age=0"}, 200, true},
		"vary by all":        {[]string{"Vary", "Accept, *"}, 200, false},
		"cookie":             {[]string{"Set-Cookie", "a=b"}, 200, false},
		"no-cache":           {[]string{"Cache-Control", "no-cache"}, 200, false},
		"fresh":              {[]string{"Cache-Control", "must-revalidate, Max-Age=60"}, 200, true},
		"not fresh":          {[]string{"Cache-Control", "max-age=60, must-revalidate", "Age", "61"}, 200, false},
		"never fresh":        {[]string{"Cache-Control", "proxy-revalidate, max-age=0", "Age", "1"}, 200, false},
		"shared is fresh":    {[]string{"Cache-Control", `s-maxage="60", max-age=0`}, 200, true},
		"shared is not":      {[]string{"Cache-Control", "max-age=600, s-maxage=60", "Age", "61"}, 200, false},
		"stale":              {[]string{"Cache-Control", "max-age=60", "Age", "3000000000000000000000"}, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			cache := lastgood.New(64 << 10)
			r, resp := request("/a"), response(strings.NewReader("body"), c.headers...)
			resp.StatusCode = c.status
			if got := pass(cache, r, resp); got != "body" {
				t.Errorf("passed %q", got)
			}
			if got := get(cache, r) == "body"; got != c.kept {
				t.Errorf("kept: %v, want %v", got, c.kept)
			}
		})
	}
	if lastgood.Asks(request("/", "Range", "bytes=1-")) {
		t.Error("a request for a range may be answered")
	}
	withBody := request("/")
	withBody.Body = io.NopCloser(strings.NewReader("which decides what is answered"))
	if lastgood.Asks(withBody) {
		t.Error("a request with a body may be answered")
	}
	if lastgood.Asks(request("/", "Cache-Control", "no-store")) || !lastgood.Asks(request("/")) {
		t.Error("Asks")
	}
}

// Who has other credentials, or none, never gets what was an answer to them.
func TestAnswersAreForTheSameCredentialsOnly(t *testing.T) {
	for _, h := range []string{
		"Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key", "Apikey", "X-Auth-Request-Email", "X-Amz-Security-Token",
		"Session-Id", "X-Forwarded-User", "Cf-Access-Jwt-Assertion", "X-Client-Cert", "X-Tenant-Id",
	} {
		cache := lastgood.New(64 << 10)
		mine := request("/a", h, "mine")
		pass(cache, mine, response(strings.NewReader("mine"), "Cache-Control", "public"))
		if got := get(cache, mine); got != "mine" {
			t.Errorf("with the same %s: %q", h, got)
		}
		twice := request("/a", h, "mine")
		twice.Header.Add(h, "too")
		for what, r := range map[string]*http.Request{
			"another": request("/a", h, "another"), "none": request("/a"), "another too": twice,
			"it elsewhere": request("/a", h+"-Token", "mine"),
		} {
			if got := get(cache, r); got != "" {
				t.Errorf("for one with %s of %s: %q", what, h, got)
			}
		}
	}
	for _, h := range []string{"User-Agent", "Sec-Fetch-User"} { // the other: that a hand has clicked
		if a, b := request("/", h, "a"), request("/"); lastgood.Key(a) != lastgood.Key(b) {
			t.Errorf("%s is taken for a client", h)
		}
	}
	if key := lastgood.Key(request("/", "X-Api-Key", "secret-value")); strings.Contains(key, "secret") {
		t.Errorf("the key %q tells the secret", key)
	}
}

// RFC 9111, 3.5, of which a cookie is no part: but it is used in the same way.
func TestAnswersToAuthorizationMustAllowIt(t *testing.T) {
	for _, h := range []string{"Authorization", "Cookie"} {
		for control, kept := range map[string]bool{
			"": false, "max-age=60": false, "public": true, "s-maxage=60": true, "must-revalidate, max-age=60": true, "public, private": false,
		} {
			cache := lastgood.New(64 << 10)
			r := request("/a", h, "x")
			pass(cache, r, response(strings.NewReader("body"), "Cache-Control", control))
			if got := get(cache, r) == "body"; got != kept {
				t.Errorf("%s, %q: kept: %v, want %v", h, control, got, kept)
			}
		}
	}
}

func TestOnlyAWholeBodyIsKept(t *testing.T) {
	c := lastgood.New(64 << 10)
	r := request("/a")
	pass(c, r, response(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("broke off")))))
	resp := response(strings.NewReader("body"))
	c.Keep(lastgood.Key(r), r, resp)
	resp.Body.Read(make([]byte, 2))
	resp.Body.Close() // the client has left
	if got := get(c, r); got != "" {
		t.Errorf("kept %q", got)
	}
	if n, answers := c.Size(); n != 0 || answers != 0 {
		t.Errorf("%d bytes of %d answers are in use", n, answers)
	}
}

func TestTheBoundHolds(t *testing.T) {
	const bound = 32 << 10
	c := lastgood.New(bound)
	for i := range 100 {
		r := request("/" + strings.Repeat("x", i))
		pass(c, r, response(strings.NewReader(strings.Repeat("b", 2000))))
		if n, _ := c.Size(); n > bound {
			t.Fatalf("%d bytes in use, want at most %d", n, bound)
		}
		if got := get(c, r); len(got) != 2000 {
			t.Fatalf("the newest has %d bytes", len(got))
		}
	}
	if _, answers := c.Size(); answers < 5 {
		t.Errorf("only %d answers are kept", answers)
	}
	if get(c, request("/")) != "" {
		t.Error("the oldest is still there")
	}
	large := request("/large")
	pass(c, large, response(strings.NewReader(strings.Repeat("b", bound/8))))
	if get(c, large) != "" {
		t.Error("an answer larger than an eighth is kept")
	}
	// Many at a time count before they are kept.
	var under []*http.Response
	for range 40 {
		resp := response(strings.NewReader(strings.Repeat("b", 3000)))
		c.Keep(lastgood.Key(large), large, resp)
		io.ReadFull(resp.Body, make([]byte, 2900))
		under = append(under, resp)
		if n, _ := c.Size(); n > bound {
			t.Fatalf("%d bytes in use, want at most %d", n, bound)
		}
	}
	for _, resp := range under {
		resp.Body.Close()
	}
	c.Resize(1)
	if n, answers := c.Size(); n != 0 || answers != 0 {
		t.Errorf("%d bytes of %d answers are in use", n, answers)
	}
}

func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lastgood.New(64 << 10)
		r := request("/a")
		pass(c, r, response(strings.NewReader("body"), "Age", "5"))
		time.Sleep(30 * time.Second)
		if got := c.Get(lastgood.Key(r), r, time.Minute).Header.Get("Age"); got != "35" {
			t.Errorf("Age %q, want 35", got)
		}
		time.Sleep(31 * time.Second)
		if get(c, r) != "" {
			t.Error("an answer older than a minute")
		}
		pass(c, r, response(strings.NewReader("body"), "Age", "5", "Cache-Control", "s-maxage=20"))
		time.Sleep(15 * time.Second)
		if get(c, r) == "" {
			t.Error("a fresh answer is not given")
		}
		time.Sleep(time.Second)
		if get(c, r) != "" {
			t.Error("an answer that is not fresh, and says that it has to be")
		}
	})
}

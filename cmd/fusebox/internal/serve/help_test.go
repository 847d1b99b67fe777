package serve

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/accesslog"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
)

// built is the program as it stands behind its listeners.
func built(t *testing.T, text string) *program {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fusebox.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{o: options{file: file, stderr: io.Discard}, logs: map[string]*accesslog.Log{}}
	p.log = p.logger(c, &p.level)
	t.Cleanup(p.close)
	if err := p.build(c); err != nil {
		t.Fatal(err)
	}
	return p
}

// Who may not write, or calls by another name, is told what to do in the words of
// this program: those of a Go library mean nothing to somebody with curl.
func TestWhoIsRefusedIsToldWhatToSet(t *testing.T) {
	p := built(t, oneUpstream)
	ask := func(method, url string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, url, http.NoBody)
		w := httptest.NewRecorder()
		p.adminServer.Handler.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, path := range []string{"/api/breakers/a/reset", "/-/reload"} {
		status, said := ask(http.MethodPost, "http://localhost"+path)
		if status != http.StatusForbidden || !strings.Contains(said, "admin.token") || !strings.Contains(said, "FUSEBOX_ADMIN_TOKEN") || strings.Contains(said, "Handler.") {
			t.Errorf("%s: %d %s", path, status, said)
		}
	}
	for _, path := range []string{"/api/breakers", "/"} {
		status, said := ask(http.MethodGet, "http://other.example"+path)
		if status != http.StatusMisdirectedRequest || !strings.Contains(said, "admin.hosts") || !strings.Contains(said, "FUSEBOX_ADMIN_HOSTS") || strings.Contains(said, "Handler.") {
			t.Errorf("%s: %d %s", path, status, said)
		}
	}
	// The names are real: what they set is in effect.
	c, err := config.Load("", []string{"FUSEBOX_ADMIN_TOKEN=" + testToken, "FUSEBOX_ADMIN_HOSTS=other.example"}, []config.Flag{
		{Name: "--upstream", Path: "upstreams.a.endpoints", Value: "http://127.0.0.1:1"}, {Name: "--admin", Path: "admin.listen", Value: "unix:/somewhere"},
	})
	if err != nil || string(c.Admin.Token) != testToken || len(c.Admin.Hosts) != 1 || c.Admin.Listen != "unix:/somewhere" {
		t.Errorf("%+v: %v", c, err)
	}
}

// A real upstream fails, its fallback answers, and the breaker of the upstream says so.
func TestFallbacksAreOfTheUpstreamsBreaker(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer broken.Close()
	p := built(t, "upstreams:\n"+
		"  a:\n    endpoints: [\""+broken.URL+"\"]\n    fallback: {status: 200, body: instead}\n"+
		"  b:\n    endpoints: [\""+broken.URL+"\"]\n"+
		"  c:\n    endpoints: [\""+broken.URL+"\"]\n    fallback: {status: 200, body: instead}\n    breaker: {scope: endpoint}\n"+
		"routes: [{prefix: /a, upstream: a}, {prefix: /c, upstream: c}, {upstream: b}]\n")
	for _, path := range []string{"/a", "/a", "/a", "/b", "/c"} {
		w := httptest.NewRecorder()
		p.proxy.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, http.NoBody))
		if instead := w.Body.String() == "instead"; instead != (path != "/b") {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	p.adminServer.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/breakers", http.NoBody))
	list := w.Body.String()
	if n := strings.Count(list, `"fallbacks":`); n != 1 || !strings.Contains(list, `"fallbacks":3`) {
		t.Errorf("%d breakers tell of fallbacks, want a alone with 3: %s", n, list)
	}
}

func TestFallbacksByName(t *testing.T) {
	var s fuseboxmetrics.Set
	s.AddFallback("a", func() (answered, stale, failed uint64) { return 5, 2, 100 })
	s.AddFallback("b", func() (answered, stale, failed uint64) { return 0, 0, 0 })
	s.AddBulkhead("c", func() (inFlight int, rejected uint64) { return 3, 4 })
	by := fallbacksOf(&s)()
	if b, ok := by["b"]; len(by) != 2 || by["a"] != 5 || b != 0 || !ok {
		t.Errorf("%v, want a: 5 and b: 0", by)
	}
}

package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/reload"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxadmin/page"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
)

const testToken = "test-token-0123456789"

type object = map[string]any

// adminAt serves the admin handler for a configuration file.
func adminAt(t *testing.T, text string) (server *httptest.Server, file string, draining *atomic.Bool) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "fusebox.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := reload.New(c, reload.Options{
		Path: file, Apply: func(_, _ *config.Config) error { return nil },
		Restart: onlyAtStart(), Logger: slog.New(slog.DiscardHandler),
	})
	stopped := make(chan struct{})
	go func() {
		r.Run(t.Context())
		close(stopped)
	}()
	registry := prometheus.NewRegistry()
	if err := registerOwn(registry, r.Status, func() int { return 7 }, func() uint64 { return 8 }); err != nil {
		t.Fatal(err)
	}
	draining = new(atomic.Bool)
	api := &fuseboxadmin.Handler{Token: testToken, Logger: slog.New(slog.DiscardHandler)}
	log := slog.New(slog.DiscardHandler)
	server = httptest.NewServer(&admin{api: api, page: page.Handler(nil), metrics: metricsHandler(registry, log), reloader: r, file: file, draining: draining, log: log})
	t.Cleanup(func() {
		server.Close()
		api.Close()
		<-stopped
	})
	return server, file, draining
}

const oneUpstream = "upstreams:\n  a:\n    endpoints: [\"http://127.0.0.1:1\"]\n"

// ask makes a request and holds the answer against openapi.json.
func ask(t *testing.T, spec *document, server *httptest.Server, method, path string, header ...string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	spec.check(t, method, path, resp, text)
	return resp.StatusCode, string(text)
}

// document is openapi.json.
type document struct {
	whole object
	used  map[string]bool // "get /livez 200"
}

func readDocument(t *testing.T) *document {
	t.Helper()
	d := &document{used: map[string]bool{}}
	if err := json.Unmarshal(openAPI, &d.whole); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *document) operations() map[string]object {
	all := map[string]object{}
	for path, item := range d.whole["paths"].(object) {
		for method, op := range item.(object) {
			all[method+" "+path] = op.(object)
		}
	}
	return all
}

func (d *document) check(t *testing.T, method, path string, resp *http.Response, text []byte) {
	t.Helper()
	name := strings.ToLower(method) + " " + path
	op := d.operations()[name]
	if op == nil {
		t.Errorf("%s is not in openapi.json", name)
		return
	}
	status := fmt.Sprint(resp.StatusCode)
	d.used[name+" "+status] = true
	answer, _ := op["responses"].(object)[status].(object)
	if ref, ok := answer["$ref"].(string); ok {
		answer, _ = d.whole["components"].(object)["responses"].(object)[strings.TrimPrefix(ref, "#/components/responses/")].(object)
	}
	media, _ := answer["content"].(object)[resp.Header.Get("Content-Type")].(object)
	if media == nil {
		t.Errorf("%s: %s with Content-Type %q is not in openapi.json", name, status, resp.Header.Get("Content-Type"))
		return
	}
	if resp.Header.Get("Content-Type") != "application/json" {
		return
	}
	compiler := jsonschema.NewCompiler()
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(openAPI))
	if err != nil {
		t.Fatal(err)
	}
	// The schema in question becomes the whole document's, so that references
	// lead into it.
	whole.(object)["$ref"] = media["schema"].(object)["$ref"]
	if whole.(object)["$ref"] == nil {
		delete(whole.(object), "$ref")
	}
	if err := compiler.AddResource("openapi.json", whole); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("%s: %s is not as openapi.json has it: %v\n%s", name, status, err, text)
	}
}

func TestTheDescriptionIsOfWhatIsServed(t *testing.T) {
	spec := readDocument(t)
	operations := spec.operations()
	for _, p := range ownPaths() {
		name := strings.ToLower(p.method) + " " + p.path
		if operations[name] == nil {
			t.Errorf("%s is not in openapi.json", name)
		}
		delete(operations, name)
	}
	for name := range operations {
		t.Errorf("%s is in openapi.json only", name)
	}

	server, file, draining := adminAt(t, oneUpstream)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bearer := []string{"Authorization", "Bearer " + testToken}
	expect := func(want int, method, path string, header ...string) string {
		t.Helper()
		status, body := ask(t, spec, server, method, path, header...)
		if status != want {
			t.Errorf("%s %s %q: %d, want %d: %s", method, path, header, status, want, body)
		}
		return body
	}
	for _, p := range ownPaths() {
		if p.method == http.MethodGet {
			expect(200, p.method, p.path)
			if p.action != "" {
				expect(http.StatusMisdirectedRequest, p.method, p.path, "Host", "evil.example")
			}
		}
	}
	expect(401, http.MethodPost, "/-/reload")
	expect(403, http.MethodPost, "/-/reload", append(bearer, "Origin", "http://evil.example")...)
	expect(421, http.MethodPost, "/-/reload", append(bearer, "Host", "evil.example")...)
	expect(200, http.MethodPost, "/-/reload", bearer...)

	write("listen: \"127.0.0.1:1\"\n" + oneUpstream + "    bulkhead: {}\n  b:\n    endpoints: [\"http://127.0.0.1:2\"]\nroutes: [{upstream: a}]\n")
	body := expect(200, http.MethodPost, "/-/reload", bearer...)
	if !strings.Contains(body, `"listen"`) && !strings.Contains(body, `"changed":[]`) { // the watch may have been quicker
		t.Errorf("reloaded: %s", body)
	}
	expect(200, http.MethodGet, "/api/config")
	write("nonsense: 1\n")
	expect(422, http.MethodPost, "/-/reload", bearer...)
	if body := expect(200, http.MethodGet, "/api/config"); !strings.Contains(body, `"failed"`) || !strings.Contains(body, `"restart":["listen"]`) {
		t.Errorf("the configuration: %s", body)
	}
	draining.Store(true)
	expect(503, http.MethodGet, "/readyz")
	expect(200, http.MethodGet, "/livez")

	for name, op := range spec.operations() {
		for status := range op["responses"].(object) {
			rare := status == "503" && name != "get /readyz" // the program is ending, or too many ask
			if !rare && !spec.used[name+" "+status] {
				t.Errorf("%s: no test has had a %s", name, status)
			}
		}
	}
}

func TestThePageIsGuarded(t *testing.T) {
	server, _, _ := adminAt(t, oneUpstream)
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8", "/app.js": "text/javascript; charset=utf-8", "/style.css": "text/css; charset=utf-8"} {
		for host, status := range map[string]int{"localhost": http.StatusOK, "evil.example": http.StatusMisdirectedRequest} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			resp, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != status || status == http.StatusOK && resp.Header.Get("Content-Type") != kind {
				t.Errorf("%s of %s: %s, %q", path, host, resp.Status, resp.Header.Get("Content-Type"))
			}
		}
	}
}

func TestOtherMethodsAndPathsAreRefused(t *testing.T) {
	server, _, _ := adminAt(t, oneUpstream)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodPost, "/metrics", 405, "GET"},
		{http.MethodGet, "/-/reload", 405, "POST"},
		{http.MethodDelete, "/livez", 405, "GET"},
		{http.MethodGet, "/nothing", 404, ""},
		{http.MethodPost, "/nothing", 404, ""},
		{http.MethodPost, "/app.js", 404, ""},
		{http.MethodGet, "/api/nothing", 404, ""},
		{http.MethodGet, "//livez", 404, ""},
		{http.MethodHead, "/livez", 200, ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || resp.Header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q", c.method, c.path, resp.StatusCode, resp.Header.Get("Allow"))
		}
	}
}

// The metrics of the program beside those of breakers, under their names in DESIGN.
func TestTheProgramsMetrics(t *testing.T) {
	server, _, _ := adminAt(t, oneUpstream)
	_, text := ask(t, readDocument(t), server, http.MethodGet, "/metrics")
	for _, want := range []string{
		"fusebox_config_reload_success 1\n", "fusebox_config_reload_timestamp_seconds 1.", "fusebox_build_info{", "fusebox_proxy_in_flight 7\n",
		"fusebox_access_log_dropped_total 8\n",
		"go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestFallbacksAreCounted(t *testing.T) {
	var s fuseboxmetrics.Set
	total := fallbacks(&s)
	if n := total(); n != 0 {
		t.Errorf("%d without a fallback", n)
	}
	remove := s.AddFallback("a", func() (answered, stale, failed uint64) { return 5, 2, 100 }) // two of the five were stale
	s.AddFallback("b", func() (answered, stale, failed uint64) { return 1, 0, 0 })
	if n := total(); n != 6 {
		t.Errorf("%d, want 6", n)
	}
	remove()
	if n := total(); n != 6 {
		t.Errorf("%d after one has gone, want 6 still", n)
	}
	s.AddFallback("c", func() (answered, stale, failed uint64) { return 3, 0, 0 })
	if n := total(); n != 9 {
		t.Errorf("%d, want 9", n)
	}
}

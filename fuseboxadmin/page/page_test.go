package page_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxadmin/page"
)

func get(h http.Handler, path string, header ...string) *http.Response {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://localhost"+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	from := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		from = z
	}
	text, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// assets returns the files beside the package that are served.
func assets(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".d.ts") || strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		text, err := os.ReadFile("assets/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(text)
	}
	return files
}

func TestEveryFileIsServedWithItsTypeAndHeaders(t *testing.T) {
	h := page.Handler(nil)
	sum := 0
	for name, want := range assets(t) {
		path := "/" + name
		switch {
		case name == "index.html":
			path, want = "/", "" // see TestTheIndexNamesTheVersionOfTheScripts
		case name == "app.js" || name == "worker.js":
			want = "" // see TestAScriptHasWhatItImports
		case strings.HasSuffix(name, ".js"):
			if r := get(h, path); r.StatusCode != http.StatusNotFound {
				t.Errorf("%s is served, though it is part of a script: %s", path, r.Status)
			}
			continue
		}
		plain, zipped := get(h, path), get(h, path, "Accept-Encoding", "br, gzip;q=0.8")
		for _, r := range []*http.Response{plain, zipped} {
			if text := body(t, r); r.StatusCode != http.StatusOK || want != "" && text != want {
				t.Errorf("%s: %s, or another content", path, r.Status)
			}
			if csp := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'self'; ") || strings.Contains(csp, "unsafe") {
				t.Errorf("%s has the policy %q", path, csp)
			}
			for header, value := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache", "Vary": "Accept-Encoding",
			} {
				if got := r.Header.Get(header); got != value {
					t.Errorf("%s: %s is %q, want %q", path, header, got, value)
				}
			}
			kind := map[string]string{"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml", "html": "text/html; charset=utf-8"}[name[strings.LastIndex(name, ".")+1:]]
			if got := r.Header.Get("Content-Type"); got != kind {
				t.Errorf("%s has the type %q", path, got)
			}
			if again := get(h, path, "If-None-Match", r.Header.Get("ETag"), "Accept-Encoding", map[bool]string{true: "gzip"}[r == zipped]); again.StatusCode != http.StatusNotModified {
				t.Errorf("%s is sent again: %s", path, again.Status)
			}
		}
		if zipped.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" || plain.Header.Get("ETag") == zipped.Header.Get("ETag") {
			t.Errorf("%s: coding and tag are %q, %q and %q, %q", path, plain.Header.Get("Content-Encoding"), plain.Header.Get("ETag"), zipped.Header.Get("Content-Encoding"), zipped.Header.Get("ETag"))
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		h.ServeHTTP(w, r)
		sum += w.Body.Len()
	}
	t.Logf("all files: %d bytes", sum)
	if sum > 100_000 {
		t.Errorf("all files are %d bytes compressed, want less than 100 kB", sum)
	}
}

func TestWhatIsNotThereAndWhatIsNotAllowed(t *testing.T) {
	h := page.Handler(nil)
	for _, path := range []string{"/index.html", "/assets/", "/types.d.ts", "/../handler.go", "/api/breakers", "/app.js/"} {
		if r := get(h, path); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
	for header, zipped := range map[string]bool{"gzip": true, "GZIP": true, "gzip;q=0": false, "gzip; q=0.0": false, "deflate": false, "": false, "gzip;q=0.1": true} {
		if got := get(h, "/", "Accept-Encoding", header).Header.Get("Content-Encoding") == "gzip"; got != zipped {
			t.Errorf("Accept-Encoding %q: compressed is %v", header, got)
		}
	}
}

func TestAProgramWithoutSettingsOfAFileHasNone(t *testing.T) {
	h := page.Handler(&fuseboxadmin.Handler{})
	r := get(h, "/api/config")
	if text := body(t, r); r.StatusCode != http.StatusOK || text != `{"entries":[]}` || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %q", r.Status, text)
	}
	if r := get(h, "/api/other"); r.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %s", r.Status)
	}
	h = page.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"entries":[{"path":"x"}]}`) }))
	if text := body(t, get(h, "/api/config")); text != `{"entries":[{"path":"x"}]}` {
		t.Errorf("what the program says is %q", text)
	}
}

// Tabs share a worker by its name, which has the version in it: those of another
// version of the page do not get it.
func TestTheIndexNamesTheVersionOfTheScripts(t *testing.T) {
	index := body(t, get(page.Handler(nil), "/"))
	m := regexp.MustCompile(`<meta name="version" content="([0-9a-f]{16})">`).FindStringSubmatch(index)
	if m == nil {
		t.Fatalf("there is no version in %s", index)
	}
	if want := assets(t)["index.html"]; strings.Replace(index, m[1], "", 1) != want {
		t.Errorf("the rest of the index is not the file: %s", index)
	}
	sum := sha256.New()
	for _, name := range []string{"app.js", "worker.js"} {
		_, _ = io.WriteString(sum, body(t, get(page.Handler(nil), "/"+name)))
	}
	if want := hex.EncodeToString(sum.Sum(nil)[:8]); m[1] != want {
		t.Errorf("the version is %s, that of the scripts %s", m[1], want)
	}
}

func TestTheIndexLoadsWhatThereIs(t *testing.T) {
	files := assets(t)
	index := files["index.html"]
	for _, m := range regexp.MustCompile(`(?:href|src)="([^"#]*)"`).FindAllStringSubmatch(index, -1) {
		if _, ok := files[m[1]]; !ok {
			t.Errorf("the index asks for %q", m[1])
		}
	}
	if regexp.MustCompile(`(?i)<style|style=|<script[^>]*>[^<]| on\w+=`).MatchString(index) {
		t.Error("the index has a script or a style in it")
	}
}

// A script is one file, so that there is one thing to ask for: no module is
// missing in it, and none is twice.
func TestAScriptHasWhatItImports(t *testing.T) {
	files := assets(t)
	both := ""
	for _, name := range []string{"app.js", "worker.js"} {
		script := body(t, get(page.Handler(nil), "/"+name))
		both += script
		if found := regexp.MustCompile(`(?m)^(import|export)\b.*`).FindString(script); found != "" {
			t.Errorf("%s has %q in it", name, found)
		}
		seen := map[string]bool{}
		for _, m := range declared.FindAllStringSubmatch(script, -1) {
			if seen[m[1]] {
				t.Errorf("%s declares %s twice", name, m[1])
			}
			seen[m[1]] = true
		}
		if len(seen) < 8 {
			t.Errorf("%s declares %d names", name, len(seen))
		}
	}
	for name, text := range files {
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			if strings.HasSuffix(name, ".js") && !strings.Contains(both, " "+m[1]) {
				t.Errorf("%s of %s is in no script", m[1], name)
			}
		}
	}
}

// declared finds what a module declares.
var declared = regexp.MustCompile(`(?m)^(?:export )?(?:async )?(?:function|class|const|let) (\w+)`)

// Text may become markup nowhere, whatever browser has no trusted types.
func TestNoModuleMakesMarkupOfText(t *testing.T) {
	never := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|setHTML|DOMParser|createContextualFragment|\beval\(|new Function|srcdoc|localStorage|https?://`)
	for name, text := range assets(t) {
		if !strings.HasSuffix(name, ".js") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if found := never.FindString(line); found != "" && !strings.Contains(line, "http://www.w3.org/2000/svg") {
				t.Errorf("%s:%d has %q", name, i+1, found)
			}
		}
		if !strings.HasPrefix(text, "// @ts-check\n") {
			t.Errorf("the types of %s are not checked", name)
		}
	}
}

func TestAReportHasWhatTheAPISays(t *testing.T) {
	admin := &fuseboxadmin.Handler{}
	const name = "</script><script>alert(1)</script>"
	b := fusebox.New(name, fusebox.Config{Consecutive: 1})
	admin.Add(b)
	admin.Add(fusebox.New("search", fusebox.Config{}))
	_ = b.Do(t.Context(), func(context.Context) error { return errors.New("<!-- down") })
	var out bytes.Buffer
	if err := page.Report(t.Context(), &out, page.FromHandler(admin)); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	m := regexp.MustCompile(`(?s)<script type="application/json" id="answers">(.*?)</script>`).FindStringSubmatch(text)
	if m == nil {
		t.Fatal("there are no answers in it")
	}
	var answers map[string]json.RawMessage
	if err := json.Unmarshal([]byte(m[1]), &answers); err != nil {
		t.Fatalf("%v in %s", err, m[1])
	}
	paths := slices.Sorted(func(yield func(string) bool) {
		for p := range answers {
			if !yield(p) {
				return
			}
		}
	})
	want := []string{"api/breakers", fuseboxadmin.Path(name), "api/breakers/search", "api/history"}
	slices.Sort(want)
	if !slices.Equal(paths, want) {
		t.Errorf("the report has %q, want %q", paths, want)
	}
	if n := strings.Count(text, "<script"); n != 2 {
		t.Errorf("there are %d scripts in it", n)
	}
	if strings.Contains(text, "<!-- down") {
		t.Error("a text is not escaped")
	}
	if regexp.MustCompile(`(?m)^(import|export) `).MatchString(text) || regexp.MustCompile(`(src|href)="[^#d]`).MatchString(text) {
		t.Error("the report asks for something else")
	}
}

func TestAReportThatCannotBeMadeWritesNothing(t *testing.T) {
	down := errors.New("down")
	var out bytes.Buffer
	err := page.Report(t.Context(), &out, func(context.Context, string) ([]byte, error) { return nil, down })
	if !errors.Is(err, down) || out.Len() > 0 {
		t.Errorf("%v, and %d bytes", err, out.Len())
	}
	for _, answer := range []string{"no JSON", `{"breakers": 1}`} {
		err := page.Report(t.Context(), &out, func(context.Context, string) ([]byte, error) { return []byte(answer), nil })
		if err == nil || out.Len() > 0 {
			t.Errorf("the answer %q: %v, and %d bytes", answer, err, out.Len())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = page.Report(ctx, &out, func(context.Context, string) ([]byte, error) {
		cancel()
		return []byte(`{"breakers":[]}`), nil
	})
	if !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("cancelled: %v, and %d bytes", err, out.Len())
	}
	_, err = page.FromHandler(http.NotFoundHandler())(t.Context(), "api/breakers")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "404") {
		t.Errorf("an answer that is no success: %v", err)
	}
}

func TestAReportLeavesOutWhatHasGoneAndNothingElse(t *testing.T) {
	for _, missing := range []string{"api/breakers/a", "api/history", "api/config"} {
		for status, whole := range map[int]bool{http.StatusNotFound: true, http.StatusServiceUnavailable: false, http.StatusMisdirectedRequest: false} {
			var out bytes.Buffer
			err := page.Report(t.Context(), &out, page.FromHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/" + missing:
					w.WriteHeader(status)
				case "/api/breakers":
					_, _ = io.WriteString(w, `{"breakers":[{"path":"api/breakers/a"}]}`)
				default:
					_, _ = io.WriteString(w, `{}`)
				}
			})))
			if (err == nil) != whole || (out.Len() > 0) != whole {
				t.Errorf("%s answers %d: %v, and %d bytes", missing, status, err, out.Len())
			}
		}
	}
}

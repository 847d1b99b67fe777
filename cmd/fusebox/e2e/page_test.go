package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// get asks as a browser does.
func get(tb testing.TB, url string) (header http.Header, body string) {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var text strings.Builder
	if err := resp.Write(&text); err != nil {
		tb.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		tb.Fatalf("GET %s: %s", url, text.String())
	}
	return resp.Header, text.String()
}

func TestThePageIsServed(t *testing.T) {
	t.Parallel()
	p := start(t, nil, binary.program, "serve", "--demo-pace", "8")
	admin := p.sees(`admin  (http://127\.0\.0\.1:\d+/)`)[1]
	_, index := get(t, admin)
	parts := []string{""}
	for _, m := range regexp.MustCompile(`(?:href|src)="([a-z-]+\.[a-z]+)"`).FindAllStringSubmatch(index, -1) {
		parts = append(parts, m[1])
	}
	if len(parts) < 4 || !strings.Contains(index, `<script type="module" src="app.js">`) {
		t.Errorf("the page has the parts %q", parts)
	}
	for _, part := range parts {
		header, _ := get(t, admin+part)
		if policy := header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'self'; ") || strings.Contains(policy, "unsafe") {
			t.Errorf("%q has the content policy %q", part, policy)
		}
	}
	// What the page asks for.
	eventually(t, "the breaker of the demonstration opens, and the API tells the page", func() (bool, string) {
		_, list := answerOf(t, http.MethodGet, admin+"api/breakers?only=demo")
		var parsed struct {
			Breakers []struct {
				Name, State, Path string
				Rules             []struct{ Cause string }
			}
		}
		if err := json.Unmarshal([]byte(list), &parsed); err != nil {
			return false, list
		}
		return len(parsed.Breakers) == 1 && parsed.Breakers[0].Name == "demo" && parsed.Breakers[0].State == "open" && len(parsed.Breakers[0].Rules) > 0, list
	})
	for path, want := range map[string]string{
		"api/breakers/demo":                          `"trip_window":[{`,
		"api/history?since=2020-01-01T00%3A00%3A00Z": `"event":"transition"`,
		"api/config":                                 `"origin":"default"`,
	} {
		if _, text := answerOf(t, http.MethodGet, admin+path); !strings.Contains(text, want) {
			t.Errorf("%s lacks %s: %s", path, want, tail(text))
		}
	}

	file := filepath.Join(t.TempDir(), "incident.html")
	if text, code := fusebox(t, nil, "ctl", "report", "--target", admin, "-o", file); code != 0 {
		t.Fatalf("exit code %d: %s", code, text)
	}
	report, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(report); !strings.Contains(text, `"api/breakers/demo":{`) || !strings.Contains(text, `"api/config":{`) {
		t.Errorf("the report lacks the breaker or the settings: %s", tail(text))
	}
}

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// explained returns what explain says of a file, and of the upstream a in it.
func explained(t *testing.T, text string) (whole, ofA string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fusebox.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	whole = string(explain(c))
	_, ofA, _ = strings.Cut(whole, "\na: ")
	ofA, _, _ = strings.Cut(ofA, "\n\n")
	return whole, ofA
}

func TestTheWorstCase(t *testing.T) {
	const head = "upstreams:\n  a:\n    endpoints: [\"http://x\", \"http://y\"]\n"
	for _, c := range []struct{ name, below, want string }{
		{"one attempt ends with its timeout", "", "1 attempt and 10s"},
		{"attempts, and what they wait", "    timeouts: {total: off, per-try: 2s}\n    retry: {attempts: 3, base-delay: 100ms, max-retry-after: 100ms, max-delay: 100ms}\n", "3 attempts and 6.2s"},
		{"waits that double", "    timeouts: {total: off, per-try: 2s}\n    retry: {attempts: 4, base-delay: 1s, max-delay: 2s, max-retry-after: 2s}\n", "4 attempts and 14s"}, // 8 and three of 2
		{"an answer may ask for a longer wait", "    timeouts: {total: off, per-try: 2s}\n    retry: {attempts: 2}\n", "2 attempts and 34s"},
		{"the total bounds it all", "    retry: {attempts: 10}\n", "10 attempts and 30s"},
		{"without it all the total still does", "    timeouts: {per-try: off, total: 4s}\n", "1 attempt and 4s"},
		{"the wait for a place", "    timeouts: {total: off, per-try: 2s}\n    bulkhead: {max-wait: 3s}\n", "1 attempt and 5s"},
		{"no limit at all", "    timeouts: {total: off, per-try: off}\n", "1 attempt and any time"},
		{"another upstream as the fallback", "    fallback: {upstream: b}\n  b:\n    endpoints: [\"http://z\"]\n    timeouts: {total: 3s}\n    retry: {}\nroutes: [{upstream: a}]\n", "4 attempts and 13s until the head of the answer, b included"},
		{"a great many attempts", "    timeouts: {total: off, per-try: 1s}\n    retry: {attempts: 1000000000, base-delay: 1s, max-delay: 1s, max-retry-after: 1s}\n", "1000000000 attempts and 1999999999 s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, got := explained(t, head+c.below); !strings.Contains(got, "worst case: "+c.want) {
				t.Errorf("want %q in\n%s", c.want, got)
			}
		})
	}
}

// The order is that of DESIGN 5, whatever is switched on.
func TestTheOrderIsThatOfThePolicies(t *testing.T) {
	_, got := explained(t, "upstreams:\n  a:\n    endpoints: [\"http://x\"]\n")
	last := 0
	for _, step := range []string{"1. fallback", "2. bulkhead", "3. retry", "4. breaker", "5. timeout", "6. call"} {
		i := strings.Index(got, step)
		if i < last {
			t.Errorf("%s comes too early, or not at all:\n%s", step, got)
		}
		last = i
	}
}

func TestRoutesAreListedAsTheyAreTried(t *testing.T) {
	whole, _ := explained(t, `upstreams:
  a: {endpoints: ["http://x"]}
routes:
  - {upstream: a}
  - {prefix: /long/er, upstream: a}
  - {host: "*.example.com", upstream: a}
  - {host: "*.deep.example.com", upstream: a}
  - {host: www.example.com, prefix: /, upstream: a}
  - {host: www.example.com, prefix: /pay, upstream: a}
`)
	last := 0
	for _, route := range []string{
		"www.example.com /pay ", "www.example.com / ", "*.deep.example.com / ", "*.example.com / ", "any host /long/er ", "any host / ",
	} {
		i := strings.Index(whole, "\n  "+route)
		if i <= last {
			t.Errorf("%s is out of place:\n%s", route, whole)
		}
		last = i
	}
}

func TestWhatIsSetIsExplained(t *testing.T) {
	for below, want := range map[string]string{
		"breaker: {mode: off}":                                                 "off: it judges and rejects nothing",
		"breaker: {mode: shadow}":                                              "(shadow)",
		"breaker: {failure-rate: off, consecutive: off}":                       "it has no rule",
		"breaker: {window-calls: 50}":                                          "50% of at least 20 calls of the last 50 are failures",
		"breaker: {slow-after: 2s, slow-rate: 70%}":                            "or 70% take 2s or more",
		"breaker: {scope: endpoint}\n    ejection: {when-all-open: least-bad}": "the one that fails least is used",
		"retry: {budget-share: off}":                                           "retries are bounded by 1 a second; each attempt goes to another endpoint",
		"bulkhead: {limit: 7}":                                                 "7 requests at a time, others are refused at once",
		"bulkhead: {limit: 7, max-wait: 1s}":                                   "7 more wait for up to 1s",
		"fallback: {body: sorry}":                                              "503 with 5B",
		"fallback: {last-good: {max-age: 1m}}":                                 "the last good answer to the same GET, if it is at most 1m0s old",
	} {
		if _, got := explained(t, "upstreams:\n  a:\n    endpoints: [\"http://x\", \"http://y\"]\n    "+below+"\n"); !strings.Contains(got, want) {
			t.Errorf("%s: want %q in\n%s", below, want, got)
		}
	}
}

func TestErrorsBecomeExitCodes(t *testing.T) {
	for args, want := range map[string]int{
		"version":           Done,
		"version nonsense":  Usage,
		"ctl nonsense":      Usage,
		"config check":      Usage,
		"config print -c /": Usage,
	} {
		var out, errs bytes.Buffer
		if code := Main(strings.Fields(args), &out, &errs); code != want || want != Done && !strings.HasPrefix(errs.String(), "fusebox: ") {
			t.Errorf("%s: %d, want %d\n%s", args, code, want, &errs)
		}
	}
}

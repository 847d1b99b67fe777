package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config/schematest"
	"github.com/fusebox-go/fusebox/retry"
)

// load reads text as Load does a file of that text.
func load(tb testing.TB, text string, env []string, flags ...Flag) (*Config, error) {
	tb.Helper()
	name := filepath.Join(tb.TempDir(), "f.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return Load(name, env, flags)
}

func mustLoad(tb testing.TB, text string, env []string, flags ...Flag) *Config {
	tb.Helper()
	c, err := load(tb, text, env, flags...)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestDefaultsAreThoseOfTheLibrary(t *testing.T) {
	c := mustLoad(t, in("    retry: {}\n    bulkhead: {}\n"), nil)
	u := c.Upstreams["a"]

	got, want := u.Breaker.Config(), fusebox.New("", fusebox.Config{}).Config()
	got.Classify, want.Classify = nil, nil
	if !reflect.DeepEqual(fusebox.New("", got).Config().OpenForMax, want.OpenForMax) || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("breaker:\n%+v, want\n%+v", got, want)
	}
	if got, want := u.Bulkhead.Config("a"), bulkhead.New(bulkhead.Config{Name: "a"}).Config(); got != want {
		t.Errorf("bulkhead: %+v, want %+v", got, want)
	}
	again := retry.New(retry.Config{}).Config()
	if got := u.Retry.Config(); got.Attempts != again.Attempts || got.BaseDelay != again.BaseDelay || got.MaxDelay != again.MaxDelay ||
		got.Jitter != again.Jitter || got.MaxRetryAfter != again.MaxRetryAfter {
		t.Errorf("retry: %+v, want %+v", got, again)
	}
	if got := retry.NewBudget(u.Retry.Budget()).Stats().Left; got != retry.NewBudget(retry.BudgetConfig{}).Stats().Left {
		t.Errorf("an empty budget has %v left", got)
	}
	if u.Timeouts != (Timeouts{30 * time.Second, 10 * time.Second}) || u.Fallback != nil || u.Ejection != nil {
		t.Errorf("%+v", u)
	}
	if len(c.Routes) != 1 || c.Routes[0] != (Route{Prefix: "/", Upstream: "a"}) {
		t.Errorf("routes: %v", c.Routes)
	}
	if c.Listen != ":8080" || c.Admin.Listen != "127.0.0.1:9901" || !c.Admin.Listen.Loopback() || c.Logging != (Logging{Level: "info", Format: "text"}) {
		t.Errorf("%+v", c.File)
	}
}

func TestEveryBreakerFieldReachesTheBreaker(t *testing.T) {
	c := mustLoad(t, in(`    breaker:
      scope: endpoint
      mode: shadow
      window: 2s
      buckets: 4
      window-calls: 300
      min-calls: 7
      failure-rate: 30%
      slow-after: 3s
      slow-rate: 0.4
      consecutive: 5
      open-for: 6s
      open-for-max: 8s
      open-jitter: 90%
      probes: 11
      close-after: 9
      reopen-after: 2
      probe-timeout: 13s
      stable-after: off
`), nil)
	got := c.Upstreams["a"].Breaker.Config()
	want := fusebox.Config{
		Window: 2 * time.Second, Buckets: 4, WindowCalls: 300, MinCalls: 7, FailureRate: 0.3, SlowAfter: 3 * time.Second, SlowRate: 0.4,
		Consecutive: 5, OpenFor: 6 * time.Second, OpenForMax: 8 * time.Second, OpenJitter: 0.9, Probes: 11, CloseAfter: 9, ReopenAfter: 2,
		ProbeTimeout: 13 * time.Second, StableAfter: -1, Mode: fusebox.Shadow,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	v := reflect.ValueOf(got)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Type.Kind() != reflect.Func && f.Name != "Observers" && v.Field(i).IsZero() {
			t.Errorf("this test forgets %s", f.Name)
		}
	}
	if b := c.Upstreams["a"]; b.Breaker.Scope != ScopeEndpoint || b.Ejection == nil || b.Ejection.WhenAllOpen != Fail || b.Ejection.Most(3) != 3 {
		t.Errorf("%+v", b)
	}
}

func TestDefaultsFollowOtherValues(t *testing.T) {
	u := mustLoad(t, in(`    breaker: {window: 3s, probes: 5, open-for: 20s, window-calls: 4}
    timeouts: {total: 2s}
    retry: {base-delay: 40s, attempts: 2, budget-share: off, jitter: off}
    bulkhead: {limit: 9, max-wait: 1s}
`), nil).Upstreams["a"]
	if b := u.Breaker; b.StableAfter != 3*time.Second || b.CloseAfter != 5 || b.OpenForMax != 20*time.Second || b.MinCalls != 4 {
		t.Errorf("%+v", b)
	}
	if u.Timeouts.PerTry != 2*time.Second || u.Retry.MaxDelay != 40*time.Second || u.Retry.MaxRetryAfter != 40*time.Second || u.Bulkhead.MaxWaiting != 9 {
		t.Errorf("%+v %+v %+v", u.Timeouts, u.Retry, u.Bulkhead)
	}
	if b := u.Retry.Budget(); b.Share >= 0 || b.MinPerSecond != 1 || u.Retry.Config().Jitter >= 0 {
		t.Errorf("%+v", b)
	}
}

func TestFailureStatuses(t *testing.T) {
	u := mustLoad(t, in("    failure: {statuses: [429, 5xx, 404-407, '${A}'], except: [501, '405']}"), []string{"A=418"}).Upstreams["a"]
	for status, want := range map[int]fusebox.Outcome{
		200: fusebox.Success, 403: fusebox.Success, 404: fusebox.Failure, 405: fusebox.Success, 407: fusebox.Failure, 408: fusebox.Success,
		418: fusebox.Failure, 429: fusebox.Failure, 500: fusebox.Failure, 501: fusebox.Success, 599: fusebox.Failure, 600: fusebox.Success,
	} {
		if got := u.Failure.Outcome(status); got != want {
			t.Errorf("%d is %v, want %v", status, got, want)
		}
	}
	if u := mustLoad(t, in("    failure: {statuses: [], except: []}"), nil).Upstreams["a"]; u.Failure.Outcome(503) != fusebox.Success {
		t.Error("no status is to be a failure, but 503 is")
	}
}

func TestFallbacks(t *testing.T) {
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for section, want := range map[string]Fallback{
		"{status: 204}":                               {Status: 204},
		"{body: ''}":                                  {Status: 503},
		"{headers: {X: ''}}":                          {Status: 503, Headers: map[string]string{"X": ""}},
		"{file: schema.json, status: 200}":            {Status: 200, File: filepath.Join(dir, "schema.json")},
		"{upstream: b}":                               {Upstream: "b"},
		"{last-good: {max-age: 1m}}":                  {LastGood: &LastGood{time.Minute, 16 << 20}},
		"{last-good: {max-age: 1m}, upstream: b}":     {Upstream: "b", LastGood: &LastGood{time.Minute, 16 << 20}},
		"{last-good: {max-age: 1m}, body: gone away}": {Status: 503, Body: "gone away", LastGood: &LastGood{time.Minute, 16 << 20}},
	} {
		f, err := Parse("x.yaml", []byte("routes: [{upstream: a}]\n"+in("    fallback: "+section+"\n  b: {endpoints: [http://b]}")), nil)
		if err != nil {
			t.Errorf("%s: %v", section, err)
		} else if got := f.Upstreams["a"].Fallback; !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, want %+v", section, *got, want)
		}
	}
}

func TestC155TheShareIsNeverExceeded(t *testing.T) {
	for _, c := range []struct {
		n         int
		share     float64
		alwaysOne bool
		want      int
	}{
		{3, 0.5, false, 1},
		{2, 0.5, false, 1},
		{4, 0.5, false, 2},
		{10, 0.1, false, 1},
		{3, 0.1, false, 0},
		{3, 0.1, true, 1},
		{1, 0.99, false, 0},
		{1, 0.99, true, 0},
		{1, 1, false, 1},
		{0, 1, true, 0},
		{100, 0.29, false, 29},
		{3, 1, false, 3},
		{5, 0.5, true, 2},
		{100, 0.07, false, 7},
	} {
		if got := maxEjected(c.n, c.share, c.alwaysOne); got != c.want {
			t.Errorf("maxEjected(%d, %v, %v) = %d, want %d", c.n, c.share, c.alwaysOne, got, c.want)
		}
	}
	for n := range 300 {
		for percent := 1; percent <= 100; percent++ {
			text := fmt.Sprintf("%d%%", percent)
			share, err := parseFraction(text)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := maxEjected(n, float64(share.(Fraction)), false), n*percent/100; got != want {
				t.Fatalf("%s of %d: %d, want %d", text, n, got, want)
			}
		}
	}
}

func TestC158WhenAllOpenIsStated(t *testing.T) {
	for _, want := range []WhenAllOpen{Fail, Spread, LeastBad} {
		c := mustLoad(t, in("    breaker: {scope: endpoint}\n    ejection: {when-all-open: "+string(want)+"}"), nil)
		if got := c.Upstreams["a"].Ejection.WhenAllOpen; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestPrecedence(t *testing.T) {
	text := "listen: ':1'\nlogging: {level: warn}\nadmin: {listen: off}\n" + in("    endpoints: [http://file]\n")
	text = strings.Replace(text, "endpoints: [http://a]\n    ", "", 1)
	env := []string{
		"FUSEBOX_LISTEN=:2", "FUSEBOX_LOGGING_LEVEL=error", "FUSEBOX_UPSTREAMS_A_ENDPOINTS=http://env, http://env2",
		"FUSEBOX_UPSTREAMS_A_RETRY_MAX_BODY=off", "FUSEBOX_UPSTREAMS_A_BREAKER_OPEN_FOR=3s", "FUSEBOX_SHUTDOWN_WAIT=off",
		"FUSEBOX_SERVICE_HOST=10.0.0.1", "FUSEBOX_PORT=tcp://10.0.0.1:80", "FUSEBOX_CONFIG=x", "FUSEBOX_LISTN=:3", "OTHER=1", "broken",
	}
	c := mustLoad(t, text, env, Flag{"--listen", "listen", ":3"}, Flag{"--slow", "upstreams.a.breaker.slow-after", "1s"}, Flag{"-s", "upstreams.a.breaker.slow-rate", "70%"})
	u := c.Upstreams["a"]
	if c.Listen != ":3" || c.Logging.Level != "error" || c.Admin.Listen != "" || c.Shutdown.Wait >= 0 {
		t.Errorf("%+v", c.File)
	}
	if !reflect.DeepEqual(u.Endpoints, []Endpoint{"http://env", "http://env2"}) || u.Retry == nil || u.Retry.MaxBody >= 0 || u.Retry.Attempts != 3 ||
		u.Breaker.OpenFor != 3*time.Second || u.Breaker.SlowAfter != time.Second || u.Breaker.SlowRate != 0.7 || u.Bulkhead != nil {
		t.Errorf("%+v %+v", u, u.Retry)
	}
	if want := []string{"the environment has FUSEBOX_LISTN, which is not a setting"}; !reflect.DeepEqual(c.Warnings, want) {
		t.Errorf("warnings %q", c.Warnings)
	}

	got := map[string]string{}
	for _, e := range c.Effective() {
		origin := e.Origin
		origin.Name = filepath.Base(origin.Name)
		got[e.Path] = e.Value + " from " + origin.String()
	}
	for path, want := range map[string]string{
		"listen":                              ":3 from flag --listen",
		"admin.listen":                        "off from f.yaml:3:17",
		"logging.level":                       "error from env FUSEBOX_LOGGING_LEVEL",
		"logging.access":                      "off from default",
		"upstreams.a.endpoints[1]":            "http://env2 from env FUSEBOX_UPSTREAMS_A_ENDPOINTS",
		"upstreams.a.retry.max-body":          "off from env FUSEBOX_UPSTREAMS_A_RETRY_MAX_BODY",
		"upstreams.a.retry.attempts":          "3 from default",
		"upstreams.a.breaker.slow-rate":       "0.7 from flag -s",
		"upstreams.a.failure.statuses[0]":     "5xx from default",
		"upstreams.a.breaker.window-calls":    "off from default",
		"routes[0].upstream":                  "a from default",
		"upstreams.a.bulkhead.limit":          "",
		"upstreams.a.ejection.when-all-open":  "",
		"upstreams.a.breaker.consecutive":     "20 from default",
		"upstreams.a.retry.budget-per-second": "1 from default",
	} {
		if got[path] != want {
			t.Errorf("%s is %q, want %q", path, got[path], want)
		}
	}
}

// TestAnOverrideTakesThePlaceOfTheValue whatever that was: a secret, something
// that is then switched off, a longer list.
func TestAnOverrideTakesThePlaceOfTheValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, []byte("/var/log/a"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "logging: {access: '${file:" + path + "}'}\nadmin: {listen: ':1'}\nupstreams: {a: {endpoints: [http://a, 'http://b${file:" + path + "}']}}\n"
	c := mustLoad(t, text, nil)
	if c.Logging.Access != "/var/log/a" || c.Upstreams["a"].Endpoints[1] != "http://b/var/log/a" {
		t.Errorf("%+v", c.File)
	}
	c = mustLoad(t, text, []string{"FUSEBOX_LOGGING_ACCESS=stdout", "FUSEBOX_ADMIN_LISTEN=off", "FUSEBOX_UPSTREAMS_A_ENDPOINTS=http://c,http://d"})
	if c.Logging.Access != "stdout" || c.Admin.Listen != "" || c.Upstreams["a"].Endpoints[1] != "http://d" {
		t.Errorf("%+v", c.File)
	}
	for _, e := range c.Effective() {
		if e.Secret || strings.Contains(e.Value, "${") {
			t.Errorf("%+v", e)
		}
	}
}

func TestWithoutAFile(t *testing.T) {
	c, err := Load("", nil, []Flag{{"--upstream", "upstreams.upstream.endpoints", "http://localhost:9000"}, {"--listen", "listen", ":80"}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != ":80" || c.Upstreams["upstream"].Endpoints[0].URL().Host != "localhost:9000" || c.Routes[0].Upstream != "upstream" {
		t.Errorf("%+v", c.File)
	}
	for _, e := range c.Effective() {
		if e.Origin.Kind == FromFile {
			t.Errorf("%+v", e)
		}
	}
	if _, err := Load("", nil, nil); err == nil || err.Error() != "upstreams has none, must have at least one: name it in a file, or with --upstream" {
		t.Error(err)
	}
	if _, err := Load("/does/not/exist", nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Load("/", nil, nil); err == nil {
		t.Error("a directory is no file")
	}
}

func TestSubstitution(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("0123456789abcdef\r\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "f.yaml")
	text := "listen: '${HOST}:${PORT}'\nadmin: {token: '${file:token}'}\n" +
		in("    fallback: {body: '$${HOST} ${HOST} $HOST $$ ${E}', headers: {A: 'x-${file:token}', B: '${file:"+dir+"/token}'}}\n    retry: {attempts: '${N}', base-delay: '${D}'}\n    breaker: {failure-rate: '$F', consecutive: '${OFF}'}\n")
	text = strings.Replace(text, "$F", "${F}", 1)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(name, []string{"HOST=h", "PORT=5", "E=${HOST}", "N=4", "D=2s", "F=25%", "OFF=off"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := c.Upstreams["a"]
	if c.Listen != "h:5" || c.Admin.Token != "0123456789abcdef" || u.Fallback.Body != "${HOST} h $HOST $$ ${HOST}" || u.Retry.Attempts != 4 ||
		u.Retry.BaseDelay != 2*time.Second || u.Breaker.FailureRate != 0.25 || u.Breaker.Consecutive != -1 || u.Fallback.Headers["A"] != "x-0123456789abcdef" {
		t.Errorf("%+v %+v", c.File, u.Fallback)
	}

	// No listing shows what came from a file, and no print of the values.
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	listing := b.String() + fmt.Sprintf("%+v %v", c.Effective(), c.Admin)
	if strings.Contains(listing, "0123456789abcdef") {
		t.Errorf("shows the secret:\n%s", listing)
	}
	for _, want := range []string{`token: "${file:token}"`, `"A": "x-${file:token}"`, `body: "$${HOST} h $HOST $$ $${HOST}"`} {
		if !strings.Contains(listing, want) {
			t.Errorf("lacks %s:\n%s", want, listing)
		}
	}

	// What is printed, where the secrets are, is the same configuration.
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Load(name, nil, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if d := Diff(c, again); !d.Empty() {
		t.Errorf("%+v", d)
	}

	// A token of the environment is one too, and a literal one.
	for _, c := range []*Config{
		mustLoad(t, in(""), []string{"FUSEBOX_ADMIN_TOKEN=fedcba9876543210"}),
		mustLoad(t, "admin: {token: fedcba9876543210}\n"+in(""), nil),
		mustLoad(t, "admin: {token: 'fedcba${X}'}\n"+in(""), []string{"X=9876543210"}),
	} {
		var b strings.Builder
		if err := c.Print(&b); err != nil || strings.Contains(b.String(), "fedcba") || !strings.Contains(b.String(), `token: "(secret)"`) {
			t.Errorf("%v %s", err, b.String())
		}
		if c.Admin.Token != "fedcba9876543210" {
			t.Error("the token is lost")
		}
	}
}

func TestDiff(t *testing.T) {
	base := "routes: [{upstream: a}]\nupstreams:\n  a: {endpoints: [http://a, http://b]}\n  b: {endpoints: [http://b]}\n"
	before := mustLoad(t, base, nil)
	if d := Diff(before, mustLoad(t, "# a comment\n"+base+"\nx-y: 1\n", nil)); !d.Empty() {
		t.Errorf("%+v", d)
	}
	if d := Diff(before, mustLoad(t, base+"logging: {level: info}\n", nil)); !d.Empty() {
		t.Errorf("a default that is written down is no change: %+v", d)
	}
	after := mustLoad(t, "listen: :1\nroutes: [{upstream: a, prefix: /x}]\nupstreams:\n  a: {endpoints: [http://a], breaker: {open-for: 2s}, bulkhead: {limit: 3}}\n  c: {endpoints: [http://b]}\n", nil)
	d := Diff(before, after)
	want := Changes{
		Added: []string{"c"}, Removed: []string{"b"},
		Changed: map[string][]string{"a": {"breaker.open-for", "bulkhead.limit", "bulkhead.max-wait", "endpoints[1]"}},
		Other:   []string{"listen", "routes[0].prefix"},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("%+v, want %+v", d, want)
	}
	for section, want := range map[string]bool{"breaker": true, "bulkhead": true, "endpoints": true, "retry": false, "break": false, "timeouts": false} {
		if d.Section("a", section) != want {
			t.Errorf("section %s changed: %v", section, !want)
		}
	}
	if !d.Section("b", "retry") || !d.Section("c", "retry") {
		t.Error("an upstream that came or went has changed whole")
	}
	token := func(s string) *Config { return mustLoad(t, "admin: {token: "+s+"}\n"+in(""), nil) }
	if d := Diff(token("0123456789abcdef"), token("0123456789abcdeg")); !reflect.DeepEqual(d.Other, []string{"admin.token"}) {
		t.Errorf("%+v", d)
	}
}

func TestExampleFile(t *testing.T) {
	const name = "../../examples/fusebox.yaml"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Load(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := schematest.Compile(t, Schema()).Validate(schematest.AsJSON(t, string(data))); err != nil {
		t.Error(err)
	}
	if got := c.Upstreams["search-standby"].Breaker; got.OpenForMax != 30*time.Second || got.SlowAfter != 2*time.Second {
		t.Errorf("the merge key did nothing: %+v", got)
	}
	// It has every key that there is, be it in a comment.
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || isScalar(typ) {
			return
		}
		for _, f := range fields(typ) {
			if !strings.Contains(string(data), " "+f.key+":") && !strings.Contains(string(data), "\n"+f.key+":") {
				t.Errorf("lacks %s", f.key)
			}
			visit(typ.Field(f.index).Type)
		}
	}
	visit(reflect.TypeFor[File]())
	// Values that are called defaults are: without a comment that says otherwise.
	defaults := mustLoad(t, in("    retry: {}\n    breaker: {scope: endpoint, slow-after: 2s}\n    fallback: {last-good: {max-age: 5m}, body: x}\n"), nil)
	want := map[string]string{}
	defaults.visit(func(path, text string, _ bool) {
		want[strings.Replace(path, "upstreams.a.", "upstreams.payments.", 1)] = text
	})
	c.visit(func(path, text string, _ bool) {
		origin := c.origins[path]
		line := ""
		if origin.Line > 0 {
			line = strings.Split(string(data), "\n")[origin.Line-1]
		}
		if w, ok := want[path]; ok && w != text && !strings.Contains(line, "default") && !strings.Contains(path, "endpoints") && !strings.Contains(path, "routes") && !strings.Contains(path, "fallback.body") {
			t.Errorf("%s is %s, the default is %s, and the line does not say so: %s", path, text, w, line)
		}
	})
}

package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestScalars(t *testing.T) {
	for _, c := range []struct {
		of   any
		good map[string]any // text to value
		bad  []string
	}{
		{
			Fraction(0),
			map[string]any{"0.5": Fraction(0.5), "50%": Fraction(0.5), "29%": Fraction(0.29), "1": Fraction(1), "100%": Fraction(1), "12.5%": Fraction(0.125), "0.1%": Fraction(0.001)},
			[]string{"", "%", "50 %", "-1", "-5%", "1e-1", ".5", "0x1", "NaN", "Inf", "1.01", "100.1%", "0", "0%", "0.00000000001", "05%", "50", "1" + strings.Repeat("0", 400), "0." + strings.Repeat("1", 400)},
		},
		{Rate(0), map[string]any{"1": Rate(1), "0.25": Rate(0.25), "1000": Rate(1000)}, []string{"", "0", "-1", "1/s", "1e3", "Inf", "1000000000000"}},
		{time.Duration(0), map[string]any{"1s": time.Second, "1m30s": 90 * time.Second, "250ms": 250 * time.Millisecond, "1.5h": 90 * time.Minute, ".5s": 500 * time.Millisecond}, []string{"", "0", "0s", "5", "-1s", "1d", "1 s", "s", "1e9s", "9999999h"}},
		{Size(0), map[string]any{"1B": Size(1), "64KiB": Size(65536), "1kB": Size(1000), "2MB": Size(2e6), "1GiB": Size(1 << 30)}, []string{"", "0B", "5", "5K", "5KB", "1.5MB", "-1B", "999999999999999999GiB", "64 KiB", "1TB"}},
		{Statuses{}, map[string]any{"503": Statuses{503, 503}, "5xx": Statuses{500, 599}, "500-504": Statuses{500, 504}, "100": Statuses{100, 100}, "500-599": Statuses{500, 599}}, []string{"", "5", "5x", "5XX", "600", "6xx", "099", "50-60", "504-500", "500-600", "500-", "xx"}},
		{Address(""), map[string]any{":80": Address(":80"), "[::1]:0": Address("[::1]:0"), "unix:/run/a": Address("unix:/run/a"), "localhost:1": Address("localhost:1")}, []string{"", "80", "a", ":http", ":-1", ":65536", "::1:80", "a b:1", "unix:a", "http://a:1", ":", ":080"}},
		{
			Endpoint(""),
			map[string]any{"http://a": Endpoint("http://a"), "https://a:443/b": Endpoint("https://a:443/b"), "h2c://[::1]:5": Endpoint("h2c://[::1]:5")},
			[]string{"", "a", "a:80", "http://", "http:///x", "http://:80", "http:a", "HTTP://a", "ftp://a", "http://a:0", "http://a:", "http://a:99999", "http://u@a", "http://a?", "http://a?b", "http://a#", "http://a#b", "http://a b", "//a"},
		},
		{0, map[string]any{"0": 0, "12": 12, "-3": -3}, []string{"", "1.0", "0x1", "1_000", "01", "1e3", "+1", "9999999999999999999", "999999999999999999999"}},
		{false, map[string]any{"true": true, "false": false}, []string{"", "yes", "on", "True", "1"}},
		{Secret(""), map[string]any{"0123456789abcdef": Secret("0123456789abcdef")}, []string{"", "short", "0123456789 abcdef", "0123456789abcdé"}},
	} {
		typ := reflect.TypeOf(c.of)
		for s, want := range c.good {
			got, err := scalars[typ].parse(s)
			if err != nil || got != want {
				t.Errorf("%v %q: %v, %v, want %v", typ, s, got, err, want)
				continue
			}
			again, err := scalars[typ].parse(text(reflect.ValueOf(got), field{}))
			if err != nil || again != want {
				t.Errorf("%v %q is written %q: %v, %v", typ, s, text(reflect.ValueOf(got), field{}), again, err)
			}
		}
		for _, s := range c.bad {
			if got, err := scalars[typ].parse(s); err == nil {
				t.Errorf("%v %q: %v, want an error", typ, s, got)
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	for a, want := range map[Address]string{
		":80": "tcp :80 false", "127.0.0.1:80": "tcp 127.0.0.1:80 true", "localhost:80": "tcp localhost:80 true", "[::1]:80": "tcp [::1]:80 true",
		"[::ffff:127.0.0.1]:80": "tcp [::ffff:127.0.0.1]:80 true", "0.0.0.0:80": "tcp 0.0.0.0:80 false", "10.0.0.1:80": "tcp 10.0.0.1:80 false",
		"unix:/run/x": "unix /run/x true", "": "tcp  false", "localhost.example:1": "tcp localhost.example:1 false",
	} {
		network, address := a.Network()
		if got := fmt.Sprintf("%s %s %v", network, address, a.Loopback()); got != want {
			t.Errorf("%q: %q, want %q", a, got, want)
		}
	}
	if u := Endpoint("http://a b").URL(); u == nil || u.Host != "" {
		t.Error(u)
	}
}

func TestASecretIsNotWritten(t *testing.T) {
	a := Admin{Token: "0123456789abcdef"}
	b, err := json.Marshal(a)
	if out := fmt.Sprintf("%s %v %+v %s", b, a, a, a.Token); err != nil || strings.Contains(out, "0123") || strings.Count(out, "(secret)") != 4 {
		t.Error(err, out)
	}
	if Secret("").String() != "" {
		t.Error("an empty secret is none")
	}
}

func TestFilesOfValuesAreBounded(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int64, data string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if size > 0 {
			if err := os.Truncate(path, size); err != nil { // sparse
				t.Fatal(err)
			}
		}
		return path
	}
	for path, want := range map[string]string{
		write("large", 65<<10, "x"):  "is larger than 64KiB",
		write("binary", 0, "a\x00"):  "must be text of at most 64 KiB after substitution",
		write("latin", 0, "caf\xe9"): "must be text of at most 64 KiB after substitution",
		dir:                          "is not a regular file",
		"":                           "there is no path",
	} {
		_, err := Parse("f", []byte(in("listen: ${file:"+path+"}")), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	for path, want := range map[string]string{
		write("huge", 17<<20, "x"): "must be a regular file of at most 16MiB",
		dir:                        "must be a regular file of at most 16MiB",
	} {
		_, err := Parse("f", []byte(in("    fallback: {file: "+path+"}")), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if _, err := Load(write("config", 2<<20, "x"), nil, nil); err == nil || !strings.Contains(err.Error(), "is larger than 1MiB") {
		t.Error(err)
	}
	if _, err := Parse("f", []byte(in("listen: '"+strings.Repeat("${A}", 100)+"'")), []string{"A=" + strings.Repeat("x", 1000)}); err == nil || !strings.Contains(err.Error(), "at most 64 KiB") {
		t.Error(err)
	}
}

func TestAnchorsAndMergeKeys(t *testing.T) {
	c := mustLoad(t, `
x-one: &one {open-for: 3s, probes: 7}
x-two: &two {open-for: 4s, buckets: 5}
upstreams:
  a: &a
    endpoints: [http://a]
    breaker: {<<: [*one, *two], probes: 8}
  b: *a
  c:
    breaker: {<<: *two}
    <<: *a
routes: [{upstream: a}]
`, nil)
	if b := c.Upstreams["a"].Breaker; b.OpenFor != 3*time.Second || b.Probes != 8 || b.Buckets != 5 {
		t.Errorf("a: %+v", b)
	}
	if !reflect.DeepEqual(c.Upstreams["a"], c.Upstreams["b"]) || c.Upstreams["a"] == c.Upstreams["b"] {
		t.Error("an alias is a copy")
	}
	if u := c.Upstreams["c"]; u.Breaker.OpenFor != 4*time.Second || u.Breaker.Probes != 3 || u.Endpoints[0] != "http://a" {
		t.Errorf("c: its own keys come first, whole: %+v", u)
	}
	for text, want := range map[string]string{
		in("<<: 5"):                               `merges "5", must be a mapping or a list of them`,
		in("x-a: &a {}\nx-b: &a {}"):              `the anchor "a" is defined twice`,
		"x-b: *a\n" + in("x-a: &a {}\nadmin: *b"): "there is no anchor &b before it",
		in("admin: *a\nx-a: &a {}"):               "there is no anchor &a before it",
	} {
		if _, err := Parse("f", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestManyErrorsAreCounted(t *testing.T) {
	var b strings.Builder
	b.WriteString("upstreams:\n")
	for i := range 60 {
		fmt.Fprintf(&b, "  u%d: {endpoints: [http://a], fallback: {upstream: nobody}}\n", i)
	}
	b.WriteString("routes: [{upstream: u1}]\n")
	_, err := Parse("f", []byte(b.String()), nil)
	if err == nil || !strings.HasSuffix(err.Error(), "\nand 10 more") || !strings.Contains(err.Error(), "known are u0, u1, u10, u11, u12, u13, u14, u15, u16, u17, …\n") {
		t.Error(err)
	}
}

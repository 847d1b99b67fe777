package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config/schematest"
)

// FuzzParse holds, whatever a file holds: no panic; an error has a place in the
// file; and what is printed of a configuration is that configuration, and what
// the schema allows.
func FuzzParse(f *testing.F) {
	example, err := os.ReadFile("../../examples/fusebox.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	for _, s := range []string{
		"", "a", "\ufeff" + in(""), in("listen: ${A}"), in("x-y: &a {breaker: {probes: 1}}\n"), strings.ReplaceAll(in(""), "\n", "\r\n"),
		in("    fallback: {body: \"\\x07\\e\\u2028\\xff\\\"${A} $${A}\", headers: {X: '', \"1e3\": \"a\\tb\"}}"), in("    fallback:\n      body: |\n        a\n\n        b\n"),
		in("    failure: {statuses: []}"), in("    retry: {jitter: 0.00001%, budget-per-second: 999999999.5}"), in("  1e3: {endpoints: [http://b]}\nroutes: [{upstream: '1e3'}]"),
		in("  true: {<<: &m {endpoints: ['http://b/%41']}}\n  null: *m\nroutes: [{upstream: a}]"), in("    breaker: {window: 1h0m0.5s, stable-after: 2562047h}"), "upstreams: &x {a: *x}", "<<: *a", "? [a]\n: b",
		in("routes: [{upstream: a, host: '[::1]', prefix: '/%20/${A}//'}]"), "---\n...\n---\n", "a: \"\\ud800\"", in("    bulkhead: &b\n    retry: *b"),
		in("    bulkhead: {max-wait: 1ns}\n    fallback: {last-good: {max-age: 1s, max-size: 1GB}, upstream: b}\n  b: {endpoints: [http://b]}\nroutes: [{upstream: a}]"),
	} {
		f.Add(s)
	}
	schema := schematest.Compile(f, Schema())
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file:") || strings.Contains(text, "file\":") {
			return // not what is on this machine
		}
		env := map[string]string{"A": "${A}", "N": "5"}
		c, err := build("f", []byte(text), env, false, nil)
		if err != nil {
			var all Errors
			if !errors.As(err, &all) || len(all) == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			lines := strings.Split(text, "\n")
			for _, e := range all {
				if o := e.Origin; o.Kind != FromFile || o.Line < 1 || o.Line > len(lines) || o.Column < 1 || e.Message == "" || e.Error() == "" {
					t.Fatalf("%+v", e)
				}
			}
			return
		}
		var b strings.Builder
		if err := c.print(&b, false); err != nil {
			t.Fatal(err)
		}
		again, err := build("f", []byte(b.String()), nil, false, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		if d := Diff(c, again); !d.Empty() {
			t.Fatalf("%+v\n%s", d, b.String())
		}
		if err := schema.Validate(schematest.AsJSON(t, b.String())); err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
	})
}

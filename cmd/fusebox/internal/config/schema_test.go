package config

import (
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config/schematest"
)

var update = flag.Bool("update", false, "write schema.json anew")

func comments(tb testing.TB) map[string]string {
	tb.Helper()
	return schematest.Comments(tb, "types.go")
}

func TestSchemaIsThatOfTheTypes(t *testing.T) {
	want := WriteSchema(SchemaSource{
		Root: reflect.TypeFor[File](), Title: "Configuration of fusebox", Comments: comments(t), Substituted: true,
	})
	if *update {
		if err := os.WriteFile("schema.json", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if Schema() != want {
		t.Error("schema.json is not what the types say: go generate")
	}
}

// in puts a section into a document that is valid without it.
func in(section string) string {
	return "upstreams:\n  a:\n    endpoints: [http://a]\n" + section
}

// TestSchemaAndDecoderAgree judges documents by both.
func TestSchemaAndDecoderAgree(t *testing.T) {
	schema := schematest.Compile(t, Schema())
	valid := []string{
		in(""), in("listen: unix:/run/x"), in("listen: '[::1]:80'"), in("listen: ${LISTEN}"), in("x-anything: {goes: [1]}"),
		in("admin: {listen: off, token: 0123456789abcdef}"), in("admin: {hosts: [fusebox, fusebox.shop.svc, '${A}']}"), in("admin: {hosts: []}"), in("logging: {level: warn, format: json, access: stdout}"),
		in("shutdown: {wait: off, grace: 1h2m3.5s}"), in("routes: [{upstream: a, host: '*.x', prefix: /y}]"), in("routes: [{upstream: '${A}'}]"),
	}
	for _, section := range []string{
		"timeouts: {total: off, per-try: 1.5s}", "bulkhead: {}", "bulkhead: {limit: 1, max-wait: 1s, max-waiting: 2}",
		"bulkhead: {limit: '${N}'}", "retry: {}", "retry: {attempts: 1, jitter: off, budget-share: 0.1%, budget-per-second: 0.5, max-body: 1B}",
		"retry: {max-body: off}", "breaker: {}", "breaker: {scope: endpoint}", "breaker: {mode: off}", "breaker: {mode: shadow}",
		"breaker: {failure-rate: 1, slow-after: 1s, slow-rate: 100%}", "breaker: {failure-rate: off, consecutive: off, stable-after: off, open-jitter: off}",
		"breaker: {window-calls: 20, min-calls: 20}", "breaker: {window-calls: off, buckets: 1048576}", "breaker: {failure-rate: 0.5}",
		"failure: {statuses: [], except: []}", "failure: {statuses: [5xx, 429, '500-504'], except: [501, 4xx]}",
		"fallback: {status: 200}", "fallback: {body: ''}", "fallback: {file: schema.json, status: 404, headers: {X-Y: z}}",
		"fallback: {last-good: {max-age: 1m, max-size: 1GiB}}", "breaker: {scope: endpoint}\n    ejection: {max-share: 50%, always-one: true, when-all-open: least-bad}",
	} {
		valid = append(valid, in("    "+section))
	}
	invalid := []string{
		"{}", "[]", "listen: :80", "upstreams: {}", "upstreams: {a: {}}", "upstreams: {a: {endpoints: []}}", "upstreams: {A: {endpoints: [http://a]}}",
		"upstreams: {-a: {endpoints: [http://a]}}", "upstreams: {a: {endpoints: [http://a, http://a]}}", "upstreams: {a: {endpoints: http://a}}",
		"upstreams: {a: {endpoints: [ftp://a]}}", "upstreams: {a: {endpoints: ['http://u:p@a']}}", "upstreams: {a: {endpoints: ['http://a?b']}}",
		"upstreams: {a: }", in("x: 1"), in("listen: 80"), in("listen: a"), in("listen: ''"), in("admin: "), in("admin: {token: short}"), in("admin: {token: 1}"), in("admin: {hosts: fusebox}"), in("admin: {hosts: ['fusebox:9901']}"), in("admin: {hosts: ['*.svc']}"), in("admin: {hosts: [Fusebox]}"), in("admin: {hosts: ['']}"),
		in("logging: {level: loud}"), in("logging: {access: true}"), in("shutdown: {grace: off}"), in("shutdown: {grace: 5}"), in("shutdown: {wait: -5s}"), in("shutdown: {wait: 1d}"),
		in("routes: []"), in("routes: {}"), in("routes: [{}]"), in("routes: [{upstream: 1}]"), in("routes: [{upstream: a, path: /}]"),
	}
	for _, section := range []string{
		"timeouts: {total: 5}", "timeouts: []", "bulkhead: off", "bulkhead: {limit: 0}", "bulkhead: {limit: 1.5}", "bulkhead: {limit: '5'}", "bulkhead: {max-waiting: 2}",
		"retry: {attempts: 0}", "retry: {jitter: 0}", "retry: {budget-share: 2}", "retry: {budget-per-second: 0}", "retry: {budget-per-second: '1'}", "retry: {max-body: 5}",
		"retry: {max-body: 5K}", "breaker: {failure-rate: 50}", "breaker: {failure-rate: 0}", "breaker: {failure-rate: -1}", "breaker: {failure-rate: 101%}", "breaker: {failure-rate: half}",
		"breaker: {mode: force-open}", "breaker: {mode: false}", "breaker: {scope: host}", "breaker: {slow-rate: 50%}", "breaker: {buckets: 1048577}", "breaker: {open-for: off}", "breaker: {probes: off}",
		"breaker: {failure_rate: 0.5}", "failure: {statuses: [600]}", "failure: {statuses: [6xx]}", "failure: {statuses: 500}", "failure: {statuses: [500.5]}", "failure: {statuses: [true]}",
		"fallback: {}", "fallback: {status: 100}", "fallback: {body: a, file: schema.json}", "fallback: {body: a, upstream: a}", "fallback: {body: 5}", "fallback: {last-good: {}}", "fallback: {last-good: {max-age: off}}",
		"fallback: {headers: {X: 1}}", "fallback: {headers: {'a b': c}}", "fallback: {upstream: a, status: 503}", "ejection: {always-one: 1}", "ejection: {when-all-open: panic}", "ejection: {max-share: off}",
	} {
		invalid = append(invalid, in("    "+section))
	}
	for want, documents := range map[bool][]string{true: valid, false: invalid} {
		for _, text := range documents {
			_, err := Parse("x.yaml", []byte(text), []string{"LISTEN=:1", "N=5", "A=a"})
			if (err == nil) != want {
				t.Errorf("decoder: %v\n%s", err, text)
			}
			if err := schema.Validate(schematest.AsJSON(t, text)); (err == nil) != want {
				t.Errorf("schema: %v\n%s", err, text)
			}
		}
	}
}

// TestEveryFieldHasAKey keeps the file complete: what a breaker can be told, a
// file can.
func TestEveryFieldHasAKey(t *testing.T) {
	code := map[string]bool{"TripWhen": true, "Classify": true, "Observers": true, "Now": true, "Rand": true}
	here := reflect.TypeFor[Breaker]()
	for f := range structFields(reflect.TypeFor[fusebox.Config]()) {
		mine, ok := here.FieldByName(f.Name)
		if ok == code[f.Name] {
			t.Errorf("fusebox.Config.%s: in the file %v", f.Name, ok)
		}
		if ok && mine.Type.Kind() != f.Type.Kind() {
			t.Errorf("fusebox.Config.%s has another kind in the file: it would not be copied", f.Name)
		}
	}
	docs := comments(t)
	for _, typ := range []reflect.Type{
		reflect.TypeFor[File](), reflect.TypeFor[Admin](), reflect.TypeFor[Logging](), reflect.TypeFor[Shutdown](), reflect.TypeFor[Upstream](),
		reflect.TypeFor[Timeouts](), reflect.TypeFor[Bulkhead](), reflect.TypeFor[Retry](), reflect.TypeFor[Breaker](), reflect.TypeFor[Failure](),
		reflect.TypeFor[Fallback](), reflect.TypeFor[LastGood](), reflect.TypeFor[Ejection](), reflect.TypeFor[Route](),
	} {
		for _, f := range fields(typ) {
			field := typ.Field(f.index)
			if f.key != kebab(field.Name) {
				t.Errorf("%s.%s has the key %q", typ.Name(), field.Name, f.key)
			}
			if docs["config."+typ.Name()+"."+field.Name] == "" {
				t.Errorf("%s.%s has no comment", typ.Name(), field.Name)
			}
		}
	}
}

func structFields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fusebox-go/fusebox"
)

var update = flag.Bool("update", false, "write schema.json anew")

type object = map[string]any

// schemaWriter makes the schema from the types, their tags and their comments.
type schemaWriter struct {
	docs map[string]string // "Type" and "Type.Field"
	defs object
}

func newSchemaWriter(tb testing.TB) *schemaWriter {
	tb.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, parser.ParseComments)
	if err != nil {
		tb.Fatal(err)
	}
	w := &schemaWriter{docs: map[string]string{}, defs: object{
		"substituted": object{"type": "string", "pattern": `^([^$]|\$[^{])*\$\{`, "description": "A string with ${VAR} or ${file:PATH}."},
	}}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			t := s.(*ast.TypeSpec)
			w.docs[t.Name.Name] = g.Doc.Text()
			if st, ok := t.Type.(*ast.StructType); ok {
				for _, field := range st.Fields.List {
					w.docs[t.Name.Name+"."+field.Names[0].Name] = field.Doc.Text()
				}
			}
		}
	}
	return w
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func (w *schemaWriter) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range fields(t) {
		p := w.of(t.Field(f.index).Type, f)
		p["description"] = oneLine(w.docs[t.Name()+"."+t.Field(f.index).Name])
		properties[f.key] = p
		if f.required || f.needed {
			required = append(required, f.key)
		}
	}
	s := object{
		"type": "object", "description": oneLine(w.docs[t.Name()]),
		"properties": properties, "additionalProperties": false,
	}
	if len(required) > 0 {
		s["required"] = required
	}
	switch t {
	case reflect.TypeFor[Fallback]():
		s["minProperties"] = 1
		s["not"] = object{"anyOf": []any{
			object{"required": []string{"body", "file"}},
			object{"required": []string{"body", "upstream"}},
			object{"required": []string{"file", "upstream"}},
			object{"required": []string{"status", "upstream"}},
			object{"required": []string{"headers", "upstream"}},
		}}
	case reflect.TypeFor[Breaker]():
		s["dependentRequired"] = object{"slow-rate": []string{"slow-after"}}
	case reflect.TypeFor[Bulkhead]():
		s["dependentRequired"] = object{"max-waiting": []string{"max-wait"}}
	}
	return s
}

// reference returns a reference to the definition of a struct.
func (w *schemaWriter) reference(t reflect.Type) object {
	if w.defs[t.Name()] == nil {
		w.defs[t.Name()] = object{}
		w.defs[t.Name()] = w.structure(t)
	}
	return object{"$ref": "#/$defs/" + t.Name()}
}

func (w *schemaWriter) of(t reflect.Type, f field) object {
	switch {
	case isScalar(t):
		return w.scalar(t, f)
	case t.Kind() == reflect.Pointer:
		return w.of(t.Elem(), f)
	case t.Kind() == reflect.Struct:
		return w.reference(t)
	case t.Kind() == reflect.Slice:
		s := object{"type": "array", "items": w.of(t.Elem(), field{})}
		if f.needed || t.Elem() == reflect.TypeFor[Route]() {
			s["minItems"] = 1
		}
		if t.Elem() == reflect.TypeFor[Endpoint]() {
			s["uniqueItems"] = true
		}
		return s
	case t.Elem().Kind() == reflect.Pointer:
		return object{
			"type": "object", "propertyNames": object{"pattern": nameText.String()}, "minProperties": 1,
			"additionalProperties": w.of(t.Elem(), field{}),
		}
	default:
		return object{
			"type": "object", "propertyNames": object{"pattern": headerText.String()},
			"additionalProperties": object{"type": "string"},
		}
	}
}

// scalar describes a value. Next to every value that is not any text stands one
// that is substituted.
func (w *schemaWriter) scalar(t reflect.Type, f field) object {
	choices := []any{}
	add := func(o object) { choices = append(choices, o) }
	text := func(pattern string) { add(object{"type": "string", "pattern": pattern}) }
	switch t {
	case reflect.TypeFor[string]():
		s := object{"type": "string"}
		if !f.empty {
			s["minLength"] = 1
		}
		if len(f.enum) == 0 {
			return s
		}
	case reflect.TypeFor[Secret]():
		text("^[!-~]{16,}$")
	case reflect.TypeFor[bool]():
		add(object{"type": "boolean"})
	case reflect.TypeFor[int]():
		o := object{"type": "integer"}
		for key, bound := range map[string]string{"minimum": f.min, "maximum": f.max} {
			if bound != "" {
				o[key] = json.Number(bound)
			}
		}
		add(o)
	case reflect.TypeFor[Fraction]():
		add(object{"type": "number", "exclusiveMinimum": 0, "maximum": 1})
		text(`^(100(\.0+)?|[1-9]?[0-9](\.[0-9]{1,40})?)%$`)
	case reflect.TypeFor[Rate]():
		add(object{"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": json.Number("1000000000")})
	case reflect.TypeFor[time.Duration]():
		text(`^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`)
	case reflect.TypeFor[Size]():
		text(sizeText.String())
	case reflect.TypeFor[Statuses]():
		add(object{"type": "integer", "minimum": 100, "maximum": 599})
		text(statusText.String())
	case reflect.TypeFor[Address]():
		text(`^(unix:/.*|([^:/\s]*|\[[^/\s]*\]):[0-9]{1,5})$`)
	case reflect.TypeFor[Host]():
		text(domainText.String())
	case reflect.TypeFor[Endpoint]():
		text(`^(http|https|h2c)://[^/@?#\s]+(/[^?#]*)?$`)
	}
	if len(f.enum) > 0 {
		add(object{"enum": f.enum})
	}
	if f.off {
		add(object{"const": "off"})
	}
	return object{"anyOf": append(choices, object{"$ref": "#/$defs/substituted"})}
}

func (w *schemaWriter) file() []byte {
	s := w.structure(reflect.TypeFor[File]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Configuration of fusebox"
	s["patternProperties"] = object{"^x-": true}
	s["$defs"] = w.defs
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func TestSchemaIsThatOfTheTypes(t *testing.T) {
	want := newSchemaWriter(t).file()
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if Schema() != string(want) {
		t.Error("schema.json is not what the types say: go generate")
	}
}

func compiled(tb testing.TB) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(Schema()))
	if err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("fusebox.json", doc); err != nil {
		tb.Fatal(err)
	}
	s, err := c.Compile("fusebox.json")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// asJSON reads YAML as an editor does that knows nothing but the schema.
func asJSON(tb testing.TB, text string) any {
	tb.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		tb.Fatal(err)
	}
	return doc
}

// in puts a section into a document that is valid without it.
func in(section string) string {
	return "upstreams:\n  a:\n    endpoints: [http://a]\n" + section
}

// TestSchemaAndDecoderAgree judges documents by both.
func TestSchemaAndDecoderAgree(t *testing.T) {
	schema := compiled(t)
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
			if err := schema.Validate(asJSON(t, text)); (err == nil) != want {
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
	w := newSchemaWriter(t)
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
			if w.docs[typ.Name()+"."+field.Name] == "" {
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

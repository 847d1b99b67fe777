package fuseboxadmin_test

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

type object = map[string]any

// spec is openapi.json, as far as the tests look.
type spec struct {
	Paths      map[string]object
	Components struct{ Schemas, Responses map[string]object }
}

func readSpec(tb testing.TB) (s spec) {
	tb.Helper()
	text, err := os.ReadFile("openapi.json")
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		tb.Fatal(err)
	}
	return s
}

// checkAnswer holds an answer against the operation it is of.
func (s spec) checkAnswer(tb testing.TB, r *http.Request, path string, resp *http.Response, text []byte) {
	tb.Helper()
	path, _, _ = strings.Cut(path, "?")
	at := fmt.Sprintf("%s %s: %d", r.Method, path, resp.StatusCode)
	var described object
	for of, item := range s.Paths {
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(of), `\{name\}`, "[^/]+") + "$"
		if !regexp.MustCompile(pattern).MatchString(path) {
			continue
		}
		op, _ := item[strings.ToLower(r.Method)].(object)
		if r.Method == http.MethodHead {
			op, _ = item["get"].(object)
		}
		for _, method := range []string{"get", "post"} { // 405 stands with the methods there are
			if op == nil && resp.StatusCode == http.StatusMethodNotAllowed {
				op, _ = item[method].(object)
			}
		}
		if op == nil {
			tb.Errorf("%s: no such operation in openapi.json", at)
			return
		}
		described, _ = op["responses"].(object)[strconv.Itoa(resp.StatusCode)].(object)
		if ref, ok := described["$ref"].(string); ok {
			described = s.Components.Responses[strings.TrimPrefix(ref, "#/components/responses/")]
		}
		if described == nil {
			tb.Errorf("%s is not in openapi.json: %s", at, text)
			return
		}
	}
	schema := object{"$ref": "#/components/schemas/APIError"}
	kind := resp.Header.Get("Content-Type")
	if described != nil {
		media, _ := described["content"].(object)[kind].(object)
		if media == nil {
			tb.Errorf("%s: Content-Type %q is not in openapi.json", at, kind)
			return
		}
		schema = media["schema"].(object)
	}
	if kind != "application/json" || r.Method == http.MethodHead {
		return
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		tb.Errorf("%s: %v", at, err)
	}
	s.check(tb, at, schema, v)
}

// data holds a text against a named schema.
func (s spec) data(tb testing.TB, name, text string) {
	tb.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Errorf("%s: %v", text, err)
	}
	s.check(tb, name, object{"$ref": "#/components/schemas/" + name}, v)
}

// check holds a value against a schema, as far as openapi.json uses schemas.
func (s spec) check(tb testing.TB, at string, schema object, v any) {
	tb.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = s.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
	}
	if some, ok := schema["oneOf"].([]any); ok { // one thing, or null
		if v != nil {
			s.check(tb, at, some[0].(object), v)
		}
		return
	}
	if schema["type"] == nil { // anything
		return
	}
	types, ok := schema["type"].([]any)
	if !ok {
		types = []any{schema["type"]}
	}
	kind := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number", reflect.Map: "object", reflect.Slice: "array",
	}[reflect.ValueOf(v).Kind()]
	if v == nil {
		kind = "null"
	}
	if f, ok := v.(float64); ok && slices.Contains(types, "integer") && f == float64(int64(f)) {
		kind = "integer"
	}
	if !slices.Contains(types, any(kind)) {
		tb.Errorf("%s: %v is of type %s, want %v", at, v, kind, types)
		return
	}
	if list, ok := schema["enum"].([]any); ok && !slices.Contains(list, v) {
		tb.Errorf("%s: %v is not one of %v", at, v, list)
	}
	if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(v.(string)) {
		tb.Errorf("%s: %q does not match %s", at, v, pattern)
	}
	if schema["format"] == "date-time" {
		if _, err := time.Parse(time.RFC3339Nano, v.(string)); err != nil {
			tb.Errorf("%s: %v", at, err)
		}
	}
	switch v := v.(type) {
	case []any:
		for i, x := range v {
			s.check(tb, fmt.Sprintf("%s[%d]", at, i), schema["items"].(object), x)
		}
	case object:
		for _, name := range schema["required"].([]any) {
			if _, ok := v[name.(string)]; !ok {
				tb.Errorf("%s has no %s", at, name)
			}
		}
		for name, x := range v {
			if inner, ok := schema["properties"].(object)[name].(object); ok {
				s.check(tb, at+"."+name, inner, x)
			} else {
				tb.Errorf("%s has a %s, which is not in openapi.json", at, name)
			}
		}
	}
}

func TestTheRoutesAreThoseOfTheOpenAPIFile(t *testing.T) {
	var described []string
	for path, item := range readSpec(t).Paths {
		for key := range item {
			if key != "parameters" {
				described = append(described, strings.ToUpper(key)+" "+path)
			}
		}
	}
	served := fuseboxadmin.Routes()
	slices.Sort(described)
	slices.Sort(served)
	if !slices.Equal(described, served) {
		t.Errorf("described: %q\nserved: %q", described, served)
	}
}

// field is a field of a type as encoding/json sees it.
type field struct {
	reflect.Type
	optional bool
}

// fieldsOf returns the fields of a struct by their names in JSON; of two with
// one name, that which is less deep.
func fieldsOf(t reflect.Type) map[string]field {
	all := map[string]field{}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			maps.Copy(all, fieldsOf(f.Type))
		}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous {
			all[name] = field{f.Type, options != ""}
		}
	}
	return all
}

// schemaOf returns what stands for a type; structs are added to found.
func schemaOf(t reflect.Type, found map[string]reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "string"
	case t == reflect.TypeFor[json.RawMessage]():
		return "anything"
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), found)
	case t.Kind() == reflect.Slice:
		return "[]" + schemaOf(t.Elem(), found)
	case t.Kind() == reflect.Struct:
		found[t.Name()] = t
		return t.Name()
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return t.Name()
	case t.Kind() == reflect.String:
		return "string"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Float64:
		return "number"
	default:
		return "integer"
	}
}

// described returns how schemaOf would call a schema.
func described(schema object) string {
	if ref, ok := schema["$ref"].(string); ok {
		return strings.TrimPrefix(ref, "#/components/schemas/")
	}
	if some, ok := schema["oneOf"].([]any); ok {
		return described(some[0].(object))
	}
	if types, ok := schema["type"].([]any); ok {
		return types[0].(string)
	}
	if schema["type"] == nil {
		return "anything"
	}
	if schema["type"] == "array" {
		return "[]" + described(schema["items"].(object))
	}
	return schema["type"].(string)
}

func TestTheTypesAreThoseOfTheOpenAPIFile(t *testing.T) {
	schemas := readSpec(t).Components.Schemas
	seen := map[string]bool{"State": true, "Mode": true, "Cause": true, "ProbeResult": true, "Duration": true, "Reset": true} // see below
	found := map[string]reflect.Type{}
	for _, v := range []any{
		fuseboxadmin.List{}, fuseboxadmin.Detail{}, fuseboxadmin.AuditRecord{}, fuseboxadmin.APIError{}, fuseboxadmin.Transition{}, fuseboxadmin.History{},
	} {
		schemaOf(reflect.TypeOf(v), found)
	}
	for len(found) > 0 {
		next := map[string]reflect.Type{}
		for name, typ := range found {
			if seen[name] {
				continue
			}
			seen[name] = true
			schema, properties := schemas[name], schemas[name]["properties"].(object)
			fields := fieldsOf(typ)
			for json, f := range fields {
				property, _ := properties[json].(object)
				if property == nil {
					t.Errorf("%s.%s is not in openapi.json", name, json)
					continue
				}
				if got, want := described(property), schemaOf(f.Type, next); got != want {
					t.Errorf("%s.%s is %s in openapi.json, want %s", name, json, got, want)
				}
				if f.optional == slices.Contains(schema["required"].([]any), any(json)) {
					t.Errorf("%s.%s: optional is %t, and openapi.json says otherwise", name, json, f.optional)
				}
				null := strings.Contains(fmt.Sprint(property["oneOf"], property["type"]), "null")
				if want := f.Kind() == reflect.Pointer && !f.optional; null != want {
					t.Errorf("%s.%s: null is %t in openapi.json, want %t", name, json, null, want)
				}
			}
			for json := range properties {
				if _, ok := fields[json]; !ok {
					t.Errorf("openapi.json has %s.%s, which there is not", name, json)
				}
			}
			if schema["additionalProperties"] != false {
				t.Errorf("%s may have other fields", name)
			}
		}
		found = next
	}
	for name, action := range map[string]string{"Override": "override", "Change": "lift"} {
		seen[name] = true
		fields, want := slices.Sorted(maps.Keys(schemas[name]["properties"].(object))), fuseboxadmin.FieldsOf(action)
		if slices.Sort(want); !slices.Equal(fields, want) {
			t.Errorf("%s has the fields %q, want %q", name, fields, want)
		}
	}
	for name := range schemas {
		if !seen[name] {
			t.Errorf("openapi.json has a schema %s that nothing is of", name)
		}
	}
}

func TestTheEnumerationsAreThoseOfTheOpenAPIFile(t *testing.T) {
	schemas := readSpec(t).Components.Schemas
	for name, of := range map[string]func(uint8) encoding.TextMarshaler{
		"State":       func(i uint8) encoding.TextMarshaler { return fusebox.State(i) },
		"Mode":        func(i uint8) encoding.TextMarshaler { return fusebox.Mode(i) },
		"ProbeResult": func(i uint8) encoding.TextMarshaler { return fusebox.ProbeResult(i) },
		"Cause":       func(i uint8) encoding.TextMarshaler { return fusebox.Cause(i) },
	} {
		var texts []any
		for i := uint8(0); ; i++ {
			text, err := of(i).MarshalText()
			if err != nil {
				break
			}
			if len(text) > 0 { // CauseNone is never shown
				texts = append(texts, string(text))
			}
		}
		if got := schemas[name]["enum"].([]any); !slices.Equal(got, texts) {
			t.Errorf("%s is one of %q in openapi.json, want %q", name, got, texts)
		}
	}
}

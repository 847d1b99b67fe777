package scenario

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config/schematest"
)

var update = flag.Bool("update", false, "write schema.json anew")

func comments(tb testing.TB) map[string]string {
	tb.Helper()
	return schematest.Comments(tb, "file.go", "../../config/types.go")
}

type object = map[string]any

func requires(keys ...string) object { return object{"required": keys} }

// oneOf is one of the keys, and only one.
func oneOf(keys ...string) (choices []any) {
	for _, key := range keys {
		choices = append(choices, requires(key))
	}
	return choices
}

// amend adds what the tags do not say.
func amend(t reflect.Type, field string, s map[string]any) {
	switch t {
	case reflect.TypeFor[Scenario]():
		if field == "Dependencies" || field == "Traffic" {
			s["minItems"] = 1
		}
	case reflect.TypeFor[Dependency]():
		if field == "" {
			s["dependentRequired"] = object{"queue": []string{"capacity"}}
		}
	case reflect.TypeFor[Change]():
		s["dependentRequired"] = object{"every": []string{"for"}}
		s["properties"].(object)["to"].(object)["minProperties"] = 1
	case reflect.TypeFor[Traffic]():
		if field == "To" {
			s["minItems"] = 1
		}
		if field == "" {
			s["dependentRequired"] = object{"pause": []string{"workers"}}
			s["oneOf"] = oneOf("rate", "workers")
		}
	case reflect.TypeFor[ClockStep]():
		s["oneOf"] = oneOf("by", "back")
	case reflect.TypeFor[config.Retry]():
		delete(s["properties"].(object), "max-body")
	case reflect.TypeFor[Expect]():
		needs := object{"at": []string{"state"}}
		var some []any
		not := []any{requires("at", "after"), requires("at", "until")}
		for _, c := range (Expect{}).conditions() {
			needs[c.key] = []string{c.of}
			some = append(some, requires(c.key))
			if c.whole {
				not = append(not, requires(c.key, "after"), requires(c.key, "until"))
			}
		}
		s["dependentRequired"], s["anyOf"], s["not"] = needs, some, object{"anyOf": not}
		s["oneOf"] = oneOf("breaker", "traffic", "dependency")
	}
}

func TestSchemaIsThatOfTheTypes(t *testing.T) {
	want := config.WriteSchema(config.SchemaSource{
		Root: reflect.TypeFor[Scenario](), Title: "Scenario of fusebox lab", Comments: comments(t), Amend: amend,
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

// The schema accepts what the decoder does, and of what is wrong refuses all that
// a schema can see.
func TestSchemaAndDecoderAgree(t *testing.T) {
	schema := schematest.Compile(t, Schema())
	judge := func(name, text string, decoder, schemaToo bool) {
		if _, err := Parse("f.yaml", []byte(text)); (err == nil) != decoder {
			t.Errorf("%s: decoder: %v", name, err)
		}
		if err := schema.Validate(schematest.AsJSON(t, text)); (err == nil) != schemaToo {
			t.Errorf("%s: schema: %v", name, err)
		}
	}
	judge("good", good, true, true)
	judge("the example", Example(), true, true)
	for _, name := range Names() {
		source, _ := Source(name)
		judge(name, string(source), true, true)
	}
	for _, c := range noContradictions {
		judge(c.to, badFile(c.from, c.to), true, true)
	}
	for _, c := range contradictions {
		judge(c.name, badFile(c.from, c.to), false, !c.schema)
	}
	judge("nothing required", "about: x", false, false)
	judge("a list", "[]", false, false)
}

// structs are the types of the file.
func structs(t reflect.Type, seen []reflect.Type) []reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() != reflect.TypeFor[Scenario]().PkgPath() || slices.Contains(seen, t) {
		return seen
	}
	seen = append(seen, t)
	for i := range t.NumField() {
		seen = structs(t.Field(i).Type, seen)
	}
	return seen
}

func TestEveryKeyIsExplained(t *testing.T) {
	docs := comments(t)
	used := map[string]bool{}
	use(reflect.TypeFor[Scenario](), schematest.AsJSON(t, Example()), used)
	types := structs(reflect.TypeFor[Scenario](), nil)
	if len(types) != 10 {
		t.Errorf("the types are %v", types)
	}
	for _, typ := range types {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if docs[typ.String()+"."+f.Name] == "" {
				t.Errorf("%v.%s has no comment", typ, f.Name)
			}
			if !used[typ.Name()+"."+f.Tag.Get("yaml")] {
				t.Errorf("the example lacks %s of %s", f.Tag.Get("yaml"), typ.Name())
			}
		}
	}
}

// use notes the keys of a document, by the type that they are read into.
func use(t reflect.Type, v any, used map[string]bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			use(t.Elem(), item, used)
		}
	case map[string]any:
		for i := range t.NumField() {
			key := t.Field(i).Tag.Get("yaml")
			if value, ok := v[key]; ok {
				used[t.Name()+"."+key] = true
				use(t.Field(i).Type, value, used)
			}
		}
	}
}

func TestTheExampleMeetsItsExpectations(t *testing.T) {
	s := parse(t, Example())
	for seed := range uint64(3) {
		for _, v := range play(t, s, Options{Seed: seed + 1}).Verdicts() {
			if !v.OK {
				t.Errorf("seed %d: %s: want %s, got %s", seed+1, v.Text, v.Want, v.Got)
			}
		}
	}
}

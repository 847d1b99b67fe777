package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// SchemaSource says of what kind of file [WriteSchema] makes a schema.
type SchemaSource struct {
	// Root is the struct that such a file is read into, Title a name for it.
	Root  reflect.Type
	Title string
	// Comments are those of types and fields, by "package.Type" and
	// "package.Type.Field".
	Comments map[string]string
	// Substituted tells whether ${VAR} may stand for a value.
	Substituted bool
	// Amend, if not nil, adds to the schema of a struct, and of a list, what the
	// tags do not say. field is that of the list; "" for a struct.
	Amend func(t reflect.Type, field string, schema map[string]any)
}

// WriteSchema returns the JSON Schema (draft 2020-12) of files that are read by
// the rules of this package: of the types, their tags and their comments.
func WriteSchema(source SchemaSource) string {
	w := &schemaWriter{SchemaSource: source, defs: object{}}
	if w.Substituted {
		w.defs["substituted"] = object{"type": "string", "pattern": `^([^$]|\$[^{])*\$\{`, "description": "A string with ${VAR} or ${file:PATH}."}
	}
	s := w.structure(source.Root)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = source.Title
	s["patternProperties"] = object{"^x-": true}
	s["$defs"] = w.defs
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		panic(err) // it is made of strings, numbers and bools
	}
	return b.String()
}

type object = map[string]any

type schemaWriter struct {
	SchemaSource
	defs object
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// comment returns what a type, or a field of it, says of itself.
func (w *schemaWriter) comment(t reflect.Type, field string) string {
	return oneLine(w.Comments[t.String()+field])
}

func (w *schemaWriter) structure(t reflect.Type) object {
	properties, required := object{}, []string{}
	for _, f := range fields(t) {
		field := t.Field(f.index)
		p := w.of(field.Type, f)
		if w.Amend != nil && field.Type.Kind() == reflect.Slice {
			w.Amend(t, field.Name, p)
		}
		p["description"] = w.comment(t, "."+field.Name)
		properties[f.key] = p
		if f.required || f.needed {
			required = append(required, f.key)
		}
	}
	s := object{
		"type": "object", "description": w.comment(t, ""),
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
	if w.Amend != nil {
		w.Amend(t, "", s)
	}
	return s
}

// reference returns a reference to the definition of a struct, which has the name
// of its package before it if that is another than the root's.
func (w *schemaWriter) reference(t reflect.Type) object {
	name := t.String()
	if t.PkgPath() == w.Root.PkgPath() {
		name = t.Name()
	}
	if w.defs[name] == nil {
		w.defs[name] = object{}
		w.defs[name] = w.structure(t)
	}
	return object{"$ref": "#/$defs/" + name}
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
	case reflect.TypeFor[Share]():
		add(object{"type": "number", "minimum": 0, "maximum": 1})
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
	if w.Substituted {
		add(object{"$ref": "#/$defs/substituted"})
	}
	return object{"anyOf": choices}
}

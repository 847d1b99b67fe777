// Package schematest is for tests of the schemas that package config makes: it
// reads what types say of themselves, and judges files as an editor does.
package schematest

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Comments returns the comments of the types, and of the fields of structs, in
// source files: by "package.Type" and "package.Type.Field".
func Comments(tb testing.TB, files ...string) map[string]string {
	tb.Helper()
	comments := map[string]string{}
	for _, path := range files {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			tb.Fatal(err)
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				t := s.(*ast.TypeSpec)
				name := f.Name.Name + "." + t.Name.Name
				comments[name] = g.Doc.Text()
				if st, ok := t.Type.(*ast.StructType); ok {
					for _, field := range st.Fields.List {
						comments[name+"."+field.Names[0].Name] = field.Doc.Text()
					}
				}
			}
		}
	}
	return comments
}

// Compile returns a schema that can judge.
func Compile(tb testing.TB, schema string) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		tb.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// AsJSON reads YAML as an editor does that knows nothing but the schema.
func AsJSON(tb testing.TB, text string) any {
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

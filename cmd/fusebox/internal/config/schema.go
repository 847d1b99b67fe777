package config

import _ "embed" // the schema

//go:generate go test -run TestSchemaIsThatOfTheTypes -update

//go:embed schema.json
var schema string

// Schema returns the JSON Schema (draft 2020-12) of the file, for editors. What
// it refuses, the program refuses too. It does not know of what is repeated, of
// names that must exist, of numbers that contradict one another, and of what
// ${VAR} stands for.
func Schema() string { return schema }

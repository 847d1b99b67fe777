package scenario

import _ "embed" // the schema and the example

//go:generate go test -run TestSchemaIsThatOfTheTypes -update

//go:embed schema.json
var schema string

//go:embed example.yaml
var example string

// Schema returns the JSON Schema (draft 2020-12) of the file, for editors. What
// it refuses, [Parse] refuses too. It does not know of names that must exist, of
// times that contradict one another, and of what is beyond the end.
func Schema() string { return schema }

// Example returns a scenario that has every key, with a comment for each.
func Example() string { return example }

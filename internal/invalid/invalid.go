// Package invalid has the error that policies return for a field of their Config.
// It is to them what fusebox.ConfigError is to a breaker: they do not import the
// package that has that one.
package invalid

import "fmt"

// field is the error. Its method Invalid is documented where Validate is.
type field struct {
	of, name string
	value    any
	rule     string
}

// Field returns the error of a field: of is package and type, "retry: Config", and
// rule says what the value must be, "must be …".
func Field(of, name string, value any, rule string) error { return &field{of, name, value, rule} }

// Error returns `fusebox/retry: Config.Field is Value, must be …`.
func (e *field) Error() string {
	return fmt.Sprintf("fusebox/%s.%s is %v, %s", e.of, e.name, e.value, e.rule)
}

// Invalid returns the name of the field, its value, and what it must be.
func (e *field) Invalid() (name string, value any, rule string) { return e.name, e.value, e.rule }

package config

import (
	"reflect"
	"strings"
)

// Document is a file of another kind that is read by the rules of this package:
// strictly, with a place for every error. It is for one goroutine.
type Document struct{ d *decoder }

// Decode reads a file into a pointer to a struct, whose fields have the tags that
// those of [File] have. name stands in errors; needs is what an empty file lacks.
// Defaults of the tags are filled in; then check, which may be nil, looks for
// what tags do not say. There is no environment: ${VAR} is an error. The error
// is [Errors], in the order of the file.
func Decode(name string, data []byte, needs string, into any, check func(*Document)) error {
	d := newDecoder(name, nil)
	d.needs = needs
	d.file(data, into)
	if !d.unread {
		d.defaults("", reflect.ValueOf(into).Elem())
		if check != nil {
			check(&Document{d})
		}
	}
	if len(d.errs) == 0 {
		return nil
	}
	d.errs.sort()
	return d.errs
}

// Fail adds an error about the value at a path, or the section around it if it
// has none. The path is that of a key: breakers[0].settings.open-for.
func (doc *Document) Fail(path, format string, args ...any) {
	doc.d.fail(doc.d.at(path), path, format, args...)
}

// Set reports whether the file has a value at a path.
func (doc *Document) Set(path string) bool {
	_, ok := doc.d.origins[path]
	return ok
}

// Failed reports whether there is an error about the value at a path already.
func (doc *Document) Failed(path string) bool { return doc.d.failed[path] }

// FailedIn reports whether there is an error about the value at a path, or about
// one in the section at it.
func (doc *Document) FailedIn(path string) bool {
	for failed := range doc.d.failed {
		if rest, ok := strings.CutPrefix(failed, path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// Validate adds what the Validate of a policy's Config found in a section of
// the file, in the words of the file. section is the struct that was read at
// path: a [Breaker], [Bulkhead] or [Retry].
func (doc *Document) Validate(path string, section any, err error) {
	doc.d.translate(path, section, err)
}

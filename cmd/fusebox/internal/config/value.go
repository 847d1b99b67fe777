package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// scalar reads one value.
func (d *decoder) scalar(path string, n ast.Node, v reflect.Value, f field) {
	at := d.position(n)
	d.origins[path] = at
	d.keep(path, "", v.Type())
	var kind int
	text := n.GetToken().Value
	switch n := n.(type) {
	case *ast.StringNode:
		kind, text = isString, n.Value
	case *ast.LiteralNode:
		kind, text = isString, n.Value.Value
	case *ast.IntegerNode:
		kind = isInteger
	case *ast.FloatNode:
		kind = isFloat
	case *ast.BoolNode:
		kind = isBool
	default:
		d.reject(at, path, "is %s, must be %s", describe(n), must(v.Type(), f))
		return
	}
	shown := fmt.Sprintf("%.80q", text)
	if kind != isString {
		shown = fmt.Sprintf("%.80s", text)
	}
	if kind == isString {
		out, changed, secret, err := d.expand(text)
		if err != nil {
			d.reject(at, path, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
			return
		}
		if secret {
			d.keep(path, text, v.Type())
		} else {
			shown = fmt.Sprintf("%.80q", out)
		}
		if changed {
			kind = scalars[v.Type()].kinds | isString
		}
		text = out
	}
	d.set(at, path, text, shown, kind, v, f)
}

// keep remembers that a value is a secret, if it is: one that came from files, as
// raw has it, or one of the type Secret. That shows raw if it names a file and
// nothing else.
func (d *decoder) keep(path, raw string, t reflect.Type) {
	switch {
	case t == reflect.TypeFor[Secret]() && !oneFile.MatchString(raw):
		d.secrets[path] = redacted
	case raw != "":
		d.secrets[path] = raw
	}
}

// shown returns how a value is shown in an error.
func (d *decoder) shown(path, value string) string {
	if raw := d.secrets[path]; raw != "" {
		value = raw
	}
	return fmt.Sprintf("%.80q", value)
}

// number is shown for what needs no quotes.
func (d *decoder) number(path string, value any) string {
	if d.secrets[path] != "" {
		return d.shown(path, "")
	}
	return fmt.Sprint(value)
}

// set parses text into v, and reports what is wrong with it.
func (d *decoder) set(at Origin, path, text, shown string, kind int, v reflect.Value, f field) {
	s := scalars[v.Type()]
	d.keep(path, d.secrets[path], v.Type())
	if d.secrets[path] == redacted {
		shown = redacted
	}
	if f.off && text == "off" && (kind&isString != 0 || at.Kind != FromFile) {
		if v.CanInt() {
			v.SetInt(-1)
		} else if v.CanFloat() {
			v.SetFloat(-1)
		}
		return
	}
	if f.zero && kind&isString != 0 && zeroText.MatchString(text) {
		v.SetInt(0)
		return
	}
	value, err := s.parse(text)
	if err != nil && !errors.Is(err, errRule) && d.secrets[path] == "" { // it would show the value
		d.reject(at, path, "is %s, %v", shown, err)
		return
	}
	if err != nil || kind&s.kinds == 0 || len(f.enum) > 0 && !slices.Contains(f.enum, text) || v.Kind() == reflect.String && text == "" && !f.empty || !utf8.ValidString(text) {
		rule := must(v.Type(), f)
		if v.Kind() == reflect.String && kind == isString && len(f.enum) == 0 && v.Type() == reflect.TypeFor[string]() {
			rule = "text that is not empty"
		}
		d.reject(at, path, "is %s, must be %s", shown, rule)
		return
	}
	v.Set(reflect.ValueOf(value))
	if !within(v, f) {
		d.reject(at, path, "is %s, must be %s", shown, must(v.Type(), f))
		v.SetZero()
	}
}

// reject is fail for a value. The line of a secret is not shown.
func (d *decoder) reject(at Origin, path, format string, args ...any) {
	d.fail(at, path, format, args...)
	if d.secrets[path] == redacted {
		d.errs[len(d.errs)-1].Source = ""
	}
}

// within reports whether a number keeps the bounds of its field.
func within(v reflect.Value, f field) bool {
	for _, bound := range []struct {
		text string
		sign int64
	}{{f.min, 1}, {f.max, -1}} {
		if bound.text == "" {
			continue
		}
		limit, err := scalars[v.Type()].parse(bound.text)
		if err != nil || (v.Int()-reflect.ValueOf(limit).Int())*bound.sign < 0 {
			return false
		}
	}
	return true
}

// must says what a field must be, after "must be".
func must(t reflect.Type, f field) string {
	rule := scalars[t].rule
	if len(f.enum) > 0 {
		rule = strings.Join(f.enum[:len(f.enum)-1], ", ") + " or " + f.enum[len(f.enum)-1]
	}
	if f.zero {
		rule = "0s, or " + rule
	}
	switch {
	case f.min != "" && f.max != "":
		rule += " from " + f.min + " to " + f.max
	case f.min != "":
		rule += " of at least " + f.min
	case f.max != "":
		rule += " of at most " + f.max
	}
	if f.off {
		rule += ", or off"
	}
	return rule
}

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// redacted stands in a listing for a secret.
const redacted = "(secret)"

// Entry is one effective value.
type Entry struct {
	Path   string // upstreams.payments.breaker.open-for
	Value  string // as a file would have it; of a secret what stands in the file, or "(secret)"
	Origin Origin
	Secret bool
}

// Effective returns every value in effect, in the order of the file's types,
// upstreams by name. Sections that are off are not in it. No secret is in it.
func (c *Config) Effective() []Entry {
	var all []Entry
	c.visit(func(path, text string, secret bool) {
		if shown := c.secrets[path]; secret && shown != "" {
			text = shown
		}
		all = append(all, Entry{Path: path, Value: text, Origin: c.origin(path), Secret: secret})
	})
	return all
}

// origin returns where a value comes from; that of an item of a list may be
// that of the list.
func (c *Config) origin(path string) Origin {
	if o, ok := c.origins[path]; ok {
		return o
	}
	if i := strings.LastIndexByte(path, '['); i > 0 && !strings.Contains(path[i:], ".") {
		return c.origins[path[:i]]
	}
	return Origin{}
}

// visit calls use for every value in effect.
func (c *Config) visit(use func(path, text string, secret bool)) {
	c.walk("", reflect.ValueOf(c.File), field{}, use)
}

func (c *Config) walk(path string, v reflect.Value, f field, use func(path, text string, secret bool)) {
	switch t := v.Type(); {
	case isScalar(t):
		if _, set := c.origins[path]; set || !v.IsZero() || f.off || f.def != "" {
			_, secret := c.secrets[path]
			use(path, text(v, f), secret)
		}
	case t.Kind() == reflect.Struct:
		for _, f := range fields(t) {
			c.walk(join(path, f.key), v.Field(f.index), f, use)
		}
	case t.Kind() == reflect.Pointer && !v.IsNil():
		c.walk(path, v.Elem(), field{}, use)
	case t.Kind() == reflect.Slice:
		for i := range v.Len() {
			c.walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i), field{}, use)
		}
	case t.Kind() == reflect.Map:
		for _, key := range keys(v) {
			c.walk(join(path, key), v.MapIndex(reflect.ValueOf(key)), field{empty: true}, use)
		}
	}
}

// Print writes the configuration in effect as a file, with the origin of each
// value behind it. Secrets that come from files stand as in the file; others
// are hidden, so that such a file has to be completed before it can be used.
func (c *Config) Print(w io.Writer) error { return c.print(w, true) }

func (c *Config) print(w io.Writer, redact bool) error {
	var b bytes.Buffer
	p := printer{c: c, b: &b, redact: redact}
	p.node("", reflect.ValueOf(c.File), field{}, 0)
	_, err := b.WriteTo(w)
	return err
}

type printer struct {
	c      *Config
	b      *bytes.Buffer
	redact bool
}

// node writes what stands behind a key: on the same line, or below it.
func (p *printer) node(path string, v reflect.Value, f field, indent int) {
	switch t := v.Type(); {
	case isScalar(t):
		fmt.Fprintf(p.b, " %s  # %v\n", p.scalar(path, v, f), p.c.origin(path))
	case t.Kind() == reflect.Pointer:
		p.node(path, v.Elem(), field{}, indent)
	case t.Kind() == reflect.Struct:
		keep := func(f field) bool { return p.keeps(join(path, f.key), v.Field(f.index), f) }
		all := slices.DeleteFunc(fields(t), func(f field) bool { return !keep(f) })
		p.open(len(all), "{}", indent)
		for _, f := range all {
			p.key(f.key, indent)
			p.node(join(path, f.key), v.Field(f.index), f, indent+1)
		}
	case t.Kind() == reflect.Map:
		p.open(v.Len(), "{}", indent)
		for _, key := range keys(v) {
			p.key(quote(key), indent) // it may look like a number, or have a colon
			p.node(join(path, key), v.MapIndex(reflect.ValueOf(key)), field{empty: true}, indent+1)
		}
	case t.Kind() == reflect.Slice:
		p.open(v.Len(), "[]", indent)
		for i := range v.Len() {
			fmt.Fprintf(p.b, "%s-", strings.Repeat("  ", indent))
			p.node(fmt.Sprintf("%s[%d]", path, i), v.Index(i), field{}, indent+1)
		}
	}
}

// open ends the line of a key: n entries follow below, or the empty value does.
func (p *printer) open(n int, empty string, indent int) {
	switch {
	case n == 0:
		fmt.Fprintf(p.b, " %s\n", empty)
	case indent > 0:
		p.b.WriteByte('\n')
	}
}

func (p *printer) key(key string, indent int) {
	fmt.Fprintf(p.b, "%s%s:", strings.Repeat("  ", indent), key)
}

// keeps reports whether a value is printed: not what was neither set nor has a default.
func (p *printer) keeps(path string, v reflect.Value, f field) bool {
	_, set := p.c.origins[path]
	switch {
	case isScalar(v.Type()):
		return set || !v.IsZero() || f.off || f.def != ""
	case v.Kind() == reflect.Struct:
		used := false
		p.c.walk(path, v, f, func(string, string, bool) { used = true })
		return used
	case v.Kind() == reflect.Slice:
		return v.Len() > 0 || set || f.def != ""
	default:
		return !v.IsNil()
	}
}

func (p *printer) scalar(path string, v reflect.Value, f field) string {
	s := text(v, f)
	if shown, secret := p.c.secrets[path]; secret && p.redact {
		return quote(shown)
	}
	if scalars[v.Type()].kinds&isString == 0 || s == "off" && f.off || v.Type() != reflect.TypeFor[string]() && v.Type() != reflect.TypeFor[Secret]() && plain(s) {
		return s
	}
	return quote(strings.ReplaceAll(s, "${", "$${"))
}

// plain reports whether s needs no quotes in YAML.
func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '/'
	})
}

// quote returns a string in double quotes, as JSON and YAML read it.
func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string in memory
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}

// Changes is what differs between two configurations.
type Changes struct {
	Added, Removed []string // upstreams, by name

	// Changed are the paths that differ below each upstream that is in both,
	// without its name: breaker.open-for, endpoints[1].
	Changed map[string][]string

	// Other are the paths that differ elsewhere: listen, routes[0].prefix.
	Other []string
}

// Empty reports whether nothing differs.
func (c Changes) Empty() bool {
	return len(c.Added)+len(c.Removed)+len(c.Changed)+len(c.Other) == 0
}

// Section reports whether something differs in a section of an upstream, such as
// "breaker", or the whole upstream was added or removed.
func (c Changes) Section(upstream, section string) bool {
	if slices.Contains(c.Added, upstream) || slices.Contains(c.Removed, upstream) {
		return true
	}
	return slices.ContainsFunc(c.Changed[upstream], func(path string) bool {
		rest, ok := strings.CutPrefix(path, section)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// Diff compares what is in effect, wherever it comes from. A secret that differs
// is a change, and so is a value set to its default where others follow from it.
func Diff(before, after *Config) Changes {
	values := func(c *Config) map[string]string {
		m := map[string]string{}
		c.visit(func(path, text string, _ bool) { m[path] = text })
		return m
	}
	old, now := values(before), values(after)
	changes := Changes{Changed: map[string][]string{}}
	for name := range after.Upstreams {
		if before.Upstreams[name] == nil {
			changes.Added = append(changes.Added, name)
		}
	}
	for name := range before.Upstreams {
		if after.Upstreams[name] == nil {
			changes.Removed = append(changes.Removed, name)
		}
	}
	all := maps.Clone(old)
	maps.Copy(all, now)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		a, had := old[path]
		b, has := now[path]
		if had == has && a == b {
			continue
		}
		rest, ok := strings.CutPrefix(path, "upstreams.")
		if !ok {
			changes.Other = append(changes.Other, path)
			continue
		}
		name, below, _ := strings.Cut(rest, ".")
		if before.Upstreams[name] != nil && after.Upstreams[name] != nil {
			changes.Changed[name] = append(changes.Changed[name], below)
		}
	}
	slices.Sort(changes.Added)
	slices.Sort(changes.Removed)
	return changes
}

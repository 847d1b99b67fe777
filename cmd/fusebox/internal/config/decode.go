package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

const (
	maxFile   = 1 << 20
	maxKeys   = 10_000 // the time of the YAML parser grows with their square
	maxDepth  = 64     // it recurses
	maxValues = 20_000 // with aliases expanded
	maxErrors = 1000   // then reading ends
)

// field is what the tags of a field say.
type field struct {
	index    int
	key      string
	def      string // default, as text; "" if there is none, or it depends on others
	min, max string
	enum     []string
	off      bool // may be "off"
	required bool
	needed   bool // required, but not of a file: a flag may give it
	empty    bool // may be the empty string
	zero     bool // of a duration: may be 0s
}

// fields returns those of a struct of the file.
func fields(t reflect.Type) []field {
	all := make([]field, t.NumField())
	for i := range all {
		tag := t.Field(i).Tag
		f := field{index: i, key: tag.Get("yaml"), def: tag.Get("default"), min: tag.Get("min"), max: tag.Get("max")}
		if enum := tag.Get("enum"); enum != "" {
			f.enum = strings.Split(enum, ",")
		}
		rule := strings.Split(tag.Get("rule"), ",")
		f.off = slices.Contains(rule, "off")
		f.required = slices.Contains(rule, "required")
		f.needed = slices.Contains(rule, "needed")
		f.empty = slices.Contains(rule, "empty")
		f.zero = slices.Contains(rule, "zero")
		all[i] = f
	}
	return all
}

// decoder reads one configuration.
type decoder struct {
	name    string   // of the file
	lines   []string // of the file
	env     map[string]string
	anchors map[string]*ast.AnchorNode
	active  map[string]bool // aliases being expanded
	values  int
	spent   bool // maxValues or maxErrors were reached
	unread  bool // the file is not one: there is nothing to check
	errs    Errors
	needs   string            // what a file must have
	origins map[string]Origin // by path; of sections that of their key
	failed  map[string]bool   // paths whose value is in error
	secrets map[string]string // by path: what to show instead
	shownAs map[int]string    // lines, by number; see visible
}

func newDecoder(name string, env map[string]string) *decoder {
	return &decoder{
		name: name, env: env, needs: "upstreams",
		anchors: map[string]*ast.AnchorNode{}, active: map[string]bool{},
		origins: map[string]Origin{}, failed: map[string]bool{}, secrets: map[string]string{}, shownAs: map[int]string{},
	}
}

// fail adds an error.
func (d *decoder) fail(at Origin, path, format string, args ...any) {
	e := &Error{Origin: at, Path: path, Message: hide(fmt.Sprintf(format, args...))}
	if at.Kind == FromFile && at.Line <= len(d.lines) {
		e.Source = d.visible(at.Line)
	}
	d.failed[path] = true
	d.errs = append(d.errs, e)
	d.spent = d.spent || len(d.errs) >= maxErrors
}

var (
	// tokenLine is a line with a token, also where the file is too broken for it
	// to be known as one, or its key is not the right one.
	tokenLine = regexp.MustCompile(`(?i)(tok|secret|passw)[\w-]*["']?\s*:\s*["']?[^\s"'$]`)
	userInURL = regexp.MustCompile(`://[^/\s"']*@`)
)

// visible returns a line as it may be shown; empty: it may not. It looks at each
// once: a line may be long, and have many errors.
func (d *decoder) visible(number int) string {
	line, known := d.shownAs[number]
	if !known {
		if line = d.lines[number-1]; tokenLine.MatchString(line) {
			line = ""
		}
		line = hide(line)
		d.shownAs[number] = line
	}
	return line
}

// hide takes users and passwords out of URLs: errors are logged.
func hide(text string) string { return userInURL.ReplaceAllString(text, "://…@") }

// notText returns the place of the first byte that no text has, or -1.
func notText(line string) int {
	for i, r := range line {
		invalid := r == utf8.RuneError && !strings.HasPrefix(line[i:], string(utf8.RuneError))
		if invalid || r < ' ' && r != '\t' || r == 0x7f {
			return i
		}
	}
	return -1
}

// at returns where a path, or the nearest section around it, stands.
func (d *decoder) at(path string) Origin {
	for path != "" {
		if o, ok := d.origins[path]; ok {
			return o
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return d.origins[""]
}

func (d *decoder) position(n ast.Node) Origin { return d.tokenPosition(n.GetToken()) }

func (d *decoder) tokenPosition(tk *token.Token) Origin {
	o := Origin{Kind: FromFile, Name: d.name, Line: 1, Column: 1}
	if tk != nil && tk.Position != nil {
		o.Line, o.Column = max(tk.Position.Line, 1), max(tk.Position.Column, 1)
	}
	if last := max(len(d.lines), 1); o.Line > last {
		o.Line, o.Column = last, 1
	}
	if len(d.lines) > 0 {
		o.Column = min(o.Column, utf8.RuneCountInString(d.lines[o.Line-1])+1)
	}
	return o
}

// file reads the file into f, a pointer to a struct.
func (d *decoder) file(data []byte, f any) {
	start := Origin{Kind: FromFile, Name: d.name, Line: 1, Column: 1}
	d.origins[""] = start
	d.unread = true
	if len(data) > maxFile {
		d.fail(start, "", "the file is larger than %v", Size(maxFile))
		return
	}
	body := strings.TrimPrefix(string(data), "\ufeff")
	d.lines = strings.Split(body, "\n")
	for i, line := range d.lines {
		d.lines[i] = strings.TrimSuffix(line, "\r")
		if bad := notText(d.lines[i]); bad >= 0 {
			at := Origin{Kind: FromFile, Name: d.name, Line: i + 1, Column: utf8.RuneCountInString(d.lines[i][:bad]) + 1}
			d.fail(at, "", "the file is not text: there is a byte 0x%02x", d.lines[i][bad])
			return
		}
	}
	if root := d.parse(body); root != nil {
		d.unread = false
		d.value("", root, reflect.ValueOf(f).Elem(), field{})
		d.unread = d.unread || d.spent
	}
}

// resolve calls use with the node that n stands for: without anchor, the target
// of an alias.
func (d *decoder) resolve(path string, n ast.Node, use func(ast.Node)) {
	if !d.spend(path, n) {
		return
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		d.expanding(n, func() { d.resolve(path, n.Value, use) })
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		target := d.anchors[name]
		switch {
		case target == nil || after(target, n):
			d.fail(d.position(n), path, "is *%s, but there is no anchor &%s before it", name, name)
		case d.active[name]:
			d.fail(d.position(n), path, "is *%s, which stands within &%s", name, name)
		default:
			d.resolve(path, target, use)
		}
	default:
		use(n)
	}
}

// expanding calls do while what stands under the anchor is being read.
func (d *decoder) expanding(a *ast.AnchorNode, do func()) {
	name := a.Name.GetToken().Value
	d.active[name] = true
	do()
	delete(d.active, name)
}

// after reports whether a stands after b in the file.
func after(a, b ast.Node) bool {
	p, q := a.GetToken().Position, b.GetToken().Position
	return p.Line > q.Line || p.Line == q.Line && p.Column > q.Column
}

// spend counts a value, and reports whether there may be more.
func (d *decoder) spend(path string, n ast.Node) bool {
	d.values++
	if d.values > maxValues && !d.spent {
		d.spent = true
		d.fail(d.position(n), path, "is too much: the file expands to more than %d values", maxValues)
	}
	return !d.spent
}

// value reads a node into v. A node that cannot be read leaves v zero and an error.
func (d *decoder) value(path string, n ast.Node, v reflect.Value, f field) {
	d.resolve(path, n, func(n ast.Node) {
		switch {
		case v.Kind() == reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			d.value(path, n, v.Elem(), f)
		case isScalar(v.Type()):
			d.scalar(path, n, v, f)
		case v.Kind() == reflect.Slice:
			d.list(path, n, v)
		default:
			d.mapping(path, n, v)
		}
	})
}

func isScalar(t reflect.Type) bool {
	_, ok := scalars[t]
	return ok
}

// list reads a sequence.
func (d *decoder) list(path string, n ast.Node, v reflect.Value) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(d.position(n), path, "is %s, must be a list", describe(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values)))
	for i, item := range s.Values {
		if d.spent {
			return
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		d.origins[at] = d.position(item)
		if m, ok := item.(*ast.MappingNode); ok && len(m.Values) > 0 {
			d.origins[at] = d.position(m.Values[0].Key)
		}
		d.value(at, item, v.Index(i), field{})
	}
}

// mapping reads a mapping into a struct or a map.
func (d *decoder) mapping(path string, n ast.Node, v reflect.Value) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		if _, null := n.(*ast.NullNode); null && path != "" {
			d.fail(d.at(path), path, "is empty: remove the key, or write {} for the defaults")
		} else {
			d.unread = d.unread || path == ""
			d.fail(d.position(n), path, "is %s, must be a mapping of keys to values", describe(n))
		}
		return
	}
	seen := map[string]Origin{}
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
		d.entries(path, m, seen, func(key string, at Origin, value ast.Node) { d.entry(path, key, at, value, v) })
		return
	}
	known := fields(v.Type())
	d.entries(path, m, seen, func(key string, at Origin, value ast.Node) {
		i := slices.IndexFunc(known, func(f field) bool { return f.key == key })
		switch {
		case i >= 0:
			child := join(path, key)
			d.origins[child] = at
			d.value(child, value, v.Field(i), known[i])
		case path == "" && strings.HasPrefix(key, "x-"):
		default:
			d.fail(at, join(path, clean(key)), "is not a key here%s", suggest(key, known))
		}
	})
	for _, f := range known {
		if _, ok := seen[f.key]; !ok && f.required {
			d.fail(d.at(path), join(path, f.key), "is missing")
		}
	}
}

// entry reads an entry of a map: of upstreams, or of headers.
func (d *decoder) entry(path, key string, at Origin, value ast.Node, v reflect.Value) {
	child := join(path, key)
	element := reflect.New(v.Type().Elem()).Elem()
	d.origins[child] = at
	switch upstream := element.Kind() == reflect.Pointer; {
	case upstream && !nameText.MatchString(key):
		d.fail(at, join(path, clean(key)), "is no name for an upstream, must be small letters, digits and hyphens between them, at most 63")
		return
	case !upstream && !headerText.MatchString(key):
		d.fail(at, join(path, clean(key)), "is no name for a header, must be letters, digits and hyphens")
		return
	}
	d.value(child, value, element, field{empty: true})
	if element.Kind() != reflect.Pointer || !element.IsNil() { // nil: an alias of nothing
		v.SetMapIndex(reflect.ValueOf(key), element)
	}
}

// entries calls use for each key of a mapping, then for those that merge keys
// bring and it has not.
func (d *decoder) entries(path string, m *ast.MappingNode, seen map[string]Origin, use func(string, Origin, ast.Node)) {
	var merged []ast.Node
	for _, kv := range m.Values {
		if !d.spend(path, kv) {
			return
		}
		node := ast.Node(kv.Key)
		if explicit, ok := node.(*ast.MappingKeyNode); ok { // "? key"
			node = explicit.Value
		}
		at := d.position(node)
		if kv.Key.Type() == ast.MergeKeyType {
			merged = append(merged, kv.Value)
			continue
		}
		var key string
		switch k := node.(type) {
		case *ast.StringNode:
			key = k.Value
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
			key = k.GetToken().Value // a name may look like a number
		default:
			d.fail(at, path, "has %s for a key, must be a string", describe(node))
			continue
		}
		if first, again := seen[key]; again {
			d.fail(at, join(path, clean(key)), "is given twice, first in line %d", first.Line)
			continue
		}
		seen[key] = at
		use(key, at, kv.Value)
	}
	for _, n := range merged {
		d.merge(path, n, seen, use)
	}
}

// clean makes a key fit to be shown and to be part of a path.
func clean(key string) string {
	if len(key) > 80 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Sprintf("%.80q", key)
	}
	return key
}

// merge reads what a merge key brings: a mapping or a list of them.
func (d *decoder) merge(path string, n ast.Node, seen map[string]Origin, use func(string, Origin, ast.Node)) {
	d.resolve(path, n, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.MappingNode:
			own := map[string]Origin{}
			d.entries(path, n, own, func(key string, at Origin, value ast.Node) {
				if _, ok := seen[key]; !ok {
					seen[key] = at
					use(key, at, value)
				}
			})
		case *ast.SequenceNode:
			for _, item := range n.Values {
				d.merge(path, item, seen, use)
			}
		default:
			d.fail(d.position(n), path, "merges %s, must be a mapping or a list of them", describe(n))
		}
	})
}

// describe says what a node is.
func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.NullNode:
		return "empty"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%.80q", n.GetToken().Value)
}

// suggest returns the known key that is spelt most alike.
func suggest(key string, known []field) string {
	plain := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = f.key
		if strings.ReplaceAll(f.key, "-", "") == plain {
			return "; it is spelt " + f.key
		}
	}
	return "; known are " + strings.Join(names, ", ")
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Config is a configuration in effect: a complete [File], and where each value
// comes from. It does not change, and is safe for concurrent use.
type Config struct {
	File

	// Warnings are what looks like a mistake and is none for certain: variables
	// of the environment that begin like settings and are not.
	Warnings []string

	origins map[string]Origin
	secrets map[string]string
}

// Flag is a setting given on the command line.
type Flag struct {
	Name  string // as the user wrote it: --listen
	Path  string // of the setting: listen, upstreams.default.endpoints
	Value string // as a file would have it; a list with commas
}

// Load reads the file at path, if that is not empty, then the environment, as
// os.Environ returns it, then flags; each beats the one before. A flag may set
// what is below an upstream that the file does not have. The error is [Errors],
// or says why the file could not be read.
func Load(path string, env []string, flags []Flag) (*Config, error) {
	var data []byte
	if path != "" {
		var err error
		if data, err = readFile(path, maxFile, false); err != nil {
			return nil, fmt.Errorf("configuration file: %w", err)
		}
	}
	return build(path, data, environment(env), true, flags)
}

// Parse reads a file that has been read already; name stands in errors, and its
// folder is where relative paths begin. The environment, as os.Environ returns
// it, is for ${VAR} only. The error is [Errors], and each has a line.
func Parse(name string, data []byte, env []string) (*File, error) {
	c, err := build(name, data, environment(env), false, nil)
	if err != nil {
		return nil, err
	}
	return &c.File, nil
}

func environment(env []string) map[string]string {
	m := make(map[string]string, len(env))
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			m[name] = value
		}
	}
	return m
}

// build is the whole way from text to a configuration. name is empty without a file.
func build(name string, data []byte, env map[string]string, override bool, flags []Flag) (*Config, error) {
	d := newDecoder(name, env)
	c := &Config{origins: d.origins, secrets: d.secrets}
	if name != "" || !override {
		d.file(data, &c.File)
	}
	if !d.unread {
		o := overrides{decoder: d, vars: map[string]bool{}, flags: map[string]Flag{}}
		if override {
			o.apply(&c.File, flags)
			c.Warnings = o.unknown()
		}
		for _, u := range c.Upstreams {
			if u.Breaker.Scope == ScopeEndpoint && u.Ejection == nil {
				u.Ejection = new(Ejection)
			}
		}
		d.defaults("", reflect.ValueOf(&c.File).Elem())
		d.complete(&c.File)
		d.check(&c.File)
	}
	if len(d.errs) > 0 {
		d.errs.sort()
		return nil, d.errs
	}
	return c, nil
}

// overrides sets what the environment and flags say.
type overrides struct {
	*decoder
	vars  map[string]bool // names that variables of settings have
	flags map[string]Flag // not used yet, by path
}

const envPrefix = "FUSEBOX_"

// variableOf returns the name of the variable that sets a path.
func variableOf(path string) string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}

func (o *overrides) apply(f *File, flags []Flag) {
	for _, flag := range flags {
		o.flags[flag.Path] = flag
		name, below, _ := strings.Cut(strings.TrimPrefix(flag.Path, "upstreams."), ".")
		if !strings.HasPrefix(flag.Path, "upstreams.") || below == "" || f.Upstreams[name] != nil {
			continue
		}
		at := Origin{Kind: FromFlag, Name: flag.Name}
		if !nameText.MatchString(name) {
			o.fail(at, join("upstreams", clean(name)), "is no name for an upstream, must be small letters, digits and hyphens between them, at most 63")
			delete(o.flags, flag.Path)
			continue
		}
		if f.Upstreams == nil {
			f.Upstreams = map[string]*Upstream{}
		}
		f.Upstreams[name] = new(Upstream)
		o.origins["upstreams."+name] = at
	}
	o.walk("", reflect.ValueOf(f).Elem(), field{})
	for _, flag := range o.flags {
		o.fail(Origin{Kind: FromFlag, Name: flag.Name}, flag.Path, "is not a setting")
	}
}

// walk visits every setting below path, and reports whether one was set.
func (o *overrides) walk(path string, v reflect.Value, f field) (set bool) {
	switch t := v.Type(); {
	case isScalar(t), t.Kind() == reflect.Slice && isScalar(t.Elem()):
		return o.setting(path, v, f)
	case t.Kind() == reflect.Struct:
		for _, f := range fields(t) {
			set = o.walk(join(path, f.key), v.Field(f.index), f) || set
		}
	case t.Kind() == reflect.Pointer && v.IsNil():
		// A section that is off: it is on if something in it is set.
		if section := reflect.New(t.Elem()); o.walk(path, section.Elem(), f) {
			v.Set(section)
			return true
		}
	case t.Kind() == reflect.Pointer:
		return o.walk(path, v.Elem(), f)
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Pointer:
		for _, key := range keys(v) {
			set = o.walk(join(path, key), v.MapIndex(reflect.ValueOf(key)), f) || set
		}
	}
	return set
}

// setting sets one value, by a flag or else by a variable, and reports whether
// there was one.
func (o *overrides) setting(path string, v reflect.Value, f field) bool {
	name := variableOf(path)
	text, isEnv := o.env[name]
	o.vars[name] = true
	at := Origin{Kind: FromEnv, Name: name}
	flag, isFlag := o.flags[path]
	if isFlag {
		delete(o.flags, path)
		at, text = Origin{Kind: FromFlag, Name: flag.Name}, flag.Value
	} else if !isEnv {
		return false
	}
	if isFlag && v.Type() == reflect.TypeFor[Secret]() {
		o.fail(at, path, "is a secret, and must not stand on the command line, which others can read: put it into a file, or into %s", name)
		return true
	}
	maps.DeleteFunc(o.secrets, func(old, _ string) bool { return old == path || strings.HasPrefix(old, path+"[") })
	o.put(at, path, text, v, f)
	return true
}

// put sets a value, or a list, from text.
func (d *decoder) put(at Origin, path, text string, v reflect.Value, f field) {
	if at.Kind != FromDefault {
		d.origins[path] = at
	}
	if isScalar(v.Type()) {
		v.SetZero()
		d.set(at, path, text, fmt.Sprintf("%.80q", text), scalars[v.Type()].kinds, v, f)
		return
	}
	items := strings.Split(text, ",")
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		d.put(at, fmt.Sprintf("%s[%d]", path, i), strings.TrimSpace(item), v.Index(i), field{})
	}
}

// unknown returns a warning for each variable that looks like a setting and is
// none. Those that Kubernetes sets for a service called fusebox, and those of
// the command itself, do not.
func (o *overrides) unknown() (warnings []string) {
	for name := range o.env {
		rest, ours := strings.CutPrefix(name, envPrefix)
		kubernetes := strings.HasPrefix(rest, "SERVICE_") || strings.HasPrefix(rest, "PORT")
		if ours && !kubernetes && rest != "CONFIG" && !o.vars[name] {
			warnings = append(warnings, "the environment has "+name+", which is not a setting")
		}
	}
	slices.Sort(warnings)
	return warnings
}

// defaults fills in those of the tags.
func (d *decoder) defaults(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if isScalar(v.Type()) {
			return
		}
		for _, f := range fields(v.Type()) {
			child := join(path, f.key)
			if _, set := d.origins[child]; !set && f.def != "" {
				d.put(Origin{}, child, f.def, v.Field(f.index), f)
			} else {
				d.defaults(child, v.Field(f.index))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			d.defaults(path, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			d.defaults(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		for _, key := range keys(v) {
			d.defaults(join(path, key), v.MapIndex(reflect.ValueOf(key)))
		}
	default:
	}
}

// keys returns the keys of a map, sorted.
func keys(v reflect.Value) []string {
	all := make([]string, 0, v.Len())
	for _, k := range v.MapKeys() {
		all = append(all, k.String())
	}
	slices.Sort(all)
	return all
}

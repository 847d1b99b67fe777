package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/retry"
)

// Config returns the breaker's settings for [fusebox.New].
func (b Breaker) Config() fusebox.Config {
	var c fusebox.Config
	copySame(&c, b)
	c.WindowCalls = max(c.WindowCalls, 0)
	return c
}

// Config returns the bulkhead's settings for [bulkhead.New]. The name stands in
// its errors.
func (b Bulkhead) Config(name string) bulkhead.Config {
	c := bulkhead.Config{Name: name}
	copySame(&c, b)
	c.MaxWait = max(c.MaxWait, 0)
	return c
}

// Config returns the settings for [retry.New], but for the budget: give it one of
// [Retry.Budget].
func (r Retry) Config() retry.Config {
	var c retry.Config
	copySame(&c, r)
	return c
}

// Budget returns the settings for [retry.NewBudget].
func (r Retry) Budget() retry.BudgetConfig {
	return retry.BudgetConfig{Share: float64(r.BudgetShare), MinPerSecond: float64(r.BudgetPerSecond), Window: r.BudgetWindow}
}

// Outcome judges the status of an answer.
func (f Failure) Outcome(status int) fusebox.Outcome {
	has := func(s Statuses) bool { return s.Has(status) }
	if slices.ContainsFunc(f.Statuses, has) && !slices.ContainsFunc(f.Except, has) {
		return fusebox.Failure
	}
	return fusebox.Success
}

// Most returns how many of n endpoints may be left out at a time.
func (e Ejection) Most(n int) int { return maxEjected(n, float64(e.MaxShare), e.AlwaysOne) }

// maxEjected returns the largest number that is at most the share of n. With
// alwaysOne it is at least one, but never the only one.
func maxEjected(n int, share float64, alwaysOne bool) int {
	// A share that was meant to be exact, such as 29 % of 100, must not lose one
	// to the last bit of a product.
	most := min(int(math.Floor(float64(n)*share+1e-9)), n)
	if alwaysOne && most == 0 && n > 1 {
		most = 1
	}
	return max(most, 0)
}

// copySame copies the fields of src, a struct, that dst, a pointer to one, has
// under the same name and with the same kind of value.
func copySame(dst, src any) {
	to, from := reflect.ValueOf(dst).Elem(), reflect.ValueOf(src)
	for i := range from.NumField() {
		target := to.FieldByName(from.Type().Field(i).Name)
		if value := from.Field(i); target.IsValid() && target.Kind() == value.Kind() {
			target.Set(value.Convert(target.Type()))
		}
	}
}

// complete fills in the defaults that depend on other values. Those of a policy
// are what the policy says.
func (d *decoder) complete(f *File) {
	if _, set := d.origins["routes"]; !set && len(f.Upstreams) == 1 {
		for name := range f.Upstreams {
			f.Routes = []Route{{Prefix: "/", Upstream: name}}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Upstreams)) {
		u := f.Upstreams[name]
		path := "upstreams." + name
		if t := &u.Timeouts; t.PerTry == 0 {
			t.PerTry = 10 * time.Second
			if t.Total > 0 {
				t.PerTry = min(t.PerTry, t.Total)
			}
		}
		if _, set := d.origins[path+".breaker.slow-rate"]; set && u.Breaker.SlowAfter == 0 && !d.failed[path+".breaker.slow-after"] {
			d.fail(d.at(path+".breaker.slow-rate"), path+".breaker.slow-rate", "is set, but no answer is slow without slow-after")
		}
		c := u.Breaker.Config()
		if d.translate(path+".breaker", u.Breaker, c.Validate()) {
			copySame(&u.Breaker, fusebox.New(name, c).Config())
			u.Breaker.WindowCalls = orOff(u.Breaker.WindowCalls)
		}
		if u.Bulkhead != nil {
			c := u.Bulkhead.Config(name)
			if d.translate(path+".bulkhead", *u.Bulkhead, c.Validate()) {
				copySame(u.Bulkhead, bulkhead.New(c).Config())
				u.Bulkhead.MaxWait = orOff(u.Bulkhead.MaxWait)
			}
		}
		if r := u.Retry; r != nil {
			c := r.Config()
			if d.translate(path+".retry", *r, errors.Join(c.Validate(), r.Budget().Validate())) {
				copySame(r, retry.New(c).Config())
			}
		}
		if b := u.Fallback; b != nil {
			d.completeFallback(path+".fallback", b)
		}
	}
}

func (d *decoder) completeFallback(path string, b *Fallback) {
	if b.Status == 0 && b.fixed() {
		b.Status = 503
	}
	if b.File == "" {
		return
	}
	path += ".file"
	if !filepath.IsAbs(b.File) {
		b.File = filepath.Join(filepath.Dir(d.name), b.File)
	}
	file, err := filepath.Abs(b.File)
	if err != nil {
		d.fail(d.at(path), path, "is %s: %v", d.shown(path, b.File), err)
		return
	}
	b.File = file
	switch info, err := os.Stat(file); {
	case err != nil:
		d.fail(d.at(path), path, "is %s, must be a file that exists", d.shown(path, file))
	case !info.Mode().IsRegular() || info.Size() > maxFallbackFile:
		d.fail(d.at(path), path, "is %s, must be a regular file of at most %v", d.shown(path, file), Size(maxFallbackFile))
	}
}

const maxFallbackFile = 16 << 20

// fixed reports whether the fallback is an answer from the configuration, alone
// or after the last good one.
func (f *Fallback) fixed() bool {
	return f.Upstream == "" && (f.LastGood == nil || f.Body != "" || f.File != "" || len(f.Headers) > 0)
}

// orOff returns v, or what stands for off if it is 0.
func orOff[T int | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

var (
	parenthesis = regexp.MustCompile(` \([^)]*\)`)
	fieldName   = regexp.MustCompile(`\b[A-Z]\w+\b`)
)

// translate reports what a policy's Validate found, in the words of the file, and
// whether it found nothing. section is the struct of the file.
func (d *decoder) translate(path string, section any, err error) bool {
	if err == nil {
		return true
	}
	keyOf := map[string]string{}
	t := reflect.TypeOf(section)
	for _, f := range fields(t) {
		keyOf[t.Field(f.index).Name] = f.key
	}
	if _, ok := section.(Retry); ok {
		keyOf["Share"], keyOf["MinPerSecond"], keyOf["Window"] = "budget-share", "budget-per-second", "budget-window"
	}
	for _, err := range flatten(err) {
		var name, rule string
		var value any
		var ofBreaker *fusebox.ConfigError
		var ofPolicy interface{ Invalid() (string, any, string) }
		switch {
		case errors.As(err, &ofBreaker):
			name, value, rule = ofBreaker.Field, ofBreaker.Value, ofBreaker.Rule
		case errors.As(err, &ofPolicy):
			name, value, rule = ofPolicy.Invalid()
		}
		key := join(path, keyOf[name])
		if keyOf[name] == "" {
			d.fail(d.at(path), path, "is invalid: %v", err)
			continue
		}
		hidden := false          // the rule would show a secret
		follows := d.failed[key] // from a value that has been reported, and is at its default here
		rule = fieldName.ReplaceAllStringFunc(rule, func(name string) string {
			if keyOf[name] == "" {
				return name
			}
			follows = follows || d.failed[join(path, keyOf[name])]
			hidden = hidden || d.secrets[join(path, keyOf[name])] != ""
			return keyOf[name]
		})
		rule, _, _ = strings.Cut(rule, "; ") // what zero and negative values mean to the policy
		if hidden {
			rule = parenthesis.ReplaceAllString(rule, "")
		}
		if !follows {
			d.fail(d.at(key), key, "is %s, %s", d.number(key, value), rule)
		}
	}
	return false
}

// flatten returns the errors that errors.Join has joined.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, err := range joined.Unwrap() {
		all = append(all, flatten(err)...)
	}
	return all
}

// check reports contradictions.
func (d *decoder) check(f *File) {
	if len(f.Upstreams) == 0 && !d.failed["upstreams"] {
		rule := "has none, must have at least one"
		if d.name == "" {
			rule += ": name it in a file, or with --upstream"
		}
		d.fail(d.at("upstreams"), "upstreams", "%s", rule)
	}
	if f.Listen != "" && f.Listen == f.Admin.Listen && !strings.HasSuffix(string(f.Listen), ":0") {
		at := d.at("admin.listen")
		if _, set := d.origins["admin.listen"]; !set {
			at = d.at("listen")
		}
		d.fail(at, "admin.listen", "is %s, must not be that of the proxy", d.shown("admin.listen", string(f.Admin.Listen)))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Upstreams)) {
		d.checkUpstream(f, "upstreams."+name, f.Upstreams[name])
	}
	d.checkCycles(f)
	d.checkRoutes(f)
}

func (d *decoder) checkUpstream(f *File, path string, u *Upstream) {
	if len(u.Endpoints) == 0 && !d.failed[path+".endpoints"] {
		rule := "is missing"
		if _, set := d.origins[path+".endpoints"]; set {
			rule = "has none, must have at least one"
		}
		d.fail(d.at(path+".endpoints"), path+".endpoints", "%s", rule)
	}
	seen := map[Endpoint]bool{}
	for i, e := range u.Endpoints {
		at := fmt.Sprintf("%s.endpoints[%d]", path, i)
		if seen[e] && e != "" {
			d.fail(d.at(at), at, "is %s, which is given twice", d.shown(at, string(e)))
		}
		seen[e] = true
	}
	if t := u.Timeouts; t.Total > 0 && t.PerTry > t.Total {
		d.fail(d.at(path+".timeouts.per-try"), path+".timeouts.per-try", "is %s, must be at most total (%s)",
			d.number(path+".timeouts.per-try", t.PerTry), d.number(path+".timeouts.total", t.Total))
	}
	if r := u.Retry; r != nil && r.BudgetShare < 0 && r.BudgetPerSecond < 0 && r.Attempts > 1 {
		d.fail(d.at(path+".retry.budget-share"), path+".retry.budget-share", "is off and budget-per-second too: there would be no retry")
	}
	if u.Ejection != nil && u.Breaker.Scope == ScopeUpstream {
		d.fail(d.at(path+".ejection"), path+".ejection", "is set, but breaker.scope is upstream: all endpoints have one breaker")
	}
	if b := u.Fallback; b != nil {
		d.checkFallback(f, path+".fallback", b)
	}
}

func (d *decoder) checkFallback(f *File, path string, b *Fallback) {
	set := func(key string) bool { _, ok := d.origins[path+"."+key]; return ok }
	var kinds []string
	for _, key := range []string{"body", "file", "upstream"} {
		if set(key) {
			kinds = append(kinds, key)
		}
	}
	switch {
	case len(kinds) > 1:
		d.fail(d.at(path+"."+kinds[1]), path, "has %s, must have one of them", strings.Join(kinds, " and "))
	case len(kinds) == 0 && !set("status") && !set("headers") && b.LastGood == nil && !d.failed[path] && !d.failed[path+".last-good"]:
		d.fail(d.at(path), path, "is empty, must have status, body, file, upstream or last-good")
	}
	for _, key := range []string{"status", "headers"} {
		if set(key) && set("upstream") {
			d.fail(d.at(path+"."+key), path+"."+key, "is set, but upstream answers")
		}
	}
	if set("upstream") && !d.failed[path+".upstream"] && f.Upstreams[b.Upstream] == nil && !d.failed["upstreams."+b.Upstream] {
		d.fail(d.at(path+".upstream"), path+".upstream", "is %s, which is not an upstream; known are %s", d.shown(path+".upstream", b.Upstream), names(f))
	}
	for _, name := range slices.Sorted(maps.Keys(b.Headers)) {
		if strings.ContainsFunc(b.Headers[name], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			d.fail(d.at(path+".headers."+name), path+".headers."+name, "has a control character, must be one line of text")
		}
	}
}

// checkCycles reports each cycle of upstreams that answer for one another once.
func (d *decoder) checkCycles(f *File) {
	done := map[string]bool{}
	for _, start := range slices.Sorted(maps.Keys(f.Upstreams)) {
		var chain []string
		for name := start; !done[name]; {
			if i := slices.Index(chain, name); i >= 0 {
				path := "upstreams." + chain[len(chain)-1] + ".fallback.upstream"
				d.fail(d.at(path), path, "is %q, which closes a cycle: %s", name, strings.Join(append(chain[i:], name), " to "))
				break
			}
			u := f.Upstreams[name]
			if u == nil || u.Fallback == nil || u.Fallback.Upstream == "" {
				break
			}
			chain = append(chain, name)
			name = u.Fallback.Upstream
		}
		for _, name := range chain {
			done[name] = true
		}
	}
}

func (d *decoder) checkRoutes(f *File) {
	if len(f.Routes) == 0 && len(f.Upstreams) > 0 && !d.failed["routes"] {
		rule := "is missing, must name an upstream for each path, since there are several"
		if _, set := d.origins["routes"]; set {
			rule = "has none, must have at least one"
		}
		d.fail(d.at("routes"), "routes", "%s", rule)
	}
	first := map[Route]int{}
	for i, r := range f.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		if r.Host != "" && !hostText.MatchString(r.Host) {
			d.fail(d.at(path+".host"), path+".host", "is %s, must be a host in small letters without a port, or *. and one", d.shown(path+".host", r.Host))
		}
		if r.Prefix != "" && (r.Prefix[0] != '/' || strings.ContainsFunc(r.Prefix, func(c rune) bool { return c <= ' ' || c > '~' || c == '?' || c == '#' })) {
			d.fail(d.at(path+".prefix"), path+".prefix", "is %s, must be a path that begins with / and has no query", d.shown(path+".prefix", r.Prefix))
		}
		if r.Upstream != "" && f.Upstreams[r.Upstream] == nil && !d.failed["upstreams"] && !d.failed["upstreams."+r.Upstream] {
			d.fail(d.at(path+".upstream"), path+".upstream", "is %s, which is not an upstream; known are %s", d.shown(path+".upstream", r.Upstream), names(f))
		}
		if d.failed[path] || d.failed[path+".host"] || d.failed[path+".prefix"] {
			continue
		}
		key := Route{Host: r.Host, Prefix: strings.TrimRight(r.Prefix, "/")}
		if before, again := first[key]; again {
			d.fail(d.at(path), path, "has the host and prefix of routes[%d]", before)
		} else {
			first[key] = i
		}
	}
}

// names returns those of the upstreams, the first ten.
func names(f *File) string {
	all := slices.Sorted(maps.Keys(f.Upstreams))
	if len(all) > 10 {
		all = append(all[:10:10], "…")
	}
	return strings.Join(all, ", ")
}

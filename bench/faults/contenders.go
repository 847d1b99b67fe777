package main

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed configs *.yaml
var files embed.FS

// contender is one way to stand between the load and the upstream.
type contender struct {
	Name  string // for --only: a program, and perhaps a hyphen and which settings
	Title string
	// program is looked up on PATH, or is one of the two below.
	program string
	version []string // arguments that make it print its version
	// files are templates, or files as they are, that are put into the
	// contender's folder; {{.File}} is the first of them.
	files   []string
	args    []string // templates
	environ []string // templates
}

// Programs that are not looked up.
const (
	direct  = ""        // no process: straight to the upstream
	fusebox = "fusebox" // built here, or named by a flag
	plain   = "plain"   // this program, as a plain proxy
)

// fuseboxEnviron puts into a file for fusebox, as it stands, what a run needs;
// the environment has precedence.
var fuseboxEnviron = []string{
	"FUSEBOX_LISTEN={{.Listen}}",
	"FUSEBOX_ADMIN_LISTEN={{.Admin}}",
	"FUSEBOX_UPSTREAMS_PAYMENTS_ENDPOINTS=http://{{.Upstream}}",
	"FUSEBOX_SHUTDOWN_WAIT=off", // nobody watches its readiness
}

func fuseboxContender(name, title, file string) contender {
	return contender{
		Name: name, Title: title, program: fusebox, version: []string{"version"},
		files: []string{file}, args: []string{"serve", "-c", "{{.File}}"}, environ: fuseboxEnviron,
	}
}

// contenders returns all, in the order of the table.
func contenders() []contender {
	haproxy := func(name, title, file string) contender {
		return contender{
			Name: name, Title: title, program: "haproxy", version: []string{"-v"},
			files: []string{file}, args: []string{"-db", "-f", "{{.File}}"},
		}
	}
	nginx := func(name, title, file string) contender {
		return contender{
			Name: name, Title: title, program: "nginx", version: []string{"-v"},
			files: []string{file}, args: []string{"-p", "{{.Folder}}", "-e", "stderr", "-c", "{{.File}}"},
		}
	}
	return []contender{
		{Name: "none", Title: "no proxy"},
		fuseboxContender("fusebox", "fusebox, defaults", "defaults.yaml"),
		fuseboxContender("fusebox-fast", "fusebox, fast-recovery.yaml", "fast-recovery.yaml"),
		fuseboxContender("fusebox-slow", "fusebox, slow-rule.yaml", "slow-rule.yaml"),
		haproxy("haproxy", "HAProxy, observe layer7", "configs/haproxy-observe.cfg"),
		haproxy("haproxy-table", "HAProxy, stick table", "configs/haproxy-table.cfg"),
		nginx("nginx", "nginx, one server", "configs/nginx-one.conf"),
		nginx("nginx-two", "nginx, two addresses", "configs/nginx-two.conf"),
		{
			Name: "caddy", Title: "Caddy", program: "caddy", version: []string{"version"},
			files:   []string{"configs/Caddyfile"},
			args:    []string{"run", "--adapter", "caddyfile", "--config", "{{.File}}"},
			environ: []string{"XDG_CONFIG_HOME={{.Folder}}", "XDG_DATA_HOME={{.Folder}}"},
		},
		{
			Name: "traefik", Title: "Traefik", program: "traefik", version: []string{"version"},
			files: []string{"configs/traefik.yaml", "configs/traefik-routes.yaml"},
			args:  []string{"--configFile={{.File}}"},
		},
		{
			Name: "envoy", Title: "Envoy", program: "envoy", version: []string{"--version"},
			files: []string{"configs/envoy.yaml"},
			args:  []string{"-c", "{{.File}}", "--log-level", "warning", "--use-dynamic-base-id"},
		},
	}
}

// choose returns the contenders that a list like "fusebox,haproxy-table" names:
// a program stands for all its settings; an empty list for all contenders.
func choose(list string) (chosen []contender, err error) {
	all := contenders()
	if list == "" {
		return all, nil
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	for name := range strings.SplitSeq(list, ",") {
		n := len(chosen)
		for _, c := range all {
			if c.Name == name || strings.HasPrefix(c.Name, name+"-") {
				chosen = append(chosen, c)
			}
		}
		if len(chosen) == n {
			return nil, fmt.Errorf("--only: no contender %q; there are %s", name, strings.Join(names, ", "))
		}
	}
	slices.SortStableFunc(chosen, func(a, b contender) int {
		return cmp.Compare(slices.Index(names, a.Name), slices.Index(names, b.Name))
	})
	return slices.CompactFunc(chosen, func(a, b contender) bool { return a.Name == b.Name }), nil
}

// programs knows where programs are.
type programs struct {
	fusebox string // "": not built
	self    string // this program
}

// path returns where a program is, "" for direct.
func (p programs) path(program string) (string, error) {
	switch program {
	case direct:
		return "", nil
	case plain:
		return p.self, nil
	case fusebox:
		if p.fusebox == "" {
			return "", fmt.Errorf("%s has not been built", fusebox)
		}
		return p.fusebox, nil
	}
	path, err := exec.LookPath(program)
	if err == nil {
		return path, nil
	}
	// Where distributions put daemons; not on everybody's PATH.
	if path, e := exec.LookPath(filepath.Join("/usr/sbin", program)); e == nil {
		return path, nil
	}
	return "", err
}

// printVersion returns the first line of what a program says about its version,
// with its name.
func printVersion(ctx context.Context, program, path string, args []string) string {
	if path == "" || len(args) == 0 {
		return ""
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil && line == "" {
		line = err.Error()
	}
	if !strings.Contains(strings.ToLower(line), program) {
		line = program + " " + line
	}
	return line
}

// proxy is a contender that runs.
type proxy struct {
	*process
	target
	folder string
}

// place is what the templates of a contender may name.
type place struct {
	Listen, Admin    string // host:port
	Upstream, Second string // host:port of the upstream's two addresses
	Folder, File     string
}

// Port returns the port of an address.
func (place) Port(address string) string { _, port := splitHost(address); return port }

// start starts a contender before an upstream and waits until it passes calls on.
func (p programs) start(ctx context.Context, c contender, upstreams [2]string) (*proxy, error) {
	path, err := p.path(c.program)
	if err != nil {
		return nil, err
	}
	if c.program == direct {
		return &proxy{target: target{upstreams[0], upstreams[0]}}, nil
	}
	for tries := 1; ; tries++ {
		folder, err := os.MkdirTemp("", "faults-")
		if err != nil {
			return nil, err
		}
		run := &proxy{folder: folder}
		err = run.start(ctx, path, c, upstreams)
		if err == nil {
			return run, nil
		}
		run.stop()
		// Somebody else may have taken the address that was free.
		if tries == 3 || !errors.Is(err, errEnded) {
			return nil, err
		}
	}
}

func (r *proxy) start(ctx context.Context, path string, c contender, upstreams [2]string) (err error) {
	at := place{Upstream: host(upstreams[0]), Second: host(upstreams[1]), Folder: r.folder}
	if at.Listen, err = freeAddress(); err != nil {
		return err
	}
	if at.Admin, err = freeAddress(); err != nil {
		return err
	}
	if len(c.files) > 0 {
		at.File = filepath.Join(r.folder, filepath.Base(c.files[0]))
	}
	for _, name := range c.files {
		text, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		filled, err := fill(string(text), at)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.folder, filepath.Base(name)), []byte(filled), 0o600); err != nil {
			return err
		}
	}
	args, err := fillAll(c.args, at)
	if err != nil {
		return err
	}
	environ, err := fillAll(c.environ, at)
	if err != nil {
		return err
	}
	r.target = target{"http://" + at.Listen, upstreams[0]}
	if r.process, err = startProcess(r.folder, path, args, environ); err != nil {
		return err
	}
	return r.ready(ctx, r.target)
}

func fill(text string, at place) (string, error) {
	t, err := template.New("").Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, at)
	return b.String(), err
}

func fillAll(texts []string, at place) (filled []string, err error) {
	for _, text := range texts {
		f, err := fill(text, at)
		if err != nil {
			return nil, err
		}
		filled = append(filled, f)
	}
	return filled, nil
}

// stop ends the process, if there is one, and removes its folder.
func (r *proxy) stop() {
	if r.process != nil {
		r.process.stop()
	}
	if r.folder != "" {
		_ = os.RemoveAll(r.folder) // of the system's temporary files
	}
}

// usage is what the process has used; zero without one.
func (r *proxy) usage() (usage, error) {
	if r.process == nil {
		return usage{}, nil
	}
	return r.process.usage()
}

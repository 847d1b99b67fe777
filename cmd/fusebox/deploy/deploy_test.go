// Package deploy has no code: these tests hold what the files here name (paths,
// flags, ports, times) against the program.
package deploy

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/serve"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// defaults is what a file that says nothing else has.
func defaults(t *testing.T) *config.File {
	t.Helper()
	c, err := config.Parse("fusebox.yaml", []byte("upstreams: {a: {endpoints: [\"http://a\"]}}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func portOf(t *testing.T, a config.Address) string {
	t.Helper()
	_, port, found := strings.Cut(string(a[max(strings.LastIndex(string(a), ":"), 0):]), ":")
	if !found {
		t.Fatalf("%q has no port", a)
	}
	return port
}

// checkCommand holds a command line, behind the program's name, against the program.
func checkCommand(t *testing.T, args []string) (file string) {
	t.Helper()
	c := serve.Command()
	if len(args) == 0 || args[0] != c.Name() {
		t.Fatalf("the command is %q, want %s first", args, c.Name())
	}
	if err := c.ParseFlags(args[1:]); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if rest := c.Flags().Args(); len(rest) > 0 {
		t.Fatalf("%q: %q is none of the command's", args, rest)
	}
	file, err := c.Flags().GetString("config")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDockerfile(t *testing.T) {
	text := read(t, "Dockerfile")
	value := func(instruction string) string {
		t.Helper()
		all := regexp.MustCompile(`(?m)^`+instruction+` +(.*)$`).FindAllStringSubmatch(text, -1)
		if all == nil {
			t.Fatalf("there is no %s", instruction)
		}
		return all[len(all)-1][1]
	}
	var entry, command []string
	if err := errors.Join(json.Unmarshal([]byte(value("ENTRYPOINT")), &entry), json.Unmarshal([]byte(value("CMD")), &command)); err != nil {
		t.Fatal(err)
	}
	if file := checkCommand(t, append(entry[1:], command...)); file != "/etc/fusebox/fusebox.yaml" {
		t.Errorf("the configuration is %s", file)
	}
	if !strings.Contains(text, "-o "+entry[0]+" .") || !strings.Contains(text, "COPY --from=build "+entry[0]+" "+entry[0]) {
		t.Errorf("%s is not what is built and copied", entry[0])
	}
	if user, _, _ := strings.Cut(value("USER"), ":"); user == "0" || user == "root" || user == "" {
		t.Errorf("it runs as %q", user)
	}
	c := defaults(t)
	for _, address := range []config.Address{c.Listen, c.Admin.Listen} {
		if port := portOf(t, address); !slices.Contains(strings.Fields(value("EXPOSE")), port) {
			t.Errorf("port %s is not among %s", port, value("EXPOSE"))
		}
	}
	if !strings.Contains(text, "docker build -f cmd/fusebox/deploy/Dockerfile") {
		t.Error("how to build it is not said")
	}
	folder := strings.TrimPrefix(regexp.MustCompile(`WORKDIR (/src/\S+)`).FindStringSubmatch(text)[1], "/src/")
	if _, err := os.Stat(filepath.Join("..", "..", "..", filepath.FromSlash(folder), "main.go")); err != nil {
		t.Errorf("what it builds: %v", err)
	}
	want := regexp.MustCompile(`(?m)^go (1\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))[1]
	have := regexp.MustCompile(`(?m)^FROM golang:(1\.\d+) `).FindStringSubmatch(text)[1]
	number := func(version string) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(version, "1."))
		return n
	}
	if number(have) < number(want) {
		t.Errorf("it builds with Go %s, go.mod wants %s", have, want)
	}
}

func TestSystemdUnit(t *testing.T) {
	text := read(t, "fusebox.service")
	settings := map[string][]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			settings[key] = append(settings[key], value)
		}
	}
	one := func(key string) string {
		t.Helper()
		if len(settings[key]) != 1 {
			t.Fatalf("%s is %q, want one", key, settings[key])
		}
		return settings[key][0]
	}
	command := strings.Fields(one("ExecStart"))
	if file := checkCommand(t, command[1:]); file != "/etc/"+one("ConfigurationDirectory")+"/fusebox.yaml" {
		t.Errorf("the configuration is %s", file)
	}
	if one("Type") != "notify" || one("ExecReload") != "/bin/kill -HUP $MAINPID" || one("RestartPreventExitStatus") != "2" {
		t.Error("how it is told to start, to reload and to start again")
	}
	c := defaults(t)
	stop, err := strconv.Atoi(one("TimeoutStopSec"))
	if err != nil || time.Duration(stop)*time.Second <= c.Shutdown.Wait+c.Shutdown.Grace {
		t.Errorf("it is killed after %d s, before %v and %v are over", stop, c.Shutdown.Wait, c.Shutdown.Grace)
	}
	for _, hardening := range []string{
		"NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectHome", "ProtectKernelModules",
		"ProtectKernelTunables", "ProtectControlGroups", "RestrictNamespaces", "MemoryDenyWriteExecute", "DynamicUser",
	} {
		if one(hardening) != "yes" {
			t.Errorf("%s is %s", hardening, one(hardening))
		}
	}
	if one("ProtectSystem") != "strict" || one("CapabilityBoundingSet") != "" {
		t.Error("the system is not protected")
	}
	for _, family := range []string{"AF_INET", "AF_INET6", "AF_UNIX"} { // the last for sockets, and to tell systemd
		if !slices.Contains(strings.Fields(one("RestrictAddressFamilies")), family) {
			t.Errorf("%s is not allowed", family)
		}
	}
	// Where there is systemd, it may have an opinion of its own.
	if verify, err := exec.LookPath("systemd-analyze"); err == nil {
		out, _ := exec.CommandContext(t.Context(), verify, "verify", "--man=no", "fusebox.service").CombinedOutput()
		if strings.Contains(string(out), "Unknown") || strings.Contains(string(out), "Failed to parse") {
			t.Errorf("systemd-analyze: %s", out)
		}
	}
}

type object = map[string]any

// at goes down a document: maps by key, lists by number.
func at(t *testing.T, v any, way ...any) any {
	t.Helper()
	for i, step := range way {
		switch step := step.(type) {
		case string:
			v = v.(object)[step]
		case int:
			v = v.([]any)[step]
		}
		if v == nil {
			t.Fatalf("there is no %v", way[:i+1])
		}
	}
	return v
}

func number(t *testing.T, v any) string {
	t.Helper()
	text, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestKubernetes(t *testing.T) {
	docs := map[string]object{} // by kind and name
	d := yaml.NewDecoder(strings.NewReader(read(t, "kubernetes.yaml")))
	for {
		var doc object
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		docs[doc["kind"].(string)+" "+at(t, doc, "metadata", "name").(string)] = doc
	}
	pod := at(t, docs["Deployment fusebox"], "spec", "template", "spec")
	container := at(t, pod, "containers", 0)

	var args []string
	for _, arg := range at(t, container, "args").([]any) {
		args = append(args, arg.(string))
	}
	file := checkCommand(t, args)

	// The file is mounted where the command looks for it, and so is the token.
	mounts, sources := map[string]string{}, map[string]object{}
	for _, m := range at(t, container, "volumeMounts").([]any) {
		mounts[at(t, m, "name").(string)] = at(t, m, "mountPath").(string)
		if m.(object)["subPath"] != nil {
			t.Error("a subPath is never updated")
		}
	}
	for _, v := range at(t, pod, "volumes").([]any) {
		sources[at(t, v, "name").(string)] = v.(object)
	}
	text, ok := at(t, docs["ConfigMap "+at(t, sources["config"], "configMap", "name").(string)], "data").(object)[path.Base(file)].(string)
	if !ok || path.Dir(file) != mounts["config"] {
		t.Fatalf("there is no %s in the ConfigMap, mounted at %s", file, mounts["config"])
	}
	tokens := t.TempDir()
	if err := os.WriteFile(filepath.Join(tokens, "token"), []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "${file:"+mounts["token"]+"/token}") || !strings.Contains(read(t, "kubernetes.yaml"), "create secret generic "+at(t, sources["token"], "secret", "secretName").(string)+" --from-literal=token=") {
		t.Error("the token is not where the configuration looks for it")
	}
	c, err := config.Parse(path.Base(file), []byte(strings.ReplaceAll(text, mounts["token"], tokens)), nil)
	if err != nil {
		t.Fatal(err)
	}

	ports := map[string]string{}
	for _, p := range at(t, container, "ports").([]any) {
		ports[at(t, p, "name").(string)] = number(t, at(t, p, "containerPort"))
	}
	if ports["proxy"] != portOf(t, c.Listen) || ports["admin"] != portOf(t, c.Admin.Listen) {
		t.Errorf("ports %v, the configuration has %s and %s", ports, c.Listen, c.Admin.Listen)
	}
	if c.Admin.Listen.Loopback() || c.Listen.Loopback() {
		t.Error("nobody outside of the pod reaches it")
	}
	if got := at(t, docs["Deployment fusebox"], "spec", "template", "metadata", "annotations", "prometheus.io/port"); got != ports["admin"] {
		t.Errorf("Prometheus is sent to port %v", got)
	}

	var api struct{ Paths map[string]any }
	if err := json.Unmarshal([]byte(read(t, "../internal/serve/openapi.json")), &api); err != nil {
		t.Fatal(err)
	}
	for _, probe := range []string{"livenessProbe", "readinessProbe"} {
		get := at(t, container, probe, "httpGet")
		if api.Paths[at(t, get, "path").(string)] == nil || at(t, get, "port") != "admin" {
			t.Errorf("%s asks %v", probe, get)
		}
	}
	every, err := strconv.Atoi(number(t, at(t, container, "readinessProbe", "periodSeconds")))
	if err != nil || time.Duration(every)*time.Second >= c.Shutdown.Wait {
		t.Errorf("readiness is asked for every %d s, and the program waits %v", every, c.Shutdown.Wait)
	}
	grace, err := strconv.Atoi(number(t, at(t, pod, "terminationGracePeriodSeconds")))
	if err != nil || time.Duration(grace)*time.Second <= c.Shutdown.Wait+c.Shutdown.Grace {
		t.Errorf("the pod is killed after %d s, before %v and %v are over", grace, c.Shutdown.Wait, c.Shutdown.Grace)
	}
	for name, port := range map[string]string{"fusebox": "proxy", "fusebox-admin": "admin"} {
		service := docs["Service "+name]
		if at(t, service, "spec", "ports", 0, "targetPort") != port || number(t, at(t, service, "spec", "selector")) != number(t, at(t, docs["Deployment fusebox"], "spec", "template", "metadata", "labels")) {
			t.Errorf("the service %s leads elsewhere", name)
		}
	}
	if at(t, pod, "securityContext", "runAsNonRoot") != true || at(t, container, "securityContext", "readOnlyRootFilesystem") != true {
		t.Error("the container may do more than it has to")
	}
}

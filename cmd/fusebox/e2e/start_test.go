package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestServeGuardsAnUpstreamAndEndsInOrder(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	p := serve(t, "--upstream", url)
	if status, body := answerOf(t, http.MethodGet, p.proxy+"/"); status != 200 || body != "good" {
		t.Errorf("the proxy answers %d %q", status, body)
	}
	for _, path := range []string{"/", "/livez", "/readyz", "/metrics", "/api/config", "/api/breakers", "/api/breakers/default", "/openapi.json"} {
		if status, body := answerOf(t, http.MethodGet, p.admin+path); status != 200 || body == "" {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	for _, series := range []string{`fusebox_state{name="default",state="closed"}`, "fusebox_config_reload_success"} {
		if v := p.metric(series); v != 1 {
			t.Errorf("%s is %v", series, v)
		}
	}
	if p.metric("fusebox_config_reload_timestamp_seconds") < 1.7e9 || p.metric("process_open_fds") < 3 || p.metric("go_goroutines") < 3 {
		t.Error("metrics of the program are missing")
	}
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestFlagsBeatTheEnvironmentBeatsTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fusebox.yaml")
	write(t, file, "upstreams:\n  a:\n    endpoints: [http://127.0.0.1:1]\n    breaker: {min-calls: 30, probes: 4, buckets: 5}\n")
	env := []string{"FUSEBOX_CONFIG=" + file, "FUSEBOX_UPSTREAMS_A_BREAKER_PROBES=6", "FUSEBOX_UPSTREAMS_A_BREAKER_BUCKETS=7"}
	text, code := fusebox(t, env, "config", "print", "--set", "upstreams.a.breaker.buckets=8", "--upstream", "a=http://127.0.0.1:2", "--upstream", "a=http://127.0.0.1:3")
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"upstreams.a.breaker.min-calls: 30  # " + file + ":4:26",
		"upstreams.a.breaker.probes: 6  # env FUSEBOX_UPSTREAMS_A_BREAKER_PROBES",
		"upstreams.a.breaker.buckets: 8  # flag --set",
		"upstreams.a.endpoints[0]: http://127.0.0.1:2  # flag --upstream",
		"upstreams.a.endpoints[1]: http://127.0.0.1:3  # flag --upstream",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "default") {
		t.Errorf("a default is shown:\n%s", text)
	}
	text, code = fusebox(t, env, "config", "print", "--effective")
	if code != 0 || !strings.Contains(text, "    breaker:\n") || !strings.Contains(text, "# default") {
		t.Errorf("exit code %d\n%s", code, text)
	}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	example := filepath.Join("..", "examples", "fusebox.yaml")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"version", 0, "fusebox "},
		{"config schema", 0, "https://json-schema.org/draft/2020-12/schema"},
		{"config check -c " + example, 0, "good: 3 upstreams, 2 routes"},
		{"config check", 2, "upstreams"},
		{"config check -c nowhere.yaml", 2, "nowhere.yaml: no such file"},
		{"explain -c " + example, 0, "worst case: 3 attempts and 30s"},
		{"completion bash", 0, "complete"},
		{"--help", 0, "serve"},
		{"", 0, "Usage"},
		{"serve nonsense", 2, "nonsense"},
		{"nonsense", 2, "unknown command"},
		{"serve --nonsense", 2, "unknown flag"},
		{"serve --set nonsense", 2, "must be PATH=VALUE"},
		{"serve --upstream nonsense", 2, "must be a URL"},
		{"serve --upstream pay.eu=http://a", 2, "must be URL or NAME=URL"},
		{"serve --upstream =http://a", 2, "must be URL or NAME=URL"},
		{"serve --upstream http://a --set admin.token=0123456789abcdef", 2, "must not stand on the command line"},
		{"serve --upstream http://a --listen nonsense", 2, "flag --listen: listen"},
		{"serve --demo-pace=0", 2, "must be above 0"},
	} {
		text, code := fusebox(t, nil, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("fusebox %s: exit code %d, want %d and %q in\n%s", c.args, code, c.code, c.want, tail(text))
		}
	}
}

func TestABadFileStartsNothingAndSaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fusebox.yaml")
	write(t, file, `listen: "127.0.0.1:0"
upstreams:
  payments:
    endpoints: [http://127.0.0.1:1]
    breaker:
      failure-rate: 50
      probse: 3
    timeouts:
      total: 30
`)
	text, code := fusebox(t, nil, "serve", "-c", file)
	if code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	for _, want := range []string{"3 errors", file + ":6:21: ", "failure-rate: 50\n", file + ":7:7: ", "probse", file + ":9:14: "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, "the proxy listens") {
		t.Error("something was started")
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestHostileFilesAreRefused(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile(filepath.Join("..", "examples", "fusebox.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	truncated := good[:bytes.Index(good, []byte("max-age: 5m"))]
	for name, text := range map[string][]byte{
		"empty":     nil,
		"truncated": truncated,
		"binary":    {0x7f, 'E', 'L', 'F', 0, 0xff, 0xfe, 0, 1, 2, 3, '\n', 0x80},
		"huge":      bytes.Repeat([]byte("# nothing\n"), 1<<20),
		"many keys": []byte("upstreams:\n" + strings.Repeat("  a: {}\n", 100_000)),
		"deep":      []byte(strings.Repeat("[", 500_000)),
		"bomb":      []byte("x-a: &a [1,1,1,1,1,1,1,1,1]\nx-b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nx-c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nx-d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\nx-e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nupstreams: *e\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "fusebox.yaml")
			write(t, file, string(text))
			out, code := fusebox(t, nil, "serve", "-c", file)
			if code != 2 || strings.Contains(out, "the proxy listens") || !strings.HasPrefix(out, "fusebox: ") || len(out) > 20_000 {
				t.Errorf("exit code %d, %d bytes:\n%s", code, len(out), tail(out))
			}
		})
	}
}

// Who has named an upstream, in part, wants no demonstration.
func TestAnUpstreamInTheEnvironmentAloneIsToldOf(t *testing.T) {
	t.Parallel()
	text, code := fusebox(t, []string{"FUSEBOX_UPSTREAMS_PAY_ENDPOINTS=http://127.0.0.1:1"}, "serve")
	if code != 2 || !strings.Contains(text, "upstreams has none") || !strings.Contains(text, "--upstream") {
		t.Errorf("exit code %d\n%s", code, text)
	}
}

func TestASignalEndsTheWaitForAConfiguration(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, binary.plain, "serve", "-c", pipe)
	eventually(t, "the program reads the pipe", func() (bool, string) {
		f, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0) // only where there is a reader
		if err == nil {
			t.Cleanup(func() { _ = f.Close() })
		}
		return err == nil, fmt.Sprint(err)
	})
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}

func TestAnAuditHasNoGaps(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fusebox.yaml")
	write(t, file, settings("http://127.0.0.1:1", 21))
	p := serve(t, "-c", file)
	write(t, file, "logging: {level: error}\n"+settings("http://127.0.0.1:1", 21))
	if status, body := p.reload(); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	p.sees(`"action":"reload".*"status":200`)
}

func TestAnOccupiedPortIsNamedAndNothingServes(t *testing.T) {
	t.Parallel()
	l, err := occupy(t, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := l.Addr().String()
	for _, c := range []struct{ setting, flag, other string }{
		{"listen", "--listen", "--admin"},
		{"admin.listen", "--admin", "--listen"},
	} {
		text, code := fusebox(t, nil, "serve", "--upstream", "http://127.0.0.1:1", c.flag, taken, c.other, "127.0.0.1:0")
		want := c.setting + ": cannot listen on " + taken + ": "
		if code != 1 || !strings.Contains(text, want) || !strings.Contains(text, "address already in use") || !strings.Contains(text, c.flag) || strings.Contains(text, "the proxy listens") {
			t.Errorf("exit code %d, want 1 and %q:\n%s", code, want, text)
		}
	}
}

func TestUnixSockets(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	folder := sockets(t)
	socket, admin := filepath.Join(folder, "proxy"), filepath.Join(folder, "admin")
	args := []string{"serve", "--upstream", url, "--listen", "unix:" + socket, "--admin", "unix:" + admin, "--set", "shutdown.wait=off", "--log-format", "json"}

	first := start(t, nil, binary.program, args...)
	first.sees("the admin listener listens")
	if status, body, err := overUnix(socket, http.MethodGet, "/"); err != nil || status != 200 || body != "good" {
		t.Errorf("the proxy answers %d %q, %v", status, body, err)
	}
	if status, body, err := overUnix(admin, http.MethodPost, "/-/reload"); err != nil || status != 200 {
		t.Errorf("a write over the unix socket: %d %q, %v", status, body, err)
	}
	if info, err := os.Stat(admin); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("the admin socket: %v, %v: others may use it", info, err)
	}

	text, code := fusebox(t, nil, args...)
	if code != 1 || !strings.Contains(text, "listen: cannot listen on unix:"+socket) || !strings.Contains(text, "in use") {
		t.Errorf("a second program: exit code %d\n%s", code, text)
	}
	if status, _, err := overUnix(socket, http.MethodGet, "/"); err != nil || status != 200 {
		t.Errorf("the second program has taken the first one's socket: %d, %v", status, err)
	}

	_ = first.cmd.Process.Kill()
	<-first.ended
	if _, err := os.Lstat(socket); err != nil {
		t.Errorf("a killed program should have left its socket: %v", err)
	}
	next := start(t, nil, binary.program, args...)
	next.sees("the admin listener listens")
	if status, _, err := overUnix(socket, http.MethodGet, "/"); err != nil || status != 200 {
		t.Errorf("after a stale socket: %d, %v", status, err)
	}
	next.signal(syscall.SIGTERM)
	if code := next.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if all, _ := os.ReadDir(folder); len(all) != 0 {
		t.Errorf("left behind: %v", all)
	}

	write(t, socket, "something else")
	if text, code = fusebox(t, nil, args...); code != 1 || !strings.Contains(text, "no socket") {
		t.Errorf("a file in the way: exit code %d\n%s", code, text)
	}
	if text, err := os.ReadFile(socket); err != nil || string(text) != "something else" {
		t.Errorf("the file was touched: %q, %v", text, err)
	}
}

func TestWhoMayWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	token, file := filepath.Join(folder, "token"), filepath.Join(folder, "fusebox.yaml")
	write(t, token, "first-token-0123456789\n")
	write(t, file, "admin: {token: \"${file:token}\"}\nupstreams:\n  a: {endpoints: [\"http://127.0.0.1:1\"]}\n")
	p := serve(t, "-c", file)
	try := func(want int, header ...string) {
		t.Helper()
		if status, body := answerOf(t, http.MethodPost, p.admin+"/-/reload", header...); status != want {
			t.Errorf("%q: %d, want %d: %s", header, status, want, body)
		}
	}
	first, second := "Bearer first-token-0123456789", "Bearer second-token-0123456789"
	try(http.StatusUnauthorized)
	try(http.StatusUnauthorized, "Authorization", second)
	try(http.StatusOK, "Authorization", first)
	try(http.StatusForbidden, "Authorization", first, "Origin", "http://evil.example")
	if status, _ := answerOf(t, http.MethodGet, p.admin+"/api/config"); status != 200 {
		t.Errorf("a read needs a token: %d", status)
	}
	if text := p.value("admin.token"); text != "${file:token}" {
		t.Errorf("the token is shown as %q", text)
	}
	write(t, token, "second-token-0123456789\n")
	eventually(t, "the new token is the right one", func() (bool, string) {
		status, body := answerOf(t, http.MethodPost, p.admin+"/-/reload", "Authorization", second)
		return status == 200, body
	})
	try(http.StatusUnauthorized, "Authorization", first)
}

func TestAForeignNameIsRefused(t *testing.T) {
	t.Parallel()
	p := serve(t, "--upstream", "http://127.0.0.1:1", "--set", "admin.hosts=fusebox.internal,guard")
	for _, path := range []string{"/", "/metrics", "/api/config", "/api/breakers"} {
		status, body := answerWithHost(t, p.admin+path, "evil.example")
		if status != http.StatusMisdirectedRequest {
			t.Errorf("%s: %d %s", path, status, body)
		}
		for _, host := range []string{"fusebox.internal", "Guard:9901"} {
			if status, body := answerWithHost(t, p.admin+path, host); status != 200 {
				t.Errorf("%s at %s: %d %s", path, host, status, body)
			}
		}
	}
	if status, _ := answerWithHost(t, p.admin+"/readyz", "evil.example"); status != 200 {
		t.Errorf("/readyz: %d: a probe may use any name", status)
	}
}

func TestOffLoopbackWithoutATokenIsForReading(t *testing.T) {
	t.Parallel()
	p := start(t, nil, binary.program, "serve", "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0", "--log-format", "json")
	_, port, err := net.SplitHostPort(p.sees(`"the admin listener listens","address":"([^"]+)"`)[1])
	if err != nil {
		t.Fatal(err)
	}
	p.sees("reads only")
	url := "http://127.0.0.1:" + port
	if status, _ := answerOf(t, http.MethodGet, url+"/api/breakers"); status != 200 {
		t.Errorf("a read: %d", status)
	}
	for _, path := range []string{"/-/reload", "/api/breakers/default/reset"} {
		if status, body := answerOf(t, http.MethodPost, url+path); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

func TestWithoutAnAdminListener(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	p := start(t, nil, binary.program, "serve", "--upstream", url, "--listen", "127.0.0.1:0", "--admin", "off", "--log-format", "json", "--log-level", "debug", "--set", "shutdown.wait=off")
	p.proxy = "http://" + p.sees(`"the proxy listens","address":"([^"]+)"`)[1]
	if status, body := answerOf(t, http.MethodGet, p.proxy); status != 200 || body != "good" {
		t.Errorf("the proxy answers %d %q", status, body)
	}
	p.signal(syscall.SIGHUP)
	p.sees("configuration read again.*SIGHUP")
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if text, _ := p.text(); strings.Contains(text, "admin listener") {
		t.Error("there is an admin listener")
	}
}

func TestItOutlivesWhoReadsItsLog(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	socket := filepath.Join(sockets(t), "proxy")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary.program, "serve", "--upstream", url, "--listen", "unix:"+socket,
		"--admin", "off", "--log-level", "debug", "--access-log", "stderr", "--set", "shutdown.wait=off")
	cmd.Env = clean(os.Environ())
	cmd.Stderr = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil { // it listens
		t.Fatal(err)
	}
	_ = r.Close()
	for range 3 { // each is a line in the log
		if status, body, err := overUnix(socket, http.MethodGet, "/"); err != nil || status != 200 {
			t.Errorf("the proxy answers %d %q, %v", status, body, err)
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestTheServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	folder := sockets(t)
	socket := filepath.Join(folder, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	told := make(chan string, 16)
	go func() {
		b := make([]byte, 1000)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			told <- string(b[:n])
		}
	}()
	p := serveBinary(t, binary.program, []string{"NOTIFY_SOCKET=" + socket}, "--upstream", "http://127.0.0.1:1")
	want := func(state string) {
		t.Helper()
		if got := receive(t, told); got != state {
			t.Errorf("told %q, want %q", got, state)
		}
	}
	want("READY=1")
	p.signal(syscall.SIGHUP)
	want("RELOADING=1")
	want("READY=1")
	p.signal(syscall.SIGTERM)
	want("STOPPING=1")
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

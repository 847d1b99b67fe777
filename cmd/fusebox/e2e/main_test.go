package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	// What the program is made of: the go command knows by this when a cached
	// result of these tests is out of date.
	_ "github.com/fusebox-go/fusebox/cmd/fusebox/internal/cli"
)

// patience is how long anything may take on a slow machine.
const patience = 2 * time.Minute

// built is where TestMain has put the program.
type built struct{ program, plain string }

var binary built

func TestMain(m *testing.M) {
	if role := os.Getenv("FUSEBOX_E2E_ROLE"); role != "" {
		os.Exit(play(role)) // this process is another program of a test
	}
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "fusebox-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(folder) }()
		// The race detector follows 8128 goroutines at most: many connections
		// are tried without it.
		binary = built{filepath.Join(folder, "fusebox-race"), filepath.Join(folder, "fusebox")}
		if err := build(binary.plain); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if !racing {
			binary.program = binary.plain
		} else if err := build(binary.program, "-race"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func build(to string, flags ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	args := append([]string{"build", "-buildvcs=false", "-ldflags=-w", "-o", to}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "..")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

// process is a program that runs.
type process struct {
	tb     testing.TB
	cmd    *exec.Cmd
	proxy  string // URL of the proxy
	admin  string // URL of the admin listener
	ended  chan struct{}
	err    error // after ended
	mu     sync.Mutex
	output bytes.Buffer  // of both streams
	grown  chan struct{} // is replaced, and the old one closed, as output grows
}

// Write takes what the process prints.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.grown)
	p.grown = make(chan struct{})
	return p.output.Write(b)
}

func (p *process) text() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String(), p.grown
}

// start runs a program until it ends, or the test does.
func start(tb testing.TB, env []string, name string, args ...string) *process {
	tb.Helper()
	p := &process{tb: tb, ended: make(chan struct{}), grown: make(chan struct{})}
	p.cmd = exec.CommandContext(tb.Context(), name, args...)
	p.cmd.Env = append(clean(os.Environ()), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	stdin, err := p.cmd.StdinPipe() // ends with this process, however that ends
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	tb.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		_ = stdin.Close()
		text, _ := p.text()
		if tb.Failed() {
			tb.Logf("%s %q printed:\n%s", filepath.Base(name), args, tail(text))
		}
		if strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") || strings.Contains(text, "panic serving") {
			tb.Errorf("%s %q printed:\n%s", filepath.Base(name), args, tail(text))
		}
	})
	return p
}

// clean takes away the settings of whoever runs the tests.
func clean(env []string) (out []string) {
	for _, kv := range env {
		if !strings.HasPrefix(kv, "FUSEBOX_") && !strings.HasPrefix(kv, "NOTIFY_SOCKET=") {
			out = append(out, kv)
		}
	}
	return out
}

func tail(text string) string {
	const most = 8000
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// sees waits until the output has a match, and returns its groups.
func (p *process) sees(pattern string) []string {
	p.tb.Helper()
	return p.seesAfter(0, pattern)
}

// seesAfter waits for a match behind the first so many bytes of the output.
func (p *process) seesAfter(from int, pattern string) []string {
	p.tb.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(patience)
	for {
		text, grown := p.text()
		if m := re.FindStringSubmatch(text[from:]); m != nil {
			return m
		}
		select {
		case <-grown:
		case <-p.ended:
			if text, _ := p.text(); re.MatchString(text[from:]) {
				return re.FindStringSubmatch(text[from:])
			}
			p.tb.Fatalf("the program ended (%v) before it printed %q", p.err, pattern)
		case <-timeout:
			p.tb.Fatalf("nothing like %q was printed", pattern)
		}
	}
}

// code waits for the end of the process, and returns its exit code.
func (p *process) code() int {
	p.tb.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.tb.Fatal("the program does not end")
	}
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		p.tb.Fatal(p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(s syscall.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.tb.Fatal(err)
	}
}

// fusebox runs the program to its end, and returns what it printed and its exit code.
func fusebox(tb testing.TB, env []string, args ...string) (string, int) {
	tb.Helper()
	p := start(tb, env, binary.plain, args...)
	code := p.code()
	text, _ := p.text()
	return text, code
}

// patient are settings with which a slow machine is not taken for a dead upstream.
func patient(url string) []string {
	return []string{"--upstream", url, "--set", "upstreams.default.timeouts.total=5m", "--set", "upstreams.default.timeouts.per-try=5m"}
}

// serve runs "fusebox serve" on free ports, and returns when it serves.
func serve(tb testing.TB, args ...string) *process {
	tb.Helper()
	return serveBinary(tb, binary.program, nil, args...)
}

func serveBinary(tb testing.TB, program string, env []string, args ...string) *process {
	tb.Helper()
	all := append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json", "--set", "shutdown.wait=off"}, args...)
	p := start(tb, env, program, all...)
	p.proxy = "http://" + p.sees(`"the proxy listens","address":"([^"]+)"`)[1]
	p.admin = "http://" + p.sees(`"the admin listener listens","address":"([^"]+)"`)[1]
	return p
}

// answerOf makes a request and returns the status and body of the answer.
func answerOf(tb testing.TB, method, url string, header ...string) (int, string) {
	tb.Helper()
	status, body, err := do(method, url, header...)
	if err != nil {
		tb.Fatal(err)
	}
	return status, body
}

func do(method, url string, header ...string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// eventually polls until what is asked for is so. What it returns says how things
// stand, for the failure.
func eventually(tb testing.TB, what string, ask func() (bool, string)) {
	tb.Helper()
	timeout := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, state := ask()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-timeout:
			tb.Fatalf("never so: %s: %s", what, state)
		}
	}
}

// metric returns the value of a series, written as in the exposition.
func (p *process) metric(series string) float64 {
	p.tb.Helper()
	_, text := answerOf(p.tb, http.MethodGet, p.admin+"/metrics")
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), series+" "); ok {
			v, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				p.tb.Fatal(err)
			}
			return v
		}
	}
	p.tb.Fatalf("there is no series %s in\n%s", series, tail(text))
	return 0
}

// descriptors returns how many the process has open.
func (p *process) descriptors() int {
	p.tb.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		p.tb.Fatal(err)
	}
	return len(all)
}

// configured is what the tests read of GET /api/config.
type configured struct {
	Failed *struct {
		Errors []struct {
			Path, File, Message string
			Line, Column        int
		}
	}
	Restart []string
	Entries []struct{ Path, Value, Origin string }
}

func (p *process) configured() (c configured) {
	p.tb.Helper()
	_, text := answerOf(p.tb, http.MethodGet, p.admin+"/api/config")
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		p.tb.Fatalf("%v in %s", err, text)
	}
	return c
}

// value returns an effective setting.
func (p *process) value(path string) string {
	p.tb.Helper()
	for _, e := range p.configured().Entries {
		if e.Path == path {
			return e.Value
		}
	}
	return ""
}

// write puts a file where others find it.
func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const reloadToken = "reload-token-0123456789"

// settings is a file in which one number can be told from another.
func settings(url string, minCalls int) string {
	return fmt.Sprintf("admin: {token: %s}\nupstreams:\n  a:\n    endpoints: [%q]\n    breaker: {min-calls: %d}\n    timeouts: {total: 5m, per-try: 5m}\n", reloadToken, url, minCalls)
}

// has waits until the program has the number in effect.
func (p *process) has(minCalls int) {
	p.tb.Helper()
	eventually(p.tb, fmt.Sprintf("min-calls is %d", minCalls), func() (bool, string) {
		v := p.value("upstreams.a.breaker.min-calls")
		return v == fmt.Sprint(minCalls), v
	})
}

func (p *process) reload() (int, string) {
	p.tb.Helper()
	return answerOf(p.tb, http.MethodPost, p.admin+"/-/reload", "Authorization", "Bearer "+reloadToken)
}

func TestReloadByWhateverChangesTheFile(t *testing.T) {
	t.Parallel()
	const url = "http://127.0.0.1:1"
	rename := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		make func(t *testing.T, folder string) (file string)
		set  func(t *testing.T, folder string, n int)
	}{
		{
			"the file is written",
			func(_ *testing.T, folder string) string { return filepath.Join(folder, "fusebox.yaml") },
			func(t *testing.T, folder string, n int) {
				write(t, filepath.Join(folder, "fusebox.yaml"), settings(url, n))
			},
		},
		{
			"an editor renames a new file into place",
			func(_ *testing.T, folder string) string { return filepath.Join(folder, "fusebox.yaml") },
			func(t *testing.T, folder string, n int) {
				write(t, filepath.Join(folder, ".new"), settings(url, n))
				rename(t, filepath.Join(folder, ".new"), filepath.Join(folder, "fusebox.yaml"))
			},
		},
		{
			"an editor moves the old file away first",
			func(_ *testing.T, folder string) string { return filepath.Join(folder, "fusebox.yaml") },
			func(t *testing.T, folder string, n int) {
				file := filepath.Join(folder, "fusebox.yaml")
				_ = os.Rename(file, file+"~")
				write(t, file, settings(url, n))
			},
		},
		{
			"Kubernetes swaps the folder of a ConfigMap",
			func(t *testing.T, folder string) string {
				file := filepath.Join(folder, "fusebox.yaml")
				if err := os.Symlink(filepath.Join("..data", "fusebox.yaml"), file); err != nil {
					t.Fatal(err)
				}
				return file
			},
			func(t *testing.T, folder string, n int) {
				old, _ := os.Readlink(filepath.Join(folder, "..data"))
				data := fmt.Sprintf("..2026_%d", n)
				if err := os.Mkdir(filepath.Join(folder, data), 0o700); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(folder, data, "fusebox.yaml"), settings(url, n))
				if err := os.Symlink(data, filepath.Join(folder, "..data_tmp")); err != nil {
					t.Fatal(err)
				}
				rename(t, filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data"))
				if old != "" {
					_ = os.RemoveAll(filepath.Join(folder, old))
				}
			},
		},
		{
			"the target of a link elsewhere is written",
			func(t *testing.T, folder string) string {
				real, file := filepath.Join(folder, "real", "fusebox.yaml"), filepath.Join(folder, "fusebox.yaml")
				if err := os.Mkdir(filepath.Dir(real), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(real, file); err != nil {
					t.Fatal(err)
				}
				return file
			},
			func(t *testing.T, folder string, n int) {
				write(t, filepath.Join(folder, "real", "fusebox.yaml"), settings(url, n))
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			file := c.make(t, folder)
			c.set(t, folder, 21)
			p := serve(t, "-c", file)
			p.has(21)
			for n := 22; n < 25; n++ { // more than once: what is watched may be gone after the first
				c.set(t, folder, n)
				p.has(n)
			}
		})
	}
}

func TestReloadOnDemand(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fusebox.yaml")
	write(t, file, settings("http://127.0.0.1:1", 21))
	p := serve(t, "-c", file)
	write(t, file, settings("http://127.0.0.1:1", 22))
	p.signal(syscall.SIGHUP)
	p.has(22)

	write(t, file, settings("http://127.0.0.1:1", 23)+"  b:\n    endpoints: [http://127.0.0.1:2]\nroutes: [{upstream: a}]\n")
	status, text := p.reload()
	var answer struct{ Changed, Added []string }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != 200 {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	// The watch may have been quicker: then nothing was left to do.
	if c := strings.Join(answer.Changed, " "); c != "upstreams.a.breaker.min-calls" && c != "" || len(answer.Added) == 1 && answer.Added[0] != "b" {
		t.Errorf("changed: %s", text)
	}
	if v := p.value("upstreams.b.endpoints[0]"); v != "http://127.0.0.1:2" {
		t.Errorf("the new upstream has %q", v)
	}
}

func TestABadFileChangesNothing(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	file := filepath.Join(t.TempDir(), "fusebox.yaml")
	write(t, file, settings(url, 21))
	p := serve(t, "-c", file)
	before := p.metric("fusebox_config_reload_timestamp_seconds")

	write(t, file, settings(url, 22)+"    bulkhead: {max-wait: 30}\nnonsense: 1\n")
	status, text := p.reload()
	var answer struct {
		Errors []struct {
			Path, File, Message string
			Line, Column        int
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusUnprocessableEntity {
		t.Fatalf("%d %s: %v", status, text, err)
	}
	if len(answer.Errors) != 2 || answer.Errors[0].File != file || answer.Errors[0].Line != 7 || answer.Errors[0].Column != 26 ||
		answer.Errors[0].Path != "upstreams.a.bulkhead.max-wait" || answer.Errors[1].Line != 8 {
		t.Errorf("errors: %s", text)
	}
	p.sees("reload failed, nothing has changed.*" + `bulkhead\.max-wait`)
	if v := p.metric("fusebox_config_reload_success"); v != 0 {
		t.Errorf("fusebox_config_reload_success is %v", v)
	}
	if v := p.metric("fusebox_config_reload_timestamp_seconds"); v < before {
		t.Errorf("the timestamp went from %v to %v", before, v)
	}
	c := p.configured()
	if c.Failed == nil || len(c.Failed.Errors) != 2 || c.Failed.Errors[0].Line != 7 {
		t.Errorf("GET /api/config does not tell: %+v", c.Failed)
	}
	if v := p.value("upstreams.a.breaker.min-calls"); v != "21" {
		t.Errorf("min-calls is %s", v)
	}
	if status, body := answerOf(t, http.MethodGet, p.proxy); status != 200 || body != "good" {
		t.Errorf("the proxy answers %d %q", status, body)
	}

	for name, text := range map[string]string{"truncated": settings(url, 22)[:60], "empty": "", "binary": "\x00\xff\x7fELF", "huge": strings.Repeat("# nothing\n", 1<<18)} {
		write(t, file, text)
		if status, body := p.reload(); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if status, body := p.reload(); status != http.StatusUnprocessableEntity || !strings.Contains(body, "no such file") {
		t.Errorf("without a file: %d %s", status, body)
	}

	write(t, file, settings(url, 23))
	p.has(23)
	if v := p.metric("fusebox_config_reload_success"); v != 1 || p.configured().Failed != nil {
		t.Errorf("mended, but fusebox_config_reload_success is %v", v)
	}
}

func TestWhatNeedsARestartIsSaidAndTheRestIsApplied(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "fusebox.yaml")
	head := "listen: \"127.0.0.1:%d\"\n"
	write(t, file, fmt.Sprintf(head, 0)+settings("http://127.0.0.1:1", 21))
	p := start(t, nil, binary.program, "serve", "-c", file, "--admin", "127.0.0.1:0", "--log-format", "json")
	p.admin = "http://" + p.sees(`"the admin listener listens","address":"([^"]+)"`)[1]
	write(t, file, fmt.Sprintf(head, 1)+settings("http://127.0.0.1:1", 22))
	status, text := p.reload()
	if status != 200 || !strings.Contains(text, `"restart":["listen"]`) {
		t.Errorf("%d %s", status, text)
	}
	p.sees("wait for a restart.*listen")
	p.has(22)
	if r := p.configured().Restart; len(r) != 1 || r[0] != "listen" {
		t.Errorf("restart: %q", r)
	}
	write(t, file, fmt.Sprintf(head, 0)+settings("http://127.0.0.1:1", 23))
	p.has(23)
	if r := p.configured().Restart; len(r) != 0 {
		t.Errorf("put back, but restart is %q", r)
	}
}

func TestTheAccessLogIsRotatedAndReplaced(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	folder := t.TempDir()
	file, first, second := filepath.Join(folder, "fusebox.yaml"), filepath.Join(folder, "first.log"), filepath.Join(folder, "second.log")
	text := func(log string) string { return fmt.Sprintf("logging: {access: %q}\n", log) + settings(url, 21) }
	write(t, file, text(first))
	p := serve(t, "-c", file, "--log-level", "debug")
	logged := func(path, log string) {
		t.Helper()
		if status, body := answerOf(t, http.MethodGet, p.proxy+path); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		eventually(t, path+" is logged", func() (bool, string) { // after the answer
			text, err := os.ReadFile(log)
			return strings.Contains(string(text), fmt.Sprintf("%q", path)), fmt.Sprint(string(text), err)
		})
	}
	logged("/one", first)
	if err := os.Rename(first, first+".1"); err != nil {
		t.Fatal(err)
	}
	logged("/two", first+".1")
	p.signal(syscall.SIGHUP)
	p.sees("cause.:.SIGHUP")
	logged("/three", first)
	write(t, file, text(second))
	if status, body := p.reload(); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	logged("/four", second)
	// The first comes back, after a rotation that it has not been told of.
	if err := os.Rename(first, first+".2"); err != nil {
		t.Fatal(err)
	}
	for _, log := range []string{first, second} {
		write(t, file, text(log))
		if status, body := p.reload(); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		logged("/back", log)
	}
	write(t, file, text(filepath.Join(folder, "nowhere", "log")))
	if status, body := p.reload(); status != http.StatusUnprocessableEntity || !strings.Contains(body, "logging.access") {
		t.Errorf("a log that cannot be opened: %d %s", status, body)
	}
	logged("/five", second)
}

func TestFilesThatTheConfigurationNamesAreWatched(t *testing.T) {
	t.Parallel()
	folder, elsewhere := t.TempDir(), t.TempDir()
	file, body, endpoint := filepath.Join(folder, "fusebox.yaml"), filepath.Join(elsewhere, "sorry.txt"), filepath.Join(elsewhere, "endpoint")
	write(t, body, "sorry")
	write(t, endpoint, "http://127.0.0.1:1")
	write(t, file, fmt.Sprintf("upstreams:\n  a:\n    endpoints: [\"${file:%s}\"]\n    fallback: {file: %q}\n", endpoint, body))
	p := serve(t, "-c", file)
	says := func(want string) {
		t.Helper()
		eventually(t, "the proxy says "+want, func() (bool, string) {
			status, got := answerOf(t, http.MethodGet, p.proxy)
			return got == want, fmt.Sprint(status, got)
		})
	}
	says("sorry")
	for _, text := range []string{"very sorry", "most sorry"} { // the first may be part of the start
		write(t, body, text)
		says(text)
	}
	_, url := upstream(t, "")
	write(t, endpoint, url)
	says("good")
}

// A hundred reloads a second, each of which changes something, under load.
func TestReloadsLoseNoRequestAndLeakNothing(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	file := filepath.Join(t.TempDir(), "fusebox.yaml")
	text := func(n int) string {
		s := settings(url, 20+n%5)
		if n%3 == 0 {
			s += fmt.Sprintf("  b%d:\n    endpoints: [%q]\n    bulkhead: {limit: %d}\nroutes: [{upstream: a}, {prefix: /b, upstream: b%d}]\n", n%7, url, 10+n, n%7)
		}
		return s
	}
	write(t, file, text(1))
	p := serve(t, "-c", file)
	l := calls(8, p.proxy+"/late?ms=5", good)
	round := func(reloads int) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := range reloads {
			<-tick.C
			write(t, filepath.Join(filepath.Dir(file), "new"), text(n))
			if err := os.Rename(filepath.Join(filepath.Dir(file), "new"), file); err != nil {
				t.Fatal(err)
			}
			if status, body := p.reload(); status != 200 {
				t.Fatalf("reload %d: %d %s", n, status, body)
			}
		}
	}
	round(15)
	p.settles(t, text, file)
	descriptors, goroutines := p.descriptors(), p.metric("go_goroutines")
	began := time.Now()
	round(150)
	t.Logf("150 reloads took %v", time.Since(began))
	p.settles(t, text, file)
	// Connections of clients and to the upstream come and go with the load; what
	// is left behind by a reload would be there a hundred and fifty times.
	const spare = 60
	eventually(t, "descriptors and goroutines are as many as before", func() (bool, string) {
		d, g := p.descriptors(), p.metric("go_goroutines")
		return d <= descriptors+spare && g <= goroutines+spare, fmt.Sprintf("%d were %d, %v were %v", d, descriptors, g, goroutines)
	})
	l.stop()
	l.lost(t)
}

// settles brings the program back to where it was at first.
func (p *process) settles(tb testing.TB, text func(int) string, file string) {
	tb.Helper()
	write(tb, file, text(1))
	if status, body := p.reload(); status != 200 {
		tb.Fatalf("%d %s", status, body)
	}
}

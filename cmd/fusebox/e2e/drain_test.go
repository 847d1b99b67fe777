package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestSIGTERMUnderLoadLosesNoRequest(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	p := serve(t, append(patient(url), "--set", "shutdown.wait=2s")...)
	slow := make(chan error, 8) // these outlast the wait
	for range cap(slow) {
		go func() {
			status, body, err := do(http.MethodGet, p.proxy+"/for?ms=3000")
			slow <- good(status, body, err)
		}()
	}
	p.inFlight(cap(slow))
	// As behind a load balancer: clients go on while the program is not ready,
	// and leave before it stops accepting.
	l := calls(16, p.proxy+"/late?ms=5", good)
	eventually(t, "there is load", func() (bool, string) {
		n := l.good.Load()
		return n > 50, fmt.Sprint(n)
	})
	p.signal(syscall.SIGTERM)
	eventually(t, "it is not ready", func() (bool, string) {
		status, body := answerOf(t, http.MethodGet, p.admin+"/readyz")
		return status == http.StatusServiceUnavailable, fmt.Sprint(status, body)
	})
	if status, _ := answerOf(t, http.MethodGet, p.admin+"/livez"); status != 200 {
		t.Errorf("/livez answers %d while draining", status)
	}
	before := l.good.Load()
	eventually(t, "calls are answered while it waits", func() (bool, string) { return l.good.Load() > before+16, "" })
	l.stop()
	l.lost(t)
	for range cap(slow) {
		if err := receive(t, slow); err != nil {
			t.Errorf("a call in flight was lost: %v", err)
		}
	}
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestConnectionsCloseBehindTheAnswerWhileDraining(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	p := serve(t, append(patient(url), "--set", "shutdown.wait=1m")...)
	conn, err := dial(t.Context(), p.proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	ask := func() *http.Response {
		t.Helper()
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp
	}
	if ask().Close {
		t.Error("the connection closes without a reason")
	}
	p.signal(syscall.SIGTERM)
	p.sees("draining")
	if !ask().Close {
		t.Error("the client is not told that the connection closes")
	}
	p.signal(syscall.SIGTERM) // it would wait for a minute
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d: nothing was in flight", code)
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	p := serve(t, append(patient(url), "--set", "shutdown.grace=10m")...)
	gone := make(chan error, 1)
	go func() {
		_, _, err := do(http.MethodGet, p.proxy+"/late?ms=600000")
		gone <- err
	}()
	p.inFlight(1)
	p.signal(syscall.SIGINT)
	p.sees("accepting no more")
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	p.sees(`second signal \(terminated\): 1 requests? w\w+ cut off`)
	if receive(t, gone) == nil {
		t.Error("the call was answered")
	}
}

// inFlight waits until the upstream's breaker, or the proxy, has as many calls.
func (p *process) inFlight(n int) {
	p.tb.Helper()
	series := "fusebox_proxy_in_flight"
	eventually(p.tb, fmt.Sprintf("%d calls are in flight", n), func() (bool, string) {
		v := p.metric(series)
		return v == float64(n), fmt.Sprint(v)
	})
}

// A reader of the access log that does not keep up costs lines, and the lines are counted.
func TestLinesThatTheAccessLogLosesAreCounted(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "log")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // which never reads
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	_, url := upstream(t, "")
	p := serve(t, append(patient(url), "--access-log", pipe)...)
	const series = "fusebox_access_log_dropped_total"
	if n := p.metric(series); n != 0 {
		t.Errorf("%v lines are lost before there is one", n)
	}
	long := "/" + strings.Repeat("x", 60<<10)
	eventually(t, "lines are lost", func() (bool, string) {
		for range 20 {
			if status, _ := answerOf(t, http.MethodGet, p.proxy+long); status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
		}
		n := p.metric(series)
		return n >= 20, fmt.Sprint(n)
	})
}

// To open a pipe that nobody reads may take for ever.
func TestAReloadThatHangsDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file, pipe := filepath.Join(folder, "fusebox.yaml"), filepath.Join(folder, "log")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, file, settings("http://127.0.0.1:1", 21))
	p := serve(t, "-c", file)
	write(t, file, fmt.Sprintf("logging: {access: %q}\n", pipe)+settings("http://127.0.0.1:1", 22))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.admin+"/-/reload", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+reloadToken)
	if resp, err := http.DefaultClient.Do(r); err == nil { // else it hangs
		_ = resp.Body.Close()
	}
	p.signal(syscall.SIGTERM)
	p.sees("done, nothing was cut off")
	began := time.Now()
	for { // until the program no longer ends in order, the first is as good as none
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
			return
		case <-time.After(50 * time.Millisecond):
		}
		if time.Since(began) > patience {
			t.Fatal("the program does not end")
		}
	}
}

func TestTheGraceRunsOut(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	p := serve(t, append(patient(url), "--set", "shutdown.grace=300ms")...)
	for range 3 {
		go func() { _, _, _ = do(http.MethodGet, p.proxy+"/for?ms=600000") }()
	}
	p.inFlight(3)
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	p.sees(`shutdown\.grace \(300ms\) is over: 3 requests were cut off`)
}

// http.Server.Shutdown forgets connections that were upgraded.
func TestUpgradedConnectionsAreFinished(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	p := serve(t, patient(url)...)
	conn, err := dial(t.Context(), p.proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(conn, "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	echo := func() {
		t.Helper()
		fmt.Fprintln(conn, "are you there")
		if line, err := r.ReadString('\n'); err != nil || line != "are you there\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	echo()
	p.signal(syscall.SIGTERM)
	p.sees("accepting no more")
	eventually(t, "it accepts no more", func() (bool, string) {
		c, err := dial(t.Context(), p.proxy)
		if err == nil {
			_ = c.Close()
		}
		return err != nil, ""
	})
	echo()
	if status, _ := answerOf(t, http.MethodGet, p.admin+"/livez"); status != 200 {
		t.Errorf("/livez answers %d", status)
	}
	echo()
	_ = conn.Close()
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// gRPC comes as HTTP/2 without TLS.
func TestHTTP2StreamsAreFinished(t *testing.T) {
	t.Parallel()
	_, url := upstream(t, "")
	p := serve(t, patient(url)...)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.proxy+"/for?ms=700", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.ProtoMajor != 2 {
		t.Errorf("protocol %s", resp.Proto)
	}
	p.signal(syscall.SIGTERM)
	p.sees("accepting no more")
	body, err := io.ReadAll(resp.Body)
	if err := good(resp.StatusCode, string(body), err); err != nil {
		t.Error(err)
	}
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestReadersOfEventsDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	p := serve(t, "--upstream", "http://127.0.0.1:1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.admin+"/api/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the end took %v", took)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream was cut off: %v", err)
	}
}

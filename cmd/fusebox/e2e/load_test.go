package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// Every client is answered, by the upstream or with a status that says what is
// wrong, and the upstream is used again when it is back.
func TestTheUpstreamIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	up, url := upstream(t, "")
	p := serve(t, "--upstream", url, "--set", "upstreams.default.breaker.open-for=100ms", "--set", "upstreams.default.breaker.open-for-max=200ms")
	l := calls(8, p.proxy+"/late?ms=2", func(status int, _ string, err error) error {
		switch {
		case err != nil:
			return err
		case status == 200, status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
			return nil
		}
		return fmt.Errorf("answered %d", status)
	})
	answers := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("the proxy answers %d", want), func() (bool, string) {
			status, body := answerOf(t, http.MethodGet, p.proxy)
			return status == want, fmt.Sprint(status, body)
		})
	}
	for range 2 {
		answers(200)
		_ = up.cmd.Process.Kill()
		<-up.ended
		answers(http.StatusServiceUnavailable) // the breaker is open
		up, _ = upstream(t, strings.TrimPrefix(url, "http://"))
	}
	answers(200)
	l.stop()
	l.lost(t)
	if v := p.metric(`fusebox_rejected_total{name="default",reason="open"}`); v == 0 {
		t.Error("the breaker has rejected nothing")
	}
}

// Clients, proxy and upstream are processes of their own. All connections are
// open at the same time, and all are answered.
func TestFourThousandConnections(t *testing.T) {
	up, url := upstream(t, "")
	p := serveBinary(t, binary.plain, nil, patient(url)...)
	n := 4000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	// The proxy has a descriptor to each client, and one to the upstream for it.
	if most := (int(min(limit.Max, 1<<20)) - 200) / 2; most < n {
		t.Logf("a process may have %d descriptors here (ulimit -Hn): %d connections instead of %d", limit.Max, most, n)
		n = most
	}
	if racing {
		n = min(n, 1000) // the upstream and the clients are this binary, under the detector
	}
	answerOf(t, http.MethodGet, p.proxy)
	descriptors, goroutines := p.descriptors(), p.metric("go_goroutines")

	crowd := another(t, "crowd", "FUSEBOX_E2E_ADDRESS="+strings.TrimPrefix(p.proxy, "http://"), fmt.Sprint("FUSEBOX_E2E_SIZE=", n))
	if code := crowd.code(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var c crowded
	text, _ := crowd.text()
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(errors.Join(err, errors.New(tail(text))))
	}
	if c.Open != n || c.Good != 2*n || c.Bad != 0 {
		t.Errorf("%d connections: %+v", n, c)
	}
	t.Logf("memory with %d connections: %.0f MB resident", n, p.metric("process_resident_memory_bytes")/1e6)

	// Connections to the upstream are kept for later, until it goes.
	_ = up.cmd.Process.Kill()
	<-up.ended
	const spare = 10
	eventually(t, "descriptors and goroutines are as many as before", func() (bool, string) {
		d, g := p.descriptors(), p.metric("go_goroutines")
		return d <= descriptors+spare && g <= goroutines+spare, fmt.Sprintf("%d were %d, %v were %v", d, descriptors, g, goroutines)
	})
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// The program keeps nothing of what is over: with 64 connections its memory is
// small, and three times the calls do not make it larger.
func TestMemoryIsFlat(t *testing.T) {
	_, url := upstream(t, "")
	p := serveBinary(t, binary.plain, nil, patient(url)...)
	l := calls(64, p.proxy, good)
	resident := func(calls int64) float64 {
		t.Helper()
		eventually(t, fmt.Sprintf("%d calls are made", calls), func() (bool, string) {
			n := l.good.Load()
			return n >= calls, fmt.Sprint(n)
		})
		return p.metric("process_resident_memory_bytes") / 1e6
	}
	n := int64(5_000)
	if racing {
		n = 1_000 // as above
	}
	before, after := resident(n), resident(3*n)
	l.stop()
	l.lost(t)
	t.Logf("resident: %.1f MB after %d calls, %.1f MB after three times as many", before, n, after)
	if most, spare := 60.0, 10.0; after > most || after > before+spare {
		t.Errorf("resident: %.1f MB, then %.1f MB", before, after)
	}
}

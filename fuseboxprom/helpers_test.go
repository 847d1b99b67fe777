package fuseboxprom_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxprom"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

var errDown = errors.New("down")

func succeed(context.Context) error { return nil }
func fail(context.Context) error    { return errDown }

// series are the values of an endpoint, by name and labels as they stand there.
type series map[string]float64

func (s series) want(tb testing.TB, want series) {
	tb.Helper()
	for key, v := range want {
		if got, ok := s[key]; !ok || got != v {
			tb.Errorf("%s is %v (%t), want %v", key, got, ok, v)
		}
	}
}

// count returns how many series begin so, and their sum.
func (s series) count(prefix string) (n int, sum float64) {
	for key, v := range s {
		if strings.HasPrefix(key, prefix) {
			n++
			sum += v
		}
	}
	return n, sum
}

// endpoint is what Prometheus scrapes: a server with a Collector behind it.
type endpoint struct {
	*fuseboxprom.Collector
	registry *prometheus.Registry
	server   *httptest.Server
}

// serve starts an endpoint. Its registry is pedantic: it checks what it is told
// against the descriptions.
func serve(tb testing.TB) *endpoint {
	tb.Helper()
	reg := prometheus.NewPedanticRegistry()
	c, err := fuseboxprom.Register(reg)
	if err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	tb.Cleanup(server.Close)
	return &endpoint{c, reg, server}
}

// scrape reads the endpoint.
func (e *endpoint) scrape(tb testing.TB) series {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, e.server.URL, nil)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := e.server.Client().Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	all := series{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		if resp.StatusCode != http.StatusOK {
			tb.Errorf("status %d: %s", resp.StatusCode, line)
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			tb.Fatal(err)
		}
		if _, twice := all[line[:i]]; twice {
			tb.Errorf("%s twice", line[:i])
		}
		all[line[:i]] = v
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	return all
}

// lab is a breaker with a scripted clock that trips at the first failure, is
// open for 10 s and probes with one call, whose lease is 5 s.
type lab struct {
	fuseboxtest.Clock
	*fusebox.Breaker
}

func newLab(name string) *lab {
	l := &lab{}
	l.Breaker = fusebox.New(name, fusebox.Config{
		Consecutive: 1, OpenFor: 10 * time.Second, OpenForMax: 10 * time.Second, OpenJitter: -1,
		Probes: 1, ProbeTimeout: 5 * time.Second, Now: l.Now,
	})
	return l
}

func (l *lab) allow(tb testing.TB) fusebox.Permit {
	tb.Helper()
	p, err := l.Allow(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return p.Take()
}

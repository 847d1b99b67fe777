// Command server shows breakers in an HTTP server, one a route: with the
// standard mux, with chi, and their metrics for Prometheus. It needs nothing
// from outside.
//
// The handler of one route fails for a while. While its breaker is open that
// route answers 503 at once, and says who refuses and when to come back; the
// other route does not notice.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxprom"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	fmt.Fprintln(w, "With the standard mux:")
	if err := show(ctx, w, Standard); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nWith chi:")
	return show(ctx, w, Chi)
}

func show(ctx context.Context, w io.Writer, guarded func(_ *fusebox.Registry, report, user http.HandlerFunc) http.Handler) error {
	const route = "GET /reports/{year}"
	breakers := &fusebox.Registry{Config: func(string) fusebox.Config {
		return fusebox.Config{Consecutive: 3, OpenFor: 600 * time.Millisecond}
	}}
	registry := prometheus.NewRegistry()
	metrics, err := fuseboxprom.Register(registry)
	if err != nil {
		return err
	}
	metrics.AddRegistry("", breakers)

	var fails atomic.Bool
	report := func(w http.ResponseWriter, _ *http.Request) {
		if fails.Load() {
			http.Error(w, "the database is down", http.StatusInternalServerError)
		}
	}
	user := func(http.ResponseWriter, *http.Request) {}
	mux := http.NewServeMux()
	mux.Handle("/", guarded(breakers, report, user))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) // unguarded
	server := httptest.NewServer(mux)
	defer server.Close()

	fails.Store(true)
	for _, path := range []string{"/reports/2030", "/reports/2031", "/reports/2032", "/reports/2033", "/users/42"} {
		resp, _, err := get(ctx, server.URL+path)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  %s: %s\n", path, resp.Status)
		if by := resp.Header.Get("Fusebox-Breaker"); by != "" {
			fmt.Fprintf(w, "    Fusebox-Breaker: %s\n    Retry-After: %s\n", by, resp.Header.Get("Retry-After"))
		}
	}

	_, text, err := get(ctx, server.URL+"/metrics")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		for _, series := range []string{`calls_total{name=%q,outcome="failure"}`, `rejected_total{name=%q,reason="open"}`, `state{name=%q,state="open"}`} {
			if strings.HasPrefix(line, fmt.Sprintf("fusebox_"+series, route)) {
				fmt.Fprint(w, "  ", line)
			}
		}
	}

	fails.Store(false)
	breaker := breakers.Get(route)
	for breaker.State() == fusebox.Open {
		time.Sleep(10 * time.Millisecond)
	}
	for range breaker.Config().CloseAfter { // these are the probes
		if _, _, err := get(ctx, server.URL+"/reports/2034"); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "  The database is back: the breaker is %v.\n", breaker.State())
	return nil
}

func get(ctx context.Context, url string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

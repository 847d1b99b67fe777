package fuseboxhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fallback"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
	"github.com/fusebox-go/fusebox/hedge"
	"github.com/fusebox-go/fusebox/retry"
)

// The first request hangs until it is cancelled; the second is answered with a
// long body in pieces, which the end of Call must not cut off.
func TestC134TheWinnersBodySurvivesTheHedge(t *testing.T) {
	const size, piece = 512 << 10, 4 << 10
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			lost := make(chan struct{})
			var requests atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) == 1 {
					<-r.Context().Done()
					close(lost)
					return
				}
				_ = http.NewResponseController(w).Flush()
				<-lost // the other has been cancelled by now: Call has returned
				for range size / piece {
					_, _ = w.Write(make([]byte, piece))
					_ = http.NewResponseController(w).Flush()
				}
			}))
			server.EnableHTTP2 = http2
			if http2 {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			client := server.Client()
			guarded := &fuseboxhttp.Transport{Base: client.Transport, Timeout: time.Minute}
			client.Transport = guarded

			resp, err := hedge.Call(t.Context(), nil, func(ctx context.Context) (*http.Response, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
				if err != nil {
					return nil, err
				}
				return client.Do(req)
			}, hedge.New(hedge.Config{Delay: 10 * time.Millisecond}))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
				t.Errorf("read %d of %d bytes: %v", n, size, err)
			}
			b := guarded.Breakers().Get(fuseboxhttp.Host(resp.Request))
			if s := b.Snapshot().Totals; s.Successes != 1 || s.Failures != 0 {
				t.Errorf("%+v, want one success and no failure", s)
			}
		})
	}
}

// The whole HTTP chain: fallback, retry, breaker, timeout.
func TestTheHTTPChainAnswersThroughAnOutage(t *testing.T) {
	var down atomic.Bool
	var reached atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "1.07")
	}))
	defer server.Close()
	transport := &fuseboxhttp.Transport{
		Registry: &fusebox.Registry{Config: func(string) fusebox.Config { return fusebox.Config{Consecutive: 5, OpenFor: time.Hour} }},
		Timeout:  time.Minute,
		Retry:    retry.New(retry.Config{Attempts: 2, BaseDelay: time.Nanosecond, NoBudget: true}),
	}
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()
	last := fallback.New(fallback.Config[string]{MaxAge: time.Hour})
	rate := func() (string, error) {
		return fallback.Call(t.Context(), nil, func(ctx context.Context) (string, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
			if err != nil {
				return "", err
			}
			resp, err := client.Do(req)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return "", errors.New(resp.Status)
			}
			text, err := io.ReadAll(resp.Body)
			return string(text), err
		}, last)
	}
	if got, err := rate(); got != "1.07" || err != nil {
		t.Fatal(got, err)
	}
	down.Store(true)
	for range 20 {
		if got, err := rate(); got != "1.07" || err != nil {
			t.Errorf("in the outage: %q, %v", got, err)
		}
	}
	if n := reached.Load(); n != 1+5 {
		t.Errorf("%d requests reached the server, want the first and five failures", n)
	}
	if s := last.Stats(); s.Stale != 20 {
		t.Errorf("%+v", s)
	}
}

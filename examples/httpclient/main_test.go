package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

func TestTheExample(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	story := `(?s)` + strings.Join([]string{
		`^The server answers\.\n1\.0871, 0\.00s old, `,
		`It hangs\.\n  failed: Get "http://127\.0\.0\.1:\d+": fusebox: gave up after 3 attempts: fusebox: attempt timed out after 100ms\n`,
		`1\.0871, \d\.\d[1-9]s old, after 0\.[3-9]`,
		`the breaker: closed → open: 5 failures in a row >= 5\n`,
		`  failed: Get "http://127\.0\.0\.1:\d+": fusebox: "127\.0\.0\.1:\d+" is open \(5 failures in a row >= 5\), retry in \d+ms\n1\.0871, \d\.\d+s old, after 0\.0`,
		`It answers again\.\n`,
		`the breaker: open → half-open: open period over\n`,
		`the breaker: half-open → closed: 3 probes succeeded\n1\.0871, 0\.00s old, after 0\.\d+s\n$`,
	}, `.*`)
	if !regexp.MustCompile(story).MatchString(out.String()) {
		t.Errorf("output is not\n%s\nbut\n%s", story, out.String())
	}
	if strings.Contains(out.String(), "no answer") {
		t.Errorf("a call has gone without an answer:\n%s", out.String())
	}
}

func TestAnInterruptEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := run(ctx, &out); !errors.Is(err, context.Canceled) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestAnErrorPageIsNoRate(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	rate, err := fetch(t.Context(), http.DefaultClient, server.URL)
	var status *fuseboxhttp.StatusError
	if !errors.As(err, &status) || status.StatusCode != http.StatusNotFound || rate != (Rate{}) {
		t.Errorf("%v, %v", rate, err)
	}
}

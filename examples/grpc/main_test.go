package main

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestTheExample(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	story := `(?s)` + strings.Join([]string{
		`^All is well\.\nSERVING\n`,
		`The database is gone\.\n(failed: rpc error: code = Unavailable desc = no database\n){2}`,
		`  /grpc\.health\.v1\.Health/Check: closed → open: 3 failures in a row >= 3\n`,
		`rejected there: rpc error: code = Unavailable desc = fusebox: "/grpc\.health\.v1\.Health/Check" is open \(.*\), retry in \d+ms\n`,
		`  127\.0\.0\.1:\d+: closed → open: 5 failures in a row >= 5\n`,
		`It is back\. .*\nrejected here: fusebox: "127\.0\.0\.1:\d+" is open \(5 failures in a row >= 5\), retry in `,
		`  127\.0\.0\.1:\d+: open → half-open: open period over\n`,
		`  /grpc\.health\.v1\.Health/Check: half-open → closed: 3 probes succeeded\n`,
		`  127\.0\.0\.1:\d+: half-open → closed: 3 probes succeeded\nSERVING\n7 of these calls reached the service\.\n$`,
	}, `.*`)
	if n := strings.Count(out.String(), "rejected here"); n != 1 {
		t.Errorf("%d calls rejected here: the client has not waited as it was told", n)
	}
	if !regexp.MustCompile(story).MatchString(out.String()) {
		t.Errorf("output is not\n%s\nbut\n%s", story, out.String())
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

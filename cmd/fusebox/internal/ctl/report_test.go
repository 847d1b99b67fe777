package ctl

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
)

func contents(tb testing.TB, file string) string {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// files are those of a folder.
func files(tb testing.TB, folder string) string {
	tb.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestAReportIsWrittenToAFile(t *testing.T) {
	t.Parallel()
	a := newAdmin(t, "search")
	trip(t, a.breaker("payments", fusebox.Config{}), errors.New("connection refused"))
	folder := t.TempDir()
	file := filepath.Join(folder, "incident.html")
	for _, old := range []string{"", "an older report, longer than nothing"} {
		if old != "" {
			if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ctl(t, "report", "--target", a.url, "-o", file).ended(0).complains(a.url + ": written to " + file)
		text := contents(t, file)
		for _, want := range []string{"<!doctype html>", `"api/breakers/payments":{`, `"api/breakers/search":{`, `"api/history":{`, "connection refused", `"cause":"consecutive"`} {
			if !strings.Contains(text, want) {
				t.Errorf("the file lacks %q", want)
			}
		}
		if got := files(t, folder); got != "incident.html" {
			t.Errorf("the folder has %q", got)
		}
	}
}

func TestAReportThatFailsLeavesTheOldFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "incident.html")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	breaksOff := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/breakers" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"breakers":[{"path":"api/breakers/a"}]}`)
	})
	ctl(t, "report", "--target", nobody(t), "-o", file).ended(1).complains("connection refused")
	ctl(t, "report", "--target", breaksOff, "-o", file).ended(1).complains("503 Service Unavailable")
	if text := contents(t, file); text != "old" {
		t.Errorf("the old file is now %q", text)
	}
	if got := files(t, folder); got != "incident.html" {
		t.Errorf("the folder has %q", got)
	}
	ctl(t, "report", "--target", newAdmin(t).url, "-o", filepath.Join(folder, "none", "x.html")).ended(1).complains("no such file or directory")
}

func TestReportsOfSeveralTargetsHaveFilesOfTheirOwn(t *testing.T) {
	t.Parallel()
	a := newAdmin(t, "payments")
	_, path := newSocket(t, "search")
	folder := t.TempDir()
	o := ctl(t, "report", "--target", a.url, "--target", "unix:"+path, "--target", nobody(t), "-o", filepath.Join(folder, "incident.html")).ended(3)
	o.complains("connection refused")
	first := filepath.Join(folder, "incident-"+asFileName(strings.TrimPrefix(a.url, "http://"))+".html")
	second := filepath.Join(folder, "incident-"+asFileName(path)+".html")
	for file, name := range map[string]string{first: "payments", second: "search"} {
		o.complains("written to " + file)
		if !strings.Contains(contents(t, file), `"api/breakers/`+name+`":{`) {
			t.Errorf("%s lacks the breaker %s", file, name)
		}
	}
	if got := files(t, folder); len(strings.Fields(got)) != 2 {
		t.Errorf("the folder has %q", got)
	}
	two := []*target{{name: "http://a:1"}, {name: "https://a:1"}, {name: "unix:/a/b c"}}
	names := fileNames("x/y.html", two)
	if names[two[0]] != "x/y-a-1.html" || names[two[1]] != "x/y-a-1-2.html" || names[two[2]] != "x/y-a-b-c.html" {
		t.Errorf("the files are %v", names)
	}
}

func TestAReportNeedsAFile(t *testing.T) {
	t.Parallel()
	ctl(t, "report", "--target", nobody(t)).ended(2).complains("-o must name a file")
	ctl(t, "report", "--target", nobody(t), "-o", "x", "y").ended(2)
}

package accesslog_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/accesslog"
)

func open(t *testing.T, path string) *accesslog.Log {
	t.Helper()
	l, err := accesslog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func read(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func TestALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l := open(t, path)
	at := time.Date(2026, 5, 4, 12, 11, 12, 345_678_901, time.FixedZone("", 7200))
	l.Write(&accesslog.Record{
		Start: accesslog.Time{Time: at}, End: accesslog.Time{Time: at.Add(1500 * time.Microsecond)}, Method: "GET",
		Host: "a\"b\n", Path: "/<x>\xff", Status: 200, Bytes: 3, Upstream: "u", Endpoint: "e", Attempts: 2,
		Outcome: "success", Fallback: "fixed", Breaker: "b", State: fusebox.HalfOpen, Probe: true,
		Duration: accesslog.Milliseconds(1500 * time.Microsecond),
	})
	want := `{"start":"2026-05-04T10:11:12.345Z","end":"2026-05-04T10:11:12.347Z","method":"GET","host":"a\"b\n",` +
		`"path":"/<x>` + "\\ufffd" + `","status":200,"bytes":3,"upstream":"u","endpoint":"e","attempts":2,"outcome":"success",` +
		`"fallback":"fixed","breaker":"b","state":"half-open","probe":true,"duration_ms":1.500}`
	if got := read(t, path); len(got) != 1 || got[0] != want {
		t.Errorf("line\n%s\nwant\n%s", got, want)
	}
}

func TestNoLineIsLostOrTornByARotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l := open(t, path)
	const writers, each, rotations = 8, 200, 20
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for j := range each {
				l.Write(&accesslog.Record{Method: fmt.Sprintf("%d-%d", i, j), Path: strings.Repeat("/x", 100)})
			}
		})
	}
	for i := range rotations {
		if err := os.Rename(path, fmt.Sprintf("%s.%d", path, i)); err != nil {
			t.Fatal(err)
		}
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	seen := map[string]bool{}
	files, _ := filepath.Glob(path + "*")
	for _, f := range files {
		for _, line := range read(t, f) {
			if line == "" {
				continue // an empty file
			}
			var r struct{ Method string }
			if err := json.Unmarshal([]byte(line), &r); err != nil || seen[r.Method] {
				t.Fatalf("line %q: %v", line, err)
			}
			seen[r.Method] = true
		}
	}
	if len(seen) != writers*each || len(files) != rotations+1 || l.Dropped() != 0 {
		t.Errorf("%d lines in %d files, %d dropped, want %d in %d", len(seen), len(files), l.Dropped(), writers*each, rotations+1)
	}
}

// To a pipe a goroutine writes: a line that comes while it ends is written, or counted.
func TestARotationOfAPipeAccountsForEveryLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got atomic.Uint64
	over := make(chan struct{})
	go func() {
		defer close(over)
		for in := bufio.NewScanner(reader); in.Scan(); {
			got.Add(1)
		}
	}()
	l := open(t, path)
	const rounds, writers, each = 300, 4, 8
	for range rounds {
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for range each {
					l.Write(&accesslog.Record{})
				}
			})
		}
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
		all.Wait()
	}
	l.Close()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for got.Load()+l.Dropped() < rounds*writers*each {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%d lines written, %d read, %d dropped", rounds*writers*each, got.Load(), l.Dropped())
		}
	}
	reader.Close()
	<-over
}

func TestAFileThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	if _, err := accesslog.Open(filepath.Join(dir, "none", "x")); err == nil {
		t.Error("no error")
	}
	path := filepath.Join(dir, "x")
	l := open(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil {
		t.Error("a folder is opened")
	}
	l.Write(&accesslog.Record{}) // to the file there was
	if l.Dropped() != 0 {
		t.Error("the log is closed by a Reopen that fails")
	}
	l.Close()
	l.Write(&accesslog.Record{})
	if l.Dropped() != 1 {
		t.Errorf("%d dropped, want 1", l.Dropped())
	}
	for _, name := range []string{"stdout", "stderr"} {
		s := open(t, name)
		if err := s.Reopen(); err != nil {
			t.Error(err)
		}
	}
}

func TestAPipeThatNobodyReadsIsAnError(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := accesslog.Open(pipe); !errors.Is(err, syscall.ENXIO) {
		t.Fatalf("without a reader: %v", err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	l, err := accesslog.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	l.Write(&accesslog.Record{Method: "GET"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if line, err := io.ReadAll(reader); err != nil || !strings.Contains(string(line), `"GET"`) {
		t.Errorf("read %q, %v", line, err)
	}
}

// The reader of a pipe may stop: requests do not stop with it.
func TestAReaderThatStopsHoldsNobodyUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0) // so that no open waits for another
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	l := open(t, path)
	r := &accesslog.Record{Path: strings.Repeat("x", 16_000)}
	const n = 1000
	for range n { // of which a pipe and the queue take a part
		l.Write(r)
	}
	dropped := l.Dropped()
	if dropped == 0 || dropped > n-200 {
		t.Errorf("%d of %d lines are dropped", dropped, n)
	}
	lines := bufio.NewReader(reader)
	for range n - int(dropped) { // whole, and all that were not dropped
		line, err := lines.ReadBytes('\n')
		var got struct{ Path string }
		if err == nil {
			err = json.Unmarshal(line, &got)
		}
		if err != nil || got.Path != r.Path {
			t.Fatalf("line %q: %v", line, err)
		}
	}
	l.Write(r)
	if l.Dropped() != dropped {
		t.Error("a line is dropped although the reader goes on")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := lines.ReadBytes('\n'); err != nil {
		t.Errorf("the last line is lost by Close: %v", err)
	}
	l.Write(r)
	if l.Dropped() != dropped+1 {
		t.Error("a line after Close is not dropped")
	}
}

func TestCloseDoesNotWaitForAReaderThatHasStopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	l := open(t, path)
	for range 100 {
		l.Write(&accesslog.Record{Path: strings.Repeat("x", 1000)})
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

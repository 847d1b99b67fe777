package reload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

const deadline = 30 * time.Second

// rig is a Reloader that runs, and what it has done.
type rig struct {
	*Reloader
	tb   testing.TB
	file string
	logs lockedBuffer

	mu      sync.Mutex
	applied []int // min-calls of each configuration
	refuse  error
	told    []Result
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func text(minCalls int) string {
	return fmt.Sprintf("upstreams:\n  a:\n    endpoints: [\"http://127.0.0.1:1\"]\n    breaker: {min-calls: %d}\n", minCalls)
}

func put(tb testing.TB, file, text string) {
	tb.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// newRig starts with min-calls 1. change may set up the Reloader before it runs.
func newRig(t *testing.T, change func(*Reloader)) *rig {
	t.Helper()
	g := &rig{tb: t, file: filepath.Join(t.TempDir(), "fusebox.yaml")}
	put(t, g.file, text(1))
	c, err := config.Load(g.file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Reloader = New(c, Options{
		Path: g.file, Restart: []string{"listen"}, Logger: slog.New(slog.NewTextHandler(&g.logs, nil)),
		Apply: func(_, after *config.Config) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.refuse != nil {
				return g.refuse
			}
			g.applied = append(g.applied, after.Upstreams["a"].Breaker.MinCalls)
			return nil
		},
		Told: func(_ string, r Result) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.told = append(g.told, r)
		},
	})
	if change != nil {
		change(g.Reloader)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		g.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return g
}

func (g *rig) last() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.applied) == 0 {
		return 0
	}
	return g.applied[len(g.applied)-1]
}

func (g *rig) has(minCalls int) {
	g.tb.Helper()
	g.until(fmt.Sprintf("min-calls is %d", minCalls), func() bool { return g.last() == minCalls })
}

func (g *rig) until(what string, so func() bool) {
	g.tb.Helper()
	timeout := time.After(deadline)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-timeout:
			g.tb.Fatalf("never so: %s\n%s", what, g.logs.String())
		}
	}
}

func (g *rig) setRefuse(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse = err
}

// What changed between reading at the start and the beginning of the watch is
// not missed.
func TestAChangeBeforeTheWatchIsNoticed(t *testing.T) {
	g := newRig(t, func(r *Reloader) { put(t, r.o.Path, text(2)) })
	g.has(2)
}

func TestApplyMayRefuse(t *testing.T) {
	g := newRig(t, func(r *Reloader) { r.interval = 20 * time.Millisecond })
	g.has(1) // the reading at the start
	refusal := errors.New("not this one")
	g.setRefuse(refusal)
	put(t, g.file, text(2))
	if r := g.Reload(t.Context(), "test"); !errors.Is(r.Err, refusal) {
		t.Errorf("the result is %v", r.Err)
	}
	s := g.Status()
	if !errors.Is(s.Err, refusal) || s.FailedAt.IsZero() || s.Config.Upstreams["a"].Breaker.MinCalls != 1 {
		t.Errorf("status %+v", s)
	}
	// What it waited for is there, and nobody touches the file.
	g.setRefuse(nil)
	g.has(2)
	g.until("the error is gone", func() bool { return g.Status().Err == nil })
	g.until("it is told", func() bool { // after the status
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.told) > 1
	})
	if n := strings.Count(g.logs.String(), "not this one"); n != 1 {
		t.Errorf("the failure is logged %d times:\n%s", n, g.logs.String())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.told) != 2 || !errors.Is(g.told[0].Err, refusal) || g.told[1].Err != nil || !slices.Equal(Paths(g.told[1].Changes), []string{"upstreams.a.breaker.min-calls"}) {
		t.Errorf("told %+v", g.told)
	}
}

// A list that needs a restart is one setting, whichever of its items differ.
func TestAListMayNeedARestart(t *testing.T) {
	g := newRig(t, func(r *Reloader) { r.o.Restart = []string{"listen", "admin.hosts"} })
	put(t, g.file, "admin: {hosts: [a, b]}\n"+text(2))
	g.has(2)
	g.until("it waits for a restart", func() bool { return slices.Equal(g.Status().Restart, []string{"admin.hosts"}) })
}

// Some file systems tell of no changes.
func TestFilesAreComparedWithoutEvents(t *testing.T) {
	var buffer lockedBuffer
	w := newWatch(filepath.Join(t.TempDir(), "fusebox.yaml"), 10*time.Millisecond, slog.New(slog.NewTextHandler(&buffer, nil)))
	defer w.close()
	put(t, w.path, text(1))
	c, err := config.Load(w.path, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = w.fs.Close() // no events any more
	w.look(c)
	put(t, w.path, text(2))
	select {
	case <-w.tick():
	case <-time.After(deadline):
		t.Fatal("nothing ticks")
	}
	if !w.look(c) {
		t.Error("the change is not seen")
	}
	if w.look(c) {
		t.Error("a change is seen where there was none")
	}
}

// A bad file may wait for a file that it names, and that nothing in effect names.
func TestAFileThatABadConfigurationNamesIsWatched(t *testing.T) {
	g := newRig(t, nil)
	g.has(1)
	missing := filepath.Join(t.TempDir(), "endpoint")
	put(t, g.file, strings.ReplaceAll(text(2), "http://127.0.0.1:1", "${file:"+missing+"}"))
	g.until("the file is bad", func() bool { return g.Status().Err != nil })
	put(t, missing, "http://127.0.0.1:2")
	g.has(2)
}

func TestAPipeIsReadOnce(t *testing.T) {
	g := newRig(t, func(r *Reloader) {
		pipe := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		made := New(r.started, Options{Path: pipe})
		r.once, r.o.Path = made.once, pipe
	})
	if r := g.Reload(t.Context(), "test"); !errors.Is(r.Err, errOnce) {
		t.Errorf("the result is %v", r.Err)
	}
}

func TestReloadsOfOthersEndWithTheirContextOrTheProgram(t *testing.T) {
	c, err := config.Load("", nil, []config.Flag{{Name: "--upstream", Path: "upstreams.a.endpoints", Value: "http://a"}})
	if err != nil {
		t.Fatal(err)
	}
	r := New(c, Options{Apply: func(_, _ *config.Config) error { return nil }})
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if got := r.Reload(gone, "test"); !errors.Is(got.Err, context.Canceled) {
		t.Errorf("nobody runs it: %v", got.Err)
	}
	r.Run(gone)
	if got := r.Reload(context.Background(), "test"); !errors.Is(got.Err, ErrStopped) {
		t.Errorf("it has ended: %v", got.Err)
	}
}

func TestWithoutAFileThereIsNothingToWatch(t *testing.T) {
	c, err := config.Load("", nil, []config.Flag{{Name: "--upstream", Path: "upstreams.a.endpoints", Value: "http://a"}})
	if err != nil {
		t.Fatal(err)
	}
	applied := 0
	r := New(c, Options{Flags: []config.Flag{{Name: "--upstream", Path: "upstreams.a.endpoints", Value: "http://a"}}, Apply: func(_, _ *config.Config) error {
		applied++
		return nil
	}})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		r.Run(ctx)
		close(done)
	}()
	got := r.Reload(context.Background(), "test")
	stop()
	<-done
	if got.Err != nil || !got.Changes.Empty() || applied != 1 {
		t.Errorf("%+v, applied %d times", got, applied)
	}
}

func TestDescribe(t *testing.T) {
	c := config.Changes{Added: []string{"b"}, Removed: []string{"c"}, Changed: map[string][]string{"a": {"breaker.probes", "endpoints[0]"}}, Other: []string{"listen"}}
	if got, want := Describe(c), "+upstreams.b, -upstreams.c, listen, upstreams.a.breaker.probes, upstreams.a.endpoints[0]"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := Describe(config.Changes{}); got != "none" {
		t.Errorf("nothing is %q", got)
	}
	var many config.Changes
	for i := range 30 {
		many.Added = append(many.Added, fmt.Sprint("u", i))
	}
	if got := Describe(many); !strings.HasSuffix(got, "+upstreams.u9 and 20 more") {
		t.Errorf("many are %q", got)
	}
}

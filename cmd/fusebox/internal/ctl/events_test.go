package ctl

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

// following is a run of the program that goes on until it is ended.
type following struct {
	testing.TB
	out, err text
	stop     context.CancelFunc
	end      func() int
}

func follow(tb testing.TB, args ...string) *following {
	tb.Helper()
	return followOn(tb, nil, args...)
}

// followOn is follow with an output of its own, if not nil.
func followOn(tb testing.TB, out io.Writer, args ...string) *following {
	tb.Helper()
	f := &following{TB: tb}
	if out == nil {
		out = &f.out
	}
	ctx, stop := context.WithCancel(tb.Context())
	f.stop, f.end = stop, start(tb, ctx, out, &f.err, args...)
	tb.Cleanup(stop)
	return f
}

// sees waits for texts in the output.
func (f *following) sees(texts ...string) {
	f.Helper()
	for _, t := range texts {
		soon(f, fmt.Sprintf("there is no %q in %s%s", t, f.out.String(), f.err.String()), func() bool { return strings.Contains(f.out.String(), t) })
	}
}

func (f *following) connected(n int) {
	f.Helper()
	soon(f, "not connected", func() bool { return strings.Count(f.err.String(), ": connected\n") >= n })
}

// over ends the run, and checks the exit code.
func (f *following) over(code int) {
	f.Helper()
	f.stop()
	if got := f.end(); got != code {
		f.Errorf("the exit code is %d, want %d: %s%s", got, code, f.out.String(), f.err.String())
	}
}

func TestEventsAreSentences(t *testing.T) {
	t.Setenv("FUSEBOX_TOKEN", token)
	a, b := newAdmin(t), newAdmin(t, "payments")
	search := a.breaker("search\x1b", fusebox.Config{})
	f := follow(t, "events", "--target", a.url, "--target", b.url)
	f.connected(2)
	trip(t, search, errors.New("\x1b[2Jdown"))
	f.sees(a.url+"  20", `"search\x1b" closed -> open: failure rate 1.00`, `last error: \x1b[2Jdown`)
	ctl(t, "force-open", "payments", "--reason", "a \nreason", "--by", "ann", "--target", b.url).ended(0)
	f.sees(b.url+"  20", `payments closed -> open: force-open by ann: a \nreason; until `, `payments force-open for 15m0s by ann from 127.0.0.1:`)
	ctl(t, "lift", "payments", "--reason", "r", "--target", b.url).ended(0)
	f.sees("payments open -> half-open: override lifted by ", "payments lift by ")
	if strings.Contains(f.out.String(), "\x1b") {
		t.Errorf("an escape sequence came through: %q", f.out.String())
	}
	f.over(0)
}

func TestEventsOfTheProgramAreSentences(t *testing.T) {
	s := &style{zone: time.UTC}
	for _, c := range [][3]string{
		{"audit", `{"action": "reload", "name": "", "remote": "10.0.0.1:5", "status": 200}`, "reload from 10.0.0.1:5"},
		{"audit", `{"action": "reload", "name": "", "by": "ann", "reason": "r\u001b", "remote": "10.0.0.1:5"}`, `reload by ann from 10.0.0.1:5: r\x1b`},
		{"reload", `{"cause": "SIGHUP", "success": true, "changes": "listen, +upstreams.a", "restart": ["listen"]}`, "configuration reloaded (SIGHUP), changes: listen, +upstreams.a; holds only after a restart: listen"},
		{"reload", `{"cause": "c", "success": false, "errors": [{"path": "x", "file": "f", "line": 1, "column": 2, "message": "is no\u001b"}]}`, `reload failed (c): the configuration is as before: f:1:2: x is no\x1b`},
		{"reload", `{"of": "another program"}`, `reload {"of": "another program"}`},
	} {
		if _, got := eventText(s, sse.Event{Type: c[0], Data: c[1]}); got != c[2] {
			t.Errorf("%s: %q, want %q", c[1], got, c[2])
		}
	}
}

func TestEventsAsJSONLines(t *testing.T) {
	a := newAdmin(t, "payments")
	f := follow(t, "events", "-o", "json", "--target", a.url)
	f.connected(1)
	b := a.breaker("search\u009b", fusebox.Config{})
	trip(t, b, errors.New("down"))
	f.sees(`"event":"transition"`)
	f.over(0)
	var last uint64
	lines := strings.Split(strings.TrimSuffix(f.out.String(), "\n"), "\n")
	for _, l := range lines {
		var e eventLine
		d := json.NewDecoder(strings.NewReader(l))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil || e.Target != a.url || e.ID <= last || strings.Contains(l, "\u009b") {
			t.Errorf("%q: %v", l, err)
		}
		last = e.ID
		if e.Event != "transition" {
			continue
		}
		var tr fuseboxadmin.Transition
		if err := json.Unmarshal(e.Data, &tr); err != nil || tr.Name != b.Name() {
			t.Errorf("%s: %v", e.Data, err)
		}
	}
}

func TestEventsCanBeNarrowed(t *testing.T) {
	a := newAdmin(t)
	pay, stock := a.breaker("pay/1", fusebox.Config{}), a.breaker("stock", fusebox.Config{})
	f := follow(t, "events", "pay/*", "--target", a.url)
	f.connected(1)
	trip(t, stock, errors.New("down"))
	trip(t, pay, errors.New("down"))
	f.sees("pay/1 closed -> open")
	f.over(0)
	if strings.Contains(f.out.String(), "stock") {
		t.Error(f.out.String())
	}
}

// cutter passes connections on to a server, and cuts each one off after so
// many bytes of answer.
func cutter(tb testing.TB, url string, after func(n int) int) (cutURL string, cuts *atomic.Int64) {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	cuts = new(atomic.Int64)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer in.Close()
				out, err := new(net.Dialer).DialContext(tb.Context(), "tcp", strings.TrimPrefix(url, "http://"))
				if err != nil {
					return
				}
				defer out.Close()
				wg.Go(func() {
					defer out.Close()
					_, _ = io.Copy(out, in)
				})
				if passed, _ := io.CopyN(in, out, int64(after(n))); passed == int64(after(n)) {
					cuts.Add(1)
				}
			})
		}
	})
	tb.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return "http://" + l.Addr().String(), cuts
}

func TestAStreamThatIsCutOffLosesAndDoublesNothing(t *testing.T) {
	a := newAdmin(t)
	b := a.breaker("payments", fusebox.Config{})
	// At any byte: in a header, in an id, between id and data, between two events.
	url, cuts := cutter(t, a.url, func(n int) int { return 3000 + 997*n%4001 })
	f := follow(t, "events", "--target", url)
	f.connected(1)
	const events = 150
	for i := range events {
		b.Override(fusebox.Shadow, fusebox.Note{Reason: fmt.Sprintf("<%d>", i)})
	}
	f.sees(fmt.Sprintf("<%d>", events-1))
	f.over(0)
	at := 0
	for _, l := range strings.Split(f.out.String(), "\n") {
		if !strings.Contains(l, "<") {
			continue
		}
		if !strings.Contains(l, fmt.Sprintf(": <%d>", at)) {
			t.Fatalf("event %d is %s", at, l)
		}
		at++
	}
	if at != events || cuts.Load() < 5 {
		t.Errorf("%d events with %d cuts, want %d with many", at, cuts.Load(), events)
	}
}

func TestHalfAnEventIsNone(t *testing.T) {
	from := make(chan string, 100)
	url := served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		last := r.Header.Get("Last-Event-ID")
		from <- last
		if last == "" { // and then an end as it should be
			fmt.Fprint(w, "id: 4\ndata: whole\n\nid: 5\nevent: half\n")
			return
		}
		fmt.Fprint(w, "id: 5\ndata: other\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	f := follow(t, "events", "--target", url)
	f.sees("whole", "other")
	f.over(0)
	if first, second := <-from, <-from; first != "" || second != "4" || strings.Contains(f.out.String(), "half") {
		t.Errorf("it came back from %q, %q, and printed %s", first, second, f.out.String())
	}
}

func TestEventsThatAreLostAreTold(t *testing.T) {
	first, second := newHandler(t, "payments"), newHandler(t, "payments")
	var now atomic.Pointer[admin]
	now.Store(first)
	a := &admin{TB: t}
	a.url = served(t, func(w http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(w, r) })
	f := follow(t, "events", "--target", a.url)
	f.connected(1)
	t.Cleanup(second.Close)
	now.Store(second) // the program begins anew
	first.Close()
	f.sees("events are lost")
	f.connected(2)
	f.over(0)
	if n := strings.Count(f.out.String(), "events are lost"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

func TestSinceIDBeginsAfterAnEvent(t *testing.T) {
	a, other := newAdmin(t), newAdmin(t)
	b := a.breaker("payments", fusebox.Config{})
	var ids []uint64
	for i := range 3 {
		b.Override(fusebox.Shadow, fusebox.Note{Reason: fmt.Sprintf("<%d>", i)})
		ids = append(ids, decode[fuseboxadmin.List](ctl(t, "ls", "-o", "json", "--target", a.url))[0].Data.LastEventID)
	}
	f := follow(t, "events", "--since-id", strconv.FormatUint(ids[0], 10), "--target", a.url)
	f.sees("<1>", "<2>")
	f.over(0)
	if strings.Contains(f.out.String(), "<0>") {
		t.Error(f.out.String())
	}
	f = follow(t, "events", "--since-id", "0", "--target", a.url)
	f.sees("events are lost")
	f.over(0)
	ctl(t, "events", "--since-id", "x", "--target", a.url).ended(2)
	ctl(t, "events", "--since-id", "1", "--target", a.url, "--target", other.url).ended(2).complains("of one target")
}

func TestEventsOfTargetsThatFail(t *testing.T) {
	a := newAdmin(t)
	b := a.breaker("payments", fusebox.Config{})
	page := served(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	refuses := served(t, http.NotFound)
	huge := served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 1\ndata: ")
		for range 3 << 10 {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	})
	ctl(t, "events", "--target", page, "--target", refuses).ended(1).complains("no stream of events", "404 Not Found")
	down := nobody(t)
	f := follow(t, "events", "--target", page, "--target", a.url, "--target", down, "--target", huge)
	soon(t, "it is not followed", func() bool { return strings.Contains(f.err.String(), a.url+": connected") })
	trip(t, b, errors.New("down")) // those that fail keep nobody from this one
	f.sees("payments closed -> open")
	soon(t, "no word about the one that is down", func() bool { return strings.Contains(f.err.String(), down+": ") })
	soon(t, "an event of any length is taken", func() bool {
		return strings.Contains(f.err.String(), huge+": the stream has ended: bufio.Scanner: token too long")
	})
	f.over(3)
	f = follow(t, "events", "--target", a.url, "--target", down)
	f.connected(1)
	soon(t, "no word about the one that is down", func() bool { return strings.Contains(f.err.String(), down+": ") })
	f.over(3)
	ctl(t, "events", "x", "--nonsense").ended(2)
}

func TestEventsThatAreGarbageAreShownAsTheyAre(t *testing.T) {
	url := served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 5\nevent: transition\ndata: \x1b[2J\n\nid: 6\nevent: odd\ndata: {\"a\":1}\n\nid: x\ndata: last\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	f := follow(t, "events", "--target", url)
	f.sees(`transition \x1b[2J`, `odd {"a":1}`, "last")
	f.over(0)
	f = follow(t, "events", "-o", "json", "--target", url)
	f.sees(`"data":"\u001b[2J"`, `"id":6,"event":"odd","data":{"a":1}`)
	f.over(0)
}

func TestAStreamThatFallsSilentIsTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		s := bubble()
		var quiet atomic.Bool
		s.targets = []*target{{name: "t", base: "http://t", client: &http.Client{Transport: silent{&asked, &quiet}}}}
		ctx, cancel := context.WithCancel(t.Context())
		var notes text
		f := follower{s: s, t: s.targets[0], note: func(text string) { fmt.Fprintln(&notes, text) }}
		done := make(chan error)
		go func() { done <- f.run(ctx) }()
		time.Sleep(5 * time.Minute)
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times while all was well", n)
		}
		quiet.Store(true)
		time.Sleep(silence - 16*time.Second)
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times too early", n)
		}
		time.Sleep(30 * time.Second)
		if n := asked.Load(); n != 2 || !strings.Contains(notes.String(), "nothing has come for 45s") {
			t.Errorf("asked %d times: %s", n, notes.String())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// silent answers with a stream on which only heartbeats come, until it is quiet.
type silent struct {
	asked *atomic.Int64
	quiet *atomic.Bool
}

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	in, out := io.Pipe()
	context.AfterFunc(r.Context(), func() { out.CloseWithError(r.Context().Err()) })
	go func() {
		tick := time.NewTicker(15 * time.Second)
		defer tick.Stop()
		for !s.quiet.Load() {
			if _, err := io.WriteString(out, ": still here\n\n"); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: in, Request: r}, nil
}

// program starts the test as the program itself.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, out io.ReadCloser, errs *text) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "CTL_TEST_PROGRAM=1")
	errs = new(text)
	cmd.Stderr = errs
	if out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out, errs
}

func TestEventsEndCleanlyWhenInterrupted(t *testing.T) {
	a := newAdmin(t, "payments")
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		for _, command := range []string{"events", "watch"} {
			cmd, _, errs := program(t, command, "--target", a.url)
			soon(t, "not connected", func() bool { return strings.Contains(errs.String(), "connected") })
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s after %v: %v: %s", command, s, err, errs.String())
			}
		}
	}
}

func TestEventsEndCleanlyWhenNobodyReads(t *testing.T) {
	a := newAdmin(t)
	b := a.breaker("payments", fusebox.Config{})
	cmd, out, errs := program(t, "events", "--target", a.url)
	soon(t, "not connected", func() bool { return strings.Contains(errs.String(), "connected") })
	b.Override(fusebox.Shadow, fusebox.Note{})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	out.Close()
	b.Override(fusebox.Enforce, fusebox.Note{})
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, errs.String())
	}
}

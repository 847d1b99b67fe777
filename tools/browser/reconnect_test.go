package browser_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// lossy are errors that a browser notes where connections are cut.
var lossy = []string{"ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE", "ERR_ABORTED", "Failed to fetch"}

// publish publishes the events "n1", "n2" …, from one on.
func publish(s *stage, from, to int) {
	s.Helper()
	for i := from; i <= to; i++ {
		if err := s.admin.Publish("test", fmt.Sprintf("n%d", i)); err != nil {
			s.Fatal(err)
		}
	}
}

// once reports whether the list of changes has the events up to "n…", each once.
func once(p *tab, to int) func() bool {
	return func() bool {
		p.Helper()
		got := published(p)
		for name, times := range got {
			if times != 1 {
				p.Fatalf("%s is there %d times", name, times)
			}
		}
		return len(got) == to
	}
}

// torn passes on so many events of a stream, half of the next one, and then resets
// the connection.
type torn struct {
	http.ResponseWriter
	after int
}

func (w *torn) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *torn) Write(p []byte) (int, error) {
	if events := bytes.Count(p, []byte("\ndata: ")); events < w.after {
		w.after -= events
		return w.ResponseWriter.Write(p)
	}
	rest := p
	for range w.after {
		at := bytes.Index(rest, []byte("\ndata: "))
		rest = rest[at+len("\ndata: "):]
	}
	_, _ = w.ResponseWriter.Write(p[:len(p)-len(rest)+2]) // in the middle of its data
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	<-time.After(200 * time.Millisecond) // a reset takes back what has not been read
	hangUp(w.ResponseWriter)
	return 0, io.ErrClosedPipe
}

func TestAStreamThatIsTornInTheMiddleOfAnEventLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var streams, tears atomic.Int32
	url := behind(s, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/events" {
			return false
		}
		streams.Add(1)
		if tears.Load() < 3 {
			tears.Add(1)
			w = &torn{w, 3}
		}
		s.handler.ServeHTTP(w, r)
		return true
	})
	p := open(t, url, "/#/changes")
	p.expect(lossy...)
	p.reads("#status", "Live")
	publish(s, 1, 20) // torn in the third, then in the fifth …
	p.until("events are missing", once(p, 20))
	p.reads("#status", "Live")
	publish(s, 21, 24)
	p.until("events are missing at the end", once(p, 24))
	if n := streams.Load(); n != 4 {
		t.Errorf("there were %d streams, want 3 that were torn and one more", n)
	}
}

// gate holds back what is written while it is closed.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if open {
		close(g.open)
	} else {
		g.open = make(chan struct{})
	}
}

func (g *gate) wait(r *http.Request) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
	case <-r.Context().Done():
	}
}

type held struct {
	http.ResponseWriter
	r *http.Request
	g *gate
}

func (w *held) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *held) Write(p []byte) (int, error) {
	w.g.wait(w.r)
	return w.ResponseWriter.Write(p)
}

func TestWhatHistoryAndStreamTellCountsOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", tripping())
	g := &gate{open: make(chan struct{})}
	g.set(true)
	url := behind(s, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/api/events" {
			w = &held{w, r, g}
		}
		s.handler.ServeHTTP(w, r)
		return true
	})
	p := open(t, url, "/#/changes")
	p.reads("#status", "Live")
	publish(s, 1, 3)
	p.until("the stream does not tell", once(p, 3))
	g.set(false)
	publish(s, 4, 8)
	calls(b, 24, 41)
	p.click("button", "6 h") // the history is asked for
	p.until("the history does not tell", once(p, 8))
	g.set(true)
	p.reads("h1", "1 breaker open")
	publish(s, 9, 9)
	p.until("what both have told is not there once", once(p, 9))
	eval[any](p, "location.hash = '#/breaker/payments', null")
	p.reads("fb-detail", "In the last 6 h: open once")
}

func TestAfterAListThatFailedTheConnectionIsThereAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var fail atomic.Bool
	url := behind(s, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/breakers" || r.URL.Query().Has("only") || !fail.Load() {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":503,"error":"8 lists are being sent already"}`)
		return true
	})
	p := open(t, url, "/")
	p.expect("status of 503")
	p.reads("#status", "Live")
	fail.Store(true)
	s.breaker("payments", tripping())
	p.reads("#lost", "Connection lost, showing data from ", "The server says: 8 lists are being sent already. Trying again.")
	fail.Store(false)
	p.reads("fb-list", "payments")
	p.reads("#status", "Live")
	if text := p.text("#lost"); text != "" {
		t.Errorf("it still says %q", text)
	}
}

// Whatever refuses the stream, the page says why, and goes on without it.
func TestAStreamThatIsRefusedSaysWhy(t *testing.T) {
	t.Parallel()
	for status, says := range map[int]string{
		http.StatusUnauthorized:        `{"error":"log in first"}`,
		http.StatusForbidden:           `{"error":"cross-origin request"}`,
		http.StatusMisdirectedRequest:  `{"error":"the host is not one that is served here"}`,
		http.StatusServiceUnavailable:  `{"error":"all 64 event streams are taken"}`,
		http.StatusInternalServerError: "<h1>an error of a proxy</h1>",
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			b := s.breaker("payments", tripping())
			url := behind(s, func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/api/events" {
					return false
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, says)
				return true
			})
			p := open(t, url, "/")
			p.expect("status of")
			why := "the answer was 500 Internal Server Error"
			if strings.HasPrefix(says, "{") {
				_, why, _ = strings.Cut(strings.TrimSuffix(says, `"}`), `:"`)
			}
			p.reads("#lost", "Connection lost, showing data from ", "The server says: "+why+". Trying again.")
			calls(b, 24, 41)
			s.breaker("search", fusebox.Config{})
			p.reads("h1", "1 breaker open") // without a stream it lists them now and then
			p.reads("fb-list", "search")
		})
	}
}

// One worker serves all tabs. If it dies, or hangs, each tab notices, says so, and
// has a stream of its own that goes on where the worker's has ended.
func TestAWorkerThatIsNoMoreIsNoticed(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{
		"dies":  "self.close();",
		"hangs": "const x = new XMLHttpRequest(); x.open('GET', 'hang', false); x.send();",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			b := s.breaker("payments", tripping())
			// The worker of the page, which asks when its time has come.
			ended := make(chan struct{})
			url := behind(s, func(w http.ResponseWriter, r *http.Request) bool {
				switch r.URL.Path {
				case "/worker.js":
					script := newRecorder()
					r.Header.Del("Accept-Encoding")
					s.handler.ServeHTTP(script, r)
					w.Header().Set("Content-Type", "text/javascript")
					_, _ = io.WriteString(w, script.body.String()+"\nfetch('end').then(() => { "+end+" });\n")
				case "/end":
					select {
					case <-ended:
					case <-r.Context().Done():
					}
				case "/hang":
					<-r.Context().Done()
				default:
					return false
				}
				return true
			})
			p := open(t, url, "/#/changes")
			p.expect(lossy...)
			p.reads("#status", "Live")
			publish(s, 1, 3)
			p.until("the worker does not tell", once(p, 3))
			eval[any](p, `window.said = []; new MutationObserver(() => said.push(document.querySelector('#lost').textContent))
				.observe(document.querySelector('#lost'), { childList: true, characterData: true, subtree: true }), null`)
			close(ended)
			began := time.Now()
			// What it tells before it has ended it tells as well.
			p.until("the worker has not ended", func() bool { now, _ := s.listening(); return name == "hangs" || now == 0 })
			publish(s, 4, 8)
			calls(b, 24, 41)
			p.until("the page does not notice", func() bool {
				return eval[int](p, "said.filter((s) => s.startsWith('Connection lost, showing data from ')).length") > 0
			})
			t.Logf("noticed after %v", time.Since(began))
			p.reads("h1", "1 breaker open")
			p.reads("#status", "Live")
			p.until("events are missing", once(p, 8))
			publish(s, 9, 12)
			p.until("events are missing at the end", once(p, 12))
		})
	}
}

func TestTheWorkerIsNamedByTheVersion(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	version := "a"
	var mu sync.Mutex
	url := behind(s, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/" {
			return false
		}
		rec := newRecorder()
		r.Header.Del("Accept-Encoding")
		s.handler.ServeHTTP(rec, r)
		before, rest, _ := strings.Cut(rec.body.String(), `name="version" content="`)
		if len(rest) < 16 {
			t.Errorf("the page has no version: %s", before)
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, before+`name="version" content="`+version+rest[16:])
		return true
	})
	streams := func() int { now, _ := s.listening(); return now }
	p := open(t, url, "/")
	p.reads("#status", "Live")
	q := open(t, url, "/")
	q.reads("#status", "Live")
	if n := streams(); n != 1 {
		t.Errorf("two tabs of one version have %d streams", n)
	}
	mu.Lock()
	version = "b"
	mu.Unlock()
	r := open(t, url, "/")
	r.reads("#status", "Live")
	if n := streams(); n != 2 {
		t.Errorf("with a tab of another version there are %d streams, want 2", n)
	}
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func newRecorder() *recorder                    { return &recorder{header: http.Header{}} }
func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(int)             {}
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// One of two tabs is closed, the one that began the worker; the other goes on.
func TestATabOutlivesTheOneItSharesAStreamWith(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := open(t, s.url, "/#/changes")
	p.reads("#status", "Live")
	q := open(t, s.url, "/#/changes")
	q.reads("#status", "Live")
	publish(s, 1, 3)
	p.until("the first does not hear", once(p, 3))
	q.until("the second does not hear", once(q, 3))
	p.close()
	publish(s, 4, 6)
	q.until("the second does not hear any more", once(q, 6))
	if now, ever := s.listening(); now != 1 || ever != 1 {
		t.Errorf("there are %d streams, and have been %d", now, ever)
	}
	if status := q.text("#status"); status != "Live" {
		t.Errorf("the second says %q", status)
	}
}

// hasty makes the timers of a page a hundred times as fast, so that what takes 40 s
// takes 0.4 s; the connections are real.
const hasty = `(() => { const real = setTimeout; window.setTimeout = (f, ms, ...more) => real(f, ms / 100, ...more); })();
	window.news = [];
	import('/stream.js').then(({ Stream }) => { window.stream = new Stream('api/events', (n) => news.push(n)); void stream.run(0); return null; })`

// raw serves a stream of its own, under the name of that of the API.
func raw(t *testing.T, streaming func(n int32, w http.ResponseWriter, r *http.Request)) *tab {
	t.Helper()
	var n atomic.Int32
	files := http.FileServer(http.Dir("../../fuseboxadmin/page/assets"))
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/events":
			streaming(n.Add(1), w, r)
		case strings.HasSuffix(r.URL.Path, ".js"):
			files.ServeHTTP(w, r)
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<!doctype html><title>stream</title><link rel=icon href=data:,>")
		}
	}))
	p := open(t, url, "/")
	p.expect(lossy...)
	eval[any](p, hasty)
	return p
}

func TestAServerThatDoesNotAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	p := raw(t, func(n int32, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			<-r.Context().Done() // not even a head
			return
		}
		_, _ = io.WriteString(w, "id: 7\nevent: test\ndata: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	p.until("it waits for ever", func() bool {
		return strings.HasPrefix(eval[string](p, "JSON.stringify(news)"), `[{"type":"status","status":"lost","why":""},{"type":"status","status":"live"},{"type":"event","id":7,"kind":"test","data":1}`)
	})
}

// What watches over a connection ends with it: the next one stays for as long as the
// server says something, many times as long as the watch over the first.
func TestATimerOfACutConnectionDoesNotEndTheNext(t *testing.T) {
	t.Parallel()
	var streams atomic.Int32
	p := raw(t, func(n int32, w http.ResponseWriter, r *http.Request) {
		streams.Store(n)
		out := http.NewResponseController(w)
		_, _ = fmt.Fprintf(w, "id: %d\nevent: test\ndata: 1\n\n", n)
		_ = out.Flush()
		if n < 4 {
			hangUp(w)
			return
		}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = io.WriteString(w, ": still here\n\n")
				_ = out.Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	p.until("it does not come back", func() bool { return streams.Load() == 4 })
	beats := func() int { return eval[int](p, "news.filter((n) => n.type === 'beat').length") }
	before := beats()
	p.until("the server is not heard", func() bool { return beats() > before+100 }) // 2 s: five times the silence
	if n := streams.Load(); n != 4 {
		t.Errorf("there were %d streams, want 3 that were cut and one that stays", n)
	}
	if id := eval[int](p, "news.filter((n) => n.type === 'event').at(-1).id"); id != 4 {
		t.Errorf("the last event is %d", id)
	}
}

// And one on which nothing comes is ended.
func TestASilentConnectionIsEnded(t *testing.T) {
	t.Parallel()
	var streams atomic.Int32
	p := raw(t, func(n int32, w http.ResponseWriter, r *http.Request) {
		streams.Store(n)
		_, _ = io.WriteString(w, ": here\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	p.until("it trusts a dead connection", func() bool { return streams.Load() >= 3 })
	if n := eval[int](p, "news.filter((n) => n.status === 'lost').length"); n < 2 {
		t.Errorf("it is told %d times that the connection is lost", n)
	}
}

const eastward = "FUSEBOX_TEST_EAST"

// A server in another zone writes its times with an offset, "+09:00": those of
// events, and its own. Samples are asked for, and times shown, as elsewhere. The zone
// is that of the process, so it is another one.
func TestSamplesOfAServerEastOfUTC(t *testing.T) {
	if os.Getenv(eastward) == "" {
		t.Parallel()
		startBrowser(t) // skips where there is none
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSamplesOfAServerEastOfUTC$", "-test.v")
		cmd.Env = append(os.Environ(), "TZ=Asia/Tokyo", eastward+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: TestSamplesOfAServerEastOfUTC")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if _, offset := time.Now().Zone(); offset != 9*3600 {
		t.Fatalf("this process is %d s east of UTC", offset)
	}
	s := newStage(t)
	b := s.breaker("payments", tripping())
	publish(s, 1, 2)
	calls(b, 24, 41)
	p := open(t, s.url, "/#/changes")
	p.until("the events are not there", once(p, 2))
	p.reads("h1", "1 breaker open")
	p.mu.Lock()
	before := len(p.requests)
	p.mu.Unlock()
	p.until("samples are not asked for again", func() bool { // 10 s later, and after the last one
		p.mu.Lock()
		defer p.mu.Unlock()
		n := 0
		for _, r := range p.requests {
			if strings.Contains(r.url, "/api/history") {
				n++
			}
		}
		return n >= 3 && len(p.requests) > before
	})
	p.reads("fb-overview", "Calls")
	p.until("no sample is shown", func() bool { return !strings.Contains(p.text("fb-overview"), "Calls –") })
	if status := p.text("#status"); status != "Live" {
		t.Errorf("the page says %q", status)
	}
	when := time.Now().UTC()
	p.until("the time of a change is not the right one", func() bool {
		for back := range 3 {
			if strings.Contains(p.text("#changes"), when.Add(-time.Duration(back)*time.Minute).In(berlin(t)).Format("15:04:")) {
				return true
			}
		}
		return false
	})
}

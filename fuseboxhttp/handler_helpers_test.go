package fuseboxhttp_test

import (
	"bytes"
	"context"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

// handlerLab is a Handler whose breakers have a scripted clock, trip after
// three failures in a row, are open for 1 s and close after one good probe.
type handlerLab struct {
	testing.TB
	*fuseboxhttp.Handler
	clock   fuseboxtest.Clock
	config  fusebox.Config
	mu      sync.Mutex
	records []fusebox.Transition
	done    []fusebox.Completion
}

func newHandlerLab(tb testing.TB, h http.HandlerFunc) *handlerLab {
	tb.Helper()
	l := &handlerLab{TB: tb}
	l.config = fusebox.Config{Consecutive: 3, OpenJitter: -1, Probes: 1, Now: l.clock.Now}
	registry := &fusebox.Registry{Config: func(string) fusebox.Config { return l.config }, Now: l.clock.Now}
	registry.Observe(fusebox.Observer{
		Transition: func(t fusebox.Transition) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.records = append(l.records, t)
		},
		Finished: func(c fusebox.Completion) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.done = append(l.done, c)
		},
	})
	l.Handler = &fuseboxhttp.Handler{Handler: h, Registry: registry}
	return l
}

// breaker returns that of a handler without a route, of the only key there is.
func (l *handlerLab) breaker() *fusebox.Breaker { return l.Breakers().Get("/") }

func (l *handlerLab) totals() fusebox.Totals { return l.breaker().Snapshot().Totals }

func (l *handlerLab) last() fusebox.Completion {
	l.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.done) == 0 {
		l.Fatal("no call has finished")
	}
	return l.done[len(l.done)-1]
}

func (l *handlerLab) want(s fusebox.State) {
	l.Helper()
	if got := l.breaker().State(); got != s {
		l.Errorf("the breaker is %v, want %v", got, s)
	}
}

// count is what totals say of finished calls.
type count struct{ successes, failures, ignored uint64 }

func (l *handlerLab) wantCount(want count) {
	l.Helper()
	t := l.totals()
	if got := (count{t.Successes, t.Failures, t.Ignored}); got != want || t.Late != 0 {
		l.Errorf("counted %+v and %d late, want %+v", got, t.Late, want)
	}
}

// newRequest returns a request as a server has it.
func newRequest(path string) *http.Request {
	return httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
}

// get makes one request that no network carries.
func (l *handlerLab) get() *httptest.ResponseRecorder {
	l.Helper()
	return l.getWith(context.Background())
}

func (l *handlerLab) getWith(ctx context.Context) *httptest.ResponseRecorder {
	l.Helper()
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/some/path", nil))
	return w
}

// probing makes the breaker half-open: an override opens it, and is lifted.
func (l *handlerLab) probing() {
	l.Helper()
	l.breaker().Override(fusebox.ForceOpen, fusebox.Note{})
	l.breaker().Lift(fusebox.Note{})
	l.want(fusebox.HalfOpen)
}

// soon waits until ok, which real goroutines make true.
func soon(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			tb.Fatalf("after 10 s: %s", what)
		}
	}
}

// nothingLeft checks at the end of a test that its goroutines have ended.
// Called first, it looks last.
func nothingLeft(tb testing.TB) {
	tb.Helper()
	before := runtime.NumGoroutine()
	tb.Cleanup(func() {
		soon(tb, "goroutines are left", func() bool { return runtime.NumGoroutine() <= before })
	})
}

// logBuffer is a server's log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// protocols are those a test runs under.
var protocols = []string{"HTTP/1.1", "HTTP/1.1 with TLS", "HTTP/2.0"}

// overHTTP runs a test under each protocol.
func overHTTP(t *testing.T, test func(t *testing.T, protocol string)) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			nothingLeft(t)
			test(t, protocol)
		})
	}
}

// serve runs a server until the end of the test, and returns its log.
func serve(tb testing.TB, protocol string, h http.Handler) (*httptest.Server, *logBuffer) {
	tb.Helper()
	written := &logBuffer{}
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(written, "", 0)
	switch protocol {
	case "HTTP/1.1":
		s.Start()
	case "HTTP/2.0":
		s.EnableHTTP2 = true
		s.StartTLS()
	default:
		s.StartTLS()
	}
	tb.Cleanup(s.Close)
	return s, written
}

// get makes a request, whose answer is closed at the end of the test.
func get(tb testing.TB, s *httptest.Server, path string) *http.Response {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { answer.Body.Close() })
	return answer
}

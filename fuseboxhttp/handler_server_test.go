package fuseboxhttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

func TestAnOpenBreakerAnswersInPlaceOfTheHandler(t *testing.T) {
	overHTTP(t, func(t *testing.T, protocol string) {
		var runs atomic.Int32
		var well atomic.Bool
		l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
			runs.Add(1)
			if !well.Load() {
				http.Error(w, "down", http.StatusBadGateway)
			}
		})
		s, _ := serve(t, protocol, l)
		get := func() *http.Response {
			answer := get(t, s, "/")
			_, _ = io.Copy(io.Discard, answer.Body)
			return answer
		}
		for i := range 3 {
			if got := get().StatusCode; got != 502 {
				t.Fatalf("answered %d", got)
			}
			// The client may have the answer before the handler has returned.
			soon(t, "not counted", func() bool { return l.totals().Failures == uint64(i+1) })
		}
		answer := get()
		if answer.StatusCode != 503 || runs.Load() != 3 {
			t.Errorf("answered %d after %d runs", answer.StatusCode, runs.Load())
		}
		if after, name := answer.Header.Get("Retry-After"), answer.Header.Get("Fusebox-Breaker"); after != "1" || name != "/" {
			t.Errorf("Retry-After %q, Fusebox-Breaker %q", after, name)
		}
		well.Store(true)
		l.clock.Advance(time.Second)
		if got := get().StatusCode; got != 200 {
			t.Errorf("the probe was answered %d", got)
		}
		soon(t, "not closed", func() bool { return l.breaker().State() == fusebox.Closed })
	})
}

// TestARejectedUploadIsNotSent relies on the server: it asks for the body when
// somebody reads it.
func TestARejectedUploadIsNotSent(t *testing.T) {
	nothingLeft(t)
	l := newHandlerLab(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	l.breaker().Override(fusebox.ForceOpen, fusebox.Note{})
	s, _ := serve(t, "HTTP/1.1", l)
	s.Client().Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	body := &noteRead{Reader: strings.NewReader("a large file")}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL, body)
	r.Header.Set("Expect", "100-continue")
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != 503 || body.read.Load() {
		t.Errorf("answered %d; body sent: %t", answer.StatusCode, body.read.Load())
	}
}

// noteRead notes whether it was read.
type noteRead struct {
	io.Reader
	read atomic.Bool
}

func (n *noteRead) Read(p []byte) (int, error) {
	n.read.Store(true)
	return n.Reader.Read(p)
}

func handlerThatFallsOver(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, "half of")
	_ = http.NewResponseController(w).Flush()
	panic("fell over")
}

func TestAPanickingHandlerCountsAndTheServerGoesOn(t *testing.T) {
	overHTTP(t, func(t *testing.T, protocol string) {
		l := newHandlerLab(t, handlerThatFallsOver)
		s, written := serve(t, protocol, l)
		for range 3 {
			if _, err := io.ReadAll(get(t, s, "/").Body); err == nil {
				t.Error("the answer looks whole to the client")
			}
		}
		soon(t, "the failures are not counted", func() bool { return l.totals().Failures == 3 })
		if got := get(t, s, "/").StatusCode; got != 503 {
			t.Errorf("answered %d, want 503", got)
		}
		for _, part := range []string{"fell over", "handlerThatFallsOver"} {
			if !strings.Contains(written.String(), part) {
				t.Errorf("the server's log does not have %q", part)
			}
		}
	})
}

func TestAnAbortedAnswerIsAFailureAndNotLogged(t *testing.T) {
	overHTTP(t, func(t *testing.T, protocol string) {
		l := newHandlerLab(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		s, written := serve(t, protocol, l)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		if answer, err := s.Client().Do(r); err == nil {
			answer.Body.Close()
			t.Error("answered")
		}
		soon(t, "the failure is not counted", func() bool { return l.totals().Failures >= 1 })
		if written.String() != "" {
			t.Errorf("the server's log: %s", written)
		}
	})
}

// visit makes a request that is left in the middle. (What the handler says then
// may still arrive, over TLS: Close says goodbye before it closes.)
func visit(ctx context.Context, s *httptest.Server) {
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if answer, err := s.Client().Do(r); err == nil {
		answer.Body.Close()
	}
}

// TestC56ClientsThatLeaveAreIgnored has fifty clients leave in mid-request, and
// the handler end as handlers do then.
func TestC56ClientsThatLeaveAreIgnored(t *testing.T) {
	ends := []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) {},
		func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.Context().Err().Error(), 500) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	overHTTP(t, func(t *testing.T, protocol string) {
		const clients = 50
		began := make(chan int)
		var n atomic.Int32
		l := newHandlerLab(t, func(w http.ResponseWriter, r *http.Request) {
			i := int(n.Add(1))
			began <- i
			<-r.Context().Done()
			ends[i%len(ends)](w, r)
		})
		s, _ := serve(t, protocol, l)
		for range clients {
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				<-began
				leave()
			}()
			visit(ctx, s)
		}
		soon(t, "not all are counted", func() bool { return l.totals().Ignored == clients })
		l.want(fusebox.Closed)
		l.wantCount(count{ignored: clients})
		if got := l.breaker().Snapshot().Counts.Calls; got != 0 {
			t.Errorf("%d calls in the window", got)
		}
	})
}

func TestAClientThatLeavesFreesTheSlotOfItsProbe(t *testing.T) {
	overHTTP(t, func(t *testing.T, protocol string) {
		began := make(chan bool, 1)
		var hang atomic.Bool
		hang.Store(true)
		l := newHandlerLab(t, func(_ http.ResponseWriter, r *http.Request) {
			if hang.Load() {
				began <- true
				<-r.Context().Done()
			}
		})
		l.probing()
		s, _ := serve(t, protocol, l)
		for range 5 {
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				<-began
				leave()
			}()
			visit(ctx, s)
			soon(t, "the slot is not free", func() bool { return l.breaker().Snapshot().Outstanding == 0 })
			l.want(fusebox.HalfOpen)
		}
		hang.Store(false)
		get(t, s, "/")
		soon(t, "not closed", func() bool { return l.breaker().State() == fusebox.Closed })
	})
}

// TestC58AHandlerThatATimeoutCutsOffHasFailed puts the Handler inside of a
// TimeoutHandler: what is written after the deadline reaches nobody.
func TestC58AHandlerThatATimeoutCutsOffHasFailed(t *testing.T) {
	nothingLeft(t)
	for name, late := range map[string]http.HandlerFunc{
		"writes nothing": func(http.ResponseWriter, *http.Request) {},
		"writes":         func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "late") },
	} {
		t.Run(name, func(t *testing.T) {
			cutOff := make(chan bool)
			l := newHandlerLab(t, func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				<-cutOff
				late(w, r)
			})
			s, _ := serve(t, "HTTP/1.1", http.TimeoutHandler(l, 20*time.Millisecond, "too late"))
			for range 3 {
				if got := get(t, s, "/").StatusCode; got != 503 {
					t.Errorf("answered %d", got)
				}
				cutOff <- true
			}
			soon(t, "the breaker does not open", func() bool { return l.breaker().State() == fusebox.Open })
			l.wantCount(count{failures: 3})
		})
	}
}

// TestAReverseProxyInside has the standard library's heaviest user of a
// ResponseWriter as the handler: it flushes, hijacks, and panics to abort.
func TestAReverseProxyInside(t *testing.T) {
	nothingLeft(t)
	upstream, _ := serve(t, "HTTP/1.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hints":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
		case "/cut":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "ten bytes.")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/upgrade":
			upgrade(t, func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
				return http.NewResponseController(w).Hijack()
			}, make(chan bool, 1))(w, r)
		}
	}))
	target, _ := url.Parse(upstream.URL)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	mux := http.NewServeMux()
	for _, path := range []string{"/hints", "/cut", "/upgrade"} {
		mux.Handle(path, proxy)
	}
	h := &fuseboxhttp.Handler{Handler: mux}
	s, _ := serve(t, "HTTP/1.1", h)
	totals := func(path string) fusebox.Totals { return h.Breakers().Get(path).Snapshot().Totals }

	if got := get(t, s, "/hints").StatusCode; got != http.StatusTeapot {
		t.Errorf("answered %d", got)
	}
	soon(t, "the hinted answer is not counted", func() bool { return totals("/hints").Successes == 1 })

	if _, err := io.ReadAll(get(t, s, "/cut").Body); err == nil {
		t.Error("the answer that was cut looks whole")
	}
	soon(t, "the cut answer is not a failure", func() bool { return totals("/cut").Failures == 1 })

	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/upgrade", nil)
	r.Header.Set("Connection", "upgrade")
	r.Header.Set("Upgrade", "echo")
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != 101 {
		t.Fatalf("answered %d", answer.StatusCode)
	}
	if got := totals("/upgrade").Successes; got != 1 {
		t.Errorf("%d successes while the connection is in use, want 1", got)
	}
	both := answer.Body.(io.ReadWriter)
	fmt.Fprint(both, "hello\n")
	if text, err := io.ReadAll(both); string(text) != "hello\n" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
}

// TestManyRequestsAtOnce is for the race detector, and adds up.
func TestManyRequestsAtOnce(t *testing.T) {
	overHTTP(t, func(t *testing.T, protocol string) {
		h := &fuseboxhttp.Handler{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "3") {
					w.WriteHeader(500)
				}
				fmt.Fprint(w, "ok")
			}),
			Registry: &fusebox.Registry{Config: func(string) fusebox.Config { return fusebox.Config{FailureRate: -1, Consecutive: -1} }},
		}
		s, _ := serve(t, protocol, h)
		const workers, each = 8, 20
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for i := range each {
					r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprint(s.URL, "/", i), nil)
					answer, err := s.Client().Do(r)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			})
		}
		all.Wait()
		soon(t, "not all are counted", func() bool {
			got := h.Breakers().Get("/").Snapshot().Totals
			return got.Failures == workers*each/10 && got.Successes == workers*each*9/10
		})
	})
}

var _ http.Handler = (*fuseboxhttp.Handler)(nil)

func TestMiddlewareStacks(t *testing.T) {
	inner := &fuseboxhttp.Handler{Handler: answering(500), Key: func(*http.Request) string { return "inner" }}
	outer := &fuseboxhttp.Handler{Handler: inner, Key: func(*http.Request) string { return "outer" }}
	for range 25 {
		outer.ServeHTTP(httptest.NewRecorder(), newRequest("/"))
	}
	if a, b := inner.Breakers().Get("inner").State(), outer.Breakers().Get("outer").State(); a != fusebox.Open || b != fusebox.Open {
		t.Errorf("inner %v, outer %v", a, b)
	}
}

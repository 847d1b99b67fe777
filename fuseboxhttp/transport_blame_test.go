package fuseboxhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
	"github.com/fusebox-go/fusebox/hedge"
	"github.com/fusebox-go/fusebox/retry"
)

// What a client sends, or fails to send, is no fault of the host's, and nothing
// to try again.
func TestC56ABodyThatCannotBeReadIsIgnoredAndNotRetried(t *testing.T) {
	disk := errors.New("my disk")
	for name, changes := range map[string][]func(*clientLab){
		"plain": nil, "retrying": {retrying()}, "HTTP/2": {http2}, "with a timeout": {with(func(tr *fuseboxhttp.Transport) { tr.Timeout = time.Minute })},
	} {
		t.Run(name, func(t *testing.T) {
			l := newClientLab(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, changes...)
			var made atomic.Int32
			body := func() io.ReadCloser {
				made.Add(1)
				return io.NopCloser(io.MultiReader(strings.NewReader("abc"), readerFunc(func([]byte) (int, error) { return 0, disk })))
			}
			for range 5 {
				req := l.request(t.Context(), http.MethodPut, "/", body())
				req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
				if _, _, err := fetch(l.client, req); !errors.Is(err, disk) {
					t.Fatal(err)
				}
			}
			l.want(0, 0, 5)
			if n := made.Load(); n != 5 {
				t.Errorf("%d bodies for 5 requests", n)
			}
		})
	}
}

// Over HTTP/2 a response that says that it is empty may still have an open
// stream, and trailers.
func TestAnEmptyResponseWhoseStreamIsOpenIsNotCutOff(t *testing.T) {
	done := make(chan error, 1)
	l := newClientLab(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("Content-Length", "0")
		_ = http.NewResponseController(w).Flush()
		timer := time.NewTimer(50 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-r.Context().Done():
		case <-timer.C:
		}
		done <- r.Context().Err()
		w.Header().Set("X-Sum", "7")
	}, http2, with(func(tr *fuseboxhttp.Transport) { tr.Timeout = time.Minute }))
	resp, err := l.client.Do(l.request(t.Context(), http.MethodGet, "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.Trailer.Get("X-Sum") != "7" {
		t.Errorf("%v, trailer %v", err, resp.Trailer)
	}
	if err := <-done; err != nil {
		t.Errorf("the handler was cut off: %v", err)
	}
}

// A Transport inside another sees the outer one's timeout as one.
func TestC58ATimeoutOutsideIsAFailureInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &fuseboxhttp.Transport{Base: memory(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		outer := &fuseboxhttp.Transport{Base: inner, Timeout: time.Second}
		if _, err := outer.RoundTrip(requestTo("GET", "http://x/", nil)); !errors.Is(err, fuseboxhttp.ErrTimeout) {
			t.Error(err)
		}
		if s := inner.Breakers().Get("x").Snapshot().Totals; s.Failures != 1 || s.Ignored != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A late response that nobody reads or closes does not hold its probe: the
// permit ends with the request's context.
func TestC65AHedgedRequestThatLostHoldsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int32
		tr := &fuseboxhttp.Transport{
			JudgeBody: true,
			Registry: &fusebox.Registry{Config: func(string) fusebox.Config {
				return fusebox.Config{Probes: 2, CloseAfter: 2}
			}},
			Base: memory(func(*http.Request) (*http.Response, error) {
				if requests.Add(1) == 1 {
					time.Sleep(20 * time.Millisecond)
				} else {
					time.Sleep(time.Millisecond)
				}
				return answer(200, text("hello")), nil
			}),
		}
		b := tr.Breakers().Get("x")
		b.Override(fusebox.ForceOpen, fusebox.Note{})
		b.Lift(fusebox.Note{})
		resp, err := hedge.Call(t.Context(), nil, func(ctx context.Context) (*http.Response, error) {
			return tr.RoundTrip(requestTo("GET", "http://x/", nil).WithContext(ctx))
		}, hedge.New(hedge.Config{Delay: 10 * time.Millisecond}))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(resp.Body)
		resp.Body.Close()
		time.Sleep(time.Hour)
		if s := b.Snapshot(); s.Totals.Probes.Expired != 0 || s.Outstanding != 0 || s.Totals.Successes != 1 {
			t.Errorf("%+v, %d probes out", s.Totals, s.Outstanding)
		}
	})
}

// Base may make the body anew by itself; the next attempt waits for that one too.
func TestC104ABodyThatBaseMadeItselfIsLetGoOf(t *testing.T) {
	var readers atomic.Int32
	began := make(chan struct{}, 2)
	body := func() io.ReadCloser { return &slow{readers: &readers, began: began, closed: make(chan struct{})} }
	attempts, ended := 0, make(chan struct{})
	tr := &fuseboxhttp.Transport{Retry: quick(), Base: memory(func(r *http.Request) (*http.Response, error) {
		if attempts++; attempts > 1 {
			if n := readers.Load(); n != 0 {
				t.Errorf("%d still read the body of the attempt before", n)
			}
			return answer(200, nil), nil
		}
		r.Body.Close()
		again, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		go func() {
			defer close(ended)
			_, _ = again.Read(make([]byte, 1))
		}()
		<-began
		return answer(503, nil), nil
	})}
	req := requestTo("PUT", "http://example.com/", nil)
	req.Body = body()
	req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
	if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != 200 || attempts != 2 {
		t.Error(resp, err, attempts)
	}
	<-ended
}

// The body that fails may be one that Base has made anew.
func TestC56ABodyMadeAnewThatCannotBeReadIsIgnored(t *testing.T) {
	disk := errors.New("my disk")
	tr := &fuseboxhttp.Transport{Retry: quick(), Base: memory(func(r *http.Request) (*http.Response, error) {
		_ = r.Body.Close()
		again, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		_, err = again.Read(make([]byte, 1))
		return nil, err
	})}
	req := requestTo("PUT", "http://x/", nil)
	req.Body = text("x")
	req.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, disk })), nil
	}
	if _, err := tr.RoundTrip(req); !errors.Is(err, disk) {
		t.Error(err)
	}
	if s := tr.Breakers().Get("x").Snapshot().Totals; s.Ignored != 1 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
}

// Of a body that Base has closed and made anew, nothing is to be seen: what comes of
// reading it does not make the client guilty of what the host does later.
func TestABodyThatBaseHasLetGoOfTakesNoBlame(t *testing.T) {
	for name, policy := range map[string]*retry.Policy{"plain": nil, "retrying": quick(func(c *retry.Config) { c.Attempts = 1 })} {
		for _, first := range []string{"fails", "is still being read"} {
			t.Run(name+", "+first, func(t *testing.T) {
				began, ended, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
				tr := &fuseboxhttp.Transport{Retry: policy, Base: memory(func(r *http.Request) (*http.Response, error) {
					go func() {
						defer close(ended)
						_, _ = r.Body.Read(make([]byte, 1))
					}()
					<-began
					if first == "fails" {
						<-ended
					}
					again, err := r.GetBody() // as over HTTP/2, after a GOAWAY
					if err != nil {
						return nil, err
					}
					if _, err := io.ReadAll(again); err != nil {
						return nil, err
					}
					return nil, context.DeadlineExceeded // it does not answer
				})}
				req := requestTo("PUT", "http://x/", nil)
				req.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
					close(began)
					if first != "fails" {
						<-release
					}
					return 0, http.ErrBodyReadAfterClose
				}))
				req.GetBody = func() (io.ReadCloser, error) { return text("x"), nil }
				if _, err := tr.RoundTrip(req); errors.Is(err, fuseboxhttp.ErrRequestBody) || !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				close(release)
				<-ended
				if s := tr.Breakers().Get("x").Snapshot().Totals; s.Failures != 1 || s.Ignored != 0 {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// slow is a body whose Read goes on until it is closed.
type slow struct {
	readers *atomic.Int32
	began   chan<- struct{}
	closed  chan struct{}
}

func (s *slow) Read([]byte) (int, error) {
	s.readers.Add(1)
	defer s.readers.Add(-1)
	s.began <- struct{}{}
	<-s.closed
	return 0, io.ErrClosedPipe
}

func (s *slow) Close() error { close(s.closed); return nil }

func TestAKeyThatPanicsClosesTheBody(t *testing.T) {
	for name, again := range map[string]*retry.Policy{"plain": nil, "retrying": quick()} {
		body := text("x")
		tr := &fuseboxhttp.Transport{Key: func(*http.Request) string { panic("k") }, Retry: again}
		req := requestTo("POST", "http://example.com/", nil)
		req.Body = body
		func() {
			defer func() { _ = recover() }()
			_, _ = tr.RoundTrip(req)
		}()
		if n := body.closed.Load(); n != 1 {
			t.Errorf("%s: closed %d times", name, n)
		}
	}
}

// The status that counts is the one on the wire.
func TestTheStatusIsTheOneOnTheWire(t *testing.T) {
	for name, test := range map[string]struct {
		http2   bool
		handler http.HandlerFunc
		failed  bool
	}{
		"a first write that is too long": {false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1")
			_, _ = io.WriteString(w, "too long")
			http.Error(w, "too late", http.StatusInternalServerError)
		}, false},
		"101 over HTTP/2 is not final": {true, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusSwitchingProtocols)
			w.WriteHeader(http.StatusInternalServerError)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := &fuseboxhttp.Handler{Handler: test.handler, Key: func(*http.Request) string { return "k" }}
			server := httptest.NewUnstartedServer(h)
			server.Config.ErrorLog = nil
			server.EnableHTTP2 = test.http2
			if test.http2 {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			resp, err := getURL(server.Client(), server.URL)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if wire := resp.StatusCode >= 500; wire != test.failed {
					t.Fatalf("status %d", resp.StatusCode)
				}
			}
			eventually(t, "judged", func() bool {
				s := h.Breakers().Get("k").Snapshot().Totals
				return s.Failures+s.Successes == 1
			})
			if s := h.Breakers().Get("k").Snapshot().Totals; (s.Failures == 1) != test.failed {
				t.Errorf("%+v", s)
			}
		})
	}
}

package fuseboxhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
	"github.com/fusebox-go/fusebox/retry"
)

func retrying(changes ...func(*retry.Config)) func(*clientLab) {
	return with(func(tr *fuseboxhttp.Transport) {
		tr.Retry = quick(changes...)
		tr.Registry.Config = nil // five failures in a row are none too many
	})
}

// script answers the n-th request with the n-th status, and the last one from
// then on. It keeps the bodies it has read.
type script struct {
	statuses []int
	header   http.Header
	closes   bool // the connection, each time

	mu     sync.Mutex
	bodies []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	code := s.statuses[min(len(s.bodies), len(s.statuses)-1)]
	s.bodies = append(s.bodies, string(body))
	s.mu.Unlock()
	for k, v := range s.header {
		w.Header()[k] = v
	}
	if s.closes {
		w.Header().Set("Connection", "close")
	}
	if code == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(code)
	fmt.Fprintf(w, "answer %d", code)
}

func (s *script) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies
}

func TestC104EachAttemptHasTheWholeBody(t *testing.T) {
	for _, closes := range []bool{false, true} {
		s := &script{statuses: []int{503, 0, 200}, closes: closes}
		l := newClientLab(t, s.ServeHTTP, retrying())
		content := strings.Repeat("0123456789abcdef", 256)
		req := l.request(t.Context(), "POST", "/", nil)
		req.Header.Set("Idempotency-Key", "1")
		before := req.Header.Clone()
		var bodies []*counted
		first := text(content)
		req.Body, req.ContentLength = first, int64(len(content))
		req.GetBody = func() (io.ReadCloser, error) {
			bodies = append(bodies, text(content))
			return bodies[len(bodies)-1], nil
		}
		if code, body, err := fetch(l.client, req); code != 200 || body != "answer 200" || err != nil {
			t.Fatal(code, body, err)
		}
		seen := s.seen()
		if len(seen) < 3 { // net/http itself makes a request again where it may
			t.Errorf("%d attempts", len(seen))
		}
		for i, got := range seen {
			if got != content {
				t.Errorf("attempt %d had %d bytes", i, len(got))
			}
		}
		for i, b := range append(bodies, first) {
			eventually(t, "a body is open", func() bool { return b.closed.Load() > 0 })
			if n := b.closed.Load(); n != 1 {
				t.Errorf("body %d was closed %d times", i, n)
			}
		}
		if req.Body != first || fmt.Sprint(req.Header) != fmt.Sprint(before) {
			t.Error("the caller's request was changed")
		}
	}
}

func TestC104ABodyThatCannotBeHadAgainIsSentOnce(t *testing.T) {
	s := &script{statuses: []int{503}}
	l := newClientLab(t, s.ServeHTTP, retrying())
	body := text("once")
	code, answer, err := fetch(l.client, l.request(t.Context(), "PUT", "/", body))
	if code != 503 || answer != "answer 503" || err != nil {
		t.Error(code, answer, err)
	}
	if len(s.seen()) != 1 || body.closed.Load() != 1 {
		t.Errorf("%d attempts, closed %d times", len(s.seen()), body.closed.Load())
	}
	l.want(0, 1, 0)
}

// slowReader is a body whose Read, once begun, goes on until it is closed. It
// fails the test if it is read when another reader is.
type slowReader struct {
	t       *testing.T
	readers *atomic.Int32
	began   chan struct{}
	closed  chan struct{}
	once    sync.Once
}

func (s *slowReader) Read([]byte) (int, error) {
	if s.readers.Add(1) != 1 {
		s.t.Error("two attempts read at a time")
	}
	defer s.readers.Add(-1)
	s.once.Do(func() { close(s.began) })
	<-s.closed
	return 0, errors.New("closed")
}

func (s *slowReader) Close() error { close(s.closed); return nil }

// A Base may answer while it still reads the request's body, as net/http does.
func TestC104TheNextAttemptWaitsUntilNobodyReads(t *testing.T) {
	var readers atomic.Int32
	body := func() io.ReadCloser {
		return &slowReader{t: t, readers: &readers, began: make(chan struct{}), closed: make(chan struct{})}
	}
	attempts := 0
	var reading sync.WaitGroup
	tr := &fuseboxhttp.Transport{Retry: quick(), Base: memory(func(r *http.Request) (*http.Response, error) {
		if n := readers.Load(); n != 0 {
			t.Errorf("an attempt begins while %d read", n)
		}
		attempts++
		started := make(chan struct{})
		reading.Go(func() {
			close(started)
			r.Body.Read(make([]byte, 1))
		})
		<-started
		if attempts == 3 {
			r.Body.Close()
			return answer(200, nil), nil
		}
		eventually(t, "nobody reads", func() bool { return readers.Load() == 1 })
		return answer(503, nil), nil
	})}
	req := requestTo("PUT", "http://example.com/", nil)
	req.Body = body()
	req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
	if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != 200 {
		t.Error(resp, err)
	}
	reading.Wait()
	if attempts != 3 {
		t.Errorf("%d attempts", attempts)
	}
}

// A body that breaks its contract, and whose Read goes on when it is closed, is
// waited for until the caller leaves.
func TestC104ABodyThatIsNeverLetGoOfIsNotSentAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	never, attempts := make(chan struct{}), 0
	var reading sync.WaitGroup
	began := make(chan struct{})
	tr := &fuseboxhttp.Transport{
		Retry: quick(func(c *retry.Config) {
			c.OnRetry = func(context.Context, retry.Event) { time.AfterFunc(10*time.Millisecond, cancel) }
		}),
		Base: memory(func(r *http.Request) (*http.Response, error) {
			attempts++
			reading.Go(func() { r.Body.Read(make([]byte, 1)) })
			<-began
			return answer(503, nil), nil
		}),
	}
	req := httptest.NewRequestWithContext(ctx, "PUT", "http://example.com/", &counted{Reader: readerFunc(func([]byte) (int, error) {
		close(began)
		<-never
		return 0, io.EOF
	})})
	another := &counted{Reader: strings.NewReader("x")}
	req.GetBody = func() (io.ReadCloser, error) { return another, nil }
	if _, err := tr.RoundTrip(req); !errors.Is(err, context.Canceled) || attempts != 1 {
		t.Errorf("%d attempts, %v", attempts, err)
	}
	if another.closed.Load() != 1 {
		t.Error("the other body is left open")
	}
	close(never)
	reading.Wait()
}

func TestC105EarlierResponsesAreReadAndClosed(t *testing.T) {
	s := &script{statuses: []int{503, 503, 200}}
	var bodies []*counted
	l := newClientLab(t, s.ServeHTTP, retrying(func(c *retry.Config) {
		c.OnRetry = func(_ context.Context, e retry.Event) {
			if len(bodies) != e.Attempt || bodies[e.Attempt-1].closed.Load() != 1 {
				t.Errorf("attempt %d: its body is not closed before the wait", e.Attempt)
			}
			var status *fuseboxhttp.StatusError
			if !errors.As(e.Err, &status) || status.StatusCode != 503 {
				t.Errorf("OnRetry is told of %v", e.Err)
			}
		}
	}), func(l *clientLab) {
		l.base.MaxConnsPerHost = 1
		l.transport.Base = memory(func(r *http.Request) (*http.Response, error) {
			resp, err := l.base.RoundTrip(r)
			if err == nil {
				b := &closeCounted{ReadCloser: resp.Body}
				bodies = append(bodies, &b.counted)
				resp.Body = b
			}
			return resp, err
		})
	})
	resp, err := l.client.Do(l.request(t.Context(), "GET", "/", nil))
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	if len(bodies) != 3 || bodies[2].closed.Load() != 0 {
		t.Errorf("%d responses, the last closed %d times", len(bodies), bodies[2].closed.Load())
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "answer 200" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	resp.Body.Close()
	l.want(1, 2, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) != 1 {
		t.Errorf("%d connections: bodies were not read to their end", len(l.conns))
	}
}

type closeCounted struct {
	io.ReadCloser
	counted
}

func (c *closeCounted) Read(p []byte) (int, error) { return c.ReadCloser.Read(p) }
func (c *closeCounted) Close() error               { c.counted.Close(); return c.ReadCloser.Close() }

func TestC105TheLastResponseIsHandedOverOpen(t *testing.T) {
	s := &script{statuses: []int{503}}
	l := newClientLab(t, s.ServeHTTP, retrying())
	if code, body, err := l.get("/"); code != 503 || body != "answer 503" || err != nil {
		t.Error(code, body, err)
	}
	if n := len(s.seen()); n != 3 {
		t.Errorf("%d attempts", n)
	}
}

// What a response to be discarded still sends is not waited for, long or slow.
func TestC105DiscardingIsBounded(t *testing.T) {
	t.Run("stalls", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var attempts atomic.Int32
			tr := &fuseboxhttp.Transport{Retry: quick(), JudgeBody: true, Timeout: time.Minute}
			client := bubble(t, func(w http.ResponseWriter, r *http.Request) {
				if attempts.Add(1) == 1 {
					w.WriteHeader(503)
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				}
			}, tr)
			start := time.Now()
			resp, err := getURL(client, "http://bubble/")
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			resp.Body.Close()
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("took %v", took)
			}
		})
	})
	t.Run("never ends", func(t *testing.T) {
		read := 0
		body := &counted{Reader: readerFunc(func(p []byte) (int, error) { read += len(p); return len(p), nil })}
		first := true
		tr := &fuseboxhttp.Transport{Retry: quick(), Base: memory(func(*http.Request) (*http.Response, error) {
			if first {
				first = false
				return answer(503, body), nil
			}
			return answer(200, nil), nil
		})}
		if resp, err := tr.RoundTrip(requestTo("GET", "http://example.com/", nil)); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		if read == 0 || read > 128<<10 || body.closed.Load() != 1 {
			t.Errorf("%d bytes read, closed %d times", read, body.closed.Load())
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestC111WhatMayBeMadeAgain(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	reset := &net.OpError{Op: "read", Err: errors.New("reset")}
	proxy := &net.OpError{Op: "proxyconnect", Err: errors.New("refused")}
	for _, c := range []struct {
		method   string
		header   string
		noRewind bool
		err      error
		status   int
		attempts int
	}{
		{method: "GET", status: 503, attempts: 2},
		{method: "", status: 503, attempts: 2},
		{method: "HEAD", status: 503, attempts: 2},
		{method: "OPTIONS", status: 503, attempts: 2},
		{method: "TRACE", status: 503, attempts: 2},
		{method: "PUT", status: 503, attempts: 2},
		{method: "DELETE", status: 503, attempts: 2},
		{method: "GET", status: 408, attempts: 2},
		{method: "GET", status: 404, attempts: 1},
		{method: "GET", status: 501, attempts: 1},
		{method: "GET", err: reset, attempts: 2},
		{method: "PUT", err: reset, noRewind: true, attempts: 1},
		{method: "POST", status: 503, attempts: 1},
		{method: "PATCH", status: 503, attempts: 1},
		{method: "CONNECT", status: 503, attempts: 1},
		{method: "get", status: 503, attempts: 1},
		{method: "POST", header: "Idempotency-Key", status: 503, attempts: 2},
		{method: "POST", header: "X-Idempotency-Key", status: 503, attempts: 2},
		{method: "POST", header: "X-Idempotency-Key", status: 503, noRewind: true, attempts: 1},
		{method: "POST", status: 408, attempts: 2},
		{method: "POST", status: 429, attempts: 2},
		{method: "POST", status: 429, noRewind: true, attempts: 1},
		{method: "POST", err: dial, attempts: 2},
		{method: "POST", err: fmt.Errorf("wrapped: %w", dial), attempts: 2},
		{method: "POST", err: proxy, attempts: 2},
		{method: "POST", err: dial, noRewind: true, attempts: 1},
		{method: "POST", err: reset, attempts: 1},
	} {
		attempts := 0
		policy := quick()
		tr := &fuseboxhttp.Transport{Retry: policy, Base: memory(func(r *http.Request) (*http.Response, error) {
			io.ReadAll(r.Body)
			r.Body.Close()
			if attempts++; attempts == 1 && c.err != nil {
				return nil, c.err
			} else if attempts == 1 {
				return answer(c.status, text("x")), nil
			}
			return answer(200, nil), nil
		})}
		req := requestTo("GET", "http://example.com/", nil)
		req.Method = c.method
		req.Body = text("content")
		if !c.noRewind {
			req.GetBody = func() (io.ReadCloser, error) { return text("content"), nil }
		}
		if c.header != "" {
			req.Header.Set(c.header, "1")
		}
		resp, err := tr.RoundTrip(req)
		if attempts != c.attempts {
			t.Errorf("%+v: %d attempts", c, attempts)
		}
		if c.attempts == 1 && (err != c.err || //nolint:errorlint // unmarked
			err == nil && resp.StatusCode != c.status) {
			t.Errorf("%+v: %v, %v", c, resp, err) // as it came, and unmarked
		}
		if c.attempts == 1 && err == nil {
			if body, err := io.ReadAll(resp.Body); string(body) != "x" || err != nil {
				t.Errorf("%+v: body %q, %v", c, body, err)
			}
		}
	}
}

func TestC111APostIsMadeAgainWhereNobodyListened(t *testing.T) {
	s := &script{statuses: []int{200}}
	l := newClientLab(t, s.ServeHTTP, retrying(), func(l *clientLab) {
		refused := false
		l.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !refused {
				refused = true
				addr = "127.0.0.1:1"
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	})
	code, _, err := fetch(l.client, l.request(t.Context(), "POST", "/", strings.NewReader("hello")))
	if seen := s.seen(); code != 200 || err != nil || len(seen) != 1 || seen[0] != "hello" {
		t.Error(code, err, seen)
	}
	l.want(1, 1, 0)
}

func TestC92C94RetryAfterIsHonoured(t *testing.T) {
	for _, c := range []struct {
		header string
		wait   time.Duration
		code   int
	}{
		{"5", 5 * time.Second, 200},
		{"0", 0, 200},
		{"Sat, 01 Jan 2000 00:00:30 GMT", 10 * time.Second, 200}, // the bubble began 20 s before
		{"Sat, 01 Jan 2000 00:00:10 GMT", 0, 200},
		{"-5", time.Second, 200}, // as if there were none
		{"1.5", time.Second, 200},
		{"", time.Second, 200},
		{"3600", 0, 503}, // too long: given up at once
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(20 * time.Second)
			s := &script{statuses: []int{503, 200}, header: http.Header{"Retry-After": {c.header}}}
			tr := &fuseboxhttp.Transport{Retry: quick(func(c *retry.Config) {
				c.BaseDelay, c.Jitter, c.MaxRetryAfter = time.Second, -1, 10*time.Second
			})}
			client := bubble(t, s.ServeHTTP, tr)
			start := time.Now()
			resp, err := getURL(client, "http://bubble/")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if took := time.Since(start); took != c.wait || resp.StatusCode != c.code {
				t.Errorf("Retry-After %q: %d after %v, want %d after %v", c.header, resp.StatusCode, took, c.code, c.wait)
			}
		})
	}
}

func TestARejectionEndsTheAttempts(t *testing.T) {
	s := &script{statuses: []int{503}}
	l := newClientLab(t, s.ServeHTTP, retrying(func(c *retry.Config) { c.Attempts = 10 }),
		with(func(tr *fuseboxhttp.Transport) { tr.Registry.Config = clientConfig }))
	_, _, err := l.get("/")
	var e *retry.Error
	var status *fuseboxhttp.StatusError
	if !errors.Is(err, fusebox.ErrOpen) || !errors.As(err, &e) || e.Attempts() != 4 || !errors.As(err, &status) {
		t.Errorf("%v", err)
	}
	if n := len(s.seen()); n != 3 {
		t.Errorf("%d requests", n)
	}
	body := text("x")
	_, err = l.transport.RoundTrip(l.request(t.Context(), "PUT", "/", body))
	if _, ok := err.(*fusebox.OpenError); !ok || //nolint:errorlint // as it is
		body.closed.Load() != 1 {
		t.Errorf("%v, body closed %d times", err, body.closed.Load())
	}
}

// A rejection leaves the body for an attempt that is admitted.
func TestWaitRejectedSendsABodyThatCannotBeHadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{statuses: []int{503, 200}}
		tr := probing(time.Second)
		client := bubble(t, s.ServeHTTP, tr)
		resp, _ := getURL(client, "http://bubble/")
		resp.Body.Close()
		tr.Retry = quick(func(c *retry.Config) { c.WaitRejected = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		body := text("hello")
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://bubble/", body)
		resp, err := client.Do(req)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
		if seen := s.seen(); seen[1] != "hello" || body.closed.Load() != 1 {
			t.Errorf("%q, closed %d times", seen, body.closed.Load())
		}
	})
}

// A refusal by something inside Base has cost the body.
func TestWaitRejectedKnowsThatTheBodyIsSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusal := fusebox.New("inner", fusebox.Config{OpenFor: time.Second})
		refusal.Override(fusebox.ForceOpen, fusebox.Note{Until: time.Now().Add(time.Second)})
		attempts := 0
		tr := &fuseboxhttp.Transport{
			Retry: quick(func(c *retry.Config) { c.WaitRejected = true }),
			Base: memory(func(r *http.Request) (*http.Response, error) {
				attempts++
				r.Body.Close()
				_, err := refusal.Allow(r.Context())
				return nil, err
			}),
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req := httptest.NewRequestWithContext(ctx, "POST", "http://example.com/", text("x"))
		if _, err := tr.RoundTrip(req); !errors.Is(err, fusebox.ErrOpen) || attempts != 1 {
			t.Errorf("%d attempts, %v", attempts, err)
		}
		b, _ := tr.Breakers().Lookup("example.com")
		if s := b.Snapshot().Totals; s.Ignored != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestTheContextEndsTheWaitAndTheDiscardedResponseIsToldOf(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{statuses: []int{503}}
	l := newClientLab(t, s.ServeHTTP, retrying(func(c *retry.Config) {
		c.BaseDelay, c.MaxDelay = time.Hour, time.Hour
		c.OnRetry = func(context.Context, retry.Event) { cancel() }
	}))
	_, err := l.transport.RoundTrip(l.request(ctx, "GET", "/", nil))
	var e *retry.Error
	var status *fuseboxhttp.StatusError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &e) || !errors.As(err, &status) {
		t.Errorf("%v", err)
	}
	body := text("x")
	if _, err := l.transport.RoundTrip(l.request(ctx, "PUT", "/", body)); !errors.Is(err, context.Canceled) || body.closed.Load() != 1 {
		t.Errorf("done already: %v, body closed %d times", err, body.closed.Load())
	}
}

func TestTheOnlyAttemptsErrorIsReturnedUnmarked(t *testing.T) {
	l := newClientLab(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, retrying(),
		with(func(tr *fuseboxhttp.Transport) { tr.Timeout = 20 * time.Millisecond }))
	_, err := l.client.Do(l.request(t.Context(), "POST", "/", nil))
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v, want a timeout of url.Error", err)
	}
}

func TestEveryAttemptHasItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int32
		tr := &fuseboxhttp.Transport{Timeout: 50 * time.Millisecond, Retry: quick()}
		client := bubble(t, func(_ http.ResponseWriter, r *http.Request) {
			if attempts.Add(1) < 3 {
				<-r.Context().Done()
			}
		}, tr)
		resp, err := getURL(client, "http://bubble/")
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
		b, _ := tr.Breakers().Lookup("bubble")
		if s := b.Snapshot().Totals; s.Failures != 2 || s.Successes != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestC120NoAttemptBeginsAfterTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int32
		tr := &fuseboxhttp.Transport{Retry: quick(func(c *retry.Config) { c.Attempts = retry.Unlimited })}
		client := bubble(t, func(w http.ResponseWriter, _ *http.Request) {
			attempts.Add(1)
			time.Sleep(200 * time.Millisecond)
			w.WriteHeader(503)
		}, tr)
		client.Timeout = 500 * time.Millisecond
		start := time.Now()
		_, err := getURL(client, "http://bubble/")
		if took := time.Since(start); err == nil || took != client.Timeout {
			t.Errorf("%v after %v", err, took)
		}
		time.Sleep(time.Minute)
		if n := attempts.Load(); n != 3 {
			t.Errorf("%d attempts", n)
		}
		b, _ := tr.Breakers().Lookup("bubble")
		if s := b.Snapshot().Totals; s.Failures != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// The response that there is, is handed over.
func TestABodyThatCannotBeMadeEndsTheAttempts(t *testing.T) {
	broken := errors.New("file is gone")
	s := &script{statuses: []int{503}}
	l := newClientLab(t, s.ServeHTTP, retrying())
	req := l.request(t.Context(), "PUT", "/", text("x"))
	req.GetBody = func() (io.ReadCloser, error) { return nil, broken }
	if status, _, err := fetch(l.client, req); status != 503 || err != nil {
		t.Error(status, err)
	}
	if n := len(s.seen()); n != 1 {
		t.Errorf("%d attempts", n)
	}
	l.want(0, 1, 0)
}

// A server may answer before it has read the body, and go on.
func TestAnAnswerBeforeTheEndOfTheBody(t *testing.T) {
	for name, protocol := range map[string]func(*clientLab){"HTTP/1.1": func(*clientLab) {}, "HTTP/2": http2} {
		t.Run(name, func(t *testing.T) {
			var attempts atomic.Int32
			content := bytes.Repeat([]byte("x"), 8<<20)
			l := newClientLab(t, func(w http.ResponseWriter, r *http.Request) {
				if attempts.Add(1) == 1 {
					w.WriteHeader(503)
					return
				}
				if n, err := io.Copy(io.Discard, r.Body); n != int64(len(content)) || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
			}, protocol, retrying())
			code, _, err := fetch(l.client, l.request(t.Context(), "PUT", "/", bytes.NewReader(content)))
			if code != 200 || err != nil {
				t.Error(code, err)
			}
		})
	}
}

func TestC111AnUpgradedRequestIsNotMadeAgain(t *testing.T) {
	var attempts atomic.Int32
	l := newClientLab(t, func(w http.ResponseWriter, _ *http.Request) {
		attempts.Add(1)
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
	}, retrying())
	req := l.request(t.Context(), "GET", "/", nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := l.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(resp.Body).ReadByte(); err == nil {
		t.Error("something was read")
	}
	resp.Body.Close()
	if n := attempts.Load(); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

func TestAPanicOfThePolicyLeavesNothingOpen(t *testing.T) {
	body, response := text("x"), text("y")
	tr := &fuseboxhttp.Transport{
		Retry: quick(func(c *retry.Config) {
			c.Retryable = func(context.Context, error) bool { panic("mine") }
		}),
		Base: memory(func(*http.Request) (*http.Response, error) { return answer(503, response), nil }),
	}
	req := requestTo("PUT", "http://example.com/", body)
	req.GetBody = func() (io.ReadCloser, error) { return text("x"), nil }
	wantPanic(t, "mine", func() { tr.RoundTrip(req) })
	if body.closed.Load() != 1 || response.closed.Load() != 1 {
		t.Errorf("bodies closed: the request's %d times, the response's %d times", body.closed.Load(), response.closed.Load())
	}
}

// Of two transports, one in the other, the outer may be told of an answer that
// the inner has let go of.
func TestTransportsNest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := text("x")
		responses := []*http.Response{answer(503, first), answer(200, text("y"))}
		inner := &fuseboxhttp.Transport{
			Retry: quick(func(c *retry.Config) { c.Backoff, c.BaseDelay = func(int) time.Duration { return 0 }, 0 }),
			Registry: &fusebox.Registry{Config: func(string) fusebox.Config {
				return fusebox.Config{Consecutive: 1, OpenFor: 20 * time.Millisecond, OpenJitter: -1}
			}},
			Base: memory(func(*http.Request) (*http.Response, error) {
				resp := responses[0]
				responses = responses[1:]
				return resp, nil
			}),
		}
		outer := &fuseboxhttp.Transport{Base: inner, Retry: quick(func(c *retry.Config) {
			c.BaseDelay, c.Jitter = 30*time.Millisecond, -1
			c.Retryable = func(_ context.Context, err error) bool {
				var status *fuseboxhttp.StatusError
				if !errors.Is(err, fusebox.ErrOpen) || !errors.As(err, &status) {
					t.Errorf("the outer is told of %v", err)
				}
				return true
			}
		})}
		resp, err := outer.RoundTrip(requestTo("GET", "http://example.com/", nil))
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		if n := first.closed.Load(); n != 1 {
			t.Errorf("the first response was closed %d times", n)
		}
	})
}

package fuseboxhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
	"github.com/fusebox-go/fusebox/retry"
)

func judgeBody(tr *fuseboxhttp.Transport) { tr.JudgeBody = true }

// stream answers with 1 KiB and then as the path says.
func stream(w http.ResponseWriter, r *http.Request) {
	w.Write(bytes.Repeat([]byte("x"), 1<<10))
	w.(http.Flusher).Flush()
	switch r.URL.Path {
	case "/dies":
		panic(http.ErrAbortHandler)
	case "/stalls":
		<-r.Context().Done()
	case "/resets":
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		rw.Flush()
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
}

func TestC135ABodyThatFailsIsAFailure(t *testing.T) {
	for name, protocol := range map[string]func(*clientLab){"HTTP/1.1": func(*clientLab) {}, "HTTP/2": http2} {
		t.Run(name, func(t *testing.T) {
			l := newClientLab(t, stream, protocol, with(judgeBody))
			for range 3 {
				if code, body, err := l.get("/dies"); code != 200 || len(body) != 1<<10 || err == nil {
					t.Errorf("%d, %d bytes, %v", code, len(body), err)
				}
			}
			l.want(0, 3, 0)
			if s := l.breaker().State(); s != fusebox.Open {
				t.Errorf("the breaker is %v", s)
			}
		})
	}
}

func TestC135AConnectionResetInMidBodyIsAFailure(t *testing.T) {
	l := newClientLab(t, stream, with(judgeBody))
	_, _, err := l.get("/resets")
	if err == nil {
		t.Error("no error")
	}
	l.want(0, 1, 0)
}

func TestC135WithoutJudgeBodyTheHeadIsJudged(t *testing.T) {
	l := newClientLab(t, stream)
	l.get("/dies")
	l.want(1, 0, 0)
}

func TestC135ABodyIsJudgedWhereItEnds(t *testing.T) {
	l := newClientLab(t, stream, with(judgeBody))
	var successes, failures, ignored uint64
	for _, c := range []struct {
		name, path string
		use        func(cancel func(), body io.ReadCloser)
		count      *uint64
	}{
		{"read to its end", "/", func(_ func(), b io.ReadCloser) { io.Copy(io.Discard, b); l.want(1, 0, 0) }, &successes},
		{"closed early", "/stalls", func(_ func(), b io.ReadCloser) { b.Read(make([]byte, 1)) }, &successes},
		{"closed unread", "/stalls", func(func(), io.ReadCloser) {}, &ignored},
		{"caller left before", "/stalls", func(cancel func(), b io.ReadCloser) { cancel(); io.ReadAll(b) }, &ignored},
		{"caller left while reading", "/stalls", func(cancel func(), b io.ReadCloser) {
			io.ReadFull(b, make([]byte, 1<<10))
			cancel()
			b.Read(make([]byte, 1))
		}, &ignored},
		{"connection lost", "/dies", func(_ func(), b io.ReadCloser) { io.ReadAll(b); b.Read(make([]byte, 1)) }, &failures},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := l.client.Do(l.request(ctx, "GET", c.path, nil))
		if err != nil {
			t.Fatal(c.name, err)
		}
		l.want(successes, failures, ignored)
		c.use(cancel, resp.Body)
		resp.Body.Close()
		resp.Body.Close()
		cancel()
		*c.count++
		l.want(successes, failures, ignored)
		if t.Failed() {
			t.Fatal(c.name)
		}
	}
}

func TestC135TheCallersDeadlineInTheBodyIsAFailure(t *testing.T) {
	l := newClientLab(t, stream, with(judgeBody))
	l.client.Timeout = 50 * time.Millisecond
	if _, _, err := l.get("/stalls"); err == nil {
		t.Error("no error")
	}
	l.want(0, 1, 0)
}

func TestAResponseWithoutABodyIsJudgedAtOnce(t *testing.T) {
	l := newClientLab(t, status, with(judgeBody))
	for i, c := range []struct{ method, path string }{{"HEAD", "/200"}, {"GET", "/204"}, {"GET", "/304"}} {
		resp, err := l.client.Do(l.request(t.Context(), c.method, c.path, nil))
		if err != nil {
			t.Fatal(err)
		}
		l.want(uint64(i+1), 0, 0)
		resp.Body.Close()
	}
	for _, c := range []struct {
		method string
		resp   *http.Response
	}{
		{"GET", answer(200, nil)},
		{"GET", &http.Response{StatusCode: 200, ContentLength: -1}},
		{"GET", &http.Response{StatusCode: 200, Body: text("")}},
		{"GET", answer(204, text(""))},
		{"GET", answer(304, text(""))},
		{"HEAD", answer(200, text(""))},
	} {
		resp := c.resp
		tr := &fuseboxhttp.Transport{JudgeBody: true, Timeout: time.Minute, Base: memory(func(*http.Request) (*http.Response, error) { return resp, nil })}
		if got, err := tr.RoundTrip(requestTo(c.method, "http://example.com/", nil)); got != resp || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		b, _ := tr.Breakers().Lookup("example.com")
		if n := b.Snapshot().Totals.Successes; n != 1 {
			t.Errorf("%d successes", n)
		}
	}
}

func TestTheTrailersOfAResponseArrive(t *testing.T) {
	for _, protocol := range []func(*clientLab){func(*clientLab) {}, http2} {
		l := newClientLab(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Checksum")
			io.WriteString(w, "hello")
			w.(http.Flusher).Flush()
			w.Header().Set("Checksum", "42")
		}, protocol, with(func(tr *fuseboxhttp.Transport) { tr.JudgeBody, tr.Timeout, tr.Retry = true, time.Minute, quick() }))
		resp, err := l.client.Do(l.request(t.Context(), "GET", "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := resp.Trailer.Get("Checksum"); got != "42" {
			t.Errorf("the trailer is %q", got)
		}
		l.want(1, 0, 0)
	}
}

// A stream of an hour is one probe, and its lease of 30 s lasts as long as
// something arrives every 20 s.
func TestC135AStreamRenewsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := probing(time.Second)
		tr.JudgeBody = true
		client := bubble(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/dies" {
				panic(http.ErrAbortHandler)
			}
			time.Sleep(20 * time.Second) // the head renews it too
			w.(http.Flusher).Flush()
			for range 180 {
				time.Sleep(20 * time.Second)
				fmt.Fprintln(w, "still here")
				w.(http.Flusher).Flush()
			}
		}, tr)
		getURL(client, "http://bubble/dies")
		time.Sleep(time.Second)
		resp, err := getURL(client, "http://bubble/")
		if err != nil {
			t.Fatal(err)
		}
		b, _ := tr.Breakers().Lookup("bubble")
		if s := b.Snapshot(); s.State != fusebox.HalfOpen || s.Outstanding != 1 {
			t.Fatalf("after the head: %+v", s)
		}
		if _, err := getURL(client, "http://bubble/"); !errors.Is(err, fusebox.ErrProbing) {
			t.Errorf("a second probe: %v", err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
		if s := b.Snapshot(); s.State != fusebox.Closed || s.Totals.Probes.Succeeded != 1 || s.Totals.Slow != 0 {
			t.Errorf("after the end: %+v", s)
		}
	})
}

// probing returns a transport whose breakers trip at the first failure and then
// admit one probe after a while, with a lease of 30 s. Slow is a minute.
func probing(openFor time.Duration) *fuseboxhttp.Transport {
	return &fuseboxhttp.Transport{Registry: &fusebox.Registry{Config: func(string) fusebox.Config {
		return fusebox.Config{
			Consecutive: 1, OpenFor: openFor, OpenForMax: openFor, OpenJitter: -1,
			Probes: 1, ProbeTimeout: 30 * time.Second, SlowAfter: time.Minute,
		}
	}}}
}

func TestABodyThatIsForgottenHoldsNoProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := probing(time.Second)
		tr.JudgeBody = true
		client := bubble(t, stream, tr)
		resp, err := getURL(client, "http://bubble/dies")
		if err != nil {
			t.Fatal(err)
		}
		io.ReadAll(resp.Body)
		resp.Body.Close()
		time.Sleep(time.Second)
		forgotten, err := getURL(client, "http://bubble/")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		// The lease has ended and so has the open period that followed.
		resp, err = getURL(client, "http://bubble/")
		if err != nil {
			t.Fatal(err)
		}
		io.ReadAll(resp.Body)
		resp.Body.Close()
		b, _ := tr.Breakers().Lookup("bubble")
		if s := b.Snapshot(); s.State != fusebox.Closed || s.Totals.Probes.Expired != 1 {
			t.Errorf("%+v", s)
		}
		forgotten.Body.Close()
		if s := b.Snapshot(); s.Totals.Late != 1 {
			t.Errorf("closed in the end: %+v", s.Totals)
		}
	})
}

// Neither a long body nor a caller who leaves it makes a call slow; a head that
// took long does.
func TestSlownessIsThatOfTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := probing(time.Second)
		tr.JudgeBody = true
		client := bubble(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				time.Sleep(2 * time.Minute)
			}
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Minute)
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			if r.URL.Path == "/endless" {
				<-r.Context().Done()
			}
		}, tr)
		b := tr.Breakers().Get("bubble")
		want := func(successes, slow, ignored uint64) {
			t.Helper()
			if s := b.Snapshot().Totals; s.Successes != successes || s.Slow != slow || s.Ignored != ignored {
				t.Errorf("%d successes, %d slow, %d ignored; want %d, %d, %d", s.Successes, s.Slow, s.Ignored, successes, slow, ignored)
			}
		}
		get := func(path string) {
			t.Helper()
			if resp, err := getURL(client, "http://bubble"+path); err != nil {
				t.Error(err)
			} else {
				io.ReadAll(resp.Body)
				resp.Body.Close()
			}
		}
		get("/")
		want(1, 0, 0)
		get("/slow")
		want(2, 1, 0)

		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://bubble/endless", nil)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, cancel)
		io.ReadAll(resp.Body)
		resp.Body.Close()
		synctest.Wait() // the end of a context is recorded on a goroutine of its own
		want(2, 1, 1)
	})
}

func TestC119ATimeoutOfTheHeadLeavesTheBodyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		handler := func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/late" {
				time.Sleep(60 * time.Millisecond)
				return
			}
			time.Sleep(10 * time.Millisecond)
			for range 20 {
				w.Write(make([]byte, size/20))
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}
		tr := &fuseboxhttp.Transport{Timeout: 50 * time.Millisecond}
		client := bubble(t, handler, tr)
		resp, err := getURL(client, "http://bubble/")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); n != size/20*20 || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		resp.Body.Close()

		start := time.Now()
		_, err = getURL(client, "http://bubble/late")
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("timed out after %v", took)
		}
		wantTimeout(t, err)
		b, _ := tr.Breakers().Lookup("bubble")
		if s := b.Snapshot().Totals; s.Failures != 1 || s.Successes != 1 {
			t.Errorf("%+v", s)
		}

		total := &fuseboxhttp.Transport{Timeout: 50 * time.Millisecond, TimeoutBody: true, JudgeBody: true}
		client = bubble(t, handler, total)
		resp, err = getURL(client, "http://bubble/")
		if err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		n, err := io.Copy(io.Discard, resp.Body)
		wantTimeout(t, err)
		if took := time.Since(start); n == 0 || took != 40*time.Millisecond {
			t.Errorf("%d bytes, timed out %v after the head", n, took)
		}
		resp.Body.Close()
		b, _ = total.Breakers().Lookup("bubble")
		if s := b.Snapshot().Totals; s.Failures != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func wantTimeout(t *testing.T, err error) {
	t.Helper()
	var timeout interface {
		error
		Timeout() bool
	}
	if !errors.Is(err, fuseboxhttp.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("%v, want a timeout", err)
	} else if !strings.HasSuffix(err.Error(), "fusebox: attempt timed out after 50ms") {
		t.Errorf("the text is %q", err)
	}
}

// A head that arrives in the instant of the timeout is one or the other: a
// response whose body can be read, or a timeout whose response is closed.
func TestC119AHeadAtTheInstantOfTheTimeout(t *testing.T) {
	for _, total := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			outcomes := map[bool]int{}
			for range 200 {
				body := text("x")
				var ctx context.Context
				tr := &fuseboxhttp.Transport{
					Timeout: time.Millisecond, TimeoutBody: total,
					Base: memory(func(r *http.Request) (*http.Response, error) {
						ctx = r.Context()
						time.Sleep(time.Millisecond)
						return answer(200, body), nil
					}),
				}
				resp, err := tr.RoundTrip(requestTo("GET", "http://example.com/", nil))
				outcomes[err == nil]++
				switch {
				case err == nil && ctx.Err() == nil:
					if got, err := io.ReadAll(resp.Body); string(got) != "x" || err != nil {
						t.Errorf("%q, %v", got, err)
					}
					resp.Body.Close()
				case err == nil && !total:
					t.Error("a response whose context has ended")
				case err == nil:
					resp.Body.Close()
				case !errors.Is(err, fuseboxhttp.ErrTimeout) || resp != nil:
					t.Error(resp, err)
				}
				if n := body.closed.Load(); n != 1 {
					t.Errorf("the body was closed %d times", n)
				}
				if ctx.Err() == nil {
					t.Error("the context of the attempt goes on")
				}
			}
			t.Log(outcomes)
		})
	}
}

func TestTheAttemptsContextEndsWithTheBody(t *testing.T) {
	for name, c := range map[string]struct {
		body io.ReadCloser
		use  func(io.ReadCloser)
	}{
		"read":   {text("x"), func(b io.ReadCloser) { io.ReadAll(b) }},
		"failed": {&counted{Reader: iotest.ErrReader(io.ErrUnexpectedEOF)}, func(b io.ReadCloser) { io.ReadAll(b) }},
		"closed": {text("x"), func(b io.ReadCloser) { b.Close() }},
		"none":   {nil, nil},
	} {
		for _, policy := range []*retry.Policy{nil, quick()} {
			var ctx context.Context
			tr := &fuseboxhttp.Transport{Timeout: time.Minute, Retry: policy, Base: memory(func(r *http.Request) (*http.Response, error) {
				ctx = r.Context()
				resp := answer(200, c.body)
				resp.Request = r
				return resp, nil
			})}
			req := requestTo("GET", "http://example.com/", strings.NewReader("content"))
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(name, err)
			}
			if resp.Request != req {
				t.Errorf("%s: Response.Request is not the caller's", name)
			}
			if c.use != nil {
				if ctx.Err() != nil {
					t.Errorf("%s: the context has ended", name)
				}
				c.use(resp.Body)
			}
			if ctx.Err() == nil {
				t.Errorf("%s: the context goes on", name)
			}
		}
	}
}

func TestABaseThatDoesNotHearOfTheTimeout(t *testing.T) {
	for _, total := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			body := text("x")
			tr := &fuseboxhttp.Transport{
				Timeout: 50 * time.Millisecond, TimeoutBody: total,
				Base: memory(func(*http.Request) (*http.Response, error) {
					time.Sleep(time.Second)
					return answer(200, body), nil
				}),
			}
			resp, err := tr.RoundTrip(requestTo("GET", "http://example.com/", nil))
			wantTimeout(t, err)
			if resp != nil || body.closed.Load() != 1 {
				t.Errorf("%v, closed %d times", resp, body.closed.Load())
			}
		})
	}
}

func TestAnErrorEndsTheAttemptsContext(t *testing.T) {
	var ctx context.Context
	down := errors.New("down")
	tr := &fuseboxhttp.Transport{Timeout: time.Minute, Base: memory(func(r *http.Request) (*http.Response, error) {
		ctx = r.Context()
		return nil, down
	})}
	if _, err := tr.RoundTrip(requestTo("GET", "http://example.com/", nil)); !errors.Is(err, down) || ctx.Err() == nil {
		t.Errorf("%v, context %v", err, ctx.Err())
	}
}

func TestTimedOutAttemptsLeaveNothingOpen(t *testing.T) {
	for _, protocol := range []func(*clientLab){func(*clientLab) {}, http2} {
		l := newClientLab(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, protocol,
			with(func(tr *fuseboxhttp.Transport) { tr.Timeout = 20 * time.Millisecond }))
		for range 3 {
			if _, _, err := l.get("/"); !errors.Is(err, fuseboxhttp.ErrTimeout) {
				t.Error(err)
			}
		}
		l.want(0, 3, 0)
	}
}

func TestABodyThatStallsTimesOut(t *testing.T) {
	for _, protocol := range []func(*clientLab){func(*clientLab) {}, http2} {
		l := newClientLab(t, stream, protocol,
			with(func(tr *fuseboxhttp.Transport) {
				tr.Timeout, tr.TimeoutBody, tr.JudgeBody = 500*time.Millisecond, true, true
			}))
		if _, body, err := l.get("/stalls"); len(body) != 1<<10 || !errors.Is(err, fuseboxhttp.ErrTimeout) {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		l.want(0, 1, 0)
	}
}

// Read and Close race, while the lease is renewed: the permit is finished once,
// and a body that its caller closes is never a failure.
func TestReadAndCloseRace(t *testing.T) {
	l := newClientLab(t, stream, with(judgeBody))
	const rounds = 100
	for range rounds {
		resp, err := l.client.Do(l.request(t.Context(), "GET", "/stalls", nil))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() { io.Copy(io.Discard, resp.Body) })
		all.Go(func() { resp.Body.Close() })
		all.Go(func() { resp.Body.Close() })
		all.Wait()
	}
	if s := l.totals(); s.Successes+s.Ignored != rounds || s.Failures != 0 {
		t.Errorf("%d successes, %d ignored, %d failures", s.Successes, s.Ignored, s.Failures)
	}
}

// The kind of C64: what a breaker's Classify does not survive is a failure.
func TestC64APanicInTheBreakersClassify(t *testing.T) {
	for name, c := range map[string]struct {
		resp *http.Response
		err  error
	}{
		"an error":                   {nil, io.ErrUnexpectedEOF},
		"a status":                   {answer(503, text("x")), nil},
		"a body":                     {answer(200, &counted{Reader: iotest.ErrReader(io.ErrUnexpectedEOF)}), nil},
		"a body, at its second byte": {answer(200, &counted{Reader: iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("abc")))}), nil},
	} {
		var ctx context.Context
		tr := &fuseboxhttp.Transport{
			JudgeBody: true, Timeout: time.Minute,
			Registry: &fusebox.Registry{Config: func(string) fusebox.Config {
				return fusebox.Config{Classify: func(context.Context, error) fusebox.Outcome { panic("mine") }}
			}},
			Base: memory(func(r *http.Request) (*http.Response, error) { ctx = r.Context(); return c.resp, c.err }),
		}
		wantPanic(t, "mine", func() {
			if resp, err := tr.RoundTrip(requestTo("GET", "http://example.com/", nil)); err == nil {
				io.ReadAll(resp.Body)
			}
		})
		b, _ := tr.Breakers().Lookup("example.com")
		if s := b.Snapshot().Totals; s.Failures != 1 || s.Successes != 0 || ctx.Err() == nil {
			t.Errorf("%s: %+v, context %v", name, s, ctx.Err())
		}
	}
}

// An observer may be called while a lease is renewed, and read and close the
// body of all things: nothing waits for itself, and the probe is finished.
func TestAnObserverMayCloseTheBodyWhoseLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := make(chan io.ReadCloser, 1)
		tr := probing(time.Second)
		tr.JudgeBody = true
		tr.Breakers().Observe(fusebox.Observer{Transition: func(r fusebox.Transition) {
			if r.Cause == fusebox.CauseProbeExpired {
				b := <-body
				b.Read(make([]byte, 1))
				b.Close()
			}
		}})
		client := bubble(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/dies" {
				panic(http.ErrAbortHandler)
			}
			w.(http.Flusher).Flush()
			time.Sleep(31 * time.Second)
			io.WriteString(w, "too late for the lease")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, tr)
		getURL(client, "http://bubble/dies")
		time.Sleep(time.Second)
		resp, err := getURL(client, "http://bubble/")
		if err != nil {
			t.Fatal(err)
		}
		body <- resp.Body
		resp.Body.Read(make([]byte, 1))
		b, _ := tr.Breakers().Lookup("bubble")
		if s := b.Snapshot().Totals; s.Probes.Expired != 1 || s.Late != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// An observer that ends the goroutine in the middle of a renewal takes the
// permit not with it.
func TestAnObserverMayEndTheGoroutineThatReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := probing(time.Second)
		tr.JudgeBody = true
		next := answer(503, nil)
		tr.Base = memory(func(*http.Request) (*http.Response, error) { return next, nil })
		req := requestTo("GET", "http://example.com/", nil)
		tr.RoundTrip(req)
		time.Sleep(time.Second)
		next = answer(200, text("ab"))
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		b, _ := tr.Breakers().Lookup("example.com")
		exited := false
		stop := b.Observe(fusebox.Observer{Transition: func(fusebox.Transition) { exited = true; runtime.Goexit() }})
		done := make(chan struct{})
		go func() {
			defer close(done)
			resp.Body.Read(make([]byte, 1))
			t.Error("the goroutine went on")
		}()
		<-done
		stop()
		resp.Body.Close()
		if s := b.Snapshot().Totals; !exited || s.Late != 1 {
			t.Errorf("exited %v, %+v", exited, s)
		}
	})
}

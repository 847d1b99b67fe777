package fuseboxhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
	"github.com/fusebox-go/fusebox/retry"
)

func TestAdmitChoosesForEachAttempt(t *testing.T) {
	breakers := map[string]*fusebox.Breaker{"a": fusebox.New("a", fusebox.Config{}), "b": fusebox.New("b", fusebox.Config{})}
	turn := []string{"a", "b"}
	var hosts []string
	tr := &fuseboxhttp.Transport{
		Retry: retry.New(retry.Config{BaseDelay: time.Nanosecond}),
		Key:   func(*http.Request) string { panic("Key is asked") },
		Admit: func(req *http.Request) (*http.Request, fusebox.Permit, error) {
			host := turn[0]
			turn = turn[1:]
			out := req.WithContext(req.Context())
			u := *req.URL
			u.Host, out.URL = host, &u
			permit, err := breakers[host].Allow(req.Context())
			return out, permit.Take(), err
		},
		Base: memory(func(req *http.Request) (*http.Response, error) {
			b, _ := io.ReadAll(req.Body)
			hosts = append(hosts, req.URL.Host+" "+string(b))
			if req.URL.Host == "a" {
				return answer(503, nil), nil
			}
			return answer(200, nil), nil
		}),
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://nobody/", strings.NewReader("body"))
	if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != 200 || req.URL.Host != "nobody" {
		t.Errorf("%+v, %v", resp, err)
	}
	if got := strings.Join(hosts, ", "); got != "a body, b body" {
		t.Errorf("attempts %q", got)
	}
	if a, b := breakers["a"].Snapshot().Totals, breakers["b"].Snapshot().Totals; a.Failures != 1 || b.Successes != 1 || b.Failures != 0 {
		t.Errorf("a %+v, b %+v", a, b)
	}
}

func TestAnErrorOfAdmitIsARejection(t *testing.T) {
	for _, policy := range []*retry.Policy{nil, retry.New(retry.Config{})} {
		b := fusebox.New("b", fusebox.Config{})
		b.Override(fusebox.ForceOpen, fusebox.Note{})
		tr := &fuseboxhttp.Transport{Retry: policy, Admit: func(req *http.Request) (*http.Request, fusebox.Permit, error) {
			permit, err := b.Allow(req.Context())
			return nil, permit.Take(), err
		}}
		body := &closing{Reader: strings.NewReader("body")}
		resp, err := tr.RoundTrip(requestTo("PUT", "http://nobody/", body))
		if resp != nil || !errors.Is(err, fusebox.ErrOpen) || !body.closed {
			t.Errorf("%v, %v, body closed: %v", resp, err, body.closed)
		}
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

func TestABodyThatFailsOrDoesNotComeIsNotTheHostsFault(t *testing.T) {
	broken := errors.New("broken")
	// A transport returns when its time is over, and may leave a Read in progress.
	sends := memory(func(req *http.Request) (*http.Response, error) {
		done := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, req.Body)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil {
				<-req.Context().Done()
				err = context.Cause(req.Context())
			}
			return nil, err
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		}
	})
	never, feed := io.Pipe()
	defer feed.Close()
	for name, c := range map[string]struct {
		body  io.Reader
		blame bool
	}{
		"the body fails":           {io.MultiReader(strings.NewReader("x"), readerFunc(func([]byte) (int, error) { return 0, broken })), false},
		"the body does not come":   {never, false},
		"the host does not answer": {strings.NewReader("body"), true},
		"the host, without a body": {nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			tr := &fuseboxhttp.Transport{Base: sends, Timeout: 20 * time.Millisecond}
			if c.body == nil {
				tr.Base = memory(func(req *http.Request) (*http.Response, error) {
					<-req.Context().Done()
					return nil, context.Cause(req.Context())
				})
			}
			_, err := tr.RoundTrip(requestTo("PUT", "http://example.com/", c.body))
			if errors.Is(err, fuseboxhttp.ErrRequestBody) == c.blame || errors.Is(err, broken) != (name == "the body fails") {
				t.Errorf("%v", err)
			}
			if name == "the body does not come" && (!errors.Is(err, fuseboxhttp.ErrTimeout) || !hasTimeout(err)) {
				t.Errorf("%v is no timeout", err)
			}
			b, _ := tr.Breakers().Lookup("example.com")
			if n := b.Snapshot().Totals; n.Failures == 1 != c.blame || n.Ignored == 1 == c.blame {
				t.Errorf("%+v", n)
			}
		})
	}
}

func hasTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

func TestRepeatable(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	status := func(code int) error { return &fuseboxhttp.StatusError{StatusCode: code} }
	for _, c := range []struct {
		method, key string
		err         error
		want        bool
	}{
		{"GET", "", io.ErrUnexpectedEOF, true},
		{"PUT", "", status(503), true},
		{"POST", "", io.ErrUnexpectedEOF, false},
		{"POST", "Idempotency-Key", io.ErrUnexpectedEOF, true},
		{"POST", "", dial, true},
		{"PATCH", "", status(503), false},
		{"PATCH", "", status(429), true},
		{"PATCH", "", status(408), true},
	} {
		req := requestTo(c.method, "http://x/", nil)
		if c.key != "" {
			req.Header.Set(c.key, "1")
		}
		if got := fuseboxhttp.Repeatable(req, c.err); got != c.want {
			t.Errorf("%s %s %v: %v", c.method, c.key, c.err, got)
		}
	}
}

// Base makes a body anew where a connection turns out to be stale, also where there
// is no retry policy.
func TestABodyMadeAnewIsNotTheHostsFaultEither(t *testing.T) {
	broken := errors.New("broken")
	never, feed := io.Pipe()
	defer feed.Close()
	for name, body := range map[string]io.Reader{
		"it fails":         readerFunc(func([]byte) (int, error) { return 0, broken }),
		"it does not come": never,
	} {
		t.Run(name, func(t *testing.T) {
			tr := &fuseboxhttp.Transport{Timeout: 20 * time.Millisecond, Base: memory(func(req *http.Request) (*http.Response, error) {
				again, err := req.GetBody()
				if err != nil {
					return nil, err
				}
				done := make(chan error, 1)
				go func() {
					_, err := again.Read(make([]byte, 1))
					done <- err
				}()
				select {
				case err := <-done:
					return nil, err
				case <-req.Context().Done():
					return nil, context.Cause(req.Context())
				}
			})}
			req := requestTo("PUT", "http://example.com/", strings.NewReader("body"))
			req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(body), nil }
			if _, err := tr.RoundTrip(req); !errors.Is(err, fuseboxhttp.ErrRequestBody) {
				t.Errorf("%v", err)
			}
			b, _ := tr.Breakers().Lookup("example.com")
			if n := b.Snapshot().Totals; n.Failures != 0 || n.Ignored != 1 {
				t.Errorf("%+v", n)
			}
		})
	}
}

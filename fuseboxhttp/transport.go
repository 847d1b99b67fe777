package fuseboxhttp

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/retry"
)

// Transport is an [http.RoundTripper] that asks a breaker before each request,
// by default one a host, and tells it what became of it. The zero value works.
// It is safe for concurrent use; the fields may not change once a method has
// been called. It may not be copied. It holds no goroutine, and no timer but
// those of requests under way.
//
// A rejection is returned as it is: errors.Is(err, fusebox.ErrOpen) holds for
// what [http.Client] makes of it. A response is returned whatever the breaker
// thinks of it, with its body open and unread. An error is judged by the
// Config.Classify of the breaker: by default the cancellation of the request's
// context is ignored, and its deadline is a failure, as is anything else. But an
// error of the request's own body is ignored, and not retried: the host is not
// to blame for what a client sends, or fails to send, through a proxy. So is a
// timeout or a deadline while the body keeps the attempt waiting. Such errors
// match [ErrRequestBody]. Behind an
// http.Client each redirect is a request of its own, for the breaker of its
// own host.
//
// With neither JudgeBody nor Timeout nor Retry, responses and requests without a
// body pass untouched, and a success allocates nothing. A request with a body is
// copied, shallowly, so that errors of the body are seen: two allocations, three
// where it has GetBody.
type Transport struct {
	// Base makes the requests. nil: [http.DefaultTransport].
	Base http.RoundTripper

	// Registry keeps the breakers; give one to several transports to share
	// them. For other settings than those of the zero [fusebox.Config] give
	// &fusebox.Registry{Config: …}, a function of the key. nil: a registry of
	// the transport's own, the zero value of its type.
	Registry *fusebox.Registry

	// Key names the breaker of a request; requests of the same key share one.
	// "" stands for none: the request is made without asking. Keys ought to be
	// few: never a path with an identifier in it. nil: [Host].
	Key func(*http.Request) string

	// Admit, in place of Registry and Key, asks a breaker of its choice: a
	// balancer chooses a server and asks the breaker of that one. It is called
	// for each attempt, and returns the request to make and its permit. The
	// request is req, or a shallow copy with, say, another URL, which the
	// Transport may change; context, body and GetBody stay those of req. The zero
	// Permit stands for no breaker. An error is a rejection, and returned as it
	// is. nil: Registry and Key.
	Admit func(req *http.Request) (*http.Request, fusebox.Permit, error)

	// Classify judges a response by its head. It must neither read nor close
	// the body. A panic in it is a failure, closes the body and passes on.
	// nil: the function [Classify].
	Classify func(*http.Response) fusebox.Outcome

	// Check finds fault with an answer that is a success by Classify, for protocols
	// that tell in a header or a trailer what became of a request, as gRPC does.
	// It is called once, when the answer is over: at the end of its body with
	// JudgeBody, else at the head. Its error is judged like one of the request:
	// by default it is a failure, ignored if the caller has left. Retry goes by
	// errors at the head alone. It may neither read nor close the body, and is safe
	// for concurrent use. nil: status and body say all.
	Check func(*http.Response) error

	// JudgeBody waits with a success until the end of the response's body: for
	// streams, and dependencies that die in the middle of an answer. A body
	// read to its end is a success, an error while reading is judged like one
	// of the request, and a body that the caller closes before its end is a
	// success if something had been read, and else ignored. The caller's
	// cancellation is ignored. Whether it was slow is judged by the time to the
	// head. A body neither read to its end nor closed is not judged; a
	// probe's lease is renewed at the head and whenever bytes arrive, and ends
	// as usual.
	JudgeBody bool

	// Timeout bounds an attempt: the time until the head of the response has
	// arrived. The error then matches [ErrTimeout] and
	// [context.DeadlineExceeded], has Timeout() true, and is a failure. Zero:
	// no bound. RoundTrip returns an error if it is negative.
	Timeout time.Duration

	// TimeoutBody lets Timeout cover the reading of the body too, whose Read
	// then returns the error. It does not cover an upgraded connection, and
	// does nothing without Timeout.
	TimeoutBody bool

	// Retry makes failed requests again, each attempt under the breaker and its
	// own Timeout: see the package documentation for which. The hosts of a
	// transport share the policy's budget; where one of them being down must
	// not cost the others their retries, give each a transport. nil: none.
	Retry *retry.Policy

	own fusebox.Registry // where Registry is nil
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Timeout < 0 {
		closeBody(req)
		return nil, fmt.Errorf("fusebox: Transport.Timeout is %v, must not be negative; 0 is none", t.Timeout)
	}
	if t.Retry != nil {
		return t.retry(req)
	}
	sent, permit, err := t.admit(req)
	if err != nil {
		return nil, err
	}
	var src *source
	if req.Body != nil && req.Body != http.NoBody {
		src = &source{ReadCloser: req.Body}
		sent = copied(sent, req)
		sent.Body = src
		if req.GetBody != nil {
			sent.GetBody = src.anew(req.GetBody)
		}
	}
	resp, _, err := t.attempt(&permit, sent, src)
	if resp == nil {
		return nil, err
	}
	if resp.Request == sent {
		resp.Request = req
	}
	return resp, nil
}

// admit is allow for a request that is not attempted again: unless it is
// admitted, its body is closed.
func (t *Transport) admit(req *http.Request) (sent *http.Request, permit fusebox.Permit, err error) {
	admitted := false
	defer func() {
		if !admitted { // also if Key or Admit panics
			closeBody(req)
		}
	}()
	sent, permit, err = t.allow(req)
	admitted = err == nil
	return sent, permit.Take(), err
}

// Breakers returns the registry in use: for metrics, overrides, settings.
func (t *Transport) Breakers() *fusebox.Registry {
	if t.Registry != nil {
		return t.Registry
	}
	return &t.own
}

// CloseIdleConnections closes those of Base, if it knows how to. The method of
// the same name of [http.Client] calls it.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

// Host returns the host a request goes to, and the port unless it is the
// default of the scheme: "api.example.com", "[::1]:8080". It is in lower case.
// It is that of the URL, not of the Host header: what is dialled is what is
// guarded. It allocates nothing where the URL has that form already.
func Host(req *http.Request) string {
	if req.URL == nil {
		return ""
	}
	host := strings.ToLower(req.URL.Host)
	switch req.URL.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":")
}

package fuseboxhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/retry"
)

// retry makes the request until the policy has enough. The last response is
// handed over, whatever its status.
func (t *Transport) retry(req *http.Request) (*http.Response, error) {
	c := &call{t: t, req: req}
	if req.Body != nil && req.Body != http.NoBody {
		c.body = newRequestBody(req.Body)
	}
	returned := false
	defer func() {
		if !returned {
			c.giveUp() // a function of the policy, Base or Classify panicked
		}
	}()
	err := t.Retry.Do(req.Context(), c.attempt)
	returned = true
	if c.resp != nil {
		c.closeNext()
		return c.resp, nil
	}
	c.giveUp()
	if _, several := err.(*retry.Error); !several && c.err != nil { //nolint:errorlint // what it wraps is of other layers
		return nil, c.err // without the marks that are for the policy alone
	}
	return nil, err
}

// call is a request that may be attempted several times.
type call struct {
	t   *Transport
	req *http.Request // never changed

	body *requestBody  // nil: the request has none
	sent bool          // body has been handed to an attempt
	next io.ReadCloser // for another attempt; nil: none yet

	mu    sync.Mutex
	extra []*requestBody // made by Base itself, in place of body

	// Of the last attempt.
	resp *http.Response // nil once discarded
	err  error
}

// attempt is what the policy calls. A rejection leaves the body for the next.
func (c *call) attempt(context.Context) error {
	if err := c.rewind(); err != nil {
		c.err = err
		return retry.Permanent(err)
	}
	req, permit, err := c.t.allow(c.req)
	if err != nil {
		c.err = err
		return err
	}
	var src *source
	if c.body != nil {
		req = copied(req, c.req)
		req.Body, c.sent, src = c.body, true, &c.body.source
		if req.GetBody != nil {
			req.GetBody = c.getBody
		}
	}
	resp, outcome, err := c.t.attempt(&permit, req, src)
	if c.resp = resp; resp == nil {
		c.err = err
		if outcome == fusebox.Ignored {
			return retry.Permanent(err)
		}
		return c.mark(err)
	}
	c.err = nil
	if resp.Request == req {
		resp.Request = c.req
	}
	status := resp.StatusCode
	if outcome != fusebox.Failure && status != http.StatusRequestTimeout {
		return nil
	}
	if err == nil {
		err = &StatusError{status}
	}
	err = &answer{err, c}
	if d, ok := retry.ParseAfter(resp.Header["Retry-After"], time.Now()); ok {
		err = retry.After(err, d)
	}
	return c.mark(err)
}

// mark marks the error of an attempt that may not be followed by another.
func (c *call) mark(err error) error {
	if !Repeatable(c.req, err) {
		return retry.Permanent(err)
	}
	if c.body == nil {
		return err
	}
	// The body is made now: should that fail, the response is still there.
	if c.next == nil && c.req.GetBody != nil {
		c.next, _ = c.req.GetBody()
	}
	if c.next == nil {
		return retry.Permanent(err)
	}
	return err
}

// getBody is Request.GetBody for Base, which makes the body anew where a
// connection turns out to be stale.
func (c *call) getBody() (io.ReadCloser, error) {
	body, err := c.req.GetBody()
	if err != nil {
		return nil, err
	}
	b := newRequestBody(body)
	c.body.newest.Store(&b.source)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.extra = append(c.extra, b)
	return b, nil
}

// Repeatable reports whether a request that failed with err may be made again, as
// far as the request goes: it may be processed twice, or err says that it has
// certainly not been processed. It is what [Transport] goes by; the package
// documentation has the rules. A response that failed stands for its
// [*StatusError].
func Repeatable(req *http.Request, err error) bool {
	return safe(req) || untouched(err)
}

// untouched reports whether err says that the request was not processed.
func untouched(err error) bool {
	if notSent(err) {
		return true
	}
	var status *StatusError
	return errors.As(err, &status) &&
		(status.StatusCode == http.StatusRequestTimeout || status.StatusCode == http.StatusTooManyRequests)
}

// safe reports whether a request may be processed twice.
func safe(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return req.Header["Idempotency-Key"] != nil || req.Header["X-Idempotency-Key"] != nil
}

// notSent reports whether err says that there was no connection to send
// anything on.
func notSent(err error) bool {
	var e *net.OpError
	return errors.As(err, &e) && (e.Op == "dial" || e.Op == "proxyconnect")
}

// rewind sees to it that the body is at its beginning and nobody else reads it.
func (c *call) rewind() error {
	if !c.sent {
		return nil
	}
	c.mu.Lock()
	extra := c.extra
	c.extra = nil
	c.mu.Unlock()
	ctx := c.req.Context()
	for _, b := range append(extra, c.body) {
		if err := b.letGo(ctx); err != nil {
			return err
		}
	}
	if c.next == nil {
		return c.err // of the last attempt: a refusal by Base
	}
	c.body, c.next, c.sent = newRequestBody(c.next), nil, false
	return nil
}

// giveUp closes what is open: the call ends without a response.
func (c *call) giveUp() {
	closeResponse(c.resp)
	if c.body != nil {
		_ = c.body.Close()
	}
	c.closeNext()
}

func (c *call) closeNext() {
	if c.next != nil {
		_ = c.next.Close()
		c.next = nil
	}
}

// answer is the error of an attempt that was answered, but not well.
type answer struct {
	error
	call *call
}

func (a *answer) Unwrap() error { return a.error }

// What a discarded response may still cost, to keep its connection.
const (
	drainBytes = 64 << 10
	drainTime  = 50 * time.Millisecond
)

// Discard lets go of the response, because there will be another attempt: see
// retry.Policy.Do.
func (a *answer) Discard() {
	resp := a.call.resp
	a.call.resp = nil
	if resp == nil || resp.Body == nil { // nil: a retry further out asks too
		return
	}
	enough := time.AfterFunc(drainTime, func() { _ = resp.Body.Close() })
	defer func() {
		if enough.Stop() {
			_ = resp.Body.Close()
		}
	}()
	_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
}

// requestBody is the body of one attempt. Of all who close it, Base among
// them, the first does; and it can be found out when nobody reads it any more.
type requestBody struct {
	source
	closed  atomic.Bool
	reading chan struct{} // holds a value while somebody does
}

func newRequestBody(body io.ReadCloser) *requestBody {
	return &requestBody{source: source{ReadCloser: body}, reading: make(chan struct{}, 1)}
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.reading <- struct{}{}
	defer func() { <-b.reading }()
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.source.Read(p)
}

// Close implements io.Closer.
func (b *requestBody) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.ReadCloser.Close()
}

// letGo closes the body and waits until nobody reads it. Base may still do so
// when it has returned. Closing ends a Read in progress: http.Request.Body says
// that it must.
func (b *requestBody) letGo(ctx context.Context) error {
	_ = b.Close()
	select {
	case b.reading <- struct{}{}:
		<-b.reading
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

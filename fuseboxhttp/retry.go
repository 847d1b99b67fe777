package fuseboxhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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

	body *requestBody // nil: the request has none
	sent bool         // body has been handed to an attempt

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
	permit, err := c.t.allow(c.req)
	if err != nil {
		c.err = err
		return err
	}
	req := c.req
	if c.body != nil {
		req = req.WithContext(req.Context()) // a shallow copy
		req.Body, c.sent = c.body, true
	}
	resp, outcome, err := c.t.attempt(&permit, req)
	c.resp, c.err = resp, err
	if err != nil {
		return c.mark(err, notSent(err))
	}
	if resp.Request == req {
		resp.Request = c.req
	}
	status := resp.StatusCode
	if outcome != fusebox.Failure && status != http.StatusRequestTimeout {
		return nil
	}
	err = &answer{&StatusError{status}, c}
	if d, ok := retry.ParseAfter(resp.Header["Retry-After"], time.Now()); ok {
		err = retry.After(err, d)
	}
	return c.mark(err, status == http.StatusRequestTimeout || status == http.StatusTooManyRequests)
}

// mark marks the error of an attempt that may not be followed by another.
// untouched says that the request has certainly not been processed.
func (c *call) mark(err error, untouched bool) error {
	if (untouched || safe(c.req)) && (c.body == nil || c.req.GetBody != nil) {
		return err
	}
	return retry.Permanent(err)
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
	ctx := c.req.Context()
	if err := c.body.letGo(ctx); err != nil {
		return err
	}
	if c.req.GetBody == nil {
		return c.err // of the last attempt: a refusal by Base
	}
	body, err := c.req.GetBody()
	if err != nil {
		return fmt.Errorf("fusebox: body for another attempt: %w", err)
	}
	c.body, c.sent = newRequestBody(body), false
	return nil
}

// giveUp closes what is open: the call ends without a response.
func (c *call) giveUp() {
	closeResponse(c.resp)
	if c.body != nil {
		_ = c.body.Close()
	}
}

// answer is the error of an attempt that was answered, but not well.
type answer struct {
	*StatusError
	call *call
}

func (a *answer) Unwrap() error { return a.StatusError }

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
	io.ReadCloser
	closed  atomic.Bool
	reading chan struct{} // holds a value while somebody does
}

func newRequestBody(body io.ReadCloser) *requestBody {
	return &requestBody{ReadCloser: body, reading: make(chan struct{}, 1)}
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.reading <- struct{}{}
	defer func() { <-b.reading }()
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.ReadCloser.Read(p)
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

package fuseboxhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/fusebox-go/fusebox"
)

// allow asks the breaker of a request, if it has one. It returns the request to
// make, which is req or a copy of it.
func (t *Transport) allow(req *http.Request) (*http.Request, fusebox.Permit, error) {
	if t.Admit != nil {
		return t.Admit(req)
	}
	key := t.Key
	if key == nil {
		key = Host
	}
	k := key(req)
	if k == "" {
		return req, fusebox.Permit{}, nil
	}
	permit, err := t.Breakers().Get(k).Allow(req.Context())
	return req, permit.Take(), err
}

// copied returns a shallow copy of req, unless sent is one already.
func copied(sent, req *http.Request) *http.Request {
	if sent != req {
		return sent
	}
	return req.WithContext(req.Context())
}

// attempt makes the request, whose body src is, if it has one, and finishes the
// permit, at the latest when the body of the response has ended. An error beside a
// response says why that is a failure.
func (t *Transport) attempt(permit *fusebox.Permit, req *http.Request, src *source) (resp *http.Response, o fusebox.Outcome, err error) {
	ctx := req.Context()
	var b *body // what lasts until the end of the response
	returned := false
	defer func() {
		if !returned { // Base or Classify panicked, or ended the goroutine
			defer permit.Record(fusebox.Failure) // an observer may end it too
			b.end()
			closeResponse(resp)
		}
	}()
	if t.Timeout == 0 && !t.JudgeBody {
		resp, err = t.send(req)
	} else {
		b = &body{caller: ctx}
		resp, err = b.send(t, req)
	}
	if err != nil {
		o = fusebox.Failure
		if src.failed(err) || src.awaited(err) {
			o, err = fusebox.Ignored, &bodyError{err}
			permit.FinishAs(ctx, o, err)
		} else {
			permit.Finish(ctx, err)
		}
		returned = true
		return nil, o, err
	}
	o = t.judge(resp)
	held := o == fusebox.Success && t.JudgeBody && hasBody(req, resp)
	switch {
	case held:
		b.hold(permit, resp, t.Check)
	case o == fusebox.Success && t.Check != nil:
		err = t.Check(resp)
	case o != fusebox.Success && o != fusebox.Ignored:
		err = &StatusError{resp.StatusCode}
	}
	switch {
	case err != nil:
		o = fusebox.Failure
		permit.Finish(ctx, err)
	case !held:
		permit.Record(o)
	}
	b.wrap(resp)
	returned = true
	return resp, o, err
}

// ErrRequestBody is matched by the error of an attempt that the request's own
// body made fail: reading it failed, or did not return before the attempt's time
// was over. The host is not to blame: a server answers 400 or 408 rather than 502
// or 504.
var ErrRequestBody = errors.New("fusebox: request body failed")

// bodyError marks an error with ErrRequestBody.
type bodyError struct{ error }

func (e *bodyError) Unwrap() error        { return e.error }
func (e *bodyError) Is(target error) bool { return target == ErrRequestBody }
func (e *bodyError) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.error, &t) && t.Timeout()
}

// source is the body of a request. It remembers how reading it failed.
type source struct {
	io.ReadCloser
	busy    atomic.Bool // somebody waits for it
	failure atomic.Pointer[error]
	newest  atomic.Pointer[source] // that Base has made anew, in the place of this one; nil: none
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	s.busy.Store(true)
	n, err := s.ReadCloser.Read(p)
	s.busy.Store(false)
	if err != nil && err != io.EOF {
		s.failure.CompareAndSwap(nil, &err)
	}
	return n, err
}

// anew returns a Request.GetBody whose bodies stand for s.
func (s *source) anew(get func() (io.ReadCloser, error)) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		body, err := get()
		if err != nil {
			return nil, err
		}
		b := &source{ReadCloser: body}
		s.newest.Store(b)
		return b, nil
	}
}

// used returns the body that counts: Base has let go of those before, and what comes
// of reading them shows nothing.
func (s *source) used() *source {
	if b := s.newest.Load(); b != nil {
		return b
	}
	return s
}

// failed reports whether err, of an attempt, comes from the request's own body.
func (s *source) failed(err error) bool {
	if s == nil {
		return false
	}
	cause := s.used().failure.Load()
	return cause != nil && errors.Is(err, *cause)
}

// awaited reports whether err, of an attempt, is that time was over while the
// request's own body kept the attempt waiting, or had failed.
func (s *source) awaited(err error) bool {
	if s == nil || !errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	b := s.used()
	return b.busy.Load() || b.failure.Load() != nil
}

// errNothing is what a Base that breaks the contract of RoundTripper comes to.
var errNothing = errors.New("fusebox: Transport.Base returned neither a response nor an error")

// send makes the request.
func (t *Transport) send(req *http.Request) (*http.Response, error) {
	resp, err := t.base().RoundTrip(req)
	if resp == nil && err == nil {
		err = errNothing
	}
	return resp, err
}

func (t *Transport) judge(resp *http.Response) fusebox.Outcome {
	if t.Classify != nil {
		return t.Classify(resp)
	}
	return Classify(resp)
}

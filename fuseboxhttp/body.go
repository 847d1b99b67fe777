package fuseboxhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

// ErrTimeout is matched by the error of an attempt that was not answered within
// Transport.Timeout.
var ErrTimeout = errors.New("fusebox: attempt timed out")

// timeoutError is what ends an attempt, and the cause of its context's end.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("%v after %v", ErrTimeout, e.after) }
func (e *timeoutError) Timeout() bool { return true }
func (e *timeoutError) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// body is the body of a response, and what waits for its end: the attempt's
// context and timeout, if it has one, and its permit, if the body is to be
// judged. A nil body waits for nothing.
type body struct {
	io.ReadCloser // the response's

	caller context.Context // with which the attempt was admitted

	// Of an attempt with a timeout; else nil.
	ctx    context.Context // the attempt's
	cancel context.CancelCauseFunc
	timer  *time.Timer
	late   *timeoutError

	judged  bool
	resp    *http.Response             // what is judged
	check   func(*http.Response) error // Transport.Check
	unwatch func() bool                // of the caller's context; nil: it is not watched
	took    time.Duration              // to the head
	guard   guard
}

// send makes the request, under the timeout.
func (b *body) send(t *Transport, req *http.Request) (*http.Response, error) {
	sent := req
	if t.Timeout > 0 {
		b.late = &timeoutError{t.Timeout}
		b.ctx, b.cancel = context.WithCancelCause(b.caller)
		b.timer = time.AfterFunc(t.Timeout, func() { b.cancel(b.late) })
		sent = req.WithContext(b.ctx)
	}
	start := time.Now()
	resp, err := t.send(sent)
	b.took = time.Since(start)
	if t.Timeout == 0 {
		return resp, err
	}
	// The timer is asked, not the context: what it has begun, it will do.
	goesOn := t.TimeoutBody && err == nil && resp.StatusCode != http.StatusSwitchingProtocols
	if goesOn && !b.timedOut() || !goesOn && b.timer.Stop() {
		if err != nil {
			b.end()
		} else if resp.Request == sent {
			resp.Request = req
		}
		return resp, err
	}
	b.end()
	closeResponse(resp)
	return nil, b.late
}

func (b *body) timedOut() bool { return b.late != nil && errors.Is(context.Cause(b.ctx), b.late) }

// hold takes the permit over until the body ends.
func (b *body) hold(permit *fusebox.Permit, resp *http.Response, check func(*http.Response) error) {
	permit.Renew()
	b.judged, b.resp, b.check = true, resp, check
	b.guard.permit = permit.Take()
	if b.caller.Done() != nil {
		b.unwatch = context.AfterFunc(b.caller, b.left)
	}
}

// left finishes the permit with the caller's context, also where nobody reads
// or closes the body any more: a hedged request that lost.
func (b *body) left() {
	b.finish(func(b *body, permit *fusebox.Permit) {
		if callerLeft(b.caller) {
			permit.Record(fusebox.Ignored) // else a long stream that its caller leaves would be a slow failure
		} else {
			permit.Finish(b.caller, b.caller.Err())
		}
	})
}

// callerLeft reports whether a context was cancelled, and not for its deadline.
func callerLeft(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.Canceled) && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// wrap puts b in the place of the response's body, if there is an end to wait for.
func (b *body) wrap(resp *http.Response) {
	switch conn, ok := resp.Body.(io.ReadWriteCloser); {
	case b == nil || b.cancel == nil && !b.judged:
	case ok && resp.StatusCode == http.StatusSwitchingProtocols:
		resp.Body = upgraded{conn, b.end}
	case resp.Body != nil && resp.Body != http.NoBody && resp.StatusCode != http.StatusSwitchingProtocols:
		// Also one that says it is empty: over HTTP/2 its stream may still be open.
		b.ReadCloser = resp.Body
		resp.Body = b
	default:
		b.end()
	}
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && b.judged {
		b.renew()
	}
	if err != nil {
		err = b.ended(err)
	}
	return n, err
}

// ended does what is to be done when Read has returned err, and returns the
// error for the caller.
func (b *body) ended(err error) error {
	defer b.end()
	verdict := err
	switch {
	case err == io.EOF: //nolint:errorlint // a Reader returns it bare; wrapped it is something else
		verdict = nil
		if b.check != nil && b.judged {
			verdict = b.check(b.resp)
		}
		if verdict == nil {
			b.finish((*body).good)
			return err
		}
	case b.timedOut():
		err, verdict = b.late, b.late
	}
	if callerLeft(b.caller) {
		verdict = fusebox.Ignore(verdict) // else a long stream that its caller leaves would be a slow failure
	}
	b.finish(func(b *body, permit *fusebox.Permit) { permit.Finish(b.caller, verdict) })
	return err
}

func (b *body) good(permit *fusebox.Permit) { permit.RecordAfter(fusebox.Success, b.took) }

// Close implements io.Closer. The permit is finished first: the error of a
// Read that Close interrupts shows nothing.
func (b *body) Close() (err error) {
	defer func() { // an observer may end the goroutine
		err = b.ReadCloser.Close()
		b.end()
	}()
	b.finish(func(b *body, permit *fusebox.Permit) {
		if b.guard.seen {
			b.good(permit)
		} else {
			permit.Record(fusebox.Ignored)
		}
	})
	return nil
}

// end lets go of the attempt's context.
func (b *body) end() {
	if b == nil {
		return
	}
	if b.unwatch != nil {
		b.unwatch()
	}
	if b.cancel != nil {
		b.timer.Stop()
		b.cancel(nil)
	}
}

// upgraded is the body of a response that has switched protocols: a connection,
// which ends when it is closed, not when the other side has no more to say.
type upgraded struct {
	io.ReadWriteCloser
	end func()
}

// Close implements io.Closer.
func (u upgraded) Close() error {
	defer u.end()
	return u.ReadWriteCloser.Close()
}

// CloseWrite closes one direction, where the connection can; a proxy asks for it.
func (u upgraded) CloseWrite() error {
	if c, ok := u.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return fmt.Errorf("fusebox: CloseWrite: %w", http.ErrNotSupported)
}

// guard is a permit with two finishers, Read and Close: whoever comes first
// finishes it. While it is being renewed, which may call observers and so is
// not done under the lock, it is lent, and the renewer lets the finisher finish.
type guard struct {
	mu     sync.Mutex
	permit fusebox.Permit
	seen   bool // something has been read
	lent   bool
	how    finisher // came while it was lent
	over   bool     // somebody finishes it; nothing here changes any more
}

// finisher is called once, under no lock. One that remembers nothing allocates nothing.
type finisher func(b *body, permit *fusebox.Permit)

// renew renews the permit: something has been read.
func (b *body) renew() {
	g := &b.guard
	g.mu.Lock()
	if g.over {
		g.mu.Unlock()
		return
	}
	g.seen = true
	if g.lent {
		g.mu.Unlock()
		return
	}
	g.lent = true
	permit := g.permit.Take()
	g.mu.Unlock()

	defer func() { // an observer may end the goroutine
		g.mu.Lock()
		g.permit, g.lent = permit.Take(), false
		how := g.how
		g.mu.Unlock()
		if how != nil {
			b.finish(how)
		}
	}()
	permit.Renew()
}

func (b *body) finish(how finisher) {
	g := &b.guard
	g.mu.Lock()
	if g.lent && g.how == nil {
		g.how = how
	}
	if g.lent || g.over {
		g.mu.Unlock()
		return
	}
	g.over = true
	g.mu.Unlock()
	defer g.permit.Record(fusebox.Failure) // where Config.Classify panics
	how(b, &g.permit)
}

// hasBody reports whether a response has a body whose end can be waited for.
// A connection of another protocol is none.
func hasBody(req *http.Request, resp *http.Response) bool {
	switch {
	case resp.Body == nil, resp.Body == http.NoBody, resp.ContentLength == 0, req.Method == http.MethodHead:
		return false
	}
	switch resp.StatusCode {
	case http.StatusSwitchingProtocols, http.StatusNoContent, http.StatusNotModified:
		return false
	}
	return true
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

func closeResponse(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close()
	}
}

package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

// upstream is an upstream under one configuration. It does not change; what it
// points to, and what it has in common with others of its name, survives reloads.
type upstream struct {
	name        string
	transport   *fuseboxhttp.Transport // retry, breaker, timeout of a try
	endpoints   []*endpoint
	turn        *atomic.Uint64
	guard       *guard // nil: each endpoint has its own
	mostOut     int    // endpoints that may be left out
	whenAllOpen config.WhenAllOpen

	bulkhead *bulkhead.Policy // nil: none
	perTry   time.Duration    // 0: none
	total    time.Duration    // 0: none, or perTry covers it
	late     error            // of what takes longer than total
	lateTry  error            // and than perTry
	record   int64            // bytes of a request body that are kept to be sent again; 0: none
	failing  [600]bool        // by status
	fallback *fallback        // nil: none
}

// lateError is the error of a try, or a request, that took too long.
type lateError struct{ after time.Duration }

func (e *lateError) Error() string        { return fmt.Sprintf("fusebox: no answer within %v", e.after) }
func (e *lateError) Timeout() bool        { return true }
func (e *lateError) Is(target error) bool { return target == context.DeadlineExceeded }

// stage is a request on its way through one upstream, and the context of its tries
// and of the waits between them. A try has a context of its own below that of the
// client, which lasts as long as the answer. While nothing times out one serves all
// tries, and one timer: they are most of what a timeout costs.
type stage struct {
	context.Context
	call     *call
	upstream *upstream
	endpoint *endpoint        // of the present try
	tried    []*endpoint      // so far, if there is more than one
	deadline time.Time        // of all tries; zero: none
	place    *bulkhead.Policy // in which it has a place; nil: none

	client context.Context
	try    context.Context // nil: none yet, or it has timed out
	cancel context.CancelCauseFunc
	timer  *time.Timer

	// stopped is closed when the timer has stopped the body: any later, that could
	// be the body of the next try. nil: there is none.
	stopped chan struct{}
}

type stageKey struct{}

// Value returns the stage itself for its key.
func (s *stage) Value(key any) any {
	if _, ok := key.(stageKey); ok {
		return s
	}
	return s.Context.Value(key)
}

// Deadline returns when waits must be over.
func (s *stage) Deadline() (time.Time, bool) {
	if !s.deadline.IsZero() {
		return s.deadline, true
	}
	return s.Context.Deadline()
}

// end lets go of what lasts as long as the answer.
func (s *stage) end() {
	if s.cancel != nil {
		s.cancel(nil)
	}
	if p := s.place; p != nil {
		s.place = nil
		p.Release()
	}
	if s.endpoint != nil {
		s.endpoint.used()
	}
	for _, e := range s.tried {
		e.used()
	}
}

// connections is the innermost: a try, on the endpoint that was chosen for it.
type connections struct{}

// RoundTrip implements [http.RoundTripper].
func (connections) RoundTrip(req *http.Request) (*http.Response, error) {
	s := req.Context().Value(stageKey{}).(*stage)
	limit, late := s.limit()
	if late == nil {
		return s.endpoint.roundTrip(s.endpoint.to(req, s.client))
	}
	if s.try == nil {
		s.begin(limit, late)
	} else {
		s.timer.Reset(limit)
	}
	resp, err := s.endpoint.roundTrip(s.endpoint.to(req, s.try))
	if s.timer.Stop() { // it is asked, not the context: what it has begun, it will do
		return resp, err
	}
	if s.stopped != nil {
		<-s.stopped
	}
	s.try = nil
	drop(resp)
	return nil, late
}

// begin gives the tries a context and a timer.
func (s *stage) begin(limit time.Duration, late error) {
	try, cancel := context.WithCancelCause(s.client)
	s.try, s.cancel = try, cancel
	body := s.call.tape
	if body == nil {
		s.timer = time.AfterFunc(limit, func() { cancel(late) })
		return
	}
	stopped := make(chan struct{})
	s.stopped = stopped
	s.timer = time.AfterFunc(limit, func() {
		cancel(late)
		body.stop()
		close(stopped)
	})
}

// limit returns how long the present try may take, and the error if it takes longer;
// nil: it may take as long as it likes.
func (s *stage) limit() (time.Duration, error) {
	u := s.upstream
	if s.deadline.IsZero() {
		if u.perTry == 0 {
			return 0, nil
		}
		return u.perTry, u.lateTry
	}
	left := time.Until(s.deadline)
	if u.perTry == 0 || left < u.perTry {
		return left, u.late
	}
	return u.perTry, u.lateTry
}

// send is an upstream without its fallback. What lasts as long as the answer ends
// with the stage, which c keeps until then.
func (u *upstream) send(c *call, req *http.Request) (resp *http.Response, err error) {
	s := &c.first
	if c.stage != nil {
		s = new(stage) // somebody may still look into the first, as a context
	}
	*s = stage{Context: req.Context(), call: c, upstream: u, client: req.Context()}
	c.stage = s
	expired := func() bool { return false }
	if u.total > 0 {
		s.deadline = time.Now().Add(u.total)
		if c.tape != nil { // for whose last reader a retry may have to wait
			ctx, cancel := context.WithCancelCause(s.Context)
			s.Context = ctx
			timer := time.AfterFunc(u.total, func() { cancel(u.late) })
			defer timer.Stop() // where a policy panics
			expired = func() bool { return !timer.Stop() }
		}
	}
	if u.bulkhead != nil { // it waits no longer than total
		if err = u.bulkhead.Acquire(s); err != nil {
			c.refused(err)
			return nil, err
		}
		s.place = u.bulkhead
	}
	resp, err = u.transport.RoundTrip(req.WithContext(s))
	if expired() {
		drop(resp)
		resp = nil
		if _, refused := fusebox.Rejected(err); !refused && !errors.Is(err, fuseboxhttp.ErrRequestBody) {
			err = u.late
		}
	}
	if c.answered = err == nil; !c.answered {
		s.end()
	}
	return resp, err
}

// drop closes an answer that is not given.
func drop(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}

// classify judges an answer. A client may pretend that its request has gone in circles:
// what another proxy of this kind makes of that shows nothing. A status that does not
// exist, such as 600, is to be taken as a 5xx (RFC 9110, 15): as 599.
func (u *upstream) classify(resp *http.Response) fusebox.Outcome {
	switch status := resp.StatusCode; {
	case status == http.StatusLoopDetected && hops(resp.Request.Header) > 1:
		return fusebox.Ignored
	case u.failing[min(max(status, 0), 599)]:
		return fusebox.Failure
	default:
		return fusebox.Success
	}
}

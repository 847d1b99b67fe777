package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/tmaxmax/go-sse"

	"github.com/fusebox-go/fusebox/retry"
)

const (
	maxEvent   = 1 << 20          // bytes
	silence    = 45 * time.Second // three times what a server lets pass without a word
	retryBase  = 250 * time.Millisecond
	retryLimit = 10 * time.Second
)

// follower follows the event stream of one target. When the stream breaks off
// it comes back, for what it has not seen.
type follower struct {
	s    *session
	t    *target
	last string // id of the last event that was handled; "": none yet, begin with what comes

	handle func(sse.Event) error // an error ends the following
	note   func(text string)     // is told how the connection fares

	answered bool // there has been a stream
}

// run follows until the context ends, handle returns an error, or the target
// says what will not change by asking again. The end of the context is an error
// only if there has been no stream at all.
func (f *follower) run(ctx context.Context) error {
	wait := retry.Exponential(retryBase, retryLimit)
	var failed error
	for n := 1; ; n++ {
		before, began := f.last, time.Now()
		err := f.once(ctx)
		switch {
		case ctx.Err() != nil && f.answered:
			return nil
		case ctx.Err() != nil:
			return failed
		case final(err):
			return err
		case f.last != before || time.Since(began) > retryLimit:
			n = 1
		}
		failed = err
		d := wait(n)
		d = d/2 + rand.N(d/2+1) // many follow one program that has just ended
		f.note(fmt.Sprintf("%v; again in %s", err, span(d)))
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if f.answered {
				return nil
			}
			return failed
		}
	}
}

// handlingError is one of handle.
type handlingError struct{ error }

func (e handlingError) Unwrap() error { return e.error }

// final reports whether an error will not go away.
func final(err error) bool {
	if refused := new(refusedError); errors.As(err, &refused) {
		return refused.status < 500 && refused.status != http.StatusTooManyRequests
	}
	return errors.As(err, new(handlingError)) || errors.Is(err, errNoStream)
}

var errNoStream = errors.New("this is no stream of events: is the admin API served there?")

// once follows one stream to its end.
func (f *follower) once(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The first wait is for an answer, later ones for the next bytes.
	watchdog := time.AfterFunc(f.s.timeout, func() { cancel(fmt.Errorf("no answer within %v", f.s.timeout)) })
	defer watchdog.Stop()

	header := http.Header{"Accept": {"text/event-stream"}}
	if f.last != "" {
		header.Set("Last-Event-ID", f.last)
	}
	resp, err := f.s.send(ctx, f.t, http.MethodGet, eventsPath, nil, header)
	if err != nil {
		return because(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if kind := mediaType(resp); kind != "text/event-stream" {
		return fmt.Errorf("the answer is %q: %w", kind, errNoStream)
	}
	f.answered = true
	f.note("connected")
	silent := time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing has come for %v", silence)) })
	defer silent.Stop()
	watchdog.Stop()
	body := &wakeful{resp.Body, func() { silent.Reset(silence) }}
	for event, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		if err != nil {
			return because(ctx, fmt.Errorf("the stream has ended: %w", err))
		}
		if event.Data != "" || event.Type != "" {
			if err := f.handle(event); err != nil {
				return handlingError{err}
			}
		}
		if _, err := strconv.ParseUint(event.LastEventID, 10, 64); err == nil {
			f.last = event.LastEventID
		}
	}
	return errors.New("the stream has ended")
}

// because is why a context was ended by this package, or else err.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// wakeful tells of bytes that come. Its end is an error: after a plain end, the
// reader of events would take half an event for a whole one.
type wakeful struct {
	io.Reader
	came func()
}

func (w *wakeful) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.came()
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

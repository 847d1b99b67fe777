package fuseboxhttp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"

	"github.com/fusebox-go/fusebox"
)

// errLost is what a breaker is told of a handler that did not return. What it
// panicked with is not known: to learn it would be to recover it.
var errLost = errors.New("fusebox: the handler did not return: it panicked or ended its goroutine")

// reply is the answer to one admitted request, seen through the methods of its
// ResponseWriter, and the duty to judge it. Its methods are for one goroutine
// at a time, as those of a ResponseWriter are.
type reply struct {
	http.ResponseWriter // the server's
	ctx                 context.Context
	permit              fusebox.Permit
	classify            func(status int) fusebox.Outcome
	http2               bool // where 101 is not final
	status              int  // the final one; 0: none yet
	judged              bool // before the handler returned
	returned            bool // the handler has
}

// end judges the reply after the handler, also where it did not return: panics
// and Goexit pass through here.
func (w *reply) end() {
	defer w.permit.Record(fusebox.Failure) // should a Classify panic
	switch {
	case w.judged:
	case !w.returned:
		w.permit.Finish(w.ctx, errLost)
	case w.status == 0 && w.ctx.Err() != nil: // it gave up, and did not say 200
		w.permit.Finish(w.ctx, w.ctx.Err())
	default:
		w.judge(cmp.Or(w.status, http.StatusOK))
	}
}

// judge records what a status means.
func (w *reply) judge(status int) {
	w.judged = true
	outcome := fusebox.Success
	if w.classify != nil {
		outcome = w.classify(status)
	} else if failed(status) {
		outcome = fusebox.Failure
	}
	if outcome == fusebox.Success || outcome == fusebox.Ignored {
		w.permit.Record(outcome)
	} else {
		w.permit.Finish(w.ctx, &StatusError{StatusCode: status})
	}
}

// WriteHeader notes the final status once the server has taken it. Calls too
// many go on to the server, which logs them.
func (w *reply) WriteHeader(status int) {
	w.permit.Renew()
	w.ResponseWriter.WriteHeader(status)
	if w.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols && !w.http2) {
		w.status = status
	}
}

// begun notes the implicit status of a body.
func (w *reply) begun(yes bool) {
	if yes && w.status == 0 {
		w.status = http.StatusOK
	}
}

func (w *reply) Write(p []byte) (int, error) {
	w.permit.Renew()
	n, err := w.ResponseWriter.Write(p)
	w.begun(n > 0 || !errors.Is(err, http.ErrHandlerTimeout))
	return n, err
}

func (w *reply) WriteString(s string) (int, error) {
	w.permit.Renew()
	n, err := io.WriteString(w.ResponseWriter, s)
	w.begun(n > 0 || !errors.Is(err, http.ErrHandlerTimeout))
	return n, err
}

// ReadFrom leaves the copying to the server, which may have a fast way, in
// parts: one at a time is the life sign of a probe. A source that fails before
// its first byte leaves the status open.
func (w *reply) ReadFrom(src io.Reader) (n int64, err error) {
	const part = 1 << 20
	server := w.ResponseWriter.(io.ReaderFrom)
	whole, limited := src.(*io.LimitedReader) // around another it would hide the file from sendfile
	if !limited {
		whole = &io.LimitedReader{R: src, N: math.MaxInt64}
	}
	for {
		want := min(whole.N, part)
		w.permit.Renew()
		m, err := server.ReadFrom(&io.LimitedReader{R: whole.R, N: want})
		n += m
		whole.N -= m
		w.begun(m > 0)
		if err != nil || m < want || whole.N <= 0 {
			return n, err
		}
	}
}

func (w *reply) Push(target string, o *http.PushOptions) error {
	return w.ResponseWriter.(http.Pusher).Push(target, o)
}

func (w *reply) CloseNotify() <-chan bool { return w.ResponseWriter.(closeNotifier).CloseNotify() }

func (w *reply) Flush() {
	w.permit.Renew()
	w.ResponseWriter.(http.Flusher).Flush()
	w.begun(true)
}

func (w *reply) FlushError() error {
	w.permit.Renew()
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.begun(err == nil)
	return err
}

// Hijack judges at once: the answer ends where the connection is taken over.
// What is done with it may go on for hours, and shows no sign of life here.
func (w *reply) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.judge(cmp.Or(w.status, http.StatusSwitchingProtocols))
	}
	return conn, rw, err
}

// Unwrap is for http.ResponseController.
func (w *reply) Unwrap() http.ResponseWriter {
	_, wraps := w.ResponseWriter.(interface{ Unwrap() http.ResponseWriter })
	_, flushes := w.ResponseWriter.(interface{ FlushError() error })
	if wraps || flushes {
		return (*below)(w)
	}
	return w.ResponseWriter
}

// below is the server's ResponseWriter if that wraps another, or flushes in a way
// that only a ResponseController knows. What it finds there it would do behind
// the back of the reply; below has those methods that tell something about it.
type below reply

func (b *below) FlushError() error                            { return (*reply)(b).FlushError() }
func (b *below) Hijack() (net.Conn, *bufio.ReadWriter, error) { return (*reply)(b).Hijack() }
func (b *below) Unwrap() http.ResponseWriter                  { return b.ResponseWriter }

package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// errTooLong is why a request's body cannot be sent again.
var errTooLong = errors.New("fusebox: the request's body is larger than what is kept of it")

// tape is the body of a request, recorded while the first try reads it, so that
// another can. Where more is read than the limit, nothing is kept: there is no other
// try then.
//
//  1. Who holds turn reads src, and nobody else. It is a channel, not a mutex:
//     reading waits for the client.
//  2. Unless lost, recorded holds all that was read of src; once it is final, what
//     the newest playback has yet to read of that.
//  3. Of playbacks the newest alone may lose the recording: the others have promised
//     it to the newest. What they still read is one Read each.
//  4. A playback that is closed before anything was read of it was for a try that is
//     not made: the one before is the newest again, and reads on.
type tape struct {
	src       io.Reader
	limit     int64
	interrupt func() error // makes a Read of src return
	turn      chan struct{}

	mu       sync.Mutex
	recorded []byte
	forgot   int // bytes of src before recorded
	lost     bool
	final    bool // there is no other try
	newest   *playback
	err      error // with which src ended
	busy     bool  // somebody waits for src
}

func newTape(src io.Reader, limit int64, interrupt func() error) *tape {
	return &tape{src: src, limit: limit, interrupt: interrupt, turn: make(chan struct{}, 1)}
}

// stop ends what the newest playback reads: its time is over. A transport returns
// only when nobody reads the body any more, and a client may keep it waiting for
// ever. If that is so, which stop reports, there is no more of the body, and nobody
// reads it when stop returns: a server that finds somebody reading lifts the deadline.
func (t *tape) stop() (interrupted bool) {
	t.mu.Lock()
	if t.newest != nil {
		t.newest.closed = true
	}
	busy := t.busy
	t.mu.Unlock()
	if !busy || t.interrupt() != nil {
		return false
	}
	t.turn <- struct{}{}
	<-t.turn
	return true
}

// over reports whether src has been read to its end.
func (t *tape) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Is(t.err, io.EOF)
}

// settle is for when there will be no other try: what has been sent is not kept any
// longer, for the answer may be a stream.
func (t *tape) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.final = true
	t.forget()
}

// forget lets go of what nobody will read again. t.mu is held.
func (t *tape) forget() {
	if end := t.forgot + len(t.recorded); t.final && (t.newest.closed || t.newest.at >= end) {
		t.recorded, t.forgot = nil, end
	}
}

// play returns the body from its beginning, or an error if that is not kept. It does
// not wait.
func (t *tape) play() (io.ReadCloser, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost || t.final {
		return nil, errTooLong
	}
	t.newest = &playback{tape: t, before: t.newest}
	return t.newest, nil
}

// playback is the body for one try.
type playback struct {
	tape   *tape
	at     int       // in the body
	closed bool      // under tape.mu, as what follows
	before *playback // the newest until there was this one; nil: none, or closed is true
}

// Close implements io.Closer. It does not close the body: another try may need the
// rest of it.
func (p *playback) Close() error {
	t := p.tape
	t.mu.Lock()
	defer t.mu.Unlock()
	if p == t.newest && p.before != nil && p.at == 0 {
		t.newest = p.before
	}
	p.closed, p.before = true, nil
	t.forget()
	return nil
}

// Read implements io.Reader.
func (p *playback) Read(b []byte) (int, error) {
	t := p.tape
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if n, done, err := p.recorded(b); done {
		return n, err
	}
	n, err := t.src.Read(b)

	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = false
	t.err = err
	switch {
	case t.lost, t.final && p == t.newest: // nobody reads it again
	case p == t.newest && int64(len(t.recorded)+n) > t.limit:
		t.lost, t.recorded = true, nil
	default:
		t.recorded = append(t.recorded, b[:n]...)
	}
	p.at += n
	return n, err
}

// recorded reads what is recorded, and reports whether there is nothing to read of
// src. Else src is about to be read, by who has the turn.
func (p *playback) recorded(b []byte) (n int, done bool, err error) {
	t := p.tape
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case p.closed:
		return 0, true, http.ErrBodyReadAfterClose
	case (t.lost || t.final) && p != t.newest:
		return 0, true, errTooLong
	case !t.lost && p.at < t.forgot+len(t.recorded):
		n = copy(b, t.recorded[p.at-t.forgot:])
		p.at += n
		t.forget()
		return n, true, nil
	default:
		t.busy = t.err == nil
		return 0, t.err != nil, t.err
	}
}

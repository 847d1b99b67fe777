package accesslog

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// What may wait to be written, and how long Close waits for it.
const (
	queueLines = 4096
	queueBytes = 4 << 20
	closeWait  = time.Second
)

var errFull = errors.New("access log: the reader does not keep up")

// queue writes lines in a goroutine, so that nobody else waits.
type queue struct {
	out     io.WriteCloser
	dropped *atomic.Uint64
	lines   chan []byte
	waiting atomic.Int64 // bytes in lines, or being written
	close   sync.Once
	closing chan struct{}
	over    chan struct{} // closed when the goroutine ends
}

func newQueue(out io.WriteCloser, dropped *atomic.Uint64) *queue {
	q := &queue{
		out: out, dropped: dropped, lines: make(chan []byte, queueLines),
		closing: make(chan struct{}), over: make(chan struct{}),
	}
	go q.run()
	return q
}

// Write implements [io.Writer]: line is written later, or refused.
func (q *queue) Write(line []byte) (int, error) {
	select {
	case <-q.closing:
		return 0, os.ErrClosed
	default:
	}
	n := int64(len(line))
	if q.waiting.Add(n) <= queueBytes {
		select {
		case q.lines <- bytes.Clone(line):
			return len(line), nil
		default:
		}
	}
	q.waiting.Add(-n)
	return 0, errFull
}

func (q *queue) run() {
	defer close(q.over)
	for {
		select {
		case line := <-q.lines:
			q.write(line)
		case <-q.closing:
			for len(q.lines) > 0 {
				q.write(<-q.lines)
			}
			return
		}
	}
}

func (q *queue) write(line []byte) {
	if _, err := q.out.Write(line); err != nil {
		q.dropped.Add(1)
	}
	q.waiting.Add(-int64(len(line)))
}

// Close implements [io.Closer].
func (q *queue) Close() (err error) {
	q.close.Do(func() {
		close(q.closing)
		enough := time.NewTimer(closeWait)
		defer enough.Stop()
		select {
		case <-q.over:
		case <-enough.C:
		}
		err = q.out.Close() // makes a write to a named pipe return
	})
	return err
}

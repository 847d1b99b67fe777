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
	waiting atomic.Int64  // bytes in lines, or being written
	over    chan struct{} // closed when the goroutine ends

	mu     sync.RWMutex
	closed bool // and so is lines
}

func newQueue(out io.WriteCloser, dropped *atomic.Uint64) *queue {
	q := &queue{out: out, dropped: dropped, lines: make(chan []byte, queueLines), over: make(chan struct{})}
	go q.run()
	return q
}

// Write implements [io.Writer]: line is written later, or refused.
func (q *queue) Write(line []byte) (int, error) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.closed {
		return 0, os.ErrClosed
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
	for line := range q.lines {
		q.write(line)
	}
}

func (q *queue) write(line []byte) {
	if _, err := q.out.Write(line); err != nil {
		q.dropped.Add(1)
	}
	q.waiting.Add(-int64(len(line)))
}

// Close implements [io.Closer].
func (q *queue) Close() error {
	q.mu.Lock()
	before := q.closed
	if !before {
		q.closed = true
		close(q.lines)
	}
	q.mu.Unlock()
	if before {
		return nil
	}
	enough := time.NewTimer(closeWait)
	defer enough.Stop()
	select {
	case <-q.over:
	case <-enough.C:
	}
	return q.out.Close() // makes a write to a named pipe return
}

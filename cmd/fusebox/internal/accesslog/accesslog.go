// Package accesslog writes the access log: one line of JSON a request.
//
//	{"start":"2026-05-04T10:11:12.345Z","end":"2026-05-04T10:11:12.357Z",
//	 "method":"GET","host":"api.example.com","path":"/pay","status":200,"bytes":12,
//	 "upstream":"payments","endpoint":"10.0.0.1:9000","attempts":1,
//	 "outcome":"success","breaker":"payments","state":"closed","probe":false,
//	 "duration_ms":11.8}
//
// (on one line). A query is never logged: it may hold what is secret.
package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Log is where lines go. It is safe for concurrent use: each line is one write,
// and lines never interleave. A file has the line when [Log.Write] returns. To a pipe,
// a terminal or another device, whose reader may stop, a goroutine writes, until Close.
type Log struct {
	path    string // "": out is not to be opened again
	out     atomic.Pointer[output]
	dropped atomic.Uint64
	lines   sync.Pool // of *line
}

type output struct{ io.WriteCloser }

// Open returns a log to a target: stdout, stderr, or the path of a file, which is
// appended to, and made, readable for its owner and group, if there is none.
func Open(target string) (*Log, error) {
	l := &Log{lines: sync.Pool{New: func() any { return newLine() }}}
	switch target {
	case "stdout":
		l.out.Store(l.to(os.Stdout, unclosed{os.Stdout}))
	case "stderr":
		l.out.Store(l.to(os.Stderr, unclosed{os.Stderr}))
	default:
		l.path = target
		if err := l.Reopen(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// to returns the output to a file; out writes to it.
func (l *Log) to(f *os.File, out io.WriteCloser) *output {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return &output{out}
	}
	return &output{newQueue(out, &l.dropped)}
}

// unclosed is a stream of the process, which is not the log's to close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// Reopen opens the file anew, under its path, and closes the old one, which may
// have been renamed meanwhile: that is how logs are rotated. No line is lost. If it
// fails, the old one stays. For stdout and stderr it does nothing.
func (l *Log) Reopen() error {
	if l.path == "" {
		return nil
	}
	// A pipe that nobody reads is an error: to wait for a reader would hold up reloads, and the end.
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0o640)
	if err != nil {
		return fmt.Errorf("access log: %w", err)
	}
	if old := l.out.Swap(l.to(f, f)); old != nil {
		return old.Close()
	}
	return nil
}

// Close closes the file. Lines written afterwards are dropped. Where a goroutine
// writes, it has a second for what it has.
func (l *Log) Close() error { return l.out.Load().Close() }

// Dropped returns how many lines could not be written: the disk is full, the
// reader of a pipe has gone, or does not keep up and 4 MiB or 4096 lines wait for it.
func (l *Log) Dropped() uint64 { return l.dropped.Load() }

// Time is an instant in a line, in UTC with milliseconds: 2026-05-04T10:11:12.345Z.
type Time struct{ time.Time }

// MarshalJSON implements [json.Marshaler].
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000Z"`), nil
}

// Record is what a line says of a request.
type Record struct {
	Start Time `json:"start"`
	End   Time `json:"end"`

	Method string `json:"method"`
	Host   string `json:"host"`
	Path   string `json:"path"` // as the client sent it, without the query

	// Status is that of the answer; 499 where the client left before there was one.
	Status int `json:"status"`
	// Bytes are those of the answer's body. What passes after an upgrade to
	// another protocol is not in it.
	Bytes int64 `json:"bytes"`

	// Upstream is the one that answered or would have: after a fallback to another
	// upstream, that. Empty: no route.
	Upstream string `json:"upstream,omitempty"`
	// Endpoint is that of the last attempt, host and path.
	Endpoint string `json:"endpoint,omitempty"`
	// Attempts are all that were made.
	Attempts int `json:"attempts"`

	// Outcome is success, failure, ignored (the client left, or its body
	// failed) or rejected (no attempt was made); of the upstream of the route,
	// whatever a fallback made of it. Empty: no route.
	Outcome string `json:"outcome,omitempty"`
	// Fallback is what answered in the upstream's place: fixed, last-good, or the
	// name of another upstream behind "upstream:".
	Fallback string `json:"fallback,omitempty"`

	// Breaker is the one that admitted the last attempt or, if none was made,
	// rejected; State its state then; Probe says whether the attempt was one.
	Breaker string        `json:"breaker,omitempty"`
	State   fusebox.State `json:"state"`
	Probe   bool          `json:"probe"`

	// Duration is the time from the head of the request to the end of the answer.
	Duration Milliseconds `json:"duration_ms"`
}

// Milliseconds is a duration in a line: a number of milliseconds, to the microsecond.
type Milliseconds time.Duration

// MarshalJSON implements [json.Marshaler].
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", float64(m)/float64(time.Millisecond)), nil
}

// line is a line in the making.
type line struct {
	buf bytes.Buffer
	enc *json.Encoder
}

func newLine() *line {
	l := new(line)
	l.enc = json.NewEncoder(&l.buf)
	l.enc.SetEscapeHTML(false)
	return l
}

// Write writes a line. One that cannot be written is dropped, and counted. It does not
// wait for the reader of a pipe.
func (l *Log) Write(r *Record) {
	line := l.lines.Get().(*line)
	defer l.lines.Put(line)
	line.buf.Reset()
	err := line.enc.Encode(r)
	for err == nil {
		out := l.out.Load()
		_, err = out.Write(line.buf.Bytes())
		if err == nil {
			return
		}
		if errors.Is(err, os.ErrClosed) && l.out.Load() != out { // by Reopen, since
			err = nil
		}
	}
	l.dropped.Add(1)
}

package fuseboxhttp

import (
	"io"
	"net/http"
)

type (
	writer interface {
		http.ResponseWriter
		io.StringWriter
		Unwrap() http.ResponseWriter
	}
	flusher interface {
		http.Flusher
		FlushError() error
	}
	hijacker      = http.Hijacker
	readerFrom    = io.ReaderFrom
	pusher        = http.Pusher
	closeNotifier interface{ CloseNotify() <-chan bool } // deprecated, and still there
)

// writer returns the reply as a ResponseWriter with those optional methods
// that the server's has, and no others: a handler asks for one and does without
// it. A type cannot lose a method, so there is one for each combination.
func (w *reply) writer() http.ResponseWriter {
	const (
		flush = 1 << iota
		hijack
		readFrom
		push
		closeNotify
	)
	have := 0
	if _, ok := w.ResponseWriter.(http.Flusher); ok {
		have |= flush
	}
	if _, ok := w.ResponseWriter.(hijacker); ok {
		have |= hijack
	}
	if _, ok := w.ResponseWriter.(readerFrom); ok {
		have |= readFrom
	}
	if _, ok := w.ResponseWriter.(pusher); ok {
		have |= push
	}
	if _, ok := w.ResponseWriter.(closeNotifier); ok {
		have |= closeNotify
	}
	switch have {
	case 0:
		return struct{ writer }{w}
	case flush:
		return struct {
			writer
			flusher
		}{w, w}
	case hijack:
		return struct {
			writer
			hijacker
		}{w, w}
	case flush | hijack:
		return struct {
			writer
			flusher
			hijacker
		}{w, w, w}
	case readFrom:
		return struct {
			writer
			readerFrom
		}{w, w}
	case flush | readFrom:
		return struct {
			writer
			flusher
			readerFrom
		}{w, w, w}
	case hijack | readFrom:
		return struct {
			writer
			hijacker
			readerFrom
		}{w, w, w}
	case flush | hijack | readFrom:
		return struct {
			writer
			flusher
			hijacker
			readerFrom
		}{w, w, w, w}
	case push:
		return struct {
			writer
			pusher
		}{w, w}
	case flush | push:
		return struct {
			writer
			flusher
			pusher
		}{w, w, w}
	case hijack | push:
		return struct {
			writer
			hijacker
			pusher
		}{w, w, w}
	case flush | hijack | push:
		return struct {
			writer
			flusher
			hijacker
			pusher
		}{w, w, w, w}
	case readFrom | push:
		return struct {
			writer
			readerFrom
			pusher
		}{w, w, w}
	case flush | readFrom | push:
		return struct {
			writer
			flusher
			readerFrom
			pusher
		}{w, w, w, w}
	case hijack | readFrom | push:
		return struct {
			writer
			hijacker
			readerFrom
			pusher
		}{w, w, w, w}
	case flush | hijack | readFrom | push:
		return struct {
			writer
			flusher
			hijacker
			readerFrom
			pusher
		}{w, w, w, w, w}
	case closeNotify:
		return struct {
			writer
			closeNotifier
		}{w, w}
	case flush | closeNotify:
		return struct {
			writer
			flusher
			closeNotifier
		}{w, w, w}
	case hijack | closeNotify:
		return struct {
			writer
			hijacker
			closeNotifier
		}{w, w, w}
	case flush | hijack | closeNotify:
		return struct {
			writer
			flusher
			hijacker
			closeNotifier
		}{w, w, w, w}
	case readFrom | closeNotify:
		return struct {
			writer
			readerFrom
			closeNotifier
		}{w, w, w}
	case flush | readFrom | closeNotify:
		return struct {
			writer
			flusher
			readerFrom
			closeNotifier
		}{w, w, w, w}
	case hijack | readFrom | closeNotify:
		return struct {
			writer
			hijacker
			readerFrom
			closeNotifier
		}{w, w, w, w}
	case flush | hijack | readFrom | closeNotify:
		return struct {
			writer
			flusher
			hijacker
			readerFrom
			closeNotifier
		}{w, w, w, w, w}
	case push | closeNotify:
		return struct {
			writer
			pusher
			closeNotifier
		}{w, w, w}
	case flush | push | closeNotify:
		return struct {
			writer
			flusher
			pusher
			closeNotifier
		}{w, w, w, w}
	case hijack | push | closeNotify:
		return struct {
			writer
			hijacker
			pusher
			closeNotifier
		}{w, w, w, w}
	case flush | hijack | push | closeNotify:
		return struct {
			writer
			flusher
			hijacker
			pusher
			closeNotifier
		}{w, w, w, w, w}
	case readFrom | push | closeNotify:
		return struct {
			writer
			readerFrom
			pusher
			closeNotifier
		}{w, w, w, w}
	case flush | readFrom | push | closeNotify:
		return struct {
			writer
			flusher
			readerFrom
			pusher
			closeNotifier
		}{w, w, w, w, w}
	case hijack | readFrom | push | closeNotify:
		return struct {
			writer
			hijacker
			readerFrom
			pusher
			closeNotifier
		}{w, w, w, w, w}
	default:
		return struct {
			writer
			flusher
			hijacker
			readerFrom
			pusher
			closeNotifier
		}{w, w, w, w, w, w}
	}
}

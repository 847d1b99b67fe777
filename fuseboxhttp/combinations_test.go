package fuseboxhttp_test

import (
	"io"
	"net/http"
)

// combinations are ResponseWriters with every set of optional methods, those of
// a; what they have always is that of a's ResponseWriter.
func combinations(a *able) []http.ResponseWriter {
	type (
		writer        = http.ResponseWriter
		flusher       = http.Flusher
		hijacker      = http.Hijacker
		readerFrom    = io.ReaderFrom
		pusher        = http.Pusher
		closeNotifier interface{ CloseNotify() <-chan bool }
	)
	w := a.ResponseWriter
	return []http.ResponseWriter{
		struct{ writer }{w},
		struct {
			writer
			flusher
		}{w, a},
		struct {
			writer
			hijacker
		}{w, a},
		struct {
			writer
			flusher
			hijacker
		}{w, a, a},
		struct {
			writer
			readerFrom
		}{w, a},
		struct {
			writer
			flusher
			readerFrom
		}{w, a, a},
		struct {
			writer
			hijacker
			readerFrom
		}{w, a, a},
		struct {
			writer
			flusher
			hijacker
			readerFrom
		}{w, a, a, a},
		struct {
			writer
			pusher
		}{w, a},
		struct {
			writer
			flusher
			pusher
		}{w, a, a},
		struct {
			writer
			hijacker
			pusher
		}{w, a, a},
		struct {
			writer
			flusher
			hijacker
			pusher
		}{w, a, a, a},
		struct {
			writer
			readerFrom
			pusher
		}{w, a, a},
		struct {
			writer
			flusher
			readerFrom
			pusher
		}{w, a, a, a},
		struct {
			writer
			hijacker
			readerFrom
			pusher
		}{w, a, a, a},
		struct {
			writer
			flusher
			hijacker
			readerFrom
			pusher
		}{w, a, a, a, a},
		struct {
			writer
			closeNotifier
		}{w, a},
		struct {
			writer
			flusher
			closeNotifier
		}{w, a, a},
		struct {
			writer
			hijacker
			closeNotifier
		}{w, a, a},
		struct {
			writer
			flusher
			hijacker
			closeNotifier
		}{w, a, a, a},
		struct {
			writer
			readerFrom
			closeNotifier
		}{w, a, a},
		struct {
			writer
			flusher
			readerFrom
			closeNotifier
		}{w, a, a, a},
		struct {
			writer
			hijacker
			readerFrom
			closeNotifier
		}{w, a, a, a},
		struct {
			writer
			flusher
			hijacker
			readerFrom
			closeNotifier
		}{w, a, a, a, a},
		struct {
			writer
			pusher
			closeNotifier
		}{w, a, a},
		struct {
			writer
			flusher
			pusher
			closeNotifier
		}{w, a, a, a},
		struct {
			writer
			hijacker
			pusher
			closeNotifier
		}{w, a, a, a},
		struct {
			writer
			flusher
			hijacker
			pusher
			closeNotifier
		}{w, a, a, a, a},
		struct {
			writer
			readerFrom
			pusher
			closeNotifier
		}{w, a, a, a},
		struct {
			writer
			flusher
			readerFrom
			pusher
			closeNotifier
		}{w, a, a, a, a},
		struct {
			writer
			hijacker
			readerFrom
			pusher
			closeNotifier
		}{w, a, a, a, a},
		struct {
			writer
			flusher
			hijacker
			readerFrom
			pusher
			closeNotifier
		}{w, a, a, a, a, a},
	}
}

package fuseboxadmin

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	heartbeat = 15 * time.Second // between comments where there is nothing else
	patience  = 10 * time.Second // with a reader that takes nothing
	portion   = 32 << 10         // bytes that are sent at a time, about
	maxLists  = 8                // at a time: with thousands of breakers one is megabytes
)

// serveEvents streams events from the one after Last-Event-ID on, or from now on.
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request, _ string) error {
	if err := h.checkOrigin(r); err != nil {
		return err
	}
	query, err := parameters(r, "last_event_id")
	if err != nil {
		return err
	}
	ok, closed := h.feed.enter()
	switch {
	case closed:
		return refusal(http.StatusServiceUnavailable, "the handler is closed: there are no more events")
	case !ok:
		w.Header().Set("Retry-After", "5")
		return refusal(http.StatusServiceUnavailable, "all %d event streams are taken", maxStreams)
	}
	defer h.feed.leave()

	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	// The header is what a browser sends when it comes back to the same address.
	from := r.Header.Get("Last-Event-ID")
	if from == "" {
		from = query.Get("last_event_id")
	}
	s := stream{feed: &h.feed, out: http.NewResponseController(w), w: w}
	s.begin(from)
	if s.run(r.Context().Done()) {
		_ = s.out.SetWriteDeadline(time.Now().Add(patience)) // for the end of the answer
	}
	return nil
}

// stream is one reader of a feed.
type stream struct {
	feed *feed
	w    http.ResponseWriter
	out  *http.ResponseController
	text bytes.Buffer // to be sent
	last uint64       // id of the last event in text, or sent
}

// begin decides where to begin. A reader that was not here before gets an id
// without an event: with it, it can come back.
func (s *stream) begin(from string) {
	s.text.WriteString("retry: 2000\n")
	newest := s.feed.newest()
	id, err := strconv.ParseUint(from, 10, 64)
	switch {
	case from == "":
		s.last = newest
		fmt.Fprintf(&s.text, "id: %d\n\n", newest)
	case err != nil || s.feed.since(id).lost:
		s.last = newest
		s.add(event{newest, "reset", []byte(`{"reason":"the events since the last one are not here any more: list the breakers again"}`)})
	default:
		s.last = id
		s.text.WriteString("\n")
	}
}

func (s *stream) add(e event) {
	fmt.Fprintf(&s.text, "id: %d\nevent: %s\ndata: %s\n\n", e.id, e.kind, e.data)
	s.last = e.id
}

// run sends events until the reader has gone, is too slow, or there will be no
// more. It reports whether the reader may be there still.
func (s *stream) run(gone <-chan struct{}) bool {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		news := s.feed.since(s.last)
		if news.lost {
			return true // the reader can come back, and will be told
		}
		// In portions: a backlog is not in memory twice, and each has its time.
		for i, e := range news.events {
			s.add(e)
			if s.text.Len() >= portion && i < len(news.events)-1 && !s.send() {
				return false
			}
		}
		if s.text.Len() > 0 {
			beat.Reset(heartbeat)
			if !s.send() {
				return false
			}
		}
		if news.closed {
			return true
		}
		select {
		case <-news.changed:
		case <-beat.C:
			s.text.WriteString(": still here\n\n")
		case <-gone:
			return false
		}
	}
}

// send sends what has been written. It has a deadline where the server's
// ResponseWriter knows of such; a wrapped one may not, and holds up nobody but
// this stream.
func (s *stream) send() bool {
	_ = s.out.SetWriteDeadline(time.Now().Add(patience))
	_, err := s.w.Write(s.text.Bytes())
	s.text.Reset()
	if err != nil || s.out.Flush() != nil {
		return false
	}
	_ = s.out.SetWriteDeadline(time.Time{}) // over HTTP/2 it would end an idle stream
	return true
}

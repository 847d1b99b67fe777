package fuseboxadmin

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

const (
	heartbeat = 15 * time.Second // between comments where there is nothing else
	patience  = 10 * time.Second // with a reader that takes nothing
	parting   = time.Second      // the same, once the handler is closed
	attention = time.Second      // between looks at what changes with time
	portion   = 32 << 10         // bytes that are sent at a time, about
	slowest   = 64 << 10         // bytes in a second, of who reads a long answer
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
	from, stranger := address(r), h.authorize(r) != nil
	if err := h.feed.enter(from, stranger); err != nil {
		w.Header().Set("Retry-After", "5")
		return err
	}
	defer h.feed.leave(from, stranger)

	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would hold events back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	s := stream{feed: &h.feed, out: http.NewResponseController(w), w: w, look: h.look}
	s.over, s.deadline = h.feed.ending()
	// A write that waits for the reader when the handler is closed waits no longer.
	told := make(chan struct{})
	stop := context.AfterFunc(s.over, func() {
		defer close(told)
		_ = s.out.SetWriteDeadline(s.deadline())
	})
	defer func() {
		if !stop() {
			<-told // w may not be used after this
		}
	}()
	// The header is what a browser sends when it comes back to the same address.
	id := r.Header.Get("Last-Event-ID")
	if id == "" {
		id = query.Get("last_event_id")
	}
	s.begin(id)
	if s.run(r.Context().Done()) {
		s.allow(patience) // for the end of the answer
	}
	return nil
}

// address returns of a client what it cannot have many of: its IPv4 address, or
// the 64 bits of an IPv6 address that are a network's.
func address(r *http.Request) string {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr // of a unix socket
	}
	ip := a.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64)
	return network.String()
}

// stream is one reader of a feed.
type stream struct {
	feed     *feed
	w        http.ResponseWriter
	out      *http.ResponseController
	look     func()
	over     context.Context // done when the handler is closed
	deadline func() time.Time
	text     bytes.Buffer // to be sent
	last     uint64       // id of the last event in text, or sent
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
	case err != nil || s.feed.news(id).lost:
		s.last = newest
		s.add(event{id: newest, kind: kindReset, data: []byte(`{"reason":"the events since the last one are not here any more: list the breakers again"}`)})
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
	beat, look := time.NewTicker(heartbeat), time.NewTicker(attention)
	defer beat.Stop()
	defer look.Stop()
	for {
		news := s.feed.news(s.last)
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
		if news.more {
			continue
		}
		if news.closed {
			return true
		}
		select {
		case <-news.changed:
		case <-beat.C:
			s.text.WriteString(": still here\n\n")
		case <-look.C:
			s.look()
		case <-gone:
			return false
		}
	}
}

// send sends what has been written. It has a deadline where the server's
// ResponseWriter knows of such; a wrapped one may not, and holds up nobody but
// this stream.
func (s *stream) send() bool {
	s.allow(patience)
	_, err := s.w.Write(s.text.Bytes())
	s.text.Reset()
	if err != nil || s.out.Flush() != nil {
		return false
	}
	s.allow(0) // over HTTP/2 a deadline would end an idle stream
	return true
}

// allow gives what is written next so much time, 0: any, but not more than there
// is once the handler is closed. That is looked at last: who closes it while this
// runs sets that deadline after it has been closed.
func (s *stream) allow(d time.Duration) {
	var deadline time.Time
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	_ = s.out.SetWriteDeadline(deadline)
	if s.over.Err() != nil {
		_ = s.out.SetWriteDeadline(s.deadline())
	}
}

package fuseboxadmin

import (
	"encoding/json"
	"sync"
	"time"
)

const (
	maxEvents  = 512 // kept
	maxStreams = 64
)

// feed numbers events and keeps the last of them.
//
// Publishing waits for nobody: it puts an event into the ring and wakes the
// streams. Each of those knows how far it has come, and finds in the ring what
// it has not sent; there is no queue that could fill up.
//
// The first id is the time of the first use in microseconds. So an id that a
// client has of an earlier process is before all those of this one, where less
// than a million events a second have been. It fits into a float64.
type feed struct {
	mu      sync.Mutex
	ready   bool
	closed  bool
	start   uint64 // no event has it; they begin after it
	last    uint64 // id of the newest event, or start
	ring    []event
	streams int
	changed chan struct{} // closed, and replaced, when there is something new, or the end
}

// event is one server-sent event; data is one line of JSON.
type event struct {
	id   uint64
	kind string
	data []byte
}

// lock also makes a feed ready that has not been used.
func (f *feed) lock() {
	f.mu.Lock()
	if !f.ready {
		f.ready = true
		f.start = uint64(max(time.Now().UnixMicro(), 0))
		f.last = f.start
		f.changed = make(chan struct{})
	}
}

func (f *feed) publish(kind string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return // a clock in a year that RFC 3339 has no digits for
	}
	f.lock()
	defer f.mu.Unlock()
	if f.ring == nil {
		f.ring = make([]event, maxEvents)
	}
	f.last++
	f.ring[f.last%maxEvents] = event{f.last, kind, data}
	f.wake()
}

func (f *feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *feed) close() {
	f.lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.wake()
	}
}

// enter takes one of the places for streams, if there is one.
func (f *feed) enter() (ok, closed bool) {
	f.lock()
	defer f.mu.Unlock()
	if f.closed || f.streams == maxStreams {
		return false, f.closed
	}
	f.streams++
	return true, false
}

func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams--
}

func (f *feed) newest() uint64 {
	f.lock()
	defer f.mu.Unlock()
	return f.last
}

// news is what has happened since some event.
type news struct {
	events  []event
	changed <-chan struct{} // closed when there is more
	closed  bool            // there will be no more
	lost    bool            // of the events since then not all are there
}

func (f *feed) since(id uint64) news {
	f.lock()
	defer f.mu.Unlock()
	n := news{changed: f.changed, closed: f.closed}
	n.lost = id < f.start || id > f.last || f.last-id > maxEvents
	for id < f.last && !n.lost {
		id++
		n.events = append(n.events, f.ring[id%maxEvents])
	}
	return n
}

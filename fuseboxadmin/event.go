package fuseboxadmin

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Kinds of events.
const (
	kindTransition = "transition"
	kindAudit      = "audit"
	kindList       = "list"  // breakers came or went
	kindReset      = "reset" // on a stream only: events are missing
)

// Of events as many are kept as these allow.
const (
	maxEvents = 16_384
	maxBytes  = 8 << 20 // of data
	maxAge    = 6 * time.Hour

	portionEvents = 256 // that a stream takes at a time
)

const (
	maxStreams   = 64
	maxStrangers = 48 // streams without the token
	maxOfOne     = 16 // of those, from one address
)

// feed numbers events and keeps the last of them.
//
// Publishing waits for nobody: it keeps an event and wakes the streams. Each of
// those knows how far it has come, and finds here what it has not sent; there is
// no queue that could fill up.
//
// The first id is the time of the first use in microseconds. So an id that a
// client has of an earlier process is before all those of this one, where less
// than a million events a second have been. It fits into a float64.
//
// Invariants:
//  1. events are those with the ids from start+1 to last, oldest first.
//  2. since is when the event start was, or the first use; bytes is the sum of
//     the data of events.
type feed struct {
	mu        sync.Mutex
	ready     bool
	start     uint64
	since     time.Time
	last      uint64
	events    []event
	bytes     int
	announced bool           // nobody has listed the breakers since it was told that some came or went, or ever
	changed   chan struct{}  // closed, and replaced, when there is something new, or the end
	streams   int            // at most maxStreams
	strangers map[string]int // those of them without the token, by address

	// over is done from Close on, and end makes it so. Streams write until
	// deadline then.
	over     context.Context
	end      context.CancelFunc
	deadline time.Time
}

// event is one server-sent event; data is one line of JSON.
type event struct {
	id   uint64
	at   time.Time
	kind string
	data []byte
}

// lock also makes a feed ready that has not been used.
func (f *feed) lock() {
	f.mu.Lock()
	if !f.ready {
		f.ready, f.announced = true, true
		f.since = time.Now()
		f.start = uint64(max(f.since.UnixMicro(), 0))
		f.last = f.start
		f.changed = make(chan struct{})
		f.over, f.end = context.WithCancel(context.Background())
	}
}

// publish puts a record of ours, which JSON can write.
func (f *feed) publish(kind string, v any) {
	if data, err := json.Marshal(v); err == nil {
		f.put(kind, data)
	}
}

func (f *feed) put(kind string, data []byte) {
	f.lock()
	defer f.mu.Unlock()
	f.keep(kind, data)
}

// announce tells that breakers came or went: once, until somebody lists them. So
// a registry whose keys come and go all the time does not drive out other events.
func (f *feed) announce() {
	f.lock()
	defer f.mu.Unlock()
	if !f.announced && f.over.Err() == nil {
		f.announced = true
		f.keep(kindList, []byte("{}"))
	}
}

// listing returns the newest id, for who is about to list the breakers.
func (f *feed) listing() uint64 {
	f.lock()
	defer f.mu.Unlock()
	f.announced = false
	return f.last
}

// keep adds an event, and lets go of what is too much. f.mu is held.
func (f *feed) keep(kind string, data []byte) {
	now := time.Now()
	f.last++
	f.events = append(f.events, event{f.last, now, kind, data})
	f.bytes += len(data)
	f.trim(now)
	f.wake()
}

// trim lets go of the oldest events, but never of the last. f.mu is held.
func (f *feed) trim(now time.Time) {
	for len(f.events) > 1 {
		if len(f.events) <= maxEvents && f.bytes <= maxBytes && now.Sub(f.events[0].at) <= maxAge {
			return
		}
		f.start, f.since = f.events[0].id, f.events[0].at
		f.bytes -= len(f.events[0].data)
		f.events[0] = event{}
		f.events = f.events[1:] // append makes room anew now and then
	}
}

func (f *feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// close ends the streams within parting.
func (f *feed) close() {
	f.lock()
	defer f.mu.Unlock()
	if f.over.Err() == nil {
		f.deadline = time.Now().Add(parting)
		f.end()
		f.wake()
	}
}

// enter takes one of the places for streams, if there is one. Who has the token
// always finds one that readers without it, from however many addresses, cannot
// take; and no address takes all of theirs.
func (f *feed) enter(from string, stranger bool) *APIError {
	f.lock()
	defer f.mu.Unlock()
	total := 0
	for _, n := range f.strangers {
		total += n
	}
	const how = ", a request with the token may find another"
	switch {
	case f.over.Err() != nil:
		return refusal(http.StatusServiceUnavailable, "the handler is closed: there are no more events")
	case f.streams == maxStreams:
		return refusal(http.StatusServiceUnavailable, "all %d event streams are taken", maxStreams)
	case stranger && total == maxStrangers:
		return refusal(http.StatusServiceUnavailable, "all %d event streams for readers without the token are taken"+how, maxStrangers)
	case stranger && f.strangers[from] == maxOfOne:
		return refusal(http.StatusServiceUnavailable, "all %d event streams of one address are taken"+how, maxOfOne)
	}
	f.streams++
	if stranger {
		if f.strangers == nil {
			f.strangers = map[string]int{}
		}
		f.strangers[from]++
	}
	return nil
}

func (f *feed) leave(from string, stranger bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams--
	if !stranger {
		return
	}
	if f.strangers[from]--; f.strangers[from] == 0 {
		delete(f.strangers, from)
	}
}

// ending returns a context that is done when streams are to end, and their
// deadline then.
func (f *feed) ending() (over context.Context, deadline func() time.Time) {
	f.lock()
	defer f.mu.Unlock()
	return f.over, func() time.Time {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.deadline
	}
}

// newest returns the id of the newest event.
func (f *feed) newest() uint64 {
	f.lock()
	defer f.mu.Unlock()
	return f.last
}

// news is what has happened since some event, or the first of it.
type news struct {
	events  []event
	more    bool            // there are others
	changed <-chan struct{} // closed when there is more
	closed  bool            // there will be no more
	lost    bool            // of the events since then not all are there
}

func (f *feed) news(id uint64) news {
	f.lock()
	defer f.mu.Unlock()
	n := news{changed: f.changed, closed: f.over.Err() != nil, lost: id < f.start || id > f.last}
	if n.lost {
		return n
	}
	events := f.events[id-f.start:]
	n.more = len(events) > portionEvents
	n.events = slices.Clone(events[:min(len(events), portionEvents)])
	return n
}

// past returns the events after one of an id, if that is here, and else those after
// an instant; since when all events are here, and the newest id.
func (f *feed) past(after time.Time, id uint64) (events []event, since time.Time, last uint64, here bool) {
	f.lock()
	defer f.mu.Unlock()
	f.trim(time.Now())
	if id >= f.start && id <= f.last {
		return slices.Clone(f.events[id-f.start:]), f.since, f.last, true
	}
	i, _ := slices.BinarySearchFunc(f.events, after, func(e event, t time.Time) int {
		if e.at.After(t) {
			return 1
		}
		return -1
	})
	return slices.Clone(f.events[i:]), f.since, f.last, false
}

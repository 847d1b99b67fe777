package fuseboxadmin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// maxHistories is how many are sent at a time: one may be 8 MiB.
const maxHistories = 2

// History is the answer of GET /api/history: what there was before somebody
// looked. The handler keeps the events of the last 6 h, but 16,384 of them and
// 8 MiB of their data at most, and the samples of the last 6 h.
type History struct {
	// Now is the time at the server.
	Now time.Time `json:"now"`
	// Since is the time from which on Events are complete: the one asked for, or
	// later where earlier ones have been let go of, or nothing had been added yet.
	// Where a last_event_id was given and is still here, it is the one asked for:
	// who has the events up to that id now has the rest.
	Since time.Time `json:"since"`
	// LastEventID is that of the last event before this: whoever listens from it
	// on misses nothing.
	LastEventID uint64 `json:"last_event_id"`
	// Events are those after Since, oldest first: transitions, audit records and
	// what the program published. A breaker without a transition among them has been
	// in its state all the time.
	Events []Event `json:"events"`
	// Samples are those that end after the time asked for, oldest first.
	Samples []Sample `json:"samples"`
	// Refused are the writes that were refused, or failed; at most 64, whose last
	// attempt was the latest, in that order. They are there whatever time is asked for.
	Refused []Refusal `json:"refused"`
}

// Event is an event of the stream, as it was.
type Event struct {
	ID uint64 `json:"id"`
	// At is when it was published: with a transition, the time at which it is told,
	// which may be later than the At of the record.
	At    time.Time       `json:"at"`
	Event string          `json:"event"` // transition, audit, or one of the program's
	Data  json.RawMessage `json:"data"`
}

func (h *Handler) serveHistory(w http.ResponseWriter, r *http.Request, _ string) error {
	query, err := parameters(r, "since", "last_event_id")
	if err != nil {
		return err
	}
	for _, name := range []string{"since", "last_event_id"} {
		if n := len(query[name]); n > 1 {
			return invalid(name, query[name][1], "must be given once")
		}
	}
	var since time.Time
	if query.Has("since") {
		var err error
		if since, err = time.Parse(time.RFC3339, query.Get("since")); err != nil {
			return invalid("since", query.Get("since"), "must be a time like 2006-01-02T15:04:05Z; leave it out for all there is")
		}
	}
	var id uint64
	if query.Has("last_event_id") {
		var err error
		if id, err = strconv.ParseUint(query.Get("last_event_id"), 10, 64); err != nil {
			return invalid("last_event_id", query.Get("last_event_id"), "must be the id of an event; leave it out for all there is")
		}
	}
	leave, err := h.sit(w, r, &h.telling, maxHistories, "histories")
	if err != nil {
		return err
	}
	defer leave()
	return answer(w, h.history(since, id))
}

func (h *Handler) history(asked time.Time, id uint64) History {
	h.Sample()
	t := History{Now: time.Now(), Events: []Event{}, Refused: h.refused.all()}
	events, whole, last, here := h.feed.past(asked, id)
	t.Since, t.LastEventID = whole, last
	if asked.After(whole) || here && !asked.IsZero() {
		t.Since = asked.UTC()
	}
	t.Samples = h.series.past(asked, t.Now)
	for _, e := range events {
		if e.kind != kindList {
			t.Events = append(t.Events, Event{e.id, e.at, e.kind, e.data})
		}
	}
	return t
}

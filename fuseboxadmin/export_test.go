package fuseboxadmin

import (
	"time"

	"github.com/fusebox-go/fusebox"
)

// Limits that tests look at.
const (
	MaxEvents    = maxEvents
	MaxBytes     = maxBytes
	MaxAge       = maxAge
	MaxStreams   = maxStreams
	MaxStrangers = maxStrangers
	MaxOfOne     = maxOfOne
	MaxSamples   = maxSamples
	SampleEvery  = sampleEvery
	Parting      = parting
	MaxBody      = maxBody
	Heartbeat    = heartbeat
	Patience     = patience
)

// Routes returns the routes as "METHOD path".
func Routes() (all []string) {
	for _, rt := range routes {
		all = append(all, rt.method+" "+rt.path)
	}
	return all
}

// FieldsOf returns the fields of the body of an action.
func FieldsOf(action string) []string { return fieldsOf(action) }

// RulesOf returns the rules of settings.
func RulesOf(c fusebox.Config, n fusebox.Counts) []Rule { return newRules(&c, n) }

// Kept returns how many events a handler keeps, and the data of the first.
func (h *Handler) Kept() (n int, first string) {
	events, _, _, _ := h.feed.past(time.Time{}, 0)
	return len(events), string(events[0].data)
}

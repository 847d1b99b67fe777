package fuseboxadmin

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/fusebox-go/fusebox"
)

// AuditRecord is one attempt to write: to change a breaker, or what else the program
// has behind [Handler.Guard]. Those that changed something are events "audit" too,
// of the others see [Refusal].
type AuditRecord struct {
	At     time.Time `json:"at"`
	Action string    `json:"action"` // override, lift, reset, or one of the program's
	Name   string    `json:"name"`   // of the breaker, as asked for; empty with an action of the program's
	// Mode, Reason, By and TTL are those of the body; empty where the attempt
	// was refused before it was read. By is what the client says, as all clients
	// have one token; of one that could not be authenticated it is
	// "unauthenticated from" and Remote.
	Mode   string   `json:"mode,omitempty"`
	Reason string   `json:"reason,omitempty"`
	By     string   `json:"by,omitempty"`
	TTL    Duration `json:"ttl,omitzero"` // 0: it holds until lifted
	Remote string   `json:"remote"`       // address of the client; of a proxy, where there is one
	Status int      `json:"status"`       // of the answer: 200 where it was done
	Error  string   `json:"error,omitempty"`
}

const (
	actionOverride = "override"
	actionLift     = "lift"
	actionReset    = "reset"
)

func (h *Handler) serveOverride(w http.ResponseWriter, r *http.Request, name string) error {
	return h.change(w, r, newAudit(r, actionOverride, name))
}

func (h *Handler) serveLift(w http.ResponseWriter, r *http.Request, name string) error {
	return h.change(w, r, newAudit(r, actionLift, name))
}

func (h *Handler) serveReset(w http.ResponseWriter, r *http.Request, name string) error {
	return h.change(w, r, newAudit(r, actionReset, name))
}

func newAudit(r *http.Request, action, name string) AuditRecord {
	return AuditRecord{At: time.Now(), Action: action, Name: name, Remote: r.RemoteAddr, Status: http.StatusOK}
}

// change does what a record asks for and answers with the breaker as it is then.
func (h *Handler) change(w http.ResponseWriter, r *http.Request, record AuditRecord) error {
	b, refused := h.try(w, r, &record)
	h.audit(r, record, refused)
	if refused != nil {
		return refused
	}
	config := b.Config()
	return answer(w, newBreaker(record.Name, b.Snapshot(), &config, h.fallbacks()))
}

// audit tells of an attempt to write: the log, Audit, and where it was not refused
// the listeners. What was refused is kept by itself, so that no number of attempts
// takes an event's place.
func (h *Handler) audit(r *http.Request, record AuditRecord, refused *APIError) {
	if refused != nil {
		record.Name, record.Mode = shortened(record.Name), shortened(record.Mode)
		record.Status, record.Error = refused.Status, refused.Message
	}
	if record.Error == "" {
		h.feed.publish(kindAudit, record)
	} else {
		h.refused.add(record, address(r), record.By == stranger(r))
	}
	h.log(r, record)
	if h.Audit != nil {
		h.Audit(record)
	}
}

// try changes a breaker if the request may do so, and notes what it asks for.
func (h *Handler) try(w http.ResponseWriter, r *http.Request, record *AuditRecord) (*fusebox.Breaker, *APIError) {
	if err := h.mayWrite(r, record); err != nil {
		return nil, err
	}
	if _, err := parameters(r); err != nil {
		return nil, err
	}
	if _, err := h.named(record.Name); err != nil {
		return nil, err
	}
	mode, err := readChange(w, r, record)
	if err != nil {
		return nil, err
	}
	b, err := h.named(record.Name) // the body may have been long in coming
	if err != nil {
		return nil, err
	}
	note := fusebox.Note{Reason: record.Reason, By: record.By}
	switch record.Action {
	case actionOverride:
		if record.TTL > 0 {
			note.Until = clock(b)().Add(time.Duration(record.TTL))
		}
		b.Override(mode, note)
	case actionLift:
		b.Lift(note)
	case actionReset:
		b.Reset(note)
	}
	return b, nil
}

// clock returns the clock by which a breaker reads a Note.
func clock(b *fusebox.Breaker) func() time.Time {
	if now := b.Config().Now; now != nil {
		return now
	}
	return time.Now
}

func (h *Handler) log(r *http.Request, record AuditRecord) {
	log, level := h.Logger, slog.LevelInfo
	if log == nil {
		log = slog.Default()
	}
	attrs := []slog.Attr{slog.String("action", record.Action)}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("name", record.Name)
	add("mode", record.Mode)
	add("reason", record.Reason)
	add("by", record.By)
	if record.TTL > 0 {
		attrs = append(attrs, slog.Duration("ttl", time.Duration(record.TTL)))
	}
	attrs = append(attrs, slog.String("remote", record.Remote), slog.Int("status", record.Status))
	if record.Error != "" {
		level = slog.LevelWarn
		add("error", record.Error)
	}
	log.LogAttrs(r.Context(), level, "fusebox: admin", attrs...)
}

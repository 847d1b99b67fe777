package fuseboxadmin

import (
	"slices"
	"strconv"
	"sync"
	"time"
)

// maxRefusals is how many are kept.
const maxRefusals = 64

// Refusal is writes that were refused, or failed, alike: of a client that could not
// be authenticated, those with one action and one status from its IPv4 address, or
// its IPv6 network of 64 bits; of another, those with the same error too.
type Refusal struct {
	AuditRecord           // of the last of them
	First       time.Time `json:"first"` // when the first of them was
	Times       int       `json:"times"` // how many
}

// refusals keeps the last of them.
type refusals struct {
	mu   sync.Mutex
	list []refused // by the time of the last attempt, oldest first
}

type refused struct {
	Refusal
	like     string // what those have in common that are one
	stranger bool   // the client was not authenticated
}

// add takes one more. Where there are too many, those of strangers go first, of
// whom there may be any number.
func (s *refusals) add(record AuditRecord, from string, stranger bool) {
	next := refused{Refusal{record, record.At, 1}, like(record, from, stranger), stranger}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(r refused) bool { return r.like == next.like })
	if i >= 0 {
		next.First, next.Times = s.list[i].First, s.list[i].Times+1
	} else if len(s.list) == maxRefusals {
		i = max(slices.IndexFunc(s.list, func(r refused) bool { return r.stranger }), 0)
	}
	if i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
	}
	s.list = append(s.list, next)
}

// like is a key of a record. Of a stranger nothing is in it that it may choose.
func like(r AuditRecord, from string, stranger bool) string {
	key := strconv.Quote(from) + r.Action + strconv.Itoa(r.Status)
	if !stranger {
		key += strconv.Quote(r.Name) + r.Error
	}
	return key
}

// all returns what is kept, oldest first.
func (s *refusals) all() []Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Refusal, 0, len(s.list))
	for _, r := range s.list {
		all = append(all, r.Refusal)
	}
	return all
}

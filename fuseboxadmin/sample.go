package fuseboxadmin

import (
	"maps"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/fusebox-go/fusebox"
)

const (
	sampleEvery = 10 * time.Second
	maxSamples  = int(maxAge / sampleEvery)
)

// Sample is what all breakers that are shown counted in a span of time; divided by
// its length, what came in a second. Spans follow one another without a gap: one in
// which nobody looked is long.
//
// A breaker counts from when it was added, or shown where another of its name hid
// it; one that a registry has made since then, from the start. Calls between the last sample and the end of a breaker are in none.
type Sample struct {
	From time.Time `json:"from"`
	At   time.Time `json:"at"` // its end
	// Calls are those that finished: admitted, whatever came of them.
	Calls    uint64 `json:"calls"`
	Failures uint64 `json:"failures"`
	Slow     uint64 `json:"slow"`
	Rejected uint64 `json:"rejected"`
	// WouldRejectGood and WouldRejectBad are those of the calls that a breaker in
	// shadow mode would have rejected, and that succeeded or failed.
	WouldRejectGood uint64 `json:"would_reject_good"`
	WouldRejectBad  uint64 `json:"would_reject_bad"`
	// Fallbacks are the calls that fallbacks answered, from when something was first
	// added or looked at; see Handler.Fallbacks.
	Fallbacks uint64 `json:"fallbacks"`
}

// counted is what is counted of one breaker, since it was made: a Sample's numbers
// in its order, but the last.
type counted [6]uint64

func newCounted(t *fusebox.Totals) counted {
	w := t.WouldReject
	return counted{
		t.Successes + t.Failures + t.Ignored + t.Late + w.Successes + w.Failures + w.Ignored,
		t.Failures + w.Failures,
		t.Slow,
		t.RejectedOpen + t.RejectedProbing,
		w.Successes,
		w.Failures,
	}
}

// series keeps the samples of the last 6 h, and what the next begins with. A
// breaker is known by a pointer that does not keep it.
type series struct {
	mu        sync.Mutex
	busy      bool      // somebody is taking a sample
	at        time.Time // of the last one, or the first use
	samples   []Sample
	seen      map[weak.Pointer[fusebox.Breaker]]counted // at the last sample
	added     map[weak.Pointer[fusebox.Breaker]]counted // since then
	fallbacks uint64
}

// begin notes how breakers stand that are about to be added.
func (s *series) begin(e *entry) {
	now := map[weak.Pointer[fusebox.Breaker]]counted{}
	for _, b := range e.breakers() {
		now[weak.Make(b)] = newCounted(totals(b))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(now)
}

// note adds those of breakers that are new. s.mu is held.
func (s *series) note(breakers map[weak.Pointer[fusebox.Breaker]]counted) {
	if s.added == nil {
		s.added = map[weak.Pointer[fusebox.Breaker]]counted{}
	}
	for b, c := range breakers {
		_, seen := s.seen[b]
		_, added := s.added[b]
		if !seen && !added {
			s.added[b] = c
		}
	}
}

func totals(b *fusebox.Breaker) *fusebox.Totals {
	t := b.Snapshot().Totals
	return &t
}

// Sample takes a sample if the last one is at least 10 s old. Event streams, lists,
// histories and adding do it: while somebody looks, there is one about every 10 s.
// A program that calls it on a ticker of its own has them also of when nobody
// looked. It takes a snapshot of every breaker: some milliseconds for thousands.
func (h *Handler) Sample() {
	s := &h.series
	var next map[weak.Pointer[fusebox.Breaker]]counted
	// Those that are not shown are noted too: they may be the next time. What is
	// shown is asked before what was noted is taken, or one that is just being
	// added would come with its past.
	breakers := h.shown(func(_ string, b *fusebox.Breaker) { next[weak.Make(b)] = newCounted(totals(b)) })
	now := time.Now().UTC()
	s.mu.Lock()
	first := s.at.IsZero()
	if s.busy || !first && now.Sub(s.at) < sampleEvery {
		s.mu.Unlock()
		return
	}
	s.busy = true
	seen, added := s.seen, s.added
	s.added = nil
	s.mu.Unlock()

	done := false
	defer func() { // also where a clock of the user's panics: then as if nothing had been
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy = false; !done {
			s.note(added)
		}
	}()
	next = make(map[weak.Pointer[fusebox.Breaker]]counted, len(seen)+len(added))
	maps.Copy(next, added)
	var sum counted
	for _, b := range breakers {
		key, c := weak.Make(b), newCounted(totals(b))
		before, ok := seen[key]
		if !ok {
			before = added[key]
		}
		next[key] = c
		for i := range sum {
			sum[i] += c[i] - min(before[i], c[i])
		}
	}
	fallbacks := s.fallbacks
	if h.Fallbacks != nil {
		fallbacks = max(h.Fallbacks(), fallbacks)
	}
	done = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if !first { // that only says what the others begin with
		s.samples = append(s.samples, Sample{
			s.at, now, sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], fallbacks - s.fallbacks,
		})
		s.samples = s.samples[max(0, len(s.samples)-maxSamples):]
	}
	s.at, s.seen, s.fallbacks = now, next, fallbacks
}

// past returns the samples that end after an instant, and not too long ago.
func (s *series) past(after, now time.Time) []Sample {
	if old := now.Add(-maxAge); after.Before(old) {
		after = old
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, x := range s.samples {
		if x.At.After(after) {
			return slices.Clone(s.samples[i:])
		}
	}
	return []Sample{}
}

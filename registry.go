package fusebox

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Registry keeps one breaker per key: a host, a tenant, a shard. The zero
// value works. It is safe for concurrent use once the first method has been
// called; the fields may not change after that. Looking up a known key takes
// no lock and writes nothing but, now and then, a mark that it was used.
//
// A registry is bounded, holds no goroutine and no timer, and cleans up when
// breakers are added or listed. To make room, about the least recently used
// breaker that is closed and not overridden goes. One that is open or
// half-open is never evicted for room: if all are (or 64 in a row), the bound
// is exceeded until there is one that can go, and that is counted. A breaker
// unused for MaxIdle goes unless it is open or overridden. Whoever holds an
// evicted breaker may go on using it; the next Get of its key makes a new one.
type Registry struct {
	// Config returns the settings for a key, which New must accept: Get panics
	// otherwise. It is called without a lock, perhaps twice for one key.
	// nil: the zero Config.
	Config func(key string) Config

	// MaxKeys is how many breakers are kept; 0 stands for 10,000, negative for
	// no bound.
	MaxKeys int

	// MaxIdle is how long a breaker is kept unused; 0 stands for 1 h, negative
	// for ever. It counts from the first listing or adding after the last use,
	// and is looked at every quarter of it.
	MaxIdle time.Duration

	// Now is the clock for MaxIdle; nil: time.Now.
	Now func() time.Time

	breakers sync.Map // of string to *place

	// mu is taken before a breaker's own lock, never after.
	mu       sync.Mutex
	places   []*place
	hand     int // where the search for room goes on, at most len(places)
	swept    time.Time
	watchers []*watcher
	shared   *Config // settings of all keys where Config is nil
	stats    RegistryStats
}

// RegistryStats tells how full a Registry is. While Keys, Evicted and Deleted are the
// same, so are the breakers in it.
type RegistryStats struct {
	Keys     int    `json:"keys"`     // breakers kept
	Evicted  uint64 `json:"evicted"`  // breakers dropped, for room or for idleness
	Deleted  uint64 `json:"deleted"`  // breakers dropped by Delete
	Exceeded uint64 `json:"exceeded"` // breakers added beyond MaxKeys because none could go
}

// place is where a breaker stands in a registry.
type place struct {
	key     string
	breaker *Breaker
	used    atomic.Bool // since last looked at
	last    time.Time   // about when it was used last
}

const (
	defaultMaxKeys = 10_000
	defaultMaxIdle = time.Hour
)

// Get returns the breaker of key, making it if need be; its name is the key.
func (r *Registry) Get(key string) *Breaker {
	if b, ok := r.Lookup(key); ok {
		return b
	}
	b := newBreaker(key, r.config(key))
	now := r.now()
	r.sweep(now)

	r.mu.Lock()
	defer r.mu.Unlock()
	if p, ok := r.breakers.Load(key); ok { // somebody was faster
		return p.(*place).breaker
	}
	r.makeRoom(now)
	for _, w := range r.watchers {
		b.watch(w)
	}
	p := &place{key: key, breaker: b, last: now}
	r.places = slices.Insert(r.places, r.hand, p) // where the hand comes to last
	r.hand++
	r.breakers.Store(key, p)
	return b
}

// config returns the settings for a key.
func (r *Registry) config(key string) *Config {
	if r.Config != nil {
		c := r.Config(key)
		if err := c.Validate(); err != nil {
			panic(err)
		}
		c = c.withDefaults()
		return &c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared == nil {
		c := Config{}.withDefaults()
		r.shared = &c
	}
	return r.shared
}

// Lookup returns the breaker of key if there is one, and makes none: an
// operator's typing error must not.
func (r *Registry) Lookup(key string) (*Breaker, bool) {
	v, ok := r.breakers.Load(key)
	if !ok {
		return nil, false
	}
	p := v.(*place)
	if !p.used.Load() {
		p.used.Store(true)
	}
	return p.breaker, true
}

// Peek is Lookup for who only looks: it is no use of the breaker, which goes when
// it is idle as if nobody had asked.
func (r *Registry) Peek(key string) (*Breaker, bool) {
	v, ok := r.breakers.Load(key)
	if !ok {
		return nil, false
	}
	return v.(*place).breaker, true
}

// All returns the breakers and their keys, in the order of the keys, as of the
// call of the iterator. It does not count as use.
func (r *Registry) All() iter.Seq2[string, *Breaker] {
	return func(yield func(string, *Breaker) bool) {
		r.sweep(r.now())
		r.mu.Lock()
		places := slices.Clone(r.places)
		r.mu.Unlock()
		slices.SortFunc(places, func(a, b *place) int { return strings.Compare(a.key, b.key) })
		for _, p := range places {
			if !yield(p.key, p.breaker) {
				return
			}
		}
	}
}

// Delete forgets the breaker of key, whatever its state, and reports whether
// there was one.
func (r *Registry) Delete(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.places, func(p *place) bool { return p.key == key })
	if i >= 0 {
		r.remove(i)
		r.stats.Deleted++
	}
	return i >= 0
}

// Observe adds an observer to every breaker, those made earlier and those to
// come. A breaker that is evicted or deleted loses it: who uses that on does not
// speak for the next of its key; only a record that is being told at that moment may
// still be. stop removes the observer from all of them, and does not wait: see
// Breaker.Observe.
func (r *Registry) Observe(o Observer) (stop func()) {
	w := &watcher{Observer: o}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers = append(r.watchers, w)
	for _, p := range r.places {
		p.breaker.watch(w)
	}
	return func() {
		w.stopped.Store(true) // for who is about to be told
		r.mu.Lock()
		defer r.mu.Unlock()
		r.watchers = slices.DeleteFunc(r.watchers, func(x *watcher) bool { return x == w })
		for _, p := range r.places {
			p.breaker.unwatch(w)
		}
	}
}

// Stats returns how full the registry is.
func (r *Registry) Stats() RegistryStats {
	r.sweep(r.now())
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Keys = len(r.places)
	return s
}

func (r *Registry) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// sweep drops idle breakers, every quarter of MaxIdle. Since a look-up leaves
// only a mark, the time of a use is that of the sweep that finds it. r.mu is
// not held: whether a breaker is open is a question to its clock.
func (r *Registry) sweep(now time.Time) {
	var idle []*place
	for _, p := range r.unused(now) {
		if state, overridden := p.breaker.standing(); state != Open && !overridden {
			idle = append(idle, p)
		}
	}
	if len(idle) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeUnused(idle)
}

// removeUnused removes those of places that are still there, unused, and
// neither open nor overridden, in one pass. r.mu is held.
func (r *Registry) removeUnused(places []*place) {
	doomed := make(map[*place]bool, len(places))
	for _, p := range places {
		doomed[p] = !p.used.Load() && p.breaker.evictable()
	}
	kept, hand := r.places[:0], r.hand
	for i, p := range r.places {
		if !doomed[p] {
			kept = append(kept, p)
			continue
		}
		r.forget(p)
		r.stats.Evicted++
		if i < hand { // the hand stays where it points
			r.hand--
		}
	}
	clear(r.places[len(kept):])
	r.places = kept
}

// unused returns, if it is time for a sweep, what was not used for MaxIdle.
func (r *Registry) unused(now time.Time) (places []*place) {
	idle := cmp.Or(r.MaxIdle, defaultMaxIdle)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.swept.IsZero() {
		r.swept = now
	}
	if idle < 0 || now.Sub(r.swept) < idle/4 {
		return nil
	}
	r.swept = now
	for _, p := range r.places {
		if p.used.Swap(false) {
			p.last = now
		}
		if now.Sub(p.last) >= idle {
			places = append(places, p)
		}
	}
	return places
}

// makeRoom evicts as many breakers as have to go for another to come, if they
// may: closed ones that are not overridden. r.mu is held.
func (r *Registry) makeRoom(now time.Time) {
	limit := cmp.Or(r.MaxKeys, defaultMaxKeys)
	for evicted := false; limit > 0 && len(r.places) >= limit; evicted = true {
		i := r.victim(now)
		if i < 0 {
			if !evicted {
				r.stats.Exceeded++
			}
			return
		}
		r.remove(i)
		r.stats.Evicted++
	}
}

// victim returns the first place from the hand on that may go and was not used
// since the hand last passed it; -1 if none may go. It asks so many breakers at
// most, so that a new key does not have to wait for thousands that are open; the
// hand goes on from there the next time.
func (r *Registry) victim(now time.Time) int {
	const patience = 64
	asked := 0
	for range 2 * len(r.places) { // the first round may only clear marks
		if r.hand >= len(r.places) {
			r.hand = 0
		}
		p := r.places[r.hand]
		if p.used.Swap(false) {
			p.last = now
		} else if p.breaker.closed() {
			return r.hand
		} else if asked++; asked == patience {
			r.hand++
			break
		}
		r.hand++
	}
	return -1
}

// forget ends what a place that is removed has to do with the registry. r.mu is
// held.
func (r *Registry) forget(p *place) {
	r.breakers.Delete(p.key)
	for _, w := range r.watchers {
		p.breaker.detach(w)
	}
}

func (r *Registry) remove(i int) {
	r.forget(r.places[i])
	r.places = slices.Delete(r.places, i, i+1)
	if i < r.hand {
		r.hand--
	}
}

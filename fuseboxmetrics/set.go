package fuseboxmetrics

import (
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/fusebox-go/fusebox"
)

// Set is what an adapter shows: breakers, registries of them, and policies.
// The zero Set is empty and ready for use. It is safe for concurrent use, and
// may not be copied.
//
// A subject and a name are shown once. The same breaker added twice, or by
// itself and in a registry, counts once. Of two breakers with one name the
// first is shown, and so of two policies of one subject; the order is that of
// adding, in a registry that of the keys. [Set.Hidden] tells of the others.
// A name that is not valid UTF-8 is shown with U+FFFD in place of what is not.
//
// Each Add returns a function that takes back what it has added. It may be
// called twice.
type Set struct {
	mu      sync.Mutex
	entries []*entry
}

// entry is what one call has added: a registry, or one breaker or policy.
type entry struct {
	registry *fusebox.Registry
	prefix   string // of the names in registry
	source
}

// source is what one Reading is made from.
type source struct {
	subject Subject
	name    string
	breaker *fusebox.Breaker // of subject Breaker
	append  func(values []float64) []float64
}

// Add adds a breaker. It panics if b is nil.
func (s *Set) Add(b *fusebox.Breaker) (remove func()) {
	if b == nil {
		panic("fuseboxmetrics: Add: the breaker is nil")
	}
	return s.add(&entry{source: ofBreaker("", b)})
}

// AddRegistry adds the breakers of a registry, those of the future too. They
// are listed at each reading, which is not a use of them: idle ones go as if
// nobody looked. Each is shown under prefix and its name: registries that may
// have keys in common, such as those of two HTTP clients, are told apart by it.
// It panics if r is nil.
func (s *Set) AddRegistry(prefix string, r *fusebox.Registry) (remove func()) {
	if r == nil {
		panic("fuseboxmetrics: AddRegistry: the registry is nil")
	}
	return s.add(&entry{registry: r, prefix: prefix})
}

// AddRetry adds a retry policy under a name: its retries, and the calls it gave
// up because its budget was empty. stats is called at each reading, perhaps by
// several goroutines at a time, must not block, and must return totals that
// never decrease. It panics if stats is nil.
func (s *Set) AddRetry(name string, stats func() (retries, exhausted uint64)) (remove func()) {
	must(stats != nil, "AddRetry")
	return s.addPolicy(Retry, name, func(values []float64) []float64 {
		retries, exhausted := stats()
		return append(values, float64(retries), float64(exhausted))
	})
}

// AddBulkhead adds a bulkhead under a name: its calls in flight, and those it
// has refused so far. For stats see AddRetry; inFlight may decrease.
func (s *Set) AddBulkhead(name string, stats func() (inFlight int, rejected uint64)) (remove func()) {
	must(stats != nil, "AddBulkhead")
	return s.addPolicy(Bulkhead, name, func(values []float64) []float64 {
		inFlight, rejected := stats()
		return append(values, float64(inFlight), float64(rejected))
	})
}

// AddFallback adds a fallback under a name: the calls it has answered, those of
// them (stale) answered with the last good result, and those it failed to
// answer. The series are disjoint: stale answers are not among the answered.
// For stats see AddRetry.
func (s *Set) AddFallback(name string, stats func() (answered, stale, failed uint64)) (remove func()) {
	must(stats != nil, "AddFallback")
	return s.addPolicy(Fallback, name, func(values []float64) []float64 {
		answered, stale, failed := stats()
		return append(values, float64(answered-min(stale, answered)), float64(stale), float64(failed))
	})
}

func must(given bool, method string) {
	if !given {
		panic("fuseboxmetrics: " + method + ": the function is nil")
	}
}

func (s *Set) addPolicy(subject Subject, name string, read func([]float64) []float64) (remove func()) {
	return s.add(&entry{source: source{subject: subject, name: clean(name), append: read}})
}

func (s *Set) add(e *entry) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, e)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.entries = slices.DeleteFunc(s.entries, func(x *entry) bool { return x == e })
	}
}

// Reading is what one breaker or policy says now.
type Reading struct {
	// Subject is what it is, and says which metrics the values are of.
	Subject Subject
	// Name is the value of the label "name"; valid UTF-8.
	Name string
	// Values has a value for each series, in the order of Subject.Metrics() and
	// of Series in each. It may be read until the next Reading.
	Values []float64
}

// Read returns readings of all there is, each true of one instant. It holds no
// lock between them: a loop over them may take its time.
func (s *Set) Read() iter.Seq[Reading] {
	return func(yield func(Reading) bool) {
		var values []float64
		for src, hidden := range s.sources() {
			if hidden {
				continue
			}
			if src.breaker != nil {
				snapshot := src.breaker.Snapshot()
				values = AppendValues(values[:0], &snapshot)
			} else {
				values = src.append(values[:0])
			}
			if !yield(Reading{src.subject, src.name, values}) {
				return
			}
		}
	}
}

// Hidden returns the names under which something is not shown, because another
// of its subject has the same name: a mistake worth a line in the log. Each
// stands there once, in no particular order.
func (s *Set) Hidden() []string {
	var names []string
	for src, hidden := range s.sources() {
		if hidden && !slices.Contains(names, src.name) {
			names = append(names, src.name)
		}
	}
	return names
}

// sources returns what there is now, once, and whether something else has its
// place.
func (s *Set) sources() iter.Seq2[source, bool] {
	type place struct {
		subject Subject
		name    string
	}
	return func(yield func(source, bool) bool) {
		taken := map[place]*fusebox.Breaker{}
		for src := range s.all() {
			p := place{src.subject, src.name}
			b, hidden := taken[p]
			if hidden && b != nil && b == src.breaker {
				continue
			}
			if !hidden {
				taken[p] = src.breaker
			}
			if !yield(src, hidden) {
				return
			}
		}
	}
}

// all returns everything in order, as often as it was added.
func (s *Set) all() iter.Seq[source] {
	return func(yield func(source) bool) {
		s.mu.Lock()
		entries := slices.Clone(s.entries)
		s.mu.Unlock()
		for _, e := range entries {
			if e.registry == nil {
				if !yield(e.source) {
					return
				}
				continue
			}
			for _, b := range e.registry.All() {
				if !yield(ofBreaker(e.prefix, b)) {
					return
				}
			}
		}
	}
}

func ofBreaker(prefix string, b *fusebox.Breaker) source {
	return source{subject: Breaker, name: clean(prefix + b.Name()), breaker: b}
}

// clean returns a name that every metrics system takes.
func clean(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

package fuseboxadmin

import (
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fusebox-go/fusebox"
)

// Handler is the admin API over the breakers and registries added to it. The
// zero Handler shows nothing, and refuses writes. It is safe for concurrent
// use, may not be copied, and its fields may not change after the first method
// has been called. It holds no goroutine of its own; each event stream is a
// request like another, which ends with its client or with [Handler.Close].
//
// A name is shown once. Of two breakers with one name the first is shown, in
// the order of adding; the list tells of such names. Only the breaker that is
// shown can be changed, and only its records are events.
type Handler struct {
	// Token is the bearer token that allows writes. White space around it does
	// not count. Empty: no token does.
	Token string

	// TokenFunc, if not nil, returns the token in place of Token. It is asked
	// at each write, by many goroutines at a time: a token in a file can be
	// replaced.
	TokenFunc func() string

	// Trusted reports whether a request may write without the token; for
	// connections over a unix socket use [OnUnixSocket]. nil: none may. A
	// remote address on loopback is no reason to trust: every user of the
	// machine, and every proxy on it, has one.
	Trusted func(*http.Request) bool

	// Hosts are host names, without port, that a request may be addressed to.
	// IP addresses, "localhost" and names that end in ".localhost" always are,
	// and connections over a unix socket may say what they like.
	Hosts []string

	// Audit, if not nil, is told of every attempt to write, on the goroutine
	// of the request, before it is answered.
	Audit func(AuditRecord)

	// Logger gets a line for each of those: at level Info where it was done,
	// Warn else. nil stands for slog.Default() at the time of writing.
	Logger *slog.Logger

	cross   http.CrossOriginProtection
	feed    feed
	listing atomic.Int32 // lists being sent, at most maxLists

	mu      sync.Mutex
	entries []*entry // replaced, never written to
	closed  bool
}

// entry is a breaker or a registry that was added.
type entry struct {
	breaker  *fusebox.Breaker
	registry *fusebox.Registry
	stop     func() // ends observing; nil if it never began
}

// Add adds a breaker. remove takes it away again, and may be called twice. Add
// panics if b is nil.
func (h *Handler) Add(b *fusebox.Breaker) (remove func()) {
	if b == nil {
		panic("fuseboxadmin: Add: the breaker is nil")
	}
	return h.add(&entry{breaker: b}, b.Observe)
}

// AddRegistry adds the breakers of a registry, those of the future too. Listing
// them is no use of them: idle ones go as if nobody looked. Looking at one, and
// a record that it leaves, is. remove takes the registry away again, and may be
// called twice. AddRegistry panics if r is nil.
func (h *Handler) AddRegistry(r *fusebox.Registry) (remove func()) {
	if r == nil {
		panic("fuseboxadmin: AddRegistry: the registry is nil")
	}
	return h.add(&entry{registry: r}, r.Observe)
}

// add takes a breaker's lock under h.mu. The other way round does not happen:
// observers are told under no lock.
func (h *Handler) add(e *entry, observe func(fusebox.Observer) func()) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries = append(slices.Clip(h.entries), e)
	if !h.closed {
		e.stop = observe(h.observer(e))
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.entries = slices.DeleteFunc(slices.Clone(h.entries), func(x *entry) bool { return x == e })
		if e.stop != nil {
			e.stop()
		}
	}
}

// Close stops observing and ends the event streams, within 10 s where a reader
// does not take what is being written to it. It does not wait for that:
// http.Server.Shutdown does, and with server.RegisterOnShutdown(handler.Close)
// no stream holds it up. A closed Handler still shows and changes breakers. Close
// may be called twice.
func (h *Handler) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, e := range h.entries {
		if e.stop != nil {
			e.stop()
		}
	}
	h.feed.close()
}

// observer makes the records of e's breakers events. A breaker may be in two
// entries, or hidden behind another of its name: only that which is shown
// counts, and that once.
func (h *Handler) observer(e *entry) fusebox.Observer {
	return fusebox.Observer{Transition: func(t fusebox.Transition) {
		if _, shown := h.find(t.Name); shown == e {
			h.feed.publish("transition", newTransition(t))
		}
	}}
}

func (h *Handler) added() []*entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.entries
}

// find returns the breaker that is shown under a name, and where it was added;
// nil if there is none. It makes none.
func (h *Handler) find(name string) (*fusebox.Breaker, *entry) {
	for _, e := range h.added() {
		if b := e.lookup(name); b != nil {
			return b, e
		}
	}
	return nil, nil
}

func (e *entry) lookup(name string) *fusebox.Breaker {
	if e.registry != nil {
		b, _ := e.registry.Lookup(name)
		return b
	}
	if e.breaker.Name() == name {
		return e.breaker
	}
	return nil
}

// all returns every breaker that was added, as often as it was.
func (h *Handler) all() iter.Seq[*fusebox.Breaker] {
	return func(yield func(*fusebox.Breaker) bool) {
		for _, e := range h.added() {
			if e.registry == nil {
				if !yield(e.breaker) {
					return
				}
				continue
			}
			for _, b := range e.registry.All() {
				if !yield(b) {
					return
				}
			}
		}
	}
}

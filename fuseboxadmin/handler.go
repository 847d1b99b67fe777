package fuseboxadmin

import (
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
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
//
// Memory: the events of the last 6 h, at most 16,384 of them and 8 MiB of their
// data, and 250 kB of samples, see [History]; 64 refusals; about 250 bytes for each
// breaker.
type Handler struct {
	// Token is the bearer token that allows writes. White space around it does
	// not count. Empty: no token does.
	Token string

	// TokenFunc, if not nil, returns the token in place of Token. It is asked
	// at each write and each stream, and where others crowd out a list or a
	// history, by many goroutines at a time: a token in a file can be replaced.
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

	// TokenHelp and HostHelp say what to do in the words of the program: they end
	// the messages to who wants to write where there is no token, and to who uses a
	// name that is none of Hosts. "set admin.token in its file", say. Empty: the
	// messages name the fields above, which tells a Go programmer enough.
	TokenHelp, HostHelp string

	// Audit, if not nil, is told of every attempt to write, on the goroutine
	// of the request, before it is answered; with Guard, as soon as it is.
	Audit func(AuditRecord)

	// Logger gets a line for each of those: at level Info where it was done,
	// Warn else. nil stands for slog.Default() at the time of writing.
	Logger *slog.Logger

	// Fallbacks, if not nil, returns how many calls of the program fallbacks have
	// answered so far: a total that does not decrease, for the samples. It must
	// not block, and is called by one goroutine at a time.
	Fallbacks func() uint64

	// FallbacksOf, if not nil, returns how many calls fallbacks have answered so far
	// in place of each breaker, by the name it is shown under: totals that do not
	// decrease, for Totals.Fallbacks. Of a breaker that is not in it nothing is
	// known. It is called once for every list, breaker and change that is answered,
	// by many goroutines at a time, and must not block. nil: of none.
	FallbacksOf func() map[string]uint64

	cross   http.CrossOriginProtection
	feed    feed
	series  series
	refused refusals
	listing seats // of lists being sent, maxLists
	telling seats // of histories being sent, maxHistories

	mu      sync.Mutex
	entries []*entry // replaced, never written to
	closed  bool
}

// entry is a breaker or a registry that was added.
type entry struct {
	breaker  *fusebox.Breaker
	registry *fusebox.Registry
	prefix   string                                // of the names in registry
	seen     atomic.Pointer[fusebox.RegistryStats] // when last looked at
	stop     func()                                // ends observing; nil if it never began
}

// Add adds a breaker. remove takes it away again, and may be called twice. Add
// panics if b is nil.
func (h *Handler) Add(b *fusebox.Breaker) (remove func()) {
	if b == nil {
		panic("fuseboxadmin: Add: the breaker is nil")
	}
	return h.add(&entry{breaker: b}, b.Observe)
}

// AddRegistry adds the breakers of a registry, those of the future too, each
// under prefix and its name: registries that may have keys in common are told
// apart by it. Looking at them is no use of them: idle ones go as if nobody
// looked. A breaker that has been evicted is not shown, and its records are no
// events. remove takes the registry away again, and may be called twice.
// AddRegistry panics if r is nil.
func (h *Handler) AddRegistry(prefix string, r *fusebox.Registry) (remove func()) {
	if r == nil {
		panic("fuseboxadmin: AddRegistry: the registry is nil")
	}
	return h.add(&entry{registry: r, prefix: prefix}, r.Observe)
}

// add takes a breaker's lock under h.mu. The other way round does not happen:
// observers are told under no lock.
func (h *Handler) add(e *entry, observe func(fusebox.Observer) func()) (remove func()) {
	h.Sample() // the first one begins the series; later, what begin notes does not pile up
	h.series.begin(e)
	e.changed()
	defer h.feed.announce()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries = append(slices.Clip(h.entries), e)
	if !h.closed {
		e.stop = observe(h.observer(e))
	}
	return func() {
		defer h.feed.announce()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.entries = slices.DeleteFunc(slices.Clone(h.entries), func(x *entry) bool { return x == e })
		if e.stop != nil {
			e.stop()
		}
	}
}

// Close stops observing and ends the event streams, within 1 s where a reader
// does not take what is being written to it. It does not wait for that:
// http.Server.Shutdown does, and with server.RegisterOnShutdown(handler.Close)
// no stream holds it up. A closed Handler still shows and changes breakers, but
// learns of no more transitions: its history lacks them. Close may be called twice.
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

// Publish puts an event of the program's own on the stream, and into the
// history: a reload of its settings, say. event is a word of at most 100 letters,
// digits, "-", "_", "." and ":", but none of those that the handler uses itself:
// transition, audit, list, reset. data is written as JSON, of 64 KiB at most. It
// waits for no reader. The error says what is wrong with event or data; nothing has
// been published then.
func (h *Handler) Publish(event string, data any) error {
	if event == "" || len(event) > 100 || strings.ContainsFunc(event, func(c rune) bool { return !wordly(c) }) {
		return fmt.Errorf("fuseboxadmin: Publish: event is %q, must be a word of at most 100 letters, digits, and - _ . : between them", shortened(event))
	}
	if slices.Contains([]string{kindTransition, kindAudit, kindList, kindReset}, event) {
		return fmt.Errorf("fuseboxadmin: Publish: event is %q, must be another than those of the handler", event)
	}
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("fuseboxadmin: Publish: data: %w", err)
	}
	const most = 64 << 10
	if len(text) > most {
		return fmt.Errorf("fuseboxadmin: Publish: data is %d bytes of JSON, must be at most %d", len(text), most)
	}
	h.feed.put(event, text)
	return nil
}

func wordly(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.:", c)
}

// observer makes the records of e's breakers events. A breaker may be in two
// entries, or hidden behind another of its name: only that which is shown
// counts, and that once.
func (h *Handler) observer(e *entry) fusebox.Observer {
	return fusebox.Observer{Transition: func(t fusebox.Transition) {
		name := e.prefix + t.Name
		if _, shown := h.find(name); shown == e {
			h.feed.publish(kindTransition, newTransition(name, t))
		}
	}}
}

// changed reports whether breakers of a registry have come or gone since it was
// asked last.
func (e *entry) changed() bool {
	if e.registry == nil {
		return false
	}
	s := e.registry.Stats()
	before := e.seen.Swap(&s)
	return before == nil || s != *before
}

// look does what falls due with time, for who is looking.
func (h *Handler) look() {
	changed := false
	for _, e := range h.added() {
		changed = e.changed() || changed
	}
	if changed {
		h.feed.announce()
	}
	h.Sample()
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
		key, ok := strings.CutPrefix(name, e.prefix)
		if !ok {
			return nil
		}
		b, _ := e.registry.Peek(key)
		return b
	}
	if e.breaker.Name() == name {
		return e.breaker
	}
	return nil
}

// breakers returns those of an entry, and the names they are shown under.
func (e *entry) breakers() iter.Seq2[string, *fusebox.Breaker] {
	return func(yield func(string, *fusebox.Breaker) bool) {
		if e.registry == nil {
			yield(e.breaker.Name(), e.breaker)
			return
		}
		for key, b := range e.registry.All() {
			if !yield(e.prefix+key, b) {
				return
			}
		}
	}
}

// shown returns the breakers that are shown of what has been added by now, and
// tells hidden of those that are not.
func (h *Handler) shown(hidden func(name string, b *fusebox.Breaker)) iter.Seq2[string, *fusebox.Breaker] {
	entries := h.added()
	return func(yield func(string, *fusebox.Breaker) bool) {
		taken := map[string]*fusebox.Breaker{}
		for _, e := range entries {
			for name, b := range e.breakers() {
				if first, ok := taken[name]; ok {
					if first != b {
						hidden(name, b)
					}
					continue
				}
				taken[name] = b
				if !yield(name, b) {
					return
				}
			}
		}
	}
}

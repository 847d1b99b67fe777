package fuseboxhttp

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Handler stands before an [http.Handler] and guards it: a breaker for each
// route judges what it answers, and while it is open the requests of that route
// are answered 503 and do not reach it. One that costs much and answers with
// errors gets time to recover, and its callers an answer at once.
//
// A request is judged once, when the handler has returned, by the status it
// wrote; none written is 200. A stream is judged by its status too, at its end;
// each write renews a probe's lease, so that a long one keeps its slot. What it
// took up to then is how long it lasted: under Config.SlowAfter a stream, or a
// client that reads slowly, makes a slow call. A hijacked connection is judged
// when it is taken over, as 101 if no status was written: what follows is no
// longer the answer to a request.
//
// A handler that panics, with [http.ErrAbortHandler] too, or ends its goroutine
// has failed; the panic goes on as it was. If the client has left by then (the
// context of the request is cancelled), failures and panics are ignored, and so
// is a handler that returns without having written anything; an answer that is
// a success stays one. To have written nothing when the deadline of the context
// has passed is a failure. A handler that cannot read a request's body ought to
// answer 4xx: with 5xx a client could open the breaker for all.
//
// The handler's ResponseWriter has those of [http.Flusher], [http.Hijacker],
// [io.ReaderFrom], [http.Pusher] and [http.CloseNotifier] that the server's
// has, and works with [http.ResponseController].
//
// A Handler is safe for concurrent use; its fields may not change after the
// first request, and it may not be copied. It adds two allocations to a
// request; before a ServeMux it costs a second search for the route, too, and
// one more allocation where that has wildcards.
type Handler struct {
	// Handler is what is guarded. nil is a mistake: ServeHTTP panics.
	Handler http.Handler

	// Registry keeps the breakers; Handlers may share one. nil: one of the
	// Handler's own, whose zero Config protects.
	Registry *fusebox.Registry

	// Key names the breaker of a request; "" stands for none: the request goes
	// through unjudged. Keys are few and known, or whoever sends requests
	// chooses them: a pattern, a tenant that has been authenticated, never a path.
	//
	// nil: the route's pattern. It is the one by which Handler, if that is an
	// [http.ServeMux], will choose (none where it has no route and answers by
	// itself); else Request.Pattern, which a ServeMux around this Handler has
	// set, as some other routers do; and "/" where that is empty.
	Key func(*http.Request) string

	// Classify says what a status means. It is called once a request, by its
	// goroutine, with the final status. A Failure is given to the breaker as a
	// [*StatusError]: Config.Classify, if there is one, has the last word, as
	// its default has where the client has left. nil: 5xx except 501, and 429,
	// are failures, all others successes: 404 is an answer.
	Classify func(status int) fusebox.Outcome

	// Rejected answers a request that a breaker has rejected. nil: status 503,
	// a Retry-After of whole seconds, rounded up, at least 1 (where nobody
	// knows, too), the breaker's name in the header Fusebox-Breaker (bytes that
	// are not printable ASCII, and %, as %XX; 256 bytes at most), and a line of
	// text that no cache may keep.
	Rejected func(w http.ResponseWriter, r *http.Request, err *fusebox.OpenError)

	own fusebox.Registry // in use where Registry is nil
}

// Breakers returns the registry in use: Registry, or the Handler's own.
func (h *Handler) Breakers() *fusebox.Registry {
	if h.Registry != nil {
		return h.Registry
	}
	return &h.own
}

// ServeHTTP answers a request: with Handler if the breaker admits it. One whose
// context is done already is neither passed on nor counted, and answered 503:
// a handler that writes nothing would have answered 200.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.Handler == nil {
		panic("fusebox: Handler.Handler is nil")
	}
	key := h.key(r)
	if key == "" {
		h.Handler.ServeHTTP(w, r)
		return
	}
	ctx := r.Context()
	permit, err := h.Breakers().Get(key).Allow(ctx)
	if err != nil {
		h.reject(w, r, err)
		return
	}
	rw := &reply{ResponseWriter: w, ctx: ctx, permit: permit.Take(), classify: h.Classify, http2: r.ProtoMajor >= 2}
	defer rw.end()
	h.Handler.ServeHTTP(rw.writer(), r)
	rw.returned = true
}

// unrouted is the key of requests of which no pattern is known.
const unrouted = "/"

func (h *Handler) key(r *http.Request) string {
	if h.Key != nil {
		return h.Key(r)
	}
	// The inner mux first: it knows more than one around it, that sends it
	// everything below a prefix.
	if mux, ok := h.Handler.(interface {
		Handler(r *http.Request) (http.Handler, string)
	}); ok {
		_, pattern := mux.Handler(r)
		return pattern
	}
	if r.Pattern != "" {
		return r.Pattern
	}
	return unrouted
}

func (h *Handler) reject(w http.ResponseWriter, r *http.Request, err error) {
	var open *fusebox.OpenError
	if errors.As(err, &open) {
		if h.Rejected != nil {
			h.Rejected(w, r, open)
			return
		}
		w.Header().Set("Retry-After", strconv.FormatInt(seconds(open.RetryAfter()), 10))
		w.Header().Set("Fusebox-Breaker", printable(open.Name()))
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, "503 Service Unavailable", http.StatusServiceUnavailable)
}

// seconds rounds a wait up to whole seconds, of which there is at least one: a
// client that came back at once would be rejected again.
func seconds(d time.Duration) int64 {
	s := d / time.Second
	if d%time.Second > 0 {
		s++
	}
	return int64(max(s, 1))
}

// printable writes a name so that it can stand in a header.
func printable(name string) string {
	const (
		hex   = "0123456789ABCDEF"
		limit = 256
	)
	text := make([]byte, 0, min(len(name), limit))
	for i := 0; i < len(name) && len(text) < limit; i++ {
		switch c := name[i]; {
		case c >= ' ' && c <= '~' && c != '%':
			text = append(text, c)
		case len(text)+3 > limit:
			return string(text)
		default:
			text = append(text, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(text)
}

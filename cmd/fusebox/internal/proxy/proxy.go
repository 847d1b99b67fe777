package proxy

import (
	"cmp"
	"crypto/x509"
	"io"
	"log"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/accesslog"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
)

// Options are what a [Proxy] tells, and whom. The zero value tells nobody but the
// default logger.
type Options struct {
	// Admin shows the breakers. They are taken away when they go. nil: none.
	Admin *fuseboxadmin.Handler

	// Metrics shows breakers, bulkheads, retries and fallbacks, likewise, each
	// under its upstream's name. nil: none.
	Metrics *fuseboxmetrics.Set

	// Access gets a line for each request; [Proxy.SetAccess] replaces it. nil: none.
	Access *accesslog.Log

	// Logger gets the transitions of the breakers, at level Warn where one opens
	// and Info else, and at level Debug what goes wrong with single connections.
	// nil: slog.Default() at the time of New.
	Logger *slog.Logger

	// RootCAs are what certificates of https endpoints are checked against. nil:
	// those of the system.
	RootCAs *x509.CertPool
}

// Proxy is the reverse proxy. It is safe for concurrent use. Make one with [New].
type Proxy struct {
	options  Options
	errorLog *log.Logger
	buffers  buffers
	access   atomic.Pointer[accesslog.Log]
	inFlight atomic.Int64
	routes   atomic.Pointer[routes]

	applying chan struct{}    // holds a value while somebody changes what is below
	kept     map[string]*kept // by upstream
	closed   bool
}

// New returns a proxy for a configuration that has passed every check. The error is
// what those cannot know: a file of a fallback that cannot be read. Connections are
// made when they are needed.
func New(c *config.Config, o Options) (*Proxy, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	p := &Proxy{
		options:  o,
		errorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		applying: make(chan struct{}, 1),
		kept:     map[string]*kept{},
	}
	p.access.Store(o.Access)
	if err := p.Apply(c); err != nil {
		return nil, err
	}
	return p, nil
}

// SetAccess replaces the access log; nil switches it off. Requests in flight write
// to the one they have begun with, which has to stay open until they are over.
func (p *Proxy) SetAccess(l *accesslog.Log) { p.access.Store(l) }

// InFlight returns how many requests there are at present, upgraded connections
// among them.
func (p *Proxy) InFlight() int { return int(p.inFlight.Load()) }

// ServeHTTP answers a request: see the package documentation.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.inFlight.Add(1)
	defer p.inFlight.Add(-1)
	c := &call{in: r, out: w}
	if out := p.access.Load(); out != nil {
		c.log = newEntry(out, w, r)
		defer c.log.write(r) // however the answer ends
		w = c.log
	}
	defer c.end()
	switch {
	case r.Method == http.MethodConnect:
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE")
		refuse(w, r, http.StatusMethodNotAllowed, "this is no tunnel")
	case !strings.HasPrefix(cmp.Or(r.URL.Path, "/"), "/"), r.URL.Opaque != "":
		refuse(w, r, http.StatusBadRequest, "the target is no path")
	case strings.ContainsFunc(r.Method, notInTokens), strings.Contains(r.URL.RawQuery, " "):
		// HTTP/2 has them, and for HTTP/1 they would be the end of the method or the target.
		refuse(w, r, http.StatusBadRequest, "the method or the target is malformed")
	case climbs(r.URL.Path):
		refuse(w, r, http.StatusBadRequest, "the path leads above its root")
	case hops(r.Header) >= maxHops:
		refuse(w, r, http.StatusLoopDetected, "the request goes in circles")
	default:
		if c.upstream = p.routes.Load().find(r); c.upstream == nil {
			refuse(w, r, http.StatusNotFound, "no route")
		} else {
			c.serve(p, w)
		}
	}
	if c.log != nil {
		c.log.over = true
	}
}

// notInTokens reports whether c is none of the characters of tokens (RFC 9110, 5.6.2), of
// which methods are.
func notInTokens(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
}

// refuse answers with one line of text.
func refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, text+"\n")
	}
}

// buffers are those through which bodies are copied.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

// Get implements [httputil.BufferPool].
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return make([]byte, bufferSize)
}

// Put implements [httputil.BufferPool].
func (b *buffers) Put(p []byte) {
	if len(p) == bufferSize {
		b.pool.Put((*[bufferSize]byte)(p))
	}
}

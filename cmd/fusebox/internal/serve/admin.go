package serve

import (
	_ "embed" // for openapi.json
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/reload"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
)

// openAPI describes the paths of this package; those below /api/breakers and
// /api/events are described by package fuseboxadmin.
//
//go:embed openapi.json
var openAPI []byte

// admin is the handler of the admin listener: the API of package fuseboxadmin, the
// page over it, and the program's own paths.
type admin struct {
	api      *fuseboxadmin.Handler
	page     http.Handler // of package page; the API is served here
	metrics  http.Handler
	reloader *reload.Reloader
	file     string // the configuration file; empty: none
	draining *atomic.Bool
	log      *slog.Logger
}

// ownPath is a path of this package.
type ownPath struct {
	method, path string
	serve        func(a *admin, w http.ResponseWriter, r *http.Request)
	action       string // for fuseboxadmin.Handler.Guard; empty: anybody may, whatever the Host header says
}

// ownPaths are all there are.
func ownPaths() []ownPath {
	return []ownPath{
		{http.MethodGet, "/", (*admin).servePage, "page"},
		{http.MethodGet, "/api/config", (*admin).config, "config"},
		{http.MethodPost, "/-/reload", (*admin).reload, "reload"},
		{http.MethodGet, "/metrics", func(a *admin, w http.ResponseWriter, r *http.Request) { a.metrics.ServeHTTP(w, r) }, "metrics"},
		{http.MethodGet, "/openapi.json", (*admin).openAPI, "openapi"},
		{http.MethodGet, "/livez", (*admin).live, ""},
		{http.MethodGet, "/readyz", (*admin).ready, ""},
	}
}

// ServeHTTP implements [http.Handler].
func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, p := range ownPaths() {
		if r.URL.Path != p.path {
			continue
		}
		if r.Method != p.method && (r.Method != http.MethodHead || p.method != http.MethodGet) {
			allowed = append(allowed, p.method)
			continue
		}
		a.own(p, w, r)
		return
	}
	switch {
	case allowed != nil:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		refuse(w, http.StatusMethodNotAllowed, "the method %s is not allowed here, but %s", r.Method, strings.Join(allowed, ", "))
	case strings.HasPrefix(r.URL.Path, "/api/"):
		a.api.ServeHTTP(w, r)
	case r.Method == http.MethodGet || r.Method == http.MethodHead: // a part of the page, or nothing
		a.own(ownPath{serve: (*admin).servePage, action: "page"}, w, r)
	default:
		refuse(w, http.StatusNotFound, "there is nothing at %q; /openapi.json and /api/openapi.json list what there is", r.URL.Path)
	}
}

// own serves a path of this package.
func (a *admin) own(p ownPath, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	// Who takes nothing of a small answer, or sends a body that nobody wants, is
	// not waited for.
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Now().Add(30 * time.Second))
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	var next http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(a, w, r) })
	if p.action != "" {
		next = a.api.Guard(p.action, next)
	}
	next.ServeHTTP(w, r)
}

func (a *admin) servePage(w http.ResponseWriter, r *http.Request) { a.page.ServeHTTP(w, r) }

func (a *admin) live(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

// ready says whether requests are welcome. An open breaker is no reason against
// it: the other upstreams, and the fallbacks, are served.
func (a *admin) ready(w http.ResponseWriter, _ *http.Request) {
	if a.draining.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("draining\n"))
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

func (a *admin) openAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openAPI)
}

// configView is the answer of GET /api/config.
type configView struct {
	File     string        `json:"file,omitempty"` // empty: there is none
	LoadedAt time.Time     `json:"loaded_at"`      // when it was last read and found good
	Failed   *reloadFailed `json:"failed,omitempty"`
	// Restart are settings that have changed since the start and hold, as they
	// are listed, after a restart only.
	Restart  []string      `json:"restart,omitempty"`
	Warnings []string      `json:"warnings,omitempty"`
	Entries  []configEntry `json:"entries"`
}

// reloadFailed is why the last reload failed; absent if it did not.
type reloadFailed struct {
	At     time.Time     `json:"at"`
	Errors []configError `json:"errors"`
}

// configEntry is a value in effect.
type configEntry struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // default, FILE:LINE:COLUMN, env NAME, flag NAME
	Secret bool   `json:"secret,omitempty"`
}

// configError is one thing that is wrong with a configuration. File, line and
// column are absent where it is not the file that is wrong.
type configError struct {
	Path    string `json:"path,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Origin  string `json:"origin,omitempty"` // as in configEntry
	Message string `json:"message"`
}

func configErrors(err error) []configError {
	var all config.Errors
	if !errors.As(err, &all) {
		return []configError{{Message: err.Error()}}
	}
	list := make([]configError, 0, len(all))
	for _, e := range all {
		c := configError{Path: e.Path, Message: e.Message, Origin: e.Origin.String()}
		if e.Origin.Kind == config.FromFile {
			c.File, c.Line, c.Column = e.Origin.Name, e.Origin.Line, e.Origin.Column
		}
		list = append(list, c)
	}
	return list
}

func (a *admin) config(w http.ResponseWriter, _ *http.Request) {
	s := a.reloader.Status()
	view := configView{File: a.file, LoadedAt: s.LoadedAt, Restart: s.Restart, Warnings: s.Config.Warnings}
	if s.Err != nil {
		view.Failed = &reloadFailed{At: s.FailedAt, Errors: configErrors(s.Err)}
	}
	for _, e := range s.Config.Effective() {
		view.Entries = append(view.Entries, configEntry{Path: e.Path, Value: e.Value, Origin: e.Origin.String(), Secret: e.Secret})
	}
	answer(w, http.StatusOK, view)
}

// reloaded is the answer of POST /-/reload where it was done.
type reloaded struct {
	Changed []string `json:"changed"`           // paths of settings
	Added   []string `json:"added,omitempty"`   // upstreams
	Removed []string `json:"removed,omitempty"` // upstreams
	Restart []string `json:"restart,omitempty"` // see configView
}

// reloadRefused is the answer where the configuration is bad.
type reloadRefused struct {
	Errors []configError `json:"errors"`
}

// reloadEvent is the data of an event "reload", whatever caused it.
type reloadEvent struct {
	Cause   string        `json:"cause"`
	Success bool          `json:"success"`
	Changes string        `json:"changes,omitempty"` // as in the log
	Restart []string      `json:"restart,omitempty"` // see configView
	Errors  []configError `json:"errors,omitempty"`  // the first of them
}

func (a *admin) reload(w http.ResponseWriter, r *http.Request) {
	result := a.reloader.Reload(r.Context(), "POST /-/reload from "+r.RemoteAddr)
	switch {
	case result.Err == nil:
		answer(w, http.StatusOK, reloaded{reload.Paths(result.Changes), result.Changes.Added, result.Changes.Removed, result.Restart})
	case errors.Is(result.Err, reload.ErrStopped) || r.Context().Err() != nil:
		refuse(w, http.StatusServiceUnavailable, "%v", result.Err)
	default:
		answer(w, http.StatusUnprocessableEntity, reloadRefused{configErrors(result.Err)})
	}
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// refuse answers as package fuseboxadmin does.
func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	answer(w, status, fuseboxadmin.APIError{Status: status, Message: fmt.Sprintf(format, args...)})
}

// registerOwn registers the metrics of the program itself.
func registerOwn(r prometheus.Registerer, status func() reload.Status, inFlight func() int, dropped func() uint64) error {
	build := ThisBuild()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "fusebox_build_info",
			Help:        "What the program was built from; always 1.",
			ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision, "goversion": build.Go},
		}, func() float64 { return 1 }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fusebox_proxy_in_flight",
			Help: "Requests that the proxy has begun and not finished, streams and upgraded connections among them.",
		}, func() float64 { return float64(inFlight()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "fusebox_access_log_dropped_total",
			Help: "Lines of the access log that could not be written: its reader has gone or does not keep up, or the disk is full.",
		}, func() float64 { return float64(dropped()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fusebox_config_reload_success",
			Help: "Whether the configuration was good when it was last read.",
		}, func() float64 {
			if status().Err != nil {
				return 0
			}
			return 1
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fusebox_config_reload_timestamp_seconds",
			Help: "When the configuration was last read and found good, in seconds since 1970.",
		}, func() float64 { return float64(status().LoadedAt.UnixMilli()) / 1000 }),
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// fallbacks returns a function for [fuseboxadmin.Handler].Fallbacks: how many
// calls fallbacks have answered so far. It does not decrease when an upstream goes.
func fallbacks(s *fuseboxmetrics.Set) func() uint64 {
	var total, last uint64
	return func() uint64 {
		now := uint64(0)
		for r := range s.Read() {
			if r.Subject == fuseboxmetrics.Fallback {
				now += answered(r)
			}
		}
		total += max(now, last) - last // less: an upstream has gone
		last = now
		return total
	}
}

// fallbacksOf returns a function for [fuseboxadmin.Handler].FallbacksOf. A fallback
// answers in the place of an upstream, and has its name: so has the breaker of the
// upstream, but not those of single endpoints, of which nothing is known.
func fallbacksOf(s *fuseboxmetrics.Set) func() map[string]uint64 {
	return func() map[string]uint64 {
		by := map[string]uint64{}
		for r := range s.Read() {
			if r.Subject == fuseboxmetrics.Fallback {
				by[r.Name] = answered(r)
			}
		}
		return by
	}
}

// answered returns how many calls a fallback has answered, with the last good answer too.
func answered(r fuseboxmetrics.Reading) uint64 { return uint64(r.Values[0] + r.Values[1]) }

// What the admin listener tells somebody to do.
const (
	tokenHelp = "set admin.token in the configuration file, or FUSEBOX_ADMIN_TOKEN in the environment, " +
		"or come over a unix socket (--admin unix:PATH)"
	hostHelp = "add the name to admin.hosts in the configuration file, or to FUSEBOX_ADMIN_HOSTS in the environment"
)

// metricsHandler shows what a registry has.
func metricsHandler(r *prometheus.Registry, log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: 8,
	})
}

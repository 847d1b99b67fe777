package browser_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxadmin/page"
)

// incident is an hour of a program, lived through in virtual time: what its API
// says at the end, and the report of it.
type incident struct {
	answers map[string][]byte
	before  map[string][]byte // some seconds earlier
	report  []byte
}

// dependency is one that a breaker guards, and how it fares.
type dependency struct {
	name     string
	a        float64 // calls in half a second, on average
	config   fusebox.Config
	failures func(minute float64) float64 // share of calls that fail
	slow     float64
	err      string

	random  *rand.Rand // its own, so that it fares the same whatever the others do
	breaker *fusebox.Breaker
	out     []fusebox.Permit
}

func steady(share float64) func(float64) float64 {
	return func(float64) float64 { return share }
}

// outage fails all but a little between two minutes, and some outside.
func outage(from, to, before float64) func(float64) float64 {
	return func(m float64) float64 {
		if m >= from && m < to {
			return 0.97
		}
		return before
	}
}

// lived is the incident, which the tests share.
var lived struct {
	once sync.Once
	incident
}

func liveThrough(t *testing.T) *incident {
	t.Helper()
	lived.once.Do(func() { lived.incident = liveOnce(t) })
	if lived.report == nil {
		t.Fatal("it was not lived through")
	}
	return &lived.incident
}

func liveOnce(t *testing.T) (past incident) {
	t.Helper()
	const minutes, seed = 62, 10
	slowly := fusebox.Config{OpenFor: 4 * time.Second, OpenForMax: 45 * time.Second}
	dependencies := []*dependency{
		{name: "payments", a: 6, config: slowly, failures: func(m float64) float64 {
			return max(outage(20, 21.5, 0.01)(m), outage(minutes-4.1, minutes, 0.01)(m))
		}, err: "dial tcp 10.0.0.7:443: connect: connection refused"},
		{name: "search", a: 4, config: fusebox.Config{SlowAfter: 800 * time.Millisecond, OpenFor: 4 * time.Second, OpenForMax: 10 * time.Second}, failures: outage(minutes-1.2, minutes-0.1, 0.02), slow: 0.1, err: "context deadline exceeded"},
		{name: "suggestions", a: 3, config: fusebox.Config{Mode: fusebox.Shadow, OpenFor: 20 * time.Second, OpenForMax: 40 * time.Second}, failures: func(m float64) float64 {
			if m > 34 {
				return 0.55
			}
			return 0.2
		}, err: "upstream answered 503"},
		{name: "inventory", a: 2, failures: steady(0.02), err: "upstream answered 502"},
		{name: "mail", a: 2, failures: steady(0.31), err: "421 too many connections"},
		{name: "geocoder", a: 1.5, failures: outage(41, 43.2, 0.05), config: slowly, err: "i/o timeout"},
		{name: "exchange rates", a: 0.2, failures: steady(0.3), err: "no such host"},
	}
	for _, name := range []string{"accounts", "audit log", "billing", "cart", "catalogue", "feature flags", "images", "invoices", "notifications", "orders", "pricing", "reviews", "sessions", "shipping", "stock", "tax", "users", "vouchers"} {
		dependencies = append(dependencies, &dependency{name: name, a: 0.5 + float64(len(name))/4, failures: steady(float64(len(name)%5) / 60), err: "broken pipe"})
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, time.November, 30, 2, 4, 13, 0, time.UTC))) // the time of a bubble begins in 2000
		fallbacks := uint64(0)
		admin := &fuseboxadmin.Handler{Token: token, Logger: slog.New(slog.DiscardHandler), Fallbacks: func() uint64 { return fallbacks }}
		for i, d := range dependencies {
			d.random = rand.New(rand.NewPCG(seed, uint64(i)))
			d.config.Rand = d.random.Float64
			d.breaker = fusebox.New(d.name, d.config)
			admin.Add(d.breaker)
		}
		get := func(path string) []byte {
			answer, err := page.FromHandler(admin)(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		begin := time.Now()
		for step := range minutes * 120 {
			m := time.Since(begin).Minutes()
			for _, d := range dependencies {
				for i := range d.out {
					d.finish(&d.out[i], m)
				}
				d.out = d.out[:0]
				n := int(d.a)
				if d.random.Float64() < d.a-float64(n) {
					n++
				}
				for range n {
					p, err := d.breaker.Allow(t.Context())
					switch {
					case err != nil && d.name == "payments":
						fallbacks++
					case err != nil:
					case p.Probe():
						d.out = append(d.out, p.Take()) // until the next step
					default:
						d.finish(&p, m)
					}
				}
			}
			switch step {
			case 27 * 120:
				if err := admin.Publish("reload", map[string]any{"cause": "SIGHUP", "success": true, "changes": "2 changed"}); err != nil {
					t.Error(err)
				}
			case 31 * 120:
				post(t, admin, "api/breakers/geocoder/reset", `{"reason":"try again after the firewall change","by":"joe"}`)
			case (minutes - 3) * 120:
				post(t, admin, "api/breakers/inventory/override", `{"mode":"force-open","reason":"INC-2041, stock is being moved","by":"anna","ttl":"15m"}`)
			}
			if step == minutes*120-12 {
				past.before = map[string][]byte{"api/breakers": get("api/breakers")}
				for _, d := range dependencies {
					path := fuseboxadmin.Path(d.name)
					past.before[path] = get(path)
				}
			}
			admin.Sample()
			time.Sleep(500 * time.Millisecond)
		}
		for _, d := range dependencies {
			for i := range d.out {
				d.out[i].Cancel()
			}
		}
		past.answers = map[string][]byte{"api/config": []byte(`{"entries":[
			{"path":"upstreams.payments.breaker.open-for","value":"4s","origin":"fusebox.yaml:61:17"},
			{"path":"upstreams.payments.breaker.open-for-max","value":"45s","origin":"fusebox.yaml:62:21"},
			{"path":"upstreams.payments.breaker.window","value":"10s","origin":"default"}]}`)}
		paths := []string{"api/breakers", "api/history"}
		for _, d := range dependencies {
			paths = append(paths, fuseboxadmin.Path(d.name))
		}
		for _, path := range paths {
			past.answers[path] = get(path)
		}
		var report bytes.Buffer
		if err := page.Report(t.Context(), &report, page.FromHandler(admin)); err != nil {
			t.Fatal(err)
		}
		past.report = report.Bytes()
		admin.Close()
	})
	return past
}

// finish records what came of a call.
func (d *dependency) finish(p *fusebox.Permit, minute float64) {
	if d.random.Float64() < d.failures(minute) {
		p.Finish(context.Background(), errors.New(d.err))
		return
	}
	took := 20 * time.Millisecond
	if d.random.Float64() < d.slow {
		took = time.Second
	}
	p.RecordAfter(fusebox.Success, took)
}

func post(t *testing.T, h http.Handler, path, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("POST %s: %d %s", path, w.Code, w.Body)
	}
}

// only returns a list with the breakers of these names.
func only(t *testing.T, answer []byte, names []string) []byte {
	t.Helper()
	var list fuseboxadmin.List
	if err := json.Unmarshal(answer, &list); err != nil {
		t.Error(err)
	}
	list.Breakers = slices.DeleteFunc(list.Breakers, func(b fuseboxadmin.Breaker) bool { return !slices.Contains(names, b.Name) })
	answer, err := json.Marshal(list)
	if err != nil {
		t.Error(err)
	}
	return answer
}

// serve serves the page over the answers, as if the program stood still: each
// breaker as it was some seconds before, for a moment, and then as it is.
func (i *incident) serve(t *testing.T) (url string) {
	t.Helper()
	done := make(chan struct{})
	var first sync.Map // when something was first asked for
	fresh := func(what ...string) (found bool) {
		for _, w := range what {
			began, _ := first.LoadOrStore(w, time.Now())
			found = found || time.Since(began.(time.Time)) < time.Second
		}
		return found
	}
	server := httptest.NewServer(page.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
		if path == "api/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-done:
			case <-r.Context().Done():
			}
			return
		}
		answer, ok := i.answers[path]
		names := r.URL.Query()["only"]
		if before := i.before[path]; before != nil && (fresh(names...) || path != "api/breakers" && fresh(path)) {
			answer = before
		}
		if names != nil {
			answer = only(t, answer, names)
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})))
	t.Cleanup(func() {
		close(done)
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

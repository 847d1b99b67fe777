package fuseboxadmin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

// serve sends a request to a handler, as a program on the same machine would,
// and decodes the answer.
func serve(h http.Handler, method, path, body string, answer any) {
	r := httptest.NewRequestWithContext(context.Background(), method, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer secret")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), answer); err != nil {
		fmt.Println(err)
	}
}

// quiet is for examples that are not about the log.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func down(context.Context) error { return errors.New("connection refused") }

// A program mounts the handler beside its other debugging pages, on a listener
// that only operators reach.
func Example() {
	var hosts fusebox.Registry
	payments := fusebox.New("payments", fusebox.Config{})

	admin := &fuseboxadmin.Handler{Token: os.Getenv("FUSEBOX_TOKEN")} // none: for reading only
	admin.Add(payments)
	admin.AddRegistry("", &hosts)

	mux := http.NewServeMux()
	mux.Handle("/debug/fusebox/", http.StripPrefix("/debug/fusebox", admin))
	server := &http.Server{Addr: "localhost:6060", Handler: mux}
	server.RegisterOnShutdown(admin.Close) // or event streams hold up Shutdown
	// go server.ListenAndServe()

	hosts.Get("a.example.com")
	var list fuseboxadmin.List
	serve(server.Handler, "GET", "/debug/fusebox/api/breakers", "", &list)
	for _, b := range list.Breakers {
		fmt.Println(b.State, b.Path)
	}
	// Output:
	// closed api/breakers/a.example.com
	// closed api/breakers/payments
}

func ExampleHandler() {
	payments := fusebox.New("payments", fusebox.Config{})
	h := &fuseboxadmin.Handler{Token: "secret", Logger: quiet()}
	h.Add(payments)

	var b fuseboxadmin.Breaker
	serve(h, "POST", "/api/breakers/payments/override", `{"mode":"force-open","reason":"bad deploy","by":"kim","ttl":"15m"}`, &b)
	fmt.Println(b.State, b.Mode, b.Note.Reason)
	fmt.Println(payments.Do(context.Background(), down))
	// Output:
	// open force-open bad deploy
	// fusebox: "payments" is open (force-open by kim: bad deploy), retry in 15m0s
}

func ExampleHandler_ServeHTTP() {
	h := &fuseboxadmin.Handler{} // without a token
	h.Logger = quiet()
	var refused fuseboxadmin.APIError
	serve(h, "POST", "/api/breakers/payments/reset", "", &refused)
	fmt.Println(refused.Status, refused.Message)
	// Output:
	// 403 this is for reading only, as no token has been set: set Handler.Token, or come over a unix socket that Handler.Trusted vouches for
}

func ExampleRefusal() {
	h := &fuseboxadmin.Handler{Token: "secret", Logger: quiet()}
	for range 3 { // without the token
		r := httptest.NewRequestWithContext(context.Background(), "POST", "http://localhost/api/breakers/payments/reset", http.NoBody)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	var past fuseboxadmin.History
	serve(h, "GET", "/api/history", "", &past)
	for _, r := range past.Refused {
		fmt.Println(r.Action, r.Name, r.Status, r.Times, r.By)
	}
	// Output:
	// reset payments 401 3 unauthenticated from 192.0.2.1:1234
}

func ExampleHandler_Add() {
	var h fuseboxadmin.Handler
	remove := h.Add(fusebox.New("payments", fusebox.Config{}))
	var list fuseboxadmin.List
	serve(&h, "GET", "/api/breakers", "", &list)
	fmt.Println(len(list.Breakers))
	remove()
	serve(&h, "GET", "/api/breakers", "", &list)
	fmt.Println(len(list.Breakers))
	// Output:
	// 1
	// 0
}

func ExampleHandler_AddRegistry() {
	var h fuseboxadmin.Handler
	var hosts fusebox.Registry
	h.AddRegistry("http:", &hosts)
	hosts.Get("a.example.com")

	var d fuseboxadmin.Detail
	serve(&h, "GET", "/api/breakers/http:a.example.com", "", &d)
	fmt.Println(d.Name, d.State)
	var unknown fuseboxadmin.APIError
	serve(&h, "GET", "/api/breakers/http:b.example.com", "", &unknown) // makes none
	fmt.Println(unknown.Status, hosts.Stats().Keys)
	// Output:
	// http:a.example.com closed
	// 404 1
}

func ExampleHandler_Publish() {
	var h fuseboxadmin.Handler
	if err := h.Publish("reload", map[string]int{"changed": 2}); err != nil {
		fmt.Println(err)
	}
	var past fuseboxadmin.History
	serve(&h, "GET", "/api/history", "", &past)
	for _, e := range past.Events {
		fmt.Println(e.Event, string(e.Data))
	}
	// Output: reload {"changed":2}
}

// A program's own endpoint, for whom the same holds as for a change of a breaker.
func ExampleHandler_Guard() {
	h := &fuseboxadmin.Handler{Token: "secret", Logger: quiet(), Audit: func(r fuseboxadmin.AuditRecord) {
		fmt.Println(r.By, r.Action, r.Reason, r.Status)
	}}
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("POST /-/reload", h.Guard("reload", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"changed":2}`)
	})))
	var changed map[string]int
	serve(mux, "POST", "/-/reload", `{"by":"kim","reason":"new limits"}`, &changed)
	fmt.Println(changed)
	// Output:
	// kim reload new limits 200
	// map[changed:2]
}

// So there are samples also of when nobody looked.
func ExampleHandler_Sample() {
	var h fuseboxadmin.Handler
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				h.Sample()
			case <-ctx.Done():
				return
			}
		}
	}()
	// Output:
}

func ExampleHistory() {
	var h fuseboxadmin.Handler
	b := fusebox.New("payments", fusebox.Config{})
	h.Add(b)
	b.Reset(fusebox.Note{})
	var past fuseboxadmin.History
	serve(&h, "GET", "/api/history", "", &past)
	fmt.Println(len(past.Events), past.Events[0].Event, len(past.Samples))
	// Output: 1 transition 0
}

func ExampleEvent() {
	var h fuseboxadmin.Handler
	b := fusebox.New("payments", fusebox.Config{Consecutive: 1})
	h.Add(b)
	b.Do(context.Background(), down)
	var past fuseboxadmin.History
	serve(&h, "GET", "/api/history?since=2026-01-02T15:04:05Z", "", &past)
	for _, e := range past.Events {
		var t fuseboxadmin.Transition
		if err := json.Unmarshal(e.Data, &t); err == nil && e.Event == "transition" {
			fmt.Println(t.Name, t.To, t.Why)
		}
	}
	// Output: payments open 1 failure in a row >= 1
}

func ExampleSample() {
	s := fuseboxadmin.Sample{From: time.Unix(0, 0), At: time.Unix(10, 0), Calls: 500, Rejected: 20}
	span := s.At.Sub(s.From).Seconds()
	fmt.Println(float64(s.Calls)/span, "calls and", float64(s.Rejected)/span, "rejections a second")
	// Output: 50 calls and 2 rejections a second
}

func ExampleProbe() {
	var h fuseboxadmin.Handler
	b := fusebox.New("payments", fusebox.Config{})
	h.Add(b)
	b.Override(fusebox.ForceOpen, fusebox.Note{})
	b.Lift(fusebox.Note{})
	b.Do(context.Background(), down)
	var d fuseboxadmin.Detail
	serve(&h, "GET", "/api/breakers/payments", "", &d)
	for _, p := range d.Probes {
		fmt.Println(p.Result, p.Duration < fuseboxadmin.Duration(time.Minute))
	}
	// Output: failed true
}

func ExampleHandler_Close() {
	var h fuseboxadmin.Handler
	server := http.Server{Handler: &h}
	server.RegisterOnShutdown(h.Close)
	fmt.Println(server.Shutdown(context.Background()))
	// Output: <nil>
}

func ExampleOnUnixSocket() {
	h := &fuseboxadmin.Handler{Trusted: fuseboxadmin.OnUnixSocket, Logger: quiet()}
	h.Add(fusebox.New("payments", fusebox.Config{}))
	server := &http.Server{Handler: h} // to serve a listener of net.Listen("unix", path)

	var refused fuseboxadmin.APIError // this request comes from nowhere
	serve(server.Handler, "POST", "/api/breakers/payments/lift", "", &refused)
	fmt.Println(refused.Status)
	// Output: 403
}

func ExamplePath() {
	fmt.Println(fuseboxadmin.Path("payments"))
	fmt.Println(fuseboxadmin.Path("eu/payments"))
	fmt.Println(fuseboxadmin.Path(""))
	// Output:
	// api/breakers/payments
	// api/breakers/eu%2Fpayments
	// api/breakers/~
}

func ExampleAuditRecord() {
	h := fuseboxadmin.Handler{Token: "secret", Logger: quiet(), Audit: func(r fuseboxadmin.AuditRecord) {
		fmt.Println(r.By, r.Action, r.Name, r.Mode, r.TTL, r.Reason, r.Status)
	}}
	h.Add(fusebox.New("payments", fusebox.Config{}))
	var b fuseboxadmin.Breaker
	serve(&h, "POST", "/api/breakers/payments/override", `{"mode":"shadow","by":"kim","ttl":"1h","reason":"to look on"}`, &b)
	// Output: kim override payments shadow 1h0m0s to look on 200
}

func ExampleAPIError() {
	h := fuseboxadmin.Handler{Token: "secret", Logger: quiet()}
	h.Add(fusebox.New("payments", fusebox.Config{}))
	var e fuseboxadmin.APIError
	serve(&h, "POST", "/api/breakers/payments/override", `{"mode":"off","ttl":"15"}`, &e)
	fmt.Println(e.Status, e.Field, e.Value)
	fmt.Println(e.Rule)
	// Output:
	// 400 ttl 15
	// must be a Go duration of at least 1s, such as "15m"; leave it out to hold until lifted
}

func ExampleList() {
	var h fuseboxadmin.Handler
	h.Add(fusebox.New("good", fusebox.Config{}))
	bad := fusebox.New("bad", fusebox.Config{Consecutive: 1})
	h.Add(bad)
	bad.Do(context.Background(), down)

	var list fuseboxadmin.List
	serve(&h, "GET", "/api/breakers", "", &list)
	for _, b := range list.Breakers {
		fmt.Println(b.Name, b.State)
	}
	serve(&h, "GET", "/api/breakers?state=open", "", &list)
	fmt.Println(len(list.Breakers))
	// Output:
	// bad open
	// good closed
	// 1
}

func ExampleBreaker() {
	var h fuseboxadmin.Handler
	b := fusebox.New("payments", fusebox.Config{})
	h.Add(b)
	b.Do(context.Background(), down)

	var list fuseboxadmin.List
	serve(&h, "GET", "/api/breakers?name=pay", "", &list)
	for _, b := range list.Breakers {
		fmt.Println(b.Name, b.State, b.Counts.Calls, b.FailureRate, b.Path)
	}
	// Output: payments closed 1 1 api/breakers/payments
}

func ExampleTotals() {
	var h fuseboxadmin.Handler
	b := fusebox.New("payments", fusebox.Config{})
	h.Add(b)
	b.Do(context.Background(), down)

	var d fuseboxadmin.Detail
	serve(&h, "GET", "/api/breakers/payments", "", &d)
	fmt.Println(d.Totals.Successes, d.Totals.Failures, d.Totals.Open)
	// Output: 0 1 0s
}

func ExampleTransition() {
	var h fuseboxadmin.Handler
	b := fusebox.New("payments", fusebox.Config{Consecutive: 1})
	h.Add(b)
	b.Do(context.Background(), down)

	var d fuseboxadmin.Detail
	serve(&h, "GET", "/api/breakers/payments", "", &d)
	for _, t := range d.History {
		fmt.Println(t.From, t.To, t.Why, "-", t.LastError)
	}
	// Output: closed open 1 failure in a row >= 1 - connection refused
}

func ExampleDetail() {
	var h fuseboxadmin.Handler
	h.Add(fusebox.New("payments", fusebox.Config{OpenFor: 2 * time.Second}))
	var d fuseboxadmin.Detail
	serve(&h, "GET", "/api/breakers/payments", "", &d)
	fmt.Println(d.Config.OpenFor, d.Judged, len(d.Rules), len(d.History))
	// Output: 2s true 2 0
}

func ExampleRule() {
	var h fuseboxadmin.Handler
	b := fusebox.New("payments", fusebox.Config{})
	h.Add(b)
	b.Do(context.Background(), down)

	var d fuseboxadmin.Detail
	serve(&h, "GET", "/api/breakers/payments", "", &d)
	for _, r := range d.Rules {
		fmt.Println(r.Cause, r.Value, "of", r.Threshold, "enough:", r.Enough, "trips after", r.CallsToTrip)
	}
	// Output:
	// failure-rate 1 of 0.5 enough: false trips after 19
	// consecutive 1 of 20 enough: true trips after 19
}

func ExampleSettings() {
	var h fuseboxadmin.Handler
	h.Add(fusebox.New("payments", fusebox.Config{Window: time.Minute}))
	var d fuseboxadmin.Detail
	serve(&h, "GET", "/api/breakers/payments", "", &d)
	fmt.Println(d.Config.Window, d.Config.SlowAfter == nil, *d.Config.FailureRate)
	// Output: 1m0s true 0.5
}

func ExampleDuration() {
	text, err := json.Marshal(fuseboxadmin.Duration(90 * time.Second))
	fmt.Println(string(text), err)
	// Output: "1m30s" <nil>
}

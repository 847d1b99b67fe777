package fuseboxhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

// request asks a handler for a path, as a server would.
func request(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil))
	return w
}

// One Handler around a mux guards all its routes, each with a breaker.
func ExampleHandler() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "user %s", r.PathValue("id"))
	})
	mux.HandleFunc("GET /reports/{year}", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the database is down", http.StatusInternalServerError)
	})
	handler := &fuseboxhttp.Handler{Handler: mux}

	for range 20 {
		request(handler, "/reports/2030")
	}
	answer := request(handler, "/reports/2031")
	fmt.Println(answer.Code, "from", answer.Header().Get("Fusebox-Breaker"))
	fmt.Println("it says when to come back:", answer.Header().Get("Retry-After") != "")
	fmt.Println(request(handler, "/users/42").Body)
	// Output:
	// 503 from GET /reports/{year}
	// it says when to come back: true
	// user 42
}

// As a middleware, in a router's chain: its Handlers share a registry.
func ExampleHandler_middleware() {
	registry := &fusebox.Registry{Config: func(string) fusebox.Config {
		return fusebox.Config{Consecutive: 5}
	}}
	guard := func(next http.Handler) http.Handler {
		return &fuseboxhttp.Handler{Handler: next, Registry: registry}
	}

	mux := http.NewServeMux()
	mux.Handle("/search", guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGatewayTimeout)
	})))
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {}) // unguarded

	for range 5 {
		request(mux, "/search")
	}
	fmt.Println(registry.Get("/search").State(), request(mux, "/healthz").Code)
	// Output: open 200
}

// A key of one's own, another reading of a status, another answer.
func ExampleHandler_settings() {
	handler := &fuseboxhttp.Handler{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
		}),
		Key: func(r *http.Request) string {
			if r.URL.Path == "/healthz" {
				return "" // never rejected
			}
			return "orders"
		},
		Classify: func(status int) fusebox.Outcome {
			if status == http.StatusConflict || status >= 500 {
				return fusebox.Failure
			}
			return fusebox.Success
		},
		Rejected: func(w http.ResponseWriter, _ *http.Request, err *fusebox.OpenError) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"title": "%s is having a rest"}`, err.Name())
		},
	}
	for range 20 {
		request(handler, "/orders/7")
	}
	fmt.Println(request(handler, "/orders/8").Body)
	fmt.Println(request(handler, "/healthz").Code)
	// Output:
	// {"title": "orders is having a rest"}
	// 409
}

func ExampleHandler_ServeHTTP() {
	var handler http.Handler = &fuseboxhttp.Handler{
		Handler: http.NotFoundHandler(), // 404 is an answer: nothing trips
	}
	for range 1000 {
		request(handler, "/")
	}
	fmt.Println(request(handler, "/").Code)
	// Output: 404
}

func ExampleHandler_Breakers() {
	mux := http.NewServeMux()
	mux.HandleFunc("/a", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/b", func(http.ResponseWriter, *http.Request) {})
	handler := &fuseboxhttp.Handler{Handler: mux}
	for _, path := range []string{"/a", "/b", "/a", "/favicon.ico"} {
		request(handler, path)
	}
	for key, breaker := range handler.Breakers().All() {
		fmt.Println(key, breaker.State(), breaker.Snapshot().Totals.Successes)
	}
	// Output:
	// /a closed 2
	// /b closed 1
}

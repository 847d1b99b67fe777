package main

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

const want = `
  /reports/2030: 500 Internal Server Error
  /reports/2031: 500 Internal Server Error
  /reports/2032: 500 Internal Server Error
  /reports/2033: 503 Service Unavailable
    Fusebox-Breaker: GET /reports/{year}
    Retry-After: 1
  /users/42: 200 OK
  fusebox_calls_total{name="GET /reports/{year}",outcome="failure"} 3
  fusebox_rejected_total{name="GET /reports/{year}",reason="open"} 1
  fusebox_state{name="GET /reports/{year}",state="open"} 1
  The database is back: the breaker is closed.
`

func TestTheExample(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if want := "With the standard mux:" + want + "\nWith chi:" + want; out.String() != want {
		t.Errorf("output:\n%s\nwant:\n%s", out.String(), want)
	}
}

// Whoever sends requests must not be able to make breakers.
func TestBreakersAreThoseOfTheRoutes(t *testing.T) {
	for name, guarded := range map[string]func(_ *fusebox.Registry, report, user http.HandlerFunc) http.Handler{
		"Standard": Standard, "Chi": Chi,
	} {
		var breakers fusebox.Registry
		nop := func(http.ResponseWriter, *http.Request) {}
		handler := guarded(&breakers, nop, nop)
		for _, request := range []string{
			"GET /reports/2030", "GET /reports/2031", "GET /users/1", "GET /users/2",
			"POST /users/1", "BREW /users/1", "GET /favicon.ico", "GET /",
		} {
			method, path, _ := strings.Cut(request, " ")
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, path, nil))
		}
		var keys []string
		for key := range breakers.All() {
			keys = append(keys, key)
		}
		if want := []string{"GET /reports/{year}", "GET /users/{id}"}; !slices.Equal(keys, want) {
			t.Errorf("%s: breakers %q, want %q", name, keys, want)
		}
	}
}

// Where Chi puts its middleware, and why it has a Key.
func TestWhatChiKnows(t *testing.T) {
	keys := func(middleware func(chi.Router, func(http.Handler) http.Handler) chi.Router) (keys []string) {
		var breakers fusebox.Registry
		guard := func(next http.Handler) http.Handler {
			return &fuseboxhttp.Handler{Handler: next, Registry: &breakers}
		}
		router := chi.NewRouter()
		middleware(router, guard).Get("/users/{id}", func(http.ResponseWriter, *http.Request) {})
		router.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/users/1", nil))
		for key := range breakers.All() {
			keys = append(keys, key)
		}
		return keys
	}
	with := keys(func(r chi.Router, guard func(http.Handler) http.Handler) chi.Router { return r.With(guard) })
	if !slices.Equal(with, []string{"/users/{id}"}) {
		t.Errorf("With: %q: the comment of Chi is wrong", with)
	}
	use := keys(func(r chi.Router, guard func(http.Handler) http.Handler) chi.Router {
		r.Use(guard)
		return r
	})
	if !slices.Equal(use, []string{"/"}) { // what a Handler takes if there is no pattern
		t.Errorf("Use: %q: the comment of Chi is wrong", use)
	}
}

package main

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

// Standard guards all the routes of a mux: the Handler before it knows the
// pattern that the mux will choose.
func Standard(breakers *fusebox.Registry, report, user http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /reports/{year}", report)
	mux.Handle("GET /users/{id}", user)
	return &fuseboxhttp.Handler{Handler: mux, Registry: breakers}
}

// Chi guards routes by a middleware given to With. That runs when the route has
// been found; one given to Use of the router runs before, and knows no pattern.
// Without Key a breaker would be that of a pattern, whatever the method.
func Chi(breakers *fusebox.Registry, report, user http.HandlerFunc) http.Handler {
	guard := func(next http.Handler) http.Handler {
		return &fuseboxhttp.Handler{Handler: next, Registry: breakers, Key: func(r *http.Request) string {
			return r.Method + " " + chi.RouteContext(r.Context()).RoutePattern()
		}}
	}
	router := chi.NewRouter()
	router.With(guard).Get("/reports/{year}", report)
	router.With(guard).Get("/users/{id}", user)
	return router
}

package fuseboxadmin

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// route is an operation of the API. What serve returns is answered as an error.
type route struct {
	method, path string
	serve        func(h *Handler, w http.ResponseWriter, r *http.Request, name string) error
}

var routes = []route{
	{http.MethodGet, "/api/breakers", (*Handler).serveList},
	{http.MethodGet, "/api/breakers/{name}", (*Handler).serveDetail},
	{http.MethodPost, "/api/breakers/{name}/override", (*Handler).serveOverride},
	{http.MethodPost, "/api/breakers/{name}/lift", (*Handler).serveLift},
	{http.MethodPost, "/api/breakers/{name}/reset", (*Handler).serveReset},
	{http.MethodGet, "/api/events", (*Handler).serveEvents},
	{http.MethodGet, "/api/history", (*Handler).serveHistory},
	{http.MethodGet, "/api/openapi.json", (*Handler).serveOpenAPI},
}

// match reports whether an escaped path is that of the route, and which name
// stands in it. A ServeMux would send a path that it does not find clean
// elsewhere, without the prefix under which the handler is mounted.
func (rt *route) match(path string) (name string, ok bool) {
	before, after, named := strings.Cut(rt.path, "{name}")
	if !named {
		return "", path == rt.path
	}
	segment, found := strings.CutPrefix(path, before)
	segment, foundToo := strings.CutSuffix(segment, after)
	if !found || !foundToo || segment == "" || strings.Contains(segment, "/") {
		return "", false
	}
	name, err := url.PathUnescape(segment)
	return strings.TrimPrefix(name, "~"), err == nil
}

// Path returns the path of a breaker, relative to where the handler is mounted:
// "api/breakers/" and the name, escaped. An empty name, ".", "..", and one that
// begins with "~" have a "~" put before them, which is taken off again: a
// client would otherwise lose them.
func Path(name string) string {
	if name == "" || name == "." || name == ".." || strings.HasPrefix(name, "~") {
		name = "~" + name
	}
	return "api/breakers/" + url.PathEscape(name)
}

// ServeHTTP implements [http.Handler]. The paths begin with "/api/": to mount
// the handler elsewhere, use http.StripPrefix.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if err := h.serve(w, r); err != nil {
		fail(w, err)
	}
}

// secure sets the headers of every answer.
func secure(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	stranger := h.checkHost(r)
	var allowed []string
	path := r.URL.EscapedPath()
	for _, rt := range routes {
		name, ok := rt.match(path)
		if !ok {
			continue
		}
		if r.Method == rt.method && rt.method == http.MethodPost {
			return rt.serve(h, w, r, name) // which checks the host too, and leaves a record
		}
		if r.Method == rt.method || r.Method == http.MethodHead && rt.method == http.MethodGet {
			if stranger != nil {
				return stranger
			}
			return rt.serve(h, w, r, name)
		}
		allowed = append(allowed, rt.method)
		if rt.method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	if stranger != nil {
		return stranger
	}
	if allowed == nil {
		return refusal(http.StatusNotFound, "there is nothing at %q; api/breakers lists the breakers", r.URL.Path)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return refusal(http.StatusMethodNotAllowed, "the method %s is not allowed here, but %s", r.Method, strings.Join(allowed, ", "))
}

// openAPI describes the API.
//
//go:embed openapi.json
var openAPI string

func (h *Handler) serveOpenAPI(w http.ResponseWriter, r *http.Request, _ string) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return send(w, http.StatusOK, []byte(openAPI))
}

// APIError is the body of an answer that is not a success, and an error.
type APIError struct {
	Status  int    `json:"status"` // of the answer
	Message string `json:"error"`  // says what is wrong, and what to do
	// Field, Value and Rule tell of an invalid field of a body, or parameter
	// of a query: its name, what it was, cut to 100 bytes, and what it must be.
	// Empty where it is something else that is wrong.
	Field string `json:"field,omitempty"`
	Value string `json:"value,omitempty"`
	Rule  string `json:"rule,omitempty"`
}

// Error returns "fuseboxadmin: " and the message.
func (e *APIError) Error() string { return "fuseboxadmin: " + e.Message }

func refusal(status int, format string, args ...any) *APIError {
	return &APIError{Status: status, Message: fmt.Sprintf(format, args...)}
}

// invalid is the error of a field or parameter.
func invalid(field, value, rule string) *APIError {
	field, value = shortened(field), shortened(value)
	return &APIError{
		Status: http.StatusBadRequest, Field: field, Value: value, Rule: rule,
		Message: fmt.Sprintf("%s is %q, %s", field, value, rule),
	}
}

// shortened cuts a text that a stranger has chosen: it goes into logs and answers.
func shortened(text string) string {
	const enough = 100
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough-len("…")], "") + "…"
	}
	return text
}

// answer writes a success.
func answer(w http.ResponseWriter, body any) error { return write(w, http.StatusOK, body) }

func fail(w http.ResponseWriter, err error) {
	e := new(APIError)
	if !errors.As(err, &e) {
		e = refusal(http.StatusInternalServerError, "%v", err)
	}
	if e.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="fusebox"`)
	}
	_ = write(w, e.Status, e) // three texts and a number: they can be written
}

// write answers with a body that is whole before the first byte leaves. A
// client that has gone is nobody's error.
func write(w http.ResponseWriter, status int, body any) error {
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(body); err != nil {
		return err
	}
	return send(w, status, text.Bytes())
}

func send(w http.ResponseWriter, status int, text []byte) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	out, due := http.NewResponseController(w), time.Now().Add(patience)
	_ = out.SetWriteDeadline(due)
	w.WriteHeader(status)
	for rest := text; len(rest) > 0; due = due.Add(time.Second) {
		// Who reads nothing holds no answer for ever, but a long one takes its time.
		_ = out.SetWriteDeadline(due)
		part := rest[:min(len(rest), slowest)]
		if _, err := w.Write(part); err != nil {
			break
		}
		rest = rest[len(part):]
	}
	_ = out.Flush()
	_ = out.SetWriteDeadline(time.Time{})
	return nil
}

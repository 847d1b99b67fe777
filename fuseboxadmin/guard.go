package fuseboxadmin

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// OnUnixSocket reports whether a request came over a unix socket, where the
// permissions of a file say who may connect. It is a function for
// [Handler].Trusted. It asks http.Server, which tells each request the address
// it came in on. A request that a browser has sent, or a proxy passed on, is none:
// its headers say so, and who sent it is then not who may open the file.
func OnUnixSocket(r *http.Request) bool {
	for _, header := range []string{"Origin", "Sec-Fetch-Site", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "Via"} {
		if len(r.Header.Values(header)) > 0 {
			return false
		}
	}
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && a.Network() == "unix"
}

// checkHost refuses a request that is addressed to a name that this handler
// does not know: a page may have made its own name point here, and then has the
// same origin. An address cannot be made to point elsewhere, and no page reaches
// a unix socket.
func (h *Handler) checkHost(r *http.Request) *APIError {
	host := hostname(r.Host)
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || OnUnixSocket(r) {
		return nil
	}
	if host != "" && slices.ContainsFunc(h.Hosts, func(known string) bool { return hostname(known) == host }) {
		return nil
	}
	return refusal(http.StatusMisdirectedRequest, "the host %q is not one that is served here: use an IP address or localhost, or %s",
		host, cmp.Or(h.HostHelp, "add the name to Handler.Hosts"))
}

// hostname returns the name in a Host header, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// checkOrigin refuses what a browser does for a page of another origin. It asks
// as if for a write: a stream is one of few, and not for any page to take.
func (h *Handler) checkOrigin(r *http.Request) *APIError {
	err := h.cross.Check(&http.Request{Method: http.MethodPost, URL: r.URL, Host: r.Host, Header: r.Header})
	if err != nil {
		return refusal(http.StatusForbidden, "refused: %v", err)
	}
	return nil
}

// authorize decides whether a request may write.
func (h *Handler) authorize(r *http.Request) *APIError {
	if h.Trusted != nil && h.Trusted(r) {
		return nil
	}
	token := h.Token
	if h.TokenFunc != nil {
		token = h.TokenFunc()
	}
	if token = strings.TrimSpace(token); token == "" {
		return refusal(http.StatusForbidden, "this is for reading only, as no token has been set: %s",
			cmp.Or(h.TokenHelp, "set Handler.Token, or come over a unix socket that Handler.Trusted vouches for"))
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Hashes have one length, and tell nothing of how much of a guess is right.
	want, have := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(given)))
	if subtle.ConstantTimeCompare(want[:], have[:]) == 1 && strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	if given == "" {
		return refusal(http.StatusUnauthorized, `a write needs the header "Authorization: Bearer TOKEN"`)
	}
	return refusal(http.StatusUnauthorized, "the token is not the right one")
}

// mayWrite checks all that a request to write has to fulfil. Of who does not, the
// record says where from, since it cannot say who.
func (h *Handler) mayWrite(r *http.Request, record *AuditRecord) *APIError {
	for _, check := range []func(*http.Request) *APIError{h.checkHost, h.checkOrigin, h.authorize} {
		if err := check(r); err != nil {
			record.By = stranger(r)
			return err
		}
	}
	return nil
}

// stranger is who could not be authenticated, in a record.
func stranger(r *http.Request) string { return "unauthenticated from " + r.RemoteAddr }

// Guard returns a handler of the program's own that is protected as those of the
// API are. A GET or HEAD has to be addressed to a known host. Every other request is
// a write: it needs the token, may not come from a page of another origin, and
// leaves an [AuditRecord] with the action and the status of its answer, once next has
// returned; below 400 it is an event too. Its body may be that of a lift, {"reason", "by"}, for the
// record; next finds it empty. Answers have the security headers of the API,
// which next may replace.
//
// Guard panics if action is empty or one of the API's, or next is nil.
func (h *Handler) Guard(action string, next http.Handler) http.Handler {
	switch action {
	case "", actionOverride, actionLift, actionReset:
		panic(fmt.Sprintf("fuseboxadmin: Guard: action is %q, must be one of the program's own", action))
	}
	if next == nil {
		panic("fuseboxadmin: Guard: next is nil")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			if err := h.checkHost(r); err != nil {
				fail(w, err)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		record := newAudit(r, action, "")
		err := h.mayWrite(r, &record)
		if err == nil {
			_, err = readChange(w, r, &record)
		}
		if err != nil {
			h.audit(r, record, err)
			fail(w, err)
			return
		}
		r.Body, r.ContentLength = http.NoBody, 0
		out, done := &statusWriter{ResponseWriter: w}, false
		defer func() { // also where next panics
			record.Status = cmp.Or(out.status, http.StatusOK)
			if !done {
				record.Status = http.StatusInternalServerError
			}
			if record.Status >= http.StatusBadRequest {
				record.Error = cmp.Or(http.StatusText(record.Status), "failed")
			}
			h.audit(r, record, nil)
		}()
		next.ServeHTTP(out, r)
		done = true
	})
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int // 0: none yet
}

// WriteHeader implements [http.ResponseWriter].
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// What connections to an endpoint are bounded by.
const (
	dialTimeout     = 10 * time.Second
	idleTimeout     = 90 * time.Second
	idlePerEndpoint = 1024
	maxHeader       = 1 << 20 // of an answer
	continueTimeout = time.Second
	pingAfter       = 15 * time.Second // of silence, over HTTP/2
)

// endpoint is a server of an upstream under one configuration.
type endpoint struct {
	*server
	guard *guard // with scope endpoint; else nil
}

// server is where an endpoint is, and the connections to it. It survives reloads.
type server struct {
	name      string   // host and path
	base      *url.URL // with the scheme of the transport, and a path without a slash at its end
	transport *http.Transport
	gone      atomic.Bool // nothing begins with it any more
}

// leave closes the connections to a server that is gone. Those of requests in flight
// close with them: see used.
func (s *server) leave() {
	s.gone.Store(true)
	s.transport.CloseIdleConnections()
}

// used is for the end of a request. One that began before the server was gone may
// have opened its pool again.
func (s *server) used() {
	if s.gone.Load() {
		s.transport.CloseIdleConnections()
	}
}

// newServer dials nothing yet.
func newServer(e config.Endpoint, roots *x509.CertPool) *server {
	base := e.URL()
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = strings.TrimRight(base.RawPath, "/")
	protocols := new(http.Protocols)
	if base.Scheme == "h2c" {
		base.Scheme = "http"
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
	}
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		DisableCompression:     true, // what the server sends is what the client gets
		MaxIdleConnsPerHost:    idlePerEndpoint,
		IdleConnTimeout:        idleTimeout,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
	return &server{name: base.Host + base.EscapedPath(), base: base, transport: t}
}

// to returns a shallow copy of a request that goes to s, with another context.
func (s *server) to(req *http.Request, ctx context.Context) *http.Request {
	out := req.WithContext(ctx)
	u := *req.URL
	if s.base.Path != "" {
		u.Path, u.RawPath = s.base.Path+u.Path, s.base.EscapedPath()+u.EscapedPath()
	}
	u.Scheme, u.Host = s.base.Scheme, s.base.Host
	out.URL, out.Host = &u, ""
	return out
}

// skips reports whether the breaker of e is known to refuse: e is passed over, and
// that counts as no rejection. It may be a moment behind; the breaker itself decides.
func (e *endpoint) skips(now time.Time) bool {
	v := e.guard.last.Load()
	return v != nil && v.To == fusebox.Open && (v.Mode == fusebox.Enforce || v.Mode == fusebox.ForceOpen) &&
		(v.Until.IsZero() || now.Before(v.Until))
}

// held reports whether e is kept out by hand.
func (e *endpoint) held() bool {
	v := e.guard.last.Load()
	return v != nil && v.Mode == fusebox.ForceOpen && e.guard.State() == fusebox.Open
}

// badness is how e does: its failure rate where it is used although it is open and,
// as long as it was not, that at which it opened.
func (e *endpoint) badness() float64 {
	if c := e.guard.meter.Snapshot().Counts; c.Calls > 0 {
		return c.FailureRate()
	}
	if v := e.guard.last.Load(); v != nil && v.To == fusebox.Open {
		return v.Counts.FailureRate()
	}
	return 0
}

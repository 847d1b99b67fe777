package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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
	dialsPerTry     = 8 // over HTTP/2
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
	http2     bool     // it may be spoken
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

// mayHTTP2 reports whether HTTP/2 may be spoken with an endpoint.
func mayHTTP2(e config.Endpoint) bool { return e.URL().Scheme != "http" }

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
		DialContext:            dial(&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}),
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
	return &server{name: base.Host + base.EscapedPath(), http2: mayHTTP2(e), base: base, transport: t}
}

// dials is the context of a try over HTTP/2, and how many connections were made for it.
// Where a server leaves a connection, the transport makes the request again on a new
// one, at once, as often as that happens: without a bound, thousands of times a second.
type dials struct {
	context.Context
	made atomic.Int32
}

type dialsKey struct{}

// Value returns the dials themselves for their key.
func (d *dials) Value(key any) any {
	if _, ok := key.(dialsKey); ok {
		return d
	}
	return d.Context.Value(key)
}

var errLeft = errors.New("fusebox: the server leaves every connection at once")

func dial(by *net.Dialer) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if d, ok := ctx.Value(dialsKey{}).(*dials); ok && d.made.Add(1) > dialsPerTry {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errLeft} // it has processed nothing
		}
		return by.DialContext(ctx, network, address)
	}
}

// to returns a shallow copy of a request that goes to s, with another context.
func (s *server) to(req *http.Request, ctx context.Context) *http.Request {
	if s.http2 {
		ctx = &dials{Context: ctx}
	}
	out := req.WithContext(ctx)
	u := *req.URL
	if s.base.Path != "" {
		u.Path, u.RawPath = s.base.Path+u.Path, s.base.EscapedPath()+u.EscapedPath()
	}
	u.Scheme, u.Host = s.base.Scheme, s.base.Host
	out.URL, out.Host = &u, ""
	return out
}

// roundTrip makes a request. An answer that could not be given to the client is none.
func (s *server) roundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	switch status := resp.StatusCode; {
	case status < 100:
		err = fmt.Errorf("fusebox: status %03d, which does not exist", status)
	case status == http.StatusSwitchingProtocols && !strings.EqualFold(upgrade(req.Header), upgrade(resp.Header)):
		err = errors.New("fusebox: switched to a protocol that was not asked for")
	default:
		return resp, nil
	}
	drop(resp)
	return nil, err
}

// upgrade returns to what protocol one side wants to switch; empty: to none.
func upgrade(h http.Header) string {
	for _, line := range h["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(option), "Upgrade") {
				return h.Get("Upgrade")
			}
		}
	}
	return ""
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

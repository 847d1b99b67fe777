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
	"github.com/fusebox-go/fusebox/retry"
)

// What connections to an endpoint are bounded by.
const (
	dialTimeout     = 10 * time.Second
	dialsPerTry     = 8 // over HTTP/2, while there is no answer to anybody
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
	upgrades  *http.Transport // for what asks for another protocol, which HTTP/2 does not have; nil: transport
	gone      atomic.Bool     // nothing begins with it any more
	answers   atomic.Uint64   // so far, if http2
}

// leave closes the connections to a server that is gone. Those of requests in flight
// close with them: see used.
func (s *server) leave() {
	s.gone.Store(true)
	s.closeIdle()
}

func (s *server) closeIdle() {
	s.transport.CloseIdleConnections()
	if s.upgrades != nil {
		s.upgrades.CloseIdleConnections()
	}
}

// used is for the end of a request. One that began before the server was gone may
// have opened its pool again.
func (s *server) used() {
	if s.gone.Load() {
		s.closeIdle()
	}
}

// mayHTTP2 reports whether HTTP/2 may be spoken with an endpoint.
func mayHTTP2(e config.Endpoint) bool { return e.URL().Scheme != "http" }

// newServer dials nothing yet.
func newServer(e config.Endpoint, roots *x509.CertPool) *server {
	base := e.URL()
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = strings.TrimRight(base.RawPath, "/")
	s := &server{name: base.Host + base.EscapedPath(), http2: mayHTTP2(e), base: base}
	both, one, two := new(http.Protocols), new(http.Protocols), new(http.Protocols)
	both.SetHTTP1(true)
	both.SetHTTP2(true)
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true)
	switch base.Scheme {
	case "h2c":
		base.Scheme = "http"
		s.transport = newTransport(two, roots)
	case "https":
		s.transport, s.upgrades = newTransport(both, roots), newTransport(one, roots)
	default:
		s.transport = newTransport(one, roots)
	}
	return s
}

func newTransport(protocols *http.Protocols, roots *x509.CertPool) *http.Transport {
	return &http.Transport{
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
}

// dials is the context of a try over HTTP/2, and how many connections were made for it.
// Where a server leaves a connection, the transport makes the request again on a new
// one, at once, as often as that happens: without a bound, thousands of times a second.
// The same happens where others have taken all streams of a new connection: then the
// server is busy, and answers.
type dials struct {
	context.Context
	server  *server
	made    atomic.Int32
	answers atomic.Uint64 // of the server, when made was last looked at
}

// more reports whether there may be another.
func (d *dials) more() bool {
	if n := d.server.answers.Load(); d.answers.Swap(n) != n {
		d.made.Store(0)
	}
	return d.made.Add(1) <= dialsPerTry
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
		if d, ok := ctx.Value(dialsKey{}).(*dials); ok && !d.more() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: errLeft} // it has processed nothing
		}
		return by.DialContext(ctx, network, address)
	}
}

// to returns a shallow copy of a request that goes to s, with another context.
func (s *server) to(req *http.Request, ctx context.Context) *http.Request {
	if s.http2 {
		d := &dials{Context: ctx, server: s}
		d.answers.Store(s.answers.Load())
		ctx = d
	}
	out := req.WithContext(ctx)
	u := *req.URL
	if s.base.Path != "" {
		u.Path, u.RawPath = s.base.Path+u.Path, s.base.EscapedPath()+u.EscapedPath()
	}
	u.Scheme, u.Host = s.base.Scheme, s.base.Host
	out.URL, out.Host = &u, ""
	if s.http2 && s.upgrades == nil && upgrade(req.Header) != "" { // a server may pay no heed to it (RFC 9110, 7.8)
		out.Header = req.Header.Clone()
		out.Header.Del("Connection")
		out.Header.Del("Upgrade")
	}
	return out
}

// errHead is why a request cannot be made of which the server has said, over HTTP/2, that
// it is too large. Over HTTP/1 the server would answer 431.
var errHead = errors.New("fusebox: the head of the request is larger than the server takes")

// roundTrip makes a request. An answer that could not be given to the client is none.
func (s *server) roundTrip(req *http.Request) (*http.Response, error) {
	t := s.transport
	if s.upgrades != nil && upgrade(req.Header) != "" {
		t = s.upgrades
	}
	resp, err := t.RoundTrip(req)
	if err != nil && strings.Contains(err.Error(), "request header list larger than peer's") { // net/http has no name for it
		return nil, retry.Permanent(fusebox.Ignore(errHead))
	}
	if err != nil {
		return nil, err
	}
	if s.http2 {
		s.answers.Add(1)
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

package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/accesslog"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

// statusClientLeft is what the access log says where there was nobody to answer.
const statusClientLeft = 499

// call is the request of a client.
type call struct {
	in       *http.Request
	upstream *upstream // of the route
	stage    *stage    // what it holds of the upstream that answers; nil: nothing
	first    stage     // of the route's upstream
	tape     *tape     // of its body; nil: it has none
	out      http.ResponseWriter
	answered bool // by an upstream, which may still read the body

	reverse httputil.ReverseProxy
	values  [2]string // of headers, that they need no memory of their own
	log     *entry    // nil: the access log is off
}

// serve passes the request on, and the answer back.
func (c *call) serve(p *Proxy, w http.ResponseWriter) {
	c.out = w
	c.reverse = httputil.ReverseProxy{
		Rewrite:      c.rewrite,
		Transport:    c,
		BufferPool:   &p.buffers,
		ErrorHandler: c.fail,
		ErrorLog:     p.errorLog,
	}
	c.reverse.ServeHTTP(w, c.in)
}

// interrupt ends the reading of the client's body, and with it, over HTTP/1, the
// use of the connection.
func (c *call) interrupt() error {
	return http.NewResponseController(c.out).SetReadDeadline(time.Unix(1, 0))
}

// linger is how long the server reads, over HTTP/1, what is left of a request's body
// when there is an answer: it does not send the one before the other is over.
const linger = 2 * time.Second

// end lets go of what lasts as long as the answer. A client that has stopped sending
// gets it all the same, and holds nothing.
func (c *call) end() {
	if c.unread() && (c.tape == nil || !c.tape.stop()) && c.in.ProtoMajor == 1 {
		_ = http.NewResponseController(c.out).SetReadDeadline(time.Now().Add(linger))
	}
	if c.stage != nil {
		c.stage.end()
	}
}

// unread reports whether there may be more to come of the request's body.
func (c *call) unread() bool {
	return c.in.ContentLength != 0 && (c.tape == nil || !c.tape.over())
}

// early is for an answer that begins before the request's body is over. Over HTTP/1
// the server would take the rest away from the upstream, unless it is told not to. It
// then has no use for the connection afterwards.
func (c *call) early() {
	if c.in.ProtoMajor == 1 && http.NewResponseController(c.out).EnableFullDuplex() == nil {
		c.out.Header().Set("Connection", "close")
	}
}

// rewrite turns the client's request into that for an upstream.
func (c *call) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	pr.SetXForwarded()
	c.values = [...]string{forwarded(in), via(in)}
	out.Header["Forwarded"] = c.values[:1:1]
	if before := out.Header["Via"]; before != nil {
		out.Header["Via"] = append(before, c.values[1])
	} else {
		out.Header["Via"] = c.values[1:]
	}
	out.URL.RawQuery = in.URL.RawQuery // as it stands: nothing here reads it
	out.Trailer = in.Trailer           // is filled in when the body has been read
	out.Header.Del("Http2-Settings")
	if strings.Contains(strings.ToLower(out.Header.Get("Upgrade")), "h2c") { // what is asked there passes by routes and breakers
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
	if out.Body != nil {
		record := c.upstream.record
		if in.ContentLength > record {
			record = 0 // it is lost with the first byte that is read
		}
		c.tape = newTape(out.Body, record, c.interrupt)
		out.Body, _ = c.tape.play() // its beginning is there
		out.GetBody = c.tape.play
	}
}

// forwarded returns the header Forwarded (RFC 7239) for what the proxy has seen.
func forwarded(r *http.Request) string {
	client := "unknown"
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil && host != "" {
		client = host
		if strings.Contains(host, ":") {
			client = `"[` + host + `]"`
		}
	}
	proto := "http"
	if r.TLS != nil {
		proto = "https"
	}
	if r.Host == "" || strings.ContainsAny(r.Host, `"\`) { // what no host has
		return "for=" + client + ";proto=" + proto
	}
	return "for=" + client + `;host="` + r.Host + `";proto=` + proto
}

// via returns the proxy's entry in the header Via.
func via(r *http.Request) string {
	switch {
	case r.ProtoMajor == 2:
		return "2.0" + viaName
	case r.ProtoMinor == 0:
		return "1.0" + viaName
	default:
		return "1.1" + viaName
	}
}

const viaName = " fusebox"

// maxHops is how many proxies of this kind a request may have passed. One whose upstream
// is itself would else pass it on until descriptors or the time run out.
const maxHops = 10

// hops returns how many there were.
func hops(h http.Header) (n int) {
	for _, line := range h["Via"] {
		n += strings.Count(line, viaName)
	}
	return n
}

// RoundTrip implements [http.RoundTripper]: it is the transport of the reverse proxy.
func (c *call) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.upstream.answer(c, req)
	if c.tape != nil {
		c.tape.settle()
	}
	if c.answered && c.unread() && resp.StatusCode != http.StatusSwitchingProtocols {
		c.early()
	}
	if c.log != nil && err == nil {
		c.log.answered(resp)
	}
	return resp, err
}

// refused notes what was not to be an attempt.
func (c *call) refused(err error) {
	if c.log != nil {
		c.log.refused(err)
	}
}

// judged notes what came of the upstream of the route.
func (c *call) judged(outcome string) {
	if c.log != nil && c.log.record.Outcome == "" {
		c.log.record.Outcome = outcome
	}
}

// The outcomes of a request.
const (
	outcomeSuccess  = "success"
	outcomeFailure  = "failure"
	outcomeIgnored  = "ignored"
	outcomeRejected = "rejected"
)

// outcome says what an upstream made of a request.
func outcome(req *http.Request, judged fusebox.Outcome, err error) string {
	switch {
	case err == nil && judged == fusebox.Success:
		return outcomeSuccess
	case err == nil && judged == fusebox.Ignored:
		return outcomeIgnored
	case err == nil:
		return outcomeFailure
	case clientLeft(req), errors.Is(err, fuseboxhttp.ErrRequestBody), errors.Is(err, errHead):
		return outcomeIgnored
	}
	if _, rejected := fusebox.Rejected(err); rejected {
		return outcomeRejected
	}
	return outcomeFailure
}

// clientLeft reports whether the client of a request has gone away. Only the
// server ends the context of a client's request.
func clientLeft(req *http.Request) bool { return req.Context().Err() != nil }

// fail answers a request that nothing else answers.
func (c *call) fail(w http.ResponseWriter, req *http.Request, err error) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	name := c.upstream.name
	var timeout interface{ Timeout() bool }
	var late bool
	if errors.As(err, &timeout) {
		late = timeout.Timeout()
	}
	status, text := http.StatusBadGateway, name+" gave no answer"
	_, rejected := fusebox.Rejected(err)
	switch open := (*fusebox.OpenError)(nil); {
	case late && errors.Is(err, fuseboxhttp.ErrRequestBody): // first: interrupting the body ends the context too
		h.Set("Connection", "close")
		status, text = http.StatusRequestTimeout, "the request's body did not come in time"
	case clientLeft(c.in):
		status, text = statusClientLeft, "client closed request"
	case errors.Is(err, fuseboxhttp.ErrRequestBody):
		h.Set("Connection", "close")
		status, text = http.StatusBadRequest, "the request's body could not be read"
	case errors.Is(err, errHead):
		status, text = http.StatusRequestHeaderFieldsTooLarge, "the head of the request is too large for "+name
	case errors.As(err, &open), rejected:
		status, text = http.StatusServiceUnavailable, name+" is not available"
		explain(h, err, true)
	case late, errors.Is(err, context.DeadlineExceeded):
		status, text = http.StatusGatewayTimeout, name+" gave no answer in time"
	}
	w.WriteHeader(status)
	if req.Method != http.MethodHead {
		_, _ = io.WriteString(w, text+"\n")
	}
}

// explain says in the header of an answer that a breaker or another policy refused
// the request, if that is what err says and, if wanted, when to come back.
func explain(h http.Header, err error, wait bool) {
	after, rejected := fusebox.Rejected(err)
	var open *fusebox.OpenError
	if errors.As(err, &open) {
		after = max(after, open.RetryAfter())
		h.Set("Fusebox-Breaker", open.Name()+"; state="+open.State().String()+"; cause="+open.Cause().String())
	}
	if !wait || open == nil && !rejected || h["Retry-After"] != nil {
		return
	}
	seconds := max((after+time.Second-1)/time.Second, 1)
	h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
}

// entry is a line of the access log in the making.
type entry struct {
	http.ResponseWriter
	out    *accesslog.Log
	record accesslog.Record
	failed bool // the answer's body, or what comes after it
	over   bool // the answer has been given whole
}

func newEntry(out *accesslog.Log, w http.ResponseWriter, r *http.Request) *entry {
	return &entry{ResponseWriter: w, out: out, record: accesslog.Record{
		Start: accesslog.Time{Time: time.Now()}, Method: r.Method, Host: r.Host, Path: r.URL.EscapedPath(),
	}}
}

func (e *entry) admitted(to choice, probe bool) {
	r := &e.record
	r.Attempts++
	r.Endpoint, r.Breaker, r.Probe, r.State = to.endpoint.name, to.guard.Name(), probe, fusebox.Closed
	switch last := to.guard.last.Load(); {
	case probe:
		r.State = fusebox.HalfOpen
	case to.forced:
		r.State = fusebox.Open
	case last != nil && last.Mode == fusebox.Shadow: // its permits look alike
		r.State = to.state
	}
}

func (e *entry) refused(err error) {
	r := &e.record
	var open *fusebox.OpenError
	if r.Attempts == 0 && errors.As(err, &open) {
		r.Breaker, r.State = open.Name(), open.State()
	}
}

// answered watches the body of an answer.
func (e *entry) answered(resp *http.Response) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		e.record.Status = resp.StatusCode
	} else if resp.Body != nil {
		resp.Body = &watched{resp.Body, resp, e}
	}
}

// watched notes whether reading fails, or the end finds fault with the answer.
type watched struct {
	io.ReadCloser
	resp  *http.Response
	entry *entry
}

// Read implements io.Reader.
func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && (err != io.EOF || check(b.resp) != nil) {
		b.entry.failed = true
	}
	return n, err
}

// WriteHeader implements [http.ResponseWriter].
func (e *entry) WriteHeader(status int) {
	if status >= 200 && e.record.Status == 0 {
		e.record.Status = status
	}
	e.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (e *entry) Write(p []byte) (int, error) {
	if e.record.Status == 0 {
		e.record.Status = http.StatusOK
	}
	n, err := e.ResponseWriter.Write(p)
	e.record.Bytes += int64(n)
	return n, err
}

// Unwrap is for [http.ResponseController].
func (e *entry) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// write writes the line.
func (e *entry) write(r *http.Request) {
	rec := &e.record
	rec.End.Time = time.Now()
	rec.Duration = accesslog.Milliseconds(rec.End.Sub(rec.Start.Time))
	if rec.Outcome == outcomeSuccess {
		switch {
		case e.failed && !clientLeft(r):
			rec.Outcome = outcomeFailure
		case !e.over: // the answer broke off
			rec.Outcome = outcomeIgnored
		}
	}
	e.out.Write(rec)
}

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
	control  *http.ResponseController

	reverse httputil.ReverseProxy
	log     *entry // nil: the access log is off
}

// serve passes the request on, and the answer back.
func (c *call) serve(p *Proxy, w http.ResponseWriter) {
	c.control = http.NewResponseController(w)
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
func (c *call) interrupt() { _ = c.control.SetReadDeadline(time.Unix(1, 0)) }

// end lets go of what lasts as long as the answer.
func (c *call) end() {
	if c.tape != nil {
		c.tape.stop()
	}
	if c.stage != nil {
		c.stage.end()
	}
}

// rewrite turns the client's request into that for an upstream.
func (c *call) rewrite(pr *httputil.ProxyRequest) {
	in, out := pr.In, pr.Out
	pr.SetXForwarded()
	out.Header["Forwarded"] = []string{forwarded(in)}
	out.Header["Via"] = append(out.Header["Via"], via(in))
	out.URL.RawQuery = in.URL.RawQuery // as it stands: nothing here reads it
	out.Trailer = in.Trailer           // is filled in when the body has been read
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
		return "2.0 fusebox"
	case r.ProtoMinor == 0:
		return "1.0 fusebox"
	default:
		return "1.1 fusebox"
	}
}

// RoundTrip implements [http.RoundTripper]: it is the transport of the reverse proxy.
func (c *call) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.upstream.answer(c, req)
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
func outcome(req *http.Request, failed bool, err error) string {
	switch {
	case err == nil && !failed:
		return outcomeSuccess
	case err == nil:
		return outcomeFailure
	case clientLeft(req), errors.Is(err, fuseboxhttp.ErrRequestBody):
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
	failed bool // reading the answer's body failed
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
		r.State = last.To
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
		resp.Body = &watched{resp.Body, e}
	}
}

// watched notes whether reading fails.
type watched struct {
	io.ReadCloser
	entry *entry
}

// Read implements io.Reader.
func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
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
	if !e.over && rec.Outcome == outcomeSuccess { // the answer broke off
		rec.Outcome = outcomeIgnored
		if e.failed && !clientLeft(r) {
			rec.Outcome = outcomeFailure
		}
	}
	e.out.Write(rec)
}

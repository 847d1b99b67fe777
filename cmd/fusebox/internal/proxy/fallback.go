package proxy

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lastgood"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

// recordAnyway is how much of a request's body is kept where no retry says how much:
// for another upstream, and for a server that closes a connection over HTTP/2, and has
// not processed what it says it has not.
const recordAnyway = 64 << 10

// fallback answers in an upstream's place. What it has, it has in this order.
type fallback struct {
	lastGood *lastgood.Cache // nil: none
	maxAge   time.Duration
	other    *upstream // nil: none
	fixed    *fixed    // nil: none
	counts   *fallbackCounts
}

// fallbackCounts are totals of an upstream. They survive reloads.
type fallbackCounts struct{ answered, stale, failed atomic.Uint64 }

// fixed is an answer from the configuration.
type fixed struct {
	status int
	header http.Header
	body   []byte
}

// newFixed reads what a fallback answers; nil: nothing of its own.
func newFixed(f *config.Fallback) (*fixed, error) {
	if f.Status == 0 {
		return nil, nil
	}
	a := &fixed{status: f.Status, header: http.Header{}, body: []byte(f.Body)}
	if f.File != "" {
		body, err := os.ReadFile(f.File)
		if err != nil {
			return nil, err
		}
		a.body = body
		if kind := mime.TypeByExtension(filepath.Ext(f.File)); kind != "" {
			a.header.Set("Content-Type", kind)
		}
	}
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		a.body = nil
	} else {
		a.header.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	for name, value := range f.Headers {
		if http.CanonicalHeaderKey(name) != "Content-Length" {
			a.header.Set(name, value)
		}
	}
	return a, nil
}

// answer returns the answer to a request.
func (a *fixed) answer(req *http.Request) *http.Response {
	resp := &http.Response{
		StatusCode: a.status, ProtoMajor: 1, ProtoMinor: 1, Header: a.header.Clone(), Request: req,
		ContentLength: int64(len(a.body)), Body: http.NoBody,
	}
	if req.Method != http.MethodHead {
		resp.Body = io.NopCloser(bytes.NewReader(a.body))
	}
	return resp
}

// answer is an upstream with its fallback.
func (u *upstream) answer(c *call, req *http.Request) (*http.Response, error) {
	f := u.fallback
	key := ""
	if f != nil && f.lastGood != nil && lastgood.Asks(req) {
		key = lastgood.Key(c.in)
	}
	resp, err := u.send(c, req)
	judged := fusebox.Failure
	if err == nil && (resp.ContentLength != 0 || check(resp) == nil) {
		judged = u.classify(resp)
	}
	result := outcome(req, judged, err)
	c.judged(result)
	if c.log != nil {
		c.log.record.Upstream = u.name
	}
	switch {
	case f == nil, result == outcomeIgnored:
		return resp, err
	case result == outcomeSuccess:
		if key != "" {
			f.lastGood.Keep(key, req, resp)
		}
		return resp, nil
	}
	return f.answer(c, req, key, resp, err)
}

// answer replaces what an upstream has answered, or the error it has come to.
func (f *fallback) answer(c *call, req *http.Request, key string, resp *http.Response, err error) (*http.Response, error) {
	if key != "" {
		if kept := f.lastGood.Get(key, req, f.maxAge); kept != nil {
			f.counts.stale.Add(1)
			c.drop(resp)
			explain(kept.Header, err, false)
			c.fellBack("last-good")
			return kept, nil
		}
	}
	switch {
	case f.other != nil:
		again := f.again(c, req, resp, err)
		if again == nil {
			break
		}
		c.drop(resp)
		other, failed := f.other.answer(c, again)
		if failed != nil {
			f.counts.failed.Add(1)
			if err == nil {
				err = failed
			}
			return nil, err
		}
		f.counts.answered.Add(1)
		c.fellBack("upstream:" + f.other.name)
		return other, nil
	case f.fixed != nil:
		f.counts.answered.Add(1)
		c.drop(resp)
		fixed := f.fixed.answer(req)
		explain(fixed.Header, err, true)
		c.fellBack("fixed")
		return fixed, nil
	}
	f.counts.failed.Add(1)
	return resp, err
}

// fellBack notes what has answered: of several, the innermost.
func (c *call) fellBack(kind string) {
	if c.log != nil && c.log.record.Fallback == "" {
		c.log.record.Fallback = kind
	}
}

// again returns the request for another upstream; nil: it must not, or cannot, be
// made again.
func (f *fallback) again(c *call, req *http.Request, resp *http.Response, err error) *http.Request {
	if resp != nil {
		err = &fuseboxhttp.StatusError{StatusCode: resp.StatusCode}
	}
	if _, refused := fusebox.Rejected(err); !refused && !fuseboxhttp.Repeatable(req, err) {
		return nil
	}
	if c.tape == nil {
		return req // it has no body
	}
	body, err := c.tape.play()
	if err != nil {
		return nil
	}
	again := req.WithContext(req.Context()) // a shallow copy
	again.Body = body
	return again
}

// drop closes an answer that is not given.
func (c *call) drop(resp *http.Response) {
	drop(resp)
	c.answered = false
	c.stage.end()
}

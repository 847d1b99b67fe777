// Package lastgood keeps the last good answers to requests, in bounded memory.
package lastgood

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache keeps answers. Those used or renewed least recently go first. It is safe
// for concurrent use. Make one with [New].
//
// An answer is kept if both sides allow it: the request is a GET without a
// body and a range, and does not say Cache-Control: no-store; the
// response is a 2xx other than 206, says none of no-store, no-cache and private, sets no
// cookie, has no trailer, and varies with nothing, or with headers of the request,
// which must then be the same.
//
// There is one answer for a URL and the credentials of the request: see [Key]. Behind
// Authorization or a cookie it is kept only if it says public, s-maxage or
// must-revalidate, as RFC 9111, 3.5, has it for caches that clients share.
//
// That an answer is old is what the cache is for. But one that says s-maxage,
// must-revalidate or proxy-revalidate is given only as long as it is fresh (4.2.4).
type Cache struct {
	mu   sync.Mutex
	max  int64
	size int64 // of what is kept, and of what is being copied
	kept *simplelru.LRU[string, *answer]
}

type answer struct {
	status int
	header http.Header
	body   []byte
	vary   http.Header // of the request, what the answer varies with
	at     time.Time
	age    time.Duration // it had when it came
	fresh  time.Duration // the age up to which it may be given
	size   int64
}

// New returns a cache of at most size bytes, bodies under way to it included.
func New(size int64) *Cache {
	c := &Cache{max: size}
	// The number of answers is bounded by their sizes. The error is for numbers below 1.
	c.kept, _ = simplelru.NewLRU(math.MaxInt, func(_ string, a *answer) { c.size -= a.size })
	return c
}

// Resize changes the bound. Answers beyond it go.
func (c *Cache) Resize(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.max = size
	c.grow(0)
}

// Size returns how many bytes are in use, and for how many answers.
func (c *Cache) Size() (bytes int64, answers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size, c.kept.Len()
}

// share is the part of a cache that one answer may take.
const share = 8

// grow takes n bytes, for which older answers make room, and reports whether
// there are so many. c.mu is held.
func (c *Cache) grow(n int64) bool {
	c.size += n
	for c.size > c.max {
		if _, _, ok := c.kept.RemoveOldest(); !ok {
			c.size -= n
			return false
		}
	}
	return true
}

// Asks reports whether the answer to a request may be kept, and one that was kept
// may be given.
func Asks(r *http.Request) bool {
	h := r.Header
	return r.Method == http.MethodGet && (r.Body == nil || r.Body == http.NoBody) && h["Range"] == nil && !says(h, "no-store")
}

// says reports whether Cache-Control has one of the directives.
func says(h http.Header, names ...string) bool {
	for name := range directives(h) {
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// directives yields those of Cache-Control, in small letters, with what stands behind
// the equals sign.
func directives(h http.Header) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, line := range h["Cache-Control"] {
			for d := range strings.SplitSeq(line, ",") {
				name, value, _ := strings.Cut(strings.TrimSpace(d), "=") // private="x" too
				if !yield(strings.ToLower(name), strings.Trim(value, `"`)) {
					return
				}
			}
		}
	}
}

// freshness returns up to which age an answer may be given. Most may be given however
// old they are, some only as long as they are fresh.
func freshness(h http.Header) time.Duration {
	const forever = math.MaxInt64
	strict, maxAge, shared := false, time.Duration(0), time.Duration(-1)
	for name, value := range directives(h) {
		switch name {
		case "must-revalidate", "proxy-revalidate":
			strict = true
		case "max-age":
			maxAge = seconds(value)
		case "s-maxage":
			shared = seconds(value)
		}
	}
	switch {
	case shared >= 0:
		return shared
	case strict:
		return maxAge
	default:
		return forever
	}
}

// seconds reads a number of them: 0 if it is none.
func seconds(s string) time.Duration {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, math.MaxInt32)) * time.Second
}

// Key returns under which key the answer to a request is kept: its URL and, as a
// digest, every header that may say who the client is. Those are the ones that have one
// of the words of [credential] in their name.
func Key(r *http.Request) string {
	key := r.Host + " " + r.URL.RequestURI()
	var names []string
	for name := range r.Header {
		if credential(name) {
			names = append(names, name)
		}
	}
	if names == nil {
		return key
	}
	slices.Sort(names)
	digest := sha256.New()
	for _, name := range names {
		fmt.Fprintf(digest, "%q%q", name, r.Header[name])
	}
	return key + " " + string(digest.Sum(nil))
}

// credential reports whether a header may say who the client is: by a secret, or by a
// name that something in front has found out.
func credential(name string) bool {
	if name == "User-Agent" || name == "Sec-Fetch-User" {
		return false
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{
		"auth", "cookie", "token", "key", "session", "secret", "password", "credential", "signature", "jwt", "cert",
		"user", "account", "tenant", "identity",
	}, func(word string) bool { return strings.Contains(name, word) })
}

// Keep copies the answer to a request, for which Asks holds, while its body is
// being read, and keeps it when that has come to its end. It changes resp.Body;
// an answer that may not be kept, or is too large, passes as it is.
func (c *Cache) Keep(key string, r *http.Request, resp *http.Response) {
	h := resp.Header
	if resp.StatusCode < 200 || resp.StatusCode > 299 || resp.StatusCode == http.StatusPartialContent ||
		h["Set-Cookie"] != nil || len(resp.Trailer) > 0 || says(h, "no-store", "no-cache", "private") {
		return
	}
	if (r.Header["Authorization"] != nil || r.Header["Cookie"] != nil) && !says(h, "public", "s-maxage", "must-revalidate") {
		return
	}
	vary, ok := varies(r.Header, h)
	if !ok {
		return
	}
	c.mu.Lock()
	most := c.max / share
	c.mu.Unlock()
	a := &answer{status: resp.StatusCode, header: h.Clone(), vary: vary, age: seconds(h.Get("Age")), fresh: freshness(h), size: int64(len(key)) + overhead(h) + overhead(vary)}
	if a.size+max(resp.ContentLength, 0) > most {
		return
	}
	resp.Body = &copying{ReadCloser: resp.Body, cache: c, key: key, answer: a, most: most}
}

// varies returns the headers of the request that the answer varies with.
func varies(request, response http.Header) (http.Header, bool) {
	var vary http.Header
	for _, line := range response["Vary"] {
		for name := range strings.SplitSeq(line, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if name == "*" {
				return nil, false
			}
			if vary == nil {
				vary = http.Header{}
			}
			vary[name] = slices.Clone(request[name])
		}
	}
	return vary, true
}

// overhead is about what headers take in memory.
func overhead(h http.Header) int64 {
	n := int64(256)
	for name, values := range h {
		n += int64(len(name)) + 64
		for _, v := range values {
			n += int64(len(v)) + 16
		}
	}
	return n
}

// Get returns the answer to a request, for which Asks holds, if there is one that
// is at most maxAge old. It has the header Age.
func (c *Cache) Get(key string, r *http.Request, maxAge time.Duration) *http.Response {
	now := time.Now()
	c.mu.Lock()
	a, ok := c.kept.Get(key)
	if ok && (now.Sub(a.at) > maxAge || a.age+now.Sub(a.at) > a.fresh) {
		c.kept.Remove(key)
		ok = false
	}
	c.mu.Unlock()
	if !ok {
		return nil
	}
	for name, values := range a.vary {
		if !slices.Equal(values, r.Header[name]) {
			return nil
		}
	}
	h := a.header.Clone()
	h.Set("Age", strconv.FormatInt(int64((a.age+now.Sub(a.at))/time.Second), 10))
	return &http.Response{
		StatusCode: a.status, ProtoMajor: 1, ProtoMinor: 1, Header: h, Request: r,
		ContentLength: int64(len(a.body)), Body: io.NopCloser(bytes.NewReader(a.body)),
	}
}

// copying is the body of an answer that is being copied.
type copying struct {
	io.ReadCloser
	cache  *Cache
	key    string
	answer *answer // nil: no more
	most   int64
	taken  int64 // of the cache, so far
}

// Read implements io.Reader.
func (b *copying) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if a := b.answer; a != nil {
		a.size += int64(n)
		switch {
		case a.size > b.most || !b.take(a.size-b.taken):
			b.drop()
		default:
			a.body = append(a.body, p[:n]...)
		}
	}
	if b.answer != nil && err != nil {
		if err == io.EOF {
			b.commit()
		} else {
			b.drop()
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *copying) Close() error {
	if b.answer != nil {
		b.drop()
	}
	return b.ReadCloser.Close()
}

func (b *copying) take(n int64) bool {
	b.cache.mu.Lock()
	defer b.cache.mu.Unlock()
	if !b.cache.grow(n) {
		return false
	}
	b.taken += n
	return true
}

func (b *copying) drop() {
	b.answer = nil
	b.cache.mu.Lock()
	b.cache.size -= b.taken
	b.cache.mu.Unlock()
}

func (b *copying) commit() {
	a := b.answer
	b.answer = nil
	a.body = bytes.Clone(a.body) // without the room it grew into
	a.at = time.Now()
	b.cache.mu.Lock()
	b.cache.kept.Remove(b.key) // its size goes with it
	b.cache.kept.Add(b.key, a)
	b.cache.mu.Unlock()
}

package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed assets/*.html assets/*.css assets/*.js assets/*.svg
var assets embed.FS

// policy lets the page load what is served beside it and nothing else. Nothing
// can be made markup or script from a text: browsers that know trusted types
// refuse it, but for the address of the one worker, which live.js vouches for.
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types fusebox"

// Handler returns a handler that serves the page, and passes what is below
// "/api/" on to api, a fuseboxadmin.Handler; nil: the API is mounted beside the
// page by other means. Mounted elsewhere than at "/", it needs http.StripPrefix.
// It is safe for concurrent use and holds about 120 kB.
func Handler(api http.Handler) http.Handler {
	s := &site{api: api, files: map[string]*file{}}
	for _, name := range []string{"style.css", "closed.svg", "half-open.svg", "open.svg"} {
		s.files["/"+name] = newFile(name, read(name))
	}
	// A script with all that it imports: a browser that asked for each module by
	// itself would show the page later.
	scripts := sha256.New()
	for _, name := range []string{"app.js", "worker.js"} {
		script := bundle(name)
		s.files["/"+name] = newFile(name, script)
		_, _ = scripts.Write(script)
	}
	// The tabs of a browser share a worker, which may have been there before the
	// program was updated: those of another version are to have another.
	version := []byte(`name="version" content="` + hex.EncodeToString(scripts.Sum(nil)[:8]))
	s.files["/"] = newFile("index.html", bytes.Replace(read("index.html"), []byte(`name="version" content="`), version, 1))
	return s
}

func read(name string) []byte {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return data
}

type site struct {
	api   http.Handler
	files map[string]*file
}

// file is an asset as it is sent.
type file struct {
	kind       string // the media type
	tag        string // hash of plain
	plain, zip []byte
}

func newFile(name string, data []byte) *file {
	var zip bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zip, gzip.BestCompression) // the level is a valid one
	_, _ = z.Write(data)
	_ = z.Close()
	sum := sha256.Sum256(data)
	kind := mime.TypeByExtension(path.Ext(name))
	if path.Ext(name) == ".js" {
		kind = "text/javascript; charset=utf-8" // whatever the system's table says
	}
	return &file{kind: kind, tag: hex.EncodeToString(sum[:8]), plain: data, zip: zip.Bytes()}
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.api != nil && strings.HasPrefix(r.URL.Path, "/api/") {
		if r.URL.Path == "/api/config" {
			w = &optional{ResponseWriter: w}
		}
		s.api.ServeHTTP(w, r)
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	f := s.files[r.URL.Path]
	switch {
	case f == nil:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "the page can only be read", http.StatusMethodNotAllowed)
		return
	}
	// Asked for again each time, and then mostly not sent: after an update of the
	// program no part of the page is of another version.
	header.Set("Cache-Control", "no-cache")
	header.Set("Content-Type", f.kind)
	header.Set("Vary", "Accept-Encoding")
	data, tag := f.plain, f.tag
	if acceptsGzip(r) {
		header.Set("Content-Encoding", "gzip")
		data, tag = f.zip, f.tag+"-gzip"
	}
	header.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

const noConfig = `{"entries":[]}`

// optional answers that there are no settings where there is nothing: a program without
// a file of settings has no such path, and a browser reports a 404 as an error.
type optional struct {
	http.ResponseWriter
	missing bool
}

func (o *optional) WriteHeader(status int) {
	if status == http.StatusNotFound {
		o.missing = true
		o.Header().Set("Content-Type", "application/json")
		o.Header().Set("Content-Length", strconv.Itoa(len(noConfig)))
		status = http.StatusOK
	}
	o.ResponseWriter.WriteHeader(status)
	if o.missing {
		_, _ = o.ResponseWriter.Write([]byte(noConfig))
	}
}

func (o *optional) Write(p []byte) (int, error) {
	if o.missing {
		return len(p), nil
	}
	return o.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (o *optional) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// acceptsGzip reports whether the client says that it takes gzip.
func acceptsGzip(r *http.Request) bool {
	for _, list := range r.Header.Values("Accept-Encoding") {
		for item := range strings.SplitSeq(list, ",") {
			coding, weight, _ := strings.Cut(item, ";")
			if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
				weight = strings.ReplaceAll(weight, " ", "")
				return strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != "" || weight == ""
			}
		}
	}
	return false
}

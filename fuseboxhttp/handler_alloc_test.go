//go:build !race

// The race detector allocates on its own: these tests are for the run without it.

package fuseboxhttp_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

// memoryWriter is a ResponseWriter that keeps nothing and has the optional
// methods of HTTP/1.1.
type memoryWriter struct {
	http.Hijacker
	header http.Header
	bytes  int
}

func (w *memoryWriter) Header() http.Header { return w.header }
func (w *memoryWriter) WriteHeader(int)     {}
func (w *memoryWriter) Flush()              {}

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.bytes += len(p)
	return len(p), nil
}

func (w *memoryWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, r)
}

// bareAndGuarded are the handlers to compare, by name: in pairs.
func bareAndGuarded() (names []string, handlers map[string]http.Handler) {
	hello := []byte("hello")
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(hello)
	})
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", handler)
	inside := http.NewServeMux()
	inside.Handle("GET /users/{id}", &fuseboxhttp.Handler{Handler: handler})
	handlers = map[string]http.Handler{
		"bare":          handler,
		"guarded":       &fuseboxhttp.Handler{Handler: handler},
		"mux/bare":      mux,
		"mux/inside":    inside,
		"mux/outside":   &fuseboxhttp.Handler{Handler: mux},
		"shadow":        &fuseboxhttp.Handler{Handler: handler, Registry: &fusebox.Registry{Config: func(string) fusebox.Config { return fusebox.Config{Mode: fusebox.Shadow} }}},
		"with a key":    &fuseboxhttp.Handler{Handler: handler, Key: func(*http.Request) string { return "users" }},
		"without a key": &fuseboxhttp.Handler{Handler: handler, Key: func(*http.Request) string { return "" }},
	}
	return []string{"bare", "guarded", "mux/bare", "mux/inside", "mux/outside", "shadow", "with a key", "without a key"}, handlers
}

func TestTheHandlerAddsTwoAllocations(t *testing.T) {
	names, handlers := bareAndGuarded()
	w := &memoryWriter{header: http.Header{}}
	r := newRequest("/users/42")
	allocations := map[string]float64{}
	for _, name := range names {
		h := handlers[name]
		allocations[name] = testing.AllocsPerRun(500, func() { h.ServeHTTP(w, r) })
	}
	for _, test := range []struct {
		guarded, bare string
		most          float64
	}{
		{"guarded", "bare", 2},
		{"shadow", "bare", 2},
		{"with a key", "bare", 2},
		{"without a key", "bare", 0},
		{"mux/inside", "mux/bare", 2},
		{"mux/outside", "mux/bare", 3}, // the mux looks for the route twice
	} {
		if added := allocations[test.guarded] - allocations[test.bare]; added > test.most {
			t.Errorf("%s adds %v allocations to %s, want at most %v", test.guarded, added, test.bare, test.most)
		}
	}
}

func BenchmarkHandler(b *testing.B) {
	names, handlers := bareAndGuarded()
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			w := &memoryWriter{header: http.Header{}}
			r := newRequest("/users/42")
			b.ReportAllocs()
			for b.Loop() {
				handlers[name].ServeHTTP(w, r)
			}
		})
	}
}

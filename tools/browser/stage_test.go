package browser_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxadmin/page"
)

const token = "a token of the tests"

var errRefused = errors.New("dial tcp 10.0.0.7:443: connect: connection refused")

// stage is a program with breakers, and the page of it on a real server.
type stage struct {
	testing.TB
	admin   *fuseboxadmin.Handler
	url     string
	handler http.Handler // the page over it
	config  string       // what the program says of its settings

	mu      sync.Mutex
	down    bool // the API does not answer
	streams map[*http.Request]context.CancelFunc
	begun   int // streams so far
	audits  []fuseboxadmin.AuditRecord
}

func newStage(tb testing.TB) *stage {
	tb.Helper()
	s := &stage{TB: tb, streams: map[*http.Request]context.CancelFunc{}}
	s.admin = &fuseboxadmin.Handler{
		Token: token, Logger: slog.New(slog.DiscardHandler),
		Audit: func(r fuseboxadmin.AuditRecord) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.audits = append(s.audits, r)
		},
	}
	s.handler = page.Handler(http.HandlerFunc(s.api))
	server := httptest.NewUnstartedServer(s.handler)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	s.url = server.URL
	tb.Cleanup(func() {
		s.admin.Close()
		s.cut()
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// api passes requests on, unless the connection is cut.
func (s *stage) api(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r = r.WithContext(ctx)
	s.mu.Lock()
	down := s.down
	if !down && r.URL.Path == "/api/events" {
		s.begun++
		s.streams[r] = cancel
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.streams, r)
		}()
	}
	s.mu.Unlock()
	if down {
		hangUp(w)
		return
	}
	if r.URL.Path == "/api/config" && s.config != "" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, s.config)
		return
	}
	s.admin.ServeHTTP(w, r)
}

// hangUp ends a connection as a cable would that is cut.
func hangUp(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// cut ends the streams, and answers nothing any more.
func (s *stage) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	for _, cancel := range s.streams {
		cancel()
	}
}

func (s *stage) mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
}

// listening returns how many streams there are, and how many have been.
func (s *stage) listening() (now, ever int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams), s.begun
}

func (s *stage) audited() []fuseboxadmin.AuditRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]fuseboxadmin.AuditRecord(nil), s.audits...)
}

func (s *stage) breaker(name string, c fusebox.Config) *fusebox.Breaker {
	b := fusebox.New(name, c)
	s.admin.Add(b)
	return b
}

// calls makes calls of a breaker, so many that succeed and then so many that fail.
func calls(b *fusebox.Breaker, good, bad int) {
	for range good {
		_ = b.Do(context.Background(), func(context.Context) error { return nil })
	}
	for range bad {
		_ = b.Do(context.Background(), func(context.Context) error { return errRefused })
	}
}

// tripping is a Config with which 41 failures after 24 successes trip, and that
// then stays open.
func tripping() fusebox.Config {
	return fusebox.Config{MinCalls: 65, Consecutive: -1, OpenFor: hour, OpenForMax: hour, OpenJitter: -1}
}

func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

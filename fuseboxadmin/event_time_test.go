package fuseboxadmin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

// pipes is a network without buffers, in the time of a bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// bubble is a handler behind a server, and a client, in a bubble.
type bubble struct {
	*testing.T
	*fuseboxadmin.Handler
	client *http.Client
	server *http.Server
	b      *fusebox.Breaker
}

// inBubble runs a test with a server whose own time for an answer is short.
func inBubble(t *testing.T, http2 bool, test func(*testing.T, *bubble)) {
	synctest.Test(t, func(t *testing.T) {
		x := &bubble{T: t, Handler: &fuseboxadmin.Handler{Token: token, Logger: slog.New(slog.DiscardHandler)}, b: fusebox.New("x", fusebox.Config{})}
		x.Add(x.b)
		p := &pipes{make(chan net.Conn), make(chan struct{})}
		server := &http.Server{Handler: x, WriteTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), Protocols: new(http.Protocols)}
		server.Protocols.SetHTTP1(!http2)
		server.Protocols.SetUnencryptedHTTP2(http2)
		x.server = server
		transport := &http.Transport{DialContext: p.dial, Protocols: server.Protocols}
		x.client = &http.Client{Transport: transport}
		done := make(chan error)
		go func() { done <- server.Serve(p) }()
		server.RegisterOnShutdown(x.Close)
		defer func() {
			transport.CloseIdleConnections()
			if err := server.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			<-done
		}()
		test(t, x)
	})
}

func (x *bubble) listen(from string) *listener {
	x.Helper()
	r, err := http.NewRequestWithContext(x.Context(), http.MethodGet, "http://localhost/api/events", nil)
	if err != nil {
		x.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", from)
	resp, err := x.client.Do(r)
	if err != nil {
		x.Fatal(err)
	}
	return newListener(x, resp.Body)
}

func TestAnIdleStreamIsKept(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, http2, func(t *testing.T, x *bubble) {
				s := x.listen("")
				s.next()
				start := time.Now()
				for n := range 8 {
					if e := s.next(); e.note != "still here" {
						t.Fatalf("there is %+v, want a comment", e)
					}
					if at := time.Since(start); at != time.Duration(n+1)*fuseboxadmin.Heartbeat {
						t.Fatalf("comment %d after %v", n, at)
					}
				}
				time.Sleep(fuseboxadmin.Heartbeat - 1)
				x.b.Reset(fusebox.Note{}) // puts the next comment off
				s.next().transition(t)
				at := time.Now()
				if e := s.next(); e.note == "" || time.Since(at) != fuseboxadmin.Heartbeat {
					t.Errorf("%+v, %v after an event", e, time.Since(at))
				}
				time.Sleep(fuseboxadmin.Patience + 1)
				x.Close()
				if e, err := s.read(); !errors.Is(err, io.EOF) {
					t.Errorf("after Close: %+v, %v", e, err)
				}
			})
		})
	}
}

func TestAnOverrideRunsOut(t *testing.T) {
	inBubble(t, false, func(t *testing.T, x *bubble) {
		s := x.listen("")
		s.next()
		start := time.Now()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/breakers/x/override", strings.NewReader(`{"mode":"force-open","by":"kim","ttl":"15m"}`))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		resp, err := x.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if e := s.next(); !e.transition(t).Note.Until.Equal(start.Add(15 * time.Minute)) {
			t.Errorf("the event is %+v", e)
		}
		audit := s.next()
		if audit.kind != "audit" {
			t.Errorf("the event is %+v", audit)
		}
		s.body.Close() // it would not be read for long
		time.Sleep(15*time.Minute - 1)
		if x.b.State() != fusebox.Open {
			t.Error("it ended too early")
		}
		time.Sleep(time.Nanosecond)
		if err := x.b.Do(t.Context(), succeed); err != nil { // somebody has to come by
			t.Error(err)
		}
		again := x.listen(strconv.FormatUint(audit.id, 10))
		defer again.body.Close()
		if tr := again.next().transition(t); tr.Cause != fusebox.CauseOverrideEnded || tr.Why != "override ended, set by kim" {
			t.Errorf("the event is %+v", tr)
		}
	})
}

// untilEnd reads what is there, which must follow last without a gap, and
// returns the last id and how the stream ended.
func untilEnd(t *testing.T, s *listener, last uint64) (uint64, error) {
	t.Helper()
	for {
		e, err := s.read()
		if err != nil {
			return last, err
		}
		if e.id != last+1 {
			t.Fatalf("after event %d comes %+v", last, e)
		}
		last = e.id
	}
}

func TestAReaderThatTakesNothingIsDropped(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, http2, func(t *testing.T, x *bubble) {
				s := x.listen("")
				last := s.next().id
				start := time.Now()
				big := fusebox.Note{Reason: strings.Repeat("x", 9_000)} // to fill what buffers there are
				for range 400 {
					x.b.Reset(big)
					synctest.Wait()
				}
				if d := time.Since(start); d != 0 {
					t.Errorf("breakers waited %v for a reader", d)
				}
				time.Sleep(fuseboxadmin.Patience)
				synctest.Wait()
				last, err := untilEnd(t, s, last)
				if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("the stream ended with %v, want in the middle", err)
				}
				again := x.listen(strconv.FormatUint(last, 10))
				if e := again.next(); e.id != last+1 { // nothing is lost
					t.Errorf("after event %d comes %+v", last, e)
				}
				again.body.Close()
			})
		})
	}
}

func TestAReaderThatFallsBehindIsDropped(t *testing.T) {
	inBubble(t, false, func(t *testing.T, x *bubble) {
		s := x.listen("")
		first := s.next().id
		for range 20 { // until a write waits for the reader
			x.b.Reset(fusebox.Note{Reason: strings.Repeat("x", 1000)})
			synctest.Wait()
		}
		time.Sleep(fuseboxadmin.Patience / 2)
		for i := range fuseboxadmin.MaxEvents + 20 {
			if err := x.Publish("n", i); err != nil {
				t.Fatal(err)
			}
		}
		last, err := untilEnd(t, s, first)
		if !errors.Is(err, io.EOF) || last >= first+fuseboxadmin.MaxEvents {
			t.Errorf("the stream ended with %v after %d events", err, last-first)
		}
		again := x.listen(strconv.FormatUint(last, 10))
		if e := again.next(); e.kind != "reset" || e.id != first+fuseboxadmin.MaxEvents+40 {
			t.Errorf("it comes back to %+v", e)
		}
		again.body.Close()
	})
}

// What a reader does not take holds up the end of the server for a second.
func TestCloseDoesNotWaitForAReader(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		for how, before := range map[string]time.Duration{"takes a little": 0, "just stuck": 1, "stuck for long": fuseboxadmin.Patience - 1} {
			t.Run(name+" "+how, func(t *testing.T) {
				inBubble(t, http2, func(t *testing.T, x *bubble) {
					s := x.listen("")
					s.next()
					for range 300 { // until a write waits for the reader, with more behind it
						x.b.Reset(fusebox.Note{Reason: strings.Repeat("x", 9_000)})
						synctest.Wait()
					}
					time.Sleep(before)
					start := time.Now()
					x.Close()
					synctest.Wait()
					if before == 0 { // it takes what waits, and nothing of what comes then
						if _, err := io.CopyN(io.Discard, s.r, 50_000); err != nil {
							t.Error(err)
						}
					}
					if !http2 { // the server of HTTP/2 says goodbye in its own time
						if err := x.server.Shutdown(context.Background()); err != nil {
							t.Error(err)
						}
						if d := time.Since(start); d > fuseboxadmin.Parting+time.Second {
							t.Errorf("the end took %v", d)
						}
					}
					// The next one that asks is told, however the first one fares.
					synctest.Wait()
					time.Sleep(fuseboxadmin.Parting)
					synctest.Wait()
					s.body.Close()
				})
			})
		}
	}
}

func TestAPageLearnsThatBreakersComeAndGo(t *testing.T) {
	inBubble(t, false, func(t *testing.T, l *bubble) {
		r := fusebox.Registry{MaxKeys: 2}
		l.AddRegistry("", &r)
		events := l.listen("")
		events.next()
		list := func() int {
			w := httptest.NewRecorder()
			l.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/breakers", nil))
			var list fuseboxadmin.List
			if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
				t.Error(err)
			}
			return len(list.Breakers) - 1 // the bubble has one
		}
		told := func(what string, breakers int) {
			t.Helper()
			if e := events.next(); e.kind != "list" || e.data != "{}" {
				t.Errorf("%s: the event is %+v", what, e)
			}
			if n := list(); n != breakers {
				t.Errorf("%s: %d breakers are listed, want %d", what, n, breakers)
			}
		}
		list()
		remove := l.Add(fusebox.New("one", fusebox.Config{}))
		told("added", 1)
		r.Get("two")
		told("made", 2)
		r.Delete("two")
		told("deleted", 1)
		remove()
		remove()
		told("removed", 0)
		r.Get("a")
		told("made", 1)
		r.Get("b")
		told("made", 2)
		r.Get("c")
		told("replaced", 2)
		// Until somebody lists them, one event is enough.
		l.Add(fusebox.New("two", fusebox.Config{}))
		for range 100 {
			l.Add(fusebox.New("many", fusebox.Config{}))()
		}
		b := fusebox.New("last", fusebox.Config{})
		l.Add(b)
		told("added", 4)
		b.Reset(fusebox.Note{})
		events.next().transition(t)
		events.body.Close()
	})
}

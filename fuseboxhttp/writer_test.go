package fuseboxhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// abilities are the optional interfaces a ResponseWriter has.
func abilities(w http.ResponseWriter) string {
	var have []string
	note := func(name string, ok bool) {
		if ok {
			have = append(have, name)
		}
	}
	_, ok := w.(http.Flusher)
	note("Flusher", ok)
	_, ok = w.(http.Hijacker)
	note("Hijacker", ok)
	_, ok = w.(io.ReaderFrom)
	note("ReaderFrom", ok)
	_, ok = w.(http.Pusher)
	note("Pusher", ok)
	_, ok = w.(interface{ CloseNotify() <-chan bool })
	note("CloseNotifier", ok)
	return strings.Join(have, " ")
}

// able has all the optional methods, and notes their calls. The combinations
// below take some of them.
type able struct {
	http.ResponseWriter
	calls []string
	from  io.Reader
}

func (a *able) note(call string) { a.calls = append(a.calls, call) }

func (a *able) Flush() { a.note("Flush") }

func (a *able) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.note("Hijack")
	return nil, nil, nil
}

func (a *able) ReadFrom(r io.Reader) (int64, error) {
	a.note("ReadFrom")
	a.from = r
	return io.Copy(struct{ io.Writer }{a.ResponseWriter}, r)
}

func (a *able) Push(target string, o *http.PushOptions) error {
	a.note("Push " + target + " " + o.Method)
	return nil
}

func (a *able) CloseNotify() <-chan bool {
	a.note("CloseNotify")
	return nil
}

func TestC133TheWriterHasWhatTheServersHasAndNoMore(t *testing.T) {
	a := &able{ResponseWriter: httptest.NewRecorder()}
	seen := map[string]bool{}
	for _, w := range combinations(a) {
		want := abilities(w)
		seen[want] = true
		var got, controlled string
		l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
			got = abilities(w)
			_, stringWriter := w.(io.StringWriter)
			_, unwrapper := w.(interface{ Unwrap() http.ResponseWriter })
			if !stringWriter || !unwrapper {
				t.Errorf("%s: a StringWriter: %t; has Unwrap: %t", want, stringWriter, unwrapper)
			}
			if err := http.NewResponseController(w).Flush(); err == nil {
				controlled = "flushed"
			} else if !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("%s: Flush: %v", want, err)
			}
		})
		l.ServeHTTP(w, newRequest("/"))
		if got != want {
			t.Errorf("the handler sees %q, want %q", got, want)
		}
		if (controlled != "") != strings.Contains(want, "Flusher") {
			t.Errorf("%s: a ResponseController flushed: %t", want, controlled != "")
		}
	}
	if len(seen) != 32 {
		t.Errorf("%d combinations tried, want 32", len(seen))
	}
}

func TestOptionalMethodsReachTheServers(t *testing.T) {
	a := &able{ResponseWriter: httptest.NewRecorder()}
	l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		_, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
		_ = w.(http.Pusher).Push("/style.css", &http.PushOptions{Method: "HEAD"})
		w.(interface{ CloseNotify() <-chan bool }).CloseNotify()
		_, _, _ = w.(http.Hijacker).Hijack()
	})
	all := combinations(a)
	l.ServeHTTP(all[len(all)-1], newRequest("/"))
	if got := strings.Join(a.calls, ", "); got != "Flush, ReadFrom, Push /style.css HEAD, CloseNotify, Hijack" {
		t.Errorf("calls: %s", got)
	}
}

func TestC133OverHTTPTheWriterHasWhatTheServersHas(t *testing.T) {
	wants := map[string]string{
		"HTTP/1.1":          "Flusher Hijacker ReaderFrom CloseNotifier",
		"HTTP/1.1 with TLS": "Flusher Hijacker ReaderFrom CloseNotifier",
		"HTTP/2.0":          "Flusher Pusher CloseNotifier",
	}
	overHTTP(t, func(t *testing.T, protocol string) {
		var bare, guarded string
		l := newHandlerLab(t, func(w http.ResponseWriter, r *http.Request) {
			guarded = abilities(w)
			if !strings.HasPrefix(protocol, r.Proto) {
				t.Errorf("the test speaks %s", r.Proto)
			}
		})
		s, _ := serve(t, protocol, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			bare = abilities(w)
			l.ServeHTTP(w, r)
		}))
		get(t, s, "/")
		if guarded != bare || bare != wants[protocol] {
			t.Errorf("the handler sees %q, the server's is %q, want %q", guarded, bare, wants[protocol])
		}
	})
}

func TestDeadlinesAreSetThroughTheController(t *testing.T) {
	overHTTP(t, func(t *testing.T, protocol string) {
		l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
			c := http.NewResponseController(w)
			err := errors.Join(c.SetReadDeadline(time.Now().Add(time.Hour)), c.SetWriteDeadline(time.Now().Add(time.Hour)), c.EnableFullDuplex())
			if err != nil {
				t.Error(err)
			}
			fmt.Fprint(w, "ok")
		})
		s, _ := serve(t, protocol, l)
		if text, err := io.ReadAll(get(t, s, "/").Body); string(text) != "ok" || err != nil {
			t.Errorf("read %q, %v", text, err)
		}
	})
}

func TestAnEventIsSeenBeforeTheHandlerReturns(t *testing.T) {
	flushes := map[string]func(http.ResponseWriter){
		"Flusher":            func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"ResponseController": func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
	}
	overHTTP(t, func(t *testing.T, protocol string) {
		for name, flush := range flushes {
			seen := make(chan bool)
			l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for range 3 {
					fmt.Fprint(w, "data: x\n\n")
					flush(w)
					<-seen
				}
			})
			s, _ := serve(t, protocol, l)
			lines := bufio.NewReader(get(t, s, "/").Body)
			for range 3 {
				line, err := lines.ReadString('\n')
				if line != "data: x\n" || err != nil {
					t.Fatalf("%s: read %q, %v", name, line, err)
				}
				_, _ = lines.ReadString('\n')
				l.wantCount(count{}) // not judged yet
				seen <- true
			}
			if _, err := lines.ReadString('\n'); !errors.Is(err, io.EOF) {
				t.Errorf("%s: at the end: %v", name, err)
			}
			soon(t, "the stream is not judged", func() bool { return l.totals().Successes == 1 })
		}
	})
}

func TestTrailersArrive(t *testing.T) {
	overHTTP(t, func(t *testing.T, protocol string) {
		l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Announced")
			fmt.Fprint(w, "body")
			w.(http.Flusher).Flush()
			w.Header().Set("Announced", "a")
			w.Header().Set(http.TrailerPrefix+"Sudden", "s")
		})
		s, _ := serve(t, protocol, l)
		answer := get(t, s, "/")
		if text, err := io.ReadAll(answer.Body); string(text) != "body" || err != nil {
			t.Fatalf("read %q, %v", text, err)
		}
		if a, s := answer.Trailer.Get("Announced"), answer.Trailer.Get("Sudden"); a != "a" || s != "s" {
			t.Errorf("trailers %q", answer.Trailer)
		}
	})
}

func TestC133AnInformationalStatusIsNotFinal(t *testing.T) {
	overHTTP(t, func(t *testing.T, protocol string) {
		var asked []int
		l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		l.Classify = func(status int) fusebox.Outcome {
			asked = append(asked, status)
			return fusebox.Failure
		}
		s, _ := serve(t, protocol, l)
		var hints []string
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, " ", h.Get("Link")))
				return nil
			},
		})
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		answer, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 503 || !slices.Equal(hints, []string{"103 </style.css>"}) {
			t.Errorf("answered %d after %q", answer.StatusCode, hints)
		}
		soon(t, "not judged", func() bool { return l.totals().Failures == 1 })
		if !slices.Equal(asked, []int{503}) {
			t.Errorf("judged by %v, want 503", asked)
		}
	})
}

func TestASuperfluousStatusIsLoggedAndNotCounted(t *testing.T) {
	overHTTP(t, func(t *testing.T, protocol string) {
		l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			w.WriteHeader(200)
		})
		s, written := serve(t, protocol, l)
		if got := get(t, s, "/").StatusCode; got != 500 {
			t.Errorf("answered %d", got)
		}
		soon(t, "not judged", func() bool { return l.totals().Failures == 1 })
		if protocol != "HTTP/2.0" && !strings.Contains(written.String(), "superfluous response.WriteHeader") {
			t.Errorf("the server's log: %q", written)
		}
	})
}

func TestAFileIsCopiedByTheServer(t *testing.T) {
	overHTTP(t, func(t *testing.T, protocol string) {
		content := bytes.Repeat([]byte("0123456789abcdef"), 5<<19/16) // more than two parts
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		for how, send := range map[string]http.HandlerFunc{
			"ServeFile": func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, name) },
			"io.Copy": func(w http.ResponseWriter, _ *http.Request) {
				f, err := os.Open(name)
				if err != nil {
					t.Error(err)
					return
				}
				defer f.Close()
				w.Header().Set("Content-Length", strconv.Itoa(len(content)))
				if n, err := io.Copy(w, f); n != int64(len(content)) || err != nil {
					t.Errorf("copied %d bytes, %v", n, err)
				}
			},
			"io.Copy, length unknown": func(w http.ResponseWriter, _ *http.Request) {
				n, err := io.Copy(w, struct{ io.Reader }{bytes.NewReader(content)})
				if n != int64(len(content)) || err != nil {
					t.Errorf("copied %d bytes, %v", n, err)
				}
			},
		} {
			l := newHandlerLab(t, send)
			s, _ := serve(t, protocol, l)
			got, err := io.ReadAll(get(t, s, "/").Body)
			if !bytes.Equal(got, content) || err != nil {
				t.Errorf("%s: read %d bytes, want %d; %v", how, len(got), len(content), err)
			}
			soon(t, "not judged", func() bool { return l.totals().Successes == 1 })
		}
	})
}

// readFrom serves with a handler whose ResponseWriter can ReadFrom, and returns
// what reached it.
func readFrom(l *handlerLab) *able {
	a := &able{ResponseWriter: httptest.NewRecorder()}
	l.ServeHTTP(struct {
		http.ResponseWriter
		io.ReaderFrom
	}{a.ResponseWriter, a}, newRequest("/"))
	return a
}

// TestTheFastWayStaysOpen asks for what the kernel's copying asks for: a file,
// or a file in one LimitedReader.
func TestTheFastWayStaysOpen(t *testing.T) {
	f, err := os.Open("writer_test.go")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, src := range map[string]io.Reader{"a file": f, "a part of a file": io.LimitReader(f, 10)} {
		a := readFrom(newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.(io.ReaderFrom).ReadFrom(src)
		}))
		if limited, ok := a.from.(*io.LimitedReader); !ok || limited.R != io.Reader(f) {
			t.Errorf("%s: the server is given %T", name, a.from)
		}
	}
}

func TestReadFromReadsWhatIsThere(t *testing.T) {
	const part = 1 << 20
	for _, length := range []int{0, 1, part - 1, part, part + 1, 3 * part} {
		for _, limit := range []int{-1, 0, 1, part, part + 1, 2 * part} {
			content := bytes.Repeat([]byte{'x'}, length)
			var src io.Reader = struct{ io.Reader }{bytes.NewReader(content)}
			want := length
			var limited *io.LimitedReader
			if limit >= 0 {
				limited = &io.LimitedReader{R: src, N: int64(limit)}
				src, want = limited, min(length, limit)
			}
			a := readFrom(newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
				if n, err := w.(io.ReaderFrom).ReadFrom(src); n != int64(want) || err != nil {
					t.Errorf("%d bytes, limit %d: copied %d, %v", length, limit, n, err)
				}
			}))
			if got := a.ResponseWriter.(*httptest.ResponseRecorder).Body.Len(); got != want {
				t.Errorf("%d bytes, limit %d: %d arrived", length, limit, got)
			}
			if limited != nil && limited.N != int64(limit-want) {
				t.Errorf("%d bytes, limit %d: the caller's limit is left at %d", length, limit, limited.N)
			}
		}
	}
}

// TestWhateverBeginsTheBodyImpliesTheStatus: if the client left after that,
// the answer stays a success, while a handler that wrote nothing is ignored.
func TestWhateverBeginsTheBodyImpliesTheStatus(t *testing.T) {
	for name, begin := range map[string]func(w http.ResponseWriter){
		"Write":       func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")) },
		"WriteString": func(w http.ResponseWriter) { _, _ = w.(io.StringWriter).WriteString("x") },
		"ReadFrom":    func(w http.ResponseWriter) { _, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("x")) },
		"Flush":       func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"FlushError":  func(w http.ResponseWriter) { _ = w.(interface{ FlushError() error }).FlushError() },
		"Write of nothing": func(w http.ResponseWriter) {
			_, _ = w.Write(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
				begin(w)
				w.WriteHeader(500) // too late
				cancel()
			})
			recorder := httptest.NewRecorder()
			l.ServeHTTP(struct {
				http.ResponseWriter
				http.Flusher
				io.ReaderFrom
			}{recorder, recorder, &able{ResponseWriter: recorder}}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			l.wantCount(count{successes: 1})
			if recorder.Code != 200 {
				t.Errorf("the server has sent %d", recorder.Code)
			}
		})
	}
}

// TestASourceThatFailsAtOnceLeavesTheStatusOpen: the server has sent nothing
// yet, and sends what the handler says then.
func TestASourceThatFailsAtOnceLeavesTheStatusOpen(t *testing.T) {
	overHTTP(t, func(t *testing.T, protocol string) {
		l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
			if _, err := io.Copy(w, iotest.ErrReader(errors.New("no upstream"))); err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
			}
		})
		s, _ := serve(t, protocol, l)
		if got := get(t, s, "/").StatusCode; got != 502 {
			t.Errorf("answered %d", got)
		}
		soon(t, "the failure is not counted", func() bool { return l.totals().Failures == 1 })
	})
}

// TestALeaseIsRenewed lets a probe run three times as long as its lease, with a
// sign of life in time.
func TestALeaseIsRenewed(t *testing.T) {
	for _, test := range []struct {
		name string
		sign func(w http.ResponseWriter)
		want fusebox.State
	}{
		{"by an informational status", func(w http.ResponseWriter) { w.WriteHeader(http.StatusProcessing) }, fusebox.Closed},
		{"by Write", func(w http.ResponseWriter) { fmt.Fprint(w, "x") }, fusebox.Closed},
		{"by WriteString", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "x") }, fusebox.Closed},
		{"by Flush", func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, fusebox.Closed},
		{"by a controller's Flush", func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, fusebox.Closed},
		{"by ReadFrom", func(w http.ResponseWriter) { _, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("x")) }, fusebox.Closed},
		{"not without one", func(http.ResponseWriter) {}, fusebox.Open},
	} {
		t.Run(test.name, func(t *testing.T) {
			var l *handlerLab
			l = newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
				for range 6 {
					l.clock.Advance(l.config.ProbeTimeout / 2)
					test.sign(w)
				}
			})
			l.config.ProbeTimeout = 10 * time.Second
			l.config.OpenFor = time.Hour
			l.probing()
			recorder := httptest.NewRecorder()
			l.ServeHTTP(struct {
				http.ResponseWriter
				http.Flusher
				io.ReaderFrom
			}{recorder, recorder, &able{ResponseWriter: recorder}}, newRequest("/"))
			l.want(test.want)
		})
	}
}

// slowSource takes its time for every byte.
type slowSource struct {
	l    *handlerLab
	left int
}

func (s *slowSource) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), s.left, 1<<20)
	s.left -= n
	s.l.clock.Advance(time.Duration(n) * 8 * time.Second / (1 << 20))
	return n, nil
}

func TestALongReadFromRenewsTheLeaseOnItsWay(t *testing.T) {
	var l *handlerLab
	l = newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.(io.ReaderFrom).ReadFrom(&slowSource{l, 5 << 20})
	})
	l.config.ProbeTimeout = 10 * time.Second
	l.probing()
	readFrom(l)
	l.want(fusebox.Closed)
}

// upgrade is a handler that takes the connection over and echoes a line.
func upgrade(t *testing.T, hijack func(http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error), taken chan<- bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, both, err := hijack(w)
		if err != nil {
			t.Error(err)
			http.Error(w, err.Error(), 500)
			return
		}
		defer conn.Close()
		taken <- true
		fmt.Fprint(both, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
		both.Flush()
		line, _ := both.ReadString('\n')
		fmt.Fprint(both, line)
		both.Flush()
	}
}

// onlyUnwrap is a middleware's writer that has but Unwrap, as many have.
type onlyUnwrap struct{ http.ResponseWriter }

func (w onlyUnwrap) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestC133AnUpgradeIsJudgedWhenTheConnectionIsTakenOver(t *testing.T) {
	direct := func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) { return w.(http.Hijacker).Hijack() }
	controlled := func(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
		return http.NewResponseController(w).Hijack()
	}
	for _, test := range []struct {
		name    string
		hijack  func(http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error)
		between func(http.ResponseWriter) http.ResponseWriter
	}{
		{"by Hijacker", direct, nil},
		{"by a controller", controlled, nil},
		{"by a controller, behind a writer with Unwrap only", controlled, func(w http.ResponseWriter) http.ResponseWriter { return onlyUnwrap{w} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			nothingLeft(t)
			taken := make(chan bool)
			l := newHandlerLab(t, upgrade(t, test.hijack, taken))
			var asked []int
			l.Classify = func(status int) fusebox.Outcome {
				asked = append(asked, status)
				return fusebox.Success
			}
			l.config.SlowAfter = time.Minute
			l.probing()
			s, written := serve(t, "HTTP/1.1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.between != nil {
					w = test.between(w)
				}
				l.ServeHTTP(w, r)
			}))
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
			<-taken
			l.want(fusebox.Closed) // the probe has succeeded already
			l.wantCount(count{successes: 1})
			l.clock.Advance(time.Hour) // it may stay as long as it likes

			read := bufio.NewReader(conn)
			answer, err := http.ReadResponse(read, nil)
			if err != nil || answer.StatusCode != 101 {
				t.Fatalf("answered %v, %v", answer, err)
			}
			fmt.Fprint(conn, "hello\n")
			if line, err := read.ReadString('\n'); line != "hello\n" || err != nil {
				t.Errorf("read %q, %v", line, err)
			}
			if _, err := read.ReadByte(); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v", err)
			}
			s.Close()
			l.wantCount(count{successes: 1})
			if got := l.totals(); got.Slow != 0 || !slices.Equal(asked, []int{101}) {
				t.Errorf("%d slow, judged by %v", got.Slow, asked)
			}
			if written.String() != "" {
				t.Errorf("the server's log: %s", written)
			}
		})
	}
}

func TestAHijackThatFailsDecidesNothing(t *testing.T) {
	l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Hijack: %v", err)
		}
		http.Error(w, "no upgrade here", 500)
	})
	l.get()
	l.wantCount(count{failures: 1})
	l.ServeHTTP(onlyUnwrap{httptest.NewRecorder()}, newRequest("/"))
	l.wantCount(count{failures: 2})
}

func TestAControllersFlushIsSeenBehindAWriterWithUnwrapOnly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		cancel() // a quiet return would be ignored now
	})
	w := httptest.NewRecorder()
	l.ServeHTTP(onlyUnwrap{w}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	l.wantCount(count{successes: 1})
	if !w.Flushed {
		t.Error("not flushed")
	}
}

func TestAStatusWrittenBeforeAHijackDecides(t *testing.T) {
	l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		if _, _, err := http.NewResponseController(w).Hijack(); err != nil {
			t.Error(err)
		}
	})
	l.ServeHTTP(&able{ResponseWriter: httptest.NewRecorder()}, newRequest("/"))
	l.wantCount(count{failures: 1})
}

func TestUnwrapReturnsTheServersWriter(t *testing.T) {
	recorder := httptest.NewRecorder()
	l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
		if got := w.(interface{ Unwrap() http.ResponseWriter }).Unwrap(); got != recorder {
			t.Errorf("Unwrap returns a %T", got)
		}
	})
	l.ServeHTTP(recorder, newRequest("/"))
}

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// play runs this process as another program of a test, until it is killed.
func play(role string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // the test is gone, and could not say so
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	var err error
	switch role {
	case "upstream":
		err = playUpstream(ctx, os.Getenv("FUSEBOX_E2E_ADDRESS"))
	case "crowd":
		err = playCrowd(os.Getenv("FUSEBOX_E2E_ADDRESS"), os.Getenv("FUSEBOX_E2E_SIZE"))
	default:
		err = fmt.Errorf("there is no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// another runs this test binary in a role.
func another(tb testing.TB, role string, env ...string) *process {
	tb.Helper()
	return start(tb, append(env, "FUSEBOX_E2E_ROLE="+role), os.Args[0])
}

// upstream runs a server of its own process, at a free port if address is empty,
// and returns it and its URL.
func upstream(tb testing.TB, address string) (*process, string) {
	tb.Helper()
	p := another(tb, "upstream", "FUSEBOX_E2E_ADDRESS="+address)
	return p, "http://" + p.sees(`upstream at (\S+)`)[1]
}

// playUpstream serves
//
//	/            "good"
//	/for?ms=300  "good", after so long; the head is sent at once
//	/late?ms=300 likewise, head and all
//	/echo        what an upgraded connection sends, line by line
func playUpstream(ctx context.Context, address string) error {
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "good") })
	wait := func(w http.ResponseWriter, r *http.Request, first bool) {
		ms, _ := strconv.Atoi(r.FormValue("ms"))
		if first {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
			_, _ = io.WriteString(w, "good")
		case <-r.Context().Done():
		}
	}
	mux.HandleFunc("/for", func(w http.ResponseWriter, r *http.Request) { wait(w, r, true) })
	mux.HandleFunc("/late", func(w http.ResponseWriter, r *http.Request) { wait(w, r, false) })
	mux.HandleFunc("/echo", func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, line)
		}
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() {
		<-ctx.Done()
		_ = s.Close()
	}()
	fmt.Fprintf(os.Stdout, "upstream at %s\n", l.Addr())
	_ = s.Serve(l)
	return nil
}

// crowded is what a crowd prints in the end.
type crowded struct{ Open, Good, Bad int }

// playCrowd opens many connections, holds them open together, makes two
// requests on each, and prints how many were answered.
func playCrowd(address, size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	var good, open, bad atomic.Int64
	var all, allOpen sync.WaitGroup
	allOpen.Add(n)
	dialing := make(chan struct{}, 64) // a backlog has an end
	for range n {
		all.Go(func() {
			dialing <- struct{}{}
			conn, err := dial(context.Background(), address)
			<-dialing
			allOpen.Done()
			if err != nil {
				bad.Add(1)
				return
			}
			defer func() { _ = conn.Close() }()
			open.Add(1)
			allOpen.Wait() // nobody begins, and so nobody ends, before all are there
			_ = conn.SetDeadline(time.Now().Add(patience))
			r := bufio.NewReader(conn)
			for range 2 {
				if _, err := fmt.Fprintf(conn, "GET /late?ms=200 HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
					bad.Add(1)
					continue
				}
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					bad.Add(1)
					return
				}
				text, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK && string(text) == "good" {
					good.Add(1)
				} else {
					bad.Add(1)
				}
			}
		})
	}
	all.Wait()
	return json.NewEncoder(os.Stdout).Encode(crowded{int(open.Load()), int(good.Load()), int(bad.Load())})
}

// load is clients that go on calling until they are told to stop.
type load struct {
	good, bad atomic.Int64
	stopped   chan struct{}
	workers   sync.WaitGroup
	mu        sync.Mutex
	first     []string // what went wrong, a few of it
}

// calls starts n clients that call url; judge says what is wrong with an answer.
// Each has one connection and makes one call at a time.
func calls(n int, url string, judge func(status int, body string, err error) error) *load {
	l := &load{stopped: make(chan struct{})}
	for range n {
		l.workers.Go(func() {
			t := &http.Transport{MaxIdleConnsPerHost: 1}
			defer t.CloseIdleConnections()
			c := &http.Client{Transport: t, Timeout: patience}
			for {
				select {
				case <-l.stopped:
					return
				default:
				}
				if err := judge(call(c, url)); err != nil {
					l.bad.Add(1)
					l.mu.Lock()
					if len(l.first) < 5 {
						l.first = append(l.first, err.Error())
					}
					l.mu.Unlock()
					continue
				}
				l.good.Add(1)
			}
		})
	}
	return l
}

func call(c *http.Client, url string) (int, string, error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// good is the judge for whom only the upstream's own answer will do.
func good(status int, body string, err error) error {
	if err != nil {
		return err
	}
	if status != http.StatusOK || body != "good" {
		return fmt.Errorf("%d %.100q", status, body)
	}
	return nil
}

// stop ends the clients, each after the call it is in.
func (l *load) stop() {
	close(l.stopped)
	l.workers.Wait()
}

// lost fails the test if a call went wrong.
func (l *load) lost(tb testing.TB) {
	tb.Helper()
	if l.bad.Load() > 0 || l.good.Load() == 0 {
		tb.Errorf("%d calls went wrong, %d went well: %s", l.bad.Load(), l.good.Load(), strings.Join(l.first, "; "))
	}
}

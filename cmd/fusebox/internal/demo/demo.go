// Package demo is what "fusebox serve" shows when it has nothing to guard: a
// dependency that misbehaves on a schedule, clients that call it through the
// proxy, and a report in sentences of what the breaker does about it. The proxy
// between them is the real one, and knows nothing of this package.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// phase is a part of the schedule.
type phase struct {
	lasts time.Duration
	what  string        // it does, for the report
	fails bool          // every answer is 503
	takes time.Duration // to answer
}

// schedule goes round. The breaker is seen opening, probing and closing in the
// first twenty seconds of it.
func schedule() []phase {
	const quick = 5 * time.Millisecond
	return []phase{
		{4 * time.Second, "answers well", false, quick},
		{6 * time.Second, "answers 503 to everything", true, quick},
		{10 * time.Second, "answers well again", false, quick},
		{6 * time.Second, "answers slowly: it takes 800ms", false, 800 * time.Millisecond},
		{10 * time.Second, "answers well again", false, quick},
	}
}

// perSecond is how often clients call.
const perSecond = 40

// Demo is one demonstration.
type Demo struct {
	pace     float64
	listener net.Listener
	server   *http.Server
	now      atomic.Pointer[phase]
}

// New starts the dependency on a free port of loopback. The demonstration goes
// pace times as fast as usual.
func New(ctx context.Context, pace float64) (*Demo, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the dependency of the demonstration: %w", err)
	}
	d := &Demo{pace: pace, listener: l}
	d.now.Store(&schedule()[0])
	d.server = &http.Server{Handler: http.HandlerFunc(d.answer), ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func() { _ = d.server.Serve(l) }() // until Close
	return d, nil
}

// Close ends the dependency.
func (d *Demo) Close() { _ = d.server.Close() }

// scaled returns a duration at the demonstration's pace.
func (d *Demo) scaled(t time.Duration) time.Duration {
	return max(time.Duration(float64(t)/d.pace), time.Millisecond)
}

// Flags returns the settings of the demonstration: everything is on loopback,
// and the breaker has a rule for slow answers.
func (d *Demo) Flags() []config.Flag {
	const breaker = "upstreams.demo.breaker."
	var flags []config.Flag
	for _, f := range [][2]string{
		{"listen", "127.0.0.1:8080"},
		{"admin.listen", "127.0.0.1:9901"},
		{"logging.level", "error"}, // the report tells the rest
		{"shutdown.wait", "off"},
		{"shutdown.grace", "2s"},
		{"upstreams.demo.endpoints", "http://" + d.listener.Addr().String()},
		{breaker + "slow-after", d.scaled(400 * time.Millisecond).String()},
		{breaker + "window", d.scaled(4 * time.Second).String()},
		{breaker + "open-for", d.scaled(time.Second).String()},
		{breaker + "open-for-max", d.scaled(3 * time.Second).String()},
	} {
		flags = append(flags, config.Flag{Name: "of the demonstration", Path: f[0], Value: f[1]})
	}
	return flags
}

// answer is the dependency.
func (d *Demo) answer(w http.ResponseWriter, r *http.Request) {
	p := d.now.Load()
	select {
	case <-time.After(d.scaled(p.takes)):
	case <-r.Context().Done():
		return
	}
	if p.fails {
		http.Error(w, "the dependency does not feel well", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "here you are\n")
}

// Run shows the demonstration until the context ends: clients call the proxy,
// and what happens is written to w. admin may be nil; then it is not told of the
// breaker.
func (d *Demo) Run(ctx context.Context, w io.Writer, proxy, admin net.Addr) {
	s := &story{w: w, began: time.Now()}
	s.opening(proxy, admin)
	client := newClient(proxy)
	defer client.CloseIdleConnections()
	var running sync.WaitGroup
	defer running.Wait()
	if admin != nil {
		running.Go(func() { s.listen(ctx, admin) })
	}
	running.Go(func() { s.call(ctx, client, d.scaled(time.Second/perSecond)) })
	for {
		for _, p := range schedule() {
			d.now.Store(&p)
			s.tell("the dependency %s", p.what)
			select {
			case <-time.After(d.scaled(p.lasts)):
			case <-ctx.Done():
				return
			}
			s.count()
		}
	}
}

// newClient returns a client of the proxy, wherever that listens.
func newClient(proxy net.Addr) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, proxy.Network(), reachable(proxy))
		},
	}}
}

// reachable returns where to dial for what listens on an address.
func reachable(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok && t.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(t.Port))
	}
	return a.String()
}

// call calls at a steady rate, whatever becomes of it, as the clients of a busy
// service do.
func (s *story) call(ctx context.Context, client *http.Client, every time.Duration) {
	const most = 256 // calls at a time
	places := make(chan struct{}, most)
	tick := time.NewTicker(every)
	defer tick.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		select {
		case places <- struct{}{}:
			running.Go(func() {
				s.result(request(ctx, client))
				<-places
			})
		default: // the clients are all waiting
		}
	}
}

// request makes one call, and reports how it ended.
func request(ctx context.Context, client *http.Client) (answered, refused bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://demo.localhost/", http.NoBody)
	if err != nil {
		return false, false
	}
	resp, err := client.Do(r)
	if err != nil {
		return false, errors.Is(err, context.Canceled)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK, resp.Header.Get("Fusebox-Breaker") != ""
}

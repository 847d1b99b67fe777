package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// mark is the header of every answer of an upstream: its first URL.
const mark = "Faults-Upstream"

// upstream follows the schedule once it has been started, is healthy before,
// and counts. It listens on two addresses: some proxies open only where there
// is a choice.
//
// /call/N is call number N of the load, counted by number and by phase; every
// other path is a health check of the proxy's.
type upstream struct {
	schedule schedule
	server   *http.Server
	urls     [2]string
	began    atomic.Pointer[time.Time] // nil: not started
	reached  []atomic.Int32            // by call
	arrivals []atomic.Int32            // by phase
	checks   atomic.Int32
}

func newUpstream(s schedule) (*upstream, error) {
	u := &upstream{
		schedule: s,
		reached:  make([]atomic.Int32, s.calls()),
		arrivals: make([]atomic.Int32, len(s)),
	}
	u.server = &http.Server{Handler: u, ReadHeaderTimeout: time.Minute}
	for i := range u.urls {
		l, err := listen()
		if err != nil {
			return nil, errors.Join(err, u.Close())
		}
		u.urls[i] = "http://" + l.Addr().String()
		go func() { _ = u.server.Serve(l) }() // ends with Close
	}
	return u, nil
}

// Close ends the listeners and every connection.
func (u *upstream) Close() error { return u.server.Close() }

// start begins the schedule.
func (u *upstream) start(t time.Time) { u.began.Store(&t) }

// ServeHTTP answers as the schedule says for the time at which the call arrives.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i := 0
	began := u.began.Load()
	if began != nil {
		i = u.schedule.at(time.Since(*began))
	}
	id, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/call/"))
	switch {
	case err != nil:
		u.checks.Add(1)
	case id < 0 || id >= len(u.reached) || began == nil:
		http.Error(w, "no such call now", http.StatusBadRequest)
		return
	default:
		u.reached[id].Add(1)
		u.arrivals[i].Add(1)
	}

	k := u.schedule[i].Kind
	if wait(r.Context(), latency(k, id)) != nil {
		return // the proxy has given up
	}
	w.Header().Set(mark, u.urls[0])
	if k == errors503 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, "an answer of the upstream\n") // the other side may be gone
}

// counts returns how often each call came, and how many came in each phase.
func (u *upstream) counts() (reached, arrivals []int32) {
	load := func(from []atomic.Int32) (to []int32) {
		for i := range from {
			to = append(to, from[i].Load())
		}
		return to
	}
	return load(u.reached), load(u.arrivals)
}

func listen() (net.Listener, error) {
	return new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
}

// wait returns nil after d, or the error of ctx if that is done before.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/sim"
)

// real runs the workers as goroutines that make requests to servers on
// loopback, for all breakers at the same time, each with a server of its own.
func (o *halfopenOptions) real(ctx context.Context, p *Params, subjects []halfopenSubject, starts []time.Duration) ([]halfopenCounts, error) {
	counts := make([]halfopenCounts, len(subjects))
	errs := make([]error, len(subjects))
	var wg sync.WaitGroup
	for i, s := range subjects {
		wg.Go(func() { errs[i] = o.serveAndCall(ctx, s, starts, &counts[i]) })
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		wg.Wait()
	}()
	o.watch(p, finished)
	return counts, errors.Join(errs...)
}

// watch says how far the run is until it is finished.
func (o *halfopenOptions) watch(p *Params, finished <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-finished:
			return
		case <-tick.C:
			p.Progress(min(n, int(o.length.Seconds())), int(o.length.Seconds()))
		}
	}
}

func (o *halfopenOptions) serveAndCall(ctx context.Context, s halfopenSubject, starts []time.Duration, counts *halfopenCounts) (err error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	loop := sim.Real()
	server := &http.Server{Handler: o.handler(loop), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	transport := &http.Transport{MaxIdleConnsPerHost: len(starts)}
	defer func() {
		transport.CloseIdleConnections()
		closed := server.Close()
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			closed = errors.Join(closed, e)
		}
		err = errors.Join(err, closed)
	}()

	w := &halfopenWorkers{
		halfopenOptions: o, loop: loop, client: &http.Client{Transport: transport},
		url: "http://" + listener.Addr().String(), counts: counts,
	}
	w.breaker = s.make(loop, w.changed)
	var wg sync.WaitGroup
	for _, start := range starts {
		wg.Go(func() { w.work(ctx, start) })
	}
	wg.Wait()
	return ctx.Err()
}

// handler is the dependency: it takes its time, and fails in the outage.
func (o *halfopenOptions) handler(loop *sim.Loop) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		down := o.down(loop.Elapsed())
		if pause(r.Context(), o.latency) != nil {
			return
		}
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}

// pause waits; the error is that of the context, if it ends first.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// halfopenWorkers is the workers of one breaker.
type halfopenWorkers struct {
	*halfopenOptions
	loop    *sim.Loop
	breaker sim.Breaker
	client  *http.Client
	url     string

	mu     sync.Mutex
	state  fusebox.State
	counts *halfopenCounts
}

// count changes the counts under the lock.
func (w *halfopenWorkers) count(f func(*halfopenCounts)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(w.counts)
}

func (w *halfopenWorkers) changed(_, to fusebox.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = to
	switch to {
	case fusebox.Open:
		w.counts.opens++
	case fusebox.HalfOpen:
		w.counts.halfOpens++
	}
}

// work is one worker.
func (w *halfopenWorkers) work(ctx context.Context, start time.Duration) {
	for err := pause(ctx, start); err == nil && w.loop.Elapsed() < w.length; err = pause(ctx, w.pause) {
		done, v := w.breaker.Allow()
		switch v {
		case sim.RejectedOpen:
			w.count(func(c *halfopenCounts) { c.rejectedOpen++ })
		case sim.RejectedProbing:
			w.count(func(c *halfopenCounts) { c.rejectedProbing++ })
		default:
			w.request(ctx, done)
		}
	}
}

func (w *halfopenWorkers) request(ctx context.Context, done func(bool)) {
	w.mu.Lock()
	probe := w.state == fusebox.HalfOpen
	w.mu.Unlock()
	up, err := w.get(ctx)
	w.count(func(c *halfopenCounts) {
		c.reached++
		switch {
		case err != nil:
			c.connectionErrors++
		case probe && !up:
			c.probesFailed++
		}
	})
	done(up)
}

func (w *halfopenWorkers) get(ctx context.Context) (up bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return false, err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK, errors.Join(err, response.Body.Close())
}

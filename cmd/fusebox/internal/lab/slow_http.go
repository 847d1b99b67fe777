package lab

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/timeout"
)

// real runs the server with one guard on loopback, with the two dependencies as
// servers behind it.
func (o *slowOptions) real(ctx context.Context, p *Params, g slowGuard) (found slowFound, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of requests that are still out at the end
	start := time.Now()
	var stops []func() error
	defer func() {
		cancel()
		for _, stop := range slices.Backward(stops) {
			err = errors.Join(err, stop())
		}
	}()
	serve := func(h http.Handler) (url string, e error) {
		url, stop, e := listenAndServe(ctx, h)
		if e == nil {
			stops = append(stops, stop)
		}
		return url, e
	}
	toSlow := new(gauge)
	healthy, err := serve(o.dependency(start, false, new(gauge)))
	if err != nil {
		return found, err
	}
	slow, err := serve(o.dependency(start, true, toSlow))
	if err != nil {
		return found, err
	}
	front := &slowFront{
		slots:  bulkhead.New(bulkhead.Config{Limit: o.slots, MaxWait: o.wait, MaxWaiting: 10 * o.slots}),
		guard:  o.guard(g),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.slots}},
		urls:   map[string]string{"/healthy": healthy, "/slow": slow},
	}
	stops = append(stops, func() error { front.client.CloseIdleConnections(); return nil })
	url, err := serve(front)
	if err != nil {
		return found, err
	}

	callers := &slowCallers{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10 * o.slots}}, start: start}
	stops = append(stops, func() error { callers.client.CloseIdleConnections(); return nil })
	watched := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		found.goroutines, found.memory = watchProcess(watched)
	}()
	var wg sync.WaitGroup
	for i, path := range []string{"/healthy", "/slow"} {
		wg.Go(func() { callers.arrive(ctx, url+path, i, o.rate, 2*o.lead+o.slowFor, p.Rand(uint64(i))) })
	}
	wg.Wait()
	close(watched)
	<-watching
	found.slots, found.toSlow = front.busy.max(), toSlow.max()
	o.judge(&found, callers.answers)
	return found, ctx.Err()
}

// judge sums up the answers of the time in which the one dependency is slow.
func (o *slowOptions) judge(found *slowFound, answers []slowAnswer) {
	var calls, served [2]int
	var took []time.Duration
	for _, a := range answers {
		if a.began < o.lead || a.began >= o.lead+o.slowFor {
			continue
		}
		calls[a.kind]++
		if !a.ok {
			continue
		}
		served[a.kind]++
		if a.kind == 0 {
			took = append(took, a.took)
		}
	}
	slices.Sort(took)
	if len(took) > 0 {
		found.p50, found.p99 = took[len(took)/2], took[len(took)*99/100]
	}
	found.served = float64(served[0]) / float64(max(calls[0], 1))
	found.slowServed = float64(served[1]) / float64(max(calls[1], 1))
}

// listenAndServe serves on loopback until stop is called, which waits for it.
func listenAndServe(ctx context.Context, h http.Handler) (url string, stop func() error, err error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	stop = func() error {
		err := server.Close()
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		return err
	}
	return "http://" + listener.Addr().String(), stop, nil
}

// gauge counts what goes on at a time.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

func (g *gauge) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

func (g *gauge) max() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}

// dependency is a server that takes its time.
func (o *slowOptions) dependency(start time.Time, slows bool, calls *gauge) http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		calls.add(1)
		defer calls.add(-1)
		latency := o.latency
		if at := time.Since(start); slows && at >= o.lead && at < o.lead+o.slowFor {
			latency = o.slow
		}
		if pause(r.Context(), latency) != nil {
			return // nobody waits for the answer
		}
	})
}

// guard returns the policies around the calls to the slow dependency; nil: none.
func (o *slowOptions) guard(g slowGuard) fusebox.Policy {
	var policies []fusebox.Policy
	if g.bulkhead {
		policies = append(policies, bulkhead.New(bulkhead.Config{Limit: o.bulkhead}))
	}
	if g.breaker {
		var c fusebox.Config
		if g.slow {
			c.SlowAfter = o.slowAfter
		}
		policies = append(policies, fusebox.New("slow", c))
	}
	if g.timeout {
		policies = append(policies, timeout.New(o.timeout))
	}
	if len(policies) == 0 {
		return nil
	}
	return fusebox.Chain(policies[0], policies[1:]...)
}

// slowFront is the server with a bounded number of handlers.
type slowFront struct {
	slots  *bulkhead.Policy
	busy   gauge
	guard  fusebox.Policy // of /slow; nil: none
	client *http.Client
	urls   map[string]string // by path
}

// ServeHTTP takes a slot and asks the dependency that the path names.
func (f *slowFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := f.slots.Do(r.Context(), func(ctx context.Context) error {
		f.busy.add(1)
		defer f.busy.add(-1)
		ask := func(ctx context.Context) error { return get(ctx, f.client, f.urls[r.URL.Path]) }
		if r.URL.Path == "/slow" && f.guard != nil {
			return f.guard.Do(ctx, ask)
		}
		return ask(ctx)
	})
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

var errStatus = errors.New("lab: the answer is not OK")

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if response.StatusCode != http.StatusOK {
		err = errors.Join(err, errStatus)
	}
	return errors.Join(err, response.Body.Close())
}

// slowCallers makes requests to the front.
type slowCallers struct {
	client *http.Client
	start  time.Time

	mu      sync.Mutex
	answers []slowAnswer
}

// slowAnswer is what became of one request.
type slowAnswer struct {
	kind        int // 0: needs the healthy one
	began, took time.Duration
	ok          bool
}

// arrive makes requests that arrive by chance, until all has ended, and waits
// for their answers.
func (c *slowCallers) arrive(ctx context.Context, url string, kind int, rate float64, until time.Duration, rng *rand.Rand) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for next := time.Duration(0); ; {
		next += time.Duration(rng.ExpFloat64() / rate * float64(time.Second))
		if next >= until || pause(ctx, next-time.Since(c.start)) != nil {
			return
		}
		wg.Go(func() {
			began := time.Now()
			err := get(ctx, c.client, url)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.answers = append(c.answers, slowAnswer{kind, next, time.Since(began), err == nil})
		})
	}
}

// watchProcess returns the most goroutines and the most bytes of the heap that
// the program has until done is closed, without garbage from before.
func watchProcess(done <-chan struct{}) (goroutines int, memory uint64) {
	runtime.GC()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		goroutines = max(goroutines, runtime.NumGoroutine())
		metrics.Read(heap)
		memory = max(memory, heap[0].Value.Uint64())
		select {
		case <-done:
			return goroutines, memory
		case <-tick.C:
		}
	}
}

package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxgrpc"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
	"github.com/fusebox-go/fusebox/fuseboxprom"
)

// repeated is a call of some kind, made again and again.
type repeated func()

func (r repeated) calls(load) func(int) int {
	return func(n int) (rejected int) {
		for range n {
			r()
		}
		return 0
	}
}

// memory answers every request at once.
type memory struct{ resp *http.Response }

func newMemory() memory {
	return memory{&http.Response{StatusCode: http.StatusOK, Body: http.NoBody}}
}

func (m memory) RoundTrip(*http.Request) (*http.Response, error) { return m.resp, nil }

func newRoundTrips(rt http.RoundTripper) breaker {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://payments.example/v1", nil)
	if err != nil {
		panic(err)
	}
	return repeated(func() {
		if _, err := rt.RoundTrip(req); err != nil {
			panic(err)
		}
	})
}

// nowhere is a ResponseWriter that forgets.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}

func newServes(wrap func(http.Handler) http.Handler) breaker {
	hello := []byte("hello")
	h := wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(hello) }))
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "/v1", nil)
	if err != nil {
		panic(err)
	}
	r.Pattern = "GET /v1"
	w := nowhere{http.Header{}}
	return repeated(func() { h.ServeHTTP(w, r) })
}

func newUnaryClient(with grpc.UnaryClientInterceptor) breaker {
	conn, err := grpc.NewClient("passthrough:///payments", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	ctx := context.Background()
	return repeated(func() {
		if err := with(ctx, "/v1.Payments/Charge", nil, nil, conn, invoke); err != nil {
			panic(err)
		}
	})
}

func newUnaryServer(with grpc.UnaryServerInterceptor) breaker {
	handle := func(context.Context, any) (any, error) { return nil, nil }
	ctx, info := context.Background(), &grpc.UnaryServerInfo{FullMethod: "/v1.Payments/Charge"}
	return repeated(func() {
		if _, err := with(ctx, nil, info, handle); err != nil {
			panic(err)
		}
	})
}

// ended is a stream that is at its end, and says so to who asked for it, as
// gRPC does.
type ended struct {
	grpc.ClientStream
	opts []grpc.CallOption
}

func (e *ended) RecvMsg(any) error {
	for _, o := range e.opts {
		if f, ok := o.(grpc.OnFinishCallOption); ok {
			f.OnFinish(nil)
		}
	}
	return io.EOF
}

// newStreams opens streams and receives their end, under a context that can be
// cancelled, as nearly all are.
func newStreams(with grpc.StreamClientInterceptor) breaker {
	conn, err := grpc.NewClient("passthrough:///payments", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_ = cancel // the context lives as long as the process
	desc, stream := &grpc.StreamDesc{ServerStreams: true}, &ended{}
	open := func(_ context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, opts ...grpc.CallOption) (grpc.ClientStream, error) { //nolint:unparam // a grpc.Streamer
		stream.opts = opts
		return stream, nil
	}
	opts := []grpc.CallOption{grpc.StaticMethod()} // which generated code gives
	return repeated(func() {
		s, err := with(ctx, desc, conn, "/v1.Payments/Watch", open, opts...)
		if err != nil {
			panic(err)
		}
		_ = s.RecvMsg(nil)
	})
}

// scraped is how many breakers a scrape shows.
const scraped = 1000

// newScraped returns a collector of breakers, the first of them, and a registry
// that gathers their metrics.
func newScraped() (*fuseboxprom.Collector, *fusebox.Breaker, *prometheus.Registry) {
	c := &fuseboxprom.Collector{}
	var first *fusebox.Breaker
	for i := range scraped {
		b := fusebox.New(fmt.Sprintf("breaker-%04d", i), fusebox.Config{})
		if first == nil {
			first = b
		}
		c.Add(b)
	}
	return c, first, gathering(c)
}

func gathering(c prometheus.Collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	return r
}

// constants are metrics of the client library, made once.
type constants []prometheus.Metric

func (constants) Describe(chan<- *prometheus.Desc) {}

func (c constants) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c {
		ch <- m
	}
}

// newConstants has as many constant metrics as a scrape of the breakers of c,
// with the same names, labels and values, in the same order.
func newConstants(c *fuseboxprom.Collector) (all constants) {
	kinds := map[fuseboxmetrics.Kind]prometheus.ValueType{
		fuseboxmetrics.Counter: prometheus.CounterValue,
		fuseboxmetrics.Gauge:   prometheus.GaugeValue,
	}
	descs := map[string]*prometheus.Desc{}
	for r := range c.Read() {
		values := r.Values
		for _, m := range r.Subject.Metrics() {
			if descs[m.Name] == nil {
				descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, append([]string{"name"}, m.Labels...), nil)
			}
			for i, labels := range m.Series {
				labels = append([]string{r.Name}, labels...)
				all = append(all, prometheus.MustNewConstMetric(descs[m.Name], kinds[m.Kind], values[i], labels...))
			}
			values = values[len(m.Series):]
		}
	}
	return all
}

func gather(r *prometheus.Registry) {
	if _, err := r.Gather(); err != nil {
		panic(err)
	}
}

func newFuseboxScrape(rules) breaker {
	_, _, r := newScraped()
	return repeated(func() { gather(r) })
}

func newConstantScrape(rules) breaker {
	c, _, _ := newScraped()
	r := gathering(newConstants(c))
	return repeated(func() { gather(r) })
}

// beside is calls through one of the breakers that are scraped, while scrapes
// run without a pause.
type beside struct {
	fuseboxDo
	scrape func() // or what runs in its place
}

func newBesideScrapes() chunked {
	_, b, r := newScraped()
	return beside{fuseboxDo{b, context.Background()}, func() { gather(r) }}
}

func newBesideConstants() chunked {
	c, b, _ := newScraped()
	r := gathering(newConstants(c))
	return beside{fuseboxDo{b, context.Background()}, func() { gather(r) }}
}

func newBesideNothing() chunked {
	_, b, _ := newScraped()
	return beside{fuseboxDo{b, context.Background()}, func() { time.Sleep(time.Millisecond) }}
}

// sample makes calls during whole scrapes, at least for d, since their parts
// differ in what they leave to others. It returns the median of chunks: those
// during which the core was taken away say nothing of a call.
func (b beside) sample(d time.Duration) float64 {
	var done atomic.Bool
	go func() {
		defer done.Store(true)
		for start := time.Now(); time.Since(start) < d; {
			b.scrape()
		}
	}()
	const chunk = 1000
	call := b.calls(succeed)
	var times []float64
	for once := true; once || !done.Load(); once = false {
		start := time.Now()
		call(chunk)
		times = append(times, float64(time.Since(start).Nanoseconds())/chunk)
	}
	return quantile(times, 0.5)
}

// adapterRows measure what an adapter adds to what it stands around.
func adapterRows() []Row {
	var (
		client fuseboxgrpc.Client
		server fuseboxgrpc.Server
	)
	adds := func(name, title, bare string, base func(rules) breaker, with ...contender) Row {
		row := Row{
			Name: name, Title: title, rules: usual, cores: 1,
			contenders: append([]contender{{name: bare, build: base}}, with...),
		}
		for _, c := range with {
			row.goals = append(row.goals,
				goal{of: c.name, over: bare, adds: true, max: 1000},
				goal{of: c.name, over: bare, adds: true, allocs: true, max: 2})
		}
		return row
	}
	return []Row{
		adds("http-client", "HTTP transport around a RoundTripper that answers from memory",
			"the RoundTripper alone", func(rules) breaker { return newRoundTrips(newMemory()) },
			contender{name: "fuseboxhttp Transport", build: func(rules) breaker {
				return newRoundTrips(&fuseboxhttp.Transport{Base: newMemory()})
			}}),
		adds("http-server", "HTTP middleware around a handler that writes to nowhere",
			"the handler alone", func(rules) breaker {
				return newServes(func(h http.Handler) http.Handler { return h })
			},
			contender{name: "fuseboxhttp Handler", build: func(rules) breaker {
				return newServes(func(h http.Handler) http.Handler { return &fuseboxhttp.Handler{Handler: h} })
			}}),
		adds("grpc-client", "gRPC client interceptor around a call that does nothing",
			"the invoker alone", func(rules) breaker {
				return newUnaryClient(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
					return invoke(ctx, method, req, reply, conn, opts...)
				})
			},
			contender{name: "fuseboxgrpc Client", build: func(rules) breaker { return newUnaryClient(client.UnaryInterceptor()) }}),
		adds("grpc-server", "gRPC server interceptor around a handler that does nothing",
			"the handler alone", func(rules) breaker {
				return newUnaryServer(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
					return handle(ctx, req)
				})
			},
			contender{name: "fuseboxgrpc Server", build: func(rules) breaker { return newUnaryServer(server.UnaryInterceptor()) }}),
		adds("grpc-stream", "gRPC client interceptor around a stream that ends at once",
			"the stream alone", func(rules) breaker {
				return newStreams(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
					return open(ctx, desc, conn, method, opts...)
				})
			},
			contender{
				name: "fuseboxgrpc Client, stream", build: func(rules) breaker { return newStreams(client.StreamInterceptor()) },
				note: "the stream, and a word from gRPC when its context ends, without which a client that leaves would go unseen",
			}),
		{
			Name: "scrape", Title: "A scrape of 1,000 breakers, 62,000 series", rules: usual, cores: 1, slow: true,
			contenders: []contender{
				{name: "constant metrics", build: newConstantScrape, note: "as many, made once, in the same order"},
				{name: "fuseboxprom Collector", build: newFuseboxScrape},
			},
			goals: []goal{{of: "fuseboxprom Collector", over: "constant metrics", max: 1.5}},
		},
		{
			Name: "beside-scrapes", Title: "A call while 1,000 breakers, its own among them, are scraped without a pause", rules: usual, cores: 1,
			Note: "A scrape needs a core, memory and the collector of garbage, whatever it shows: what it costs calls beyond that is the ratio.",
			contenders: []contender{
				{name: "fusebox Do, alone", chunks: newBesideNothing},
				{name: "fusebox Do, beside constant metrics", chunks: newBesideConstants, note: "gathered without a pause in place of scrapes"},
				{name: "fusebox Do, beside scrapes", chunks: newBesideScrapes},
			},
			goals: []goal{{of: "fusebox Do, beside scrapes", over: "fusebox Do, beside constant metrics", max: 1.1}},
		},
	}
}

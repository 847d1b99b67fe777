package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxgrpc"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
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

// ended is a stream that is at its end.
type ended struct{ grpc.ClientStream }

func (ended) RecvMsg(any) error { return io.EOF }

// newStreams opens streams and receives their end, under a context that can be
// cancelled, as nearly all are.
func newStreams(with grpc.StreamClientInterceptor) breaker {
	conn, err := grpc.NewClient("passthrough:///payments", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_ = cancel // the context lives as long as the process
	desc, stream := &grpc.StreamDesc{ServerStreams: true}, grpc.ClientStream(ended{})
	open := func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) { //nolint:unparam // a grpc.Streamer
		return stream, nil
	}
	return repeated(func() {
		s, err := with(ctx, desc, conn, "/v1.Payments/Watch", open)
		if err != nil {
			panic(err)
		}
		_ = s.RecvMsg(nil)
	})
}

// scraped is how many breakers a scrape shows.
const scraped = 1000

func newScrape(c prometheus.Collector) breaker {
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	return repeated(func() {
		if _, err := r.Gather(); err != nil {
			panic(err)
		}
	})
}

func newFuseboxScrape(rules) breaker {
	c := &fuseboxprom.Collector{}
	for i := range scraped {
		c.Add(fusebox.New(fmt.Sprintf("breaker-%04d", i), fusebox.Config{}))
	}
	return newScrape(c)
}

// constants are the metrics of a scrape, made once.
type constants []prometheus.Metric

func (constants) Describe(chan<- *prometheus.Desc) {}

func (c constants) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c {
		ch <- m
	}
}

// newConstantScrape gathers as many constant metrics as a scrape of breakers,
// with the same names and labels, in the same order.
func newConstantScrape(rules) breaker {
	c := &fuseboxprom.Collector{}
	for i := range scraped {
		c.Add(fusebox.New(fmt.Sprintf("breaker-%04d", i), fusebox.Config{}))
	}
	ch := make(chan prometheus.Metric)
	go func() {
		c.Collect(ch)
		close(ch)
	}()
	var all constants
	for m := range ch {
		all = append(all, m)
	}
	return newScrape(all)
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
				note: "the stream, and a watch over its context, without which a client that leaves would go unseen",
			}),
		{
			Name: "scrape", Title: "A scrape of 1,000 breakers, 62,000 series", rules: usual, cores: 1, slow: true,
			contenders: []contender{
				{name: "constant metrics", build: newConstantScrape, note: "as many, made once, in the same order"},
				{name: "fuseboxprom Collector", build: newFuseboxScrape},
			},
			goals: []goal{{of: "fuseboxprom Collector", over: "constant metrics", max: 1.5}},
		},
	}
}

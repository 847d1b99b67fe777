package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/proxy"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
)

// childVariable makes the test binary one of the two proxies that are compared,
// in a process of its own, so that the cost of client and server is not in it.
const childVariable = "FUSEBOX_PROXY_TEST_CHILD"

func TestMain(m *testing.M) {
	if what, ok := os.LookupEnv(childVariable); ok {
		child(what)
		return
	}
	os.Exit(m.Run())
}

// wholeChain has every policy. Of body and answer nothing is kept: nobody who
// does not ask for it pays for that.
const wholeChain = `
	upstreams:
	  a:
	    endpoints: [%q]
	    bulkhead: {limit: 1000, max-wait: 1s}
	    retry: {attempts: 3}
	    breaker: {scope: endpoint, slow-after: 2s}
	    ejection: {max-share: 50%%}
	    fallback: {status: 503, body: sorry}
`

// child serves what says "plain URL" or "whole URL" until standard input ends, and
// answers each line there with the CPU time of the process so far.
func child(what string) {
	kind, upstream, _ := strings.Cut(what, " ")
	var h http.Handler
	if kind == "plain" {
		h = plain(upstream)
	} else {
		f, err := config.Parse("x.yaml", []byte(strings.ReplaceAll(fmt.Sprintf(wholeChain, upstream), "\t", "")), nil)
		if err != nil {
			panic(err)
		}
		h, err = proxy.New(&config.Config{File: *f}, proxy.Options{Admin: new(fuseboxadmin.Handler), Metrics: new(fuseboxmetrics.Set)})
		if err != nil {
			panic(err)
		}
	}
	s := httptest.NewServer(h)
	fmt.Println(s.URL)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			panic(err)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		json.NewEncoder(os.Stdout).Encode(usage{time.Duration(u.Utime.Nano() + u.Stime.Nano()), m.Mallocs, m.TotalAlloc})
	}
}

type usage struct {
	CPU            time.Duration
	Mallocs, Bytes uint64
}

// plain is a reverse proxy from the standard library with a transport like ours.
func plain(upstream string) http.Handler {
	u, err := url.Parse(upstream)
	if err != nil {
		panic(err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(u)
			pr.SetXForwarded()
		},
		Transport: &http.Transport{
			DialContext:        (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			DisableCompression: true, MaxIdleConnsPerHost: 1024, IdleConnTimeout: 90 * time.Second,
		},
		BufferPool: &pool{},
	}
}

type pool struct{ sync.Pool }

func (p *pool) Get() []byte {
	if b, ok := p.Pool.Get().(*[32 << 10]byte); ok {
		return b[:]
	}
	return make([]byte, 32<<10)
}

func (p *pool) Put(b []byte) { p.Pool.Put((*[32 << 10]byte)(b)) }

// process is a proxy in a process of its own.
type process struct {
	tb  testing.TB
	url string
	in  io.WriteCloser
	out *bufio.Scanner
}

func startProcess(tb testing.TB, kind, upstream string) *process {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+kind+" "+upstream)
	cmd.Stderr = os.Stderr
	p := &process{tb: tb}
	out, err := cmd.StdoutPipe()
	if err == nil {
		p.in, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.in.Close()
		cmd.Wait()
	})
	p.out = bufio.NewScanner(out)
	p.url = p.line()
	return p
}

func (p *process) line() string {
	if !p.out.Scan() {
		p.tb.Fatal("the proxy ended: ", p.out.Err())
	}
	return p.out.Text()
}

func (p *process) usage() (u usage) {
	io.WriteString(p.in, "\n")
	if err := json.Unmarshal([]byte(p.line()), &u); err != nil {
		p.tb.Fatal(err)
	}
	return u
}

// load makes n requests, on so many connections.
func (p *process) load(n, connections int) {
	t := &http.Transport{MaxIdleConnsPerHost: connections}
	defer t.CloseIdleConnections()
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for range n / connections {
				req, _ := http.NewRequestWithContext(p.tb.Context(), http.MethodGet, p.url+"/some/path?q=1", nil)
				resp, err := t.RoundTrip(req)
				if err != nil || resp.StatusCode != 200 {
					p.tb.Errorf("%v %v", resp, err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	all.Wait()
}

// BenchmarkProxy measures the CPU time of a request, of the proxy's process alone:
// the whole chain with metrics and admin, against the plain reverse proxy, in turn.
func BenchmarkProxy(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer upstream.Close()
	kinds := []string{"plain", "whole"}
	processes := map[string]*process{}
	for _, kind := range kinds {
		processes[kind] = startProcess(b, kind, upstream.URL)
		processes[kind].load(2000, 8)
	}
	total := map[string]usage{}
	n := 0
	for b.Loop() {
		const slice = 400
		for _, kind := range kinds {
			p := processes[kind]
			before := p.usage()
			p.load(slice, 8)
			after := p.usage()
			t := total[kind]
			t.CPU += after.CPU - before.CPU
			t.Mallocs += after.Mallocs - before.Mallocs
			t.Bytes += after.Bytes - before.Bytes
			total[kind] = t
		}
		n += slice
	}
	for _, kind := range kinds {
		b.ReportMetric(float64(total[kind].CPU.Microseconds())/float64(n), kind+"-µs/req")
		b.ReportMetric(float64(total[kind].Mallocs)/float64(n), kind+"-allocs/req")
		b.ReportMetric(float64(total[kind].Bytes)/float64(n), kind+"-B/req")
	}
	b.ReportMetric(float64(total["whole"].CPU)/float64(total["plain"].CPU), "ratio")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkInProcess is for profiles: client, proxy and server in one process.
func BenchmarkInProcess(b *testing.B) {
	upstream := handler(b, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	whole := start(b, configuration(b, wholeChain, upstream), func(o *proxy.Options) { o.Access = nil })
	for kind, h := range map[string]http.Handler{"plain": plain(upstream), "whole": whole} {
		b.Run(kind, func(b *testing.B) {
			s := httptest.NewServer(h)
			defer s.Close()
			p := &process{tb: b, url: s.URL}
			b.ReportAllocs()
			b.ResetTimer()
			p.load(b.N, 1)
		})
	}
}

package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/proxy"
	"github.com/fusebox-go/fusebox/fuseboxmetrics"
)

func TestApplyKeepsWhatHasNotChanged(t *testing.T) {
	b := newBackend(t, "b", 500)
	const text = `
		upstreams:
		  x: {endpoints: [%q], breaker: {consecutive: 2, open-for: %s, open-for-max: 1h}, bulkhead: {limit: %s}, retry: {attempts: %s, base-delay: 1ms}}
		  y: {endpoints: [%q], breaker: {scope: %s}}
		routes: [{upstream: x}, {prefix: /y, upstream: y}]
	`
	f := start(t, configuration(t, text, b.URL, "1h", "10", "1", b.URL, "endpoint"))
	f.get("/")
	f.get("/")
	before := f.breaker("x")
	if before.State != fusebox.Open {
		t.Fatal(before.State)
	}
	apply := func(args ...any) {
		t.Helper()
		if err := f.Apply(configuration(t, text, args...)); err != nil {
			t.Fatal(err)
		}
	}
	apply(b.URL, "1h", "20", "2", b.URL, "endpoint") // not the breaker
	if s := f.breaker("x"); s.State != fusebox.Open || s.Generation != before.Generation || s.Last.Cause != fusebox.CauseConsecutive {
		t.Errorf("%+v, want what it was", s)
	}
	apply(b.URL, "30m", "20", "2", b.URL, "upstream")
	if s := f.breaker("x"); s.State != fusebox.Open || s.Last.Cause != fusebox.CauseReconfigured || !s.Until.Before(before.Until) {
		t.Errorf("%+v, want it open and reconfigured, until %v at the latest", s, before.Until)
	}
	if got, want := f.names(), []string{"x", "y"}; !slices.Equal(got, want) {
		t.Errorf("breakers %q, want %q", got, want)
	}
	if err := f.Apply(configuration(t, "upstreams: {z: {endpoints: [%q]}}", b.URL)); err != nil {
		t.Fatal(err)
	}
	if got, want := f.names(), []string{"z"}; !slices.Equal(got, want) {
		t.Errorf("breakers %q, want %q", got, want)
	}
	for r := range f.metrics.Read() {
		if r.Subject != fuseboxmetrics.Breaker {
			t.Errorf("%v is still shown", r)
		}
	}
	f.get("/").want(t, 500, "b")
	f.Close()
	if got := f.names(); got != nil {
		t.Errorf("breakers %q after Close", got)
	}
}

func TestApplyChangesNothingWhereItFails(t *testing.T) {
	b := newBackend(t, "b", 200)
	body := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(body, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", b.URL))
	c := configuration(t, "upstreams: {y: {endpoints: [%q], fallback: {file: %q}}}", b.URL, body)
	os.Remove(body)
	if err := f.Apply(c); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "upstreams.y.fallback.file") {
		t.Errorf("%v", err)
	}
	if _, err := proxy.New(c, proxy.Options{}); err == nil {
		t.Error("New takes a file that is not there")
	}
	if got := f.names(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("breakers %q", got)
	}
	f.get("/").want(t, 200, "b")
}

func TestABulkheadSurvivesAnotherLimit(t *testing.T) {
	next := make(chan struct{})
	at := handler(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-next
		}
	})
	const text = "upstreams: {x: {endpoints: [%q], bulkhead: {limit: %d, max-wait: %s}}}"
	f := start(t, configuration(t, text, at, 2, "1ms"))
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { f.get("/wait").want(t, 200, "") })
	}
	inFlight := func() (n float64) {
		for r := range f.metrics.Read() {
			if r.Subject == fuseboxmetrics.Bulkhead {
				n = r.Values[0]
			}
		}
		return n
	}
	eventually(t, "both to be in flight", func() bool { return inFlight() == 2 })
	if err := f.Apply(configuration(t, text, at, 3, "1ms")); err != nil {
		t.Fatal(err)
	}
	if n := inFlight(); n != 2 {
		t.Errorf("%v in flight under the new limit, want 2", n)
	}
	f.get("/").want(t, 200, "")
	close(next)
	all.Wait()
}

// Under load, a hundred reloads a second lose no request, and leave nothing behind.
func TestManyReloadsUnderLoad(t *testing.T) {
	b, c := newBackend(t, "b", 200), newBackend(t, "c", 200)
	texts := []string{
		"upstreams: {x: {endpoints: [%q]}}",
		"upstreams: {x: {endpoints: [%q, %q], breaker: {scope: endpoint, open-for: 2s}, retry: {}}}",
		"upstreams: {x: {endpoints: [%q, %q], breaker: {consecutive: 30}, bulkhead: {limit: 100}}}",
		"upstreams: {y: {endpoints: [%q], fallback: {status: 503, last-good: {max-age: 1m}}}}",
		"upstreams: {x: {endpoints: [%q], bulkhead: {limit: 90, max-wait: 1s}, fallback: {upstream: y}}, y: {endpoints: [%q]}}\nroutes: [{upstream: x}]",
	}
	f := start(t, configuration(t, texts[0], b.URL))
	f.get("/").want(t, 200, "b")
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var made atomic.Int64
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				resp, err := f.open(http.MethodGet, nil)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 || err != nil || len(body) != 1 {
					t.Errorf("%d %q, %v", resp.StatusCode, body, err)
				}
				made.Add(1)
			}
		})
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range 100 {
		<-tick.C
		text := texts[i%len(texts)]
		args := []any{b.URL, c.URL}[:strings.Count(text, "%q")]
		if err := f.Apply(configuration(t, text, args...)); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	all.Wait()
	if made.Load() == 0 {
		t.Error("no request was made meanwhile")
	}
	if err := f.Apply(configuration(t, texts[0], b.URL)); err != nil {
		t.Fatal(err)
	}
	if got := f.names(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("breakers %q", got)
	}
	f.Close()
	f.client.CloseIdleConnections()
	// Connections of the proxy have two goroutines each: they are named by their functions.
	eventually(t, "the end of the proxy's connections", func() bool {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return bytes.Count(stacks, []byte("(*persistConn).readLoop")) == 0
	})
}

// Whatever their order, and whatever goes, none gets the breaker of another.
func TestEndpointsThatDifferInTheSchemeHaveTheirOwnBreakers(t *testing.T) {
	at := newBackend(t, "b", 200).where()
	const text = "upstreams: {x: {endpoints: [%q, %q], breaker: {scope: endpoint}}}"
	f := start(t, configuration(t, text, "http://"+at, "h2c://"+at))
	names := []string{"x/h2c://" + at, "x/http://" + at}
	f.force(t, names[1])
	if err := f.Apply(configuration(t, text, "h2c://"+at, "http://"+at)); err != nil {
		t.Fatal(err)
	}
	got := f.names()
	slices.Sort(got)
	if !slices.Equal(got, names) || f.breaker(names[0]).State != fusebox.Closed || f.breaker(names[1]).State != fusebox.Open {
		t.Errorf("breakers %q, want %q, the second held open", got, names)
	}
	if err := f.Apply(configuration(t, "upstreams: {x: {endpoints: [%q], breaker: {scope: endpoint}}}", "h2c://"+at)); err != nil {
		t.Fatal(err)
	}
	if s := f.breaker("x/" + at).State; s != fusebox.Closed {
		t.Errorf("%v, want closed: the one held open is gone", s)
	}
}

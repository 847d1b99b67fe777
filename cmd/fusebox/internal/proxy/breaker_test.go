package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

// where returns what an endpoint is called behind the name of its upstream.
func (b *backend) where() string { return strings.TrimPrefix(b.URL, "http://") }

// tally makes n requests and counts the answers by body.
func (f *fixture) tally(n int) map[string]int {
	f.tb.Helper()
	got := map[string]int{}
	for range n {
		got[f.get("/").body]++
	}
	return got
}

func TestC139AnEndpointThatHasRecoveredIsOfferedAgain(t *testing.T) {
	a, b := newBackend(t, "A", 500), newBackend(t, "B", 200)
	f := start(t, configuration(t, `
		upstreams:
		  x:
		    endpoints: [%q, %q]
		    breaker: {scope: endpoint, consecutive: 3, open-for: 150ms, open-jitter: off, probes: 1}
	`, a.URL, b.URL))
	f.tally(6)
	if got := a.count(); got != 3 {
		t.Fatalf("A got %d requests before it opened, want 3", got)
	}
	if got := f.tally(10); got["B"] != 10 {
		t.Errorf("while A is open: %v, want all from B", got)
	}
	if r := f.breaker("x/" + a.where()).Totals.RejectedOpen; r != 0 {
		t.Errorf("passing A over counts as %d rejections, want none", r)
	}
	a.set(200)
	eventually(t, "a probe of A", func() bool { return f.get("/").body == "A" })
	if got := f.tally(10); got["A"] != 5 || got["B"] != 5 {
		t.Errorf("after A has closed: %v, want 5 and 5", got)
	}
	probes := 0
	for _, l := range f.lines(len(readLines(t, f))) {
		if l.Probe {
			probes++
			if l.State != "half-open" || l.Endpoint != a.where() || l.Breaker != "x/"+a.where() {
				t.Errorf("a probe is logged as %+v", l)
			}
		}
	}
	if probes != 1 {
		t.Errorf("%d probes in the access log, want 1", probes)
	}
}

func TestC139WithAllEndpointsOpenTheRejectionSaysTheShortestWait(t *testing.T) {
	a, b := newBackend(t, "A", 500), newBackend(t, "B", 500)
	f := start(t, configuration(t, `
		upstreams:
		  x:
		    endpoints: [%q, %q]
		    breaker: {scope: endpoint, consecutive: 2, open-for: 1h, open-for-max: 2h, open-jitter: off}
	`, a.URL, b.URL))
	f.tally(4)
	got := f.get("/")
	got.want(t, 503, "x is not available\n")
	if after, _ := strconv.Atoi(got.Header.Get("Retry-After")); after < 3590 || after > 3600 {
		t.Errorf("Retry-After is %q, want about an hour", got.Header.Get("Retry-After"))
	}
	if h := got.Header.Get("Fusebox-Breaker"); h != "x/"+a.where()+"; state=open; cause=consecutive" && h != "x/"+b.where()+"; state=open; cause=consecutive" {
		t.Errorf("Fusebox-Breaker is %q", h)
	}
	if n := a.count() + b.count(); n != 4 {
		t.Errorf("%d requests were made, want 4", n)
	}
	l := f.lines(5)[4]
	if l.Outcome != "rejected" || l.Attempts != 0 || l.State != "open" || l.Breaker == "" {
		t.Errorf("logged %+v", l)
	}
}

func TestC153AClientThatLeavesIsIgnored(t *testing.T) {
	arrived := make(chan struct{})
	at := handler(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	f := start(t, configuration(t, `
		upstreams:
		  x:
		    endpoints: [%q]
		    breaker: {consecutive: 5, min-calls: 5}
		    retry: {}
		    fallback: {status: 200, body: fallback}
	`, at))
	const n = 50
	var all sync.WaitGroup
	for range n {
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/", nil)
			if resp, err := f.client.Do(req); !errors.Is(err, context.Canceled) {
				t.Errorf("answer %v, %v", resp, err)
			}
		})
		<-arrived
		cancel()
	}
	all.Wait()
	eventually(t, "the end of all requests", func() bool { return f.InFlight() == 0 })
	s := f.breaker("x")
	if s.State != fusebox.Closed || s.Totals.Failures != 0 || s.Totals.Ignored != n {
		t.Errorf("%v, %d failures, %d ignored, want closed, 0, %d", s.State, s.Totals.Failures, s.Totals.Ignored, n)
	}
	for _, l := range f.lines(n) {
		if l.Status != 499 || l.Outcome != "ignored" || l.Fallback != "" {
			t.Fatalf("logged %+v", l)
		}
	}
}

func TestC155NoMoreThanTheShareIsLeftOut(t *testing.T) {
	for _, c := range []struct {
		endpoints int
		ejection  string
		out       int
	}{
		{3, "max-share: 50%", 1},
		{2, "max-share: 50%", 1},
		{4, "max-share: 50%", 2},
		{10, "max-share: 10%", 1},
		{3, "max-share: 10%", 0},
		{3, "{max-share: 10%, always-one: true}", 1},
		{1, "max-share: 99%", 0},
	} {
		t.Run(fmt.Sprintf("%d endpoints, %s", c.endpoints, c.ejection), func(t *testing.T) {
			var urls []string
			var all []*backend
			for i := range c.endpoints {
				b := newBackend(t, strconv.Itoa(i), 500)
				all, urls = append(all, b), append(urls, strconv.Quote(b.URL))
			}
			f := start(t, configuration(t, `
				upstreams:
				  x:
				    endpoints: [%s]
				    breaker: {scope: endpoint, consecutive: 1, open-for: 1h, open-for-max: 1h}
				    ejection:
				      %s
			`, strings.Join(urls, ", "), strings.Trim(strings.ReplaceAll(c.ejection, ", ", "\n\t\t\t\t      "), "{}")))
			f.tally(20 * c.endpoints) // all open, but for those that have to be used
			var before []int
			for _, b := range all {
				before = append(before, b.count())
			}
			f.tally(10 * c.endpoints)
			out := 0
			for i, b := range all {
				if b.count() == before[i] {
					out++
				}
			}
			if out != c.out {
				t.Errorf("%d of %d are left out, want %d", out, c.endpoints, c.out)
			}
		})
	}
}

func TestC158AllEndpointsAreOut(t *testing.T) {
	for _, when := range []string{"fail", "spread", "least-bad"} {
		t.Run(when, func(t *testing.T) {
			a, b, c := newBackend(t, "A", 500), newBackend(t, "B", 500), newBackend(t, "C", 500)
			f := start(t, configuration(t, `
				upstreams:
				  x:
				    endpoints: [%q, %q, %q]
				    breaker: {scope: endpoint, consecutive: 2, open-for: 1h, open-for-max: 1h}
				    ejection: {when-all-open: %s}
			`, a.URL, b.URL, c.URL, when))
			f.tally(6)
			a.set(200)
			switch got := f.tally(30); {
			case when == "fail" && got["x is not available\n"] != 30,
				when == "spread" && (got["A"] != 10 || got["B"] != 10 || got["C"] != 10),
				// The least bad is known once each has been tried: A, after a failure of the others.
				when == "least-bad" && got["A"] < 27:
				t.Errorf("%v", got)
			}
			for _, e := range []*backend{a, b, c} {
				if s := f.breaker("x/" + e.where()); s.State != fusebox.Open || s.Totals.Failures != 2 {
					t.Errorf("%s: %v with %d failures, want open with 2: late results count nowhere", s.Name, s.State, s.Totals.Failures)
				}
			}
			if when == "fail" {
				return
			}
			lines := f.lines(36)
			if l := lines[35]; l.State != "open" || l.Probe || l.Attempts != 1 {
				t.Errorf("logged %+v", l)
			}
			// What is held open by hand is not used.
			for _, e := range []*backend{a, b, c} {
				f.force(t, "x/"+e.where())
			}
			f.get("/").want(t, 503, "x is not available\n")
		})
	}
}

func TestAnEndpointHeldByHandIsPartOfTheShare(t *testing.T) {
	a, b := newBackend(t, "A", 500), newBackend(t, "B", 200)
	f := start(t, configuration(t, `
		upstreams:
		  x:
		    endpoints: [%q, %q]
		    breaker: {scope: endpoint, consecutive: 1, open-for: 1h, open-for-max: 1h}
		    ejection: {max-share: 50%%}
	`, a.URL, b.URL))
	f.force(t, "x/"+b.where())
	if got := f.tally(5); got["A"] != 5 {
		t.Errorf("%v, want all from A: no more than half may be left out", got)
	}
}

// force holds a breaker open through the admin API.
func (f *fixture) force(t *testing.T, name string) {
	t.Helper()
	w := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/"+fuseboxadmin.Path(name)+"/override", strings.NewReader(`{"mode":"force-open","reason":"test"}`))
	req.Host = "localhost"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+adminToken)
	f.admin.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		t.Fatalf("force-open %s: %d %s", name, w.Code, w.Body)
	}
}

const adminToken = "a token of the tests"

func TestC159ARetryIsChargedToTheEndpointThatFailed(t *testing.T) {
	a, b := newBackend(t, "A", 503), newBackend(t, "B", 200)
	f := start(t, configuration(t, `
		upstreams:
		  x:
		    endpoints: [%q, %q]
		    breaker: {scope: endpoint, consecutive: 3, open-for: 1h, open-for-max: 1h}
		    retry: {attempts: 2, base-delay: 1ms}
	`, a.URL, b.URL))
	for range 8 {
		f.get("/").want(t, 200, "B")
	}
	sa, sb := f.breaker("x/"+a.where()), f.breaker("x/"+b.where())
	if sa.State != fusebox.Open || sa.Totals.Failures != 3 || sb.Totals.Failures != 0 || sb.Totals.Successes != 8 {
		t.Errorf("A %v with %d failures, B with %d and %d successes; want open with 3, 0 and 8", sa.State, sa.Totals.Failures, sb.Totals.Failures, sb.Totals.Successes)
	}
	attempts := 0
	for _, l := range f.lines(8) {
		attempts += l.Attempts
		if l.Endpoint != b.where() || l.Outcome != "success" {
			t.Errorf("logged %+v", l)
		}
	}
	if attempts != 11 {
		t.Errorf("%d attempts, want 11", attempts)
	}
}

func TestC162FallbackAnswers(t *testing.T) {
	b := newBackend(t, "b", 500)
	f := start(t, configuration(t, `
		upstreams:
		  x:
		    endpoints: [%q]
		    breaker: {consecutive: 2, open-for: 30s, open-for-max: 30s, open-jitter: off}
		    fallback:
		      status: 203
		      headers: {X-From: fallback}
		      body: '{"sorry": true}'
		  y:
		    endpoints: [%q]
		    breaker: {consecutive: 1, open-for: 30s, open-for-max: 30s, open-jitter: off}
		    fallback: {status: 204}
		routes: [{upstream: x}, {prefix: /y, upstream: y}]
	`, b.URL, b.URL))
	for i := range 3 {
		got := f.get("/")
		got.want(t, 203, `{"sorry": true}`)
		if got.Header.Get("X-From") != "fallback" || got.Header.Get("Content-Length") != "15" {
			t.Errorf("headers %v", got.Header)
		}
		if rejected := got.Header.Get("Fusebox-Breaker") == "x; state=open; cause=consecutive" && got.Header.Get("Retry-After") == "30"; rejected != (i == 2) {
			t.Errorf("request %d: headers %v", i, got.Header)
		}
	}
	s := f.breaker("x")
	if s.Totals.Failures != 2 || s.Totals.RejectedOpen != 1 {
		t.Errorf("%d failures, %d rejected, want 2 and 1", s.Totals.Failures, s.Totals.RejectedOpen)
	}
	f.get("/y").want(t, 204, "")
	f.get("/y").want(t, 204, "")
	if n := f.do(http.MethodHead, "/", nil).Header.Get("Content-Length"); n != "15" {
		t.Errorf("HEAD: Content-Length %q, want 15", n)
	}
	lines := f.lines(6)
	if l := lines[0]; l.Fallback != "fixed" || l.Outcome != "failure" || l.Attempts != 1 || l.Status != 203 || l.Bytes != 15 {
		t.Errorf("logged %+v", l)
	}
	if l := lines[2]; l.Fallback != "fixed" || l.Outcome != "rejected" || l.Attempts != 0 {
		t.Errorf("logged %+v", l)
	}
}

func TestAnotherUpstreamAnswersWhatMayBeMadeAgain(t *testing.T) {
	bad := newBackend(t, "bad", 500)
	standby := handler(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "standby %s %s", r.URL.Path, b)
	})
	gone := raw(t, func(net.Conn) {})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + l.Addr().String()
	l.Close()
	f := start(t, configuration(t, `
		upstreams:
		  x:
		    endpoints: [%q]
		    breaker: {consecutive: 5, open-for: 1h, open-for-max: 1h}
		    fallback: {upstream: standby}
		  gone: {endpoints: [%q], fallback: {upstream: standby}}
		  refused: {endpoints: [%q], fallback: {upstream: standby}}
		  standby: {endpoints: [%q]}
		routes: [{upstream: x}, {prefix: /gone, upstream: gone}, {prefix: /refused, upstream: refused}]
	`, bad.URL, gone, refused, standby))
	f.get("/a").want(t, 200, "standby /a ")
	f.do(http.MethodPut, "/b", strings.NewReader("body")).want(t, 200, "standby /b body")
	f.do(http.MethodPost, "/c", strings.NewReader("body")).want(t, 500, "bad") // it may have been processed
	f.do(http.MethodPost, "/gone", strings.NewReader("body")).want(t, 502, "gone gave no answer\n")
	f.do(http.MethodPost, "/refused", strings.NewReader("body")).want(t, 200, "standby /refused body")
	f.do(http.MethodPost, "/d", strings.NewReader("body"), "Idempotency-Key", "1").want(t, 200, "standby /d body")
	large := strings.Repeat("x", 100<<10)
	f.do(http.MethodPut, "/e", strings.NewReader(large)).want(t, 500, "bad") // it is not kept
	// Now it is open: nothing has been read of any body.
	f.do(http.MethodPost, "/f", strings.NewReader(large)).want(t, 200, "standby /f "+large)
	lines := f.lines(8)
	if l := lines[0]; l.Upstream != "standby" || l.Fallback != "upstream:standby" || l.Outcome != "failure" || l.Attempts != 2 {
		t.Errorf("logged %+v", l)
	}
	if l := lines[7]; l.Outcome != "rejected" || l.Attempts != 1 {
		t.Errorf("logged %+v", l)
	}
}

func TestABulkheadIsHeldUntilTheAnswerIsOver(t *testing.T) {
	next := make(chan struct{})
	at := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		<-next
	})
	f := start(t, configuration(t, `
		upstreams:
		  x:
		    endpoints: [%q]
		    bulkhead: {limit: 1}
	`, at))
	resp, err := f.open(http.MethodGet, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := f.get("/")
	got.want(t, 503, "x is not available\n")
	if got.Header.Get("Retry-After") != "1" || got.Header.Get("Fusebox-Breaker") != "" {
		t.Errorf("headers %v", got.Header)
	}
	if l := f.lines(1)[0]; l.Outcome != "rejected" || l.Breaker != "" {
		t.Errorf("logged %+v", l)
	}
	close(next)
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	eventually(t, "the end of the first", func() bool { return f.InFlight() == 0 })
	f.get("/").want(t, 200, "a")
	if s := f.breaker("x"); s.Totals.Failures != 0 || s.Totals.Ignored != 0 {
		t.Errorf("the bulkhead's refusal counts: %+v", s.Totals)
	}
}

func TestTimeouts(t *testing.T) {
	never := raw(t, func(c net.Conn) { io.Copy(io.Discard, c) }) // accepts, and says nothing
	f := start(t, configuration(t, `
		upstreams:
		  try: {endpoints: [%q], timeouts: {per-try: 30ms}}
		  total: {endpoints: [%q], timeouts: {per-try: off, total: 40ms}}
		  retried: {endpoints: [%q], timeouts: {per-try: 30ms, total: 10s}, retry: {base-delay: 1ms}}
		  bounded: {endpoints: [%q], timeouts: {per-try: 30ms, total: 80ms}, retry: {attempts: 1000, base-delay: 1ms, budget-per-second: 1000}}
		routes: [{prefix: /try, upstream: try}, {prefix: /total, upstream: total}, {prefix: /retried, upstream: retried}, {prefix: /bounded, upstream: bounded}]
	`, never, never, never, never))
	for i, c := range []struct {
		name     string
		attempts []int
	}{{"try", []int{1}}, {"total", []int{1}}, {"retried", []int{3}}, {"bounded", []int{2, 3, 4}}} {
		f.get("/"+c.name).want(t, 504, c.name+" gave no answer in time\n")
		l := f.lines(i + 1)[i]
		if !slices.Contains(c.attempts, l.Attempts) || l.Outcome != "failure" {
			t.Errorf("%s: %d attempts (%s), want one of %v", c.name, l.Attempts, l.Outcome, c.attempts)
		}
		if s := f.breaker(c.name); int(s.Totals.Failures) != l.Attempts {
			t.Errorf("%s: %d failures for %d attempts", c.name, s.Totals.Failures, l.Attempts)
		}
	}
}

func TestAnAnswerMayTakeLongerThanTheTimeouts(t *testing.T) {
	go1 := make(chan struct{})
	at := handler(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "a")
		w.(http.Flusher).Flush()
		<-go1
		io.WriteString(w, "b")
	})
	f := start(t, configuration(t, `
		upstreams:
		  x: {endpoints: [%q], timeouts: {per-try: 200ms, total: 200ms}, retry: {}}
	`, at))
	resp, err := f.open(http.MethodPost, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(400*time.Millisecond, func() { close(go1) })
	b, err := io.ReadAll(resp.Body)
	if string(b) != "ab" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	resp.Body.Close()
}

func TestARetryGoesToAnotherEndpointWhoseverTurnItIs(t *testing.T) {
	var f *fixture
	bad := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			f.get("/meanwhile").want(t, 200, "B") // takes the turn of the other
		}
		w.WriteHeader(503)
	})
	b := newBackend(t, "B", 200)
	for _, scope := range []string{"upstream", "endpoint"} {
		f = start(t, configuration(t, `
			upstreams:
			  x:
			    endpoints: [%q, %q]
			    breaker: {scope: %s}
			    retry: {attempts: 2, base-delay: 1ms}
		`, b.URL, bad, scope))
		f.get("/").want(t, 200, "B")
	}
}

func TestInShadowTheLogHasTheStateAtAdmission(t *testing.T) {
	b := newBackend(t, "b", 500)
	for _, scope := range []string{"upstream", "endpoint"} {
		b.set(500)
		f := start(t, configuration(t, `
			upstreams:
			  x:
			    endpoints: [%q]
			    breaker: {mode: shadow, scope: %s, consecutive: 2, open-for: 300ms, open-jitter: off, probes: 1}
		`, b.URL, scope))
		for range 4 {
			f.get("/").want(t, 500, "b")
		}
		b.set(200)
		name := f.names()[0]
		eventually(t, "the end of the open period", func() bool { return f.breaker(name).State == fusebox.HalfOpen })
		f.get("/").want(t, 200, "b")
		f.get("/").want(t, 200, "b")
		var states []string
		for _, l := range f.lines(6) {
			states = append(states, l.State)
		}
		if got, want := strings.Join(states, " "), "closed closed open open half-open closed"; got != want {
			t.Errorf("%s: states %s, want %s", scope, got, want)
		}
	}
}

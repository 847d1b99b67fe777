package fuseboxhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

func answering(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func TestC61TheStatusDecides(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    fusebox.State
	}{
		{"401", answering(401), fusebox.Closed},
		{"404", answering(404), fusebox.Closed},
		{"429", answering(429), fusebox.Open},
		{"500", answering(500), fusebox.Open},
		{"501", answering(501), fusebox.Closed},
		{"503", answering(503), fusebox.Open},
		{"500 in an envelope", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			fmt.Fprint(w, `{"ok":false}`)
		}, fusebox.Open},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, fusebox.Closed},
		{"a body only", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") }, fusebox.Closed},
		{"the first status of two", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(500)
			w.WriteHeader(200)
		}, fusebox.Open},
		{"a body, then a status too many", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "x")
			w.WriteHeader(500)
		}, fusebox.Closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newHandlerLab(t, test.handler)
			for range 3 {
				l.get()
			}
			l.want(test.want)
			if test.want == fusebox.Closed {
				l.wantCount(count{successes: 3})
			} else {
				l.wantCount(count{failures: 3})
			}
		})
	}
}

func TestARecordTellsTheStatus(t *testing.T) {
	for status, want := range map[int]string{503: "503 Service Unavailable", 599: "599"} {
		l := newHandlerLab(t, answering(status))
		for range 3 {
			l.get()
		}
		if got := l.records[len(l.records)-1].LastError; got != want {
			t.Errorf("last error %q, want %q", got, want)
		}
	}
}

func TestClassifyDecidesAboutAStatus(t *testing.T) {
	for _, test := range []struct {
		outcome fusebox.Outcome
		want    count
	}{
		{fusebox.Success, count{successes: 1}},
		{fusebox.Failure, count{failures: 1}},
		{fusebox.Ignored, count{ignored: 1}},
		{fusebox.Outcome(9), count{failures: 1}},
	} {
		l := newHandlerLab(t, answering(418))
		var asked []int
		l.Classify = func(status int) fusebox.Outcome {
			asked = append(asked, status)
			return test.outcome
		}
		l.get()
		l.wantCount(test.want)
		if !slices.Equal(asked, []int{418}) {
			t.Errorf("Classify was asked about %v, want 418, once", asked)
		}
	}
}

func TestTheBreakersOwnClassifyHasTheLastWordOnFailures(t *testing.T) {
	l := newHandlerLab(t, answering(502))
	var seen error
	l.config.Classify = func(_ context.Context, err error) fusebox.Outcome {
		seen = err
		return fusebox.Ignored
	}
	l.get()
	l.wantCount(count{ignored: 1})
	var failure *fuseboxhttp.StatusError
	if !errors.As(seen, &failure) || failure.StatusCode != 502 || seen.Error() != "502 Bad Gateway" {
		t.Errorf("Config.Classify was given %v", seen)
	}
}

// panicOf returns what f panics with, and the panic's origin.
func panicOf(f func()) (value any, origin string) {
	defer func() {
		value = recover()
		trace := make([]byte, 1<<14)
		origin = string(trace[:runtime.Stack(trace, false)])
	}()
	f()
	return nil, ""
}

func theHandlerThatPanics(value any) http.HandlerFunc {
	return func(http.ResponseWriter, *http.Request) { panic(value) }
}

func TestAPanicIsAFailureAndGoesOnWithItsOrigin(t *testing.T) {
	for _, value := range []any{"boom", http.ErrAbortHandler} {
		l := newHandlerLab(t, theHandlerThatPanics(value))
		got, origin := panicOf(func() { l.get() })
		if got != value {
			t.Errorf("panicked with %v, want %v", got, value)
		}
		if !strings.Contains(origin, "theHandlerThatPanics") {
			t.Errorf("the origin of the panic is lost:\n%s", origin)
		}
		l.wantCount(count{failures: 1})
		if err := l.last().Err; err == nil || !strings.Contains(err.Error(), "did not return") {
			t.Errorf("the breaker was told %v", err)
		}
	}
}

func TestAPanicAfterAGoodStatusIsAFailure(t *testing.T) {
	l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "half of ")
		panic(http.ErrAbortHandler)
	})
	_, _ = panicOf(func() { l.get() })
	l.wantCount(count{failures: 1})
}

func TestAGoexitIsAFailureAndGoesOn(t *testing.T) {
	l := newHandlerLab(t, func(http.ResponseWriter, *http.Request) { runtime.Goexit() })
	ended := make(chan bool)
	go func() {
		returned := false
		defer func() { ended <- !returned }()
		l.get()
		returned = true
	}()
	if !<-ended {
		t.Error("ServeHTTP returned after a Goexit")
	}
	l.wantCount(count{failures: 1})
}

func TestAPanickingClassifyCountsAsAFailureAndKeepsNoSlot(t *testing.T) {
	t.Run("the Handler's", func(t *testing.T) {
		l := newHandlerLab(t, answering(200))
		l.Classify = func(int) fusebox.Outcome { panic("classify") }
		if got, _ := panicOf(func() { l.get() }); got != "classify" {
			t.Errorf("panicked with %v", got)
		}
		l.wantCount(count{failures: 1})
	})
	t.Run("the breaker's", func(t *testing.T) {
		l := newHandlerLab(t, answering(503))
		l.config.Classify = func(context.Context, error) fusebox.Outcome { panic("classify") }
		if got, _ := panicOf(func() { l.get() }); got != "classify" {
			t.Errorf("panicked with %v", got)
		}
		l.wantCount(count{failures: 1})
	})
}

// TestAClientThatLeft covers what a handler can do when nobody is there any more.
func TestAClientThatLeft(t *testing.T) {
	boom := func(http.ResponseWriter) { panic("boom") }
	for _, test := range []struct {
		name string
		then func(http.ResponseWriter)
		want count
	}{
		{"a failure is ignored", func(w http.ResponseWriter) { w.WriteHeader(503) }, count{ignored: 1}},
		{"a panic is ignored", boom, count{ignored: 1}},
		{"a quiet return is ignored", func(http.ResponseWriter) {}, count{ignored: 1}},
		{"a success stays one", func(w http.ResponseWriter) { w.WriteHeader(200) }, count{successes: 1}},
		{"a success by body stays one", func(w http.ResponseWriter) { fmt.Fprint(w, "x") }, count{successes: 1}},
		{"a refusal by status stays a success", func(w http.ResponseWriter) { w.WriteHeader(404) }, count{successes: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
				cancel()
				test.then(w)
			})
			_, _ = panicOf(func() { l.getWith(ctx) })
			l.wantCount(test.want)
		})
	}
}

func TestAHangWhoseClientsGiveUpIsASlowFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var l *handlerLab
	l = newHandlerLab(t, func(http.ResponseWriter, *http.Request) {
		l.clock.Advance(3 * time.Second)
		cancel()
	})
	l.config.SlowAfter = 2 * time.Second
	l.getWith(ctx)
	l.wantCount(count{failures: 1})
	if got := l.totals().Slow; got != 1 {
		t.Errorf("%d slow, want 1", got)
	}
}

func TestADeadlineDuringTheRequestIsAFailureUnlessAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		then http.HandlerFunc
		want count
	}{
		"nothing written":  {func(http.ResponseWriter, *http.Request) {}, count{failures: 1}},
		"answered in time": {answering(200), count{successes: 1}},
		"answered 503":     {answering(503), count{failures: 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			l := newHandlerLab(t, func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				test.then(w, r)
			})
			l.getWith(ctx)
			l.wantCount(test.want)
			if t.Failed() {
				t.Log(name)
			}
		})
	}
}

func TestC57ARequestWhoseContextIsDoneIsNeitherServedNorCounted(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for name, ctx := range map[string]context.Context{"cancelled": cancelled, "expired": expired} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			l := newHandlerLab(t, func(http.ResponseWriter, *http.Request) { runs++ })
			l.probing()
			l.Rejected = func(http.ResponseWriter, *http.Request, *fusebox.OpenError) {
				t.Error("taken for a rejection")
			}
			w := l.getWith(ctx)
			if runs != 0 {
				t.Error("the handler was run")
			}
			if w.Code != http.StatusServiceUnavailable {
				t.Errorf("answered %d: who is still there must not read a success", w.Code)
			}
			if w.Header().Get("Fusebox-Breaker") != "" || w.Header().Get("Retry-After") != "" {
				t.Errorf("the headers of a rejection: %v", w.Header())
			}
			l.wantCount(count{})
			if got := l.totals(); got.RejectedOpen+got.RejectedProbing != 0 {
				t.Error("counted as rejected")
			}
			l.getWith(t.Context())
			if runs != 1 {
				t.Error("the slot of the probe was taken")
			}
		})
	}
}

func TestARejectedRequestIsAnswered503(t *testing.T) {
	runs := 0
	l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
		runs++
		w.WriteHeader(500)
	})
	for range 10 {
		l.get()
	}
	if runs != 3 {
		t.Errorf("the handler was run %d times, want 3", runs)
	}
	w := l.get()
	for name, want := range map[string]string{
		"Retry-After":            "1",
		"Fusebox-Breaker":        "/",
		"Content-Type":           "text/plain; charset=utf-8",
		"Cache-Control":          "no-store",
		"X-Content-Type-Options": "nosniff",
	} {
		if got := w.Header()[name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if w.Code != 503 || w.Body.String() != "503 Service Unavailable\n" {
		t.Errorf("answered %d, %q", w.Code, w.Body)
	}
	if got := l.totals(); got.RejectedOpen != 8 || got.Failures != 3 {
		t.Errorf("%d rejected, %d failures", got.RejectedOpen, got.Failures)
	}

	l.Handler.Handler = answering(200) // recovered
	l.clock.Advance(time.Second)
	if w := l.get(); w.Code != 200 {
		t.Errorf("the probe was answered %d", w.Code)
	}
	l.want(fusebox.Closed)
}

func TestRetryAfterIsWholeSecondsRoundedUp(t *testing.T) {
	for _, test := range []struct {
		openFor time.Duration
		want    string
	}{
		{time.Millisecond, "1"},
		{time.Second, "1"},
		{time.Second + 1, "2"},
		{2*time.Second - 1, "2"},
		{90 * time.Second, "90"},
	} {
		l := newHandlerLab(t, answering(500))
		l.config.OpenFor = test.openFor
		for range 3 {
			l.get()
		}
		if got := l.get().Header().Get("Retry-After"); got != test.want {
			t.Errorf("open for %v: Retry-After %q, want %q", test.openFor, got, test.want)
		}
	}

	l := newHandlerLab(t, answering(200))
	l.breaker().Override(fusebox.ForceOpen, fusebox.Note{})
	if got := l.get().Header().Get("Retry-After"); got != "1" {
		t.Errorf("forced open without an end: Retry-After %q, want 1", got)
	}
	l.breaker().Override(fusebox.ForceOpen, fusebox.Note{Until: time.Now().AddDate(200, 0, 0)})
	s, err := strconv.ParseInt(l.get().Header().Get("Retry-After"), 10, 64)
	if err != nil || s < 1e9 {
		t.Errorf("forced open for centuries: Retry-After %d, %v", s, err)
	}
}

func TestARejectionForWantOfAProbeSaysComeBackInASecond(t *testing.T) {
	var l *handlerLab
	var inner *httptest.ResponseRecorder
	l = newHandlerLab(t, func(http.ResponseWriter, *http.Request) {
		if inner == nil {
			inner = httptest.NewRecorder()
			l.ServeHTTP(inner, newRequest("/"))
		}
	})
	l.probing()
	l.get()
	if inner.Code != 503 || inner.Header().Get("Retry-After") != "1" {
		t.Errorf("answered %d, Retry-After %q", inner.Code, inner.Header().Get("Retry-After"))
	}
	if got := l.totals().RejectedProbing; got != 1 {
		t.Errorf("%d rejected while probing, want 1", got)
	}
}

func TestAnyNameCanStandInTheHeader(t *testing.T) {
	for name, want := range map[string]string{
		"GET /users/{id}":                 "GET /users/{id}",
		"a\r\nSet-Cookie: x":              "a%0D%0ASet-Cookie: x",
		"100%":                            "100%25",
		"café\x7f\x00":                    "caf%C3%A9%7F%00",
		strings.Repeat("k", 300):          strings.Repeat("k", 256),
		strings.Repeat("k", 254) + "\xff": strings.Repeat("k", 254),
	} {
		l := newHandlerLab(t, answering(200))
		l.Key = func(*http.Request) string { return name }
		l.Breakers().Get(name).Override(fusebox.ForceOpen, fusebox.Note{})
		if got := l.get().Header().Get("Fusebox-Breaker"); got != want {
			t.Errorf("%q stands there as %q, want %q", name, got, want)
		}
	}
}

func TestRejectedAnswersInstead(t *testing.T) {
	l := newHandlerLab(t, answering(200))
	l.Rejected = func(w http.ResponseWriter, r *http.Request, err *fusebox.OpenError) {
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, "%s: %s is %v", r.URL.Path, err.Name(), err.State())
	}
	l.breaker().Override(fusebox.ForceOpen, fusebox.Note{})
	w := l.get()
	if w.Code != 429 || w.Body.String() != "/some/path: / is open" {
		t.Errorf("answered %d, %q", w.Code, w.Body)
	}
	if len(w.Header()["Fusebox-Breaker"]) != 0 {
		t.Error("the header is written although Rejected answers")
	}
}

func TestAShadowBreakerLetsEverythingThrough(t *testing.T) {
	runs := 0
	l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
		runs++
		w.WriteHeader(500)
	})
	l.config.Mode = fusebox.Shadow
	for range 5 {
		if w := l.get(); w.Code != 500 {
			t.Errorf("answered %d", w.Code)
		}
	}
	if got := l.totals().WouldReject.Failures; runs != 5 || got != 2 {
		t.Errorf("%d served, %d would have been rejected; want 5 and 2", runs, got)
	}
}

// keysOf are the keys a Handler has made.
func keysOf(h *fuseboxhttp.Handler) (keys []string) {
	for key := range h.Breakers().All() {
		keys = append(keys, key)
	}
	return keys
}

func TestTheKeyIsTheRoutesPattern(t *testing.T) {
	ok := answering(200)
	mux := func(pattern string, h http.Handler) *http.ServeMux {
		m := http.NewServeMux()
		m.Handle(pattern, h)
		return m
	}
	for _, test := range []struct {
		name string
		make func() (h *fuseboxhttp.Handler, outermost http.Handler)
		path string
		want []string
	}{
		{"a mux inside", func() (*fuseboxhttp.Handler, http.Handler) {
			h := &fuseboxhttp.Handler{Handler: mux("GET /users/{id}", ok)}
			return h, h
		}, "/users/42", []string{"GET /users/{id}"}},
		{"a mux outside", func() (*fuseboxhttp.Handler, http.Handler) {
			h := &fuseboxhttp.Handler{Handler: ok}
			return h, mux("GET /users/{id}", h)
		}, "/users/42", []string{"GET /users/{id}"}},
		{"a mux inside and outside", func() (*fuseboxhttp.Handler, http.Handler) {
			h := &fuseboxhttp.Handler{Handler: mux("GET /users/{id}", ok)}
			return h, mux("/users/", h)
		}, "/users/42", []string{"GET /users/{id}"}},
		{"a mux outside and something between", func() (*fuseboxhttp.Handler, http.Handler) {
			h := &fuseboxhttp.Handler{Handler: http.StripPrefix("/api", mux("/users/{id}", ok))}
			return h, mux("/api/", h)
		}, "/api/users/42", []string{"/api/"}},
		{"a mux inside that redirects", func() (*fuseboxhttp.Handler, http.Handler) {
			h := &fuseboxhttp.Handler{Handler: mux("/users/", ok)}
			return h, h
		}, "/users", []string{"/users/"}},
		{"a mux inside without the route", func() (*fuseboxhttp.Handler, http.Handler) {
			h := &fuseboxhttp.Handler{Handler: mux("/users/{id}", ok)}
			return h, h
		}, "/wp-login.php", nil},
		{"no mux", func() (*fuseboxhttp.Handler, http.Handler) {
			h := &fuseboxhttp.Handler{Handler: ok}
			return h, h
		}, "/users/42", []string{"/"}},
		{"a router's own", func() (*fuseboxhttp.Handler, http.Handler) {
			type route struct{}
			h := &fuseboxhttp.Handler{Handler: ok, Key: func(r *http.Request) string {
				pattern, _ := r.Context().Value(route{}).(string)
				return pattern
			}}
			return h, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), route{}, "/users/:id")))
			})
		}, "/users/42", []string{"/users/:id"}},
		{"none", func() (*fuseboxhttp.Handler, http.Handler) {
			h := &fuseboxhttp.Handler{Handler: ok, Key: func(*http.Request) string { return "" }}
			return h, h
		}, "/users/42", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, outermost := test.make()
			outermost.ServeHTTP(httptest.NewRecorder(), newRequest(test.path))
			if got := keysOf(h); !slices.Equal(got, test.want) {
				t.Errorf("keys %q, want %q", got, test.want)
			}
		})
	}
}

func TestC91HostilePathsMakeNoKeys(t *testing.T) {
	ok := answering(200)
	inner := http.NewServeMux()
	for _, pattern := range []string{"GET /users/{id}", "/files/{path...}", "POST /orders"} {
		inner.Handle(pattern, ok)
	}
	h := &fuseboxhttp.Handler{Handler: inner}
	for i := range 10_000 {
		method := []string{"GET", "POST", "BREW"}[i%3]
		path := []string{"/users/%d", "/files/%d/..%%2f", "/orders", "/%d", "/users/%d/x"}[i%5]
		if strings.Contains(path, "%d") {
			path = fmt.Sprintf(path, i)
		}
		r := httptest.NewRequestWithContext(t.Context(), method, path+"?q="+strconv.Itoa(i), nil)
		r.Host = fmt.Sprintf("h%d.example", i)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	want := []string{"/files/{path...}", "GET /users/{id}", "POST /orders"}
	if got := keysOf(h); !slices.Equal(got, want) {
		t.Errorf("%d keys, want %q", len(got), want)
	}
}

func TestARouteThatFailsLeavesTheOthersAlone(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/good", answering(200))
	mux.Handle("/bad", answering(500))
	h := &fuseboxhttp.Handler{Handler: mux}
	get := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, newRequest(path))
		return w.Code
	}
	for range 20 {
		get("/bad")
	}
	if bad, good := get("/bad"), get("/good"); bad != 503 || good != 200 {
		t.Errorf("answered %d and %d, want 503 and 200", bad, good)
	}
}

func TestHandlersShareARegistry(t *testing.T) {
	registry := &fusebox.Registry{}
	h := &fuseboxhttp.Handler{Registry: registry}
	if h.Breakers() != registry {
		t.Error("Breakers is not the Registry given")
	}
	own, another := &fuseboxhttp.Handler{}, &fuseboxhttp.Handler{}
	first := own.Breakers()
	if again := own.Breakers(); first == nil || first != again || first == another.Breakers() {
		t.Error("without one, each Handler has one of its own")
	}
}

func TestAHandlerWithoutOnePanicsWithAClearText(t *testing.T) {
	h := &fuseboxhttp.Handler{}
	got, _ := panicOf(func() { h.ServeHTTP(httptest.NewRecorder(), newRequest("/")) })
	if got != "fusebox: Handler.Handler is nil" {
		t.Errorf("panicked with %v", got)
	}
	if keys := keysOf(h); keys != nil {
		t.Errorf("keys %q were made for it", keys)
	}
}

func TestWhatIsJudgedIsJudgedOnce(t *testing.T) {
	l := newHandlerLab(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(200)
		fmt.Fprint(w, "a")
		_ = http.NewResponseController(w).Flush()
	})
	l.get()
	if n := len(l.done); n != 1 {
		t.Errorf("%d results of one request", n)
	}
	if !errors.Is(l.last().Err, nil) || l.last().Outcome != fusebox.Success {
		t.Errorf("result %+v", l.last())
	}
}

package fuseboxadmin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

func TestTransitionsAreStreamed(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{Consecutive: 1, OpenFor: time.Hour})
	var r fusebox.Registry
	l.AddRegistry("", &r)
	events := l.listen("")
	first := events.next()
	if first.id == 0 || first.kind != "" {
		t.Errorf("the stream begins with %+v, want an id alone", first)
	}
	b.Do(t.Context(), fail)
	e := events.next()
	l.spec.data(t, "Transition", e.data)
	tr := e.transition(t)
	if e.id != first.id+1 || tr.Name != "x" || tr.To != fusebox.Open || tr.Why != "1 failure in a row >= 1" || tr.LastError != "down" {
		t.Errorf("event %d is %+v", e.id, tr)
	}
	r.Get("made later").Reset(fusebox.Note{})
	if e := events.next(); e.id != first.id+2 || e.transition(t).Name != "made later" {
		t.Errorf("the event is %+v", e)
	}
}

func TestAListAndAStreamFromItLoseNothing(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	b.Reset(fusebox.Note{Reason: "before"})
	list := into[fuseboxadmin.List](l.get("/api/breakers"))
	b.Reset(fusebox.Note{Reason: "between"})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, l.url+"/api/events?last_event_id="+strconv.FormatUint(list.LastEventID, 10), nil)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	s := newListener(t, resp.Body)
	if why := s.next().transition(t).Why; why != "reset: between" {
		t.Errorf("the event is %q", why)
	}
	// The header of a client that comes back counts more than the address.
	b.Reset(fusebox.Note{Reason: "later"})
	r.Header.Set("Last-Event-ID", strconv.FormatUint(list.LastEventID+1, 10))
	if resp, err = http.DefaultClient.Do(r); err != nil {
		t.Fatal(err)
	}
	if why := newListener(t, resp.Body).next().transition(t).Why; why != "reset: later" {
		t.Errorf("the event is %q", why)
	}
}

// Breakers change all the time, on many goroutines, and a client comes and goes.
func TestAReaderThatComesBackHasEveryEventOnce(t *testing.T) {
	const breakers, each = 8, 60 // in all less than are kept
	l := newLab(t)
	var r fusebox.Registry
	l.AddRegistry("", &r)
	events := l.listen("")
	last := events.next().id
	var writers sync.WaitGroup
	for i := range breakers {
		b := r.Get(strconv.Itoa(i))
		writers.Go(func() {
			for n := range each {
				b.Reset(fusebox.Note{Reason: strconv.Itoa(n)})
			}
		})
	}
	seen := map[string]int{}
	for n := range breakers * each {
		if n%7 == 6 {
			events.body.Close()
			events = l.listen(strconv.FormatUint(last, 10))
		}
		e := events.next()
		tr := e.transition(t)
		if e.id != last+1 {
			t.Fatalf("after event %d comes %d", last, e.id)
		}
		if want := strconv.Itoa(seen[tr.Name]); tr.Note.Reason != want {
			t.Fatalf("of %s came %s, want %s", tr.Name, tr.Note.Reason, want)
		}
		seen[tr.Name]++
		last = e.id
	}
	writers.Wait()
	for name, n := range seen {
		if n != each {
			t.Errorf("%d events of %s, want %d", n, name, each)
		}
	}
}

func TestAReaderWhoseEventsAreGoneIsTold(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	start := l.listen("").next().id
	b.Reset(fusebox.Note{})
	for i := range fuseboxadmin.MaxEvents - 1 {
		if err := l.Publish("n", i); err != nil {
			t.Fatal(err)
		}
	}
	from := func(id uint64) sse { return l.listen(strconv.FormatUint(id, 10)).next() }
	if e := from(start); e.id != start+1 || e.kind != "transition" { // all are there still
		t.Errorf("the event is %+v", e)
	}
	b.Reset(fusebox.Note{})
	newest := start + fuseboxadmin.MaxEvents + 1
	for _, c := range [][2]string{
		{"too old by one", strconv.FormatUint(start, 10)},
		{"of an earlier process", "7"},
		{"of the future", strconv.FormatUint(newest+1000, 10)},
		{"not a number", "abc"},
		{"negative", "-1"},
		{"too large", "99999999999999999999"},
	} {
		name, id := c[0], c[1]
		s := l.listen(id)
		e := s.next()
		l.spec.data(t, "Reset", e.data)
		if e.kind != "reset" || e.id != newest {
			t.Errorf("%s: the event is %+v, want reset with id %d", name, e, newest)
		}
		b.Reset(fusebox.Note{}) // it goes on from there
		newest++
		if e := s.next(); e.id != newest || e.kind != "transition" {
			t.Errorf("%s: then comes %+v", name, e)
		}
	}
	if e := from(newest - fuseboxadmin.MaxEvents); e.kind != "n" || e.id != newest-fuseboxadmin.MaxEvents+1 {
		t.Errorf("the oldest that is kept is %+v", e)
	}
}

func TestAnIDOfAnEarlierProcessIsNotTakenForOneOfThis(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	start := l.listen("").next().id
	if age := time.Since(time.UnixMicro(int64(start))); age < 0 || age > time.Minute {
		t.Errorf("the first id is %d, of %v ago: it must be after all those of an earlier process", start, age)
	}
	b.Reset(fusebox.Note{})
	if e := l.listen(strconv.FormatUint(start-1, 10)).next(); e.kind != "reset" || e.id != start+1 {
		t.Errorf("the event is %+v", e)
	}
}

// A breaker that refers to a handler keeps it.
func TestAHandlerIsLetGoOf(t *testing.T) {
	b := fusebox.New("x", fusebox.Config{})
	var r fusebox.Registry
	for name, end := range map[string]func(h *fuseboxadmin.Handler, remove []func()){
		"by Close": func(h *fuseboxadmin.Handler, _ []func()) { h.Close() },
		"by remove": func(_ *fuseboxadmin.Handler, remove []func()) {
			for _, f := range remove {
				f()
			}
		},
	} {
		var gone weak.Pointer[fuseboxadmin.Handler]
		func() {
			h := new(fuseboxadmin.Handler)
			gone = weak.Make(h)
			end(h, []func(){h.Add(b), h.AddRegistry("", &r)})
		}()
		soon(t, name+": it is kept", func() bool { runtime.GC(); return gone.Value() == nil })
	}
}

// seats holds event streams open, without a network.
type seats struct {
	*testing.T
	*fuseboxadmin.Handler
	streams sync.WaitGroup
}

// flushed is a ResponseWriter that tells when the first bytes come.
type flushed struct {
	*httptest.ResponseRecorder
	once  sync.Once
	begun chan struct{}
}

func (q *flushed) Flush() { q.once.Do(func() { close(q.begun) }) }

// take opens a stream from an address; it is there when take returns. leave ends it.
func (s *seats) take(from string, authorised bool) (answer *httptest.ResponseRecorder, leave func()) {
	ctx, cancel := context.WithCancel(s.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/events", nil)
	r.RemoteAddr = from
	if authorised {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := &flushed{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{})}
	done := make(chan struct{})
	s.streams.Go(func() {
		defer close(done)
		s.ServeHTTP(w, r)
	})
	select {
	case <-w.begun:
	case <-done:
	}
	return w.ResponseRecorder, func() { cancel(); <-done }
}

func TestTheNumberOfStreamsIsBounded(t *testing.T) {
	s := &seats{T: t, Handler: &fuseboxadmin.Handler{Token: token}}
	defer s.streams.Wait()
	defer s.Close()
	take := func(from string, authorised bool, text string) (leave func()) {
		t.Helper()
		a, leave := s.take(from, authorised)
		refused := a.Code == http.StatusServiceUnavailable && a.Header().Get("Retry-After") == "5"
		if refused != (text != "") || !strings.Contains(a.Body.String(), text) {
			t.Errorf("from %s: %d %s, want %q", from, a.Code, a.Body, text)
		}
		return leave
	}
	var first func()
	for i := range fuseboxadmin.MaxOfOne {
		leave := take(fmt.Sprintf("10.0.0.1:%d", i+1), false, "")
		if first == nil {
			first = leave
		}
	}
	take("10.0.0.1:99", false, "all 16 event streams of one address")
	take("[::ffff:10.0.0.1]:99", false, "all 16 event streams of one address")
	first()
	take("10.0.0.1:99", false, "") // its place
	for i := range fuseboxadmin.MaxOfOne {
		take(fmt.Sprintf("[2001:db8::%d]:1", i+1), false, "")
	}
	take("[2001:db8::9:9:9:9]:1", false, "all 16 event streams of one address") // of one network
	for i := range fuseboxadmin.MaxStrangers - 2*fuseboxadmin.MaxOfOne {
		take(fmt.Sprintf("10.0.1.%d:1", i), false, "")
	}
	take("10.0.9.9:1", false, "all 48 event streams for readers without the token")
	for range fuseboxadmin.MaxStreams - fuseboxadmin.MaxStrangers { // nobody can take these
		first = take("10.0.0.1:99", true, "")
	}
	take("10.0.0.1:99", true, "all 64 event streams are taken")
	first()
	take("10.0.9.9:1", false, "all 48 event streams for readers")
	take("10.0.9.9:1", true, "")
}

func TestCloseEndsStreamsAndObserving(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	var r fusebox.Registry
	remove := l.AddRegistry("", &r)
	s := l.listen("")
	s.next()
	b.Reset(fusebox.Note{})
	s.next()
	l.Close()
	l.Close()
	if e, err := s.read(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream goes on with %+v, %v", e, err)
	}
	before := into[fuseboxadmin.List](l.get("/api/breakers")).LastEventID
	b.Reset(fusebox.Note{})
	r.Get("y").Reset(fusebox.Note{})
	late := l.breaker("late", fusebox.Config{})
	late.Reset(fusebox.Note{})
	list := into[fuseboxadmin.List](l.get("/api/breakers"))
	if list.LastEventID != before || len(list.Breakers) != 3 {
		t.Errorf("%d events since, %d breakers", list.LastEventID-before, len(list.Breakers))
	}
	into[fuseboxadmin.Breaker](l.post("/api/breakers/late/lift", ""))
	remove()
	l.get("/api/breakers/y").refused(404)
	l.get("/api/events").refused(503, "the handler is closed")
}

// Adding, removing and closing while breakers change and clients look.
func TestAllAtOnce(t *testing.T) {
	l := newLab(t)
	var r fusebox.Registry
	l.AddRegistry("", &r)
	var all sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprint(i)
		all.Go(func() {
			for range 50 {
				b := fusebox.New(name, fusebox.Config{})
				remove := l.Add(b)
				b.Reset(fusebox.Note{})
				r.Get(name).Reset(fusebox.Note{})
				remove()
			}
		})
		all.Go(func() {
			for range 10 {
				into[fuseboxadmin.List](l.get("/api/breakers"))
				l.post("/api/breakers/"+name+"/lift", "")
			}
			if i == 3 {
				l.Close()
			}
		})
	}
	all.Wait()
}

// One that was evicted and is used on would be taken for the next of its name, and
// hold the handler.
func TestAnEvictedBreakerHasNothingToSay(t *testing.T) {
	l := newLab(t)
	r := fusebox.Registry{MaxKeys: 1}
	l.AddRegistry("", &r)
	events := l.listen("")
	events.next()
	old := r.Get("x")
	r.Get("other") // in its place
	r.Get("x")
	old.Reset(fusebox.Note{Reason: "of the old one"})
	r.Get("x").Reset(fusebox.Note{Reason: "of the new one"})
	if why := events.next().transition(t).Why; why != "reset: of the new one" {
		t.Errorf("the event is %q", why)
	}

	var gone weak.Pointer[fuseboxadmin.Handler]
	func() {
		h := new(fuseboxadmin.Handler)
		gone = weak.Make(h)
		h.AddRegistry("", &r)
		old = r.Get("x")
		r.Get("other")
		h.Close()
	}()
	soon(t, "it is kept", func() bool { runtime.GC(); return gone.Value() == nil })
	old.Reset(fusebox.Note{})
}

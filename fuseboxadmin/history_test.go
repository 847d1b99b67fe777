package fuseboxadmin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

// history asks a handler, without a network.
func history(tb testing.TB, h http.Handler, since time.Time) (t fuseboxadmin.History) {
	tb.Helper()
	path := "http://localhost/api/history"
	if !since.IsZero() {
		path += "?since=" + url.QueryEscape(since.Format(time.RFC3339Nano))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(tb.Context(), http.MethodGet, path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), &t); err != nil || w.Code != http.StatusOK {
		tb.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return t
}

// whys returns the causes of the transitions in a history.
func whys(tb testing.TB, h fuseboxadmin.History) (whys []string) {
	tb.Helper()
	for _, e := range h.Events {
		if e.Event == "transition" {
			whys = append(whys, sse{kind: e.Event, data: string(e.Data)}.transition(tb).Why)
		}
	}
	return whys
}

func TestAHistoryHasWhatTheStreamHad(t *testing.T) {
	l := newLab(t)
	b := l.breaker("x", fusebox.Config{})
	into[fuseboxadmin.List](l.get("/api/breakers"))
	s := l.listen("")
	first := s.next().id
	for i := range 40 { // more than a breaker keeps
		b.Reset(fusebox.Note{Reason: fmt.Sprint(i)})
	}
	l.post("/api/breakers/x/lift", `{"by":"kim"}`)
	l.breaker("y", fusebox.Config{}) // an event "list", which is of no use later
	if err := l.Publish("reload", map[string]int{"changed": 2}); err != nil {
		t.Fatal(err)
	}
	h := into[fuseboxadmin.History](l.get("/api/history"))
	if len(h.Events) != 43 || h.LastEventID != first+44 || h.Since.After(h.Events[0].At) || h.Now.Before(h.Events[42].At) {
		t.Fatalf("%d events from %v, the last %d after %d", len(h.Events), h.Since, h.LastEventID, first)
	}
	for i := 0; i < len(h.Events); {
		was := s.next()
		if was.kind == "list" {
			continue
		}
		if e := h.Events[i]; e.ID != was.id || e.Event != was.kind || string(e.Data) != was.data {
			t.Errorf("event %d is %+v, was %+v", i, e, was)
		}
		i++
	}
	if h.Events[42].Event != "reload" || string(h.Events[42].Data) != `{"changed":2}` {
		t.Errorf("the program's event is %+v", h.Events[42])
	}
	// What comes after it is on a stream from its last id.
	b.Reset(fusebox.Note{Reason: "later"})
	if why := l.listen(fmt.Sprint(h.LastEventID)).next().transition(t).Why; why != "reset: later" {
		t.Errorf("then comes %q", why)
	}
	// Only what came since.
	at := h.Events[10].At
	some := into[fuseboxadmin.History](l.get("/api/history?since=" + url.QueryEscape(at.Format(time.RFC3339Nano))))
	if !some.Since.Equal(at) || len(some.Events) == 0 || !some.Events[0].At.After(at) || len(some.Events) > 33 {
		t.Errorf("since %v: %d events since %v, the first %+v", at, len(some.Events), some.Since, some.Events[0])
	}
	// A zone that JSON does not know, of a time to come.
	if got := into[fuseboxadmin.History](l.get("/api/history?since=2222-01-02T15:04:05%2B24:00")); len(got.Events) != 0 || got.Since.Year() != 2222 {
		t.Errorf("%d events since %v", len(got.Events), got.Since)
	}
	for query, text := range map[string]string{
		"since=yesterday": "must be a time like", "since=": "must be a time like", "until=x": "is no parameter here, but since",
		"since=2026-01-02T15:04:05Z&since=2026-01-02T15:04:05Z": "must be given once",
	} {
		l.get("/api/history?"+query).refused(400, text)
	}
}

func TestAHistoryIsBounded(t *testing.T) {
	t.Run("in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := &fuseboxadmin.Handler{}
			start := time.Now()
			b := fusebox.New("x", fusebox.Config{})
			h.Add(b)
			if got := history(t, h, time.Time{}); !got.Since.Equal(start) {
				t.Errorf("it begins %v, want %v", got.Since, start)
			}
			b.Reset(fusebox.Note{Reason: "one"})
			time.Sleep(time.Hour)
			b.Reset(fusebox.Note{Reason: "two"})
			time.Sleep(fuseboxadmin.MaxAge - time.Hour)
			if got := history(t, h, time.Time{}); !slices.Equal(whys(t, got), []string{"reset: one", "reset: two"}) || !got.Since.Equal(start) {
				t.Errorf("since %v: %q", got.Since, whys(t, got))
			}
			time.Sleep(time.Nanosecond)
			b.Reset(fusebox.Note{Reason: "three"})
			got := history(t, h, start.Add(-time.Hour))
			if !slices.Equal(whys(t, got), []string{"reset: two", "reset: three"}) || !got.Since.Equal(start) {
				t.Errorf("since %v: %q", got.Since, whys(t, got))
			}
		})
	})
	t.Run("in number and size", func(t *testing.T) {
		h := &fuseboxadmin.Handler{}
		b := fusebox.New("x", fusebox.Config{})
		h.Add(b)
		const more = 5
		for i := range fuseboxadmin.MaxEvents + more {
			if err := h.Publish("n", i); err != nil {
				t.Fatal(err)
			}
		}
		if n, first := h.Kept(); n != fuseboxadmin.MaxEvents || first != fmt.Sprint(more) {
			t.Errorf("%d events, the first %s", n, first)
		}
		const size = 60_000
		for range 2 * fuseboxadmin.MaxBytes / size {
			if err := h.Publish("long", strings.Repeat("x", size-2)); err != nil {
				t.Fatal(err)
			}
		}
		if n, _ := h.Kept(); n != fuseboxadmin.MaxBytes/size {
			t.Errorf("%d events of %d bytes, want %d", n, size, fuseboxadmin.MaxBytes/size)
		}
	})
}

// same compares samples, whatever the zones of their times.
func same(a, b fuseboxadmin.Sample) bool {
	if !a.From.Equal(b.From) || !a.At.Equal(b.At) {
		return false
	}
	a.From, a.At = b.From, b.At
	return a == b
}

// Samples are taken while somebody looks, and say nothing wrong of when nobody did.
func TestSamplesTellWhatItCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fallbacks := uint64(100)
		h := &fuseboxadmin.Handler{Fallbacks: func() uint64 { return fallbacks }}
		start := time.Now()
		ctx := t.Context()
		before := fusebox.New("before", fusebox.Config{})
		before.Do(ctx, succeed) // this was before anything was added
		var r fusebox.Registry
		r.Get("old").Do(ctx, succeed)
		h.Add(before)
		h.Add(before) // once is enough
		h.AddRegistry("", &r)
		shadow := fusebox.New("shadow", fusebox.Config{Mode: fusebox.Shadow, Consecutive: 1, OpenFor: time.Hour})
		remove := h.Add(shadow)
		if s := history(t, h, time.Time{}).Samples; len(s) != 0 {
			t.Fatalf("there are samples: %+v", s)
		}
		for range 3 {
			before.Do(ctx, succeed)
			r.Get("new").Do(ctx, fail)
			shadow.Do(ctx, fail)
		}
		shadow.Do(ctx, succeed)
		h.Add(before) // what it has counted meanwhile counts
		open := r.Get("open")
		open.Override(fusebox.ForceOpen, fusebox.Note{})
		open.Do(ctx, succeed)
		fallbacks += 7
		time.Sleep(time.Hour) // and nobody looked
		want := fuseboxadmin.Sample{
			From: start, At: time.Now(), Calls: 10, Failures: 6, Rejected: 1, WouldRejectBad: 2, WouldRejectGood: 1, Fallbacks: 7,
		}
		got := history(t, h, time.Time{}).Samples
		if len(got) != 1 || !same(got[0], want) {
			t.Fatalf("the samples are %+v, want %+v", got, want)
		}
		h.Sample()
		time.Sleep(fuseboxadmin.SampleEvery - 1)
		h.Sample() // too early
		remove()
		r.Delete("new")
		before.Do(ctx, fail)
		r.Get("new").Do(ctx, fail) // another one
		time.Sleep(time.Nanosecond)
		want = fuseboxadmin.Sample{From: want.At, At: time.Now(), Calls: 2, Failures: 2}
		got = history(t, h, time.Time{}).Samples
		if len(got) != 2 || !same(got[1], want) {
			t.Fatalf("the samples are %+v, want %+v", got, want)
		}
		if s := history(t, h, got[0].At).Samples; len(s) != 1 || !same(s[0], want) {
			t.Errorf("since the first: %+v", s)
		}
		for range 2 * fuseboxadmin.MaxSamples {
			time.Sleep(fuseboxadmin.SampleEvery)
			h.Sample()
		}
		got = history(t, h, time.Time{}).Samples
		if n := len(got); n != fuseboxadmin.MaxSamples {
			t.Errorf("%d samples, want %d", n, fuseboxadmin.MaxSamples)
		}
		for i := range got[1:] {
			if !got[i+1].From.Equal(got[i].At) {
				t.Errorf("sample %d begins %v, the one before it ends %v", i+1, got[i+1].From, got[i].At)
			}
		}
		time.Sleep(fuseboxadmin.MaxAge + time.Hour)
		if s := history(t, h, time.Time{}).Samples; len(s) != 1 {
			t.Errorf("%d samples after a long time, want that of it", len(s))
		}
	})
}

// A breaker that another of its name has hidden counts from when it is shown, not
// all that it counted before.
func TestABreakerThatWasHiddenBringsNoPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fuseboxadmin.Handler{}
		first, second := fusebox.New("x", fusebox.Config{}), fusebox.New("x", fusebox.Config{})
		remove := h.Add(first)
		h.Add(second)
		for range 3 {
			second.Do(t.Context(), succeed)
			time.Sleep(time.Minute)
			h.Sample()
		}
		remove()
		second.Do(t.Context(), succeed)
		time.Sleep(time.Minute)
		calls := []uint64{}
		for _, s := range history(t, h, time.Time{}).Samples {
			calls = append(calls, s.Calls)
		}
		if want := []uint64{0, 0, 0, 1}; !slices.Equal(calls, want) {
			t.Errorf("calls are %d, want %d", calls, want)
		}
	})
}

// What there was before does not count; a function that panics is asked again.
func TestFallbacksCountFromWhenSomethingWasAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		total, broken := uint64(100), true
		h := &fuseboxadmin.Handler{Fallbacks: func() uint64 {
			if broken {
				panic("no total")
			}
			return total
		}}
		func() {
			defer func() { _ = recover() }()
			h.Add(fusebox.New("x", fusebox.Config{}))
			t.Error("it did not panic")
		}()
		broken = false
		total = 200
		h.Add(fusebox.New("y", fusebox.Config{}))
		total += 7
		time.Sleep(time.Minute)
		if s := history(t, h, time.Time{}).Samples; len(s) != 1 || s[0].Fallbacks != 7 {
			t.Errorf("the samples are %+v, want one with 7 fallbacks", s)
		}
	})
}

// A reader that is slow, but reads, has all of a long history; one that reads
// nothing holds it no longer than any other answer.
func TestALongHistoryIsForSlowReadersToo(t *testing.T) {
	inBubble(t, false, func(t *testing.T, x *bubble) {
		for range 80 {
			if err := x.Publish("long", strings.Repeat("x", 60_000)); err != nil {
				t.Fatal(err)
			}
		}
		ask := func() io.ReadCloser {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/history", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := x.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			return resp.Body
		}
		slow := ask()
		defer slow.Close()
		start, n := time.Now(), int64(0)
		for err := error(nil); err == nil; time.Sleep(500 * time.Millisecond) {
			var m int64
			if m, err = io.CopyN(io.Discard, slow, 64<<10); err != nil && !errors.Is(err, io.EOF) {
				t.Fatalf("after %v and %d bytes: %v", time.Since(start), n+m, err)
			}
			n += m
		}
		if n < 80*60_000 || time.Since(start) < 2*fuseboxadmin.Patience {
			t.Errorf("%d bytes in %v", n, time.Since(start))
		}
		stuck := ask()
		defer stuck.Close()
		time.Sleep(fuseboxadmin.Patience + time.Second)
		if _, err := io.Copy(io.Discard, stuck); err == nil {
			t.Error("one that read nothing has all the same")
		}
	})
}

func TestAStreamTakesSamples(t *testing.T) {
	inBubble(t, false, func(t *testing.T, x *bubble) {
		s := x.listen("")
		s.next()
		for range 4 {
			s.next() // a comment, every 15 s
			x.b.Do(t.Context(), succeed)
		}
		got := history(t, x, time.Time{}).Samples
		calls := uint64(0)
		for _, one := range got {
			calls += one.Calls
			if d := one.At.Sub(one.From); d < fuseboxadmin.SampleEvery || d > fuseboxadmin.SampleEvery+time.Second {
				t.Errorf("a sample of %v", d)
			}
		}
		if len(got) < 5 || calls < 3 {
			t.Errorf("%d samples in a minute, with %d calls", len(got), calls)
		}
		s.body.Close()
	})
}

// A clock of the user's that panics loses no calls.
func TestASampleThatPanicsIsTakenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fuseboxadmin.Handler{}
		var broken bool
		b := fusebox.New("x", fusebox.Config{Now: func() time.Time {
			if broken {
				panic("no time")
			}
			return time.Now()
		}})
		b.Do(t.Context(), succeed)
		h.Add(b)
		b.Do(t.Context(), succeed)
		time.Sleep(time.Minute)
		broken = true
		func() {
			defer func() { _ = recover() }()
			h.Sample()
			t.Error("it did not panic")
		}()
		broken = false
		if s := history(t, h, time.Time{}).Samples; len(s) != 1 || s[0].Calls != 1 {
			t.Errorf("the samples are %+v", s)
		}
	})
}

func TestHistoriesAreBounded(t *testing.T) {
	h := &fuseboxadmin.Handler{}
	ask := func(w http.ResponseWriter) {
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/history", nil))
	}
	const most = 2
	begun, take := make(chan bool, most), make(chan bool)
	var readers sync.WaitGroup
	for range most {
		readers.Go(func() { ask(&stuck{httptest.NewRecorder(), begun, take}) })
	}
	for range most {
		<-begun
	}
	one := httptest.NewRecorder()
	if ask(one); one.Code != http.StatusServiceUnavailable || one.Header().Get("Retry-After") != "1" {
		t.Errorf("status %d, %v", one.Code, one.Header())
	}
	close(take)
	readers.Wait()
	one = httptest.NewRecorder()
	if ask(one); one.Code != http.StatusOK {
		t.Errorf("status %d when the others have gone", one.Code)
	}
}

func TestWhatAProgramMayPublish(t *testing.T) {
	longEvent := strings.Repeat("x", 101)
	h := &fuseboxadmin.Handler{}
	for event, data := range map[string]any{
		"":           1,
		"transition": 1,
		"audit":      1,
		"list":       1,
		"reset":      1,
		"a b":        1,
		"a\nid: 7":   1,
		"ä":          1,
		"infinite":   math.Inf(1),
		"long":       strings.Repeat("x", 64<<10),
		longEvent:    1,
	} {
		if err := h.Publish(event, data); err == nil || !strings.HasPrefix(err.Error(), "fuseboxadmin: Publish: ") {
			t.Errorf("%q, %v: %v", event, data, err)
		}
	}
	unsupported := new(json.UnsupportedValueError)
	if err := h.Publish("infinite", math.Inf(1)); !errors.As(err, &unsupported) {
		t.Errorf("the error is %v", err)
	}
	if n := len(history(t, h, time.Time{}).Events); n != 0 {
		t.Errorf("%d events of what was refused", n)
	}
	for _, event := range []string{"reload", "fallback:stale", "a.b-c_9", longEvent[1:], "transitions"} {
		if err := h.Publish(event, nil); err != nil {
			t.Error(err)
		}
	}
	h.Close()
	if err := h.Publish("late", "<script>"); err != nil {
		t.Error(err)
	}
	if e := history(t, h, time.Time{}).Events; len(e) != 6 || e[5].Event != "late" {
		t.Errorf("the events are %+v", e)
	}
}

// Samples, streams, lists and changes at one time.
func TestHistoryWhileAllMoves(t *testing.T) {
	l := newLab(t)
	var r fusebox.Registry
	var clock fuseboxtest.Clock
	r.Now = clock.Now
	l.AddRegistry("", &r)
	s := l.listen("")
	s.next()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 25 {
				r.Get(fmt.Sprint(i)).Reset(fusebox.Note{})
				clock.Advance(time.Minute)
				l.Sample()
			}
		})
	}
	last := uint64(0)
	for range 5 {
		h := into[fuseboxadmin.History](l.get("/api/history"))
		if h.LastEventID < last {
			t.Errorf("event %d after event %d", h.LastEventID, last)
		}
		last = h.LastEventID
	}
	all.Wait()
	if n := len(into[fuseboxadmin.History](l.get("/api/history")).Events); n != 100 {
		t.Errorf("%d events, want 100", n)
	}
}

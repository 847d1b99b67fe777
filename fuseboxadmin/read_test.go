package fuseboxadmin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

func names(breakers []fuseboxadmin.Breaker) (names []string) {
	for _, b := range breakers {
		names = append(names, b.Name)
	}
	return names
}

// assorted adds breakers of every severity; the names say nothing of that.
func assorted(l *lab) {
	l.breaker("a closed", fusebox.Config{})
	l.breaker("b overridden", fusebox.Config{}).Override(fusebox.ForceClosed, fusebox.Note{})
	probing := l.breaker("c half-open", fusebox.Config{})
	probing.Override(fusebox.ForceOpen, fusebox.Note{})
	probing.Lift(fusebox.Note{})
	l.breaker("d open shadow", fusebox.Config{Mode: fusebox.Shadow, Consecutive: 1, OpenFor: time.Hour}).
		Do(context.Background(), fail)
	l.breaker("e open", fusebox.Config{Consecutive: 1, OpenFor: time.Hour}).Do(context.Background(), fail)
	l.breaker("f forced", fusebox.Config{}).Override(fusebox.ForceOpen, fusebox.Note{Reason: "bad deploy", By: "kim"})
	shadow := l.breaker("g half-open shadow", fusebox.Config{Mode: fusebox.Shadow})
	shadow.Override(fusebox.ForceOpen, fusebox.Note{})
	shadow.Lift(fusebox.Note{})
	l.breaker("h overridden by shadow", fusebox.Config{}).Override(fusebox.Shadow, fusebox.Note{})
	l.breaker("i closed shadow", fusebox.Config{Mode: fusebox.Shadow})
}

var bySeverity = []string{
	"e open", "f forced", "d open shadow", "c half-open", "g half-open shadow", "b overridden", "h overridden by shadow", "a closed", "i closed shadow",
}

func TestTheListIsSortedBySeverityThenName(t *testing.T) {
	l := newLab(t)
	assorted(l)
	list := into[fuseboxadmin.List](l.get("/api/breakers"))
	if got := names(list.Breakers); !slices.Equal(got, bySeverity) {
		t.Errorf("the order is %q, want %q", got, bySeverity)
	}
	if age := time.Since(list.Now); age < 0 || age > time.Minute {
		t.Errorf("now is %v ago", age)
	}
	open, forced, closed := list.Breakers[0], list.Breakers[1], list.Breakers[7]
	if open.Last == nil || open.Last.Why != "1 failure in a row >= 1" || open.Last.LastError != "down" || open.FailureRate != 0 {
		t.Errorf("the last record is %+v, the failure rate %v", open.Last, open.FailureRate)
	}
	if !forced.Override || forced.Note.By != "kim" || forced.Note.Reason != "bad deploy" || forced.Mode != fusebox.ForceOpen {
		t.Errorf("%+v is not what was set", forced)
	}
	if until := time.Until(open.Until); until < 30*time.Minute || open.OpenPeriod < fuseboxadmin.Duration(30*time.Minute) {
		t.Errorf("it is open for %v of %v, want about 1 h", until, open.OpenPeriod)
	}
	if closed.Last != nil {
		t.Errorf("nothing has happened, and the last record is %+v", closed.Last)
	}
}

func TestTheListIsFiltered(t *testing.T) {
	l := newLab(t)
	assorted(l)
	for query, want := range map[string][]string{
		"state=open":                           {"e open", "f forced", "d open shadow"},
		"state=half-open&state=closed":         bySeverity[3:],
		"name=shadow":                          {"d open shadow", "g half-open shadow", "h overridden by shadow", "i closed shadow"},
		"name=open&state=open":                 {"e open", "d open shadow"},
		"only=f+forced&only=e+open&only=none":  {"e open", "f forced"},
		"only=f+forced&name=open":              {},
		"name=" + url.QueryEscape("open s"):    {"d open shadow", "g half-open shadow"},
		"name=OPEN":                            nil,
		"name=&" + url.PathEscape("state")[:0]: bySeverity,
	} {
		list := into[fuseboxadmin.List](l.get("/api/breakers?" + query))
		if got := names(list.Breakers); !slices.Equal(got, want) {
			t.Errorf("%s shows %q, want %q", query, got, want)
		}
	}
	if e := l.get("/api/breakers?state=ajar").refused(400); e.Field != "state" || e.Value != "ajar" || e.Rule != "must be closed, half-open or open" {
		t.Errorf("%+v", e)
	}
	if e := l.get("/api/breakers?sate=open").refused(400, "name and only and state"); e.Field != "sate" {
		t.Errorf("%+v", e)
	}
	l.get("/api/breakers?name=%zz").refused(400, "cannot be read")
	l.get("/api/breakers?"+strings.Repeat("only=x&", 201)).refused(400, "at most 200")
	for _, b := range into[fuseboxadmin.List](l.get("/api/breakers")).Breakers {
		if d := into[fuseboxadmin.Detail](l.get("/" + b.Path)); len(b.Rules) == 0 || !reflect.DeepEqual(b.Rules, d.Rules) || b.Judged != d.Judged {
			t.Errorf("%s is listed with %+v, and has %+v", b.Name, b.Rules, d.Rules)
		}
	}
	l.get("/api/breakers/a%20closed?name=x").refused(400, "is no parameter here")
}

func TestAnEmptyHandlerListsNothing(t *testing.T) {
	l := newLab(t)
	if text := l.get("/api/breakers").text; !strings.Contains(string(text), `"breakers":[]`) {
		t.Errorf("the list is %s", text)
	}
}

func TestABreakerIsShownWhole(t *testing.T) {
	l := newLab(t)
	b := l.breaker("payments", fusebox.Config{
		MinCalls: 4, SlowAfter: time.Minute, OpenJitter: -1, StableAfter: -1, Window: 90 * time.Second,
	})
	b.Do(t.Context(), fail)
	b.Do(t.Context(), succeed)
	b.Reset(fusebox.Note{By: "kim"})
	b.Do(t.Context(), fail)
	b.Do(t.Context(), succeed)
	b.Do(t.Context(), fail)

	a := l.get("/api/breakers/payments")
	for _, part := range []string{`"window":"1m30s"`, `"stable_after":null`, `"open_jitter":null`, `"slow_after":"1m0s"`, `"probe_timeout":"30s"`} {
		if !strings.Contains(string(a.text), part) {
			t.Errorf("%s has no %s", a.text, part)
		}
	}
	d := into[fuseboxadmin.Detail](a)
	if d.Path != "api/breakers/payments" || !d.Judged || d.State != fusebox.Closed || d.Totals.Failures != 3 {
		t.Errorf("%+v", d.Breaker)
	}
	if len(d.History) != 1 || d.History[0].Why != "reset by kim" || d.Last.Why != d.History[0].Why || len(d.Totals.Transitions) != 1 {
		t.Errorf("the history is %+v, the totals %+v", d.History, d.Totals)
	}
	want := []fuseboxadmin.Rule{
		{Cause: fusebox.CauseFailureRate, Value: 2. / 3, Threshold: 0.5, MinCalls: 4, CallsToTrip: 1},
		{Cause: fusebox.CauseSlowRate, Value: 0, Threshold: 0.6, MinCalls: 4, CallsToTrip: 5}, // 5 of 8
		{Cause: fusebox.CauseConsecutive, Value: 1, Threshold: 20, Enough: true, CallsToTrip: 19},
	}
	if !reflect.DeepEqual(d.Rules, want) {
		t.Errorf("the rules are\n%+v, want\n%+v", d.Rules, want)
	}
	if d.FailureRate != 2./3 {
		t.Errorf("the failure rate is %v", d.FailureRate)
	}
	for mode, judged := range map[fusebox.Mode]bool{fusebox.ForceClosed: false, fusebox.Off: false, fusebox.Shadow: true, fusebox.ForceOpen: false} {
		b.Override(mode, fusebox.Note{})
		if d := into[fuseboxadmin.Detail](l.get("/api/breakers/payments")); d.Judged != judged {
			t.Errorf("in mode %v judged is %t", mode, d.Judged)
		}
	}
	tripped := l.breaker("tripped", fusebox.Config{Consecutive: 1, OpenFor: time.Hour})
	tripped.Do(t.Context(), fail)
	if d := into[fuseboxadmin.Detail](l.get("/api/breakers/tripped")); d.Judged {
		t.Error("an open breaker is judged")
	}
}

// In a Go program the settings of a breaker are a Config: none may be missing.
func TestTheSettingsHaveEveryFieldOfAConfig(t *testing.T) {
	not := map[string]string{"Observers": "functions", "Now": "of simulations", "Rand": "of simulations"}
	shown, config := reflect.TypeFor[fuseboxadmin.Settings](), reflect.TypeFor[fusebox.Config]()
	for i := range config.NumField() {
		name := config.Field(i).Name
		if _, ok := shown.FieldByName(name); ok == (not[name] != "") {
			t.Errorf("%s is shown: %t", name, ok)
		}
	}
	// Each says what it is called, and has the value of its own field.
	c := fusebox.Config{
		Window: 11 * time.Second, Buckets: 12, WindowCalls: 130, MinCalls: 14, FailureRate: 0.15, SlowAfter: 16 * time.Second, SlowRate: 0.17,
		Consecutive: 18, OpenFor: 19 * time.Second, OpenForMax: 20 * time.Second, OpenJitter: 0.21, Probes: 22, CloseAfter: 23,
		ReopenAfter: 24, ProbeTimeout: 25 * time.Second, StableAfter: 26 * time.Second, Mode: fusebox.Shadow,
		TripWhen: func(fusebox.Counts) bool { return false },
		Classify: func(context.Context, error) fusebox.Outcome { return fusebox.Success },
	}
	l := newLab(t)
	l.breaker("x", c)
	d := into[fuseboxadmin.Detail](l.get("/api/breakers/x"))
	got, want := reflect.ValueOf(d.Config), reflect.ValueOf(c)
	for i := range got.NumField() {
		g, w := reflect.Indirect(got.Field(i)), want.FieldByName(shown.Field(i).Name)
		if w.Kind() == reflect.Func {
			w = reflect.ValueOf(true)
		}
		if !g.Equal(w.Convert(g.Type())) {
			t.Errorf("%s is %v, want %v", shown.Field(i).Name, g, w)
		}
	}
	if len(d.Rules) != 1 || d.Rules[0].Cause != fusebox.CauseTripWhen {
		t.Errorf("the rules are %+v, want TripWhen alone", d.Rules)
	}
}

func TestAnUnknownBreakerIsNotMade(t *testing.T) {
	l := newLab(t)
	var r fusebox.Registry
	l.AddRegistry("", &r)
	r.Get("here")
	l.get("/api/breakers/there").refused(404, `no breaker "there"`)
	for _, op := range []string{"override", "lift", "reset"} {
		l.post("/api/breakers/there/"+op, `{"reason":"x"}`).refused(404, `no breaker "there"`)
	}
	if n := r.Stats().Keys; n != 1 {
		t.Errorf("the registry has %d breakers, want 1", n)
	}
}

// oddNames are names that a path has its difficulties with.
var oddNames = []string{
	"", ".", "..", "~", "~~", "~.", "a/b", "/", "//", "a//b", "../x", "a b", "a+b", "%", "%2F", "?a=b", "#", "a;b", "ü", "日本", "\xff", "\n", "override", "x/override", "\\",
}

func TestEveryNameHasAPath(t *testing.T) {
	l := newLab(t)
	outer := http.NewServeMux() // such as cleans paths and redirects
	outer.Handle("/debug/fusebox/", http.StripPrefix("/debug/fusebox", l))
	server := httptest.NewServer(outer)
	defer server.Close()
	var r fusebox.Registry
	l.AddRegistry("", &r)
	for i, name := range oddNames {
		if i%2 == 0 {
			r.Get(name)
		} else {
			l.breaker(name, fusebox.Config{})
		}
	}
	l.url = server.URL + "/debug/fusebox"
	list := into[fuseboxadmin.List](l.get("/api/breakers"))
	if len(list.Breakers) != len(oddNames) || list.Hidden != nil {
		t.Fatalf("%d are listed, want %d", len(list.Breakers), len(oddNames))
	}
	for _, name := range oddNames {
		path := "/" + fuseboxadmin.Path(name)
		shown := strings.ToValidUTF8(name, "\uFFFD")
		if d := into[fuseboxadmin.Detail](l.get(path)); d.Name != shown || "/"+d.Path != path {
			t.Errorf("%s shows %q at %q, want %q", path, d.Name, d.Path, shown)
		}
		if !slices.ContainsFunc(list.Breakers, func(b fuseboxadmin.Breaker) bool { return b.Name == shown && "/"+b.Path == path }) {
			t.Errorf("the list has no %q with path %q", shown, path)
		}
		b := into[fuseboxadmin.Breaker](l.post(path+"/override", `{"mode":"shadow"}`))
		if b.Name != shown || b.Mode != fusebox.Shadow {
			t.Errorf("%s/override makes %q %v", path, b.Name, b.Mode)
		}
	}
	for _, b := range into[fuseboxadmin.List](l.get("/api/breakers")).Breakers {
		if b.Mode != fusebox.Shadow || b.Last == nil || b.Totals.Transitions != nil {
			t.Errorf("%q: mode %v, last %v", b.Name, b.Mode, b.Last)
		}
	}
}

func TestWhatIsNotThereAndWhatIsNotAllowed(t *testing.T) {
	l := newLab(t)
	l.breaker("x", fusebox.Config{})
	for _, path := range []string{"/", "/api", "/api/", "/api/breakers/", "/api/breakers/x/", "/api/breakers/x/y", "/api/breakers//lift", "/api/breakers/x/lift/", "/api//breakers", "/API/breakers"} {
		l.get(path).refused(404, "api/breakers lists the breakers")
	}
	for path, allow := range map[string]string{
		"/api/breakers": "GET, HEAD", "/api/breakers/x": "GET, HEAD", "/api/events": "GET, HEAD",
		"/api/history": "GET, HEAD", "/api/openapi.json": "GET, HEAD",
		"/api/breakers/x/override": "POST", "/api/breakers/x/lift": "POST", "/api/breakers/x/reset": "POST",
	} {
		methods := []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions}
		if allow == "POST" {
			methods = append(methods, http.MethodGet)
		} else {
			methods = append(methods, http.MethodPost)
		}
		for _, method := range methods {
			a := l.request(method, path, "")
			if a.refused(405, allow); a.Header.Get("Allow") != allow {
				t.Errorf("%s %s: Allow is %q, want %q", method, path, a.Header.Get("Allow"), allow)
			}
		}
		if allow != "POST" {
			if a := l.request(http.MethodHead, path, ""); a.StatusCode != 200 || len(a.text) != 0 {
				t.Errorf("HEAD %s: %s %q", path, a.Status, a.text)
			}
		}
	}
}

func TestANameIsShownOnce(t *testing.T) {
	l := newLab(t)
	var r fusebox.Registry
	b := r.Get("twice")
	l.AddRegistry("", &r)
	removeFirst := l.Add(b)
	removeSecond := l.Add(b)
	other := fusebox.New("twice", fusebox.Config{})
	l.Add(other)
	l.Add(fusebox.New("twice", fusebox.Config{}))

	list := into[fuseboxadmin.List](l.get("/api/breakers"))
	if len(list.Breakers) != 1 || !slices.Equal(list.Hidden, []string{"twice"}) {
		t.Errorf("%q are listed, %q hidden", names(list.Breakers), list.Hidden)
	}
	into[fuseboxadmin.Breaker](l.post("/api/breakers/twice/override", `{"mode":"off"}`))
	if b.Snapshot().Mode != fusebox.Off || other.Snapshot().Mode != fusebox.Enforce {
		t.Error("not the breaker that is shown has been changed")
	}
	events := l.listen("")
	events.next()
	other.Reset(fusebox.Note{}) // no event: it is hidden
	b.Lift(fusebox.Note{Reason: "one"})
	removeFirst()
	removeFirst()
	removeSecond()
	b.Reset(fusebox.Note{Reason: "two"})
	r.Delete("twice") // the next is shown now
	other.Reset(fusebox.Note{Reason: "three"})
	for _, want := range []string{"override lifted: one", "", "reset: two", "reset: three"} {
		e := events.next()
		if want == "" {
			if e.kind != "list" {
				t.Errorf("the event is %+v, want list", e)
			}
			continue
		}
		if got := e.transition(t).Why; got != want {
			t.Errorf("the event is %q, want %q", got, want)
		}
	}
}

// JSON has no way to write its times; it is shown all the same, and so are the others.
func TestAClockOfAFarYear(t *testing.T) {
	for years, want := range map[int]string{10_000: "9999-12-31T23:59:59Z", -3000: "0001-01-01T00:00:00Z"} {
		l := newLab(t)
		var clock fuseboxtest.Clock
		now := func() time.Time { return clock.Now().AddDate(years, 0, 0) }
		b := l.breaker("far", fusebox.Config{Now: now, Consecutive: 1})
		l.breaker("near", fusebox.Config{})
		events := l.listen("")
		events.next()
		b.Do(t.Context(), fail)
		at := events.next().transition(t).At
		l.post("/api/breakers/far/override", `{"mode":"force-open","ttl":"15m"}`)
		clock.Advance(time.Hour)
		b.Do(t.Context(), succeed)
		d := into[fuseboxadmin.Detail](l.get("/api/breakers/far"))
		list := into[fuseboxadmin.List](l.get("/api/breakers"))
		if len(list.Breakers) != 2 || len(d.History) != 3 || len(d.Probes) != 1 {
			t.Errorf("%d breakers, %d records, %d probes", len(list.Breakers), len(d.History), len(d.Probes))
		}
		for _, got := range []time.Time{at, d.Since, d.Last.At, d.Trip.At, d.History[0].At, d.Probes[0].At} {
			if text := got.Format(time.RFC3339Nano); text != want {
				t.Errorf("a time in year %d is shown as %s, want %s", now().Year(), text, want)
			}
		}
	}
}

// What is known of a trip, of its probes and of what comes next, of one instant.
func TestTheDetailTellsWhyAndWhatNext(t *testing.T) {
	l := newLab(t)
	var clock fuseboxtest.Clock
	b := l.breaker("x", fusebox.Config{
		Now: clock.Now, MinCalls: 4, Consecutive: -1, OpenFor: time.Minute, OpenForMax: time.Hour, OpenJitter: -1, Window: 4 * time.Second, Buckets: 4,
		ReopenAfter: 2,
	})
	look := func() fuseboxadmin.Detail { return into[fuseboxadmin.Detail](l.get("/api/breakers/x")) }
	if text := string(l.get("/api/breakers/x").text); !strings.Contains(text, `"trip_window":[],`) || !strings.Contains(text, `"probes":[],`) {
		t.Errorf("before the first trip: %s", text)
	}
	b.Do(t.Context(), succeed)
	b.Do(t.Context(), fail)
	clock.Advance(time.Second)
	b.Do(t.Context(), succeed)
	buckets := []fusebox.Bucket{{}, {}, {Calls: 2, Failures: 1}, {Calls: 1}}
	if d := look(); !slices.Equal(d.Window, buckets) || d.Trip != nil || d.PeriodNumber != 0 || d.NextPeriod != fuseboxadmin.Duration(time.Minute) || !d.Since.Equal(clock.Now().Add(-time.Second)) {
		t.Errorf("closed: %+v", d)
	}
	b.Do(t.Context(), fail)
	buckets[3] = fusebox.Bucket{Calls: 2, Failures: 1}
	d := look()
	if len(d.Window) != 0 || !slices.Equal(d.TripWindow, buckets) || d.Trip == nil || d.Trip.Why != "failure rate 0.50 >= 0.50, 2 of 4 calls in 4s" || d.PeriodNumber != 1 || d.NextPeriod != fuseboxadmin.Duration(2*time.Minute) {
		t.Errorf("open: %+v", d)
	}
	clock.Advance(time.Minute)
	b.Do(t.Context(), fail)
	permit, err := b.Allow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(3 * time.Second)
	d = look()
	want := []fuseboxadmin.Probe{
		{Probe: fusebox.Probe{At: clock.Now().Add(-3 * time.Second), Result: fusebox.ProbeFailed}},
		{Probe: fusebox.Probe{At: clock.Now().Add(-3 * time.Second)}, Duration: fuseboxadmin.Duration(3 * time.Second)},
	}
	if !slices.Equal(d.Probes, want) || d.Passed != 0 || d.Failed != 1 || d.Outstanding != 1 || d.PeriodNumber != 1 {
		t.Errorf("half-open: %+v, the probes\n%+v, want\n%+v", d, d.Probes, want)
	}
	permit.Record(fusebox.Failure)
	if d := look(); d.PeriodNumber != 2 || d.OpenPeriod != fuseboxadmin.Duration(2*time.Minute) || d.NextPeriod != fuseboxadmin.Duration(4*time.Minute) || !slices.Equal(d.TripWindow, buckets) {
		t.Errorf("reopened: %+v", d)
	}
}

func TestRegistriesWithKeysInCommonAreToldApart(t *testing.T) {
	l := newLab(t)
	var users, orders fusebox.Registry
	l.AddRegistry("users/", &users)
	l.AddRegistry("orders/", &orders)
	users.Get("db")
	b := orders.Get("db")
	list := into[fuseboxadmin.List](l.get("/api/breakers"))
	if got := names(list.Breakers); !slices.Equal(got, []string{"orders/db", "users/db"}) || list.Hidden != nil || list.Breakers[0].Path != "api/breakers/orders%2Fdb" {
		t.Errorf("the list is %+v", list)
	}
	events := l.listen("")
	events.next()
	d := into[fuseboxadmin.Breaker](l.post("/api/breakers/orders%2Fdb/override", `{"mode":"shadow","by":"kim"}`))
	if d.Name != "orders/db" || d.Last.Name != "orders/db" || b.Snapshot().Mode != fusebox.Shadow || users.Get("db").Snapshot().Override {
		t.Errorf("%+v is changed", d)
	}
	if name := events.next().transition(t).Name; name != "orders/db" {
		t.Errorf("the event is of %q", name)
	}
	if d := into[fuseboxadmin.Detail](l.get("/api/breakers/orders%2Fdb")); d.History[0].Name != "orders/db" {
		t.Errorf("the record is %+v", d.History[0])
	}
	if got := names(into[fuseboxadmin.List](l.get("/api/breakers?name=users/")).Breakers); !slices.Equal(got, []string{"users/db"}) {
		t.Errorf("filtered: %q", got)
	}
	l.get("/api/breakers/db").refused(404)
}

// Neither looks nor records are a use.
func TestLookingKeepsNoIdleBreaker(t *testing.T) {
	l := newLab(t)
	var clock fuseboxtest.Clock
	r := fusebox.Registry{MaxIdle: time.Hour, Now: clock.Now}
	l.AddRegistry("", &r)
	b := r.Get("x")
	r.Lookup("x")
	for range 16 {
		clock.Advance(10 * time.Minute)
		l.get("/api/breakers/x") // of which the last finds nothing
		b.Reset(fusebox.Note{})
		r.Stats()
	}
	if n := r.Stats().Keys; n != 0 {
		t.Errorf("%d breakers are kept", n)
	}
}

func TestTheDescriptionIsServed(t *testing.T) {
	l := newLab(t)
	want, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := l.get("/api/openapi.json"); string(got.text) != string(want) || got.StatusCode != http.StatusOK {
		t.Errorf("%s, %d bytes", got.Status, len(got.text))
	}
	l.get("/api/openapi.json?x=1").refused(400, "is no parameter here")
}

func TestNilIsRefused(t *testing.T) {
	for name, add := range map[string]func(*fuseboxadmin.Handler){
		"fuseboxadmin: Add: the breaker is nil":          func(h *fuseboxadmin.Handler) { h.Add(nil) },
		"fuseboxadmin: AddRegistry: the registry is nil": func(h *fuseboxadmin.Handler) { h.AddRegistry("", nil) },
	} {
		func() {
			defer func() {
				if r := recover(); r != name {
					t.Errorf("the panic is %v, want %q", r, name)
				}
			}()
			add(new(fuseboxadmin.Handler))
		}()
	}
}

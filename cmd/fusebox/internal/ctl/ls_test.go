package ctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

func TestTargetsThatFailTakeNothingFromTheOthers(t *testing.T) {
	a, b := newAdmin(t, "payments"), newAdmin(t, "stock")
	down := nobody(t)
	o := ctl(t, "ls", "--target", a.url, "--target", down, "--target", b.url).ended(3)
	o.says("payments", "stock", a.url, b.url).complains(down+": ", "refused")

	r := decode[fuseboxadmin.List](ctl(t, "ls", "-o", "json", "--target", a.url, "--target", down, "--target", b.url).ended(3))
	if len(r) != 3 || r[0].Target != a.url || r[1].Target != down || r[2].Target != b.url {
		t.Fatalf("the results are %+v, want one for each target in order", r)
	}
	if r[0].Error != "" || r[0].Data.Breakers[0].Name != "payments" || r[1].Data != nil || !strings.Contains(r[1].Error, "refused") {
		t.Errorf("the results are %+v", r)
	}
	ctl(t, "ls", "--target", down, "--target", nobody(t)).ended(1)
	ctl(t, "ls", "--target", a.url, "--target", b.url).ended(0)
}

func TestATargetThatDoesNotAnswerIsNotWaitedForForLong(t *testing.T) {
	release := make(chan struct{})
	slow := served(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	stalls := served(t, func(w http.ResponseWriter, r *http.Request) { // in the middle of the answer
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"now"`))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })
	a := newAdmin(t, "payments")
	ctl(t, "ls", "--timeout", "200ms", "--target", slow, "--target", stalls, "--target", a.url).ended(3).
		says("payments").complains(slow+": no answer within 200ms", stalls+": no answer within 200ms")
}

func TestAnswersThatAreNoneOfTheAPIAreErrors(t *testing.T) {
	answer := func(kind, body string, status int) string {
		return served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	for _, c := range []struct {
		kind, body string
		status     int
		want       string
	}{
		{"text/html", "<html>", 200, `the answer is "text/html", not application/json`},
		{"", "", 200, "not application/json"},
		{"application/json", "", 200, "cannot be understood"},
		{"application/json", "\x00\xff\x1b[2J", 200, "cannot be understood"},
		{"application/json", `{"breakers": [{"state": "ajar"}]}`, 200, "cannot be understood"},
		{"application/json", `{"breakers": 1}`, 200, "cannot be understood"},
		{"application/json", `{"error": "\u001b[2Jgone\n"}`, 500, `\x1b[2Jgone\n`},
		{"application/json", `[]`, 500, "500 Internal Server Error"},
		{"text/plain", "no such page", 404, "404 Not Found"},
		{"text/plain", "", 204, "204 No Content"},
	} {
		o := ctl(t, "ls", "--target", answer(c.kind, c.body, c.status)).ended(1).complains(c.want)
		o.saysNot("\x1b", "\x00")
	}
	gone := served(t, func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	ctl(t, "ls", "--target", gone).ended(1).complains("closed without an answer")
}

func TestAHugeAnswerIsBounded(t *testing.T) {
	sent := make(chan int64, 1)
	huge := served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		portion := []byte(strings.Repeat(" ", 1<<20))
		var n int64
		for range 1024 {
			m, err := w.Write(portion)
			if n += int64(m); err != nil {
				break
			}
		}
		sent <- n
	})
	ctl(t, "ls", "--timeout", "60s", "--target", huge).ended(1).complains("longer than 64 MiB")
	if n := <-sent; n >= 1<<30 {
		t.Errorf("%d bytes were taken", n)
	}
	header := served(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) })
	ctl(t, "ls", "--target", header).ended(1).complains("header")
	refusal := served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(strings.Repeat("x", 1<<20)))
	})
	if o := ctl(t, "ls", "--target", refusal).ended(1); len(o.err) > 1000 {
		t.Errorf("%d bytes of error", len(o.err))
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := make(chan *http.Request, 10)
	elsewhere := served(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r })
	t.Setenv("FUSEBOX_TOKEN", token)
	for _, status := range []int{301, 302, 303, 307, 308} {
		url := served(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere+"/x", status) })
		ctl(t, "ls", "--target", url).ended(1).complains("redirects are not followed", elsewhere)
		ctl(t, "lift", "x", "--reason", "r", "--target", url).ended(1).complains("redirects are not followed")
		ctl(t, "events", "--target", url).ended(1).complains("redirects are not followed")
	}
	if len(asked) > 0 {
		t.Errorf("the request went elsewhere: %+v", <-asked)
	}
}

func TestTheTokenGoesWhereItIsNeeded(t *testing.T) {
	a := newAdmin(t, "payments")
	got := make(chan string, 10)
	url := served(t, func(w http.ResponseWriter, r *http.Request) {
		got <- r.Method + " " + r.Header.Get("Authorization")
		a.ServeHTTP(w, r)
	})
	t.Setenv("FUSEBOX_TOKEN", token)
	ctl(t, "ls", "--target", url).ended(0)
	ctl(t, "get", "payments", "--target", url).ended(0)
	ctl(t, "lift", "payments", "--reason", "r", "--target", url).ended(0)
	for _, want := range []string{"GET ", "GET ", "POST Bearer " + token} {
		if g := <-got; g != want {
			t.Errorf("the request is %q, want %q", g, want)
		}
	}
}

func TestTheListCanBeNarrowed(t *testing.T) {
	a := newAdmin(t, "payments/10.0.0.1:9000", "payments/10.0.0.2:9000", "stock")
	trip(t, a.breaker("search", fusebox.Config{}), errors.New("down"))
	ctl(t, "ls", "payments/*", "--target", a.url).ended(0).says("10.0.0.1", "10.0.0.2").saysNot("stock", "search")
	ctl(t, "ls", "stock", "search", "--target", a.url).ended(0).says("stock", "search").saysNot("payments")
	ctl(t, "ls", "--state", "open", "--target", a.url).ended(0).says("search").saysNot("stock", "payments")
	ctl(t, "ls", "none", "--target", a.url).ended(0).says("no breakers")
	ctl(t, "ls", "--state", "ajar", "--target", a.url).ended(2).complains("--state is")
	ctl(t, "ls", "-o", "yaml", "--target", a.url).ended(2).complains("--output is")
	ctl(t, "ls", "--timeout", "0s", "--target", a.url).ended(2).complains("--timeout is")
	ctl(t, "ls", "--nonsense").ended(2).complains("--nonsense")
	ctl(t, "list").ended(2).complains(`no command "list"`)
	ctl(t, "lss").ended(2).complains("is it ls?")
	ctl(t).ended(0).says("Exit code")
}

// One order for both: what a server lists first, ctl does, also where there are several.
func TestTheOrderIsThatOfTheServer(t *testing.T) {
	a, empty := newAdmin(t, "a closed"), newAdmin(t)
	for _, mode := range []fusebox.Mode{fusebox.ForceOpen, fusebox.ForceClosed, fusebox.Shadow, fusebox.Off} {
		a.breaker("b overridden: "+mode.String(), fusebox.Config{}).Override(mode, fusebox.Note{})
	}
	for _, mode := range []fusebox.Mode{fusebox.Enforce, fusebox.Shadow} {
		a.breaker("c closed: "+mode.String(), fusebox.Config{Mode: mode})
		trip(t, a.breaker("d open: "+mode.String(), fusebox.Config{Mode: mode, OpenFor: time.Hour}), errors.New("down"))
		half := a.breaker("e half-open: "+mode.String(), fusebox.Config{Mode: mode})
		half.Override(fusebox.ForceOpen, fusebox.Note{})
		half.Lift(fusebox.Note{})
		again := a.breaker("f open, overridden: "+mode.String(), fusebox.Config{OpenFor: time.Hour})
		trip(t, again, errors.New("down"))
		again.Override(mode, fusebox.Note{})
	}
	list := decode[fuseboxadmin.List](ctl(t, "ls", "-o", "json", "--target", a.url).ended(0))[0].Data.Breakers
	for _, targets := range [][]string{{"--target", a.url}, {"--target", empty.url, "--target", a.url}} {
		o := ctl(t, append([]string{"ls"}, targets...)...).ended(0)
		at := 0
		for _, b := range list {
			i := strings.Index(o.out, b.Name+" ")
			if i < at {
				t.Errorf("with %q, %q is not where the server has it:\n%s", targets, b.Name, o.out)
			}
			at = i
		}
	}
}

func TestNamesOfTwoBreakersAreTold(t *testing.T) {
	a := newAdmin(t, "twin", "twin")
	ctl(t, "ls", "--target", a.url).ended(0).says(a.url + " has another breaker twin")
}

func TestGetAsksEveryTargetForEveryName(t *testing.T) {
	a, b := newAdmin(t, "payments", "stock"), newAdmin(t, "payments")
	trip(t, a.breaker("search", fusebox.Config{}), errors.New("\x1b[31mdown"))
	ctl(t, "get", "search", "--target", a.url).ended(0).says("search at "+a.url, "open since", `last error    \x1b[31mdown`,
		"RULES (not judged now)", "RECORDS", "closed -> open: ", "SETTINGS", "failure rate 1.00 >= 0.50").saysNot("\x1b")
	ctl(t, "get", "payments", "stock", "--target", a.url, "--target", b.url).ended(3).
		says("stock at "+a.url, "payments at "+b.url).complains(b.url + `: stock: there is no breaker "stock"`)
	r := decode[fuseboxadmin.Detail](ctl(t, "get", "stock", "payments", "--target", a.url, "--target", b.url, "-o", "json").ended(3))
	var got []string
	for _, r := range r {
		got = append(got, fmt.Sprintln(r.Target == b.url, r.Name, r.Status, r.Data != nil))
	}
	if want := "[false stock 0 true\n false payments 0 true\n true stock 404 false\n true payments 0 true\n]"; fmt.Sprint(got) != want {
		t.Errorf("the results are %v, want %v", got, want)
	}
	ctl(t, "get", "no*", "--target", a.url).ended(1).complains(`there is no breaker "no*"`)
	ctl(t, "get", "*", "--target", a.url).ended(0).says("payments at", "stock at", "search at")
	ctl(t, "get", "--target", a.url).ended(2).complains("NAME")
}

func TestJSONIsWhatTheServerSaid(t *testing.T) {
	a := newAdmin(t)
	var clock fuseboxtest.Clock // so that nothing depends on when it is asked
	b := a.breaker("a\x1b\u009b\u202e\U000e0001 <b>", fusebox.Config{Now: clock.Now})
	trip(t, b, errors.New("down"))
	o := ctl(t, "ls", "-o", "json", "--target", a.url).ended(0)
	o.saysNot("\x1b", "\u009b", "\u202e", "\U000e0001").says("<b>")
	r := decode[fuseboxadmin.List](o)[0].Data
	if r.Breakers[0].Name != b.Name() || r.Breakers[0].State != fusebox.Open || r.LastEventID == 0 || time.Since(r.Now) > time.Hour {
		t.Errorf("the list is %+v", r)
	}
	// Each field that the server has is there, and no other.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"/"+fuseboxadmin.Path(b.Name()), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var want map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&want); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Results []struct{ Data map[string]any }
	}
	if err := json.Unmarshal([]byte(ctl(t, "get", b.Name(), "-o", "json", "--target", a.url).ended(0).out), &got); err != nil {
		t.Fatal(err)
	}
	delete(want, "now")
	delete(got.Results[0].Data, "now")
	if fmt.Sprint(got.Results[0].Data) != fmt.Sprint(want) {
		t.Errorf("the detail is\n%v, want\n%v", got.Results[0].Data, want)
	}
}

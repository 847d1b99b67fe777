package browser_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

// published returns how often each of the events "n1", "n2" … is in the list of changes.
func published(p *tab) map[string]int {
	p.Helper()
	times := map[string]int{}
	for _, name := range regexp.MustCompile(`\bn\d+\b`).FindAllString(p.text("#changes"), -1) {
		times[name]++
	}
	return times
}

func TestTheStreamIsCutAndResumesWithNothingLostOrDoubled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", tripping())
	p := open(t, s.url, "/#/changes")
	p.expect("ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE", "Failed to fetch")
	p.reads("#status", "Live")
	n := 0
	publish := func(many int) {
		for range many {
			n++
			if err := s.admin.Publish("test", fmt.Sprintf("n%d", n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	complete := func() bool {
		got := published(p)
		if len(got) != n {
			return false
		}
		for name, times := range got {
			if times != 1 {
				t.Fatalf("%s is there %d times", name, times)
			}
		}
		return true
	}
	publish(3)
	p.until("events are missing before the cut", complete)
	s.cut()
	p.reads("#lost", "Connection lost, showing data from ")
	said := p.text("#lost")
	_, at, _ := strings.Cut(said, "showing data from ")
	when, err := time.ParseInLocation("15:04:05", strings.TrimSuffix(strings.Fields(at)[0], "."), berlin(t))
	if title := eval[string](p, "document.querySelector('#lost').title"); !strings.HasSuffix(title, " UTC") {
		t.Errorf("on hover it says %q, want UTC", title)
	}
	if err != nil {
		t.Errorf("%q: %v", said, err)
	} else if now := time.Now().In(berlin(t)); now.Sub(time.Date(now.Year(), now.Month(), now.Day(), when.Hour(), when.Minute(), when.Second(), 0, berlin(t))) > 5*time.Minute {
		t.Errorf("at %v it says %q", now, said)
	}
	p.until("the title does not say it", func() bool { return strings.HasPrefix(eval[string](p, "document.title"), "connection lost") })
	publish(40)
	calls(b, 24, 41)
	p.reads("h1", "Nothing is open") // it does not know yet
	s.mend()
	p.until("events are missing after the cut", complete)
	p.reads("h1", "1 breaker open")
	p.until("it says that the connection is lost", func() bool { return p.text("#lost") == "" })
	publish(3)
	p.until("events are missing at the end", complete)
}

func TestAProgramThatStartsAnewIsListedAnew(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.breaker("of the old one", tripping())
	p := open(t, s.url, "/")
	p.expect("ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "ERR_INCOMPLETE", "Failed to fetch", "status of 404")
	p.reads("fb-list", "of the old one")
	p.reads("#status", "Live")
	s.cut()
	p.reads("#status", "Connection lost")
	s.mu.Lock()
	s.admin = &fuseboxadmin.Handler{Token: token}
	s.mu.Unlock()
	b := s.breaker("of the new one", tripping())
	calls(b, 24, 41)
	s.mend()
	p.reads("fb-list", "of the new one")
	p.reads("h1", "1 breaker open")
	if text := p.text("fb-list"); strings.Contains(text, "of the old one") {
		t.Errorf("the list is %s", text)
	}
}

func TestTabsShareOneStream(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	b := s.breaker("payments", tripping())
	c := s.breaker("search", tripping())
	p := open(t, s.url, "/")
	p.reads("#status", "Live")
	q := open(t, s.url, "/")
	q.reads("#status", "Live")
	if now, ever := s.listening(); now != 1 || ever != 1 {
		t.Errorf("two tabs have %d streams, and had %d", now, ever)
	}
	calls(b, 24, 41)
	p.reads("h1", "1 breaker open")
	q.reads("h1", "1 breaker open")
	p.do(navigateAway)
	calls(c, 24, 41)
	q.reads("h1", "2 breakers open")
	p.close()
	q.close()
	soon(t, "the stream stays when no tab is there", func() bool { now, _ := s.listening(); return now == 0 })
}

func TestAReaderIsToldOfOpeningsOnceAndInAFewWords(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	var breakers []*fusebox.Breaker
	for i := range 6 {
		breakers = append(breakers, s.breaker(fmt.Sprintf("breaker %d", i), tripping()))
	}
	p := open(t, s.url, "/")
	p.reads("#status", "Live")
	eval[any](p, `window.told = []; window.times = [];
		new MutationObserver(() => { window.told.push(document.querySelector('#announce').textContent); window.times.push(performance.now()); })
		.observe(document.querySelector('#announce'), { childList: true, characterData: true, subtree: true })`)
	if live := eval[string](p, `document.querySelector('#announce').getAttribute('aria-live')`); live != "polite" {
		t.Errorf("aria-live is %q", live)
	}
	for _, b := range breakers[1:] {
		calls(b, 24, 41)
	}
	p.until("nobody is told", func() bool { return eval[int](p, "window.told.length") > 0 })
	calls(breakers[0], 24, 41)
	p.until("nobody is told of the last", func() bool {
		return strings.Contains(plain(eval[string](p, "window.told.at(-1)")), "breaker 0 is open: failure rate 63 % ≥ 50 %")
	})
	told := eval[[]string](p, "window.told")
	times := eval[[]float64](p, "window.times")
	for i := 1; i < len(times); i++ {
		if pause := times[i] - times[i-1]; pause < 3900 {
			t.Errorf("a reader is told again after %.0f ms, want 4 s", pause)
		}
	}
	if len(told) > 4 { // once or twice of five, and of the last
		t.Errorf("a reader is told %d times of 6 openings: %q", len(told), told)
	}
	if !strings.Contains(strings.Join(told, "\n"), "breakers are open: breaker ") {
		t.Errorf("a reader is told %q", told)
	}
}

package fusebox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// What can be read of a breaker: its state, its rejections, its messages.

func TestC29LookingTakesNothing(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=1")
	look := func() {
		for range 10 {
			l.State()
			l.Snapshot()
			l.History()
			l.Config()
			l.Breaker.Name()
			_, _ = json.Marshal(l.Snapshot())
		}
	}
	look()
	l.calls(1, errCase)
	refusal := l.refused()
	l.clock.Advance(10 * time.Second)
	look()
	_, _, _ = refusal.Error(), refusal.RetryAfter(), refusal.State()
	l.wantEvents("CO")
	p := l.allow()
	look()
	l.refused()
	l.clock.Advance(10 * time.Second) // the end of the lease
	look()
	l.wantEvents("CO,OH")
	l.want(fusebox.Open)
	if p.Record(fusebox.Success) {
		t.Error("a probe was accepted after its lease")
	}
	l.wantEvents("CO,OH,HO")
	look()
	l.clock.Advance(10 * time.Second)
	look()
	l.calls(1, nil)
	look()
	l.wantEvents("CO,OH,HO,OH,HC")
}

func TestC30TheTwoRejectionsCanBeToldApart(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=3 close=3")
	check := func(err error, probing bool, s fusebox.State) {
		t.Helper()
		if !errors.Is(err, fusebox.ErrOpen) || errors.Is(err, fusebox.ErrProbing) != probing {
			t.Errorf("%v: ErrOpen %v, ErrProbing %v; want true, %v",
				err, errors.Is(err, fusebox.ErrOpen), errors.Is(err, fusebox.ErrProbing), probing)
		}
		if _, rejected := fusebox.Rejected(err); !rejected {
			t.Errorf("Rejected(%v) is false", err)
		}
		var open *fusebox.OpenError
		if !errors.As(err, &open) || open.State() != s {
			t.Errorf("%v: state is not %v", err, s)
		}
	}
	l.calls(1, errCase)
	check(l.call(nil), false, fusebox.Open)
	l.clock.Advance(10 * time.Second)
	first := l.allow()
	l.allow()
	l.allow()
	check(l.call(nil), true, fusebox.HalfOpen)
	first.Record(fusebox.Failure) // one failure ends the period, whatever else is out
	check(l.call(nil), false, fusebox.Open)
	l.clock.Advance(10 * time.Second)
	l.calls(3, nil)
	l.want(fusebox.Closed)
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	check(fmt.Errorf("wrapped: %w", l.call(nil)), false, fusebox.Open)
}

func TestC86TheStateReadsTheSameEverywhere(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=1 ttl=30s")
	step := func(want fusebox.State, committed bool) {
		t.Helper()
		l.want(want)
		s := l.Snapshot()
		if s.State != want {
			t.Errorf("Snapshot has %v, want %v", s.State, want)
		}
		if s.Until.IsZero() == (want == fusebox.Open && s.Mode != fusebox.ForceOpen) {
			t.Errorf("%v and Until is %v", want, s.Until)
		}
		if committed && s.Last.To != want {
			t.Errorf("the last record leads to %v, want %v", s.Last.To, want)
		}
		text, err := json.Marshal(s)
		if err != nil || !bytes.Contains(text, []byte(`"state":"`+want.String()+`"`)) {
			t.Errorf("as JSON: %s, %v", text, err)
		}
	}
	l.calls(1, errCase)
	step(fusebox.Open, true)
	l.clock.Advance(10 * time.Second)
	step(fusebox.HalfOpen, false)
	p := l.allow()
	step(fusebox.HalfOpen, true)
	p.Record(fusebox.Success)
	step(fusebox.Closed, true)
	l.halfOpen()
	l.allow() // lost
	l.clock.Advance(30 * time.Second)
	step(fusebox.Open, false)
	l.refused()
	step(fusebox.Open, true)
	l.Reset(fusebox.Note{})
	step(fusebox.Closed, true)
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	step(fusebox.Open, true)
	l.Override(fusebox.ForceClosed, fusebox.Note{})
	step(fusebox.Closed, true)
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	l.Lift(fusebox.Note{})
	step(fusebox.HalfOpen, true)
	l.Override(fusebox.Off, fusebox.Note{})
	step(fusebox.Closed, true)
	l.Lift(fusebox.Note{})
	step(fusebox.Closed, true)
}

func TestC91EveryMessageNamesItsBreaker(t *testing.T) {
	var log bytes.Buffer
	l := newCase(t, "consec=1 openfor=10s probes=1", func(c *fusebox.Config) {
		c.Observers = append(c.Observers, fusebox.LogObserver(slog.New(slog.NewTextHandler(&log, nil))))
	})
	l.calls(1, errCase)
	texts := []string{l.refused().Error(), l.Snapshot().Last.String(), log.String()}
	l.clock.Advance(10 * time.Second)
	l.allow()
	texts = append(texts, l.refused().Error())
	l.Override(fusebox.ForceOpen, fusebox.Note{Reason: "maintenance"})
	texts = append(texts, l.refused().Error())
	if l.refused().Name() != "payments" {
		t.Errorf("Name of a rejection is %q", l.refused().Name())
	}
	for _, text := range texts {
		if !strings.Contains(text, "payments") {
			t.Errorf("no name in %q", text)
		}
	}
	for i, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
		if !strings.Contains(line, "name=payments") {
			t.Errorf("no name in line %d of the log: %s", i, line)
		}
	}

	r := &fusebox.Registry{MaxKeys: 100}
	for i := range 10_000 {
		r.Get(strconv.Itoa(i))
	}
	if n := len(caseKeys(r)); n > 100 {
		t.Errorf("%d names, want at most 100", n)
	}
	if b := r.Get("host"); b.Name() != "host" {
		t.Errorf("the breaker of a key is called %q", b.Name())
	}
}

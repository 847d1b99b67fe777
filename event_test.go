package fusebox_test

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fusebox-go/fusebox"
)

// failWith makes n calls that fail with err.
func (l *cellLab) failWith(n int, err error) {
	l.Helper()
	for range n {
		p := l.allow()
		p.Finish(l.ctx(), err)
	}
}

// exampleLab has tripped as in the example of the design: 41 of 65 calls in 10s.
func exampleLab(tb testing.TB) *cellLab {
	l := newCellLab(tb, func(c *fusebox.Config) {
		c.Consecutive, c.MinCalls, c.OpenFor = -1, 65, 4200*time.Millisecond
	})
	l.succeed(24)
	l.failWith(41, errCell)
	l.want(fusebox.Open)
	return l
}

func TestATripsRecordSaysAllThatDecided(t *testing.T) {
	l := exampleLab(t)
	r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseFailureRate)
	want := fusebox.Transition{
		Name: "payments", From: fusebox.Closed, To: fusebox.Open, Cause: fusebox.CauseFailureRate, Mode: fusebox.Enforce,
		At: cellEpoch, Generation: 1, Counts: fusebox.Counts{Calls: 65, Failures: 41, Consecutive: 41},
		Threshold: 0.5, Window: 10 * time.Second, LastError: "backend down", Until: cellEpoch.Add(4200 * time.Millisecond),
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("record\n%+v, want\n%+v", r, want)
	}
	if got := l.History(); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("history %+v", got)
	}
	if got := l.Snapshot().Last; !reflect.DeepEqual(got, want) {
		t.Errorf("last %+v", got)
	}
}

func TestTheTextsOfARejectionAndARecord(t *testing.T) {
	l := exampleLab(t)
	err := l.refuse()
	if got, want := err.Error(), `fusebox: "payments" is open (failure rate 0.63 >= 0.50, 41 of 65 calls in 10s), retry in 4.2s`; got != want {
		t.Errorf("error %s, want %s", got, want)
	}
	r := l.delivered()[0]
	if got, want := r.Why(), "failure rate 0.63 >= 0.50, 41 of 65 calls in 10s"; got != want {
		t.Errorf("why %s, want %s", got, want)
	}
	if got, want := r.String(), `"payments" closed → open: failure rate 0.63 >= 0.50, 41 of 65 calls in 10s; last error: backend down`; got != want {
		t.Errorf("record %s, want %s", got, want)
	}
	l.advance(4200*time.Millisecond - 1)
	if got := l.refuse().Error(); !strings.HasSuffix(got, ", retry in 1ns") {
		t.Errorf("error %s", got)
	}
	p := l.probe()
	defer p.Cancel()
	a, b := l.allow(), l.allow()
	defer a.Cancel()
	defer b.Cancel()
	if got, want := l.refuse().Error(), `fusebox: "payments" is half-open and its probes are out, after failure rate 0.63 >= 0.50, 41 of 65 calls in 10s`; got != want {
		t.Errorf("error %s, want %s", got, want)
	}
}

func TestWhy(t *testing.T) {
	n := fusebox.Counts{Calls: 10, Failures: 4, Slow: 6, Consecutive: 3}
	note := fusebox.Note{Reason: "failover", By: "ana"}
	for want, r := range map[string]fusebox.Transition{
		"nothing has happened":                                     {},
		"failure rate 0.40 >= 0.30, 4 of 10 calls":                 {Cause: fusebox.CauseFailureRate, Counts: n, Threshold: 0.3},
		"slow rate 0.60 >= 0.60, 6 of 10 calls in 1m0s":            {Cause: fusebox.CauseSlowRate, Counts: n, Threshold: 0.6, Window: time.Minute},
		"3 failures in a row >= 3":                                 {Cause: fusebox.CauseConsecutive, Counts: n, Threshold: 3},
		"TripWhen, 4 of 10 calls failed, 6 slow in 1s":             {Cause: fusebox.CauseTripWhen, Counts: n, Window: time.Second},
		"4 of 10 probes failed, 6 slow":                            {Cause: fusebox.CauseProbeFailed, Counts: n},
		"4 of 10 probes failed, the last by not finishing in time": {Cause: fusebox.CauseProbeExpired, Counts: n},
		"3 probes succeeded":                                       {Cause: fusebox.CauseProbesSucceeded, Threshold: 3},
		"open period over":                                         {Cause: fusebox.CauseDeadline},
		"force-open by ana: failover":                              {Cause: fusebox.CauseOverride, Mode: fusebox.ForceOpen, Note: note},
		"force-open":                                               {Cause: fusebox.CauseOverride, Mode: fusebox.ForceOpen},
		"override ended, set by ana: failover":                     {Cause: fusebox.CauseOverrideEnded, Note: note},
		"override lifted by ana: failover":                         {Cause: fusebox.CauseLift, Note: note},
		"reset by ana":                                             {Cause: fusebox.CauseReset, Note: fusebox.Note{By: "ana"}},
		"reset: failover":                                          {Cause: fusebox.CauseReset, Note: fusebox.Note{Reason: "failover"}},
		"reconfigured":                                             {Cause: fusebox.CauseReconfigured},
		"cause(99)":                                                {Cause: 99},
	} {
		if got := r.Why(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestRatesOfAnEmptyWindowAreZero(t *testing.T) {
	var n fusebox.Counts
	if n.FailureRate() != 0 || n.SlowRate() != 0 {
		t.Errorf("%v and %v", n.FailureRate(), n.SlowRate())
	}
	n = fusebox.Counts{Calls: 4, Failures: 1, Slow: 2}
	if n.FailureRate() != 0.25 || n.SlowRate() != 0.5 {
		t.Errorf("%v and %v", n.FailureRate(), n.SlowRate())
	}
}

func TestTheLastErrorsText(t *testing.T) {
	long := strings.Repeat("a", 150) + strings.Repeat("ü", 100)
	for name, c := range map[string]struct {
		err  error
		want func(string) bool
	}{
		"of an error of 200 bytes": {errors.New(strings.Repeat("x", 200)), func(s string) bool { return s == strings.Repeat("x", 200) }},
		"of a long error": {errors.New(long), func(s string) bool {
			return len(s) <= 200 && len(s) > 190 && utf8.ValidString(s) && strings.HasPrefix(long, strings.TrimSuffix(s, "…"))
		}},
		"of an error whose method panics": {cellBadError{}, func(s string) bool { return strings.Contains(s, "cellBadError") && strings.Contains(s, "panics") }},
		"of a nil pointer":                {(*cellVerdict)(nil), func(s string) bool { return s == "verdict" }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t, func(c *fusebox.Config) {
				c.Classify = func(context.Context, error) fusebox.Outcome { return fusebox.Failure }
			})
			l.failWith(2, errCell)
			l.failWith(1, c.err)
			r := l.wantRecord(fusebox.Closed, fusebox.Open, fusebox.CauseConsecutive)
			if !c.want(r.LastError) {
				t.Errorf("%q", r.LastError)
			}
			if h := l.History(); h[0].LastError != r.LastError {
				t.Errorf("in the history %q", h[0].LastError)
			}
		})
	}
}

func TestTheLastErrorOfAReopeningIsThatOfAProbe(t *testing.T) {
	l := newCellLab(t)
	l.failWith(3, errCell)
	p := l.probe()
	p.Finish(l.ctx(), errors.New("still down"))
	r := l.delivered()
	if len(r) != 3 || r[1].LastError != "" || r[2].LastError != "still down" {
		t.Errorf("records %v", r)
	}
}

// OpenError.

func TestARejectionDescribesItself(t *testing.T) {
	l := newCellLab(t)
	l.failWith(3, errCell)
	_, err := l.Allow(l.ctx())
	err = fmt.Errorf("wrapped: %w", err)
	var open *fusebox.OpenError
	if !errors.As(err, &open) || !errors.Is(err, fusebox.ErrOpen) || errors.Is(err, fusebox.ErrProbing) || errors.Is(err, errCell) {
		t.Fatalf("%v", err)
	}
	if open.Name() != "payments" || open.State() != fusebox.Open || open.Cause() != fusebox.CauseConsecutive || !open.Rejected() {
		t.Errorf("%q %v %v %v", open.Name(), open.State(), open.Cause(), open.Rejected())
	}
	if errors.Unwrap(open) != nil {
		t.Error("it unwraps to something")
	}
	p := l.probe()
	defer p.Cancel()
	a, b := l.allow(), l.allow()
	defer a.Cancel()
	defer b.Cancel()
	open = l.refuse()
	if !errors.Is(open, fusebox.ErrProbing) || open.State() != fusebox.HalfOpen || open.Cause() != fusebox.CauseDeadline || open.RetryAfter() != 0 {
		t.Errorf("%v %v %v %v", open, open.State(), open.Cause(), open.RetryAfter())
	}
}

func TestRetryAfterReadsTheBreakersClock(t *testing.T) {
	l := newCellLab(t)
	l.advance(time.Hour)
	l.trip()
	err := l.refuse()
	for _, c := range []struct{ at, want time.Duration }{
		{0, time.Second}, {300 * time.Millisecond, 700 * time.Millisecond}, {time.Second, 0}, {time.Hour, 0}, {-time.Minute, time.Second},
	} {
		l.advance(c.at)
		if got := err.RetryAfter(); got != c.want {
			t.Errorf("after %v: %v, want %v", c.at, got, c.want)
		}
		if strings.Contains(err.Error(), "retry") != (c.want > 0) {
			t.Errorf("after %v: %v", c.at, err)
		}
		l.advance(-c.at)
	}
}

func TestTheTextRoundsTheWaitUpwards(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		1001 * time.Millisecond:  "1.1s",
		1999 * time.Millisecond:  "2s",
		123456 * time.Nanosecond: "130µs",
		time.Second:              "1s",
		99:                       "99ns",
	} {
		l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor = wait })
		l.trip()
		if got := l.refuse().Error(); !strings.HasSuffix(got, ", retry in "+want) {
			t.Errorf("%v: %s, want %s", wait, got, want)
		}
	}
}

func TestOneErrorServesAnOpenPeriod(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.OpenFor = time.Minute })
	l.trip()
	first := l.refuse()
	l.advance(time.Second)
	old := l.note(time.Second)
	l.Observe(fusebox.Observer{Rejected: func(*fusebox.OpenError) {}})
	l.Lift(old) // nothing to lift
	if got := l.refuse(); got != first {
		t.Error("another error within the open period")
	}
	l.change(func(c *fusebox.Config) { c.Probes = 5 })
	if got := l.refuse(); got != first {
		t.Error("another error though the deadline has not moved")
	}
	l.change(func(c *fusebox.Config) { c.OpenFor = 10 * time.Second })
	second := l.refuse()
	if second == first || second.RetryAfter() != 9*time.Second || first.RetryAfter() != 59*time.Second {
		t.Errorf("after the deadline has moved: same error %v, %v, %v", first == second, first.RetryAfter(), second.RetryAfter())
	}
	p := l.probe()
	p.Record(fusebox.Failure)
	if got := l.refuse(); got == second {
		t.Error("the same error in the next open period")
	}
}

// Texts and JSON.

func cellTexts[T interface {
	comparable
	fmt.Stringer
	encoding.TextMarshaler
}, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, unknown T, want string, values map[T]string) {
	t.Helper()
	for v, text := range values {
		got, err := v.MarshalText()
		if err != nil || string(got) != text || v.String() != text {
			t.Errorf("%v: %q, %v, want %q", v, got, err, text)
		}
		var back T
		if err := P(&back).UnmarshalText([]byte(text)); err != nil || back != v {
			t.Errorf("%q read as %v, %v", text, back, err)
		}
	}
	if _, err := unknown.MarshalText(); err == nil {
		t.Error("an unknown value was written")
	}
	if unknown.String() != want {
		t.Errorf("an unknown value reads %q, want %q", unknown, want)
	}
	back := unknown
	if err := P(&back).UnmarshalText([]byte("nonsense")); err == nil || back != unknown || !strings.Contains(err.Error(), `"nonsense"`) {
		t.Errorf("nonsense read as %v, %v", back, err)
	}
}

func TestTheTextsOfTheEnumerations(t *testing.T) {
	cellTexts(t, fusebox.State(9), "state(9)", map[fusebox.State]string{
		fusebox.Closed: "closed", fusebox.HalfOpen: "half-open", fusebox.Open: "open",
	})
	cellTexts(t, fusebox.Mode(9), "mode(9)", map[fusebox.Mode]string{
		fusebox.Enforce: "enforce", fusebox.Shadow: "shadow", fusebox.Off: "off",
		fusebox.ForceOpen: "force-open", fusebox.ForceClosed: "force-closed",
	})
	cellTexts(t, fusebox.Outcome(9), "outcome(9)", map[fusebox.Outcome]string{
		fusebox.Success: "success", fusebox.Failure: "failure", fusebox.Ignored: "ignored",
	})
	cellTexts(t, fusebox.Cause(99), "cause(99)", map[fusebox.Cause]string{
		fusebox.CauseNone: "", fusebox.CauseFailureRate: "failure-rate", fusebox.CauseSlowRate: "slow-rate",
		fusebox.CauseConsecutive: "consecutive", fusebox.CauseTripWhen: "trip-when", fusebox.CauseProbeFailed: "probe-failed",
		fusebox.CauseProbeExpired: "probe-expired", fusebox.CauseProbesSucceeded: "probes-succeeded",
		fusebox.CauseDeadline: "deadline", fusebox.CauseOverride: "override", fusebox.CauseOverrideEnded: "override-ended",
		fusebox.CauseLift: "lift", fusebox.CauseReset: "reset", fusebox.CauseReconfigured: "reconfigured",
	})
}

func TestRecordsAndSnapshotsRoundTripThroughJSON(t *testing.T) {
	l := exampleLab(t)
	l.refuse()
	l.Override(fusebox.ForceOpen, l.note(time.Hour))
	s := l.Snapshot()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"state":"open"`, `"mode":"force-open"`, `"cause":"override"`, `"rejected_open":1`, `"by":"ops"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	var back fusebox.Snapshot
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%v\n%+v, want\n%+v", err, back, s)
	}
	for _, r := range append(l.History(), fusebox.Transition{}) {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var back fusebox.Transition
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, r) {
			t.Errorf("%v\n%+v, want\n%+v", err, back, r)
		}
	}
}

// Observers.

func TestRecordsMadeByACallbackComeAfterThePresentOne(t *testing.T) {
	var l *cellLab
	var order []string
	hear := func(name string) fusebox.Observer {
		return fusebox.Observer{Transition: func(r fusebox.Transition) {
			order = append(order, name+" "+r.Cause.String())
			if name == "a" && r.Cause == fusebox.CauseConsecutive {
				l.Reset(fusebox.Note{})
				l.succeed(1)
				order = append(order, "a done")
			}
		}}
	}
	l = newCellLab(t, func(c *fusebox.Config) { c.Observers = []fusebox.Observer{hear("a"), hear("b")} })
	l.fail(3)
	if got, want := strings.Join(order, ", "), "a consecutive, a done, b consecutive, a reset, b reset"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	l.want(fusebox.Closed)
}

func TestRecordsOfManyGoroutinesAreDeliveredOnceInOrder(t *testing.T) {
	var got []fusebox.Transition // one callback at a time: no lock
	b := fusebox.New("x", fusebox.Config{Observers: []fusebox.Observer{{Transition: func(r fusebox.Transition) { got = append(got, r) }}}})
	const workers, each = 8, 200
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				b.Reset(fusebox.Note{})
			}
		})
	}
	wg.Wait()
	if len(got) != workers*each {
		t.Fatalf("%d records, want %d", len(got), workers*each)
	}
	for i, r := range got {
		if r.Generation != uint64(i+1) {
			t.Fatalf("record %d has generation %d", i, r.Generation)
		}
	}
}

func TestAPanicOfACallbackIsRecoveredCountedAndLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	var heard int
	l := newCellLab(t, func(c *fusebox.Config) {
		c.Observers = []fusebox.Observer{
			{
				Transition: func(fusebox.Transition) { panic("boom") },
				Finished:   func(fusebox.Completion) { panic("boom") },
				Rejected:   func(*fusebox.OpenError) { panic("boom") },
			},
			{
				Transition: func(fusebox.Transition) { heard++ },
				Finished:   func(fusebox.Completion) { heard++ },
				Rejected:   func(*fusebox.OpenError) { heard++ },
			},
		}
	})
	l.trip()   // 3 finished and a record
	l.refuse() // a rejection
	if heard != 5 {
		t.Errorf("the other observer heard %d, want 5", heard)
	}
	if got := l.Snapshot().Totals.Panics; got != 5 {
		t.Errorf("%d panics counted, want 5", got)
	}
	if got := strings.Count(log.String(), "boom"); got != 1 || !strings.Contains(log.String(), "payments") {
		t.Errorf("logged %d times, want once: %s", got, &log)
	}
}

// cellGo runs f on a goroutine that f may end.
func cellGo(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func TestACallbackThatEndsTheGoroutineLosesNoRecord(t *testing.T) {
	var exit atomic.Bool
	var l *cellLab
	var causes []string
	l = newCellLab(t, func(c *fusebox.Config) {
		c.Observers = []fusebox.Observer{
			{Transition: func(fusebox.Transition) {
				if exit.CompareAndSwap(true, false) {
					l.Reset(fusebox.Note{})
					runtime.Goexit()
				}
			}},
			{Transition: func(r fusebox.Transition) { causes = append(causes, r.Cause.String()) }},
		}
	})
	l.fail(2)
	exit.Store(true)
	cellGo(func() { l.fail(1) })
	if got, want := strings.Join(causes, " "), "consecutive reset"; got != want {
		t.Errorf("heard %q, want %q", got, want)
	}
	l.Reset(fusebox.Note{})
	if len(causes) != 3 {
		t.Errorf("delivery has stopped: %v", causes)
	}
}

func TestACallbackThatEndsTheGoroutineDoesNotStopTheRest(t *testing.T) {
	heard := 0
	l := newCellLab(t, func(c *fusebox.Config) {
		c.Observers = []fusebox.Observer{
			{Finished: func(fusebox.Completion) { runtime.Goexit() }, Rejected: func(*fusebox.OpenError) { runtime.Goexit() }},
			{Finished: func(fusebox.Completion) { heard++ }, Rejected: func(*fusebox.OpenError) { heard++ }},
		}
	})
	cellGo(func() { l.fail(1) })
	if heard != 1 {
		t.Errorf("the second observer heard of %d finished calls, want 1", heard)
	}
	for range 2 {
		cellGo(func() { l.fail(1) })
	}
	l.want(fusebox.Open)
	cellGo(func() { _, _ = l.Allow(l.ctx()) })
	if heard != 4 {
		t.Errorf("the second observer heard %d times, want 4", heard)
	}
	l.wantTotals(0, 3, 0, 0)
}

func TestAFinishedCallbackThatEndsTheGoroutineDoesNotKeepTripWhenFromTripping(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) {
		c.TripWhen = func(fusebox.Counts) bool { return true }
		c.Observers = []fusebox.Observer{{Finished: func(fusebox.Completion) { runtime.Goexit() }}}
	})
	cellGo(func() { l.fail(1) })
	l.want(fusebox.Open)
}

func TestAStoppedObserverHearsNothingMore(t *testing.T) {
	l := newCellLab(t)
	heard := 0
	var stop func()
	stop = l.Observe(fusebox.Observer{
		Transition: func(fusebox.Transition) { heard++; stop() },
		Finished:   func(fusebox.Completion) { heard++ },
		Rejected:   func(*fusebox.OpenError) { heard++ },
	})
	l.succeed(1)
	l.Reset(fusebox.Note{}) // stops itself
	if heard != 2 {
		t.Fatalf("heard %d times, want 2", heard)
	}
	stop()
	l.trip()
	l.refuse()
	if heard != 2 {
		t.Errorf("heard %d times after stop", heard-2)
	}
}

func TestAnObserverStoppedByAnotherHearsNothingOfThePresentRecord(t *testing.T) {
	l := newCellLab(t)
	var stopSecond func()
	l.Observe(fusebox.Observer{
		Transition: func(fusebox.Transition) { stopSecond() },
		Finished:   func(fusebox.Completion) { stopSecond() },
		Rejected:   func(*fusebox.OpenError) { stopSecond() },
	})
	second := func() {
		stopSecond = l.Observe(fusebox.Observer{
			Transition: func(fusebox.Transition) { t.Error("told of a record") },
			Finished:   func(fusebox.Completion) { t.Error("told of a finished call") },
			Rejected:   func(*fusebox.OpenError) { t.Error("told of a rejection") },
		})
	}
	second()
	l.succeed(1)
	second()
	l.Reset(fusebox.Note{})
	l.trip()
	second()
	l.refuse()
}

func TestFinishedIsToldOfEveryFinishedCall(t *testing.T) {
	var got []fusebox.Completion
	l := newCellLab(t, func(c *fusebox.Config) {
		c.SlowAfter = time.Second
		c.Observers = []fusebox.Observer{{Finished: func(c fusebox.Completion) { got = append(got, c) }}}
	})
	want := func(w fusebox.Completion) {
		t.Helper()
		w.Name = "payments"
		if len(got) != 1 || got[0] != w {
			t.Fatalf("told %+v, want %+v", got, w)
		}
		got = nil
	}
	l.take(300*time.Millisecond, fusebox.Success)
	want(fusebox.Completion{Duration: 300 * time.Millisecond})
	l.take(time.Second, fusebox.Failure)
	want(fusebox.Completion{Outcome: fusebox.Failure, Slow: true, Duration: time.Second})
	l.failWith(1, errCell)
	want(fusebox.Completion{Outcome: fusebox.Failure, Err: errCell})
	l.record(1, fusebox.Ignored)
	want(fusebox.Completion{Outcome: fusebox.Ignored})
	p := l.allow()
	p.RecordAfter(fusebox.Success, 7)
	want(fusebox.Completion{Duration: 7})
	p = l.allow()
	p.Cancel()
	late := l.allow()
	l.fail(3)
	got = nil
	late.Record(fusebox.Failure)
	want(fusebox.Completion{Outcome: fusebox.Failure, Late: true})
	p = l.probe()
	p.Record(fusebox.Success)
	want(fusebox.Completion{Probe: true})
	l.fail(1)
	got = nil
	l.change(func(c *fusebox.Config) { c.Mode = fusebox.Shadow })
	p = l.allow()
	l.advance(5)
	p.Record(fusebox.Success)
	want(fusebox.Completion{WouldReject: true, Duration: 5})
}

func TestAnObserverAddedLaterIsToldNoDurationOfACallUnderWay(t *testing.T) {
	l := newCellLab(t)
	p := l.allow()
	l.advance(time.Minute)
	var got []fusebox.Completion
	l.Observe(fusebox.Observer{Finished: func(c fusebox.Completion) { got = append(got, c) }})
	p.Record(fusebox.Success)
	l.take(3, fusebox.Success)
	if len(got) != 2 || got[0].Duration != 0 || got[1].Duration != 3 {
		t.Errorf("told %+v", got)
	}
}

func TestACallDuringWhichTheClockWentBackTookNoTime(t *testing.T) {
	var got []fusebox.Completion
	l := newCellLab(t, func(c *fusebox.Config) {
		c.Observers = []fusebox.Observer{{Finished: func(c fusebox.Completion) { got = append(got, c) }}}
	})
	l.advance(time.Hour)
	l.take(-time.Minute, fusebox.Success)
	if len(got) != 1 || got[0].Duration != 0 {
		t.Errorf("told %+v, want a duration of 0", got)
	}
}

func TestRejectedIsToldOfTheRejectionItself(t *testing.T) {
	var got []*fusebox.OpenError
	l := newCellLab(t, func(c *fusebox.Config) {
		c.Observers = []fusebox.Observer{{Rejected: func(e *fusebox.OpenError) { got = append(got, e) }}}
	})
	l.trip()
	err := l.refuse()
	if len(got) != 1 || got[0] != err {
		t.Errorf("told %v, want %v", got, err)
	}
}

func TestACallbackMayUseTheBreaker(t *testing.T) {
	var l *cellLab
	use := func() {
		l.State()
		l.Snapshot()
		l.History()
		l.Config()
	}
	l = newCellLab(t, func(c *fusebox.Config) {
		c.Observers = []fusebox.Observer{{
			Transition: func(fusebox.Transition) { use() },
			Finished:   func(fusebox.Completion) { use() },
			Rejected:   func(*fusebox.OpenError) { use() },
		}}
	})
	l.trip()
	l.refuse()
}

func TestLogObserverWritesARecordALine(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	l := newCellLab(t, func(c *fusebox.Config) { c.Observers = []fusebox.Observer{fusebox.LogObserver(logger)} })
	l.failWith(3, errCell)
	want := func(parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(log.String(), part) {
				t.Errorf("%s is not in %s", part, &log)
			}
		}
		if got := strings.Count(log.String(), "\n"); got != 1 {
			t.Errorf("%d lines, want 1", got)
		}
		log.Reset()
	}
	want("level=WARN", "name=payments", "from=closed", "to=open", "cause=consecutive", "generation=1", `last_error="backend down"`, "until=2030-01-02T03:04:06", "3 failures in a row")
	l.Reset(fusebox.Note{By: "ana"})
	want("level=INFO", "from=open", "to=closed", "cause=reset", `why="reset by ana"`)
}

func TestLogObserverWithoutALoggerUsesTheDefaultOfTheMoment(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	l := newCellLab(t, func(c *fusebox.Config) { c.Observers = []fusebox.Observer{fusebox.LogObserver(nil)} })
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	l.Reset(fusebox.Note{})
	if !strings.Contains(log.String(), "cause=reset") {
		t.Errorf("logged %q", &log)
	}
}

// History.

func TestHistoryKeepsTheLastSixteenRecords(t *testing.T) {
	l := newCellLab(t)
	if got := l.History(); len(got) != 0 {
		t.Fatalf("%d records of a new breaker", len(got))
	}
	for i := range 40 {
		l.Reset(fusebox.Note{})
		h := l.History()
		if len(h) != min(i+1, 16) {
			t.Fatalf("%d records after %d", len(h), i+1)
		}
		for j, r := range h {
			if want := uint64(i + 2 - len(h) + j); r.Generation != want {
				t.Fatalf("record %d of %d has generation %d, want %d", j, len(h), r.Generation, want)
			}
		}
	}
}

func TestABreakerByTheRealClockStampsWallTime(t *testing.T) {
	b := fusebox.New("x", fusebox.Config{Consecutive: 1, OpenFor: time.Hour, OpenJitter: -1})
	before := time.Now()
	_ = b.Do(context.Background(), func(context.Context) error { return errCell })
	after := time.Now()
	r := b.History()[0]
	const slack = time.Millisecond
	if r.At.Before(before.Add(-slack)) || r.At.After(after.Add(slack)) || r.Until.Sub(r.At) < time.Hour-slack || r.Until.Sub(r.At) > time.Hour+slack {
		t.Errorf("at %v until %v, want between %v and %v, and an hour later", r.At, r.Until, before, after)
	}
	b.Override(fusebox.ForceOpen, fusebox.Note{Until: time.Now().Add(time.Minute)})
	if left := time.Until(b.Snapshot().Until); left > time.Minute || left < 50*time.Second {
		t.Errorf("%v left, want a minute", left)
	}
}

type cellFatError struct{ _ [64]byte }

func (*cellFatError) Error() string { return "fat" }

func TestNoErrorOfACallerIsKeptAliveAfterTheClose(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.Observers = nil })
	var freed atomic.Int32
	fresh := func() error {
		e := &cellFatError{}
		runtime.AddCleanup(e, func(*atomic.Int32) { freed.Add(1) }, &freed)
		return e
	}
	for range 3 {
		l.failWith(1, fresh())
	}
	l.refuse()
	p := l.probe()
	p.Finish(l.ctx(), fresh())
	p = l.probe()
	p.Record(fusebox.Success)
	l.succeed(2)
	l.want(fusebox.Closed)
	for range 100 {
		runtime.GC()
		if freed.Load() == 4 {
			break
		}
		runtime.Gosched()
	}
	if got := freed.Load(); got != 4 {
		t.Errorf("%d of 4 errors are free", got)
	}
	if got := l.History()[0].LastError; got != "fat" {
		t.Errorf("last error %q", got)
	}
}

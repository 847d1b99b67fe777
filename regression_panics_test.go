package fusebox_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Panics of the function called, of classifiers and of callbacks.

func TestC64APanicOfTheClassifierIsAFailureAndPassesOn(t *testing.T) {
	asked := 0
	l := newCase(t, "consec=2 openfor=10s probes=1", func(c *fusebox.Config) {
		c.Classify = func(ctx context.Context, err error) fusebox.Outcome {
			asked++
			if err == errCaseOdd { //nolint:errorlint // this very error
				panic("classifier")
			}
			return fusebox.DefaultClassify(ctx, err)
		}
	})
	panics := func(call func()) {
		t.Helper()
		before := asked
		if v := caseRecover(call); v != "classifier" {
			t.Fatalf("panics with %v", v)
		}
		if asked != before+1 {
			t.Errorf("the classifier was asked %d times", asked-before)
		}
	}
	panics(func() { _ = l.call(errCaseOdd) })
	l.wantCounts(fusebox.Counts{Calls: 1, Failures: 1, Consecutive: 1})
	panics(func() {
		p := l.allow()
		defer p.Record(fusebox.Failure)
		p.Finish(context.Background(), errCaseOdd)
	})
	l.want(fusebox.Open)
	l.clock.Advance(10 * time.Second)
	panics(func() { _ = l.call(errCaseOdd) })
	l.wantOutstanding(0)
	l.want(fusebox.Open)
	l.clock.Advance(10 * time.Second)
	before := asked
	l.calls(1, nil) // a classifier of the user's is asked about nil too, once
	if asked != before+1 {
		t.Errorf("the classifier was asked %d times about nil", asked-before)
	}
	l.want(fusebox.Closed)
}

func TestC66APanicLeaksNothing(t *testing.T) {
	type own struct{ n int }
	for _, value := range []any{"x", errCase, &own{7}} {
		bulkhead := make(caseBulkhead, 2)
		l := newCase(t, "consec=3 openfor=10s probes=1")
		guarded := fusebox.Chain(bulkhead, l.Breaker)
		crash := func() {
			t.Helper()
			if v := caseRecover(func() {
				_ = guarded.Do(context.Background(), func(context.Context) error { panic(value) })
			}); v != value {
				t.Fatalf("recovered %v, want %v", v, value)
			}
		}
		crash()
		crash()
		if len(bulkhead) != 0 {
			t.Errorf("%d places of the bulkhead are lost", len(bulkhead))
		}
		l.wantCounts(fusebox.Counts{Calls: 2, Failures: 2, Consecutive: 2})
		crash()
		l.want(fusebox.Open)
		l.clock.Advance(10 * time.Second)
		crash()
		l.want(fusebox.Open)
		l.wantOutstanding(0)
	}
	t.Run("Goexit", func(t *testing.T) {
		l := newCase(t, "consec=3 openfor=10s probes=1")
		exit := func() {
			caseSoon(t, func() {
				_ = l.Do(context.Background(), func(context.Context) error { runtime.Goexit(); return nil })
			})
		}
		exit()
		exit()
		l.want(fusebox.Closed)
		exit()
		l.want(fusebox.Open)
		l.clock.Advance(10 * time.Second)
		exit()
		l.want(fusebox.Open)
		l.wantOutstanding(0)
	})
}

func TestC68APanicOfACallbackCorruptsNothing(t *testing.T) {
	crash := func() { panic("callback") }
	for name, change := range map[string]func(*fusebox.Config){
		"Transition": func(c *fusebox.Config) {
			c.Observers = append(c.Observers, fusebox.Observer{Transition: func(fusebox.Transition) { crash() }})
		},
		"Finished": func(c *fusebox.Config) {
			c.Observers = append(c.Observers, fusebox.Observer{Finished: func(fusebox.Completion) { crash() }})
		},
		"Rejected": func(c *fusebox.Config) {
			c.Observers = append(c.Observers, fusebox.Observer{Rejected: func(*fusebox.OpenError) { crash() }})
		},
		"Transition ends the goroutine": func(c *fusebox.Config) {
			c.Observers = append(c.Observers, fusebox.Observer{Transition: func(fusebox.Transition) { runtime.Goexit() }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCase(t, "consec=1 openfor=10s probes=1", change)
			call := func(err error) (got error) {
				caseSoon(t, func() { got = l.call(err) })
				return got
			}
			exits := strings.Contains(name, "goroutine")
			if got := call(errCase); got != errCase && !exits { //nolint:errorlint // unchanged
				t.Errorf("Do = %v, want the function's own error", got)
			}
			l.want(fusebox.Open)
			if got := call(nil); !errors.Is(got, fusebox.ErrOpen) {
				t.Errorf("Do = %v, want ErrOpen", got)
			}
			for range 3 { // the first may end in Goexit as the deadline is committed
				l.clock.Advance(10 * time.Second)
				call(nil)
			}
			l.want(fusebox.Closed)
			l.wantOutstanding(0)
			if !exits && l.Snapshot().Totals.Panics == 0 {
				t.Error("the panics are not counted")
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			for i, r := range l.records[1:] {
				if r.From != l.records[i].To {
					t.Errorf("the records do not chain: %v, %v", l.records[i], r)
				}
			}
		})
	}
	t.Run("TripWhen", func(t *testing.T) {
		l := newCase(t, "openfor=10s", func(c *fusebox.Config) {
			c.TripWhen = func(fusebox.Counts) bool { panic("rule") }
		})
		for n := 1; n <= 3; n++ {
			var v any
			caseSoon(t, func() { v = caseRecover(func() { _ = l.call(errCase) }) })
			if v != "rule" {
				t.Errorf("recovered %v", v)
			}
			l.wantCounts(fusebox.Counts{Calls: n, Failures: n, Consecutive: n})
		}
		l.calls(1, nil)
		l.want(fusebox.Closed)
	})
	t.Run("Rand", func(t *testing.T) {
		draws := 0
		l := newCase(t, "consec=1 openfor=10s", func(c *fusebox.Config) {
			c.OpenJitter = 0.5
			c.Rand = func() float64 {
				if draws++; draws > 1 {
					panic("rand")
				}
				return 0.5
			}
		})
		l.calls(1, errCase)
		l.want(fusebox.Open)
		l.clock.Advance(15 * time.Second)
		l.calls(1, nil)
		l.want(fusebox.Closed)
	})
	t.Run("the text of an error", func(t *testing.T) {
		l := newCase(t, "consec=1 openfor=10s")
		err := cellBadError{}
		if got := l.call(err); got != err { //nolint:errorlint // unchanged
			t.Errorf("Do = %v", got)
		}
		l.want(fusebox.Open)
		if len(l.History()) != 1 {
			t.Errorf("history is %v", l.History())
		}
	})
}

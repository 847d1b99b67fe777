package fusebox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/retry"
)

// cellCopy copies what go vet would not let be copied.
func cellCopy[T any](p *T) T { return *p }

// cellStates are the kinds of permit: admitted closed, as a probe, in shadow, in off.
var cellStates = map[string]func(testing.TB) (*cellLab, fusebox.Permit){
	"closed": func(tb testing.TB) (*cellLab, fusebox.Permit) {
		l := newCellLab(tb)
		return l, l.allow()
	},
	"probe": func(tb testing.TB) (*cellLab, fusebox.Permit) {
		l := newCellLab(tb)
		l.trip()
		return l, l.probe()
	},
	"shadow": func(tb testing.TB) (*cellLab, fusebox.Permit) {
		l := newCellLab(tb, func(c *fusebox.Config) { c.Mode = fusebox.Shadow })
		l.trip()
		return l, l.allow()
	},
	"off": func(tb testing.TB) (*cellLab, fusebox.Permit) {
		l := newCellLab(tb, func(c *fusebox.Config) { c.Mode = fusebox.Off })
		return l, l.allow()
	},
}

func TestAPermitCountsOnce(t *testing.T) {
	for kind, issue := range cellStates {
		for name, end := range map[string]func(*fusebox.Permit) bool{
			"Finish with nil":      func(p *fusebox.Permit) bool { return p.Finish(context.Background(), nil) },
			"Finish with an error": func(p *fusebox.Permit) bool { return p.Finish(context.Background(), errCell) },
			"Record success":       func(p *fusebox.Permit) bool { return p.Record(fusebox.Success) },
			"Record failure":       func(p *fusebox.Permit) bool { return p.Record(fusebox.Failure) },
			"Record ignored":       func(p *fusebox.Permit) bool { return p.Record(fusebox.Ignored) },
			"RecordAfter":          func(p *fusebox.Permit) bool { return p.RecordAfter(fusebox.Success, time.Second) },
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				l, p := issue(t)
				if !end(&p) {
					t.Fatal("the first finish was not accepted")
				}
				want := l.Snapshot()
				if end(&p) || p.Finish(l.ctx(), errCell) || p.Record(fusebox.Failure) || p.RecordAfter(fusebox.Failure, 0) {
					t.Error("a second finish was accepted")
				}
				p.Cancel()
				p.Renew()
				got := l.Snapshot()
				if got.Counts != want.Counts || got.Totals.Late != 0 || got.Totals.Failures != want.Totals.Failures ||
					got.Totals.WouldReject != want.Totals.WouldReject || got.Totals.Probes != want.Totals.Probes {
					t.Errorf("a second finish counted: %+v, want %+v", got, want)
				}
			})
		}
	}
}

func TestTheZeroPermitIsFinished(t *testing.T) {
	var p fusebox.Permit
	if p.Finish(context.Background(), nil) || p.Finish(context.Background(), errCell) ||
		p.Record(fusebox.Success) || p.Record(fusebox.Failure) || p.RecordAfter(fusebox.Failure, 1) {
		t.Error("the zero permit was accepted")
	}
	p.Cancel()
	p.Renew()
	q := p.Take()
	if q.Record(fusebox.Success) {
		t.Error("a permit taken from the zero permit was accepted")
	}
}

func TestTakeMovesThePermit(t *testing.T) {
	for kind, issue := range cellStates {
		t.Run(kind, func(t *testing.T) {
			_, p := issue(t)
			q := p.Take()
			if p.Record(fusebox.Failure) {
				t.Error("the permit could still be finished where it was taken from")
			}
			if !q.Record(fusebox.Success) {
				t.Error("the permit taken was not accepted")
			}
		})
	}
}

func TestTakeKeepsTheStart(t *testing.T) {
	l := newCellLab(t, cellSlow)
	p := l.allow()
	l.advance(time.Second)
	q := p.Take()
	q.Record(fusebox.Success)
	l.wantCounts(fusebox.Counts{Calls: 1, Slow: 1})
}

func TestACopyOfAProbesPermitFindsTheLeaseGone(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	q, r := cellCopy(&p), cellCopy(&p)
	if !p.Record(fusebox.Success) {
		t.Fatal("the probe was not accepted")
	}
	if q.Record(fusebox.Success) {
		t.Error("its copy was accepted")
	}
	r.Cancel()
	l.want(fusebox.HalfOpen)
	l.wantCounts(fusebox.Counts{Calls: 1})
	if got := l.Snapshot().Totals.Probes; got != (fusebox.ProbeTotals{Succeeded: 1}) {
		t.Errorf("probes %+v", got)
	}
	l.wantTotals(1, 3, 0, 1)
}

func TestCancelCountsNowhere(t *testing.T) {
	for kind, issue := range cellStates {
		t.Run(kind, func(t *testing.T) {
			l, p := issue(t)
			before := l.Snapshot()
			p.Cancel()
			after := l.Snapshot()
			after.Totals.Probes.Ignored = before.Totals.Probes.Ignored
			if before.Counts != after.Counts || before.Totals.Late != after.Totals.Late ||
				before.Totals.WouldReject != after.Totals.WouldReject || before.Totals.Ignored != after.Totals.Ignored ||
				before.Totals.Successes != after.Totals.Successes || before.State != after.State {
				t.Errorf("it counted: %+v", after)
			}
			if after.Outstanding != 0 {
				t.Errorf("%d probes outstanding", after.Outstanding)
			}
			if p.Record(fusebox.Success) {
				t.Error("accepted after Cancel")
			}
		})
	}
}

func TestCancelOfALateProbeCountsNothing(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	l.advance(time.Minute)
	p.Cancel()
	l.wantTotals(0, 3, 0, 0)
	if got := l.Snapshot().Totals.Probes; got != (fusebox.ProbeTotals{Expired: 1}) {
		t.Errorf("probes %+v", got)
	}
}

func TestRenewBeginsTheLeaseAnew(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) { c.Probes = 1 })
	l.trip()
	p := l.probe()
	for range 5 {
		l.advance(29 * time.Second)
		l.want(fusebox.HalfOpen)
		p.Renew()
		l.refuse()
	}
	l.advance(30*time.Second - 1)
	l.want(fusebox.HalfOpen)
	if !p.Record(fusebox.Success) {
		t.Error("a renewed probe was late")
	}
}

func TestRenewDoesNotBringBackALeaseThatHasEnded(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	l.advance(30 * time.Second)
	p.Renew()
	l.want(fusebox.Open)
	if p.Record(fusebox.Success) {
		t.Error("accepted")
	}
}

func TestARenewedLeaseIsShortenedFromItsRenewal(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	l.advance(20 * time.Second)
	p.Renew()
	l.change(func(c *fusebox.Config) { c.ProbeTimeout = 10 * time.Second })
	l.advance(10*time.Second - 1)
	l.want(fusebox.HalfOpen)
	l.advance(1)
	l.want(fusebox.Open)
}

func TestRenewOfAnotherPermitDoesNothing(t *testing.T) {
	l := newCellLab(t, cellSlow)
	p := l.allow()
	l.advance(time.Second)
	p.Renew()
	p.Record(fusebox.Success)
	l.wantCounts(fusebox.Counts{Calls: 1, Slow: 1})
}

func TestRecordAfterGoesByTheDurationItIsGiven(t *testing.T) {
	l := newCellLab(t, cellSlow)
	for _, c := range []struct {
		took, told time.Duration
		slow       int
	}{{0, time.Second, 1}, {time.Hour, time.Second - 1, 0}, {time.Hour, -1, 0}} {
		before := l.Snapshot().Totals.Slow
		p := l.allow()
		l.advance(c.took)
		p.RecordAfter(fusebox.Success, c.told)
		if got := l.Snapshot().Totals.Slow - before; int(got) != c.slow {
			t.Errorf("told %v after %v: %d slow, want %d", c.told, c.took, got, c.slow)
		}
	}
}

func TestAnUnknownOutcomeIsAFailure(t *testing.T) {
	l := newCellLab(t)
	l.record(1, fusebox.Outcome(77))
	l.wantCounts(fusebox.Counts{Calls: 1, Failures: 1, Consecutive: 1})
	l.change(func(c *fusebox.Config) {
		c.Classify = func(context.Context, error) fusebox.Outcome { return 99 }
	})
	_ = l.Do(l.ctx(), func(context.Context) error { return nil })
	l.wantCounts(fusebox.Counts{Calls: 2, Failures: 2, Consecutive: 2})
}

func TestAPermitMayBeFinishedOnAnotherGoroutine(t *testing.T) {
	l := newCellLab(t)
	p := l.allow()
	done := make(chan bool)
	go func() { done <- p.Finish(context.Background(), errCell) }()
	if !<-done {
		t.Error("not accepted")
	}
	l.wantCounts(fusebox.Counts{Calls: 1, Failures: 1, Consecutive: 1})
}

func TestOfRecordAndFinishTheFirstCounts(t *testing.T) {
	l := newCellLab(t)
	call := func(finish bool) {
		p := l.allow()
		defer p.Record(fusebox.Failure)
		if finish {
			p.Finish(l.ctx(), nil)
		}
	}
	call(true)
	l.wantTotals(1, 0, 0, 0)
	call(false)
	l.wantTotals(1, 1, 0, 0)
}

func TestDoReturnsTheErrorUnchanged(t *testing.T) {
	l := newCellLab(t)
	err := l.Do(l.ctx(), func(context.Context) error { return errCell })
	if err != errCell { //nolint:errorlint // identity is what is promised
		t.Errorf("Do = %v", err)
	}
	if err := l.Do(l.ctx(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("Do = %v", err)
	}
	l.wantTotals(1, 1, 0, 0)
}

func TestDoDoesNotCallTheFunctionOfARejectedCall(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	err := l.Do(l.ctx(), func(context.Context) error { t.Error("called"); return nil })
	if !errors.Is(err, fusebox.ErrOpen) {
		t.Errorf("Do = %v", err)
	}
}

func cellPanics() { panic(errCell) }

func TestAPanicIsAFailureAndPassesOnWithItsOrigin(t *testing.T) {
	l := newCellLab(t)
	func() {
		defer func() {
			if r := recover(); r != any(errCell) {
				t.Errorf("recovered %v, want the very value", r)
			}
			if stack := string(debug.Stack()); !strings.Contains(stack, "cellPanics") {
				t.Errorf("the stack does not show the origin:\n%s", stack)
			}
		}()
		_ = l.Do(l.ctx(), func(context.Context) error { cellPanics(); return nil })
	}()
	l.wantTotals(0, 1, 0, 0)
}

func TestGoexitIsAFailure(t *testing.T) {
	l := newCellLab(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Do(context.Background(), func(context.Context) error { runtime.Goexit(); return nil })
		t.Error("Do returned")
	}()
	<-done
	l.wantTotals(0, 1, 0, 0)
}

func TestAPanicOfACallerThatLeftIsIgnored(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("gone") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				ctx, cancel := context.WithCancel(context.Background())
				_ = l.Do(ctx, func(context.Context) error { cancel(); end(); return nil })
			}()
			<-done
			l.wantTotals(0, 0, 1, 0)
		})
	}
}

func TestAPanicOfAProbeGivesItsSlotBackAndReopens(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.advance(time.Second)
	func() {
		defer func() { _ = recover() }()
		_ = l.Do(l.ctx(), func(context.Context) error { panic("x") })
	}()
	l.wantOpenFor(2 * time.Second)
	if got := l.Snapshot().Outstanding; got != 0 {
		t.Errorf("%d probes outstanding", got)
	}
}

func TestAPanicOfTheClassifierIsAFailureAndPassesOn(t *testing.T) {
	l := newCellLab(t, func(c *fusebox.Config) {
		c.Classify = func(context.Context, error) fusebox.Outcome { panic("classifier") }
	})
	func() {
		defer func() {
			if r := recover(); r != "classifier" {
				t.Errorf("recovered %v", r)
			}
		}()
		_ = l.Do(l.ctx(), func(context.Context) error { return nil })
	}()
	l.wantTotals(0, 1, 0, 0)
}

func TestAClassifierThatFinishesThePermitItselfCountsOnce(t *testing.T) {
	var p fusebox.Permit
	l := newCellLab(t, func(c *fusebox.Config) {
		c.Classify = func(context.Context, error) fusebox.Outcome {
			p.Record(fusebox.Success)
			return fusebox.Failure
		}
	})
	p = l.allow()
	if p.Finish(l.ctx(), errCell) {
		t.Error("Finish was accepted after the classifier had recorded")
	}
	l.wantTotals(1, 0, 0, 0)
}

func TestTheClassifierIsGivenTheContextAndTheError(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(context.Background(), key{}, "mark")
	var got error
	l := newCellLab(t, func(c *fusebox.Config) {
		c.Classify = func(ctx context.Context, err error) fusebox.Outcome {
			if ctx.Value(key{}) != "mark" {
				t.Error("another context")
			}
			got = err
			return fusebox.Success
		}
	})
	_ = l.Do(ctx, func(context.Context) error { return errCell })
	if got != errCell { //nolint:errorlint // the very error
		t.Errorf("given %v", got)
	}
	l.wantTotals(1, 0, 0, 0)
}

// Contexts.

func TestAContextThatIsDoneTakesNoSlotAndCountsNothing(t *testing.T) {
	for kind, issue := range cellStates {
		t.Run(kind, func(t *testing.T) {
			l, p := issue(t)
			p.Cancel()
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			before := l.Snapshot()
			if _, err := l.Allow(ctx); err != context.Canceled { //nolint:errorlint // unchanged
				t.Errorf("Allow = %v", err)
			}
			if err := l.Do(ctx, func(context.Context) error { t.Error("called"); return nil }); err != context.Canceled { //nolint:errorlint // unchanged
				t.Errorf("Do = %v", err)
			}
			after := l.Snapshot()
			if after.Outstanding != 0 || after.Totals.Ignored != before.Totals.Ignored || after.Totals.RejectedOpen != before.Totals.RejectedOpen {
				t.Errorf("it counted: %+v", after)
			}
		})
	}
}

func TestAnErrorWhileTheCallersContextIsCancelledIsIgnored(t *testing.T) {
	l := newCellLab(t)
	ctx, cancel := context.WithCancel(context.Background())
	_ = l.Do(ctx, func(context.Context) error { l.advance(time.Hour); cancel(); return errCell })
	l.wantTotals(0, 0, 1, 0)
	l.wantCounts(fusebox.Counts{})
}

func TestASuccessWhileTheCallersContextIsCancelledIsASuccess(t *testing.T) {
	l := newCellLab(t)
	ctx, cancel := context.WithCancel(context.Background())
	_ = l.Do(ctx, func(context.Context) error { cancel(); return nil })
	l.wantTotals(1, 0, 0, 0)
}

func TestAHangWhoseCallerGivesUpIsASlowFailure(t *testing.T) {
	for name, c := range map[string]struct {
		lasts    time.Duration
		err      error
		classify func(context.Context, error) fusebox.Outcome
		failure  bool
	}{
		"slow":                         {time.Second, errCell, nil, true},
		"not slow":                     {time.Second - 1, errCell, nil, false},
		"slow but marked as ignored":   {time.Second, fusebox.Ignore(errCell), nil, false},
		"slow but refused inside":      {time.Second, &cellRefusal{}, nil, false},
		"slow and ignored by Classify": {time.Second, errCell, func(context.Context, error) fusebox.Outcome { return fusebox.Ignored }, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t, cellSlow, func(x *fusebox.Config) { x.Classify = c.classify })
			ctx, cancel := context.WithCancel(context.Background())
			_ = l.Do(ctx, func(context.Context) error { l.advance(c.lasts); cancel(); return c.err })
			if c.failure {
				l.wantCounts(fusebox.Counts{Calls: 1, Failures: 1, Slow: 1, Consecutive: 1})
			} else {
				l.wantCounts(fusebox.Counts{})
				l.wantTotals(0, 0, 1, 0)
			}
		})
	}
	t.Run("that panics", func(t *testing.T) {
		l := newCellLab(t, cellSlow)
		ctx, cancel := context.WithCancel(context.Background())
		func() {
			defer func() { _ = recover() }()
			_ = l.Do(ctx, func(context.Context) error { l.advance(time.Second); cancel(); panic("x") })
		}()
		l.wantCounts(fusebox.Counts{Calls: 1, Failures: 1, Slow: 1, Consecutive: 1})
	})
	t.Run("whose caller is still there", func(t *testing.T) {
		l := newCellLab(t, cellSlow, func(x *fusebox.Config) {
			x.Classify = func(context.Context, error) fusebox.Outcome { return fusebox.Ignored }
		})
		_ = l.Do(l.ctx(), func(context.Context) error { l.advance(time.Second); return errCell })
		l.wantTotals(0, 0, 1, 0)
	})
}

func TestADeadlineExceededDuringTheCallIsAFailure(t *testing.T) {
	l := newCellLab(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
	defer cancel()
	p := l.allow()
	<-ctx.Done()
	p.Finish(ctx, ctx.Err())
	l.wantTotals(0, 1, 0, 0)
}

// Observers around a call.

func TestAnObserverThatEndsTheGoroutineDuringAllowGivesTheProbeBack(t *testing.T) {
	var exit atomic.Bool
	l := newCellLab(t, func(c *fusebox.Config) {
		c.Observers = append(c.Observers, fusebox.Observer{Transition: func(r fusebox.Transition) {
			if r.To == fusebox.HalfOpen && exit.CompareAndSwap(true, false) {
				runtime.Goexit()
			}
		}})
	})
	l.trip()
	l.advance(time.Second)
	exit.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = l.Allow(context.Background())
		t.Error("Allow returned")
	}()
	<-done
	if got := l.Snapshot().Outstanding; got != 0 {
		t.Fatalf("%d probes outstanding, want 0", got)
	}
	l.succeed(3)
	l.want(fusebox.Closed)
}

func TestASlowObserverDoesNotMakeTheProbeSlow(t *testing.T) {
	var l *cellLab
	l = newCellLab(t, cellSlow, func(c *fusebox.Config) {
		c.Consecutive = 3
		c.Observers = []fusebox.Observer{{Transition: func(r fusebox.Transition) {
			if r.To == fusebox.HalfOpen {
				l.advance(10 * time.Second)
			}
		}}}
	})
	l.trip()
	p := l.probe()
	l.advance(time.Second - 1)
	p.Record(fusebox.Success)
	if got := l.Snapshot().Totals.Probes; got != (fusebox.ProbeTotals{Succeeded: 1}) {
		t.Errorf("probes %+v", got)
	}
}

type cellRefusal struct{}

func (*cellRefusal) Error() string  { return "refused" }
func (*cellRefusal) Rejected() bool { return true }

// Classification.

type cellVerdict struct {
	err   error
	no    bool
	after time.Duration
}

func (v *cellVerdict) Error() string             { return "verdict" }
func (v *cellVerdict) Unwrap() error             { return v.err }
func (v *cellVerdict) Rejected() bool            { return !v.no }
func (v *cellVerdict) RetryAfter() time.Duration { return v.after }

// cellStatus is an error as gRPC makes them: the kind is behind a method.
type cellStatus struct{ code int }

func (s cellStatus) Error() string { return fmt.Sprint("code ", s.code) }

// cellEmpty unwraps to no error at all.
type cellEmpty struct{}

func (cellEmpty) Error() string { return "empty" }
func (cellEmpty) Unwrap() error { return nil }

func TestDefaultClassify(t *testing.T) {
	alive := context.Background()
	cancelled, cancel := context.WithCancel(alive)
	cancel()
	expired, cancel := context.WithTimeout(alive, -1)
	defer cancel()
	refused := &cellRefusal{}
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want fusebox.Outcome
	}{
		"nil":                        {alive, nil, fusebox.Success},
		"nil, cancelled":             {cancelled, nil, fusebox.Success},
		"an error":                   {alive, errCell, fusebox.Failure},
		"a status":                   {alive, cellStatus{14}, fusebox.Failure},
		"cancelled by somebody else": {alive, context.Canceled, fusebox.Failure},
		"an error, cancelled":        {cancelled, errCell, fusebox.Ignored},
		"an error, deadline":         {expired, errCell, fusebox.Failure},
		"the deadline":               {expired, context.DeadlineExceeded, fusebox.Failure},
		"marked":                     {alive, fusebox.Ignore(errCell), fusebox.Ignored},
		"marked and wrapped":         {alive, fmt.Errorf("a: %w", fmt.Errorf("b: %w", fusebox.Ignore(errCell))), fusebox.Ignored},
		"marked and joined":          {alive, errors.Join(errCell, fusebox.Ignore(errCell)), fusebox.Ignored},
		"marked, deadline":           {expired, fusebox.Ignore(errCell), fusebox.Ignored},
		"refused":                    {alive, refused, fusebox.Ignored},
		"refused and wrapped":        {alive, fmt.Errorf("a: %w", refused), fusebox.Ignored},
		"refused and joined":         {alive, errors.Join(errCell, refused), fusebox.Ignored},
		"a sum that is no refusal":   {alive, &cellVerdict{err: refused, no: true}, fusebox.Failure},
		"empty":                      {alive, cellEmpty{}, fusebox.Failure},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fusebox.DefaultClassify(c.ctx, c.err); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestRejectedIsDecidedByTheOutermostErrorThatSays(t *testing.T) {
	open := func() error {
		l := newCellLab(t)
		l.trip()
		return l.refuse()
	}()
	inner := &cellVerdict{after: time.Minute}
	for name, c := range map[string]struct {
		err   error
		after time.Duration
		ok    bool
	}{
		"nil":                        {nil, 0, false},
		"an error":                   {errCell, 0, false},
		"an OpenError":               {open, time.Second, true},
		"wrapped":                    {fmt.Errorf("a: %w", open), time.Second, true},
		"without RetryAfter":         {&cellRefusal{}, 0, true},
		"negative":                   {&cellVerdict{after: -1}, 0, true},
		"outermost says yes":         {&cellVerdict{after: time.Hour, err: inner}, time.Hour, true},
		"outermost says no":          {&cellVerdict{no: true, err: inner}, 0, false},
		"first of a join":            {errors.Join(inner, &cellVerdict{after: time.Hour}), time.Minute, true},
		"first of a join says no":    {errors.Join(&cellVerdict{no: true}, inner), 0, false},
		"deep in the first":          {errors.Join(fmt.Errorf("a: %w", inner), &cellVerdict{no: true}), time.Minute, true},
		"second of a join":           {errors.Join(errCell, inner), time.Minute, true},
		"a join of errors":           {errors.Join(errCell, errCell), 0, false},
		"wrapped twice by one error": {fmt.Errorf("%w and %w", errCell, open), time.Second, true},
		"nothing inside":             {cellEmpty{}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			after, ok := fusebox.Rejected(c.err)
			if after != c.after || ok != c.ok {
				t.Errorf("Rejected = %v, %v, want %v, %v", after, ok, c.after, c.ok)
			}
		})
	}
}

func TestIgnoreIsSeenThrough(t *testing.T) {
	if fusebox.Ignore(nil) != nil {
		t.Error("Ignore(nil) is an error")
	}
	err := fusebox.Ignore(fmt.Errorf("w: %w", cellStatus{5}))
	var s cellStatus
	if err.Error() != "w: code 5" || !errors.As(err, &s) || !errors.Is(fusebox.Ignore(errCell), errCell) {
		t.Errorf("Ignore hides %v", err)
	}
}

func TestARejectionByABreakerInsideIsNoOutcome(t *testing.T) {
	outer, inner := newCellLab(t), newCellLab(t)
	inner.trip()
	both := fusebox.Chain(outer, inner)
	for range 10 {
		if err := both.Do(outer.ctx(), func(context.Context) error { return nil }); !errors.Is(err, fusebox.ErrOpen) {
			t.Fatalf("Do = %v", err)
		}
	}
	outer.wantTotals(0, 0, 10, 0)
}

// Policies.

func TestCallReturnsTheValueAndTheError(t *testing.T) {
	l := newCellLab(t)
	n, err := fusebox.Call(l.ctx(), l, func(context.Context) (int, error) { return 7, errCell })
	if n != 7 || err != errCell { //nolint:errorlint // unchanged
		t.Errorf("Call = %d, %v", n, err)
	}
	l.fail(2)
	n, err = fusebox.Call(l.ctx(), l, func(context.Context) (int, error) { return 7, nil })
	if n != 0 || !errors.Is(err, fusebox.ErrOpen) {
		t.Errorf("Call = %d, %v, want 0 and a rejection", n, err)
	}
}

func TestChainPutsEachPolicyAroundThoseAfterIt(t *testing.T) {
	var order []string
	policy := func(name string) fusebox.Policy {
		return fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
			order = append(order, name)
			defer func() { order = append(order, "/"+name) }()
			return fn(ctx)
		})
	}
	l := newCellLab(t)
	for name, c := range map[string]struct {
		chain fusebox.Policy
		want  string
	}{
		"one":              {fusebox.Chain(policy("a")), "a fn /a"},
		"three":            {fusebox.Chain(policy("a"), policy("b"), policy("c")), "a b c fn /c /b /a"},
		"a breaker first":  {fusebox.Chain(l.Breaker, policy("b")), "b fn /b"},
		"a breaker inside": {fusebox.Chain(policy("a"), l.Breaker, policy("c")), "a c fn /c /a"},
		"a chain inside":   {fusebox.Chain(policy("a"), fusebox.Chain(l.Breaker, policy("b")), policy("c")), "a b c fn /c /b /a"},
	} {
		t.Run(name, func(t *testing.T) {
			order = nil
			err := c.chain.Do(l.ctx(), func(context.Context) error { order = append(order, "fn"); return errCell })
			if got := strings.Join(order, " "); got != c.want || err != errCell { //nolint:errorlint // unchanged
				t.Errorf("%s with %v, want %s", got, err, c.want)
			}
			l.Reset(fusebox.Note{})
		})
	}
}

func TestAChainPrintsItsOrder(t *testing.T) {
	plain := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) })
	b := fusebox.New("payments", fusebox.Config{})
	chain := fusebox.Chain(retry.New(retry.Config{}), fusebox.Chain(b, plain))
	const want = `retry(3 attempts, 100ms to 10s) → breaker("payments") → fusebox.PolicyFunc`
	if got := fmt.Sprint(chain); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAChainOfNothingPanicsWhereItIsMade(t *testing.T) {
	for name, make := range map[string]func(){
		"outermost": func() { fusebox.Chain(nil) },
		"innermost": func() { fusebox.Chain(fusebox.New("b", fusebox.Config{}), nil) },
	} {
		if p := onGoroutine(make); p != "fusebox: Chain: a policy is nil" {
			t.Errorf("%s: %v", name, p)
		}
	}
}

func TestAPanicPassesThroughAChainAndCountsInEachBreaker(t *testing.T) {
	a, b := newCellLab(t), newCellLab(t)
	func() {
		defer func() {
			if recover() != "x" {
				t.Error("another panic")
			}
		}()
		_ = fusebox.Chain(a.Breaker, b.Breaker).Do(a.ctx(), func(context.Context) error { panic("x") })
	}()
	a.wantTotals(0, 1, 0, 0)
	b.wantTotals(0, 1, 0, 0)
}

func TestFinishAsTakesTheOutcomeAndKeepsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		var seen []fusebox.Completion
		b := fusebox.New("payments", fusebox.Config{
			Consecutive: 1, SlowAfter: time.Second,
			Classify:  func(context.Context, error) fusebox.Outcome { asked++; return fusebox.Success },
			Observers: []fusebox.Observer{{Finished: func(c fusebox.Completion) { seen = append(seen, c) }}},
		})
		ctx, cancel := context.WithCancel(t.Context())
		finish := func(o fusebox.Outcome, err error) {
			t.Helper()
			p, refused := b.Allow(t.Context())
			if refused != nil {
				t.Fatal(refused)
			}
			time.Sleep(2 * time.Second)
			if !p.FinishAs(ctx, o, err) || p.FinishAs(ctx, o, err) {
				t.Error("not accepted, or twice")
			}
		}
		finish(fusebox.Success, errCell)
		finish(fusebox.Ignored, errCell) // the caller is there: nothing hangs
		cancel()
		finish(fusebox.Ignored, errCell) // he gave up on a hang
		want := []fusebox.Outcome{fusebox.Success, fusebox.Ignored, fusebox.Failure}
		for i, c := range seen {
			if c.Outcome != want[i] || c.Err != errCell { //nolint:errorlint // the very same
				t.Errorf("completion %d: %+v, want %v", i, c, want[i])
			}
		}
		if s := b.Snapshot(); asked != 0 || len(seen) != 3 || s.State != fusebox.Open || s.Last.LastError != errCell.Error() {
			t.Errorf("Classify asked %d times, %d completions, %v", asked, len(seen), s.Last)
		}
	})
}

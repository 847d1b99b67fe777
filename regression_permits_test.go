package fusebox_test

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Late results, results given twice, and calls that end in an odd way.

// TestC1LateResultsOfAnyEraChangeNothing goes through every pair of eras, one
// that issues a permit and one in which it is finished, with every outcome.
func TestC1LateResultsOfAnyEraChangeNothing(t *testing.T) {
	toHalfOpen := func(l *caseLab) {
		l.clock.Advance(10 * time.Second)
		l.allow()
	}
	pairs := map[string]struct{ before, between func(*caseLab) }{
		"closed, now open":      {func(*caseLab) {}, func(l *caseLab) { l.calls(1, errCase) }},
		"closed, now half-open": {func(*caseLab) {}, func(l *caseLab) { l.calls(1, errCase); toHalfOpen(l) }},
		"closed, now closed by reset": {func(*caseLab) {}, func(l *caseLab) {
			l.Reset(fusebox.Note{})
		}},
		"closed, now closed by probes": {func(*caseLab) {}, func(l *caseLab) {
			l.halfOpen()
			l.calls(2, nil)
		}},
		"closed, now forced open":         {func(*caseLab) {}, func(l *caseLab) { l.Override(fusebox.ForceOpen, fusebox.Note{}) }},
		"half-open, now open":             {(*caseLab).halfOpen, func(l *caseLab) { l.calls(1, errCase) }},
		"half-open, now the next one":     {(*caseLab).halfOpen, func(l *caseLab) { l.calls(1, errCase); toHalfOpen(l) }},
		"half-open, now closed by reset":  {(*caseLab).halfOpen, func(l *caseLab) { l.Reset(fusebox.Note{}) }},
		"half-open, now closed by force":  {(*caseLab).halfOpen, func(l *caseLab) { l.Override(fusebox.ForceClosed, fusebox.Note{}) }},
		"half-open, now forced open":      {(*caseLab).halfOpen, func(l *caseLab) { l.Override(fusebox.ForceOpen, fusebox.Note{}) }},
		"half-open, its lease now at end": {(*caseLab).halfOpen, func(l *caseLab) { l.clock.Advance(10 * time.Second) }},
	}
	ends := map[string]func(*fusebox.Permit) bool{
		"success":      func(p *fusebox.Permit) bool { return p.Record(fusebox.Success) },
		"failure":      func(p *fusebox.Permit) bool { return p.Record(fusebox.Failure) },
		"ignored":      func(p *fusebox.Permit) bool { return p.Record(fusebox.Ignored) },
		"slow success": func(p *fusebox.Permit) bool { return p.RecordAfter(fusebox.Success, time.Hour) },
		"error":        func(p *fusebox.Permit) bool { return p.Finish(context.Background(), errCase) },
		"no error":     func(p *fusebox.Permit) bool { return p.Finish(context.Background(), nil) },
	}
	for pair, eras := range pairs {
		for end, finish := range ends {
			t.Run(pair+"/"+end, func(t *testing.T) {
				l := newCase(t, "consec=1 openfor=10s probes=2 close=2", func(c *fusebox.Config) { c.SlowAfter = time.Minute })
				eras.before(l)
				late := l.allow()
				eras.between(l)
				before := l.Snapshot()
				if finish(late) {
					t.Error("a late result was accepted")
				}
				after := l.Snapshot()
				if after.Totals.Late != before.Totals.Late+1 {
					t.Errorf("late went from %d to %d", before.Totals.Late, after.Totals.Late)
				}
				after.Totals = before.Totals
				// The end of a lease may be committed only now: the record is new, the breaker is not.
				after.Last, after.Generation = before.Last, before.Generation
				if !reflect.DeepEqual(before, after) {
					t.Errorf("changed from\n%+v to\n%+v", before, after)
				}
			})
		}
	}
}

// TestC9APermitIsFinishedOnce tries every pair of ways to finish one.
func TestC9APermitIsFinishedOnce(t *testing.T) {
	ctx := context.Background()
	ends := map[string]func(*fusebox.Permit) bool{
		"Finish":      func(p *fusebox.Permit) bool { return p.Finish(ctx, errCase) },
		"Record":      func(p *fusebox.Permit) bool { return p.Record(fusebox.Failure) },
		"RecordAfter": func(p *fusebox.Permit) bool { return p.RecordAfter(fusebox.Failure, time.Second) },
		"success":     func(p *fusebox.Permit) bool { return p.Record(fusebox.Success) },
		"Cancel":      func(p *fusebox.Permit) bool { p.Cancel(); return false },
		"Take":        func(p *fusebox.Permit) bool { p.Take(); return false },
	}
	for first, end := range ends {
		for second, again := range ends {
			t.Run(first+", then "+second, func(t *testing.T) {
				for _, halfOpen := range []bool{false, true} {
					l := newCase(t, "consec=1 openfor=10s probes=3", func(c *fusebox.Config) { c.ReopenAfter = 9 })
					if halfOpen {
						l.halfOpen()
					} else {
						l.change(func(c *fusebox.Config) { c.Consecutive = 9 })
					}
					p := l.allow()
					accepted := end(p)
					if want := first != "Cancel" && first != "Take"; accepted != want {
						t.Errorf("the first was accepted: %v, want %v", accepted, want)
					}
					before := l.Snapshot()
					if again(p) {
						t.Error("the second was accepted")
					}
					p.Renew()
					if after := l.Snapshot(); !reflect.DeepEqual(before, after) {
						t.Errorf("changed from\n%+v to\n%+v", before, after)
					}
				}
			})
		}
	}
	var zero fusebox.Permit
	for name, end := range ends {
		if end(&zero) {
			t.Errorf("%s of the zero Permit was accepted", name)
		}
	}
}

func TestC16EveryExitPathSettles(t *testing.T) {
	type exit func(ctx context.Context, cancel func(), b fusebox.Policy)
	do := func(fn func(ctx context.Context, cancel func()) error) exit {
		return func(ctx context.Context, cancel func(), b fusebox.Policy) {
			_ = b.Do(ctx, func(ctx context.Context) error { return fn(ctx, cancel) })
		}
	}
	returns := func(err error) exit {
		return do(func(context.Context, func()) error { return err })
	}
	for name, row := range map[string]struct {
		exit exit
		want fusebox.State
	}{
		"returns nil":             {returns(nil), fusebox.Closed},
		"returns an error":        {returns(errCase), fusebox.Open},
		"wrapped ignored error":   {returns(fmt.Errorf("x: %w", fusebox.Ignore(errCase))), fusebox.HalfOpen},
		"refusal inside":          {returns(&caseFullError{}), fusebox.HalfOpen},
		"body cannot be read":     {returns(io.ErrUnexpectedEOF), fusebox.Open},
		"cancelled before":        {func(ctx context.Context, cancel func(), b fusebox.Policy) { cancel(); returns(nil)(ctx, cancel, b) }, fusebox.HalfOpen},
		"cancelled during":        {do(func(ctx context.Context, cancel func()) error { cancel(); return ctx.Err() }), fusebox.HalfOpen},
		"cancelled, still nil":    {do(func(_ context.Context, cancel func()) error { cancel(); return nil }), fusebox.Closed},
		"panics":                  {do(func(context.Context, func()) error { panic("x") }), fusebox.Open},
		"panics, cancelled":       {do(func(_ context.Context, cancel func()) error { cancel(); panic("x") }), fusebox.HalfOpen},
		"Goexit":                  {do(func(context.Context, func()) error { runtime.Goexit(); return nil }), fusebox.Open},
		"Goexit, cancelled":       {do(func(_ context.Context, cancel func()) error { cancel(); runtime.Goexit(); return nil }), fusebox.HalfOpen},
		"classifier panics":       {returns(errCaseOdd), fusebox.Open},
		"not found, an answer":    {func(ctx context.Context, _ func(), b fusebox.Policy) { caseNotFound(ctx, b) }, fusebox.Closed},
		"a permit never finished": {func(ctx context.Context, _ func(), b fusebox.Policy) { caseForgets(ctx, b.(*fusebox.Breaker)) }, fusebox.Open},
	} {
		t.Run(name, func(t *testing.T) {
			l := newCase(t, "consec=1 openfor=10s probes=1", func(c *fusebox.Config) {
				c.Classify = func(ctx context.Context, err error) fusebox.Outcome {
					if err == errCaseOdd { //nolint:errorlint // this very error
						panic("classifier")
					}
					return fusebox.DefaultClassify(ctx, err)
				}
			})
			for range 3 {
				l.Reset(fusebox.Note{})
				l.halfOpen()
				ctx, cancel := context.WithCancel(context.Background())
				caseSoon(t, func() {
					_ = caseRecover(func() { row.exit(ctx, cancel, l.Breaker) })
				})
				cancel()
				l.wantOutstanding(0)
				l.want(row.want)
				if row.want == fusebox.Open {
					if wait := l.refused().RetryAfter(); wait != 10*time.Second {
						t.Errorf("RetryAfter is %v, want 10s", wait)
					}
					l.clock.Advance(9 * time.Second)
					refusal := l.refused()
					l.clock.Advance(time.Hour)
					if wait := refusal.RetryAfter(); wait != 0 {
						t.Errorf("RetryAfter is %v after the deadline, want 0", wait)
					}
				}
				l.allow().Record(fusebox.Success)
				l.want(fusebox.Closed)
			}
		})
	}
}

// caseNotFound makes a call that gets a response which says "not found".
func caseNotFound(ctx context.Context, b fusebox.Policy) {
	_, _ = fusebox.Call(ctx, b, func(context.Context) (int, error) { return 404, nil })
}

// caseForgets makes a call of the form that the documentation of Permit
// advises, whose author has forgotten a return.
func caseForgets(ctx context.Context, b *fusebox.Breaker) {
	p, err := b.Allow(ctx)
	if err != nil {
		return
	}
	defer p.Record(fusebox.Failure)
}

package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox/retry"
)

var (
	errDown  = errors.New("down")
	errWorse = errors.New("worse")
)

// plain is a policy without chance and without a budget.
func plain(change func(*retry.Config)) *retry.Policy {
	c := retry.Config{Jitter: -1, NoBudget: true}
	if change != nil {
		change(&c)
	}
	return retry.New(c)
}

// script is a function that fails with each error in turn, and then succeeds.
type script struct {
	errs []error
	at   []time.Duration // when it was called
	from time.Time
}

func (s *script) call(context.Context) error {
	if s.from.IsZero() {
		s.from = time.Now()
	}
	s.at = append(s.at, time.Since(s.from))
	if len(s.errs) == 0 {
		return nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return err
}

func failing(err error, n int) *script { return &script{errs: slices.Repeat([]error{err}, n)} }

// refusal is what a policy inside returns.
type refusal struct{ after time.Duration }

func (refusal) Error() string               { return "refused" }
func (refusal) Rejected() bool              { return true }
func (r refusal) RetryAfter() time.Duration { return r.after }

func TestDo(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		config func(*retry.Config)
		errs   []error
		at     []time.Duration // of the attempts
		err    error           // that Do returns; wraps
		text   string
	}{
		"a success is one attempt": {at: []time.Duration{0}},
		"three attempts by default": {
			errs: []error{errDown, errDown, errWorse, errDown},
			at:   []time.Duration{0, 100 * ms, 300 * ms}, err: errWorse,
			text: "fusebox: gave up after 3 attempts: worse",
		},
		"the last attempt may succeed": {errs: []error{errDown, errWorse}, at: []time.Duration{0, 100 * ms, 300 * ms}},
		"one attempt is no retry": {
			config: func(c *retry.Config) { c.Attempts = 1 },
			errs:   []error{errDown}, at: []time.Duration{0}, err: errDown, text: "down",
		},
		"the wait doubles up to its maximum": {
			config: func(c *retry.Config) { c.Attempts, c.BaseDelay, c.MaxDelay = 6, 10*ms, 50*ms },
			errs:   []error{errDown, errDown, errDown, errDown, errDown},
			at:     []time.Duration{0, 10 * ms, 30 * ms, 70 * ms, 120 * ms, 170 * ms},
		},
		"a backoff of the user's is held in bounds": {
			config: func(c *retry.Config) {
				c.Attempts, c.MaxDelay = 4, 50*ms
				c.Backoff = func(n int) time.Duration { return []time.Duration{-time.Hour, 20 * ms, time.Hour}[n-1] }
			},
			errs: []error{errDown, errDown, errDown},
			at:   []time.Duration{0, 0, 20 * ms, 70 * ms},
		},
		"jitter takes its share away": {
			config: func(c *retry.Config) {
				c.Jitter = 0.5
				c.Rand = func() float64 { return 0.5 }
			},
			errs: []error{errDown, errDown}, at: []time.Duration{0, 75 * ms, 225 * ms},
		},
		"full jitter by default": {
			config: func(c *retry.Config) {
				c.Jitter = 0
				c.Rand = func() float64 { return 0.9 }
			},
			errs: []error{errDown, errDown}, at: []time.Duration{0, 10 * ms, 30 * ms},
		},
		"what is permanent is not retried": {
			errs: []error{retry.Permanent(errDown)}, at: []time.Duration{0}, err: errDown, text: "down",
		},
		"permanent is seen through wrapping": {
			errs: []error{errDown, fmt.Errorf("fetch: %w", retry.Permanent(errWorse))},
			at:   []time.Duration{0, 100 * ms}, err: errWorse, text: "fusebox: gave up after 2 attempts: fetch: worse",
		},
		"Retryable decides": {
			config: func(c *retry.Config) {
				c.Retryable = func(_ context.Context, err error) bool { return errors.Is(err, errDown) }
			},
			errs: []error{errDown, errWorse}, at: []time.Duration{0, 100 * ms}, err: errWorse,
			text: "fusebox: gave up after 2 attempts: worse",
		},
		"a wait asked for replaces the backoff": {
			errs: []error{retry.After(errDown, 7*time.Second), fmt.Errorf("fetch: %w", retry.After(errDown, 0))},
			at:   []time.Duration{0, 7 * time.Second, 7 * time.Second},
		},
		"a wait asked for by another package's error": {
			errs: []error{waiting(3 * time.Second), waiting(0), waiting(-time.Second)},
			at:   []time.Duration{0, 3 * time.Second, 3*time.Second + 200*ms}, err: waiting(-time.Second),
			text: "fusebox: gave up after 3 attempts: waiting -1s",
		},
		"a wait that is too long ends it": {
			errs: []error{retry.After(errDown, time.Hour)}, at: []time.Duration{0}, err: retry.ErrRetryAfter,
			text: "fusebox: gave up after 1 attempt (asked to wait longer than MaxRetryAfter): down",
		},
		"or is capped": {
			config: func(c *retry.Config) { c.CapRetryAfter = true },
			errs:   []error{retry.After(errDown, time.Hour)}, at: []time.Duration{0, 30 * time.Second},
		},
		"a refusal ends it": {
			errs: []error{refusal{time.Millisecond}}, at: []time.Duration{0}, err: refusal{time.Millisecond}, text: "refused",
		},
		"a refusal after failures keeps them": {
			errs: []error{errDown, fmt.Errorf("call: %w", refusal{})}, at: []time.Duration{0, 100 * ms}, err: errDown,
			text: "fusebox: gave up after 2 attempts: call: refused; before that: down",
		},
		"what says that it is no refusal is none": {
			errs: []error{fmt.Errorf("%w: %w", noRefusal{}, refusal{})}, at: []time.Duration{0, 100 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{errs: test.errs}
				err := plain(test.config).Do(t.Context(), s.call)
				if !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				if err != nil && err.Error() != test.text {
					t.Errorf("text %q, want %q", err, test.text)
				}
				if !slices.Equal(s.at, test.at) {
					t.Errorf("attempts at %v, want %v", s.at, test.at)
				}
			})
		})
	}
}

// waiting is an error of another package that says how long to wait.
type waiting time.Duration

func (w waiting) Error() string             { return "waiting " + time.Duration(w).String() }
func (w waiting) RetryAfter() time.Duration { return time.Duration(w) }

// noRefusal sums up refusals and is none.
type noRefusal struct{}

func (noRefusal) Error() string  { return "no refusal" }
func (noRefusal) Rejected() bool { return false }

func TestOneAttemptReturnsItsErrorUnchanged(t *testing.T) {
	for _, want := range []error{retry.Permanent(errDown), retry.After(retry.Permanent(errDown), time.Second), refusal{}} {
		if err := plain(nil).Do(t.Context(), failing(want, 1).call); err != want { //nolint:errorlint // the very same
			t.Errorf("%v, want %v itself", err, want)
		}
	}
	one := plain(func(c *retry.Config) { c.Attempts = 1 })
	if err := one.Do(t.Context(), failing(errDown, 1).call); err != errDown { //nolint:errorlint // the very same
		t.Errorf("%v, want %v itself", err, errDown)
	}
}

func TestMarksOfNothing(t *testing.T) {
	if err := retry.Permanent(nil); err != nil {
		t.Errorf("Permanent(nil) is %v", err)
	}
	if err := retry.After(nil, time.Second); err != nil {
		t.Errorf("After(nil) is %v", err)
	}
	if err := retry.After(errDown, -1); err != errDown { //nolint:errorlint // the very same
		t.Errorf("a negative wait marks: %#v", err)
	}
}

func TestErrorTellsWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := retry.After(errWorse, 2*time.Second)
		err := plain(nil).Do(t.Context(), (&script{errs: []error{errDown, errDown, last}}).call)
		var e *retry.Error
		if !errors.As(err, &e) {
			t.Fatalf("%T", err)
		}
		if e.Attempts() != 3 || e.RetryAfter() != 2*time.Second || e.Rejected() {
			t.Errorf("attempts %d, retry after %v, rejected %v", e.Attempts(), e.RetryAfter(), e.Rejected())
		}
		if errors.Is(err, errDown) || !errors.Is(err, errWorse) {
			t.Errorf("%v wraps the first attempt's error, or not the last one's", err)
		}
	})
}

func TestErrorIsARefusalOnlyIfNothingElseHappened(t *testing.T) {
	for name, test := range map[string]struct {
		errs []error
		want bool
	}{
		"refused twice":              {[]error{refusal{time.Second}, refusal{time.Second}}, true},
		"failed, then refused":       {[]error{errDown, refusal{}}, false},
		"refused, failed, refused":   {[]error{refusal{time.Second}, errDown, refusal{}}, false},
		"refused, then failed twice": {[]error{refusal{time.Second}, errDown, errDown}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				p := plain(func(c *retry.Config) { c.WaitRejected = true })
				err := p.Do(ctx, (&script{errs: test.errs}).call)
				var e *retry.Error
				if !errors.As(err, &e) || e.Rejected() != test.want {
					t.Errorf("%v: want an Error whose Rejected is %v", err, test.want)
				}
			})
		})
	}
}

func TestWaitRejected(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		deadline time.Duration // 0: none
		errs     []error
		at       []time.Duration
		ok       bool
	}{
		"waits as long as it takes":               {20 * s, []error{refusal{10 * s}}, []time.Duration{0, 10 * s}, true},
		"longer than MaxRetryAfter, too":          {time.Hour, []error{refusal{50 * s}}, []time.Duration{0, 50 * s}, true},
		"once":                                    {20 * s, []error{refusal{s}, refusal{s}}, []time.Duration{0, s}, false},
		"never without a deadline":                {0, []error{refusal{s}}, []time.Duration{0}, false},
		"never past it":                           {5 * s, []error{refusal{10 * s}}, []time.Duration{0}, false},
		"nor up to it":                            {5 * s, []error{refusal{5 * s}}, []time.Duration{0}, false},
		"never where nobody knows for how long":   {5 * s, []error{refusal{}}, []time.Duration{0}, false},
		"and goes on with the backoff of its own": {5 * s, []error{refusal{s}, errDown}, []time.Duration{0, s, s + 200*time.Millisecond}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				p := plain(func(c *retry.Config) { c.WaitRejected = true })
				call := &script{errs: test.errs}
				err := p.Do(ctx, call.call)
				if !slices.Equal(call.at, test.at) || (err == nil) != test.ok {
					t.Errorf("attempts at %v, error %v; want %v, success %v", call.at, err, test.at, test.ok)
				}
			})
		})
	}
}

func TestNobodySleepsPastTheDeadline(t *testing.T) {
	for name, test := range map[string]struct {
		left time.Duration
		at   []time.Duration
	}{
		"the wait fits":          {101 * time.Millisecond, []time.Duration{0, 100 * time.Millisecond}},
		"it ends at the instant": {100 * time.Millisecond, []time.Duration{0}},
		"it is too long":         {50 * time.Millisecond, []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.left)
				defer cancel()
				s := failing(errDown, 9)
				start := time.Now()
				err := plain(nil).Do(ctx, s.call)
				if !slices.Equal(s.at, test.at) {
					t.Errorf("attempts at %v, want %v", s.at, test.at)
				}
				if slept := time.Since(start); slept != test.at[len(test.at)-1] {
					t.Errorf("returned after %v: slept for nothing", slept)
				}
				if !errors.Is(err, errDown) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v: want both the failure and the deadline", err)
				}
			})
		})
	}
}

func TestOnRetryIsToldBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type told struct {
			retry.Event
			at time.Duration
		}
		var got []told
		start := time.Now()
		p := plain(func(c *retry.Config) {
			c.OnRetry = func(_ context.Context, e retry.Event) { got = append(got, told{e, time.Since(start)}) }
		})
		_ = p.Do(t.Context(), (&script{errs: []error{errDown, errWorse, errDown}}).call)
		want := []told{
			{retry.Event{Attempt: 1, Err: errDown, Delay: 100 * time.Millisecond}, 0},
			{retry.Event{Attempt: 2, Err: errWorse, Delay: 200 * time.Millisecond}, 100 * time.Millisecond},
		}
		if !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	})
}

func TestErrorIsATimeoutIfTheLastAttemptWasOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for last, want := range map[error]bool{context.DeadlineExceeded: true, errDown: false} {
			err := plain(nil).Do(t.Context(), (&script{errs: []error{errDown, errDown, fmt.Errorf("x: %w", last)}}).call)
			var e interface{ Timeout() bool }
			if !errors.As(err, &e) || e.Timeout() != want {
				t.Errorf("%v: want Timeout %v", err, want)
			}
		}
	})
}

// held is an error that holds something.
type held struct{ discarded func() }

func (held) Error() string { return "held" }
func (h held) Discard()    { h.discarded() }

func TestWhatAnAttemptHoldsIsLetGoOfBeforeTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		err := error(held{func() { at = append(at, time.Since(start)) }})
		got := plain(nil).Do(t.Context(), failing(fmt.Errorf("fetch: %w", err), 9).call)
		if want := []time.Duration{0, 100 * time.Millisecond}; !slices.Equal(at, want) { // not that of the last
			t.Errorf("discarded at %v, want %v: %v", at, want, got)
		}
	})
}

func TestEveryErrorThatHoldsSomethingLetsGoOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		discarded := 0
		one := func() error { return held{func() { discarded++ }} }
		_ = plain(nil).Do(t.Context(), failing(errors.Join(one(), fmt.Errorf("fetch: %w", one())), 1).call)
		if discarded != 2 {
			t.Errorf("%d of 2 discarded", discarded)
		}
	})
}

// An error that sums up several knows no wait of its own; one of them may.
func TestTheWaitAskedForIsFoundBehindAnErrorThatKnowsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := fmt.Errorf("%w, %w", waiting(0), retry.After(errDown, 5*time.Second))
		s := failing(err, 1)
		if err := plain(nil).Do(t.Context(), s.call); err != nil || s.at[1] != 5*time.Second {
			t.Errorf("%v, attempts at %v", err, s.at)
		}
		s = &script{errs: []error{retry.After(errDown, time.Second), refusal{}}}
		var e *retry.Error
		if err := plain(nil).Do(t.Context(), s.call); !errors.As(err, &e) || e.RetryAfter() != time.Second {
			t.Errorf("%v does not say what the dependency asked for", err)
		}
	})
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.New(retry.Config{Budget: retry.NewBudget(retry.BudgetConfig{Share: -1, MinPerSecond: 0.4})})
		_ = p.Do(t.Context(), failing(errDown, 1).call) // one retry, succeeds
		_ = p.Do(t.Context(), failing(errDown, 9).call) // two, and no budget for the rest
		_ = p.Do(t.Context(), failing(errDown, 9).call)
		_ = p.Do(t.Context(), failing(errDown, 9).call)
		if got, want := p.Stats(), (retry.Stats{Retries: 4, Recovered: 1, Exhausted: 2}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestPanicAndGoexitPassOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := retry.NewBudget(retry.BudgetConfig{Share: -1, MinPerSecond: 1})
		p := retry.New(retry.Config{Budget: budget, OnRetry: func(context.Context, retry.Event) { panic("hook") }})
		for _, fn := range []func(context.Context) error{
			func(context.Context) error { panic("call") },
			failing(errDown, 9).call, // OnRetry panics
		} {
			if func() (r any) {
				defer func() { r = recover() }()
				_ = p.Do(t.Context(), fn)
				return nil
			}() == nil {
				t.Error("the panic did not pass on")
			}
		}
		done := make(chan bool)
		go func() {
			defer close(done)
			_ = p.Do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
			t.Error("Goexit did not pass on")
		}()
		<-done
		if s := budget.Stats(); s.Waiting != 0 || s.Retries != 0 {
			t.Errorf("%+v: a retry that was not made is not given back", s)
		}
	})
}

func TestValidate(t *testing.T) {
	err := retry.Config{
		Attempts: -1, BaseDelay: -1, MaxDelay: -2, Jitter: math.NaN(), MaxRetryAfter: -3, NoBudget: true,
		Budget: retry.NewBudget(retry.BudgetConfig{}), Backoff: retry.Exponential(1, 2),
	}.Validate()
	for _, want := range []string{
		"fusebox/retry: Config.Attempts is -1, must be at least 1; 0 stands for 3, and Unlimited is a constant",
		"fusebox/retry: Config.BaseDelay is -1ns, must ",
		"fusebox/retry: Config.MaxDelay is -2ns, must not be negative; 0 stands for 10s",
		"fusebox/retry: Config.Jitter is NaN, must be a fraction up to 1; negative is none",
		"fusebox/retry: Config.MaxRetryAfter is -3ns, must not be negative; 0 stands for 30s",
		"fusebox/retry: Config.BaseDelay is -1ns, must be 0 where Backoff is set, which replaces it",
		"fusebox/retry: Config.NoBudget is true, must be false where Budget is set",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	for want, c := range map[string]retry.Config{
		"Config.BaseDelay is -1ns, must not be negative; 0 stands for 100ms": {BaseDelay: -1},
		"Config.Jitter is 1.5,":                                  {Jitter: 1.5},
		"Config.Jitter is +Inf":                                  {Jitter: math.Inf(1)},
		"Config.MaxDelay is 1s, must be at least BaseDelay (2s)": {BaseDelay: 2 * time.Second, MaxDelay: time.Second},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	err = retry.BudgetConfig{Share: math.NaN(), MinPerSecond: math.Inf(1), Window: 5}.Validate()
	for _, want := range []string{
		"fusebox/retry: BudgetConfig.Share is NaN, must be a finite number; negative is none",
		"fusebox/retry: BudgetConfig.MinPerSecond is +Inf, must be",
		"fusebox/retry: BudgetConfig.Window is 5ns, must be at least 10 ns; 0 stands for 10s",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	for want, c := range map[string]retry.BudgetConfig{
		"Window is -1ns, must be":                                                      {Window: -1},
		"Share is 20, must be a fraction up to 1; negative is none":                    {Share: 20},
		"MinPerSecond is 0.05, must be at least one in Window (10s); negative is none": {MinPerSecond: 0.05},
		"MinPerSecond is 0.9, must be at least one in Window (1s); negative is none":   {MinPerSecond: 0.9, Window: time.Second},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

func TestNewPanicsWithTheErrorOfValidate(t *testing.T) {
	for name, make := range map[string]func(){
		"New":       func() { retry.New(retry.Config{Attempts: -1}) },
		"NewBudget": func() { retry.NewBudget(retry.BudgetConfig{Window: -1}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "must be") {
					t.Errorf("panic with %v", err)
				}
			}()
			make()
		})
	}
}

func TestConfigShowsTheDefaults(t *testing.T) {
	c := retry.New(retry.Config{}).Config()
	if c.Attempts != 3 || c.BaseDelay != 100*time.Millisecond || c.MaxDelay != 10*time.Second ||
		c.Jitter != 1 || c.MaxRetryAfter != 30*time.Second || c.Budget == nil {
		t.Errorf("%+v", c)
	}
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults are invalid: %v", err)
	}
	if c := retry.New(retry.Config{BaseDelay: time.Minute}).Config(); c.MaxDelay != time.Minute || c.MaxRetryAfter != time.Minute {
		t.Errorf("a long BaseDelay: %+v", c)
	}
	if c := retry.New(retry.Config{MaxDelay: time.Millisecond}).Config(); c.BaseDelay != time.Millisecond {
		t.Errorf("a short MaxDelay: %+v", c)
	}
}

func TestString(t *testing.T) {
	for want, c := range map[string]retry.Config{
		"retry(3 attempts, 100ms to 10s)":         {},
		"retry(1 attempt)":                        {Attempts: 1},
		"retry(unlimited attempts, 100ms to 10s)": {Attempts: retry.Unlimited},
		"retry(3 attempts, up to 1s)":             {MaxDelay: time.Second, Backoff: func(int) time.Duration { return 0 }},
	} {
		if got := retry.New(c).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestASuccessAllocatesNothing(t *testing.T) {
	p, ctx := retry.New(retry.Config{}), t.Context()
	if n := testing.AllocsPerRun(100, func() { _ = p.Do(ctx, func(context.Context) error { return nil }) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

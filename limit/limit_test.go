package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/limit"
)

var errTest = errors.New("no such thing")

// busy is a limit of n of which all places are taken.
func busy(t *testing.T, n int) (*limit.Policy, []*limit.Permit) {
	t.Helper()
	p := limit.New(limit.Config{Name: "search", Initial: n})
	permits := make([]*limit.Permit, n)
	for i := range permits {
		permit, err := p.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		permits[i] = &permit
	}
	return p, permits
}

func TestTheCallBeyondTheLimitIsRefusedAtOnce(t *testing.T) {
	p, permits := busy(t, 17)
	err := p.Do(t.Context(), func(context.Context) error { t.Error("fn was called"); return nil })
	var refusal *limit.Error
	if !errors.As(err, &refusal) || refusal.Name() != "search" || refusal.InFlight() != 17 || !errors.Is(err, limit.ErrLimit) || errors.Is(err, limit.ErrThrottled) {
		t.Errorf("refusal %#v", err)
	}
	if want := `fusebox: limit "search" reached (17 calls in flight)`; err.Error() != want {
		t.Errorf("text %q, want %q", err, want)
	}
	if wait, ok := fusebox.Rejected(err); !ok || wait != 0 {
		t.Errorf("Rejected = %v, %v", wait, ok)
	}
	permits[3].Record(limit.Success)
	if err := p.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Errorf("refused with a place free: %v", err)
	}
	if s := p.Stats(); s.InFlight != 16 || s.Limit != 17 || s.Admitted != 18 || s.Rejected != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestTheErrorOfTheFunctionComesBackUnchanged(t *testing.T) {
	throttle := limit.NewThrottle(limit.ThrottleConfig{Rand: func() float64 { return 1 }})
	for _, p := range []fusebox.Policy{limit.New(limit.Config{}), throttle} {
		for _, want := range []error{nil, errTest, context.Canceled, &limit.Error{}} {
			type key struct{}
			ctx := context.WithValue(t.Context(), key{}, 1)
			got := p.Do(ctx, func(ctx context.Context) error {
				if ctx.Value(key{}) != 1 {
					t.Error("another context")
				}
				return want
			})
			if got != want { //nolint:errorlint // unchanged
				t.Errorf("Do = %v, want %v", got, want)
			}
		}
	}
}

func TestAFinishedContextIsNotCalledWith(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-1))
	defer cancel()
	p, _ := busy(t, 1)
	throttle := limit.NewThrottle(limit.ThrottleConfig{})
	for _, ctx := range []context.Context{cancelled, expired} {
		for _, policy := range []fusebox.Policy{p, throttle} {
			err := policy.Do(ctx, func(context.Context) error { t.Error("fn was called"); return nil })
			if err != ctx.Err() { //nolint:errorlint // as it is
				t.Errorf("Do = %v, want %v", err, ctx.Err())
			}
		}
	}
	if s := p.Stats(); s.Admitted != 1 || s.Rejected != 0 {
		t.Errorf("stats %+v", s)
	}
	if s := throttle.Stats(); s.Admitted != 0 || s.Requests != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestAPermitIsGivenBackOnce(t *testing.T) {
	p, permits := busy(t, 2)
	if !permits[0].Finish(t.Context(), nil) || permits[0].Finish(t.Context(), nil) || permits[0].Record(limit.Dropped) {
		t.Error("the second finish counted, or the first did not")
	}
	if s := p.Stats(); s.InFlight != 1 || s.Dropped != 0 {
		t.Errorf("stats %+v", s)
	}
	var zero limit.Permit
	if zero.Finish(t.Context(), nil) || zero.Record(limit.Success) {
		t.Error("the zero permit counted")
	}
}

func TestLatencyComesFromSuccessesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := limit.New(limit.Config{MinSamples: 1})
		for i := range 100 {
			_ = p.Do(t.Context(), func(context.Context) error {
				if i%2 == 0 {
					time.Sleep(time.Millisecond)
					return errTest
				}
				time.Sleep(40 * time.Millisecond)
				return nil
			})
		}
		if s := p.Stats(); s.Latency != 40*time.Millisecond || s.Baseline != 40*time.Millisecond || s.Dropped != 0 {
			t.Errorf("stats %+v, want 40ms", s)
		}
	})
}

type timeoutError bool

func (timeoutError) Error() string   { return "timeout or not" }
func (e timeoutError) Timeout() bool { return bool(e) }

type refusalError bool

func (refusalError) Error() string    { return "refusal or not" }
func (e refusalError) Rejected() bool { return bool(e) }

func TestWhatErrorsTell(t *testing.T) {
	live := t.Context()
	cancelled, cancel := context.WithCancel(live)
	cancel()
	expired, cancel := context.WithDeadline(live, time.Now().Add(-1))
	defer cancel()
	wrap := func(err error) error { return fmt.Errorf("call: %w", err) }
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want limit.Sample
	}{
		"nil":                                {live, nil, limit.Success},
		"nil though the caller left":         {cancelled, nil, limit.Success},
		"nil after the deadline":             {expired, nil, limit.Success},
		"an error":                           {live, errTest, limit.Ignored},
		"an error of a caller that left":     {cancelled, errTest, limit.Ignored},
		"a timeout of a caller that left":    {cancelled, wrap(context.DeadlineExceeded), limit.Ignored},
		"a cancellation by somebody else":    {live, context.Canceled, limit.Ignored},
		"an error after the deadline":        {expired, errTest, limit.Dropped},
		"a deadline inside":                  {live, wrap(context.DeadlineExceeded), limit.Dropped},
		"a timeout":                          {live, wrap(timeoutError(true)), limit.Dropped},
		"a timeout of the system":            {live, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, limit.Dropped},
		"no timeout, says the error":         {live, timeoutError(false), limit.Ignored},
		"a joined timeout":                   {live, errors.Join(errTest, timeoutError(true)), limit.Dropped},
		"joined errors":                      {live, errors.Join(errTest, errTest), limit.Ignored},
		"a refusal":                          {live, wrap(refusalError(true)), limit.Ignored},
		"a refusal, though the caller left":  {cancelled, refusalError(true), limit.Ignored},
		"five failures and a refusal":        {live, errors.Join(refusalError(false), refusalError(true)), limit.Ignored},
		"a refusal by a limit":               {live, wrap(&limit.Error{}), limit.Ignored},
		"a refusal by a throttle, far below": {live, wrap(errors.Join(errTest, wrap(&limit.ThrottleError{}))), limit.Ignored},
	} {
		if got := limit.DefaultClassify(c.ctx, c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAFunctionOfTheCallerClassifies(t *testing.T) {
	p := limit.New(limit.Config{Classify: func(_ context.Context, err error) limit.Sample {
		if errors.Is(err, errTest) {
			return limit.Dropped
		}
		return limit.Success
	}})
	for range 3 {
		_ = p.Do(t.Context(), func(context.Context) error { return errTest })
	}
	_ = p.Do(t.Context(), func(context.Context) error { return context.DeadlineExceeded })
	if s := p.Stats(); s.Dropped != 3 {
		t.Errorf("%d dropped, want 3", s.Dropped)
	}
}

func TestAClassifierThatPanicsLeavesNoPlaceTaken(t *testing.T) {
	p := limit.New(limit.Config{Initial: 1, Classify: func(context.Context, error) limit.Sample { panic("odd") }})
	throttle := limit.NewThrottle(limit.ThrottleConfig{Classify: func(context.Context, error) limit.Sample { panic("odd") }})
	for _, policy := range []fusebox.Policy{p, throttle} {
		func() {
			defer func() {
				if got := recover(); got != "odd" {
					t.Errorf("recovered %v", got)
				}
			}()
			_ = policy.Do(t.Context(), func(context.Context) error { return nil })
		}()
	}
	if s := p.Stats(); s.InFlight != 0 {
		t.Errorf("%d in flight", s.InFlight)
	}
	if s := throttle.Stats(); s.Requests != 1 || s.Accepts != 0 {
		t.Errorf("stats %+v, want one request", s)
	}
}

func TestBadSettingsAreNamedAllAtOnce(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		config interface{ Validate() error }
		want   []string // nil: valid
	}{
		{limit.Config{}, nil},
		{limit.Config{Min: 50}, nil},
		{limit.Config{Min: 5000}, nil},
		{limit.Config{Initial: 5000}, nil},
		{limit.Config{Max: 5}, nil},
		{limit.Config{Min: 7, Max: 7, Initial: 7}, nil},
		{limit.Config{Initial: -1, Min: -2, Max: -3, Tolerance: 0.5, Window: -1, MinSamples: -4}, []string{
			"fusebox/limit: Config.Initial is -1, must be from 1 to 1048576 (0: the default of 20)",
			"fusebox/limit: Config.Min is -2, must be from 1 to 1048576 (0: the default of 1)",
			"fusebox/limit: Config.Max is -3, must be from 1 to 1048576 (0: the default of 1000)",
			"fusebox/limit: Config.Tolerance is 0.5, must be a finite number of at least 1 (0: the default of 1.1)",
			"fusebox/limit: Config.Window is -1ns, must be positive (0: the default of 100ms)",
			"fusebox/limit: Config.MinSamples is -4, must be from 1 to 1048576 (0: the default of 20)",
		}},
		{limit.Config{Min: 20, Max: 10}, []string{"Config.Min is 20, must be at most Max (10)"}},
		{limit.Config{Initial: 5, Min: 10}, []string{"Config.Initial is 5, must be from Min (10) to Max (1000)"}},
		{limit.Config{Initial: 50, Max: 10}, []string{"Config.Initial is 50, must be from Min (1) to Max (10)"}},
		{limit.Config{Max: 1<<20 + 1}, []string{"Config.Max is 1048577"}},
		{limit.Config{Tolerance: nan}, []string{"Config.Tolerance is NaN"}},
		{limit.Config{Tolerance: inf}, []string{"Config.Tolerance is +Inf"}},
		{limit.ThrottleConfig{}, nil},
		{limit.ThrottleConfig{K: 1, MinPerSecond: -1}, nil},
		{limit.ThrottleConfig{K: 0.9, Window: -1, Buckets: -1, MinPerSecond: nan}, []string{
			"fusebox/limit: ThrottleConfig.K is 0.9, must be a finite number of at least 1 (0: the default of 2)",
			"fusebox/limit: ThrottleConfig.Window is -1ns, must be positive (0: the default of 2m0s)",
			"fusebox/limit: ThrottleConfig.Buckets is -1, must be from 1 to 1048576 (0: the default of 10)",
			"fusebox/limit: ThrottleConfig.MinPerSecond is NaN, must be a finite number (0: the default of 1; negative: off)",
		}},
		{limit.ThrottleConfig{K: nan, MinPerSecond: inf}, []string{"ThrottleConfig.K is NaN", "ThrottleConfig.MinPerSecond is +Inf"}},
		{limit.ThrottleConfig{Window: 9}, []string{"ThrottleConfig.Window is 9ns, must be at least a nanosecond for each of Buckets (10)"}},
	} {
		err := c.config.Validate()
		if got := strings.Split(fmt.Sprint(err), "\n"); c.want == nil && err != nil || c.want != nil && len(got) != len(c.want) {
			t.Errorf("%+v: %v", c.config, err)
			continue
		}
		for i, want := range c.want {
			if got := strings.Split(err.Error(), "\n")[i]; !strings.Contains(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		func() {
			defer func() {
				if got, _ := recover().(error); fmt.Sprint(got) != fmt.Sprint(err) {
					t.Errorf("panic %v, want %v", got, err)
				}
			}()
			switch config := c.config.(type) {
			case limit.Config:
				p := limit.New(config)
				if again := p.Config(); again.Validate() != nil || limit.New(again).String() != p.String() {
					t.Errorf("the settings in effect are not valid: %+v", again)
				}
			case limit.ThrottleConfig:
				p := limit.NewThrottle(config)
				if again := p.Config(); again.Validate() != nil || limit.NewThrottle(again).String() != p.String() {
					t.Errorf("the settings in effect are not valid: %+v", again)
				}
			}
		}()
	}
}

func TestPoliciesSayWhatTheyAre(t *testing.T) {
	if got := limit.New(limit.Config{Min: 2, Max: 80}).String(); got != "limit(2 to 80 in flight)" {
		t.Error(got)
	}
	if got := limit.NewThrottle(limit.ThrottleConfig{K: 1.5}).String(); got != "throttle(K 1.5 over 2m0s)" {
		t.Error(got)
	}
	if got := fmt.Sprint(limit.Success, limit.Dropped, limit.Ignored, limit.Sample(9)); got != "success dropped ignored sample(9)" {
		t.Error(got)
	}
}

func TestAnUnknownSampleIsIgnored(t *testing.T) {
	p, permits := busy(t, 1)
	permits[0].Record(limit.Sample(9))
	if s := p.Stats(); s.InFlight != 0 || s.Dropped != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestAFunctionThatEndsItsGoroutineGivesItsPlaceBack(t *testing.T) {
	p := limit.New(limit.Config{Initial: 1})
	throttle := limit.NewThrottle(limit.ThrottleConfig{Rand: func() float64 { return 1 }})
	cancelled, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, policy := range []fusebox.Policy{p, throttle} {
		for _, ctx := range []context.Context{t.Context(), cancelled} {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = policy.Do(ctx, func(ctx context.Context) error {
					if ctx == cancelled && policy == fusebox.Policy(throttle) {
						cancel()
					}
					runtime.Goexit()
					return nil
				})
			}()
			<-done
		}
	}
	if s := p.Stats(); s.InFlight != 0 || s.Admitted != 2 {
		t.Errorf("stats %+v", s)
	}
	if s := throttle.Stats(); s.Admitted != 2 || s.Requests != 1 || s.Accepts != 0 {
		t.Errorf("stats %+v, want one request: the other was the caller's", s)
	}
}

package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/limit"
)

// backend answers what it can in a second, and fails the rest.
type backend struct {
	perSecond int
	second    int64
	served    int
	reached   int // calls, all of them
	accepted  int
}

func (b *backend) call(context.Context) error {
	if now := time.Now().Unix(); now != b.second {
		b.second, b.served = now, 0
	}
	b.reached++
	if b.served == b.perSecond {
		return errTest
	}
	b.served++
	b.accepted++
	return nil
}

// drive makes 100 calls a second.
func (b *backend) drive(t *testing.T, th *limit.Throttle, length time.Duration) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(length); time.Now().Before(end); <-ticker.C {
		if err := th.Do(t.Context(), b.call); err != nil && !errors.Is(err, errTest) && !errors.Is(err, limit.ErrThrottled) {
			t.Fatal(err)
		}
	}
}

func TestAnOverloadedBackendGetsKTimesWhatItAccepts(t *testing.T) {
	for _, k := range []float64{1.2, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			th := limit.NewThrottle(limit.ThrottleConfig{K: k, Rand: random.Float64})
			b := backend{perSecond: 20}
			b.drive(t, th, 4*time.Minute)
			b.reached, b.accepted = 0, 0
			b.drive(t, th, 2*time.Minute)
			if b.accepted < 20*120*9/10 {
				t.Errorf("K %v: %d accepted in 2m, it can do 20 a second", k, b.accepted)
			}
			if got := float64(b.reached) / float64(b.accepted); math.Abs(got/k-1) > 0.1 {
				t.Errorf("K %v: %.2f calls reach it for each that it accepts", k, got)
			}
			s := th.Stats()
			if want := 1 - 20*k/100; math.Abs(s.Probability-want) > 0.05 {
				t.Errorf("K %v: probability %.2f, want about %.2f", k, s.Probability, want)
			}
			// The present bucket is not full.
			if s.Requests < 100*108 || s.Requests > 100*120 || s.Admitted+s.Rejected != 100*360 {
				t.Errorf("stats %+v, want 100 requests a second, refused ones as well", s)
			}
		})
	}
}

func TestABackendThatAcceptsHalfOfItsCallsIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := limit.NewThrottle(limit.ThrottleConfig{Rand: func() float64 { return 0 }})
		b := backend{perSecond: 50}
		b.drive(t, th, 5*time.Minute)
		if s := th.Stats(); s.Rejected != 0 || s.Probability != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestAfterAnOutageTheThrottleOpensWithinTheTimeStated(t *testing.T) {
	for _, c := range []struct{ window, within time.Duration }{
		{2 * time.Minute, 390 * time.Second},
		{10 * time.Second, 35 * time.Second},
	} {
		for seed := range uint64(3) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 2))
				th := limit.NewThrottle(limit.ThrottleConfig{Window: c.window, Rand: random.Float64})
				var b backend
				b.drive(t, th, c.window)
				if s := th.Stats(); s.Probability < 0.98 {
					t.Fatalf("the outage was not noticed: %+v", s)
				}
				b = backend{perSecond: 1000}
				start := time.Now()
				for th.Stats().Probability > 0 {
					if b.drive(t, th, time.Second); time.Since(start) > c.within {
						t.Fatalf("window %v: %v after the outage: %+v", c.window, time.Since(start), th.Stats())
					}
				}
				if took := time.Since(start); took < c.window/2 {
					t.Errorf("window %v: open after %v, which is too good to be true", c.window, took)
				}
			})
		}
	}
}

func TestTheFloorKeepsProbing(t *testing.T) {
	for floor, want := range map[float64]struct{ least, most int }{
		1:  {60, 140}, // one a second, and what chance lets through
		5:  {300, 420},
		-1: {0, 10}, // about one a window
	} {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			th := limit.NewThrottle(limit.ThrottleConfig{MinPerSecond: floor, Rand: random.Float64})
			var b backend
			b.drive(t, th, 3*time.Minute)
			b.reached = 0
			b.drive(t, th, time.Minute)
			if b.reached < want.least || b.reached > want.most {
				t.Errorf("floor %v: %d calls in a minute, want %+v", floor, b.reached, want)
			}
		})
	}
}

func TestAQuietClientIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := limit.NewThrottle(limit.ThrottleConfig{Rand: func() float64 { return 0 }})
		for range 100 {
			if err := th.Do(t.Context(), func(context.Context) error { return errTest }); errors.Is(err, limit.ErrThrottled) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestTheDrawDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		draw := 0.0
		th := limit.NewThrottle(limit.ThrottleConfig{Name: "search", MinPerSecond: -1, Rand: func() float64 { return draw }})
		fail := func(context.Context) error { return errTest }
		for range 3 {
			draw = 1
			_ = th.Do(t.Context(), fail)
		}
		// 3 requests, no accepts: 3/4.
		for _, c := range []struct {
			draw    float64
			refused bool
		}{{0.75, false}, {math.Nextafter(0.8, 0), true}, {0.9, false}} { // 3/4, 4/5, 5/6
			draw = c.draw
			if err := th.Do(t.Context(), fail); errors.Is(err, limit.ErrThrottled) != c.refused {
				t.Errorf("draw %v: %v", draw, err)
			}
		}
		draw = 0
		err := th.Do(t.Context(), fail)
		if want := `fusebox: throttle "search" refuses 86 % of calls (0 of 6 accepted in 2m0s)`; fmt.Sprint(err) != want {
			t.Errorf("%q, want %q", err, want)
		}
		var refusal *limit.ThrottleError
		if !errors.As(err, &refusal) || refusal.Name() != "search" || errors.Is(err, limit.ErrLimit) {
			t.Errorf("refusal %#v", err)
		}
		if wait, ok := fusebox.Rejected(err); !ok || wait != 0 {
			t.Errorf("Rejected = %v, %v", wait, ok)
		}
		if s := th.Stats(); s.Requests != 7 || s.Accepts != 0 || s.Rejected != 2 || s.Admitted != 5 || s.Probability != 7.0/8 {
			t.Errorf("stats %+v", s)
		}
		time.Sleep(2 * time.Minute)
		if s := th.Stats(); s.Requests != 0 || s.Probability != 0 || s.Rejected != 2 {
			t.Errorf("stats %+v, want an empty window", s)
		}
	})
}

func TestACallAdmittedByChanceIsOneForTheFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		draw := 1.0
		th := limit.NewThrottle(limit.ThrottleConfig{Rand: func() float64 { return draw }})
		refused := func() bool {
			return errors.Is(th.Do(t.Context(), func(context.Context) error { return errTest }), limit.ErrThrottled)
		}
		for _, c := range []struct {
			wait    time.Duration
			draw    float64
			refused bool
		}{
			{0, 0, false}, // the first of all
			{500 * time.Millisecond, 1, false},
			{700 * time.Millisecond, 0, true},
			{299 * time.Millisecond, 0, true},
			{time.Millisecond, 0, false},
			{3 * time.Minute, 0, false},
			{0, 0, true},
			{2 * time.Minute, 0, false},
		} {
			time.Sleep(c.wait)
			draw = c.draw
			if got := refused(); got != c.refused {
				t.Errorf("%+v: refused %v", c, got)
			}
		}
	})
}

func TestAnIdleThrottleForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := limit.NewThrottle(limit.ThrottleConfig{MinPerSecond: -1, Rand: func() float64 { return 0 }})
		_ = th.Do(t.Context(), func(context.Context) error { return errTest })
		time.Sleep(2 * time.Minute)
		if err := th.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

func TestTheDefaultRandIsRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := limit.NewThrottle(limit.ThrottleConfig{})
		b := backend{perSecond: 20}
		b.drive(t, th, 4*time.Minute)
		if s := th.Stats(); math.Abs(s.Probability-0.6) > 0.05 {
			t.Errorf("stats %+v, want 0.6", s)
		}
	})
}

func TestWhatTheThrottleCounts(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		ctx               context.Context
		err               error
		requests, accepts uint64
	}{
		"an answer":                      {t.Context(), nil, 1, 1},
		"an error":                       {t.Context(), errTest, 1, 0},
		"a timeout":                      {t.Context(), context.DeadlineExceeded, 1, 0},
		"a refusal inside":               {t.Context(), &limit.Error{}, 0, 0},
		"an error of a caller that left": {cancelled, errTest, 0, 0},
		"an answer to one that left":     {cancelled, nil, 1, 1},
	} {
		th := limit.NewThrottle(limit.ThrottleConfig{})
		ctx, cancelOne := context.WithCancel(c.ctx)
		_ = th.Do(ctx, func(context.Context) error {
			if c.ctx == cancelled {
				cancelOne()
			}
			return c.err
		})
		cancelOne()
		if s := th.Stats(); s.Requests != c.requests || s.Accepts != c.accepts {
			t.Errorf("%s: %+v, want %d requests, %d accepts", name, s, c.requests, c.accepts)
		}
	}
	cancel()
	th := limit.NewThrottle(limit.ThrottleConfig{Classify: func(_ context.Context, err error) limit.Sample {
		if err == nil {
			return limit.Ignored
		}
		return limit.Success
	}})
	for _, err := range []error{nil, errTest} {
		_ = th.Do(t.Context(), func(context.Context) error { return err })
	}
	if s := th.Stats(); s.Requests != 1 || s.Accepts != 1 {
		t.Errorf("%+v, want what Classify says", s)
	}
}

package limit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fusebox-go/fusebox/limit"
)

func TestPlacesAndCountsAddUpUnderStress(t *testing.T) {
	p := limit.New(limit.Config{Min: 2, Max: 40, Window: 1, MinSamples: 5})
	throttle := limit.NewThrottle(limit.ThrottleConfig{})
	const callers, calls = 32, 1000
	var g sync.WaitGroup
	var ignored atomic.Uint64
	for i := range callers {
		g.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range calls {
				switch random.IntN(4) {
				case 0:
					permit, err := p.Acquire(t.Context())
					if err != nil {
						continue
					}
					runtime.Gosched()
					permit.Record(limit.Sample(random.IntN(3)))
				case 1:
					func() {
						defer func() { _ = recover() }()
						_ = p.Do(t.Context(), func(context.Context) error { panic("odd") })
					}()
				case 2:
					_ = throttle.Do(t.Context(), func(context.Context) error { return errTest })
					if s := throttle.Stats(); s.Accepts > s.Requests || s.Probability < 0 || s.Probability >= 1 {
						t.Errorf("throttle %+v", s)
					}
				default:
					_ = throttle.Do(t.Context(), func(ctx context.Context) error {
						err := p.Do(ctx, func(context.Context) error { runtime.Gosched(); return nil })
						if errors.Is(err, limit.ErrLimit) {
							ignored.Add(1)
						}
						return err
					})
				}
				if s := p.Stats(); s.Limit < 2 || s.Limit > 40 || s.InFlight < 0 || s.InFlight > 40 {
					t.Errorf("limit %+v", s)
				}
			}
		})
	}
	g.Wait()
	if s := p.Stats(); s.InFlight != 0 || s.Admitted == 0 {
		t.Errorf("stats %+v, want no call in flight", s)
	}
	if s := throttle.Stats(); s.Requests != s.Admitted+s.Rejected-ignored.Load() {
		t.Errorf("stats %+v, want each call to be a request but those that the limit inside refused", s)
	}
}

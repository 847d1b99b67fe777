package retry_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox/retry"
)

func withdrawAll(b *retry.Budget) (n int) {
	for b.Withdraw() {
		n++
	}
	return n
}

func TestBudgetIsAShareOfTheCallsAndAFloor(t *testing.T) {
	for name, test := range map[string]struct {
		config      retry.BudgetConfig
		calls, want int
	}{
		"the default":               {retry.BudgetConfig{}, 100, 20 + 10},
		"with no calls the floor":   {retry.BudgetConfig{}, 0, 10},
		"no floor":                  {retry.BudgetConfig{MinPerSecond: -1}, 100, 20},
		"no share":                  {retry.BudgetConfig{Share: -1}, 100, 10},
		"neither":                   {retry.BudgetConfig{Share: -1, MinPerSecond: -1}, 100, 0},
		"a fraction of a retry":     {retry.BudgetConfig{MinPerSecond: -1}, 4, 0},
		"exactly one":               {retry.BudgetConfig{MinPerSecond: -1}, 5, 1},
		"a tenth, ten times":        {retry.BudgetConfig{Share: 0.1, MinPerSecond: -1}, 10, 1},
		"one a call":                {retry.BudgetConfig{Share: 1, MinPerSecond: -1}, 3, 3},
		"a floor of a fraction":     {retry.BudgetConfig{Share: -1, MinPerSecond: 0.1}, 0, 1},
		"a floor of a short window": {retry.BudgetConfig{Share: -1, MinPerSecond: 3, Window: time.Second}, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := retry.NewBudget(test.config)
				for range test.calls {
					b.Deposit()
				}
				if left := b.Stats().Left; int(left+1e-6) != test.want {
					t.Errorf("%v left, want %d", left, test.want)
				}
				if got := withdrawAll(b); got != test.want {
					t.Errorf("%d retries, want %d", got, test.want)
				}
				if left := b.Stats().Left; left >= 1-1e-6 {
					t.Errorf("%v left after all was withdrawn", left)
				}
			})
		})
	}
}

// TestBudgetAgainstARecount compares a budget with one that remembers every
// call and every retry with its bucket.
func TestBudgetAgainstARecount(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(seed, 1))
		const width = 100 * time.Millisecond
		b := retry.NewBudget(retry.BudgetConfig{Share: 0.5, MinPerSecond: 2, Window: 10 * width})
		start := time.Now()
		var calls, retries []int64
		inWindow := func(at []int64) (n int) {
			for _, x := range at {
				if int64(time.Since(start)/width)-x < 10 {
					n++
				}
			}
			return n
		}
		for range 3000 {
			now := int64(time.Since(start) / width)
			switch r.IntN(4) {
			case 0:
				b.Deposit()
				calls = append(calls, now)
			case 1:
				want := 0.5*float64(inWindow(calls))+2-float64(inWindow(retries)) >= 1
				if got := b.Withdraw(); got != want {
					t.Fatalf("at %v: %v, want %v", time.Since(start), got, want)
				} else if got {
					retries = append(retries, now)
				}
			case 2:
				time.Sleep(time.Duration(r.Int64N(int64(2 * width))))
			case 3:
				if r.IntN(20) == 0 {
					time.Sleep(time.Duration(r.Int64N(int64(30 * width))))
				}
			}
			if s := b.Stats(); s.Calls != inWindow(calls) || s.Retries != inWindow(retries) {
				t.Fatalf("at %v: %+v, want %d calls, %d retries", time.Since(start), s, inWindow(calls), inWindow(retries))
			}
		}
		if len(retries) < 100 {
			t.Errorf("only %d retries: the test tests little", len(retries))
		}
	})
}

// A retry that waits counts for as long as it waits, also longer than the window.
func TestBudgetCountsRetriesThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retry.NewBudget(retry.BudgetConfig{Share: -1, MinPerSecond: 0.1}) // one
		p := retry.New(retry.Config{Budget: b, BaseDelay: time.Minute, Jitter: -1})
		go func() { _ = p.Do(t.Context(), failing(errDown, 1).call) }()
		synctest.Wait()
		time.Sleep(30 * time.Second)
		if s := b.Stats(); s.Waiting != 1 || b.Withdraw() {
			t.Errorf("%+v: the retry that waits is forgotten", s)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if s := b.Stats(); s.Waiting != 0 || s.Retries != 1 || b.Withdraw() {
			t.Errorf("%+v: the retry just made is forgotten", s)
		}
		time.Sleep(11 * time.Second)
		if !b.Withdraw() {
			t.Error("it does not refill")
		}
	})
}

func TestBudgetIsGivenBackByAWaitThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := retry.NewBudget(retry.BudgetConfig{Share: -1, MinPerSecond: 0.1})
		p := retry.New(retry.Config{Budget: b})
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			err := p.Do(ctx, func(context.Context) error { // it is cancelled in the wait
				time.AfterFunc(time.Nanosecond, cancel)
				return errDown
			})
			if !errors.Is(err, context.Canceled) || errors.Is(err, retry.ErrBudget) {
				t.Errorf("%v", err)
			}
		}
		if s := b.Stats(); s.Waiting != 0 || s.Left != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestBudgetIsSharedByChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := retry.New(retry.Config{})
		other := retry.New(retry.Config{Budget: first.Config().Budget})
		apart := retry.New(retry.Config{})
		withdrawAll(first.Config().Budget)
		if err := other.Do(t.Context(), failing(errDown, 9).call); !errors.Is(err, retry.ErrBudget) || !errors.Is(err, errDown) {
			t.Errorf("shared: %v", err)
		}
		if err := apart.Do(t.Context(), failing(errDown, 1).call); err != nil {
			t.Errorf("apart: %v", err)
		}
	})
}

func TestANilBudgetGrantsEverything(t *testing.T) {
	none := retry.New(retry.Config{NoBudget: true}).Config().Budget
	none.Deposit()
	if !none.Withdraw() || none.Stats().Left < 1e9 {
		t.Errorf("%+v", none.Stats())
	}
}

// TestBudgetUnderLoad holds that many callers together never get more.
func TestBudgetUnderLoad(t *testing.T) {
	b := retry.NewBudget(retry.BudgetConfig{Share: 0.2, MinPerSecond: -1, Window: time.Hour})
	var got atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				b.Deposit()
				if b.Withdraw() {
					got.Add(1)
				}
			}
		})
	}
	wg.Wait()
	got.Add(int64(withdrawAll(b)))
	if got.Load() != 1600 {
		t.Errorf("%d retries for 8000 calls, want 1600", got.Load())
	}
}

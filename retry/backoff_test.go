package retry_test

import (
	"context"
	"math"
	"math/big"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox/retry"
)

func FuzzExponential(f *testing.F) {
	f.Add(int64(30*time.Second), int64(time.Hour), 62)
	f.Add(int64(100*time.Millisecond), int64(30*time.Second), 9)
	f.Add(int64(1), int64(math.MaxInt64), 63)
	f.Add(int64(-5), int64(-7), -9)
	f.Add(int64(0), int64(time.Hour), 100)
	f.Fuzz(func(t *testing.T, base, limit int64, n int) {
		wait := retry.Exponential(time.Duration(base), time.Duration(limit))
		doublings := min(max(n, 1)-1, 200)
		want := new(big.Int).Lsh(big.NewInt(max(base, 0)), uint(doublings))
		if most := big.NewInt(max(limit, 0)); want.Cmp(most) > 0 {
			want = most
		}
		if got := wait(n); int64(got) != want.Int64() {
			t.Errorf("base %d, limit %d, n %d: %d, want %v", base, limit, n, got, want)
		}
	})
}

// FuzzJitter holds that a wait is between its share and its whole, whatever the
// numbers.
func FuzzJitter(f *testing.F) {
	f.Add(int64(time.Second), 1.0, 0.999)
	f.Add(int64(math.MaxInt64), 1.0, 0.9999999999999999)
	f.Add(int64(math.MaxInt64), 0.5, 0.0)
	f.Add(int64(1), -1.0, 0.5)
	f.Fuzz(func(t *testing.T, limit int64, jitter, r float64) {
		if limit < 1 {
			return
		}
		c := retry.Config{Jitter: jitter, BaseDelay: time.Duration(limit), Rand: func() float64 { return r }, NoBudget: true}
		if c.Validate() != nil {
			return
		}
		var got time.Duration
		c.OnRetry = func(_ context.Context, e retry.Event) {
			got = e.Delay
			panic("seen enough")
		}
		func() {
			defer func() { _ = recover() }()
			_ = retry.New(c).Do(t.Context(), func(context.Context) error { return errDown })
		}()
		if got < 0 || int64(got) > limit {
			t.Errorf("wait of at most %d, jitter %v, draw %v: %d", limit, jitter, r, got)
		}
		if jitter < 0 && int64(got) != limit {
			t.Errorf("without jitter %d became %d", limit, got)
		}
	})
}

func FuzzParseAfter(f *testing.F) {
	for _, v := range []string{"", "0", "-5", "5", "1.5", "NaN", "9223372036", "9223372037", "99999999999999999999", "Wed, 21 Oct 2015 07:28:00 GMT"} {
		f.Add(v)
	}
	now := time.Date(2015, 10, 21, 7, 27, 30, 0, time.UTC)
	f.Fuzz(func(t *testing.T, v string) {
		d, ok := retry.ParseAfter([]string{v}, now)
		if d < 0 || !ok && d != 0 {
			t.Errorf("%q: %v, %v", v, d, ok)
		}
		if n, isInt := new(big.Int).SetString(v, 10); isInt && n.Sign() >= 0 && v[0] >= '0' && v[0] <= '9' && !slices.Contains([]byte(v), '_') {
			want := n.Mul(n, big.NewInt(int64(time.Second)))
			if most := big.NewInt(math.MaxInt64); n.Cmp(most) > 0 {
				want = most
			}
			if !ok || int64(d) != want.Int64() {
				t.Errorf("%q: %v, %v, want %v", v, d, ok, want)
			}
		}
	})
}

func TestParseAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		values []string
		want   time.Duration
		ok     bool
	}{
		"seconds":           {[]string{"120"}, 2 * time.Minute, true},
		"spaces":            {[]string{" 5 "}, 5 * time.Second, true},
		"a date":            {[]string{"Fri, 02 Jan 2026 03:04:35 GMT"}, 30 * time.Second, true},
		"an old date form":  {[]string{"Friday, 02-Jan-26 03:04:35 GMT"}, 30 * time.Second, true},
		"asctime":           {[]string{"Fri Jan  2 03:04:35 2026"}, 30 * time.Second, true},
		"a date gone by":    {[]string{"Fri, 02 Jan 2026 03:04:00 GMT"}, 0, true},
		"a date far off":    {[]string{"Fri, 02 Jan 9999 03:04:00 GMT"}, math.MaxInt64, true},
		"another zone":      {[]string{"Fri, 02 Jan 2026 03:04:35 CET"}, 0, false},
		"a sign":            {[]string{"+5"}, 0, false},
		"the first valid":   {[]string{"soon", "7", "9"}, 7 * time.Second, true},
		"none":              {nil, 0, false},
		"seconds too large": {[]string{"18446744073709551616"}, math.MaxInt64, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := retry.ParseAfter(test.values, now); got != test.want || ok != test.ok {
				t.Errorf("%v, %v, want %v, %v", got, ok, test.want, test.ok)
			}
		})
	}
}

// A Rand that does not keep to [0, 1) is not believed.
func TestRandThatDoesNotKeepItsPromise(t *testing.T) {
	for _, r := range []float64{-1, 1, 7, math.NaN(), math.Inf(1)} {
		synctest.Test(t, func(t *testing.T) {
			s := failing(errDown, 1)
			p := plain(func(c *retry.Config) { c.Jitter, c.Rand = 1, func() float64 { return r } })
			if err := p.Do(t.Context(), s.call); err != nil || s.at[1] <= 0 || s.at[1] > 100*time.Millisecond {
				t.Errorf("Rand %v: %v, attempts at %v", r, err, s.at)
			}
		})
	}
}

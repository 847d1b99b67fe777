package bulkhead_test

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

	"github.com/fusebox-go/fusebox/bulkhead"
)

var errDown = errors.New("down")

// take takes n places, which must be there.
func take(tb testing.TB, p *bulkhead.Policy, n int) {
	tb.Helper()
	for range n {
		if err := p.Acquire(context.Background()); err != nil {
			tb.Fatalf("Acquire = %v, want a place", err)
		}
	}
}

// release gives n places back.
func release(p *bulkhead.Policy, n int) {
	for range n {
		p.Release()
	}
}

// want compares what a bulkhead is at.
func want(tb testing.TB, p *bulkhead.Policy, s bulkhead.Stats) {
	tb.Helper()
	if got := p.Stats(); got != s {
		tb.Errorf("Stats = %+v, want %+v", got, s)
	}
}

// line makes n calls wait, one after another. The channel gets the number of
// each that has its place, and -1-i for number i refused.
func line(ctx context.Context, p *bulkhead.Policy, n int) <-chan int {
	order := make(chan int, n)
	for i := range n {
		go func() {
			if p.Acquire(ctx) != nil {
				i = -1 - i
			}
			order <- i
		}()
		synctest.Wait()
	}
	return order
}

// arrived returns what has arrived by now.
func arrived(order <-chan int) (got []int) {
	synctest.Wait()
	for range len(order) {
		got = append(got, <-order)
	}
	return got
}

func TestTheZeroConfigAdmitsTwentyFiveAndLetsNoneWait(t *testing.T) {
	p := bulkhead.New(bulkhead.Config{})
	if got, want := p.Config(), (bulkhead.Config{Limit: 25}); got != want {
		t.Errorf("Config = %+v, want %+v", got, want)
	}
	take(t, p, 25)
	if err := p.Acquire(t.Context()); !errors.Is(err, bulkhead.ErrFull) {
		t.Errorf("the 26th: %v, want a refusal", err)
	}
	want(t, p, bulkhead.Stats{InFlight: 25, Limit: 25, Rejected: 1})
	release(p, 25)
	want(t, p, bulkhead.Stats{Limit: 25, Rejected: 1})
}

func TestAsManyMayWaitAsTheLimitInForce(t *testing.T) {
	p := bulkhead.New(bulkhead.Config{Limit: 3, MaxWait: time.Second})
	if got := p.Config().MaxWaiting; got != 3 {
		t.Errorf("MaxWaiting is %d, want 3", got)
	}
	if err := p.SetLimit(7); err != nil {
		t.Fatal(err)
	}
	if got, want := p.Config(), (bulkhead.Config{Limit: 7, MaxWait: time.Second, MaxWaiting: 7}); got != want {
		t.Errorf("Config = %+v, want %+v", got, want)
	}
}

func TestValidateNamesEveryBadField(t *testing.T) {
	err := bulkhead.Config{Limit: -1, MaxWait: -time.Second, MaxWaiting: -2}.Validate()
	if err == nil {
		t.Fatal("Validate = nil")
	}
	wantText := `fusebox/bulkhead: Config.Limit is -1, must be from 1 to 2147483647 (0: the default of 25)
fusebox/bulkhead: Config.MaxWait is -1s, must not be negative (0: refuse at once)
fusebox/bulkhead: Config.MaxWaiting is -2, must not be negative (0: as many as Limit)`
	if err.Error() != wantText {
		t.Errorf("Validate:\n%v\nwant\n%v", err, wantText)
	}
	func() {
		defer func() {
			if got := recover(); got == nil || fmt.Sprint(got) != wantText {
				t.Errorf("New panics with %v, want the error of Validate", got)
			}
		}()
		bulkhead.New(bulkhead.Config{Limit: -1, MaxWait: -time.Second, MaxWaiting: -2})
	}()

	for name, c := range map[string]struct {
		config bulkhead.Config
		valid  bool
	}{
		"nothing set":                {bulkhead.Config{}, true},
		"the greatest of all":        {bulkhead.Config{Limit: math.MaxInt32, MaxWait: math.MaxInt64, MaxWaiting: math.MaxInt}, true},
		"waiting without a wait":     {bulkhead.Config{MaxWaiting: 1}, false},
		"one waits a moment":         {bulkhead.Config{Limit: 1, MaxWait: 1, MaxWaiting: 1}, true},
		"settings with the defaults": {bulkhead.New(bulkhead.Config{MaxWait: time.Second}).Config(), true},
	} {
		if err := c.config.Validate(); (err == nil) != c.valid {
			t.Errorf("%s: Validate = %v", name, err)
		}
	}
}

func TestStringSaysKindAndSettings(t *testing.T) {
	p := bulkhead.New(bulkhead.Config{Name: "payments"})
	q := bulkhead.New(bulkhead.Config{MaxWait: 1500 * time.Millisecond})
	if err := q.SetLimit(9); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p, " ", q); got != "bulkhead(25) bulkhead(9, wait 1.5s)" {
		t.Errorf("String: %s", got)
	}
}

func TestDoReturnsTheErrorOfTheFunctionUnchanged(t *testing.T) {
	p := bulkhead.New(bulkhead.Config{})
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	got := p.Do(ctx, func(inner context.Context) error {
		if inner.Value(key{}) != "value" {
			t.Error("the function does not see the caller's context")
		}
		want(t, p, bulkhead.Stats{InFlight: 1, Limit: 25})
		return errDown
	})
	if got != errDown { //nolint:errorlint // unchanged
		t.Errorf("Do = %v, want %v", got, errDown)
	}
	want(t, p, bulkhead.Stats{Limit: 25})
}

func TestDoGivesThePlaceBackAfterGoexit(t *testing.T) {
	p := bulkhead.New(bulkhead.Config{Limit: 1})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Do(t.Context(), func(context.Context) error { runtime.Goexit(); return nil })
	}()
	<-done
	want(t, p, bulkhead.Stats{Limit: 1})
}

func TestAContextDoneBeforeIsReturnedAsItIsAndCountsNowhere(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, c := range []bulkhead.Config{{Limit: 1}, {Limit: 1, MaxWait: time.Hour}} {
		for _, taken := range []int{0, 1} {
			p := bulkhead.New(c)
			take(t, p, taken)
			for _, ctx := range []context.Context{cancelled, expired} {
				err := p.Do(ctx, func(context.Context) error { t.Error("called"); return nil })
				if err != ctx.Err() { //nolint:errorlint // unchanged
					t.Errorf("Do = %v, want %v", err, ctx.Err())
				}
			}
			want(t, p, bulkhead.Stats{InFlight: taken, Limit: 1})
		}
	}
}

func TestTryAcquireNeverWaitsAndNeverOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Hour})
		if !p.TryAcquire() {
			t.Fatal("no place in an empty bulkhead")
		}
		order := line(t.Context(), p, 1)
		if p.TryAcquire() {
			t.Error("a second place where there is one")
		}
		p.Release()
		if p.TryAcquire() {
			t.Error("it overtook the waiter")
		}
		if got := arrived(order); len(got) != 1 {
			t.Error("the waiter has no place")
		}
		want(t, p, bulkhead.Stats{InFlight: 1, Limit: 1, Rejected: 2})
		p.Release()
	})
}

func TestReleaseWithoutAcquirePanics(t *testing.T) {
	p := bulkhead.New(bulkhead.Config{})
	take(t, p, 1)
	p.Release()
	defer func() {
		if got := recover(); got != "fusebox/bulkhead: Release without Acquire: no call is in flight" {
			t.Errorf("panic: %v", got)
		}
		want(t, p, bulkhead.Stats{Limit: 25})
	}()
	p.Release()
}

func TestWaitersGoInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Limit: 2, MaxWait: time.Hour, MaxWaiting: 100})
		take(t, p, 2)
		order := line(t.Context(), p, 100)
		for i := range 100 {
			p.Release()
			if got := arrived(order); !slices.Equal(got, []int{i}) {
				t.Fatalf("after release %d: %v have a place", i, got)
			}
		}
		release(p, 2)
		want(t, p, bulkhead.Stats{Limit: 2})
	})
}

func TestANewcomerNeverOvertakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Hour, MaxWaiting: 5})
		take(t, p, 1)
		order := line(t.Context(), p, 3)
		p.Release() // the place is number 0's, though it has not run yet
		late := make(chan error, 1)
		go func() { late <- p.Acquire(t.Context()) }()
		for i := range 3 {
			if got := arrived(order); !slices.Equal(got, []int{i}) || len(late) > 0 {
				t.Fatalf("%v have a place, the newcomer %d", got, len(late))
			}
			p.Release()
		}
		if err := <-late; err != nil {
			t.Error(err)
		}
		p.Release()
	})
}

func TestAWaitEndsAfterMaxWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Name: "payments", Limit: 1, MaxWait: time.Second, MaxWaiting: 4})
		take(t, p, 1)
		began := time.Now()
		order := line(t.Context(), p, 3)
		err := p.Acquire(t.Context())
		if got := time.Since(began); got != time.Second {
			t.Errorf("waited %v, want 1s", got)
		}
		if err == nil || !errors.Is(err, bulkhead.ErrFull) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire = %v, want a refusal that is not the context's", err)
		}
		if got := arrived(order); len(got) != 3 || slices.Max(got) >= 0 {
			t.Errorf("%v have a place, want none", got)
		}
		want(t, p, bulkhead.Stats{InFlight: 1, Limit: 1, Rejected: 4})
		p.Release()
		take(t, p, 1) // nobody stands in the way
	})
}

func TestMaxWaitMayBeForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: math.MaxInt64})
		take(t, p, 1)
		order := line(t.Context(), p, 1)
		<-time.NewTimer(100 * 365 * 24 * time.Hour).C
		p.Release()
		if got := arrived(order); !slices.Equal(got, []int{0}) {
			t.Errorf("%v have a place, want 0", got)
		}
	})
}

func TestAQueueThatIsFullRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Hour, MaxWaiting: 2})
		take(t, p, 1)
		order := line(t.Context(), p, 2)
		began := time.Now()
		if err := p.Acquire(t.Context()); !errors.Is(err, bulkhead.ErrFull) || time.Since(began) != 0 {
			t.Errorf("Acquire = %v after %v, want a refusal at once", err, time.Since(began))
		}
		want(t, p, bulkhead.Stats{InFlight: 1, Waiting: 2, Limit: 1, Rejected: 1})
		p.Release()
		if got := arrived(order); !slices.Equal(got, []int{0}) {
			t.Errorf("%v have a place, want 0", got)
		}
		line(t.Context(), p, 1)
		want(t, p, bulkhead.Stats{InFlight: 1, Waiting: 2, Limit: 1, Rejected: 1})
		release(p, 1)
		synctest.Wait()
		release(p, 1)
		synctest.Wait()
	})
}

func TestWhoLeavesTheQueueLeavesTheOthersInOrder(t *testing.T) {
	for _, leaver := range []int{0, 1, 2, 3} { // the first, some between, the last
		synctest.Test(t, func(t *testing.T) {
			p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Hour, MaxWaiting: 4})
			take(t, p, 1)
			order := make(chan int, 4)
			for i := range 4 {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i == leaver {
					time.AfterFunc(time.Minute, cancel)
				}
				go func() {
					if p.Acquire(ctx) == nil {
						order <- i
					}
				}()
				synctest.Wait()
			}
			<-time.NewTimer(2 * time.Minute).C
			want(t, p, bulkhead.Stats{InFlight: 1, Waiting: 3, Limit: 1, Rejected: 1})
			var got []int
			for range 3 {
				p.Release()
				got = append(got, arrived(order)...)
			}
			p.Release()
			if all := slices.Delete([]int{0, 1, 2, 3}, leaver, leaver+1); !slices.Equal(got, all) {
				t.Errorf("without %d the order is %v", leaver, got)
			}
			want(t, p, bulkhead.Stats{Limit: 1, Rejected: 1})
		})
	}
}

func TestAHigherLimitAdmitsWaitersAtOnceInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Hour, MaxWaiting: 9})
		take(t, p, 1)
		order := line(t.Context(), p, 5)
		if err := p.SetLimit(4); err != nil {
			t.Fatal(err)
		}
		want(t, p, bulkhead.Stats{InFlight: 4, Waiting: 2, Limit: 4})
		got := arrived(order)
		slices.Sort(got) // all three run at once
		if !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("%v have a place, want the first three", got)
		}
		if err := p.SetLimit(100); err != nil {
			t.Fatal(err)
		}
		want(t, p, bulkhead.Stats{InFlight: 6, Limit: 100})
		take(t, p, 94)
		want(t, p, bulkhead.Stats{InFlight: 100, Limit: 100})
		synctest.Wait()
	})
}

func TestALowerLimitEndsNoCallAndAdmitsNoneUntilBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := bulkhead.New(bulkhead.Config{Limit: 4, MaxWait: time.Hour})
		take(t, p, 4)
		if err := p.SetLimit(2); err != nil {
			t.Fatal(err)
		}
		order := line(t.Context(), p, 2)
		want(t, p, bulkhead.Stats{InFlight: 4, Waiting: 2, Limit: 2})
		release(p, 2)
		if got := arrived(order); got != nil {
			t.Errorf("%v have a place, though as many are in flight as may be", got)
		}
		release(p, 1)
		if got := arrived(order); !slices.Equal(got, []int{0}) {
			t.Errorf("%v have a place, want 0", got)
		}
		release(p, 2)
		if got := arrived(order); !slices.Equal(got, []int{1}) {
			t.Errorf("%v have a place, want 1", got)
		}
		release(p, 1)
		want(t, p, bulkhead.Stats{Limit: 2})
		take(t, p, 2)
		if p.TryAcquire() {
			t.Error("a third place at a limit of 2")
		}
	})
}

func TestSetLimitRefusesWhatIsNoLimit(t *testing.T) {
	p := bulkhead.New(bulkhead.Config{})
	for _, n := range []int{0, -1, math.MinInt} {
		err := p.SetLimit(n)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("limit is %d, must be from 1 to 2147483647", n)) {
			t.Errorf("SetLimit(%d) = %v", n, err)
		}
	}
	if err := p.SetLimit(math.MaxInt32); err != nil || p.Config().Limit != math.MaxInt32 {
		t.Errorf("SetLimit = %v, limit %d", err, p.Config().Limit)
	}
}

// refusal returns the error of a call.
func refusal(ctx context.Context, tb testing.TB, p *bulkhead.Policy) *bulkhead.Error {
	tb.Helper()
	var e *bulkhead.Error
	if err := p.Acquire(ctx); !errors.As(err, &e) {
		tb.Fatalf("Acquire = %v, want an *Error", err)
	}
	return e
}

func TestARefusalSaysWhatAndHowFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := func(c bulkhead.Config, wait context.Context, waiters int, wantText string) {
			t.Helper()
			p := bulkhead.New(c)
			take(t, p, p.Config().Limit)
			ctx, cancel := context.WithCancel(t.Context())
			line(ctx, p, waiters)
			e := refusal(wait, t, p)
			if e.Error() != wantText {
				t.Errorf("refusal: %v\nwant     %s", e, wantText)
			}
			if e.Name() != c.Name || e.Limit() != p.Config().Limit || !e.Rejected() || e.RetryAfter() != 0 || !errors.Is(e, bulkhead.ErrFull) {
				t.Errorf("refusal %+v", e)
			}
			if e.Unwrap() != wait.Err() { //nolint:errorlint // the very one
				t.Errorf("refusal wraps %v, want %v", e.Unwrap(), wait.Err())
			}
			cancel()
			synctest.Wait()
		}
		bg := t.Context()
		text(bulkhead.Config{Name: "payments"}, bg, 0,
			`fusebox: bulkhead "payments" is full (limit: 25 calls in flight)`)
		text(bulkhead.Config{Limit: 1}, bg, 0,
			`fusebox: bulkhead is full (limit: 1 call in flight)`)
		text(bulkhead.Config{Name: "payments", Limit: 2, MaxWait: time.Second, MaxWaiting: 3}, bg, 3,
			`fusebox: bulkhead "payments" is full (limit: 2 calls in flight, 3 waiting)`)
		later := context.WithoutCancel(bg)
		text(bulkhead.Config{Name: "payments", MaxWait: time.Second}, later, 0,
			`fusebox: no place in bulkhead "payments" within 1s (25 calls in flight, 0 waiting)`)

		short, cancel := context.WithTimeout(bg, time.Millisecond)
		defer cancel()
		text(bulkhead.Config{Name: "payments", Limit: 2, MaxWait: time.Second, MaxWaiting: 7}, short, 3,
			`fusebox: no place in bulkhead "payments" before its context ended: context deadline exceeded (2 calls in flight, 3 waiting)`)
	})
}

func TestARefusalAtOnceSpeaksOfTheLimitInForce(t *testing.T) {
	p := bulkhead.New(bulkhead.Config{Limit: 3})
	take(t, p, 3)
	first := refusal(t.Context(), t, p)
	if again := refusal(t.Context(), t, p); first != again {
		t.Error("two refusals at one limit are two values")
	}
	if err := p.SetLimit(2); err != nil {
		t.Fatal(err)
	}
	if got := refusal(t.Context(), t, p).Limit(); got != 2 || first.Limit() != 3 {
		t.Errorf("limit %d, the first %d; want 2, 3", got, first.Limit())
	}
}

func TestNothingIsAllocatedUnlessACallWaits(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := bulkhead.New(bulkhead.Config{Name: "payments", Limit: 2})
	q := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Hour, MaxWaiting: 1})
	full := bulkhead.New(bulkhead.Config{Limit: 1})
	take(t, q, 1)
	take(t, full, 1)
	given := make(chan error)
	go func() { given <- q.Acquire(ctx) }()
	for q.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	n := 0
	for name, f := range map[string]func(){
		"Do":                  func() { _ = p.Do(ctx, func(context.Context) error { n++; return nil }) },
		"Acquire and Release": func() { _ = p.Acquire(ctx); p.Release() },
		"TryAcquire, refused": func() { full.TryAcquire() },
		"Do, refused":         func() { _ = full.Do(ctx, func(context.Context) error { n++; return nil }) },
		"the queue is full":   func() { _ = q.Acquire(ctx) },
	} {
		if got := testing.AllocsPerRun(100, f); got != 0 {
			t.Errorf("%s: %v allocations, want 0", name, got)
		}
	}
	q.Release()
	if err := <-given; err != nil {
		t.Error(err)
	}
}

package fuseboxtest_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox/fuseboxtest"
)

func failures(d *fuseboxtest.Dependency, calls int) (n int) {
	for range calls {
		if d.Call(context.Background()) != nil {
			n++
		}
	}
	return n
}

func TestTheZeroDependencyAnswersAtOnce(t *testing.T) {
	var d fuseboxtest.Dependency
	if n := failures(&d, 100); n != 0 || d.Calls() != 100 {
		t.Errorf("%d of %d calls failed, want 0 of 100", n, d.Calls())
	}
}

func TestOutagesOverTime(t *testing.T) {
	var clock fuseboxtest.Clock
	errBusy, errGone := errors.New("busy"), errors.New("gone")
	d := &fuseboxtest.Dependency{
		Clock: &clock, Latency: time.Millisecond, Timeout: time.Second, Err: errBusy,
		Outages: []fuseboxtest.Outage{
			{From: 10 * time.Second, To: 20 * time.Second},
			{From: 15 * time.Second, To: 30 * time.Second, Err: errGone, Latency: 5 * time.Millisecond},
			{From: 40 * time.Second, To: 50 * time.Second, SuccessRate: 1, Latency: 200 * time.Millisecond},
			{From: time.Minute, Latency: time.Hour},
		},
	}
	start := d.Start()
	for _, c := range []struct {
		at, took time.Duration
		err      error
	}{
		{0, time.Millisecond, nil},
		{10*time.Second - 1, time.Millisecond, nil},
		{10 * time.Second, 0, errBusy},
		{15 * time.Second, 0, errBusy}, // the first in the list counts
		{20 * time.Second, 5 * time.Millisecond, errGone},
		{30 * time.Second, time.Millisecond, nil},
		{40 * time.Second, 200 * time.Millisecond, nil},
		{50 * time.Second, time.Millisecond, nil},
		{time.Minute, time.Second, context.DeadlineExceeded},
		{time.Hour, time.Second, context.DeadlineExceeded},
	} {
		clock.Set(start.Add(c.at))
		err := d.Call(t.Context())
		if took := clock.Now().Sub(start) - c.at; !errors.Is(err, c.err) || took != c.took {
			t.Errorf("call at %v took %v and returned %v, want %v and %v", c.at, took, err, c.took, c.err)
		}
	}
}

func TestRatesAndSeeds(t *testing.T) {
	draw := func(d *fuseboxtest.Dependency) (outcomes string) {
		for range 1000 {
			outcomes += string('0' + rune(failures(d, 1)))
		}
		return outcomes
	}
	first := draw(&fuseboxtest.Dependency{FailureRate: 0.3})
	if n := strings.Count(first, "1"); n < 250 || n > 350 {
		t.Errorf("%d of 1000 calls failed, want about 300", n)
	}
	if draw(&fuseboxtest.Dependency{FailureRate: 0.3}) != first {
		t.Error("the same seed draws differently")
	}
	if draw(&fuseboxtest.Dependency{FailureRate: 0.3, Seed: 1}) == first {
		t.Error("another seed draws the same")
	}
	if draw(&fuseboxtest.Dependency{Outages: []fuseboxtest.Outage{{SuccessRate: 0.7}}}) != first {
		t.Error("a success rate of 0.7 is not a failure rate of 0.3")
	}
}

func TestPackageTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &fuseboxtest.Dependency{Latency: time.Second}
		start := time.Now()
		if err := d.Call(t.Context()); err != nil || time.Since(start) != time.Second {
			t.Errorf("took %v and returned %v, want 1s and nil", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start = time.Now()
		if err := d.Call(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 300*time.Millisecond {
			t.Errorf("took %v and returned %v, want 300ms and the context's error", time.Since(start), err)
		}

		var wg sync.WaitGroup
		start = time.Now()
		for range 50 {
			wg.Go(func() { failures(d, 1) })
		}
		wg.Wait()
		if took := time.Since(start); took != time.Second {
			t.Errorf("50 calls at a time took %v, want 1s", took)
		}
	})
}

func TestAContextThatIsDoneEndsACallOnAClock(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := &fuseboxtest.Dependency{Clock: new(fuseboxtest.Clock)}
	if err := d.Call(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Call returned %v, want the context's error", err)
	}
}

func TestDependencyValidate(t *testing.T) {
	d := &fuseboxtest.Dependency{
		FailureRate: math.NaN(), Latency: -1, Timeout: -1,
		Outages: []fuseboxtest.Outage{{}, {From: -1, To: -2, SuccessRate: 1.5, Latency: -1}, {From: 2, To: 2}},
	}
	err := d.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Dependency.FailureRate is NaN, must be a fraction from 0 to 1",
		"Dependency.Latency is -1ns, must not be negative",
		"Dependency.Timeout is -1ns",
		"Dependency.Outages[1].From is -1ns",
		"Dependency.Outages[1].To is -2ns",
		"Dependency.Outages[1].SuccessRate is 1.5",
		"Dependency.Outages[1].Latency is -1ns",
		"Dependency.Outages[2].To is 2ns, must be after From (2ns)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "Outages[0]") {
		t.Errorf("the zero Outage is rejected: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Call of an invalid dependency does not panic")
		}
	}()
	_ = d.Call(t.Context())
}

package fuseboxtest_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

// on runs f with a Clock, and with package time in a bubble.
func on(t *testing.T, f func(t *testing.T, clock *fuseboxtest.Clock, c fusebox.Config)) {
	t.Helper()
	c := fusebox.Config{Consecutive: 5, OpenJitter: -1}
	t.Run("clock", func(t *testing.T) {
		var clock fuseboxtest.Clock
		withClock := c
		withClock.Now = clock.Now
		f(t, &clock, withClock)
	})
	t.Run("synctest", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t, nil, c) })
	})
}

func drive(t *testing.T, b *fusebox.Breaker, d *fuseboxtest.Dependency, l fuseboxtest.Load) fuseboxtest.Report {
	t.Helper()
	r, err := fuseboxtest.Drive(t.Context(), b, d, l)
	if err != nil {
		t.Fatal(err)
	}
	if r.Calls != r.Reached+r.RejectedOpen+r.RejectedProbing || r.Reached > d.Calls() {
		t.Errorf("numbers do not add up: %v", r)
	}
	return r
}

func TestCallsThatTakeLongerThanThePaceOverlap(t *testing.T) {
	on(t, func(t *testing.T, clock *fuseboxtest.Clock, c fusebox.Config) {
		d := &fuseboxtest.Dependency{Clock: clock, Latency: 275 * time.Millisecond}
		c.SlowAfter = 275 * time.Millisecond
		b := fusebox.New("b", c)
		start := time.Now()
		if clock != nil {
			start = clock.Now()
		}
		var out, most int
		b.Observe(fusebox.Observer{Finished: func(x fusebox.Completion) {
			out++
			most = max(most, d.Calls()-out+1)
			if x.Duration != 275*time.Millisecond || !x.Slow {
				t.Errorf("a call took %v, slow: %v", x.Duration, x.Slow)
			}
		}})
		r := drive(t, b, d, fuseboxtest.Load{For: 500 * time.Millisecond})
		end := time.Now()
		if clock != nil {
			end = clock.Now()
		}
		// The last begins at 450 ms.
		if r.Calls != 10 || out != 10 || most != 6 || end.Sub(start) != 725*time.Millisecond {
			t.Errorf("%d calls, %d ended, %d at a time, in %v; want 10, 10, 6, 725ms", r.Calls, out, most, end.Sub(start))
		}
	})
}

func TestRejectionsAreCountedByTheirKind(t *testing.T) {
	on(t, func(t *testing.T, clock *fuseboxtest.Clock, c fusebox.Config) {
		c.Probes = 1
		d := &fuseboxtest.Dependency{Clock: clock, Outages: []fuseboxtest.Outage{{To: time.Second, Latency: 120 * time.Millisecond}}}
		r := drive(t, fusebox.New("b", c), d, fuseboxtest.Load{For: 3 * time.Second, Every: 100 * time.Millisecond})
		// Fails at 0 to 400 ms and is seen to at 520 ms; two more are out then.
		if r.RejectedOpen != 10 || r.RejectedProbing != 0 || r.Failed != 6 {
			t.Errorf("got %v", r)
		}
		d = &fuseboxtest.Dependency{Clock: clock, Latency: 250 * time.Millisecond}
		b := fusebox.New("b", c)
		b.Override(fusebox.ForceOpen, fusebox.Note{})
		b.Lift(fusebox.Note{})
		r = drive(t, b, d, fuseboxtest.Load{For: time.Second, Every: 100 * time.Millisecond})
		if r.State != fusebox.HalfOpen || r.RejectedProbing != 2 || r.Reached != 8 {
			t.Errorf("got %v", r)
		}
	})
}

func TestASecondDriveGoesOnWithTheSameOutages(t *testing.T) {
	on(t, func(t *testing.T, clock *fuseboxtest.Clock, c fusebox.Config) {
		b := fusebox.New("b", c)
		d := &fuseboxtest.Dependency{Clock: clock, Outages: []fuseboxtest.Outage{{From: 15 * time.Second}}}
		first := drive(t, b, d, fuseboxtest.Load{})
		second := drive(t, b, d, fuseboxtest.Load{})
		if _, ok := first.Until(fusebox.Open, 0); ok {
			t.Errorf("opened in the first: %v", first)
		}
		if err := second.Within(fusebox.Open, 15*time.Second, 200*time.Millisecond); err != nil {
			t.Error(err)
		}
		if len(second.Transitions) == 0 || second.At(second.Transitions[0]) != 15*time.Second+200*time.Millisecond {
			t.Errorf("got %v", second)
		}
	})
}

func TestDriveEndsWithItsContext(t *testing.T) {
	on(t, func(t *testing.T, clock *fuseboxtest.Clock, c fusebox.Config) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := fusebox.New("b", c)
		b.Observe(fusebox.Observer{Transition: func(fusebox.Transition) { cancel() }})
		d := &fuseboxtest.Dependency{Clock: clock, FailureRate: 1}
		r, err := fuseboxtest.Drive(ctx, b, d, fuseboxtest.Load{})
		if !errors.Is(err, context.Canceled) || r.Failed != 5 || len(r.Transitions) != 1 {
			t.Errorf("got %v, %v", r, err)
		}
	})
}

func TestDriveSaysWhatIsWrongWithItsArguments(t *testing.T) {
	var clock, other fuseboxtest.Clock
	other.Advance(time.Hour)
	onClock := fusebox.New("b", fusebox.Config{Now: clock.Now})
	inPackageTime := fusebox.New("b", fusebox.Config{})
	for _, c := range []struct {
		want string
		b    *fusebox.Breaker
		d    *fuseboxtest.Dependency
		l    fuseboxtest.Load
	}{
		{"must not be nil", nil, &fuseboxtest.Dependency{}, fuseboxtest.Load{}},
		{"must not be nil", onClock, nil, fuseboxtest.Load{}},
		{"Load.Every is -1ns, must not be negative", inPackageTime, &fuseboxtest.Dependency{}, fuseboxtest.Load{Every: -1}},
		{"Load.For is -1ns, must not be negative", inPackageTime, &fuseboxtest.Dependency{}, fuseboxtest.Load{For: -1}},
		{"Dependency.FailureRate is 2", inPackageTime, &fuseboxtest.Dependency{FailureRate: 2}, fuseboxtest.Load{}},
		{"Dependency.Clock is nil", onClock, &fuseboxtest.Dependency{}, fuseboxtest.Load{}},
		{"live in one time", inPackageTime, &fuseboxtest.Dependency{Clock: &clock}, fuseboxtest.Load{}},
		{"live in one time", onClock, &fuseboxtest.Dependency{Clock: &other}, fuseboxtest.Load{}},
	} {
		if _, err := fuseboxtest.Drive(t.Context(), c.b, c.d, c.l); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want it to say %q", err, c.want)
		}
	}
}

func TestUntil(t *testing.T) {
	start := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	r := fuseboxtest.Report{Start: start, Ran: 2 * time.Minute, Transitions: []fusebox.Transition{
		{From: fusebox.Closed, To: fusebox.Open, At: start.Add(2 * time.Second)},
		{From: fusebox.Open, To: fusebox.HalfOpen, At: start.Add(3 * time.Second)},
		{From: fusebox.HalfOpen, To: fusebox.Closed, At: start.Add(4 * time.Second)},
	}}
	for _, c := range []struct {
		state     fusebox.State
		since     time.Duration
		want      time.Duration
		never     bool
		condition string
	}{
		{fusebox.Closed, 0, 0, false, "it begins closed"},
		{fusebox.Open, 0, 2 * time.Second, false, "it opens later"},
		{fusebox.Open, 2 * time.Second, 0, false, "it opens then"},
		{fusebox.Open, 2500 * time.Millisecond, 0, false, "it is open then"},
		{fusebox.Open, 3 * time.Second, 0, true, "it was open before"},
		{fusebox.Closed, 2500 * time.Millisecond, 1500 * time.Millisecond, false, "it closes later"},
		{fusebox.Closed, time.Minute, 0, false, "it has closed before and stays so"},
		{fusebox.HalfOpen, time.Minute, 0, true, "it was half-open before"},
	} {
		got, ok := r.Until(c.state, c.since)
		if got != c.want || ok == c.never {
			t.Errorf("%s: Until(%v, %v) = %v, %v; want %v, %v", c.condition, c.state, c.since, got, ok, c.want, !c.never)
		}
	}
	if err := r.Within(fusebox.Closed, 2*time.Second, 2*time.Second); err != nil {
		t.Errorf("the limit is not included: %v", err)
	}
	if err := r.Within(fusebox.Open, time.Minute, time.Second); err == nil || !strings.Contains(err.Error(), "never open after 1m0s") {
		t.Errorf("error is %v", err)
	}
}

func TestAReportKnowsNothingOfWhatCameAfterTheRun(t *testing.T) {
	var clock fuseboxtest.Clock
	b := fusebox.New("b", fusebox.Config{OpenJitter: -1, Now: clock.Now})
	outage := fuseboxtest.Outage{From: 20 * time.Second, To: 30 * time.Second}
	d := &fuseboxtest.Dependency{Clock: &clock, Outages: []fuseboxtest.Outage{outage}}
	report, err := fuseboxtest.Drive(t.Context(), b, d, fuseboxtest.Load{For: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if report.Ran != 10*time.Second {
		t.Errorf("ran %v, want 10s", report.Ran)
	}
	if _, ok := report.Until(fusebox.Closed, outage.To); ok {
		t.Error("closed after the run")
	}
	if err := report.Within(fusebox.Closed, outage.To, 5*time.Second); err == nil {
		t.Error("an outage after the run passes")
	}
}

func TestAReportKnowsNothingOfWhatCameBeforeTheRun(t *testing.T) {
	var clock fuseboxtest.Clock
	b := fusebox.New("b", fusebox.Config{OpenJitter: -1, Now: clock.Now})
	d := &fuseboxtest.Dependency{Clock: &clock}
	ten := fuseboxtest.Load{For: 10 * time.Second}
	drive(t, b, d, ten)
	clock.Advance(time.Minute)
	second := drive(t, b, d, ten)
	if second.Began != 70*time.Second || second.Ran != 10*time.Second {
		t.Errorf("began %v, ran %v, want 1m10s and 10s", second.Began, second.Ran)
	}
	if _, ok := second.Until(fusebox.Closed, 30*time.Second); ok {
		t.Error("closed before the run")
	}
	if err := second.Within(fusebox.Closed, 30*time.Second, time.Second); err == nil || !strings.Contains(err.Error(), "the run was from 1m10s to 1m20s") {
		t.Errorf("an instant before the run: %v", err)
	}
	if d, ok := second.Until(fusebox.Closed, 75*time.Second); !ok || d != 0 {
		t.Errorf("in the run: %v, %v", d, ok)
	}
}

func TestDriveRefusesCallsThatNeverEnd(t *testing.T) {
	var clock fuseboxtest.Clock
	b := fusebox.New("b", fusebox.Config{Now: clock.Now})
	hang := fuseboxtest.Outage{Latency: math.MaxInt64}
	for name, d := range map[string]*fuseboxtest.Dependency{
		"always":         {Clock: &clock, Latency: math.MaxInt64},
		"in an outage":   {Clock: &clock, Outages: []fuseboxtest.Outage{hang}},
		"a long timeout": {Clock: &clock, Outages: []fuseboxtest.Outage{hang}, Timeout: math.MaxInt64},
	} {
		_, err := fuseboxtest.Drive(t.Context(), b, d, fuseboxtest.Load{})
		if err == nil || !strings.Contains(err.Error(), "Dependency.Timeout is ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := &fuseboxtest.Dependency{Clock: &clock, Outages: []fuseboxtest.Outage{hang}, Timeout: time.Second}
	if r := drive(t, b, d, fuseboxtest.Load{For: time.Second}); r.Failed != r.Reached || r.Reached == 0 {
		t.Errorf("with a timeout: %v", r)
	}
}

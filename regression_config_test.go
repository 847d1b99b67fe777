package fusebox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Settings: their defaults, their checks, and their change.

func TestC43MinCallsAboveWindowCallsIsAnError(t *testing.T) {
	c := fusebox.Config{FailureRate: 0.5, MinCalls: 10, WindowCalls: 5}
	err, _ := caseRecover(func() { fusebox.New("x", c) }).(error)
	if err == nil || !strings.Contains(err.Error(), "MinCalls") || !strings.Contains(err.Error(), "WindowCalls") {
		t.Errorf("New panics with %v", err)
	}
	l := newCase(t, "ratio=0.5 min=4 count=4")
	before := l.Config()
	if err := l.Reconfigure(c); err == nil || !strings.Contains(err.Error(), "MinCalls") {
		t.Errorf("Reconfigure = %v", err)
	}
	if after := l.Config(); after.MinCalls != before.MinCalls || after.WindowCalls != before.WindowCalls {
		t.Errorf("a refused Reconfigure changed the settings to %+v", after)
	}
	small := newCase(t, "ratio=0.5 count=5") // MinCalls not given: it fits by itself
	small.calls(4, errCase)
	small.want(fusebox.Closed)
	small.calls(1, errCase)
	small.want(fusebox.Open)
}

// caseFields are the fields of Config that Reconfigure can change, with the
// value that TestC80 changes each to.
var caseFields = map[string]any{
	"Window":       3 * time.Second,
	"Buckets":      3,
	"WindowCalls":  12,
	"MinCalls":     4,
	"FailureRate":  0.3,
	"SlowAfter":    50 * time.Millisecond,
	"SlowRate":     0.2,
	"Consecutive":  2,
	"TripWhen":     func(c fusebox.Counts) bool { return c.Calls > 2 },
	"OpenFor":      3 * time.Second,
	"OpenForMax":   3 * time.Second,
	"OpenJitter":   0.9,
	"Probes":       1,
	"CloseAfter":   1,
	"ReopenAfter":  4,
	"ProbeTimeout": time.Second,
	"StableAfter":  time.Hour,
	"Mode":         fusebox.Shadow,
	"Classify":     func(context.Context, error) fusebox.Outcome { return fusebox.Success },
}

// TestC80EveryFieldTakesPart changes the fields of Config one by one: Config
// shows the value, and the breaker acts on it just like one made with it.
func TestC80EveryFieldTakesPart(t *testing.T) {
	base := fusebox.Config{
		Window: 10 * time.Second, Buckets: 10, MinCalls: 8, FailureRate: 0.6,
		SlowAfter: 200 * time.Millisecond, SlowRate: 0.6, Consecutive: 5,
		OpenFor: time.Second, OpenForMax: 8 * time.Second, OpenJitter: 0.2,
		Probes: 3, CloseAfter: 3, ReopenAfter: 2, ProbeTimeout: 5 * time.Second, StableAfter: 2 * time.Second,
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[fusebox.Config]()) {
		if !field.IsExported() || slices.Contains([]string{"Now", "Rand", "Observers"}, field.Name) {
			continue
		}
		t.Run(field.Name, func(t *testing.T) {
			value, ok := caseFields[field.Name]
			if !ok {
				t.Fatal("a new field: give it a value in caseFields")
			}
			changed := base
			to := reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index)
			to.Set(reflect.ValueOf(value))

			unchanged := caseTrace(t, base, nil)
			asMade := caseTrace(t, changed, nil)
			reconfigured := caseTrace(t, base, func(b *fusebox.Breaker) {
				if err := b.Reconfigure(changed); err != nil {
					t.Fatal(err)
				}
				got := reflect.ValueOf(b.Config()).FieldByIndex(field.Index)
				if field.Type.Kind() == reflect.Func {
					if got.Pointer() != to.Pointer() {
						t.Error("Config shows another function")
					}
				} else if !got.Equal(to) {
					t.Errorf("Config shows %v, want %v", got, to)
				}
			})
			if asMade == unchanged {
				t.Error("the field has no effect in this test")
			}
			if reconfigured != asMade {
				t.Error("a reconfigured breaker acts otherwise than one made with these settings")
			}
		})
	}
}

// caseTrace drives breakers through fixed sequences of calls, some of which
// have many slow ones, and returns all that was seen. then is called first.
func caseTrace(t *testing.T, c fusebox.Config, then func(*fusebox.Breaker)) string {
	t.Helper()
	var trace strings.Builder
	for _, slowness := range []time.Duration{1, 4} {
		clock := newCaseClock()
		c.Now, c.Rand = clock.Now, func() float64 { return 0.25 }
		b := fusebox.New("x", c)
		if then != nil {
			then(b)
		}
		caseDrive(&trace, b, clock, slowness)
	}
	return trace.String()
}

func caseDrive(trace io.Writer, b *fusebox.Breaker, clock *caseClock, slowness time.Duration) {
	ctx := context.Background()
	random := rand.New(rand.NewPCG(80, 80))
	for step := range 2000 {
		clock.Advance(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
		ill := step/250%2 == 1
		odds, d := random.IntN(10), time.Duration(random.Int64N(int64(250*time.Millisecond)))
		p, err := b.Allow(ctx)
		switch {
		case err != nil:
		case odds == 0: // lost
		case odds < 3:
			p.RecordAfter(fusebox.Success, slowness*d)
		case ill && odds < 9:
			p.Finish(ctx, errCase)
		default:
			p.RecordAfter(fusebox.Success, d/4)
		}
		s := b.Snapshot()
		fmt.Fprintln(trace, err != nil, s.State, s.Counts, s.Outstanding, s.OpenPeriod, s.Totals.WouldReject)
	}
}

func TestC81ReconfigureKeepsStateStatisticsAndDeadline(t *testing.T) {
	period := func(d time.Duration) func(*fusebox.Config) {
		return func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = d, d }
	}
	t.Run("a shorter open period", func(t *testing.T) {
		l := newCase(t, "consec=2 openfor=60s")
		l.calls(2, errCase)
		l.clock.Advance(10 * time.Second)
		l.change(period(30 * time.Second))
		if wait := l.refused().RetryAfter(); wait != 20*time.Second {
			t.Errorf("RetryAfter is %v, want 20s", wait)
		}
		l.clock.Advance(20*time.Second - 1)
		l.refused()
		l.clock.Advance(1)
		l.calls(1, nil)
		l.wantEvents("CO,OH,HC")
	})
	t.Run("a period that would be over", func(t *testing.T) {
		l := newCase(t, "consec=2 openfor=60s")
		l.calls(2, errCase)
		l.clock.Advance(10 * time.Second)
		l.change(period(5 * time.Second))
		l.calls(1, nil)
		l.want(fusebox.Closed)
	})
	t.Run("a longer open period", func(t *testing.T) {
		l := newCase(t, "consec=2 openfor=60s")
		l.calls(2, errCase)
		l.clock.Advance(10 * time.Second)
		l.change(period(time.Hour))
		if wait := l.refused().RetryAfter(); wait != 50*time.Second {
			t.Errorf("RetryAfter is %v, want 50s", wait)
		}
	})
	for _, next := range []error{errCase, nil} {
		l := newCase(t, "consec=5 openfor=60s")
		l.calls(3, errCase)
		l.change(func(c *fusebox.Config) { c.Consecutive = 2 })
		l.want(fusebox.Closed)
		l.wantCounts(fusebox.Counts{Calls: 3, Failures: 3, Consecutive: 3})
		l.calls(1, next)
		if next != nil {
			l.want(fusebox.Open)
		} else {
			l.wantCounts(fusebox.Counts{Calls: 4, Failures: 3})
		}
	}
	t.Run("half-open", func(t *testing.T) {
		l := newCase(t, "consec=1 openfor=60s probes=1 close=1")
		l.halfOpen()
		first := l.allow()
		l.refused()
		l.change(func(c *fusebox.Config) { c.Probes, c.CloseAfter = 3, 3 })
		second, third := l.allow(), l.allow()
		l.refused()
		for _, p := range []*fusebox.Permit{first, second, third} {
			l.want(fusebox.HalfOpen)
			if !p.Record(fusebox.Success) {
				t.Error("a probe was late")
			}
		}
		l.want(fusebox.Closed)
	})
	t.Run("the same settings again", func(t *testing.T) {
		l := newCase(t, "consec=3 ratio=0.5 min=10")
		l.calls(4, nil)
		l.calls(2, errCase)
		p := l.allow()
		for range 10 {
			l.change(func(*fusebox.Config) {})
		}
		l.wantCounts(fusebox.Counts{Calls: 6, Failures: 2, Consecutive: 2})
		if !p.Record(fusebox.Failure) {
			t.Error("a permit was late")
		}
		l.want(fusebox.Open)
	})
}

func TestC148TheZeroConfigProtects(t *testing.T) {
	c := fusebox.New("x", fusebox.Config{}).Config()
	if c.Consecutive <= 0 || c.FailureRate <= 0 || c.MinCalls <= 0 || c.OpenFor <= 0 || c.Probes <= 0 || c.ProbeTimeout <= 0 {
		t.Errorf("in effect is %+v", c)
	}
	for name, mixed := range map[string]int{"all fail": 1, "every other fails": 2} {
		b := fusebox.New("x", fusebox.Config{})
		for i := 0; i < 100 && b.State() == fusebox.Closed; i++ {
			_ = b.Do(context.Background(), func(context.Context) error {
				if i%mixed == 0 {
					return errCase
				}
				return nil
			})
		}
		if b.State() != fusebox.Open {
			t.Errorf("%s: after 100 calls it is %v", name, b.State())
		}
	}
}

func TestC149BadValuesAreRefusedAllAtOnce(t *testing.T) {
	for _, bad := range []struct {
		field  string
		config fusebox.Config
	}{
		{"OpenFor", fusebox.Config{OpenFor: -1}},
		{"OpenForMax", fusebox.Config{OpenForMax: -1}},
		{"OpenForMax", fusebox.Config{OpenFor: 2, OpenForMax: 1}},
		{"Probes", fusebox.Config{Probes: -1}},
		{"CloseAfter", fusebox.Config{CloseAfter: -1}},
		{"ReopenAfter", fusebox.Config{ReopenAfter: -1}},
		{"ProbeTimeout", fusebox.Config{ProbeTimeout: -1}},
		{"FailureRate", fusebox.Config{FailureRate: 1.0000001}},
		{"FailureRate", fusebox.Config{FailureRate: math.NaN()}},
		{"FailureRate", fusebox.Config{FailureRate: math.Inf(1)}},
		{"FailureRate", fusebox.Config{FailureRate: math.Inf(-1)}},
		{"SlowRate", fusebox.Config{SlowRate: -0.1}},
		{"SlowRate", fusebox.Config{SlowRate: 1.1}},
		{"SlowRate", fusebox.Config{SlowRate: math.NaN()}},
		{"OpenJitter", fusebox.Config{OpenJitter: 1.1}},
		{"OpenJitter", fusebox.Config{OpenJitter: math.NaN()}},
		{"OpenJitter", fusebox.Config{OpenJitter: math.Inf(-1)}},
		{"MinCalls", fusebox.Config{MinCalls: -1}},
		{"Buckets", fusebox.Config{Buckets: -1}},
		{"Window", fusebox.Config{Window: -1}},
		{"Window", fusebox.Config{Window: 9, Buckets: 10}},
		{"Window", fusebox.Config{Window: 9}},
		{"WindowCalls", fusebox.Config{WindowCalls: -1}},
		{"MinCalls", fusebox.Config{WindowCalls: 5, MinCalls: 6}},
		{"Mode", fusebox.Config{Mode: fusebox.ForceOpen}},
		{"Mode", fusebox.Config{Mode: 99}},
	} {
		err := bad.config.Validate()
		var of *fusebox.ConfigError
		if !errors.As(err, &of) || of.Field != bad.field || of.Rule == "" || !strings.Contains(err.Error(), bad.field) {
			t.Errorf("%+v: error is %v, want one about %s", bad.config, err, bad.field)
		}
		if v := caseRecover(func() { fusebox.New("x", bad.config) }); v == nil {
			t.Errorf("New takes %+v", bad.config)
		}
		if err := fusebox.New("x", fusebox.Config{}).Reconfigure(bad.config); err == nil {
			t.Errorf("Reconfigure takes %+v", bad.config)
		}
	}

	all := fusebox.Config{
		Window: -1, Buckets: -1, WindowCalls: -1, MinCalls: -1, FailureRate: 2, SlowRate: 2, OpenFor: -1, OpenForMax: -1,
		OpenJitter: 2, Probes: -1, CloseAfter: -1, ReopenAfter: -1, ProbeTimeout: -1, Mode: 99,
	}
	text := fmt.Sprint(all.Validate())
	for _, field := range []string{
		"Window", "Buckets", "WindowCalls", "MinCalls", "FailureRate", "SlowRate", "OpenFor", "OpenForMax",
		"OpenJitter", "Probes", "CloseAfter", "ReopenAfter", "ProbeTimeout", "Mode",
	} {
		if !strings.Contains(text, "Config."+field+" is ") {
			t.Errorf("%s is not in the error:\n%s", field, text)
		}
	}

	for _, good := range []fusebox.Config{
		{},
		{FailureRate: 1},
		{FailureRate: 1e-4},
		{OpenFor: 1},
		{OpenJitter: 1},
		{Window: 10},
		{Window: 1, Buckets: 1},
		{WindowCalls: 1},
		{WindowCalls: 5, MinCalls: 5},
		{OpenFor: time.Hour},
		{OpenFor: math.MaxInt64},
		{ProbeTimeout: math.MaxInt64},
		{FailureRate: -1, SlowAfter: -1, Consecutive: -1, OpenJitter: -1, StableAfter: -1},
		{Mode: fusebox.Off},
		{Probes: math.MaxInt, CloseAfter: math.MaxInt, ReopenAfter: math.MaxInt},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
			continue
		}
		c := fusebox.New("x", good).Config()
		if err := c.Validate(); err != nil {
			t.Errorf("the settings in effect are invalid: %v", err)
		}
		if again := fusebox.New("x", c).Config(); !reflect.DeepEqual(c, again) {
			t.Errorf("the settings in effect do not mean the same again:\n%+v\n%+v", c, again)
		}
	}

	l := newCase(t, "consec=1 openfor=1ns") // what stands for no wait
	l.calls(1, errCase)
	l.clock.Advance(1)
	l.calls(1, nil)
	l.want(fusebox.Closed)
}

func TestC151TheDefaultsAreThoseDocumented(t *testing.T) {
	want := fusebox.Config{
		Window: 10 * time.Second, Buckets: 10, MinCalls: 20, FailureRate: 0.5, SlowAfter: -1, SlowRate: 0.6, Consecutive: 20,
		OpenFor: time.Second, OpenForMax: 4 * time.Second, OpenJitter: 0.2, Probes: 3, CloseAfter: 3, ReopenAfter: 1,
		ProbeTimeout: 30 * time.Second, StableAfter: 10 * time.Second,
	}
	if got := fusebox.New("x", fusebox.Config{}).Config(); !reflect.DeepEqual(got, want) {
		t.Errorf("the defaults are\n%+v, want\n%+v", got, want)
	}
	// Consecutive is on by default, and Config says so; a rule that is off reads -1.
	got := fusebox.New("x", fusebox.Config{FailureRate: 0.9, Probes: 7, Window: time.Minute, WindowCalls: 8}).Config()
	if got.Consecutive != 20 || got.FailureRate != 0.9 || got.CloseAfter != 7 || got.StableAfter != time.Minute || got.MinCalls != 8 {
		t.Errorf("in effect is %+v", got)
	}
	got = fusebox.New("x", fusebox.Config{FailureRate: -0.5, Consecutive: -7, SlowAfter: -3, OpenJitter: -2, StableAfter: -9}).Config()
	if got.Consecutive != -1 || got.FailureRate != -1 || got.SlowAfter != -1 || got.OpenJitter != -1 || got.StableAfter != -1 {
		t.Errorf("switched off it reads %+v", got)
	}
}

package fusebox_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

func TestTheDefaults(t *testing.T) {
	want := fusebox.Config{
		Window: 10 * time.Second, Buckets: 10, WindowCalls: 0,
		MinCalls: 20, FailureRate: 0.5,
		SlowAfter: -1, SlowRate: 0.6,
		Consecutive: 20,
		OpenFor:     time.Second, OpenForMax: 4 * time.Second, OpenJitter: 0.2,
		Probes: 3, CloseAfter: 3, ReopenAfter: 1, ProbeTimeout: 30 * time.Second,
		StableAfter: 10 * time.Second,
		Mode:        fusebox.Enforce,
	}
	if got := fusebox.New("x", fusebox.Config{}).Config(); !reflect.DeepEqual(got, want) {
		t.Errorf("the zero Config means\n%+v, want\n%+v", got, want)
	}
	if got := fusebox.New("x", fusebox.Config{}).Name(); got != "x" {
		t.Errorf("name %q", got)
	}
}

func TestDefaultsThatFollowAnotherField(t *testing.T) {
	for name, c := range map[string]struct {
		in        fusebox.Config
		got, want func(fusebox.Config) any
	}{
		"MinCalls of a small count window": {
			fusebox.Config{WindowCalls: 7},
			func(c fusebox.Config) any { return c.MinCalls }, func(fusebox.Config) any { return 7 },
		},
		"MinCalls of a large count window": {
			fusebox.Config{WindowCalls: 700},
			func(c fusebox.Config) any { return c.MinCalls }, func(fusebox.Config) any { return 20 },
		},
		"OpenForMax above its default": {
			fusebox.Config{OpenFor: time.Minute},
			func(c fusebox.Config) any { return c.OpenForMax }, func(fusebox.Config) any { return time.Minute },
		},
		"CloseAfter is Probes": {
			fusebox.Config{Probes: 8},
			func(c fusebox.Config) any { return c.CloseAfter }, func(c fusebox.Config) any { return c.Probes },
		},
		"StableAfter is Window": {
			fusebox.Config{Window: time.Hour},
			func(c fusebox.Config) any { return c.StableAfter }, func(fusebox.Config) any { return time.Hour },
		},
	} {
		t.Run(name, func(t *testing.T) {
			full := fusebox.New("x", c.in).Config()
			if got, want := c.got(full), c.want(full); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

func TestAnyNegativeValueSwitchesARuleOff(t *testing.T) {
	got := fusebox.New("x", fusebox.Config{
		FailureRate: -0.1, SlowAfter: -5, Consecutive: -7, OpenJitter: -3, StableAfter: -time.Hour,
	}).Config()
	if got.FailureRate != -1 || got.SlowAfter != -1 || got.Consecutive != -1 || got.OpenJitter != -1 || got.StableAfter != -1 {
		t.Errorf("read back as %+v", got)
	}
}

func TestAnInvalidFieldIsNamedWithItsValueAndItsRule(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		in   fusebox.Config
		want string
	}{
		{fusebox.Config{Window: -time.Second}, "Window is -1s, must not be negative; 0 stands for 10s"},
		{fusebox.Config{Window: 5}, "Window is 5ns, must be at least a nanosecond for each of Buckets (10)"},
		{fusebox.Config{Buckets: -1}, "Buckets is -1, must not be negative; 0 stands for 10"},
		{fusebox.Config{Buckets: 1<<20 + 1, Window: time.Hour}, "Buckets is 1048577, must be at most 1048576"},
		{fusebox.Config{Buckets: math.MaxInt32}, "Buckets is 2147483647, must be at most 1048576"},
		{fusebox.Config{WindowCalls: -2}, "WindowCalls is -2, must not be negative"},
		{fusebox.Config{WindowCalls: 1<<24 + 1}, "WindowCalls is 16777217, must be at most 16777216"},
		{fusebox.Config{MinCalls: -3}, "MinCalls is -3, must not be negative; 0 stands for 20"},
		{fusebox.Config{MinCalls: 30, WindowCalls: 20}, "MinCalls is 30, must be at most WindowCalls (20), or no rate rule ever trips"},
		{fusebox.Config{FailureRate: 1.01}, "FailureRate is 1.01, must be a fraction up to 1; negative is off"},
		{fusebox.Config{FailureRate: nan}, "FailureRate is NaN, must be a fraction"},
		{fusebox.Config{FailureRate: inf}, "FailureRate is +Inf, must be a fraction"},
		{fusebox.Config{FailureRate: -inf}, "FailureRate is -Inf, must be a fraction"},
		{fusebox.Config{SlowRate: -0.1}, "SlowRate is -0.1, must be a fraction from 0 to 1; to switch the rule off leave SlowAfter 0"},
		{fusebox.Config{SlowRate: 2}, "SlowRate is 2, must be a fraction"},
		{fusebox.Config{SlowRate: nan}, "SlowRate is NaN, must be a fraction"},
		{fusebox.Config{SlowRate: -inf}, "SlowRate is -Inf, must be a fraction"},
		{fusebox.Config{OpenFor: -1}, "OpenFor is -1ns, must not be negative; 0 stands for 1s"},
		{fusebox.Config{OpenForMax: -1}, "OpenForMax is -1ns, must not be negative; 0 stands for 4s"},
		{fusebox.Config{OpenFor: 10 * time.Second, OpenForMax: 9 * time.Second}, "OpenForMax is 9s, must be at least OpenFor (10s)"},
		{fusebox.Config{OpenForMax: time.Millisecond}, "OpenForMax is 1ms, must be at least OpenFor (1s)"},
		{fusebox.Config{OpenJitter: 1.5}, "OpenJitter is 1.5, must be a fraction up to 1; negative is off"},
		{fusebox.Config{OpenJitter: nan}, "OpenJitter is NaN, must be a fraction"},
		{fusebox.Config{OpenJitter: -inf}, "OpenJitter is -Inf, must be a fraction"},
		{fusebox.Config{Probes: -1}, "Probes is -1, must not be negative; 0 stands for 3"},
		{fusebox.Config{CloseAfter: -1}, "CloseAfter is -1, must not be negative; 0 stands for Probes"},
		{fusebox.Config{ReopenAfter: -1}, "ReopenAfter is -1, must not be negative; 0 stands for 1"},
		{fusebox.Config{ProbeTimeout: -1}, "ProbeTimeout is -1ns, must not be negative; 0 stands for 30s"},
		{fusebox.Config{Mode: fusebox.ForceOpen}, "Mode is force-open, must be enforce, shadow or off; the others are set with Override"},
		{fusebox.Config{Mode: fusebox.ForceClosed}, "Mode is force-closed, must be"},
		{fusebox.Config{Mode: 77}, "Mode is mode(77), must be"},
	} {
		t.Run(c.want, func(t *testing.T) {
			err := c.in.Validate()
			if err == nil {
				t.Fatal("valid")
			}
			if want := "fusebox: Config." + c.want; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q, want %q", err, want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one error: %q", err)
			}
			var field *fusebox.ConfigError
			if !errors.As(err, &field) {
				t.Fatal("no *ConfigError")
			}
			if name, _, _ := strings.Cut(c.want, " "); field.Field != name || field.Value == nil || !strings.HasPrefix(field.Rule, "must ") {
				t.Errorf("%+v", field)
			}
		})
	}
}

func TestAllInvalidFieldsAreNamedAtOnce(t *testing.T) {
	err := fusebox.Config{
		Window: -1, Buckets: -1, WindowCalls: -1, MinCalls: -1, FailureRate: 2, SlowRate: 2, OpenFor: -1,
		OpenForMax: -1, OpenJitter: 2, Probes: -1, CloseAfter: -1, ReopenAfter: -1, ProbeTimeout: -1, Mode: 9,
	}.Validate()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%T is not joined", err)
	}
	seen := map[string]bool{}
	for _, e := range joined.Unwrap() {
		var field *fusebox.ConfigError
		if !errors.As(e, &field) {
			t.Fatalf("%v is no *ConfigError", e)
		}
		seen[field.Field] = true
	}
	if len(seen) != 14 {
		t.Errorf("%d fields named, want 14: %v", len(seen), seen)
	}
}

func TestNewPanicsWithTheErrorOfValidate(t *testing.T) {
	c := fusebox.Config{Probes: -1, FailureRate: 7}
	defer func() {
		err, ok := recover().(error)
		if !ok || err.Error() != c.Validate().Error() {
			t.Errorf("panicked with %v, want %v", err, c.Validate())
		}
	}()
	fusebox.New("x", c)
}

func TestConfigRoundTrips(t *testing.T) {
	for i, c := range []fusebox.Config{
		{},
		{FailureRate: -1, SlowAfter: -1, Consecutive: -1, OpenJitter: -1, StableAfter: -1},
		{WindowCalls: 5, Mode: fusebox.Shadow},
		{Window: time.Hour, Buckets: 1, OpenFor: math.MaxInt64, ProbeTimeout: math.MaxInt64, SlowAfter: math.MaxInt64},
		{Probes: 9, CloseAfter: 2, ReopenAfter: 4, Mode: fusebox.Off},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			b := fusebox.New("x", c)
			want := b.Config()
			if err := b.Reconfigure(want); err != nil {
				t.Fatal(err)
			}
			if got := b.Config(); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
			if got := fusebox.New("y", want).Config(); !reflect.DeepEqual(got, want) {
				t.Errorf("a new one: %+v, want %+v", got, want)
			}
		})
	}
}

func TestExtremeValuesThatAreValidWork(t *testing.T) {
	for name, c := range map[string]fusebox.Config{
		"huge": {
			Window: math.MaxInt64, Buckets: 3, MinCalls: math.MaxInt, FailureRate: 1, SlowAfter: math.MaxInt64, SlowRate: 1,
			Consecutive: math.MaxInt, OpenFor: math.MaxInt64, OpenForMax: math.MaxInt64, OpenJitter: 1, Probes: math.MaxInt,
			CloseAfter: math.MaxInt, ReopenAfter: math.MaxInt, ProbeTimeout: math.MaxInt64, StableAfter: math.MaxInt64,
		},
		"tiny": {
			Window: 1, Buckets: 1, MinCalls: 1, FailureRate: math.SmallestNonzeroFloat64, SlowAfter: 1,
			SlowRate: math.SmallestNonzeroFloat64, Consecutive: 1, OpenFor: 1, OpenForMax: 1,
			OpenJitter: math.SmallestNonzeroFloat64, Probes: 1, CloseAfter: 1, ReopenAfter: 1, ProbeTimeout: 1, StableAfter: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			b := fusebox.New("x", c)
			for range 100 {
				_ = b.Do(context.Background(), func(context.Context) error { return errCell })
				_ = b.Do(context.Background(), func(context.Context) error { return nil })
			}
			b.Override(fusebox.ForceOpen, fusebox.Note{})
			b.Lift(fusebox.Note{})
			for range 10 {
				_ = b.Do(context.Background(), func(context.Context) error { return errCell })
			}
			if s := b.Snapshot(); s.Totals.Open < 0 || s.OpenPeriod < 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

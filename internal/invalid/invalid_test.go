package invalid_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/fallback"
	"github.com/fusebox-go/fusebox/hedge"
	"github.com/fusebox-go/fusebox/limit"
	"github.com/fusebox-go/fusebox/retry"
)

// Every policy tells field, value and rule apart from the text, each of several.
func TestThePoliciesSayWhichFieldIsInvalid(t *testing.T) {
	type told struct {
		field string
		value any
		rule  string
	}
	for name, c := range map[string]struct {
		config interface{ Validate() error }
		want   []told
	}{
		"retry": {retry.Config{Attempts: -1, Jitter: 2}, []told{
			{"Attempts", -1, "must be at least 1; 0 stands for 3, and Unlimited is a constant"},
			{"Jitter", 2.0, "must be a fraction up to 1; negative is none"},
		}},
		"budget":   {retry.BudgetConfig{Share: 2}, []told{{"Share", 2.0, "must be a fraction up to 1; negative is none"}}},
		"bulkhead": {bulkhead.Config{MaxWait: -time.Second}, []told{{"MaxWait", -time.Second, "must not be negative (0: refuse at once)"}}},
		"fallback": {fallback.Config[int]{MaxAge: -1}, []told{{"MaxAge", time.Duration(-1), "must not be negative (0: keep no result; forever: math.MaxInt64)"}}},
		"hedge":    {hedge.Config{Attempts: -1}, []told{{"Attempts", -1, "must be from 1 to 100 (0: the default of 2)"}}},
		"limit":    {limit.Config{Min: -1}, []told{{"Min", -1, "must be from 1 to 1048576 (0: the default of 1)"}}},
		"throttle": {limit.ThrottleConfig{K: 0.5}, []told{{"K", 0.5, "must be a finite number of at least 1 (0: the default of 2)"}}},
	} {
		t.Run(name, func(t *testing.T) {
			joined := fmt.Errorf("settings: %w", c.config.Validate())
			var several interface{ Unwrap() []error }
			if !errors.As(joined, &several) || len(several.Unwrap()) != len(c.want) {
				t.Fatalf("%v, want %d errors", joined, len(c.want))
			}
			for i, err := range several.Unwrap() {
				var field interface {
					Invalid() (string, any, string)
				}
				if !errors.As(err, &field) {
					t.Fatalf("%v does not say of which field it is", err)
				}
				var got told
				if got.field, got.value, got.rule = field.Invalid(); got != c.want[i] {
					t.Errorf("%+v, want %+v", got, c.want[i])
				}
			}
		})
	}
}

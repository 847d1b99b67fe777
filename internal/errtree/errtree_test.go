package errtree_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fusebox-go/fusebox/internal/errtree"
)

type refusal bool

func (refusal) Error() string    { return "refusal" }
func (r refusal) Rejected() bool { return bool(r) }

func TestRefused(t *testing.T) {
	plain := errors.New("plain")
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nil":                           {nil, false},
		"another error":                 {plain, false},
		"a refusal":                     {refusal(true), true},
		"wrapped":                       {fmt.Errorf("a: %w", fmt.Errorf("b: %w", refusal(true))), true},
		"joined behind another":         {errors.Join(plain, fmt.Errorf("a: %w", refusal(true))), true},
		"the outermost decides":         {fmt.Errorf("%w, %w", refusal(false), refusal(true)), false},
		"the first of several decides":  {errors.Join(errors.Join(plain, refusal(true)), refusal(false)), true},
		"nowhere in a tree":             {errors.Join(plain, fmt.Errorf("a: %w", plain)), false},
		"a wrapper of nothing":          {wrapsNothing{}, false},
		"a wrapper that joins nothing":  {joinsNothing{}, false},
		"a joined nothing, then refuse": {errors.Join(wrapsNothing{}, refusal(true)), true},
	} {
		if got := errtree.Refused(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

type wrapsNothing struct{}

func (wrapsNothing) Error() string { return "" }
func (wrapsNothing) Unwrap() error { return nil }

type joinsNothing struct{}

func (joinsNothing) Error() string   { return "" }
func (joinsNothing) Unwrap() []error { return nil }

func TestFindAllocatesNothing(t *testing.T) {
	err := errors.Join(errors.New("plain"), fmt.Errorf("a: %w", refusal(true)))
	if n := testing.AllocsPerRun(100, func() { errtree.Refused(err) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

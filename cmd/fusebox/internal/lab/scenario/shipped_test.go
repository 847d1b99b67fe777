package scenario

import (
	"testing"
)

func load(tb testing.TB, name string) *Scenario {
	tb.Helper()
	source, ok := Source(name)
	if !ok {
		tb.Fatalf("no scenario %s ships", name)
	}
	s, err := Parse(name+".yaml", source)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func play(tb testing.TB, s *Scenario, o Options) *Result {
	tb.Helper()
	r, err := Run(tb.Context(), s, o)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestEveryShippedScenarioMeetsItsExpectations(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s := load(t, name)
			if len(s.Expect) == 0 || s.About == "" {
				t.Error("it expects nothing, or says nothing")
			}
			for seed := range uint64(2) {
				r := play(t, s, Options{Seed: seed + 1})
				for _, v := range r.Verdicts() {
					if !v.OK {
						t.Errorf("seed %d: %s: want %s, got %s", seed+1, v.Text, v.Want, v.Got)
					}
				}
			}
		})
	}
}

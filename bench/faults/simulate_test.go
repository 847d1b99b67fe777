package main

import "testing"

func TestTheBreakerAloneMeetsTheGoalsThatAreNoLuck(t *testing.T) {
	plan := newSchedule(1)
	for seed := range uint64(20) {
		doomed, lost := simulations[0].run(plan, seed)
		if doomed < 20 || doomed > 40 || lost > 750 {
			t.Errorf("defaults, seed %d: %d doomed, want 20 (the run of failures that trips) to 40; %d lost, want at most 750", seed, doomed, lost)
		}
		again, lostAgain := simulations[0].run(plan, seed)
		if again != doomed || lostAgain != lost {
			t.Errorf("seed %d gave %d and %d, then %d and %d", seed, doomed, lost, again, lostAgain)
		}
		constant := simulations[len(simulations)-1]
		if _, lost := constant.run(plan, seed); lost > 200 {
			t.Errorf("%s, seed %d: %d lost, want at most 200", constant.name, seed, lost)
		}
	}
}

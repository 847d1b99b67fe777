package fuseboxmetrics

import (
	"slices"

	"github.com/fusebox-go/fusebox"
)

// transitions are the records that a breaker can leave, whatever its Config.
// A test drives breakers until they have left each of them, and no other.
var transitions = list([]change{
	{fusebox.Closed, fusebox.Open, []fusebox.Cause{
		fusebox.CauseFailureRate, fusebox.CauseSlowRate, fusebox.CauseConsecutive, fusebox.CauseTripWhen,
		fusebox.CauseOverride,
	}},
	{fusebox.Open, fusebox.HalfOpen, []fusebox.Cause{
		fusebox.CauseDeadline,
		fusebox.CauseOverride, fusebox.CauseOverrideEnded, fusebox.CauseLift,
	}},
	{fusebox.HalfOpen, fusebox.Open, []fusebox.Cause{
		fusebox.CauseProbeFailed, fusebox.CauseProbeExpired,
		fusebox.CauseOverride,
	}},
	{fusebox.HalfOpen, fusebox.Closed, []fusebox.Cause{
		fusebox.CauseProbesSucceeded,
		fusebox.CauseOverride, fusebox.CauseOverrideEnded, fusebox.CauseLift, fusebox.CauseReset, fusebox.CauseReconfigured,
	}},
	{fusebox.Open, fusebox.Closed, []fusebox.Cause{
		fusebox.CauseOverride, fusebox.CauseOverrideEnded, fusebox.CauseLift, fusebox.CauseReset, fusebox.CauseReconfigured,
	}},

	// Operations that left the state as it was.
	{fusebox.Closed, fusebox.Closed, []fusebox.Cause{
		fusebox.CauseOverride, fusebox.CauseOverrideEnded, fusebox.CauseLift, fusebox.CauseReset, fusebox.CauseReconfigured,
	}},
	{fusebox.HalfOpen, fusebox.HalfOpen, []fusebox.Cause{
		fusebox.CauseOverride, fusebox.CauseOverrideEnded, fusebox.CauseLift, fusebox.CauseReconfigured,
	}},
	{fusebox.Open, fusebox.Open, []fusebox.Cause{
		fusebox.CauseOverride, fusebox.CauseOverrideEnded, fusebox.CauseLift, fusebox.CauseReconfigured,
	}},
})

// change is a change of state and what can cause it.
type change struct {
	from, to fusebox.State
	causes   []fusebox.Cause
}

// transition is what a series of fusebox_transitions_total counts.
type transition struct {
	from, to fusebox.State
	cause    fusebox.Cause
}

func list(changes []change) (all []transition) {
	for _, c := range changes {
		for _, cause := range c.causes {
			all = append(all, transition{c.from, c.to, cause})
		}
	}
	return all
}

func seriesOf(all []transition) (series [][]string) {
	for _, t := range all {
		series = append(series, []string{t.from.String(), t.to.String(), t.cause.String()})
	}
	return series
}

func countTransitions(s *fusebox.Snapshot, values []float64) {
	for _, c := range s.Totals.Transitions {
		if i := slices.Index(transitions, transition{c.From, c.To, c.Cause}); i >= 0 {
			values[i] = float64(c.Count)
		}
	}
}

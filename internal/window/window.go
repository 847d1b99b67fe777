// Package window counts the outcomes of the recent past: [Time] those of a
// span of time, [Count] the last n.
//
// A window never reads a clock and takes no lock: time is an argument, and the
// owner sees to it that one goroutine at a time uses a window. Time is given
// as the span since some instant the owner has chosen, never decreasing.
//
// Both windows are told of every failure and every slow call. [Time] is not
// told of plain successes: its owner keeps a counter of all successes that
// only ever grows (and can be added to without a lock), and hands its present
// value in. A bucket remembers the value at its start, so that the successes
// in the window are a subtraction and nothing is ever reset.
package window

import "math"

// A Tally is the content of a window.
type Tally struct {
	Calls    int // outcomes: successes and failures
	Failures int
	Slow     int // slow successes and slow failures
}

// count converts a number of successes to an int, at the largest int at most.
func count(n uint64) int {
	if n > math.MaxInt {
		return math.MaxInt
	}
	return int(n)
}

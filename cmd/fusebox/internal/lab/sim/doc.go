// Package sim is the laboratory's world: time that jumps, and the breakers that
// live in it.
//
// A [Loop] is a discrete-event simulation on one goroutine. It moves from event
// to event; of events due at one instant, the one planned first comes first, so
// the same events give the same run. [Virtual] makes a loop whose time is a
// number: [Fusebox] breakers live there by their Config.Now. A breaker that reads
// the clock itself needs [Bubble]: the loop's time is then package time too,
// which jumps as well. [Real] waits.
//
// [Breaker] is what experiments call: this project's breaker, gobreaker's, or
// [Naive], a plain model with the mistakes that are easily made.
package sim

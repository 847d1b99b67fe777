// Package limit finds out how much a dependency can take, and refuses the
// rest. It has two policies:
//
//   - [Policy], an adaptive concurrency limit, moves the number of calls that
//     may be in flight with the latency it measures. Use it where nobody knows
//     the right size of a bulkhead, or where it changes: overload shows as
//     calls that wait. It stands in place of the bulkhead.
//   - [Throttle] refuses a share of the calls, the larger the fewer the
//     dependency accepts. Use it where overload shows as errors, and a partly
//     working dependency is worth having: a breaker would refuse all or
//     nothing. It stands in place of the breaker.
//
// So a chain is fallback, limit, retry, breaker, timeout; or fallback,
// bulkhead, retry, throttle, timeout. Neither policy waits, starts a goroutine
// or a timer, or needs to be closed.
package limit

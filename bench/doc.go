// Package bench measures fusebox side by side with other circuit breakers.
//
//	go run ./cmd/ratios       # the table, in one process
//	go test -bench . ./...    # the same calls as benchmarks, for benchstat
//
// How it measures: in each round every contender of a row runs once, for a
// short fixed time, right after its rivals and in an order that changes from
// round to round. A ratio is taken within a round and the median of the rounds
// is reported, so that noise which lasts longer than a row cancels.
//
// The floor is what cannot be avoided: the clock reads the settings need
// (time.Since of a base: two with a slow rule, one without) and one
// uncontended atomic add.
//
// Every breaker is given the same rules as far as it has them: a window of
// 10 s in 10 buckets, trips at a failure rate of 0.5 from 20 calls on or after
// 20 failures in a row, probes 3. Each library is used in the cheapest way its
// documentation shows. What a library does not do is said beside its figures.
package bench

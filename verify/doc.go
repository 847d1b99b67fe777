// Package verify holds tests of the breaker that need more than the standard
// library: random operations against a model that recounts everything,
// linearizability of short concurrent histories, and stress.
package verify

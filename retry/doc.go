// Package retry makes a call again when it has failed: a few times, later each
// time, and never so often that the retries themselves become the load that
// keeps a dependency down.
//
//	var again = retry.New(retry.Config{})
//	err := again.Do(ctx, fetch)
//
// A retry stands outside a breaker: each attempt is one outcome, and the
// breaker's refusal ends the attempts. It stands outside a timeout, so that
// each attempt has its own. An attempt is one try of a call, the first
// included; retries are the attempts after the first.
//
// Three things bound the retries: [Config].Attempts for one call, a [Budget]
// for all calls of a policy together, and the caller's context, past whose
// deadline nobody sleeps.
package retry

// Package fusebox is a circuit breaker: it keeps a service alive when
// something it depends on does not answer, answers slowly, or answers with
// errors.
//
//	var payments = fusebox.New("payments", fusebox.Config{}) // the zero Config protects
//
//	user, err := fusebox.Call(ctx, payments, fetchUser)       // func(context.Context) (*User, error)
//	if errors.Is(err, fusebox.ErrOpen) { return cached, nil } // any rejection by a breaker
//
// A breaker is closed while the dependency is well: it admits every call and
// counts outcomes. When too many fail, or are slow, it trips: it is open, and
// rejects calls at once. When its open period is over it is half-open: it
// admits a few probes, and closes if they succeed, or reopens, for longer, if
// not. [Config] has the rules, each with its default.
//
// # Guarantees
//
//   - At most Config.Probes probes are outstanding, and each holds its slot no
//     longer than Config.ProbeTimeout: a call that never returns wedges nothing.
//   - A permit counts once, whatever happens: return, panic, runtime.Goexit, a
//     second finish. A result that comes after the state has changed is late:
//     it changes nothing, and Finish says so.
//   - A caller that goes away is no failure of the dependency; nor is a
//     refusal by a policy inside.
//   - A rejection is never an outcome, and says which breaker, why in numbers,
//     and when to come back.
//   - The records of a breaker chain, and are delivered in order, none
//     dropped, never under a lock.
//   - No goroutine, no timer, no package-level state. While closed with a time
//     window, nearly every successful call takes no lock (the first of a
//     bucket, and one after a failure, do; with a Finished observer, or an
//     override that will end, all do), and none allocates; nor does a rejection.
//
// # Time
//
// A breaker reads the monotonic clock: steps of the wall clock do not reach
// it. Time acts lazily: State and Snapshot show what it has changed, the next
// call or operation commits it. Inside a testing/synctest bubble use a breaker
// made in that bubble: one made outside sees a clock of another epoch.
//
// # Reading the source
//
// machine.go has every rule, without concurrency. gate.go and permit.go are
// the path of a call without the lock; breaker.go holds the two together;
// deliver.go tells the observers.
package fusebox

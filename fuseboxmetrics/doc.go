// Package fuseboxmetrics says which metrics there are, and reads them. It knows
// no metrics system: the modules fuseboxprom and fuseboxotel show what it reads,
// and an adapter to another system is a loop over [Set.Read].
//
// A [Set] holds what is to be shown: breakers, registries, and the policies
// around them. A program with metrics of one system only gets its Set from the
// adapter.
//
// # Series
//
// Every metric has the label "name": that of the breaker, or the one a policy
// was added under. The other labels have few values, all known beforehand, and
// every series exists with 0 as soon as its breaker does, so that the first
// event is seen as an increase. A breaker has 62 series, 36 of them for its
// transitions. They go with the breaker: when it is removed, or when its
// registry drops it, as Registry.All does with those that were long unused.
//
// What is shown is read when it is asked for, from [fusebox.Breaker.Snapshot]: a
// reading takes no slot, moves no deadline and makes nobody wait for longer than
// it takes to copy some numbers. So a state cannot stay behind, and exactly one
// of the three series of fusebox_state is 1. The rate of an empty window is 0:
// look at fusebox_window_calls beside it.
package fuseboxmetrics

// Package scenario plays a file: breakers, policies, traffic and dependencies,
// and what is expected to become of them.
//
// The breakers and the policies are the library's own, in the chain that a
// program would make of them, in a testing/synctest bubble: hours take
// milliseconds. Only the dependencies are made up. [Parse] reads a file, strictly;
// [Run] plays it; [Result.Verdicts] holds it to its expectations.
//
// The same file and seed give the same result, to the byte, although every call
// has a goroutine: they go on one at a time, in an order that does not depend on
// the scheduler (see turns).
package scenario

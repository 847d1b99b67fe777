// Package e2e has the tests of the whole program: they build it, run it, and
// look at it from outside.
package e2e

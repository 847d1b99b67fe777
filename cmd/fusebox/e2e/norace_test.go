//go:build !race

package e2e

// racing is whether the tests run under the race detector; the program does then too.
const racing = false

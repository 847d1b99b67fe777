//go:build !race

package fusebox_test

const cellRace = false

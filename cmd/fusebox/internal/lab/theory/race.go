package theory

import "math"

// RunReopenings returns how often a breaker reopens on average, however long it
// takes, where n successes in a row close it and each call succeeds with the
// chance q: 1/qⁿ - 1.
func RunReopenings(q float64, n int) float64 { return 1/math.Pow(q, float64(n)) - 1 }

// RaceWon returns the chance of n successes before m failures: with fewer than m
// failures before the n-th success, which is negative-binomial.
func RaceWon(q float64, n, m int) (p float64) {
	term := math.Pow(q, float64(n)) // of exactly j failures
	for j := range m {
		p += term
		term *= (1 - q) * float64(n+j) / float64(j+1)
	}
	return p
}

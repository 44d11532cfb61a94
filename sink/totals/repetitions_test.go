//go:build !race && !short

package totals

const (
	crashEvery = 1
	manyFiles  = 34 // they take two levels of merges
	minCases   = 100_000
)

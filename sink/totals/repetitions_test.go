//go:build !race

package totals

const (
	crashEvery = 1
	minCases   = 100_000
)

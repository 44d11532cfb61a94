//go:build !race

package compact

const (
	crashEvery = 1
	errorEvery = 1
	minCases   = 100_000
	chains     = 16
)

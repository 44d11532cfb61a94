//go:build !race && !short

package compact

const (
	crashEvery    = 1
	damageEvery   = 1
	choicesOfJobs = 5
	errorEvery    = 1
	minCases      = 100_000
	chains        = 16
)

//go:build race || short

package compact

// A compaction has no goroutine. The race detector finds nothing in it, and makes it ten times slower. The full numbers
// run without it in `make test-full`. 23 shares no factor with the six schedules of a step.
const (
	crashEvery    = 23
	damageEvery   = 16
	choicesOfJobs = 2
	errorEvery    = 5
	minCases      = 10_000
	chains        = 2
)

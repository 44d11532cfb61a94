//go:build race || short

package totals

// Nothing here has a goroutine of its own. The full numbers run without the race detector in `make test-full`.
const (
	crashEvery = 5
	manyFiles  = 2
	minCases   = 5_000
)

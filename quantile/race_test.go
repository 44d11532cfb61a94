//go:build race || short

package quantile

// This package has no goroutine: the race detector finds nothing in it, and makes its tests ten times slower.
// `make test-full` runs the full numbers without it.
const slower = 4

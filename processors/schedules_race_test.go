//go:build race

package processors

// The folds have no goroutine: the race detector finds nothing in their simulation, and makes it ten times slower.
// `make test` runs the full number without it.
const defaultSchedules = 1_000

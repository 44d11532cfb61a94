//go:build race

package network

// The package has no goroutine: the race detector finds nothing in it. `make test` runs the full numbers without it.
const slower = 4

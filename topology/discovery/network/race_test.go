//go:build race || short

package network

// The package has no goroutine: the race detector finds nothing in it. `make test-full` runs the full numbers without it.
const slower = 4

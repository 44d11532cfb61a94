//go:build race

package sink

// The reader of a file has no goroutine: the race detector finds nothing in it, and makes it ten times slower.
// `make test` tries the full number without it.
const flipEvery = 32

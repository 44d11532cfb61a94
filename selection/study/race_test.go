//go:build race || short

package study

// Package selection has no goroutine: the race detector finds nothing in it, and makes it ten times slower.
// `make test-full` runs the full numbers without it.
const short = 1

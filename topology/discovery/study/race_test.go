//go:build race || short

package study

// The race detector makes the study eight times slower. `make test-full` runs the full numbers without it.
const short = 1

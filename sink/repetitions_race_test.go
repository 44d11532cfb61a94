//go:build race

package sink

// Neither the reader of a file nor the loop of TestCrashes has a goroutine. The race detector finds nothing there, and
// makes them several times slower. The full numbers run without it in `make test`.
const (
	flipEvery   = 32
	crashRounds = 4
)

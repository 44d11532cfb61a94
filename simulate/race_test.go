//go:build race

package simulate

// The race detector makes the folds eight times slower, and finds nothing in them.
const (
	raceEnabled = true
	monthDays   = 3
	minuteDays  = 0
)

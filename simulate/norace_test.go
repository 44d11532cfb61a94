//go:build !race

package simulate

// The days of made-up months in tests, at five minutes and at one. -full folds whole months.
const (
	raceEnabled = false
	monthDays   = 10
	minuteDays  = 1
)

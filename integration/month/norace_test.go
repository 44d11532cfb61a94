//go:build !race

package month

// The days of made-up months in tests, at five minutes and at one.
const (
	raceEnabled = false
	monthDays   = 30
	minuteDays  = 2
)

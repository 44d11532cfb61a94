//go:build !race

package month

const (
	raceEnabled = false
	monthDays   = 30
)

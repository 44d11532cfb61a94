//go:build !race

package sink

const (
	flipEvery   = 8
	crashRounds = 10
)

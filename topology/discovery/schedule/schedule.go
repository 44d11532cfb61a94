// Package schedule orders measurements between pairs of nodes into rounds. The pairs of a round are measured at the
// same time, so no node is in two of them. It is pure.
package schedule

import (
	"github.com/weirhpc/weir/topology/discovery/latency"
)

// Tournament returns rounds that hold each pair of n nodes once, by the circle method. They are n-1 rounds if n is
// even, and n if it is odd. Fewer are not possible. TestTournament pins it.
func Tournament(n int) [][]latency.Pair {
	if n < 2 {
		return nil
	}
	even := n + n%2
	var rounds [][]latency.Pair
	for r := range even - 1 {
		var round []latency.Pair
		for i := range even / 2 {
			a, b := (r+i)%(even-1), (r-i+even-1)%(even-1)
			if i == 0 {
				b = even - 1
			}
			if a < n && b < n {
				round = append(round, latency.Pair{A: min(a, b), B: max(a, b)})
			}
		}
		rounds = append(rounds, round)
	}
	return rounds
}

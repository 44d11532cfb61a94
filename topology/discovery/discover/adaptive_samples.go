package discover

import (
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// sampleInside measures random pairs inside each of some disjoint sets. It returns false if it must end.
func (a *adaptive) sampleInside(sets [][]int, ask asking) bool {
	shuffled := make([][]int, len(sets))
	rounds := 0
	for i, s := range sets {
		shuffled[i] = slices.Clone(s)
		a.rng.Shuffle(len(s), func(x, y int) { shuffled[i][x], shuffled[i][y] = shuffled[i][y], shuffled[i][x] })
		rounds = max(rounds, roundsOf(len(s)))
	}
	for r := range rounds {
		var round []latency.Pair
		for _, s := range shuffled {
			if r < roundsOf(len(s)) {
				round = append(round, circle(s, r)...)
			}
		}
		if _, more := ask(round); !more {
			return false
		}
	}
	return true
}

// roundsOf returns in how many rounds a set is sampled.
func roundsOf(n int) int {
	rounds := n - 1 + n%2
	if n <= smallSet {
		return rounds
	}
	return min(levelRounds, rounds)
}

// circle returns a round of the circle method over a set.
func circle(set []int, r int) []latency.Pair {
	n := len(set) + len(set)%2
	var round []latency.Pair
	for i := range n / 2 {
		x, y := (r+i)%(n-1), (r-i+n-1)%(n-1)
		if i == 0 {
			y = n - 1
		}
		if x < len(set) && y < len(set) {
			round = append(round, pairOf(set[x], set[y]))
		}
	}
	return round
}

func pairOf(a, b int) latency.Pair { return latency.Pair{A: min(a, b), B: max(a, b)} }

// inside returns ln(latency) of all samples between nodes of a set.
func (a *adaptive) inside(set []int) []float64 {
	in := map[int]bool{}
	for _, v := range set {
		in[v] = true
	}
	var values []float64
	for _, v := range set {
		for _, s := range a.samples[v] {
			if v < s.with && in[s.with] {
				values = append(values, s.ln)
			}
		}
	}
	return values
}

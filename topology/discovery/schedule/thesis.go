package schedule

import (
	"cmp"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// Halving returns rounds that hold each pair of n nodes once, by the scheme of Bufe's thesis (section 2.3.2). The nodes
// are halved, each of one half meets each of the other, and then both halves go on at the same time. The rounds are
// T(n) = T(ceil(n/2)) + ceil(n/2), T(1) = 0 (eq. 2.3). Tournament needs fewer. TestHalving pins it.
func Halving(n int) [][]latency.Pair {
	nodes := make([]int, n)
	for i := range nodes {
		nodes[i] = i
	}
	return halving(nodes)
}

func halving(nodes []int) [][]latency.Pair {
	if len(nodes) < 2 {
		return nil
	}
	left, right := nodes[:len(nodes)/2], nodes[len(nodes)/2:]
	var rounds [][]latency.Pair
	for r := range right {
		var round []latency.Pair
		for i, a := range left {
			round = append(round, latency.Pair{A: a, B: right[(i+r)%len(right)]})
		}
		rounds = append(rounds, round)
	}
	both, more := halving(left), halving(right)
	for i, round := range more {
		if i < len(both) {
			round = append(round, both[i]...)
		}
		rounds = append(rounds, round)
	}
	return rounds
}

// paths returns rounds that hold each of the pairs once, by algorithms 4 and 5 of Bufe's thesis. A round takes every
// other link of paths. A path begins at the node with the most links left and goes on to the neighbour with the most.
// The algorithm as printed takes the best of a set that may be empty, and pairs nodes that may not be linked. Here a
// path ends there. It needs more rounds than Disjoint for dense networks. TestPaths pins it.
func paths(pairs []latency.Pair) [][]latency.Pair {
	left := map[int][]int{}
	for _, p := range pairs {
		left[p.A] = append(left[p.A], p.B)
		left[p.B] = append(left[p.B], p.A)
	}
	nodes := keys(left)
	var rounds [][]latency.Pair
	for {
		var round []latency.Pair
		used := map[int]bool{}
		for start := most(left, nodes, used); start >= 0; start = most(left, nodes, used) {
			round = append(round, takePath(left, used, start)...)
		}
		if len(round) == 0 {
			return rounds
		}
		for _, p := range round {
			left[p.A] = slices.DeleteFunc(left[p.A], func(v int) bool { return v == p.B })
			left[p.B] = slices.DeleteFunc(left[p.B], func(v int) bool { return v == p.A })
		}
		rounds = append(rounds, round)
	}
}

// takePath returns every other link of a path. The path's nodes are used afterwards.
func takePath(left map[int][]int, used map[int]bool, start int) []latency.Pair {
	var pairs []latency.Pair
	for at, n := start, 0; ; n++ {
		used[at] = true
		next := most(left, left[at], used)
		if next < 0 {
			return pairs
		}
		if n%2 == 0 {
			pairs = append(pairs, latency.Pair{A: min(at, next), B: max(at, next)})
		}
		at = next
	}
}

// most returns the unused node with the most links left, -1 if no links are left.
func most(left map[int][]int, nodes []int, used map[int]bool) int {
	best := -1
	for _, v := range nodes {
		if !used[v] && len(left[v]) > 0 && (best < 0 || len(left[v]) > len(left[best])) {
			best = v
		}
	}
	return best
}

func keys(left map[int][]int) []int {
	var nodes []int
	for v := range left {
		nodes = append(nodes, v)
	}
	slices.SortFunc(nodes, cmp.Compare[int])
	return nodes
}

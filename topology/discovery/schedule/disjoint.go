package schedule

import (
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// Disjoint returns rounds that hold each of the pairs once. Let the degree be the largest number of pairs of one node.
// If the pairs form a bipartite graph, there are as many rounds as the degree (König). The same holds if every node
// meets all others and the number of nodes is even. Otherwise there is at most one more (Vizing; Misra and Gries 1992).
// A pair that is given k times is in k rounds, and each repetition gets rounds of its own. A pair joins two different
// nodes. TestDisjoint pins it.
func Disjoint(pairs []latency.Pair) [][]latency.Pair {
	pairs, again := firsts(pairs)
	if len(pairs) == 0 {
		return nil
	}
	g := newGraph(pairs)
	var rounds [][]latency.Pair
	switch {
	case g.bipartite():
		rounds = colour(g, g.degree, (*colouring).swap)
	case g.degree == len(g.nodes)-1:
		rounds = g.ofTournament()
	default:
		rounds = colour(g, g.degree+1, (*colouring).fan)
	}
	return append(rounds, Disjoint(again)...)
}

// firsts divides pairs into the first of each and the rest.
func firsts(pairs []latency.Pair) (first, again []latency.Pair) {
	seen := make(map[latency.Pair]bool, len(pairs))
	for _, p := range pairs {
		if seen[p] {
			again = append(again, p)
			continue
		}
		seen[p] = true
		first = append(first, p)
	}
	return first, again
}

// graph holds the pairs' nodes under numbers without gaps.
type graph struct {
	nodes  []int          // the node of each number
	edges  []latency.Pair // of numbers
	degree int
}

func newGraph(pairs []latency.Pair) *graph {
	g := &graph{}
	for _, p := range pairs {
		g.nodes = append(g.nodes, p.A, p.B)
	}
	slices.Sort(g.nodes)
	g.nodes = slices.Compact(g.nodes)
	number := make(map[int]int, len(g.nodes))
	for i, node := range g.nodes {
		number[node] = i
	}
	degrees := make([]int, len(g.nodes))
	for _, p := range pairs {
		e := latency.Pair{A: number[p.A], B: number[p.B]}
		g.edges = append(g.edges, e)
		degrees[e.A]++
		degrees[e.B]++
	}
	g.degree = slices.Max(degrees)
	return g
}

// bipartite reports whether the nodes fall into two sides without an edge inside a side.
func (g *graph) bipartite() bool {
	next := g.neighbours()
	side := make([]int8, len(g.nodes))
	for start := range side {
		if side[start] != 0 {
			continue
		}
		side[start] = 1
		for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
			v := queue[0]
			for _, w := range next[v] {
				if side[w] == side[v] {
					return false
				}
				if side[w] == 0 {
					side[w] = -side[v]
					queue = append(queue, w)
				}
			}
		}
	}
	return true
}

func (g *graph) neighbours() [][]int {
	next := make([][]int, len(g.nodes))
	for _, e := range g.edges {
		next[e.A] = append(next[e.A], e.B)
		next[e.B] = append(next[e.B], e.A)
	}
	return next
}

// ofTournament returns the rounds of a tournament without the pairs that are not among the edges.
func (g *graph) ofTournament() [][]latency.Pair {
	wanted := make(map[latency.Pair]bool, len(g.edges))
	for _, e := range g.edges {
		wanted[latency.Pair{A: min(e.A, e.B), B: max(e.A, e.B)}] = true
	}
	var rounds [][]latency.Pair
	for _, round := range Tournament(len(g.nodes)) {
		round = slices.DeleteFunc(round, func(e latency.Pair) bool { return !wanted[e] })
		if len(round) > 0 {
			rounds = append(rounds, g.named(round))
		}
	}
	return rounds
}

// named returns edges as pairs of nodes.
func (g *graph) named(edges []latency.Pair) []latency.Pair {
	pairs := make([]latency.Pair, len(edges))
	for i, e := range edges {
		a, b := g.nodes[e.A], g.nodes[e.B]
		pairs[i] = latency.Pair{A: min(a, b), B: max(a, b)}
	}
	return pairs
}

package discover

import (
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// literalGraph is the graph that the thesis's method changes: the nodes first, then the switches. A switch that was
// rejoined with another keeps its number, without edges.
type literalGraph struct {
	epsilon    float64
	zeroUs     float64 // two switches that are not farther apart are one
	nodes      int
	neighbours [][]int
	edgeUs     [][]float64 // of each vertex: the latency of the edge to each vertex below it, infinite if there is none
	steps      int         // taken by the search for cliques
}

func newLiteralGraph(m *latency.Matrix, epsilon float64) *literalGraph {
	lowest := math.Inf(1)
	for _, p := range allPairs(m.Len()) {
		lowest = min(lowest, m.At(p.A, p.B))
	}
	g := &literalGraph{epsilon: max(epsilon, leastEpsilon), nodes: m.Len()}
	g.zeroUs = g.epsilon * lowest / 2
	for range m.Len() {
		g.addVertex()
	}
	return g
}

// less compares relatively (eq. 1.9).
func (g *literalGraph) less(a, b float64) bool {
	return b-a > g.epsilon*(a+b)/2 || math.IsInf(b, 1) && a < b
}

func (g *literalGraph) equal(a, b float64) bool { return !g.less(a, b) && !g.less(b, a) }

func (g *literalGraph) isSwitch(v int) bool { return v >= g.nodes }

// switches returns how many switches were added.
func (g *literalGraph) switches() int { return len(g.neighbours) - g.nodes }

// addVertex adds a vertex without edges and returns its number.
func (g *literalGraph) addVertex() int {
	v := len(g.neighbours)
	row := slices.Repeat([]float64{math.Inf(1)}, v)
	g.neighbours, g.edgeUs = append(g.neighbours, nil), append(g.edgeUs, row)
	return v
}

// us returns the latency of the edge between two vertices, infinite if there is none. It is 0 within a vertex.
func (g *literalGraph) us(a, b int) float64 {
	if a == b {
		return 0
	}
	return g.edgeUs[max(a, b)][min(a, b)]
}

func (g *literalGraph) linked(a, b int) bool { return !math.IsInf(g.us(a, b), 1) }

// edges returns all edges.
func (g *literalGraph) edges() []latency.Pair {
	var edges []latency.Pair
	for a, neighbours := range g.neighbours {
		for _, b := range neighbours {
			if a < b {
				edges = append(edges, latency.Pair{A: a, B: b})
			}
		}
	}
	return edges
}

// link adds an edge between two vertices without one.
func (g *literalGraph) link(a, b int, us float64) {
	g.edgeUs[max(a, b)][min(a, b)] = us
	g.neighbours[a] = append(g.neighbours[a], b)
	g.neighbours[b] = append(g.neighbours[b], a)
}

func (g *literalGraph) unlink(a, b int) {
	g.edgeUs[max(a, b)][min(a, b)] = math.Inf(1)
	without := func(vertices []int, gone int) []int {
		return slices.DeleteFunc(vertices, func(v int) bool { return v == gone })
	}
	g.neighbours[a], g.neighbours[b] = without(g.neighbours[a], b), without(g.neighbours[b], a)
}

// latencies returns the distinct latencies of the edges. Latencies that equal the previous one within epsilon are left
// out.
func (g *literalGraph) latencies() []float64 {
	var all []float64
	for _, e := range g.edges() {
		all = append(all, g.us(e.A, e.B))
	}
	slices.Sort(all)
	var groups []float64
	for _, us := range all {
		if len(groups) == 0 || g.less(groups[len(groups)-1], us) {
			groups = append(groups, us)
		}
	}
	return groups
}

// overSwitches returns the length of the shortest path between two vertices that passes only switches on its way. It is
// infinite if there is none. The switches lie densely in the table, so a linear search replaces the queue (Dijkstra
// 1959).
func (g *literalGraph) overSwitches(a, b int) float64 {
	lengths := make([]float64, g.switches())
	done := make([]bool, len(lengths))
	for i := range lengths {
		lengths[i] = g.us(a, g.nodes+i)
	}
	shortest := math.Inf(1)
	for {
		nearest, least := -1, shortest
		for i, us := range lengths {
			if !done[i] && us < least {
				nearest, least = i, us
			}
		}
		if nearest < 0 {
			return shortest
		}
		done[nearest] = true
		shortest = min(shortest, least+g.us(g.nodes+nearest, b))
		for i := range lengths {
			if !done[i] {
				lengths[i] = min(lengths[i], least+g.us(g.nodes+nearest, g.nodes+i))
			}
		}
	}
}

package discover

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
)

// LiteralEpsilon is the usual tolerance of Literal.
const LiteralEpsilon = .1

// leastEpsilon keeps sums of floating-point numbers equal that are equal on paper.
const leastEpsilon = 1e-9

// literalNodes bounds the time of Literal to seconds.
const literalNodes = 1024

// errNoisy is returned when the search of cliques does not end.
var errNoisy = errors.New("the latencies are too noisy for the thesis's method: its cliques are too many to list; " +
	"try another epsilon, or the method weir, which has no such limit")

// Literal returns the network by the method of Bufe's thesis (Hamburg 2014, algorithms 1 to 3), read literally. It
// compares latencies relatively: a is less than b if 2(b-a)/(a+b) > epsilon (eq. 1.9), which lies in [0, 2). It needs a
// latency for each pair. The method lacks a measure of confidence, so the level is always low. Choices that the text
// leaves open:
//
//   - Groups of latencies are processed in ascending order, from the first again after a change. Otherwise n nodes on
//     each of m switches have n^m cliques. The latency of a group is its lowest.
//   - The largest of overlapping cliques comes first. Cliques are all nodes, or all switches.
//   - Switches are rejoined below an absolute tolerance of epsilon/2 of the lowest latency: no latency is relatively
//     equal to zero.
//   - Virtual edges are deleted one at a time, the longest first, against shortest paths over switches. Two edges that
//     explain each other would both go otherwise.
//
// TestLiteral pins it on the thesis's tables.
func Literal(m *latency.Matrix, epsilon float64) (Result, error) {
	g, err := basicModel(m, epsilon)
	if err != nil {
		return Result{}, err
	}
	if err := g.findSwitches(); err != nil {
		return Result{}, err
	}
	g.dropVirtualOfNodes()
	return literalResult(g, m), nil
}

// basicModel returns the graph of algorithm 1: the nodes, and the pairs that no path of two pairs explains.
func basicModel(m *latency.Matrix, epsilon float64) (*literalGraph, error) {
	if !(epsilon >= 0 && epsilon < 2) {
		return nil, fmt.Errorf("epsilon is %v: want a number from 0 to below 2", epsilon)
	}
	if m.Len() < 2 {
		return nil, errFew
	}
	if m.Len() > literalNodes {
		return nil, fmt.Errorf("%d nodes: the thesis's method ends at %d, for its steps are the third power of that; "+
			"use the method weir", m.Len(), literalNodes)
	}
	pairs := allPairs(m.Len())
	for _, p := range pairs {
		if us := m.At(p.A, p.B); !(us > 0) || math.IsInf(us, 0) {
			return nil, fmt.Errorf("%s and %s: the latency is %v us: the thesis's method wants one above 0 for "+
				"each pair", m.Names()[p.A], m.Names()[p.B], us)
		}
	}
	slices.SortStableFunc(pairs, func(p, q latency.Pair) int { return cmp.Compare(m.At(p.A, p.B), m.At(q.A, q.B)) })
	g := newLiteralGraph(m, epsilon)
	for _, p := range pairs {
		if us := m.At(p.A, p.B); g.less(us, g.throughNeighbour(m, p.A, p.B)) {
			g.link(p.A, p.B, us)
		}
	}
	return g, nil
}

func allPairs(n int) []latency.Pair {
	pairs := make([]latency.Pair, 0, n*(n-1)/2)
	for a := range n {
		for b := a + 1; b < n; b++ {
			pairs = append(pairs, latency.Pair{A: a, B: b})
		}
	}
	return pairs
}

// throughNeighbour returns the length of the shortest path between two nodes by eq. 2.2: the measured latency to a
// neighbour of b, and its edge. It is infinite for a vertex b without neighbours.
func (g *literalGraph) throughNeighbour(m *latency.Matrix, a, b int) float64 {
	least := math.Inf(1)
	for _, d := range g.neighbours[b] {
		if d != a {
			least = min(least, m.At(a, d)+m.At(d, b)) // the edge carries the measured latency
		}
	}
	return least
}

// findSwitches replaces cliques by switches until there are none (algorithm 2). It deletes virtual edges after each
// switch, as cliques of two nodes require (algorithm 3).
func (g *literalGraph) findSwitches() error {
	for changed := true; changed; {
		changed = false
		for _, us := range g.latencies() {
			var err error
			if changed, err = g.replaceGroup(us); err != nil {
				return err
			}
			if changed {
				break
			}
		}
	}
	return nil
}

// replaceGroup replaces the cliques of one latency. It reports whether there was one.
func (g *literalGraph) replaceGroup(us float64) (changed bool, err error) {
	for _, ofSwitches := range []bool{false, true} {
		cliques, err := g.cliques(us, ofSwitches)
		if err != nil {
			return false, err
		}
		for _, clique := range cliques {
			if !g.replaceable(clique, us) {
				continue
			}
			if g.switches() >= 2*g.nodes {
				return false, errNoisy
			}
			g.replace(clique, us)
			changed = true
		}
		if changed {
			return true, nil // new switches are at lower latencies, which come first
		}
	}
	return false, nil
}

// replaceable reports whether all edges between the members exist, with one latency. A pair must also have a third
// vertex at the same distance from both, so that the switch gets three links.
func (g *literalGraph) replaceable(clique []int, us float64) bool {
	for i, a := range clique {
		for _, b := range clique[i+1:] {
			if !g.linked(a, b) || !g.equal(g.us(a, b), us) {
				return false
			}
		}
	}
	if len(clique) > 2 {
		return true
	}
	a, b := clique[0], clique[1]
	return slices.ContainsFunc(g.neighbours[a], func(third int) bool {
		return third != b && g.linked(third, b) && g.equal(g.us(third, a), g.us(third, b))
	})
}

// replace puts a switch in the place of a clique. A vertex with an edge of one latency to each member gets one edge to
// the switch.
func (g *literalGraph) replace(clique []int, us float64) {
	s := g.addVertex()
	for _, v := range g.commonNeighbours(clique) {
		g.link(s, v, max(0, g.mean(v, clique)-us/2))
		for _, member := range clique {
			g.unlink(v, member)
		}
	}
	for i, a := range clique {
		for _, b := range clique[i+1:] {
			g.unlink(a, b)
		}
		g.link(s, a, us/2)
	}
	g.dropVirtual(g.rejoin(s))
}

// commonNeighbours returns the vertices that have an edge to each member, all of one latency.
func (g *literalGraph) commonNeighbours(clique []int) []int {
	var common []int
	for _, v := range g.neighbours[clique[0]] {
		if slices.Contains(clique, v) {
			continue
		}
		low, high := math.Inf(1), 0.
		for _, member := range clique {
			low, high = min(low, g.us(v, member)), max(high, g.us(v, member))
		}
		if !math.IsInf(high, 1) && g.equal(low, high) {
			common = append(common, v)
		}
	}
	return common
}

// mean returns the mean latency of a vertex's edges to others.
func (g *literalGraph) mean(v int, others []int) float64 {
	sum := 0.
	for _, w := range others {
		sum += g.us(v, w)
	}
	return sum / float64(len(others))
}

// rejoin merges a new switch with the switches at latency zero from it: they are one switch with nodes of several kinds
// (section 2.2.5). It returns the switch that remains.
func (g *literalGraph) rejoin(s int) int {
	for {
		i := slices.IndexFunc(g.neighbours[s], func(v int) bool { return g.isSwitch(v) && g.us(s, v) <= g.zeroUs })
		if i < 0 {
			return s
		}
		other := g.neighbours[s][i]
		keep, gone := min(s, other), max(s, other)
		for _, v := range slices.Clone(g.neighbours[gone]) {
			us := g.us(gone, v)
			g.unlink(gone, v)
			if v != keep && !g.linked(keep, v) {
				g.link(keep, v, us)
			}
		}
		s = keep
	}
}

// dropVirtual deletes edges between switches that a path explains, after an insertion of s. Only edges at s and between
// its neighbours can have become redundant.
func (g *literalGraph) dropVirtual(s int) {
	var edges []latency.Pair
	near := append([]int{s}, g.neighbours[s]...)
	near = slices.DeleteFunc(near, func(v int) bool { return !g.isSwitch(v) })
	for i, a := range near {
		for _, b := range near[i+1:] {
			if g.linked(a, b) && (a == s || !g.less(g.us(a, b), g.us(a, s)+g.us(s, b))) {
				edges = append(edges, latency.Pair{A: min(a, b), B: max(a, b)})
			}
		}
	}
	g.dropExplained(edges)
}

// dropVirtualOfNodes deletes the other edges that a path over switches explains: with nodes of different kinds, they
// describe the link to the switch (section 2.2.5).
func (g *literalGraph) dropVirtualOfNodes() {
	g.dropExplained(slices.DeleteFunc(g.edges(), func(e latency.Pair) bool { return g.isSwitch(e.A) }))
}

// dropExplained deletes each of the edges that is not shorter than the shortest path without it.
func (g *literalGraph) dropExplained(edges []latency.Pair) {
	slices.SortStableFunc(edges, func(p, q latency.Pair) int { return cmp.Compare(g.us(q.A, q.B), g.us(p.A, p.B)) })
	for _, e := range edges {
		us := g.us(e.A, e.B)
		g.unlink(e.A, e.B)
		if g.less(us, g.overSwitches(e.A, e.B)) {
			g.link(e.A, e.B, us)
		}
	}
}

// literalResult returns the graph as a network, with switches numbered without gaps.
func literalResult(g *literalGraph, m *latency.Matrix) Result {
	net := network.New(m.Names())
	number := make([]int, len(g.neighbours))
	for v, neighbours := range g.neighbours {
		number[v] = v
		if g.isSwitch(v) && len(neighbours) > 0 {
			number[v] = net.AddSwitch("")
		}
	}
	for _, e := range g.edges() {
		net.AddLink(number[e.A], number[e.B], g.us(e.A, e.B))
	}
	confidence := Confidence{Level: Low, Noise: m.Noise, Reasons: []string{reasonUntested}}
	if confidence.Residual = literalResidual(net, m); math.IsNaN(confidence.Residual) {
		confidence.Residual = 1
		confidence.Reasons = append(confidence.Reasons, "the network falls into parts; try another epsilon")
	}
	return Result{Network: net, Kind: literalKind(net), Confidence: confidence}
}

// reasonUntested is why each result of the thesis's method is of low confidence.
const reasonUntested = "the thesis's method does not test its switches against the noise"

func literalKind(net *network.Network) string {
	switch {
	case len(net.Names) == net.Nodes:
		return kindDirect
	case net.IsTree():
		return kindTree
	}
	return kindMixed
}

// literalResidual returns the relative root mean square between the latencies and the lengths of the network's paths.
// It is NaN if two nodes have no path.
func literalResidual(net *network.Network, m *latency.Matrix) float64 {
	sum := 0.
	for a := range m.Len() {
		lengths := net.Distances(a)
		for b := a + 1; b < m.Len(); b++ {
			deviation := lengths[b]/m.At(a, b) - 1
			sum += deviation * deviation
		}
	}
	return math.Sqrt(sum / float64(m.Len()*(m.Len()-1)/2))
}

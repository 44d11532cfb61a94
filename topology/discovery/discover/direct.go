package discover

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
)

// A direct network has no switches, or its switches do not form a tree, so shortest paths lead over links. Each
// explanation starts from vertices: the nodes, or the routers that indistinguishable nodes share.

// Bounds that keep the search for links short. More vertices than these are taken for a tree.
const (
	mostVertices  = 4096 // nodes of equal links
	mostRouters   = 512  // routers of links that differ
	mostWithoutBy = 64   // nodes of unequal links, if no router shows the common part of the latencies
	mostRepaired  = 4    // graphs, the best ones, that are repaired
	shownMargin   = 3    // nats that each link of a graph without a known shape saves at least
	repairGain    = .25  // nats per pair that a repair may gain
	shownGain     = .02  // nats per pair that a graph of unknown shape has to gain over the best tree
)

// direct returns the network of links that describes a matrix best, and whether there is one that could be right.
// ToBeat is the score of the best tree. A known shape competes on its score alone. Any other network has much freedom,
// so it must be clearly better.
func direct(m *latency.Matrix, toBeat float64) (candidate, bool) {
	none := candidate{score: math.Inf(1)}
	if m.Len() < 4 || m.Len() > mostVertices {
		return none, false
	}
	d := square(m)
	graphs := equalLinks(d)
	for _, r := range contractions(d) {
		graphs = append(graphs, unequalLinks(r)...)
	}
	pairs := float64(m.Len() * (m.Len() - 1) / 2)
	found := rateGraphs(m, graphs, toBeat+repairGain*pairs)
	repaired := []*graph{}
	for _, c := range found[:min(len(found), mostRepaired)] {
		if g := *c.graph; g.climb() {
			repaired = append(repaired, &g)
		}
	}
	found = append(found, rateGraphs(m, repaired, toBeat)...)
	slices.SortStableFunc(found, func(x, y ratedGraph) int { return cmp.Compare(x.score, y.score) })
	for _, c := range found {
		if !c.known && c.score > toBeat-shownMargin-shownGain*pairs {
			continue
		}
		c.margin = c.shownBy(c.sigma)
		if c.margin >= shownMargin {
			return c.candidate, true
		}
	}
	return none, false
}

// ratedGraph is a graph and how it describes the latencies.
type ratedGraph struct {
	candidate
	graph *graph
	known bool // the shape
}

// rateGraphs returns the graphs that can be right and need no more nats than most, the best first.
func rateGraphs(m *latency.Matrix, graphs []*graph, most float64) []ratedGraph {
	var found []ratedGraph
	for _, g := range graphs {
		if c := g.rated(m); !math.IsInf(c.score, 1) && c.score <= most {
			found = append(found, c)
		}
	}
	slices.SortStableFunc(found, func(x, y ratedGraph) int { return cmp.Compare(x.score, y.score) })
	return found
}

// shownBy returns the nats that the weakest link saves. All links of a known shape stand or fall together.
func (c *ratedGraph) shownBy(sigma float64) float64 {
	if c.known {
		return math.Inf(1)
	}
	far := c.graph.distances()
	if len(c.graph.of) <= climbVertices {
		return c.graph.weakest(far)
	}
	return c.graph.margin(far, sigma)
}

// square returns the latencies with both triangles, in microseconds. Missing measurements are NaN.
func square(m *latency.Matrix) [][]float64 {
	n := m.Len()
	d := make([][]float64, n)
	all := make([]float64, n*n)
	for a := range n {
		d[a], all = all[:n], all[n:]
	}
	for a := range n {
		for b := a + 1; b < n; b++ {
			us := m.At(a, b)
			if !(us > 0) || math.IsInf(us, 0) {
				us = math.NaN()
			}
			d[a][b], d[b][a] = us, us
		}
	}
	return d
}

// graph is vertices, links between them, and the nodes at each vertex.
type graph struct {
	routers
	links  [][2]int
	class  []int     // of each link
	hopUs  []float64 // latency of the links of a class
	baseUs float64   // part of the latency between nodes of any two vertices that belongs to no link
}

// rated describes the matrix by the graph. The score is infinite if the graph cannot be right.
func (g *graph) rated(m *latency.Matrix) ratedGraph {
	none := ratedGraph{candidate: candidate{score: math.Inf(1)}}
	far := g.distances()
	if far == nil || (len(g.links) < len(g.of) && len(g.of) < len(g.at)) {
		return none // not connected, or a tree of switches
	}
	fine := *g
	fine.hopUs = slices.Clone(g.hopUs)
	fine.refine(m, far)
	least := slices.Min(fine.hopUs)
	if fine.baseUs < 0 || least < resolution*(fine.baseUs+least) {
		return none
	}
	far = fine.distances()
	c := candidate{path: func(a, b int) float64 {
		if r, s := fine.at[a], fine.at[b]; r != s {
			return fine.baseUs + far[r][s]
		}
		return fine.baseUs
	}}
	shape := fine.shape(far)
	d := describe(m, c.path)
	c.kind = shape.kind
	c.sigma, c.outliers, c.residual = d.sigma, d.outliers, d.sigma
	c.score = d.nats + fine.structure(shape.known, d.pairs)
	c.network = fine.network(m)
	return ratedGraph{c, &fine, shape.known}
}

// structure is the description length of the graph. A shape that is known needs no more than the order of its vertices.
func (g *graph) structure(known bool, pairs int) float64 {
	vertices, links, classes := len(g.of), len(g.links), len(g.hopUs)
	nats := float64(classes+1) * .5 * math.Log(float64(max(pairs, 2)))
	if len(g.at) > vertices {
		nats += lnFactorial(len(g.at))
		for _, nodes := range g.of {
			nats -= lnFactorial(len(nodes))
		}
	}
	if known {
		return nats + lnFactorial(vertices)
	}
	nats += lnChoose(vertices*(vertices-1)/2, links)
	count := make([]int, classes)
	for _, c := range g.class {
		count[c]++
	}
	for left := links; classes > 0; classes-- {
		nats += lnChoose(left, count[classes-1])
		left -= count[classes-1]
	}
	return nats
}

func lnFactorial(n int) float64 {
	x, _ := math.Lgamma(float64(n) + 1)
	return x
}

// margin returns the nats that the latency between the ends of the weakest link saves.
func (g *graph) margin(far [][]float64, sigma float64) float64 {
	least := math.Inf(1)
	for i, l := range g.links {
		detour := math.Inf(1)
		for c := range g.of {
			if c != l[0] && c != l[1] {
				detour = min(detour, far[l[0]][c]+far[c][l[1]])
			}
		}
		seen, pairs := g.d[l[0]][l[1]]-g.baseUs, float64(len(g.of[l[0]])*len(g.of[l[1]]))
		noise := sigma * (g.baseUs + g.hopUs[g.class[i]])
		with, without := seen-g.hopUs[g.class[i]], seen-detour
		least = min(least, pairs*(without*without-with*with)/(2*noise*noise))
	}
	return max(least, 0)
}

// network returns the graph as a network. Nodes that share a vertex get a switch there.
func (g *graph) network(m *latency.Matrix) *network.Network {
	n := network.New(m.Names())
	vertex := make([]int, len(g.of))
	shared := len(g.of) < m.Len()
	for r, nodes := range g.of {
		vertex[r] = nodes[0]
		if shared {
			vertex[r] = n.AddSwitch("")
			for _, node := range nodes {
				n.AddLink(node, vertex[r], g.baseUs/2)
			}
		}
	}
	if !shared {
		n.BaseUs = g.baseUs
	}
	for i, l := range g.links {
		n.AddLink(vertex[l[0]], vertex[l[1]], g.hopUs[g.class[i]])
	}
	return n
}

// neighbours returns the links at each vertex by their number.
func (g *graph) neighbours() [][]int {
	at := make([][]int, len(g.of))
	for i, l := range g.links {
		at[l[0]] = append(at[l[0]], i)
		at[l[1]] = append(at[l[1]], i)
	}
	return at
}

// distances returns the length of the shortest path between all vertices over the links, or nil if some vertices are
// not connected. The latency of a link is its class's.
func (g *graph) distances() [][]float64 {
	at := g.neighbours()
	far := make([][]float64, len(g.of))
	var heap vertexHeap
	for from := range far {
		row := make([]float64, len(g.of))
		for i := range row {
			row[i] = math.Inf(1)
		}
		row[from] = 0
		reached := 0
		heap.push(from, 0)
		for len(heap) > 0 {
			v, length := heap.pop()
			if length > row[v] {
				continue
			}
			reached++
			for _, i := range at[v] {
				w := g.links[i][0] + g.links[i][1] - v
				if x := length + g.hopUs[g.class[i]]; x < row[w]*(1-1e-12) {
					row[w] = x
					heap.push(w, x)
				}
			}
		}
		if reached < len(row) {
			return nil
		}
		far[from] = row
	}
	return far
}

// vertexHeap holds vertices, the nearest first.
type vertexHeap []struct {
	vertex int
	length float64
}

func (h *vertexHeap) push(vertex int, length float64) {
	*h = append(*h, struct {
		vertex int
		length float64
	}{vertex, length})
	x := *h
	for i := len(x) - 1; i > 0 && x[(i-1)/2].length > x[i].length; i = (i - 1) / 2 {
		x[(i-1)/2], x[i] = x[i], x[(i-1)/2]
	}
}

func (h *vertexHeap) pop() (vertex int, length float64) {
	x := *h
	top := x[0]
	last := len(x) - 1
	x[0] = x[last]
	x = x[:last]
	for i := 0; 2*i+1 < last; {
		child := 2*i + 1
		if child+1 < last && x[child+1].length < x[child].length {
			child++
		}
		if x[i].length <= x[child].length {
			break
		}
		x[i], x[child] = x[child], x[i]
		i = child
	}
	*h = x
	return top.vertex, top.length
}

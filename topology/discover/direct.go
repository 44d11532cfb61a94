package discover

import (
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/latency"
	"github.com/weirhpc/weir/topology/network"
)

// A direct network has no switches, or its switches are no tree: then shortest paths lead over links. Each explanation
// starts from vertices: the nodes, or the routers that nodes without any difference share.

// Bounds that keep the search for links short. More vertices than these are taken for a tree.
const (
	mostVertices  = 4096 // nodes of equal links
	mostRouters   = 512  // routers of links that differ
	mostWithoutBy = 64   // nodes of links that differ, where no router tells the common part of the latencies
	shownMargin   = 3    // nats that each link of a graph without a known shape saves at least
)

// direct returns the network of links that describes a matrix best, and whether there is one that could be right.
func direct(m *latency.Matrix, _ float64) (candidate, bool) {
	best := candidate{score: math.Inf(1)}
	if m.Len() < 4 || m.Len() > mostVertices {
		return best, false
	}
	try := func(c candidate) {
		if c.score < best.score {
			best = c
		}
	}
	d := square(m)
	for _, g := range equalLinks(d) {
		try(g.candidate(m))
	}
	for _, r := range contractions(d) {
		for _, g := range unequalLinks(r) {
			try(g.candidate(m))
		}
	}
	return best, !math.IsInf(best.score, 1)
}

// square returns the latencies with both triangles, in microseconds. What was not measured is NaN.
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
	baseUs float64   // part of the latency between nodes of any two vertices that no link has
}

// candidate describes the matrix by the graph. Its score is infinite where the graph cannot be right.
func (g *graph) candidate(m *latency.Matrix) candidate {
	c := candidate{score: math.Inf(1)}
	far := g.distances()
	if far == nil || len(g.links) < len(g.of) {
		return c // not connected, or a tree
	}
	g.refine(m, far)
	if g.baseUs < 0 || slices.Min(g.hopUs) < resolution*(g.baseUs+slices.Min(g.hopUs)) {
		return c
	}
	far = g.distances()
	c.path = func(a, b int) float64 {
		r, s := g.at[a], g.at[b]
		if r == s {
			return g.baseUs
		}
		return g.baseUs + far[r][s]
	}
	shape := g.shape(far)
	d := describe(m, c.path)
	c.kind = shape.kind
	c.sigma, c.outliers, c.residual = d.sigma, d.outliers, d.sigma
	c.score = d.nats + g.structure(shape.known, d.pairs)
	c.margin = math.Inf(1)
	if !shape.known {
		if c.margin = g.margin(far, d.sigma); c.margin < shownMargin {
			c.score = math.Inf(1)
		}
	}
	c.network = g.network(m)
	return c
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

// margin returns what the latency between the ends of the weakest link saves, in nats.
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

// distances returns the length of the shortest path between all vertices over the links, or nil if there is none for
// some. A latency of a link is that of its class.
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

package network

import (
	"fmt"
	"math"
	"slices"
)

// treePaths are the paths of a tree.
type treePaths struct {
	rooted
	nodes int
	depth []int
	path  []int     // of links
	below []float64 // how many nodes are below each vertex, with itself
	deep  []float64 // of normal: the way from the root
	sum   []float64 // of normal: of deep over the nodes below
	apart []float64 // of normal: of deep at the vertices where the paths to nodes elsewhere turn
}

func newTreePaths(n *Network) *treePaths {
	root := 0
	if len(n.Names) > n.Nodes {
		root = n.Nodes
	}
	t := &treePaths{rooted: walk(n.neighbours(), root), nodes: n.Nodes, depth: make([]int, len(n.Names))}
	for _, part := range []*[]float64{&t.below, &t.deep, &t.sum, &t.apart} {
		*part = make([]float64, len(n.Names))
	}
	for _, v := range t.order[1:] {
		t.depth[v] = t.depth[t.parent[v]] + 1
	}
	for _, v := range slices.Backward(t.order) {
		if v < n.Nodes {
			t.below[v]++
		}
		if p := t.parent[v]; p >= 0 {
			t.below[p] += t.below[v]
		}
	}
	return t
}

func (t *treePaths) unique(int, int) bool { return true }

func (t *treePaths) links(a, b int) []int {
	t.path = t.path[:0]
	for a != b {
		if t.depth[a] < t.depth[b] {
			a, b = b, a
		}
		t.path = append(t.path, t.up[a])
		a = t.parent[a]
	}
	return t.path
}

// normal applies the normal equations of all pairs in linear time. The value of the link above v is the sum of the
// paths between nodes below v and other nodes. A path is deep(a) + deep(b) - 2 deep(turn), so three sums give it.
// TestCorrectAsQR pins it.
func (t *treePaths) normal(out, x []float64) {
	clear(out)
	clear(t.sum)
	all := float64(t.nodes)
	for _, v := range t.order[1:] {
		t.deep[v] = t.deep[t.parent[v]] + x[t.up[v]]
	}
	for _, v := range slices.Backward(t.order) {
		if v < t.nodes {
			t.sum[v] += t.deep[v]
		}
		if p := t.parent[v]; p >= 0 {
			t.sum[p] += t.sum[v]
		}
	}
	total := t.sum[t.order[0]]
	for _, v := range t.order[1:] {
		p := t.parent[v]
		t.apart[v] = t.apart[p] + (t.below[p]-t.below[v])*t.deep[p]
		inside := t.below[v]
		out[t.up[v]] = (all-inside)*t.sum[v] + inside*(total-t.sum[v]) - 2*inside*t.apart[v]
	}
}

// graphPaths are the shortest paths of any network.
type graphPaths struct {
	vertices     int
	parent, link []int32 // of each vertex on the way to each node
	many         []bool  // whether another path is about as short
	path         []int   // of links
}

// maxGraph bounds the paths that are kept: nodes times vertices. 5,000 routers with a node each fit.
const maxGraph = 25_000_000

// newGraphPaths finds the shortest paths by latency. Without latencies it counts links. Two paths are about as long if
// they differ by less than half the smallest link.
func newGraphPaths(n *Network) (*graphPaths, error) {
	if n.Nodes*len(n.Names) > maxGraph {
		return nil, fmt.Errorf("%d nodes of a network that is no tree: at most 5000 can be corrected", n.Nodes)
	}
	weighed, smallest := n.copy(), math.Inf(1)
	unknown := slices.ContainsFunc(n.Links, func(l Link) bool { return math.IsNaN(l.LatencyUs) })
	for i := range weighed.Links {
		l := &weighed.Links[i]
		if unknown {
			l.LatencyUs = 1
		}
		if l.LatencyUs > 0 {
			smallest = min(smallest, l.LatencyUs)
		}
	}
	size := n.Nodes * len(n.Names)
	g := &graphPaths{
		vertices: len(n.Names), parent: make([]int32, size), link: make([]int32, size), many: make([]bool, size),
	}
	ends := n.neighbours()
	for a := range n.Nodes {
		g.from(weighed, ends, a, smallest/2)
	}
	return g, nil
}

// from fills in the paths to one node.
func (g *graphPaths) from(n *Network, ends [][]end, a int, near float64) {
	s, row := n.shortest(ends, a), a*g.vertices
	for v := range g.vertices {
		g.many[row+v] = true // unless it is reached
	}
	g.many[row+a] = false
	for _, v := range s.order[1:] {
		before := s.via[v]
		many := g.many[row+before.vertex]
		for _, e := range ends[v] {
			other := e.vertex != before.vertex && s.via[e.vertex].vertex != v
			many = many || other && s.far[e.vertex]+n.Links[e.link].LatencyUs < s.far[v]+near
		}
		g.parent[row+v], g.link[row+v], g.many[row+v] = int32(before.vertex), int32(before.link), many
	}
}

func (g *graphPaths) unique(a, b int) bool { return !g.many[a*g.vertices+b] }

func (g *graphPaths) links(a, b int) []int {
	g.path = g.path[:0]
	for row := a * g.vertices; b != a; b = int(g.parent[row+b]) {
		g.path = append(g.path, int(g.link[row+b]))
	}
	return g.path
}

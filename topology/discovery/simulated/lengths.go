package simulated

import (
	"math"

	"github.com/weirhpc/weir/topology/discovery/network"
)

// lengths knows how far two nodes are from each other, in microseconds.
type lengths interface {
	between(a, b int) float64
}

// lengthsOf prepares quick answers: it keeps parents for a tree, and all distances for any other network.
func lengthsOf(n *network.Network) lengths {
	if n.IsTree() && n.Nodes < len(n.Names) {
		return climbed(n)
	}
	t := &table{us: make([][]float64, n.Nodes)}
	for a := range n.Nodes {
		t.us[a] = n.Distances(a)
	}
	return t
}

// table holds all distances.
type table struct{ us [][]float64 }

func (t *table) between(a, b int) float64 { return t.us[a][b] }

// climb is a tree by parents. Ten thousand nodes have fifty million distances, which need not be kept.
type climb struct {
	parent []int
	depth  []int
	down   []float64 // from the root
	base   float64
}

// climbed roots a tree at a switch.
func climbed(n *network.Network) *climb {
	ends := make([][]int, len(n.Names))
	for i, l := range n.Links {
		ends[l.A] = append(ends[l.A], i)
		ends[l.B] = append(ends[l.B], i)
	}
	c := &climb{
		parent: make([]int, len(n.Names)), depth: make([]int, len(n.Names)), down: make([]float64, len(n.Names)),
		base: n.BaseUs,
	}
	c.parent[n.Nodes] = -1
	for stack := []int{n.Nodes}; len(stack) > 0; {
		v := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, i := range ends[v] {
			l := n.Links[i]
			if w := l.A + l.B - v; w != c.parent[v] {
				c.parent[w], c.depth[w], c.down[w] = v, c.depth[v]+1, c.down[v]+l.LatencyUs
				stack = append(stack, w)
			}
		}
	}
	return c
}

func (c *climb) between(a, b int) float64 {
	x, y := a, b
	for x != y {
		if c.depth[x] >= c.depth[y] {
			x = c.parent[x]
		} else {
			y = c.parent[y]
		}
	}
	return math.Max(0, c.down[a]+c.down[b]-2*c.down[x]) + c.base
}

package discover

import (
	"math"
	"slices"
)

// tree is a rooted tree. Its leaves are the nodes 0…leaves-1. The other vertices are switches. The level of a switch is
// the latency across it, in the unit of the values that the tree was built from.
type tree struct {
	leaves   int
	root     int
	parent   []int
	children [][]int
	level    []float64
	sigma    []float64 // noise of the values across each switch

	order  []int // leaves, each switch's in one range
	lo, hi []int // range in order of each vertex
}

// star returns a tree of one switch.
func star(leaves int) *tree {
	t := &tree{leaves: leaves, root: leaves}
	t.grow(leaves + 1)
	for v := range leaves {
		t.hang(v, leaves)
	}
	t.arrange()
	return t
}

func (t *tree) grow(size int) {
	for len(t.parent) < size {
		t.parent = append(t.parent, -1)
		t.children = append(t.children, nil)
		t.level = append(t.level, 0)
		t.sigma = append(t.sigma, 0)
	}
}

func (t *tree) hang(v, under int) {
	t.parent[v] = under
	t.children[under] = append(t.children[under], v)
}

// dissolve gives the children of a switch to its parent.
func (t *tree) dissolve(v int) {
	p := t.parent[v]
	if i := slices.Index(t.children[p], v); i >= 0 {
		t.children[p] = slices.Delete(t.children[p], i, i+1)
	}
	for _, c := range t.children[v] {
		t.hang(c, p)
	}
	t.children[v], t.parent[v] = nil, -1
}

// move hangs a leaf under another switch.
func (t *tree) move(leaf, under int) {
	p := t.parent[leaf]
	i := slices.Index(t.children[p], leaf)
	t.children[p] = slices.Delete(t.children[p], i, i+1)
	t.hang(leaf, under)
}

// switches returns the switches, each before its parent.
func (t *tree) switches() []int {
	found := []int{t.root}
	for i := 0; i < len(found); i++ {
		for _, c := range t.children[found[i]] {
			if c >= t.leaves {
				found = append(found, c)
			}
		}
	}
	slices.Reverse(found)
	return found
}

// arrange dissolves switches of one child or none, numbers the switches anew, and orders the leaves.
func (t *tree) arrange() {
	for _, v := range t.switches() {
		if v != t.root && len(t.children[v]) < 2 {
			t.dissolve(v)
		}
	}
	for len(t.children[t.root]) == 1 && t.children[t.root][0] >= t.leaves {
		t.dissolve(t.children[t.root][0])
	}
	t.number()
	t.order = t.order[:0]
	t.lo, t.hi = make([]int, len(t.parent)), make([]int, len(t.parent))
	t.visit(t.root)
}

// number renumbers the switches without gaps, the root last.
func (t *tree) number() {
	switches := t.switches()
	fresh := &tree{leaves: t.leaves, order: t.order}
	fresh.grow(t.leaves + len(switches))
	of := map[int]int{}
	for i, v := range switches {
		of[v] = t.leaves + i
	}
	for i, v := range switches {
		w := t.leaves + i
		fresh.level[w], fresh.sigma[w] = t.level[v], t.sigma[v]
		for _, c := range t.children[v] {
			if c >= t.leaves {
				c = of[c]
			}
			fresh.hang(c, w)
		}
	}
	fresh.root = of[t.root]
	*t = *fresh
}

func (t *tree) visit(v int) {
	// A tree of nodes that are chained is deep, but not deeper than its switches: recursion is bounded by n.
	t.lo[v] = len(t.order)
	if v < t.leaves {
		t.order = append(t.order, v)
	}
	for _, c := range t.children[v] {
		t.visit(c)
	}
	t.hi[v] = len(t.order)
}

func (t *tree) size(v int) int { return t.hi[v] - t.lo[v] }

// below returns the leaves of a vertex.
func (t *tree) below(v int) []int { return t.order[t.lo[v]:t.hi[v]] }

// across calls f with each leaf of a switch and the leaves of the children after its own. Each pair that meets at the
// switch comes once.
func (t *tree) across(v int, f func(a int, others []int)) {
	for _, c := range t.children[v] {
		others := t.order[t.hi[c]:t.hi[v]]
		if len(others) == 0 {
			continue
		}
		for _, a := range t.below(c) {
			f(a, others)
		}
	}
}

// meet returns the lowest common switch of two leaves.
func (t *tree) meet(a, b int) int {
	v := t.parent[a]
	for pos := t.lo[b]; pos < t.lo[v] || pos >= t.hi[v]; {
		v = t.parent[v]
	}
	return v
}

func (t *tree) clone() *tree {
	c := *t
	c.parent, c.level, c.sigma = slices.Clone(t.parent), slices.Clone(t.level), slices.Clone(t.sigma)
	c.order, c.lo, c.hi = slices.Clone(t.order), slices.Clone(t.lo), slices.Clone(t.hi)
	c.children = make([][]int, len(t.children))
	for i := range c.children {
		c.children[i] = slices.Clone(t.children[i])
	}
	return &c
}

// inner returns the number of inner links.
func (t *tree) inner() int {
	switches := len(t.parent) - t.leaves
	if len(t.children[t.root]) == 2 {
		switches--
	}
	return max(0, switches-1)
}

// lnChoose returns the ln of the number of ways to choose k of n.
func lnChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

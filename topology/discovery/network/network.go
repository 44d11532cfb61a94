// Package network holds the model of a network: nodes, switches, and links with their latency and throughput. It reads
// and writes the forms of a model, compares two models, joins them and corrects their latencies. It is pure.
package network

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Network is nodes and switches, and the links between them.
type Network struct {
	Names []string // of the vertices: the nodes first, in the order of the matrix, then the switches
	Nodes int      // how many vertices are nodes
	Links []Link

	Root   int     // the switch at the top, if the source names one; the number of a node: unknown
	BaseUs float64 // part of each latency between two nodes that belongs to no link, as the work of both ends
}

// Link joins two vertices. A is below B.
type Link struct {
	A, B int

	LatencyUs  float64 // one way, in microseconds; NaN: unknown
	Throughput float64 // in MB/s, 10^6 bytes a second; NaN: unknown
}

// errNothing is returned for a network without nodes.
var errNothing = errors.New("the network has no nodes")

// New returns a network of nodes without links.
func New(nodes []string) *Network {
	return &Network{Names: append([]string(nil), nodes...), Nodes: len(nodes)}
}

// AddSwitch adds a switch and returns its number. Writers name a switch without a name.
func (n *Network) AddSwitch(name string) int {
	n.Names = append(n.Names, name)
	return len(n.Names) - 1
}

// AddLink adds a link of unknown throughput.
func (n *Network) AddLink(a, b int, latencyUs float64) {
	n.Links = append(n.Links, Link{A: min(a, b), B: max(a, b), LatencyUs: latencyUs, Throughput: math.NaN()})
}

// IsSwitch reports whether a vertex is a switch.
func (n *Network) IsSwitch(v int) bool { return v >= n.Nodes }

// Numbered returns the names n0, n1 and so on, for nodes without names.
func Numbered(nodes int) []string {
	names := make([]string, nodes)
	for i := range names {
		names[i] = "n" + strconv.Itoa(i)
	}
	return names
}

// isNumbered reports whether the nodes have no names of their own.
func (n *Network) isNumbered() bool { return slices.Equal(n.Names[:n.Nodes], Numbered(n.Nodes)) }

// end is one end of a link as its other end sees it.
type end struct{ vertex, link int }

// neighbours returns the links at each vertex, in ascending order of the vertices at their other ends.
func (n *Network) neighbours() [][]end {
	degree := make([]int, len(n.Names))
	for _, l := range n.Links {
		degree[l.A]++
		degree[l.B]++
	}
	ends, all := make([][]end, len(n.Names)), make([]end, 2*len(n.Links))
	for v, d := range degree {
		ends[v], all = all[:0:d], all[d:]
	}
	for i, l := range n.Links {
		ends[l.A] = append(ends[l.A], end{l.B, i})
		ends[l.B] = append(ends[l.B], end{l.A, i})
	}
	for _, e := range ends {
		slices.SortFunc(e, func(a, b end) int { return cmp.Compare(a.vertex, b.vertex) })
	}
	return ends
}

// IsTree reports whether the network is one tree of switches with the nodes as leaves. A single node is one, and so are
// two nodes with a link between them.
func (n *Network) IsTree() bool { return n.whyNoTree() == nil }

// whyNoTree returns the reason why the network is no tree of switches, nil if it is one.
func (n *Network) whyNoTree() error {
	if n.Nodes == 0 {
		return errNothing
	}
	ends := n.neighbours()
	for v := range n.Nodes {
		if len(ends[v]) > 1 {
			return fmt.Errorf("not a tree of switches: node %s has %d links", n.Names[v], len(ends[v]))
		}
	}
	if len(walk(ends, 0).order) < len(n.Names) {
		return fmt.Errorf("not a tree of switches: %d of %d nodes and switches are not connected with %s",
			len(n.Names)-len(walk(ends, 0).order), len(n.Names), n.Names[0])
	}
	if len(n.Links) >= len(n.Names) {
		return fmt.Errorf("not a tree of switches: %d links between %d nodes and switches make a cycle",
			len(n.Links), len(n.Names))
	}
	return nil
}

// rooted is a network as it is seen from one vertex.
type rooted struct {
	order  []int // vertices that can be reached, each after its parent
	parent []int // -1: the root, or not reached
	up     []int // the link to the parent
}

// walk goes through a network in breadth.
func walk(ends [][]end, root int) rooted {
	t := rooted{parent: make([]int, len(ends)), up: make([]int, len(ends))}
	seen := make([]bool, len(ends))
	for v := range ends {
		t.parent[v], t.up[v] = -1, -1
	}
	t.order, seen[root] = append(t.order, root), true
	for i := 0; i < len(t.order); i++ {
		v := t.order[i]
		for _, e := range ends[v] {
			if !seen[e.vertex] {
				seen[e.vertex] = true
				t.parent[e.vertex], t.up[e.vertex] = v, e.link
				t.order = append(t.order, e.vertex)
			}
		}
	}
	return t
}

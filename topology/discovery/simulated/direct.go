package simulated

import (
	"slices"

	"github.com/weirhpc/weir/topology/discovery/network"
)

// Latencies of the links of the networks below, in microseconds.
const (
	hopUs = 1.0 // between two nodes of a direct network

	routerUs = .5  // between a node and its router of a dragonfly
	localUs  = .25 // between two routers of a group
	globalUs = .6  // between two groups

	coreUs  = .575 // between a core and its processor of a Blizzard node, type A
	blockUs = .15  // between two processors of a block, type B
	crossUs = .55  // between two processors of different blocks, type C
)

// Ring returns nodes in a ring, one microsecond a hop, as Line, Torus and Hypercube.
func Ring(nodes int) *network.Network { return grid([]int{nodes}, true) }

// Line returns nodes in a line.
func Line(nodes int) *network.Network { return grid([]int{nodes}, false) }

// Mesh returns nodes in a grid without links between its opposite ends.
func Mesh(sides ...int) *network.Network { return grid(sides, false) }

// Torus returns nodes in a grid with links between its opposite ends.
func Torus(sides ...int) *network.Network { return grid(sides, true) }

// Hypercube returns 2 to the power of dimensions nodes.
func Hypercube(dimensions int) *network.Network {
	return grid(slices.Repeat([]int{2}, dimensions), false)
}

// grid joins the neighbours along each side. The last side counts fastest.
func grid(sides []int, closed bool) *network.Network {
	nodes := 1
	for _, side := range sides {
		nodes *= side
	}
	n := network.New(network.Numbered(nodes))
	stride := 1
	for _, side := range slices.Backward(sides) {
		for v := range nodes {
			switch at := v / stride % side; {
			case at+1 < side:
				n.AddLink(v, v+stride, hopUs)
			case closed && side > 2: // a side of two has one link, not two
				n.AddLink(v, v-at*stride, hopUs)
			}
		}
		stride *= side
	}
	n.Root = 0
	return n
}

// Complete returns nodes with a link between every two.
func Complete(nodes int) *network.Network {
	n := network.New(network.Numbered(nodes))
	for a := range nodes {
		for b := a + 1; b < nodes; b++ {
			n.AddLink(a, b, hopUs)
		}
	}
	return n
}

// WithBase returns the network with a latency that is part of each pair's, in microseconds.
func WithBase(n *network.Network, us float64) *network.Network {
	n.BaseUs = us
	return n
}

// Dragonfly returns groups of routers, and nodes on each router. The routers of a group are joined with each other.
// Each two groups have one link. The global links of a group are spread over its routers.
func Dragonfly(groups, routers, nodes int) *network.Network {
	n := network.New(network.Numbered(groups * routers * nodes))
	for r := range groups * routers {
		s := n.AddSwitch("")
		for k := range nodes {
			n.AddLink(r*nodes+k, s, routerUs)
		}
	}
	router := func(group, r int) int { return n.Nodes + group*routers + r }
	each := (groups - 2 + routers) / routers // global links of a router
	for g := range groups {
		for a := range routers {
			for b := a + 1; b < routers; b++ {
				n.AddLink(router(g, a), router(g, b), localUs)
			}
		}
		for other := g + 1; other < groups; other++ {
			n.AddLink(router(g, (other-g-1)/each), router(other, (groups+g-other-1)/each), globalUs)
		}
	}
	return n
}

// SwitchRing returns switches in a ring with nodes on each. Figure 2.13 of the thesis shows four switches.
func SwitchRing(switches, nodes int) *network.Network {
	n := network.New(network.Numbered(switches * nodes))
	for s := range switches {
		n.AddSwitch("")
		for k := range nodes {
			n.AddLink(s*nodes+k, n.Nodes+s, .5)
		}
	}
	for s := range switches {
		if next := (s + 1) % switches; next != s && (switches > 2 || s == 0) {
			n.AddLink(n.Nodes+s, n.Nodes+next, 1)
		}
	}
	return n
}

// TwoWays returns a switch with nodes of which two have a link of their own too, as in figure 2.12 of the thesis. The
// link is as fast as the way over the switch, so latencies cannot show it.
func TwoWays(nodes int) *network.Network {
	n := Star(nodes)
	n.AddLink(0, 1, 2*n.Links[0].LatencyUs)
	return n
}

// Blizzard returns a node of the supercomputer Blizzard as figure 3.2 of the thesis describes it: 16 processors of two
// cores in four blocks. The processors of a block are joined with each other, which makes 24 links. Each has two links
// to other blocks, which makes 16. The text does not give the figure's choice of these 16, so it is made up: each two
// blocks are joined by two or three.
func Blizzard() *network.Network {
	const processors, cores, block = 16, 2, 4
	n := network.New(network.Numbered(processors * cores))
	for p := range processors {
		s := n.AddSwitch("")
		for k := range cores {
			n.AddLink(p*cores+k, s, coreUs)
		}
	}
	processorLinks(n, n.Nodes, block)
	return n
}

// BlizzardProcessors returns the processors of Blizzard alone: the network behind table 3.9 of the thesis.
func BlizzardProcessors() *network.Network {
	n := network.New(network.Numbered(16))
	processorLinks(n, 0, 4)
	return n
}

// processorLinks joins 16 vertices from a first one on.
func processorLinks(n *network.Network, first, block int) {
	at := func(b, p int) int { return first + b*block + p }
	for b := range 4 {
		for p := range block {
			for q := p + 1; q < block; q++ {
				n.AddLink(at(b, p), at(b, q), blockUs)
			}
		}
	}
	for _, joined := range []struct{ a, b, p int }{
		{0, 1, 0},
		{0, 1, 1},
		{0, 1, 3},
		{2, 3, 0},
		{2, 3, 1},
		{2, 3, 3},
		{0, 2, 0},
		{0, 2, 2},
		{0, 2, 3},
		{1, 3, 0},
		{1, 3, 2},
		{1, 3, 3},
		{0, 3, 1},
		{0, 3, 2},
		{1, 2, 1},
		{1, 2, 2},
	} {
		n.AddLink(at(joined.a, joined.p), at(joined.b, joined.p), crossUs)
	}
}

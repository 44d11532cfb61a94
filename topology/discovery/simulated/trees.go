package simulated

import (
	"math"
	"math/rand/v2"

	"github.com/weirhpc/weir/topology/discovery/network"
)

// levelsUs are the latencies of two nodes with their lowest common switch on level 1, 2 and so on, in microseconds.
var levelsUs = []float64{1, 1.4, 1.8, 2.2, 2.6, 3, 3.4, 3.8}

// minEdgeUs is the latency of a link between levels if the latencies do not rise.
const minEdgeUs = .01

// Tree returns a tree with the same number of children on each level, from the top. So 4, 8, 8 are four pods of eight
// switches of eight nodes. The first latency, in microseconds, is that between nodes of one switch on the lowest level.
// The next one is that across a switch of the level above. Without any, they are 1, 1.4, 1.8 and so on.
func Tree(fanOuts []int, latenciesUs ...float64) *network.Network {
	return grow(fanOuts, latenciesUs, func(fanOut int) int { return fanOut })
}

// UnevenTree returns a tree with uneven numbers of children: between half and one and a half of the given ones, and at
// least two.
func UnevenTree(fanOuts []int, seed uint64, latenciesUs ...float64) *network.Network {
	draw := rand.New(rand.NewPCG(seed, 3))
	return grow(fanOuts, latenciesUs, func(fanOut int) int {
		return max(2, int(math.Round(float64(fanOut)*(.5+draw.Float64()))))
	})
}

// Star returns nodes on one switch.
func Star(nodes int) *network.Network { return Tree([]int{nodes}) }

// grow builds a tree from the top. children returns the number of children of a switch.
func grow(fanOuts []int, latenciesUs []float64, children func(fanOut int) int) *network.Network {
	if len(latenciesUs) == 0 {
		latenciesUs = levelsUs
	}
	g := grown{fanOuts: fanOuts, latenciesUs: latenciesUs, children: children}
	g.branch(-1, 0)
	n := network.New(network.Numbered(g.leaves))
	for range g.switches {
		n.AddSwitch("")
	}
	for _, e := range g.edges {
		n.AddLink(g.vertex(e.from), g.vertex(e.to), e.us)
	}
	n.Root = n.Nodes
	return n
}

// grown is a tree under construction. Leaves are numbered from 0, and switches from -1 downwards.
type grown struct {
	fanOuts          []int
	latenciesUs      []float64
	children         func(fanOut int) int
	leaves, switches int
	edges            []edge
}

type edge struct {
	from, to int
	us       float64
}

func (g *grown) vertex(v int) int {
	if v < 0 {
		return g.leaves - v - 1
	}
	return v
}

// branch adds a switch on a level from the top, and all below it.
func (g *grown) branch(self, level int) {
	g.switches++
	height := len(g.fanOuts) - level // 1: its children are nodes
	for range g.children(g.fanOuts[level]) {
		if height == 1 {
			g.edges = append(g.edges, edge{self, g.leaves, g.latenciesUs[0] / 2})
			g.leaves++
			continue
		}
		child := -g.switches - 1
		us := (g.latenciesUs[height-1] - g.latenciesUs[height-2]) / 2
		g.edges = append(g.edges, edge{self, child, max(minEdgeUs, us)})
		g.branch(child, level+1)
	}
}

// Partition returns figure 2.21 of the thesis: a switch in the middle of five, which have 2, 3, 3, 4 and 6 nodes.
func Partition() *network.Network {
	sizes := []int{2, 3, 3, 4, 6}
	n := network.New(network.Numbered(18))
	middle, node := n.AddSwitch(""), 0
	for _, size := range sizes {
		s := n.AddSwitch("")
		n.AddLink(middle, s, .2)
		for range size {
			n.AddLink(node, s, .5)
			node++
		}
	}
	n.Root = middle
	return n
}

// Westmere returns the cluster of figure 3.1 of the thesis: ten nodes on one switch, each with two sockets of six
// cores. Its inter-node latencies are near table 3.5.
func Westmere() *network.Network {
	const nodes, sockets, cores = 10, 2, 6
	n := network.New(network.Numbered(nodes * sockets * cores))
	middle, core := n.AddSwitch(""), 0
	for range nodes {
		node := n.AddSwitch("")
		n.AddLink(middle, node, 26)
		for range sockets {
			socket := n.AddSwitch("")
			n.AddLink(node, socket, .3)
			for range cores {
				n.AddLink(core, socket, .3)
				core++
			}
		}
	}
	n.Root = middle
	return n
}

// kinds returns nodes of two kinds on one switch, as in 2.2.5 of the thesis. Nodes of the second kind are slower.
func kinds(first, second int) *network.Network {
	n := Star(first + second)
	for i := range n.Links {
		if n.Links[i].A >= first {
			n.Links[i].LatencyUs *= 2
		}
	}
	return n
}

package schedule

import (
	"errors"
	"math"

	"github.com/weirhpc/weir/topology/discovery/network"
)

// errNoTree is returned for a network with cycles, since finding its bisection takes exponential time.
var errNoTree = errors.New("the bisection is computed for trees only")

// Bisection returns the bisection bandwidth of a tree in MB/s: the least throughput between two halves of the nodes.
// One half has a node more if their number is odd. It is NaN if the throughput of a link is unknown. It takes time in
// the square of the number of nodes. TestBisection pins it against all divisions.
func Bisection(net *network.Network) (float64, error) {
	if !net.IsTree() {
		return math.NaN(), errNoTree
	}
	b := &bisection{net: net, ends: endsOf(net)}
	costs := b.below(len(net.Names)-1, -1)
	half := net.Nodes / 2
	return min(costs[0][half], costs[1][half]), nil
}

// bisection computes the cheapest division below each vertex.
type bisection struct {
	net  *network.Network
	ends [][]linkEnd
}

// below returns the cost of the cheapest division of the subtree below a vertex. The first index is the side of the
// vertex, the second the number of nodes on the first side.
func (b *bisection) below(v, up int) [2][]float64 {
	costs := [2][]float64{{0}, {0}}
	if !b.net.IsSwitch(v) {
		costs = [2][]float64{{math.Inf(1), 0}, {0, math.Inf(1)}}
	}
	for _, e := range b.ends[v] {
		if e.link == up {
			continue
		}
		child, cut := b.below(e.vertex, e.link), b.net.Links[e.link].Throughput
		costs = [2][]float64{join(costs[0], child[0], child[1], cut), join(costs[1], child[1], child[0], cut)}
	}
	return costs
}

// join adds a branch, which is on the same side as the vertex or costs a cut.
func join(costs, same, other []float64, cut float64) []float64 {
	joined := make([]float64, len(costs)+len(same)-1)
	for i := range joined {
		joined[i] = math.Inf(1)
	}
	for i, cost := range costs {
		for j := range same {
			joined[i+j] = min(joined[i+j], cost+same[j], cost+other[j]+cut)
		}
	}
	return joined
}

// Package discover finds the network behind latencies: its switches, or the links between its nodes. It is pure. Build
// needs no parameter, and its result states its own confidence.
package discover

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
)

// Kinds of networks.
const (
	kindTree      = "tree"      // switches below switches; one switch is a star
	kindDirect    = "direct"    // links between nodes, of any shape
	kindRing      = "ring"      // direct
	kindTorus     = "torus"     // direct
	kindHypercube = "hypercube" // direct
	kindDragonfly = "dragonfly" // routers in groups, and links between groups
	kindMixed     = "mixed"     // switches, and direct links between them
)

// Levels of confidence.
const (
	High = "high" // every switch and link is shown by the latencies
	Low  = "low"  // Reasons list the doubts
)

// Confidence states how certain a result is.
type Confidence struct {
	Level    string   `json:"level"`
	Margin   float64  `json:"margin_nats"` // of the weakest switch: nats that it saves in the description
	Residual float64  `json:"residual"`    // relative RMS between the latencies and the model's
	Noise    float64  `json:"noise"`       // residual that noise alone makes, from repeats or from the fit
	Reasons  []string `json:"reasons"`     // why the level is low; empty if it is high
}

// Result is a network, with its kind and confidence.
type Result struct {
	Network    *network.Network
	Kind       string
	Offsets    bool // nodes differ by an offset of their own, as with different hardware
	Confidence Confidence
	Suspects   []latency.Pair // pairs with a latency that does not fit the rest: worth measuring again, worst first
}

// errFew is returned when there are too few nodes to build from.
var errFew = errors.New("at least two nodes are needed")

// Build returns the network that describes a matrix best: a tree of switches, or a network of another kind. It needs a
// latency for most pairs; with fewer, its confidence is low.
func Build(m *latency.Matrix) (Result, error) {
	if m.Len() < 2 {
		return Result{}, errFew
	}
	if alive := answered(m); len(alive) < m.Len() {
		return buildAnswered(m, alive)
	}
	if err := connected(m); err != nil {
		return Result{}, err
	}
	tree := buildTree(m)
	best, rival := tree, math.Inf(1)
	if !tree.explains(m) {
		other, ok := direct(m, tree.score)
		switch {
		case !ok || dense(other.network):
		case other.score < tree.score-simplerBy:
			best, rival = other, tree.score
		default:
			// Of two that are as good, switches are simpler: the tree is in doubt only if it is the worse one.
			rival = other.score + leastMargin
		}
	}
	return best.result(m, rival), nil
}

const (
	simplerBy = 5  // nats by which a network of links must describe better than a tree of switches
	noTree    = .4 // share of outliers that no disturbance makes: latencies have other levels
	fewNodes  = 40 // so few nodes have too few residuals to see whether a tree explains them
)

// explains reports whether a tree leaves only noise. If so, Build skips the search for a network of links, which takes
// long. Links between nodes cause latencies that no tree explains, and these residuals are similar at neighbours.
func (c candidate) explains(m *latency.Matrix) bool {
	if m.Len() <= fewNodes || c.outliers > noTree {
		return false
	}
	r, sure := c.correlation(m, c.residuals(m))
	return !sure || r < mostCorrelation/2
}

// dense reports whether most pairs of a network are linked. Nobody builds such a network of many nodes. But nearly
// equal latencies look like it, and so does a star with outliers.
func dense(net *network.Network) bool {
	const small = 8
	vertices, links := len(net.Names), len(net.Links)
	if vertices > net.Nodes { // routers, and one link at each node
		vertices, links = vertices-net.Nodes, links-net.Nodes
	}
	return vertices > small && links > vertices*(vertices-1)/4
}

// connected returns an error that names a node which no measured pair joins to the first.
func connected(m *latency.Matrix) error {
	n := m.Len()
	seen := make([]bool, n)
	seen[0] = true
	todo := []int{0}
	for left := n - 1; len(todo) > 0 && left > 0; {
		a := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for b := range n {
			if !seen[b] && m.At(a, b) > 0 {
				seen[b] = true
				left--
				todo = append(todo, b)
			}
		}
	}
	if alone := slices.Index(seen, false); alone >= 0 {
		return fmt.Errorf("no measured latency connects node %s to node %s: measure a pair between them",
			m.Names()[alone], m.Names()[0])
	}
	return nil
}

// buildTree returns the tree that describes a matrix best.
func buildTree(m *latency.Matrix) candidate {
	v := logarithms(m)
	plain := search(m, v)
	best := plain
	if wantsOffsets(v, best) {
		if with := searchOffsets(m, v, best.tree); with.score < best.score {
			best = with
		}
	}
	best.weigh()
	if v.n < shownFrom {
		best = few(m, v, plain)
	}
	found := best.candidate(m)
	if d := describe(m, found.path); d.nats < best.nats {
		found.score += d.nats - best.nats
		found.sigma, found.residual, found.outliers = d.sigma, d.sigma, d.outliers
	}
	return found
}

// shownFrom is the least number of nodes that can show a switch by a few nats. Four nodes have six latencies, and a
// tree with offsets has five links, so noise makes switches.
const shownFrom = 6

// few returns the tree of few nodes: a star, or the tree without offsets if it describes them better and is clear.
func few(m *latency.Matrix, v *values, plain fitted) fitted {
	one := star(v.n)
	best := rate(m, v, one)
	if with := rate(m, v.without(one.backFit(v, rowOffsets(v, .5), 2*offsetTurns)), one); with.score < best.score {
		best = with
	}
	if plain.weigh(); plain.margin >= leastMargin && plain.score < best.score {
		best = plain
	}
	best.weigh()
	return best
}

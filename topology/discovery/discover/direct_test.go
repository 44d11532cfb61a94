package discover

import (
	"math"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/simulated"
)

// directCase is a network without a tree, its noise, and what is found of it.
type directCase struct {
	name  string
	net   *network.Network
	noise simulated.Noise
	kind  string
}

// found builds from a made-up matrix and compares with the network that it is of.
func (c directCase) found(t *testing.T, seed uint64) {
	net := simulated.Shuffled(c.net, seed)
	got, err := Build(simulated.Matrix(net, c.noise, seed))
	if err != nil {
		t.Fatal(err)
	}
	if !network.Equal(got.Network, net) {
		t.Errorf("%s, seed %d: %s %+v: %+v", c.name, seed, got.Kind, got.Confidence,
			network.Compare(got.Network, net))
	}
	if got.Kind != c.kind {
		t.Errorf("%s, seed %d: a %s, want a %s", c.name, seed, got.Kind, c.kind)
	}
}

// TestDirect finds the links of networks without switches, with and without work at the ends of a path.
func TestDirect(t *testing.T) {
	hop := func(share float64) simulated.Noise { return simulated.Noise{AdditiveUs: share} }
	for _, c := range []directCase{
		{"ring", simulated.Ring(32), hop(.2), kindRing},
		{"odd ring", simulated.WithBase(simulated.Ring(33), 5), hop(.2), kindRing},
		{"torus", simulated.WithBase(simulated.Torus(8, 8), 5), hop(.2), kindTorus + " 8x8"},
		{"torus of three sides", simulated.Torus(5, 5, 5), hop(.2), kindTorus + " 5x5x5"},
		{
			"torus with outliers", simulated.WithBase(simulated.Torus(8, 8), 2),
			simulated.Noise{AdditiveUs: .1, Outliers: .01},
			kindTorus + " 8x8",
		},
		{"hypercube", simulated.WithBase(simulated.Hypercube(6), 5), hop(.2), kindHypercube},
		{"line", simulated.Line(12), hop(.05), kindDirect},
		{"mesh", simulated.Mesh(5, 6), hop(.05), kindDirect},
	} {
		c.found(t, 1)
	}
}

// TestCompleteIsStar prefers one switch to links between all nodes: the latencies are the same.
func TestCompleteIsStar(t *testing.T) {
	got, err := Build(simulated.Matrix(simulated.Complete(12), simulated.Noise{Sigma: .02}, 1))
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != kindTree || len(got.Network.Links) != 12 {
		t.Errorf("a %s with %d links", got.Kind, len(got.Network.Links))
	}
}

// TestDirectIsNoTree finds no links between nodes in latencies of a tree, however noisy.
func TestDirectIsNoTree(t *testing.T) {
	for _, sigma := range []float64{.01, .05, .10} {
		for _, net := range []*network.Network{
			simulated.Star(48), simulated.Tree([]int{4, 8}), simulated.Tree([]int{2, 4, 6}),
			simulated.Tree([]int{6, 6}, 1, 2),
		} {
			m := simulated.Matrix(simulated.Shuffled(net, 3), simulated.Noise{Sigma: sigma, Outliers: .01}, 3)
			tree := buildTree(m)
			if c, ok := direct(m, tree.score); ok && c.score < tree.score {
				t.Errorf("%d nodes, sigma %g: a %s of %.0f nats, the tree has %.0f", net.Nodes, sigma, c.kind,
					c.score, tree.score)
			}
		}
	}
}

// TestDirectBad gets matrices that no network explains.
func TestDirectBad(t *testing.T) {
	names := network.Numbered(9)
	same, nothing, huge := latency.New(names), latency.New(names), latency.New(names)
	for a := range names {
		for b := a + 1; b < len(names); b++ {
			same.Set(a, b, 1)
			huge.Set(a, b, math.Pow(10, float64(a*b%7)-3))
		}
	}
	for i, m := range []*latency.Matrix{same, nothing, huge} {
		if c, ok := direct(m, math.Inf(1)); ok && (c.network == nil || math.IsNaN(c.score)) {
			t.Errorf("matrix %d: %+v", i, c)
		}
	}
}

// TestShapes recognises lattices by how many nodes are how far.
func TestShapes(t *testing.T) {
	for _, test := range []struct {
		net  *network.Network
		kind string
	}{
		{simulated.Ring(7), kindRing},
		{simulated.Torus(3, 5), kindTorus + " 3x5"},
		{simulated.Torus(4, 4), kindHypercube}, // it is one
		{simulated.Torus(3, 4, 5), kindTorus + " 3x4x5"},
		{simulated.Hypercube(3), kindHypercube},
		{simulated.Mesh(3, 3), kindDirect},
	} {
		g := &graph{routers: alone(square(simulated.Matrix(test.net, simulated.Noise{}, 1))), hopUs: []float64{1}}
		for _, l := range test.net.Links {
			g.links = append(g.links, [2]int{l.A, l.B})
			g.class = append(g.class, 0)
		}
		got := g.shape(g.distances())
		if got.kind != test.kind || !got.known {
			t.Errorf("%+v, want %s", got, test.kind)
		}
	}
}

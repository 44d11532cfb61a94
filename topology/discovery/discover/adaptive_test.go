package discover_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/discover"
	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/simulated"
)

// adaptively measures a network, and returns the mean number of measurements of a node.
func adaptively(
	t *testing.T, c *simulated.Cluster, o discover.AdaptiveOptions,
) (r discover.Result, perNode float64) {
	t.Helper()
	r, err := discover.Adaptive(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, times := range c.Measured() {
		total += times
	}
	return r, float64(total) / 2 / float64(len(c.Names()))
}

// TestAdaptive finds trees at three levels of noise with 1 % outliers. The numbers of measurements are those of the
// study with room for chance.
func TestAdaptive(t *testing.T) {
	for _, c := range []struct {
		name   string
		net    *network.Network
		sigma  float64
		most   float64 // measurements of a node
		rounds int
	}{
		{"256 nodes", simulated.Tree([]int{4, 8, 8}), .10, 30, 300},
		{"two levels", simulated.Tree([]int{8, 32}), .05, 32, 400},
		{"uneven", simulated.UnevenTree([]int{4, 8, 16}, 1), .05, 25, 400},
		{"one switch", simulated.Star(512), .10, 5, 8},
		{"close levels", simulated.Tree([]int{4, 4, 16}, 1, 1.1, 1.2), .02, 30, 400},
	} {
		for _, seed := range []uint64{5} {
			net := simulated.Shuffled(c.net, seed)
			cluster := simulated.Measurer(net, simulated.Noise{Sigma: c.sigma, Outliers: .01}, seed)
			r, perNode := adaptively(t, cluster, discover.AdaptiveOptions{Seed: seed})
			if !network.Equal(r.Network, net) {
				t.Errorf("%s, noise %v, seed %d: wrong tree", c.name, c.sigma, seed)
			}
			if r.Confidence.Level != discover.High {
				t.Errorf("%s, noise %v, seed %d: confidence %+v", c.name, c.sigma, seed, r.Confidence)
			}
			if perNode > c.most || cluster.Rounds() > c.rounds {
				t.Errorf("%s, noise %v, seed %d: %.1f measurements of a node in %d rounds, want %v in %d", c.name,
					c.sigma, seed, perNode, cluster.Rounds(), c.most, c.rounds)
			}
		}
	}
}

// TestAdaptiveLatencies finds the latencies of the links.
func TestAdaptiveLatencies(t *testing.T) {
	net := simulated.Tree([]int{4, 8, 16}, 1, 1.4, 1.8)
	r, _ := adaptively(t, simulated.Measurer(net, simulated.Noise{Sigma: .02, Outliers: .01}, 1),
		discover.AdaptiveOptions{})
	for node, us := range map[int]float64{1: 1, 100: 1.4, 500: 1.8} {
		if got := r.Network.PathUs(0, node); got < us*.98 || got > us*1.02 {
			t.Errorf("latency from node 0 to %d is %v, want %v", node, got, us)
		}
	}
}

// TestAdaptiveOutliers measures each pair twice or three times where many latencies are outliers.
func TestAdaptiveOutliers(t *testing.T) {
	for outliers, most := range map[float64]float64{.05: 60, .2: 90} {
		net := simulated.Tree([]int{4, 8, 16})
		r, perNode := adaptively(t, simulated.Measurer(net, simulated.Noise{Sigma: .03, Outliers: outliers}, 1),
			discover.AdaptiveOptions{})
		if !network.Equal(r.Network, net) || perNode > most {
			t.Errorf("%v outliers: wrong tree, or %.1f measurements of a node, more than %v", outliers, perNode, most)
		}
	}
}

// TestAdaptiveTick has a coarse clock, whose step is known or is seen in the latencies.
func TestAdaptiveTick(t *testing.T) {
	for _, known := range []bool{false, true} {
		for _, tick := range []float64{.05, .1} {
			net := simulated.Tree([]int{4, 4, 16})
			o := discover.AdaptiveOptions{}
			if known {
				o.TickUs = tick
			}
			r, _ := adaptively(t, simulated.Measurer(net, simulated.Noise{Sigma: .03, TickUs: tick}, 1), o)
			if !network.Equal(r.Network, net) {
				t.Errorf("step %v, known %v: wrong tree, confidence %+v", tick, known, r.Confidence)
			}
		}
	}
}

// TestAdaptiveMost stops at any number of measurements, and says so.
func TestAdaptiveMost(t *testing.T) {
	net := simulated.Tree([]int{4, 8, 8})
	for _, most := range []int{1, 200, 1500, 3000} {
		cluster := simulated.Measurer(net, simulated.Noise{Sigma: .05}, 1)
		r, perNode := adaptively(t, cluster, discover.AdaptiveOptions{Most: most})
		if measured := perNode * 256; measured > float64(most) {
			t.Errorf("%v measurements, want at most %d", measured, most)
		}
		c := r.Confidence
		if c.Level != discover.Low || !strings.Contains(strings.Join(c.Reasons, " "), "most measurements") {
			t.Errorf("stopped at %d: confidence %+v", most, c)
		}
	}
}

// TestAdaptiveFew has networks of few nodes. No pair is measured more than once in the mean.
func TestAdaptiveFew(t *testing.T) {
	for n := 2; n <= 12; n++ {
		r, perNode := adaptively(t, simulated.Measurer(simulated.Star(n), simulated.Noise{Sigma: .02}, 1),
			discover.AdaptiveOptions{})
		if !network.Equal(r.Network, simulated.Star(n)) || perNode > float64(n-1)/2 {
			t.Errorf("%d nodes: %d links, %v measurements of a node", n, len(r.Network.Links), perNode)
		}
	}
}

// TestAdaptiveSilent leaves silent nodes out.
func TestAdaptiveSilent(t *testing.T) {
	net := simulated.Tree([]int{4, 8, 8})
	r, _ := adaptively(t, simulated.Measurer(net, simulated.Noise{Sigma: .05, Dead: []int{3, 200}, Missing: .02}, 1),
		discover.AdaptiveOptions{})
	if r.Network.Nodes != 254 || slices.Contains(r.Network.Names[:r.Network.Nodes], net.Names[200]) {
		t.Errorf("%d nodes, want 254 without %s", r.Network.Nodes, net.Names[200])
	}
	if c := r.Confidence; c.Level != discover.Low || !strings.Contains(c.Reasons[0], "2 nodes did not answer") {
		t.Errorf("confidence %+v", c)
	}
	all := make([]int, 64)
	for i := range all {
		all[i] = i
	}
	r, _ = adaptively(t, simulated.Measurer(simulated.Star(64), simulated.Noise{Dead: all}, 1),
		discover.AdaptiveOptions{})
	if r.Network.Nodes != 0 || r.Confidence.Level != discover.Low {
		t.Errorf("nobody answers: %d nodes, confidence %+v", r.Network.Nodes, r.Confidence)
	}
}

// TestAdaptiveNoise finds no switches in pure noise, and says that it cannot.
func TestAdaptiveNoise(t *testing.T) {
	r, _ := adaptively(t, simulated.Measurer(simulated.Star(300), simulated.Noise{Sigma: .5}, 1),
		discover.AdaptiveOptions{})
	if switches := len(r.Network.Names) - r.Network.Nodes; switches != 1 || r.Confidence.Level != discover.Low {
		t.Errorf("%d switches, confidence %+v", switches, r.Confidence)
	}
}

// TestAdaptiveFaint has switches of two nodes, of which one latency each is the evidence. The tree lacks some of them,
// and is not sure.
func TestAdaptiveFaint(t *testing.T) {
	net := simulated.Tree([]int{8, 16, 2})
	r, _ := adaptively(t, simulated.Measurer(net, simulated.Noise{Sigma: .05, Outliers: .01}, 1),
		discover.AdaptiveOptions{})
	if c := r.Confidence; c.Level != discover.Low || !strings.Contains(strings.Join(c.Reasons, " "), "few nodes") {
		t.Errorf("confidence %+v", c)
	}
}

// TestAdaptiveNoTree is sure of no tree where there is none.
func TestAdaptiveNoTree(t *testing.T) {
	for name, net := range map[string]*network.Network{
		"torus": simulated.Torus(16, 16), "ring": simulated.Ring(128), "hypercube": simulated.Hypercube(8),
	} {
		r, _ := adaptively(t, simulated.Measurer(net, simulated.Noise{Sigma: .02}, 1), discover.AdaptiveOptions{})
		if r.Confidence.Level != discover.Low {
			t.Errorf("%s: %d switches, confidence %+v", name, len(r.Network.Names)-r.Network.Nodes, r.Confidence)
		}
	}
}

// asked keeps the rounds that were asked for.
type asked struct {
	latency.Measurer
	rounds [][]latency.Pair
	fail   int // the round that fails
}

var errUnplugged = errors.New("unplugged")

func (a *asked) Measure(ctx context.Context, round []latency.Pair) ([]float64, error) {
	if a.rounds = append(a.rounds, slices.Clone(round)); len(a.rounds) == a.fail {
		return nil, errUnplugged
	}
	return a.Measurer.Measure(ctx, round)
}

// TestAdaptiveRounds asks for rounds without a node twice, the same ones for the same answers, and returns the error of
// the Measurer.
func TestAdaptiveRounds(t *testing.T) {
	net := simulated.Tree([]int{4, 8, 8})
	var runs [2]asked
	for i := range runs {
		runs[i].Measurer = simulated.Measurer(net, simulated.Noise{Sigma: .05, Outliers: .01}, 7)
		if _, err := discover.Adaptive(t.Context(), &runs[i], discover.AdaptiveOptions{Seed: 3}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.EqualFunc(runs[0].rounds, runs[1].rounds, slices.Equal) {
		t.Error("two runs with the same seed asked differently")
	}
	for _, round := range runs[0].rounds {
		in := map[int]bool{}
		for _, p := range round {
			if in[p.A] || in[p.B] || p.A >= p.B {
				t.Fatalf("a round has %v, and a node of it twice", p)
			}
			in[p.A], in[p.B] = true, true
		}
	}
	for _, fail := range []int{1, 20} {
		failing := &asked{Measurer: simulated.Measurer(net, simulated.Noise{}, 1), fail: fail}
		_, err := discover.Adaptive(t.Context(), failing, discover.AdaptiveOptions{})
		if !errors.Is(err, errUnplugged) {
			t.Errorf("round %d failed: error %v", fail, err)
		}
	}
}

package study

import (
	"fmt"

	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/simulated"
)

// goal is a network that must be found with a share of the seeds.
type goal struct {
	name    string
	network func(seed uint64) *network.Network
	noise   simulated.Noise
	loop    bool // suspicious pairs are measured again
	seeds   int
	need    float64 // share of the seeds that must be exact
	literal bool    // the thesis's method is run beside it
}

// shuffled hides the place of a node from its number.
func shuffled(build func() *network.Network) func(uint64) *network.Network {
	return func(seed uint64) *network.Network { return simulated.Shuffled(build(), seed) }
}

func tree(fanOuts ...int) func(uint64) *network.Network {
	return shuffled(func() *network.Network { return simulated.Tree(fanOuts) })
}

// goals are those of the issue that began this, each beside the thesis's method where that ends in time.
func goals() []goal {
	const one = .01
	all := []goal{}
	for _, sigma := range []float64{.02, .05, .10} {
		all = append(all, goal{
			fmt.Sprintf("tree of 4 x 8 x 8, σ %g, 1 %% outliers", sigma), tree(4, 8, 8),
			simulated.Noise{Sigma: sigma, Outliers: one},
			false, 100, 1, sigma <= .02,
		})
	}
	for _, sigma := range []float64{.02, .05, .10} {
		all = append(all, goal{
			fmt.Sprintf("tree of 4 x 8 x 8, σ %g, 20 %% outliers, measured again", sigma),
			tree(4, 8, 8),
			simulated.Noise{Sigma: sigma, Outliers: .2},
			true, 20, .95, false,
		})
	}
	all = append(all,
		goal{
			"tree of 4 x 8, σ 0.1, 20 % outliers, measured again", tree(4, 8),
			simulated.Noise{Sigma: .1, Outliers: .2},
			true, 40, .95, false,
		},
		goal{
			"tree of 4 x 4 x 4, σ 0.02, 5 % outliers, measured again", tree(4, 4, 4),
			simulated.Noise{Sigma: .02, Outliers: .05},
			true, 20, .95, false,
		},
		goal{"uneven tree of 4 x 8 x 8, σ 0.05", func(seed uint64) *network.Network {
			return simulated.Shuffled(simulated.UnevenTree([]int{4, 8, 8}, seed), seed)
		}, simulated.Noise{Sigma: .05}, false, 20, .95, false},
		goal{
			"tree of 4 x 8 x 8, σ 0.05, clock of 0.1 µs", tree(4, 8, 8),
			simulated.Noise{Sigma: .05, TickUs: .1},
			false, 20, 1, false,
		},
		goal{
			"tree of 4 x 8 x 8, σ 0.05, nodes differ by up to 0.3 µs", tree(4, 8, 8),
			simulated.Noise{Sigma: .05, OffsetsUs: .3},
			false, 10, 1, false,
		},
		goal{
			"tree of 8 x 8 x 16, σ 0.1, 1 % outliers", tree(8, 8, 16),
			simulated.Noise{Sigma: .1, Outliers: one},
			false, 5, 1, false,
		},
		goal{
			"star of 512, σ 0.1, 1 % outliers", shuffled(func() *network.Network { return simulated.Star(512) }),
			simulated.Noise{Sigma: .1, Outliers: one},
			false, 100, 1, false,
		},
	)
	return append(append(all, directGoals()...), thesisGoals()...)
}

// directGoals are networks without switches, and dragonflies. A hop is one microsecond.
func directGoals() []goal {
	var all []goal
	for _, base := range []float64{0, 1} {
		for _, d := range []struct {
			name  string
			build func() *network.Network
			seeds int
		}{
			{"ring of 32", func() *network.Network { return simulated.Ring(32) }, 10},
			{"torus of 8 x 8", func() *network.Network { return simulated.Torus(8, 8) }, 10},
			{"torus of 6 x 6 x 6", func() *network.Network { return simulated.Torus(6, 6, 6) }, 5},
			{"torus of 10 x 10 x 10", func() *network.Network { return simulated.Torus(10, 10, 10) }, 2},
			{"hypercube of 32", func() *network.Network { return simulated.Hypercube(5) }, 10},
			{"hypercube of 256", func() *network.Network { return simulated.Hypercube(8) }, 3},
		} {
			all = append(all, goal{
				name:    fmt.Sprintf("%s, noise of 0.2 hop, base %g", d.name, base),
				network: shuffled(func() *network.Network { return simulated.WithBase(d.build(), base) }),
				noise:   simulated.Noise{AdditiveUs: .2}, seeds: d.seeds, need: 1, literal: d.seeds == 10,
			})
		}
	}
	return append(all, goal{
		name:    "dragonfly of 17 x 8 x 8, σ 0.02",
		network: shuffled(func() *network.Network { return simulated.Dragonfly(17, 8, 8) }),
		noise:   simulated.Noise{Sigma: .02}, seeds: 2, need: 1,
	})
}

// thesisGoals stand for the tables of the thesis whose numbers are not at hand: 3.6 to 3.9.
func thesisGoals() []goal {
	at := func(name string, build func() *network.Network, sigma float64, need float64) goal {
		return goal{name, shuffled(build), simulated.Noise{Sigma: sigma}, false, 20, need, true}
	}
	return []goal{
		at("as table 3.6: two sockets of six cores, σ 0.02", func() *network.Network {
			return simulated.Tree([]int{2, 6}, .6, 1.2)
		}, .02, 1),
		at("as table 3.7: four sockets, σ 0.015", func() *network.Network { return simulated.Star(4) }, .015, 1),
		at("as table 3.8: two dies of six cores, 9 % apart, σ 0.01", func() *network.Network {
			return simulated.Tree([]int{2, 6}, 1.05, 1.15)
		}, .01, 1),
		at("as table 3.9: 16 processors of a Blizzard node, σ 0.01", simulated.BlizzardProcessors, .01, 1),
		at("Blizzard node of 32 cores, σ 0.005", simulated.Blizzard, .005, 1),
		at("Blizzard node of 32 cores, σ 0.01", simulated.Blizzard, .01, 1),
		at("ring of four switches (figure 2.13), σ 0.02", func() *network.Network {
			return simulated.SwitchRing(4, 4)
		}, .02, 1),
		at("Westmere cluster with its cores (figure 3.1), σ 0.01", simulated.Westmere, .01, 1),
		at("five switches of 2, 3, 3, 4, 6 nodes (figure 2.21), σ 0.01", simulated.Partition, .01, 1),
	}
}

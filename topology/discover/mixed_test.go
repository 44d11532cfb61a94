package discover

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/network"
	"github.com/weirhpc/weir/topology/simulated"
)

func TestSweepMixed(t *testing.T) {
	blizzard := func() *network.Network { return simulated.Blizzard() }
	processors := func() *network.Network { return simulated.WithBase(simulated.BlizzardProcessors(), 1.15) }
	for _, test := range []struct {
		name   string
		net    func() *network.Network
		sigmas []float64
		seeds  int
	}{
		{"blizzard", blizzard, []float64{.002, .005, .0077, .01, .015}, 10},
		{"processors", processors, []float64{.002, .005, .01}, 10},
		{"processors base 0", simulated.BlizzardProcessors, []float64{.002, .005, .01, .02}, 10},
		{"switch ring 4x2", func() *network.Network { return simulated.SwitchRing(4, 2) }, []float64{.01, .05}, 10},
		{"switch ring 4x4", func() *network.Network { return simulated.SwitchRing(4, 4) }, []float64{.01, .05}, 10},
		{"switch ring 6x8", func() *network.Network { return simulated.SwitchRing(6, 8) }, []float64{.01, .05}, 10},
		{"dragonfly 5x4x4", func() *network.Network { return simulated.Dragonfly(5, 4, 4) }, []float64{.01, .02, .05}, 5},
		{"dragonfly 9x8x4", func() *network.Network { return simulated.Dragonfly(9, 8, 4) }, []float64{.01, .02}, 3},
		{"dragonfly 17x8x8", func() *network.Network { return simulated.Dragonfly(17, 8, 8) }, []float64{.02}, 1},
	} {
		for _, sigma := range test.sigmas {
			for _, out := range []float64{0, .01} {
				good := 0
				kinds := map[string]int{}
				start := time.Now()
				for seed := range test.seeds {
					net := simulated.Shuffled(test.net(), uint64(seed))
					m := simulated.Matrix(net, simulated.Noise{Sigma: sigma, Outliers: out}, uint64(seed))
					c, _ := direct(m, 0)
					kinds[c.kind]++
					if c.network != nil && network.Equal(c.network, net) {
						good++
					}
				}
				fmt.Println(test.name, sigma, out, good, "/", test.seeds, kinds, time.Since(start)/time.Duration(test.seeds))
			}
		}
	}
}

package discover

import (
	"testing"

	"github.com/weirhpc/weir/topology/discovery/simulated"
)

// TestMixed finds the links between switches that are no tree, and between nodes of unequal links.
func TestMixed(t *testing.T) {
	for _, c := range []directCase{
		{"ring of four switches", simulated.SwitchRing(4, 4), simulated.Noise{Sigma: .01}, kindMixed},
		{"ring of four switches, no noise", simulated.SwitchRing(4, 2), simulated.Noise{}, kindMixed},
		{"Blizzard node", simulated.Blizzard(), simulated.Noise{Sigma: .01}, kindMixed},
		{
			"its processors", simulated.WithBase(simulated.BlizzardProcessors(), 1.15),
			simulated.Noise{Sigma: .005},
			kindDirect,
		},
		{"dragonfly", simulated.Dragonfly(5, 4, 4), simulated.Noise{Sigma: .02, Outliers: .01}, kindDragonfly},
	} {
		for seed := range uint64(2) {
			c.found(t, seed)
		}
	}
}

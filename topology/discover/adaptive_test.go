package discover_test

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/weirhpc/weir/topology/discover"
	"github.com/weirhpc/weir/topology/network"
	"github.com/weirhpc/weir/topology/simulated"
)

func TestAdaptiveTry(t *testing.T) {
	seeds, _ := strconv.ParseUint(os.Getenv("SEEDS"), 10, 64)
	nets := map[string]*network.Network{
		"3L-256":    simulated.Tree([]int{4, 8, 8}),
		"3L-1024":   simulated.Tree([]int{8, 8, 16}),
		"2L-1024":   simulated.Tree([]int{32, 32}),
		"3L-uneven": simulated.UnevenTree([]int{8, 8, 16}, 1),
		"star-1024": simulated.Star(1024),
		"10000":     simulated.Tree([]int{10, 25, 40}),
	}
	net := nets[os.Getenv("NET")]
	tick, _ := strconv.ParseFloat(os.Getenv("TICK"), 64)
	outliers := .01
	if o := os.Getenv("OUT"); o != "" {
		outliers, _ = strconv.ParseFloat(o, 64)
	}
	for _, sigma := range []float64{.01, .05, .10} {
		right, total, rounds, low := 0, 0, 0, 0
		var bad []discover.Confidence
		for seed := range seeds {
			net := simulated.Shuffled(net, seed)
			c := simulated.Measurer(net, simulated.Noise{Sigma: sigma, Outliers: outliers, TickUs: tick}, seed)
			r, err := discover.Adaptive(context.Background(), c, discover.AdaptiveOptions{Seed: seed, TickUs: tick})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range c.Measured() {
				total += x
			}
			rounds += c.Rounds()
			if r.Confidence.Level == discover.Low {
				low++
			}
			if network.Equal(net, r.Network) {
				right++
			} else {
				d := network.Compare(r.Network, net)
				t.Log(seed, len(d.OnlyA.Switches), len(d.OnlyB.Switches))
				bad = append(bad, r.Confidence)
			}
		}
		t.Logf("sigma %v: %d of %d, %.1f per node, rounds %d, low %d, bad %+v", sigma, right, seeds,
			float64(total)/2/float64(net.Nodes)/float64(seeds), rounds/int(seeds), low, bad)
	}
}

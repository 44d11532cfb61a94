package discover

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/network"
	"github.com/weirhpc/weir/topology/simulated"
)

func TestSweepDirect(t *testing.T) {
	for _, spec := range []string{"ring:32", "ring:33", "torus:8x8", "torus:16x16", "torus:6x6x6", "hypercube:5", "hypercube:8", "line:20", "mesh:6x6", "torus:5x7", "hypercube:3", "torus:4x4x4"} {
		for _, noise := range []float64{.05, .2} {
			for _, base := range []float64{0, 5} {
				for _, out := range []float64{0, .01} {
					good, n := 0, 5
					kinds := map[string]int{}
					start := time.Now()
					for seed := range n {
						net, err := simulated.Parse(spec)
						if err != nil {
							t.Fatal(err)
						}
						net = simulated.WithBase(simulated.Shuffled(net, uint64(seed)), base)
						m := simulated.Matrix(net, simulated.Noise{AdditiveUs: noise, Outliers: out}, uint64(seed))
						c, _ := direct(m, 0)
						kinds[c.kind]++
						if c.network != nil && network.Equal(c.network, net) {
							good++
						}
					}
					fmt.Println(spec, noise, base, out, good, "/", n, kinds, time.Since(start)/time.Duration(n))
				}
			}
		}
	}
}

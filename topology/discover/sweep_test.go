package discover

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/network"
	"github.com/weirhpc/weir/topology/simulated"
)

func TestSweep(t *testing.T) {
	if os.Getenv("SWEEP") == "" {
		t.Skip()
	}
	seeds, _ := strconv.Atoi(os.Getenv("SEEDS"))
	f := func(k string) float64 { x, _ := strconv.ParseFloat(os.Getenv(k), 64); return x }
	noise := simulated.Noise{Sigma: f("SIGMA"), Outliers: f("OUT"), OffsetsUs: f("OFF"), TickUs: f("TICK"), Missing: f("MISS"), AdditiveUs: f("ADD"), Bursts: f("BURST")}
	ok, low := 0, 0
	start := time.Now()
	for seed := range seeds {
		net, err := simulated.Parse(os.Getenv("SWEEP"))
		if os.Getenv("SWEEP") == "uneven" {
			net = simulated.UnevenTree([]int{4, 8, 8}, uint64(seed))
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
		net = simulated.Shuffled(net, uint64(seed))
		m := simulated.Matrix(net, noise, uint64(seed))
		got, err := Build(m)
		if err != nil {
			t.Fatal(err)
		}
		if network.Equal(got.Network, net) {
			ok++
		} else if os.Getenv("V") != "" {
			fmt.Println(seed, network.Compare(got.Network, net), got.Kind, got.Offsets)
		}
		if got.Confidence.Level == Low {
			low++
			if os.Getenv("V") != "" {
				fmt.Println(seed, got.Confidence)
			}
		}
	}
	fmt.Println(os.Getenv("SWEEP"), noise, "exact", ok, "of", seeds, "low", low, "each", time.Since(start)/time.Duration(max(1,seeds)))
}

package discover

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/weirhpc/weir/topology/network"
	"github.com/weirhpc/weir/topology/schedule"
	"github.com/weirhpc/weir/topology/simulated"
)

func TestSweep(t *testing.T) {
	if os.Getenv("SWEEP") == "" {
		t.Skip()
	}
	seeds, _ := strconv.Atoi(os.Getenv("SEEDS"))
	f := func(k string) float64 { x, _ := strconv.ParseFloat(os.Getenv(k), 64); return x }
	noise := simulated.Noise{Sigma: f("SIGMA"), Outliers: f("OUT"), OffsetsUs: f("OFF"), TickUs: f("TICK"), Missing: f("MISS"), AdditiveUs: f("ADD"), Bursts: f("BURST")}
	ok, low, extra, all := 0, 0, 0, 1
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
		var got Result
		if os.Getenv("LOOP") != "" {
			c := simulated.Measurer(net, noise, uint64(seed))
			for _, r := range schedule.Tournament(net.Nodes) {
				us, _ := c.Measure(context.Background(), r)
				for i := range us {
					m.Set(r[i].A, r[i].B, us[i])
				}
			}
			before := 0
			for _, k := range c.Measured() {
				before += k
			}
			got, err = Loop(context.Background(), c, m)
			for _, k := range c.Measured() {
				extra += k
			}
			extra -= before
			all += before
		} else {
			got, err = Build(m)
		}
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
	fmt.Println(os.Getenv("SWEEP"), noise, "exact", ok, "of", seeds, "low", low, "extra", 100*extra/all, "%", "each", time.Since(start)/time.Duration(max(1, seeds)))
}

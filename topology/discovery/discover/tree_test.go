package discover

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/schedule"
	"github.com/weirhpc/weir/topology/discovery/simulated"
)

// exact counts the seeds whose network is found exactly, and those whose wrong network has a high confidence.
func exact(t *testing.T, seeds int, net *network.Network, noise simulated.Noise) (right, wronglySure int) {
	t.Helper()
	for seed := range uint64(seeds) {
		shuffled := simulated.Shuffled(net, seed)
		got, err := Build(simulated.Matrix(shuffled, noise, seed))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		switch {
		case network.Equal(got.Network, shuffled):
			right++
		case got.Confidence.Level == High:
			wronglySure++
		}
	}
	return right, wronglySure
}

// TestTrees finds trees under noise, with no parameter.
func TestTrees(t *testing.T) {
	for _, c := range []struct {
		name  string
		net   *network.Network
		noise simulated.Noise
		seeds int
		least int
	}{
		{"two levels", simulated.Tree([]int{4, 8}), simulated.Noise{Sigma: .1, Outliers: .01}, 10, 10},
		{"three levels", simulated.Tree([]int{4, 8, 8}), simulated.Noise{Sigma: .1, Outliers: .01}, 1, 1},
		{
			"switches of four, outliers", simulated.Tree([]int{4, 4, 4}),
			simulated.Noise{Sigma: .02, Outliers: .05},
			10, 9,
		},
		{"switches of two", simulated.Tree([]int{16, 2}), simulated.Noise{Sigma: .02}, 5, 5},
		{"a tenth outliers", simulated.Tree([]int{4, 8}), simulated.Noise{Sigma: .02, Outliers: .1}, 10, 10},
		{"offsets", simulated.Tree([]int{4, 8}), simulated.Noise{Sigma: .02, OffsetsUs: .5}, 3, 3},
		{"large offsets", simulated.Star(24), simulated.Noise{Sigma: .02, OffsetsUs: 1}, 3, 3},
		{"steps of the clock", simulated.Tree([]int{4, 8}), simulated.Noise{Sigma: .02, TickUs: .2}, 10, 10},
		{"close levels", simulated.Tree([]int{4, 4, 8}, 1, 1.1, 1.2), simulated.Noise{Sigma: .02}, 2, 2},
		{"a fifth missing", simulated.Tree([]int{4, 8}), simulated.Noise{Sigma: .03, Missing: .2}, 5, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			if right, sure := exact(t, c.seeds, c.net, c.noise); right < c.least || sure > 0 {
				t.Errorf("%d of seeds 0 to %d are exact, want %d; %d wrong ones are of high confidence",
					right, c.seeds-1, c.least, sure)
			}
		})
	}
}

// TestStarHasNoSwitch finds no switch in noise.
func TestStarHasNoSwitch(t *testing.T) {
	for _, sigma := range []float64{.02, .1, .14} {
		right, _ := exact(t, 8, simulated.Star(64), simulated.Noise{Sigma: sigma, Outliers: .01})
		if right < 8 {
			t.Errorf("noise %v: %d of seeds 0 to 7 are a star", sigma, right)
		}
	}
}

// TestFewNodes builds from as few nodes as there may be.
func TestFewNodes(t *testing.T) {
	if _, err := Build(latency.New([]string{"a"})); err == nil || !strings.Contains(err.Error(), "two nodes") {
		t.Errorf("one node: %v", err)
	}
	for n := 2; n < 5; n++ {
		got, err := Build(simulated.Matrix(simulated.Star(n), simulated.Noise{Sigma: .01}, 1))
		if err != nil || len(got.Network.Splits()) > 0 || got.Kind != kindTree {
			t.Errorf("%d nodes: %v %+v", n, err, got)
		}
	}
}

// TestFourNodes claims no switch among so few nodes, unless it is clear.
func TestFourNodes(t *testing.T) {
	if right, _ := exact(t, 40, simulated.Star(4), simulated.Noise{Sigma: .015}); right < 40 {
		t.Errorf("%d of seeds 0 to 39 are a star", right)
	}
	if right, _ := exact(t, 10, simulated.Tree([]int{2, 2}), simulated.Noise{Sigma: .005}); right < 10 {
		t.Errorf("%d of seeds 0 to 9 are two switches", right)
	}
}

// TestUnconnected names a node that no latency connects.
func TestUnconnected(t *testing.T) {
	m := latency.New([]string{"a", "b", "c", "d"})
	m.Set(0, 1, 1)
	m.Set(2, 3, 1)
	if _, err := Build(m); err == nil || !strings.Contains(err.Error(), "node c") {
		t.Errorf("error %v names no node", err)
	}
}

// TestNeverAnswered keeps a dead node, with low confidence, and finds the rest.
func TestNeverAnswered(t *testing.T) {
	net := simulated.Tree([]int{3, 5})
	got, err := Build(simulated.Matrix(net, simulated.Noise{Sigma: .02, Dead: []int{7}}, 1))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Network.Splits()) != 3 || got.Confidence.Level != Low ||
		!strings.Contains(fmt.Sprint(got.Confidence.Reasons), net.Names[7]) {
		t.Errorf("%v %+v", got.Network.Splits(), got.Confidence)
	}
}

// TestConfidence is high for what is clean, and low for what is not.
func TestConfidence(t *testing.T) {
	tree := simulated.Tree([]int{4, 8})
	random := rand.New(rand.NewPCG(1, 1))
	unstructured := latency.New(network.Numbered(40))
	for a := range 40 {
		for b := range a {
			unstructured.Set(a, b, 1+random.Float64())
		}
	}
	// Two regimes: whether a pair is slow does not depend on where its nodes are.
	disturbed := simulated.Matrix(tree, simulated.Noise{Sigma: .02}, 1)
	for a := range 32 {
		for b := range a {
			if random.Float64() < .4 {
				disturbed.Set(a, b, 1.6*disturbed.At(a, b))
			}
		}
	}
	repeats := simulated.Matrix(tree, simulated.Noise{Sigma: .05}, 1)
	repeats.Noise = .01
	for _, c := range []struct {
		name   string
		matrix *latency.Matrix
		want   string
		reason string
	}{
		{"clean", simulated.Matrix(tree, simulated.Noise{Sigma: .02}, 1), High, ""},
		{"outliers", simulated.Matrix(tree, simulated.Noise{Sigma: .02, Outliers: .03}, 1), High, ""},
		{"random", unstructured, Low, "they hide switches"},
		{"disturbed", disturbed, Low, ""},
		{"half missing", simulated.Matrix(tree, simulated.Noise{Sigma: .02, Missing: .5}, 1), Low, "were not measured"},
		{"more than the repeats", repeats, Low, "between repeats"},
	} {
		got, err := Build(c.matrix)
		if err != nil {
			t.Fatal(err)
		}
		if got.Confidence.Level != c.want || (len(got.Confidence.Reasons) > 0) != (c.want == Low) {
			t.Errorf("%s: %+v, want %s", c.name, got.Confidence, c.want)
		}
		if !strings.Contains(strings.Join(got.Confidence.Reasons, "; "), c.reason) {
			t.Errorf("%s: reasons %q, none is %q", c.name, got.Confidence.Reasons, c.reason)
		}
	}
}

// TestSuspects lists the pair that does not fit.
func TestSuspects(t *testing.T) {
	m := simulated.Matrix(simulated.Tree([]int{4, 8}), simulated.Noise{Sigma: .01}, 1)
	m.Set(3, 17, 4)
	got, err := Build(m)
	if err != nil || len(got.Suspects) == 0 || got.Suspects[0] != (latency.Pair{A: 3, B: 17}) {
		t.Errorf("%v %v", err, got.Suspects)
	}
}

// TestLoop measures outliers again.
func TestLoop(t *testing.T) {
	right, extra, all := 0, 0, 0
	for seed := range uint64(10) {
		net := simulated.Shuffled(simulated.Tree([]int{4, 8}), seed)
		cluster := simulated.Measurer(net, simulated.Noise{Sigma: .1, Outliers: .2}, seed)
		m := latency.New(cluster.Names())
		for _, round := range schedule.Tournament(net.Nodes) {
			us, err := cluster.Measure(context.Background(), round)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range round {
				m.Set(p.A, p.B, us[i])
			}
		}
		before := slices.Clone(cluster.Measured())
		first := latency.New(cluster.Names())
		for a := range net.Nodes {
			for b := range a {
				first.Set(a, b, m.At(a, b))
			}
		}
		got, err := Loop(context.Background(), cluster, m)
		if err != nil {
			t.Fatal(err)
		}
		for a := range net.Nodes {
			for b := range a {
				if m.At(a, b) > first.At(a, b) {
					t.Fatalf("seed %d: %d and %d have %v us, after %v us", seed, a, b, m.At(a, b), first.At(a, b))
				}
			}
		}
		for i, count := range cluster.Measured() {
			all += before[i]
			extra += count - before[i]
		}
		if network.Equal(got.Network, net) {
			right++
		}
	}
	if right < 10 || extra > all*6/10 {
		t.Errorf("%d of seeds 0 to 9 are exact, with %d more measurements of %d", right, extra, all)
	}
}

// TestLoopEnds ends when it is told to, and refuses a matrix of other nodes.
func TestLoopEnds(t *testing.T) {
	net := simulated.Tree([]int{4, 8})
	noise := simulated.Noise{Sigma: .02, Outliers: .1}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Loop(ctx, simulated.Measurer(net, noise, 1), simulated.Matrix(net, noise, 1)); err == nil {
		t.Error("no error of a cancelled context")
	}
	others := latency.New([]string{"a", "b"})
	if _, err := Loop(context.Background(), simulated.Measurer(net, noise, 1), others); err == nil {
		t.Error("no error of a matrix of other nodes")
	}
}

// TestLinkLatencies gives the links of a tree the latencies that they were made of.
func TestLinkLatencies(t *testing.T) {
	for _, offsets := range []float64{0, .4} {
		net := simulated.Tree([]int{4, 8})
		m := simulated.Matrix(net, simulated.Noise{Sigma: .001, OffsetsUs: offsets}, 3)
		got, err := Build(m)
		if err != nil {
			t.Fatal(err)
		}
		for a := range 32 {
			for b := range a {
				if us := got.Network.PathUs(a, b); math.Abs(us/m.At(a, b)-1) > .01 {
					t.Fatalf("offsets %v: path of %d and %d is %v us, measured %v", offsets, a, b, us, m.At(a, b))
				}
			}
		}
	}
}

// TestDescribe recovers noise and outliers, and needs fewer nats for the right model.
func TestDescribe(t *testing.T) {
	net := simulated.Star(60)
	m := simulated.Matrix(net, simulated.Noise{Sigma: .05, Outliers: .04}, 1)
	right := describe(m, func(int, int) float64 { return 1 })
	if math.Abs(right.sigma-.05) > .005 || math.Abs(right.outliers-.04) > .015 || right.pairs != 60*59/2 {
		t.Errorf("%+v", right)
	}
	wrong := describe(m, func(a, b int) float64 { return 1 + .2*float64((a+b)%2) })
	if wrong.nats < right.nats+100 {
		t.Errorf("wrong model %v nats, right model %v", wrong.nats, right.nats)
	}
	ring := simulated.Matrix(simulated.Ring(40), simulated.Noise{AdditiveUs: .1}, 1)
	hops := func(a, b int) float64 { return float64(min(max(a, b)-min(a, b), 40-max(a, b)+min(a, b))) }
	if added := describe(ring, hops); !added.additive {
		t.Errorf("additive noise is taken for relative noise: %+v", added)
	}
}

// FuzzBuild never panics, whatever the latencies are.
func FuzzBuild(f *testing.F) {
	f.Add([]byte{4, 1, 2, 3, 4, 5, 6})
	f.Add([]byte{6, 0, 1, 1, 255, 9, 8, 7, 1, 1, 1, 0, 200, 3, 5, 5})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 2 {
			return
		}
		n := 1 + int(data[0])%12
		m := latency.New(network.Numbered(n))
		i := 1
		for a := range n {
			for b := range a {
				if us := float64(data[i%len(data)]); us > 0 {
					m.Set(a, b, us/10)
				}
				i++
			}
		}
		got, err := Build(m)
		if err != nil {
			return
		}
		if got.Network.Nodes != n || math.IsNaN(got.Confidence.Residual) || math.IsInf(got.Confidence.Margin, 0) {
			t.Errorf("%+v", got)
		}
	})
}

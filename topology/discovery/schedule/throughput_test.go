package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/schedule"
	"github.com/weirhpc/weir/topology/discovery/simulated"
)

// noisy adds noise to the rates of another measurer, and fails the test if a node is in two pairs of a round.
type noisy struct {
	latency.ThroughputMeasurer
	t     *testing.T
	noise float64
	draw  *rand.Rand
	lost  map[latency.Pair]bool
	most  int // pairs in a round
}

func (n *noisy) MeasureThroughput(
	ctx context.Context, round []latency.Pair, transfer latency.Transfer,
) ([]float64, error) {
	busy := map[int]bool{}
	for _, p := range round {
		if busy[p.A] || busy[p.B] {
			n.t.Errorf("a node of %v is in two pairs", p)
		}
		busy[p.A], busy[p.B] = true, true
	}
	n.most = max(n.most, len(round))
	rates, err := n.ThroughputMeasurer.MeasureThroughput(ctx, round, transfer)
	for i, p := range round {
		rates[i] *= 1 + n.noise*(2*n.draw.Float64()-1)
		if n.lost[p] {
			rates[i] = math.NaN()
		}
	}
	return rates, err
}

// measurer returns a noisy measurer of a network.
func measurer(t *testing.T, net *network.Network, noise float64) (*noisy, *simulated.Traffic) {
	t.Helper()
	traffic, err := simulated.NewTraffic(net)
	if err != nil {
		t.Fatal(err)
	}
	return &noisy{ThroughputMeasurer: traffic, t: t, noise: noise, draw: rand.New(rand.NewPCG(18, 3))}, traffic
}

// withRates gives the links of a network their throughput: those between nodes, of nodes, and between switches.
func withRates(net *network.Network, rate func(link int, l network.Link) float64) *network.Network {
	for i, l := range net.Links {
		net.Links[i].Throughput = rate(i, l)
	}
	return net
}

// checkRates fails unless each link has its true throughput, or is marked and not too fast.
func checkRates(t *testing.T, name string, got *schedule.ThroughputReport, want *network.Network) {
	t.Helper()
	for i, l := range want.Links {
		rate := got.Network.Links[i].Throughput
		deviation := rate/l.Throughput - 1
		marked := slices.Contains(got.AtLeast, i)
		if math.IsNaN(rate) || deviation > .06 || deviation < -.06 && !marked {
			t.Errorf("%s: link %d-%d has %.3g MB/s, want %.3g (at least: %v)",
				name, l.A, l.B, rate, l.Throughput, marked)
		}
	}
}

// slowNodes are nodes of two speed classes on a star: each has a share of slow ones.
func slowNodes(nodes int, share float64, seed uint64) *network.Network {
	draw := rand.New(rand.NewPCG(seed, 1))
	return withRates(simulated.Star(nodes), func(int, network.Link) float64 {
		if draw.Float64() < share {
			return 100
		}
		return 1000
	})
}

// TestPorts: two speed classes on a switch need few rounds, where all pairs need 31 or 511.
func TestPorts(t *testing.T) {
	for _, c := range []struct {
		nodes int
		share float64
		most  float64 // mean of rounds
	}{{32, .1, 4}, {32, .5, 5}, {256, .1, 4}, {32, 0, 3}} {
		rounds, seeds := 0, 128/c.nodes+1
		for seed := range uint64(seeds) {
			net := slowNodes(c.nodes, c.share, seed)
			m, _ := measurer(t, net, .01)
			got, err := schedule.Throughput(context.Background(), net, m, schedule.ThroughputOptions{})
			if err != nil {
				t.Fatal(err)
			}
			checkRates(t, fmt.Sprint(c.nodes, " nodes, seed ", seed), got, net)
			rounds += got.Rounds - 3 // the blocking test
		}
		mean := float64(rounds) / float64(seeds)
		t.Logf("%d nodes, %.0f %% slow: %.1f rounds", c.nodes, 100*c.share, mean)
		if mean > c.most {
			t.Errorf("%d nodes, %.0f %% slow: %.1f rounds, want at most %.1f", c.nodes, 100*c.share, mean, c.most)
		}
	}
}

// TestPortsManyClasses: figure 2.19, where each node has another speed. All but the fastest are found.
func TestPortsManyClasses(t *testing.T) {
	net := withRates(simulated.Star(9), func(link int, _ network.Link) float64 { return 100 + 50*float64(link) })
	m, _ := measurer(t, net, 0)
	got, err := schedule.Throughput(context.Background(), net, m, schedule.ThroughputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range got.Network.Links[:8] {
		if l.Throughput != net.Links[i].Throughput {
			t.Errorf("link %d has %v MB/s, want %v", i, l.Throughput, net.Links[i].Throughput)
		}
	}
	if last := got.Network.Links[8].Throughput; last != net.Links[7].Throughput {
		t.Errorf("the fastest link has %v MB/s, want the second fastest's", last)
	}
}

// TestThroughput: trees, direct networks and rings of switches have their throughput found.
func TestThroughput(t *testing.T) {
	// Every fourth node has half the rate. Links between switches have two rates, but not where one would be alone.
	mixed := func(nodeRate, switchRate float64) func(net *network.Network) *network.Network {
		return func(net *network.Network) *network.Network {
			return withRates(net, func(_ int, l network.Link) float64 {
				switch {
				case net.IsSwitch(l.A) && l.B%2 == 1 && net.Nodes%8 == 0:
					return 1.5 * switchRate
				case net.IsSwitch(l.A):
					return switchRate
				case l.A%4 == 3:
					return nodeRate / 2
				}
				return nodeRate
			})
		}
	}
	for _, c := range []struct {
		name   string
		net    *network.Network
		rounds int // most
	}{
		{"tree 4x4x4", mixed(100, 150)(simulated.Tree([]int{4, 4, 4})), 20},
		{"tree 8x8", mixed(100, 300)(simulated.Tree([]int{8, 8})), 15},
		{"uneven tree", mixed(100, 150)(simulated.UnevenTree([]int{4, 4, 4}, 1)), 25},
		{"figure 2.21", mixed(100, 150)(simulated.Partition()), 15},
		{"two switches", mixed(100, 150)(simulated.Tree([]int{2, 6})), 10},
		{"ring of switches", mixed(100, 60)(simulated.SwitchRing(4, 6)), 15},
		{"ring", mixed(100, 0)(simulated.Ring(8)), 2},
		{"torus", mixed(100, 0)(simulated.Torus(4, 4)), 4},
		{"complete", mixed(100, 0)(simulated.Complete(6)), 5},
	} {
		m, _ := measurer(t, c.net, .005)
		got, err := schedule.Throughput(context.Background(), c.net, m, schedule.ThroughputOptions{})
		if err != nil {
			t.Fatal(err)
		}
		checkRates(t, c.name, got, c.net)
		t.Logf("%s: %d rounds of up to %d pairs, %d of %d links at least",
			c.name, got.Rounds, m.most, len(got.AtLeast), len(c.net.Links))
		if got.Rounds > c.rounds {
			t.Errorf("%s: %d rounds, want at most %d", c.name, got.Rounds, c.rounds)
		}
	}
}

// lopsided has two switches of four nodes below one that is linked to a third, which has four nodes itself. Nodes are
// linked at 100 MB/s.
func lopsided(leaves, pod, third float64) *network.Network {
	net := network.New(network.Numbered(12))
	for range 5 {
		net.AddSwitch("")
	}
	rates := map[[2]int]float64{{12, 15}: leaves, {13, 15}: leaves, {15, 16}: pod, {14, 16}: third}
	for v := range 12 {
		net.AddLink(v, 12+v/4, 1)
	}
	for _, l := range [][2]int{{12, 15}, {13, 15}, {15, 16}, {14, 16}} {
		net.AddLink(l[0], l[1], 1)
	}
	return withRates(net, func(_ int, l network.Link) float64 {
		if rate, ok := rates[[2]int{l.A, l.B}]; ok {
			return rate
		}
		return 100
	})
}

// TestUnfilledLinks: a link that its nodes or the links below cannot fill is at least as fast as they are.
func TestUnfilledLinks(t *testing.T) {
	for _, c := range []struct {
		net     *network.Network
		atLeast []int // among the links between switches, 12 to 15: two ports never prove each other
		rates   []float64
	}{
		{lopsided(200, 350, 350), []int{12, 13, 14, 15}, []float64{200, 200, 350, 350}},
		{lopsided(100, 900, 900), []int{12, 13, 14, 15}, []float64{100, 100, 200, 200}}, // leaves hold 14 and 15 back
	} {
		m, _ := measurer(t, c.net, 0)
		got, err := schedule.Throughput(context.Background(), c.net, m, schedule.ThroughputOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var rates []float64
		for _, l := range got.Network.Links[12:] {
			rates = append(rates, l.Throughput)
		}
		if !slices.Equal(rates, c.rates) || !slices.Equal(got.AtLeast, c.atLeast) {
			t.Errorf("rates %v, of which at least %v, want %v and %v", rates, got.AtLeast, c.rates, c.atLeast)
		}
	}
	// Four branches with wide links to the top prove each other. But the nodes or narrow links below hold them back.
	for _, fanOuts := range [][]int{{4, 4}, {4, 3, 4}} {
		net := simulated.Tree(fanOuts)
		withRates(net, func(_ int, l network.Link) float64 {
			switch {
			case !net.IsSwitch(l.A):
				return 100
			case l.A == net.Root:
				return 9000
			}
			return 60
		})
		m, _ := measurer(t, net, .01)
		got, err := schedule.Throughput(context.Background(), net, m, schedule.ThroughputOptions{})
		if err != nil || len(got.AtLeast) != 4 || net.Links[got.AtLeast[0]].Throughput != 9000 {
			t.Errorf("%v: links %v of %v are at least as fast, want the 4 at the top", err, got.AtLeast, fanOuts)
		}
	}
}

// TestBlockingSwitch: a switch that cannot carry all its nodes is found, and its nodes are measured one pair at a time.
func TestBlockingSwitch(t *testing.T) {
	net := withRates(simulated.Star(8), func(int, network.Link) float64 { return 100 })
	m, traffic := measurer(t, net, .01)
	traffic.LimitSwitch(8, 250)
	got, err := schedule.Throughput(context.Background(), net, m, schedule.ThroughputOptions{Switches: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Blocking, []int{8}) {
		t.Errorf("blocking switches %v, want [8]", got.Blocking)
	}
	checkRates(t, "blocking", got, net)
	if len(got.Switches) != 1 || math.Abs(got.Switches[0].Throughput-250) > 10 {
		t.Errorf("the switch's rate is %v, want 250 MB/s", got.Switches)
	}
}

// TestLostPair: a pair that cannot be measured costs no other link its throughput, and the work ends.
func TestLostPair(t *testing.T) {
	net := withRates(simulated.Star(6), func(int, network.Link) float64 { return 100 })
	m, _ := measurer(t, net, 0)
	m.lost = map[latency.Pair]bool{}
	for v := range 6 {
		m.lost[latency.Pair{A: min(v, 2), B: max(v, 2)}] = true
	}
	got, err := schedule.Throughput(context.Background(), net, m, schedule.ThroughputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range got.Network.Links {
		if want := l.A == 2; math.IsNaN(l.Throughput) != want {
			t.Errorf("link %d of node %d has %v MB/s", i, l.A, l.Throughput)
		}
	}
}

// TestThroughputAnyNetwork: whatever the links and the rates are, the work ends, and each round is allowed.
func TestThroughputAnyNetwork(t *testing.T) {
	for seed := range uint64(50) {
		draw := rand.New(rand.NewPCG(seed, 4))
		net := network.New(network.Numbered(2 + draw.IntN(12)))
		for range draw.IntN(5) {
			net.AddSwitch("")
		}
		for v := 1; v < len(net.Names); v++ {
			for range 1 + draw.IntN(2) {
				w := draw.IntN(v)
				if !slices.ContainsFunc(net.Links, func(l network.Link) bool { return l.A == w && l.B == v }) {
					net.AddLink(w, v, .5+draw.Float64())
				}
			}
		}
		withRates(net, func(int, network.Link) float64 { return 1 + 1000*draw.Float64() })
		m, _ := measurer(t, net, .2)
		m.lost = map[latency.Pair]bool{{A: 0, B: 1}: true}
		got, err := schedule.Throughput(context.Background(), net, m,
			schedule.ThroughputOptions{Switches: true, Hidden: true, Sequential: seed%2 == 1})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got.Rounds > 400 {
			t.Errorf("seed %d: %d rounds for %d vertices", seed, got.Rounds, len(net.Names))
		}
	}
}

// TestHidden: a link between two nodes is invisible in latencies if it is as long as the path. It is visible in rates.
func TestHidden(t *testing.T) {
	line := withRates(simulated.Line(5), func(int, network.Link) float64 { return 100 })
	m, _ := measurer(t, line, .01)
	got, err := schedule.Throughput(context.Background(), line, m, schedule.ThroughputOptions{Hidden: true})
	if err != nil || len(got.Hidden) > 0 {
		t.Errorf("a line has hidden links %v, error %v", got.Hidden, err)
	}
	truth := simulated.Line(5)
	truth.AddLink(0, 3, 2.9*truth.Links[0].LatencyUs) // a little shorter, so that data takes it
	m, _ = measurer(t, withRates(truth, func(int, network.Link) float64 { return 100 }), .01)
	got, err = schedule.Throughput(context.Background(), line, m, schedule.ThroughputOptions{Hidden: true})
	if err != nil || !slices.Contains(got.Hidden, latency.Pair{A: 0, B: 3}) {
		t.Errorf("hidden links %v, error %v, want 0-3", got.Hidden, err)
	}
}

func TestThroughputCancelled(t *testing.T) {
	net := withRates(simulated.Star(4), func(int, network.Link) float64 { return 100 })
	_, traffic := measurer(t, net, 0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := schedule.Throughput(ctx, net, traffic, schedule.ThroughputOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// TestHalves: figure 2.21 divides into 9 and 9.
func TestHalves(t *testing.T) {
	for _, c := range []struct {
		sizes []int
		want  int
	}{
		{[]int{2, 3, 3, 4, 6}, 9},
		{[]int{5, 1}, 1},
		{[]int{7}, 0},
		{nil, 0},
		{[]int{0, 0, 4, 4}, 4},
		{[]int{8, 7, 6, 5, 4}, 15},
	} {
		sum := 0
		for i, first := range schedule.Halves(c.sizes) {
			if first {
				sum += c.sizes[i]
			}
		}
		if sum != c.want {
			t.Errorf("%v: %d on the first side, want %d", c.sizes, sum, c.want)
		}
	}
}

// cheapest returns the bisection of a network by trying each division of all vertices.
func cheapest(net *network.Network) float64 {
	least := math.Inf(1)
	for sides := range 1 << len(net.Names) {
		nodes, cut := 0, 0.
		for v := range net.Nodes {
			nodes += sides >> v & 1
		}
		for _, l := range net.Links {
			if sides>>l.A&1 != sides>>l.B&1 {
				cut += l.Throughput
			}
		}
		if nodes == net.Nodes/2 {
			least = min(least, cut)
		}
	}
	return least
}

func TestBisection(t *testing.T) {
	for seed := range uint64(6) {
		draw := rand.New(rand.NewPCG(seed, 2))
		net := simulated.UnevenTree([]int{3, 3}, seed)
		withRates(net, func(int, network.Link) float64 { return math.Ceil(10 * draw.Float64()) })
		got, err := schedule.Bisection(net)
		if want := cheapest(net); err != nil || got != want {
			t.Errorf("seed %d, %d nodes: %v MB/s, %v, want %v", seed, net.Nodes, got, err, want)
		}
	}
	if _, err := schedule.Bisection(simulated.Ring(4)); err == nil {
		t.Error("a ring has a bisection")
	}
}

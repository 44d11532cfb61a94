package simulated

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/schedule"
)

// TestTreeLatencies: two nodes are as far from each other as their lowest common switch says.
func TestTreeLatencies(t *testing.T) {
	n := Tree([]int{4, 8, 8})
	if n.Nodes != 256 || len(n.Names)-n.Nodes != 1+4+32 || !n.IsTree() {
		t.Fatalf("%d nodes and %d switches, tree %v", n.Nodes, len(n.Names)-n.Nodes, n.IsTree())
	}
	m := Matrix(n, Noise{}, 1)
	for _, c := range []struct {
		a, b int
		us   float64
	}{{0, 7, 1}, {0, 8, 1.4}, {63, 0, 1.4}, {0, 64, 1.8}, {255, 0, 1.8}} {
		if got := m.At(c.a, c.b); math.Abs(got-c.us) > 1e-9 {
			t.Errorf("%d to %d takes %g, want %g", c.a, c.b, got, c.us)
		}
	}
}

// TestQuickLengths: the parents of a tree and the shortest paths of any network give the same latencies.
func TestQuickLengths(t *testing.T) {
	for _, n := range []*network.Network{
		UnevenTree([]int{3, 4, 4}, 5), Westmere(), Partition(), Shuffled(Tree([]int{3, 5}), 2),
	} {
		n.BaseUs = .3
		quick, slow := climbed(n), lengthsOf(WithBase(n, .3))
		for a := range n.Nodes {
			want := n.Distances(a)
			for b := range n.Nodes {
				one, two := quick.between(a, b), slow.between(a, b)
				if a != b && (math.Abs(one-want[b]) > 1e-9 || math.Abs(two-want[b]) > 1e-9) {
					t.Fatalf("%d to %d: %g and %g, want %g", a, b, one, two, want[b])
				}
			}
		}
	}
}

// degrees returns how many vertices have how many links.
func degrees(n *network.Network) map[int]int {
	ends := make([]int, len(n.Names))
	for _, l := range n.Links {
		ends[l.A]++
		ends[l.B]++
	}
	count := map[int]int{}
	for _, d := range ends {
		count[d]++
	}
	return count
}

func TestDirectNetworks(t *testing.T) {
	for _, c := range []struct {
		name    string
		n       *network.Network
		links   int
		degrees map[int]int
		far     float64 // from node 0 to the last node
	}{
		{"ring", Ring(32), 32, map[int]int{2: 32}, 1},
		{"line", Line(5), 4, map[int]int{2: 3, 1: 2}, 4},
		{"torus", Torus(4, 8), 64, map[int]int{4: 32}, 2},
		{"torus with a side of two", Torus(2, 4), 12, map[int]int{3: 8}, 2},
		{"mesh", Mesh(3, 3), 12, map[int]int{2: 4, 3: 4, 4: 1}, 4},
		{"hypercube", Hypercube(5), 80, map[int]int{5: 32}, 5},
		{"complete", Complete(6), 15, map[int]int{5: 6}, 1},
		{"base", WithBase(Ring(32), 1), 32, map[int]int{2: 32}, 2},
		{"switches in a ring", SwitchRing(4, 4), 20, map[int]int{1: 16, 6: 4}, 2},
	} {
		m := Matrix(c.n, Noise{}, 1)
		got := degrees(c.n)
		same := len(got) == len(c.degrees)
		for d, many := range c.degrees {
			same = same && got[d] == many
		}
		if len(c.n.Links) != c.links || !same || m.At(0, c.n.Nodes-1) != c.far {
			t.Errorf("%s: %d links, degrees %v, last node %g away", c.name, len(c.n.Links), got, m.At(0, c.n.Nodes-1))
		}
	}
}

// TestDragonfly: each two groups have one link, and no router has more global links than its share.
func TestDragonfly(t *testing.T) {
	for _, size := range [][3]int{{5, 4, 4}, {9, 8, 4}, {17, 8, 8}, {2, 1, 1}, {4, 2, 3}} {
		groups, routers, nodes := size[0], size[1], size[2]
		n := Dragonfly(groups, routers, nodes)
		between, ports := map[[2]int]int{}, map[int]int{}
		for _, l := range n.Links {
			if l.LatencyUs == globalUs {
				p, q := (l.A-n.Nodes)/routers, (l.B-n.Nodes)/routers
				between[[2]int{min(p, q), max(p, q)}]++
				ports[l.A]++
				ports[l.B]++
			}
		}
		most := 0
		for _, p := range ports {
			most = max(most, p)
		}
		if len(between) != groups*(groups-1)/2 || most > (groups-1+routers-1)/routers {
			t.Errorf("%v: %d pairs of groups, up to %d global links a router", size, len(between), most)
		}
		for pair, links := range between {
			if links != 1 || pair[0] == pair[1] {
				t.Errorf("%v: groups %v have %d links", size, pair, links)
			}
		}
	}
}

// TestBlizzard: the links are those that the thesis counts, and their latencies are in the groups that it names.
func TestBlizzard(t *testing.T) {
	n := BlizzardProcessors()
	if got := degrees(n); len(n.Links) != 40 || got[5] != 16 {
		t.Fatalf("%d links, degrees %v, want 24 + 16, and 3 + 2 for each processor", len(n.Links), got)
	}
	groups := map[float64]bool{}
	for _, us := range Matrix(n, Noise{}, 1).Values() {
		groups[math.Round(us*100)/100] = true
	}
	if want := map[float64]bool{.15: true, .55: true, .7: true, .85: true}; len(groups) != len(want) ||
		!groups[.15] || !groups[.55] || !groups[.7] || !groups[.85] {
		t.Errorf("latencies %v, want B, C, B+C and 2B+C: %v", groups, want)
	}
}

// TestNoise: each kind of noise has the size that was asked for.
func TestNoise(t *testing.T) {
	n := Star(200)
	logs := func(noise Noise) []float64 {
		values := Matrix(n, noise, 4).Values()
		for i, us := range values {
			values[i] = math.Log(us)
		}
		return values
	}
	deviation := func(values []float64) float64 {
		var mean, square float64
		for _, x := range values {
			mean += x / float64(len(values))
		}
		for _, x := range values {
			square += (x - mean) * (x - mean) / float64(len(values))
		}
		return math.Sqrt(square)
	}
	if got := deviation(logs(Noise{Sigma: .1})); math.Abs(got-.1) > .003 {
		t.Errorf("sigma .1 became %g", got)
	}
	far := 0
	values := Matrix(n, Noise{Outliers: .05}, 4).Values()
	for _, us := range values {
		if us > 1.0001 {
			far++
		}
	}
	if share := float64(far) / float64(len(values)); math.Abs(share-.05) > .005 || slices.Max(values) > 5 {
		t.Errorf("5 %% outliers became %g, up to %g", share, slices.Max(values))
	}
	if got := deviation(Matrix(n, Noise{AdditiveUs: .2}, 4).Values()); math.Abs(got-.2) > .005 {
		t.Errorf("additive .2 became %g", got)
	}
	for _, us := range Matrix(n, Noise{Sigma: .1, TickUs: .05}, 4).Values() {
		if steps := us / .05; math.Abs(steps-math.Round(steps)) > 1e-9 {
			t.Fatalf("%g is no multiple of the tick", us)
		}
	}
	m := Matrix(n, Noise{OffsetsUs: .5}, 4)
	if x := m.At(0, 1) + m.At(2, 3) - m.At(0, 2) - m.At(1, 3); math.Abs(x) > 1e-9 || deviation(m.Values()) < .1 {
		t.Errorf("offsets do not add: %g", x)
	}
}

// TestDisturbances: bursts slow whole rounds, episodes one node, and a dead node has no latency.
func TestDisturbances(t *testing.T) {
	n := Star(32)
	c := Measurer(n, Noise{Bursts: .3}, 9)
	slow := 0
	for _, round := range schedule.Tournament(32) {
		values, err := c.Measure(t.Context(), round)
		if err != nil || slices.Min(values) != slices.Max(values) {
			t.Fatalf("a round is not slowed as a whole: %v %v", values, err)
		}
		if values[0] > 1 {
			slow++
		}
	}
	if slow < 3 || slow > 17 || c.Rounds() != 31 || slices.Max(c.Measured()) != 31 {
		t.Errorf("%d of %d rounds were slow, %d measurements of a node", slow, c.Rounds(), slices.Max(c.Measured()))
	}
	m := Matrix(n, Noise{Dead: []int{3}, Slow: []Episode{{Node: 5, From: 0, To: 10, Factor: 2}}}, 1)
	doubled := 0
	for b := range 32 {
		if b != 3 && !math.IsNaN(m.At(3, b)) {
			t.Errorf("the dead node 3 has a latency to %d", b)
		}
		if b != 5 && b != 3 && m.At(5, b) == 2 {
			doubled++
		}
	}
	if doubled < 9 || doubled > 10 { // one of the ten may be the dead node's
		t.Errorf("node 5 was slow %d times, want 10 rounds", doubled)
	}
}

// TestSeeds: the same seed gives the same latencies, and another one others. A measurement is drawn anew.
func TestSeeds(t *testing.T) {
	n, noise := Shuffled(Tree([]int{3, 4}), 1), Noise{Sigma: .1}
	one := Matrix(n, noise, 1).Values()
	if !slices.Equal(one, Matrix(n, noise, 1).Values()) || slices.Equal(one, Matrix(n, noise, 2).Values()) {
		t.Error("seeds do not decide the latencies")
	}
	c, round := Measurer(n, noise, 1), []latency.Pair{{A: 0, B: 1}}
	first, _ := c.Measure(t.Context(), round)
	second, _ := c.Measure(t.Context(), round)
	if first[0] == second[0] {
		t.Error("a second measurement has the same noise")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Measure(ended, round); err == nil {
		t.Error("a canceled measurement goes on")
	}
}

func TestShuffled(t *testing.T) {
	n := Tree([]int{4, 4})
	s := Shuffled(n, 1)
	if network.Equal(n, s) || len(s.Splits()) != len(n.Splits()) || s.Names[0] != "n0" {
		t.Error("shuffling does not move the nodes")
	}
}

func TestParse(t *testing.T) {
	for _, example := range Examples() {
		n, err := Parse(example)
		if err != nil || n.Nodes < 2 {
			t.Errorf("%s: %v", example, err)
			continue
		}
		for _, us := range Matrix(n, Noise{}, 1).Values() {
			if !(us > 0) {
				t.Fatalf("%s: a latency of %g", example, us)
			}
		}
	}
	for spec, want := range map[string]string{
		"tree":                      "do not fit",
		"tree:":                     "do not fit",
		"tree:4xx8":                 "must be a number",
		"tree:0x4":                  "must be a number",
		"tree:1000x1000":            "more than 100000",
		"torus:1000x1000":           "more than 2048",
		"hypercube:30":              "up to 11",
		"hypercube":                 "up to 11",
		"dragonfly:9x8":             "at least two groups",
		"ring:3x3":                  "do not fit",
		"westmere:4":                "do not fit",
		"tree:2x2x2x2x2x2x2x2x2":    "more than 8",
		"banana:4":                  "is not known",
		"":                          "is not known",
		"star:99999999999999999999": "must be a number",
	} {
		if _, err := Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, example := range Examples() {
		f.Add(example)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		n, err := Parse(spec)
		if err == nil && (n.Nodes < 1 || len(n.Names) < n.Nodes) {
			t.Errorf("%q: %d nodes", spec, n.Nodes)
		}
	})
}

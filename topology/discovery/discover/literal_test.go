package discover

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
	"github.com/weirhpc/weir/topology/discovery/simulated"
)

// triangle returns the matrix of the rows of an upper triangle. Nodes are numbered.
func triangle(t *testing.T, rows string) *latency.Matrix {
	t.Helper()
	lines := strings.Fields(rows)
	m := latency.New(network.Numbered(len(lines) + 1))
	for a, line := range lines {
		for i, field := range strings.Split(line, ",") {
			us, err := strconv.ParseFloat(field, 64)
			if err != nil {
				t.Fatal(err)
			}
			m.Set(a, a+1+i, us)
		}
	}
	return m
}

// thesisCase returns the matrix and the network of one of the cases.
func thesisCase(t *testing.T, name, form string) (*latency.Matrix, *network.Network) {
	t.Helper()
	path := filepath.Join("testdata", "cases", name)
	rows, err := os.ReadFile(path + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	want, err := network.ReadFile(path + "." + form)
	if err != nil {
		t.Fatal(err)
	}
	return triangle(t, string(rows)), want
}

// pathsOf returns the latencies that a network makes, with noise.
func pathsOf(net *network.Network, sigma float64, seed uint64) *latency.Matrix {
	r := rand.New(rand.NewPCG(seed, 18))
	m := latency.New(net.Names[:net.Nodes])
	for a := range net.Nodes {
		lengths := net.Distances(a)
		for b := a + 1; b < net.Nodes; b++ {
			m.Set(a, b, lengths[b]*math.Exp(sigma*r.NormFloat64()))
		}
	}
	return m
}

// TestLiteral: the thesis's tables come out right over the range of tolerances that the method has.
func TestLiteral(t *testing.T) {
	for _, c := range []struct {
		name     string
		epsilons []float64
	}{
		{"thesis_t2_2", []float64{0, .1, .2, .3}},
		{"thesis_t2_3_hetero", []float64{0, .1, .2, .3}},
		{"thesis_2_2_5_two_kinds", []float64{0, .1, .2, .3}},
		{"thesis_2_2_5_one_other", []float64{0, .1, .2, .3, .4}},
		{"thesis_t3_5_westmere_nodes", []float64{.03, .1, .2, .3, .4, .5, .6}},
	} {
		m, want := thesisCase(t, c.name, "tree")
		for _, epsilon := range c.epsilons {
			got, err := Literal(m, epsilon)
			if err != nil {
				t.Fatalf("%s at epsilon %v: %v", c.name, epsilon, err)
			}
			if got.Kind != kindTree || !network.Equal(got.Network, want) {
				t.Errorf("%s at epsilon %v: %s with splits %q", c.name, epsilon, got.Kind, got.Network.Splits())
			}
		}
	}
}

// TestLiteralTree: three levels come out right at 2 % of noise, if epsilon is the right one.
func TestLiteralTree(t *testing.T) {
	want := simulated.Tree([]int{4, 4, 4})
	for seed := range uint64(5) {
		got, err := Literal(simulated.Matrix(want, simulated.Noise{Sigma: .02}, seed), .2)
		if err != nil {
			t.Fatal(err)
		}
		if !network.Equal(got.Network, want) {
			t.Errorf("seed %d: %s of %d switches", seed, got.Kind, len(got.Network.Names)-got.Network.Nodes)
		}
	}
}

// TestLiteralLatencies: links have the latencies that the thesis's text computes for table 2.3.
func TestLiteralLatencies(t *testing.T) {
	got, err := Literal(triangle(t, "2,3,4 3,4 5"), LiteralEpsilon)
	if err != nil {
		t.Fatal(err)
	}
	var us []float64
	for _, l := range got.Network.Links {
		us = append(us, l.LatencyUs)
	}
	if fmt.Sprint(us) != "[1 1 2 3]" || got.Confidence.Residual > 1e-9 {
		t.Errorf("links of %v us with a residual of %v, want [1 1 2 3] and 0", us, got.Confidence.Residual)
	}
}

// TestLiteralBasicModel: table 2.1 is the model before its triangle becomes a switch.
func TestLiteralBasicModel(t *testing.T) {
	m, want := thesisCase(t, "thesis_t2_1", "edges")
	g, err := basicModel(m, LiteralEpsilon)
	if err != nil {
		t.Fatal(err)
	}
	got := network.New(m.Names())
	for _, e := range g.edges() {
		got.AddLink(e.A, e.B, g.us(e.A, e.B))
	}
	if !network.Equal(got, want) {
		t.Errorf("the links are %v", got.Links)
	}
}

// switchRing returns figure 2.13: four switches in a ring, three nodes on each.
func switchRing() *network.Network {
	net := network.New(network.Numbered(12))
	var switches []int
	for range 4 {
		switches = append(switches, net.AddSwitch(""))
	}
	for i, s := range switches {
		for v := 3 * i; v < 3*i+3; v++ {
			net.AddLink(v, s, 1)
		}
		net.AddLink(s, switches[(i+1)%4], 2)
	}
	return net
}

// blizzard returns the node of figure 3.2: four quads of processors, each with two cores. Processors of a quad are
// fully meshed. Each processor has a link to two others.
func blizzard(aUs, bUs, cUs float64) *network.Network {
	net := network.New(network.Numbered(32))
	for p := range 16 {
		net.AddSwitch("")
		net.AddLink(2*p, 32+p, aUs)
		net.AddLink(2*p+1, 32+p, aUs)
	}
	for quad := range 4 {
		for i := range 4 {
			for j := range i {
				net.AddLink(32+4*quad+i, 32+4*quad+j, bUs)
			}
		}
	}
	for _, c := range [][2]int{
		{0, 4},
		{1, 5},
		{2, 6},
		{3, 8},
		{0, 9},
		{1, 10},
		{2, 12},
		{3, 13},
		{4, 8},
		{5, 11},
		{6, 14},
		{7, 15},
		{7, 12},
		{9, 13},
		{10, 14},
		{11, 15},
	} {
		net.AddLink(32+c[0], 32+c[1], cUs)
	}
	return net
}

// TestLiteralRing: the links between opposite switches of a ring are virtual (figures 2.13 and 2.14).
func TestLiteralRing(t *testing.T) {
	want := switchRing()
	for seed := range uint64(5) {
		got, err := Literal(pathsOf(want, .005*float64(seed), seed), LiteralEpsilon)
		if err != nil {
			t.Fatal(err)
		}
		if got.Kind != kindMixed || !network.Equal(got.Network, want) {
			t.Errorf("seed %d: %s with links %v", seed, got.Kind, got.Network.Links)
		}
	}
}

// TestLiteralBlind: a second way between two nodes cannot be seen in latencies (figure 2.12).
func TestLiteralBlind(t *testing.T) {
	star := network.New(network.Numbered(3))
	s := star.AddSwitch("")
	for v := range 3 {
		star.AddLink(v, s, 1)
	}
	linked := network.New(network.Numbered(3))
	s = linked.AddSwitch("")
	for v := range 3 {
		linked.AddLink(v, s, 1)
	}
	linked.AddLink(0, 1, 2)
	got, err := Literal(pathsOf(linked, 0, 1), LiteralEpsilon)
	if err != nil {
		t.Fatal(err)
	}
	if !network.Equal(got.Network, star) {
		t.Errorf("the links are %v, want the star's", got.Network.Links)
	}
}

// TestLiteralNoise: the search of cliques ends, with an error or with a network, whatever the latencies are.
func TestLiteralNoise(t *testing.T) {
	failed := 0
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 18))
		m := latency.New(network.Numbered(80))
		for _, p := range allPairs(80) {
			m.Set(p.A, p.B, math.Exp(.05*float64(seed)*r.NormFloat64()))
		}
		if _, err := Literal(m, LiteralEpsilon); err != nil {
			failed++
			if !strings.Contains(err.Error(), "too noisy") {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	}
	if failed == 0 {
		t.Error("no search was bounded")
	}
}

func TestLiteralBadInput(t *testing.T) {
	zero := triangle(t, "1,0 2")
	missing := triangle(t, "1,nan 2")
	for _, c := range []struct {
		m       *latency.Matrix
		epsilon float64
		want    string
	}{
		{zero, .1, "n0 and n2: the latency is 0 us"},
		{missing, .1, "n0 and n2: the latency is NaN us"},
		{triangle(t, "1,-3 2"), .1, "the latency is -3 us"},
		{triangle(t, "1,+Inf 2"), .1, "the latency is +Inf us"},
		{triangle(t, "1,2 2"), -1, "epsilon is -1"},
		{triangle(t, "1,2 2"), 2, "epsilon is 2"},
		{triangle(t, "1,2 2"), math.NaN(), "epsilon is NaN"},
		{latency.New([]string{"a"}), .1, "at least two nodes"},
		{latency.New(make([]string, literalNodes+1)), .1, "use the method weir"},
	} {
		if _, err := Literal(c.m, c.epsilon); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	if got, err := Literal(triangle(t, "5"), .1); err != nil || len(got.Network.Links) != 1 {
		t.Errorf("two nodes: %v, %v", got.Network, err)
	}
}

// TestLiteralBlizzard: the fully meshed quads become switches, as in the thesis (figure 3.4). The 16 links between
// quads are exact at half a percent of noise.
func TestLiteralBlizzard(t *testing.T) {
	node := blizzard(.575, .15, .55)
	want := network.New(node.Names[:node.Nodes])
	for range 20 {
		want.AddSwitch("")
	}
	for _, l := range node.Links {
		if l.LatencyUs != .15 {
			want.AddLink(l.A, l.B, 1)
		}
	}
	for p := range 16 {
		want.AddLink(32+p, 48+p/4, 1)
	}
	for seed := range uint64(5) {
		got, err := Literal(pathsOf(node, .005, seed), .08)
		if err != nil {
			t.Fatal(err)
		}
		if !network.Equal(got.Network, want) {
			t.Errorf("seed %d: %d vertices and %d links", seed, len(got.Network.Names), len(got.Network.Links))
		}
	}
}

// BenchmarkLiteral takes seconds at the largest size.
func BenchmarkLiteral(b *testing.B) {
	for _, n := range []int{64, 256, literalNodes} {
		net := network.New(network.Numbered(n))
		for leaf := range n / 8 {
			net.AddSwitch("")
			for v := range 8 {
				net.AddLink(8*leaf+v, n+leaf, .5)
			}
		}
		net.AddSwitch("")
		for leaf := range n / 8 {
			net.AddLink(n+leaf, n+n/8, .2)
		}
		m := pathsOf(net, .005, 1)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				if got, err := Literal(m, LiteralEpsilon); err != nil || !network.Equal(got.Network, net) {
					b.Fatal(got.Kind, err)
				}
			}
		})
	}
}

package network

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// pods is a tree of three levels with latencies of its links drawn at random.
func pods(r *rand.Rand, pods, leaves, nodes int) *Network {
	n := New(Numbered(pods * leaves * nodes))
	root := n.AddSwitch("")
	next := 0
	for range pods {
		p := n.AddSwitch("")
		n.AddLink(p, root, .1+r.Float64())
		for range leaves {
			s := n.AddSwitch("")
			n.AddLink(s, p, .1+r.Float64())
			for range nodes {
				n.AddLink(next, s, .3+r.Float64())
				next++
			}
		}
	}
	return n
}

// measured returns the latencies of a network's paths with noise.
func measured(n *Network, r *rand.Rand, sigma float64) *latency.Matrix {
	m := latency.New(n.Names[:n.Nodes])
	for a := range n.Nodes {
		far := n.Distances(a)
		for b := a + 1; b < n.Nodes; b++ {
			m.Set(a, b, far[b]*math.Exp(sigma*r.NormFloat64()))
		}
	}
	return m
}

// leastSquares solves equations, given by columns, by Householder's reflections. The columns must be independent.
func leastSquares(columns [][]float64, right []float64) []float64 {
	reflect := func(v, column []float64, half float64) {
		by := dot(v, column) / half
		for i := range v {
			column[i] -= by * v[i]
		}
	}
	for k, column := range columns {
		v := slices.Clone(column[k:])
		norm := -math.Copysign(math.Sqrt(dot(v, v)), v[0])
		v[0] -= norm
		half := dot(v, v) / 2
		for _, other := range columns[k:] {
			reflect(v, other[k:], half)
		}
		reflect(v, right[k:], half)
	}
	x := make([]float64, len(columns))
	for k := range slices.Backward(columns) {
		x[k] = right[k]
		for j := k + 1; j < len(columns); j++ {
			x[k] -= columns[j][k] * x[j]
		}
		x[k] /= columns[k][k]
	}
	return x
}

// dense returns all equations of a regression, by columns.
func (r *regression) dense() (columns [][]float64, right []float64) {
	columns = make([][]float64, r.unknowns())
	row := make([]float64, r.unknowns())
	r.each(func(a, b int, us float64) {
		clear(row)
		r.add(row, a, b, 1)
		for k := range row {
			columns[k] = append(columns[k], row[k])
		}
		right = append(right, us)
	})
	return columns, right
}

// TestCorrectAsQR: the regression without a matrix has the solution of one with a matrix.
func TestCorrectAsQR(t *testing.T) {
	const seed = 18
	for _, tt := range []struct {
		name    string
		missing float64
		make    func(r *rand.Rand) *Network
	}{
		{"256 nodes", 0, func(r *rand.Rand) *Network { return pods(r, 4, 8/slower, 8) }},
		{"a tenth is missing", .1, func(r *rand.Rand) *Network { return pods(r, 3, 3, 5) }},
		{"most are missing", .7, func(r *rand.Rand) *Network { return pods(r, 3, 3, 6) }},
		{"ring with nodes", .1, func(r *rand.Rand) *Network {
			n := New(Numbered(25))
			for i := range 5 {
				n.AddSwitch("")
				for k := range 5 {
					n.AddLink(5*i+k, 25+i, 1+r.Float64())
				}
			}
			for i := range 5 {
				n.AddLink(25+i, 25+(i+1)%5, 2+.1*r.Float64())
			}
			return n
		}},
	} {
		r := rand.New(rand.NewPCG(seed, 1))
		n := tt.make(r)
		m := measured(n, r, .02)
		for a := range m.Len() {
			for b := a + 1; b < m.Len(); b++ {
				if r.Float64() < tt.missing {
					m.Set(a, b, math.NaN())
				}
			}
		}
		c, err := Correct(n, m, Message{})
		if err != nil {
			t.Fatalf("%s, seed %d: %v", tt.name, seed, err)
		}
		g, err := newRegression(n, m, Message{})
		if err != nil {
			t.Fatal(err)
		}
		columns, right := g.dense()
		pairs := len(right)
		want := leastSquares(columns, right)
		for i, l := range c.Network.Links {
			if d := math.Abs(l.LatencyUs - want[i]); !(d <= 1e-9) {
				t.Errorf("%s, seed %d: link %d is %v, by QR %v", tt.name, seed, i, l.LatencyUs, want[i])
			}
		}
		if len(c.Undetermined) > 0 || c.RelativeRMS > .03 || c.Pairs != pairs {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
}

// TestCorrectOfTwo: the two links of a root with two switches have the same latency, and are named as not determined.
func TestCorrectOfTwo(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	n := read(t, "((0,1,2),(3,4,5,6))")
	for i := range n.Links {
		n.Links[i].LatencyUs = 1
	}
	m := measured(n, r, .01)
	c, err := Correct(n, m, Message{})
	if err != nil {
		t.Fatal(err)
	}
	var at []float64
	for _, i := range c.Undetermined {
		at = append(at, c.Network.Links[i].LatencyUs)
	}
	if len(at) != 2 || math.Abs(at[0]-at[1]) > 1e-12 || math.Abs(at[0]-1) > .05 {
		t.Errorf("undetermined links have %v", at)
	}
}

// TestCorrectWestmere: the values of the ten Westmere nodes of Bufe, table 3.5. R² of the right network is low there.
func TestCorrectWestmere(t *testing.T) {
	m := triangle(t, "../discover/testdata/cases/thesis_t3_5_westmere_nodes.csv")
	c, err := Correct(read(t, "(0,1,2,3,4,5,6,7,8,9)"), m, Message{})
	if err != nil {
		t.Fatal(err)
	}
	least, most := math.Inf(1), 0.
	for _, l := range c.Network.Links {
		least, most = min(least, l.LatencyUs), max(most, l.LatencyUs)
	}
	got := fmt.Sprintf("%.2f %.2f R2 %.2f adjusted %.2f RMS %.2f%%", least, most, c.R2, c.AdjustedR2, 100*c.RelativeRMS)
	if want := "26.55 27.20 R2 0.29 adjusted 0.10 RMS 0.75%"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// triangle reads a matrix of nodes without names.
func triangle(t *testing.T, file string) *latency.Matrix {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Fields(string(text))
	m := latency.New(Numbered(len(rows) + 1))
	for a, row := range rows {
		for i, cell := range strings.Split(row, ",") {
			var us float64
			if _, err := fmt.Sscan(cell, &us); err != nil {
				t.Fatal(err)
			}
			m.Set(a, a+1+i, us)
		}
	}
	return m
}

// TestCorrectMessage: the time of the message is taken off by the slowest link of the path, or by all of them.
func TestCorrectMessage(t *testing.T) {
	for _, forward := range []bool{false, true} {
		n := read(t, "((0,1,2),(3,4,5),(6,7,8))")
		for i := range n.Links {
			n.Links[i].LatencyUs, n.Links[i].Throughput = 2, 1000
			if n.IsSwitch(n.Links[i].A) {
				n.Links[i].LatencyUs, n.Links[i].Throughput = 3, 500
			}
		}
		m := latency.New(n.Names[:9])
		for a := range 9 {
			for b := a + 1; b < 9; b++ {
				us, slowest, sum := 4., 1., 2. // 1,000 bytes take 1 us at 1,000 MB/s
				if a/3 != b/3 {
					us, slowest, sum = 10, 2, 6
				}
				if m.Set(a, b, us+slowest); forward {
					m.Set(a, b, us+sum)
				}
			}
		}
		c, err := Correct(n, m, Message{Bytes: 1000, StoreAndForward: forward})
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range c.Network.Links {
			if math.Abs(l.LatencyUs-n.Links[i].LatencyUs) > 1e-9 {
				t.Errorf("store and forward %v: link %d is %v", forward, i, l.LatencyUs)
			}
		}
		_, err = Correct(n, m, Message{Bytes: 1e6})
		if err == nil || !strings.Contains(err.Error(), "the message alone") {
			t.Errorf("a message that takes longer than the latency: %v", err)
		}
	}
}

// TestCorrectDirect: a torus with a base. Pairs with several shortest paths are left out.
func TestCorrectDirect(t *testing.T) {
	n := New(Numbered(25))
	for i := range 25 {
		n.AddLink(i, i/5*5+(i+1)%5, 1+.01*float64(i))
		n.AddLink(i, (i+5)%25, 1.2+.01*float64(i))
	}
	n.BaseUs = 3
	m := latency.New(n.Names)
	for a := range 25 {
		for b, us := range n.Distances(a) {
			if b > a {
				m.Set(a, b, us)
			}
		}
	}
	c, err := Correct(n, m, Message{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Ambiguous == 0 || c.Ambiguous+c.Pairs != 300 || math.Abs(c.Network.BaseUs-3) > 1e-9 {
		t.Errorf("%+v, base %v", c, c.Network.BaseUs)
	}
	for i, l := range c.Network.Links {
		if math.Abs(l.LatencyUs-n.Links[i].LatencyUs) > 1e-9 {
			t.Errorf("link %d is %v, want %v", i, l.LatencyUs, n.Links[i].LatencyUs)
		}
	}
}

// TestCorrectRefuses: errors name what is wrong.
func TestCorrectRefuses(t *testing.T) {
	m := latency.New(Numbered(3))
	for _, p := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		m.Set(p[0], p[1], 1)
	}
	for text, says := range map[string]string{
		"(0,1,3)": "n3", "(0,1)": "3 nodes", "0\n1\n2": "no links",
	} {
		if _, err := Correct(read(t, text), m, Message{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := Correct(read(t, "(0,1,2)"), latency.New(Numbered(3)), Message{}); err == nil {
		t.Error("a matrix without latencies is corrected")
	}
	if _, err := Correct(read(t, "(0,1,2)"), m, Message{Bytes: math.NaN()}); err == nil {
		t.Error("a message of NaN bytes")
	}
}

// TestCorrectZeroLinks: links of no latency make no endless path.
func TestCorrectZeroLinks(t *testing.T) {
	n := read(t, "0 1\n1 2\n2 0\n2 3\n3 1")
	for i := range n.Links {
		n.Links[i].LatencyUs = 0
	}
	m := latency.New(Numbered(4))
	for a := range 4 {
		for b := a + 1; b < 4; b++ {
			m.Set(a, b, 1)
		}
	}
	if _, err := Correct(n, m, Message{}); err == nil || !strings.Contains(err.Error(), "one shortest path") {
		t.Errorf("links of no latency: %v", err)
	}
}

// BenchmarkCorrect takes 1,024 nodes: at most 0.1 s.
func BenchmarkCorrect(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	n := pods(r, 8, 8, 16)
	m := measured(n, r, .02)
	for b.Loop() {
		if _, err := Correct(n, m, Message{}); err != nil {
			b.Fatal(err)
		}
	}
}

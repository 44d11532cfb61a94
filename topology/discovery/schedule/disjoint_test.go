package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// complete returns all pairs of n nodes.
func complete(n int) []latency.Pair {
	var pairs []latency.Pair
	for a := range n {
		for b := a + 1; b < n; b++ {
			pairs = append(pairs, latency.Pair{A: a, B: b})
		}
	}
	return pairs
}

// random returns pairs of n nodes, each with a probability.
func random(n int, probability float64, seed uint64) []latency.Pair {
	r := rand.New(rand.NewPCG(seed, 18))
	return slices.DeleteFunc(complete(n), func(latency.Pair) bool { return r.Float64() >= probability })
}

// lattice returns the links of a torus of the given sides, of a hypercube where all sides are 2.
func lattice(sides ...int) []latency.Pair {
	n := 1
	for _, side := range sides {
		n *= side
	}
	links := map[latency.Pair]bool{}
	for v := range n {
		for stride, i := 1, 0; i < len(sides); stride, i = stride*sides[i], i+1 {
			at := v / stride % sides[i]
			w := v + ((at+1)%sides[i]-at)*stride
			links[latency.Pair{A: min(v, w), B: max(v, w)}] = true
		}
	}
	return sorted(links)
}

func sorted(links map[latency.Pair]bool) []latency.Pair {
	var pairs []latency.Pair
	for p := range links {
		pairs = append(pairs, p)
	}
	slices.SortFunc(pairs, comparePairs)
	return pairs
}

func comparePairs(p, q latency.Pair) int {
	if p.A != q.A {
		return p.A - q.A
	}
	return p.B - q.B
}

// checkRounds fails unless the rounds hold each pair once, and no round has a node twice.
func checkRounds(t *testing.T, rounds [][]latency.Pair, pairs []latency.Pair) {
	t.Helper()
	var all []latency.Pair
	for i, round := range rounds {
		busy := map[int]bool{}
		for _, p := range round {
			if busy[p.A] || busy[p.B] {
				t.Fatalf("round %d has a node of %v twice", i, p)
			}
			busy[p.A], busy[p.B] = true, true
		}
		all = append(all, round...)
	}
	slices.SortFunc(all, comparePairs)
	want := slices.SortedFunc(slices.Values(pairs), comparePairs)
	if !slices.Equal(all, want) {
		t.Fatalf("the rounds hold %d pairs, not the %d given", len(all), len(want))
	}
}

func degreeOf(pairs []latency.Pair) int {
	degrees, most := map[int]int{}, 0
	for _, p := range pairs {
		degrees[p.A]++
		degrees[p.B]++
		most = max(most, degrees[p.A], degrees[p.B])
	}
	return most
}

func TestDisjoint(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs []latency.Pair
		most  int // rounds
	}{
		{"nothing", nil, 0},
		{"one pair of far numbers", []latency.Pair{{A: 7, B: 90_000}}, 1},
		{"ring of 4", lattice(4), 2},
		{"ring of 5", lattice(5), 3},
		{"torus 16x16", lattice(16, 16), 4},
		{"torus 10x10x10", lattice(10, 10, 10), 6},
		{"torus 5x5", lattice(5, 5), 5},
		{"hypercube 8", lattice(2, 2, 2, 2, 2, 2, 2, 2), 8},
		{"K3", complete(3), 3},
		{"K10", complete(10), 9},
		{"K33", complete(33), 33},
		{"K64", complete(64), 63},
		{"K64 without a pair", complete(64)[1:], 63},
	} {
		rounds := Disjoint(c.pairs)
		checkRounds(t, rounds, c.pairs)
		if len(rounds) > c.most {
			t.Errorf("%s: %d rounds, want at most %d", c.name, len(rounds), c.most)
		}
	}
}

// TestDisjointRandom reaches the fans: most edges of sparse graphs find a colour that both nodes have free.
func TestDisjointRandom(t *testing.T) {
	for seed := range uint64(120) {
		n := 3 + int(seed%30)
		pairs := random(n, .2+.7*float64(seed%7)/7, seed)
		rounds := Disjoint(pairs)
		checkRounds(t, rounds, pairs)
		if degree := degreeOf(pairs); len(rounds) > degree+1 {
			t.Errorf("seed %d: %d rounds of %d nodes with degree %d", seed, len(rounds), n, degree)
		}
	}
}

// TestDisjointBipartite: two sides need no round more than the degree.
func TestDisjointBipartite(t *testing.T) {
	for seed := range uint64(80) {
		n := 4 + int(seed%20)
		pairs := slices.DeleteFunc(random(n, .9, seed), func(p latency.Pair) bool { return p.A%2 == p.B%2 })
		rounds := Disjoint(pairs)
		checkRounds(t, rounds, pairs)
		if degree := degreeOf(pairs); len(rounds) != degree {
			t.Errorf("seed %d: %d rounds of %d nodes with degree %d", seed, len(rounds), n, degree)
		}
	}
}

// TestDisjointAgain: a pair that shall be measured twice is in two rounds.
func TestDisjointAgain(t *testing.T) {
	pairs := append(lattice(4), lattice(4)...)
	rounds := Disjoint(pairs)
	checkRounds(t, rounds, pairs)
	if len(rounds) != 4 {
		t.Errorf("%d rounds, want 2 for each time", len(rounds))
	}
}

func BenchmarkDisjoint(b *testing.B) {
	star := make([]latency.Pair, 100_000)
	for i := range star {
		star[i] = latency.Pair{A: 0, B: i + 1}
	}
	for _, c := range []struct {
		name  string
		pairs []latency.Pair
	}{
		{"star", star},
		{"half of 500", random(500, .5, 1)},
		{"90 % of 500", random(500, .9, 1)},
		{"sparse of 10000", random(10_000, .002, 1)},
		{"sparse of 3000", random(3_000, .02, 1)},
	} {
		b.Run(fmt.Sprintf("%s of %d pairs", c.name, len(c.pairs)), func(b *testing.B) {
			for range b.N {
				Disjoint(c.pairs)
			}
		})
	}
}

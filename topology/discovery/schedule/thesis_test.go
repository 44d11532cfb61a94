package schedule

import (
	"testing"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// TestHalving pins the thesis's recurrence, and that a tournament needs fewer rounds.
func TestHalving(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 2: 1, 4: 3, 5: 6, 10: 11, 16: 15, 100: 102} {
		rounds := Halving(n)
		checkRounds(t, rounds, complete(n))
		if len(rounds) != want {
			t.Errorf("%d nodes: %d rounds, want T(n) = %d", n, len(rounds), want)
		}
		if tournament := len(Tournament(n)); tournament > want {
			t.Errorf("%d nodes: a tournament takes %d rounds, the thesis's scheme %d", n, tournament, want)
		}
	}
}

// TestPaths: the thesis's scheme is complete, and Disjoint is never longer on these networks.
func TestPaths(t *testing.T) {
	for name, pairs := range map[string][]latency.Pair{
		"line":        {{A: 0, B: 1}, {A: 1, B: 2}, {A: 2, B: 3}, {A: 3, B: 4}},
		"ring of 6":   lattice(6),
		"torus":       lattice(16, 16),
		"cube":        lattice(10, 10, 10),
		"hypercube 8": lattice(2, 2, 2, 2, 2, 2, 2, 2),
		"K10":         complete(10),
		"K33":         complete(33),
		"K64":         complete(64),
	} {
		rounds := paths(pairs)
		checkRounds(t, rounds, pairs)
		ours := len(Disjoint(pairs))
		t.Logf("%s: %d rounds by paths, %d by Disjoint", name, len(rounds), ours)
		if ours > len(rounds) {
			t.Errorf("%s: %d rounds by paths, %d by Disjoint", name, len(rounds), ours)
		}
	}
}

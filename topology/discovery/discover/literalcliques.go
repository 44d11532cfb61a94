package discover

import (
	"math/bits"
	"slices"
)

// cliqueSteps bounds the search of cliques in one build. A clean tree of 1,024 nodes takes about 2,000 steps.
const cliqueSteps = 100_000

// vertexSet is a set of vertices, one bit each.
type vertexSet []uint64

func (s vertexSet) add(v int)      { s[v/64] |= 1 << (v % 64) }
func (s vertexSet) remove(v int)   { s[v/64] &^= 1 << (v % 64) }
func (s vertexSet) has(v int) bool { return s[v/64]>>(v%64)&1 == 1 }

func (s vertexSet) and(t vertexSet) vertexSet {
	both := make(vertexSet, len(s))
	for i := range s {
		both[i] = s[i] & t[i]
	}
	return both
}

func (s vertexSet) common(t vertexSet) int {
	count := 0
	for i := range s {
		count += bits.OnesCount64(s[i] & t[i])
	}
	return count
}

// members returns the vertices in ascending order.
func (s vertexSet) members() []int {
	var members []int
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			members = append(members, 64*i+bits.TrailingZeros64(word))
		}
	}
	return members
}

// cliques returns the largest sets of nodes, or of switches, that are fully connected by edges of one latency. It uses
// Bron and Kerbosch's algorithm with a pivot. No set is inside another. The larger come first. errNoisy ends a long
// search.
func (g *literalGraph) cliques(us float64, ofSwitches bool) ([][]int, error) {
	s := &cliqueSearch{steps: &g.steps, next: make([]vertexSet, len(g.neighbours))}
	words := (len(g.neighbours) + 63) / 64
	candidates := make(vertexSet, words)
	for v := range s.next {
		s.next[v] = make(vertexSet, words)
	}
	for _, e := range g.edges() {
		if g.isSwitch(e.A) == ofSwitches && g.isSwitch(e.B) == ofSwitches && g.equal(g.us(e.A, e.B), us) {
			s.next[e.A].add(e.B)
			s.next[e.B].add(e.A)
			candidates.add(e.A)
			candidates.add(e.B)
		}
	}
	if err := s.extend(nil, candidates, make(vertexSet, words)); err != nil {
		return nil, err
	}
	slices.SortFunc(s.found, func(a, b []int) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return slices.Compare(a, b)
	})
	return s.found, nil
}

// cliqueSearch is one search of cliques.
type cliqueSearch struct {
	next  []vertexSet // of each vertex: the vertices that can be in a clique with it
	found [][]int
	steps *int
}

// extend finds the cliques of a clique and some candidates. Cliques with an excluded vertex were found before.
func (s *cliqueSearch) extend(clique []int, candidates, excluded vertexSet) error {
	if *s.steps++; *s.steps > cliqueSteps {
		return errNoisy
	}
	remaining := candidates.members()
	if len(remaining) == 0 {
		if len(excluded.members()) == 0 && len(clique) > 1 {
			s.found = append(s.found, slices.Sorted(slices.Values(clique)))
		}
		return nil
	}
	pivot := s.pivot(append(excluded.members(), remaining...), candidates)
	for _, v := range remaining {
		if s.next[pivot].has(v) {
			continue
		}
		if err := s.extend(append(clique, v), candidates.and(s.next[v]), excluded.and(s.next[v])); err != nil {
			return err
		}
		candidates.remove(v)
		excluded.add(v)
	}
	return nil
}

// pivot returns the vertex that most candidates are next to. They need no search of their own.
func (s *cliqueSearch) pivot(vertices []int, candidates vertexSet) int {
	best, most := vertices[0], -1
	for _, v := range vertices {
		if count := s.next[v].common(candidates); count > most {
			best, most = v, count
		}
	}
	return best
}

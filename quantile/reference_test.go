package quantile

import (
	"testing"
)

// recompressSlowly is Recompress as its definition says: it asks every share for every corner, one by one.
func recompressSlowly(shares []Summary, budget Budget) (Summary, bool) {
	m, ok := newMerger(shares, &Joiner{})
	if !ok {
		return Summary{}, false
	}
	s := Summary{Count: m.count}
	if m.atoms {
		if s.Atoms = joinAtoms(shares); s.Bytes() <= budget.Bytes {
			return s, true
		}
		s.Atoms = nil
	}
	return m.through(m.pointsSlowly(budget.Ranks), budget.Bytes), true
}

// pointsSlowly are what points says.
func (m *merger) pointsSlowly(grid int) []point {
	nothing := float64(m.count) // lies between
	var points []point
	add := func(v float64, rank int64, inner float64) {
		r := float64(min(max(rank, 1), m.count))
		if n := len(points); n == 0 || points[n-1].value < v || points[n-1].rank < r {
			points = append(points, point{v, r, inner})
		}
	}
	add(m.union[0], 1, nothing)
	before := 0
	for _, i := range m.cornersSlowly(grid) {
		inner := nothing
		if i > before+1 {
			inner = 0
		}
		s := m.knot(i)
		add(m.union[i], (s.below+unit)>>20, inner)
		add(m.union[i], (s.above+unit-1)>>20, nothing)
		before = i
	}
	add(m.union[len(m.union)-1], m.count, nothing)
	return points
}

// cornersSlowly are what corners says.
func (m *merger) cornersSlowly(grid int) (at []int) {
	last := len(m.union) - 1
	if last < 2*grid {
		for i := range last + 1 {
			at = append(at, i)
		}
		return at
	}
	for i := range 2*grid - 1 {
		at = append(at, m.cornersBetween(i*last/(2*grid-1), (i+1)*last/(2*grid-1), m.count*unit/int64(grid))...)
	}
	return append(at, last)
}

// cornersBetween are a, and corners between a and b, without those where the sum rises by at most gap.
func (m *merger) cornersBetween(a, b int, gap int64) []int {
	if b-a < 2 || m.knot(b).below-m.knot(a).above <= gap {
		return []int{a}
	}
	middle := (a + b) / 2
	return append(m.cornersBetween(a, middle, gap), m.cornersBetween(middle, b, gap)...)
}

// Recompress gives the bits of its definition, for shares of all kinds.
func TestRecompressIsItsDefinition(t *testing.T) {
	r := random(t)
	j := new(Joiner) // what one join leaves behind must not show in the next
	for range cases(300, 5_000) {
		name, shares := split(r)
		summaries := certifyAll(r, shares, nil)
		for range r.IntN(5) { // some of them many times, so that corners are left out
			summaries = append(summaries, summaries[:r.IntN(len(summaries)+1)]...)
		}
		budget := Budget{[]int{Small.Bytes, Large.Bytes}[r.IntN(2)], []int{4, 32, 256, 2048}[r.IntN(4)]}
		got, ok := j.Recompress(summaries, budget)
		want, wantOK := recompressSlowly(summaries, budget)
		if ok != wantOK || !sameBits(got, want) {
			t.Fatalf("%s, %d shares, %+v:\n%+v\n%+v", name, len(summaries), budget, got, want)
		}
	}
}

package quantile

import "slices"

// Recompress joins shares that passed Check into one summary within the budget, which merges again. Atoms stay atoms if
// they fit. Otherwise the summary has knots only, chosen on the sum of the shares' curves as Certify chooses them. Eps
// is the sum of the shares' errors and of that of the choice, so that brackets made of it still hold. Ranks are rounded
// outward, so the curve can miss a rank by Eps and one more. Any order of the shares gives the same bits. It is not ok
// where Merge is not.
//
// Pinned by TestBracketsHoldTheTruth, which merges recompressed shares too, and TestMergeIsOrderFree.
func Recompress(shares []Summary, budget Budget) (Summary, bool) {
	m, ok := newMerger(shares)
	if !ok {
		return Summary{}, false
	}
	s := Summary{Count: m.count}
	if m.atoms {
		s.Atoms = joinAtoms(shares)
		if s.Bytes() <= budget.Bytes {
			return s, true
		}
		s.Atoms = nil
	}
	points := m.points(budget.Ranks)
	last := len(points) - 1
	chosen := choose(points, slices.Compact([]int{0, last}), budget.Bytes-s.Bytes()-pairBytes(1)-pairBytes(m.count))
	kept := chosen[:0]
	for _, i := range chosen { // one point of each rank, and always the last point
		if k := len(kept); k > 0 && points[kept[k-1]].rank == points[i].rank {
			if i != last {
				continue
			}
			kept = kept[:k-1]
		}
		kept = append(kept, i)
	}
	for _, i := range kept {
		s.Knots = append(s.Knots, Knot{points[i].value, int64(points[i].rank)})
	}
	// A point is off by as much as the shares' curves, and by half a rank of rounding. Eps by its definition does not
	// count that half.
	off := slack(m.count)
	for i := range m.shares {
		if !m.shares[i].atoms {
			off += m.shares[i].off
		}
	}
	s.Eps = min(deviation(points, kept)+float64(off)/unit, float64(m.count))
	return s, true
}

// points are the corners of the sum of the shares' curves at the nearest whole ranks, two where the sum is vertical.
// What lies between two corners is on a straight line, unless corners are left out there.
//
// Between the ranks k of one value and k+1 of the next, the estimate is k + 1/2. It is rounded to the rank of the
// value.
func (m *merger) points(grid int) []point {
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
	for _, i := range m.corners(grid) {
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

// corners are the indices of the union's values, from the first to the last. Of more than twice grid some are left out,
// where the sum rises by at most a grid-th of all ranks. So no jump is left out that matters.
func (m *merger) corners(grid int) []int {
	at := make([]int, 1, 2*grid)
	last := len(m.union) - 1
	if last < 2*grid {
		for i := range last {
			at = append(at, i+1)
		}
		return at
	}
	return append(m.cornersBetween(at, 0, last, m.count*unit/int64(grid)), last)
}

// cornersBetween appends corners between a and b, without those where the sum rises by at most gap.
func (m *merger) cornersBetween(at []int, a, b int, gap int64) []int {
	if b-a < 2 || m.knot(b).below-m.knot(a).above <= gap {
		return at
	}
	mid := (a + b) / 2
	at = append(m.cornersBetween(at, a, mid, gap), mid)
	return m.cornersBetween(at, mid, b, gap)
}

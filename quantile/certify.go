package quantile

import (
	"math"
	"math/bits"
	"slices"
)

// Budget bounds the size of a summary, and the work on it.
type Budget struct {
	Bytes int // of the summary, at least Small's
	Ranks int // evenly spaced ranks that Certify looks at; all ranks of a column of fewer than twice as many values
}

// Large and Quick are weir's budgets. Small shows the accuracy of fewer bytes. docs/accuracy.md gives the accuracy of
// each.
var (
	Large = Budget{512, 1024} // 11 order statistics with about 37 more knots, or 45 atoms
	Quick = Budget{512, 256}  // the same in half the time
	Small = Budget{210, 1024} // about 9 more knots, or 18 atoms
)

// Certify describes a column as Reduce does, bit for bit, and adds a summary within the budget. Values is scratch
// afterwards.
//
// The summary is the column's atoms if they fit. Otherwise it consists of the 11 order statistics and as many knots as
// fit. Each knot is placed at the point that the curve so far misses by most ranks (Ramer 1972, Douglas and Peucker
// 1973, in ranks).
//
// Eps holds for all values, also for those between the ranks that Certify looks at. There the column and the curve both
// only rise, so the ranks on either side bound the distance. Pinned by TestEpsHoldsForEveryValue.
func Certify(values []float64, budget Budget) (Distribution, Summary) {
	return new(Joiner).Certify(values, budget)
}

// Certify is the function of that name.
func (j *Joiner) Certify(values []float64, budget Budget) (Distribution, Summary) {
	valid, lo, hi := clean(values)
	n := len(valid)
	if n == 0 {
		return Distribution{Invalid: int64(len(values))}, Summary{}
	}
	ranks := j.gridRanks(n, budget.Ranks)
	if n < 16*len(ranks) { // nearly all values would be sorted all the same
		sortValues(valid, depthOf(valid))
	} else {
		selectRanks(valid, ranks)
	}
	d := describe(valid, lo, hi, len(values))
	s := Summary{Count: d.Count}
	different := 0 // neighbours among the values at ranks
	for i := 1; i < len(ranks); i++ {
		if valid[ranks[i-1]] != valid[ranks[i]] {
			different++
		}
	}
	if s.Atoms = atoms(valid, ranks, different, budget.Bytes); s.Atoms != nil {
		return d, s
	}
	tied := different < len(ranks)-1
	points := grown(&j.places, len(ranks))
	for i, r := range ranks {
		points[i] = point{valid[r] + 0, float64(r + 1), 1}
	}
	s.Order = make([]float64, 0, N)
	at := j.order[:0]
	for k := range N {
		r := int(Rank(k, d.Count)) - 1
		s.Order = append(s.Order, valid[r]+0)
		if i, _ := slices.BinarySearch(ranks, r); len(at) == 0 || at[len(at)-1] != i {
			at = append(at, i)
		}
	}
	j.order = at
	chosen := j.chooseOfMany(points, at, tied, budget.Bytes-s.Bytes())
	s.Knots = make([]Knot, 0, len(chosen)-len(at))
	for _, i := range chosen {
		if _, order := slices.BinarySearch(at, i); !order {
			s.Knots = append(s.Knots, Knot{points[i].value, int64(points[i].rank)})
		}
	}
	s.Eps = deviation(points, chosen)
	return d, s
}

// gridRanks are the ranks, from 0, that Certify looks at. The ranks of the deciles are among them.
func (j *Joiner) gridRanks(n, grid int) []int {
	step := max(1, n/grid)
	ranks := grown(&j.ranks, n/step+2*N+2)[:0]
	if step == 1 {
		for r := range n {
			ranks = append(ranks, r)
		}
		return ranks
	}
	var buffer [2 * N]int
	deciles := decileRanks(buffer[:0], n)
	next := func() int { // of the deciles
		if len(deciles) == 0 {
			return n
		}
		return deciles[0]
	}
	for r := 0; r < n; r += step {
		for ; next() < r; deciles = deciles[1:] {
			ranks = appendRank(ranks, next())
		}
		ranks = appendRank(ranks, r)
	}
	for ; next() < n; deciles = deciles[1:] {
		ranks = appendRank(ranks, next())
	}
	return appendRank(ranks, n-1)
}

// appendRank appends a rank that is at least the last one, unless it is the last one.
func appendRank(ranks []int, r int) []int {
	if k := len(ranks); k > 0 && ranks[k-1] == r {
		return ranks
	}
	return append(ranks, r)
}

// atoms are the distinct values with their counts, or nil if they need more than maxBytes. The values at ranks are in
// place, and at least different of them are distinct. Two ranks with the same value have only equal values between
// them. So if there are few atoms, few gaps remain to be sorted.
func atoms(valid []float64, ranks []int, different, maxBytes int) []Atom {
	most := maxBytes / pairBytes(1)
	if different > most {
		return nil
	}
	s := Summary{Atoms: []Atom{{valid[0] + 0, 1}}}
	add := func(v float64, n int64) {
		if last := &s.Atoms[len(s.Atoms)-1]; last.Value == v {
			last.Count += n
		} else if len(s.Atoms) <= most {
			s.Atoms = append(s.Atoms, Atom{v + 0, n})
		}
	}
	for i := 1; i < len(ranks); i++ {
		gap := valid[ranks[i-1]+1 : ranks[i]+1]
		if valid[ranks[i-1]] == valid[ranks[i]] {
			add(gap[0], int64(len(gap)))
			continue
		}
		slices.Sort(gap)
		for _, v := range gap {
			add(v, 1)
		}
	}
	if len(s.Atoms) > most || s.Bytes() > maxBytes {
		return nil
	}
	return s.Atoms
}

// point is a place on the curve at which a knot may be. The values between the previous point and this one have ranks
// that are at least inner away from the ranks of both.
type point struct{ value, rank, inner float64 }

// segment is the curve between two neighbouring knots, and the point in it that the straight line misses by most.
type segment struct {
	from, to, worst int
	miss            int64 // the bits of a positive float64, which are in the same order
}

// newSegment finds the most ranks by which the straight line between two points misses the points between them. A
// vertical line has no slope to compute with, and counts as without a miss.
func newSegment(points []point, from, to int) segment {
	s := segment{from: from, to: to}
	a, b := points[from], points[to]
	slope := (b.rank - a.rank) / (b.value - a.value)
	if math.IsInf(slope, 0) {
		return s // vertical, or nearly so
	}
	worst, most := 0, int64(0)
	for i, p := range points[from+1 : to] {
		miss := a.rank + (p.value-a.value)*slope - p.rank
		// As integers: a branch would be mispredicted.
		m := int64(math.Float64bits(miss) & math.MaxInt64)
		if m > most {
			worst = i
		}
		most = max(most, m)
	}
	s.worst, s.miss = from+1+worst, most
	return s
}

// manyPoints bounds the number of a column's ranks that choose looks at. Looking at these takes a third of the time of
// Certify. Eps holds for all ranks, whichever were looked at.
const manyPoints = 256

// chooseOfMany is choose for the points of a column. If there are many, it leaves some out, evenly, but neither the
// points in at, nor the first or the last of equal values. tied states whether there are equal values.
func (j *Joiner) chooseOfMany(points []point, at []int, tied bool, budget int) []int {
	step := len(points) / manyPoints
	if step < 2 {
		return j.choose(points, at, budget)
	}
	few, was, now := j.few[:0], j.was[:0], j.now[:0]
	last := len(points) - 1
	for i := 0; i <= last; i += step {
		few, was = append(few, points[i]), append(was, i)
		end := min(i+step, last+1)
		if !tied && end <= last && (len(now) == len(at) || at[len(now)] >= end) {
			continue // nothing else is here to be kept
		}
		for k := i; k < end; k++ {
			fixed := len(now) < len(at) && at[len(now)] == k
			if k > i && (fixed || tied && k < last &&
				(points[k].value == points[k-1].value) != (points[k].value == points[k+1].value)) {
				few, was = append(few, points[k]), append(was, k)
			}
			if fixed {
				now = append(now, len(few)-1)
			}
		}
	}
	j.few, j.was, j.now = few, was, now
	chosen := j.choose(few, now, budget)
	for k, i := range chosen {
		chosen[k] = was[i]
	}
	return chosen
}

// choose adds as many points as budget bytes allow to the points at, which ascend and include the first and the last.
// It always adds the point that the curve misses by most, the first of equals.
func (j *Joiner) choose(points []point, at []int, budget int) []int {
	budget -= longBytes(int64(budget / pairBytes(1))) // the length of the array, beyond the length of an empty one
	segments, misses := j.segments[:0], j.misses[:0]
	add := func(s segment) {
		segments, misses = append(segments, s), append(misses, s.miss)
	}
	for i := 1; i < len(at); i++ {
		add(newSegment(points, at[i-1], at[i]))
	}
	// A set of their positions puts them in order, in a tenth of the time of a sort.
	marks := grown(&j.marks, len(points)/64+1)
	clear(marks)
	for _, i := range at {
		marks[i/64] |= 1 << (i % 64)
	}
	for len(segments) > 0 {
		most := int64(0)
		for _, m := range misses {
			most = max(most, m)
		}
		w := slices.Index(misses, most)
		s := segments[w]
		budget -= pairBytes(int64(points[s.worst].rank + 0.5))
		if math.Float64frombits(uint64(most)) < 1e-6 || budget < 0 {
			break
		}
		marks[s.worst/64] |= 1 << (s.worst % 64)
		segments[w] = newSegment(points, s.from, s.worst)
		misses[w] = segments[w].miss
		add(newSegment(points, s.worst, s.to))
	}
	chosen := j.chosen[:0]
	for k, m := range marks {
		for ; m != 0; m &= m - 1 {
			chosen = append(chosen, 64*k+bits.TrailingZeros64(m))
		}
	}
	j.segments, j.misses, j.chosen = segments, misses, chosen
	return chosen
}

// deviation bounds the number of ranks by which the curve through the chosen points misses a value. Between two
// neighbouring points a and b, values have ranks from a.rank+b.inner to b.rank-b.inner. There the curve goes from its
// rank at a to its rank at b. Neither ever falls, so the bound follows from the points alone.
func deviation(points []point, chosen []int) float64 {
	worst := 0.0
	for i := 1; i < len(chosen); i++ {
		a, b := points[chosen[i-1]], points[chosen[i]]
		if a.value == b.value {
			continue // the curve is vertical, and covers all the ranks of this value
		}
		before, at, rise := a, a.rank, b.rank-a.rank
		for _, p := range points[chosen[i-1]+1 : chosen[i]+1] {
			was := at
			at = a.rank + float64(fraction(a.value, b.value, p.value)*rise)
			// Not by max, which also minds NaN and takes half of the time of Certify.
			if d := at - before.rank - p.inner; d > worst {
				worst = d
			}
			if d := p.rank - p.inner - was; d > worst {
				worst = d
			}
			if d := math.Abs(at - p.rank); d > worst {
				worst = d
			}
			before = p
		}
	}
	return worst
}

// fraction is (v-a)/(b-a) for a <= v <= b, a < b, even if b - a overflows.
func fraction(a, b, v float64) float64 {
	d := b - a
	if math.IsInf(d, 0) {
		return (v/2 - a/2) / (b/2 - a/2)
	}
	return (v - a) / d
}

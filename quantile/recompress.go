package quantile

import (
	"math"
	"slices"
)

// Recompress joins shares that passed Check into one summary within the budget, which merges again. Atoms stay atoms if
// they fit. Otherwise the summary consists of knots only, chosen on the sum of the shares' curves as Certify chooses
// them. Eps is the sum of the shares' errors, of the error of the choice, and of one rank for rounding. So brackets
// made from it still hold. Any order of the shares gives the same bits. It is not ok if Merge is not.
//
// Pinned by TestRecompressIsItsDefinition, TestEpsOfAMergeHoldsForEveryValue, TestMergeIsOrderFree, and
// TestBracketsHoldTheTruth, which merges recompressed shares too.
func Recompress(shares []Summary, budget Budget) (Summary, bool) {
	return new(Joiner).Recompress(shares, budget)
}

// Joiner is the memory that Certify and Recompress work in. Who calls them again and again keeps one: garbage would
// take a third of the time. Only one goroutine may have it. The zero value is ready.
type Joiner struct {
	shares  []share
	points  []Knot
	union   []float64
	ranks   []int
	corners [2][]corner
	more    []corner
	values  []float64
	below   []int64
	jumps   []int64
	places  []point

	few      []point
	was, now []int
	order    []int
	segments []segment
	misses   []int64
	marks    []uint64
	chosen   []int
}

// grown returns a slice of n from the memory of s, which it enlarges if necessary. The values are left over from
// earlier uses.
func grown[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n+n/4)
	}
	return (*s)[:n]
}

// Recompress is the function of that name.
func (j *Joiner) Recompress(shares []Summary, budget Budget) (Summary, bool) {
	m, ok := newMerger(shares, j)
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
	return m.through(m.points(budget.Ranks), budget.Bytes), true
}

// through is a summary of knots among the points, within so many bytes.
func (m *merger) through(points []point, bytes int) Summary {
	s := Summary{Count: m.count}
	last := len(points) - 1
	chosen := m.room.choose(points, slices.Compact([]int{0, last}), bytes-s.Bytes()-pairBytes(1)-pairBytes(m.count))
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
	// A point is off by as much as the shares' curves, half a rank of each included, and by half a rank of rounding.
	// The curve lies half a rank above the shares' estimates. So a value's own rank is off by at most one more.
	off := slack(m.count)
	for i := range m.shares {
		if !m.shares[i].atoms {
			off += m.shares[i].off
		}
	}
	s.Eps = min(deviation(points, kept)+float64(off)/unit+1, float64(m.count))
	return s
}

// points are the corners of the sum of the shares' curves at the nearest whole ranks, two where the sum is vertical.
// Values between two corners are on a straight line, unless corners are left out there.
//
// Between the ranks k of one value and k+1 of the next, the estimate is k + 1/2. It is rounded to the rank of the
// value.
func (m *merger) points(grid int) []point {
	nothing := float64(m.count) // lies between
	corners := m.corners(grid)
	points := grown(&m.room.places, 2*len(corners)+2)[:0]
	add := func(v float64, rank int64, inner float64) {
		r := float64(min(max(rank, 1), m.count))
		if n := len(points); n == 0 || points[n-1].value < v || points[n-1].rank < r {
			points = append(points, point{v, r, inner})
		}
	}
	add(m.union[0], 1, nothing)
	before := 0
	for _, c := range corners {
		inner := nothing
		if c.at > before+1 {
			inner = 0
		}
		add(m.union[c.at], (c.below+unit)>>20, inner)
		add(m.union[c.at], (c.above+unit-1)>>20, nothing)
		before = c.at
	}
	add(m.union[len(m.union)-1], m.count, nothing)
	return points
}

// corner is a value of the union, by its index, with the estimates of #{x < v} and #{x <= v}.
type corner struct {
	at           int
	below, above int64 // in units
}

// corners are values of the union, from the first to the last. If there are more than twice grid, some are left out,
// but only between neighbours across which the sum rises by at most a grid-th of all ranks. So no large jump is left
// out.
func (m *merger) corners(grid int) []corner {
	last := len(m.union) - 1
	n := last + 1
	if last >= 2*grid {
		n = 2 * grid // to begin with; evenly spaced in the union
	}
	all, other := grown(&m.room.corners[0], n), 1
	for i := range all {
		all[i].at = i * last / max(n-1, 1)
	}
	m.estimate(all)
	for gap := m.count * unit / int64(grid); ; {
		more := m.room.more[:0]
		for i := 1; i < len(all); i++ {
			if a, b := all[i-1], all[i]; b.at-a.at >= 2 && b.below-a.above > gap {
				more = append(more, corner{at: (a.at + b.at) / 2})
			}
		}
		m.room.more = more
		if len(more) == 0 {
			return all
		}
		m.estimate(more)
		all = zip(grown(&m.room.corners[other], len(all)+len(more))[:0], all, more)
		other = 1 - other
	}
}

// zip appends two lists of corners in order.
func zip(both, a, b []corner) []corner {
	for _, c := range a {
		for len(b) > 0 && b[0].at < c.at {
			both, b = append(both, b[0]), b[1:]
		}
		both = append(both, c)
	}
	return append(both, b...)
}

// estimate adds up the standings of corners in the union, as merger.at does. The corners ascend. It takes one share
// after the other, and walks along its curve once.
func (m *merger) estimate(corners []corner) {
	values := grown(&m.room.values, len(corners))
	for i, c := range corners {
		values[i] = m.union[c.at]
	}
	below, jumps := grown(&m.room.below, len(corners)), grown(&m.room.jumps, len(corners))
	clear(below)
	clear(jumps)
	for i := range m.shares {
		m.shares[i].addTo(values, below, jumps)
	}
	for i := range corners {
		corners[i].below, corners[i].above = below[i], below[i]+jumps[i]
	}
}

// addTo adds standing.below of values, which ascend, and the excess of standing.above over it.
func (s *share) addTo(values []float64, below, jumps []int64) {
	half := int64(unit / 2)
	if s.atoms {
		half = 0
	}
	j, last, upTo := 0, len(s.points)-1, int64(0)
	for j < len(values) && values[j] < s.points[0].Value {
		j++
	}
	for i := 0; i <= last; i++ {
		p := s.points[i]
		if from := p.Rank*unit - half; !s.atoms && i > 0 {
			upTo = from
		}
		for i < last && s.points[i+1].Value == p.Value {
			i++
		}
		at := upTo
		if upTo = s.points[i].Rank*unit - half; i == last {
			upTo = s.count * unit
		}
		if j < len(values) && values[j] == p.Value {
			below[j] += at
			jumps[j] += upTo - at
			j++
		}
		switch {
		case i == last:
			for ; j < len(values); j++ {
				below[j] += upTo
			}
		case s.atoms:
			for b := s.points[i+1].Value; j < len(values) && values[j] < b; j++ {
				below[j] += upTo
			}
		default:
			n := addLine(s.points[i], s.points[i+1], values[j:], below[j:])
			j += n
		}
	}
}

// addLine adds the estimates on the line from a to b at the values before b, and returns the number of these values.
func addLine(a, b Knot, values []float64, below []int64) int {
	from, rise, d := a.Rank*unit-unit/2, float64((b.Rank-a.Rank)*unit), b.Value-a.Value
	below = below[:len(values)]
	if math.IsInf(d, 0) {
		for j, v := range values {
			if v >= b.Value {
				return j
			}
			below[j] += from + int64(fraction(a.Value, b.Value, v)*rise)
		}
		return len(values)
	}
	for j, v := range values {
		if v >= b.Value {
			return j
		}
		below[j] += from + int64((v-a.Value)/d*rise)
	}
	return len(values)
}

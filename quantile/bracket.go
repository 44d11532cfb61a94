package quantile

import "math"

// bracket holds type-4 decile k of all values. The decile lies between two neighbouring order statistics and rises with
// both, and each of these has a bracket.
func (m *merger) bracket(k int) (lo, hi float64) {
	j, g := position(m.count, k)
	lo, hi = m.orderBracket(max(j, 1))
	if j < 1 || g == 0 {
		return lo, hi
	}
	nextLo, nextHi := m.orderBracket(j + 1)
	nextLo, hi = max(nextLo, lo), min(hi, nextHi)
	if lo == hi && nextLo == nextHi {
		d := lerp(lo, nextLo, g)
		return d, d
	}
	// In real numbers the interpolation rises with both ends. Its rounding may lower it by as much as pad.
	pad := math.Ldexp(max(math.Abs(lo), math.Abs(nextHi)), -51)
	return max(lerp(lo, nextLo, g)-pad, lo), min(lerp(hi, nextHi, g)+pad, nextHi)
}

// orderBracket holds the value of that rank. The value is at least v if #{x < v} <= rank-1, and at most v if #{x <= v}
// >= rank. The bracket is the greatest and the least v for which that is proven, or nearly so: any proven v gives a
// valid bracket.
func (m *merger) orderBracket(rank int64) (lo, hi float64) {
	least := func(s *standing) bool { return s.least >= rank }
	most := func(s *standing) bool { return s.most >= rank }
	i := m.first(least)
	hi = m.union[i]
	if i > 0 {
		_, hi = m.narrow(i, least)
	}
	i = m.first(most)
	lo = m.union[i]
	if m.knot(i).most >= rank && i > 0 {
		lo, _ = m.narrow(i, most)
	}
	return lo, hi
}

// narrow brings two neighbouring values of the union nearer to each other: that before i is not enough, that at i is.
// It ends when about a 4096th of all values is left between them.
func (m *merger) narrow(i int, enough func(*standing) bool) (a, b float64) {
	a, b = m.union[i-1], m.union[i]
	for span := m.knot(i).below - m.knot(i-1).above; span>>8 > m.count; span /= 2 {
		v := a/2 + b/2
		if v <= a || v >= b {
			break
		}
		if s := m.at(v); enough(&s) {
			b = v
		} else {
			a = v
		}
	}
	return a, b
}

// rankError is Estimate.RankError for decile k alone.
func (m *merger) rankError(k int, e *Estimate) float64 {
	if e.Lo[k] == e.Hi[k] {
		return 0
	}
	s := m.at(e.Deciles[k])
	rank := max(float64(m.count)*float64(k)/10, 1)
	return min(max(rank-float64(s.least), float64(s.most+1)-rank, 0)/float64(m.count), 1)
}

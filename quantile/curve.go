package quantile

import "math"

// unit is the number of units of a rank. Ranks are added as integers in units, so that a sum over shares is the same in
// any order.
const unit = 1 << 20

// slack is a bound, in units, of the shift that rounding, to units and in floating point, causes in a rank of count
// values.
func slack(count int64) int64 { return 4 + count>>30 }

// share is a Summary prepared for finding the ranks of a value in it.
type share struct {
	count  int64
	points []Knot // of the curve; for atoms, the rank of the last value of each
	off    int64  // units by which the estimates of a curve may be off: eps and half a rank
	exact  bool   // the ranks are exact
	atoms  bool   // the points are all values
	near   int    // index of the last value looked up: the next is mostly near
}

// newShare prepares a summary once, since a merge looks values up in it thousands of times. Its points are appended to
// room. Adding 0 makes -0 and 0 the same value.
func newShare(s *Summary, room *[]Knot) share {
	from := len(*room)
	sh := share{
		count: s.Count, exact: len(s.Order) > 0, atoms: len(s.Atoms) > 0,
	}
	// Half a rank is added to all. Earlier releases did not count the rounding of ranks in the Eps of a merged curve.
	sh.off = int64(math.Ceil((s.Eps+0.5)*unit)) + slack(s.Count)
	if !sh.atoms {
		*room = s.appendCurve(*room)
	}
	var sum int64
	for _, a := range s.Atoms {
		sum += a.Count
		*room = append(*room, Knot{a.Value + 0, sum})
	}
	sh.points = (*room)[from:len(*room):len(*room)]
	return sh
}

// standing describes the ranks of a value v in a share, or, added up, in several.
//
// Below and above are the estimates of #{x < v} and #{x <= v}, in units. They are 0 below the least value, and the
// count above the greatest. Between them they are h - 1/2, where h is the curve through the knots. The half makes it
// the middle of the step at a value. Without it every share would add half a rank too many: (shares-1)/2 in all. For
// atoms they are exact.
//
// Least and most are proven: #{x <= v} >= least and #{x < v} <= most. They follow from the exact ranks: if a value has
// rank r, r values are at or below it, and at most r-1 below. They also follow from the curve, which is off by at most
// share.off.
type standing struct{ below, above, least, most int64 }

func (a *standing) add(b standing) {
	a.below += b.below
	a.above += b.above
	a.least += b.least
	a.most += b.most
}

// at finds the standing of v. It searches from the last place, because a merge asks for neighbouring values in turn. It
// changes the share, so only one goroutine may use it.
func (s *share) at(v float64) standing {
	last := len(s.points) - 1
	switch {
	case v < s.points[0].Value:
		return standing{}
	case v > s.points[last].Value:
		return standing{s.count * unit, s.count * unit, s.count, s.count}
	}
	i := s.near // the first point at or above v
	for s.points[i].Value < v {
		i++
	}
	for i > 0 && s.points[i-1].Value >= v {
		i--
	}
	s.near = i
	j := i // the first point above v
	for j <= last && s.points[j].Value == v {
		j++
	}
	if s.atoms {
		var below, upTo int64
		if i > 0 {
			below = s.points[i-1].Rank
		}
		if j > 0 {
			upTo = s.points[j-1].Rank
		}
		return standing{below * unit, upTo * unit, upTo, below}
	}
	var st standing
	if i == j {
		a, b := s.points[i-1], s.points[i]
		st.below = a.Rank*unit + int64(fraction(a.Value, b.Value, v)*float64((b.Rank-a.Rank)*unit)) - unit/2
		st.above = st.below
	} else {
		st.below, st.above = s.points[i].Rank*unit-unit/2, s.points[j-1].Rank*unit-unit/2
	}
	st.least = max((st.above-s.off+unit-1)>>20, 1)
	st.most = min((st.below+s.off)>>20, s.count-1)
	if s.exact && j > 0 {
		st.least = max(st.least, s.points[j-1].Rank)
	}
	if s.exact && i <= last {
		st.most = min(st.most, s.points[i].Rank-1)
	}
	if i == 0 {
		st.below, st.most = 0, 0
	}
	if j > last {
		st.above, st.least = s.count*unit, s.count
	}
	return st
}

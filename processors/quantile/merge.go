package quantile

import (
	"cmp"
	"math"
	"slices"
)

// Knot is a value of a column with its exact rank, from 1.
type Knot struct {
	Value float64
	Rank  int64
}

// Share is what a merge knows of one share of a column: how many values it has, and values of known rank in ascending
// order, among them rank 1 and rank Count.
type Share struct {
	Count int64
	Knots []Knot
}

// NewShare makes a Share of the order statistics at Rank(0..10, count) and of further knots; order may be empty where the
// knots hold the first and the last value.
func NewShare(count int64, order []float64, more []Knot) Share {
	knots := slices.Clone(more)
	for k, v := range order {
		knots = append(knots, Knot{v, Rank(k, count)})
	}
	slices.SortFunc(knots, func(a, b Knot) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Value, b.Value)) })
	knots = slices.CompactFunc(knots, func(a, b Knot) bool { return a.Rank == b.Rank })
	for i := 1; i < len(knots); i++ { // a record from outside may contradict itself; the search below must not care
		knots[i].Value = max(knots[i].Value, knots[i-1].Value)
	}
	return Share{count, knots}
}

// Atom is a value and how often it occurs.
type Atom struct {
	Value float64
	Count int64
}

// FromAtoms makes a Share that knows all values of its column.
func FromAtoms(atoms []Atom) Share {
	var s Share
	for _, a := range atoms {
		s.Knots = append(s.Knots, Knot{a.Value, s.Count + 1})
		if a.Count > 1 {
			s.Knots = append(s.Knots, Knot{a.Value, s.Count + a.Count})
		}
		s.Count += a.Count
	}
	return s
}

func knotsOf(order [N]float64, count int64) []Knot { return NewShare(count, order[:], nil).Knots }

// fraction is the unit in which ranks are added: integers, so that the sum over shares is the same in any order.
const fraction = 1 << 20

// midRank is where v stands in the share, in units of 1/fraction: 0 below the first value, Count above the last, the
// mid-rank h - 1/2 between, with h linear between knots. At a value that several knots share it jumps; below tells from
// which side v is approached.
func (s *Share) midRank(v float64, below bool) int64 {
	first, last := s.Knots[0], s.Knots[len(s.Knots)-1]
	switch {
	case v < first.Value || v == first.Value && below:
		return 0
	case v > last.Value || v == last.Value && !below:
		return s.Count * fraction
	}
	// The last knot at or below v (below: strictly below v), and its successor.
	i, _ := slices.BinarySearchFunc(s.Knots, v, func(k Knot, v float64) int {
		if k.Value < v || k.Value == v && !below {
			return -1
		}
		return 1
	})
	a, b := s.Knots[i-1], s.Knots[i]
	rank := float64(a.Rank)
	if b.Value > a.Value {
		rank += position(a.Value, b.Value, v) * float64(b.Rank-a.Rank)
	}
	return int64(math.Round((rank - 0.5) * fraction))
}

// position is (v-a)/(b-a) for a <= v <= b, a < b, also where b - a overflows.
func position(a, b, v float64) float64 {
	d := b - a
	if math.IsInf(d, 0) {
		return (v/2 - a/2) / (b/2 - a/2)
	}
	return (v - a) / d
}

// Merge estimates the deciles of the union of the shares: the sum of their mid-rank functions, inverted at N·k/10 - 1/2.
// The sum is piecewise linear, so between two neighbouring knots of the union the inversion is exact. Any order of the
// shares gives the same bits. Shares without values are passed over; without any value the result is not ok.
//
// A single share gives its order statistics where N·k/10 is whole and its column is known there. Pinned by
// TestMergeOfOneShare, TestMergeIsOrderFree and TestMergeIsNearTheTruth.
func Merge(shares []Share) (deciles [N]float64, ok bool) {
	var union []float64
	var count int64
	live := shares[:0:0]
	for _, s := range shares {
		if s.Count == 0 {
			continue
		}
		live = append(live, s)
		count += s.Count
		for _, k := range s.Knots {
			union = append(union, k.Value)
		}
	}
	if count == 0 {
		return deciles, false
	}
	slices.Sort(union)
	union = slices.Compact(union)
	rankAt := func(v float64, below bool) int64 {
		var sum int64
		for i := range live {
			sum += live[i].midRank(v, below)
		}
		return sum
	}
	for k := range N {
		// N·k/10 - 1/2, in units of fraction, in integers.
		target := count*int64(k)*fraction/10 - fraction/2
		deciles[k] = invert(union, rankAt, target)
	}
	deciles[0], deciles[N-1] = union[0], union[len(union)-1]
	for k := 1; k < N; k++ {
		deciles[k] = max(deciles[k], deciles[k-1])
	}
	return deciles, true
}

// invert finds the value at which the summed mid-rank reaches target: a knot, where the sum jumps across it, else a point
// of the segment between two knots.
func invert(union []float64, rankAt func(v float64, below bool) int64, target int64) float64 {
	// The first knot at which the sum, taken from above, reaches the target.
	i, _ := slices.BinarySearchFunc(union, target, func(v float64, target int64) int {
		if rankAt(v, false) < target {
			return -1
		}
		return 1
	})
	if i == 0 {
		return union[0]
	}
	if i == len(union) {
		return union[i-1]
	}
	low, high := rankAt(union[i-1], false), rankAt(union[i], true)
	if target >= high {
		return union[i]
	}
	return lerp(union[i-1], union[i], float64(target-low)/float64(high-low))
}

// rankError is the largest distance, over all values of the column, between a value's rank and the rank that the curve
// through the knots gives it: half a rank is the least, since the curve passes through the middle of a value's step.
// A run of equal values is met from both sides.
func rankError(sorted []float64, knots []Knot) float64 {
	worst, k := 0.0, 0
	for i := 0; i < len(sorted); {
		v := sorted[i]
		end := i + 1
		for end < len(sorted) && sorted[end] == v {
			end++
		}
		for k+1 < len(knots) && knots[k+1].Value <= v { // the last knot at or below v
			k++
		}
		first, last := float64(i+1), float64(end) // the run's ranks
		low, high := curveAt(knots, k, v)
		worst = max(worst, math.Abs(low-first), math.Abs(high-last))
		i = end
	}
	return worst
}

// curveAt is the rank, from below and from above, at which the curve through the knots passes v; knot k is the last at or
// below v. The two differ where several knots share v.
func curveAt(knots []Knot, k int, v float64) (low, high float64) {
	if knots[k].Value == v {
		first := k
		for first > 0 && knots[first-1].Value == v {
			first--
		}
		return float64(knots[first].Rank), float64(knots[k].Rank)
	}
	a, b := knots[k], knots[k+1]
	rank := float64(a.Rank) + position(a.Value, b.Value, v)*float64(b.Rank-a.Rank)
	return rank, rank
}

// Moments are a count, a mean and the sum of squared deviations from it.
type Moments struct {
	Count    int64
	Mean, M2 float64
}

// Add joins two sets of moments by Chan, Golub and LeVeque's formula (1979). Its rounding depends on the order: callers
// that want the same bits add in a fixed one.
func (m Moments) Add(o Moments) Moments {
	switch {
	case o.Count == 0:
		return m
	case m.Count == 0:
		return o
	}
	n, delta := float64(m.Count+o.Count), o.Mean-m.Mean
	share := float64(o.Count) / n
	mean := m.Mean + delta*share
	if math.IsInf(delta, 0) {
		mean = m.Mean*(1-share) + o.Mean*share
	}
	mean = min(max(mean, min(m.Mean, o.Mean)), max(m.Mean, o.Mean))
	m2 := m.M2 + o.M2 + delta*delta*float64(m.Count)*share
	return Moments{m.Count + o.Count, mean, min(m2, math.MaxFloat64)}
}

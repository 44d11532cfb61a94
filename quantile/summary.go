package quantile

import (
	"fmt"
	"math"
)

// Summary contains the data that a merge needs of one share of a column, in a few hundred bytes. It has one of three
// forms:
//
//   - Atoms are all its values. A merge of atoms alone is exact.
//   - Order and Knots are values of the share with their exact ranks. The curve through them misses no value's rank by
//     more than Eps.
//   - Knots without Order come from Recompress. The curve through them misses no value's rank by more than Eps. Only
//     its ends, the least and the greatest value, are known to be values of the share.
type Summary struct {
	Count int64
	Eps   float64   // in ranks; if values are equal, of the first and of the last
	Order []float64 // values at the ranks Rank(0..10, Count), or none
	Knots []Knot    // more of them, ascending
	Atoms []Atom    // all values, ascending, if few are distinct; then neither Order nor Knots
}

// Knot is a point of the curve: a value with its rank, from 1.
type Knot struct {
	Value float64
	Rank  int64
}

// Atom is a value and the number of its occurrences.
type Atom struct {
	Value float64
	Count int64
}

// Rank is the rank, from 1, of the order statistic that stands for decile k of n values: floor(n·k/10) within [1, n].
func Rank(k int, n int64) int64 { return min(max(n*int64(k)/10, 1), n) }

// MaxCount is the largest number of values of a share, or of all shares of a merge. Ranks are added in 63 bits, in
// units of 2^-20.
const MaxCount = 1 << 42

// Check reports why the summary cannot be one, with the name of the field. Merge and Recompress take every summary that
// passes, without panic. Only a summary with true numbers makes their bounds true.
func (s *Summary) Check() error {
	switch {
	case s.Count < 0 || s.Count > MaxCount:
		return fmt.Errorf("count: %d is not in 0 to %d", s.Count, int64(MaxCount))
	case s.Count == 0 && len(s.Order)+len(s.Knots)+len(s.Atoms) > 0:
		return fmt.Errorf("count: 0 beside order_statistics, knots or atoms")
	case math.IsNaN(s.Eps) || s.Eps < 0 || s.Eps > float64(s.Count):
		return fmt.Errorf("eps: %g is not a rank error of %d values", s.Eps, s.Count)
	case len(s.Atoms) > 0:
		return s.checkAtoms()
	case len(s.Order) != 0 && len(s.Order) != N:
		return fmt.Errorf("order_statistics: %d, not %d or none", len(s.Order), N)
	}
	for k, v := range s.Order {
		if !finite(v) || k > 0 && (v < s.Order[k-1] || Rank(k, s.Count) == Rank(k-1, s.Count) && v != s.Order[k-1]) {
			return fmt.Errorf("order_statistics: %d is not finite or out of order", k)
		}
	}
	for i, k := range s.Knots {
		if !finite(k.Value) || k.Rank < 1 || k.Rank > s.Count ||
			i > 0 && (k.Value < s.Knots[i-1].Value || k.Rank <= s.Knots[i-1].Rank) {
			return fmt.Errorf("knots: %d is not finite, out of order or not in 1 to %d", i, s.Count)
		}
	}
	return s.checkCurve()
}

// checkAtoms checks a summary that lists every value. It stops adding once the sum is too large: hostile counts must
// not overflow it.
func (s *Summary) checkAtoms() error {
	if len(s.Order) > 0 || len(s.Knots) > 0 || s.Eps != 0 {
		return fmt.Errorf("atoms: beside eps, order_statistics or knots")
	}
	var sum int64
	for i, a := range s.Atoms {
		if !finite(a.Value) || i > 0 && a.Value <= s.Atoms[i-1].Value || a.Count < 1 || a.Count > s.Count {
			return fmt.Errorf("atoms: %d is not finite, out of order or not of 1 to %d values", i, s.Count)
		}
		if sum += a.Count; sum > s.Count {
			break
		}
	}
	if sum != s.Count {
		return fmt.Errorf("atoms: not %d values in all", s.Count)
	}
	return nil
}

// checkCurve checks that order statistics and knots, each in order, agree, and reach from the first to the last rank.
func (s *Summary) checkCurve() error {
	var room [64]Knot
	curve := s.appendCurve(room[:0])
	for i := 1; i < len(curve); i++ {
		if curve[i].Value < curve[i-1].Value || curve[i].Rank <= curve[i-1].Rank {
			return fmt.Errorf("knots: one at rank %d contradicts order_statistics", max(curve[i].Rank, curve[i-1].Rank))
		}
	}
	if n := len(curve); s.Count > 0 && (n == 0 || curve[0].Rank != 1 || curve[n-1].Rank != s.Count) {
		return fmt.Errorf("knots: they do not reach from 1 to %d", s.Count)
	}
	return nil
}

// appendCurve appends the order statistics, one of each rank, and the knots, ascending by rank.
func (s *Summary) appendCurve(curve []Knot) []Knot {
	i := 0
	for k, v := range s.Order {
		r := Rank(k, s.Count)
		if k > 0 && r == Rank(k-1, s.Count) {
			continue
		}
		for ; i < len(s.Knots) && s.Knots[i].Rank < r; i++ {
			curve = append(curve, Knot{s.Knots[i].Value + 0, s.Knots[i].Rank})
		}
		curve = append(curve, Knot{v + 0, r})
	}
	for ; i < len(s.Knots); i++ {
		curve = append(curve, Knot{s.Knots[i].Value + 0, s.Knots[i].Rank})
	}
	return curve
}

// Bytes is the size of the summary in Avro. A value takes eight bytes, and a rank or a count as many as it needs.
func (s *Summary) Bytes() int {
	n := 8 + arrayBytes(len(s.Order)) + 8*len(s.Order) + arrayBytes(len(s.Knots)) + arrayBytes(len(s.Atoms))
	for _, k := range s.Knots {
		n += pairBytes(k.Rank)
	}
	for _, a := range s.Atoms {
		n += pairBytes(a.Count)
	}
	return n
}

// arrayBytes is the size of an array of n without its items: their number if there are any, and a zero.
func arrayBytes(n int) int {
	if n == 0 {
		return 1
	}
	return 1 + longBytes(int64(n))
}

// pairBytes is the size of a knot of that rank, or of an atom of that count.
func pairBytes(long int64) int { return 8 + longBytes(long) }

// longBytes is the length of a positive long: 7 bits a byte, less one bit for the sign.
func longBytes(n int64) int {
	bytes := 1
	for n >>= 6; n > 0; n >>= 7 {
		bytes++
	}
	return bytes
}

func finite(v float64) bool { return v-v == 0 }

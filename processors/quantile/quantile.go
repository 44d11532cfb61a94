// Package quantile is weir's mathematics: exact deciles of a column of values, the summary of a share of a column from
// which shares merge, and the moments beside them. It knows values only: no records, no clock, no order of arrival.
//
// Deciles are of Hyndman and Fan's type 4, as PerSyst defines them; numpy calls the method interpolated_inverted_cdf.
package quantile

import (
	"math"
	"slices"
)

// N is how many deciles a distribution has: D0, the minimum, to D10, the maximum.
const N = 11

// Distribution describes a column of values. With Count 0 every other number is 0 and means nothing.
type Distribution struct {
	Count   int64 // valid values
	Invalid int64 // values that were NaN or infinite

	Mean float64
	M2   float64 // sum of squared deviations from Mean

	Deciles [N]float64 // type 4
	Order   [N]float64 // values of the column at the ranks Rank(k, Count)
	Eps     float64    // RankError of the curve through Order, over all values
}

// Reduce describes a column. It drops NaN and infinite values and counts them, turns -0 into 0, and sorts the rest in
// place: values is scratch afterwards. The same values give the same bits in any order.
//
// Pinned by TestDecilesEqualTheDefinition (type 4) and TestReduceIsOrderFree.
func Reduce(values []float64) Distribution {
	valid := values[:0]
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		valid = append(valid, v+0) // -0 + 0 is 0
	}
	d := Distribution{Count: int64(len(valid)), Invalid: int64(len(values) - len(valid))}
	if d.Count == 0 {
		return d
	}
	slices.Sort(valid)
	d.Mean, d.M2 = moments(valid)
	for k := range N {
		d.Deciles[k] = Decile(valid, k)
		d.Order[k] = valid[Rank(k, d.Count)-1]
	}
	d.Eps = rankError(valid, knotsOf(d.Order, d.Count))
	return d
}

// Stddev is the standard deviation, divided by n.
func (d Distribution) Stddev() float64 { return Stddev(d.M2, d.Count) }

// Stddev is sqrt(m2/n) for n > 0. A sum of squares beyond the largest number gives the largest number.
func Stddev(m2 float64, n int64) float64 { return math.Sqrt(m2 / float64(n)) }

// Decile is decile k (0 to 10) of ascending values, at least one.
//
// With j = floor(N·k/10) and g the rest of that division in tenths: x_1 for j < 1, x_N for j >= N, else
// x_j + g (x_{j+1} - x_j). j and g are found in integers: N·(k/10) in floating point is wrong for one N in 400.
func Decile(sorted []float64, k int) float64 {
	n := len(sorted)
	j, tenths := n*k/10, n*k%10
	switch {
	case j < 1:
		return sorted[0]
	case j >= n:
		return sorted[n-1]
	}
	return lerp(sorted[j-1], sorted[j], float64(tenths)/10)
}

// Rank is the rank, from 1, of the order statistic that stands for decile k of n values: floor(n·k/10) within [1, n].
func Rank(k int, n int64) int64 { return min(max(n*int64(k)/10, 1), n) }

// lerp is a + g (b - a) for a <= b and 0 <= g < 1, never outside [a, b], also where b - a overflows.
func lerp(a, b, g float64) float64 {
	if a == b || g == 0 {
		return a
	}
	d := b - a
	if math.IsInf(d, 0) {
		return min(max((1-g)*a+g*b, a), b)
	}
	return min(max(a+g*d, a), b)
}

// moments returns the mean of ascending values and the sum of their squared deviations from it. Both sums are compensated
// (Neumaier), so that the mean of ten million values is as good as that of ten.
func moments(sorted []float64) (mean, m2 float64) {
	mean, _ = Mean(sorted)
	var q sum
	for _, v := range sorted {
		d := v - mean
		q.add(d * d)
	}
	return mean, min(q.value(), math.MaxFloat64)
}

// Mean is the mean of the valid values, not ok where there are none. It leaves values as they are. Its last bit may
// depend on their order.
func Mean(values []float64) (mean float64, ok bool) {
	n, lo, hi := 0.0, math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			n, lo, hi = n+1, min(lo, v), max(hi, v)
		}
	}
	if n == 0 {
		return 0, false
	}
	scale := 1.0
	if max(math.Abs(lo), math.Abs(hi)) > math.MaxFloat64/n {
		scale = n // the sum would overflow: sum shares instead
	}
	var s sum
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			s.add(v / scale)
		}
	}
	return min(max(s.value()/(n/scale), lo), hi) + 0, true
}

// sum is Neumaier's compensated sum. Infinity stays infinity.
type sum struct{ s, c float64 }

func (a *sum) add(v float64) {
	t := a.s + v
	if math.Abs(a.s) >= math.Abs(v) {
		a.c += (a.s - t) + v
	} else {
		a.c += (v - t) + a.s
	}
	a.s = t
}

func (a *sum) value() float64 {
	if math.IsInf(a.s, 0) {
		return a.s
	}
	return a.s + a.c
}

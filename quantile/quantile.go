// Package quantile is weir's mathematics: exact deciles of a column of values, and their moments. A certified summary
// describes a share of a column, and summaries merge within proven bounds. The package knows values only: no records,
// no clock, no order of arrival.
//
// Deciles are of Hyndman and Fan's type 4, as PerSyst defines them. numpy calls the method interpolated_inverted_cdf.
// PerSyst's paper does not cover n·k/10 < 1. We take the least value as the decile then.
//
// Reduce is exact. Certify describes a share. Merge joins shares and bounds its error. Recompress joins shares into one
// that merges again. Each gives the same bits for the same values in any order.
package quantile

import "math"

// N is the number of deciles of a distribution: D0, the minimum, to D10, the maximum.
const N = 11

// Distribution describes a column of values. With Count 0 every other number is 0 and means nothing.
type Distribution struct {
	Count   int64 // valid values
	Invalid int64 // values that were NaN or infinite

	Mean float64
	M2   float64 // sum of squared deviations from Mean

	Deciles [N]float64 // type 4
}

// Moments returns the moments of the valid values.
func (d Distribution) Moments() Moments { return Moments{d.Count, d.Mean, d.M2} }

// Stddev is the standard deviation, divided by n.
func (d Distribution) Stddev() float64 { return Stddev(d.M2, d.Count) }

// Reduce describes a column. It drops NaN and infinite values and counts them, and turns -0 into 0. Values is scratch
// afterwards. It allocates nothing.
//
// Pinned by TestReduceEqualsASort (the definition, bit for bit) and TestReduceIsOrderFree.
func Reduce(values []float64) Distribution {
	valid, lo, hi := clean(values)
	if len(valid) == 0 {
		return Distribution{Invalid: int64(len(values))}
	}
	var buffer [2 * N]int
	selectRanks(valid, decileRanks(buffer[:0], len(valid)))
	return describe(valid, lo, hi, len(values))
}

// clean returns the finite values, with the least and the greatest of them.
func clean(values []float64) (valid []float64, lo, hi float64) {
	lo, hi, ok := bounds(values)
	if ok {
		return values, lo, hi
	}
	return compact(values)
}

// describe is the Distribution of a column with its decileRanks in place. The column contained so many values, the
// invalid ones included.
func describe(valid []float64, lo, hi float64, values int) Distribution {
	d := Distribution{Count: int64(len(valid)), Invalid: int64(values - len(valid))}
	for k := 1; k < N-1; k++ {
		d.Deciles[k] = lo
		if j, g := position(int64(len(valid)), k); j >= 1 {
			d.Deciles[k] = lerp(valid[j-1]+0, valid[j]+0, g) // -0 + 0 is 0
		}
	}
	d.Deciles[0], d.Deciles[N-1] = lo, hi
	s := newScale(lo, hi)
	d.Mean = s.mean(valid, lo, hi)
	d.M2 = s.squares(valid, lo, hi, d.Mean)
	return d
}

// position is the position of decile k among n values, from 1: j = floor(n·k/10), and g is the rest of that division in
// tenths. Decile k is x_1 for j < 1, x_n for j >= n, otherwise x_j + g (x_{j+1} - x_j). Both are found in integers:
// n·(k/10) in floating point is wrong for one n in 400.
func position(n int64, k int) (j int64, g float64) {
	return n * int64(k) / 10, float64(n*int64(k)%10) / 10
}

// decileRanks appends the ranks, from 0, of the values from which deciles 1 to 9 of n values are computed. They ascend
// if n >= 10.
func decileRanks(ranks []int, n int) []int {
	for k := 1; k < N-1; k++ {
		if j, _ := position(int64(n), k); j >= 1 {
			ranks = append(ranks, int(j-1), int(j))
		}
	}
	return ranks
}

// lerp is a + g (b - a) for a <= b and 0 <= g < 1. It is never outside [a, b], even if b - a overflows. The conversions
// keep a processor from fusing the product and the sum, so that all processors give the same bits.
func lerp(a, b, g float64) float64 {
	if a == b || g == 0 {
		return a
	}
	d := b - a
	if math.IsInf(d, 0) {
		return min(max(float64((1-g)*a)+float64(g*b), a), b)
	}
	return min(max(a+float64(g*d), a), b)
}

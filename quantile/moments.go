package quantile

import "math"

// Moments are a count, a mean and the sum of squared deviations from it.
type Moments struct {
	Count    int64
	Mean, M2 float64
}

// Add joins two sets of moments by Chan, Golub and LeVeque's formula (1979). Its rounding depends on the order, so
// callers that want the same bits add in a fixed order. Pinned by TestMomentsAddByChan.
func (m Moments) Add(o Moments) Moments {
	switch {
	case o.Count == 0:
		return m
	case m.Count == 0:
		return o
	}
	n, delta := float64(m.Count+o.Count), o.Mean-m.Mean
	weight := float64(o.Count) / n
	mean := m.Mean + float64(delta*weight)
	if math.IsInf(delta, 0) {
		mean = float64(m.Mean*(1-weight)) + float64(o.Mean*weight)
	}
	mean = min(max(mean, min(m.Mean, o.Mean)), max(m.Mean, o.Mean))
	m2 := m.M2 + o.M2 + float64(delta*delta*float64(m.Count)*weight)
	return Moments{m.Count + o.Count, mean, min(m2, math.MaxFloat64)}
}

// Stddev is sqrt(m2/n) for n > 0. A sum of squares beyond the largest number gives the largest number.
func Stddev(m2 float64, n int64) float64 { return math.Sqrt(m2 / float64(n)) }

// Mean is the mean of the valid values. It is not ok if there are none. It does not change values, and the same values
// give the same bits in any order.
func Mean(values []float64) (mean float64, ok bool) {
	lo, hi, clean := bounds(values)
	if !clean {
		var buffer [256]float64
		values, lo, hi = compact(append(buffer[:0], values...))
	}
	if len(values) == 0 {
		return 0, false
	}
	return newScale(lo, hi).mean(values, lo, hi), true
}

// bounds are the least and the greatest value. clean is true if there is a value and all are finite.
func bounds(values []float64) (lo, hi float64, clean bool) {
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for _, v := range values { // as integers: NaN lies beyond the infinities, and no comparison branches
		k := key(v)
		low, high = min(low, k), max(high, k)
	}
	clean = low > key(math.Inf(-1)) && high < key(math.Inf(1)) && len(values) > 0
	return unkey(low) + 0, unkey(high) + 0, clean
}

// compact removes infinities and NaN from values, in place.
func compact(values []float64) (valid []float64, lo, hi float64) {
	valid = values[:0]
	for _, v := range values {
		if v-v == 0 {
			valid = append(valid, v)
		}
	}
	lo, hi, _ = bounds(valid)
	return valid, lo, hi
}

// scale brings a column to integers, because their sum is exact and so the same in any order. Floating point sums of
// 1,000 values in 40 orders come out in nearly 40 ways. Its factors are powers of two, so scaling does not round.
type scale struct {
	exponent int     // values times 2^exponent are at most 1, and far from underflow
	factor   float64 // 2^exponent
}

func newScale(lo, hi float64) scale {
	_, e := math.Frexp(max(-lo, hi))
	e = min(max(-e, -1020), 1000)
	return scale{e, math.Ldexp(1, e)}
}

// mean cuts each value to a multiple of 2^-62 of the column's largest magnitude M. It adds these multiples exactly, and
// divides once. The error is at most n·2^-62·M beside a rounding or two. Pinned by TestMomentsAreExact.
func (s scale) mean(values []float64, lo, hi float64) float64 {
	_, e := math.Frexp(max(-lo, hi) * s.factor)
	up := math.Ldexp(1, 62-e)
	var high, low int64
	for _, v := range values {
		q := int64(v * s.factor * up) // below 2^62
		high += q >> 31
		low += q & (1<<31 - 1)
	}
	m := math.Ldexp(join(high, low)/float64(len(values)), e-62-s.exponent)
	return min(max(m, lo), hi)
}

// squares is the sum of squared deviations from mean, each cut to a multiple of 2^-62 of the largest. There are two
// passes, because a single pass loses digits by cancellation if the deviations are small beside the values.
func (s scale) squares(values []float64, lo, hi, mean float64) float64 {
	m := mean * s.factor
	_, e := math.Frexp(max(hi*s.factor-m, m-lo*s.factor))
	up := math.Ldexp(1, 31-e)
	var high, low int64
	for _, v := range values {
		d := (v*s.factor - m) * up // below 2^31
		q := int64(d * d)
		high += q >> 31
		low += q & (1<<31 - 1)
	}
	return min(math.Ldexp(join(high, low), 2*(e-31-s.exponent)), math.MaxFloat64)
}

// join is high·2^31 + low, rounded.
func join(high, low int64) float64 {
	high += low >> 31
	low &= 1<<31 - 1
	return float64(float64(high)*(1<<31)) + float64(low)
}

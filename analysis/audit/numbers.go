package audit

import (
	"math"
	"sort"
)

// moments are the count, mean and standard deviation of values, and the greatest magnitude among them.
type moments struct {
	count               int64
	mean, stddev, scale float64
}

// momentsOf computes moments in two passes, on values divided by a power of two that is near the greatest one. So
// nothing overflows, and a sum of squares loses nothing to the mean.
func momentsOf(lists ...[]float64) moments { return momentsWith(nil, lists...) }

// momentsWith also takes groups of values of which only the moments are known.
func momentsWith(groups []moments, lists ...[]float64) moments {
	var m moments
	for _, list := range lists {
		m.count += int64(len(list))
		for _, v := range list {
			m.scale = max(m.scale, math.Abs(v))
		}
	}
	for _, g := range groups {
		m.count += g.count
		m.scale = max(m.scale, math.Abs(g.mean), g.stddev)
	}
	if m.count == 0 || m.scale == 0 {
		return m
	}
	_, exponent := math.Frexp(m.scale)
	down := func(v float64) float64 { return math.Ldexp(v, -exponent) }
	if exponent > -1000 && exponent < 1000 { // much faster, and exact too
		unit := math.Ldexp(1, -exponent)
		down = func(v float64) float64 { return v * unit }
	}
	n := float64(m.count)
	var sum, squares, rest compensated
	for _, list := range lists {
		for _, v := range list {
			sum.add(down(v))
		}
	}
	for _, g := range groups {
		sum.add(down(g.mean) * float64(g.count))
	}
	mean := sum.value() / n
	for _, list := range lists {
		for _, v := range list {
			d := down(v) - mean
			squares.add(d * d)
			rest.add(d)
		}
	}
	for _, g := range groups {
		d, sd := down(g.mean)-mean, down(g.stddev)
		squares.add(float64(g.count) * (d*d + sd*sd))
		rest.add(float64(g.count) * d)
	}
	variance := max(0, squares.value()-rest.value()*rest.value()/n) / n
	m.mean, m.stddev = math.Ldexp(mean+rest.value()/n, exponent), math.Ldexp(math.Sqrt(variance), exponent)
	return m
}

// compensated is a sum that keeps its rounding error (Neumaier). Rules have such a sum too. The audit keeps its own: it
// shares no arithmetic with the programs that it checks.
type compensated struct{ sum, rest float64 }

func (c *compensated) add(v float64) {
	t := c.sum + v
	if math.Abs(c.sum) >= math.Abs(v) {
		c.rest += (c.sum - t) + v
	} else {
		c.rest += (v - t) + c.sum
	}
	c.sum = t
}

func (c *compensated) value() float64 { return c.sum + c.rest }

// rounding bounds the error of a mean or deviation, as a part of the greatest magnitude of the values.
const rounding = 1e-11

// near reports whether two means or deviations are equal but for rounding.
func near(a, b, scale float64) bool {
	return math.Abs(a-b) <= rounding*scale+1e-9*math.Abs(b) || a == b
}

// decile returns decile k of sorted values, as docs/accuracy.md defines it.
func decile(sorted []float64, k int) float64 {
	n := len(sorted)
	whole, tenths := n*k/10, n*k%10
	switch {
	case whole < 1:
		return sorted[0]
	case whole >= n || tenths == 0:
		return sorted[min(whole, n)-1]
	}
	a, b, g := sorted[whole-1], sorted[whole], float64(tenths)/10
	if d := b - a; !math.IsInf(d, 0) {
		return min(max(a+float64(g*d), a), b)
	}
	return min(max(float64((1-g)*a)+float64(g*b), a), b)
}

// ranksOff returns the distance in ranks of a value from decile k of sorted values. An equal value has all ranks of its
// equals. A value between two ranks counts as the farther one.
func ranksOff(sorted []float64, k int, v float64) float64 {
	below := sort.Search(len(sorted), func(i int) bool { return sorted[i] >= v })
	upTo := sort.Search(len(sorted), func(i int) bool { return sorted[i] > v })
	at := max(float64(len(sorted)*k)/10, 1)
	return max(at-float64(upTo), float64(below+1)-at, 0)
}

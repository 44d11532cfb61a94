package sizing

import (
	"math"
	"math/bits"
)

// matters is the least growth of the root mean square of the relative errors that justifies a constant. A constant that
// explains less than a hundredth of the measurements is noise.
const matters = .01

// fit finds the constants with which amounts explain the measurements, with the least sum of squared relative errors.
// None is negative. With seven constants it can try all 127 sets of them. It returns the smallest set that is worse
// than the best by at most matters.
func fit(amounts [][]float64, measured []float64) []float64 {
	if len(amounts) == 0 {
		return nil
	}
	n := len(amounts[0])
	found, missed, least := map[int][]float64{}, map[int]float64{}, math.Inf(1)
	for set := 1; set < 1<<n; set++ {
		if c, ok := solve(amounts, measured, set); ok {
			found[set], missed[set] = c, misses(amounts, measured, c)
			least = min(least, missed[set])
		}
	}
	chosen, smallest := make([]float64, n), math.Inf(1)
	for set := 1; set < 1<<n; set++ {
		if found[set] == nil || missed[set] > least+matters {
			continue
		}
		if size := float64(bits.OnesCount(uint(set))) + missed[set]; size < smallest { // of one size the better one
			smallest, chosen = size, found[set]
		}
	}
	return chosen
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// misses returns the root of the mean of the squared relative errors.
func misses(amounts [][]float64, measured, c []float64) float64 {
	sum := 0.0
	for i := range amounts {
		e := dot(amounts[i], c)/measured[i] - 1
		sum += e * e
	}
	return math.Sqrt(sum / float64(len(amounts)))
}

// solve finds the constants of a set by the normal equations, the others being 0. It is not ok if there is no single
// solution, or if a constant would be negative: then a smaller set is better.
func solve(amounts [][]float64, measured []float64, set int) (c []float64, ok bool) {
	var at []int
	for k := range amounts[0] {
		if set>>k&1 == 1 {
			at = append(at, k)
		}
	}
	scale := make([]float64, len(amounts[0])) // so that numbers of 1e8 and of 1 can be in one matrix
	for i := range amounts {
		for k, a := range amounts[i] {
			scale[k] = max(scale[k], a/measured[i])
		}
	}
	n := len(at)
	m := make([][]float64, n) // with the right side as the last column
	for i, a := range at {
		m[i] = make([]float64, n+1)
		for p := range amounts {
			x := amounts[p][a] / measured[p] / scale[a]
			for j, b := range at {
				m[i][j] += x * amounts[p][b] / measured[p] / scale[b]
			}
			m[i][n] += x
		}
	}
	if !eliminate(m) {
		return nil, false
	}
	c = make([]float64, len(scale))
	for i, a := range at {
		if c[a] = m[i][n] / scale[a]; c[a] < 0 {
			return nil, false
		}
	}
	return c, true
}

// eliminate solves equations in place, by Gauss and Jordan with pivots.
func eliminate(m [][]float64) bool {
	n := len(m)
	for i := range n {
		pivot := i
		for r := i + 1; r < n; r++ {
			if math.Abs(m[r][i]) > math.Abs(m[pivot][i]) {
				pivot = r
			}
		}
		m[i], m[pivot] = m[pivot], m[i]
		if math.Abs(m[i][i]) < 1e-12 {
			return false
		}
		for r := range n {
			if r == i {
				continue
			}
			factor := m[r][i] / m[i][i]
			for k := i; k <= n; k++ {
				m[r][k] -= factor * m[i][k]
			}
		}
	}
	for i := range n {
		m[i][n] /= m[i][i]
	}
	return true
}

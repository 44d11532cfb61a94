package sizing

import "math"

// matters is by how much the root mean square of the relative errors must grow before a constant is kept. A constant
// that explains less than a hundredth of an interval is noise.
const matters = .01

// Fit finds the constants that miss the points by the least sum of squared relative errors. None is negative. With six
// constants all 63 sets of them can be tried. The smallest set counts that is not worse than the best by more than
// matters.
func Fit(points []Point) Constants {
	var best, chosen [terms]float64
	least := math.Inf(1)
	errorsOf := map[int]float64{}
	found := map[int][terms]float64{}
	for set := 1; set < 1<<terms; set++ {
		c, ok := solve(points, set)
		if !ok {
			continue
		}
		found[set], errorsOf[set] = c, missed(points, c)
		if errorsOf[set] < least {
			least, best = errorsOf[set], c
		}
	}
	chosen = best
	smallest := math.Inf(1)
	for set := 1; set < 1<<terms; set++ {
		c, ok := found[set]
		if !ok || errorsOf[set] > least+matters {
			continue
		}
		size := float64(bits(set)) + errorsOf[set] // of sets of one size the better one
		if size < smallest {
			smallest, chosen = size, c
		}
	}
	return Constants{chosen[0], chosen[1], chosen[2], chosen[3], chosen[4], chosen[5]}
}

func bits(set int) (n int) {
	for ; set > 0; set &= set - 1 {
		n++
	}
	return n
}

// missed returns the root of the mean of the squared relative errors.
func missed(points []Point, c [terms]float64) float64 {
	sum := 0.0
	for i := range points {
		predicted := 0.0
		for k, n := range points[i].amounts() {
			predicted += c[k] * n
		}
		e := predicted/points[i].Median() - 1
		sum += e * e
	}
	return math.Sqrt(sum / float64(len(points)))
}

// solve finds the constants of a set by the normal equations, the others being 0. It is not ok where they have no single
// solution, or where one would be negative: then a smaller set is better.
func solve(points []Point, set int) (c [terms]float64, ok bool) {
	var at []int
	for k := range terms {
		if set>>k&1 == 1 {
			at = append(at, k)
		}
	}
	n := len(at)
	m := make([][]float64, n) // with the right side as the last column
	for i := range m {
		m[i] = make([]float64, n+1)
	}
	var scale [terms]float64 // so that numbers of 1e8 and of 1 can be in one matrix
	for i := range points {
		for k, t := range points[i].amounts() {
			scale[k] = max(scale[k], t/points[i].Median())
		}
	}
	for p := range points {
		amounts := points[p].amounts()
		for i, a := range at {
			x := amounts[a] / points[p].Median() / scale[a]
			for j, b := range at {
				m[i][j] += x * amounts[b] / points[p].Median() / scale[b]
			}
			m[i][n] += x
		}
	}
	if !eliminate(m) {
		return c, false
	}
	for i, a := range at {
		if m[i][n] < 0 {
			return c, false
		}
		c[a] = m[i][n] / scale[a]
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

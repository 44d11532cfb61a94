package selection

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// correlation returns Pearson's r over the rows with both values, and the number of these rows. r is 0 if one column is
// constant over them.
func correlation(x, y []float64) (r float64, n int) {
	a, b := make([]float64, 0, len(x)), make([]float64, 0, len(x))
	for i, v := range x {
		if present(v) && present(y[i]) {
			a, b = append(a, v), append(b, y[i])
		}
	}
	if !unit(a) || !unit(b) {
		return 0, len(a)
	}
	return clip(floats.Dot(a, b)), len(a)
}

// clip keeps rounding errors from producing a correlation beyond ±1, for which Fisher's transform is undefined.
func clip(r float64) float64 { return min(1, max(-1, r)) }

// unit subtracts the mean from values and scales them to norm 1. If they are all equal, it sets them to 0 and returns
// false: comparing them is exact, while a computed variance may differ from 0. Values of 1e-200 or 1e150 lose no
// digits.
func unit(values []float64) bool {
	if len(values) == 0 {
		return false
	}
	first := values[0]
	mean, largest := 0., 0.
	for _, v := range values {
		mean += (v - first) / float64(len(values))
	}
	varies := false
	for i, v := range values {
		varies = varies || v != first
		values[i] = (v - first) - mean
		largest = max(largest, math.Abs(values[i]))
	}
	if !varies || largest == 0 {
		clear(values)
		return false
	}
	for i := range values {
		values[i] /= largest
	}
	// The first mean is rounded at the size of the values, this one at the size of their differences.
	floats.AddConst(-floats.Sum(values)/float64(len(values)), values)
	floats.Scale(1/floats.Norm(values, 2), values)
	return true
}

// tileSide is the number of columns that are compared with as many others by one matrix product, so that the
// correlations of p columns are never in memory together.
const tileSide = 128

// correlator compares many columns pair by pair.
type correlator struct {
	columns [][]float64 // original values, for pairs that need care
	bounds  []int       // segment s consists of rows bounds[s] to bounds[s+1]-1; correlations are within segments
	n       int
	values  []float64 // a row for each column: norm 1 and mean 0 in each segment, 0 if missing
	gaps    [][][]int // for each segment and column: the rows with missing values
	flat    [][]bool  // for each segment: constant columns
}

// newCorrelator standardises columns. Their rows are in the order of the segments.
func newCorrelator(columns [][]float64, bounds []int) *correlator {
	c := &correlator{columns: columns, bounds: bounds, n: bounds[len(bounds)-1]}
	c.values = make([]float64, len(columns)*c.n)
	scratch := make([]float64, c.n)
	for s := range len(bounds) - 1 {
		c.gaps = append(c.gaps, make([][]int, len(columns)))
		c.flat = append(c.flat, make([]bool, len(columns)))
		for j, column := range columns {
			known := scratch[:0]
			for i := bounds[s]; i < bounds[s+1]; i++ {
				if present(column[i]) {
					known = append(known, column[i])
				} else {
					c.gaps[s][j] = append(c.gaps[s][j], i)
				}
			}
			c.flat[s][j] = !unit(known)
			for i, k := bounds[s], 0; i < bounds[s+1]; i++ {
				if present(column[i]) {
					c.values[j*c.n+i] = known[k]
					k++
				}
			}
		}
	}
	return c
}

// row returns the standardised values of a column.
func (c *correlator) row(j int) []float64 { return c.values[j*c.n : (j+1)*c.n] }

// pairs calls f with each pair of columns a < b, their correlation, and the number of rows behind it. With several
// segments the correlation is the mean over the segments in Fisher's z, with weights n−3, so that the levels of
// segments have no influence.
func (c *correlator) pairs(f func(a, b int, r, n float64)) {
	t := newTile(c)
	for a := 0; a < len(c.columns); a += tileSide {
		for b := a; b < len(c.columns); b += tileSide {
			t.fill(a, b)
			for i := range t.rows {
				for j := range t.cols {
					if a+i < b+j {
						r, n := t.at(i, j)
						f(a+i, b+j, r, n)
					}
				}
			}
		}
	}
}

// tile holds the correlations of up to tileSide columns with as many others.
type tile struct {
	*correlator
	rows, cols int
	r, count   []float64 // of one segment
	z, weight  []float64 // summed over segments
}

func newTile(c *correlator) *tile {
	side := func() []float64 { return make([]float64, tileSide*tileSide) }
	return &tile{correlator: c, r: side(), count: side(), z: side(), weight: side()}
}

// fill computes the correlations of the columns from a on with the columns from b on.
func (t *tile) fill(a, b int) {
	t.rows, t.cols = min(tileSide, len(t.columns)-a), min(tileSide, len(t.columns)-b)
	clear(t.z)
	clear(t.weight)
	for s := range t.flat {
		t.segment(s, a, b)
		if len(t.flat) == 1 {
			return
		}
		for k, r := range t.r {
			if w := t.count[k] - 3; w > 0 && !math.IsNaN(r) {
				t.z[k] += w * math.Atanh(min(1-1e-15, max(-1+1e-15, r)))
				t.weight[k] += w
			}
		}
	}
}

// at returns a correlation and its number of rows. The correlation is 0 if no segment defines one.
func (t *tile) at(i, j int) (r, n float64) {
	k := i*tileSide + j
	if len(t.flat) == 1 {
		if math.IsNaN(t.r[k]) {
			return 0, t.count[k]
		}
		return t.r[k], t.count[k]
	}
	if t.weight[k] == 0 {
		return 0, 0
	}
	return math.Tanh(t.z[k] / t.weight[k]), t.weight[k] + 3
}

// segment sets r and count for one segment. r is NaN if a column is constant in it.
func (t *tile) segment(s, a, b int) {
	from, to := t.bounds[s], t.bounds[s+1]
	part := func(first, count int) blas64.General {
		return blas64.General{Rows: count, Cols: to - from, Stride: t.n, Data: t.values[first*t.n+from:]}
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, part(a, t.rows), part(b, t.cols), 0,
		blas64.General{Rows: t.rows, Cols: t.cols, Stride: tileSide, Data: t.r})
	for i := range t.rows {
		for j := range t.cols {
			k := i*tileSide + j
			t.r[k], t.count[k] = t.pair(s, a+i, b+j, t.r[k])
		}
	}
}

// pair returns r of two columns in a segment, and the number of rows with both values. product is the product of their
// standardised values.
//
// The sums over these rows are the sums over all rows, 0 and 1, minus the rows with a gap in the other column. This
// loses digits if one of the columns hardly varies over the common rows, or if r is almost 1. In these cases r is
// computed from the original values.
func (t *tile) pair(s, a, b int, product float64) (r, n float64) {
	from, to := t.bounds[s], t.bounds[s+1]
	n = float64(to - from)
	if t.flat[s][a] || t.flat[s][b] {
		return math.NaN(), n
	}
	gapsA, gapsB := t.gaps[s][a], t.gaps[s][b]
	if len(gapsA) == 0 && len(gapsB) == 0 {
		return clip(product), n
	}
	n -= float64(len(gapsA) + len(gapsB) - common(gapsA, gapsB))
	if n < 2 {
		return math.NaN(), n
	}
	sumA, squareA := less(t.row(a), gapsB)
	sumB, squareB := less(t.row(b), gapsA)
	varianceA, varianceB := squareA-sumA*sumA/n, squareB-sumB*sumB/n
	const thin = 1e-4
	if varianceA > thin && varianceB > thin {
		r = (product - sumA*sumB/n) / math.Sqrt(varianceA*varianceB)
		if math.Abs(r) < 1-1e-6 {
			return r, n
		}
	}
	r, _ = correlation(t.columns[a][from:to], t.columns[b][from:to])
	return r, n
}

// less returns the sums of a column and of its squares without some rows. Over all rows they are 0 and 1.
func less(x []float64, rows []int) (sum, square float64) {
	square = 1
	for _, i := range rows {
		sum -= x[i]
		square -= x[i] * x[i]
	}
	return sum, square
}

// common returns the number of common elements of two ascending lists.
func common(a, b []int) int {
	count := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] < b[j]:
			i++
		case a[i] > b[j]:
			j++
		default:
			count, i, j = count+1, i+1, j+1
		}
	}
	return count
}

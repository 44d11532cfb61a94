package selection

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// Correlation is Pearson's r over the rows that have both values, and the number of these rows. It is 0 where one of the
// two is constant over them.
func Correlation(x, y []float64) (r float64, n int) {
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

// clip keeps rounding from making a correlation that Fisher's transform does not have.
func clip(r float64) float64 { return min(1, max(-1, r)) }

// unit takes the mean from values and scales them to the norm 1. It reports false, and sets them to 0, where they are all
// the same: a variance that is computed can differ from 0 then. Values of 1e-200 or 1e150 lose no digits.
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

// tileSide is the number of columns that are compared with as many others by one matrix product. So the correlations of
// p columns are never in memory together.
const tileSide = 128

// correlator compares many columns pair by pair.
type correlator struct {
	columns [][]float64 // as they are, for pairs that need care
	bounds  []int       // segment s has rows bounds[s] to bounds[s+1]-1; correlations are within segments
	n       int
	values  []float64 // a row for each column: norm 1 and mean 0 in each segment, 0 where missing
	gaps    [][]bool  // of each column where values are missing; nil: none
	flat    [][]bool  // of each segment: columns that are constant in it
}

// newCorrelator copies columns, whose rows are in the order of the segments.
func newCorrelator(columns [][]float64, bounds []int) *correlator {
	c := &correlator{columns: columns, bounds: bounds, n: bounds[len(bounds)-1]}
	c.values = make([]float64, len(columns)*c.n)
	c.gaps = make([][]bool, len(columns))
	c.flat = make([][]bool, len(bounds)-1)
	for s := range c.flat {
		c.flat[s] = make([]bool, len(columns))
	}
	scratch := make([]float64, c.n)
	for j, column := range columns {
		to := c.values[j*c.n : (j+1)*c.n]
		for i, v := range column {
			if !present(v) {
				if c.gaps[j] == nil {
					c.gaps[j] = make([]bool, c.n)
				}
				c.gaps[j][i] = true
			}
		}
		for s := range c.flat {
			c.flat[s][j] = !c.standardise(j, bounds[s], bounds[s+1], to, scratch)
		}
	}
	return c
}

// standardise writes one segment of a column.
func (c *correlator) standardise(j, from, to int, into, scratch []float64) bool {
	scratch = scratch[:0]
	for i := from; i < to; i++ {
		if c.gaps[j] == nil || !c.gaps[j][i] {
			scratch = append(scratch, c.columns[j][i])
		}
	}
	ok := unit(scratch)
	k := 0
	for i := from; i < to; i++ {
		if c.gaps[j] == nil || !c.gaps[j][i] {
			into[i] = scratch[k]
			k++
		}
	}
	return ok
}

// pairs calls f with each pair of columns a < b, their correlation, and the number of rows that it rests on. With several
// segments it is the mean of the segments in Fisher's z, with weights n−3: the level of a segment then counts for nothing.
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

// tile is the correlations of up to tileSide columns with as many others.
type tile struct {
	*correlator
	rows, cols       int
	r, n             []float64 // of one segment
	z, weight        []float64 // summed over segments
	masks            [2][]float64
	squares          [2][]float64
	sumA, sumB       []float64 // over the rows that both columns have
	squareA, squareB []float64
}

func newTile(c *correlator) *tile {
	t := &tile{correlator: c}
	for _, s := range []*[]float64{&t.r, &t.n, &t.z, &t.weight} {
		*s = make([]float64, tileSide*tileSide)
	}
	return t
}

// fill computes the correlations of the columns from a on with those from b on.
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
			if w := t.n[k] - 3; w > 0 && !math.IsNaN(r) {
				t.z[k] += w * math.Atanh(min(1-1e-15, max(-1+1e-15, r)))
				t.weight[k] += w
			}
		}
	}
}

// at is one correlation, and its number of rows. It is 0 where no segment has one.
func (t *tile) at(i, j int) (r, n float64) {
	k := i*tileSide + j
	if len(t.flat) == 1 {
		if math.IsNaN(t.r[k]) {
			return 0, t.n[k]
		}
		return t.r[k], t.n[k]
	}
	if t.weight[k] == 0 {
		return 0, 0
	}
	return math.Tanh(t.z[k] / t.weight[k]), t.weight[k] + 3
}

// segment sets r and n for one segment: r is NaN where a column is constant in it.
func (t *tile) segment(s, a, b int) {
	from, to := t.bounds[s], t.bounds[s+1]
	x, y := t.part(t.values, a, t.rows, from, to), t.part(t.values, b, t.cols, from, to)
	product(x, y, t.r)
	gaps := t.gapsIn(a, t.rows) || t.gapsIn(b, t.cols)
	if gaps {
		t.common(a, b, from, to)
	}
	for i := range t.rows {
		for j := range t.cols {
			k := i*tileSide + j
			switch {
			case t.flat[s][a+i] || t.flat[s][b+j]:
				t.r[k], t.n[k] = math.NaN(), float64(to-from)
			case t.gaps[a+i] != nil || t.gaps[b+j] != nil:
				t.r[k] = t.pairwise(k, t.columns[a+i][from:to], t.columns[b+j][from:to])
			default:
				t.r[k], t.n[k] = clip(t.r[k]), float64(to-from)
			}
		}
	}
}

// part is a matrix of some columns, in one segment.
func (t *tile) part(values []float64, first, count, from, to int) blas64.General {
	return blas64.General{Rows: count, Cols: to - from, Stride: t.correlator.n, Data: values[first*t.correlator.n+from:]}
}

func product(x, y blas64.General, into []float64) {
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, x, y, 0,
		blas64.General{Rows: x.Rows, Cols: y.Rows, Stride: tileSide, Data: into})
}

func (t *tile) gapsIn(first, count int) bool {
	for _, g := range t.gaps[first : first+count] {
		if g != nil {
			return true
		}
	}
	return false
}

// common computes n, sums and sums of squares over the rows that both columns of each pair have.
func (t *tile) common(a, b, from, to int) {
	if t.sumA == nil {
		for _, s := range []*[]float64{&t.sumA, &t.sumB, &t.squareA, &t.squareB} {
			*s = make([]float64, tileSide*tileSide)
		}
		for side := range t.masks {
			t.masks[side] = make([]float64, tileSide*t.correlator.n)
			t.squares[side] = make([]float64, tileSide*t.correlator.n)
		}
	}
	t.mask(0, a, t.rows)
	t.mask(1, b, t.cols)
	maskA, maskB := t.part(t.masks[0], 0, t.rows, from, to), t.part(t.masks[1], 0, t.cols, from, to)
	product(maskA, maskB, t.n)
	product(t.part(t.values, a, t.rows, from, to), maskB, t.sumA)
	product(maskA, t.part(t.values, b, t.cols, from, to), t.sumB)
	product(t.part(t.squares[0], 0, t.rows, from, to), maskB, t.squareA)
	product(maskA, t.part(t.squares[1], 0, t.cols, from, to), t.squareB)
}

// mask sets a side's masks, which are 1 where a value is present, and its squares.
func (t *tile) mask(side, first, count int) {
	n := t.correlator.n
	for j := range count {
		values := t.values[(first+j)*n : (first+j+1)*n]
		for i, v := range values {
			k := j*n + i
			t.squares[side][k] = v * v
			t.masks[side][k] = 1
			if g := t.gaps[first+j]; g != nil && g[i] {
				t.masks[side][k] = 0
			}
		}
	}
}

// pairwise is r over the common rows. Where one of the two hardly varies over them, the sums lose their digits: r is
// computed from the columns themselves then.
func (t *tile) pairwise(k int, x, y []float64) float64 {
	n := t.n[k]
	if n < 2 {
		return math.NaN()
	}
	a, b := t.squareA[k]-t.sumA[k]*t.sumA[k]/n, t.squareB[k]-t.sumB[k]*t.sumB[k]/n
	const thin = 1e-4
	if a > thin && b > thin {
		r := clip((t.r[k] - t.sumA[k]*t.sumB[k]/n) / math.Sqrt(a*b))
		if math.Abs(r) < 1-1e-6 {
			return r
		}
	}
	r, _ := Correlation(x, y)
	return r
}

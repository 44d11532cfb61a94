package selection

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// heldOut is the quality of predictions from the kept metrics, by regressions that leave out the rows of a fold.
type heldOut struct {
	r2      []float64
	nearest []int     // closest kept metric by |r|; -1 if none is kept
	r       []float64 // correlation with it
}

// heldOut predicts metrics in batches, which bounds the memory.
func (c *cover) heldOut(metrics []int) heldOut {
	if slices.Equal(metrics, c.asked) && len(c.added) == c.when {
		return c.answer
	}
	kept := slices.Concat(c.kept, c.added)
	slices.Sort(kept)
	var all heldOut
	if len(c.x) > coverDirect && len(kept) > coverNear {
		c.predictNear(&all, kept, metrics)
		c.asked, c.when, c.answer = metrics, len(c.added), all
		return all
	}
	z := rowsOf(c.x, kept)
	for batch := range slices.Chunk(metrics, coverBatch) {
		c.predict(&all, kept, z, rowsOf(c.x, batch))
	}
	c.asked, c.when, c.answer = metrics, len(c.added), all
	return all
}

// predictNear predicts each metric from the closest kept ones. Correlations over a part of the rows decide which are
// the closest.
func (c *cover) predictNear(all *heldOut, kept, metrics []int) {
	z := c.someRows(kept)
	for batch := range slices.Chunk(metrics, coverBatch) {
		x := c.someRows(batch)
		r := newGeneral(x.Rows, z.Rows)
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, x, z, 0, r)
		for i, j := range batch {
			row := r.Data[i*r.Stride : i*r.Stride+r.Cols]
			near := make([]int, len(kept))
			for k := range near {
				near[k] = k
			}
			slices.SortFunc(near, func(a, b int) int {
				return cmp.Or(cmp.Compare(math.Abs(row[b]), math.Abs(row[a])), a-b)
			})
			near = near[:coverNear]
			slices.Sort(near)
			for k := range near {
				near[k] = kept[near[k]]
			}
			c.predict(all, near, rowsOf(c.x, near), rowsOf(c.x, []int{j}))
		}
	}
}

// someRows returns a matrix with a row for each of some columns, made of one value in coverEvery.
func (c *cover) someRows(metrics []int) blas64.General {
	n := (len(c.d.Rows) + coverEvery - 1) / coverEvery
	m := newGeneral(len(metrics), n)
	for i, j := range metrics {
		for k := range n {
			m.Data[i*n+k] = c.x[j][k*coverEvery]
		}
	}
	return m
}

// rowsOf returns a matrix with a row for each of some columns.
func rowsOf(x [][]float64, metrics []int) blas64.General {
	if len(metrics) == 0 {
		return blas64.General{}
	}
	m := newGeneral(len(metrics), len(x[metrics[0]]))
	for i, j := range metrics {
		copy(m.Data[i*m.Stride:], x[j])
	}
	return m
}

// predict appends the results for the rows of x, predicted by regressions on the rows of z.
func (c *cover) predict(all *heldOut, kept []int, z, x blas64.General) {
	n, k := x.Cols, z.Rows
	lost := make([]float64, x.Rows)
	if k == 0 {
		for range x.Rows {
			all.r2, all.nearest, all.r = append(all.r2, 0), append(all.nearest, -1), append(all.r, 0)
		}
		return
	}
	folds := make([]foldProducts, len(c.folds)-1)
	inner, outer := newGeneral(k, k), newGeneral(k, x.Rows)
	for f := range folds {
		folds[f] = newFoldProducts(part(z, c.folds[f], c.folds[f+1]), part(x, c.folds[f], c.folds[f+1]))
		floats.Add(inner.Data, folds[f].inner.Data)
		floats.Add(outer.Data, folds[f].outer.Data)
	}
	for f := range folds {
		folds[f].predict(lost, inner, outer, float64(n))
		folds[f] = foldProducts{}
	}
	for i := range x.Rows {
		nearest, r := 0, 0.0
		for j := range kept { // among equals the first by name
			if v := outer.Data[j*outer.Stride+i] / float64(n); math.Abs(v) > math.Abs(r)+1e-9 {
				nearest, r = j, v
			}
		}
		all.r2 = append(all.r2, 1-lost[i]/float64(n))
		all.nearest, all.r = append(all.nearest, kept[nearest]), append(all.r, max(-1, min(1, r)))
	}
}

func newGeneral(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float64, rows*cols)}
}

// part returns the columns from to to-1 of a matrix.
func part(m blas64.General, from, to int) blas64.General {
	return blas64.General{Rows: m.Rows, Cols: to - from, Stride: m.Stride, Data: m.Data[from:]}
}

// foldProducts are the inner products over the rows of a fold: of the kept metrics z with each other, and with the
// metrics x.
type foldProducts struct{ z, x, inner, outer blas64.General }

func newFoldProducts(z, x blas64.General) foldProducts {
	f := foldProducts{z, x, newGeneral(z.Rows, z.Rows), newGeneral(z.Rows, x.Rows)}
	half := blas64.Symmetric{N: z.Rows, Stride: f.inner.Stride, Data: f.inner.Data, Uplo: blas.Upper}
	blas64.Syrk(blas.NoTrans, 1, z, 0, half)
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, z, x, 0, f.outer)
	return f
}

// predict adds the squared errors in the rows of the fold to lost. inner and outer are the products over all rows; the
// fold's products are subtracted for training. All columns have mean 0 over all rows.
func (f *foldProducts) predict(lost []float64, inner, outer blas64.General, rows float64) {
	z, x, a, b := f.z, f.x, f.inner, f.outer
	for i := range a.Data { // only the upper triangle of inner is used
		a.Data[i] = inner.Data[i] - a.Data[i]
	}
	for i := range b.Data {
		b.Data[i] = outer.Data[i] - b.Data[i]
	}
	outside := rows - float64(z.Cols)
	if outside < 1 {
		return
	}
	meanZ, meanX := meansOutside(z, outside), meansOutside(x, outside)
	blas64.Ger(-outside, meanZ, meanZ, a)
	blas64.Ger(-outside, meanZ, meanX, b)
	for i := range a.Rows {
		a.Data[i*a.Stride+i] += coverRidge * outside
	}
	factor, ok := lapack64.Potrf(blas64.Symmetric{N: a.Rows, Stride: a.Stride, Data: a.Data, Uplo: blas.Upper})
	if !ok { // with the ridge this happens only for NaN or infinity, and the result is unknown
		for i := range lost {
			lost[i] = math.Inf(1)
		}
		return
	}
	lapack64.Potrs(factor, b)
	e := newGeneral(x.Rows, x.Cols)
	for i := range e.Rows {
		copy(e.Data[i*e.Stride:(i+1)*e.Stride], x.Data[i*x.Stride:i*x.Stride+x.Cols])
	}
	blas64.Gemm(blas.Trans, blas.NoTrans, -1, b, z, 1, e)
	shift := blas64.Vector{N: x.Rows, Inc: 1, Data: slices.Clone(meanX.Data)} // the intercept
	blas64.Gemv(blas.Trans, -1, b, meanZ, 1, shift)
	for i := range e.Rows {
		row := e.Data[i*e.Stride : (i+1)*e.Stride]
		floats.AddConst(-shift.Data[i], row)
		lost[i] += floats.Dot(row, row)
	}
}

// meansOutside returns the row means over all columns that are not in m. The mean over all columns is 0.
func meansOutside(m blas64.General, outside float64) blas64.Vector {
	v := blas64.Vector{N: m.Rows, Inc: 1, Data: make([]float64, m.Rows)}
	for i := range m.Rows {
		v.Data[i] = -floats.Sum(m.Data[i*m.Stride:i*m.Stride+m.Cols]) / outside
	}
	return v
}

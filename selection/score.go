package selection

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Fit is a ridge regression on standardised columns.
type Fit struct {
	Intercept    float64
	Coefficients []float64 // of the original columns
	Low, High    float64   // predictions are clipped to the training range ± 25 %
}

// HeldOut returns R² on the rows of test, with coefficients from the rows of train. The regression is ridge with
// generalised cross-validation, standardised within the training rows. x has a slice for each column. R² is about the
// mean of the test rows.
func HeldOut(x [][]float64, y []float64, train, test []int) (float64, Fit) {
	fit := ridgeFit(x, y, train)
	return fit.r2(x, y, test), fit
}

func (f Fit) predict(x [][]float64, row int) float64 {
	v := f.Intercept
	for j, c := range f.Coefficients {
		if c != 0 {
			v += c * x[j][row]
		}
	}
	return min(max(v, f.Low), f.High)
}

func (f Fit) r2(x [][]float64, y []float64, rows []int) float64 {
	mean := 0.
	for _, r := range rows {
		mean += y[r]
	}
	mean /= float64(len(rows))
	var wrong, all float64
	for _, r := range rows {
		e := y[r] - f.predict(x, r)
		wrong += e * e
		all += (y[r] - mean) * (y[r] - mean)
	}
	if !(all > 0) {
		return 0
	}
	return 1 - wrong/all
}

// standard holds columns of some rows, with mean 0 and sum of squares 1. A constant column is zero.
type standard struct {
	values     *mat.Dense
	mean, norm []float64
	y          *mat.VecDense
	meanY      float64
	low, high  float64
	total      float64
}

func standardise(x [][]float64, y []float64, rows []int) standard {
	n := len(rows)
	s := standard{
		mean: make([]float64, len(x)), norm: make([]float64, len(x)),
		low: math.Inf(1), high: math.Inf(-1), y: mat.NewVecDense(n, nil),
	}
	for i, r := range rows {
		s.y.SetVec(i, y[r])
		s.low, s.high = min(s.low, y[r]), max(s.high, y[r])
	}
	raw := s.y.RawVector().Data
	s.meanY = floats.Sum(raw) / float64(n)
	floats.AddConst(-s.meanY, raw)
	s.total = floats.Dot(raw, raw)
	if len(x) == 0 {
		return s
	}
	s.values = mat.NewDense(n, len(x), nil)
	column := make([]float64, n)
	for j := range x {
		for i, r := range rows {
			column[i] = x[j][r]
		}
		mean := floats.Sum(column) / float64(n)
		floats.AddConst(-mean, column)
		norm := floats.Norm(column, 2)
		if !(norm > 1e-9*math.Abs(mean)*math.Sqrt(float64(n))) || math.IsInf(norm, 1) {
			continue
		}
		floats.Scale(1/norm, column)
		s.mean[j], s.norm[j] = mean, norm
		s.values.SetCol(j, column)
	}
	return s
}

// ridgeFit chooses the penalty by generalised cross-validation: Golub, Heath and Wahba 1979.
func ridgeFit(x [][]float64, y []float64, rows []int) Fit {
	fit := Fit{Coefficients: make([]float64, len(x))}
	if len(rows) == 0 {
		return fit
	}
	s := standardise(x, y, rows)
	room := overrun * (s.high - s.low)
	fit.Low, fit.High, fit.Intercept = s.low-room, s.high+room, s.meanY
	if len(x) == 0 || s.total == 0 {
		return fit
	}
	var inner mat.SymDense
	inner.SymOuterK(1, s.values.T())
	var eigen mat.EigenSym
	if !eigen.Factorize(&inner, true) {
		return fit
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	values := eigen.Values(nil)
	var product, rotated mat.VecDense
	product.MulVec(s.values.T(), s.y)
	rotated.MulVec(vectors.T(), &product)
	z := rotated.RawVector().Data
	best, penalty := math.Inf(1), 0.
	for e := -8.; e <= 2; e += .25 {
		if v := gcv(values, z, s.total, float64(len(rows)), math.Pow(10, e)); v < best {
			best, penalty = v, math.Pow(10, e)
		}
	}
	for i := range z {
		if values[i]+penalty > 0 {
			z[i] /= max(values[i], 0) + penalty
		}
	}
	var coefficients mat.VecDense
	coefficients.MulVec(&vectors, &rotated)
	for j := range x {
		if s.norm[j] > 0 {
			fit.Coefficients[j] = coefficients.AtVec(j) / s.norm[j]
			fit.Intercept -= fit.Coefficients[j] * s.mean[j]
		}
	}
	return fit
}

func gcv(values, z []float64, total, n, penalty float64) float64 {
	wrong, freedom := total, 1.
	for i, v := range values {
		v = max(v, 0)
		wrong -= z[i] * z[i] * (v + 2*penalty) / ((v + penalty) * (v + penalty))
		freedom += v / (v + penalty)
	}
	if freedom >= n {
		return math.Inf(1)
	}
	return n * max(wrong, 0) / ((n - freedom) * (n - freedom))
}

// InSample returns R² of least squares on the fitted rows, and R² adjusted for the number of columns.
func InSample(x [][]float64, y []float64, rows []int) (r2, adjusted float64) {
	n := len(rows)
	if n == 0 {
		return 0, 0
	}
	s := standardise(x, y, rows)
	if len(x) == 0 || s.total == 0 {
		return 0, 0
	}
	var svd mat.SVD
	if !svd.Factorize(s.values, mat.SVDThin) {
		return 0, 0
	}
	var u mat.Dense
	svd.UTo(&u)
	var projected mat.VecDense
	projected.MulVec(u.T(), s.y)
	rank := 0
	for i, v := range svd.Values(nil) {
		if v > 1e-10 {
			rank++
			r2 += projected.AtVec(i) * projected.AtVec(i)
		}
	}
	r2 = min(1, r2/s.total)
	return r2, adjust(r2, n, rank)
}

// adjust returns 1 − (1−R²)(n−1)/(n−1−k), or 0 if there are no more rows than columns, since R² means nothing then.
func adjust(r2 float64, n, k int) float64 {
	if n-1-k <= 0 {
		return 0
	}
	return 1 - (1-r2)*float64(n-1)/float64(n-1-k)
}

// Refit measures the information in a set of columns. Each chunk gets new coefficients, with four folds by time. The
// result is the mean R² over the chunks, without chunks with a constant response.
func Refit(x [][]float64, y []float64, chunks [][]int) float64 {
	sum, count := 0., 0.
	for _, rows := range chunks {
		const parts = 4
		mean := 0.
		for _, r := range rows {
			mean += y[r]
		}
		mean /= float64(len(rows))
		var wrong, all float64
		for f := range parts {
			from, to := f*len(rows)/parts, (f+1)*len(rows)/parts
			train := append(append([]int(nil), rows[:from]...), rows[to:]...)
			fit := ridgeFit(x, y, train)
			for _, r := range rows[from:to] {
				e := y[r] - fit.predict(x, r)
				wrong += e * e
				all += (y[r] - mean) * (y[r] - mean)
			}
		}
		if all > 0 {
			sum, count = sum+1-wrong/all, count+1
		}
	}
	if count == 0 {
		return 0
	}
	return sum / count
}

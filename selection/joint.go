package selection

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

const driftRows = 60 // rows of a stretch for LogMSE, as in Watch

// judge scores the chosen metrics, fills in the models, and returns F of each metric.
func (s *search) judge(chosen []int, out *Selection) map[int]float64 {
	var terms []int
	of := make([]int, 0)
	for _, m := range chosen {
		for _, t := range s.d.Metrics[m].Terms {
			terms, of = append(terms, t), append(of, m)
		}
	}
	x := make([][]float64, len(terms))
	for i, t := range terms {
		x[i] = s.d.Terms[t].X
	}
	f := make(map[int]float64)
	errors := s.errors
	each := make([]ResponseScore, len(s.d.Y))
	count := make([]float64, len(s.d.Y))
	for i, p := range s.problems {
		rows := s.rowsOf(p)
		r := leastSquares(x, p.target.y, rows, of)
		for m, v := range r.f {
			f[m] += v / float64(len(s.problems))
		}
		out.Score.InSample += r.r2 / float64(len(s.problems))
		out.Score.Adjusted += r.adjusted / float64(len(s.problems))
		e := &each[p.response]
		count[p.response]++
		e.Response = s.d.Responses[p.response]
		e.InSample += r.r2
		e.Adjusted += r.adjusted
		e.HeldOut += s.r2(p, errors[i], p.blocks)
		low, high := s.rangeOf(p, errors[i])
		e.Low += low
		e.High += high
		out.Models = append(out.Models, s.model(p, terms, x, rows, errors[i]))
	}
	for i := range each {
		e := &each[i]
		for _, v := range []*float64{&e.InSample, &e.Adjusted, &e.HeldOut, &e.Low, &e.High} {
			*v /= count[i]
		}
	}
	if len(each) > 1 {
		out.Each = each
	}
	return f
}

// foldErrors returns the error of every row for each problem, predicted by the path of the fold that left the row out.
// It also returns the R² of each fold, about the fold's own mean.
func (s *search) foldErrors() (errors [][]float64, folds []float64) {
	errors = make([][]float64, len(s.problems))
	index := make(map[problemKey]int)
	for i, p := range s.problems {
		errors[i] = make([]float64, len(s.d.Rows))
		index[problemKey{p.response, p.unit}] = i
	}
	for _, path := range s.folds(s.problems) {
		for len(path.chosen) < s.size && path.next() {
		}
		sum, count := 0., 0.
		for _, st := range path.states {
			i := index[problemKey{st.p.response, st.p.unit}]
			wrong := st.errors(errors[i])
			if all := st.p.variation(st.held); all > 0 {
				sum, count = sum+1-wrong/all, count+1
			}
		}
		if count > 0 {
			folds = append(folds, sum/count)
		}
	}
	slices.Sort(folds)
	return errors, folds
}

func (s *search) rowsOf(p problem) []int {
	var rows []int
	for _, b := range p.blocks {
		for r := s.d.Bounds[b]; r < s.d.Bounds[b+1]; r++ {
			rows = append(rows, r)
		}
	}
	return rows
}

// r2 returns the R² of errors over blocks.
func (s *search) r2(p problem, errors []float64, blocks []int) float64 {
	wrong := 0.
	for _, b := range blocks {
		for r := s.d.Bounds[b]; r < s.d.Bounds[b+1]; r++ {
			wrong += errors[r] * errors[r]
		}
	}
	if all := p.variation(blocks); all > 0 {
		return 1 - wrong/all
	}
	return 0
}

func (s *search) rangeOf(p problem, errors []float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for f := range p.fold[len(p.fold)-1] + 1 {
		_, held := p.without(f)
		if p.variation(held) > 0 {
			r := s.r2(p, errors, held)
			low, high = min(low, r), max(high, r)
		}
	}
	if math.IsInf(low, 1) {
		return 0, 0
	}
	return low, high
}

// regression is the result of least squares on some rows.
type regression struct {
	r2, adjusted float64
	f            map[int]float64
}

// leastSquares regresses y on the columns x. of maps columns to metrics. F of a metric is (SSE without it − SSE) /
// columns over SSE / (n − k − 1). For a single column it equals the square of t.
func leastSquares(x [][]float64, y []float64, rows []int, of []int) regression {
	r := regression{f: make(map[int]float64)}
	s := standardise(x, y, rows)
	k, n := len(x), len(rows)
	if k == 0 || s.total == 0 {
		return r
	}
	var inner mat.SymDense
	inner.SymOuterK(1, s.values.T())
	for i := range k {
		inner.SetSym(i, i, inner.At(i, i)+1e-9)
	}
	var factor mat.Cholesky
	if !factor.Factorize(&inner) {
		return r
	}
	var product, b mat.VecDense
	product.MulVec(s.values.T(), s.y)
	if err := factor.SolveVecTo(&b, &product); err != nil && b.IsEmpty() {
		return r
	}
	r.r2 = min(1, max(0, mat.Dot(&product, &b)/s.total))
	r.adjusted = adjust(r.r2, n, k)
	var inverse mat.SymDense
	if err := factor.InverseTo(&inverse); err != nil && inverse.IsEmpty() {
		return r
	}
	if n-k-1 <= 0 || r.r2 >= 1 {
		return r
	}
	noise := s.total * (1 - r.r2) / float64(n-k-1)
	for from := 0; from < k; {
		to := from
		for to < k && of[to] == of[from] {
			to++
		}
		r.f[of[from]] = explained(&inverse, &b, from, to) / float64(to-from) / noise
		from = to
	}
	return r
}

// explained returns bᵀ(A⁻¹)⁻¹b over the columns from to to-1: the sum of squares that is lost without them.
func explained(inverse *mat.SymDense, b *mat.VecDense, from, to int) float64 {
	part := mat.NewSymDense(to-from, nil)
	for i := from; i < to; i++ {
		for j := from; j <= i; j++ {
			part.SetSym(i-from, j-from, inverse.At(i, j))
		}
	}
	var factor mat.Cholesky
	if !factor.Factorize(part) {
		return 0
	}
	var solved mat.VecDense
	if err := factor.SolveVecTo(&solved, b.SliceVec(from, to)); err != nil && solved.IsEmpty() {
		return 0
	}
	return mat.Dot(&solved, b.SliceVec(from, to))
}

// model returns the coefficients of a problem, in the units of its response.
func (s *search) model(p problem, terms []int, x [][]float64, rows []int, errors []float64) Model {
	fit := ridgeFit(x, p.target.y, rows)
	sd, mean := s.d.SD[p.response], 0.
	unit := max(p.unit, 0)
	out := Model{Response: s.d.Responses[p.response], Centred: s.d.centred() && p.unit < 0}
	if !out.Centred {
		mean = s.d.Mean[p.response][unit]
	}
	if p.unit >= 0 {
		out.Unit = s.d.names[unit]
	}
	out.Intercept = fit.Intercept*sd + mean
	out.Low, out.High = fit.Low*sd+mean, fit.High*sd+mean
	for i, t := range terms {
		term := s.d.Terms[t]
		scaling := term.Scaling
		if p.unit >= 0 {
			scaling = s.d.scalingOf(&term, unit)
		}
		out.Terms = append(out.Terms, ModelTerm{
			Metric: s.d.Metrics[term.Metric].Name, Statistic: term.Statistic, Square: term.Scaling.Square,
			Scaling: scaling, Coefficient: fit.Coefficients[i] * sd,
		})
	}
	out.LogMSE, out.LogMSESD = s.stretches(p, errors, sd)
	return out
}

// scalingOf returns the scaling of a term for one unit, with the unit's own median and mean.
func (d *Design) scalingOf(term *Term, unit int) Scaling {
	s := term.Scaling
	plain := *d
	plain.units = []int{0, len(d.Rows)} // raw values, not centred
	x := plain.raw(term, nil)[d.units[unit]:d.units[unit+1]]
	values := presentOf(x, make([]float64, 0, len(x)))
	if len(values) == 0 {
		return s
	}
	slices.Sort(values)
	s.Centre += values[len(values)/2]
	sum := 0.
	for _, v := range values {
		sum += s.transform(v)
	}
	s.Mean += sum / float64(len(values))
	return s
}

// stretches returns the mean and the standard deviation of the log mean squared error over stretches of rows.
func (s *search) stretches(p problem, errors []float64, sd float64) (mean, deviation float64) {
	var logs []float64
	for u := range len(s.d.units) - 1 {
		if p.unit >= 0 && u != p.unit {
			continue
		}
		for from := s.d.units[u]; from+driftRows <= s.d.units[u+1]; from += driftRows {
			sum := 0.
			for _, e := range errors[from : from+driftRows] {
				sum += e * e * sd * sd
			}
			if sum > 0 {
				logs = append(logs, math.Log(sum/driftRows))
			}
		}
	}
	if len(logs) == 0 {
		return 0, 0
	}
	return meanSD(logs)
}

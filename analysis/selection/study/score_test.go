package study

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// ridge is a regression on standardised columns, by generalised cross-validation. The study has its own, so that a
// fault in the package's does not judge itself.
type ridge struct {
	mean, sd, beta []float64
	y, low, high   float64
}

// fit returns nothing else than the mean of y where there are no columns.
func fit(x [][]float64, y []float64, rows []int) ridge {
	n, p := len(rows), len(x)
	m := ridge{mean: make([]float64, p), sd: make([]float64, p), beta: make([]float64, p)}
	target := pick(y, rows)
	m.y = mean(target)
	m.low, m.high = target[0], target[0]
	for _, v := range target {
		m.low, m.high = min(m.low, v), max(m.high, v)
	}
	m.low, m.high = m.low-.25*(m.high-m.low), m.high+.25*(m.high-m.low)
	if p == 0 {
		return m
	}
	design := mat.NewDense(n, p, nil)
	for j := range x {
		column := pick(x[j], rows)
		m.mean[j], m.sd[j] = mean(column), deviation(column)
		if m.sd[j] <= 1e-12*math.Abs(m.mean[j]) {
			m.sd[j] = math.Inf(1)
		}
		for i, v := range column {
			design.Set(i, j, (v-m.mean[j])/m.sd[j])
		}
	}
	for i := range target {
		target[i] -= m.y
	}
	var gram mat.SymDense
	gram.SymOuterK(1, design.T())
	var eigen mat.EigenSym
	if !eigen.Factorize(&gram, true) {
		return m
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	var xty, rotated mat.VecDense
	xty.MulVec(design.T(), mat.NewVecDense(n, target))
	rotated.MulVec(vectors.T(), &xty)
	m.generalised(eigen.Values(nil), &rotated, &vectors, target)
	return m
}

// generalised chooses the penalty with the least n·SSE/(n−df)².
func (m *ridge) generalised(values []float64, rotated *mat.VecDense, vectors *mat.Dense, target []float64) {
	n, total := float64(len(target)), 0.0
	for _, v := range target {
		total += v * v
	}
	best := math.Inf(1)
	for power := -8.0; power <= 1; power += .25 {
		lambda, sse, df := n*math.Pow(10, power), total, 1.0
		shrunk := mat.NewVecDense(len(values), nil)
		for i, d := range values {
			d = max(d, 0)
			c := rotated.AtVec(i)
			shrunk.SetVec(i, c/(d+lambda))
			sse -= c * c * (d + 2*lambda) / ((d + lambda) * (d + lambda))
			df += d / (d + lambda)
		}
		if df >= n {
			continue
		}
		if gcv := max(sse, 0) / ((n - df) * (n - df)); gcv < best {
			best = gcv
			var beta mat.VecDense
			beta.MulVec(vectors, shrunk)
			copy(m.beta, beta.RawVector().Data)
		}
	}
}

// heldOut is R² on the rows of test with coefficients from the rows of train.
func heldOut(x [][]float64, y []float64, train, test []int) float64 {
	m, middle := fit(x, y, train), mean(pick(y, test))
	residual, total := 0.0, 0.0
	for _, t := range test {
		guess := m.y
		for j := range x {
			guess += m.beta[j] * (x[j][t] - m.mean[j]) / m.sd[j]
		}
		guess = min(max(guess, m.low), m.high)
		residual += (y[t] - guess) * (y[t] - guess)
		total += (y[t] - middle) * (y[t] - middle)
	}
	return 1 - residual/total
}

// refit is the information in a set of columns: new coefficients for each chunk, 4-fold by time inside it.
func refit(x [][]float64, y []float64, chunks [][]int) float64 {
	sum := 0.0
	for _, rows := range chunks {
		n, residual, total := len(rows), 0.0, 0.0
		middle := mean(pick(y, rows))
		for k := range 4 {
			low, high := n*k/4, n*(k+1)/4
			m := fit(x, y, append(append([]int(nil), rows[:low]...), rows[high:]...))
			for _, t := range rows[low:high] {
				guess := m.y
				for j := range x {
					guess += m.beta[j] * (x[j][t] - m.mean[j]) / m.sd[j]
				}
				guess = min(max(guess, m.low), m.high)
				residual += (y[t] - guess) * (y[t] - guess)
				total += (y[t] - middle) * (y[t] - middle)
			}
		}
		sum += 1 - residual/total
	}
	return sum / float64(len(chunks))
}

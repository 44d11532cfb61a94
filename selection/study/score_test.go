package study

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// basis is standardised columns of some rows, ready to explain any response.
type basis struct {
	x        [][]float64
	rows     []int
	mean, sd []float64
	design   *mat.Dense
	values   []float64 // eigenvalues of its Gram matrix
	vectors  mat.Dense
}

func newBasis(x [][]float64, rows []int) *basis {
	n, p := len(rows), len(x)
	b := &basis{x: x, rows: rows, mean: make([]float64, p), sd: make([]float64, p)}
	if p == 0 {
		return b
	}
	b.design = mat.NewDense(n, p, nil)
	for j := range x {
		column := pick(x[j], rows)
		b.mean[j], b.sd[j] = mean(column), deviation(column)
		if b.sd[j] <= 1e-12*math.Abs(b.mean[j]) {
			b.sd[j] = math.Inf(1)
		}
		for i, v := range column {
			b.design.Set(i, j, (v-b.mean[j])/b.sd[j])
		}
	}
	var gram mat.SymDense
	gram.SymOuterK(1, b.design.T())
	var eigen mat.EigenSym
	if !eigen.Factorize(&gram, true) {
		panic("the Gram matrix has no eigenvalues")
	}
	b.values = eigen.Values(nil)
	eigen.VectorsTo(&b.vectors)
	return b
}

// ridge is a regression on standardised columns, by generalised cross-validation. The study has its own, so that a
// fault in the package's does not judge itself.
type ridge struct {
	*basis
	beta         []float64
	y, low, high float64
}

func fit(x [][]float64, y []float64, rows []int) ridge { return newBasis(x, rows).fit(y) }

// fit explains a response. Without columns it is the mean.
func (b *basis) fit(y []float64) ridge {
	target := pick(y, b.rows)
	m := ridge{basis: b, beta: make([]float64, len(b.x)), y: mean(target), low: target[0], high: target[0]}
	for i, v := range target {
		m.low, m.high = min(m.low, v), max(m.high, v)
		target[i] -= m.y
	}
	m.low, m.high = m.low-.25*(m.high-m.low), m.high+.25*(m.high-m.low)
	if len(b.x) == 0 {
		return m
	}
	var xty, rotated mat.VecDense
	xty.MulVec(b.design.T(), mat.NewVecDense(len(target), target))
	rotated.MulVec(b.vectors.T(), &xty)
	m.generalised(&rotated, target)
	return m
}

func (m *ridge) predict(row int) float64 {
	guess := m.y
	for j := range m.x {
		guess += m.beta[j] * (m.x[j][row] - m.mean[j]) / m.sd[j]
	}
	return min(max(guess, m.low), m.high)
}

// generalised chooses the penalty with the least n·SSE/(n−df)².
func (m *ridge) generalised(rotated *mat.VecDense, target []float64) {
	n, total := float64(len(target)), 0.0
	for _, v := range target {
		total += v * v
	}
	best, least := mat.NewVecDense(len(m.values), nil), math.Inf(1)
	for power := -8.0; power <= 1; power += .25 {
		lambda, sse, df := n*math.Pow(10, power), total, 1.0
		shrunk := mat.NewVecDense(len(m.values), nil)
		for i, d := range m.values {
			d = max(d, 0)
			c := rotated.AtVec(i)
			shrunk.SetVec(i, c/(d+lambda))
			sse -= c * c * (d + 2*lambda) / ((d + lambda) * (d + lambda))
			df += d / (d + lambda)
		}
		if gcv := max(sse, 0) / ((n - df) * (n - df)); df < n && gcv < least {
			best, least = shrunk, gcv
		}
	}
	var beta mat.VecDense
	beta.MulVec(&m.vectors, best)
	copy(m.beta, beta.RawVector().Data)
}

// heldOut is R² on the rows of test with coefficients from the rows of train.
func heldOut(x [][]float64, y []float64, train, test []int) float64 {
	return newBasis(x, train).heldOut(y, test)
}

func (b *basis) heldOut(y []float64, test []int) float64 {
	m, middle := b.fit(y), mean(pick(y, test))
	residual, total := 0.0, 0.0
	for _, t := range test {
		residual += (y[t] - m.predict(t)) * (y[t] - m.predict(t))
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
				residual += (y[t] - m.predict(t)) * (y[t] - m.predict(t))
				total += (y[t] - middle) * (y[t] - middle)
			}
		}
		sum += 1 - residual/total
	}
	return sum / float64(len(chunks))
}

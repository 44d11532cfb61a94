package selection

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

const (
	// collinear is the least share of a standardised column's norm that must remain after regression on all others.
	collinear = 1e-7
	// aliasedShare is the share of its variance that a column must add to the earlier ones. Below it the column is an
	// alias.
	aliasedShare = 1e-10
	// exactFit is the share of the response's variance below which a residual is rounding. It bounds F. Otherwise the
	// last digit of an exact fit would decide which terms remain.
	exactFit = 1e-26
)

// model is a linear regression with intercept, for backward elimination.
type model struct {
	names []string    // of the terms
	of    []string    // the metric of each term
	x     [][]float64 // of each term: mean 0, norm 1; nil if constant
	y     []float64   // mean 0, norm 1
	raw   []float64   // the original response

	eliminated []Elimination
	f          map[string]float64
	r2         float64
}

// newModel standardises the columns over the rows, and then squares them: the square of a raw counter with a large
// offset is almost the counter itself. A metric with two values gets no square.
func newModel(names []string, columns [][]float64, y []float64, rows []int, quadratic bool) *model {
	m := &model{raw: y, y: slices.Clone(y), eliminated: []Elimination{}, f: map[string]float64{}}
	unit(m.y)
	add := func(name, of string, x []float64) {
		if !unit(x) {
			x = nil
		}
		m.names, m.of, m.x = append(m.names, name), append(m.of, of), append(m.x, x)
	}
	for j, column := range columns {
		add(names[j], names[j], pick(column, rows))
	}
	if !quadratic {
		return m
	}
	for j, x := range slices.Clone(m.x) {
		if x == nil || twoValued(pick(columns[j], rows)) {
			continue
		}
		square := make([]float64, len(x))
		floats.MulTo(square, x, x)
		add(names[j]+"^2", names[j], square)
	}
	return m
}

// remove takes out term j.
func (m *model) remove(j int) {
	m.names, m.of, m.x = slices.Delete(m.names, j, j+1), slices.Delete(m.of, j, j+1), slices.Delete(m.x, j, j+1)
}

// dropAliased removes terms that are sums of stronger ones. Squares come after all metrics. It returns the metrics
// without a remaining term.
func (m *model) dropAliased(strength []float64) []string {
	order := make([]int, len(m.x))
	metrics := len(strength)
	for i := range order {
		order[i] = i
	}
	strong := make(map[string]float64, metrics)
	for i, s := range strength {
		strong[m.names[i]] = s
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch sa, sb := strong[m.of[a]], strong[m.of[b]]; {
		case (a < metrics) != (b < metrics):
			return a - b
		case sa > sb:
			return -1
		case sa < sb:
			return 1
		}
		return 0
	})
	var basis [][]float64
	drop := make([]bool, len(m.x))
	for _, j := range order {
		if m.x[j] == nil {
			drop[j] = true
			continue
		}
		rest := slices.Clone(m.x[j])
		for range 2 { // the second pass removes the rounding errors of the first
			for _, q := range basis {
				floats.AddScaled(rest, -floats.Dot(rest, q), q)
			}
		}
		share := floats.Dot(rest, rest)
		if drop[j] = share < aliasedShare; !drop[j] {
			floats.Scale(1/math.Sqrt(share), rest)
			basis = append(basis, rest)
		}
	}
	before := slices.Clone(m.of[:metrics])
	for j := len(m.x) - 1; j >= 0; j-- {
		if drop[j] {
			m.remove(j)
		}
	}
	return slices.DeleteFunc(before, func(name string) bool { return slices.Contains(m.of, name) })
}

// eliminate removes the term with the smallest F until all are at or above the limit. If columns are collinear, it
// returns their names and removes nothing.
//
// F of a term is the increase of the squared error by its removal, over the mean squared error; it equals the square of
// t. With X = QR and S the inverse of R, it is computed as (Qᵀy·s)²/(s·s) from the term's row s of S. A removal turns
// that row into a unit vector by a reflection, and drops this dimension.
func (m *model) eliminate(limit float64) []string {
	if bad := slices.IndexFunc(m.x, func(x []float64) bool { return x == nil }); bad >= 0 {
		return []string{m.names[bad]}
	}
	s, aliases := m.factorise()
	if len(aliases) > 0 {
		return aliases
	}
	n, sse := len(m.y), s.sse
	for len(s.rows) > 0 {
		variance := max(sse, exactFit) / float64(n-len(s.rows)-1)
		least, at := math.Inf(1), -1
		for j := range s.rows {
			// Among equals the later column is removed.
			if f := s.gain(j) / variance; f <= least*(1+1e-9) {
				least, at = min(f, least), j
			}
		}
		if !(least < limit) {
			break
		}
		m.eliminated = append(m.eliminated, Elimination{Term: m.names[at], F: least})
		sse += s.gain(at)
		s.drop(at)
		m.remove(at)
	}
	return m.score()
}

// score computes F and R² of the remaining terms from the data, without the rounding errors of the eliminations.
func (m *model) score() []string {
	s, aliases := m.factorise()
	if len(aliases) > 0 {
		return aliases
	}
	m.r2 = 1 - s.sse
	if len(m.x) == 0 {
		m.r2 = 0
	}
	for j, name := range m.names {
		m.f[name] = s.gain(j) * float64(len(m.y)-len(m.x)-1) / max(s.sse, exactFit)
	}
	return nil
}

// factor holds the inverse of R, and the response in the basis of Q.
type factor struct {
	rows [][]float64
	y    []float64
	sse  float64 // residual sum of squares of all rows' terms
}

// gain returns the increase of the squared error if a term is removed.
func (s *factor) gain(j int) float64 {
	b := floats.Dot(s.rows[j], s.y)
	return b * b / floats.Dot(s.rows[j], s.rows[j])
}

// drop removes a term. A Householder reflection turns its row into the last dimension, which is cut off.
func (s *factor) drop(j int) {
	last := len(s.y) - 1
	v := slices.Clone(s.rows[j])
	norm := floats.Norm(v, 2)
	floats.Scale(1/norm, v)
	v[last] += math.Copysign(1, v[last])
	scale := -2 / floats.Dot(v, v)
	reflect := func(x []float64) []float64 {
		floats.AddScaled(x, scale*floats.Dot(x, v), v)
		return x[:last]
	}
	s.rows = slices.Delete(s.rows, j, j+1)
	for i, row := range s.rows {
		s.rows[i] = reflect(row)
	}
	s.y = reflect(s.y)
}

// factorise decomposes the terms, with the response as the last column. It returns the names of collinear terms: those
// with less than 1e-7 of their norm left after the others.
func (m *model) factorise() (*factor, []string) {
	n, p := len(m.y), len(m.x)
	a := blas64.General{Rows: n, Cols: p + 1, Stride: p + 1, Data: make([]float64, n*(p+1))}
	for j := range p + 1 {
		column := m.y
		if j < p {
			column = m.x[j]
		}
		for i, v := range column {
			a.Data[i*a.Stride+j] = v
		}
	}
	work, tau := make([]float64, 1), make([]float64, p+1)
	lapack64.Geqrf(a, tau, work, -1)
	work = make([]float64, int(work[0]))
	lapack64.Geqrf(a, tau, work, len(work))
	at := func(i, j int) float64 { return a.Data[i*a.Stride+j] }
	for j := range p {
		if !(math.Abs(at(j, j)) >= collinear) {
			return nil, m.dependency(at, j)
		}
	}
	s := &factor{rows: make([][]float64, p), y: make([]float64, p), sse: at(p, p) * at(p, p)}
	if p == 0 {
		return s, nil
	}
	r := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: p, Stride: p, Data: make([]float64, p*p)}
	for i := range p {
		copy(r.Data[i*p+i:(i+1)*p], a.Data[i*a.Stride+i:i*a.Stride+p])
		s.y[i] = at(i, p)
	}
	lapack64.Trtri(r)
	var aliases []string
	least := math.Inf(1)
	for i := range p {
		s.rows[i] = r.Data[i*p : (i+1)*p]
		least = min(least, 1/floats.Norm(s.rows[i], 2))
	}
	if !(least >= collinear) {
		for i, row := range s.rows {
			if !(1/floats.Norm(row, 2) >= 10*collinear) {
				aliases = append(aliases, m.names[i])
			}
		}
	}
	return s, aliases
}

// dependency names the columns that add up to column j, followed by column j itself. R of the columns before j has full
// rank.
func (m *model) dependency(at func(i, j int) float64, j int) []string {
	share := make([]float64, j)
	largest := 0.
	for i := j - 1; i >= 0; i-- {
		v := at(i, j)
		for k := i + 1; k < j; k++ {
			v -= at(i, k) * share[k]
		}
		share[i] = v / at(i, i)
		largest = max(largest, math.Abs(share[i]))
	}
	var names []string
	for i, v := range share {
		if math.Abs(v) > 1e-6*largest {
			names = append(names, m.names[i])
		}
	}
	return append(names, m.names[j])
}

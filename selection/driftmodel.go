package selection

import (
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// NewDrift makes the reference for Watch from a selection, and the table and options of that selection. It contains
// models if the metrics predict the responses.
func NewDrift(t *Table, o Options, s *Selection) (*Drift, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	d, err := Prepare(t, o)
	if err != nil {
		return nil, err
	}
	w := &Drift{Centred: d.centred()}
	for _, m := range s.Models {
		if slices.ContainsFunc(w.Models, func(w DriftModel) bool { return w.Response == m.Response }) {
			continue // one job's model per response is enough: new jobs get new coefficients
		}
		model := DriftModel{Model: m, Renewed: d.Joint}
		if d.Joint && !model.renew(d, s.Scale) {
			continue
		}
		w.Models = append(w.Models, model)
	}
	w.addCanaries(d, s)
	return w, nil
}

const (
	canaryTerms  = 5    // largest number of kept metrics in a prediction
	canaryEnough = .02  // error below which a prediction needs no further metric
	canaryWorst  = .125 // error above which 10 times as much exceeds the error of an unrelated metric
)

// addCanaries adds the dropped metrics that kept ones predict. Others cannot deviate from a prediction.
func (w *Drift) addCanaries(d *Design, s *Selection) {
	var kept []string
	for _, k := range s.Kept {
		kept = append(kept, k.Name)
	}
	on := d.named(kept)
	z := make([][]float64, len(on))
	for i, j := range on {
		z[i] = d.Terms[meanTerm(d, j)].X
	}
	gram := products(z)
	used := map[string]bool{}
	for _, dropped := range s.Dropped {
		j := slices.IndexFunc(d.Metrics, func(g Group) bool { return g.Name == dropped.Name })
		if j < 0 || len(on) == 0 {
			continue // constant metrics are not part of a design
		}
		with, coefficients, left := pursue(gram, z, d.Terms[meanTerm(d, j)].X)
		if left > canaryWorst {
			continue
		}
		c := Canary{Metric: dropped.Name, Error: left}
		for i, k := range with {
			name := d.Metrics[on[k]].Name
			c.Terms = append(c.Terms, CanaryTerm{Metric: name, Coefficient: coefficients[i]})
			used[name] = true
		}
		used[c.Metric] = true
		w.Canaries = append(w.Canaries, c)
	}
	slices.SortFunc(w.Canaries, func(a, b Canary) int { return strings.Compare(a.Metric, b.Metric) })
	for j, g := range d.Metrics {
		if used[g.Name] {
			t := &d.Terms[meanTerm(d, j)]
			w.Columns = append(w.Columns, DriftColumn{Metric: g.Name, Statistic: t.Statistic, Scaling: t.Scaling})
		}
	}
}

// products returns XᵀX/n.
func products(x [][]float64) *mat.SymDense {
	g := mat.NewSymDense(max(len(x), 1), nil)
	for i := range x {
		for j := i; j < len(x); j++ {
			g.SetSym(i, j, floats.Dot(x[i], x[j])/float64(len(x[i])))
		}
	}
	return g
}

// pursue regresses a column on few others. Each step adds the column with the largest correlation with the residual,
// and fits again. This is orthogonal matching pursuit: Pati, Rezaiifar and Krishnaprasad 1993. All columns have mean 0
// and variance 1.
func pursue(gram *mat.SymDense, z [][]float64, x []float64) (with []int, coefficients []float64, left float64) {
	c := make([]float64, len(z))
	for i := range z {
		c[i] = floats.Dot(z[i], x) / float64(len(x))
	}
	left = 1
	for len(with) < min(canaryTerms, len(z)) && left > canaryEnough {
		next, most := -1, 1e-6
		for j := range z {
			r := c[j]
			for i, k := range with {
				r -= coefficients[i] * gram.At(j, k)
			}
			if math.Abs(r) > most && !slices.Contains(with, j) {
				next, most = j, math.Abs(r)
			}
		}
		if next < 0 {
			break
		}
		wider := append(slices.Clone(with), next)
		b, explained, ok := solve(gram, c, wider)
		if !ok || 1-explained > left-.005 {
			break
		}
		with, coefficients, left = wider, b, max(1-explained, 0)
	}
	return with, coefficients, left
}

// solve regresses on some of the columns, given by their products. explained is R².
func solve(gram *mat.SymDense, c []float64, with []int) (coefficients []float64, explained float64, ok bool) {
	a, b := mat.NewSymDense(len(with), nil), mat.NewVecDense(len(with), nil)
	for i, k := range with {
		b.SetVec(i, c[k])
		for j := i; j < len(with); j++ {
			a.SetSym(i, j, gram.At(k, with[j]))
		}
	}
	var factor mat.Cholesky
	var solved mat.VecDense
	if !factor.Factorize(a) || factor.Cond() > 1e10 || factor.SolveVecTo(&solved, b) != nil {
		return nil, 0, false
	}
	return solved.RawVector().Data, mat.Dot(&solved, b), true
}

// renew replaces the coefficients of one job by the quality that new coefficients reach in each job. It returns false
// if no job has enough rows.
func (m *DriftModel) renew(d *Design, scale string) bool {
	m.Unit, m.Centred, m.Intercept, m.Low, m.High = "", true, 0, 0, 0
	var names []string
	for _, t := range m.Terms {
		names = append(names, t.Metric)
	}
	of := d.only(d.named(names))
	if scale == scaleLinear {
		of = d.linear(d.named(names))
	}
	m.Terms = nil
	var x [][]float64
	for _, t := range of.Terms {
		m.Terms = append(m.Terms, ModelTerm{
			Metric: of.Metrics[t.Metric].Name, Statistic: t.Statistic, Square: t.Scaling.Square, Scaling: t.Scaling,
		})
		x = append(x, t.X)
	}
	logs := renewedErrors(d, x, d.Y[slices.Index(d.Responses, m.Response)])
	if len(logs) == 0 {
		return false
	}
	m.LogMSE, m.LogMSESD = meanSD(logs)
	return true
}

const scaleLinear = "linear" // a value of Selection.Scale

// renewedErrors returns the renewed errors of all stretches of a design.
func renewedErrors(d *Design, x [][]float64, y []float64) (logs []float64) {
	of := map[int32][]int{}
	var units []int32
	for i, u := range d.Unit {
		if of[u] == nil {
			units = append(units, u)
		}
		of[u] = append(of[u], i)
	}
	for _, u := range units {
		rows := of[u]
		n := max(1, len(rows)/renewedStretch)
		for k := range n {
			if value, is := renewedError(x, y, rows[len(rows)*k/n:len(rows)*(k+1)/n]); is {
				logs = append(logs, value)
			}
		}
	}
	return logs
}

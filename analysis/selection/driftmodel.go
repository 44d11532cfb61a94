package selection

import (
	"slices"
	"strings"
)

// NewDrift makes what drift watches from a selection, and the table and the options that it was made with. Models are
// there if the metrics predict the responses.
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
			continue // coefficients of another job: those of new jobs are renewed
		}
		model := DriftModel{Model: m, Renewed: d.Joint}
		if d.Joint && !model.renew(d, s.Scale) {
			continue
		}
		w.Models = append(w.Models, model)
	}
	w.addCanaries(d, s.Dropped)
	return w, nil
}

// addCanaries adds the dropped metrics that something stands for.
func (w *Drift) addCanaries(d *Design, all []Dropped) {
	number := map[string]int{}
	for j, m := range d.Metrics {
		number[m.Name] = j
	}
	for _, dropped := range all {
		metric, is := number[dropped.Name]
		if _, kept := number[dropped.Representative]; !is || !kept {
			continue // constant metrics take no part in a design
		}
		representative := number[dropped.Representative]
		x, z := &d.Terms[meanTerm(d, metric)], &d.Terms[meanTerm(d, representative)]
		c := Canary{
			Metric: dropped.Name, Statistic: x.Statistic, Scaling: x.Scaling, Representative: dropped.Representative,
			RepresentativeStatistic: z.Statistic, RepresentativeScaling: z.Scaling,
		}
		c.fit(x.X, z.X)
		w.Canaries = append(w.Canaries, c)
	}
	slices.SortFunc(w.Canaries, func(a, b Canary) int { return strings.Compare(a.Metric, b.Metric) })
}

// renew replaces the coefficients, which are one job's, by how well new ones do in each job. It reports whether any job
// has the rows for that.
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

const scaleLinear = "linear" // as Selection.Scale says it

// renewedErrors are those of all stretches of a design.
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

// fit finds the slope on the representative. Both columns have mean 0 and variance 1.
func (c *Canary) fit(x, z []float64) {
	for i := range x {
		c.Slope += x[i] * z[i] / float64(len(x))
	}
	for i := range x {
		c.Error += square(x[i]-c.Slope*z[i]) / float64(len(x))
	}
}

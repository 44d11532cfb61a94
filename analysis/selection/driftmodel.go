package selection

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// NewDrift makes what drift watches from a selection and the design of its rows.
func NewDrift(d *Design, s *Selection) (*Drift, error) {
	w := &Drift{}
	for _, m := range s.Models {
		if i := slices.IndexFunc(w.Models, func(w DriftModel) bool { return w.Response == m.Response }); i >= 0 {
			continue // coefficients of another job: those of new jobs are renewed
		}
		model := DriftModel{Model: m, Renewed: d.Joint}
		if d.Joint {
			if err := model.renew(d); err != nil {
				return nil, err
			}
		}
		w.Models = append(w.Models, model)
	}
	number := map[string]int{}
	for j, m := range d.Metrics {
		number[m.Name] = j
	}
	for _, dropped := range s.Dropped {
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
	return w, nil
}

// renew replaces the coefficients, which are one job's, by how well new ones do in each job.
func (m *DriftModel) renew(d *Design) error {
	m.Unit, m.Intercept, m.Low, m.High = "", 0, 0, 0
	m.Terms = slices.Clone(m.Terms)
	x := make([][]float64, len(m.Terms))
	for i := range m.Terms {
		t := &m.Terms[i]
		t.Coefficient = 0
		k := slices.IndexFunc(d.Terms, func(of Term) bool {
			return d.Metrics[of.Metric].Name == t.Metric && of.Statistic == t.Statistic && of.Scaling == t.Scaling
		})
		if k < 0 {
			return fmt.Errorf("the model of %s has %s %s, which the design lacks", m.Response, t.Metric, t.Statistic)
		}
		x[i] = d.Terms[k].X
	}
	response := slices.Index(d.Responses, m.Response)
	if response < 0 {
		return fmt.Errorf("the design has no response %s", m.Response)
	}
	logs := renewedErrors(d, x, d.Y[response])
	m.LogMSE, m.LogMSESD = meanAndDeviation(logs)
	return nil
}

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

func meanAndDeviation(values []float64) (mean, deviation float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += square(v-mean) / max(float64(len(values)-1), 1)
	}
	return mean, math.Sqrt(deviation)
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

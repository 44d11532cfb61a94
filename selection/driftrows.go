package selection

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// rowsInTime is a table in the order of units and time.
type rowsInTime struct {
	t       *Table
	order   []int
	bounds  []int // unit u consists of order[bounds[u]] to order[bounds[u+1]-1]
	centred bool  // each unit is centred by itself
	step    int64 // usual distance of two rows, in milliseconds
	torn    int   // rows left out because they follow another too soon
}

func newRowsInTime(t *Table, centred bool) *rowsInTime {
	v := &rowsInTime{t: t, centred: centred}
	v.order, _ = ordered(t)
	all := Design{}
	v.order = all.withoutTorn(t, v.order)
	v.torn = all.Out.Torn
	v.bounds = unitStarts(t, v.order)
	v.step = usualStep(t, v.order)
	return v
}

// scaled returns a column of the table on the scale of training, in the order of the rows in time; nil if no row has
// it.
func (v *rowsInTime) scaled(metric, statistic string, s Scaling) []float64 {
	values := v.t.column(metric, statistic)
	if values == nil {
		return nil
	}
	x := v.inOrder(values, 0, len(v.order))
	if s.Difference {
		for i, before := range preceding(v.t, v.order, v.step) {
			x[i] = math.NaN()
			if before >= 0 {
				x[i] = values[v.order[i]] - values[before]
			}
		}
	}
	for u := range len(v.bounds) - 1 {
		v.scaleUnit(x[v.bounds[u]:v.bounds[u+1]], s)
	}
	return x
}

// columns scales each column of canaries once.
func (v *rowsInTime) columns(all []DriftColumn) func(metric string) []float64 {
	of, scaled := map[string]DriftColumn{}, map[string][]float64{}
	for _, c := range all {
		of[c.Metric] = c
	}
	return func(metric string) []float64 {
		x, is := scaled[metric]
		if c, known := of[metric]; !is && known {
			x = v.scaled(metric, c.Statistic, c.Scaling)
			scaled[metric] = x
		}
		return x
	}
}

// scaleUnit puts the values of a unit on the scale of training. If training centred each unit by itself, this unit is
// centred too.
func (v *rowsInTime) scaleUnit(x []float64, s Scaling) {
	median, mean := 0.0, 0.0
	if has := presentOf(x, make([]float64, 0, len(x))); v.centred && len(has) > 0 {
		slices.Sort(has)
		median = has[len(has)/2]
		for i := range has {
			has[i] = s.transform(has[i] - median)
		}
		mean, _ = meanSD(has)
	}
	for i := range x {
		x[i] = s.standard(s.transform(x[i]-median) - mean)
	}
}

func (v *rowsInTime) inOrder(values []float64, from, to int) []float64 {
	all := make([]float64, 0, to-from)
	for _, row := range v.order[from:to] {
		all = append(all, values[row])
	}
	return all
}

// column returns the values of a statistic of a metric or a response; nil if there is none, or if all values are
// missing. In a table with one value a row, that value counts as the mean.
func (t *Table) column(name, statistic string) []float64 {
	var found []float64
	for _, m := range t.Metrics {
		if m.Name != name {
			continue
		}
		for _, c := range m.Columns {
			if c.Statistic == statistic || c.Statistic == "" && statistic == "mean" ||
				c.Statistic == "mean" && statistic == "" {
				found = c.Values
			}
		}
	}
	if found != nil && slices.ContainsFunc(found, present) {
		return found
	}
	return nil
}

// response returns the values that a model explains: a response of the table, or the mean of a metric.
func (t *Table) response(name string) []float64 {
	for _, r := range t.Responses {
		if r.Name == name && slices.ContainsFunc(r.Values, present) {
			return r.Values
		}
	}
	return t.column(name, "mean")
}

// levelled returns the values of a response in the order of the rows in time. Outliers that training would reject
// become NaN. If training centred each unit by itself, the values are centred too.
func (v *rowsInTime) levelled(values []float64) []float64 {
	y := v.inOrder(values, 0, len(v.order))
	for u := range len(v.bounds) - 1 {
		of := y[v.bounds[u]:v.bounds[u+1]]
		for i := range of {
			if !present(of[i]) {
				of[i] = math.NaN()
			}
		}
		centre, scale, _ := robust(presentOf(of, make([]float64, 0, len(of))))
		for i := range of {
			if scale > 0 && math.Abs(of[i]-centre) > outlying*scale {
				of[i] = math.NaN()
			}
		}
		if has := presentOf(of, make([]float64, 0, len(of))); v.centred && len(has) > 0 {
			mean, _ := meanSD(has)
			floats.AddConst(-mean, of)
		}
	}
	return y
}

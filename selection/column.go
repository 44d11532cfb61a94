package selection

import (
	"math"
	"slices"
	"strings"
)

// robust returns the median and a robust standard deviation of values, and sorts them. values must not contain NaN.
// (P90 − P10)/2.56 is the standard deviation of a normal distribution. If P90 equals P10, scale is the plain standard
// deviation.
func robust(values []float64) (median, scale float64, constant bool) {
	slices.Sort(values)
	n := len(values)
	if n == 0 || values[0] == values[n-1] {
		return 0, 0, true
	}
	at := func(q float64) float64 {
		i := int(q * float64(n-1))
		f := q*float64(n-1) - float64(i)
		if i+1 >= n {
			return values[n-1]
		}
		return values[i] + f*(values[i+1]-values[i])
	}
	median = at(.5)
	scale = (at(.9) - at(.1)) / 2.56
	if scale > 0 {
		return median, scale, false
	}
	_, scale = meanSD(values)
	return median, scale, !(scale > 0)
}

func meanSD(values []float64) (mean, sd float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	for _, v := range values {
		sd += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sd / float64(len(values)))
}

// takeMetric adds the usable columns of m to the design. If there are none, it lists m in Left with the reason.
func (d *Design) takeMetric(m Metric, o Options, scratch []float64) {
	g := Group{Name: m.Name, Source: m.Source}
	reason := "statistic not asked for"
	columns := slices.Clone(m.Columns)
	slices.SortFunc(columns, func(a, b Column) int { return strings.Compare(a.Statistic, b.Statistic) })
	for _, c := range columns {
		if c.Statistic == StatisticNodes {
			continue
		}
		if c.Statistic != "" && len(o.Statistics) > 0 && !slices.Contains(o.Statistics, c.Statistic) {
			continue
		}
		term := Term{Metric: len(d.Metrics), Statistic: c.Statistic, column: c.Values}
		filled, why := d.fill(&term, m.Kind, scratch)
		if why != "" {
			if reason != "missing" {
				reason = why
			}
			continue
		}
		g.Filled = max(g.Filled, filled)
		g.Terms = append(g.Terms, len(d.Terms))
		d.Terms = append(d.Terms, term)
		if o.Quadratic {
			if s, ok := squared(term); ok {
				g.Terms = append(g.Terms, len(d.Terms))
				d.Terms = append(d.Terms, s)
			}
		}
	}
	if len(g.Terms) == 0 {
		d.Left = append(d.Left, Left{Name: m.Name, Source: m.Source, Reason: reason})
		return
	}
	d.Metrics = append(d.Metrics, g)
}

// fill computes the scaling and the values of a term. If the term cannot take part, why is the reason.
func (d *Design) fill(term *Term, kind string, scratch []float64) (filled float64, why string) {
	x := make([]float64, len(d.Rows))
	missing := 0
	low, high := math.Inf(1), math.Inf(-1)
	for i, row := range d.Rows {
		v := term.column[row]
		if !present(v) {
			missing++
			v = math.NaN()
		} else {
			low, high = min(low, v), max(high, v)
		}
		x[i] = v
	}
	filled = float64(missing) / float64(len(x))
	switch {
	case missing == len(x):
		return 1, "missing"
	case low == high:
		return filled, "constant"
	case filled > mostMissing:
		return filled, "missing"
	}
	d.centreMedian(x, scratch) // before the test for drift, which levels of jobs would pass for
	if (kind == "gauge" || kind == "") && d.between(x) > mostBetween {
		term.Scaling.Difference = true
		d.difference(term.column, x)
		d.centreMedian(x, scratch)
	}
	centre, scale, constant := robust(presentOf(x, scratch))
	if constant || math.IsInf(scale, 1) {
		return filled, "constant"
	}
	term.Scaling.Centre, term.Scaling.Scale = centre, scale
	term.Scaling.Asinh = d.Asinh
	if !d.scale(term, x) {
		return filled, "constant"
	}
	return filled, ""
}

// presentOf copies the values of x that are not missing to scratch.
func presentOf(x, scratch []float64) []float64 {
	out := scratch[:0]
	for _, v := range x {
		if !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

// between returns the share of the variance of x that lies between blocks.
func (d *Design) between(x []float64) float64 {
	var n, sum, within, total float64
	for _, v := range x {
		if !math.IsNaN(v) {
			n, sum = n+1, sum+v
		}
	}
	mean := sum / n
	for b := range len(d.Bounds) - 1 {
		var count, here float64
		block := x[d.Bounds[b]:d.Bounds[b+1]]
		for _, v := range block {
			if !math.IsNaN(v) {
				count, here = count+1, here+v
			}
		}
		here /= count
		for _, v := range block {
			if !math.IsNaN(v) {
				within += (v - here) * (v - here)
				total += (v - mean) * (v - mean)
			}
		}
	}
	if !(total > 0) {
		return 0
	}
	return 1 - within/total
}

// difference replaces x by the change of column since the row one step before.
func (d *Design) difference(column, x []float64) {
	for i, row := range d.Rows {
		x[i] = math.NaN()
		if b := d.before[i]; b >= 0 && present(column[row]) && present(column[b]) {
			x[i] = column[row] - column[b]
		}
	}
}

// centreMedian subtracts from x the median of each unit, if there are several units: each job has its own level.
func (d *Design) centreMedian(x, scratch []float64) {
	if !d.centred() {
		return
	}
	for u := range len(d.units) - 1 {
		here := x[d.units[u]:d.units[u+1]]
		values := presentOf(here, scratch)
		slices.Sort(values)
		if len(values) == 0 {
			continue
		}
		median := values[len(values)/2]
		for i := range here {
			here[i] -= median
		}
	}
}

// scale puts x on the scale of the term, and takes it over. Missing values become the median of their block.
func (d *Design) scale(term *Term, x []float64) bool {
	s := &term.Scaling
	gaps := false
	for i, v := range x {
		if gaps = gaps || math.IsNaN(v); !math.IsNaN(v) {
			x[i] = s.transform(v)
		}
	}
	if gaps {
		d.fillGaps(x)
	}
	if d.centred() {
		d.centre(x)
	}
	s.Mean, s.SD = meanSD(x)
	if !(s.SD > 1e-12) || math.IsInf(s.SD, 1) {
		return false
	}
	for i := range x {
		x[i] = (x[i] - s.Mean) / s.SD
	}
	term.X = x
	return true
}

// fillGaps replaces missing values by the median of the block. In an empty block it takes 0, the median of all.
func (d *Design) fillGaps(x []float64) {
	for b := range len(d.Bounds) - 1 {
		block := x[d.Bounds[b]:d.Bounds[b+1]]
		values := presentOf(block, make([]float64, 0, len(block)))
		if len(values) == len(block) {
			continue
		}
		median := 0.
		if len(values) > 0 {
			slices.Sort(values)
			median = values[len(values)/2]
		}
		for i, v := range block {
			if math.IsNaN(v) {
				block[i] = median
			}
		}
	}
}

// squared returns the square of a standardised term. A metric with two distinct values gets no square, as it would be
// the same column again.
func squared(term Term) (Term, bool) {
	s := term
	s.Scaling.Square = true
	s.X = make([]float64, len(term.X))
	for i, v := range term.X {
		s.X[i] = v * v
	}
	s.Scaling.MeanSquare, s.Scaling.SDSquare = meanSD(s.X)
	if !(s.Scaling.SDSquare > 1e-9) || twoValued(term.X) {
		return s, false
	}
	for i := range s.X {
		s.X[i] = (s.X[i] - s.Scaling.MeanSquare) / s.Scaling.SDSquare
	}
	return s, true
}

func twoValued(x []float64) bool {
	other := math.NaN()
	for _, v := range x {
		if v == x[0] || v == other {
			continue
		}
		if !math.IsNaN(other) {
			return false
		}
		other = v
	}
	return true
}

// linear returns d with the terms of some metrics without asinh. The other metrics are left out.
func (d *Design) linear(metrics []int) *Design {
	l := *d
	l.Asinh, l.Metrics, l.Terms = false, nil, nil
	scratch := make([]float64, len(d.Rows))
	for _, m := range metrics {
		g := d.Metrics[m]
		old := g.Terms
		g.Terms = nil
		for _, i := range old {
			term := d.Terms[i]
			term.Metric = len(l.Metrics)
			term.Scaling.Asinh = false
			if !term.Scaling.Square {
				if !l.scale(&term, l.raw(&term, scratch)) {
					continue
				}
			} else {
				plain := len(l.Terms) - 1
				if plain < 0 || l.Terms[plain].Metric != term.Metric || l.Terms[plain].Statistic != term.Statistic {
					continue
				}
				s, ok := squared(l.Terms[plain])
				if !ok {
					continue
				}
				term = s
			}
			g.Terms = append(g.Terms, len(l.Terms))
			l.Terms = append(l.Terms, term)
		}
		l.Metrics = append(l.Metrics, g)
	}
	return &l
}

// raw returns the values of a term before its scale.
func (d *Design) raw(term *Term, scratch []float64) []float64 {
	x := make([]float64, len(d.Rows))
	for i, row := range d.Rows {
		if x[i] = term.column[row]; !present(x[i]) {
			x[i] = math.NaN()
		}
	}
	if term.Scaling.Difference {
		d.difference(term.column, x)
	}
	d.centreMedian(x, scratch)
	return x
}

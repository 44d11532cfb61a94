package selection

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
)

const (
	leastRows   = 48    // six blocks of eight rows
	mostMissing = .1    // share of missing values above which a column is left out
	mostBetween = .7    // share of a gauge's variance between blocks above which its differences are used
	outlying    = 20    // robust standard deviations
	ownRows     = 72    // rows that a job needs for coefficients of its own: six blocks of twelve
	mostJoint   = 32    // largest number of jobs with coefficients of their own: all their Gram matrices are in memory
	mostBlocks  = 24    // of whole units
	huge        = 1e150 // values above it count as missing, since their squares may overflow
)

// Scaling makes values of different units comparable. Centre is subtracted from the value or its difference, and the
// result is divided by Scale. Heavy-tailed rates then go through asinh. Mean and SD standardise the outcome.
type Scaling struct {
	Difference bool    `json:"difference,omitempty"` // difference to the previous value: for gauges that drift
	Centre     float64 `json:"centre"`               // 0 if each unit is centred by its own median
	Scale      float64 `json:"scale"`
	Asinh      bool    `json:"asinh,omitempty"`
	Mean       float64 `json:"mean"`
	SD         float64 `json:"sd"`
	Square     bool    `json:"square,omitempty"` // of the standardised value, standardised again by the two below
	MeanSquare float64 `json:"mean_square,omitempty"`
	SDSquare   float64 `json:"sd_square,omitempty"`
}

// scaled applies s to a column of one unit, in order of time. Missing values stay NaN. With Difference, the first value
// is NaN too.
func (s Scaling) scaled(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		if s.Difference {
			if i == 0 {
				out[i] = math.NaN()
				continue
			}
			v -= values[i-1]
		}
		out[i] = s.standard(s.transform(v))
	}
	return out
}

// transform applies the scale without standardising.
func (s Scaling) transform(v float64) float64 {
	v = (v - s.Centre) / s.Scale
	if s.Asinh {
		return math.Asinh(v)
	}
	return v
}

func (s Scaling) standard(v float64) float64 {
	v = (v - s.Mean) / s.SD
	if s.Square {
		return (v*v - s.MeanSquare) / s.SDSquare
	}
	return v
}

// Term is one column of a design: a statistic of a metric, or its square.
type Term struct {
	Metric    int // of Design.Metrics
	Statistic string
	Scaling   Scaling
	X         []float64 // in the order of Design.Rows: mean 0, variance 1, no missing values
	column    []float64 // of the table
}

// Group is a metric of a design. Its terms are chosen together.
type Group struct {
	Name   string
	Source string
	Terms  []int   // of Design.Terms, without a gap
	Filled float64 // largest share of missing values in a column, which the median of the block replaces
}

// Design is a table prepared for selection: the usable rows in blocks, and columns on a common scale.
type Design struct {
	Rows      []int   // of the table, block after block, in order of time inside a unit
	Bounds    []int   // block b consists of rows Bounds[b] to Bounds[b+1]-1 of Rows
	Unit      []int32 // of each of Rows
	Metrics   []Group // by name
	Terms     []Term  // by metric, statistic, then the square
	Responses []string
	Y         [][]float64 // of each response, in the order of Rows: mean 0 in each unit, variance 1
	Mean      [][]float64 // of each response in each unit, before that
	SD        []float64   // of each response, after the means are subtracted
	Joint     bool        // each unit gets coefficients of its own
	Asinh     bool
	Left      []Left // metrics that took no part, by name
	Out       Out
	Warnings  []string

	units  []int // first of Rows of each unit, then len(Rows)
	names  []string
	before []int // row of the table one step before each of Rows; -1: none
}

// centred reports whether each unit is centred by itself.
func (d *Design) centred() bool { return len(d.units) > 2 }

// Prepare prepares a table for selection. Its columns are on the scale of asinh.
func Prepare(t *Table, o Options) (*Design, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	d := &Design{Asinh: true}
	rows, late := ordered(t)
	d.Out.Unordered = late
	rows = d.withoutTorn(t, rows)
	for _, r := range t.Responses {
		d.Responses = append(d.Responses, r.Name)
	}
	if rows, err = d.withResponse(t, rows); err != nil {
		return nil, err
	}
	rows = d.chooseUnits(t, rows)
	if len(rows) < leastRows {
		return nil, fmt.Errorf("%d rows of %d can be used, and a selection needs %d (%s): measure longer or more often",
			len(rows), t.Rows(), leastRows, d.Out)
	}
	d.Rows = rows
	d.units = unitStarts(t, rows)
	d.Bounds = blockBounds(d.units, o.Folds, d.Joint)
	d.Unit = make([]int32, len(rows))
	for i, r := range rows {
		d.Unit[i] = t.unit(r)
	}
	for u := range len(d.units) - 1 {
		d.names = append(d.names, t.unitName(rows[d.units[u]]))
	}
	d.before = preceding(t, rows, d.step(t))
	if err := d.takeResponses(t); err != nil {
		return nil, err
	}
	d.takeMetrics(t, o)
	if len(d.Metrics) == 0 {
		return nil, fmt.Errorf("none of %d metrics can be used: %s", len(t.Metrics), reasons(d.Left))
	}
	return d, nil
}

// String lists the reasons for leaving rows out, with their numbers.
func (o Out) String() string {
	return fmt.Sprintf("%d torn, %d without a response, %d with an outlying response, %d of short jobs",
		o.Torn, o.NoResponse, o.Outlying, o.ShortUnit)
}

func reasons(left []Left) string {
	count := map[string]int{}
	var order []string
	for _, l := range left {
		if count[l.Reason]++; count[l.Reason] == 1 {
			order = append(order, l.Reason)
		}
	}
	slices.Sort(order)
	for i, r := range order {
		order[i] = fmt.Sprintf("%d %s", count[r], r)
	}
	return strings.Join(order, ", ")
}

func (d *Design) takeResponses(t *Table) error {
	for _, r := range t.Responses {
		y := make([]float64, len(d.Rows))
		low, high := math.Inf(1), math.Inf(-1)
		for i, row := range d.Rows {
			y[i] = r.Values[row]
			low, high = min(low, y[i]), max(high, y[i])
		}
		if low == high {
			return fmt.Errorf("response %q is constant (%g) over %d rows: nothing can explain it; "+
				"measure while it varies", r.Name, low, len(y))
		}
		means := d.centre(y)
		_, sd := meanSD(y)
		if !(sd > 0) {
			return fmt.Errorf("response %q is constant within each of %d jobs: measure while it varies",
				r.Name, len(d.names))
		}
		floats.Scale(1/sd, y)
		d.Mean, d.SD = append(d.Mean, means), append(d.SD, sd)
		d.Y = append(d.Y, y)
	}
	return nil
}

// centre subtracts from values the mean of each unit, and returns the means.
func (d *Design) centre(values []float64) []float64 {
	means := make([]float64, len(d.units)-1)
	for u := range means {
		here := values[d.units[u]:d.units[u+1]]
		means[u], _ = meanSD(here)
		floats.AddConst(-means[u], here)
	}
	return means
}

func (d *Design) takeMetrics(t *Table, o Options) {
	order := make([]int, len(t.Metrics))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(t.Metrics[a].Name, t.Metrics[b].Name) })
	scratch := make([]float64, len(d.Rows))
	for _, i := range order {
		d.takeMetric(t.Metrics[i], o, scratch)
	}
}

// Values returns the columns of the named metrics of another table on the scale of the design, one value a row of t.
// Missing values become the centre. With it a model of training rows can be scored on unseen rows.
func (d *Design) Values(t *Table, metrics []string) ([][]float64, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	rows, _ := ordered(t)
	step := usualStep(t, rows)
	o := &Design{Rows: rows, units: unitStarts(t, rows), before: preceding(t, rows, step)}
	if !d.centred() {
		o.units = []int{0, len(rows)}
	}
	scratch := make([]float64, len(rows))
	var out [][]float64
	for _, name := range metrics {
		g, ok := slices.BinarySearchFunc(d.Metrics, name, func(g Group, name string) int {
			return strings.Compare(g.Name, name)
		})
		m := slices.IndexFunc(t.Metrics, func(m Metric) bool { return m.Name == name })
		if !ok || m < 0 {
			return nil, fmt.Errorf("metric %q is not in the table", name)
		}
		for _, i := range d.Metrics[g].Terms {
			term := d.Terms[i]
			c := slices.IndexFunc(t.Metrics[m].Columns, func(c Column) bool { return c.Statistic == term.Statistic })
			if c < 0 {
				return nil, fmt.Errorf("metric %q has no column %q in the table", name, term.Statistic)
			}
			term.column = t.Metrics[m].Columns[c].Values
			x := o.raw(&term, scratch)
			values := make([]float64, len(rows))
			for j, row := range rows {
				if math.IsNaN(x[j]) {
					x[j] = term.Scaling.Centre
				}
				values[row] = term.Scaling.standard(term.Scaling.transform(x[j]))
			}
			out = append(out, values)
		}
	}
	return out, nil
}

// Linear returns d without asinh.
func (d *Design) Linear() *Design {
	all := make([]int, len(d.Metrics))
	for m := range all {
		all[m] = m
	}
	return d.linear(all)
}

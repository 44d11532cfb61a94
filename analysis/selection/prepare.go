package selection

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"gonum.org/v1/gonum/floats"
)

const (
	leastRows   = 48    // six blocks of eight rows
	mostMissing = .1    // of a column that takes part
	mostBetween = .7    // share of a gauge's variance between blocks, above which its differences count
	outlying    = 20    // robust standard deviations
	ownRows     = 72    // of a job that has coefficients of its own: six blocks of twelve
	mostJoint   = 32    // jobs with coefficients of their own: the Gram matrices of each are in memory
	mostBlocks  = 24    // of whole units
	huge        = 1e150 // its square still is a number; a larger value counts as missing
)

// Scaling makes values of different units comparable. The value, or its difference, less Centre, divided by Scale, goes
// through asinh where rates are heavy-tailed, and is standardised by Mean and SD.
type Scaling struct {
	Difference bool    `json:"difference,omitempty"` // of the value and the one before: for gauges that drift
	Centre     float64 `json:"centre"`               // 0 where units are centred each by its own median
	Scale      float64 `json:"scale"`
	Asinh      bool    `json:"asinh,omitempty"`
	Mean       float64 `json:"mean"`
	SD         float64 `json:"sd"`
	Square     bool    `json:"square,omitempty"` // of the standardised value, standardised again by the two below
	MeanSquare float64 `json:"mean_square,omitempty"`
	SDSquare   float64 `json:"sd_square,omitempty"`
}

// Scaled applies s to a column of one unit, in order of time. Missing values stay NaN, and so does the first of
// differences.
func (s Scaling) Scaled(values []float64) []float64 {
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

// transform is the scale without standardising.
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

// Group is a metric of a design: its terms are chosen together.
type Group struct {
	Name   string
	Source string
	Terms  []int   // of Design.Terms, without a gap
	Filled float64 // largest share of missing values of a column: the median of the block replaces them
}

// Design is a table made ready: the rows that count, in blocks, and columns on a common scale.
type Design struct {
	Rows      []int   // of the table, block after block, in order of time inside a unit
	Bounds    []int   // block b has rows Bounds[b] to Bounds[b+1]-1 of Rows
	Unit      []int32 // of each of Rows
	Metrics   []Group // by name
	Terms     []Term  // by metric, statistic, then the square
	Responses []string
	Y         [][]float64 // of each response, in the order of Rows: mean 0 in each unit, variance 1
	Mean      [][]float64 // of each response in each unit, before that
	SD        []float64   // of each response, its means taken off
	Joint     bool        // each unit has coefficients of its own
	Asinh     bool
	Left      []Left // metrics that took no part, by name
	Out       Out
	Warnings  []string

	units  []int // first of Rows of each unit, then len(Rows)
	names  []string
	before []int // row of the table that precedes each of Rows by one step; -1: none
}

// centred reports whether each unit is centred by itself.
func (d *Design) centred() bool { return len(d.units) > 2 }

// Blocks cuts the rows of a table into contiguous stretches of time, at least as many as asked for where the rows
// suffice. With at least that many units, blocks are whole units.
func Blocks(t *Table, least int) [][]int {
	if t.Rows() == 0 || least < 1 {
		return nil
	}
	rows, _ := ordered(t)
	bounds := blockBounds(unitStarts(t, rows), least, false)
	out := make([][]int, len(bounds)-1)
	for b := range out {
		out[b] = rows[bounds[b]:bounds[b+1]]
	}
	return out
}

// ordered is the rows of t by unit and time, and how many of them followed a later one.
func ordered(t *Table) (rows []int, late int) {
	rows = make([]int, t.Rows())
	last := make(map[int32]int64)
	for i := range rows {
		rows[i] = i
		u := t.unit(i)
		if before, ok := last[u]; ok && t.Start[i] < before {
			late++
			continue
		}
		last[u] = t.Start[i]
	}
	slices.SortStableFunc(rows, func(a, b int) int {
		if c := int(t.unit(a)) - int(t.unit(b)); c != 0 {
			return c
		}
		return compareInt(t.Start[a], t.Start[b])
	})
	return rows, late
}

func compareInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (t *Table) unit(row int) int32 {
	if t.Unit == nil {
		return 0
	}
	return t.Unit[row]
}

// unitStarts is where each unit begins in rows that are in order, and where the last one ends.
func unitStarts(t *Table, rows []int) []int {
	starts := []int{0}
	for i := 1; i < len(rows); i++ {
		if t.unit(rows[i]) != t.unit(rows[i-1]) {
			starts = append(starts, i)
		}
	}
	return append(starts, len(rows))
}

// blockBounds cuts units into blocks. Twice as many as asked for, where the rows suffice, give the halves more choice.
func blockBounds(units []int, least int, joint bool) []int {
	n, count := units[len(units)-1], len(units)-1
	want := least
	if n >= 32*least {
		want = 2 * least
	}
	var bounds []int
	switch {
	case joint:
		want = least
	case count >= least:
		blocks := min(count, mostBlocks)
		for b := range blocks {
			bounds = append(bounds, units[(b*count+blocks-1)/blocks])
		}
		return append(bounds, n)
	default:
		want = (want + count - 1) / count
	}
	for u := range count {
		rows := units[u+1] - units[u]
		here := min(want, rows)
		for b := range here {
			bounds = append(bounds, units[u]+b*rows/here)
		}
	}
	return append(bounds, n)
}

// Prepare makes a table ready. Its columns are on the scale of asinh.
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

func (t *Table) unitName(row int) string {
	if u := int(t.unit(row)); u < len(t.Units) {
		return t.Units[u]
	}
	return ""
}

// String names the reasons for which rows are out.
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

// check finds a table whose slices do not fit each other, or whose names cannot be written to a list.
func (t *Table) check() error {
	n := t.Rows()
	if n == 0 {
		return errors.New("the table has no rows: name an input with observations")
	}
	if len(t.Metrics) == 0 {
		return errors.New("the table has no metrics: name an input with a column for each metric")
	}
	if t.Unit != nil && len(t.Unit) != n {
		return fmt.Errorf("the table has units of %d rows and times of %d", len(t.Unit), n)
	}
	for i, u := range t.Unit {
		if u < 0 || int(u) >= len(t.Units) {
			return fmt.Errorf("row %d is of unit %d, and the table has %d units", i, u, len(t.Units))
		}
	}
	seen := make(map[string]bool, len(t.Metrics))
	for _, m := range t.Metrics {
		if err := checkName("metric", m.Name, seen); err != nil {
			return err
		}
		if len(m.Columns) == 0 {
			return fmt.Errorf("metric %q has no column", m.Name)
		}
		statistics := make(map[string]bool)
		for _, c := range m.Columns {
			if statistics[c.Statistic] {
				return fmt.Errorf("metric %q has two columns %q", m.Name, c.Statistic)
			}
			statistics[c.Statistic] = true
			if len(c.Values) != n {
				return fmt.Errorf("metric %q has %d values for %d rows", m.Name, len(c.Values), n)
			}
		}
	}
	clear(seen)
	for _, r := range t.Responses {
		if err := checkName("response", r.Name, seen); err != nil {
			return err
		}
		if len(r.Values) != n {
			return fmt.Errorf("response %q has %d values for %d rows", r.Name, len(r.Values), n)
		}
	}
	return nil
}

func checkName(what, name string, seen map[string]bool) error {
	switch {
	case name == "":
		return fmt.Errorf("a %s has no name: give each column a heading", what)
	case !utf8.ValidString(name):
		return fmt.Errorf("the name of %s %q is not UTF-8: convert the input, for example with iconv", what, name)
	case seen[name]:
		return fmt.Errorf("two %ss are named %q: rename one", what, name)
	}
	seen[name] = true
	return nil
}

// step is the usual distance of two rows of a unit in time.
func (d *Design) step(t *Table) int64 { return usualStep(t, d.Rows) }

func usualStep(t *Table, rows []int) int64 {
	var steps []int64
	for i := 1; i < len(rows); i++ {
		if t.unit(rows[i]) == t.unit(rows[i-1]) {
			steps = append(steps, t.Start[rows[i]]-t.Start[rows[i-1]])
		}
	}
	if len(steps) == 0 {
		return 0
	}
	slices.Sort(steps)
	return steps[len(steps)/2]
}

// withoutTorn leaves out rows that follow another too soon: one of the two readings was not at its boundary, and rates
// over so short a time are wild. Both readings within a tenth of the step leave at least .8 steps between them. Where
// more than a twentieth of the rows are so, the times are irregular by design, and only doubled times are out.
func (d *Design) withoutTorn(t *Table, rows []int) []int {
	step := usualStep(t, rows)
	torn := func(limit int64) (kept []int) {
		for i, r := range rows {
			if i > 0 && t.unit(r) == t.unit(rows[i-1]) && t.Start[r]-t.Start[rows[i-1]] < limit {
				continue
			}
			kept = append(kept, r)
		}
		return kept
	}
	kept := torn(max(1, step*8/10))
	if (len(rows)-len(kept))*20 > len(rows) && step > 0 {
		kept = torn(1)
		d.Warnings = append(d.Warnings, "the rows are at irregular times: torn readings cannot be told from others")
	}
	if step == 0 { // no times at all: every row counts
		kept = rows
	}
	d.Out.Torn = len(rows) - len(kept)
	return kept
}

// withResponse leaves out rows that lack a response or have a wild one.
func (d *Design) withResponse(t *Table, rows []int) ([]int, error) {
	for _, r := range t.Responses {
		rows = keepRows(rows, &d.Out.NoResponse, func(row int) bool { return present(r.Values[row]) })
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no row has a value of every response (%s): name responses that were measured together",
			strings.Join(d.Responses, ", "))
	}
	for _, r := range t.Responses {
		starts := unitStarts(t, rows)
		wild := make(map[int]bool)
		for u := range len(starts) - 1 {
			here := rows[starts[u]:starts[u+1]]
			values := make([]float64, len(here))
			for i, row := range here {
				values[i] = r.Values[row]
			}
			centre, scale, _ := robust(values)
			for _, row := range here {
				if scale > 0 && math.Abs(r.Values[row]-centre) > outlying*scale {
					wild[row] = true
				}
			}
		}
		rows = keepRows(rows, &d.Out.Outlying, func(row int) bool { return !wild[row] })
	}
	return rows, nil
}

func keepRows(rows []int, out *int, good func(int) bool) []int {
	kept := make([]int, 0, len(rows))
	for _, r := range rows {
		if good(r) {
			kept = append(kept, r)
		}
	}
	*out += len(rows) - len(kept)
	return kept
}

func present(v float64) bool { return math.Abs(v) <= huge } // false for NaN

// robust is median and robust standard deviation of values, which it sorts; sd is the plain one where P90 is P10.
// values have no NaN. (P90 − P10)/2.56 is the standard deviation of a normal distribution.
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

// chooseUnits decides whether each job has coefficients of its own: at least two have the rows for that. Shorter ones
// are out then. Otherwise all rows share coefficients.
func (d *Design) chooseUnits(t *Table, rows []int) []int {
	if len(t.Responses) == 0 || len(rows) == 0 {
		return rows
	}
	starts := unitStarts(t, rows)
	var long []int
	inLong := 0
	for u := range len(starts) - 1 {
		if n := starts[u+1] - starts[u]; n >= ownRows && varies(t, rows[starts[u]:starts[u+1]]) {
			long = append(long, u)
			inLong += n
		}
	}
	if len(long) < 2 || 2*inLong < len(rows) {
		return rows
	}
	d.Joint = true
	if len(long) > mostJoint {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d of %d jobs are used: those with the most rows", mostJoint, len(long)))
		slices.SortStableFunc(long, func(a, b int) int {
			return (starts[b+1] - starts[b]) - (starts[a+1] - starts[a])
		})
		long = long[:mostJoint]
		slices.Sort(long)
	}
	var kept []int
	for _, u := range long {
		kept = append(kept, rows[starts[u]:starts[u+1]]...)
	}
	d.Out.ShortUnit = len(rows) - len(kept)
	return kept
}

// varies reports whether every response varies over rows.
func varies(t *Table, rows []int) bool {
	for _, r := range t.Responses {
		low, high := math.Inf(1), math.Inf(-1)
		for _, row := range rows {
			low, high = min(low, r.Values[row]), max(high, r.Values[row])
		}
		if low == high {
			return false
		}
	}
	return true
}

// preceding is the row one step before each row, for differences; -1 after a gap and at the start of a unit.
func preceding(t *Table, rows []int, step int64) []int {
	before := make([]int, len(rows))
	for i, r := range rows {
		before[i] = -1
		if i > 0 && t.unit(r) == t.unit(rows[i-1]) && 2*(t.Start[r]-t.Start[rows[i-1]]) <= 3*step {
			before[i] = rows[i-1]
		}
	}
	return before
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
			return fmt.Errorf("response %q is constant (%g) over %d rows: nothing can explain it; measure while it varies",
				r.Name, low, len(y))
		}
		means := d.centre(y)
		_, sd := meanSD(y)
		if !(sd > 0) {
			return fmt.Errorf("response %q is constant within each of %d jobs: measure while it varies", r.Name, len(d.names))
		}
		floats.Scale(1/sd, y)
		d.Mean, d.SD = append(d.Mean, means), append(d.SD, sd)
		d.Y = append(d.Y, y)
	}
	return nil
}

// centre takes the mean of each unit from values, and returns the means.
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

// takeMetric adds the columns of m that can be used, or m to those left out.
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

// fill computes the scaling and the values of a term, or says why it cannot take part.
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
	d.centreMedian(x, scratch) // first, or the levels of jobs would pass for drift
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

// presentOf copies the values of x that are there to scratch.
func presentOf(x, scratch []float64) []float64 {
	out := scratch[:0]
	for _, v := range x {
		if !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

// between is the share of the variance of x that lies between blocks.
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

// centreMedian takes the median of each unit from x where there are several: jobs have their own levels.
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

// scale puts x, which it takes over, on the scale of the term. The median of its block replaces a missing value.
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

// fillGaps replaces missing values by the median of the block; by 0, which is the median of all, in an empty block.
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

// squared is the square of a standardised term. A metric with two distinct values has none: it would be the same column.
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

// linear is d with the terms of some metrics without asinh. The other metrics are not in it.
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

// raw is the values of a term before its scale.
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

// Values are the columns of the named metrics of another table on the scale of the design, one value a row of t. The
// centre replaces missing values. So a model of training rows is scored on rows that it never saw.
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
		g, ok := slices.BinarySearchFunc(d.Metrics, name, func(g Group, n string) int { return strings.Compare(g.Name, n) })
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

// Linear is d without asinh.
func (d *Design) Linear() *Design {
	all := make([]int, len(d.Metrics))
	for m := range all {
		all[m] = m
	}
	return d.linear(all)
}

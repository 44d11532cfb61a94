package page

import (
	"fmt"
	"html/template"
	"math"

	"github.com/weirhpc/weir/schemas"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/view"
)

// fan is the figure of one metric over time.
type fan struct {
	Name, What, Result string
	Figure             template.HTML
	Hourly             bool
	Unit               string
	Rows               []fanRow
}

// fanRow is a line of the table below the figure.
type fanRow struct{ When, Nodes, Min, D1, D5, D9, Max, Mean string }

// The box of a fan: so narrow that its text can be read on a phone.
const (
	fanW, fanH                           = 400.0, 168.0
	fanLeft, fanRight, fanTop, fanBottom = 40.0, 328.0, 22.0, 142.0
	fanTableRows                         = 24
)

func newFan(j *view.Job, m *view.Metric, id string) fan {
	bins := coarser(m.Bins, maxBins(len(j.Metrics)))
	f := fan{Name: m.Name, What: what(m), Result: result(m), Unit: m.Unit}
	f.Figure = drawFan(j, m, bins, id, f.Result)
	for _, b := range coarser(m.Bins, fanTableRows) {
		f.Hourly = f.Hourly || b.Hourly
		if b.Measured == 0 {
			continue
		}
		median := value(m, b.Low[5])
		if high := value(m, b.High[5]); high != median {
			median += " to " + high
		}
		f.Rows = append(f.Rows, fanRow{
			when(j, b.StartMs), fmt.Sprintf("%d/%d", b.Reported, b.Expected),
			value(m, b.Low[0]), value(m, b.Low[1]), median, value(m, b.High[9]), value(m, b.High[10]), value(m, b.Mean),
		})
	}
	return f
}

// maxBins keeps a page of many metrics small.
func maxBins(metrics int) int {
	if metrics > 22 {
		return 120
	}
	return 240
}

// what describes the metric: its title, the part of a node that each value belongs to, and the number of nodes if some
// lack the metric.
func what(m *view.Metric) string {
	title := ""
	if t := view.TextOf(m.Name).Title; t != m.Name {
		title = t + ", "
	}
	per := "per node"
	switch m.Scope {
	case schemas.ScopeGPU:
		per = "per GPU"
	case schemas.ScopeSocket:
		per = "per socket"
	case schemas.ScopeCore:
		per = "per core"
	}
	if with, of, few := m.Total.Nodes.Few(); few {
		per += fmt.Sprintf(", sampled: %d of %d nodes", with, of)
	}
	return title + per
}

// result states the finding of the figure in one sentence. It names the side on which values lie far from the median.
func result(m *view.Metric) string {
	t := &m.Total
	if !t.Known || t.Count == 0 {
		return "No totals are known."
	}
	d1, d5, d9 := value(m, t.D[1]), value(m, t.D[5]), value(m, t.D[9])
	below, above := t.D[5]-t.D[1], t.D[9]-t.D[5]
	var text string
	switch {
	case t.D[0] == t.D[10]:
		text = fmt.Sprintf("Always %s", d5)
	case d1 == d9:
		text = fmt.Sprintf("8 of 10 values are %s", d5)
	case below+above <= 0.1*math.Abs(t.D[5]):
		text = fmt.Sprintf("Even: 8 of 10 values from %s to %s", d1, d9)
	case below > 3*above:
		text = fmt.Sprintf("A tenth lies below %s, the median is %s", d1, d5)
	case above > 3*below:
		text = fmt.Sprintf("A tenth lies above %s, the median is %s", d9, d5)
	default:
		text = fmt.Sprintf("Median %s; 8 of 10 values from %s to %s", d5, d1, d9)
	}
	if low, least := t.D[1]-t.D[0], value(m, t.D[0]); low > 3*(below+above) && least != d1 {
		text += fmt.Sprintf("; the least is %s", least)
	}
	return text + trend(m) + "."
}

// trend compares the means of the first and the last quarter of the job.
func trend(m *view.Metric) string {
	n := len(m.Bins)
	if n < 8 {
		return ""
	}
	first, last := meanOf(m.Bins[:n/4]), meanOf(m.Bins[n-n/4:])
	size := max(math.Abs(first), math.Abs(last))
	if !(math.Abs(last-first) > 0.25*size) || !(math.Abs(last-first) > 0.1*(m.Total.D[9]-m.Total.D[1])) {
		return ""
	}
	verb := "rises"
	if last < first {
		verb = "falls"
	}
	return fmt.Sprintf("; its mean %s from %s to %s", verb, value(m, first), value(m, last))
}

func meanOf(bins []view.Bin) float64 {
	sum, n := 0.0, 0.0
	for i := range bins {
		if b := &bins[i]; b.Measured > 0 && !math.IsNaN(b.Mean) {
			sum, n = sum+b.Mean*float64(b.Count), n+float64(b.Count)
		}
	}
	return sum / n
}

// columns are the edges of bins on the axis of time. A span without a bin is a column of NaN, which interrupts the
// bands.
type columns struct {
	xs   []float64
	bins []*view.Bin // nil: no data
}

func columnsOf(bins []view.Bin, x chart.Scale) columns {
	var c columns
	for i := range bins {
		b := &bins[i]
		if i > 0 && b.StartMs > bins[i-1].EndMs {
			c.xs, c.bins = append(c.xs, x.At(float64(bins[i-1].EndMs))), append(c.bins, nil)
		}
		c.xs, c.bins = append(c.xs, x.At(float64(b.StartMs))), append(c.bins, b)
	}
	if n := len(bins); n > 0 {
		c.xs = append(c.xs, x.At(float64(bins[n-1].EndMs)))
	}
	return c
}

// at returns the position of a value of each column.
func (c *columns) at(y chart.Scale, of func(*view.Bin) float64) []float64 {
	out := make([]float64, len(c.bins))
	for i, b := range c.bins {
		out[i] = math.NaN()
		if b != nil && b.Measured > 0 {
			out[i] = y.At(of(b))
		}
	}
	return out
}

func drawFan(j *view.Job, m *view.Metric, bins []view.Bin, id, result string) template.HTML {
	lo, hi, beyond := fanRange(m, bins)
	x := timeOf(j, fanLeft, fanRight)
	by, unit := unitFor(m.Name, m.Unit, hi)
	y := chart.Linear(lo, hi, fanBottom, fanTop).As(func(v float64) string { return digits(v / by) })
	f := chart.Figure{
		ID: id, Title: m.Name + " over time", W: fanW, H: fanH,
		Desc: result + " The bands hold all values, 8 of 10 and 4 of 10 at every instant; the line is the median.",
	}
	c := columnsOf(bins, x)
	f.Axes(x, y, "", shorten(unit, 20))
	for i, k := range []int{0, 1, 3, 5} {
		class := []string{"fan0", "fan1", "fan2", "mid"}[i]
		f.Band(c.xs, c.at(y, func(b *view.Bin) float64 { return b.Low[k] }),
			c.at(y, func(b *view.Bin) float64 { return b.High[10-k] }), class)
	}
	c.missing(&f)
	if beyond != "" {
		f.Text(fanRight, fanTop-8, "note end", beyond)
	}
	labels(&f, m, y, by)
	return f.SVG()
}

// missing hatches spans without values, and underlines intervals with silent nodes by marks wide enough to be seen.
func (c *columns) missing(f *chart.Figure) {
	for i := 0; i < len(c.bins); i++ {
		kind := silence(c.bins[i])
		end := i
		for end < len(c.bins) && silence(c.bins[end]) == kind {
			end++
		}
		switch kind {
		case all:
			f.Hatch(c.xs[i], c.xs[end], fanTop, fanBottom)
		case some:
			f.Hatch(c.xs[i], max(c.xs[end], c.xs[i]+6), fanBottom-8, fanBottom)
		}
		i = end - 1
	}
}

type silent int

const (
	none silent = iota
	some
	all
)

func silence(b *view.Bin) silent {
	switch {
	case b == nil || b.Measured == 0:
		return all
	case b.Reported < b.Expected || b.Complete < b.Intervals:
		return some
	}
	return none
}

// fanRange returns 0 to 100 % for shares, and otherwise the range of the values. Extreme values that would flatten the
// rest are cut off, and beyond is a note about them.
func fanRange(m *view.Metric, bins []view.Bin) (lo, hi float64, beyond string) {
	most, d9 := math.Inf(-1), math.Inf(-1)
	for i := range bins {
		if b := &bins[i]; b.Measured > 0 {
			lo, most, d9 = min(lo, b.Low[0]), max(most, b.High[10]), max(d9, b.High[9])
		}
	}
	switch {
	case math.IsInf(most, 0):
		return 0, 1, ""
	case share(m.Name, m.Unit) && lo >= 0 && most <= 1 && most > 0.2:
		return 0, 1, ""
	case d9 > 0 && most > 3*d9:
		return lo, 1.5 * d9, "largest " + value(m, most)
	}
	return lo, most + 0.04*(most-lo), ""
}

// labels writes the deciles of the whole job beside the figure, at their heights, and without overlaps.
func labels(f *chart.Figure, m *view.Metric, y chart.Scale, by float64) {
	t := &m.Total
	if !t.Known || t.Count == 0 {
		return
	}
	const apart = 13
	at := [3]float64{y.At(t.D[9]), y.At(t.D[5]), y.At(t.D[1])}
	at[0], at[2] = min(at[0], at[1]-apart), max(at[2], at[1]+apart)
	if over := fanTop + 4 - at[0]; over > 0 {
		at[0], at[1] = at[0]+over, max(at[1], at[0]+over+apart)
		at[2] = max(at[2], at[1]+apart)
	}
	if under := at[2] - fanBottom; under > 0 {
		at[2], at[1] = fanBottom, min(at[1], fanBottom-apart)
		at[0] = min(at[0], at[1]-apart)
	}
	for i, k := range []int{9, 5, 1} {
		class := "tick"
		if k == 5 {
			class = "strong"
		}
		text := digits(t.D[k] / by)
		if v := math.Abs(t.D[k] / by); v > 0 && v < 0.001 {
			text = "≈ 0"
		}
		f.Text(fanRight+6, at[i]+4, class, fmt.Sprintf("d%d %s", k, text))
	}
}

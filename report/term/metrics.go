package term

import (
	"fmt"
	"strings"

	"github.com/weirhpc/weir/report/view"
)

// columnsOfMetrics are the numbers of a metric over the whole life, by the width of the terminal.
var (
	fewNumbers = []string{"d1", "d5", "d9"}
	allNumbers = []string{"min", "d1", "d5", "d9", "max", "mean"}
)

// numberOf returns a number of a total by the head of its column.
func numberOf(t *view.Total, head string) float64 {
	switch head {
	case "min":
		return t.D[0]
	case "max":
		return t.D[10]
	case "mean":
		return t.Mean
	case "d1":
		return t.D[1]
	case "d5":
		return t.D[5]
	}
	return t.D[9]
}

// metrics writes a line for each metric: numbers of the whole life, the band of its deciles, the median over time. With
// bounds set, a metric that is not exact gets two more lines.
func (t *text) metrics(j *view.Job, bounds bool) {
	t.line()
	if len(j.Metrics) == 0 {
		t.line("No metric has a value.")
		return
	}
	m := t.layout(j, bounds)
	t.metric(m, metricRow{name: "metric", numbers: m.heads, low: "low", high: "high"}, t.legend(m.band), over(m.spark))
	for _, r := range m.rows {
		band, spark := "", ""
		if r.m != nil && m.spark > 0 {
			share := view.TextOf(r.m.Name).Percent
			low, high := scale(r.m, share)
			band = t.band(&r.m.Total.D, low, high, m.band)
			spark = t.spark(columns(j, r.m, m.spark), share)
		}
		if width(r.name) > m.named {
			t.line(r.name)
			r.name = ""
		}
		t.metric(m, r, band, spark)
	}
	var zero []string
	for i := range j.Metrics {
		if isZero(&j.Metrics[i]) {
			zero = append(zero, t.clean(j.Metrics[i].Name, 64))
		}
	}
	if len(zero) > 0 {
		t.hanging("Always 0: ", 10, 2, strings.Join(zero, ", ")+".")
	}
	t.few(j)
	from, until := j.Drawn()
	switch {
	case bounds:
		t.line("Time runs from the start of each job.")
	case from < until && (from > j.FirstMs || until < j.UntilMs):
		t.hanging("", 0, 2, "The median is shown from "+moment(from)+" to "+hour(until, from)+
			". The numbers are those of the whole job.")
	}
}

// few names the metrics that only some nodes measured, such as metrics of canaries.
func (t *text) few(j *view.Job) {
	named := map[string][]string{} // by their share of the nodes
	var shares []string
	for i := range j.Metrics {
		m := &j.Metrics[i]
		if with, of, few := m.Total.Nodes.Few(); few {
			share := fmt.Sprintf("Sampled: %d of %d nodes: ", with, of)
			if named[share] == nil {
				shares = append(shares, share)
			}
			named[share] = append(named[share], t.clean(m.Name, 64))
		}
	}
	for _, share := range shares {
		t.hanging(share, width(share), 2, some(named[share])+".")
	}
}

// isZero reports whether all values of a metric are 0. Such metrics share a line.
func isZero(m *view.Metric) bool {
	return m.Total.Known && m.Total.Count > 0 && m.Total.D[0] == 0 && m.Total.D[10] == 0
}

// metricTable contains the widths of the columns of the table of metrics. Columns of width 0 are left out.
type metricTable struct {
	picture
	rows         []metricRow
	heads        []string
	gap          string
	named, nodes int
	numbers      []int
}

// layout chooses the columns that fit the terminal. Pictures take precedence over the names of nodes and over the
// extremes.
func (t *text) layout(j *view.Job, bounds bool) *metricTable {
	const drawn = 20 // least number of cells for the pictures
	if t.cells() >= wide {
		if len(j.Nodes) > 1 && !j.Several() {
			if m := t.tableOf(j, allNumbers, true, bounds); m.band+m.spark >= drawn {
				return m
			}
		}
		if m := t.tableOf(j, allNumbers, false, bounds); m.band+m.spark >= drawn {
			return m
		}
	}
	return t.tableOf(j, fewNumbers, false, bounds)
}

// tableOf lays out some columns.
func (t *text) tableOf(j *view.Job, heads []string, nodes, bounds bool) *metricTable {
	m := &metricTable{heads: heads, gap: "  ", rows: t.metricRows(j, heads, bounds)}
	if t.cells() < narrow {
		m.gap = " "
	}
	m.named = t.nameCells(m.rows)
	used := m.named
	for k, head := range heads {
		cells := max(width(head), 8)
		for _, r := range m.rows {
			cells = max(cells, width(r.numbers[k]))
		}
		m.numbers = append(m.numbers, cells)
		used += len(m.gap) + cells
	}
	if nodes {
		m.nodes = len("high")
		for _, r := range m.rows {
			m.nodes = max(m.nodes, width(r.low), width(r.high))
		}
		used += 2 * (len(m.gap) + m.nodes)
	}
	if t.cells() >= narrow {
		m.picture = room(t.cells() - used)
	}
	return m
}

// metric writes a line of the table.
func (t *text) metric(m *metricTable, r metricRow, band, spark string) {
	parts := []string{left(r.name, m.named)}
	for k, cells := range m.numbers {
		parts = append(parts, m.gap, right(r.numbers[k], cells))
	}
	if m.band > 0 {
		parts = append(parts, m.gap, left(band, m.band))
	}
	if m.spark > 0 {
		parts = append(parts, m.gap, left(spark, m.spark))
	}
	if m.nodes > 0 {
		parts = append(parts, m.gap, right(r.low, m.nodes), m.gap, right(r.high, m.nodes))
	}
	t.line(parts...)
}

// metricRow is a line of the table of metrics.
type metricRow struct {
	name      string
	numbers   []string
	low, high string
	m         *view.Metric // nil for a line of bounds
}

func (t *text) metricRows(j *view.Job, heads []string, bounds bool) (rows []metricRow) {
	for i := range j.Metrics {
		m := &j.Metrics[i]
		if isZero(m) {
			continue
		}
		r := metricRow{
			name: t.clean(m.Name, 64), low: t.clean(m.Total.LowNode, 16), high: t.clean(m.Total.HighNode, 16), m: m,
		}
		low, high := metricRow{name: "  at least"}, metricRow{name: "  at most"}
		for _, head := range heads {
			show := func(of *view.Total) string {
				if of != &m.Total && head == "mean" {
					return "" // without bounds
				}
				return t.value(numberOf(of, head), m.Unit, view.TextOf(m.Name).Percent)
			}
			r.numbers = append(r.numbers, show(&m.Total))
			low.numbers = append(low.numbers, show(&view.Total{D: m.Total.Lo}))
			high.numbers = append(high.numbers, show(&view.Total{D: m.Total.Hi}))
		}
		rows = append(rows, r)
		if bounds && m.Total.Known && !m.Total.Exact && (low.differs(r) || high.differs(r)) {
			rows = append(rows, low, high)
		}
	}
	return rows
}

// differs reports whether a line of bounds shows anything but the line of its metric.
func (r metricRow) differs(of metricRow) bool {
	for k, number := range r.numbers {
		if number != "" && number != of.numbers[k] {
			return true
		}
	}
	return false
}

// nameCells returns the width of the column of names. A longer name takes a line of its own.
func (t *text) nameCells(rows []metricRow) int {
	named := 9
	most := 22
	if t.cells() < narrow {
		most = 12
	}
	for _, r := range rows {
		if w := width(r.name); w <= most {
			named = max(named, w)
		}
	}
	return named
}

// picture is the room for a band and for a sparkline, in cells; 0: left out.
type picture struct{ band, spark int }

// room divides the rest of a line. A band or a sparkline of less than 8 cells would show nothing.
func room(left int) picture {
	left -= 4 // spaces before each
	switch {
	case left < 8:
		return picture{}
	case left < 16:
		return picture{spark: left}
	case left < 35:
		return picture{band: left / 2, spark: left - left/2}
	}
	return picture{band: min(left-16, 24), spark: 16}
}

// legend explains the marks of a band.
func (t *text) legend(cells int) string {
	text := "d0 - d10"
	switch {
	case cells >= 19:
		text = "d0··d1──d5──d9··d10"
	case cells >= 17:
		text = "d0·d1──d5──d9·d10"
	case cells >= 15:
		text = "d0·d1─d5─d9·d10"
	}
	if t.ASCII {
		text = strings.NewReplacer("·", plain.outer, "─", plain.inner).Replace(text)
	}
	return text
}

// over explains a sparkline.
func over(cells int) string {
	if cells < len("median over time") {
		return "median"
	}
	return "median over time"
}

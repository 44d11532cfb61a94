package page

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/weirhpc/weir/report/chart"
	"github.com/weirhpc/weir/report/view"
)

// nodeTable is the figure of nodes that are lowest or highest in a metric more often than by chance.
type nodeTable struct {
	Result string
	Figure template.HTML // empty: no such node
	Rows   []nodeRow
	More   int // nodes in the table that the figure leaves out
}

// nodeRow is one node in one metric.
type nodeRow struct {
	Node, Metric, Side, Share, Chance string
	share                             float64
	high                              bool
}

// byNode is the table with a line for each of the worst nodes, and one for the others.
type byNode struct {
	Result string
	Heads  []string
	Rows   [][]string
}

func newByNode(j *view.Job) (t byNode) {
	table := j.ByNode
	if table == nil {
		return t
	}
	if len(table.Lines) == 0 {
		t.Result = "No numbers by node: " + table.Why + "."
		return t
	}
	lines := table.Worst()
	t.Result = "The numbers are from " + table.Source + "."
	if n := int64(len(table.Lines)); len(lines) < len(table.Lines) {
		t.Result = fmt.Sprintf("The worst %d of %s. ", view.WorstNodes, count(n, "node")) + t.Result
	}
	t.Rows = make([][]string, len(lines))
	for i := range lines {
		name := lines[i].Node
		if n := lines[i].Nodes; n > 1 {
			name = count(int64(n), "other")
		}
		t.Rows[i] = []string{name}
	}
	for _, c := range view.NodeColumns {
		if !slices.ContainsFunc(lines, func(l view.NodeLine) bool { return !math.IsNaN(c.Of(&l)) }) {
			continue
		}
		t.Heads = append(t.Heads, c.Head)
		for i := range lines {
			t.Rows[i] = append(t.Rows[i], nodeValue(c.Unit, c.Of(&lines[i])))
		}
	}
	return t
}

func nodeValue(unit string, v float64) string {
	if unit == "1" {
		return percent(v)
	}
	return unitText("", unit, v)
}

const (
	unlikely  = 1e-6 // probability below which a share cannot be chance
	shownRows = 12
	tableRows = 200
)

func newNodeTable(j *view.Job) nodeTable {
	var t nodeTable
	n := len(j.Nodes)
	switch {
	case j.Several():
		t.Result = "Nodes are not compared: those of one job say nothing of another."
		return t
	case n == 0:
		t.Result = "Nodes are not compared: the page has no list of them."
		return t
	case n == 1:
		t.Result = "The job has one node."
		return t
	}
	for i := range j.Metrics {
		m := &j.Metrics[i]
		t.Rows = append(t.Rows, above(m, n, false)...)
		t.Rows = append(t.Rows, above(m, n, true)...)
	}
	slices.SortFunc(t.Rows, func(a, b nodeRow) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Metric, b.Metric))
	})
	if len(t.Rows) == 0 {
		t.Result = withoutWork(j) + fmt.Sprintf(
			"None of %d nodes is lowest or highest in a metric more often than chance.", n)
		return t
	}
	first := &t.Rows[0]
	t.Result = withoutWork(j) + fmt.Sprintf("%s is %s in %s in %s of the intervals; chance gives %s.",
		first.Node, first.Side, first.Metric, first.Share, first.Chance)
	t.draw()
	t.Rows = t.Rows[:min(len(t.Rows), tableRows)]
	return t
}

// idle is the share of busy cores, and of the time of GPUs, up to which a node has no work.
const idle = 0.01

// withoutWork names the nodes of a job that have no work while others have, or is empty. The table by node is sorted:
// these come first.
func withoutWork(j *view.Job) string {
	if j.ByNode == nil {
		return ""
	}
	var names []string
	known := 0
	for i := range j.ByNode.Lines {
		l := &j.ByNode.Lines[i]
		if math.IsNaN(l.Busy) {
			continue
		}
		if known++; l.Busy <= idle && !(l.GPU > idle) {
			names = append(names, l.Node)
		}
	}
	if len(names) == 0 || len(names) == known {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("%d of %s %s no work: %s. ", len(names), count(int64(known), "node"),
		plural(len(names), "has", "have"), list(names, 8))
}

// above returns the nodes that are lowest, or highest, in so many intervals that the probability of chance is below
// unlikely.
func above(m *view.Metric, nodes int, high bool) []nodeRow {
	side, counts, intervals := "lowest", map[string]int64{}, int64(0)
	if high {
		side = "highest"
	}
	for i := range m.Bins {
		b := &m.Bins[i]
		if b.Measured == 0 || tied(b, high) {
			continue
		}
		intervals += int64(b.Measured)
		of := b.Lows
		if high {
			of = b.Highs
		}
		for _, c := range of {
			counts[c.Node] += c.Count
		}
	}
	var rows []nodeRow
	for node, k := range counts {
		if tail(k, intervals, 1/float64(nodes)) < unlikely {
			share := float64(k) / float64(intervals)
			rows = append(rows, nodeRow{node, m.Name, side, percent(share), percent(1 / float64(nodes)), share, high})
		}
	}
	return rows
}

// tied reports whether the two most extreme values are equal. If they are, the named node is arbitrary. With few values
// the nearest deciles are the extreme itself, so a decile further away is compared.
func tied(b *view.Bin, high bool) bool {
	n := float64(b.Count) / float64(b.Measured)
	k := int(min(10, max(1, math.Ceil(20/n))))
	if high {
		return b.High[10] == b.High[10-k]
	}
	return b.Low[0] == b.Low[k]
}

// tail returns the probability of at least k successes in n trials, each with probability p. Above the mean the terms
// only fall, so that their sum converges soon. Below the mean the result is not small, and 1 is near enough.
func tail(k, n int64, p float64) float64 {
	if float64(k) <= float64(n)*p || k < 1 {
		return 1
	}
	if k > n {
		return 0
	}
	lgamma := func(v int64) float64 { l, _ := math.Lgamma(float64(v) + 1); return l }
	term := math.Exp(lgamma(n) - lgamma(k) - lgamma(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	sum := term
	for i := k; i < n && term > sum*1e-12; i++ {
		term *= float64(n-i) / float64(i+1) * p / (1 - p)
		sum += term
	}
	return sum
}

// draw makes a row of cells for each node and a column for each metric. A cell shows the more frequent of low and high.
func (t *nodeTable) draw() {
	var nodes, metrics []string
	cells := map[[2]string]*nodeRow{}
	for i := range t.Rows {
		r := &t.Rows[i]
		if !slices.Contains(nodes, r.Node) {
			if len(nodes) == shownRows {
				t.More++
				continue
			}
			nodes = append(nodes, r.Node)
		}
		if !slices.Contains(metrics, r.Metric) {
			metrics = append(metrics, r.Metric)
		}
		if at := [2]string{r.Node, r.Metric}; cells[at] == nil {
			cells[at] = r
		}
	}
	const left, top, rowH, width = 116.0, 110.0, 20.0, 400.0
	step := min(56, (width-left-74)/float64(len(metrics)))
	f := chart.Figure{
		ID: "nodes", W: width, H: top + rowH*float64(len(nodes)) + 4,
		Title: "Nodes that stand out, by metric", Desc: t.Result,
	}
	xs, ys := grid(left, step, len(metrics)), grid(top, rowH, len(nodes))
	f.Cells(xs, ys, func(i, row int) (class, title string) {
		r := cells[[2]string{nodes[row], metrics[i]}]
		switch {
		case r == nil:
			return "cell", nodes[row] + metrics[i] // a title of its own, since Cells joins neighbours with equal titles
		case r.high:
			return "high" + strength(r.share), r.Node + " is highest in " + r.Metric + " in " + r.Share
		}
		return "low" + strength(r.share), r.Node + " is lowest in " + r.Metric + " in " + r.Share
	})
	for row, node := range nodes {
		f.Text(left-6, ys[row]+rowH/2+4, "tick end", ending(node, 14))
		for i, metric := range metrics {
			if r := cells[[2]string{node, metric}]; r != nil {
				f.Text(xs[i]+step/2, ys[row]+rowH/2+4, "mid in"+strength(r.share), arrow(r, step))
			}
		}
	}
	for i, metric := range metrics {
		f.Text(xs[i]+step/2+3, top-6, "tick slant", shorten(metric, 15))
	}
	t.Figure = f.SVG()
}

// arrow returns the text of a cell: the direction, so that colour is never the only sign, and the share if there is
// room.
func arrow(r *nodeRow, room float64) string {
	text := "↓"
	if r.high {
		text = "↑"
	}
	if room >= 26 {
		text += fmt.Sprintf("%.0f", 100*r.share)
	}
	return text
}

func strength(share float64) string {
	if share < 0.5 {
		return "0"
	}
	return "1"
}

func grid(from, step float64, n int) []float64 {
	out := make([]float64, n+1)
	for i := range out {
		out[i] = from + step*float64(i)
	}
	return out
}

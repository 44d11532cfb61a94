package term

import (
	"io"
	"math"

	"github.com/weirhpc/weir/report/view"
)

// Nodes writes a line for each node of a job.
func Nodes(w io.Writer, j *view.Job, s Style) error {
	t := &text{Style: s}
	switch table := j.ByNode; {
	case table == nil:
		t.line("The nodes of the job are not known.")
	case len(table.Lines) == 0:
		t.noNodes(table)
	default:
		t.nodeGrid(table.Lines)
		t.nodeSource(table)
	}
	return t.print(w)
}

// byNode writes a line for each of the worst nodes, and one for the others.
func (t *text) byNode(j *view.Job) {
	table := j.ByNode
	if table == nil {
		return
	}
	t.line()
	if len(table.Lines) == 0 {
		t.noNodes(table)
		return
	}
	t.nodeGrid(table.Worst())
	t.nodeSource(table)
}

func (t *text) noNodes(table *view.NodeTable) {
	t.hanging("No numbers by node: ", 20, 2, t.clean(table.Why, 1000)+".")
}

func (t *text) nodeSource(table *view.NodeTable) {
	t.hanging("By node from ", 13, 2, t.clean(table.Source, 400)+".")
}

// nodeGrid writes the columns of which a number is known.
func (t *text) nodeGrid(lines []view.NodeLine) {
	all := []column{{head: "node", least: 12}}
	for i := range lines {
		name := t.clean(lines[i].Node, 64)
		if n := lines[i].Nodes; n > 1 {
			name = plural(int64(n), "other", "others")
		}
		all[0].cells = append(all[0].cells, name)
	}
	for _, c := range view.NodeColumns {
		next, known := column{head: c.Head, right: true, drop: c.Drop}, false
		for i := range lines {
			v := c.Of(&lines[i])
			known = known || !math.IsNaN(v)
			next.cells = append(next.cells, t.value(v, c.Unit, c.Unit == "1"))
		}
		if known {
			all = append(all, next)
		}
	}
	t.grid(all)
}

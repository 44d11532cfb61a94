package analysis

import (
	"math"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"

	"github.com/weirhpc/weir/report/view"
)

// tabled reports whether the table by node needs the rows of a metric.
func (l *loader) tabled(metric string) bool { return l.nodes != nil && l.inTable[metric] }

// beginNodes prepares the table by node for a job of so few nodes that its rows have the numbers of each.
func (l *loader) beginNodes() {
	if n := len(l.job.Nodes); n == 0 || n > view.FewNodes || l.pair != nil || isPseudo(l.key.JobID) {
		return
	}
	l.nodes, l.inTable = view.NewNodeSums(l.job.Nodes), map[string]bool{}
	for _, m := range view.NodeMetrics() {
		l.inTable[m] = true
	}
}

func isPseudo(job string) bool { return job == schemas.JobRest || job == schemas.JobSystem }

// nodeRow takes a row of the requested part for the table by node.
func (l *loader) nodeRow(r *schemas.Row, metric string) {
	if l.tabled(metric) && l.asked(r.IntervalStart) {
		l.nodes.Row(r)
	}
}

// nodeHour takes an hour of a job of one node.
func (l *loader) nodeHour(h *compact.Rollup) {
	if h.Metric == nil || h.Mean == nil || !l.tabled(*h.Metric) || !l.asked(h.Start) {
		return
	}
	largest := math.NaN()
	if h.D10 != nil {
		largest = *h.D10
	}
	l.nodes.Hour(*h.Metric, view.NodeSum{
		Count: h.Count, Intervals: h.IntervalsMeasured, Mean: *h.Mean, Most: largest,
	}, h.NodesExpectedSum)
}

// noNodes is what a report says if nothing has the numbers of each node.
const noNodes = "rows have them for jobs of up to three nodes alone"

// byNode sets the table by node.
func (l *loader) byNode() {
	j := l.job
	if len(j.Nodes) == 0 || l.pair != nil || isPseudo(j.JobID) {
		return
	}
	j.ByNode = &view.NodeTable{Why: noNodes}
	if l.nodes != nil {
		j.ByNode.Why = "no row of the job has them: three nodes need as many values each"
		if l.nodes.Intervals() > 0 {
			j.ByNode = l.nodes.Table(j.Type, "the job's rows")
		}
	}
}

package analysis

import (
	"context"
	"math"
	"time"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
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
const noNodes = "rows have them for jobs of up to three nodes, and `weir nodes` keeps them for larger ones"

// byNode sets the table by node: from the rows of the job, or from table nodes of the archive.
func (l *loader) byNode(ctx context.Context) error {
	j := l.job
	if len(j.Nodes) == 0 || l.pair != nil || isPseudo(j.JobID) {
		return nil
	}
	if l.nodes != nil && l.nodes.Intervals() > 0 {
		j.ByNode = l.nodes.Table(j.Type, "the job's rows")
		return nil
	}
	sums, err := l.nodeHours(ctx)
	switch {
	case err != nil:
		return err
	case sums.Intervals() == 0:
		j.ByNode = &view.NodeTable{Why: noNodes}
	default:
		j.ByNode = sums.Table(j.Type, "table nodes of the archive")
	}
	return nil
}

// nodeHours reads the hours of the requested part of the life. A part begins and ends with an hour.
func (l *loader) nodeHours(ctx context.Context) (*view.NodeSums, error) {
	j, sums, hour := l.job, view.NewNodeSums(l.job.Nodes), time.Hour.Milliseconds()
	from, to := j.FirstMs, j.UntilMs
	if !l.ask.From.IsZero() {
		from = max(from, l.ask.From.UnixMilli())
	}
	if !l.ask.To.IsZero() {
		to = min(to, l.ask.To.UnixMilli())
	}
	if l.ask.From.IsZero() && l.ask.To.IsZero() {
		sums.Expect("", j.Expected)
	}
	from, to = max(from, l.span.from), min(to, l.span.to)
	err := archive.EachNodeHour(ctx, l.cfg.Sink.Dir, archive.DateAt(from), archive.DateAt(to), l.key,
		func(r *sink.NodeHour) error {
			n := len(r.Nodes)
			whole := n == len(r.Intervals) && n == len(r.Counts) && n == len(r.Means) && n == len(r.Maxs)
			if !whole || r.Hour+hour <= from || r.Hour >= to || j.Cluster != "" && r.Cluster != j.Cluster {
				return nil
			}
			for i, node := range r.Nodes {
				sums.Add(node, r.Metric, view.NodeSum{
					Count: r.Counts[i], Intervals: int64(r.Intervals[i]), Mean: r.Means[i], Most: r.Maxs[i],
				})
			}
			return nil
		})
	return sums, err
}

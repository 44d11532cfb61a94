package analysis

import (
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"

	"github.com/weirhpc/weir/report/view"

	"github.com/weirhpc/weir/analysis/archive"
)

// add takes a row of an interval.
func (l *loader) add(r *schemas.Row) {
	if !archive.Sane(r) || !l.span.has(r.IntervalStart) {
		return
	}
	name := ""
	if r.Metric != nil {
		name = *r.Metric
	}
	if l.job.Cluster == "" {
		l.job.Cluster = r.Cluster
	}
	l.build.Row(r, l.shown[name])
	if l.pair != nil {
		l.pair.add(r, name)
		return
	}
	if c := r.Certified(); c != nil && l.shown[name] && !l.final && r.Count != nil {
		if s := summaryOf(*r.Count, c); s.Check() == nil {
			l.shares[name] = append(l.shares[name], s)
		}
	}
	l.watchRow(r, name)
}

// watchRow hands a row to the rules, if they look at its interval.
func (l *loader) watchRow(r *schemas.Row, metric string) {
	if l.watcher != nil && !l.unwatched && l.asked(r.IntervalStart) {
		l.watcher.add(r, metric)
	}
}

// asked reports whether an interval lies in the requested part of the life. Rules see only this part, since the rest of
// a long or final life is not read by the interval.
func (l *loader) asked(startMs int64) bool {
	return (l.ask.From.IsZero() || startMs >= l.ask.From.UnixMilli()) &&
		(l.ask.To.IsZero() || startMs < l.ask.To.UnixMilli())
}

func summaryOf(count int64, c *schemas.Certified) quantile.Summary {
	s := quantile.Summary{Count: count, Eps: c.Eps, Order: c.OrderStatistics}
	for _, k := range c.Knots {
		s.Knots = append(s.Knots, quantile.Knot(k))
	}
	for _, a := range c.Atoms {
		s.Atoms = append(s.Atoms, quantile.Atom(a))
	}
	return s
}

// addHour takes a rollup: for the picture of a long job, and its certified summary for the totals of any.
func (l *loader) addHour(h *compact.Rollup) {
	if !l.span.has(h.Start) {
		return
	}
	if h.Metric != nil && l.shown[*h.Metric] {
		if s, ok := h.Summary(); ok {
			l.shares[*h.Metric] = append(l.shares[*h.Metric], s)
		}
	}
	if !l.byHour(archive.DateAt(h.Hour)) {
		return
	}
	l.archived++
	if l.job.Cluster == "" {
		l.job.Cluster = h.Cluster
	}
	r := schemas.Row{
		IntervalStart: h.Hour, IntervalMs: h.End - h.Start, Metric: h.Metric, Unit: h.Unit, Scope: h.Scope,
		Count: &h.Count, Mean: h.Mean, RankError: h.RankError, Lo: h.Lo, Hi: h.Hi,
		D0: h.D0, D1: h.D1, D2: h.D2, D3: h.D3, D4: h.D4, D5: h.D5, D6: h.D6, D7: h.D7, D8: h.D8, D9: h.D9, D10: h.D10,
	}
	l.build.Hour(&r, view.Sums{
		StartMs: h.Start, EndMs: h.End, Intervals: h.Intervals, Measured: h.IntervalsMeasured,
		Expected: h.NodesExpectedSum, Reported: h.NodesReportedSum, MeasuredMs: h.MeasuredMs,
		Lows: nodeCounts(h.LowNodes, h.LowCounts), Highs: nodeCounts(h.HighNodes, h.HighCounts),
	}, h.Metric != nil && l.shown[*h.Metric])
}

func nodeCounts(nodes []string, counts []int64) (all []view.NodeCount) {
	for i := range min(len(nodes), len(counts)) {
		all = append(all, view.NodeCount{Node: nodes[i], Count: counts[i]})
	}
	return all
}

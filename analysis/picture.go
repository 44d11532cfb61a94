package analysis

import (
	"cmp"
	"slices"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/compact"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/analysis/archive"
)

// show sets the shown metrics, out of the names of all metrics of the job.
func (l *loader) show(names []string) {
	l.shown, l.width = map[string]bool{}, 0
	for _, n := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if l.reads[n] {
			l.width++
		}
	}
	switch {
	case slices.Contains(l.ask.Metrics, AllMetrics):
	case len(l.ask.Metrics) > 0:
		names = l.ask.Metrics
	default:
		names = view.Shown(names)
	}
	for _, n := range names {
		l.shown[n] = true
	}
}

// draw makes the builder. The bins begin with the picture, and are as narrow as the number of bins allows.
func (l *loader) draw(firstMs, lastMs, intervalMs int64) {
	beganMs := firstMs
	lastMs = max(lastMs, min(l.end.UnixMilli(), lastMs+10*intervalMs)) // the topic goes on behind the archive
	var fromMs, toMs int64
	if !l.ask.From.IsZero() {
		fromMs = l.ask.From.UnixMilli()
		firstMs = max(firstMs, fromMs)
	}
	if !l.ask.To.IsZero() {
		toMs = l.ask.To.UnixMilli()
		lastMs = min(lastMs, toMs)
	}
	if l.hourly {
		firstMs -= firstMs % intervalMs
	}
	bins := int64(cmp.Or(l.ask.MaxBins, view.MaxBins))
	n := (lastMs - firstMs + intervalMs - 1) / max(1, intervalMs)
	widthMs := max(1, intervalMs) * max(1, (n+bins-1)/bins)
	l.build = view.NewBuilder(firstMs, widthMs, int(bins))
	l.build.Between(fromMs, toMs)
	if len(l.set.Rules) > 0 && l.pair == nil {
		l.watcher = &watcher{
			job: func() rules.Job { return l.ruleJob(beganMs) }, possible: l.cfg.Find.Possible, set: l.set,
			reads: l.reads, width: l.width, severities: newSeverityMap(l.set, firstMs, widthMs),
			of: map[int64]*rules.Interval{},
		}
	}
}

// ruleJob returns the job for the rules. A job without a start began with its first interval.
func (l *loader) ruleJob(beganMs int64) rules.Job {
	j := rules.JobOf(l.job.Cluster, &l.job.Job, l.types)
	if j.StartMs <= 0 {
		j.StartMs = beganMs
	}
	return j
}

// add takes a row of an interval of the life, wherever it is from.
func (l *loader) add(r *schemas.Row, metric string) {
	if l.job.Cluster == "" {
		l.job.Cluster = r.Cluster
	}
	l.build.Row(r, l.shown[metric])
	if l.pair != nil {
		l.pair.add(r, metric)
		return
	}
	if c := r.Certified(); c != nil && l.shown[metric] && !l.final && r.Count != nil {
		if s := summaryOf(*r.Count, c); s.Check() == nil {
			l.shares[metric] = append(l.shares[metric], s)
		}
	}
	l.nodeRow(r, metric)
	l.watchRow(r, metric)
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
	if !l.span.has(h.Start) || !l.viewer.All && h.End > l.span.to { // a namesake's intervals may be among its sums
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
	l.nodeHour(h)
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

package analysis

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/totals"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"
)

// findTotals reads the totals of the life if it ended.
func (l *loader) findTotals(ctx context.Context) (err error) {
	if l.job.Running || l.job.End == nil {
		return nil
	}
	l.totals, err = l.archivedTotals(ctx, l.chosen)
	l.final = len(l.totals) > 0 && !slices.ContainsFunc(l.totals, func(t totals.Total) bool { return !t.Final })
	return err
}

// hourBudget bounds the certified summary of a metric of a job, like the summary of an hour.
var hourBudget = quantile.Budget{Bytes: 512, Ranks: 2048}

// merge sets the totals of the metrics. Totals of a final life come from the archive. Otherwise the summaries of hours
// and intervals are merged.
func (l *loader) merge() {
	if l.partial != "" && !l.final {
		clear(l.shares) // a partial read gives no total of the job
	}
	of := map[string]*totals.Total{}
	for i := range l.totals {
		if t := &l.totals[i]; t.Metric != nil && l.final {
			of[*t.Metric] = t
		}
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range l.job.Metrics {
		m := &l.job.Metrics[i]
		group.Go(func() error {
			l.setTotal(m, of[m.Name])
			return nil
		})
	}
	_ = group.Wait() // no total fails
}

// setTotal sets the total of a metric: the archive's if the life has one with the same unit and scope.
func (l *loader) setTotal(m *view.Metric, t *totals.Total) {
	if t != nil && t.Unit != nil && *t.Unit == m.Unit && t.Scope != nil && *t.Scope == m.Scope {
		takeTotal(&m.Total, t)
	} else {
		m.Total.SetMerged(l.shares[m.Name])
	}
	var room quantile.Joiner
	if s, ok := room.Recompress(l.shares[m.Name], hourBudget); ok && s.Count == m.Total.Count {
		m.Total.Certified = &s
	}
}

// whole extends a final life's times and counts to the whole life by its totals, since only the requested part was
// read.
func (l *loader) whole() {
	if !l.final {
		return
	}
	j := l.job
	for i := range l.totals {
		t := &l.totals[i]
		j.FirstMs, j.UntilMs = min(j.FirstMs, t.Start), max(j.UntilMs, t.End)
		if t.Intervals > j.Intervals { // a metric may be missing in some
			j.Intervals, j.Expected, j.Reported = t.Intervals, t.NodesExpectedSum, t.NodesReportedSum
		}
	}
}

// takeTotal takes over a total of the archive.
func takeTotal(to *view.Total, t *totals.Total) {
	value := func(p *float64) float64 {
		if p == nil {
			return math.NaN()
		}
		return *p
	}
	to.Count, to.Mean, to.RankError = t.Count, value(t.Mean), value(t.RankError)
	to.Known = t.RankError != nil
	to.Of = view.Span{
		StartMs: t.Start, EndMs: t.End, Intervals: t.Intervals, Measured: t.IntervalsMeasured, MeasuredS: t.MeasuredS,
		Expected: t.NodesExpectedSum, Reported: t.NodesReportedSum,
	}
	to.Invalid, to.CertifiedCount = &t.Invalid, &t.CertifiedCount
	to.Stddev, to.NodeStddevRMS = t.Stddev, t.NodeStddevRMS
	for k, p := range t.Deciles() {
		to.D[k] = value(p)
	}
	to.Lo, to.Hi = to.D, to.D
	if len(t.Lo) == 11 && len(t.Hi) == 11 {
		to.Lo, to.Hi = [11]float64(t.Lo), [11]float64(t.Hi)
	}
	to.Exact = to.Known && len(t.Lo) == 0
	text := func(p *string) string {
		if p == nil {
			return ""
		}
		return *p
	}
	to.LowNode, to.HighNode = text(t.LowNode), text(t.HighNode)
	to.LowShare, to.HighShare = 0, 0
	if t.LowNodeShare != nil && t.HighNodeShare != nil {
		to.LowShare, to.HighShare = *t.LowNodeShare, *t.HighNodeShare
	}
}

// judge sets the findings: the recorded ones, or if there are none, the findings of the rules now.
func (l *loader) judge(ctx context.Context) error {
	j := l.job
	recorded, err := l.findings(ctx, l.chosen)
	if err != nil {
		return err
	}
	j.Findings = worstFirst(recorded)
	if isPseudo(j.JobID) || l.watcher == nil {
		return nil
	}
	now := l.watcher.end(j.Running)
	j.Map = l.watcher.severities.done(l.build.Axis())
	l.notEvaluated(recorded)
	if len(recorded) > 0 || l.unwatched {
		return nil
	}
	if j.Part = l.partial != "" || l.isPart(); l.partial != "" {
		return nil
	}
	j.From += ", findings evaluated now"
	switch came := l.watcher.came; {
	case j.Part:
		now = slices.DeleteFunc(now, func(f schemas.Finding) bool { return l.wholeLife(f.Rule) })
		j.From += " of the part that is shown"
	case came < j.Intervals: // rollups outlive the intervals that they are made of
		j.From += fmt.Sprintf(" by %d of %d intervals", came, j.Intervals)
	}
	j.Findings = worstFirst(now)
	return nil
}

// isPart reports whether intervals of the life lie outside the requested part.
func (l *loader) isPart() bool {
	return !l.asked(l.job.FirstMs) || !l.ask.To.IsZero() && l.job.UntilMs > l.ask.To.UnixMilli()
}

// wholeLife reports whether a rule looks at the whole life of a job.
func (l *loader) wholeLife(rule string) bool {
	return slices.ContainsFunc(l.set.Rules, func(r rules.Rule) bool { return r.ID == rule && r.Job })
}

const (
	// whyUnwatched is the reason why rules that look at intervals are not evaluated on a very long job.
	whyUnwatched = "the job is read by the hour; weir find looks closer"
	whyPart      = "it looks at the whole life of the job, and a part is shown"
	ofPart       = "in the part that is shown: "
)

// notEvaluated lists the rules that were not evaluated, with the reasons. It leaves out rules with a finding on record.
// If a part of the life is shown, the other rules saw only that part. If no interval was read, missing metrics are not
// the reason.
func (l *loader) notEvaluated(recorded []schemas.Finding) {
	j := l.job
	part := l.isPart()
	why := map[string]string{}
	for _, n := range l.watcher.watch.NotEvaluated() {
		why[n.Rule] = n.Why
	}
	for i := range l.set.Rules {
		r := &l.set.Rules[i]
		text, is := why[r.ID]
		switch {
		case slices.ContainsFunc(recorded, func(f schemas.Finding) bool { return f.Rule == r.ID }):
			continue
		case strings.HasPrefix(text, "it requires "):
		case is && l.unwatched:
			text = whyUnwatched
		case part && r.Job:
			text = whyPart
		case !is:
			continue
		case part:
			text = ofPart + text
		}
		j.NotEvaluated = append(j.NotEvaluated, rules.Reason{Rule: r.ID, Why: text})
	}
	for i := range j.Map {
		if l.unwatched {
			j.Map[i].Why = whyUnwatched
		}
	}
}

// worstFirst returns the findings that hold, the worst first.
func worstFirst(all []schemas.Finding) []schemas.Finding {
	open := slices.DeleteFunc(slices.Clone(all), func(f schemas.Finding) bool { return f.State != schemas.FindingOpen })
	slices.SortStableFunc(open, func(a, b schemas.Finding) int {
		return cmp.Or(cmp.Compare(classRank(b.Class), classRank(a.Class)), cmp.Compare(b.Severity, a.Severity),
			cmp.Compare(a.Rule, b.Rule))
	})
	return open
}

// classRank orders classes of findings.
func classRank(class string) int {
	return slices.Index([]string{schemas.ClassLow, schemas.ClassMed, schemas.ClassHigh}, class)
}

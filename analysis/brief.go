package analysis

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/analysis/archive"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"

	"github.com/weirhpc/weir/report/view"
	"github.com/weirhpc/weir/rules"

	"github.com/weirhpc/weir/analysis/topics"
)

// Brief is Load without the course of the job over time: if the archive has the final totals of the life, no interval
// is read. Findings are the recorded ones. If the archive has no finding of any job, the rules are evaluated now, and
// the intervals are read for them. A life without final totals is loaded from its intervals too.
func (s *Sources) Brief(ctx context.Context, set *rules.Set, jobID string, a Ask) (*view.Job, error) {
	limited, cancel := context.WithTimeout(ctx, 2*topics.ReadTimeout)
	defer cancel()
	l, err := s.loader(limited, set, jobID, a)
	if err != nil {
		return nil, err
	}
	if err := l.choose(limited); err != nil {
		return nil, err
	}
	judged := len(l.set.Rules) == 0
	err = sink.Reading(limited, l.cfg.Sink.Dir, func() error {
		within := sink.UnderLock(limited)
		if _, newest, err := archive.Ends(l.cfg.Sink.Dir, "findings"); err != nil {
			return err
		} else if newest != "" {
			judged = true
		}
		return l.findTotals(within)
	})
	if err != nil {
		return nil, err
	}
	if !l.final || !judged {
		return s.Load(ctx, set, jobID, a)
	}
	return l.brief(limited)
}

// brief makes the job of its final totals.
func (l *loader) brief(ctx context.Context) (*view.Job, error) {
	j := l.job
	j.Type, j.From = l.types.Of(j.Nodes), "archive"
	j.FirstMs, j.UntilMs = math.MaxInt64, math.MinInt64
	l.whole()
	for i := range l.totals {
		t := &l.totals[i]
		if t.Metric == nil || t.Unit == nil || t.Scope == nil {
			continue
		}
		m := view.Metric{Name: *t.Metric, Unit: *t.Unit, Scope: *t.Scope}
		takeTotal(&m.Total, t)
		if t.IntervalsMeasured > 0 {
			length := int64(math.Round(1000 * t.MeasuredS / float64(t.IntervalsMeasured)))
			if j.IntervalMs == 0 || length < j.IntervalMs {
				j.IntervalMs = length
			}
		}
		j.Metrics = append(j.Metrics, m)
	}
	if j.Start == nil || *j.Start <= 0 {
		j.Start = &j.FirstMs
	}
	recorded, err := l.findings(ctx, l.chosen)
	if err != nil {
		return nil, err
	}
	j.Findings = worstFirst(recorded)
	l.lacking(recorded)
	return j, nil
}

// lacking lists the rules whose metrics the job lacks, which were not evaluated.
func (l *loader) lacking(recorded []schemas.Finding) {
	j := l.job
	for i := range l.set.Rules {
		r := &l.set.Rules[i]
		if slices.ContainsFunc(recorded, func(f schemas.Finding) bool { return f.Rule == r.ID }) {
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(r.Needs), func(m string) bool { return j.Find(m) != nil })
		if len(missing) > 0 {
			j.NotEvaluated = append(j.NotEvaluated, rules.Reason{
				Rule: r.ID, Why: "the job has no metric " + strings.Join(missing, ", "),
			})
		}
	}
}

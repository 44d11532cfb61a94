package analysis

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirhpc/weir/analysis/archive"
	"github.com/weirhpc/weir/analysis/rules"
	"github.com/weirhpc/weir/analysis/view"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink/totals"
)

// findTotals reads the totals of the life, if it has ended.
func (l *loader) findTotals(ctx context.Context) (err error) {
	if l.job.Running || l.job.End == nil {
		return nil
	}
	date := time.UnixMilli(*l.job.End).UTC().Format(time.DateOnly)
	l.totals, err = archive.Totals(ctx, l.cfg.Sink.Dir, date, date, l.key)
	l.final = len(l.totals) > 0 && !slices.ContainsFunc(l.totals, func(t totals.Total) bool { return !t.Final })
	return err
}

// hourBudget bounds the certified summary of a metric of a job, as that of an hour is bounded.
var hourBudget = quantile.Budget{Bytes: 512, Ranks: 2048}

// merge sets the totals of the metrics. They are those of the archive if nothing is to come. Otherwise the summaries of
// hours and intervals make them together.
func (l *loader) merge() {
	if l.partial != "" && !l.final {
		clear(l.shares) // the total of a part is none of the job
	}
	of := map[string]*totals.Total{}
	for i := range l.totals {
		if t := &l.totals[i]; t.Metric != nil && l.final {
			of[*t.Metric] = t
		}
	}
	each(len(l.job.Metrics), func(i int) {
		m := &l.job.Metrics[i]
		if t := of[m.Name]; t != nil && t.Unit != nil && *t.Unit == m.Unit && t.Scope != nil && *t.Scope == m.Scope {
			takeTotal(&m.Total, t)
		} else {
			m.Total.SetMerged(l.shares[m.Name])
		}
		var room quantile.Joiner
		if s, ok := room.Recompress(l.shares[m.Name], hourBudget); ok && s.Count == m.Total.Count {
			m.Total.Certified = &s
		}
	})
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
	for k, p := range [11]*float64{t.D0, t.D1, t.D2, t.D3, t.D4, t.D5, t.D6, t.D7, t.D8, t.D9, t.D10} {
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

// judge evaluates the rules, interval by interval, for the severity map. The findings are those on record. Without any
// they are the ones that come out now.
func (l *loader) judge(ctx context.Context) error {
	j := l.job
	recorded, err := l.findings(ctx)
	if err != nil {
		return err
	}
	if j.JobID == schemas.JobRest || j.JobID == schemas.JobSystem || len(l.set.Rules) == 0 {
		j.Findings = worstFirst(recorded)
		return nil
	}
	w := l.set.NewWatch(rules.JobOf(j.Cluster, &j.Job, l.types), l.cfg.Find.Possible)
	m := newSeverityMap(l.set, l.build)
	var severities []rules.Severity
	for _, at := range sortedKeys(l.watched) {
		iv := l.watched[at]
		slices.SortFunc(iv.Metrics, func(a, b rules.Named) int { return strings.Compare(a.Name, b.Name) })
		w.Add(iv)
		severities = w.Severities(iv, severities[:0])
		m.add(at, severities)
	}
	j.Map = m.done()
	var now []schemas.Finding
	if j.Running {
		now = w.Due(nil)
	} else {
		now = w.End(nil)
	}
	j.NotEvaluated = w.NotEvaluated()
	if l.hourly {
		l.unwatched(recorded)
	}
	if j.Findings = worstFirst(recorded); len(recorded) == 0 && !l.hourly && l.partial == "" {
		j.Findings = worstFirst(now)
		j.From += ", findings evaluated now"
		if !l.ask.From.IsZero() || !l.ask.To.IsZero() {
			j.From += " of the part that is shown"
		}
	}
	return nil
}

// whyHourly is why rules, which look at intervals, say nothing of a long job.
const whyHourly = "the job is read by the hour; weir find looks closer"

// unwatched tells why rules were not evaluated whose intervals were not read. Metrics are not why: a watch without an
// interval has none. Rules with a finding on record were evaluated.
func (l *loader) unwatched(recorded []schemas.Finding) {
	j := l.job
	j.NotEvaluated = slices.DeleteFunc(j.NotEvaluated, func(n rules.Reason) bool {
		return slices.ContainsFunc(recorded, func(f schemas.Finding) bool { return f.Rule == n.Rule })
	})
	for i := range j.NotEvaluated {
		if n := &j.NotEvaluated[i]; !strings.HasPrefix(n.Why, "it requires ") {
			n.Why = whyHourly
		}
	}
	for i := range j.Map {
		j.Map[i].Why = whyHourly
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

// severityMap is properties by time.
type severityMap struct {
	set *rules.Set
	all []view.Property
	sum []float64
	n   []int
	at  func(startMs int64) int
}

func newSeverityMap(set *rules.Set, b *view.Builder) *severityMap {
	bins, at := b.Axis()
	m := &severityMap{set: set, at: at, sum: make([]float64, len(set.Rules)), n: make([]int, len(set.Rules))}
	for i := range set.Rules {
		p := view.Property{Rule: set.Rules[i].ID, Title: set.Rules[i].Title, Worst: make([]float64, bins)}
		for k := range p.Worst {
			p.Worst[k] = math.NaN()
		}
		m.all = append(m.all, p)
	}
	return m
}

func (m *severityMap) add(startMs int64, of []rules.Severity) {
	bin := m.at(startMs)
	for _, s := range of {
		if s.Rule < 0 || s.Rule >= len(m.all) {
			continue
		}
		p := &m.all[s.Rule]
		if !s.Evaluated {
			p.Why = s.Why
			continue
		}
		m.sum[s.Rule] += s.Value
		m.n[s.Rule]++
		p.Max = max(p.Max, s.Value)
		if bin >= 0 && !(p.Worst[bin] >= s.Value) { // NaN too
			p.Worst[bin] = s.Value
		}
	}
}

// done returns the rules that look at intervals, the worst first. Those never evaluated say why, and are the last ones.
func (m *severityMap) done() (all []view.Property) {
	for i := range m.all {
		if m.set.Rules[i].Job {
			continue
		}
		if p := m.all[i]; m.n[i] > 0 {
			p.Mean, p.Why = m.sum[i]/float64(m.n[i]), ""
			all = append(all, p)
		} else {
			if p.Why == "" {
				p.Why = "no interval was evaluated"
			}
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, view.ByWorst)
	return all
}

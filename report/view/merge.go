package view

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/config"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

var errNothing = errors.New("no job to merge")

// Merge makes one job of several, such as the tasks of an array. Totals are given with bounds. Bins are aligned by the
// time since each start, and so they begin at 0.
func Merge(jobs []*Job) (*Job, error) {
	if len(jobs) == 0 {
		return nil, errNothing
	}
	first := jobs[0]
	j := &Job{
		Cluster: first.Cluster, Type: first.Type, FirstMs: first.FirstMs, IntervalMs: first.IntervalMs,
		NotEvaluated: notEvaluated(jobs), From: sources(jobs),
	}
	j.JobID, j.Name, j.User, j.Account, j.Queue = fmt.Sprintf("%d jobs", len(jobs)), first.Name, first.User,
		first.Account, first.Queue
	metrics := map[metricKey][]*Metric{}
	measured := 0.0
	var busy busyCores
	for _, o := range jobs {
		if o.Cluster != j.Cluster {
			return nil, fmt.Errorf("job %s is of cluster %s, and %s of %s: name jobs of one cluster",
				first.JobID, j.Cluster, o.JobID, o.Cluster)
		}
		j.Jobs = append(j.Jobs, o.JobID)
		j.head(o)
		busy.of(o)
		j.silent = j.silent || !o.judged()
		j.Part = j.Part || o.Part
		measured += float64(o.Intervals)
		j.ExactShare += o.ExactShare * float64(o.Intervals)
		for i := range o.Metrics {
			m := &o.Metrics[i]
			key := metricKey{m.Name, m.Unit, m.Scope}
			metrics[key] = append(metrics[key], m)
		}
		j.Findings = append(j.Findings, o.Findings...)
	}
	if measured > 0 {
		j.ExactShare /= measured
	}
	j.busy = busy.mean()
	j.Nodes = nodesOf(jobs)
	slices.SortStableFunc(j.Findings, func(a, b schemas.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	axis := axisOf(jobs)
	keys := slices.SortedFunc(maps.Keys(metrics), func(x, y metricKey) int {
		return cmp.Or(compareNames(x.name, y.name), cmp.Compare(x.unit, y.unit), cmp.Compare(x.scope, y.scope))
	})
	for _, k := range keys {
		m := Metric{Name: k.name, Unit: k.unit, Scope: k.scope, Bins: axis.bins(jobs, k)}
		var of []*Total
		for _, part := range metrics[k] {
			of = append(of, &part.Total)
		}
		m.Total = mergeTotals(of)
		j.Metrics = append(j.Metrics, m)
	}
	j.Map = axis.properties(jobs)
	return j, nil
}

// head keeps the properties that all jobs share, and adds up the sums.
func (j *Job) head(o *Job) {
	same := func(mine *string, other string) {
		if *mine != other {
			*mine = ""
		}
	}
	same(&j.Name, o.Name)
	same(&j.User, o.User)
	same(&j.Account, o.Account)
	same(&j.Queue, o.Queue)
	mine, other := j.Type, o.Type
	if mine.GPUs, other.GPUs = nil, nil; mine != other { // pointers to equal numbers may differ
		j.Type = config.NodeType{}
	}
	j.FirstMs, j.UntilMs = min(j.FirstMs, o.FirstMs), max(j.UntilMs, o.UntilMs)
	j.IntervalMs = min(j.IntervalMs, o.IntervalMs)
	j.Running = j.Running || o.Running
	j.Intervals += o.Intervals
	j.Complete += o.Complete
	j.Expected += o.Expected
	j.Reported += o.Reported
	j.WorstRankError = max(j.WorstRankError, o.WorstRankError)
	if o.Cores != nil {
		cores := *o.Cores
		if j.Cores != nil {
			cores += *j.Cores
		}
		j.Cores = &cores
	}
	if o.Start != nil && (j.Start == nil || *o.Start < *j.Start) {
		j.Start = o.Start
	}
	if o.End != nil && (j.End == nil || *o.End > *j.End) {
		j.End = o.End
	}
}

// mergeTotals merges several totals. The bounds of the deciles hold for the values of all of them.
func mergeTotals(of []*Total) Total {
	nan := math.NaN()
	t := Total{Mean: nan, RankError: nan, PerNode: perNode(of)}
	for k := range t.D {
		t.D[k], t.Lo[k], t.Hi[k] = nan, nan, nan
	}
	var sum sums
	var shares []quantile.Summary
	known := true
	for _, o := range of {
		t.Nodes.Intervals += o.Nodes.Intervals
		t.Nodes.With += o.Nodes.With
		t.Nodes.Reported += o.Nodes.Reported
		if o.Count == 0 {
			continue
		}
		sum.add(o.Mean, o.Count)
		t.D[0], t.D[10] = least(t.D[0], o.D[0]), most(t.D[10], o.D[10])
		s, ok := o.summary()
		known = known && ok
		shares = append(shares, s)
	}
	if t.Count = sum.count; t.Count > 0 {
		t.Mean = sum.mean
	}
	t.Lo[0], t.Hi[0], t.Lo[10], t.Hi[10] = t.D[0], t.D[0], t.D[10], t.D[10]
	if known {
		t.SetMerged(shares)
	}
	return t
}

// SetMerged sets the deciles of the union of summaries, if these include all values that the total counts.
func (t *Total) SetMerged(shares []quantile.Summary) {
	e, ok := quantile.Merge(shares)
	if !ok || e.Count != t.Count {
		return
	}
	t.D, t.Lo, t.Hi, t.RankError, t.Exact, t.Known = e.Deciles, e.Lo, e.Hi, e.RankError, e.Exact, true
}

// summary returns the total's part in a merge. Without a certified summary, a curve through the eleven deciles takes
// its place. Its error in the rank of a value is a tenth of the count, plus the error of the deciles themselves.
func (t *Total) summary() (quantile.Summary, bool) {
	if t.Certified != nil && t.Certified.Count == t.Count {
		return *t.Certified, true
	}
	if !t.Known {
		return quantile.Summary{}, false
	}
	n := float64(t.Count)
	s := quantile.Summary{Count: t.Count, Eps: min(n, math.Ceil(n/10)+2+n*t.RankError)}
	for k, v := range t.D {
		rank := quantile.Rank(k, t.Count)
		if last := len(s.Knots) - 1; last >= 0 && s.Knots[last].Rank >= rank {
			continue
		}
		s.Knots = append(s.Knots, quantile.Knot{Value: v, Rank: rank})
	}
	// The ends are exact: the smallest and the largest value of the job.
	s.Knots[0].Value = t.D[0]
	s.Knots[len(s.Knots)-1].Value = t.D[10]
	return s, s.Check() == nil
}

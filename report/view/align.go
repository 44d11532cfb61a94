package view

import (
	"cmp"
	"math"
	"slices"
)

// axis is the time since the start of each of several jobs, in bins.
type axis struct {
	widthMs, longestMs int64
	count              int
}

// axisOf returns an axis that fits all jobs. Its bins are as wide as the widest bins of the jobs.
func axisOf(jobs []*Job) axis {
	a := axis{widthMs: 1}
	for _, j := range jobs {
		a.longestMs = max(a.longestMs, j.UntilMs-j.FirstMs)
		for i := range j.Metrics {
			if bins := j.Metrics[i].Bins; len(bins) > 0 {
				a.widthMs = max(a.widthMs, bins[0].EndMs-bins[0].StartMs)
				break
			}
		}
	}
	a.widthMs = max(a.widthMs, (a.longestMs+MaxBins-1)/MaxBins)
	a.count = int((a.longestMs + a.widthMs - 1) / a.widthMs)
	return a
}

// reach returns the bins that a time of a job touches. ok is false if it lies outside of the axis.
func (a axis) reach(j *Job, startMs, endMs int64) (first, last int, ok bool) {
	first = int(max(0, floorDiv(startMs-j.FirstMs, a.widthMs)))
	last = int(min(int64(a.count-1), floorDiv(endMs-1-j.FirstMs, a.widthMs)))
	return first, last, first <= last
}

// bins returns the bins of a metric of several jobs. A bin that lies across two bins of the axis counts in the first,
// and the envelopes of both contain it.
func (a axis) bins(jobs []*Job, key metricKey) []Bin {
	all := make([]binBuild, a.count)
	for i := range all {
		all[i] = *newBin()
	}
	for _, j := range jobs {
		for i := range j.Metrics {
			if m := &j.Metrics[i]; m.Name == key.name && m.Unit == key.unit && m.Scope == key.scope {
				a.add(all, j, m)
			}
		}
	}
	done := make([]Bin, a.count)
	for i := range all {
		bin := all[i].Bin
		if bin.Count = all[i].count; bin.Count > 0 {
			bin.Mean, bin.D5Mean = all[i].mean, all[i].medians.mean
		}
		bin.Lows, bin.Highs = nodeCounts(all[i].lows), nodeCounts(all[i].highs)
		bin.StartMs = int64(i) * a.widthMs
		bin.EndMs = min(bin.StartMs+a.widthMs, a.longestMs)
		done[i] = bin
	}
	return done
}

func (a axis) add(all []binBuild, j *Job, m *Metric) {
	for i := range m.Bins {
		b := &m.Bins[i]
		first, last, ok := a.reach(j, b.StartMs, b.EndMs)
		if !ok || b.Intervals == 0 {
			continue
		}
		part := &binBuild{Bin: *b, lows: map[string]int64{}, highs: map[string]int64{}}
		part.count, part.mean = b.Count, b.Mean
		part.medians = sums{int64(b.Measured), b.D5Mean}
		for _, n := range b.Lows {
			part.lows[n.Node] = n.Count
		}
		for _, n := range b.Highs {
			part.highs[n.Node] = n.Count
		}
		all[first].join(part)
		for at := first + 1; at <= last && b.Measured > 0; at++ {
			all[at].widen(&b.Low, &b.High, b.D5Min)
			all[at].widen(&b.Low, &b.High, b.D5Max)
			all[at].medians.add(b.D5Mean, 1)
		}
	}
}

// properties merges the severity maps of several jobs. Each bin takes the worst severity.
func (a axis) properties(jobs []*Job) (all []Property) {
	weights := map[string]float64{}
	for _, j := range jobs {
		bins := []Bin(nil)
		if len(j.Metrics) > 0 {
			bins = j.Metrics[0].Bins
		}
		for _, p := range j.Map {
			i := slices.IndexFunc(all, func(o Property) bool { return o.Rule == p.Rule })
			if i < 0 {
				i = len(all)
				all = append(all, Property{Rule: p.Rule, Title: p.Title, Why: p.Why, Worst: unknown(a.count)})
			}
			for k := range min(len(p.Worst), len(bins)) {
				first, last, ok := a.reach(j, bins[k].StartMs, bins[k].EndMs)
				for at := first; ok && at <= last; at++ {
					all[i].Worst[at] = most(all[i].Worst[at], p.Worst[k])
				}
			}
			if w := float64(j.Intervals); p.Why == "" && w > 0 {
				weights[p.Rule] += w
				all[i].Mean += (p.Mean - all[i].Mean) * w / weights[p.Rule]
				all[i].Max, all[i].Why = max(all[i].Max, p.Max), ""
			}
		}
	}
	slices.SortStableFunc(all, ByWorst)
	return all
}

// ByWorst orders properties from the worst, with those not evaluated last.
func ByWorst(a, b Property) int {
	rank := func(p *Property) int {
		if p.Why != "" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(b.Mean, a.Mean), cmp.Compare(b.Max, a.Max),
		cmp.Compare(a.Rule, b.Rule))
}

// unknown returns n values of NaN.
func unknown(n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = math.NaN()
	}
	return all
}

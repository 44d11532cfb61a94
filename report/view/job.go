package view

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// maxGaps bounds the gaps of a job. The longest are kept.
const maxGaps = 100

// Into fills j from the rows: its time, completeness, gaps and metrics. All metrics get the same bins, even if nothing
// was measured in some. It returns false if there is no interval.
func (b *Builder) Into(j *Job) bool {
	spans := b.spans()
	if len(spans) == 0 {
		return false
	}
	j.FirstMs, j.UntilMs = spans[0].fromMs, spans[0].untilMs
	j.Intervals, j.Complete, j.Expected, j.Reported = 0, 0, 0, 0
	for _, s := range spans {
		j.UntilMs = max(j.UntilMs, s.untilMs)
		j.Intervals += s.intervals
		j.Expected += s.expected
		j.Reported += s.reported
		if s.reported >= s.expected {
			j.Complete += s.intervals
		}
		if length := (s.untilMs - s.fromMs) / max(1, s.steps); j.IntervalMs == 0 || length < j.IntervalMs {
			j.IntervalMs = length
		}
	}
	j.Gaps = gaps(spans)
	if b.measured > 0 {
		j.ExactShare = float64(b.exact) / float64(b.measured)
	}
	j.WorstRankError = b.worst
	j.Metrics = b.list()
	for i := range j.Metrics {
		of := &j.Metrics[i].Total.Of
		of.StartMs, of.EndMs, of.Intervals, of.Expected, of.Reported = j.FirstMs, j.UntilMs, j.Intervals, j.Expected,
			j.Reported
	}
	return true
}

// covered is an interval, or an hour of intervals.
type covered struct {
	fromMs, untilMs                      int64
	intervals, expected, reported, steps int64
}

// spans returns the intervals and hours in the order of time.
func (b *Builder) spans() []covered {
	all := make([]covered, 0, len(b.intervals)+len(b.hours))
	for at, i := range b.intervals {
		all = append(all, covered{at, at + i.lengthMs, 1, int64(i.expected), int64(i.reported), 1})
	}
	for _, h := range b.hours {
		all = append(all, covered{h.startMs, max(h.startMs, h.endMs), h.intervals, h.expected, h.reported, h.intervals})
	}
	slices.SortFunc(all, func(a, b covered) int {
		return cmp.Or(cmp.Compare(a.fromMs, b.fromMs), cmp.Compare(a.untilMs, b.untilMs))
	})
	return all
}

// gaps returns the spans with missing nodes, the longest first. Time without any interval counts with the nodes of the
// interval before it.
func gaps(spans []covered) (all []Gap) {
	add := func(fromMs, untilMs, missing int64) {
		if last := len(all) - 1; last >= 0 && all[last].UntilMs >= fromMs {
			all[last].UntilMs = max(all[last].UntilMs, untilMs)
			all[last].Missing += missing
			return
		}
		all = append(all, Gap{FromMs: fromMs, UntilMs: untilMs, Missing: missing})
	}
	for i, s := range spans {
		if i > 0 && s.fromMs > spans[i-1].untilMs {
			before := spans[i-1]
			step := max(1, (before.untilMs-before.fromMs)/max(1, before.steps))
			nodes := before.expected / max(1, before.intervals)
			add(before.untilMs, s.fromMs, nodes*((s.fromMs-before.untilMs+step-1)/step))
		}
		if s.reported < s.expected {
			add(s.fromMs, s.untilMs, s.expected-s.reported)
		}
	}
	slices.SortStableFunc(all, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(b.UntilMs-b.FromMs, a.UntilMs-a.FromMs), cmp.Compare(b.Missing, a.Missing))
	})
	return all[:min(len(all), maxGaps)]
}

// list returns the metrics with their bins, in the order of a report.
func (b *Builder) list() []Metric {
	keys := slices.SortedFunc(maps.Keys(b.metrics), func(x, y metricKey) int {
		return cmp.Or(compareNames(x.name, y.name), cmp.Compare(x.unit, y.unit), cmp.Compare(x.scope, y.scope))
	})
	var all []Metric
	for _, k := range keys {
		m := b.metrics[k]
		all = append(all, Metric{Name: k.name, Unit: k.unit, Scope: k.scope, Bins: b.bins(m), Total: m.sum()})
	}
	return all
}

// Axis returns the number of bins in the picture, and a function that returns the bin of a time, or -1 outside.
func (b *Builder) Axis() (bins int, at func(startMs int64) int) {
	if b.first > b.last {
		return 0, func(int64) int { return -1 }
	}
	return int(b.last-b.first) + 1, func(startMs int64) int {
		i := floorDiv(startMs-b.originMs, b.widthMs)
		if i < b.first || i > b.last {
			return -1
		}
		return int(i - b.first)
	}
}

func (b *Builder) bins(m *building) []Bin {
	n, _ := b.Axis()
	all := make([]Bin, n)
	for i := range all {
		at := b.first + int64(i)
		all[i] = emptyBin()
		if done := m.bins[at]; done != nil {
			all[i] = done.Bin
			if all[i].Count = done.count; done.count > 0 {
				all[i].Mean, all[i].D5Mean = done.mean, done.medians.mean
			}
			all[i].Lows, all[i].Highs = nodeCounts(done.lows), nodeCounts(done.highs)
		}
		all[i].StartMs = b.originMs + at*b.widthMs
		all[i].EndMs = all[i].StartMs + b.widthMs
	}
	return all
}

// sum returns the total as far as rows alone determine it. The deciles between the smallest and the largest value stay
// unknown.
func (m *building) sum() Total {
	nan := math.NaN()
	t := Total{Mean: nan, RankError: nan, Count: m.total.count}
	t.Of.Measured, t.Of.MeasuredS = m.measured, float64(m.measuredMs)/1000
	for k := range t.D {
		t.D[k], t.Lo[k], t.Hi[k] = nan, nan, nan
	}
	if m.measured == 0 {
		return t
	}
	t.Mean = m.total.mean
	if t.Nodes = m.nodes; t.Nodes.With > 0 {
		t.PerNode = float64(m.values) / float64(t.Nodes.With)
	}
	for k, v := range map[int]float64{0: m.least, 10: m.most} {
		t.D[k], t.Lo[k], t.Hi[k] = v, v, v
	}
	if low := nodeCounts(m.lows); len(low) > 0 {
		t.LowNode, t.LowShare = low[0].Node, float64(low[0].Count)/float64(m.measured)
	}
	if high := nodeCounts(m.highs); len(high) > 0 {
		t.HighNode, t.HighShare = high[0].Node, float64(high[0].Count)/float64(m.measured)
	}
	return t
}

package audit

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/weirhpc/weir/schemas"
)

// expectation is what a summary must be, by the log of counters.
type expectation struct {
	jobInterval
	lengthMs                     int64
	partition                    int32 // of the Tick
	offset                       int64
	merged                       bool
	parts, partsReported         int32
	nodesExpected, nodesReported int32
	reduced                      *schemas.NodeSummary // the only record, if it is a NodeSummary
	metrics                      map[string]*metric
}

// metric is what one metric of a summary must be. low and high are the deciles if every value that only a node knows is
// as low and as high as it may be. They are equal where all values are known.
type metric struct {
	unit, scope        string
	invalid            int64
	nodes              int32
	values, nodeMeans  moments
	lowNodes, topNodes []string // nodes whose means are the lowest and the highest, but for rounding
	low, high          [11]float64
	truth              truth // until the summary was compared
}

// expectWhole returns what the summary of a job with one share must be.
func expectWhole(w jobInterval, lengthMs int64, s *share) *expectation {
	e := expectMerged(w, lengthMs, []*share{s})
	e.merged, e.nodesExpected = false, int32(len(s.nodes))
	if len(s.records) == 1 && s.records[0].summary != nil {
		e.reduced, e.metrics = s.records[0].summary, nil
	}
	return e
}

// expectMerged returns what the summary of a job with these shares must be, which are ordered by partition.
func expectMerged(w jobInterval, lengthMs int64, shares []*share) *expectation {
	first := shares[0]
	e := &expectation{
		jobInterval: w, lengthMs: lengthMs, partition: first.partition, offset: first.offset, merged: true,
		parts: first.parts, partsReported: int32(len(shares)), nodesExpected: first.jobNodes,
	}
	machine := map[string]bool{} // nodes of several partitions count once
	for _, s := range shares {
		e.nodesReported += s.reported()
		for node, came := range s.nodes {
			machine[node] = machine[node] || came
		}
	}
	if w.job.JobID == schemas.JobSystem {
		e.nodesExpected, e.nodesReported = int32(len(machine)), 0
		for _, came := range machine {
			if came {
				e.nodesReported++
			}
		}
	}
	e.metrics = reduceAll(shares, e.nodesReported)
	return e
}

// reduceAll computes every metric of the shares, several at a time.
func reduceAll(shares []*share, nodes int32) map[string]*metric {
	columns := map[string][]*column{}
	for _, s := range shares {
		for name, c := range s.columns {
			columns[name] = append(columns[name], c)
		}
	}
	cut(columns)
	metrics := make(map[string]*metric, len(columns))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for name, of := range columns {
		m := &metric{}
		metrics[name] = m
		g.Go(func() error {
			m.reduce(of, nodes)
			return nil
		})
	}
	_ = g.Wait() // no reduction fails
	return metrics
}

// reduce computes a metric from its columns. The first decides on unit and scope: what has others is invalid.
func (m *metric) reduce(columns []*column, nodes int32) {
	m.unit, m.scope = columns[0].unit, columns[0].scope
	var lists [][]float64
	var groups []moments
	var means []nodeMean
	var low, high []float64 // of values that only a node knows
	for _, c := range columns {
		m.invalid += c.invalid
		if c.unit != m.unit || c.scope != m.scope {
			m.invalid += c.count()
			continue
		}
		lists = append(lists, c.values)
		for _, p := range c.parts {
			lists = append(lists, p.values)
		}
		for _, r := range c.reduced {
			from := len(low)
			low, high = known(low, high, r)
			if len(r.Certified.Atoms) > 0 {
				lists = append(lists, slices.Clone(low[from:]))
				low, high = low[:from], high[:from]
				continue
			}
			group := moments{count: r.Count, mean: *r.Mean}
			if r.Stddev != nil {
				group.stddev = *r.Stddev
			}
			groups = append(groups, group)
		}
		means = append(means, c.means...)
		if m.nodes += int32(len(c.means)); c.with != nil {
			m.nodes += int32(len(c.with) - len(c.means))
		}
	}
	m.nodes = min(m.nodes, nodes)
	if m.values = momentsWith(groups, lists...); m.values.count == 0 {
		m.nodes = 0
		return
	}
	m.extremes(means)
	all := slices.Concat(lists...)
	if len(low) == 0 {
		slices.Sort(all)
		m.truth, m.low = truth{all, all}, deciles(all)
		m.high = m.low
		return
	}
	low, high = append(low, all...), append(high, all...)
	slices.Sort(low)
	slices.Sort(high)
	m.truth = newTruth(low, high)
	m.low, m.high = deciles(low), deciles(high)
}

func deciles(sorted []float64) (d [11]float64) {
	for k := range d {
		d[k] = decile(sorted, k)
	}
	return d
}

func (m *metric) extremes(means []nodeMean) {
	values := make([]float64, len(means))
	for i := range means {
		values[i] = means[i].mean
	}
	m.nodeMeans = momentsOf(values)
	low, high := slices.Min(values), slices.Max(values)
	for _, n := range means {
		if near(n.mean, low, m.nodeMeans.scale) {
			m.lowNodes = append(m.lowNodes, n.node)
		}
		if near(n.mean, high, m.nodeMeans.scale) {
			m.topNodes = append(m.topNodes, n.node)
		}
	}
}

// compare returns how a summary differs from what it must be, or nil. tally counts what was compared.
func (e *expectation) compare(t *Terms, s *schemas.JobSummary, tally *Summaries) error {
	if s.Cluster != t.Cluster || s.IntervalMs != e.lengthMs {
		return fmt.Errorf("cluster %s, interval_ms %d: recomputed %s, %d",
			s.Cluster, s.IntervalMs, t.Cluster, e.lengthMs)
	}
	if s.Parts != e.parts || s.PartsReported != e.partsReported {
		return fmt.Errorf("parts %d of %d: recomputed %d of %d", s.PartsReported, s.Parts, e.partsReported, e.parts)
	}
	if s.NodesExpected != e.nodesExpected || s.NodesReported != e.nodesReported {
		return fmt.Errorf("nodes %d of %d: recomputed %d of %d",
			s.NodesReported, s.NodesExpected, e.nodesReported, e.nodesExpected)
	}
	if e.reduced != nil {
		return e.compareReduced(t, s, tally)
	}
	if err := e.compareMethod(s); err != nil {
		return err
	}
	if err := e.compareMetrics(t, s, tally); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(e.metrics)) {
		if !slices.ContainsFunc(s.Metrics, func(m schemas.JobSummaryMetric) bool { return m.Name == name }) {
			return fmt.Errorf("metric %s: it is missing", name)
		}
	}
	if len(s.Metrics) != len(e.metrics) {
		return fmt.Errorf("%d metrics: recomputed %d", len(s.Metrics), len(e.metrics))
	}
	return nil
}

// compareMetrics compares the metrics that a summary has.
func (e *expectation) compareMetrics(t *Terms, s *schemas.JobSummary, tally *Summaries) error {
	for i := range s.Metrics {
		of := &s.Metrics[i]
		m := e.metrics[of.Name]
		if m == nil {
			return fmt.Errorf("metric %s: no record has it", of.Name)
		}
		err := m.compare(s.Method, of, &tally.Brackets)
		if err == nil && of.Count > 0 {
			err = e.compareCertified(t, of, m, tally)
		}
		if err != nil {
			return fmt.Errorf("metric %s: %w", of.Name, err)
		}
	}
	return nil
}

// compareReduced compares a summary with the NodeSummary that it must repeat.
func (e *expectation) compareReduced(t *Terms, s *schemas.JobSummary, tally *Summaries) error {
	if s.Method != schemas.MethodNode {
		return fmt.Errorf("method %s: recomputed %s", s.Method, schemas.MethodNode)
	}
	if len(s.Metrics) != len(e.reduced.Metrics) {
		return fmt.Errorf("%d metrics: its node sent %d", len(s.Metrics), len(e.reduced.Metrics))
	}
	for i := range s.Metrics {
		want := e.reduced.Metrics[i].JobSummaryMetric
		if want.Count == 0 {
			want = schemas.JobSummaryMetric{Name: want.Name, Unit: want.Unit, Scope: want.Scope, Invalid: want.Invalid}
		}
		got := s.Metrics[i]
		if want.Count > 0 {
			got.Certified = nil
		}
		if !reflect.DeepEqual(got, want) {
			return fmt.Errorf("metric %s: it is not as its node sent it", want.Name)
		}
		if want.Count == 0 {
			continue
		}
		if err := compareCoarser(t, &s.Metrics[i], &e.reduced.Metrics[i], tally); err != nil {
			return fmt.Errorf("metric %s: %w", want.Name, err)
		}
	}
	return nil
}

// compareMethod compares the method with how the summary came about. The log of counters does not tell whether the
// shares of a merge named all their values. So a merge may be EXACT, and then its deciles must be exact.
func (e *expectation) compareMethod(s *schemas.JobSummary) error {
	want := schemas.MethodExact
	switch {
	case len(e.metrics) == 0:
		want = schemas.MethodEstimated
	case e.merged && s.Method != schemas.MethodNode:
		want = s.Method
	}
	if s.Method != want {
		return fmt.Errorf("method %s: recomputed %s", s.Method, want)
	}
	return nil
}

func (m *metric) compare(method string, s *schemas.JobSummaryMetric, brackets *int64) error {
	if s.Unit != m.unit || s.Scope != m.scope {
		return fmt.Errorf("unit %q, scope %s: recomputed %q, %s", s.Unit, s.Scope, m.unit, m.scope)
	}
	if s.Count != m.values.count || s.Invalid != m.invalid || s.Nodes != m.nodes {
		return fmt.Errorf("count %d, invalid %d, nodes %d: recomputed %d, %d, %d",
			s.Count, s.Invalid, s.Nodes, m.values.count, m.invalid, m.nodes)
	}
	if s.Count == 0 {
		if s.Mean != nil || s.Stddev != nil || s.NodeStddev != nil || s.LowNode != nil || s.HighNode != nil ||
			s.Deciles != nil || s.RankError != nil || s.Lo != nil || s.Hi != nil || s.Certified != nil {
			return errNoValues
		}
		return nil
	}
	if s.Stddev == nil || s.NodeStddev == nil || s.LowNode == nil || s.HighNode == nil || s.RankError == nil {
		return errIncomplete
	}
	if err := m.compareMoments(s); err != nil {
		return err
	}
	if *s.RankError == 0 {
		return m.compareExact(s)
	}
	if method != schemas.MethodEstimated {
		return fmt.Errorf("rank_error %v of method %s", *s.RankError, method)
	}
	return m.compareEstimate(s, brackets)
}

func (m *metric) compareMoments(s *schemas.JobSummaryMetric) error {
	for _, c := range []struct {
		name             string
		got, want, scale float64
	}{
		{"mean", *s.Mean, m.values.mean, m.values.scale},
		{"stddev", *s.Stddev, m.values.stddev, m.values.scale},
		{"node_stddev", *s.NodeStddev, m.nodeMeans.stddev, m.nodeMeans.scale},
	} {
		if !near(c.got, c.want, c.scale) && c.want < math.MaxFloat64/4 {
			return fmt.Errorf("%s %v: recomputed %v", c.name, c.got, c.want)
		}
	}
	if !slices.Contains(m.lowNodes, *s.LowNode) {
		return fmt.Errorf("low_node %s: recomputed %s", *s.LowNode, m.lowNodes[0])
	}
	if !slices.Contains(m.topNodes, *s.HighNode) {
		return fmt.Errorf("high_node %s: recomputed %s", *s.HighNode, m.topNodes[0])
	}
	return nil
}

// compareExact compares deciles that claim to be exact.
func (m *metric) compareExact(s *schemas.JobSummaryMetric) error {
	if s.Lo != nil || s.Hi != nil {
		return errBounds
	}
	for k, d := range *s.Deciles {
		if d < m.low[k] || d > m.high[k] {
			return fmt.Errorf("d%d %v: recomputed %s", k, d, m.decile(k))
		}
	}
	return nil
}

// compareEstimate compares deciles with their brackets, and the brackets with the true deciles.
func (m *metric) compareEstimate(s *schemas.JobSummaryMetric, brackets *int64) error {
	if s.Lo == nil || s.Hi == nil {
		return errBounds
	}
	for k, d := range *s.Deciles {
		lo, hi := (*s.Lo)[k], (*s.Hi)[k]
		if lo > m.high[k] || hi < m.low[k] {
			return fmt.Errorf("d%d: its bracket [%v, %v] lacks the true value: recomputed %s", k, lo, hi, m.decile(k))
		}
		if d < lo || d > hi {
			return fmt.Errorf("d%d %v: outside its bracket [%v, %v]", k, d, lo, hi)
		}
		*brackets++
		if !m.truth.known() || d == m.low[k] {
			continue
		}
		if off := ranksOff(m.truth.low, k, d); off > *s.RankError*float64(s.Count)+1e-6 {
			return fmt.Errorf("d%d %v: %v of %d ranks off, which is more than rank_error %v",
				k, d, off, s.Count, *s.RankError)
		}
	}
	return nil
}

// decile returns a true decile as text, or the two values that it lies between.
func (m *metric) decile(k int) string { return between(m.low[k], m.high[k]) }

func between(low, high float64) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%v to %v", low, high)
}

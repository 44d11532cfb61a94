package audit

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// compare returns the difference between a summary and the expectation, or nil. tally counts the comparisons.
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

// compareMetrics compares the metrics of a summary.
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

// compareReduced compares a summary with the NodeSummary that it must repeat. It repeats the rules of fold.Reduced on
// purpose.
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
		if want.LowNode != nil && got.LowNodeMean != nil { // null from an older collect
			want.LowNodeMean = want.Mean
		}
		if want.HighNode != nil && got.HighNodeMean != nil {
			want.HighNodeMean = want.Mean
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

// compareMethod compares the method with the origin of the summary. The log of counters does not show whether the
// shares of a merge listed all their values. So a merge may be EXACT, and then its deciles must be exact.
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
			s.LowNodeMean != nil || s.HighNodeMean != nil ||
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
	for _, c := range []struct {
		name string
		got  *float64 // nil from an older writer
		want nodeMean
	}{{"low_node_mean", s.LowNodeMean, m.lowest}, {"high_node_mean", s.HighNodeMean, m.highest}} {
		if c.got != nil && !near(*c.got, c.want.mean, c.want.scale) {
			return fmt.Errorf("%s %v: recomputed %v", c.name, *c.got, c.want.mean)
		}
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

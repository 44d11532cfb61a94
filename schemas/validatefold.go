package schemas

import (
	"cmp"
	"math"

	"github.com/weirhpc/weir/naming"
)

// The records of collectors and mergers: JobSummary, JobPartial, Watermark, Progress, Reject.

// Validate implements Record.
func (s *JobSummary) Validate() error {
	if !naming.Valid(s.Cluster) {
		return invalid("cluster", "%.80q is not a name", s.Cluster)
	}
	if err := checkJob(s.JobID, s.Restart); err != nil {
		return err
	}
	if s.Method != MethodNode && s.Method != MethodExact && s.Method != MethodEstimated {
		return invalid("method", "%.80q is none", s.Method)
	}
	if s.Parts < 0 || s.PartsReported < 0 || s.NodesExpected < 0 || s.NodesReported < 0 {
		return invalid("parts", "parts or nodes are negative")
	}
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if err := m.validate(); err != nil {
			return err
		}
		if err := m.checkNodeMeans(); err != nil {
			return err
		}
	}
	if err := checkMetrics(len(s.Metrics), func(i int) string { return s.Metrics[i].Name }); err != nil {
		return err
	}
	return checkInterval(s.IntervalStart, s.IntervalMs)
}

// checkNodeMeans checks the means of the two nodes. Either is nil if its node is unknown.
func (m *JobSummaryMetric) checkNodeMeans() error {
	for _, f := range []struct {
		field string
		node  *string
		mean  *float64
	}{{"low_node", m.LowNode, m.LowNodeMean}, {"high_node", m.HighNode, m.HighNodeMean}} {
		if f.mean == nil {
			continue
		}
		if f.node == nil || !finite(*f.mean) {
			return invalid("metrics."+f.field+"_mean", "%s: %g without a node, or not finite", m.Name, *f.mean)
		}
	}
	return nil
}

// validate checks ranges, not consistency: whether the deciles fit the mean is the fold's concern, and the sink
// archives every committed record. An optional field is nil if the writer could not know it.
func (m *JobSummaryMetric) validate() error {
	if err := checkMetric(m.Name, m.Unit, m.Scope); err != nil {
		return err
	}
	if m.Count < 0 || m.Count > maxTotal || m.Invalid < 0 || m.Invalid > maxTotal || m.Nodes < 0 {
		return invalid("metrics.count", "%s: count, invalid or nodes is out of range", m.Name)
	}
	if (m.Count > 0) != (m.Mean != nil && m.Deciles != nil) {
		return invalid("metrics.mean", "%s: mean and deciles must be present exactly if count > 0", m.Name)
	}
	if m.Certified != nil && m.Count == 0 {
		return invalid("metrics.certified", "%s: must be present only if count > 0", m.Name)
	}
	for _, f := range []struct {
		field string
		v     *[]float64
	}{{"deciles", m.Deciles}, {"lo", m.Lo}, {"hi", m.Hi}} {
		if f.v != nil && (len(*f.v) != 11 || !ascending(*f.v)) {
			return invalid("metrics."+f.field, "%s: not eleven ascending finite values", m.Name)
		}
	}
	for _, f := range []struct {
		field      string
		v          *float64
		low, above float64
	}{
		{"mean", m.Mean, -math.MaxFloat64, math.MaxFloat64},
		{"stddev", m.Stddev, 0, math.MaxFloat64},
		{"node_stddev", m.NodeStddev, 0, math.MaxFloat64},
		{"rank_error", m.RankError, 0, 1},
	} {
		if f.v != nil && !(*f.v >= f.low && *f.v <= f.above) { // NaN is neither
			return invalid("metrics."+f.field, "%s: %g is out of range", m.Name, *f.v)
		}
	}
	return checkExtremes(m.Name, m.LowNode, m.HighNode)
}

// checkExtremes checks the nodes with the lowest and highest mean. nil is allowed here: who needs them checks that.
func checkExtremes(metric string, low, high *string) error {
	for _, n := range []*string{low, high} {
		if n != nil && !naming.Valid(*n) {
			return invalid("metrics.low_node", "%s: %.80q is not a host's name", metric, *n)
		}
	}
	return nil
}

// Validate implements Record.
func (p *JobPartial) Validate() error {
	if !naming.Valid(p.Cluster) {
		return invalid("cluster", "%.80q is not a name", p.Cluster)
	}
	if err := checkJob(p.JobID, p.Restart); err != nil {
		return err
	}
	if p.Collector < 0 || p.Parts < 1 || p.Parts > maxParts ||
		p.NodesReported < 0 || p.NodesExpected < p.NodesReported ||
		p.JobNodes < p.NodesExpected || p.JobNodes > MaxNodes {
		return invalid("collector", "collector, parts or nodes out of range")
	}
	for i := range p.Metrics {
		if err := p.Metrics[i].validate(); err != nil {
			return err
		}
	}
	if err := checkShares(p.Metrics); err != nil {
		return err
	}
	for i := range p.Shared {
		if !naming.Valid(p.Shared[i].Node) {
			return invalid("shared", "%.80q is not a host's name", p.Shared[i].Node)
		}
	}
	byNode := func(a, b int) int { return cmp.Compare(p.Shared[a].Node, p.Shared[b].Node) }
	if i := twice(len(p.Shared), byNode); i >= 0 {
		return invalid("shared", "%s is there twice", p.Shared[i].Node)
	}
	return checkInterval(p.IntervalStart, p.IntervalMs)
}

// checkShares is checkMetrics for a share. Each unit and scope of a name is a metric there: merge decides which stays.
func checkShares(metrics []JobPartialMetric) error {
	if n := len(metrics); n > MaxMetrics {
		return invalid("metrics", "%d are more than %d", n, MaxMetrics)
	}
	compare := func(a, b int) int {
		m, other := &metrics[a], &metrics[b]
		return cmp.Or(cmp.Compare(m.Name, other.Name), cmp.Compare(m.Unit, other.Unit),
			cmp.Compare(m.Scope, other.Scope))
	}
	if i := twice(len(metrics), compare); i >= 0 {
		return invalid("metrics.name", "%s is there twice, with one unit and scope", metrics[i].Name)
	}
	return nil
}

// validate is stricter than the one of a summary, since merge computes with these numbers. A missing moment, or a NaN,
// would spoil the whole job's summary and not one row.
func (m *JobPartialMetric) validate() error {
	if err := checkMetric(m.Name, m.Unit, m.Scope); err != nil {
		return err
	}
	if m.Count < 0 || m.Count > maxCount || m.Invalid < 0 || m.Invalid > maxCount ||
		m.Nodes < 0 || m.Nodes > MaxNodes || int64(m.Nodes) > m.Count || m.NodeMeans < 0 || m.NodeMeans > maxCount {
		return invalid("metrics.count", "%s: count, invalid, nodes or node_means out of range", m.Name)
	}
	for _, v := range []*float64{m.Mean, m.M2, m.NodeMean, m.NodeM2, m.LowNodeMean, m.HighNodeMean} {
		if (v != nil) != (m.Count > 0) || v != nil && !finite(*v) {
			return invalid("metrics.mean", "%s: the moments must be present, and finite, exactly if count > 0", m.Name)
		}
	}
	if (m.LowNode != nil) != (m.Count > 0) || (m.HighNode != nil) != (m.Count > 0) {
		return invalid("metrics.low_node", "%s: low_node and high_node must be present exactly if count > 0", m.Name)
	}
	if m.Count > 0 && (*m.M2 < 0 || *m.NodeM2 < 0) {
		return invalid("metrics.m2", "%s: m2 or node_m2 is negative", m.Name)
	}
	if m.Count > 0 && *m.LowNodeMean > *m.HighNodeMean {
		return invalid("metrics.low_node_mean", "%s: above high_node_mean", m.Name)
	}
	return checkExtremes(m.Name, m.LowNode, m.HighNode)
}

// Validate implements Record.
func (w *Watermark) Validate() error {
	if w.Collector < 0 {
		return invalid("collector", "%d is not a partition", w.Collector)
	}
	return checkInterval(w.IntervalStart, w.IntervalMs)
}

// maxLoadBytes bounds the bytes of a job in an interval, so that no sum of them overflows.
const maxLoadBytes = 1 << 50

// Validate implements Record.
func (p *Progress) Validate() error {
	if p.From < 0 || p.Position < p.From || p.Hold < 0 || p.Hold > p.Position {
		return invalid("position", "from %d, hold %d, position %d are out of order", p.From, p.Hold, p.Position)
	}
	for i := range p.Loads {
		l := &p.Loads[i]
		if err := checkJob(l.JobID, l.Restart); err != nil {
			return err
		}
		if l.Nodes < 1 || l.Bytes < 0 || l.Bytes > maxLoadBytes {
			return invalid("loads", "job %s with %d nodes and %d bytes", l.JobID, l.Nodes, l.Bytes)
		}
	}
	if !validUnit(p.TopicID) {
		return invalid("topic_id", "%.80q is not at most %d bytes of printable UTF-8", p.TopicID, maxNameBytes)
	}
	if p.Open < 0 {
		return invalid("open", "%d is negative", p.Open)
	}
	if !validText(p.Stopped) {
		return invalid("stopped", "%.80q is not at most %d bytes of printable UTF-8", p.Stopped, maxTextBytes)
	}
	return nil
}

// Validate implements Record.
func (r *Reject) Validate() error {
	switch {
	case !validText(r.Topic):
		return invalid("topic", "%.80q is not at most %d bytes of printable UTF-8", r.Topic, maxTextBytes)
	case !validText(r.Reason):
		return invalid("reason", "%.80q is not at most %d bytes of printable UTF-8", r.Reason, maxTextBytes)
	case !validUnit(r.Hash):
		return invalid("hash", "%.80q is not a SHA-256 in hex", r.Hash)
	case len(r.Head) > maxHeadBytes:
		return invalid("head", "%d bytes are more than %d", len(r.Head), maxHeadBytes)
	}
	return nil
}

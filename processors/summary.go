package processors

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// output is the output of one Tick's job while it is made: a JobSummary if all of the job is here, otherwise a
// JobPartial. The zero value is that of a job that has none.
type output struct {
	sketch  int // bytes of the certified summary of a metric; 0: it has none
	summary *schemas.JobSummary
	partial *schemas.JobPartial
}

// newOutput begins the output of a job from its records. A record that the node reduced is the whole of it. Otherwise
// the columns of the records are still to be added. The certified summaries of a JobSummary have at most sketch bytes.
func newOutput(cluster string, partition int32, t *schemas.Tick, job *schemas.TickJob,
	records []*nodeRecord, sketch int,
) output {
	if job.Parts > 1 {
		return output{sketch: quantile.Large.Bytes, partial: &schemas.JobPartial{
			Cluster: cluster, JobID: job.JobID, Restart: job.Restart,
			IntervalStart: t.IntervalStart, IntervalMs: t.IntervalMs,
			Collector: partition, Parts: job.Parts, JobNodes: job.JobNodes,
			NodesExpected: int32(len(job.Nodes)), NodesReported: int32(len(records)),
		}}
	}
	s := &schemas.JobSummary{
		Cluster: cluster, JobID: job.JobID, Restart: job.Restart,
		IntervalStart: t.IntervalStart, IntervalMs: t.IntervalMs,
		Method: schemas.MethodExact, Parts: 1, PartsReported: 1,
		NodesExpected: int32(len(job.Nodes)), NodesReported: int32(len(records)),
	}
	if len(records) == 1 && records[0].summary != nil {
		s.Method = schemas.MethodNode
		for i := range records[0].summary.Metrics {
			s.Metrics = append(s.Metrics, reduced(&records[0].summary.Metrics[i], sketch))
		}
	}
	return output{sketch: sketch, summary: s}
}

// add adds a column.
func (o *output) add(c *column, r *reduction) {
	switch {
	case o.summary != nil:
		o.summary.Metrics = append(o.summary.Metrics, c.exact(r))
	case o.partial != nil:
		o.partial.Metrics = append(o.partial.Metrics, c.partial(r))
	}
}

// record returns the output once all columns are added.
func (o *output) record() schemas.Record {
	if o.partial != nil {
		return o.partial
	}
	if s := o.summary; len(s.Metrics) == 0 && s.Method == schemas.MethodExact {
		s.Method = schemas.MethodEstimated // nothing is known: EXACT would promise a value
	}
	return o.summary
}

// reduced returns a metric as its node reduced it, without numbers that contradict its count. The node's certified
// summary is recompressed if it has more than sketch bytes.
func reduced(m *schemas.NodeSummaryMetric, sketch int) schemas.JobSummaryMetric {
	if m.Count == 0 {
		return schemas.JobSummaryMetric{Name: m.Name, Unit: m.Unit, Scope: m.Scope, Invalid: m.Invalid}
	}
	s := m.JobSummaryMetric
	if s.LowNode != nil { // the node is the lowest and the highest
		s.LowNodeMean = s.Mean
	}
	if s.HighNode != nil {
		s.HighNodeMean = s.Mean
	}
	if sketch == 0 {
		return s
	}
	s.Certified = &m.Certified
	if c := summaryOf(m.Count, s.Certified); c.Bytes() > sketch {
		s.Certified = recompress([]quantile.Summary{c}, sketch)
	}
	return s
}

// recompress joins certified summaries, at least one with values and not too many, into one of sketch bytes at most.
// Quick's ranks leave out corners of more than eleven shares only.
func recompress(shares []quantile.Summary, sketch int) *schemas.Certified {
	joined, _ := quantile.Recompress(shares, quantile.Budget{Bytes: sketch, Ranks: quantile.Quick.Ranks})
	return certifiedOf(&joined)
}

// mergePartials joins the shares of one window, at least one, ordered by collector. The summary is EXACT if it has
// metrics, and the shares name all values of each. Its certified summaries have at most sketch bytes. surplus is how
// many metrics are left out.
func mergePartials(parts []*schemas.JobPartial, sketch int) (s *schemas.JobSummary, surplus int64) {
	p := parts[0]
	s = &schemas.JobSummary{
		Cluster: p.Cluster, JobID: p.JobID, Restart: p.Restart,
		IntervalStart: p.IntervalStart, IntervalMs: p.IntervalMs, Method: schemas.MethodEstimated,
		Parts: p.Parts, PartsReported: int32(len(parts)), NodesExpected: p.JobNodes,
	}
	byName := map[string]*mergedMetric{}
	var reported int64
	for _, p := range parts {
		reported += int64(p.NodesReported)
		for i := range p.Metrics {
			m := &p.Metrics[i]
			if byName[m.Name] == nil {
				first := schemas.JobSummaryMetric{Name: m.Name, Unit: m.Unit, Scope: m.Scope}
				byName[m.Name] = &mergedMetric{JobSummaryMetric: first}
			}
			byName[m.Name].add(m)
		}
	}
	s.NodesReported = int32(min(reported, math.MaxInt32))
	most := int64(math.MaxInt32) // nodes of a metric
	if s.JobID == schemas.JobSystem {
		s.NodesExpected, s.NodesReported = machineNodes(parts)
		most = int64(s.NodesReported) // each collector counts the nodes that it shares, so the sum may be more
	}
	names := slices.Sorted(maps.Keys(byName))
	if len(names) > schemas.MaxMetrics {
		surplus = int64(len(names) - schemas.MaxMetrics)
		names = names[:schemas.MaxMetrics]
	}
	complete := len(names) > 0
	for _, name := range names {
		m, all := byName[name].summary(most, sketch)
		complete = complete && all
		s.Metrics = append(s.Metrics, m)
	}
	if complete {
		s.Method = schemas.MethodExact
	}
	return s, surplus
}

// machineNodes counts the nodes of all collectors. Shared nodes count once.
func machineNodes(parts []*schemas.JobPartial) (expected, reported int32) {
	shared := map[string]bool{} // whether a record came
	var e, r int64
	for _, p := range parts {
		e += int64(p.NodesExpected)
		r += int64(p.NodesReported)
		for _, n := range p.Shared {
			shared[n.Node] = shared[n.Node] || n.Reported
		}
	}
	for _, came := range shared {
		e++
		if came {
			r++
		}
	}
	return int32(min(e, math.MaxInt32)), int32(min(r, math.MaxInt32))
}

// mergedMetric gathers the shares of one metric, in collector order.
type mergedMetric struct {
	schemas.JobSummaryMetric
	values, means quantile.Moments
	nodes         int64
	extremes      nodeMeans
	shares        []quantile.Summary
}

// add takes one collector's share of the metric. The first unit and scope count, and values of others are invalid:
// numbers of two units have no sum.
func (m *mergedMetric) add(p *schemas.JobPartialMetric) {
	m.Invalid += p.Invalid
	switch {
	case p.Count == 0:
		return
	case m.Unit != p.Unit || m.Scope != p.Scope:
		m.Invalid += p.Count // of another unit or scope than the others
		return
	}
	m.extremes.add(nodeMean{*p.LowNode, *p.LowNodeMean}, nodeMean{*p.HighNode, *p.HighNodeMean})
	m.Count += p.Count
	m.nodes += int64(p.Nodes)
	m.values = m.values.Add(quantile.Moments{Count: p.Count, Mean: *p.Mean, M2: *p.M2})
	means := p.NodeMeans
	if means == 0 { // an older record, without node_means
		means = int64(p.Nodes)
	}
	m.means = m.means.Add(quantile.Moments{Count: means, Mean: *p.NodeMean, M2: *p.NodeM2})
	m.shares = append(m.shares, summaryOf(p.Count, &p.Certified))
}

// summaryOf is the way back from the wire to what quantile computes with. The count is beside it in the record.
func summaryOf(count int64, c *schemas.Certified) quantile.Summary {
	s := quantile.Summary{Count: count, Eps: c.Eps, Order: c.OrderStatistics}
	s.Knots, s.Atoms = slices.Grow(s.Knots, len(c.Knots)), slices.Grow(s.Atoms, len(c.Atoms))
	for _, k := range c.Knots {
		s.Knots = append(s.Knots, quantile.Knot(k))
	}
	for _, a := range c.Atoms {
		s.Atoms = append(s.Atoms, quantile.Atom(a))
	}
	return s
}

// summary returns the metric of all shares, and whether they name all its values. It counts at most so many nodes. Its
// certified summary has at most sketch bytes.
func (m *mergedMetric) summary(most int64, sketch int) (s schemas.JobSummaryMetric, complete bool) {
	s = m.JobSummaryMetric
	estimate, ok := quantile.Merge(m.shares)
	if !ok { // there is no value, or more than any machine has
		complete = s.Count == 0
		s.Invalid, s.Count = s.Invalid+s.Count, 0
		return s, complete
	}
	deciles := estimate.Deciles[:]
	mean := min(max(m.values.Mean, deciles[0]), deciles[quantile.N-1])
	stddev := quantile.Stddev(m.values.M2, m.values.Count)
	nodeStddev := quantile.Stddev(m.means.M2, max(1, m.means.Count))
	s.Nodes, s.Mean, s.Stddev, s.NodeStddev = int32(min(m.nodes, most)), &mean, &stddev, &nodeStddev
	s.LowNode, s.HighNode = &m.extremes.lowest.node, &m.extremes.highest.node
	s.LowNodeMean, s.HighNodeMean = &m.extremes.lowest.mean, &m.extremes.highest.mean
	s.Deciles, s.RankError = &deciles, &estimate.RankError
	if !estimate.Exact {
		lo, hi := estimate.Lo[:], estimate.Hi[:]
		s.Lo, s.Hi = &lo, &hi
	}
	if sketch > 0 {
		s.Certified = recompress(m.shares, sketch)
	}
	return s, estimate.Complete
}

// checkCertified returns an error if a metric's certified summary contradicts itself.
func checkCertified(name string, count int64, c *schemas.Certified) error {
	s := summaryOf(count, c)
	if err := s.Check(); err != nil {
		return fmt.Errorf("metrics.certified of %s: %w", name, err)
	}
	return nil
}

// checkPartial refuses what Validate lets pass and merge would trust. A wrong rank would spoil the proof of the whole
// job, so the record is rejected.
func checkPartial(p *schemas.JobPartial) error {
	for i := range p.Metrics {
		m := &p.Metrics[i]
		if m.NodeMeans < 0 || m.NodeMeans > m.Count {
			return fmt.Errorf("metrics.node_means of %s: %d of %d values", m.Name, m.NodeMeans, m.Count)
		}
		if err := checkCertified(m.Name, m.Count, &m.Certified); err != nil {
			return err
		}
	}
	return nil
}

// checkNodeSummary is checkPartial for what an agent reduced.
func checkNodeSummary(s *schemas.NodeSummary) error {
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if m.Invalid > quantile.MaxCount { // Check bounds count, but not invalid
			return fmt.Errorf("metrics.invalid of %s: %d", m.Name, m.Invalid)
		}
		if err := checkCertified(m.Name, m.Count, &m.Certified); err != nil {
			return err
		}
	}
	return nil
}

package fold

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// output is the output of one Tick's job while it is made: a JobSummary if all of the job is here, otherwise a
// JobPartial. The zero value is for a job without any.
type output struct {
	sketch  int // bytes of the certified summary of a metric; 0: without
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
			s.Metrics = append(s.Metrics, Reduced(&records[0].summary.Metrics[i], sketch))
		}
	}
	return output{sketch: sketch, summary: s}
}

// add adds a column. Columns come in the order of their metricID.
func (o *output) add(c *column, r *reduction) {
	switch {
	case o.summary != nil:
		o.summary.Metrics = addMetric(o.summary.Metrics, c.exact(r))
	case o.partial != nil:
		o.partial.Metrics = addShare(o.partial.Metrics, c.partial(r))
	}
}

// addMetric adds a metric. If a name has several units or scopes, the metric with values of most nodes stays, or the
// first if they tie. The values of the others are invalid.
func addMetric(list []schemas.JobSummaryMetric, m schemas.JobSummaryMetric) []schemas.JobSummaryMetric {
	if n := len(list); n > 0 && list[n-1].Name == m.Name {
		last := &list[n-1]
		if m.Nodes > last.Nodes {
			*last, m = m, *last
		}
		last.Invalid += m.Invalid + m.Count
		return list
	}
	return append(list, m)
}

// addShare adds a metric to a share, with one metric for each unit and scope of a name: merge knows which most nodes
// have. A metric that some nodes measured and others mark as reported by the job becomes one metric, like two units of
// one name.
func addShare(list []schemas.JobPartialMetric, m schemas.JobPartialMetric) []schemas.JobPartialMetric {
	if n := len(list); n > 0 && list[n-1].Name == m.Name && list[n-1].Unit == m.Unit && list[n-1].Scope == m.Scope {
		last := &list[n-1]
		if m.Nodes > last.Nodes {
			*last, m = m, *last
		}
		last.Invalid += m.Invalid + m.Count
		return list
	}
	return append(list, m)
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

// Reduced returns a metric as its node reduced it, without numbers that contradict its count. The node's certified
// summary is recompressed if it has more than sketch bytes.
func Reduced(m *schemas.NodeSummaryMetric, sketch int) schemas.JobSummaryMetric {
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
	return CertifiedOf(&joined)
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
	found := map[metricID]*mergedMetric{}
	var reported int64
	for _, p := range parts {
		reported += int64(p.NodesReported)
		shared := int32(0) // nodes that other collectors may have counted
		for _, n := range p.Shared {
			if n.Reported {
				shared++
			}
		}
		for i := range p.Metrics {
			m := &p.Metrics[i]
			id := metricID{name: m.Name, unit: m.Unit, scope: m.Scope}
			if found[id] == nil {
				found[id] = &mergedMetric{metricID: id}
			}
			found[id].add(m, shared)
		}
	}
	s.NodesReported = int32(min(reported, math.MaxInt32))
	most := int64(math.MaxInt32) // nodes of a metric
	if s.JobID == schemas.JobSystem {
		s.NodesExpected, s.NodesReported = machineNodes(parts)
		most = int64(s.NodesReported) // each collector counts the nodes that it shares, so the sum may be more
	}
	names := oneOfEachName(found)
	metrics, surplus := earned(slices.Values(names), len(names))
	complete := len(metrics) > 0
	for _, m := range metrics {
		metric, all := m.summary(most, sketch)
		complete = complete && all
		s.Metrics = append(s.Metrics, metric)
	}
	if complete {
		s.Method = schemas.MethodExact
	}
	return s, surplus
}

// oneOfEachName returns the metrics that a summary may have, in any order. If a name has several units or scopes, the
// metric of most nodes stays, or the first if they tie. The values of the others are invalid.
func oneOfEachName(all map[metricID]*mergedMetric) []*mergedMetric {
	first := map[string]*mergedMetric{}
	for _, m := range all {
		f := first[m.name]
		if f == nil || cmp.Or(cmp.Compare(m.votes(), f.votes()), f.compare(&m.metricID)) > 0 {
			first[m.name] = m
		}
	}
	for _, m := range all {
		if f := first[m.name]; f != m {
			f.invalid += m.invalid + m.count
		}
	}
	return slices.Collect(maps.Values(first))
}

// machineNodes counts the nodes of all collectors. Shared nodes count once. If shares are missing, the others know
// how many nodes the machine has.
func machineNodes(parts []*schemas.JobPartial) (expected, reported int32) {
	shared := map[string]bool{} // whether a record came
	var e, r, all int64
	for _, p := range parts {
		all = max(all, int64(p.JobNodes))
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
	return int32(min(max(e, all), math.MaxInt32)), int32(min(r, math.MaxInt32))
}

// mergedMetric gathers the shares of one metric, in collector order.
type mergedMetric struct {
	metricID
	count, invalid int64
	values, means  quantile.Moments
	nodes          int64
	extremes       nodeMeans
	shares         []quantile.Summary

	// By which nodes it earns its place. Of _system several collectors may count one node.
	unshared int64    // nodes that no other share can have counted, at the least
	most     int64    // nodes of the largest share
	named    []string // nodes that the shares name
}

// add takes one collector's share of the metric. Other shares may count up to shared of its nodes too.
func (m *mergedMetric) add(p *schemas.JobPartialMetric, shared int32) {
	m.invalid += p.Invalid
	if p.Count == 0 {
		return
	}
	m.extremes.add(nodeMean{*p.LowNode, *p.LowNodeMean}, nodeMean{*p.HighNode, *p.HighNodeMean})
	m.count += p.Count
	m.nodes += int64(p.Nodes)
	m.unshared += int64(max(0, p.Nodes-shared))
	m.most = max(m.most, int64(p.Nodes))
	m.named = append(m.named, *p.LowNode, *p.HighNode)
	m.values = m.values.Add(quantile.Moments{Count: p.Count, Mean: *p.Mean, M2: *p.M2})
	means := p.NodeMeans
	if means == 0 { // an older record, without node_means
		means = int64(p.Nodes)
	}
	m.means = m.means.Add(quantile.Moments{Count: means, Mean: *p.NodeMean, M2: *p.NodeM2})
	m.shares = append(m.shares, summaryOf(p.Count, &p.Certified))
}

// votes is how many nodes measure the metric, at the least. A node with jobs at many collectors has one vote.
func (m *mergedMetric) votes() int {
	slices.Sort(m.named)
	m.named = slices.Compact(m.named)
	return int(max(m.unshared, m.most, int64(len(m.named))))
}

// summaryOf turns a certified summary of the wire into one that quantile computes with. The record has the count
// beside it.
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
	s = schemas.JobSummaryMetric{Name: m.name, Unit: m.unit, Scope: m.scope, Count: m.count, Invalid: m.invalid}
	estimate, ok := quantile.Merge(m.shares)
	if !ok { // there is no value, or more than any machine can send
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

// checkPartial refuses faults that Validate lets pass and merge would trust. A wrong rank would spoil the proof of the
// whole job, so the record is rejected.
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

// checkNodeSummary is checkPartial for a NodeSummary.
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

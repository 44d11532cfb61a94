package processors

import (
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/processors/quantile"
	"github.com/weirhpc/weir/schemas"
)

// summarize makes what one Tick's job yields from its records: a JobSummary where all of the job is here, else a
// JobPartial. Records come in any order; the result does not depend on it.
func summarize(cluster string, partition int32, t *schemas.Tick, job *schemas.TickJob, records []*nodeRecord) schemas.Record {
	byNode(records)
	if job.Parts > 1 {
		p := &schemas.JobPartial{
			Cluster: cluster, JobID: job.JobID, Restart: job.Restart, IntervalStart: t.IntervalStart, IntervalMs: t.IntervalMs,
			Collector: partition, Parts: job.Parts, JobNodes: job.JobNodes,
			NodesExpected: int32(len(job.Nodes)), NodesReported: int32(len(records)),
		}
		for _, c := range columns(records) {
			p.Metrics = append(p.Metrics, c.partial())
		}
		return p
	}
	s := &schemas.JobSummary{
		Cluster: cluster, JobID: job.JobID, Restart: job.Restart, IntervalStart: t.IntervalStart, IntervalMs: t.IntervalMs,
		Method: schemas.MethodExact, Parts: 1, PartsReported: 1,
		NodesExpected: int32(len(job.Nodes)), NodesReported: int32(len(records)),
	}
	if len(records) == 1 && records[0].summary != nil {
		s.Method = schemas.MethodNode
		for i := range records[0].summary.Metrics {
			s.Metrics = append(s.Metrics, records[0].summary.Metrics[i].JobSummaryMetric)
		}
		return s
	}
	for _, c := range columns(records) {
		s.Metrics = append(s.Metrics, c.exact())
	}
	return s
}

// column is all that a job's records say of one metric.
type column struct {
	name, unit, scope string
	values            []float64
	invalid           int64 // values that cannot stand beside the others: of another unit or scope
	nodes             nodeMeans
}

// nodeMeans are the means of the nodes that have a valid value, ordered by node.
type nodeMeans struct {
	means           []float64
	lowest, highest nodeMean
}

type nodeMean struct {
	node string
	mean float64
}

// columns sorts the values of records, ordered by node, by metric. The least node decides on a metric's unit and scope.
func columns(records []*nodeRecord) []*column {
	byName := map[string]*column{}
	for _, r := range records {
		if r.batch == nil {
			continue // a NodeSummary has no values; it never stands beside other records of its job
		}
		for i := range r.batch.Metrics {
			m := &r.batch.Metrics[i]
			c := byName[m.Name]
			if c == nil {
				c = &column{name: m.Name, unit: m.Unit, scope: m.Scope}
				byName[m.Name] = c
			}
			if c.unit != m.Unit || c.scope != m.Scope {
				c.invalid += int64(len(m.Values))
				continue
			}
			c.add(r.batch.Node, m.Values)
		}
	}
	sorted := make([]*column, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		sorted = append(sorted, byName[name])
	}
	return sorted
}

func (c *column) add(node string, values []float64) {
	c.values = append(c.values, values...)
	if mean, ok := quantile.Mean(values); ok {
		c.nodes.add(node, mean)
	}
}

// add takes the next node in order, so that of nodes that tie the least name stays.
func (n *nodeMeans) add(node string, mean float64) {
	if len(n.means) == 0 || mean < n.lowest.mean {
		n.lowest = nodeMean{node, mean}
	}
	if len(n.means) == 0 || mean > n.highest.mean {
		n.highest = nodeMean{node, mean}
	}
	n.means = append(n.means, mean)
}

func (c *column) exact() schemas.JobSummaryMetric {
	d := quantile.Reduce(c.values)
	m := schemas.JobSummaryMetric{
		Name: c.name, Unit: c.unit, Scope: c.scope,
		Count: d.Count, Invalid: d.Invalid + c.invalid, Nodes: int32(len(c.nodes.means)),
	}
	if d.Count == 0 {
		return m
	}
	stddev, zero, deciles := d.Stddev(), 0.0, d.Deciles[:]
	nodeStddev := quantile.Reduce(slices.Clone(c.nodes.means)).Stddev()
	m.Mean, m.Stddev, m.NodeStddev = &d.Mean, &stddev, &nodeStddev
	m.LowNode, m.HighNode = &c.nodes.lowest.node, &c.nodes.highest.node
	m.Deciles, m.RankError = &deciles, &zero
	return m
}

func (c *column) partial() schemas.JobPartialMetric {
	d := quantile.Reduce(c.values)
	m := schemas.JobPartialMetric{
		Name: c.name, Unit: c.unit, Scope: c.scope,
		Count: d.Count, Invalid: d.Invalid + c.invalid, Nodes: int32(len(c.nodes.means)),
	}
	if d.Count == 0 {
		return m
	}
	n := quantile.Reduce(slices.Clone(c.nodes.means))
	m.Mean, m.M2, m.NodeMean, m.NodeM2 = &d.Mean, &d.M2, &n.Mean, &n.M2
	m.LowNode, m.LowNodeMean = &c.nodes.lowest.node, &c.nodes.lowest.mean
	m.HighNode, m.HighNodeMean = &c.nodes.highest.node, &c.nodes.highest.mean
	m.Certified = schemas.Certified{Eps: d.Eps, OrderStatistics: d.Order[:]}
	return m
}

// mergePartials joins the shares of one window, at least one, ordered by collector.
func mergePartials(parts []*schemas.JobPartial) *schemas.JobSummary {
	p := parts[0]
	s := &schemas.JobSummary{
		Cluster: p.Cluster, JobID: p.JobID, Restart: p.Restart, IntervalStart: p.IntervalStart, IntervalMs: p.IntervalMs,
		Method: schemas.MethodEstimated, Parts: p.Parts, PartsReported: int32(len(parts)), NodesExpected: p.JobNodes,
	}
	byName := map[string]*mergedMetric{}
	for _, p := range parts {
		s.NodesReported += p.NodesReported
		for i := range p.Metrics {
			m := &p.Metrics[i]
			if byName[m.Name] == nil {
				byName[m.Name] = &mergedMetric{JobSummaryMetric: schemas.JobSummaryMetric{Name: m.Name, Unit: m.Unit, Scope: m.Scope}}
			}
			byName[m.Name].add(m)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		s.Metrics = append(s.Metrics, byName[name].summary())
	}
	return s
}

// mergedMetric gathers the shares of one metric, in collector order.
type mergedMetric struct {
	schemas.JobSummaryMetric
	values, nodes   quantile.Moments
	lowest, highest nodeMean
	shares          []quantile.Share
}

func (m *mergedMetric) add(p *schemas.JobPartialMetric) {
	m.Invalid += p.Invalid
	switch {
	case p.Count == 0:
		return
	case m.Unit != p.Unit || m.Scope != p.Scope:
		m.Invalid += p.Count // they cannot stand beside the others
		return
	}
	if low := (nodeMean{*p.LowNode, *p.LowNodeMean}); m.Count == 0 || low.mean < m.lowest.mean || low.mean == m.lowest.mean && low.node < m.lowest.node {
		m.lowest = low
	}
	if high := (nodeMean{*p.HighNode, *p.HighNodeMean}); m.Count == 0 || high.mean > m.highest.mean || high.mean == m.highest.mean && high.node < m.highest.node {
		m.highest = high
	}
	m.Count += p.Count
	m.Nodes += p.Nodes
	m.values = m.values.Add(quantile.Moments{Count: p.Count, Mean: *p.Mean, M2: *p.M2})
	m.nodes = m.nodes.Add(quantile.Moments{Count: int64(p.Nodes), Mean: *p.NodeMean, M2: *p.NodeM2})
	m.shares = append(m.shares, shareOf(p.Count, &p.Certified))
}

func shareOf(count int64, c *schemas.Certified) quantile.Share {
	if len(c.Atoms) > 0 {
		atoms := make([]quantile.Atom, len(c.Atoms))
		for i, a := range c.Atoms {
			atoms[i] = quantile.Atom(a)
		}
		return quantile.FromAtoms(atoms)
	}
	knots := make([]quantile.Knot, len(c.Knots))
	for i, k := range c.Knots {
		knots[i] = quantile.Knot(k)
	}
	return quantile.NewShare(count, c.OrderStatistics, knots)
}

func (m *mergedMetric) summary() schemas.JobSummaryMetric {
	s := m.JobSummaryMetric
	estimate, ok := quantile.Merge(m.shares)
	if !ok {
		return s
	}
	deciles := estimate[:]
	mean := min(max(m.values.Mean, deciles[0]), deciles[quantile.N-1])
	stddev, nodeStddev := quantile.Stddev(m.values.M2, m.values.Count), quantile.Stddev(m.nodes.M2, max(1, m.nodes.Count))
	s.Mean, s.Stddev, s.NodeStddev = &mean, &stddev, &nodeStddev
	s.LowNode, s.HighNode, s.Deciles = &m.lowest.node, &m.highest.node, &deciles
	if math.IsNaN(stddev) || math.IsNaN(nodeStddev) { // of a partial that contradicts itself: say nothing rather than that
		s.Stddev, s.NodeStddev = nil, nil
	}
	return s
}

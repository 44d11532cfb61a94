package processors

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/processors/quantile"
	"github.com/weirhpc/weir/schemas"
)

// summarize makes what one Tick's job yields from its records, ordered by node, and their columns: a JobSummary where all of
// the job is here, else a JobPartial.
func summarize(cluster string, partition int32, t *schemas.Tick, job *schemas.TickJob, records []*nodeRecord, columns []*column) schemas.Record {
	if job.Parts > 1 {
		p := &schemas.JobPartial{
			Cluster: cluster, JobID: job.JobID, Restart: job.Restart, IntervalStart: t.IntervalStart, IntervalMs: t.IntervalMs,
			Collector: partition, Parts: job.Parts, JobNodes: job.JobNodes,
			NodesExpected: int32(len(job.Nodes)), NodesReported: int32(len(records)),
		}
		for _, c := range columns {
			p.Metrics = append(p.Metrics, c.partial(quantile.Large))
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
	for _, c := range columns {
		s.Metrics = append(s.Metrics, c.exact())
	}
	return s
}

// column is all that records say of one metric.
type column struct {
	name, unit, scope string
	values            []float64
	invalid           int64 // values that cannot stand beside the others: of another unit or scope
	nodes             nodeMeans

	// What NodeSummaries say, in _system alone: elsewhere one never stands beside other records of its job.
	shares  []quantile.Summary
	moments quantile.Moments // of the shares
}

// nodeMeans are the means of the nodes that have a valid value.
type nodeMeans struct {
	means           []float64
	lowest, highest nodeMean
}

type nodeMean struct {
	node string
	mean float64
}

// columns sorts the values of CounterBatches, ordered by node, by metric. The least node decides on a metric's unit and
// scope.
func columns(records []*nodeRecord) []*column {
	byName := map[string]*column{}
	for _, r := range records {
		if r.batch == nil {
			continue
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
	return sortedColumns(byName)
}

func sortedColumns(byName map[string]*column) []*column {
	sorted := make([]*column, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		sorted = append(sorted, byName[name])
	}
	return sorted
}

func (c *column) add(node string, values []float64) {
	c.values = append(c.values, values...)
	if mean, ok := quantile.Mean(values); ok {
		c.nodes.add(nodeMean{node, mean}, nodeMean{node, mean})
		c.nodes.means = append(c.nodes.means, mean)
	}
}

// add notes the lowest and the highest mean of further nodes; of nodes that tie the least name stays.
func (n *nodeMeans) add(low, high nodeMean) {
	if n.lowest.node == "" || low.mean < n.lowest.mean || low.mean == n.lowest.mean && low.node < n.lowest.node {
		n.lowest = low
	}
	if n.highest.node == "" || high.mean > n.highest.mean || high.mean == n.highest.mean && high.node < n.highest.node {
		n.highest = high
	}
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
	nodeStddev := quantile.Reduce(c.nodes.means).Stddev()
	m.Mean, m.Stddev, m.NodeStddev = &d.Mean, &stddev, &nodeStddev
	m.LowNode, m.HighNode = &c.nodes.lowest.node, &c.nodes.highest.node
	m.Deciles, m.RankError = &deciles, &zero
	return m
}

func (c *column) partial(budget quantile.Budget) schemas.JobPartialMetric {
	d, certified := quantile.Certify(c.values, budget)
	all := quantile.Moments{Count: d.Count, Mean: d.Mean, M2: d.M2}.Add(c.moments)
	m := schemas.JobPartialMetric{
		Name: c.name, Unit: c.unit, Scope: c.scope,
		Count: all.Count, Invalid: d.Invalid + c.invalid, Nodes: int32(len(c.nodes.means)),
	}
	if all.Count == 0 {
		return m
	}
	if len(c.shares) > 0 {
		certified, _ = quantile.Recompress(append(c.shares, certified), budget) // there are values, and not too many
	}
	n := quantile.Reduce(c.nodes.means)
	m.Mean, m.M2, m.NodeMean, m.NodeM2 = &all.Mean, &all.M2, &n.Mean, &n.M2
	m.LowNode, m.LowNodeMean = &c.nodes.lowest.node, &c.nodes.lowest.mean
	m.HighNode, m.HighNodeMean = &c.nodes.highest.node, &c.nodes.highest.mean
	m.Certified = certifiedOf(certified)
	return m
}

// system gathers, while a Tick closes an interval, all that its jobs' records say: the collector's share of _system.
type system struct {
	expected, reported int32 // over (node, job) pairs
	columns            map[string]*column
	spare              [][]float64 // room for values, of the intervals before
}

// begin forgets the last interval.
func (s *system) begin() {
	for _, c := range s.columns {
		s.spare = append(s.spare, c.values[:0])
	}
	s.expected, s.reported, s.columns = 0, 0, map[string]*column{}
}

// join adds a job's records, in the order of their nodes, and their columns, which may be reduced afterwards.
func (s *system) join(job *schemas.TickJob, records []*nodeRecord, columns []*column) {
	s.expected += int32(len(job.Nodes))
	s.reported += int32(len(records))
	for _, c := range columns {
		to, fits := s.column(c.name, c.unit, c.scope)
		to.invalid += c.invalid
		if !fits {
			to.invalid += int64(len(c.values))
			continue
		}
		to.values = append(to.values, c.values...)
		if len(c.nodes.means) > 0 {
			to.nodes.add(c.nodes.lowest, c.nodes.highest)
			to.nodes.means = append(to.nodes.means, c.nodes.means...)
		}
	}
	for _, r := range records {
		if r.summary == nil {
			continue
		}
		for i := range r.summary.Metrics {
			s.joinReduced(r.summary.Node, &r.summary.Metrics[i])
		}
	}
}

// joinReduced adds what a node has reduced itself: its values where it says them all, else their summary.
func (s *system) joinReduced(node string, m *schemas.NodeSummaryMetric) {
	c, fits := s.column(m.Name, m.Unit, m.Scope)
	c.invalid += m.Invalid
	if !fits {
		c.invalid += m.Count
		return
	}
	if m.Count == 0 {
		return
	}
	mean := nodeMean{node, *m.Mean}
	c.nodes.add(mean, mean)
	c.nodes.means = append(c.nodes.means, mean.mean)
	if len(m.Certified.Atoms) > 0 {
		for _, a := range m.Certified.Atoms {
			for range a.Count {
				c.values = append(c.values, a.Value)
			}
		}
		return
	}
	c.shares = append(c.shares, summaryOf(m.Count, &m.Certified))
	m2 := 0.0
	if m.Stddev != nil {
		m2 = min(*m.Stddev**m.Stddev*float64(m.Count), math.MaxFloat64)
	}
	c.moments = c.moments.Add(quantile.Moments{Count: m.Count, Mean: *m.Mean, M2: m2})
}

// column is where a metric's values go, and whether those of this unit and scope can stand beside those that are there.
func (s *system) column(name, unit, scope string) (c *column, fits bool) {
	if c = s.columns[name]; c == nil {
		c = &column{name: name, unit: unit, scope: scope}
		if n := len(s.spare); n > 0 {
			c.values, s.spare = s.spare[n-1], s.spare[:n-1]
		}
		s.columns[name] = c
	}
	return c, c.unit == unit && c.scope == scope
}

// partial is the collector's share of the whole machine's interval. It is there in every interval, of all collectors.
func (s *system) partial(cluster string, partition, collectors int32, t *schemas.Tick) *schemas.JobPartial {
	p := &schemas.JobPartial{
		Cluster: cluster, JobID: schemas.JobSystem, IntervalStart: t.IntervalStart, IntervalMs: t.IntervalMs,
		Collector: partition, Parts: collectors, JobNodes: s.expected, NodesExpected: s.expected, NodesReported: s.reported,
	}
	for _, c := range sortedColumns(s.columns) {
		p.Metrics = append(p.Metrics, c.partial(quantile.Quick)) // of all values once more: BenchmarkInterval
	}
	return p
}

// mergePartials joins the shares of one window, at least one, ordered by collector.
func mergePartials(parts []*schemas.JobPartial) *schemas.JobSummary {
	p := parts[0]
	s := &schemas.JobSummary{
		Cluster: p.Cluster, JobID: p.JobID, Restart: p.Restart, IntervalStart: p.IntervalStart, IntervalMs: p.IntervalMs,
		Method: schemas.MethodEstimated, Parts: p.Parts, PartsReported: int32(len(parts)), NodesExpected: p.JobNodes,
	}
	if s.JobID == schemas.JobSystem { // no collector knows the others' nodes
		s.NodesExpected = 0
		for _, p := range parts {
			s.NodesExpected += p.NodesExpected
		}
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
	exact := true
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		m := byName[name].summary()
		exact = exact && (m.Count == 0 || *m.RankError == 0)
		s.Metrics = append(s.Metrics, m)
	}
	if exact {
		s.Method = schemas.MethodExact
		for i := range s.Metrics {
			s.Metrics[i].Lo, s.Metrics[i].Hi = nil, nil
		}
	}
	return s
}

// mergedMetric gathers the shares of one metric, in collector order.
type mergedMetric struct {
	schemas.JobSummaryMetric
	values, nodes quantile.Moments
	extremes      nodeMeans
	shares        []quantile.Summary
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
	m.extremes.add(nodeMean{*p.LowNode, *p.LowNodeMean}, nodeMean{*p.HighNode, *p.HighNodeMean})
	m.Count += p.Count
	m.Nodes += p.Nodes
	m.values = m.values.Add(quantile.Moments{Count: p.Count, Mean: *p.Mean, M2: *p.M2})
	m.nodes = m.nodes.Add(quantile.Moments{Count: int64(p.Nodes), Mean: *p.NodeMean, M2: *p.NodeM2})
	m.shares = append(m.shares, summaryOf(p.Count, &p.Certified))
}

func certifiedOf(s quantile.Summary) schemas.Certified {
	c := schemas.Certified{Eps: s.Eps, OrderStatistics: s.Order}
	for _, k := range s.Knots {
		c.Knots = append(c.Knots, schemas.Knot(k))
	}
	for _, a := range s.Atoms {
		c.Atoms = append(c.Atoms, schemas.Atom(a))
	}
	return c
}

func summaryOf(count int64, c *schemas.Certified) quantile.Summary {
	s := quantile.Summary{Count: count, Eps: c.Eps, Order: c.OrderStatistics}
	for _, k := range c.Knots {
		s.Knots = append(s.Knots, quantile.Knot(k))
	}
	for _, a := range c.Atoms {
		s.Atoms = append(s.Atoms, quantile.Atom(a))
	}
	return s
}

func (m *mergedMetric) summary() schemas.JobSummaryMetric {
	s := m.JobSummaryMetric
	estimate, ok := quantile.Merge(m.shares)
	if !ok { // no value, or more than any machine has
		s.Invalid, s.Count, s.Nodes = s.Invalid+s.Count, 0, 0
		return s
	}
	deciles, lo, hi := estimate.Deciles[:], estimate.Lo[:], estimate.Hi[:]
	mean := min(max(m.values.Mean, deciles[0]), deciles[quantile.N-1])
	stddev, nodeStddev := quantile.Stddev(m.values.M2, m.values.Count), quantile.Stddev(m.nodes.M2, max(1, m.nodes.Count))
	s.Mean, s.Stddev, s.NodeStddev = &mean, &stddev, &nodeStddev
	s.LowNode, s.HighNode = &m.extremes.lowest.node, &m.extremes.highest.node
	s.Deciles, s.Lo, s.Hi, s.RankError = &deciles, &lo, &hi, &estimate.RankError
	return s
}

// checkCertified reports the first metric whose summary contradicts itself.
func checkCertified(name string, count int64, c *schemas.Certified) error {
	s := summaryOf(count, c)
	if err := s.Check(); err != nil {
		return fmt.Errorf("metrics.certified of %s: %w", name, err)
	}
	return nil
}

func checkPartial(p *schemas.JobPartial) error {
	for i := range p.Metrics {
		m := &p.Metrics[i]
		if err := checkCertified(m.Name, m.Count, &m.Certified); err != nil {
			return err
		}
	}
	return nil
}

func checkNodeSummary(s *schemas.NodeSummary) error {
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if err := checkCertified(m.Name, m.Count, &m.Certified); err != nil {
			return err
		}
	}
	return nil
}

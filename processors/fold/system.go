package fold

import (
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// system gathers the collector's share of _system, while Ticks close an interval: all that their jobs' records have.
type system struct {
	nodes    map[string]int32 // that Ticks list, numbered as they come
	reported numbers          // nodes that sent a record
	shared   []string         // nodes that Ticks of other partitions list too
	columns  map[metricID]*systemColumn
	spare    [][]float64     // memory for values, from earlier intervals
	room     quantile.Joiner // memory for summaries
}

// systemColumn is one metric of _system. It keeps the values of small jobs, and the shares and moments of large
// jobs, and of NodeSummaries.
type systemColumn struct {
	metricID
	invalid int64 // values that are not finite
	values  []float64
	shares  []quantile.Summary
	moments quantile.Moments // of the shares
	nodes   nodeMeans
	with    numbers // nodes with a valid value
}

// maxSharedBytes bounds the shared nodes in a share of _system. Together with the largest metrics they stay well below
// the largest message. Nodes beyond it are counted as if no other collector had them.
const maxSharedBytes = 2 << 20

// votes is how many nodes have a valid value.
func (c *systemColumn) votes() int { return int(c.with.count()) }

// begin forgets the last interval.
func (s *system) begin() {
	for _, c := range s.columns {
		if len(s.spare) < schemas.MaxMetrics {
			s.spare = append(s.spare, c.values[:0])
		}
	}
	s.nodes, s.reported, s.shared = map[string]int32{}, numbers{}, nil
	s.columns = map[metricID]*systemColumn{}
}

// expect notes that a Tick lists a node, and returns the node's number.
func (s *system) expect(node string) int32 {
	n, ok := s.nodes[node]
	if !ok {
		n = int32(len(s.nodes))
		s.nodes[node] = n
	}
	return n
}

// join adds the reduction of a job's column. The caller leaves out the metrics that the job reported itself.
func (s *system) join(c *column, r *reduction) {
	to := s.column(c.metricID)
	to.invalid += r.Invalid
	if r.Count == 0 {
		return
	}
	if r.share != nil {
		to.share(r.Moments(), *r.share)
	} else {
		to.values = append(to.values, c.values[:r.Count]...)
	}
	to.nodes.add(c.nodes.lowest, c.nodes.highest)
	to.nodes.means = append(to.nodes.means, c.nodes.means...)
	for _, n := range c.nodes.numbers {
		to.with.add(n)
	}
}

// share adds values that are not here.
func (c *systemColumn) share(m quantile.Moments, s quantile.Summary) {
	c.shares, c.moments = append(c.shares, s), c.moments.Add(m)
}

// joinNodes adds the nodes of records, and the metrics that nodes reduced themselves.
func (s *system) joinNodes(records []*nodeRecord) {
	for _, r := range records {
		s.reported.add(r.number)
		if r.summary == nil {
			continue
		}
		for i := range r.summary.Metrics {
			if m := &r.summary.Metrics[i]; !slices.Contains(r.summary.Reported, m.Name) {
				s.joinReduced(r, m)
			}
		}
	}
}

// joinReduced adds a metric that a node reduced: its values if the node sent them all, and they are few. Otherwise it
// adds their summary.
func (s *system) joinReduced(r *nodeRecord, m *schemas.NodeSummaryMetric) {
	c := s.column(metricID{name: m.Name, unit: m.Unit, scope: m.Scope})
	c.invalid += m.Invalid
	if m.Count == 0 {
		return
	}
	mean := nodeMean{r.summary.Node, *m.Mean}
	c.nodes.add(mean, mean)
	c.nodes.means = append(c.nodes.means, mean.mean)
	c.with.add(r.number)
	if len(m.Certified.Atoms) > 0 && m.Count <= maxListed {
		for _, a := range m.Certified.Atoms {
			for range a.Count {
				c.values = append(c.values, a.Value)
			}
		}
		return
	}
	m2 := 0.0
	if m.Stddev != nil {
		m2 = min(*m.Stddev**m.Stddev*float64(m.Count), math.MaxFloat64)
	}
	c.share(quantile.Moments{Count: m.Count, Mean: *m.Mean, M2: m2}, summaryOf(m.Count, &m.Certified))
}

// column returns the column of a metric. A new one reuses the memory of a column of an earlier interval.
func (s *system) column(id metricID) *systemColumn {
	c := s.columns[id]
	if c == nil {
		c = &systemColumn{metricID: id}
		s.columns[id] = c
		if n := len(s.spare); n > 0 {
			c.values, s.spare = s.spare[n-1], s.spare[:n-1]
		}
	}
	return c
}

// partial returns the collector's share of the whole machine's interval. Every collector has one in every interval.
// surplus is how many metrics are left out.
func (s *system) partial(cluster string, partition, collectors int32, k *closing) (
	p *schemas.JobPartial, surplus int64,
) {
	p = &schemas.JobPartial{
		Cluster: cluster, JobID: schemas.JobSystem, IntervalStart: k.start, IntervalMs: k.lengthMs,
		Collector: partition, Parts: collectors, NodesExpected: int32(len(s.nodes)), NodesReported: s.reported.count(),
	}
	slices.Sort(s.shared)
	room := maxSharedBytes
	for _, node := range slices.Compact(s.shared) {
		n, listed := s.nodes[node]
		if !listed {
			continue
		}
		if room -= len(node) + 3; room < 0 {
			break
		}
		shared := schemas.SharedNode{Node: node, Reported: s.reported.has(n)}
		p.Shared = append(p.Shared, shared)
		if p.NodesExpected--; shared.Reported {
			p.NodesReported--
		}
	}
	p.NodesExpected = min(p.NodesExpected, schemas.MaxNodes) // hostile Ticks may list more
	p.JobNodes, p.NodesReported = max(p.NodesExpected, k.machineNodes), min(p.NodesReported, p.NodesExpected)
	cols, surplus := earned(maps.Values(s.columns), len(s.columns))
	for _, c := range cols {
		p.Metrics = append(p.Metrics, c.partial(&s.room))
	}
	return p, surplus
}

// partial is the collector's share of the column. The values are summarized a second time, so it has to be quick: see
// BenchmarkInterval.
func (c *systemColumn) partial(room *quantile.Joiner) schemas.JobPartialMetric {
	d, s := room.Certify(c.values, quantile.Quick)
	if d.Count > 0 {
		c.share(d.Moments(), s)
	}
	if len(c.shares) > 1 {
		s, _ = room.Recompress(c.shares, quantile.Quick) // there are values, and not too many
	} else if len(c.shares) > 0 {
		s = c.shares[0]
	}
	return partialOf(&c.metricID, c.moments, c.invalid, &c.nodes, c.with.count(), &s)
}

package processors

import (
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
	columns  columns
	spare    [][]float64 // memory for values, from earlier intervals
}

// maxSharedBytes bounds the shared nodes in a share of _system. Together with the largest metrics they stay well below
// the largest message. Nodes beyond it are counted as if no other collector had them.
const maxSharedBytes = 2 << 20

// begin forgets the last interval.
func (s *system) begin() {
	for _, c := range s.columns.byName {
		s.spare = append(s.spare, c.values[:0])
	}
	s.nodes, s.reported, s.shared, s.columns = map[string]int32{}, nil, nil, columns{byName: map[string]*column{}}
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

// join adds a job's records, ordered by node, and their columns, without the metrics that the job reported. The columns
// may be reduced afterwards.
func (s *system) join(records []*nodeRecord, columns []*column, reported reportedNames) {
	for _, c := range columns {
		if reported.has(c.name) {
			continue
		}
		to, fits := s.column(c.name, c.unit, c.scope)
		if to == nil {
			continue
		}
		to.invalid += c.invalid
		if !fits {
			to.invalid += int64(len(c.values))
			continue
		}
		to.values = append(to.values, c.values...)
		if len(c.nodes.means) > 0 {
			to.nodes.add(c.nodes.lowest, c.nodes.highest)
			to.nodes.means = append(to.nodes.means, c.nodes.means...)
			for _, n := range c.nodes.numbers {
				to.with.add(n)
			}
		}
	}
	for _, r := range records {
		s.reported.add(r.number)
		if r.summary == nil {
			continue
		}
		for i := range r.summary.Metrics {
			if m := &r.summary.Metrics[i]; !reported.has(m.Name) {
				s.joinReduced(r, m)
			}
		}
	}
}

// joinReduced adds a metric that a node reduced: its values if the node sent them all, otherwise their summary.
func (s *system) joinReduced(r *nodeRecord, m *schemas.NodeSummaryMetric) {
	c, fits := s.column(m.Name, m.Unit, m.Scope)
	if c == nil {
		return
	}
	c.invalid += m.Invalid
	if !fits {
		c.invalid += m.Count
		return
	}
	if m.Count == 0 {
		return
	}
	mean := nodeMean{r.summary.Node, *m.Mean}
	c.nodes.add(mean, mean)
	c.nodes.means = append(c.nodes.means, mean.mean)
	c.with.add(r.number)
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

// column is columns.column, with the memory of a column of an earlier interval.
func (s *system) column(name, unit, scope string) (c *column, fits bool) {
	c, fits = s.columns.column(name, unit, scope)
	if n := len(s.spare); n > 0 && c != nil && c.values == nil {
		c.values, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	return c, fits
}

// partial returns the collector's share of the whole machine's interval. Every collector has one in every interval.
func (s *system) partial(cluster string, partition, collectors int32, k *closing) *schemas.JobPartial {
	p := &schemas.JobPartial{
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
	p.JobNodes, p.NodesReported = p.NodesExpected, min(p.NodesReported, p.NodesExpected)
	for _, c := range s.columns.sorted() {
		// Quick, because this summarizes all values a second time: see BenchmarkInterval.
		p.Metrics = append(p.Metrics, c.partial(quantile.Quick))
	}
	return p
}

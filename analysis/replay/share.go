package replay

import (
	"math"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// share is one partition's share of one job in one interval, or of the whole machine.
type share struct {
	*recount.Share
	columns map[recount.Metric]*column
	reduced bool // of the machine: some values were reduced on their node
}

// column holds the values of one metric.
type column struct {
	lists           [][]float64 // NaN for a missing value
	nodes           int64       // of a merged column: of all shares
	votes           recount.Votes
	invalid         int64     // values of metrics of its name that have another unit or scope
	means           []float64 // of each node with a value; of the machine, of each of its jobs
	lowest, highest nodeMean
	with            map[string]bool    // nodes with a value
	parts           []quantile.Summary // of the machine: of values that only a node knows
	moments         quantile.Moments   // of these parts
}

type nodeMean struct {
	node string
	mean float64
}

// reduce makes a column of each metric of the CounterBatches, which are ordered by node, and computes further metrics.
func (s *share) reduce(t *Terms) {
	s.columns = map[recount.Metric]*column{}
	for _, r := range s.Records {
		if r.Batch == nil {
			continue
		}
		if t.Set != nil {
			t.Set.Apply(r.Batch)
		}
		for i := range r.Batch.Metrics {
			m := &r.Batch.Metrics[i]
			if !t.wantsMetric(m.Name) {
				continue
			}
			c := s.column(recount.Metric{Name: m.Name, Unit: m.Unit, Scope: m.Scope, Own: r.Own(m.Name)})
			c.lists = append(c.lists, m.Values)
			if mean, ok := quantile.Mean(m.Values); ok {
				c.add(nodeMean{r.Node, mean}, nodeMean{r.Node, mean})
				c.means, c.with[r.Node] = append(c.means, mean), true
			}
		}
	}
	if len(s.Records) != 1 || s.Records[0].Summary == nil {
		s.Records = nil // their values are in the columns
	}
}

func (s *share) column(m recount.Metric) *column {
	c := s.columns[m]
	if c == nil {
		c = &column{with: map[string]bool{}}
		s.columns[m] = c
	}
	return c
}

// sent returns the number of nodes with a valid value.
func (c *column) sent() int { return len(c.with) }

// takes takes the values of another unit or scope.
func (c *column) takes(loser *column) {
	c.invalid += loser.invalid + loser.size() + loser.moments.Count
}

// add adds the lowest and the highest mean of further nodes. Of nodes that tie the least name stays.
func (c *column) add(low, high nodeMean) {
	if c.lowest.node == "" || low.mean < c.lowest.mean || low.mean == c.lowest.mean && low.node < c.lowest.node {
		c.lowest = low
	}
	if c.highest.node == "" || high.mean > c.highest.mean ||
		high.mean == c.highest.mean && high.node < c.highest.node {
		c.highest = high
	}
}

// size returns the number of values in the lists, missing ones included.
func (c *column) size() (n int64) {
	for _, list := range c.lists {
		n += int64(len(list))
	}
	return n
}

// join adds a job's share to the machine's, without the values that the job itself reported.
func (s *share) join(job *share, t *Terms) {
	if s.columns == nil {
		s.columns = map[recount.Metric]*column{}
	}
	for m, from := range job.columns {
		if m.Own {
			continue
		}
		c := s.column(m)
		c.lists = append(c.lists, from.lists...)
		if len(from.means) == 0 {
			continue
		}
		c.add(from.lowest, from.highest)
		c.means = append(c.means, from.means...)
		for node := range from.with {
			c.with[node] = true
		}
	}
	for _, r := range job.Records {
		for i := range r.Summary.Metrics {
			if m := &r.Summary.Metrics[i]; t.wantsMetric(m.Name) && !r.Own(m.Name) {
				s.joinReduced(r.Node, m)
			}
		}
	}
}

// joinReduced adds a metric that a node reduced: its values if the node sent them all, otherwise their summary.
func (s *share) joinReduced(node string, m *schemas.NodeSummaryMetric) {
	s.reduced = true
	c := s.column(recount.Metric{Name: m.Name, Unit: m.Unit, Scope: m.Scope})
	c.invalid += m.Invalid
	if m.Count == 0 {
		return
	}
	c.add(nodeMean{node, *m.Mean}, nodeMean{node, *m.Mean})
	c.means, c.with[node] = append(c.means, *m.Mean), true
	if len(m.Certified.Atoms) > 0 {
		var values []float64
		for _, a := range m.Certified.Atoms {
			for range a.Count {
				values = append(values, a.Value)
			}
		}
		c.lists = append(c.lists, values)
		return
	}
	c.parts = append(c.parts, *recount.Summary(m.Count, &m.Certified))
	m2 := 0.0
	if m.Stddev != nil {
		m2 = min(*m.Stddev**m.Stddev*float64(m.Count), math.MaxFloat64)
	}
	c.moments = c.moments.Add(quantile.Moments{Count: m.Count, Mean: *m.Mean, M2: m2})
}

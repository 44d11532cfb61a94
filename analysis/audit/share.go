package audit

import (
	"errors"
	"math"
	"runtime"

	"github.com/weirhpc/weir/analysis/recount"
	"github.com/weirhpc/weir/schemas"
)

var (
	errForeign    = errors.New("it does not belong here")
	errNoValues   = errors.New("there are numbers of no values")
	errIncomplete = errors.New("there are values, but not all numbers of them")
	errNoOrder    = errors.New("its certified summary has neither order_statistics nor atoms, and the job one part")
	errBounds     = errors.New("lo and hi must be there exactly where rank_error is above 0")
)

// atOnce is the number of metrics that are reduced at a time.
var atOnce = runtime.GOMAXPROCS(0)

// share is one partition's share of one job in one interval, or of the whole machine.
type share struct {
	*recount.Share
	columns map[recount.Metric]*column
}

// column holds the values of one metric.
type column struct {
	values  []float64 // finite
	invalid int64
	sent    int                          // number of nodes
	means   []nodeMean                   // of each node with a value; of the machine, of each of its jobs
	with    map[string]bool              // of the machine: the nodes with a value
	parts   []*column                    // of the machine: columns with further values
	reduced []*schemas.NodeSummaryMetric // of the machine: values that only a node knows
}

// nodeMean is a node with the mean of its values, and the greatest magnitude among these.
type nodeMean struct {
	node        string
	mean, scale float64
}

func (c *column) count() int64 {
	n := int64(len(c.values))
	for _, p := range c.parts {
		n += int64(len(p.values))
	}
	for _, m := range c.reduced {
		n += m.Count
	}
	return n
}

// nodes returns the number of nodes with a valid value.
func (c *column) nodes() int {
	if c.with != nil {
		return len(c.with)
	}
	return len(c.means)
}

// takes takes the values of another unit or scope as invalid ones.
func (c *column) takes(loser *column) { c.invalid += loser.invalid + loser.count() }

// reduce makes a column of each metric of the CounterBatches.
func (s *share) reduce() {
	s.columns = map[recount.Metric]*column{}
	for _, r := range s.Records {
		if r.Batch == nil {
			continue
		}
		for i := range r.Batch.Metrics {
			m := &r.Batch.Metrics[i]
			id := recount.Metric{Name: m.Name, Unit: m.Unit, Scope: m.Scope, Own: r.Own(m.Name)}
			c := s.columns[id]
			if c == nil {
				c = &column{}
				s.columns[id] = c
			}
			c.sent++
			before := len(c.values)
			for _, v := range m.Values {
				if math.IsNaN(v) || math.IsInf(v, 0) {
					c.invalid++
					continue
				}
				c.values = append(c.values, v+0) // -0 + 0 is 0
			}
			if of := c.values[before:]; len(of) > 0 {
				of := momentsOf(of)
				c.means = append(c.means, nodeMean{r.Node, of.mean, of.scale})
			}
		}
	}
}

// join adds a job's share to the machine's, without the values that the job itself reported.
func (s *share) join(job *share) {
	if s.columns == nil {
		s.columns = map[recount.Metric]*column{}
	}
	for m, from := range job.columns {
		if m.Own {
			continue
		}
		c := s.column(m)
		c.invalid += from.invalid
		c.parts = append(c.parts, from)
		c.means = append(c.means, from.means...)
		for _, m := range from.means {
			c.with[m.node] = true
		}
	}
	for _, r := range job.Records {
		if r.Summary == nil {
			continue
		}
		for i := range r.Summary.Metrics {
			m := &r.Summary.Metrics[i]
			if r.Own(m.Name) {
				continue
			}
			c := s.column(recount.Metric{Name: m.Name, Unit: m.Unit, Scope: m.Scope})
			c.invalid += m.Invalid
			if m.Count > 0 {
				c.reduced = append(c.reduced, m)
				c.means = append(c.means, nodeMean{r.Node, *m.Mean, math.Abs(*m.Mean)})
				c.with[r.Node] = true
			}
		}
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

// known appends the values behind a NodeSummary's metric, once as low and once as high as they may be. An element lies
// between the nearest elements of known ranks. Without order statistics, only the minimum and the maximum are known.
func known(low, high []float64, m *schemas.NodeSummaryMetric) (l, h []float64) {
	if len(m.Certified.Atoms) > 0 {
		for _, a := range m.Certified.Atoms {
			for range a.Count {
				low, high = append(low, a.Value+0), append(high, a.Value+0)
			}
		}
		return low, high
	}
	at := curveOf(m.Count, &m.Certified)
	if len(m.Certified.OrderStatistics) == 0 {
		at = []schemas.Knot{at[0], at[len(at)-1]}
	}
	next := 0 // the first known rank at or above the element's
	for rank := int64(1); rank <= m.Count; rank++ {
		for next < len(at)-1 && at[next].Rank < rank {
			next++
		}
		above := at[next].Value
		below := above
		if at[next].Rank != rank && next > 0 {
			below = at[next-1].Value
		}
		low, high = append(low, below+0), append(high, above+0)
	}
	return low, high
}

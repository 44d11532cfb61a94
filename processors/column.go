package processors

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// column holds the values of one metric in several records.
type column struct {
	name, unit, scope string
	values            []float64
	invalid           int64 // values of another unit or scope than the others
	nodes             nodeMeans

	// These are only for _system. Shares and moments come from NodeSummaries. Elsewhere a NodeSummary is the only
	// record of its job. with has the nodes with a valid value, since a node has a mean of each of its jobs.
	shares  []quantile.Summary
	moments quantile.Moments // of the shares
	with    numbers
}

// nodeMeans are the means of the nodes that have a valid value, and the nodes' numbers.
type nodeMeans struct {
	means           []float64
	numbers         []int32
	lowest, highest nodeMean
}

// nodeMean is a node with the mean of its values.
type nodeMean struct {
	node string
	mean float64
}

// columns gathers columns by name. Of more than schemas.MaxMetrics names the least stay, in any order of arrival. Until
// they are sorted there may be twice as many.
type columns struct {
	byName map[string]*column
	last   string              // the greatest name that may stay
	left   map[string]struct{} // names that do not stay; nil: all may
}

// column returns the column of a metric, and whether it has this unit and scope. The column is nil for a metric that is
// left out.
func (s *columns) column(name, unit, scope string) (c *column, fits bool) {
	if c = s.byName[name]; c != nil {
		return c, c.unit == unit && c.scope == scope
	}
	if len(s.byName) >= 2*schemas.MaxMetrics {
		s.cut()
	}
	if s.left != nil && name > s.last {
		s.left[name] = struct{}{}
		return nil, false
	}
	c = &column{name: name, unit: unit, scope: scope}
	s.byName[name] = c
	return c, true
}

// cut keeps the least names. Which names stay must not depend on the order of arrival, or a successor would write
// another summary of the same records.
func (s *columns) cut() {
	if len(s.byName) <= schemas.MaxMetrics {
		return
	}
	names := slices.Sorted(maps.Keys(s.byName))
	if s.last = names[schemas.MaxMetrics-1]; s.left == nil {
		s.left = map[string]struct{}{}
	}
	for _, name := range names[schemas.MaxMetrics:] {
		s.left[name] = struct{}{}
		delete(s.byName, name)
	}
}

// sorted returns the columns that stay, by name.
func (s *columns) sorted() []*column {
	s.cut()
	sorted := make([]*column, 0, len(s.byName))
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		sorted = append(sorted, s.byName[name])
	}
	return sorted
}

// surplus returns how many metrics are left out.
func (s *columns) surplus() int64 { return int64(len(s.left)) }

// newColumns makes a column of each metric of CounterBatches, which are ordered by node. The least node decides on a
// metric's unit and scope. reported are the names that the job reported.
func newColumns(records []*nodeRecord, reported reportedNames) columns {
	all := columns{byName: map[string]*column{}}
	room := 0 // values that the records have, at most: a column is made as long as it may become
	for _, r := range records {
		room += r.bytes / 8
	}
	for _, r := range records {
		if r.batch == nil {
			continue
		}
		for i := range r.batch.Metrics {
			m := &r.batch.Metrics[i]
			if reported.leavesOut(m.Name) {
				continue
			}
			c, fits := all.column(m.Name, m.Unit, m.Scope)
			switch {
			case c == nil:
			case fits && c.values == nil:
				n := min(len(records)*len(m.Values), room)
				room -= n
				c.grow(n, min(len(records), n))
				c.add(r.batch.Node, r.number, m.Values)
			case fits:
				c.add(r.batch.Node, r.number, m.Values)
			default:
				c.invalid += int64(len(m.Values))
			}
		}
	}
	return all
}

// grow makes room for values, and for the means of nodes.
func (c *column) grow(values, nodes int) {
	c.values = make([]float64, 0, values)
	c.nodes.means, c.nodes.numbers = make([]float64, 0, nodes), make([]int32, 0, nodes)
}

func (c *column) add(node string, number int32, values []float64) {
	c.values = append(c.values, values...)
	if mean, ok := quantile.Mean(values); ok {
		c.nodes.add(nodeMean{node, mean}, nodeMean{node, mean})
		c.nodes.means, c.nodes.numbers = append(c.nodes.means, mean), append(c.nodes.numbers, number)
	}
}

// add adds the lowest and the highest mean of further nodes. Of nodes that tie the least name stays.
func (n *nodeMeans) add(low, high nodeMean) {
	if n.lowest.node == "" || low.mean < n.lowest.mean || low.mean == n.lowest.mean && low.node < n.lowest.node {
		n.lowest = low
	}
	if n.highest.node == "" || high.mean > n.highest.mean || high.mean == n.highest.mean && high.node < n.highest.node {
		n.highest = high
	}
}

// exact reduces all values of a job, which are here. It reorders them, so it comes last. The certified summary has at
// most sketch bytes; with 0 there is none.
func (c *column) exact(sketch int) schemas.JobSummaryMetric {
	d, certified := describe(c.values, sketch)
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
	m.LowNodeMean, m.HighNodeMean = &c.nodes.lowest.mean, &c.nodes.highest.mean
	m.Deciles, m.RankError, m.Certified = &deciles, &zero, certified
	return m
}

// describe is Reduce, with a certified summary of sketch bytes at most unless that is 0, or there is no value.
func describe(values []float64, sketch int) (quantile.Distribution, *schemas.Certified) {
	if sketch == 0 {
		return quantile.Reduce(values), nil
	}
	d, s := quantile.Certify(values, quantile.Budget{Bytes: sketch, Ranks: quantile.Large.Ranks})
	if d.Count == 0 {
		return d, nil
	}
	return d, certifiedOf(&s)
}

func certifiedOf(s *quantile.Summary) *schemas.Certified {
	c := schemas.NewCertified(s.Eps, s.Order, s.Knots, s.Atoms)
	return &c
}

// partial reduces one collector's values of a job for merge. It keeps moments, which add up, and ranks of some values,
// which bound the deciles of the whole.
func (c *column) partial(budget quantile.Budget) schemas.JobPartialMetric {
	d, certified := quantile.Certify(c.values, budget)
	all := quantile.Moments{Count: d.Count, Mean: d.Mean, M2: d.M2}.Add(c.moments)
	m := schemas.JobPartialMetric{
		Name: c.name, Unit: c.unit, Scope: c.scope,
		Count: all.Count, Invalid: d.Invalid + c.invalid,
		Nodes: int32(len(c.nodes.means)), NodeMeans: int64(len(c.nodes.means)),
	}
	if c.with != nil {
		m.Nodes = c.with.count()
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
	m.Certified = *certifiedOf(&certified)
	return m
}

// numbers is a set of small numbers.
type numbers []uint64

func (s *numbers) add(n int32) {
	for len(*s) <= int(n/64) {
		*s = append(*s, 0)
	}
	(*s)[n/64] |= 1 << (n % 64)
}

func (s numbers) has(n int32) bool { return int(n/64) < len(s) && s[n/64]>>(n%64)&1 == 1 }

func (s numbers) count() int32 {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return int32(n)
}

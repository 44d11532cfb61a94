package processors

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// metricID is what a metric is called.
type metricID struct{ name, unit, scope string }

// column is one metric of a job. Its values are gathered from the job's records when they are reduced. So they are
// copied once, and all metrics use the same memory.
type column struct {
	metricID
	at      []int32 // which metric it is in each of the job's layouts; -1: none
	invalid int64   // values of another unit or scope than the others

	values []float64
	nodes  nodeMeans
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
type columns[C any] struct {
	byName map[string]*C
	last   string              // the greatest name that may stay
	left   map[string]struct{} // names that do not stay; nil: all may
}

// column returns the column of a name, and whether it is new. The column is nil for a metric that is left out.
func (s *columns[C]) column(name string) (c *C, isNew bool) {
	if c = s.byName[name]; c != nil {
		return c, false
	}
	if len(s.byName) >= 2*schemas.MaxMetrics {
		s.cut()
	}
	if s.left != nil && name > s.last {
		s.left[name] = struct{}{}
		return nil, false
	}
	c = new(C)
	s.byName[name] = c
	return c, true
}

// cut keeps the least names. Which names stay must not depend on the order of arrival, or a successor would write
// another summary of the same records.
func (s *columns[C]) cut() {
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
func (s *columns[C]) sorted() []*C {
	s.cut()
	sorted := make([]*C, 0, len(s.byName))
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		sorted = append(sorted, s.byName[name])
	}
	return sorted
}

// surplus returns how many metrics are left out.
func (s *columns[C]) surplus() int64 { return int64(len(s.left)) }

// newColumns makes a column of each metric of CounterBatches, which are ordered by node. The least node decides on a
// metric's unit and scope. reported are the names that the job reported. Records of one layout are looked at once.
func newColumns(records []*nodeRecord, reported reportedNames) columns[column] {
	all := columns[column]{byName: map[string]*column{}}
	layouts := map[*schemas.Layout]int32{}
	var misfits [][]misfit // of each layout
	for _, r := range records {
		if r.summary != nil {
			continue
		}
		k, known := layouts[r.batch.Layout]
		if !known {
			k = int32(len(layouts))
			layouts[r.batch.Layout] = k
			misfits = append(misfits, addLayout(&all, r.batch.Layout, k, reported))
		}
		r.layout = k
		for _, m := range misfits[k] {
			m.column.invalid += m.values
		}
	}
	return all
}

// misfit is how many values of a layout have another unit or scope than their column.
type misfit struct {
	column *column
	values int64
}

// addLayout adds the metrics of a job's layout k.
func addLayout(all *columns[column], l *schemas.Layout, k int32, reported reportedNames) (misfits []misfit) {
	for i := range l.Metrics {
		m := &l.Metrics[i]
		if reported.leavesOut(m.Name) {
			continue
		}
		c, isNew := all.column(m.Name)
		if c == nil {
			continue
		}
		id := metricID{m.Name, m.Unit, m.Scope}
		if isNew {
			c.metricID = id
		}
		if c.metricID != id {
			misfits = append(misfits, misfit{c, int64(m.Values)})
			continue
		}
		for int32(len(c.at)) < k {
			c.at = append(c.at, -1)
		}
		c.at = append(c.at, int32(i))
	}
	return misfits
}

// gatherAtOnce is how many columns are gathered in one pass over the records. In these the values of one column are
// far apart, so that a pass for each column would wait for memory. Those of 8 columns still fit into a cache.
const gatherAtOnce = 8

// gather takes the values of columns, at most gatherAtOnce, from the records of newColumns. They are in the memory of
// rooms until these are used for other columns.
func gather(columns []*column, records []*nodeRecord, rooms *[gatherAtOnce]column) {
	for i, c := range columns {
		room := &rooms[i]
		c.values, c.nodes.means, c.nodes.numbers = room.values[:0], room.nodes.means[:0], room.nodes.numbers[:0]
	}
	for _, r := range records {
		for _, c := range columns {
			if r.summary != nil || int(r.layout) >= len(c.at) || c.at[r.layout] < 0 {
				continue
			}
			from := len(c.values)
			c.values = r.batch.AppendValues(c.values, int(c.at[r.layout]))
			c.note(r.batch.Node, r.number, c.values[from:])
		}
	}
	for i, c := range columns {
		rooms[i].values, rooms[i].nodes = c.values, c.nodes
	}
}

// note adds the mean of a node's values.
func (c *column) note(node string, number int32, values []float64) {
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

// reduction is what the values of a column come to.
type reduction struct {
	quantile.Distribution
	certified *quantile.Summary // for the job's output; nil: it has none
	share     *quantile.Summary // for _system; nil: that takes the values
}

// maxListed is how many values of a column _system takes as they are. Of more it takes the job's certified summary,
// which costs a tenth. For fewer it would cost as much, and be less exact.
const maxListed = 512

// reduce reduces the values with a certified summary of so many bytes; 0: none. Afterwards the valid ones come first,
// in another order.
func (c *column) reduce(sketch int, room *quantile.Joiner) (r reduction) {
	var own, quick quantile.Summary
	if sketch > 0 {
		r.Distribution, own = room.Certify(c.values, quantile.Budget{Bytes: sketch, Ranks: quantile.Large.Ranks})
		if r.Count > 0 {
			r.certified = &own
		}
	}
	switch {
	case len(c.values) <= maxListed && sketch == 0:
		r.Distribution = quantile.Reduce(c.values)
	case len(c.values) <= maxListed:
	case sketch == quantile.Large.Bytes:
		r.share = r.certified
	default: // the job's summary is too small, or there is none
		if r.Distribution, quick = room.Certify(c.values, quantile.Quick); r.Count > 0 {
			r.share = &quick
		}
	}
	return r
}

// exact is the column of a job whose values are all here.
func (c *column) exact(r *reduction) schemas.JobSummaryMetric {
	m := schemas.JobSummaryMetric{
		Name: c.name, Unit: c.unit, Scope: c.scope,
		Count: r.Count, Invalid: r.Invalid + c.invalid, Nodes: int32(len(c.nodes.means)),
	}
	if r.Count == 0 {
		return m
	}
	v := &struct { // one allocation
		mean, stddev, nodeStddev, zero float64
		deciles                        [quantile.N]float64
		list                           []float64
		low, high                      nodeMean
	}{mean: r.Mean, stddev: r.Stddev(), deciles: r.Deciles, low: c.nodes.lowest, high: c.nodes.highest}
	v.list, v.nodeStddev = v.deciles[:], quantile.Reduce(c.nodes.means).Stddev()
	m.Mean, m.Stddev, m.NodeStddev = &v.mean, &v.stddev, &v.nodeStddev
	m.LowNode, m.HighNode = &v.low.node, &v.high.node
	m.LowNodeMean, m.HighNodeMean = &v.low.mean, &v.high.mean
	m.Deciles, m.RankError = &v.list, &v.zero
	if r.certified != nil {
		m.Certified = certifiedOf(r.certified)
	}
	return m
}

func certifiedOf(s *quantile.Summary) *schemas.Certified {
	c := schemas.NewCertified(s.Eps, s.Order, s.Knots, s.Atoms)
	return &c
}

// partial is one collector's share of the column for merge. It has moments, which add up, and ranks of some values,
// which bound the deciles of the whole. r has a certified summary unless it has no value.
func (c *column) partial(r *reduction) schemas.JobPartialMetric {
	return partialOf(&c.metricID, r.Moments(), r.Invalid+c.invalid, &c.nodes, int32(len(c.nodes.means)), r.certified)
}

// partialOf makes a share. nodes is how many nodes have a valid value: a node has a mean of each of its jobs.
func partialOf(
	id *metricID, all quantile.Moments, invalid int64, means *nodeMeans, nodes int32, certified *quantile.Summary,
) schemas.JobPartialMetric {
	m := schemas.JobPartialMetric{
		Name: id.name, Unit: id.unit, Scope: id.scope,
		Count: all.Count, Invalid: invalid, Nodes: nodes, NodeMeans: int64(len(means.means)),
	}
	if all.Count == 0 {
		return m
	}
	n := quantile.Reduce(means.means)
	v := &struct { // one allocation
		mean, m2, nodeMean, nodeM2 float64
		low, high                  nodeMean
	}{all.Mean, all.M2, n.Mean, n.M2, means.lowest, means.highest}
	m.Mean, m.M2, m.NodeMean, m.NodeM2 = &v.mean, &v.m2, &v.nodeMean, &v.nodeM2
	m.LowNode, m.LowNodeMean = &v.low.node, &v.low.mean
	m.HighNode, m.HighNodeMean = &v.high.node, &v.high.mean
	m.Certified = *certifiedOf(certified)
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

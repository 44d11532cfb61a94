package fold

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// metricID identifies a metric. Values with different units or scopes have no sum, so each unit and scope has its own
// column. Metrics that a job reported by itself have their own column too: _system leaves them out.
type metricID struct {
	name, unit, scope string
	reported          bool
}

func (id *metricID) compare(other *metricID) int {
	return cmp.Or(strings.Compare(id.name, other.name), strings.Compare(id.unit, other.unit),
		strings.Compare(id.scope, other.scope), compareBools(id.reported, other.reported))
}

// compareBools puts false first.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// called lets columns of all kinds be ordered.
func (id *metricID) called() *metricID { return id }

// column is one metric of a job. Its values are gathered from the job's records when they are reduced. So they are
// copied once, and all metrics use the same memory.
type column struct {
	metricID
	first int32   // the first of the job's forms with the metric
	at    []int32 // which metric it is in each form from the first on; -1: none
	sent  int     // by how many nodes

	values []float64
	nodes  nodeMeans
}

// place returns which metric of a form the column is; -1: none.
func (c *column) place(form int32) int {
	if form < c.first || int(form-c.first) >= len(c.at) {
		return -1
	}
	return int(c.at[form-c.first])
}

func (c *column) votes() int { return c.sent }

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

// voted is a column, and by how many nodes it earns its place.
type voted interface {
	called() *metricID
	votes() int
}

// earned returns the columns that stay, ordered by their metricID, and how many are dropped. A record has room for
// schemas.MaxMetrics columns. Metrics of weir's own catalogue come first, then the metrics of most nodes. So the holder
// of one node cannot displace the others' metrics. Users choose the names that jobs report, so at most
// schemas.MaxReported of these stay.
//
// The choice must not depend on the order of arrival, or a successor would write another summary of the same records.
// So all columns are counted before any is dropped. The records with their names need more memory than the columns.
func earned[C voted](all iter.Seq[C], n int) (stay []C, surplus int64) {
	stay = slices.AppendSeq(make([]C, 0, n), all)
	reported := 0
	for _, c := range stay {
		if c.called().reported {
			reported++
		}
	}
	if n > schemas.MaxMetrics || reported > schemas.MaxReported {
		stay = best(stay)
	}
	slices.SortFunc(stay, func(a, b C) int { return a.called().compare(b.called()) })
	return stay, int64(n - len(stay))
}

// best returns the columns that have the first places, as many as there are.
func best[C voted](all []C) []C {
	type place struct {
		column  C
		foreign bool // the catalogue lacks it
		votes   int
	}
	places := make([]place, 0, len(all))
	for _, c := range all {
		id := c.called()
		known := !id.reported && schemas.Catalogued(id.name, id.unit, id.scope)
		places = append(places, place{c, !known, c.votes()})
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(compareBools(a.foreign, b.foreign), cmp.Compare(b.votes, a.votes),
			a.column.called().compare(b.column.called()))
	})
	all, reported := all[:0], 0
	for _, p := range places {
		if p.column.called().reported {
			reported++
		}
		if len(all) < schemas.MaxMetrics && (reported <= schemas.MaxReported || !p.column.called().reported) {
			all = append(all, p.column)
		}
	}
	return all
}

// form is the common part of several records of a job: the layout, and the names that the job reported.
type form struct {
	layout   *schemas.Layout
	reported string
}

// newColumns makes a column of each metric of CounterBatches. Records of one form are looked at once.
func newColumns(records []*nodeRecord) map[metricID]*column {
	all, forms := map[metricID]*column{}, map[form]int32{}
	var sent []int // by how many nodes each form was
	for _, r := range records {
		if r.summary != nil {
			continue
		}
		of := form{r.batch.Layout, strings.Join(r.batch.Reported, " ")}
		k, known := forms[of]
		if !known {
			k = int32(len(forms))
			forms[of], sent = k, append(sent, 0)
			addForm(all, &r.batch, k)
		}
		r.form = k
		sent[k]++
	}
	for _, c := range all {
		for i, at := range c.at {
			if at >= 0 {
				c.sent += sent[int(c.first)+i]
			}
		}
	}
	return all
}

// addForm adds the metrics of a job's form k.
func addForm(all map[metricID]*column, b *schemas.PackedBatch, k int32) {
	for i := range b.Layout.Metrics {
		m := &b.Layout.Metrics[i]
		id := metricID{m.Name, m.Unit, m.Scope, slices.Contains(b.Reported, m.Name)}
		c := all[id]
		if c == nil {
			c = &column{metricID: id, first: k}
			all[id] = c
		}
		for int32(len(c.at)) < k-c.first {
			c.at = append(c.at, -1)
		}
		c.at = append(c.at, int32(i))
	}
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
		if r.summary != nil {
			continue
		}
		for _, c := range columns {
			at := c.place(r.form)
			if at < 0 {
				continue
			}
			from := len(c.values)
			c.values = r.batch.AppendValues(c.values, at)
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

// reduction is a column's values reduced: their moments and deciles.
type reduction struct {
	quantile.Distribution
	certified *quantile.Summary // for the job's output; nil: without
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
		values, invalid := c.values, r.Invalid
		if sketch > 0 {
			values = values[:r.Count] // the values behind the valid ones are undefined
		}
		r.Distribution, quick = room.Certify(values, quantile.Quick)
		if r.Invalid += invalid; r.Count > 0 {
			r.share = &quick
		}
	}
	return r
}

// exact reduces a column of which all values are here.
func (c *column) exact(r *reduction) schemas.JobSummaryMetric {
	m := schemas.JobSummaryMetric{
		Name: c.name, Unit: c.unit, Scope: c.scope,
		Count: r.Count, Invalid: r.Invalid, Nodes: int32(len(c.nodes.means)),
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
		m.Certified = CertifiedOf(r.certified)
	}
	return m
}

// CertifiedOf returns a certified summary in the form of records.
func CertifiedOf(s *quantile.Summary) *schemas.Certified {
	c := schemas.NewCertified(s.Eps, s.Order, s.Knots, s.Atoms)
	return &c
}

// partial is one collector's share of the column for merge. Its moments add up, and its ranks of some values bound
// the deciles of the whole. r has a certified summary unless it is empty.
func (c *column) partial(r *reduction) schemas.JobPartialMetric {
	return partialOf(&c.metricID, r.Moments(), r.Invalid, &c.nodes, int32(len(c.nodes.means)), r.certified)
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
	m.Certified = *CertifiedOf(certified)
	return m
}

// numbers is a set of small numbers. It has a bit for each from the least to the greatest.
type numbers struct {
	first int32 // the word that comes first
	words []uint64
}

func (s *numbers) add(n int32) {
	word := n / 64
	if len(s.words) == 0 {
		s.first = word
	}
	if word < s.first {
		s.words = slices.Insert(s.words, 0, make([]uint64, s.first-word)...)
		s.first = word
	}
	for len(s.words) <= int(word-s.first) {
		s.words = append(s.words, 0)
	}
	s.words[word-s.first] |= 1 << (n % 64)
}

func (s *numbers) has(n int32) bool {
	word := int(n/64 - s.first)
	return word >= 0 && word < len(s.words) && s.words[word]>>(n%64)&1 == 1
}

func (s *numbers) count() int32 {
	n := 0
	for _, word := range s.words {
		n += bits.OnesCount64(word)
	}
	return int32(n)
}

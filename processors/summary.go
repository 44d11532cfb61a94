package processors

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/weirhpc/weir/quantile"
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
			s.Metrics = append(s.Metrics, reduced(&records[0].summary.Metrics[i].JobSummaryMetric))
		}
		return s
	}
	for _, c := range columns {
		s.Metrics = append(s.Metrics, c.exact())
	}
	if len(s.Metrics) == 0 {
		s.Method = schemas.MethodEstimated // nothing is known: EXACT would promise a value
	}
	return s
}

// reduced is a metric as its node reduced it, without numbers that contradict its count.
func reduced(m *schemas.JobSummaryMetric) schemas.JobSummaryMetric {
	if m.Count == 0 {
		return schemas.JobSummaryMetric{Name: m.Name, Unit: m.Unit, Scope: m.Scope, Invalid: m.Invalid}
	}
	return *m
}

// column is all that records say of one metric.
type column struct {
	name, unit, scope string
	values            []float64
	invalid           int64 // values that cannot stand beside the others: of another unit or scope
	nodes             nodeMeans

	// In _system alone. Shares and moments are of NodeSummaries: elsewhere one never stands beside other records of its job.
	// with has the nodes with a valid value: a node has a mean of each of its jobs.
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

type nodeMean struct {
	node string
	mean float64
}

// columns gathers columns by name. Of more than schemas.MaxMetrics names the least stay, in any order of arrival; until
// they are sorted there may be twice as many.
type columns struct {
	byName map[string]*column
	last   string              // the greatest name that may stay
	left   map[string]struct{} // names that do not stay; nil: all may
}

// column is where a metric's values go, and whether those of this unit and scope can stand beside those that are there. It
// is nil for a metric that is left out.
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

// sorted are the columns that stay, by name.
func (s *columns) sorted() []*column {
	s.cut()
	sorted := make([]*column, 0, len(s.byName))
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		sorted = append(sorted, s.byName[name])
	}
	return sorted
}

// surplus is how many metrics are left out.
func (s *columns) surplus() int64 { return int64(len(s.left)) }

// newColumns sorts the values of CounterBatches, ordered by node, by metric. The least node decides on a metric's unit and
// scope.
func newColumns(records []*nodeRecord) columns {
	all := columns{byName: map[string]*column{}}
	for _, r := range records {
		if r.batch == nil {
			continue
		}
		for i := range r.batch.Metrics {
			m := &r.batch.Metrics[i]
			c, fits := all.column(m.Name, m.Unit, m.Scope)
			switch {
			case c == nil:
			case fits:
				c.add(r.batch.Node, r.number, m.Values)
			default:
				c.invalid += int64(len(m.Values))
			}
		}
	}
	return all
}

func (c *column) add(node string, number int32, values []float64) {
	c.values = append(c.values, values...)
	if mean, ok := quantile.Mean(values); ok {
		c.nodes.add(nodeMean{node, mean}, nodeMean{node, mean})
		c.nodes.means, c.nodes.numbers = append(c.nodes.means, mean), append(c.nodes.numbers, number)
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
		Count: all.Count, Invalid: d.Invalid + c.invalid, Nodes: int32(len(c.nodes.means)), NodeMeans: int64(len(c.nodes.means)),
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
	m.Certified = schemas.NewCertified(certified.Eps, certified.Order, certified.Knots, certified.Atoms)
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

// system gathers, while Ticks close an interval, all that their jobs' records have: the collector's share of _system.
type system struct {
	nodes    map[string]int32 // that Ticks list, numbered as they come
	reported numbers          // those of which a record came
	shared   []string         // nodes that Ticks of other partitions list too
	columns  columns
	spare    [][]float64 // room for values, of the intervals before
}

// maxSharedBytes bounds how many shared nodes a share of _system names: with the largest metrics beside them it stays well
// below the largest message. The nodes beyond it are counted as if no other collector had them.
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

// join adds a job's records, in the order of their nodes, and their columns, which may be reduced afterwards.
func (s *system) join(records []*nodeRecord, columns []*column) {
	for _, c := range columns {
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
			s.joinReduced(r, &r.summary.Metrics[i])
		}
	}
}

// joinReduced adds what a node has reduced itself: its values where it says them all, else their summary.
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

// column is columns.column, with the room that a column of an earlier interval had.
func (s *system) column(name, unit, scope string) (c *column, fits bool) {
	c, fits = s.columns.column(name, unit, scope)
	if n := len(s.spare); n > 0 && c != nil && c.values == nil {
		c.values, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	return c, fits
}

// partial is the collector's share of the whole machine's interval. It is there in every interval, of all collectors.
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
		p.Metrics = append(p.Metrics, c.partial(quantile.Quick)) // of all values once more: BenchmarkInterval
	}
	return p
}

// mergePartials joins the shares of one window, at least one, ordered by collector. It is EXACT where there are metrics, and
// the shares name all values of each. surplus is how many metrics it leaves out.
func mergePartials(parts []*schemas.JobPartial) (s *schemas.JobSummary, surplus int64) {
	p := parts[0]
	s = &schemas.JobSummary{
		Cluster: p.Cluster, JobID: p.JobID, Restart: p.Restart, IntervalStart: p.IntervalStart, IntervalMs: p.IntervalMs,
		Method: schemas.MethodEstimated, Parts: p.Parts, PartsReported: int32(len(parts)), NodesExpected: p.JobNodes,
	}
	byName := map[string]*mergedMetric{}
	var reported int64
	for _, p := range parts {
		reported += int64(p.NodesReported)
		for i := range p.Metrics {
			m := &p.Metrics[i]
			if byName[m.Name] == nil {
				byName[m.Name] = &mergedMetric{JobSummaryMetric: schemas.JobSummaryMetric{Name: m.Name, Unit: m.Unit, Scope: m.Scope}}
			}
			byName[m.Name].add(m)
		}
	}
	s.NodesReported = int32(min(reported, math.MaxInt32))
	most := int64(math.MaxInt32) // nodes of a metric
	if s.JobID == schemas.JobSystem {
		s.NodesExpected, s.NodesReported = machineNodes(parts)
		most = int64(s.NodesReported) // collectors count the nodes that they share each for itself
	}
	names := slices.Sorted(maps.Keys(byName))
	if len(names) > schemas.MaxMetrics {
		surplus = int64(len(names) - schemas.MaxMetrics)
		names = names[:schemas.MaxMetrics]
	}
	complete := len(names) > 0
	for _, name := range names {
		m, all := byName[name].summary(most)
		complete = complete && all
		s.Metrics = append(s.Metrics, m)
	}
	if complete {
		s.Method = schemas.MethodExact
	}
	return s, surplus
}

// machineNodes counts the nodes of all collectors, those that they share once.
func machineNodes(parts []*schemas.JobPartial) (expected, reported int32) {
	shared := map[string]bool{} // whether a record came
	var e, r int64
	for _, p := range parts {
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
	return int32(min(e, math.MaxInt32)), int32(min(r, math.MaxInt32))
}

// mergedMetric gathers the shares of one metric, in collector order.
type mergedMetric struct {
	schemas.JobSummaryMetric
	values, means quantile.Moments
	nodes         int64
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
	m.nodes += int64(p.Nodes)
	m.values = m.values.Add(quantile.Moments{Count: p.Count, Mean: *p.Mean, M2: *p.M2})
	means := p.NodeMeans
	if means == 0 { // a record of before they were counted
		means = int64(p.Nodes)
	}
	m.means = m.means.Add(quantile.Moments{Count: means, Mean: *p.NodeMean, M2: *p.NodeM2})
	m.shares = append(m.shares, summaryOf(p.Count, &p.Certified))
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

// summary is the metric of all shares, and whether they name all its values. It counts at most so many
// nodes that have one.
func (m *mergedMetric) summary(most int64) (s schemas.JobSummaryMetric, complete bool) {
	s = m.JobSummaryMetric
	estimate, ok := quantile.Merge(m.shares)
	if !ok { // no value, or more than any machine has
		complete = s.Count == 0
		s.Invalid, s.Count = s.Invalid+s.Count, 0
		return s, complete
	}
	deciles := estimate.Deciles[:]
	mean := min(max(m.values.Mean, deciles[0]), deciles[quantile.N-1])
	stddev, nodeStddev := quantile.Stddev(m.values.M2, m.values.Count), quantile.Stddev(m.means.M2, max(1, m.means.Count))
	s.Nodes, s.Mean, s.Stddev, s.NodeStddev = int32(min(m.nodes, most)), &mean, &stddev, &nodeStddev
	s.LowNode, s.HighNode = &m.extremes.lowest.node, &m.extremes.highest.node
	s.Deciles, s.RankError = &deciles, &estimate.RankError
	if !estimate.Exact {
		lo, hi := estimate.Lo[:], estimate.Hi[:]
		s.Lo, s.Hi = &lo, &hi
	}
	return s, estimate.Complete
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
		if m.NodeMeans < 0 || m.NodeMeans > m.Count {
			return fmt.Errorf("metrics.node_means of %s: %d of %d values", m.Name, m.NodeMeans, m.Count)
		}
		if err := checkCertified(m.Name, m.Count, &m.Certified); err != nil {
			return err
		}
	}
	return nil
}

func checkNodeSummary(s *schemas.NodeSummary) error {
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if m.Invalid > quantile.MaxCount { // beside count it passes for less
			return fmt.Errorf("metrics.invalid of %s: %d", m.Name, m.Invalid)
		}
		if err := checkCertified(m.Name, m.Count, &m.Certified); err != nil {
			return err
		}
	}
	return nil
}

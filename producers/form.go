package producers

import (
	"math"
	"slices"

	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// form makes the records of one interval, one for each entry of the route. If the route asks for it, _rest receives the
// CPUs and GPUs that no entry names. head holds the fields that all records share; its Seq is the previous record's.
//
// The values of a node and of its sockets travel at most once. They go with the job if the route's only entry holds the
// whole node, otherwise with _rest if there is one.
//
// A CPU that an entry names but the sample lacks gets NaN, like a CPU that could not be read. So count and invalid of
// the job's row add up to its CPUs. The same holds for a GPU, if the sample contains any. The items refer to the sample
// and the route, so the caller must not change these afterwards.
func form(route *schemas.Route, s *sample, head schemas.NodeHeader) (items []item, unknown lacking) {
	head.IntervalStart, head.SampledAt, head.Epoch = s.start, s.sampledAt, route.Epoch
	alone := len(route.Entries) == 1 && len(route.Entries[0].Cpus) == 0
	gpus := s.gpus()
	taken, takenGPUs := make([]bool, len(s.cpus)), make([]bool, len(gpus))
	items = make([]item, 0, len(route.Entries)+1)
	own := jobColumns(route.Entries, s.jobs, s.cpus)
	for i, e := range route.Entries {
		p := portion{sample: s, node: alone, local: e.Mode == schemas.ModeLocal, cpus: s.cpus, gpus: gpus}
		if len(e.Cpus) > 0 {
			p.cpus, p.gpus = ascending(e.Cpus), nil
			unknown.cpus = append(unknown.cpus, take(p.cpus, s.cpus, taken)...)
			if len(gpus) > 0 {
				p.gpus = ascending(e.Gpus)
				unknown.gpus = append(unknown.gpus, take(p.gpus, gpus, takenGPUs)...)
			}
		}
		head.Seq++
		head.JobID, head.Restart = e.JobID, e.Restart
		p.head = head
		p.job, p.reported = own[i], reportedBy(head.Job(), s.reports)
		items = append(items, p.item(e.Partition))
	}
	if route.SendsRest() {
		head.Seq++
		head.JobID, head.Restart = schemas.JobRest, 0
		p := portion{sample: s, head: head, node: true, cpus: left(s.cpus, taken), gpus: left(gpus, takenGPUs)}
		items = append(items, p.item(route.Home))
	}
	for i := range items {
		items[i].bytes += s.bytes() / int64(len(items))
	}
	return items, unknown
}

// lacking lists the CPUs and GPUs that entries of a route name but the sample lacks.
type lacking struct{ cpus, gpus []int32 }

// gpus returns the numbers of the GPUs with values in the sample, ascending.
func (s *sample) gpus() []int32 {
	var gpus []int32
	for i := range s.columns {
		c := &s.columns[i]
		if c.Scope == schemas.ScopeGPU && len(gpus) == 0 {
			gpus = c.Rows
		} else if c.Scope == schemas.ScopeGPU && !slices.Equal(gpus, c.Rows) { // two sources differ
			gpus = ascending(append(slices.Clone(gpus), c.Rows...))
		}
	}
	return gpus
}

// ascending returns the distinct numbers in order. The numbers of a Route are so already, and are returned as they are.
func ascending(numbers []int32) []int32 {
	for i := 1; i < len(numbers); i++ {
		if numbers[i-1] >= numbers[i] {
			sorted := slices.Clone(numbers)
			slices.Sort(sorted)
			return slices.Compact(sorted)
		}
	}
	return numbers
}

// take marks the given numbers as taken. It returns the numbers that are not there.
func take(numbers, there []int32, taken []bool) (missing []int32) {
	for _, n := range numbers {
		if i, ok := slices.BinarySearch(there, n); ok {
			taken[i] = true
		} else {
			missing = append(missing, n)
		}
	}
	return missing
}

// left returns the numbers that nobody took.
func left(there []int32, taken []bool) []int32 {
	rest := make([]int32, 0, len(there))
	for i, n := range there {
		if !taken[i] {
			rest = append(rest, n)
		}
	}
	return rest
}

const (
	// itemBytes is the memory of an item and its portion, with their slots in slices and the allocator's overhead.
	// TestRingCountsItsMemory pins it.
	itemBytes = 320
	// columnBytes is the memory of a column beside its values.
	columnBytes = 96
	// jobBytes is the memory of a job's columns beside these, its name and its CPUs.
	jobBytes = 64
)

// bytes is the memory of a sample.
func (s *sample) bytes() int64 {
	n := 4*len(s.cpus) + columnsBytes(s.columns)
	for i := range s.jobs {
		n += jobBytes + len(s.jobs[i].Cgroup) + 4*len(s.jobs[i].CPUs) + columnsBytes(s.jobs[i].Columns)
	}
	for i := range s.reports {
		n += jobBytes + columnsBytes(s.reports[i].Columns)
	}
	return int64(n)
}

func columnsBytes(columns []source.Column) (n int) {
	for i := range columns {
		n += columnBytes + 8*len(columns[i].Values)
	}
	return n
}

// portion is the part of a sample that one record carries.
type portion struct {
	*sample
	head       schemas.NodeHeader // of the record, without cpus and sent_at
	cpus, gpus []int32            // numbers, ascending; the sample may lack some
	node       bool               // it includes the values of the node and of its sockets
	local      bool               // the record carries the distribution of the values in their place
	job        []source.Column    // of the job's cgroup
	reported   []source.Column    // by the job itself
}

func (h *portion) item(partition int32) item {
	own := cap(h.cpus) + cap(h.gpus)
	return item{start: h.start, partition: partition, portion: h, bytes: itemBytes + 4*int64(own)}
}

// record makes the record of a portion.
func (h *portion) record(sentAt int64) schemas.Record {
	head := h.head
	head.SentAt, head.Cpus = sentAt, h.cpus
	if h.local {
		return h.reduced(head)
	}
	return h.collected(head)
}

// each calls f for every metric of the portion. values may belong to the sample, so f must not change them. A metric of
// cores or GPUs is left out if the portion contains none of these.
func (h *portion) each(f func(c *source.Column, values []float64)) {
	at := positions(h.cpus, h.sample.cpus)
	for i := range h.columns {
		c := &h.columns[i]
		var values []float64
		switch c.Scope {
		case schemas.ScopeNode, schemas.ScopeSocket:
			if h.node {
				values = c.Values
			}
		case schemas.ScopeCore:
			values = pick(c.Values, at)
		case schemas.ScopeGPU:
			values = pick(c.Values, positions(h.gpus, c.Rows))
		}
		if len(values) > 0 {
			f(c, values)
		}
	}
	for i := range h.job {
		f(&h.job[i], h.job[i].Values)
	}
	for i := range h.reported {
		f(&h.reported[i], h.reported[i].Values)
	}
}

// positions returns the positions of the wanted numbers among those there, -1 for a missing number. It is nil if the
// lists are equal.
func positions(wanted, there []int32) []int {
	if slices.Equal(wanted, there) {
		return nil
	}
	at := make([]int, len(wanted))
	for k, n := range wanted {
		i, ok := slices.BinarySearch(there, n)
		if at[k] = i; !ok {
			at[k] = -1
		}
	}
	return at
}

// pick returns the values at positions, or all. At -1 there is none: NaN.
func pick(values []float64, at []int) []float64 {
	if at == nil {
		return values
	}
	some := make([]float64, len(at))
	for k, i := range at {
		if some[k] = math.NaN(); i >= 0 {
			some[k] = values[i]
		}
	}
	return some
}

// collected carries the portion's values to the collector that reduces the job.
func (h *portion) collected(head schemas.NodeHeader) *schemas.CounterBatch {
	b := &schemas.CounterBatch{NodeHeader: head, Metrics: make([]schemas.CounterBatchMetric, 0, len(h.columns))}
	h.each(func(c *source.Column, values []float64) {
		m := schemas.CounterBatchMetric{Name: c.Name, Unit: c.Unit, Scope: c.Scope, Values: values}
		b.Metrics = append(b.Metrics, m)
	})
	b.Reported = h.reportedNames()
	return b
}

// reduced carries the distribution of the portion's values, for a job that runs on this node alone.
func (h *portion) reduced(head schemas.NodeHeader) *schemas.NodeSummary {
	b := &schemas.NodeSummary{NodeHeader: head, Metrics: make([]schemas.NodeSummaryMetric, 0, len(h.columns))}
	h.each(func(c *source.Column, values []float64) {
		d, certified := quantile.Certify(slices.Clone(values), quantile.Large)
		b.Metrics = append(b.Metrics, summarize(d, certified, c, head.Node))
	})
	b.Reported = h.reportedNames()
	return b
}

// summarize writes the distribution of a job on this one node. It is exact, so it needs no bounds, and a single node
// has no deviation among nodes. Without valid values everything but the counts is nil.
func summarize(
	d quantile.Distribution, certified quantile.Summary, c *source.Column, node string,
) schemas.NodeSummaryMetric {
	m := schemas.NodeSummaryMetric{JobSummaryMetric: schemas.JobSummaryMetric{
		Name: c.Name, Unit: c.Unit, Scope: c.Scope, Count: d.Count, Invalid: d.Invalid,
	}}
	if d.Count == 0 {
		return m
	}
	v := &struct { // one allocation: a node with many jobs makes thousands of these in an interval
		mean, stddev, nodeStddev, rankError float64
		deciles                             [quantile.N]float64
		list                                []float64
		node                                string
	}{mean: d.Mean, stddev: d.Stddev(), deciles: d.Deciles, node: node}
	v.list = v.deciles[:]
	m.Nodes = 1
	m.Mean, m.Stddev, m.NodeStddev, m.RankError = &v.mean, &v.stddev, &v.nodeStddev, &v.rankError
	m.LowNode, m.HighNode = &v.node, &v.node
	m.Deciles = &v.list
	m.Certified = schemas.NewCertified(certified.Eps, certified.Order, certified.Knots, certified.Atoms)
	return m
}

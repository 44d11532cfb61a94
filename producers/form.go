package producers

import (
	"slices"

	"github.com/weirhpc/weir/producers/source"
	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
)

// form makes the records of one interval, one for each entry of the route. Where the route asks for it, _rest has the
// CPUs that no entry names. head holds the fields that all records have in common; its Seq is that of the record
// before.
//
// A node-scoped value travels at most once. It goes with the job where the route's only entry holds the whole node,
// otherwise with _rest if there is one.
//
// The CPUs in unknown are named by entries and absent from the sample; they are left out. The items hold the sample, so
// the caller must not change it afterwards.
func form(route *schemas.Route, s *sample, head schemas.NodeHeader) (items []item, unknown []int32) {
	head.IntervalStart, head.SampledAt, head.Epoch = s.start, s.sampledAt, route.Epoch
	alone := len(route.Entries) == 1 && len(route.Entries[0].Cpus) == 0
	taken := make([]bool, len(s.cpus))
	items = make([]item, 0, len(route.Entries)+1)
	for _, e := range route.Entries {
		at, missing := locate(e.Cpus, s.cpus)
		unknown = append(unknown, missing...)
		for _, i := range at {
			taken[i] = true
		}
		head.Seq++
		head.JobID, head.Restart = e.JobID, e.Restart
		items = append(items, (&portion{s, head, at, alone, e.Mode == schemas.ModeLocal}).item(e.Partition))
	}
	if route.SendsRest() {
		var at []int
		for i := range s.cpus {
			if !taken[i] {
				at = append(at, i)
			}
		}
		head.Seq++
		head.JobID, head.Restart = schemas.JobRest, 0
		items = append(items, (&portion{s, head, at, true, false}).item(route.Home))
	}
	for i := range items {
		items[i].bytes += s.bytes() / int64(len(items))
	}
	return items, unknown
}

const (
	// itemBytes is the memory of an item and its portion, their slots in slices and what the allocator adds.
	// TestRingCountsItsMemory pins it.
	itemBytes = 320
	// columnBytes is the memory of a column beside its values.
	columnBytes = 72
)

// bytes is the memory of a sample.
func (s *sample) bytes() int64 {
	n := 4 * len(s.cpus)
	for i := range s.columns {
		n += columnBytes + 8*len(s.columns[i].Values)
	}
	return int64(n)
}

// locate returns the ascending positions in have of the CPUs that an entry names, and the CPUs that are not there. An
// entry that names none has all. A CPU that is named twice counts once.
func locate(named, have []int32) (at []int, missing []int32) {
	if len(named) == 0 {
		for i := range have {
			at = append(at, i)
		}
		return at, nil
	}
	for _, c := range named {
		if i, ok := slices.BinarySearch(have, c); ok {
			at = append(at, i)
		} else {
			missing = append(missing, c)
		}
	}
	slices.Sort(at)
	return slices.Compact(at), missing
}

// portion is what one record carries of a sample.
type portion struct {
	*sample
	head  schemas.NodeHeader // of the record, without cpus and sent_at
	at    []int              // positions in cpus
	node  bool               // whether it has node-scoped values
	local bool               // whether the record has the distribution of the values, not the values
}

func (h *portion) item(partition int32) item {
	return item{start: h.start, partition: partition, portion: h, bytes: itemBytes + int64(8*cap(h.at))}
}

// record makes the record of a portion.
func (h *portion) record(sentAt int64) schemas.Record {
	head := h.head
	head.SentAt, head.Cpus = sentAt, h.cpuList()
	if h.local {
		return h.reduced(head)
	}
	return h.collected(head)
}

// each calls f for every metric of the portion. values may be those of the sample, so f must not change them. A
// core-scoped metric of no CPU has no values and is left out.
func (h *portion) each(f func(c *source.Column, values []float64)) {
	for i := range h.columns {
		c := &h.columns[i]
		switch {
		case c.Scope == schemas.ScopeNode && h.node,
			c.Scope == schemas.ScopeCore && len(h.at) == len(h.cpus) && len(h.at) > 0:
			f(c, c.Values)
		case c.Scope == schemas.ScopeCore && len(h.at) > 0:
			values := make([]float64, len(h.at))
			for k, i := range h.at {
				values[k] = c.Values[i]
			}
			f(c, values)
		}
	}
}

func (h *portion) cpuList() []int32 {
	list := make([]int32, len(h.at))
	for k, i := range h.at {
		list[k] = h.cpus[i]
	}
	return list
}

// collected carries the portion's values to the collector that reduces the job.
func (h *portion) collected(head schemas.NodeHeader) *schemas.CounterBatch {
	b := &schemas.CounterBatch{NodeHeader: head, Metrics: make([]schemas.CounterBatchMetric, 0, len(h.columns))}
	h.each(func(c *source.Column, values []float64) {
		m := schemas.CounterBatchMetric{Name: c.Name, Unit: c.Unit, Scope: c.Scope, Values: values}
		b.Metrics = append(b.Metrics, m)
	})
	return b
}

// reduced carries the distribution of the portion's values, for a job that runs on this node alone.
func (h *portion) reduced(head schemas.NodeHeader) *schemas.NodeSummary {
	b := &schemas.NodeSummary{NodeHeader: head, Metrics: make([]schemas.NodeSummaryMetric, 0, len(h.columns))}
	h.each(func(c *source.Column, values []float64) {
		d, certified := quantile.Certify(slices.Clone(values), quantile.Large)
		b.Metrics = append(b.Metrics, summarize(d, certified, c, head.Node))
	})
	return b
}

// summarize writes the distribution of a job on this one node. It is exact, so it has no bounds and no deviation among
// nodes. Without valid values everything but the counts is nil.
func summarize(d quantile.Distribution, certified quantile.Summary, c *source.Column, node string) schemas.NodeSummaryMetric {
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

package schemas

import (
	"encoding/binary"
	"slices"
)

// The codec of CounterBatch. Nearly all bytes of weir are CounterBatches, so these have a codec of their own. It is
// faster than the general one by a factor that BenchmarkBatch shows, and never differs from it:
//
//   - It writes the same bytes.
//   - It reads the form that it writes, and no other. It leaves everything else to the general one: blocks with their
//     size, arrays of several blocks, and all that is wrong. So errors have one home.
//
// TestBatchIsTheGeneralOne and FuzzBatch compare both.

// decodeBatch decodes the body of a CounterBatch. hasReported states whether the schema includes that field. It is not
// ok if the general decoder must decide. The result does not alias body.
//
// It reads twice: first to add up the sizes of texts, metrics and values, then to decode the record. So it allocates at
// most six times for any record, and never more than the body can fill.
func decodeBatch(body []byte, hasReported bool) (*CounterBatch, bool) {
	size := bodyReader{body: body}
	size.record(hasReported, nil)
	if size.failed || size.at < len(body) || size.metrics > MaxMetrics {
		return nil, false
	}
	b := &CounterBatch{}
	r := bodyReader{body: body, into: &bodyMemory{
		values: make([]float64, 0, size.values),
	}}
	r.into.text.Grow(size.text)
	r.record(hasReported, b)
	return b, !r.failed
}

// record reads all fields, in the order of the schema. With nil it only counts.
func (r *bodyReader) record(hasReported bool, b *CounterBatch) {
	if b == nil {
		b = &CounterBatch{}
	}
	b.Cluster, b.Node, b.BootID, b.RunID = r.string(), r.string(), r.string(), r.string()
	b.Seq, b.IntervalStart, b.IntervalMs = r.long(), r.long(), r.long()
	b.SampledAt, b.SentAt = r.long(), r.long()
	b.JobID, b.Restart, b.Epoch = r.string(), r.int(), r.long()
	cpus := r.items(1)
	if r.into != nil {
		b.Cpus = make([]int32, 0, cpus)
	}
	for range cpus {
		if c := r.int(); r.into != nil {
			b.Cpus = append(b.Cpus, c)
		}
	}
	r.end(cpus)
	r.metrics = r.items(4)
	if r.into != nil {
		b.Metrics = make([]CounterBatchMetric, r.metrics)
	}
	for i := range r.metrics {
		m := &CounterBatchMetric{}
		if r.into != nil {
			m = &b.Metrics[i]
		}
		m.Name, m.Unit, m.Scope, m.Values = r.string(), r.string(), r.string(), r.doubles()
	}
	r.end(r.metrics)
	if !hasReported {
		return
	}
	reported := r.items(1)
	if r.into != nil {
		b.Reported = make([]string, 0, reported)
	}
	for range reported {
		if s := r.string(); r.into != nil {
			b.Reported = append(b.Reported, s)
		}
	}
	r.end(reported)
}

// appendBatch appends the body of a CounterBatch.
func appendBatch(to []byte, b *CounterBatch) []byte {
	const longest = binary.MaxVarintLen64
	size := 20*longest + len(b.Cluster) + len(b.Node) + len(b.BootID) + len(b.RunID) + len(b.JobID) + 5*len(b.Cpus)
	for i := range b.Metrics {
		m := &b.Metrics[i]
		size += 5*longest + len(m.Name) + len(m.Unit) + len(m.Scope) + 8*len(m.Values)
	}
	for _, name := range b.Reported {
		size += longest + len(name)
	}
	to = slices.Grow(to, size)
	for _, text := range []string{b.Cluster, b.Node, b.BootID, b.RunID} {
		to = appendText(to, text)
	}
	for _, v := range []int64{b.Seq, b.IntervalStart, b.IntervalMs, b.SampledAt, b.SentAt} {
		to = binary.AppendVarint(to, v)
	}
	to = appendText(to, b.JobID)
	to = binary.AppendVarint(to, int64(b.Restart))
	to = binary.AppendVarint(to, b.Epoch)
	to = appendItems(to, b.Cpus, func(to []byte, c *int32) []byte { return binary.AppendVarint(to, int64(*c)) })
	to = appendItems(to, b.Metrics, func(to []byte, m *CounterBatchMetric) []byte {
		to = appendText(appendText(appendText(to, m.Name), m.Unit), m.Scope)
		return appendDoubles(to, m.Values)
	})
	return appendItems(to, b.Reported, func(to []byte, name *string) []byte { return appendText(to, *name) })
}

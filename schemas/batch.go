package schemas

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// The codec of CounterBatch. Nearly all bytes of weir are CounterBatches, so these have a codec of their own. It is
// faster than the general one by a factor that BenchmarkBatch shows, and never differs from it:
//
//   - It writes the same bytes.
//   - It reads the form that it writes, and no other. It leaves everything else to the general one: blocks with their
//     size, arrays of several blocks, and all that is wrong. So errors have one home.
//
// TestBatchIsTheGeneralOne and FuzzBatch compare both.

// decodeBatch decodes the body of a CounterBatch. hasReported tells whether the schema has that field. It is not ok if
// the general decoder must decide. The result does not alias body.
//
// It reads twice: first what the texts, metrics and values come to, and then the record. So it allocates at most six
// times, whatever the record has, and never more than the body can fill.
func decodeBatch(body []byte, hasReported bool) (*CounterBatch, bool) {
	size := batchReader{body: body}
	size.record(hasReported, nil)
	if size.failed || size.at < len(body) || size.metrics > MaxMetrics {
		return nil, false
	}
	b := &CounterBatch{}
	r := batchReader{body: body, into: &batchMemory{
		values: make([]float64, 0, size.values),
	}}
	r.into.text.Grow(size.text)
	r.record(hasReported, b)
	return b, !r.failed
}

// batchReader reads a body. Without memory it only counts.
type batchReader struct {
	body   []byte
	at     int // what is before it has been read
	failed bool
	into   *batchMemory

	text, metrics, values int // counted: bytes of all texts, and items
}

// batchMemory is what the fields of one record share.
type batchMemory struct {
	text   strings.Builder // has room for all texts, so that earlier ones stay where they are
	values []float64       // likewise
}

// fail ends the reading.
func (r *batchReader) fail() {
	r.failed, r.at = true, len(r.body)
}

// long reads an int or a long.
func (r *batchReader) long() int64 {
	if r.at < len(r.body) && r.body[r.at] < 0x80 { // most lengths
		u := uint64(r.body[r.at])
		r.at++
		return int64(u>>1) ^ -int64(u&1)
	}
	v, n := binary.Varint(r.body[r.at:])
	if n <= 0 {
		r.fail()
		return 0
	}
	r.at += n
	return v
}

func (r *batchReader) int() int32 {
	v := r.long()
	if v != int64(int32(v)) {
		r.fail()
	}
	return int32(v)
}

// bytes reads a string, and returns its bytes in the body.
func (r *batchReader) bytes() []byte {
	n := r.long()
	if n < 0 || n > int64(len(r.body)-r.at) {
		r.fail()
		return nil
	}
	r.at += int(n)
	return r.body[r.at-int(n) : r.at]
}

// string reads a string.
func (r *batchReader) string() string {
	text := r.bytes()
	r.text += len(text)
	if r.into == nil || len(text) == 0 {
		return ""
	}
	r.into.text.Write(text)
	return r.into.text.String()[r.into.text.Len()-len(text):]
}

// items reads the number of items in the only block of an array. Each takes width bytes at least.
func (r *batchReader) items(width int) int {
	n := r.long()
	if n < 0 || n > int64((len(r.body)-r.at)/width) {
		r.fail()
		return 0
	}
	return int(n)
}

// end reads the end of an array that has items.
func (r *batchReader) end(items int) {
	if items > 0 && r.long() != 0 {
		r.fail()
	}
}

// doubles reads an array of doubles.
func (r *batchReader) doubles() []float64 {
	n := r.items(8)
	raw := r.body[r.at : r.at+8*n]
	r.at += len(raw)
	r.end(n)
	r.values += n
	if r.into == nil || n == 0 {
		return nil
	}
	at := len(r.into.values)
	r.into.values = r.into.values[:at+n]
	values := r.into.values[at : at+n : at+n]
	readDoubles(values, raw)
	return values
}

// readDoubles fills values from their bytes.
func readDoubles(values []float64, raw []byte) {
	for i := range values {
		values[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
	}
}

// record reads all fields, in the order of the schema. With nil it only counts.
func (r *batchReader) record(hasReported bool, b *CounterBatch) {
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

func appendText(to []byte, text string) []byte {
	return append(binary.AppendVarint(to, int64(len(text))), text...)
}

// appendDoubles appends an array of doubles.
func appendDoubles(to []byte, values []float64) []byte {
	if len(values) > 0 {
		to = binary.AppendVarint(to, int64(len(values)))
		at := len(to)
		to = slices.Grow(to, 8*len(values))[:at+8*len(values)]
		raw := to[at:]
		for _, v := range values {
			binary.LittleEndian.PutUint64(raw, math.Float64bits(v))
			raw = raw[8:]
		}
	}
	return append(to, 0)
}

// appendItems appends an array: one block, unless it is empty, and its end.
func appendItems[T any](to []byte, items []T, one func(to []byte, item *T) []byte) []byte {
	if len(items) > 0 {
		to = binary.AppendVarint(to, int64(len(items)))
		for i := range items {
			to = one(to, &items[i])
		}
	}
	return append(to, 0)
}

package schemas

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// The codec of JobSummary, which collect and merge write, and the sink and find read, for every job and interval. Like
// the codec of CounterBatch it replaces the general one for one record, but it reads the newest schema only.
// TestSummaryIsTheGeneralOne and FuzzSummary compare both. BenchmarkSummary shows the gain.

// methods are the symbols of a JobSummary's method, in the order of the schema.
var methods = []string{MethodNode, MethodExact, MethodEstimated}

// decodeSummary decodes the body of a JobSummary. It is not ok if the general decoder must decide. The result does not
// alias body. Fields of one type share an array, so a caller that keeps a few of them should clone these.
//
// It reads twice, as decodeBatch does: first to count, then to decode. So it never allocates more than the body fills.
func decodeSummary(body []byte) (*JobSummary, bool) {
	size := summaryReader{bodyReader: bodyReader{body: body}}
	size.record(&JobSummary{})
	if size.failed || size.at < len(body) || size.metrics > MaxMetrics {
		return nil, false
	}
	r := summaryReader{
		bodyReader: bodyReader{body: body, into: &bodyMemory{values: make([]float64, 0, size.values)}},
		names:      make([]string, 0, size.nameCount), lists: make([][]float64, 0, size.listCount),
		certified: make([]Certified, 0, size.certifiedCount),
		knots:     make([]Knot, 0, size.knotCount), atoms: make([]Atom, 0, size.atomCount),
	}
	r.into.text.Grow(size.text)
	s := &JobSummary{Metrics: make([]JobSummaryMetric, size.metrics)}
	r.record(s)
	return s, !r.failed
}

// summaryReader reads the body of a JobSummary. Without memory it only counts.
type summaryReader struct {
	bodyReader

	// Memory that the metrics share. Each slice holds all items without growing, so that earlier pointers stay valid.
	names     []string
	lists     [][]float64
	certified []Certified
	knots     []Knot
	atoms     []Atom

	nameCount, listCount, certifiedCount, knotCount, atomCount int
}

// record reads all fields, in the order of the schema.
func (r *summaryReader) record(s *JobSummary) {
	s.Cluster, s.JobID, s.Restart = r.string(), r.string(), r.int()
	s.IntervalStart, s.IntervalMs = r.long(), r.long()
	if method := r.long(); method >= 0 && method < int64(len(methods)) {
		s.Method = methods[method]
	} else {
		r.fail()
	}
	s.Parts, s.PartsReported, s.NodesExpected, s.NodesReported = r.int(), r.int(), r.int(), r.int()
	r.metrics = r.items(18) // each of a metric's fields takes one byte at least
	for i := range r.metrics {
		m := &JobSummaryMetric{}
		if r.into != nil {
			m = &s.Metrics[i]
		}
		m.Name, m.Unit, m.Scope = r.string(), r.string(), r.string()
		m.Count, m.Invalid, m.Nodes = r.long(), r.long(), r.int()
		m.Mean, m.Stddev, m.NodeStddev = r.optional(), r.optional(), r.optional()
		m.LowNode, m.HighNode = r.name(), r.name()
		m.Deciles, m.RankError, m.Lo, m.Hi = r.list(), r.optional(), r.list(), r.list()
		m.Certified = r.certificate()
		m.LowNodeMean, m.HighNodeMean = r.optional(), r.optional()
	}
	r.end(r.metrics)
}

// present reads which branch of a union with null follows.
func (r *summaryReader) present() bool {
	branch := r.long()
	if branch != 0 && branch != 1 {
		r.fail()
	}
	return branch == 1
}

// kept counts a value of a union. With memory it also keeps the value, and returns its address.
func kept[T any](r *summaryReader, count *int, to *[]T, v T) *T {
	*count++
	if r.into == nil {
		return nil
	}
	*to = append(*to, v)
	return &(*to)[len(*to)-1]
}

// optional reads a double or null.
func (r *summaryReader) optional() *float64 {
	if !r.present() {
		return nil
	}
	v := r.double()
	r.values++
	if r.into == nil {
		return nil
	}
	r.into.values = append(r.into.values, v)
	return &r.into.values[len(r.into.values)-1]
}

// name reads a string or null.
func (r *summaryReader) name() *string {
	if !r.present() {
		return nil
	}
	return kept(r, &r.nameCount, &r.names, r.string())
}

// list reads an array of doubles or null.
func (r *summaryReader) list() *[]float64 {
	if !r.present() {
		return nil
	}
	v := r.doubles()
	if v == nil {
		v = []float64{} // and not null
	}
	return kept(r, &r.listCount, &r.lists, v)
}

// certificate reads a Certified or null.
func (r *summaryReader) certificate() *Certified {
	if !r.present() {
		return nil
	}
	c := Certified{Eps: r.double(), OrderStatistics: r.doubles()}
	c.Knots = pairs(r, &r.knotCount, &r.knots, func(v float64, rank int64) Knot { return Knot{v, rank} })
	c.Atoms = pairs(r, &r.atomCount, &r.atoms, func(v float64, n int64) Atom { return Atom{v, n} })
	return kept(r, &r.certifiedCount, &r.certified, c)
}

// pairs reads an array of knots or atoms.
func pairs[T any](r *summaryReader, count *int, to *[]T, pair func(float64, int64) T) []T {
	n := r.items(9)
	*count += n
	from := len(*to)
	for range n {
		v, k := r.double(), r.long()
		if r.into != nil {
			*to = append(*to, pair(v, k))
		}
	}
	r.end(n)
	return (*to)[from:len(*to):len(*to)]
}

// appendSummary appends the body of a JobSummary. It is not ok if no schema describes the record.
func appendSummary(to []byte, s *JobSummary) (_ []byte, ok bool) {
	method := slices.Index(methods, s.Method)
	if method < 0 {
		return nil, false
	}
	size := 10*binary.MaxVarintLen64 + len(s.Cluster) + len(s.JobID)
	for i := range s.Metrics {
		size += s.Metrics[i].most()
	}
	to = slices.Grow(to, size)
	to = appendText(appendText(to, s.Cluster), s.JobID)
	for _, v := range []int64{
		int64(s.Restart), s.IntervalStart, s.IntervalMs, int64(method), int64(s.Parts), int64(s.PartsReported),
		int64(s.NodesExpected), int64(s.NodesReported),
	} {
		to = binary.AppendVarint(to, v)
	}
	return appendItems(to, s.Metrics, appendSummaryMetric), true
}

// most returns the largest number of bytes of a metric.
func (m *JobSummaryMetric) most() int {
	size := 9*binary.MaxVarintLen64 + len(m.Name) + len(m.Unit) + len(m.Scope)
	size += 6 * (1 + 8) // numbers
	for _, name := range []*string{m.LowNode, m.HighNode} {
		if name != nil {
			size += len(*name)
		}
	}
	for _, list := range []*[]float64{m.Deciles, m.Lo, m.Hi} {
		size += 1 + binary.MaxVarintLen64
		if list != nil {
			size += 8 * len(*list)
		}
	}
	if c := m.Certified; c != nil {
		size += 1 + 8 + 8*len(c.OrderStatistics) + 3*(binary.MaxVarintLen64+1)
		for _, k := range c.Knots {
			size += 8 + varintBytes(k.Rank)
		}
		for _, a := range c.Atoms {
			size += 8 + varintBytes(a.Count)
		}
	}
	return size
}

// varintBytes returns the number of bytes of a long.
func varintBytes(v int64) int { return (bits.Len64(uint64(v)<<1^uint64(v>>63)|1) + 6) / 7 }

func appendSummaryMetric(to []byte, m *JobSummaryMetric) []byte {
	to = appendText(appendText(appendText(to, m.Name), m.Unit), m.Scope)
	for _, v := range []int64{m.Count, m.Invalid, int64(m.Nodes)} {
		to = binary.AppendVarint(to, v)
	}
	for _, v := range []*float64{m.Mean, m.Stddev, m.NodeStddev} {
		to = appendOptional(to, v, appendDouble)
	}
	to = appendOptional(appendOptional(to, m.LowNode, appendText), m.HighNode, appendText)
	to = appendOptional(appendList(to, m.Deciles), m.RankError, appendDouble)
	to = appendList(appendList(to, m.Lo), m.Hi)
	to = appendOptional(to, m.Certified, appendCertified)
	return appendOptional(appendOptional(to, m.LowNodeMean, appendDouble), m.HighNodeMean, appendDouble)
}

// appendOptional appends a union with null.
func appendOptional[T any](to []byte, v *T, one func([]byte, T) []byte) []byte {
	if v == nil {
		return append(to, 0)
	}
	return one(binary.AppendVarint(to, 1), *v)
}

// appendList appends a union of an array of doubles with null, which a nil list is too.
func appendList(to []byte, v *[]float64) []byte {
	if v != nil && *v == nil {
		v = nil
	}
	return appendOptional(to, v, appendDoubles)
}

func appendCertified(to []byte, c Certified) []byte {
	to = appendDoubles(appendDouble(to, c.Eps), c.OrderStatistics)
	to = appendItems(to, c.Knots, func(to []byte, k *Knot) []byte {
		return binary.AppendVarint(appendDouble(to, k.Value), k.Rank)
	})
	return appendItems(to, c.Atoms, func(to []byte, a *Atom) []byte {
		return binary.AppendVarint(appendDouble(to, a.Value), a.Count)
	})
}

package compact

import (
	"math"
	"math/bits"

	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// row is a row of the archive. In a compacted file the columns of the certified summary are null: the rollups have it.
type row struct {
	schemas.Row
	fresh bool // in no rollup yet
}

// cells maps a column to a field of a row. One of the functions is not nil.
type cells struct {
	text     func(*row) *string
	textPtr  func(*row) **string
	int32s   func(*row) *int32
	int32Ptr func(*row) **int32
	int64s   func(*row) *int64
	int64Ptr func(*row) **int64
	floatPtr func(*row) **float64
	list     func(*row) *[]float64
	longList func(*row) *[]int64
}

// columns are the columns of a row, in the file's order.
var columns = []struct {
	name string
	cells
}{
	{"cluster", cells{text: func(r *row) *string { return &r.Cluster }}},
	{"job_id", cells{text: func(r *row) *string { return &r.JobID }}},
	{"restart", cells{int32s: func(r *row) *int32 { return &r.Restart }}},
	{"interval_start", cells{int64s: func(r *row) *int64 { return &r.IntervalStart }}},
	{"interval_ms", cells{int64s: func(r *row) *int64 { return &r.IntervalMs }}},
	{"metric", cells{textPtr: func(r *row) **string { return &r.Metric }}},
	{"unit", cells{textPtr: func(r *row) **string { return &r.Unit }}},
	{"scope", cells{textPtr: func(r *row) **string { return &r.Scope }}},
	{"method", cells{text: func(r *row) *string { return &r.Method }}},
	{"parts", cells{int32s: func(r *row) *int32 { return &r.Parts }}},
	{"parts_reported", cells{int32s: func(r *row) *int32 { return &r.PartsReported }}},
	{"nodes_expected", cells{int32s: func(r *row) *int32 { return &r.NodesExpected }}},
	{"nodes_reported", cells{int32s: func(r *row) *int32 { return &r.NodesReported }}},
	{"nodes", cells{int32Ptr: func(r *row) **int32 { return &r.Nodes }}},
	{"count", cells{int64Ptr: func(r *row) **int64 { return &r.Count }}},
	{"invalid", cells{int64Ptr: func(r *row) **int64 { return &r.Invalid }}},
	{"mean", cells{floatPtr: func(r *row) **float64 { return &r.Mean }}},
	{"stddev", cells{floatPtr: func(r *row) **float64 { return &r.Stddev }}},
	{"node_stddev", cells{floatPtr: func(r *row) **float64 { return &r.NodeStddev }}},
	{"low_node", cells{textPtr: func(r *row) **string { return &r.LowNode }}},
	{"high_node", cells{textPtr: func(r *row) **string { return &r.HighNode }}},
	{"d0", cells{floatPtr: func(r *row) **float64 { return &r.D0 }}},
	{"d1", cells{floatPtr: func(r *row) **float64 { return &r.D1 }}},
	{"d2", cells{floatPtr: func(r *row) **float64 { return &r.D2 }}},
	{"d3", cells{floatPtr: func(r *row) **float64 { return &r.D3 }}},
	{"d4", cells{floatPtr: func(r *row) **float64 { return &r.D4 }}},
	{"d5", cells{floatPtr: func(r *row) **float64 { return &r.D5 }}},
	{"d6", cells{floatPtr: func(r *row) **float64 { return &r.D6 }}},
	{"d7", cells{floatPtr: func(r *row) **float64 { return &r.D7 }}},
	{"d8", cells{floatPtr: func(r *row) **float64 { return &r.D8 }}},
	{"d9", cells{floatPtr: func(r *row) **float64 { return &r.D9 }}},
	{"d10", cells{floatPtr: func(r *row) **float64 { return &r.D10 }}},
	{"rank_error", cells{floatPtr: func(r *row) **float64 { return &r.RankError }}},
	{"lo", cells{list: func(r *row) *[]float64 { return &r.Lo }}},
	{"hi", cells{list: func(r *row) *[]float64 { return &r.Hi }}},
	{"eps", cells{floatPtr: func(r *row) **float64 { return &r.Eps }}},
	{"order_statistics", cells{list: func(r *row) *[]float64 { return &r.OrderStatistics }}},
	{"knot_values", cells{list: func(r *row) *[]float64 { return &r.KnotValues }}},
	{"knot_ranks", cells{longList: func(r *row) *[]int64 { return &r.KnotRanks }}},
	{"atom_values", cells{list: func(r *row) *[]float64 { return &r.AtomValues }}},
	{"atom_counts", cells{longList: func(r *row) *[]int64 { return &r.AtomCounts }}},
	{"low_node_mean", cells{floatPtr: func(r *row) **float64 { return &r.LowNodeMean }}},
	{"high_node_mean", cells{floatPtr: func(r *row) **float64 { return &r.HighNodeMean }}},
}

// ofSummary reports whether a column belongs to the certified summary.
func ofSummary(name string) bool {
	switch name {
	case "eps", "order_statistics", "knot_values", "knot_ranks", "atom_values", "atom_counts":
		return true
	}
	return false
}

// Odd constants without a pattern, as in wyhash.
const (
	hashSeed  = 0xa0761d6478bd642f
	hashPrime = 0xe7037ed1a0b428db
	hashNull  = 0x8ebc6af09c88c6e3
)

func mix(h, v uint64) uint64 {
	high, low := bits.Mul64(h^v, hashPrime)
	return bits.RotateLeft64(h, 23) ^ high ^ low
}

func mixText(h uint64, s string) uint64 {
	h = mix(h, uint64(len(s)))
	for len(s) > 0 {
		var v uint64
		n := min(len(s), 8)
		for i := range n {
			v |= uint64(s[i]) << (8 * i)
		}
		h, s = mix(h, v), s[n:]
	}
	return h
}

// hash returns a hash of all columns of a row but the certified summary. The sum over the rows of a file does not
// depend on their order.
func (r *row) hash() uint64 {
	h := uint64(hashSeed)
	h = mixText(mixText(h, r.Cluster), r.JobID)
	h = mix(h, uint64(uint32(r.Restart))|uint64(uint32(r.Parts))<<32)
	h = mix(mix(h, uint64(r.IntervalStart)), uint64(r.IntervalMs))
	h = mixText(h, r.Method)
	h = mix(h, uint64(uint32(r.PartsReported))|uint64(uint32(r.NodesExpected))<<32)
	h = mix(h, uint64(uint32(r.NodesReported)))
	for _, s := range [...]*string{r.Metric, r.Unit, r.Scope, r.LowNode, r.HighNode} {
		if s == nil {
			h = mix(h, hashNull)
		} else {
			h = mixText(h, *s)
		}
	}
	if r.Nodes == nil {
		h = mix(h, hashNull)
	} else {
		h = mix(h, uint64(uint32(*r.Nodes)))
	}
	for _, n := range [...]*int64{r.Count, r.Invalid} {
		if n == nil {
			h = mix(h, hashNull)
		} else {
			h = mix(h, uint64(*n))
		}
	}
	for _, f := range [...]*float64{
		r.Mean, r.Stddev, r.NodeStddev, r.D0, r.D1, r.D2, r.D3, r.D4, r.D5, r.D6, r.D7, r.D8, r.D9, r.D10, r.RankError,
	} {
		if f == nil {
			h = mix(h, hashNull)
		} else {
			h = mix(h, math.Float64bits(*f))
		}
	}
	h = mixList(mixList(h, r.Lo, math.Float64bits), r.Hi, math.Float64bits)
	// A file of an older weir lacks these columns, and its footer holds the hash without them. So null changes nothing.
	for i, f := range [...]*float64{r.LowNodeMean, r.HighNodeMean} {
		if f != nil {
			h = mix(mix(h, uint64(i)), math.Float64bits(*f))
		}
	}
	return mix(h, h>>32)
}

func mixList[T any](h uint64, list []T, bits func(T) uint64) uint64 {
	h = mix(h, uint64(len(list)))
	for _, v := range list {
		h = mix(h, bits(v))
	}
	return h
}

// summaryHash returns a hash of the certified summary and of the row with that hash; 0 without one.
func (r *row) summaryHash(hash uint64) uint64 {
	lists := [...][]float64{r.OrderStatistics, r.KnotValues, r.AtomValues}
	if r.Eps == nil && len(lists[0])+len(lists[1])+len(lists[2])+len(r.KnotRanks)+len(r.AtomCounts) == 0 {
		return 0
	}
	h := uint64(hashNull)
	if r.Eps != nil {
		h = mix(hashSeed, math.Float64bits(*r.Eps))
	}
	for _, list := range lists {
		h = mixList(h, list, math.Float64bits)
	}
	for _, list := range [...][]int64{r.KnotRanks, r.AtomCounts} {
		h = mixList(h, list, func(n int64) uint64 { return uint64(n) })
	}
	return mix(h, hash)
}

// dropSummary sets the columns of the certified summary to null.
func (r *row) dropSummary() {
	r.Eps, r.OrderStatistics, r.KnotValues, r.KnotRanks, r.AtomValues, r.AtomCounts = nil, nil, nil, nil, nil, nil
}

// tally holds the numbers that a read-back compares: rows, their hashes in any order, and the bounds of their
// intervals.
type tally struct {
	rows        int64
	hash        uint64
	first, last int64  // of interval_start, in Unix milliseconds; 0 without rows
	summaries   uint64 // hashes of certified summaries, in any order
}

func (t *tally) add(r *row) {
	if t.rows == 0 {
		t.first, t.last = r.IntervalStart, r.IntervalStart
	}
	t.rows++
	hash := r.hash()
	t.hash += hash
	t.summaries += r.summaryHash(hash)
	t.first, t.last = min(t.first, r.IntervalStart), max(t.last, r.IntervalStart)
}

// put sets the fields of a footer that describe rows.
func (t tally) put(f *sink.Footer) {
	f.Rows, f.FirstInterval, f.LastInterval, f.Compacted.Hash = t.rows, t.first, t.last, t.hash
}

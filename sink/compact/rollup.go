package compact

import (
	"cmp"
	"slices"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// hourMs is how long a rollup's hour is.
const hourMs = 3_600_000

// rollupBudget bounds the certified summary of a rollup. With its fine grid, summaries of hours merge as well as those
// of intervals.
var rollupBudget = quantile.Budget{Bytes: 512, Ranks: 2048}

// Rollup is an hour of a metric of a job: all rows that begin in it. Users' queries rely on its columns.
type Rollup struct {
	Cluster string  `parquet:"cluster,dict"`
	JobID   string  `parquet:"job_id,dict"`
	Restart int32   `parquet:"restart"`
	Hour    int64   `parquet:"hour,timestamp(millisecond)"`
	Metric  *string `parquet:"metric,optional,dict"`
	Unit    *string `parquet:"unit,optional,dict"`
	Scope   *string `parquet:"scope,optional,dict"`

	Start int64 `parquet:"start,timestamp(millisecond)"` // of the first interval
	End   int64 `parquet:"end,timestamp(millisecond)"`   // of the last one

	Intervals         int64 `parquet:"intervals"`          // rows
	IntervalsMeasured int64 `parquet:"intervals_measured"` // rows with a value
	MeasuredMs        int64 `parquet:"measured_ms"`        // of the intervals measured
	NodesExpectedSum  int64 `parquet:"nodes_expected_sum"` // over the intervals
	NodesReportedSum  int64 `parquet:"nodes_reported_sum"`

	Count         int64    `parquet:"count"`
	Invalid       int64    `parquet:"invalid"`
	Mean          *float64 `parquet:"mean,optional"`
	Stddev        *float64 `parquet:"stddev,optional"`
	NodeStddevRMS *float64 `parquet:"node_stddev_rms,optional"` // over the intervals measured

	// The nodes that were lowest and highest in most intervals, and their shares of the intervals measured.
	LowNode       *string  `parquet:"low_node,optional,dict"`
	LowNodeShare  *float64 `parquet:"low_node_share,optional"`
	HighNode      *string  `parquet:"high_node,optional,dict"`
	HighNodeShare *float64 `parquet:"high_node_share,optional"`

	// All nodes that were lowest or highest in an interval, by name, and in how many.
	LowNodes   []string `parquet:"low_nodes,optional,list" parquet-element:",dict"`
	LowCounts  []int64  `parquet:"low_counts,optional,list"`
	HighNodes  []string `parquet:"high_nodes,optional,list" parquet-element:",dict"`
	HighCounts []int64  `parquet:"high_counts,optional,list"`

	D0        *float64  `parquet:"d0,optional"`
	D1        *float64  `parquet:"d1,optional"`
	D2        *float64  `parquet:"d2,optional"`
	D3        *float64  `parquet:"d3,optional"`
	D4        *float64  `parquet:"d4,optional"`
	D5        *float64  `parquet:"d5,optional"`
	D6        *float64  `parquet:"d6,optional"`
	D7        *float64  `parquet:"d7,optional"`
	D8        *float64  `parquet:"d8,optional"`
	D9        *float64  `parquet:"d9,optional"`
	D10       *float64  `parquet:"d10,optional"`
	RankError *float64  `parquet:"rank_error,optional"`
	Lo        []float64 `parquet:"lo,optional,list"`
	Hi        []float64 `parquet:"hi,optional,list"`

	// The certified summary of CertifiedCount values. Fewer than Count if some rows had none.
	CertifiedCount  int64     `parquet:"certified_count"`
	Eps             *float64  `parquet:"eps,optional"`
	OrderStatistics []float64 `parquet:"order_statistics,optional,list"`
	KnotValues      []float64 `parquet:"knot_values,optional,list"`
	KnotRanks       []int64   `parquet:"knot_ranks,optional,list"`
	AtomValues      []float64 `parquet:"atom_values,optional,list"`
	AtomCounts      []int64   `parquet:"atom_counts,optional,list"`
}

// Summary returns the certified summary, and whether there is one.
func (r *Rollup) Summary() (quantile.Summary, bool) {
	return summaryOf(r.CertifiedCount, &schemas.Row{
		Eps: r.Eps, OrderStatistics: r.OrderStatistics, KnotValues: r.KnotValues, KnotRanks: r.KnotRanks,
		AtomValues: r.AtomValues, AtomCounts: r.AtomCounts,
	})
}

// summaryOf returns the summary of a row, and whether it can be merged.
func summaryOf(count int64, r *schemas.Row) (s quantile.Summary, ok bool) {
	c := r.Certified()
	if c == nil || count <= 0 {
		return s, false
	}
	s = quantile.Summary{Count: count, Eps: c.Eps, Order: slices.Clone(c.OrderStatistics)}
	s.Knots, s.Atoms = slices.Grow(s.Knots, len(c.Knots)), slices.Grow(s.Atoms, len(c.Atoms))
	for _, k := range c.Knots {
		s.Knots = append(s.Knots, quantile.Knot(k))
	}
	for _, a := range c.Atoms {
		s.Atoms = append(s.Atoms, quantile.Atom(a))
	}
	return s, s.Check() == nil
}

func (r *Rollup) setSummary(s *quantile.Summary) {
	r.CertifiedCount, r.Eps = s.Count, &s.Eps
	r.OrderStatistics = s.Order
	for _, k := range s.Knots {
		r.KnotValues, r.KnotRanks = append(r.KnotValues, k.Value), append(r.KnotRanks, k.Rank)
	}
	for _, a := range s.Atoms {
		r.AtomValues, r.AtomCounts = append(r.AtomValues, a.Value), append(r.AtomCounts, a.Count)
	}
}

// compareRollups orders rollups like rows: by job, restart, metric with null first, and hour. If a metric changed its
// unit or scope, each gets a rollup of its own.
func compareRollups(a, b *Rollup) int {
	return cmp.Or(
		cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart), sink.CompareNullFirst(a.Metric, b.Metric),
		cmp.Compare(a.Hour, b.Hour), sink.CompareNullFirst(a.Unit, b.Unit), sink.CompareNullFirst(a.Scope, b.Scope))
}

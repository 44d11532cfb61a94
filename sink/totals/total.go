// Package totals makes one row of each metric of a job over its whole life, once the job has ended.
//
// Totals are derived: they are made of the rollups of compacted dates, and of small files, which are folded into hours
// first. So a second run writes the same bytes, and a compaction in between changes none of them.
//
// total.go, final.go and plan.go decide, without disk, brokers or clock. The rest carries it out.
package totals

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
	"github.com/weirhpc/weir/sink/compact"
)

// Total is a metric of a job over its whole life. Users' queries rely on its columns.
type Total struct {
	Cluster string  `parquet:"cluster,dict" json:"cluster"`
	JobID   string  `parquet:"job_id,dict" json:"job_id"`
	Restart int32   `parquet:"restart" json:"restart"`
	Metric  *string `parquet:"metric,optional,dict" json:"metric"` // null: of summaries without metrics alone
	Unit    *string `parquet:"unit,optional,dict" json:"unit"`
	Scope   *string `parquet:"scope,optional,dict" json:"scope"`

	Start int64 `parquet:"start,timestamp(millisecond)" json:"start"` // of the first interval
	End   int64 `parquet:"end,timestamp(millisecond)" json:"end"`     // of the last one

	Intervals         int64    `parquet:"intervals" json:"intervals"`
	IntervalsMeasured int64    `parquet:"intervals_measured" json:"intervals_measured"` // those with a value
	MeasuredS         float64  `parquet:"measured_s" json:"measured_s"`
	NodesExpectedSum  int64    `parquet:"nodes_expected_sum" json:"nodes_expected_sum"`
	NodesReportedSum  int64    `parquet:"nodes_reported_sum" json:"nodes_reported_sum"`
	Completeness      *float64 `parquet:"completeness,optional" json:"completeness"` // reported by expected

	Count         int64    `parquet:"count" json:"count"`
	Invalid       int64    `parquet:"invalid" json:"invalid"`
	Mean          *float64 `parquet:"mean,optional" json:"mean"`
	Min           *float64 `parquet:"min,optional" json:"min"`
	Max           *float64 `parquet:"max,optional" json:"max"`
	Stddev        *float64 `parquet:"stddev,optional" json:"stddev"`
	NodeStddevRMS *float64 `parquet:"node_stddev_rms,optional" json:"node_stddev_rms"`

	LowNode       *string  `parquet:"low_node,optional,dict" json:"low_node"`
	LowNodeShare  *float64 `parquet:"low_node_share,optional" json:"low_node_share"`
	HighNode      *string  `parquet:"high_node,optional,dict" json:"high_node"`
	HighNodeShare *float64 `parquet:"high_node_share,optional" json:"high_node_share"`

	D0        *float64  `parquet:"d0,optional" json:"d0"`
	D1        *float64  `parquet:"d1,optional" json:"d1"`
	D2        *float64  `parquet:"d2,optional" json:"d2"`
	D3        *float64  `parquet:"d3,optional" json:"d3"`
	D4        *float64  `parquet:"d4,optional" json:"d4"`
	D5        *float64  `parquet:"d5,optional" json:"d5"`
	D6        *float64  `parquet:"d6,optional" json:"d6"`
	D7        *float64  `parquet:"d7,optional" json:"d7"`
	D8        *float64  `parquet:"d8,optional" json:"d8"`
	D9        *float64  `parquet:"d9,optional" json:"d9"`
	D10       *float64  `parquet:"d10,optional" json:"d10"`
	RankError *float64  `parquet:"rank_error,optional" json:"rank_error"`
	Lo        []float64 `parquet:"lo,optional,list" json:"lo"` // null where the deciles are exact
	Hi        []float64 `parquet:"hi,optional,list" json:"hi"`

	CertifiedCount int64 `parquet:"certified_count" json:"certified_count"` // values that the deciles are made of
	Final          bool  `parquet:"final" json:"final"`
}

// life collects the hours of a metric of a job, in time order.
type life struct {
	*compact.Life
	of        *picked
	first     *compact.Rollup
	certified int64
	measured  int             // hours with a value
	only      *compact.Rollup // the last of them
}

func (l *life) add(r *compact.Rollup) {
	l.Add(r)
	l.certified += r.CertifiedCount
	if r.Count > 0 {
		l.measured++
		l.only = r
	}
}

// total returns the total of all hours.
func (l *life) total(final bool) Total {
	r, shares := l.Done()
	t := Total{
		Cluster: r.Cluster, JobID: r.JobID, Restart: r.Restart, Metric: r.Metric, Unit: r.Unit, Scope: r.Scope,
		Start: r.Start, End: r.End, Intervals: r.Intervals, IntervalsMeasured: r.IntervalsMeasured,
		MeasuredS: float64(r.MeasuredMs) / 1000, NodesExpectedSum: r.NodesExpectedSum,
		NodesReportedSum: r.NodesReportedSum, Count: r.Count, Invalid: r.Invalid, Mean: r.Mean, Min: r.D0, Max: r.D10,
		Stddev: r.Stddev, NodeStddevRMS: r.NodeStddevRMS, LowNode: r.LowNode, LowNodeShare: r.LowNodeShare,
		HighNode: r.HighNode, HighNodeShare: r.HighNodeShare, D0: r.D0, D10: r.D10,
		CertifiedCount: l.certified, Final: final,
	}
	if r.NodesExpectedSum > 0 {
		completeness := float64(r.NodesReportedSum) / float64(r.NodesExpectedSum)
		t.Completeness = &completeness
	}
	switch {
	case l.certified != r.Count || r.Count == 0: // some rows had no certified summary
	case l.measured == 1:
		t.takeDeciles(l.only)
	default:
		t.mergeDeciles(shares)
	}
	t.keepFinite()
	return t
}

// keepFinite replaces numbers that are not finite by null. JSON cannot express them, and only damaged files lead to
// one.
func (t *Total) keepFinite() {
	for _, cell := range []**float64{
		&t.Mean, &t.Min, &t.Max, &t.Stddev, &t.NodeStddevRMS, &t.LowNodeShare, &t.HighNodeShare, &t.D0, &t.D1, &t.D2,
		&t.D3, &t.D4, &t.D5, &t.D6, &t.D7, &t.D8, &t.D9, &t.D10, &t.RankError,
	} {
		if *cell != nil && !finite(**cell) {
			*cell = nil
		}
	}
	for _, list := range []*[]float64{&t.Lo, &t.Hi} {
		if slices.ContainsFunc(*list, func(v float64) bool { return !finite(v) }) {
			*list = nil
		}
	}
}

func finite(v float64) bool { return v-v == 0 }

// Deciles returns d0 to d10. A missing one is nil.
func (t *Total) Deciles() [11]*float64 {
	return [11]*float64{t.D0, t.D1, t.D2, t.D3, t.D4, t.D5, t.D6, t.D7, t.D8, t.D9, t.D10}
}

// takeDeciles takes over the deciles of the only hour. They may be exact even if its summary is not.
func (t *Total) takeDeciles(r *compact.Rollup) {
	t.D1, t.D2, t.D3, t.D4, t.D5, t.D6, t.D7, t.D8, t.D9 = r.D1, r.D2, r.D3, r.D4, r.D5, r.D6, r.D7, r.D8, r.D9
	t.RankError, t.Lo, t.Hi = r.RankError, r.Lo, r.Hi
}

func (t *Total) mergeDeciles(shares []quantile.Summary) {
	e, ok := quantile.Merge(shares)
	if !ok || e.Count != t.Count {
		return
	}
	for k, cell := range []**float64{&t.D1, &t.D2, &t.D3, &t.D4, &t.D5, &t.D6, &t.D7, &t.D8, &t.D9} {
		*cell = &e.Deciles[k+1]
	}
	t.RankError = &e.RankError
	if !e.Exact {
		t.Lo, t.Hi = e.Lo[:], e.Hi[:]
	}
}

// folder makes totals of hours that come by job, restart, metric and then in time order.
type folder struct {
	// whose returns the life to which a job's hour with this first interval belongs; nil if no life gets a total of it.
	whose func(k schemas.JobKey, ms int64) *picked
	out   func(*Total) error
	open  []*life // of one job, restart and metric: one for each life, unit and scope
}

func (f *folder) add(r *compact.Rollup) error {
	of := f.whose(schemas.JobKey{JobID: r.JobID, Restart: r.Restart}, r.Start)
	if of == nil {
		return nil
	}
	if len(f.open) > 0 {
		o := f.open[0].first
		if o.JobID != r.JobID || o.Restart != r.Restart || sink.CompareNullFirst(o.Metric, r.Metric) != 0 {
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
	for _, l := range f.open {
		if l.of == of && l.Has(r) {
			l.add(r)
			return nil
		}
	}
	l := &life{Life: compact.NewLife(r), of: of, first: r}
	l.add(r)
	f.open = append(f.open, l)
	return nil
}

// flush passes the open totals to out.
func (f *folder) flush() error {
	var all []Total
	for _, l := range f.open {
		all = append(all, l.total(l.of.final))
	}
	f.open = f.open[:0]
	slices.SortFunc(all, compareTotals)
	for i := range all {
		if err := f.out(&all[i]); err != nil {
			return err
		}
	}
	return nil
}

// compareTotals orders totals as a file does: by job, restart, metric with null first, unit, scope and time.
func compareTotals(a, b Total) int {
	return cmp.Or(
		strings.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart), sink.CompareNullFirst(a.Metric, b.Metric),
		sink.CompareNullFirst(a.Unit, b.Unit), sink.CompareNullFirst(a.Scope, b.Scope), cmp.Compare(a.Start, b.Start))
}

package compact

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
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

// summaryOf returns the summary of a row, and whether it has one that merges.
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

func compareTexts(a, b *string) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return cmp.Compare(*a, *b)
}

// compareRollups orders rollups as rows are: by job, restart, metric with null first, and hour. A metric that changed
// its unit or scope has one of each.
func compareRollups(a, b *Rollup) int {
	return cmp.Or(
		cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Restart, b.Restart), compareTexts(a.Metric, b.Metric),
		cmp.Compare(a.Hour, b.Hour), compareTexts(a.Unit, b.Unit), compareTexts(a.Scope, b.Scope))
}

// hour is a rollup that is being made.
type hour struct {
	Rollup      // its key and sums; the rest is set by done
	moments     quantile.Moments
	squares     float64 // of node_stddev, over the intervals measured
	least, most *float64
	low, high   map[string]int64 // intervals by node
	shares      []quantile.Summary
	room        *quantile.Joiner
}

func newHour(key Rollup) *hour {
	return &hour{Rollup: key, low: map[string]int64{}, high: map[string]int64{}, room: new(quantile.Joiner)}
}

// keyOf returns a rollup with nothing but the key of a row.
func keyOf(r *row) Rollup {
	key := Rollup{Cluster: r.Cluster, JobID: r.JobID, Restart: r.Restart, Hour: r.IntervalStart}
	key.Hour -= (r.IntervalStart%hourMs + hourMs) % hourMs
	for _, text := range [][2]**string{{&key.Metric, &r.Metric}, {&key.Unit, &r.Unit}, {&key.Scope, &r.Scope}} {
		*text[0] = copied(*text[1])
	}
	return key
}

// copied returns a pointer that stays valid: those of a row point into its batch.
func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// spread widens the bounds by two values, either of which may be missing.
func (h *hour) spread(least, most *float64) {
	if least != nil && (h.least == nil || *least < *h.least) {
		h.least = copied(least)
	}
	if most != nil && (h.most == nil || *most > *h.most) {
		h.most = copied(most)
	}
}

// add adds a row. The row is not needed any longer then.
func (h *hour) add(r *row) {
	h.Intervals++
	h.NodesExpectedSum += int64(r.NodesExpected)
	h.NodesReportedSum += int64(r.NodesReported)
	if r.Invalid != nil {
		h.Invalid += *r.Invalid
	}
	if r.Count == nil || *r.Count <= 0 {
		return
	}
	h.IntervalsMeasured++
	h.MeasuredMs += r.IntervalMs
	h.Count += *r.Count
	if r.Mean != nil && r.Stddev != nil {
		h.moments = h.moments.Add(momentsOf(*r.Count, *r.Mean, *r.Stddev))
	}
	if r.NodeStddev != nil {
		h.squares += float64(*r.NodeStddev * *r.NodeStddev)
	}
	if r.LowNode != nil {
		h.low[*r.LowNode]++
	}
	if r.HighNode != nil {
		h.high[*r.HighNode]++
	}
	h.spread(r.D0, r.D10)
	s, ok := summaryOf(*r.Count, &schemas.Row{
		Eps: copied(r.Eps), OrderStatistics: r.OrderStatistics, KnotValues: r.KnotValues, KnotRanks: r.KnotRanks,
		AtomValues: r.AtomValues, AtomCounts: r.AtomCounts,
	})
	if ok {
		h.shares = append(h.shares, s)
	}
}

func momentsOf(count int64, mean, stddev float64) quantile.Moments {
	return quantile.Moments{Count: count, Mean: mean, M2: min(stddev*stddev*float64(count), math.MaxFloat64)}
}

// join adds a rollup of the same hour, made of other rows. Of its nodes only the most frequent are known. So the shares
// of nodes are lower bounds then.
func (h *hour) join(r *Rollup) {
	h.Intervals += r.Intervals
	h.IntervalsMeasured += r.IntervalsMeasured
	h.MeasuredMs += r.MeasuredMs
	h.NodesExpectedSum += r.NodesExpectedSum
	h.NodesReportedSum += r.NodesReportedSum
	h.Count += r.Count
	h.Invalid += r.Invalid
	if r.Mean != nil && r.Stddev != nil {
		h.moments = h.moments.Add(momentsOf(r.Count, *r.Mean, *r.Stddev))
	}
	measured := float64(r.IntervalsMeasured)
	if r.NodeStddevRMS != nil {
		h.squares += float64(*r.NodeStddevRMS * *r.NodeStddevRMS * measured)
	}
	if r.LowNode != nil && r.LowNodeShare != nil {
		h.low[*r.LowNode] += int64(math.Round(*r.LowNodeShare * measured))
	}
	if r.HighNode != nil && r.HighNodeShare != nil {
		h.high[*r.HighNode] += int64(math.Round(*r.HighNodeShare * measured))
	}
	h.spread(r.D0, r.D10)
	if s, ok := r.Summary(); ok {
		h.shares = append(h.shares, s)
	}
}

// done returns the rollup.
func (h *hour) done() Rollup {
	r := h.Rollup
	if r.Count == 0 {
		return r
	}
	if h.moments.Count > 0 {
		stddev := quantile.Stddev(h.moments.M2, h.moments.Count)
		r.Mean, r.Stddev = &h.moments.Mean, &stddev
	}
	rms := math.Sqrt(h.squares / float64(r.IntervalsMeasured))
	r.NodeStddevRMS = &rms
	r.LowNode, r.LowNodeShare = mostFrequent(h.low, r.IntervalsMeasured)
	r.HighNode, r.HighNodeShare = mostFrequent(h.high, r.IntervalsMeasured)
	r.D0, r.D10 = h.least, h.most
	if s, ok := joinShares(h.room, h.shares); ok {
		r.setSummary(&s)
		if s.Count == r.Count {
			r.setDeciles(h.shares, s)
		}
	}
	return r
}

// joinShares returns one summary within the budget.
func joinShares(room *quantile.Joiner, shares []quantile.Summary) (quantile.Summary, bool) {
	if len(shares) == 1 && shares[0].Bytes() <= rollupBudget.Bytes {
		return shares[0], true // its ranks are exact: no other summary is better
	}
	return room.Recompress(shares, rollupBudget)
}

// setDeciles sets the deciles and their bounds. They are exact where all values are known, even if the summary has no
// room for them. Otherwise they are those of the summary.
func (r *Rollup) setDeciles(shares []quantile.Summary, s quantile.Summary) {
	if slices.ContainsFunc(shares, func(s quantile.Summary) bool { return len(s.Atoms) == 0 }) {
		shares = []quantile.Summary{s}
	}
	e, ok := quantile.Merge(shares)
	if !ok {
		return
	}
	for k, cell := range []**float64{nil, &r.D1, &r.D2, &r.D3, &r.D4, &r.D5, &r.D6, &r.D7, &r.D8, &r.D9} {
		if cell != nil {
			*cell = &e.Deciles[k]
		}
	}
	r.RankError = &e.RankError
	if !e.Exact {
		r.Lo, r.Hi = e.Lo[:], e.Hi[:]
	}
}

// mostFrequent returns the node of most intervals, and its share of them; of several the one with the least name.
func mostFrequent(by map[string]int64, intervals int64) (*string, *float64) {
	var node string
	most := int64(0)
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if by[name] > most {
			node, most = name, by[name]
		}
	}
	if most == 0 {
		return nil, nil
	}
	share := float64(most) / float64(intervals)
	return &node, &share
}

// folder makes rollups of rows that come in the order of the files.
type folder struct {
	open []*hour // of one job, restart, metric and hour: one for each unit and scope
	out  func(*Rollup) error
	room quantile.Joiner
}

func (f *folder) add(r *row) error {
	key := keyOf(r)
	if len(f.open) > 0 {
		o := &f.open[0].Rollup
		if o.Hour != key.Hour || o.JobID != key.JobID || o.Restart != key.Restart ||
			compareTexts(o.Metric, key.Metric) != 0 {
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
	for _, h := range f.open {
		if compareRollups(&h.Rollup, &key) == 0 {
			h.add(r)
			return nil
		}
	}
	h := newHour(key)
	h.room = &f.room
	h.add(r)
	f.open = append(f.open, h)
	return nil
}

// flush gives away what is open.
func (f *folder) flush() error {
	slices.SortFunc(f.open, func(a, b *hour) int { return compareRollups(&a.Rollup, &b.Rollup) })
	for _, h := range f.open {
		r := h.done()
		if err := f.out(&r); err != nil {
			return err
		}
	}
	f.open = f.open[:0]
	return nil
}

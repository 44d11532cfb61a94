package compact

import (
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/quantile"
	"github.com/weirhpc/weir/schemas"
	"github.com/weirhpc/weir/sink"
)

// hour is a rollup that is being made.
type hour struct {
	Rollup      // its key and sums; the rest is set by done
	moments     quantile.Moments
	nodes       squares // of node_stddev, over the intervals measured
	least, most *float64
	low, high   map[string]int64 // intervals by node
	shares      []quantile.Summary
	room        *quantile.Joiner
}

// squares is a sum of squares. The squares of the largest numbers overflow, so a second sum scales all numbers by a
// power of two. If nothing overflows, the plain sum counts, so results keep their bits.
type squares struct{ plain, scaled float64 }

// squaresScale leaves room for 2^176 squares of the largest number.
const squaresScale = 0x1p-600

func (s *squares) add(v float64, times int64) {
	s.plain += float64(v * v * float64(times))
	v *= squaresScale
	s.scaled += float64(v * v * float64(times))
}

// rms is the root of the mean of n squares; nil if one of the numbers was not finite.
func (s *squares) rms(n int64) *float64 {
	root := math.Sqrt(s.plain / float64(n))
	if math.IsInf(s.plain, 0) {
		root = min(math.Sqrt(s.scaled/float64(n))/squaresScale, math.MaxFloat64)
	}
	if s.scaled-s.scaled != 0 {
		return nil
	}
	return &root
}

func newHour(key Rollup) *hour {
	return &hour{Rollup: key, low: map[string]int64{}, high: map[string]int64{}, room: new(quantile.Joiner)}
}

// hourOf returns the start of the hour that contains a time.
func hourOf(ms int64) int64 { return ms - (ms%hourMs+hourMs)%hourMs }

// keyOf returns a rollup with nothing but the key of a row.
func keyOf(r *row) Rollup {
	key := Rollup{Cluster: r.Cluster, JobID: r.JobID, Restart: r.Restart, Hour: hourOf(r.IntervalStart)}
	for _, text := range [][2]**string{{&key.Metric, &r.Metric}, {&key.Unit, &r.Unit}, {&key.Scope, &r.Scope}} {
		*text[0] = copied(*text[1])
	}
	return key
}

// copied returns a pointer that stays valid. The pointers of a row point into its batch.
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

// cover widens the time that the intervals cover.
func (h *hour) cover(start, end int64) {
	if h.Intervals == 0 {
		h.Start, h.End = start, end
	}
	h.Start, h.End = min(h.Start, start), max(h.End, end)
}

// add adds a row. The row is not needed any longer then.
func (h *hour) add(r *row) {
	h.cover(r.IntervalStart, r.IntervalStart+r.IntervalMs)
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
		h.nodes.add(*r.NodeStddev, 1)
	}
	if r.LowNode != nil {
		h.low[*r.LowNode]++
	}
	if r.HighNode != nil {
		h.high[*r.HighNode]++
	}
	h.spread(r.D0, r.D10)
	if s, ok := summaryOf(*r.Count, &r.Row); ok {
		h.shares = append(h.shares, s)
	}
}

func momentsOf(count int64, mean, stddev float64) quantile.Moments {
	return quantile.Moments{Count: count, Mean: mean, M2: min(stddev*stddev*float64(count), math.MaxFloat64)}
}

// join adds a rollup that was made of other rows.
func (h *hour) join(r *Rollup) {
	h.cover(r.Start, r.End)
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
	if r.NodeStddevRMS != nil {
		h.nodes.add(*r.NodeStddevRMS, r.IntervalsMeasured)
	}
	addCounts(h.low, r.LowNodes, r.LowCounts)
	addCounts(h.high, r.HighNodes, r.HighCounts)
	h.spread(r.D0, r.D10)
	if s, ok := r.Summary(); ok {
		h.shares = append(h.shares, s)
	}
}

// addCounts adds how often nodes were lowest, or highest. Lists of two lengths were not written by a compaction.
func addCounts(to map[string]int64, nodes []string, counts []int64) {
	for i := range min(len(nodes), len(counts)) {
		to[nodes[i]] += counts[i]
	}
}

// sums returns the rollup without deciles and without a certified summary.
func (h *hour) sums() Rollup {
	r := h.Rollup
	if r.Count == 0 {
		return r
	}
	if h.moments.Count > 0 {
		stddev := quantile.Stddev(h.moments.M2, h.moments.Count)
		r.Mean, r.Stddev = &h.moments.Mean, &stddev
	}
	r.NodeStddevRMS = h.nodes.rms(r.IntervalsMeasured)
	r.LowNode, r.LowNodeShare = mostFrequent(h.low, r.IntervalsMeasured)
	r.HighNode, r.HighNodeShare = mostFrequent(h.high, r.IntervalsMeasured)
	r.LowNodes, r.LowCounts = listed(h.low)
	r.HighNodes, r.HighCounts = listed(h.high)
	r.D0, r.D10 = h.least, h.most
	return r
}

// listed returns nodes by name, and their counts.
func listed(by map[string]int64) (nodes []string, counts []int64) {
	for _, name := range slices.Sorted(maps.Keys(by)) {
		nodes, counts = append(nodes, name), append(counts, by[name])
	}
	return nodes, counts
}

// done returns the rollup.
func (h *hour) done() Rollup {
	r := h.sums()
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

// setDeciles sets the deciles and their bounds. They are exact if all values are known, even if they do not fit into
// the summary. Otherwise they come from the summary.
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
	of   *chosen // its cut hours begin when the id passed on; nil: no hour is cut
}

func (f *folder) add(r *row) error {
	key := keyOf(r)
	if since, is := f.of.cut(r.JobID, r.Restart, r.IntervalStart); is {
		key.Hour = since
	}
	if len(f.open) > 0 {
		o := &f.open[0].Rollup
		if o.Hour != key.Hour || o.JobID != key.JobID || o.Restart != key.Restart ||
			sink.CompareNullFirst(o.Metric, key.Metric) != 0 {
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

// flush passes the open rollups to out.
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

// Fold returns the rollups of rows, which come in the order of a file.
func Fold(rows []schemas.Row) (all []Rollup, err error) {
	f := &folder{out: func(r *Rollup) error { all = append(all, *r); return nil }}
	for i := range rows {
		if err := f.add(&row{Row: rows[i]}); err != nil {
			return nil, err
		}
	}
	return all, f.flush()
}

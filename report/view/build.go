package view

import (
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// MaxBins is the default for the largest number of bins in a picture.
const MaxBins = 240

// Builder makes the picture of one life of a job from rows in any order. It holds bins, not rows. Rows in the same
// order give the same bits.
type Builder struct {
	originMs, widthMs int64 // bin i begins at originMs + i*widthMs
	maxBins           int64
	first, last       int64 // bins
	fromMs, toMs      int64 // bounds of the intervals in the picture; 0: unbounded
	intervals         map[int64]interval
	hours             map[int64]hour
	metrics           map[metricKey]*building
	exact, measured   int64
	worst             float64
}

type metricKey struct{ name, unit, scope string }

// interval holds the numbers that all rows of an interval share.
type interval struct {
	lengthMs           int64
	expected, reported int32
}

// hour holds the numbers that all rows of a rollup share.
type hour struct{ startMs, endMs, intervals, expected, reported int64 }

// building is a metric with its bins so far.
type building struct {
	bins        map[int64]*binBuild
	total       sums
	least, most float64
	lows, highs map[string]int64
	measured    int64
	measuredMs  int64
	values      int64 // of rows that know their number of nodes
	nodes       Nodes // of these rows
}

type binBuild struct {
	Bin
	sums
	medians     sums // of its intervals
	lows, highs map[string]int64
}

// sums compute a mean that does not overflow.
type sums struct {
	count int64
	mean  float64
}

func (s *sums) add(mean float64, count int64) {
	if count <= 0 {
		return
	}
	s.count += count
	s.mean += (mean - s.mean) * float64(count) / float64(s.count)
}

// NewBuilder returns a builder of bins from originMs on. Their width is widthMs, which should be a multiple of an
// interval, and doubles whenever there would be more than maxBins. At least two bins are allowed, one on either side of
// the origin: a single bin could never hold both sides.
func NewBuilder(originMs, widthMs int64, maxBins int) *Builder {
	if maxBins <= 0 {
		maxBins = MaxBins
	}
	return &Builder{
		originMs: originMs, widthMs: max(1, widthMs), maxBins: max(2, int64(maxBins)), first: math.MaxInt64,
		last:      math.MinInt64,
		intervals: map[int64]interval{}, hours: map[int64]hour{}, metrics: map[metricKey]*building{},
	}
}

// Between leaves intervals out of the picture that begin before fromMs, or not before toMs. 0 is no bound. Totals and
// sums still include them.
func (b *Builder) Between(fromMs, toMs int64) { b.fromMs, b.toMs = fromMs, toMs }

// Has reports whether the interval that begins at startMs has come.
func (b *Builder) Has(startMs int64) bool { _, has := b.intervals[startMs]; return has }

// Row adds a row of an interval. If shown is false, its metric is left out, and the row only counts for completeness.
func (b *Builder) Row(r *schemas.Row, shown bool) {
	b.intervals[r.IntervalStart] = interval{r.IntervalMs, r.NodesExpected, r.NodesReported}
	if r.Metric == nil || !shown {
		return
	}
	m := b.metric(r)
	count := int64(0)
	if r.Count != nil && r.Mean != nil {
		count = max(0, *r.Count)
		m.total.add(*r.Mean, count)
	}
	d, low, high, ok := envelope(r)
	if ok && count > 0 {
		m.add(d, r.LowNode, r.HighNode)
		m.places(r)
		m.measuredMs += r.IntervalMs
		b.measured++
		if r.RankError != nil && *r.RankError > 0 {
			b.worst = max(b.worst, *r.RankError)
		} else {
			b.exact++
		}
	}
	bin := b.bin(m, r.IntervalStart)
	if bin == nil {
		return
	}
	bin.Intervals++
	bin.Expected += int64(r.NodesExpected)
	bin.Reported += int64(r.NodesReported)
	if r.NodesReported >= r.NodesExpected {
		bin.Complete++
	}
	if !ok || count == 0 {
		return
	}
	bin.Measured++
	bin.widen(&low, &high, d[5])
	bin.medians.add(d[5], 1)
	bin.add(*r.Mean, count)
	countNode(bin.lows, r.LowNode, 1)
	countNode(bin.highs, r.HighNode, 1)
}

// Sums are the numbers of an hour that its row lacks.
type Sums struct {
	StartMs, EndMs                          int64 // start of its first interval, end of its last one
	Intervals, Measured, Expected, Reported int64
	MeasuredMs                              int64
	Lows, Highs                             []NodeCount
}

// Hour adds a rollup: a row with the deciles of an hour's values. Its interval begins with the hour.
func (b *Builder) Hour(r *schemas.Row, s Sums, shown bool) {
	if h := b.hours[r.IntervalStart]; s.Intervals > h.intervals { // a metric may be missing in some intervals
		b.hours[r.IntervalStart] = hour{s.StartMs, s.EndMs, s.Intervals, s.Expected, s.Reported}
	}
	if r.Metric == nil || !shown {
		return
	}
	m := b.metric(r)
	bin := b.bin(m, r.IntervalStart)
	if bin != nil {
		bin.Hourly = true
		bin.Intervals += int32(min(s.Intervals, math.MaxInt32))
		bin.Measured += int32(min(s.Measured, math.MaxInt32))
		bin.Expected += s.Expected
		bin.Reported += s.Reported
		if s.Reported >= s.Expected {
			bin.Complete += int32(min(s.Intervals, math.MaxInt32))
		}
	}
	d, low, high, ok := envelope(r)
	if r.Count == nil || r.Mean == nil || *r.Count <= 0 || !ok {
		return
	}
	m.total.add(*r.Mean, *r.Count)
	m.least, m.most = min(m.least, d[0]), max(m.most, d[10])
	m.measured += s.Measured
	m.measuredMs += s.MeasuredMs
	b.measured += s.Measured
	if r.RankError == nil || *r.RankError == 0 {
		b.exact += s.Measured
	} else {
		b.worst = max(b.worst, *r.RankError)
	}
	for i, of := range [][]NodeCount{s.Lows, s.Highs} {
		for _, n := range of {
			countNode([]map[string]int64{m.lows, m.highs}[i], &n.Node, n.Count)
			if bin != nil {
				countNode([]map[string]int64{bin.lows, bin.highs}[i], &n.Node, n.Count)
			}
		}
	}
	if bin != nil {
		bin.widen(&low, &high, d[5])
		bin.medians.add(d[5], max(s.Measured, 1))
		bin.add(*r.Mean, *r.Count)
	}
}

// envelope returns the deciles of a row and their bounds. ok is false if one is missing or not finite.
func envelope(r *schemas.Row) (d, low, high [11]float64, ok bool) {
	for k, p := range r.Deciles() {
		if p == nil || math.IsNaN(*p) || math.IsInf(*p, 0) {
			return d, low, high, false
		}
		d[k] = *p
	}
	low, high = d, d
	if len(r.Lo) == 11 && len(r.Hi) == 11 {
		for k := range d {
			low[k], high[k] = min(d[k], r.Lo[k]), max(d[k], r.Hi[k])
		}
	}
	return d, low, high, true
}

func (b *Builder) metric(r *schemas.Row) *building {
	key := metricKey{name: *r.Metric}
	if r.Unit != nil {
		key.unit = *r.Unit
	}
	if r.Scope != nil {
		key.scope = *r.Scope
	}
	m := b.metrics[key]
	if m == nil {
		m = &building{
			bins: map[int64]*binBuild{}, least: math.Inf(1), most: math.Inf(-1), lows: map[string]int64{},
			highs: map[string]int64{},
		}
		b.metrics[key] = m
	}
	return m
}

// Places counts the nodes of an interval whose values are already in the picture as part of a rollup.
func (b *Builder) Places(r *schemas.Row) {
	if r.Metric != nil && r.Count != nil && *r.Count > 0 {
		b.metric(r).places(r)
	}
}

func (m *building) places(r *schemas.Row) {
	if r.Nodes != nil && *r.Nodes > 0 {
		m.values += *r.Count
		m.nodes.Intervals++
		m.nodes.With += int64(*r.Nodes)
		m.nodes.Reported += int64(max(*r.Nodes, r.NodesReported))
	}
}

func (m *building) add(d [11]float64, low, high *string) {
	m.least, m.most = min(m.least, d[0]), max(m.most, d[10])
	m.measured++
	countNode(m.lows, low, 1)
	countNode(m.highs, high, 1)
}

func countNode(in map[string]int64, node *string, n int64) {
	if node != nil && *node != "" {
		in[*node] += n
	}
}

// bin returns the bin of a time, or nil if it is outside of the picture.
func (b *Builder) bin(m *building, startMs int64) *binBuild {
	if b.fromMs != 0 && startMs < b.fromMs || b.toMs != 0 && startMs >= b.toMs {
		return nil
	}
	for {
		i := floorDiv(startMs-b.originMs, b.widthMs)
		first, last := min(b.first, i), max(b.last, i)
		if last-first < b.maxBins {
			b.first, b.last = first, last
			if m.bins[i] == nil {
				m.bins[i] = newBin()
			}
			return m.bins[i]
		}
		b.double()
	}
}

// double merges pairs of bins, to make room for further ones.
func (b *Builder) double() {
	b.widthMs *= 2
	for _, m := range b.metrics {
		wide := map[int64]*binBuild{}
		for _, i := range slices.Sorted(maps.Keys(m.bins)) {
			if at := floorDiv(i, 2); wide[at] == nil {
				wide[at] = m.bins[i]
			} else {
				wide[at].join(m.bins[i])
			}
		}
		m.bins = wide
	}
	if b.first <= b.last {
		b.first, b.last = floorDiv(b.first, 2), floorDiv(b.last, 2)
	}
}

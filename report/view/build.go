package view

import (
	"maps"
	"math"
	"slices"

	"github.com/weirhpc/weir/schemas"
)

// MaxBins is how many bins a picture has at most, unless somebody asks for another number.
const MaxBins = 240

// Builder makes the picture of one life of a job from rows that come in any order. It holds bins, not rows. Rows that
// come in the same order give the same bits.
type Builder struct {
	originMs, widthMs int64 // bin i begins at originMs + i*widthMs
	maxBins           int64
	first, last       int64 // bins
	fromMs, toMs      int64 // of intervals that have a picture; 0: no bound
	intervals         map[int64]interval
	hours             map[int64]hour
	metrics           map[metricKey]*building
	exact, measured   int64
	worst             float64
}

type metricKey struct{ name, unit, scope string }

// interval is what all rows of an interval share.
type interval struct {
	lengthMs           int64
	expected, reported int32
}

// hour is the same for the rows of a rollup.
type hour struct{ startMs, endMs, intervals, expected, reported int64 }

// building is a metric whose bins are being made.
type building struct {
	bins        map[int64]*binBuild
	total       sums
	least, most float64
	lows, highs map[string]int64
	measured    int64
	measuredMs  int64
	values      int64 // of rows that tell on how many nodes they were
	nodes       Nodes // of these rows
}

type binBuild struct {
	Bin
	sums
	lows, highs map[string]int64
}

// sums have a mean that does not overflow.
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

// NewBuilder returns a builder whose bins begin at a time. Their width is a multiple of an interval. It doubles
// whenever there would be more than maxBins. There are two at least, one on either side of the origin.
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

// Between leaves intervals out of the picture that begin before one time, or not before the other. 0 is no bound.
// Totals and sums have them.
func (b *Builder) Between(fromMs, toMs int64) { b.fromMs, b.toMs = fromMs, toMs }

// Has reports whether an interval that begins at a time has come.
func (b *Builder) Has(startMs int64) bool { _, has := b.intervals[startMs]; return has }

// Row adds a row of an interval. The metrics of a row that is not shown count for completeness alone.
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
	bin.add(*r.Mean, count)
	countNode(bin.lows, r.LowNode, 1)
	countNode(bin.highs, r.HighNode, 1)
}

// Sums are what an hour has besides its row.
type Sums struct {
	StartMs, EndMs                          int64 // of its first interval, and of its last one
	Intervals, Measured, Expected, Reported int64
	MeasuredMs                              int64
	Lows, Highs                             []NodeCount
}

// Hour adds a rollup: a row with the deciles of an hour's values, whose interval begins with the hour.
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
		bin.add(*r.Mean, *r.Count)
	}
}

// envelope returns the deciles of a row and their bounds. It is not ok where one is missing or not a number.
func envelope(r *schemas.Row) (d, low, high [11]float64, ok bool) {
	for k, p := range [11]*float64{r.D0, r.D1, r.D2, r.D3, r.D4, r.D5, r.D6, r.D7, r.D8, r.D9, r.D10} {
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

// Places tells on how many nodes the values of an interval were, whose hour is in the picture.
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

// bin returns the bin of a time; nil outside the picture.
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

// double makes one bin of two, so that further ones have room.
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

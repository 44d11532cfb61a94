package rules

import (
	"math"
	"slices"
	"strings"

	"github.com/weirhpc/weir/schemas"
)

// Metric is the distribution of a metric in an interval. Unknown fields are NaN.
type Metric struct {
	D0           float64 `expr:"d0"`
	D1           float64 `expr:"d1"`
	D2           float64 `expr:"d2"`
	D3           float64 `expr:"d3"`
	D4           float64 `expr:"d4"`
	D5           float64 `expr:"d5"`
	D6           float64 `expr:"d6"`
	D7           float64 `expr:"d7"`
	D8           float64 `expr:"d8"`
	D9           float64 `expr:"d9"`
	D10          float64 `expr:"d10"`
	Lo0          float64 `expr:"lo0"`
	Lo1          float64 `expr:"lo1"`
	Lo2          float64 `expr:"lo2"`
	Lo3          float64 `expr:"lo3"`
	Lo4          float64 `expr:"lo4"`
	Lo5          float64 `expr:"lo5"`
	Lo6          float64 `expr:"lo6"`
	Lo7          float64 `expr:"lo7"`
	Lo8          float64 `expr:"lo8"`
	Lo9          float64 `expr:"lo9"`
	Lo10         float64 `expr:"lo10"`
	Hi0          float64 `expr:"hi0"`
	Hi1          float64 `expr:"hi1"`
	Hi2          float64 `expr:"hi2"`
	Hi3          float64 `expr:"hi3"`
	Hi4          float64 `expr:"hi4"`
	Hi5          float64 `expr:"hi5"`
	Hi6          float64 `expr:"hi6"`
	Hi7          float64 `expr:"hi7"`
	Hi8          float64 `expr:"hi8"`
	Hi9          float64 `expr:"hi9"`
	Hi10         float64 `expr:"hi10"`
	Mean         float64 `expr:"mean"`
	Count        float64 `expr:"count"`
	PerNode      float64 `expr:"per_node"` // count / nodes with a value
	LowNodeMean  float64 `expr:"low_node_mean"`
	HighNodeMean float64 `expr:"high_node_mean"`
}

// Places of the fields of a Metric in its values.
const (
	atD0 = 11 * iota
	atLo0
	atHi0
	atMean
	atCount        = atMean + 1
	atPerNode      = atMean + 2
	atLowNodeMean  = atMean + 3
	atHighNodeMean = atMean + 4
	fields         = atMean + 5
)

// values are the fields of a Metric, in their order.
type values [fields]float64

func (m *Metric) values() values {
	return values{
		m.D0, m.D1, m.D2, m.D3, m.D4, m.D5, m.D6, m.D7, m.D8, m.D9, m.D10,
		m.Lo0, m.Lo1, m.Lo2, m.Lo3, m.Lo4, m.Lo5, m.Lo6, m.Lo7, m.Lo8, m.Lo9, m.Lo10,
		m.Hi0, m.Hi1, m.Hi2, m.Hi3, m.Hi4, m.Hi5, m.Hi6, m.Hi7, m.Hi8, m.Hi9, m.Hi10,
		m.Mean, m.Count, m.PerNode, m.LowNodeMean, m.HighNodeMean,
	}
}

func (m *Metric) setDeciles(d []float64) {
	m.D0, m.D1, m.D2, m.D3, m.D4, m.D5 = d[0], d[1], d[2], d[3], d[4], d[5]
	m.D6, m.D7, m.D8, m.D9, m.D10 = d[6], d[7], d[8], d[9], d[10]
}

func (m *Metric) setLo(d []float64) {
	m.Lo0, m.Lo1, m.Lo2, m.Lo3, m.Lo4, m.Lo5 = d[0], d[1], d[2], d[3], d[4], d[5]
	m.Lo6, m.Lo7, m.Lo8, m.Lo9, m.Lo10 = d[6], d[7], d[8], d[9], d[10]
}

func (m *Metric) setHi(d []float64) {
	m.Hi0, m.Hi1, m.Hi2, m.Hi3, m.Hi4, m.Hi5 = d[0], d[1], d[2], d[3], d[4], d[5]
	m.Hi6, m.Hi7, m.Hi8, m.Hi9, m.Hi10 = d[6], d[7], d[8], d[9], d[10]
}

// Interval is the input of a Watch: one interval of a job.
type Interval struct {
	StartMs, LengthMs  int64
	Expected, Reported int32
	Metrics            []Named // ascending by name
}

// Named is a metric of an interval.
type Named struct {
	Name, Scope string
	Low, High   string // the nodes with the lowest and the highest mean
	Metric

	// lo and hi are the bounds, in case those of Metric are replaced by the estimate. A Watch needs both, so that a
	// certain finding is never reported as merely possible.
	bounded bool
	lo, hi  [decils]float64
	places  float64 // number of values including missing ones; 0: same as Count
}

// decils is the length of a slice of deciles or of bounds.
const decils = 11

// MetricOf returns a metric of a summary, or false if it has no values. If possible is set, the bounds are the estimate
// itself.
func MetricOf(m *schemas.JobSummaryMetric, possible bool) (Metric, bool) {
	n, ok := namedOf(m, possible)
	return n.Metric, ok
}

// metricOfRow returns the metric of a row of the archive, or false if it has no values. If possible is set, the bounds
// are the estimate itself.
func metricOfRow(r *schemas.Row, possible bool) (Metric, bool) {
	var n Named
	ok := n.setRow(r, possible)
	return n.Metric, ok
}

func namedOf(m *schemas.JobSummaryMetric, possible bool) (n Named, ok bool) {
	ok = n.setSummary(m, possible)
	return n, ok
}

func (n *Named) setSummary(m *schemas.JobSummaryMetric, possible bool) bool {
	if m.Mean == nil || m.Deciles == nil || len(*m.Deciles) != decils {
		return false
	}
	n.Name, n.Scope, n.Low, n.High = m.Name, m.Scope, text(m.LowNode), text(m.HighNode)
	n.moments(*m.Mean, m.Count, m.Nodes, m.LowNodeMean, m.HighNodeMean)
	n.places = float64(m.Count) + float64(m.Invalid)
	var lo, hi []float64
	if m.Lo != nil && m.Hi != nil {
		lo, hi = *m.Lo, *m.Hi
	}
	return n.ranks(*m.Deciles, lo, hi, possible)
}

func (n *Named) setRow(r *schemas.Row, possible bool) bool {
	var d [decils]float64
	for k, v := range r.Deciles() {
		if v == nil {
			return false
		}
		d[k] = *v
	}
	if r.Metric == nil || r.Mean == nil || r.Count == nil || r.Nodes == nil {
		return false
	}
	n.Name, n.Scope, n.Low, n.High = *r.Metric, text(r.Scope), text(r.LowNode), text(r.HighNode)
	n.moments(*r.Mean, *r.Count, *r.Nodes, r.LowNodeMean, r.HighNodeMean)
	if n.places = n.Count; r.Invalid != nil {
		n.places += float64(*r.Invalid)
	}
	return n.ranks(d[:], r.Lo, r.Hi, possible)
}

func (n *Named) moments(mean float64, count int64, nodes int32, low, high *float64) {
	n.Mean, n.Count, n.PerNode = mean, float64(count), math.NaN()
	if nodes > 0 {
		n.PerNode = n.Count / float64(nodes)
	}
	n.LowNodeMean, n.HighNodeMean = number(low), number(high)
}

// ranks sets the deciles and their bounds. It returns false for malformed bounds, because they prove nothing.
func (n *Named) ranks(d, lo, hi []float64, possible bool) bool {
	n.setDeciles(d)
	n.bounded = false
	if len(lo) == 0 && len(hi) == 0 {
		lo, hi = d, d
	}
	if len(lo) != decils || len(hi) != decils {
		return false
	}
	if possible {
		n.bounded = !slices.Equal(lo, hi)
		copy(n.lo[:], lo)
		copy(n.hi[:], hi)
		lo, hi = d, d
	}
	n.setLo(lo)
	n.setHi(hi)
	return true
}

// FromSummary fills an interval from a summary. It does not allocate once the interval is large enough.
func FromSummary(s *schemas.JobSummary, possible bool, into *Interval) {
	into.reset(s.IntervalStart, s.IntervalMs, s.NodesExpected, s.NodesReported)
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if n := into.next(); !n.setSummary(m, possible) {
			into.drop()
		}
	}
	into.order()
}

// FromRows fills an interval from the rows of one interval of a job.
func FromRows(rows []schemas.Row, into *Interval) {
	into.reset(0, 0, 0, 0)
	for i := range rows {
		if i == 0 {
			into.Begin(&rows[i])
		}
		into.AddRow(&rows[i])
	}
}

// Begin empties an interval, and takes its time and its nodes from a row.
func (iv *Interval) Begin(r *schemas.Row) {
	iv.reset(r.IntervalStart, r.IntervalMs, r.NodesExpected, r.NodesReported)
}

// AddRow adds the metric of a row with its bounds, unless it has no values. Rows may come in any order.
func (iv *Interval) AddRow(r *schemas.Row) {
	if n := iv.next(); !n.setRow(r, false) {
		iv.drop()
	}
	for i := len(iv.Metrics) - 1; i > 0 && iv.Metrics[i-1].Name > iv.Metrics[i].Name; i-- {
		iv.Metrics[i-1], iv.Metrics[i] = iv.Metrics[i], iv.Metrics[i-1]
	}
}

func (iv *Interval) reset(startMs, lengthMs int64, expected, reported int32) {
	iv.StartMs, iv.LengthMs, iv.Expected, iv.Reported = startMs, lengthMs, expected, reported
	iv.Metrics = iv.Metrics[:0]
}

// cores is the largest number of values of a core-scoped metric.
func (iv *Interval) cores() (most float64) {
	for i := range iv.Metrics {
		if n := &iv.Metrics[i]; n.Scope == schemas.ScopeCore {
			most = max(most, n.places, n.Count)
		}
	}
	return most
}

// next appends a metric and returns it. It is not cleared: the caller must set all of its fields.
func (iv *Interval) next() *Named {
	k := len(iv.Metrics)
	iv.Metrics = slices.Grow(iv.Metrics, 1)[:k+1]
	return &iv.Metrics[k]
}

func (iv *Interval) drop() { iv.Metrics = iv.Metrics[:len(iv.Metrics)-1] }

func byName(a, b Named) int { return strings.Compare(a.Name, b.Name) }

func (iv *Interval) order() {
	for i := 1; i < len(iv.Metrics); i++ { // a loop, not a sort that copies: metrics are nearly always in order already
		if iv.Metrics[i-1].Name > iv.Metrics[i].Name {
			slices.SortStableFunc(iv.Metrics, byName)
			return
		}
	}
}

func number(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

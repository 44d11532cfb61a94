package rules

import (
	"math"
	"slices"
)

// layout is where the numbers of an interval are that a set of rules needs.
type layout struct {
	known   map[string]Known // metrics that rules may name
	inputs  []string         // metrics that rules name, ascending
	wholes  []int            // inputs that are folded over the whole life
	columns []column         // of bins
	counts  []int            // inputs that have columns, in the order of their first one
	stride  int              // numbers of a bin
	slots   int              // numbers that the rules make of an interval
	nodes   int              // rules that count nodes
}

// column is a number that bins of a life sum up.
type column struct {
	input int
	kind  string // spread, spread_most, or the name of a field
	field int    // of a field: its place
	n, at int    // places in a bin: of the number of intervals, and of the sum
}

// columnOf is the column of a field of a quarter.
func columnOf(field string) column {
	return column{kind: field, field: slices.Index(metricNames, field)}
}

// whole returns the index in wholes of an input.
func (l *layout) whole(input int) int {
	if i := slices.Index(l.wholes, input); i >= 0 {
		return i
	}
	l.wholes = append(l.wholes, input)
	return len(l.wholes) - 1
}

// column returns the index of a column, which it makes if there is none.
func (l *layout) column(k column) int {
	count := -1
	for i, c := range l.columns {
		if c.input != k.input {
			continue
		}
		if count = c.n; c.kind == k.kind {
			return i
		}
	}
	if count < 0 {
		count = l.stride
		l.counts = append(l.counts, k.input)
		l.stride++
	}
	k.n, k.at = count, l.stride
	l.stride++
	l.columns = append(l.columns, k)
	return len(l.columns) - 1
}

// value is what an interval adds to the column. An estimate proves nothing, so the sum of its bin is not known.
func (k *column) value(v *values) float64 {
	switch d := k.field - atD0; {
	case k.kind == "spread":
		return v[atLo0+9] - v[atHi0+1]
	case k.kind == "spread_most":
		return v[atHi0+9] - v[atLo0+1]
	case d > 0 && d < 10 && v[atLo0+d] != v[atHi0+d]:
		return math.NaN()
	}
	return v[k.field]
}

// maxBins bounds the bins of a life. Their width doubles where they would be more.
const maxBins = 64

// bins are sums over spans of a life, in order of time. Their bounds are multiples of their width, so it does not
// matter in which order intervals come.
type bins struct {
	width  int64 // ms; 0: none yet
	first  int64 // number of the first bin since 1970
	stride int
	cells  []float64 // a row of stride numbers for each bin
}

func (b *bins) row(i int64) []float64 { return b.cells[int(i)*b.stride:][:b.stride] }

func (b *bins) len() int64 {
	if b.stride == 0 {
		return 0
	}
	return int64(len(b.cells) / b.stride)
}

// add adds the numbers of an interval to its bin.
func (b *bins) add(startMs, lengthMs int64, numbers []float64) {
	if b.stride = len(numbers); b.stride == 0 {
		return
	}
	if b.width == 0 {
		b.width, b.first = lengthMs, floorDiv(startMs, lengthMs)
	}
	at := floorDiv(startMs, b.width)
	for max(at, b.first+b.len()-1)-min(at, b.first) >= maxBins {
		b.widen()
		at = floorDiv(startMs, b.width)
	}
	if at < b.first {
		b.cells = slices.Insert(b.cells, 0, make([]float64, int(b.first-at)*b.stride)...)
		b.first = at
	}
	for at >= b.first+b.len() {
		b.cells = append(b.cells, make([]float64, b.stride)...)
	}
	for i, v := range numbers {
		b.row(at - b.first)[i] += v
	}
}

// widen makes one bin of two.
func (b *bins) widen() {
	first := floorDiv(b.first, 2)
	n := floorDiv(b.first+b.len()-1, 2) - first + 1
	cells := make([]float64, int(n)*b.stride)
	for i := range b.len() {
		to := cells[int(floorDiv(b.first+i, 2)-first)*b.stride:]
		for k, v := range b.row(i) {
			to[k] += v
		}
	}
	b.width, b.first, b.cells = 2*b.width, first, cells
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// quarter is the mean of a column over the intervals of a quarter of the span. A bin belongs where its middle is, and
// one that sticks out of the span to the quarter beside it.
func (b *bins) quarter(k *column, fromMs, toMs int64, q int) float64 {
	n, sum := 0.0, 0.0
	from, to := fromMs+(toMs-fromMs)*int64(q-1)/4, fromMs+(toMs-fromMs)*int64(q)/4
	for i := range b.len() {
		middle := (b.first+i)*b.width + b.width/2
		if (q == 1 || middle >= from) && (q == 4 || middle < to) {
			row := b.row(i)
			n, sum = n+row[k.n], sum+row[k.at]
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return rounded(sum / n) // the order of the terms shows in the last digits
}

// whole is a metric over a life. All of it is exact.
type whole struct {
	count, nodes float64 // sums
	sum          exact   // of the values
	least, most  float64
}

// Places of a whole's numbers in an interval.
const (
	wholeSum = iota
	wholeCount
	wholeNodes
	wholeLeast
	wholeMost
	wholeNumbers
)

func (w *whole) add(n []float64) {
	if !(n[wholeCount] > 0) { // the interval does not have the metric
		return
	}
	if w.count == 0 {
		w.least, w.most = n[wholeLeast], n[wholeMost]
	}
	w.least, w.most = min(w.least, n[wholeLeast]), max(w.most, n[wholeMost])
	w.count += n[wholeCount]
	w.nodes += n[wholeNodes]
	w.sum.add(n[wholeSum])
}

// peaks notes the largest values of an interval that does not count otherwise: the one in which the job ended.
func (l *life) peaks(n []float64) {
	for i := range l.wholes {
		if n := n[i*wholeNumbers:][:wholeNumbers]; n[wholeCount] > 0 && l.wholes[i].count > 0 {
			l.wholes[i].most = max(l.wholes[i].most, n[wholeMost])
		}
	}
}

// field returns a field in the order of wholeSays.
func (w *whole) field(k int) float64 {
	if w.count == 0 {
		return math.NaN()
	}
	switch k {
	case 0:
		return rounded(w.sum.value() / w.count)
	case 1:
		return w.least
	case 2:
		return w.most
	case 3:
		return w.count
	}
	return finite(w.count / w.nodes)
}

// life is what a Watch knows of the whole life of a job.
type life struct {
	layout       *layout
	wholes       []whole
	bins         [2]bins // certain, possible
	fromMs, toMs int64   // of the counted intervals
}

func (l *life) quarter(variant, col, q int) float64 {
	return l.bins[variant].quarter(&l.layout.columns[col], l.fromMs, l.toMs, q)
}

// exact is a sum of two parts, so that the order of the terms hardly matters.
type exact struct{ high, low float64 }

func (s *exact) add(v float64) {
	t := s.high + v
	if math.Abs(s.high) >= math.Abs(v) {
		s.low += (s.high - t) + v
	} else {
		s.low += (v - t) + s.high
	}
	s.high = t
}

func (s *exact) value() float64 { return s.high + s.low }

package rules

import (
	"math"
	"slices"
)

// layout maps the metrics and sums that a set of rules needs to their places in slices of numbers.
type layout struct {
	known   map[string]Known // metrics that rules may name
	inputs  []string         // metrics that rules name, ascending
	wholes  []int            // inputs that are folded over the whole life
	columns []column         // of bins
	counts  []int            // inputs with columns, in the order of the first column
	stride  int              // length of a bin's row of numbers
	slots   int              // length of an interval's numbers
	nodes   int              // number of rules that count nodes
}

// column is a number that bins of a life sum up.
type column struct {
	input int
	kind  string // spread, spread_most, or the name of a field
	field int    // place of the field
	n, at int    // places in a bin: the number of intervals, and the sum
}

// columnOf is the column of a field of a quarter.
func columnOf(field string) column {
	return column{kind: field, field: slices.Index(metricNames, field)}
}

// whole returns the index of an input in wholes, and adds it if it is missing.
func (l *layout) whole(input int) int {
	if i := slices.Index(l.wholes, input); i >= 0 {
		return i
	}
	l.wholes = append(l.wholes, input)
	return len(l.wholes) - 1
}

// column returns the index of a column, and adds it if it is missing.
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

// value returns the number that an interval adds to the column. It is NaN for an estimate, which proves nothing, and so
// the sum of its bin becomes unknown.
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

// maxBins bounds the bins of a life. Beyond it their width doubles.
const maxBins = 64

// bins are sums over spans of a life, in order of time. They begin at multiples of their width, so the order in which
// intervals come does not matter.
type bins struct {
	width  int64 // ms; 0: not set yet
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

// quarter returns the mean of a column over the intervals in a quarter of the span. A bin belongs to the quarter of its
// middle. A bin with its middle outside of the span belongs to the nearest quarter.
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
	return rounded(sum / n) // the order of the terms affects the last digits
}

// whole sums up a metric over a life, exactly.
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

// peaks takes over the largest values of the interval in which the job ended. Otherwise that interval does not count.
func (l *life) peaks(n []float64) {
	for i := range l.wholes {
		if n := n[i*wholeNumbers:][:wholeNumbers]; n[wholeCount] > 0 && l.wholes[i].count > 0 {
			l.wholes[i].most = max(l.wholes[i].most, n[wholeMost])
		}
	}
}

// field returns a field by its index in wholeFields.
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

// life holds the numbers over the whole life of a job.
type life struct {
	layout       *layout
	wholes       []whole
	bins         [2]bins // certain, possible
	fromMs, toMs int64   // of the counted intervals
}

func (l *life) quarter(variant, col, q int) float64 {
	return l.bins[variant].quarter(&l.layout.columns[col], l.fromMs, l.toMs, q)
}

// exact is a sum of two parts, so that the order of the terms hardly matters (Neumaier). The audit has its own.
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

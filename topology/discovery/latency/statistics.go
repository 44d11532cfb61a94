package latency

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Summary is the five-number summary of section 1.5 of the thesis, and the mean. Latencies are in microseconds.
type Summary struct {
	Count         int     `json:"count"`
	Min           float64 `json:"min"`
	LowerQuartile float64 `json:"lower_quartile"`
	Median        float64 `json:"median"`
	UpperQuartile float64 `json:"upper_quartile"`
	Max           float64 `json:"max"`
	Mean          float64 `json:"mean"`
}

// Describe summarizes values. A quartile is the lowest value such that 25, 50 or 75 % of the values are at most that
// high: section 1.5, not R's interpolation. Of no values all is NaN. TestDescribe pins it.
func Describe(values []float64) Summary {
	if len(values) == 0 {
		nan := math.NaN()
		return Summary{0, nan, nan, nan, nan, nan, nan}
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := len(sorted)
	quartile := func(k int) float64 { return sorted[(k*n+3)/4-1] }
	mean := 0.0
	for _, x := range sorted {
		mean += x / float64(n)
	}
	return Summary{n, sorted[0], quartile(1), quartile(2), quartile(3), sorted[n-1], mean}
}

// Values returns the latencies that were measured, row by row, in microseconds.
func (m *Matrix) Values() []float64 {
	values := make([]float64, 0, len(m.us))
	for _, us := range m.us {
		if !math.IsNaN(us) {
			values = append(values, us)
		}
	}
	return values
}

// Deviation is how two measurements of the same pairs differ, in microseconds: equations 3.1 to 3.4 of the thesis.
type Deviation struct {
	Pairs         int     `json:"pairs"`          // measured in both
	Mean          float64 `json:"mean"`           // MD
	MeanAbsolute  float64 `json:"mean_absolute"`  // MAD
	QuadraticMean float64 `json:"quadratic_mean"` // QMD, the root of the mean square
	Max           float64 `json:"max"`            // MAXD, with its sign
	A, B          string  `json:",omitempty"`     // the pair of MAXD
}

// Deviate compares the first matrix with the second. Both have the same names of nodes, in any order. Pairs that one of
// them lacks do not count. Without a pair in both all is NaN. TestDeviate pins it.
func Deviate(first, second *Matrix) (Deviation, error) {
	place, err := places(first, second)
	if err != nil {
		return Deviation{}, err
	}
	d := Deviation{}
	squares := 0.0
	for a := range first.Len() {
		for b := a + 1; b < first.Len(); b++ {
			x := first.At(a, b) - second.At(place[a], place[b])
			if math.IsNaN(x) {
				continue
			}
			d.Pairs++
			d.Mean += x
			d.MeanAbsolute += math.Abs(x)
			squares += x * x
			if d.Pairs == 1 || math.Abs(x) > math.Abs(d.Max) {
				d.Max, d.A, d.B = x, first.names[a], first.names[b]
			}
		}
	}
	if d.Pairs == 0 {
		nan := math.NaN()
		return Deviation{Mean: nan, MeanAbsolute: nan, QuadraticMean: nan, Max: nan}, nil
	}
	n := float64(d.Pairs)
	d.Mean /= n
	d.MeanAbsolute /= n
	d.QuadraticMean = math.Sqrt(squares / n)
	return d, nil
}

// places returns the position of each node of the first matrix in the second.
func places(first, second *Matrix) ([]int, error) {
	number := make(map[string]int, second.Len())
	for i, name := range second.names {
		number[name] = i
	}
	place := make([]int, first.Len())
	for i, name := range first.names {
		at, ok := number[name]
		if !ok {
			return nil, fmt.Errorf("the second matrix lacks node %s: both must have the same nodes", name)
		}
		place[i] = at
	}
	if second.Len() != first.Len() {
		return nil, fmt.Errorf("the second matrix has %d nodes and the first one %d: both must have the same nodes",
			second.Len(), first.Len())
	}
	return place, nil
}

// Bin is a range of a histogram. Only the last range includes values at ToUs.
type Bin struct {
	FromUs float64 `json:"from_us"`
	ToUs   float64 `json:"to_us"`
	Count  int     `json:"count"`
}

// Histogram counts finite values in bins of the same width, from the lowest value to the highest. Of values that are
// all the same there is one bin.
func Histogram(values []float64, bins int) []Bin {
	if len(values) == 0 || bins < 1 {
		return nil
	}
	low, high := slices.Min(values), slices.Max(values)
	if !(high > low) {
		return []Bin{{low, high, len(values)}}
	}
	h := make([]Bin, bins)
	width := (high - low) / float64(bins)
	for i := range h {
		h[i].FromUs, h[i].ToUs = low+float64(i)*width, low+float64(i+1)*width
	}
	h[bins-1].ToUs = high
	for _, x := range values {
		h[min(bins-1, max(0, int((x-low)/width)))].Count++
	}
	return h
}

// Success returns the probability that all pairs of nodes are measured within the tolerance. p is the probability for
// one pair. It is p^(n(n-1)/2), equation 3.5 of the thesis. TestSuccess pins table 3.10. Two of the table's cells are
// wrong: 99.9 % at 32 nodes is 60.9 % and not 60.1, and 99.99 % at 256 is 3.8 % and not 3.4.
func Success(p float64, nodes int) float64 {
	return math.Pow(p, float64(nodes)*float64(nodes-1)/2)
}

// line is one-way delay as a function of message size, s/t + l: equation 1.1 of the thesis.
type line struct {
	Throughput float64 `json:"throughput"` // t in MB/s, that is bytes a microsecond
	LatencyUs  float64 `json:"latency_us"` // l
	R2         float64 `json:"r2"`         // share of the delays' variance that the line explains
}

// fitLine fits one-way delays in microseconds to message sizes in bytes by least squares. With two sizes it is
// equations 1.5 and 1.6 of the thesis. At least two different sizes are needed. A throughput of +Inf is one that delays
// which do not grow cannot show. TestFitLine pins it.
func fitLine(bytes, delaysUs []float64) (line, error) {
	if len(bytes) != len(delaysUs) || len(bytes) < 2 {
		return line{}, errors.New("at least two sizes with a delay each are needed")
	}
	n := float64(len(bytes))
	var meanS, meanD float64
	for i := range bytes {
		meanS += bytes[i] / n
		meanD += delaysUs[i] / n
	}
	var ss, sd, dd float64
	for i := range bytes {
		s, d := bytes[i]-meanS, delaysUs[i]-meanD
		ss, sd, dd = ss+s*s, sd+s*d, dd+d*d
	}
	if !(ss > 0) {
		return line{}, errors.New("all sizes are the same: throughput needs two")
	}
	slope := sd / ss
	l := line{Throughput: 1 / slope, LatencyUs: meanD - slope*meanS, R2: 1}
	if dd > 0 {
		l.R2 = sd * sd / (ss * dd)
	}
	if !(slope > 0) {
		l.Throughput = math.Inf(1)
	}
	return l, nil
}

// Tick limits: a step is believed if the values are many for it.
const (
	tickValues   = 20  // so many values at least
	tickRepeat   = 3   // and each step is taken so often on average
	tickDistinct = 3   // and so many steps
	tickOff      = .02 // of a step: how far values may lie beside it
)

// Tick returns the step of a quantised clock in microseconds. If the file states none, it looks for one: each value is
// then a multiple of the step, and the matrix consists of few distinct values. It returns 0 if there is no step. Exact
// values of a made-up network look quantised too.
func (m *Matrix) Tick() float64 {
	if m.TickUs > 0 {
		return m.TickUs
	}
	values := m.Values()
	slices.Sort(values)
	distinct := slices.CompactFunc(slices.Clone(values), func(a, b float64) bool { return math.Abs(b-a) <= 1e-9*b })
	if len(values) < tickValues || len(distinct) < tickDistinct || len(values) < tickRepeat*len(distinct) {
		return 0
	}
	step := math.Inf(1)
	for i := 1; i < len(distinct); i++ {
		step = min(step, distinct[i]-distinct[i-1])
	}
	for _, x := range distinct {
		if steps := x / step; math.Abs(steps-math.Round(steps)) > tickOff {
			return 0
		}
	}
	return step
}

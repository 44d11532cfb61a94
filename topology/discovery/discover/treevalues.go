package discover

import (
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// values is a full square of the values from which a tree is built. Without offsets these are ln(latency). With
// offsets, they are latencies less the offsets of both nodes, over the median latency.
type values struct {
	n        int
	y        []float32 // NaN: not measured
	offset   []float64 // nil: none
	typical  float64   // median latency in microseconds
	floor    float64   // least noise
	resolves float64   // least difference between the levels of a switch and its parent
}

// Levels of a switch and its parent differ by this share of the latency at least.
const resolution = .02

// logarithms returns the ln of a matrix.
func logarithms(m *latency.Matrix) *values {
	n := m.Len()
	v := &values{n: n, y: make([]float32, n*n), resolves: resolution}
	var sample []float64
	step := max(1, n*(n-1)/2/100_000)
	for a, i := 0, 0; a < n; a++ {
		v.y[a*n+a] = float32(math.NaN())
		for b := a + 1; b < n; b++ {
			us := m.At(a, b)
			x := float32(math.NaN())
			if us > 0 && !math.IsInf(us, 0) {
				x = float32(math.Log(us))
				if i++; i%step == 0 {
					sample = append(sample, us)
				}
			}
			v.y[a*n+b], v.y[b*n+a] = x, x
		}
	}
	v.typical = max(median(sample), 1e-12)
	v.floor = max(leastNoise, m.TickUs/math.Sqrt(12)/v.typical)
	return v
}

// without returns values less offsets. Offsets are shares of the median latency.
func (v *values) without(offset []float64) *values {
	w := &values{
		n: v.n, y: make([]float32, len(v.y)), offset: offset, typical: v.typical,
		floor: v.floor, resolves: resolution,
	}
	shift := math.Log(v.typical)
	for a := range v.n {
		for b := range v.n {
			w.y[a*v.n+b] = float32(math.Exp(float64(v.y[a*v.n+b])-shift) - offset[a] - offset[b])
		}
	}
	return w
}

// weight is one over the square of the relative size of a pair's noise.
func (v *values) weight(a, b int) float64 {
	if v.offset == nil {
		return 1
	}
	d := max(float64(v.y[a*v.n+b])+v.offset[a]+v.offset[b], .05)
	return 1 / (d * d)
}

// neighbours returns the k nearest nodes of each node.
func (v *values) neighbours(k int) [][]int {
	near := make([][]int, v.n)
	for a := range v.n {
		var best []int
		row := v.y[a*v.n : a*v.n+v.n]
		for b, x := range row {
			if x != x || (len(best) == k && x >= row[best[k-1]]) {
				continue
			}
			i := len(best)
			for i > 0 && row[best[i-1]] > x {
				i--
			}
			if best = slices.Insert(best, i, b); len(best) > k {
				best = best[:k]
			}
		}
		near[a] = best
	}
	return near
}

// smooth writes to out the median of each value and the values of the neighbours of both nodes. An outlier cannot make
// a false neighbour, since outliers are slow.
func (v *values) smooth(out []float32, k int) {
	near := v.neighbours(k)
	n := v.n
	var window []float32
	for a := range n {
		out[a*n+a] = float32(math.NaN())
		for b := a + 1; b < n; b++ {
			window = v.around(window[:0], a, b, near)
			x := middle(window)
			out[a*n+b], out[b*n+a] = x, x
		}
	}
}

// around appends the value of a pair, and the values of each node's neighbours with the other node.
func (v *values) around(window []float32, a, b int, near [][]int) []float32 {
	add := func(x float32) {
		if x == x {
			window = append(window, x)
		}
	}
	add(v.y[a*v.n+b])
	for _, c := range near[a] {
		if c != b {
			add(v.y[c*v.n+b])
		}
	}
	for _, c := range near[b] {
		if c != a {
			add(v.y[a*v.n+c])
		}
	}
	return window
}

// middle returns the median, NaN of nothing. It sorts.
func middle(x []float32) float32 {
	if len(x) == 0 {
		return float32(math.NaN())
	}
	slices.Sort(x)
	return (x[len(x)/2] + x[(len(x)-1)/2]) / 2
}

// fill replaces unknown values by the greatest known one, so that a linkage can continue.
func fill(w []float32) {
	greatest := float32(math.Inf(-1))
	for _, x := range w {
		if x > greatest {
			greatest = x
		}
	}
	if math.IsInf(float64(greatest), -1) {
		greatest = 0
	}
	for i, x := range w {
		if x != x {
			w[i] = greatest
		}
	}
}

// median returns the median of a sample, which it sorts.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	slices.Sort(x)
	return (x[len(x)/2] + x[(len(x)-1)/2]) / 2
}

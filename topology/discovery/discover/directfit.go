package discover

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// fitRounds bounds how often latencies are fitted, each time with the outliers of the time before clipped.
const fitRounds = 3

// refine fits base and hop latencies to the matrix by least squares. The paths stay as they are.
func (g *graph) refine(m *latency.Matrix, far [][]float64) {
	count := g.pathCounts(far)
	unknowns := len(g.hopUs) + 1
	row := make([]float64, unknowns)
	fill := func(a, b int) {
		r, s := g.at[a], g.at[b]
		row[0] = 1
		for k := range g.hopUs {
			row[k+1] = 0
			if r != s {
				row[k+1] = count[k][r][s]
			}
		}
	}
	x := make([]float64, unknowns)
	x[0] = g.baseUs
	copy(x[1:], g.hopUs)
	for range fitRounds {
		room := 3 * g.spread(m, x, fill, row)
		normal, right := mat.NewSymDense(unknowns, nil), mat.NewVecDense(unknowns, nil)
		eachPair(m, func(a, b int, us float64) {
			fill(a, b)
			model := product(row, x)
			us = min(max(us, model-room), model+room)
			for i, p := range row {
				if p == 0 {
					continue
				}
				right.SetVec(i, right.AtVec(i)+p*us)
				for j := i; j < unknowns; j++ {
					normal.SetSym(i, j, normal.At(i, j)+p*row[j])
				}
			}
		})
		var solved mat.VecDense
		if err := solved.SolveVec(normal, right); err != nil {
			return
		}
		copy(x, solved.RawVector().Data)
	}
	if x[0] > -.2*x[1] {
		x[0] = max(x[0], 0)
	}
	g.baseUs = x[0]
	copy(g.hopUs, x[1:])
}

func product(x, y []float64) float64 {
	sum := 0.
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func eachPair(m *latency.Matrix, visit func(a, b int, us float64)) {
	for a := range m.Len() {
		for b := a + 1; b < m.Len(); b++ {
			if us := m.At(a, b); us > 0 && !math.IsInf(us, 0) {
				visit(a, b, us)
			}
		}
	}
}

// spread returns the noise of the latencies about the model, by the median.
func (g *graph) spread(m *latency.Matrix, x []float64, fill func(a, b int), row []float64) float64 {
	var off []float64
	step := max(1, m.Len()*(m.Len()-1)/2/sampleLimit)
	i := 0
	eachPair(m, func(a, b int, us float64) {
		if i++; i%step == 0 {
			fill(a, b)
			off = append(off, math.Abs(us-product(row, x)))
		}
	})
	return 1.4826*median(off) + 1e-12
}

// pathCounts returns the number of links of each class on the shortest path between two vertices.
func (g *graph) pathCounts(far [][]float64) [][][]float64 {
	n := len(g.of)
	at := g.neighbours()
	count := make([][][]float64, len(g.hopUs))
	for k := range count {
		count[k] = make([][]float64, n)
		for a := range n {
			count[k][a] = make([]float64, n)
		}
	}
	if len(g.hopUs) == 1 {
		for a := range n {
			for b := range n {
				count[0][a][b] = math.Round(far[a][b] / g.hopUs[0])
			}
		}
		return count
	}
	order := make([]int, n)
	for a := range n {
		byDistance(order, far[a])
		for _, b := range order[1:] {
			for _, i := range at[b] {
				c := g.links[i][0] + g.links[i][1] - b
				if math.Abs(far[a][c]+g.hopUs[g.class[i]]-far[a][b]) <= 1e-9*far[a][b] {
					for k := range count {
						count[k][a][b] = count[k][a][c]
					}
					count[g.class[i]][a][b]++
					break
				}
			}
		}
	}
	return count
}

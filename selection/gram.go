package selection

import "gonum.org/v1/gonum/floats"

// gram holds the inner products of a design's columns, block by block. Products add up over blocks, so training without
// a fold takes the sum of the other blocks, and centres it afterwards. A column of the matrix is computed when a path
// first takes it: paths take few of many columns, and the whole matrix of 5,000 metrics would take gigabytes.
type gram struct {
	d      *Design
	blocks int
	sum    []float64         // of each term in each block, at [block·terms + term]
	square []float64         // x², likewise
	inner  [][]float64       // of each metric with several terms: its own products, at [block·m² + i·m + j]
	column map[int][]float64 // by term: at [block·terms + other]
}

// mostColumns bounds the number of floats in gram.column, here 64 MiB. Beyond it columns are computed again.
const mostColumns = 8 << 20

func newGram(d *Design) *gram {
	g := &gram{d: d, blocks: len(d.Bounds) - 1, column: make(map[int][]float64)}
	p := len(d.Terms)
	g.sum, g.square = make([]float64, g.blocks*p), make([]float64, g.blocks*p)
	for i := range d.Terms {
		for b := range g.blocks {
			x := g.part(d.Terms[i].X, b)
			g.sum[b*p+i] = floats.Sum(x)
			g.square[b*p+i] = floats.Dot(x, x)
		}
	}
	g.inner = make([][]float64, len(d.Metrics))
	for k, m := range d.Metrics {
		if len(m.Terms) < 2 {
			continue
		}
		n := len(m.Terms)
		in := make([]float64, g.blocks*n*n)
		for b := range g.blocks {
			for i, s := range m.Terms {
				for j, t := range m.Terms[:i+1] {
					v := floats.Dot(g.part(d.Terms[s].X, b), g.part(d.Terms[t].X, b))
					in[b*n*n+i*n+j], in[b*n*n+j*n+i] = v, v
				}
			}
		}
		g.inner[k] = in
	}
	return g
}

func (g *gram) part(x []float64, block int) []float64 {
	return x[g.d.Bounds[block]:g.d.Bounds[block+1]]
}

// products returns the products of a term with every term, block by block.
func (g *gram) products(term int) []float64 {
	if c, ok := g.column[term]; ok {
		return c
	}
	p := len(g.d.Terms)
	if (len(g.column)+1)*g.blocks*p > mostColumns {
		clear(g.column)
	}
	c := make([]float64, g.blocks*p)
	x := g.d.Terms[term].X
	for i := range p {
		other, known := g.column[i]
		for b := range g.blocks {
			if known {
				c[b*p+i] = other[b*p+term]
			} else {
				c[b*p+i] = floats.Dot(g.part(g.d.Terms[i].X, b), g.part(x, b))
			}
		}
	}
	g.column[term] = c
	return c
}

// target is a response with its inner products.
type target struct {
	y           []float64
	sum, square []float64 // by block
	cross       []float64 // with each term, at [block·terms + term]
}

func (g *gram) target(y []float64) *target {
	p := len(g.d.Terms)
	t := &target{
		y: y, sum: make([]float64, g.blocks), square: make([]float64, g.blocks), cross: make([]float64, g.blocks*p),
	}
	for b := range g.blocks {
		part := g.part(y, b)
		t.sum[b], t.square[b] = floats.Sum(part), floats.Dot(part, part)
	}
	for i := range p {
		for b := range g.blocks {
			t.cross[b*p+i] = floats.Dot(g.part(g.d.Terms[i].X, b), g.part(y, b))
		}
	}
	return t
}

// rows returns the number of rows in a block.
func (g *gram) rows(block int) int { return g.d.Bounds[block+1] - g.d.Bounds[block] }

// problem is one response over rows that share coefficients: the rows of one job if each job has its own, otherwise all
// rows.
type problem struct {
	g        *gram
	target   *target
	response int
	unit     int // of Design.units; -1: all
	blocks   []int
	fold     []int // of each of blocks
}

// problems returns the problems of a design, one for each response and each unit with coefficients of its own.
func (g *gram) problems(targets []*target, folds int) []problem {
	var out []problem
	for r, t := range targets {
		if !g.d.Joint {
			out = append(out, g.problem(t, 0, g.blocks, folds, r, -1))
			continue
		}
		first := 0
		for u := 1; u < len(g.d.units); u++ {
			last := first
			for last < g.blocks && g.d.Bounds[last] < g.d.units[u] {
				last++
			}
			out = append(out, g.problem(t, first, last, folds, r, u-1))
			first = last
		}
	}
	return out
}

func (g *gram) problem(t *target, first, last, folds, response, unit int) problem {
	p := problem{g: g, target: t, response: response, unit: unit}
	folds = min(folds, last-first)
	for b := first; b < last; b++ {
		p.blocks = append(p.blocks, b)
		p.fold = append(p.fold, (b-first)*folds/(last-first))
	}
	return p
}

// without returns the blocks of the other folds, and the blocks of the fold.
func (p problem) without(fold int) (others, those []int) {
	for i, b := range p.blocks {
		if p.fold[i] == fold {
			those = append(those, b)
		} else {
			others = append(others, b)
		}
	}
	return others, those
}

// variation returns the sum of squares of the response about its mean, over some blocks.
func (p problem) variation(blocks []int) float64 {
	n, sum, square := 0, 0., 0.
	for _, b := range blocks {
		n += p.g.rows(b)
		sum += p.target.sum[b]
		square += p.target.square[b]
	}
	return max(0, square-sum*sum/float64(max(1, n)))
}

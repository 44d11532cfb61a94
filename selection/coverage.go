package selection

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// Covered describes the metrics that are not kept, by means of the kept ones.
type Covered struct {
	Added          []string           // metrics added by greedy column-subset selection, in the order of their choice
	R2             map[string]float64 // of each dropped metric from all kept ones, on held-out blocks
	Representative map[string]string  // of each dropped metric: the closest kept metric; empty if none is kept
	R              map[string]float64 // correlation with the representative
}

const (
	// coverDirect is the largest number of metrics for which each is a candidate. With more, only stars are candidates:
	// the correlation matrix of 5,000 metrics would take 200 MB.
	coverDirect = 1000
	coverBatch  = 1000 // metrics whose held-out R² is computed together
	coverFolds  = 6
	coverStars  = .95
	coverRounds = 5
	// coverClosed is the share of its variance below which a candidate adds nothing, since the kept metrics explain the
	// rest.
	coverClosed = 1e-4
	coverRidge  = 1e-6 // of the variance of a column: two kept twins share their coefficient
	// coverBest is the number of candidates, out of more than coverDirect, that are ranked by explained variance,
	// because each such step reads the whole matrix. The others are ranked by residual.
	coverBest = 300
	// With more than coverDirect metrics, each dropped one is predicted from the coverNear closest kept ones. With as
	// many predictors as rows, every prediction would be perfect in training and worthless.
	coverNear  = 32
	coverEvery = 3 // every third row is read to find the closest
)

// Cover adds metrics to the kept ones until every dropped metric reaches an R² of at least target on held-out blocks.
// It adds at most most metrics; 0: no limit. Metrics are indices of Design.Metrics, and each is represented by its
// mean.
//
// Each step takes the metric with the largest residual correlations with all others, ‖C_j‖²/C_jj. Once the target is
// reached on the fitted rows, metrics that miss it on held-out blocks are added, the worst first. With more than 1,000
// metrics, each dropped one is predicted from the 32 closest kept ones.
//
// Source: Farahat, Elgohary, Ghodsi, Kamel, Greedy Column Subset Selection for Large-scale Data Sets (2015), algorithm
// 1. TestCoverIsGreedy compares it with residuals of regressions.
func Cover(d *Design, kept []int, target float64, most int) *Covered {
	c := newCover(d, kept)
	if most == 0 {
		most = len(d.Metrics)
	}
	c.room = min(most, len(d.Metrics)-len(c.kept))
	candidates := c.candidates()
	g := newGreedy(c.x, candidates, c.kept)
	need := make([]float64, len(candidates)) // R² to reach on the fitted rows
	for i := range need {
		need[i] = target
	}
	for round := 0; c.room > 0; round++ {
		for i := g.short(need); i >= 0 && c.room > 0; i = g.short(need) {
			if g.norm != nil && (round > 0 || len(candidates) > coverDirect && len(c.added) == coverBest) {
				g.norm = nil // no longer needed
			}
			if best := g.best(); best >= 0 {
				i = best
			}
			g.take(i)
			c.add(candidates[i])
		}
		missed := false
		rest := c.dropped(candidates)
		for i, r2 := range c.heldOut(rest).r2 {
			if at := g.at[rest[i]]; r2 < target {
				missed = true
				need[at] = 1 - .9*g.left[at]*(1-target)/(1-r2) // so that the held-out residual becomes small enough too
				if round == coverRounds {
					need[at] = 2 // reached only by adding the metric itself
				}
			}
		}
		if !missed {
			break
		}
	}
	return c.finish(target)
}

// coveredBy describes the metrics that are not kept, without adding any.
func coveredBy(d *Design, kept []int) *Covered { return newCover(d, kept).finish(math.Inf(-1)) }

// cover is a growing set of kept metrics.
type cover struct {
	d      *Design
	x      [][]float64 // a column for each metric
	folds  []int       // fold f consists of rows folds[f] to folds[f+1]-1
	kept   []int
	added  []int
	room   int // number of metrics that may still be added
	isKept []bool

	asked  []int // last argument of heldOut, number of metrics added by then, and its answer
	when   int
	answer heldOut
}

func newCover(d *Design, kept []int) *cover {
	c := &cover{d: d, folds: foldBounds(d.Bounds, len(d.Rows)), isKept: make([]bool, len(d.Metrics))}
	c.x = make([][]float64, len(d.Metrics))
	for j := range d.Metrics {
		c.x[j] = d.Terms[meanTerm(d, j)].X
	}
	for _, j := range slices.Sorted(slices.Values(kept)) { // so that the order of kept has no effect
		if !c.isKept[j] {
			c.isKept[j] = true
			c.kept = append(c.kept, j)
		}
	}
	return c
}

// meanTerm returns the term that represents a metric: its mean, or its first term if it has no mean.
func meanTerm(d *Design, metric int) int {
	terms := d.Metrics[metric].Terms
	for _, k := range terms {
		if t := &d.Terms[k]; !t.Scaling.Square && (t.Statistic == "" || t.Statistic == "mean") {
			return k
		}
	}
	return terms[0]
}

// foldBounds makes folds of whole blocks, in their order. If there is a single block, folds are stretches of its rows.
func foldBounds(bounds []int, rows int) []int {
	blocks := len(bounds) - 1
	if blocks < 2 {
		bounds = make([]int, 0, coverFolds+1)
		for f := range coverFolds + 1 {
			bounds = append(bounds, rows*f/coverFolds)
		}
		return slices.Compact(bounds)
	}
	n := min(coverFolds, blocks)
	folds := make([]int, 0, n+1)
	for f := range n + 1 {
		folds = append(folds, bounds[blocks*f/n])
	}
	return folds
}

func (c *cover) add(j int) {
	c.isKept[j] = true
	c.added = append(c.added, j)
	c.room--
}

// dropped returns the metrics that are not kept.
func (c *cover) dropped(metrics []int) (rest []int) {
	for _, j := range metrics {
		if !c.isKept[j] {
			rest = append(rest, j)
		}
	}
	return rest
}

// candidates returns the metrics that may be added: all of them, or for large designs the kept ones and one of each
// star.
func (c *cover) candidates() []int {
	if len(c.d.Metrics) <= coverDirect {
		all := make([]int, len(c.d.Metrics))
		for j := range all {
			all[j] = j
		}
		return all
	}
	all := slices.Clone(c.kept)
	for _, s := range Stars(c.d, coverStars, c.kept) {
		all = append(all, s.Metric)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// finish computes the R² of each dropped metric on held-out blocks. Metrics that were represented by another candidate
// may miss the target here. They are added too, and the R² of the others is not computed again.
func (c *cover) finish(target float64) *Covered {
	out := &Covered{R2: map[string]float64{}, Representative: map[string]string{}, R: map[string]float64{}}
	rest := make([]int, len(c.x))
	for j := range rest {
		rest[j] = j
	}
	rest = c.dropped(rest)
	known := c.heldOut(rest)
	worst := make([]int, len(rest))
	for i := range worst {
		worst[i] = i
	}
	slices.SortStableFunc(worst, func(a, b int) int { return cmp.Compare(known.r2[a], known.r2[b]) })
	for _, i := range worst {
		if j := rest[i]; known.r2[i] < target && c.room > 0 {
			c.add(j)
			continue
		}
		name := c.d.Metrics[rest[i]].Name
		out.R2[name] = known.r2[i]
		if known.nearest[i] >= 0 {
			out.Representative[name], out.R[name] = c.d.Metrics[known.nearest[i]].Name, known.r[i]
		}
	}
	for _, j := range c.added {
		out.Added = append(out.Added, c.d.Metrics[j].Name)
	}
	return out
}

// greedy performs column-subset selection. It never builds the matrix of residual correlations, C = G − Σ wwᵀ, but
// maintains its diagonal, the sums of squares of its rows, and the vector w of each metric taken.
type greedy struct {
	at    map[int]int // place of a metric in the matrix
	g     []float64   // correlations, row after row
	left  []float64   // diagonal of C
	norm  []float64   // sums of the squares of its rows
	w     [][]float64
	taken []bool
}

func newGreedy(x [][]float64, metrics, kept []int) *greedy {
	q := len(metrics)
	g := &greedy{
		at: make(map[int]int, q), g: correlations(x, metrics), left: make([]float64, q), norm: make([]float64, q),
		taken: make([]bool, q),
	}
	for i, j := range metrics {
		row := g.g[i*q : (i+1)*q]
		g.at[j], g.left[i], g.norm[i] = i, row[i], floats.Dot(row, row)
	}
	for _, j := range kept {
		g.take(g.at[j])
	}
	return g
}

// correlations returns XᵀX/n of standardised columns.
func correlations(x [][]float64, metrics []int) []float64 {
	q, n := len(metrics), 0
	if q > 0 {
		n = len(x[metrics[0]])
	}
	sum := blas64.Symmetric{N: q, Stride: max(q, 1), Data: make([]float64, q*q), Uplo: blas.Upper}
	const rows = 512 // rows of a copy in the order in which the product reads it
	for from := 0; from < n; from += rows {
		to := min(from+rows, n)
		part := blas64.General{Rows: q, Cols: to - from, Stride: to - from, Data: make([]float64, q*(to-from))}
		for i, j := range metrics {
			copy(part.Data[i*part.Stride:], x[j][from:to])
		}
		blas64.Syrk(blas.NoTrans, 1/float64(n), part, 1, sum)
	}
	for i := range q {
		for j := range i {
			sum.Data[i*q+j] = sum.Data[j*q+i]
		}
	}
	return sum.Data
}

// short returns the metric farthest below its needed R² on the fitted rows, or -1 if all reach it. Among equals it is
// the first by name.
func (g *greedy) short(need []float64) int {
	worst, lacks := -1, 0.0
	for i, left := range g.left {
		if lack := need[i] - (1 - left); !g.taken[i] && lack > lacks {
			worst, lacks = i, lack
		}
	}
	return worst
}

// best returns the metric that explains most of the remaining variance of all, or -1 if none explains any. Among equals
// it is the first by name.
func (g *greedy) best() int {
	best, most := -1, 0.0
	if g.norm == nil {
		return best
	}
	for i, left := range g.left {
		if gain := g.norm[i] / left; !g.taken[i] && left >= coverClosed && gain > most*(1+1e-9) {
			best, most = i, gain
		}
	}
	return best
}

// take removes the variance that a metric explains from all metrics.
func (g *greedy) take(s int) {
	q := len(g.left)
	g.taken[s] = true
	own := g.left[s]
	if own < coverClosed {
		return
	}
	w := slices.Clone(g.g[s*q : (s+1)*q]) // row s of C, divided by the root of its diagonal
	for _, v := range g.w {
		floats.AddScaled(w, -v[s], v)
	}
	floats.Scale(1/math.Sqrt(own), w)
	g.w = append(g.w, w)
	for i, v := range w {
		g.left[i] = max(0, g.left[i]-v*v)
	}
	if g.norm == nil {
		return
	}
	product := make([]float64, q) // C w
	blas64.Gemv(blas.NoTrans, 1, blas64.General{Rows: q, Cols: q, Stride: q, Data: g.g},
		blas64.Vector{N: q, Inc: 1, Data: w}, 0, blas64.Vector{N: q, Inc: 1, Data: product})
	for _, v := range g.w[:len(g.w)-1] {
		floats.AddScaled(product, -floats.Dot(v, w), v)
	}
	length := floats.Dot(w, w)
	for i, v := range w {
		g.norm[i] = max(0, g.norm[i]-v*(2*product[i]-length*v))
	}
}

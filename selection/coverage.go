package selection

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
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

// heldOut is the quality of predictions from the kept metrics, by regressions that leave out the rows of a fold.
type heldOut struct {
	r2      []float64
	nearest []int     // closest kept metric by |r|; -1 if none is kept
	r       []float64 // correlation with it
}

// heldOut predicts metrics in batches, which bounds the memory.
func (c *cover) heldOut(metrics []int) heldOut {
	if slices.Equal(metrics, c.asked) && len(c.added) == c.when {
		return c.answer
	}
	kept := slices.Concat(c.kept, c.added)
	slices.Sort(kept)
	var all heldOut
	if len(c.x) > coverDirect && len(kept) > coverNear {
		c.predictNear(&all, kept, metrics)
		c.asked, c.when, c.answer = metrics, len(c.added), all
		return all
	}
	z := rowsOf(c.x, kept)
	for batch := range slices.Chunk(metrics, coverBatch) {
		c.predict(&all, kept, z, rowsOf(c.x, batch))
	}
	c.asked, c.when, c.answer = metrics, len(c.added), all
	return all
}

// predictNear predicts each metric from the closest kept ones. Correlations over a part of the rows decide which are
// the closest.
func (c *cover) predictNear(all *heldOut, kept, metrics []int) {
	z := c.someRows(kept)
	for batch := range slices.Chunk(metrics, coverBatch) {
		x := c.someRows(batch)
		r := newGeneral(x.Rows, z.Rows)
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, x, z, 0, r)
		for i, j := range batch {
			row := r.Data[i*r.Stride : i*r.Stride+r.Cols]
			near := make([]int, len(kept))
			for k := range near {
				near[k] = k
			}
			slices.SortFunc(near, func(a, b int) int {
				return cmp.Or(cmp.Compare(math.Abs(row[b]), math.Abs(row[a])), a-b)
			})
			near = near[:coverNear]
			slices.Sort(near)
			for k := range near {
				near[k] = kept[near[k]]
			}
			c.predict(all, near, rowsOf(c.x, near), rowsOf(c.x, []int{j}))
		}
	}
}

// someRows returns a matrix with a row for each of some columns, made of one value in coverEvery.
func (c *cover) someRows(metrics []int) blas64.General {
	n := (len(c.d.Rows) + coverEvery - 1) / coverEvery
	m := newGeneral(len(metrics), n)
	for i, j := range metrics {
		for k := range n {
			m.Data[i*n+k] = c.x[j][k*coverEvery]
		}
	}
	return m
}

// rowsOf returns a matrix with a row for each of some columns.
func rowsOf(x [][]float64, metrics []int) blas64.General {
	if len(metrics) == 0 {
		return blas64.General{}
	}
	m := newGeneral(len(metrics), len(x[metrics[0]]))
	for i, j := range metrics {
		copy(m.Data[i*m.Stride:], x[j])
	}
	return m
}

// predict appends the results for the rows of x, predicted by regressions on the rows of z.
func (c *cover) predict(all *heldOut, kept []int, z, x blas64.General) {
	n, k := x.Cols, z.Rows
	lost := make([]float64, x.Rows)
	if k == 0 {
		for range x.Rows {
			all.r2, all.nearest, all.r = append(all.r2, 0), append(all.nearest, -1), append(all.r, 0)
		}
		return
	}
	folds := make([]foldProducts, len(c.folds)-1)
	inner, outer := newGeneral(k, k), newGeneral(k, x.Rows)
	for f := range folds {
		folds[f] = newFoldProducts(part(z, c.folds[f], c.folds[f+1]), part(x, c.folds[f], c.folds[f+1]))
		floats.Add(inner.Data, folds[f].inner.Data)
		floats.Add(outer.Data, folds[f].outer.Data)
	}
	for f := range folds {
		folds[f].predict(lost, inner, outer, float64(n))
		folds[f] = foldProducts{}
	}
	for i := range x.Rows {
		nearest, r := 0, 0.0
		for j := range kept { // among equals the first by name
			if v := outer.Data[j*outer.Stride+i] / float64(n); math.Abs(v) > math.Abs(r)+1e-9 {
				nearest, r = j, v
			}
		}
		all.r2 = append(all.r2, 1-lost[i]/float64(n))
		all.nearest, all.r = append(all.nearest, kept[nearest]), append(all.r, max(-1, min(1, r)))
	}
}

func newGeneral(rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: cols, Data: make([]float64, rows*cols)}
}

// part returns the columns from to to-1 of a matrix.
func part(m blas64.General, from, to int) blas64.General {
	return blas64.General{Rows: m.Rows, Cols: to - from, Stride: m.Stride, Data: m.Data[from:]}
}

// foldProducts are the inner products over the rows of a fold: of the kept metrics z with each other, and with the
// metrics x.
type foldProducts struct{ z, x, inner, outer blas64.General }

func newFoldProducts(z, x blas64.General) foldProducts {
	f := foldProducts{z, x, newGeneral(z.Rows, z.Rows), newGeneral(z.Rows, x.Rows)}
	half := blas64.Symmetric{N: z.Rows, Stride: f.inner.Stride, Data: f.inner.Data, Uplo: blas.Upper}
	blas64.Syrk(blas.NoTrans, 1, z, 0, half)
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, z, x, 0, f.outer)
	return f
}

// predict adds the squared errors in the rows of the fold to lost. inner and outer are the products over all rows; the
// fold's products are subtracted for training. All columns have mean 0 over all rows.
func (f *foldProducts) predict(lost []float64, inner, outer blas64.General, rows float64) {
	z, x, a, b := f.z, f.x, f.inner, f.outer
	for i := range a.Data { // only the upper triangle of inner is used
		a.Data[i] = inner.Data[i] - a.Data[i]
	}
	for i := range b.Data {
		b.Data[i] = outer.Data[i] - b.Data[i]
	}
	outside := rows - float64(z.Cols)
	if outside < 1 {
		return
	}
	meanZ, meanX := meansOutside(z, outside), meansOutside(x, outside)
	blas64.Ger(-outside, meanZ, meanZ, a)
	blas64.Ger(-outside, meanZ, meanX, b)
	for i := range a.Rows {
		a.Data[i*a.Stride+i] += coverRidge * outside
	}
	factor, ok := lapack64.Potrf(blas64.Symmetric{N: a.Rows, Stride: a.Stride, Data: a.Data, Uplo: blas.Upper})
	if !ok { // with the ridge this happens only for NaN or infinity, and the result is unknown
		for i := range lost {
			lost[i] = math.Inf(1)
		}
		return
	}
	lapack64.Potrs(factor, b)
	e := newGeneral(x.Rows, x.Cols)
	for i := range e.Rows {
		copy(e.Data[i*e.Stride:(i+1)*e.Stride], x.Data[i*x.Stride:i*x.Stride+x.Cols])
	}
	blas64.Gemm(blas.Trans, blas.NoTrans, -1, b, z, 1, e)
	shift := blas64.Vector{N: x.Rows, Inc: 1, Data: slices.Clone(meanX.Data)} // the intercept
	blas64.Gemv(blas.Trans, -1, b, meanZ, 1, shift)
	for i := range e.Rows {
		row := e.Data[i*e.Stride : (i+1)*e.Stride]
		floats.AddConst(-shift.Data[i], row)
		lost[i] += floats.Dot(row, row)
	}
}

// meansOutside returns the row means over all columns that are not in m. The mean over all columns is 0.
func meansOutside(m blas64.General, outside float64) blas64.Vector {
	v := blas64.Vector{N: m.Rows, Inc: 1, Data: make([]float64, m.Rows)}
	for i := range m.Rows {
		v.Data[i] = -floats.Sum(m.Data[i*m.Stride:i*m.Stride+m.Cols]) / outside
	}
	return v
}

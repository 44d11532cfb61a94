package selection

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
)

// Covered is what is known of the metrics that are not kept.
type Covered struct {
	Added          []string           // to those kept, by greedy column-subset selection, in the order of their choice
	R2             map[string]float64 // of each dropped metric from all kept ones, on held-out blocks
	Representative map[string]string  // of each dropped metric: the kept metric that is closest; empty: none is kept
	R              map[string]float64 // correlation with it
}

const (
	// coverDirect is the most metrics of which each is a candidate. Of more, stars are: the residual correlation matrix
	// of 5,000 metrics has 200 MB.
	coverDirect = 1000
	coverBatch  = 1000 // metrics whose held-out R² is found together
	coverFolds  = 6
	coverStars  = .95
	// coverClosed is the share of its variance below which a candidate adds nothing: the others have the rest.
	coverClosed = 1e-4
)

// Cover adds metrics to those kept until each dropped metric has at least this R² on held-out blocks, or most metrics
// were added; 0: no limit. Metrics are numbers of Design.Metrics. What counts of a metric is its mean.
//
// Each step takes the metric whose residual correlations with all others are largest, ‖C_j‖²/C_jj. Once the target is
// reached on the rows that are fitted, those that miss it on held-out blocks are added, the worst first.
// Source: Farahat, Elgohary, Ghodsi, Kamel, Greedy Column Subset Selection for Large-scale Data Sets (2015), algorithm 1.
// TestCoverIsGreedy compares it with residuals of regressions.
func Cover(d *Design, kept []int, target float64, most int) *Covered {
	c := newCover(d, kept)
	candidates := c.candidates()
	known := newFoldFit(c.x, candidates, c.folds)
	for _, j := range c.kept {
		known.add(j)
	}
	if most == 0 {
		most = len(d.Metrics)
	}
	most = min(most, len(d.Metrics)-len(c.kept))
	g := newGreedy(c.x, candidates, c.kept)
	for len(c.added) < most {
		j := -1
		if known.worst(c.isKept) >= target {
			break
		}
		if g.short(target) {
			j = g.best()
		}
		if j < 0 {
			j = known.worstMetric(c.isKept)
		}
		g.take(j)
		known.add(j)
		c.add(j)
	}
	c.stragglers(candidates, target, most)
	return c.measured()
}

// CoveredBy is what is known of the metrics that are not kept, without any more.
func CoveredBy(d *Design, kept []int) *Covered { return newCover(d, kept).measured() }

// cover is a set of kept metrics that grows.
type cover struct {
	d      *Design
	x      [][]float64 // a column for each metric
	folds  []int       // fold f has rows folds[f] to folds[f+1]-1
	kept   []int
	added  []int
	isKept []bool
}

func newCover(d *Design, kept []int) *cover {
	c := &cover{d: d, folds: foldBounds(d.Bounds, len(d.Rows)), isKept: make([]bool, len(d.Metrics))}
	c.x = make([][]float64, len(d.Metrics))
	for j := range d.Metrics {
		c.x[j] = d.Terms[meanTerm(d, j)].X
	}
	for _, j := range slices.Sorted(slices.Values(kept)) { // so that the order in which they come changes nothing
		if !c.isKept[j] {
			c.isKept[j] = true
			c.kept = append(c.kept, j)
		}
	}
	return c
}

// meanTerm is the term that stands for a metric: its mean, or the first where there is none.
func meanTerm(d *Design, metric int) int {
	terms := d.Metrics[metric].Terms
	for _, k := range terms {
		if t := &d.Terms[k]; !t.Scaling.Square && (t.Statistic == "" || t.Statistic == "mean") {
			return k
		}
	}
	return terms[0]
}

// foldBounds makes folds of whole blocks, in their order. Where there is one block, folds are stretches of its rows.
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
}

// candidates are the metrics that may be added: all, or those kept and one of each star.
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

// stragglers adds metrics that were no candidates and miss the target, although their representative has it.
func (c *cover) stragglers(candidates []int, target float64, most int) {
	if len(candidates) == len(c.d.Metrics) {
		return
	}
	var late []int
	was := slices.Concat(c.kept, c.added)
	c.batches(was, func(known *foldFit, batch []int) {
		for _, j := range batch {
			if _, is := slices.BinarySearch(candidates, j); !is && known.r2(j) < target {
				late = append(late, j)
			}
		}
	})
	if len(late) == 0 || len(c.added) >= most {
		return
	}
	known := newFoldFit(c.x, slices.Concat(was, late), c.folds)
	for _, j := range was {
		known.add(j)
	}
	for len(c.added) < most && known.worst(c.isKept) < target {
		j := known.worstMetric(c.isKept)
		known.add(j)
		c.add(j)
	}
}

// batches finds the held-out R² of all metrics that are not kept, some at a time: the memory is bounded.
func (c *cover) batches(kept []int, fn func(known *foldFit, batch []int)) {
	var rest []int
	for j := range c.x {
		if !c.isKept[j] {
			rest = append(rest, j)
		}
	}
	for batch := range slices.Chunk(rest, coverBatch) {
		known := newFoldFit(c.x, slices.Concat(kept, batch), c.folds)
		for _, j := range kept {
			known.add(j)
		}
		fn(known, batch)
	}
}

// measured says of each dropped metric how well it is known.
func (c *cover) measured() *Covered {
	out := &Covered{R2: map[string]float64{}, Representative: map[string]string{}, R: map[string]float64{}}
	for _, j := range c.added {
		out.Added = append(out.Added, c.d.Metrics[j].Name)
	}
	c.batches(slices.Concat(c.kept, c.added), func(known *foldFit, batch []int) {
		for _, j := range batch {
			name := c.d.Metrics[j].Name
			out.R2[name] = known.r2(j)
			if at := known.at[j]; known.closest[at] >= 0 {
				out.Representative[name] = c.d.Metrics[known.closest[at]].Name
				out.R[name] = known.r[at]
			}
		}
	})
	return out
}

// greedy is column-subset selection on a residual correlation matrix.
type greedy struct {
	metrics []int
	at      map[int]int
	c       []float64 // the matrix, row after row: what the metrics taken leave of the correlations
	norm    []float64 // sum of the squares of each row
	taken   []bool
}

func newGreedy(x [][]float64, metrics, kept []int) *greedy {
	q := len(metrics)
	g := &greedy{
		metrics: metrics, at: make(map[int]int, q), c: correlations(x, metrics), norm: make([]float64, q),
		taken: make([]bool, q),
	}
	for i, j := range metrics {
		g.at[j] = i
		row := g.c[i*q : (i+1)*q]
		g.norm[i] = floats.Dot(row, row)
	}
	for _, j := range kept {
		g.take(j)
	}
	return g
}

// correlations is XᵀX/n of standardised columns.
func correlations(x [][]float64, metrics []int) []float64 {
	q, n := len(metrics), 0
	if q > 0 {
		n = len(x[metrics[0]])
	}
	sum := blas64.Symmetric{N: q, Stride: max(q, 1), Data: make([]float64, q*q), Uplo: blas.Upper}
	const rows = 512 // of a copy that is in the order in which the product reads it
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

// short reports whether a metric that is not taken has less than this R² on the rows that are fitted.
func (g *greedy) short(target float64) bool {
	q := len(g.metrics)
	for i := range g.metrics {
		if !g.taken[i] && 1-g.c[i*q+i] < target {
			return true
		}
	}
	return false
}

// best is the metric that explains most of what is left of all; -1: none does. Of equals it is the first by name.
func (g *greedy) best() int {
	q, best, most := len(g.metrics), -1, 0.0
	for i, j := range g.metrics {
		own := g.c[i*q+i]
		if g.taken[i] || own < coverClosed {
			continue
		}
		if gain := g.norm[i] / own; gain > most*(1+1e-9) {
			best, most = j, gain
		}
	}
	return best
}

// take removes from all metrics what this one explains: C − vvᵀ, where v is its row divided by the root of its own.
func (g *greedy) take(metric int) {
	s, q := g.at[metric], len(g.metrics)
	if g.taken[s] {
		return
	}
	g.taken[s] = true
	own := g.c[s*q+s]
	if own < coverClosed {
		return
	}
	v := slices.Clone(g.c[s*q : (s+1)*q])
	floats.Scale(1/math.Sqrt(own), v)
	for i := range q {
		row := g.c[i*q : (i+1)*q]
		floats.AddScaled(row, -v[i], v)
		g.norm[i] = floats.Dot(row, row)
	}
}

// foldFit knows how well each of some metrics is predicted from those added, by regressions without the rows of a fold.
// A metric that is added costs a product with each column. The rest is Gram–Schmidt on these products, fold by fold.
type foldFit struct {
	x       [][]float64
	metrics []int
	at      map[int]int
	bounds  []int
	rows    int
	folds   []foldBasis
	closest []int     // of each of metrics: the added metric with the largest |r|
	r       []float64 // correlation with it
	product []float64
}

// foldBasis are the added columns, orthonormal over the rows outside the fold.
type foldBasis struct {
	mean  []float64   // of each column over the rows outside
	test  []float64   // of each column: squared error in the fold, with the terms so far
	sum   []float64   // of each column over the rows of the fold
	n     float64     // rows of the fold
	in    [][]float64 // of each basis vector: product with each column outside the fold, which is the coefficient
	out   [][]float64 // and in the fold
	cross [][]float64 // products of basis vectors in the fold: row k has those with vectors 0 to k
}

func newFoldFit(x [][]float64, metrics, bounds []int) *foldFit {
	rows := bounds[len(bounds)-1]
	h := &foldFit{
		x: x, metrics: metrics, at: make(map[int]int, len(metrics)), bounds: bounds, rows: rows,
		folds: make([]foldBasis, len(bounds)-1), closest: make([]int, len(metrics)), r: make([]float64, len(metrics)),
		product: make([]float64, (len(bounds)-1)*len(metrics)),
	}
	for i, j := range metrics {
		h.at[j], h.closest[i] = i, -1
	}
	for f := range h.folds {
		b := &h.folds[f]
		b.n = float64(bounds[f+1] - bounds[f])
		b.mean, b.sum, b.test = make([]float64, len(metrics)), make([]float64, len(metrics)), make([]float64, len(metrics))
		for i, j := range metrics {
			part := x[j][bounds[f]:bounds[f+1]]
			b.sum[i] = floats.Sum(part)
			b.mean[i] = (floats.Sum(x[j][:bounds[f]]) + floats.Sum(x[j][bounds[f+1]:])) / max(float64(rows)-b.n, 1)
			b.test[i] = floats.Dot(part, part) - 2*b.mean[i]*b.sum[i] + b.n*b.mean[i]*b.mean[i]
		}
	}
	return h
}

// add makes a metric known in all rows, so that the others are predicted from it too.
func (h *foldFit) add(metric int) {
	s, q := h.at[metric], len(h.metrics)
	column := h.x[metric]
	for i, j := range h.metrics {
		r := 0.0
		for f := range h.folds {
			p := floats.Dot(column[h.bounds[f]:h.bounds[f+1]], h.x[j][h.bounds[f]:h.bounds[f+1]])
			h.product[f*q+i] = p
			r += p
		}
		r /= float64(h.rows)
		if nearer := math.Abs(r) - math.Abs(h.r[i]); h.closest[i] < 0 || nearer > 1e-9 ||
			nearer > -1e-9 && metric < h.closest[i] {
			h.closest[i], h.r[i] = metric, max(-1, min(1, r))
		}
	}
	all := make([]float64, q)
	for f := range h.folds {
		floats.Add(all, h.product[f*q:(f+1)*q])
	}
	for f := range h.folds {
		h.folds[f].add(s, float64(h.rows), all, h.product[f*q:(f+1)*q])
	}
}

// add orthogonalises column s, of which there are the products with all columns over all rows and over the fold.
func (b *foldBasis) add(s int, rows float64, all, fold []float64) {
	q := len(all)
	in, out := make([]float64, q), make([]float64, q)
	outside := rows - b.n
	for j := range in { // about the means outside the fold, which are what a regression there knows
		in[j] = all[j] - fold[j] - outside*b.mean[s]*b.mean[j]
		out[j] = fold[j] - b.mean[s]*b.sum[j] - b.mean[j]*b.sum[s] + b.n*b.mean[s]*b.mean[j]
	}
	own, outOwn, k := in[s], out[s], len(b.in)
	cross := make([]float64, k+1)
	left := own
	for i := range k {
		r := b.in[i][s]
		left -= r * r
		floats.AddScaled(in, -r, b.in[i])
	}
	if !(left > .01*own) || own <= 0 { // the vectors before have it: its coefficient would be noise
		return
	}
	length := math.Sqrt(left)
	for l := range k {
		cross[l] = b.out[l][s]
	}
	for i := range k {
		r := b.in[i][s]
		floats.AddScaled(out, -r, b.out[i])
		outOwn -= 2 * r * b.out[i][s]
		for l := range k {
			cross[l] -= r * b.product(i, l)
			outOwn += r * b.in[l][s] * b.product(i, l)
		}
	}
	floats.Scale(1/length, in)
	floats.Scale(1/length, out)
	floats.Scale(1/length, cross)
	cross[k] = outOwn / left
	b.in, b.out, b.cross = append(b.in, in), append(b.out, out), append(b.cross, cross)
	b.score(k)
}

// product is that of two basis vectors over the rows of the fold.
func (b *foldBasis) product(i, l int) float64 {
	if i < l {
		i, l = l, i
	}
	return b.cross[i][l]
}

// score adds basis vector k to the predictions.
func (b *foldBasis) score(k int) {
	in, out, cross := b.in[k], b.out[k], b.cross[k]
	before := make([]float64, len(in)) // product of vector k with what was predicted
	for l := range k {
		floats.AddScaled(before, cross[l], b.in[l])
	}
	for j, c := range in {
		b.test[j] += c * (2*(before[j]-out[j]) + c*cross[k])
	}
}

// r2 is that of a metric on held-out rows. Its columns have mean 0 and variance 1.
func (h *foldFit) r2(metric int) float64 {
	lost := 0.0
	for f := range h.folds {
		lost += h.folds[f].test[h.at[metric]]
	}
	return 1 - lost/float64(h.rows)
}

// worst is the lowest R² of metrics that are not kept; 1 where all are.
func (h *foldFit) worst(isKept []bool) float64 {
	if j := h.worstMetric(isKept); j >= 0 {
		return h.r2(j)
	}
	return 1
}

// worstMetric is the metric with the lowest R²; -1: all are kept. Of equals it is the first by name.
func (h *foldFit) worstMetric(isKept []bool) int {
	worst, least := -1, math.Inf(1)
	for _, j := range h.metrics {
		if r := h.r2(j); !isKept[j] && (r < least || worst < 0 || r == least && cmp.Less(j, worst)) {
			worst, least = j, r
		}
	}
	return worst
}

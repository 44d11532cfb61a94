package study

import (
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/weirhpc/weir/analysis/selection"
)

type lit struct {
	clusters int
	sel      []int
	r2       float64
	err      string
}

func protoLiteral(t *selection.Table, theta float64) lit {
	n := t.Rows()
	y := standardise(slices.Clone(t.Responses[0].Values))
	var idx []int
	var cols []float64
	for m, me := range t.Metrics {
		v := me.Columns[0].Values
		if slices.Max(v) == slices.Min(v) {
			continue
		}
		idx = append(idx, m)
		cols = append(cols, standardise(slices.Clone(v))...)
	}
	p := len(idx)
	x := mat.NewDense(p, n, cols)
	var c mat.SymDense
	c.SymOuterK(1/float64(n), x)
	ry := make([]float64, p)
	for j := range ry {
		for i := range y {
			ry[j] += x.At(j, i) * y[i] / float64(n)
		}
	}
	parent := make([]int, p)
	for i := range parent {
		parent[i] = i
	}
	var find func(i int) int
	find = func(i int) int {
		if parent[i] != i {
			parent[i] = find(parent[i])
		}
		return parent[i]
	}
	if theta < 1 {
		for i := range p {
			for j := range i {
				r := min(math.Abs(c.At(i, j)), 1)
				if (math.Atanh(r)-math.Atanh(theta))*math.Sqrt(float64(n-3)) > 1.6448536269514722 {
					parent[find(i)] = find(j)
				}
			}
		}
	}
	rep := map[int]int{}
	for i := range p {
		k := find(i)
		if b, ok := rep[k]; !ok || math.Abs(ry[i]) > math.Abs(ry[b])+1e-9 {
			rep[k] = i
		}
	}
	var reps []int
	for _, r := range rep {
		reps = append(reps, r)
	}
	sort.Ints(reps)
	out := lit{clusters: len(reps)}
	k := len(reps)
	if n <= k+1 {
		out.err = "rows"
		return out
	}
	// sweep
	g := mat.NewDense(k+1, k+1, nil)
	for a, i := range reps {
		for b, j := range reps {
			g.Set(a, b, c.At(i, j))
		}
		g.Set(a, k, ry[i])
		g.Set(k, a, ry[i])
	}
	g.Set(k, k, 1)
	sweep := func(m int) {
		d := g.At(m, m)
		K := k + 1
		for i := range K {
			if i == m {
				continue
			}
			f := g.At(i, m) / d
			for j := range K {
				if j != m {
					g.Set(i, j, g.At(i, j)-f*g.At(m, j))
				}
			}
		}
		for i := range K {
			if i != m {
				g.Set(i, m, -g.At(i, m)/d*-1)
				g.Set(m, i, g.At(m, i)/d)
			}
		}
		g.Set(m, m, -1/d)
	}
	sweepS := func(m int, back bool) {
		d := g.At(m, m)
		K := k + 1
		row := make([]float64, K)
		for j := range K {
			row[j] = g.At(m, j)
		}
		for i := range K {
			for j := range K {
				if i != m && j != m {
					g.Set(i, j, g.At(i, j)-row[i]*row[j]/d)
				}
			}
		}
		s := 1.0
		if back {
			s = -1
		}
		for i := range K {
			if i != m {
				g.Set(i, m, s*row[i]/d)
				g.Set(m, i, s*row[i]/d)
			}
		}
		g.Set(m, m, -1/d)
	}
	_ = sweep
	in := make([]bool, k)
	for m := range k {
		if g.At(m, m) < 1e-10 {
			out.err = "collinear"
			return out
		}
		sweepS(m, false)
		in[m] = true
	}
	count := k
	for count > 0 {
		sse := g.At(k, k)
		s2 := sse / float64(n-count-1)
		worst, wf := -1, math.Inf(1)
		for m := range k {
			if in[m] {
				b := g.At(m, k)
				f := b * b / -g.At(m, m) / s2
				if f <= wf {
					worst, wf = m, f
				}
			}
		}
		if wf >= 2 {
			break
		}
		sweepS(worst, true)
		in[worst] = false
		count--
	}
	for m := range k {
		if in[m] {
			out.sel = append(out.sel, idx[reps[m]])
		}
	}
	out.r2 = 1 - g.At(k, k)
	return out
}

func columnsOf(t *selection.Table, ms []int) [][]float64 {
	var x [][]float64
	for _, m := range ms {
		for _, c := range t.Metrics[m].Columns {
			x = append(x, c.Values)
		}
	}
	return x
}

func med(v []float64) float64 {
	v = slices.Clone(v)
	sort.Float64s(v)
	if len(v) == 0 {
		return math.NaN()
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// protoForward on raw columns with one column a metric
func protoForward(t *selection.Table, blocks [][]int) ([]int, float64) {
	y := t.Responses[0].Values
	var idx []int
	for m, me := range t.Metrics {
		v := me.Columns[0].Values
		if slices.Max(v) != slices.Min(v) {
			idx = append(idx, m)
		}
	}
	path := func(rows []int, most int) []int {
		n := len(rows)
		p := len(idx)
		cols := make([][]float64, p)
		for j, m := range idx {
			v := pick(t.Metrics[m].Columns[0].Values, rows)
			if slices.Max(v) != slices.Min(v) {
				standardise(v)
			} else {
				v = make([]float64, n)
			}
			cols[j] = v
		}
		r := standardise(pick(y, rows))
		d := make([]float64, p)
		c := make([]float64, p)
		for j := range cols {
			for i := range r {
				d[j] += cols[j][i] * cols[j][i]
				c[j] += cols[j][i] * r[i]
			}
		}
		var sel []int
		for len(sel) < most {
			b, bg := -1, 0.0
			for j := range cols {
				if d[j] < .01*float64(n) {
					continue
				}
				if g := c[j] * c[j] / d[j]; g > bg {
					b, bg = j, g
				}
			}
			if b < 0 {
				break
			}
			sel = append(sel, idx[b])
			v := slices.Clone(cols[b])
			db, cb := d[b], c[b]
			for j := range cols {
				s := 0.0
				for i := range v {
					s += v[i] * cols[j][i]
				}
				for i := range v {
					cols[j][i] -= s / db * v[i]
				}
				d[j] -= s * s / db
				c[j] -= s * cb / db
			}
			d[b] = 0
		}
		return sel
	}
	const most = 30
	sums := make([]float64, most+1)
	for k := range blocks {
		var train []int
		for j := range blocks {
			if j != k {
				train = append(train, blocks[j]...)
			}
		}
		s := path(train, most)
		for q := 1; q <= most; q++ {
			sums[q] += heldOut(columnsOf(t, s[:min(q, len(s))]), y, train, blocks[k]) / float64(len(blocks))
		}
	}
	best := slices.Max(sums)
	q := 0
	for sums[q] < best-.01 {
		q++
	}
	if best < .05 {
		return nil, best
	}
	var all []int
	for _, b := range blocks {
		all = append(all, b...)
	}
	return path(all, q), sums[q]
}

func TestProto(t *testing.T) {
	gen := map[string]func(uint64) *Case{"cactus": Cactus, "gridftp": Gridftp, "dense": Dense}[os.Getenv("GEN")]
	if gen == nil {
		t.Skip()
	}
	fw := os.Getenv("FW") != ""
	for _, tc := range []int{1, 6} {
		type acc struct{ cl, sel, r2, rv, held, fa []float64 }
		res := map[float64]*acc{}
		thetas := []float64{.3, .5, .7, .9, .95}
		if os.Getenv("TH") != "" {
			thetas = []float64{.95}
		}
		var orc, fh, fn, ff, fr, cv, mh, rd []float64
		for s := range 8 {
			c := gen(uint64(s + 1))
			var train, test []int
			for _, r := range c.Chunks[:tc] {
				train = append(train, r...)
			}
			for _, r := range c.Chunks[6:] {
				test = append(test, r...)
			}
			y := c.Table.Responses[0].Values
			tt := Rows(c.Table, train)
			for _, th := range thetas {
				l := protoLiteral(tt, th)
				if res[th] == nil {
					res[th] = &acc{}
				}
				a := res[th]
				a.cl = append(a.cl, float64(l.clusters))
				if l.err != "" {
					continue
				}
				a.sel = append(a.sel, float64(len(l.sel)))
				a.r2 = append(a.r2, l.r2)
				x := columnsOf(c.Table, l.sel)
				rv := 0.0
				for _, ch := range c.Chunks[6:] {
					rv += heldOut(x, y, ch, ch) / 6
				}
				a.rv = append(a.rv, rv)
				a.held = append(a.held, heldOut(x, y, train, test))
				a.fa = append(a.fa, c.False(l.sel))
			}
			orc = append(orc, heldOut(columnsOf(c.Table, c.Oracle), y, train, test))
			var main []int
			for m, me := range c.Table.Metrics {
				if slices.Contains(c.Main, me.Name) {
					main = append(main, m)
				}
			}
			mh = append(mh, heldOut(columnsOf(c.Table, main), y, train, test))
			rr := source(uint64(s), "rand").Perm(len(c.Table.Metrics))[:80]
			rd = append(rd, heldOut(columnsOf(c.Table, rr), y, train, test))
			if fw {
				bl := c.Chunks[:6]
				if tc == 1 {
					bl = stretches(240, 6)
				}
				sel, e := protoForward(c.Table, bl)
				fn = append(fn, float64(len(sel)))
				h := heldOut(columnsOf(c.Table, sel), y, train, test)
				fh = append(fh, h)
				cv = append(cv, e-h)
				ff = append(ff, c.False(sel))
				fr = append(fr, c.Recall(sel))
			}
		}
		for _, th := range thetas {
			a := res[th]
			fmt.Printf("%d chunks θ %.2f clusters %v sel %v train %.3f verify %.3f held %.2f false %.2f runs %d\n", tc, th, med(a.cl), med(a.sel), med(a.r2), med(a.rv), med(a.held), med(a.fa), len(a.sel))
		}
		fmt.Printf("%d oracle %.3f main %.2f rand %.2f forward n %v held %.3f min %.3f false %.2f recall %.2f cv-held %.3f\n", tc, med(orc), med(mh), med(rd), med(fn), med(fh), slices.Min(append(fh, 1)), med(ff), med(fr), med(cv))
	}
}

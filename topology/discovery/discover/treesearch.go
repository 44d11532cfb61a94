package discover

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// fitted is a tree, the values that it was built from, and how it describes the matrix.
type fitted struct {
	tree   *tree
	values *values
	description
	score  float64
	margin float64
	space  []float32 // for a square of values: a large one is not taken twice

	placed   float64 // nats by which the least certain leaf prefers its switch
	weakest  int     // that leaf
	doubtful []latency.Pair
}

// Passes of the search: each clips the values to the tree of the pass before.
const (
	clipSigmas  = 2.5
	clipPasses  = 3
	settleTurns = 3
)

// Up to so many nodes, a search uses several starts. Above, it uses one, for time and memory.
const manyStarts = 3000

// search returns the tree that describes the values best.
func search(m *latency.Matrix, v *values) fitted {
	n := v.n
	best := rate(m, v, star(n))
	w := make([]float32, n*n)
	try := func(t *tree) {
		for pass := range clipPasses {
			if t = polish(t, v, w); t == nil {
				return
			}
			found := rate(m, v, t)
			worse := found.score >= best.score-1e-9
			if !worse {
				best = found
			}
			if (worse && pass > 0) || n > manyStarts {
				return
			}
			t.clip(v, w, clipSigmas)
			clipped := append([]float32(nil), w...)
			fill(w)
			t = link(w, n)
			t.collapse(v, clipped)
		}
	}
	copy(w, v.y)
	var smoothed []float32
	if n <= manyStarts {
		smoothed = make([]float32, n*n)
		v.smooth(smoothed, 4)
		for i, x := range w {
			if x != x {
				w[i] = smoothed[i]
			}
		}
	}
	fill(w)
	raw := link(w, n)
	raw.collapse(v, v.y)
	try(raw)
	if smoothed == nil {
		best.space = w
		return best
	}
	if n > surelyEnough && best.certain() {
		return best
	}
	near := nearSmoothed(v, smoothed)
	fill(smoothed)
	t := link(smoothed, n)
	t.collapse(v, near)
	try(t)
	return reconsider(m, best)
}

// mostReconsidered bounds how many leaves are tried elsewhere.
const mostReconsidered = 16

// reconsider moves the leaves in the least certain places, and keeps the tree that describes the matrix better.
// Settling alone cannot decide: a leaf shapes the level and noise of its own switch, so two places can look stable.
func reconsider(m *latency.Matrix, best fitted) fitted {
	type uncertain struct {
		leaf, other int
		nats        float64
	}
	var found []uncertain
	for leaf := range best.tree.leaves {
		if other, nats := best.tree.rival(best.values, leaf); other >= 0 && nats < doubtfulPlace {
			found = append(found, uncertain{leaf, other, nats})
		}
	}
	slices.SortFunc(found, func(a, b uncertain) int { return cmp.Compare(a.nats, b.nats) })
	for _, u := range found[:min(len(found), mostReconsidered)] {
		t := best.tree.clone()
		t.move(u.leaf, u.other)
		if len(t.children[best.tree.parent[u.leaf]]) < 2 {
			continue // the switch would be gone, and the other be another
		}
		t.arrangeLeaves()
		if moved := rate(m, best.values, t); moved.score < best.score {
			best = moved
		}
	}
	return best
}

// Above so many nodes, one start is enough if it leaves no doubt.
const surelyEnough = 512

// certain reports whether the place of every leaf is clear, and hardly a latency is an outlier.
func (f *fitted) certain() bool {
	if f.outliers > mostOutliers/4 || f.tree.inner() == 0 {
		return false
	}
	for leaf := range f.tree.leaves {
		if _, nats := f.tree.rival(f.values, leaf); nats < doubtfulPlace {
			return false
		}
	}
	return true
}

// nearSmoothed returns the values, none much slower than its smoothed one.
func nearSmoothed(v *values, smoothed []float32) []float32 {
	var sample []float64
	step := max(1, len(v.y)/sampleLimit)
	if step%v.n == 0 {
		step++
	}
	for i := 0; i < len(v.y); i += step {
		if d := float64(v.y[i] - smoothed[i]); d == d {
			sample = append(sample, math.Abs(d))
		}
	}
	room := float32(max(clipSigmas*1.4826*median(sample), 3*v.floor))
	near := make([]float32, len(v.y))
	for i, x := range v.y {
		near[i] = min(x, smoothed[i]+room)
	}
	return near
}

// polish moves leaves and joins switches anew until nothing changes.
func polish(t *tree, v *values, w []float32) *tree {
	for range settleTurns {
		t.fit(v)
		t.flatten(v.resolves)
		moved := t.settle(v)
		if v.n <= manyStarts && t.merge(v) {
			moved = true
		}
		if moved {
			t.fit(v)
		}
		before := len(t.parent)
		t.clip(v, w, clipSigmas)
		t = t.relink(w, v.n)
		t.collapse(v, w)
		if !moved && len(t.parent) == before {
			break
		}
	}
	t.fit(v)
	t.flatten(v.resolves)
	return t
}

// flatten dissolves switches with a level that is not below their parent's.
func (t *tree) flatten(resolves float64) {
	dissolved := false
	for _, s := range t.switches() {
		if s != t.root && t.level[t.parent[s]]-t.level[s] < resolves {
			t.dissolve(s)
			dissolved = true
		}
	}
	if dissolved {
		t.arrange()
	}
}

// rate describes the matrix by a tree.
func rate(m *latency.Matrix, v *values, t *tree) fitted {
	t.fit(v)
	r := t.residuals(m, v)
	f := fitted{tree: t.clone(), values: v, description: r.fit(r.floor(m.TickUs), false)}
	f.score = f.nats + t.structure(v, f.pairs)
	return f
}

// describedPairs bounds how many pairs a tree is rated by.
const describedPairs = 1_000_000

func (t *tree) residuals(m *latency.Matrix, v *values) *residuals {
	step := 1 + t.leaves*(t.leaves-1)/2/describedPairs
	r := &residuals{each: float64(step)}
	i := 0
	for s := t.leaves; s < len(t.parent); s++ {
		t.across(s, func(a int, others []int) {
			for ; i < len(others); i += step {
				b := others[i]
				y := float64(v.y[a*v.n+b])
				switch {
				case y != y:
				case v.offset == nil:
					// The ln is at hand. The fields for a fit of additive noise stay empty.
					r.ln = append(r.ln, y-t.level[s])
					r.sumLn += y
				default:
					r.add(m.At(a, b), t.path(v, s, a, b))
				}
			}
			i -= len(others)
		})
	}
	return r
}

// path returns the latency of two leaves that meet at a switch, in microseconds.
func (t *tree) path(v *values, s, a, b int) float64 {
	if v.offset == nil {
		return math.Exp(t.level[s])
	}
	return v.typical * max(t.level[s]+v.offset[a]+v.offset[b], .01)
}

// structure is the description length of a tree, apart from the data: which leaves are below each switch, and the
// levels. Switches of one parent have no order.
func (t *tree) structure(v *values, pairs int) float64 {
	each := .5 * math.Log(float64(max(pairs, 2)))
	nats := each
	for s := t.leaves; s < len(t.parent); s++ {
		left, switches := t.size(s), 0
		for _, c := range t.children[s] {
			if c >= t.leaves {
				nats += lnChoose(left, t.size(c)) + math.Log(float64(t.leaves)) + each + 1
				left -= t.size(c)
				switches++
			}
		}
		orders, _ := math.Lgamma(float64(switches + 1))
		nats -= orders
	}
	if v.offset != nil {
		nats += float64(t.leaves) / 2 * math.Log(float64(t.leaves))
	}
	return nats
}

package discover

import (
	"math"
	"slices"

	"github.com/weirhpc/weir/topology/discovery/latency"
)

// Offsets are the part of a latency that belongs to one node: its hardware, or the cable to its switch. A tree with
// offsets can describe any tree in which latencies add up along links.

// rowOffsets starts from the quantile of each node's latencies: most partners of a node are far.
func rowOffsets(v *values, quantile float64) []float64 {
	offset := make([]float64, v.n)
	shift := math.Log(v.typical)
	var row []float64
	for a := range v.n {
		row = row[:0]
		for _, x := range v.y[a*v.n : a*v.n+v.n] {
			if x == x {
				row = append(row, math.Exp(float64(x)-shift))
			}
		}
		if len(row) > 0 {
			slices.Sort(row)
			offset[a] = row[int(quantile*float64(len(row)-1)+.5)]
		}
	}
	return center(offset)
}

// center moves offsets so that the least is zero.
func center(offset []float64) []float64 {
	least := slices.Min(offset)
	for i := range offset {
		offset[i] -= least
	}
	return offset
}

// backFit alternates between the levels of a tree and the offsets of its leaves.
func (t *tree) backFit(v *values, offset []float64, turns int) []float64 {
	offset = slices.Clone(offset)
	shift := math.Log(v.typical)
	var sample []float64
	step := 1 + v.n/offsetPartners
	for range turns {
		t.fit(v.without(offset))
		for a := range v.n {
			row := v.y[a*v.n : a*v.n+v.n]
			sample = sample[:0]
			inside := t.lo[a]
			past := t.hi[a]
			for s := t.parent[a]; s >= 0; s = t.parent[s] {
				for i := t.lo[s]; i < t.hi[s]; i += step {
					if i >= inside && i < past {
						continue
					}
					b := t.order[i]
					if x := row[b]; x == x {
						sample = append(sample, math.Exp(float64(x)-shift)-t.level[s]-offset[b])
					}
				}
				inside, past = t.lo[s], t.hi[s]
			}
			if len(sample) > 0 {
				offset[a] = robustMean(sample)
			}
		}
	}
	return center(offset)
}

// robustMean is the mean of a sample, clipped about its median.
func robustMean(x []float64) float64 {
	slices.Sort(x)
	mid := (x[len(x)/2] + x[(len(x)-1)/2]) / 2
	if len(x) < 5 {
		return mid
	}
	deviation := make([]float64, len(x))
	for i := range x {
		deviation[i] = math.Abs(x[i] - mid)
	}
	room := clipSigmas * 1.4826 * median(deviation)
	sum := 0.
	for _, y := range x {
		sum += min(max(y, mid-room), mid+room)
	}
	return sum / float64(len(x))
}

// searchOffsets returns the tree with offsets that describes the values best, from several starts.
func searchOffsets(m *latency.Matrix, v *values, homogeneous *tree) fitted {
	one := star(v.n)
	best := rate(m, v.without(one.backFit(v, rowOffsets(v, .5), 2*offsetTurns)), one)
	try := func(t *tree, offset []float64) {
		w := make([]float32, len(v.y))
		last := math.Inf(1)
		for range offsetRounds {
			t = polish(t, v.without(offset), w)
			offset = t.backFit(v, offset, offsetTurns)
			found := rate(m, v.without(offset), t)
			if found.score < best.score {
				best = found
			}
			if found.score > last-1 {
				return
			}
			last = found.score
		}
	}
	if v.n <= joinLimit {
		t, offset := neighbourJoining(v)
		offset = t.backFit(v, offset, offsetTurns)
		t.collapse(v.without(offset), v.without(offset).y)
		try(t, offset)
	}
	if v.n <= manyStarts {
		t := homogeneous.clone()
		try(t, t.backFit(v, rowOffsets(v, .5), offsetTurns))
		for _, offset := range [][]float64{rowOffsets(v, .7), best.values.offset} {
			fine := v.without(offset)
			w := make([]float32, len(v.y))
			fine.smooth(w, 4)
			near := nearSmoothed(fine, w)
			fill(w)
			t := link(w, v.n)
			t.collapse(fine, near)
			try(t, offset)
		}
	}
	found := search(m, best.values)
	offset := found.tree.backFit(v, best.values.offset, offsetTurns)
	if fine := rate(m, v.without(offset), found.tree); fine.score < best.score {
		best = fine
	}
	return best
}

const (
	offsetTurns  = 6
	offsetRounds = 4
	// An offset is estimated from so many partners.
	offsetPartners = 400
	joinLimit      = 300 // nodes: neighbour joining takes the cube of them
)

// wantsOffsets reports whether offsets could describe the matrix better than a tree without. In a right tree without
// offsets the mean residual of a node is noise. Offsets make it more, in a right tree or a wrong one.
func wantsOffsets(v *values, f fitted) bool {
	if v.n <= 16 {
		return v.n > 3
	}
	t, room := f.tree, clipSigmas*f.sigma
	step := 1 + v.n/offsetPartners
	means, counts := make([]float64, v.n), make([]float64, v.n)
	var all, pairs float64
	for a := range v.n {
		row := v.y[a*v.n : a*v.n+v.n]
		for b := a % step; b < v.n; b += step {
			if x := row[b]; x == x && b != a {
				means[a] += min(max(float64(x)-t.level[t.meet(a, b)], -room), room)
				counts[a]++
			}
		}
		all, pairs = all+means[a], pairs+counts[a]
		means[a] /= max(counts[a], 1)
	}
	sum := 0.
	for a := range v.n {
		// Outliers move the mean of all nodes.
		d := means[a] - all/max(pairs, 1)
		sum += d * d * counts[a]
	}
	// Over sigma squared this is the description length of noise, for each node. An offset saves half of it.
	return sum/(f.sigma*f.sigma) > float64(v.n)*math.Log(float64(v.n))
}

// neighbourJoining returns the binary tree of Saitou and Nei (1987), and the way from its root to each leaf as its
// offset. It needs no common speed of the nodes.
func neighbourJoining(v *values) (*tree, []float64) {
	j := newJoining(v)
	for len(j.active) > 2 {
		j.join()
	}
	for _, c := range j.active {
		j.hang(c, j.next)
		j.length[c] = j.d[j.active[0]][j.active[1]] / 2
	}
	j.root = j.next
	offset := make([]float64, v.n)
	for leaf := range v.n {
		for s := leaf; s != j.root; s = j.parent[s] {
			offset[leaf] += max(j.length[s], 0)
		}
	}
	j.arrange()
	return j.tree, center(offset)
}

// joining is the state of neighbour joining.
type joining struct {
	*tree
	d      [][]float64 // between the vertices
	length []float64   // from each vertex to its parent
	sum    []float64   // of each vertex's distances
	active []int       // vertices without a parent
	next   int
}

func newJoining(v *values) *joining {
	n := v.n
	size := 2*n - 1
	j := &joining{
		tree: &tree{leaves: n}, d: make([][]float64, size), length: make([]float64, size),
		sum: make([]float64, size), next: n,
	}
	j.grow(size)
	shift := math.Log(v.typical)
	for a := range size {
		j.d[a] = make([]float64, size)
	}
	for a := range n {
		j.active = append(j.active, a)
		for b := range n {
			if x := v.y[a*n+b]; x == x {
				j.d[a][b] = math.Exp(float64(x) - shift)
			} else if a != b {
				j.d[a][b] = 1
			}
			j.sum[a] += j.d[a][b]
		}
	}
	return j
}

// join joins the two vertices that are nearest after subtracting their mean distances from all others.
func (j *joining) join() {
	m := float64(len(j.active) - 2)
	first, second, least := 0, 1, math.Inf(1)
	for i, a := range j.active {
		for k := i + 1; k < len(j.active); k++ {
			b := j.active[k]
			if q := m*j.d[a][b] - j.sum[a] - j.sum[b]; q < least {
				first, second, least = i, k, q
			}
		}
	}
	a, b := j.active[first], j.active[second]
	j.length[a] = j.d[a][b]/2 + (j.sum[a]-j.sum[b])/(2*m)
	j.length[b] = j.d[a][b] - j.length[a]
	j.hang(a, j.next)
	j.hang(b, j.next)
	j.active = slices.Delete(j.active, second, second+1)
	j.active = slices.Delete(j.active, first, first+1)
	for _, c := range j.active {
		x := (j.d[a][c] + j.d[b][c] - j.d[a][b]) / 2
		j.d[j.next][c], j.d[c][j.next] = x, x
		j.sum[c] += x - j.d[a][c] - j.d[b][c]
		j.sum[j.next] += x
	}
	j.active = append(j.active, j.next)
	j.next++
}

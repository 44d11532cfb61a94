package discover

import (
	"math"
	"slices"
)

// sampleLimit bounds how many values of a switch its median is taken of.
const sampleLimit = 12_000

// fit sets level and noise of each switch, from median and median deviation of the values across it.
func (t *tree) fit(v *values) {
	count := make([]float64, len(t.parent))
	own := make([]float64, len(t.parent))
	var pooled, total float64
	var sample []float64
	for s := t.leaves; s < len(t.parent); s++ {
		all := 0
		t.across(s, func(_ int, others []int) { all += len(others) })
		step := max(1, all/sampleLimit)
		sample = sample[:0]
		i := 0
		t.across(s, func(a int, others []int) {
			row := v.y[a*v.n : a*v.n+v.n]
			for ; i < len(others); i += step {
				if x := row[others[i]]; x == x {
					sample = append(sample, float64(x))
				}
			}
			i -= len(others)
		})
		count[s] = float64(len(sample) * step)
		if len(sample) == 0 {
			t.level[s] = math.NaN()
			continue
		}
		slices.Sort(sample)
		mid := sample[(len(sample)-1)/2]
		if len(sample) > priorPairs {
			mid = (mid + sample[len(sample)/2]) / 2
		}
		t.level[s] = mid
		for i, x := range sample {
			sample[i] = math.Abs(x - mid)
		}
		scale := 1.4826 * median(sample)
		own[s] = scale * scale
		if len(sample) > 2 {
			weight := float64(min(len(sample), 1000))
			pooled += weight * own[s]
			total += weight
		}
	}
	least := v.floor * v.floor
	if total > 0 {
		pooled /= total
	}
	pooled = max(pooled, least)
	for s := t.leaves; s < len(t.parent); s++ {
		// A few outliers spoil the deviation of a few values, so such a switch gets the noise of all.
		known := max(0, count[s]-10)
		t.sigma[s] = math.Sqrt(max(least, (known*own[s]+priorPairs*pooled)/(known+priorPairs)))
	}
	t.levelUnknown()
}

// levelUnknown gives a switch without any value across it the level of its parent.
func (t *tree) levelUnknown() {
	switches := t.switches()
	slices.Reverse(switches)
	for _, s := range switches {
		if math.IsNaN(t.level[s]) && s != t.root {
			t.level[s] = t.level[t.parent[s]]
		}
	}
}

// fastSigmas is how much further a value may be below its switch's level than above. A disturbance only adds to a
// latency, so a fast value shows a switch that was not seen yet.
const fastSigmas = 8

// clip writes the values to w, none further than some sigmas above its switch's level. Clipping rather than trimming
// keeps the direction of an outlier. An unknown value gets the level.
func (t *tree) clip(v *values, w []float32, sigmas float64) {
	for s := t.leaves; s < len(t.parent); s++ {
		level, room := t.level[s], sigmas*t.sigma[s]
		low, high := float32(level-fastSigmas*room), float32(level+room)
		t.across(s, func(a int, others []int) {
			row := v.y[a*v.n : a*v.n+v.n]
			for _, b := range others {
				x := row[b]
				if v.offset != nil && x == x {
					reach := float32(room / math.Sqrt(v.weight(a, b)))
					x = min(max(x, float32(level)-fastSigmas*reach), float32(level)+reach)
				} else if x == x {
					x = min(max(x, low), high)
				} else {
					x = float32(level)
				}
				w[a*v.n+b], w[b*v.n+a] = x, x
			}
		})
	}
}

// Largest weights of one value against a place in the tree, in nats. Outliers are slow, so a fast value weighs more.
const (
	slowLimit = 10
	fastLimit = 40
)

// settle moves each leaf to the switch that all its values speak for, until none moves.
func (t *tree) settle(v *values) bool {
	moved := false
	for range 6 {
		again := false
		for leaf := range t.leaves {
			if to := t.place(v, leaf); to >= 0 {
				t.move(leaf, to)
				t.arrangeLeaves()
				again, moved = true, true
			}
		}
		if !again {
			break
		}
	}
	if moved {
		t.arrange()
	}
	return moved
}

// arrangeLeaves orders the leaves anew.
func (t *tree) arrangeLeaves() {
	t.order = t.order[:0]
	t.visit(t.root)
}

// place returns the switch that a leaf's values speak for, if it is another than the leaf's: else -1.
func (t *tree) place(v *values, leaf int) int {
	against := t.against(v, leaf)
	best := t.parent[leaf]
	for s := t.leaves; s <= t.root; s++ {
		if against[s] < against[best]-1 {
			best = s
		}
	}
	if best == t.parent[leaf] {
		return -1
	}
	return best
}

// rival returns the second best place of a leaf, and by how many nats its values prefer the leaf's. It is -1 if there
// is no other place.
func (t *tree) rival(v *values, leaf int) (int, float64) {
	against := t.against(v, leaf)
	home, second := t.parent[leaf], -1
	for s := t.leaves; s <= t.root; s++ {
		if s != home && !math.IsInf(against[s], 1) && (second < 0 || against[s] < against[second]) {
			second = s
		}
	}
	if second < 0 {
		return -1, math.Inf(1)
	}
	return second, against[second] - against[home]
}

// penalty is how much a value speaks against a level, in nats.
func penalty(x, level, inverse, weight float64) float64 {
	z := (x - level) * inverse
	half := z * z / 2 * weight
	if z > 0 {
		return min(half, slowLimit)
	}
	return min(half, fastLimit)
}

// against returns how much a leaf's values speak against each switch as its place, in nats.
func (t *tree) against(v *values, leaf int) []float64 {
	at := make([]float64, len(t.parent))   // of the leaves below a switch, if they met the leaf there
	over := make([]float64, len(t.parent)) // of the leaves below a vertex, if they met it at the vertex's parent
	row := v.y[leaf*v.n : leaf*v.n+v.n]
	for s := t.leaves; s < len(t.parent); s++ {
		level, inverse, constant := t.level[s], 1/t.sigma[s], math.Log(t.sigma[s])
		for _, c := range t.children[s] {
			sum := 0.
			for _, b := range t.below(c) {
				x := float64(row[b])
				if x != x || b == leaf {
					continue
				}
				weight := 1.
				if v.offset != nil {
					weight = v.weight(leaf, b)
				}
				sum += penalty(x, level, inverse, weight) + constant
			}
			over[c] = sum
			at[s] += sum
		}
	}
	// A switch has a lower number than its parent, so parents come first here.
	against := make([]float64, len(t.parent))
	against[t.root] = at[t.root]
	for s := t.root - 1; s >= t.leaves; s-- {
		against[s] = against[t.parent[s]] - over[s] + at[s]
	}
	for s := t.leaves; s < t.root; s++ {
		if len(t.children[s]) == 0 || (len(t.children[s]) == 1 && t.children[s][0] == leaf) {
			against[s] = math.Inf(1)
		}
	}
	return against
}

// merge joins switches below the same switch if the values between them fit the level of one. It reports whether it
// did.
func (t *tree) merge(v *values) bool {
	merged := false
	for _, p := range t.switches() {
		for i := 0; i < len(t.children[p]); i++ {
			a := t.children[p][i]
			for j := i + 1; a >= t.leaves && j < len(t.children[p]); j++ {
				b := t.children[p][j]
				if b < t.leaves || t.mergeCost(v, a, b, p) >= 0 {
					continue
				}
				t.parent[b] = a
				t.children[p] = slices.Delete(t.children[p], j, j+1)
				t.children[a] = append(t.children[a], b)
				t.dissolve(b)
				t.arrangeLeaves()
				merged = true
				j--
			}
		}
	}
	if merged {
		t.arrange()
	}
	return merged
}

// mergeCost is how many nats the values between two children of p speak for p's level rather than theirs.
func (t *tree) mergeCost(v *values, a, b, p int) float64 {
	sizeA, sizeB := float64(t.size(a)), float64(t.size(b))
	share := sizeA * sizeA / (sizeA*sizeA + sizeB*sizeB)
	level := share*t.level[a] + (1-share)*t.level[b]
	sigma := share*t.sigma[a] + (1-share)*t.sigma[b]
	inverse, above := 1/sigma, 1/t.sigma[p]
	constant := math.Log(sigma / t.sigma[p])
	// Merging saves the name of one switch, and its level.
	cost := -lnChoose(t.size(p), t.size(b)) - math.Log(float64(t.leaves))
	for _, x := range t.below(a) {
		row := v.y[x*v.n : x*v.n+v.n]
		for _, y := range t.below(b) {
			d := float64(row[y])
			if d != d {
				continue
			}
			weight := 1.
			if v.offset != nil {
				weight = v.weight(x, y)
			}
			cost += constant + penalty(d, level, inverse, weight) - penalty(d, t.level[p], above, weight)
		}
	}
	return cost
}

package discover

import (
	"math"
	"slices"
)

// sampleLimit bounds how many values of a switch its median is taken of.
const sampleLimit = 50_000

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
		t.sigma[s] = math.Sqrt(max(least, (count[s]*own[s]+priorPairs*pooled)/(count[s]+priorPairs)))
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

// clip writes the values to w, none further than some sigmas from its switch's level. What is trimmed is lost; what is
// clipped still says in which direction it was. A value that is not known gets the level.
func (t *tree) clip(v *values, w []float32, sigmas float64) {
	for s := t.leaves; s < len(t.parent); s++ {
		level, room := t.level[s], sigmas*t.sigma[s]
		low, high := float32(level-room), float32(level+room)
		t.across(s, func(a int, others []int) {
			row := v.y[a*v.n : a*v.n+v.n]
			for _, b := range others {
				x := row[b]
				if v.offset != nil && x == x {
					reach := float32(room / math.Sqrt(v.weight(a, b)))
					x = min(max(x, float32(level)-reach), float32(level)+reach)
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

// A value this many nats off says no more against a place in the tree. Outliers are slow, so a fast value says more.
const (
	slowLimit = 10
	fastLimit = 25
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
	// against[s] is what the values speak against the leaf below s, less that against it at the root.
	at := make([]float64, len(t.parent))   // of the leaves below s, if they met the leaf at s
	over := make([]float64, len(t.parent)) // of the same, if they met it at the parent of s
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
				z := (x - level) * inverse
				half := z * z / 2
				if v.offset != nil {
					half *= v.weight(leaf, b)
				}
				if z > 0 {
					half = min(half, slowLimit)
				} else {
					half = min(half, fastLimit)
				}
				sum += half + constant
			}
			over[c] = sum
			at[s] += sum
		}
	}
	// Switches are numbered below their parents, so the root comes first here.
	against := make([]float64, len(t.parent))
	home := t.parent[leaf]
	best := home
	against[t.root] = at[t.root]
	for s := t.root - 1; s >= t.leaves; s-- {
		against[s] = against[t.parent[s]] - over[s] + at[s]
	}
	for s := t.leaves; s <= t.root; s++ {
		if len(t.children[s]) == 1 && t.children[s][0] == leaf {
			continue
		}
		if against[s] < against[best]-1 {
			best = s
		}
	}
	if best == home {
		return -1
	}
	return best
}

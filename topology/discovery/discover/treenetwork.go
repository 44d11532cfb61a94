package discover

import (
	"math"

	"github.com/weirhpc/weir/topology/discovery/latency"
	"github.com/weirhpc/weir/topology/discovery/network"
)

// weigh sets the margin: the nats that the weakest switch saves in the description. Values are clipped, so that no
// outlier adds to the margin or reduces it.
func (f *fitted) weigh() {
	t, v := f.tree, f.values
	f.margin = math.Inf(1)
	if t.inner() == 0 {
		return
	}
	f.weighLeaves()
	w := f.space
	if w == nil {
		w = make([]float32, len(v.y))
	}
	t.clip(v, w, clipSigmas)
	groups := t.groups(v, w)
	variance := typicalVariance(groups, v.floor)
	for s := t.leaves; s < len(t.parent); s++ {
		p := t.parent[s]
		if p < 0 || (len(t.children[p]) == 2 && p == t.root && t.children[p][0] < t.leaves) {
			continue
		}
		f.margin = min(f.margin, saving(groups[s], groups[p], t.size(s), t.size(p), t.leaves, variance, v.resolves))
	}
}

// doubtfulPlace is the margin below which a leaf's place is in doubt, in nats.
const doubtfulPlace = 15

// weighLeaves finds the leaves in a doubtful place, and the pairs that would settle it.
func (f *fitted) weighLeaves() {
	t, v := f.tree, f.values
	f.placed = math.Inf(1)
	for leaf := range t.leaves {
		other, nats := t.rival(v, leaf)
		if nats < f.placed {
			f.placed, f.weakest = nats, leaf
		}
		if other < 0 || nats > doubtfulPlace {
			continue
		}
		for _, s := range []int{t.parent[leaf], other} {
			if s == t.root {
				continue
			}
			for _, b := range t.below(s)[:min(t.size(s), 4*int(math.Sqrt(float64(t.leaves))))] {
				if b != leaf {
					f.doubtful = append(f.doubtful, latency.Pair{A: min(leaf, b), B: max(leaf, b)})
				}
			}
		}
	}
}

// candidate returns the network of a tree.
func (f *fitted) candidate(m *latency.Matrix) candidate {
	t, v := f.tree, f.values
	net := network.New(m.Names())
	us := func(s int) float64 {
		if v.offset == nil {
			return math.Exp(t.level[s])
		}
		return t.level[s] * v.typical
	}
	// half is the way from a vertex up to the level of its parent.
	half := func(x int) float64 {
		up := us(t.parent[x]) / 2
		if x >= t.leaves {
			return max(0, up-us(x)/2)
		}
		if v.offset != nil {
			up += v.offset[x] * v.typical
		}
		return max(0, up)
	}
	levelUs := make([]float64, len(t.parent))
	for s := t.leaves; s < len(t.parent); s++ {
		levelUs[s] = us(s)
	}
	number := make([]int, len(t.parent))
	for x := range t.leaves {
		number[x] = x
	}
	// A root of two children is not seen: only the sum of its two links is. So they are one link.
	top := t.children[t.root]
	hidden := len(top) == 2 && max(top[0], top[1]) >= t.leaves
	for s := t.root; s >= t.leaves; s-- {
		if s != t.root || !hidden {
			number[s] = net.AddSwitch("")
		}
		if s == t.root {
			net.Root = number[s]
		}
	}
	for x := range t.parent {
		if p := t.parent[x]; p >= 0 && (p != t.root || !hidden) {
			net.AddLink(number[x], number[p], half(x))
		}
	}
	if hidden {
		net.AddLink(number[top[0]], number[top[1]], half(top[0])+half(top[1]))
	}
	return candidate{
		network: net, kind: kindTree, offsets: v.offset != nil,
		score: f.score, margin: f.margin, residual: f.sigma, sigma: f.sigma, outliers: f.outliers,
		placed: f.placed, weakest: f.weakest, doubtful: f.doubtful,
		path: func(a, b int) float64 {
			s := t.meet(a, b)
			if v.offset == nil {
				return levelUs[s]
			}
			return t.path(v, s, a, b)
		},
	}
}

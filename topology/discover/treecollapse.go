package discover

import (
	"container/heap"
	"math"
	"slices"
)

// group is the sum of the values across a switch.
type group struct{ n, mean, rss float64 }

func (g group) with(h group) group {
	n := g.n + h.n
	if n == 0 {
		return group{}
	}
	d := h.mean - g.mean
	return group{n, g.mean + d*h.n/n, g.rss + h.rss + d*d*g.n*h.n/n}
}

// groups returns the groups of all switches.
func (t *tree) groups(v *values, w []float32) []group {
	found := make([]group, len(t.parent))
	for s := t.leaves; s < len(t.parent); s++ {
		var weights, sum, squares float64
		pairs := 0
		t.across(s, func(a int, others []int) {
			row, known := w[a*v.n:a*v.n+v.n], v.y[a*v.n:a*v.n+v.n]
			for _, b := range others {
				if known[b] != known[b] {
					continue
				}
				x := float64(row[b])
				weight := 1.
				if v.offset != nil {
					weight = v.weight(a, b)
				}
				pairs++
				weights += weight
				sum += weight * x
				squares += weight * x * x
			}
		})
		if pairs > 0 {
			// The weights keep their mean of all pairs near one, so n counts pairs.
			mean := sum / weights
			rss := max(0, squares-weights*mean*mean)
			found[s] = group{float64(pairs), mean, rss * typicalWeight(v, weights, pairs)}
		}
	}
	return found
}

func typicalWeight(v *values, weights float64, pairs int) float64 {
	if v.offset == nil {
		return 1
	}
	return float64(pairs) / weights
}

// A switch's variance is pulled to that of all switches as if by so many pairs.
const priorPairs = 8

// typicalVariance returns the median of the groups' variances. A group counts by its pairs, up to a few.
func typicalVariance(groups []group, floor float64) float64 {
	type weighted struct{ x, w float64 }
	var all []weighted
	total := 0.
	for _, g := range groups {
		if g.n >= 2 {
			w := min(g.n-1, priorPairs)
			all = append(all, weighted{g.rss / (g.n - 1), w})
			total += w
		}
	}
	slices.SortFunc(all, func(a, b weighted) int {
		if a.x < b.x {
			return -1
		}
		if a.x > b.x {
			return 1
		}
		return 0
	})
	sum := 0.
	for _, x := range all {
		if sum += x.w; sum >= total/2 {
			return max(x.x, floor*floor)
		}
	}
	return floor * floor
}

// saving returns what a switch saves in the description, in nats: its latencies have a mean of their own, at the cost
// of naming its leaves among its parent's. It is negative if the switch is not worth it. TestStarHasNoSwitch pins the
// cost: it pays for the choice that the linkage had.
func saving(child, parent group, leaves, of, nodes int, variance, resolves float64) float64 {
	difference := parent.mean - child.mean
	if child.n == 0 || parent.n == 0 || difference < resolves {
		return math.Inf(-1)
	}
	both := child.n + parent.n
	between := child.n * parent.n / both * difference * difference
	gain := (both + priorPairs) / 2 * math.Log1p(between/(child.rss+parent.rss+priorPairs*variance))
	return gain - 1.5*lnChoose(of, leaves) - .5*math.Log(both) - math.Log(float64(nodes)) - 1
}

// collapse dissolves the switches that are not worth their description, the worst first. It returns the weakest
// switch's saving.
func (t *tree) collapse(v *values, w []float32) float64 {
	groups := t.groups(v, w)
	variance := typicalVariance(groups, v.floor)
	worth := func(s int) float64 {
		p := t.parent[s]
		return saving(groups[s], groups[p], t.size(s), t.size(p), t.leaves, variance, v.resolves)
	}
	for {
		var queue savings
		for _, s := range t.switches() {
			if s != t.root {
				queue = append(queue, switchSaving{s, worth(s)})
			}
		}
		heap.Init(&queue)
		dissolved := false
		for len(queue) > 0 && queue[0].nats < 0 {
			s := queue[0].vertex
			heap.Pop(&queue)
			if t.parent[s] < 0 {
				continue
			}
			if now := worth(s); now >= 0 || (len(queue) > 0 && now > queue[0].nats) {
				if now < 0 {
					heap.Push(&queue, switchSaving{s, now})
				}
				continue
			}
			p := t.parent[s]
			groups[p] = groups[p].with(groups[s])
			for _, c := range t.children[s] {
				if c >= t.leaves {
					heap.Push(&queue, switchSaving{c, math.Inf(-1)})
				}
			}
			t.dissolve(s)
			if p != t.root {
				heap.Push(&queue, switchSaving{p, math.Inf(-1)})
			}
			dissolved = true
		}
		if !dissolved {
			break
		}
	}
	margin := math.Inf(1)
	for _, s := range t.switches() {
		if s != t.root {
			margin = min(margin, worth(s))
		}
	}
	t.arrange()
	return margin
}

type switchSaving struct {
	vertex int
	nats   float64
}

// savings is a heap, the least first.
type savings []switchSaving

func (s savings) Len() int           { return len(s) }
func (s savings) Less(i, j int) bool { return s[i].nats < s[j].nats }
func (s savings) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *savings) Push(x any)        { *s = append(*s, x.(switchSaving)) }
func (s *savings) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

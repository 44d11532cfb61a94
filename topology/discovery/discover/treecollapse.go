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

// A switch's variance is pulled to the variance of all switches, as if by so many pairs.
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

// saving returns the nats that a switch saves in the description. It is negative if the switch is not worth it. A
// switch gives its latencies a mean of their own. Its cost is to name its leaves among its parent's. The cost covers
// the choice that the linkage had: TestStarHasNoSwitch pins that noise makes no switch.
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

// collapse dissolves the switches that are not worth their description, the worst first.
func (t *tree) collapse(v *values, w []float32) {
	c := collapsing{tree: t, groups: t.groups(v, w), resolves: v.resolves}
	c.variance = typicalVariance(c.groups, v.floor)
	for c.pass() {
		continue
	}
	t.arrange()
}

// collapsing is the state of a collapse.
type collapsing struct {
	*tree
	groups   []group
	variance float64
	resolves float64
	queue    savings
}

func (c *collapsing) worth(s int) float64 {
	p := c.parent[s]
	return saving(c.groups[s], c.groups[p], c.size(s), c.size(p), c.leaves, c.variance, c.resolves)
}

// pass dissolves switches until all switches in the queue are worth enough. It reports whether it dissolved one. The
// saving of a switch changes with its parent, so the queue may be out of date: another pass finds the switches that it
// missed.
func (c *collapsing) pass() bool {
	c.queue = c.queue[:0]
	for _, s := range c.switches() {
		if s != c.root {
			c.queue = append(c.queue, switchSaving{s, c.worth(s)})
		}
	}
	heap.Init(&c.queue)
	dissolved := false
	for len(c.queue) > 0 && c.queue[0].nats < 0 {
		s := c.queue[0].vertex
		heap.Pop(&c.queue)
		if c.parent[s] < 0 {
			continue
		}
		now := c.worth(s)
		if now < 0 && len(c.queue) > 0 && now > c.queue[0].nats {
			heap.Push(&c.queue, switchSaving{s, now})
			continue
		}
		if now < 0 {
			c.remove(s)
			dissolved = true
		}
	}
	return dissolved
}

// remove dissolves a switch, and looks again at the switches that this affects most.
func (c *collapsing) remove(s int) {
	p := c.parent[s]
	c.groups[p] = c.groups[p].with(c.groups[s])
	for _, child := range c.children[s] {
		if child >= c.leaves {
			heap.Push(&c.queue, switchSaving{child, math.Inf(-1)})
		}
	}
	c.dissolve(s)
	if p != c.root {
		heap.Push(&c.queue, switchSaving{p, math.Inf(-1)})
	}
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

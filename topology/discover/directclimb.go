package discover

import (
	"math"
	"slices"
)

// Bounds of the repair of small graphs.
const (
	climbVertices = 64  // more vertices make repairs too slow
	climbSweeps   = 4   // over all pairs
	climbSigmas   = 1.5 // noise that a latency is off where a link is missing or too many
	linkNats      = 4   // nats that a link must save
	climbSlow     = 10  // nats that one slow latency says at most
	climbFast     = 25  // nats that one fast latency says at most
	leastClimb    = .01 // of the latencies: less noise than this would make the repair trust a first guess
)

// climb adds and removes links one by one while all latencies together are described better. It tries the links that
// look too slow and the pairs that look too fast.
func (g *graph) climb() (repaired bool) {
	c := &climb{graph: g, far: g.distances()}
	if c.far == nil || len(g.of) > climbVertices {
		return false
	}
	for range climbSweeps {
		c.noise = g.noise(c.far)
		c.cost = g.cost(c.far, c.noise)
		cut, added := c.cut(), c.add()
		if !cut && !added {
			break
		}
		repaired = true
	}
	g.dropClasses()
	return repaired
}

// climb is one sweep over the links and pairs of a graph.
type climb struct {
	*graph
	far   [][]float64              // of each two vertices
	noise func(us float64) float64 // of a latency
	cost  float64                  // of the description so far, in nats
}

// off returns how many standard deviations a latency is above the graph's.
func (c *climb) off(a, b int) float64 {
	model := c.baseUs + c.far[a][b]
	return (c.d[a][b] - model) / c.noise(model) * math.Sqrt(c.weight(a, b))
}

// cut drops links that look too slow.
func (c *climb) cut() (changed bool) {
	for i := len(c.links) - 1; i >= 0; i-- {
		if !(c.off(c.links[i][0], c.links[i][1]) > climbSigmas) {
			continue
		}
		without := c.without(i)
		next := without.distances()
		if next == nil {
			continue
		}
		if cost := without.cost(next, c.noise); cost < c.cost-1e-6 {
			*c.graph, c.far, c.cost, changed = *without, next, cost, true
		}
	}
	return changed
}

// add links pairs that look too fast.
func (c *climb) add() (changed bool) {
	next := slices.Clone(c.far)
	for a := range c.of {
		for b := range a {
			if !(c.off(a, b) < -climbSigmas) {
				continue
			}
			for class, hopUs := range c.hopUs {
				if c.far[a][b] <= hopUs*(1+1e-9) {
					continue
				}
				next = shortened(next, c.far, b, a, hopUs)
				cost := c.graph.cost(next, c.noise) + linkNats
				if cost >= c.cost-1e-6 {
					continue
				}
				c.links, c.class = append(c.links, [2]int{b, a}), append(c.class, class)
				c.far, next = next, slices.Clone(c.far)
				for v := range next {
					next[v] = slices.Clone(c.far[v])
				}
				c.cost, changed = cost, true
			}
		}
	}
	return changed
}

// without returns the graph less one link.
func (g *graph) without(link int) *graph {
	h := *g
	h.links = slices.Delete(slices.Clone(g.links), link, link+1)
	h.class = slices.Delete(slices.Clone(g.class), link, link+1)
	return &h
}

// dropClasses removes the classes without a link.
func (g *graph) dropClasses() {
	for class := len(g.hopUs) - 1; class >= 0; class-- {
		if slices.Contains(g.class, class) {
			continue
		}
		g.hopUs = slices.Delete(slices.Clone(g.hopUs), class, class+1)
		for i := range g.class {
			if g.class[i] > class {
				g.class[i]--
			}
		}
	}
}

// shortened writes to out what the distances are with one more link.
func shortened(out, far [][]float64, u, v int, us float64) [][]float64 {
	for a, row := range far {
		if &out[a][0] == &row[0] {
			out[a] = make([]float64, len(row))
		}
		to := min(row[u]+us, 1e300)
		back := min(row[v]+us, 1e300)
		for b, x := range row {
			out[a][b] = min(x, to+far[v][b], back+far[u][b])
		}
	}
	return out
}

// noise returns the standard deviation of one latency between two vertices: relative to it or not, by what is less.
func (g *graph) noise(far [][]float64) func(us float64) float64 {
	var relative, absolute []float64
	sumLn := 0.
	for a := range g.of {
		for b := range a {
			if x := g.d[a][b]; x == x {
				off := math.Abs(x-g.baseUs-far[a][b]) * math.Sqrt(g.weight(a, b))
				absolute = append(absolute, off)
				relative = append(relative, off/(g.baseUs+far[a][b]))
				sumLn += math.Log(g.baseUs + far[a][b])
			}
		}
	}
	typical := math.Exp(sumLn / float64(max(1, len(relative))))
	share, us := max(1.4826*median(relative), leastClimb), max(1.4826*median(absolute), leastClimb*typical)
	if us < share*typical {
		return func(float64) float64 { return us }
	}
	return func(model float64) float64 { return share * model }
}

// weight returns how many pairs of nodes the latency between two vertices is of.
func (g *graph) weight(a, b int) float64 { return float64(len(g.of[a]) * len(g.of[b])) }

// cost is what the latencies and the links need, in nats.
func (g *graph) cost(far [][]float64, noise func(us float64) float64) float64 {
	nats := linkNats * float64(len(g.links))
	for a := range g.of {
		for b := range a {
			x := g.d[a][b]
			if x != x {
				continue
			}
			model := g.baseUs + far[a][b]
			sigma := noise(model)
			z := (x - model) / sigma
			limit := float64(climbSlow)
			if z < 0 {
				limit = climbFast
			}
			nats += min(g.weight(a, b)*z*z/2, limit)
		}
	}
	return nats
}

// weakest returns what the weakest link saves, in nats.
func (g *graph) weakest(far [][]float64) float64 {
	noise := g.noise(far)
	with := g.cost(far, noise)
	least := math.Inf(1)
	for i := range g.links {
		without := g.without(i)
		if next := without.distances(); next != nil {
			least = min(least, without.cost(next, noise)-with+linkNats)
		}
	}
	return max(least, 0)
}

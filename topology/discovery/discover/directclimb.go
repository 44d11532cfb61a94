package discover

import (
	"math"
	"slices"
)

// Bounds of the repair of small graphs.
const (
	climbVertices = 64   // more vertices make repairs too slow
	climbSweeps   = 4    // over all pairs
	climbSigmas   = 1.5  // noise by which a latency is off if a link is missing or superfluous
	linkNats      = 4    // nats that a link must save
	climbSlow     = 10   // largest weight of one slow latency, in nats
	leastBetter   = 1e-6 // nats that a repair gains at least
	climbFast     = 25   // largest weight of one fast latency, in nats
	leastClimb    = .01  // of the latencies: less noise than this would make the repair trust a first guess
)

// climb adds and removes links one by one while all latencies together are described better. It tries the links that
// look too slow and the pairs that look too fast.
func (g *graph) climb() (repaired bool) {
	far := g.distances()
	if far == nil || len(g.of) > climbVertices {
		return false
	}
	for range climbSweeps {
		s := &sweep{graph: g, far: far, noise: g.noise(far)}
		s.cost = g.cost(far, s.noise)
		s.remove()
		s.add()
		if !s.changed {
			break
		}
		far, repaired = s.far, true
	}
	g.dropClasses()
	return repaired
}

// sweep is one pass over all pairs of a graph.
type sweep struct {
	*graph
	far     [][]float64
	noise   func(us float64) float64
	cost    float64
	changed bool
}

// off returns how much slower than the graph a pair is, in standard deviations.
func (s *sweep) off(a, b int) float64 {
	model := s.baseUs + s.far[a][b]
	return (s.d[a][b] - model) / s.noise(model) * math.Sqrt(s.weight(a, b))
}

// remove tries each slow link.
func (s *sweep) remove() {
	for i := len(s.links) - 1; i >= 0; i-- {
		if !(s.off(s.links[i][0], s.links[i][1]) > climbSigmas) {
			continue
		}
		without := s.without(i)
		far := without.distances()
		if far == nil {
			continue
		}
		if cost := without.cost(far, s.noise); cost < s.cost-leastBetter {
			*s.graph, s.far, s.cost, s.changed = *without, far, cost, true
		}
	}
}

// add tries each fast pair, as a link of each class.
func (s *sweep) add() {
	for a := range s.of {
		for b := range a {
			for class := range s.hopUs {
				if s.off(a, b) < -climbSigmas {
					s.addOne(b, a, class)
				}
			}
		}
	}
}

func (s *sweep) addOne(a, b, class int) {
	if s.far[a][b] <= s.hopUs[class]*(1+1e-9) {
		return
	}
	far := shortened(s.far, a, b, s.hopUs[class])
	if cost := s.graph.cost(far, s.noise) + linkNats; cost < s.cost-leastBetter {
		s.links, s.class = append(s.links, [2]int{a, b}), append(s.class, class)
		s.far, s.cost, s.changed = far, cost, true
	}
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

// shortened returns the distances with one more link.
func shortened(far [][]float64, u, v int, us float64) [][]float64 {
	out := make([][]float64, len(far))
	for a, row := range far {
		out[a] = make([]float64, len(row))
		to, back := row[u]+us, row[v]+us
		for b, x := range row {
			out[a][b] = min(x, to+far[v][b], back+far[u][b])
		}
	}
	return out
}

// noise returns the standard deviation of one latency between two vertices: relative to it or constant, whichever is
// less.
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

// cost returns the description length of the latencies and the links, in nats.
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

// weakest returns the nats that the weakest link saves.
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

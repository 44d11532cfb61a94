package discover

import (
	"cmp"
	"math"
	"slices"
)

// routers are groups of nodes that see all others alike.
type routers struct {
	of    [][]int // nodes of a router
	at    []int   // router of a node
	d     [][]float64
	ownUs float64 // latency between two nodes of a router; NaN: every router has one node
}

// alone returns a router for each node.
func alone(d [][]float64) routers {
	r := routers{d: d, ownUs: math.NaN()}
	for a := range d {
		r.of = append(r.of, []int{a})
		r.at = append(r.at, a)
	}
	return r
}

// Bounds of contractions.
const (
	twinLimit    = .1  // difference of ln(latency) beyond which two nodes differ for sure; outliers are clipped to it
	mostTwinCuts = 4   // contractions that are tried
	trimmedNodes = 256 // more nodes need no trimming
	trimmedShare = .05 // differences that may be outliers'
	leastCut     = 1.5 // ratio of the differences on both sides of a cut
)

// contractions returns ways to join the nodes into routers. The nodes of one router differ by noise only. Beyond it,
// the differences of nearest nodes have a gap, so each wide gap is tried.
func contractions(d [][]float64) []routers {
	var ways []routers
	if len(d) <= mostWithoutBy {
		ways = append(ways, alone(d))
	}
	lns := make([][]float64, len(d))
	for a := range d {
		lns[a] = make([]float64, len(d))
		for b := range d {
			lns[a][b] = math.Log(d[a][b])
		}
	}
	pairs := comb{}.nearest(d)
	differ := make([]float64, len(pairs))
	order := make([]int, len(pairs))
	for i, p := range pairs {
		differ[i] = trimmedProfile(lns[p[0]], lns[p[1]]) + leastNoise*leastNoise/100
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(differ[x], differ[y]) })
	type cut struct {
		after int
		ratio float64
	}
	var cuts []cut
	for i := len(d) / 4; i+1 < len(order); i++ {
		if ratio := differ[order[i+1]] / differ[order[i]]; i > 0 {
			cuts = append(cuts, cut{i + 1, ratio})
		}
	}
	slices.SortFunc(cuts, func(x, y cut) int { return cmp.Compare(y.ratio, x.ratio) })
	for i, c := range cuts[:min(len(cuts), mostTwinCuts)] {
		if i > 0 && c.ratio < leastCut {
			break
		}
		if r, ok := contract(d, pairs, order[:c.after]); ok {
			ways = append(ways, r)
		}
	}
	return ways
}

// trimmedProfile is profile without the largest differences. With many nodes, limits suffice.
func trimmedProfile(x, y []float64) float64 {
	if len(x) > trimmedNodes {
		return profile(x, y, twinLimit)
	}
	squares := make([]float64, 0, len(x))
	for i := range x {
		if diff := x[i] - y[i]; diff == diff {
			squares = append(squares, min(diff*diff, twinLimit*twinLimit))
		}
	}
	slices.Sort(squares)
	squares = squares[:len(squares)-int(math.Ceil(float64(len(squares))*trimmedShare))]
	sum := 0.
	for _, s := range squares {
		sum += s
	}
	return sum / float64(max(1, len(squares)))
}

// contract joins the pairs of an order.
func contract(d [][]float64, pairs [][2]int, order []int) (routers, bool) {
	parent := make([]int, len(d))
	for i := range parent {
		parent[i] = i
	}
	root := func(a int) int {
		for parent[a] != a {
			parent[a] = parent[parent[a]]
			a = parent[a]
		}
		return a
	}
	for _, i := range order {
		parent[root(pairs[i][1])] = root(pairs[i][0])
	}
	r := routers{at: make([]int, len(d))}
	number := map[int]int{}
	for a := range d {
		top := root(a)
		if _, ok := number[top]; !ok {
			number[top] = len(r.of)
			r.of = append(r.of, nil)
		}
		r.at[a] = number[top]
		r.of[r.at[a]] = append(r.of[r.at[a]], a)
	}
	if len(r.of) < 3 || len(r.of) > mostRouters || len(r.of) == len(d) {
		return r, false
	}
	r.means(d)
	return r, true
}

// means sets the mean latency between the nodes of each two routers, and within a router.
func (r *routers) means(d [][]float64) {
	r.d = make([][]float64, len(r.of))
	var own []float64
	for p, nodes := range r.of {
		r.d[p] = make([]float64, len(r.of))
		for q := range p {
			x := meanAcross(d, nodes, r.of[q])
			r.d[p][q], r.d[q][p] = x, x
		}
		for i, a := range nodes {
			for _, b := range nodes[:i] {
				if x := d[a][b]; x == x {
					own = append(own, x)
				}
			}
		}
	}
	r.ownUs = math.NaN()
	if len(own) > 0 {
		r.ownUs = robustMean(own)
	}
}

// meanAcross returns the mean latency between two sets of nodes, outliers clipped. NaN: none was measured.
func meanAcross(d [][]float64, these, those []int) float64 {
	var sample []float64
	for _, a := range these {
		for _, b := range those {
			if x := d[a][b]; x == x {
				sample = append(sample, x)
			}
		}
	}
	if len(sample) == 0 {
		return math.NaN()
	}
	return robustMean(sample)
}

// unequalLinks returns graphs over routers with links that may differ in latency.
func unequalLinks(r routers) []*graph {
	bases := []float64{r.ownUs}
	if math.IsNaN(r.ownUs) {
		bases = r.bases()
	}
	var graphs []*graph
	seen := map[string]bool{}
	for _, base := range bases {
		g := &graph{routers: r, baseUs: base}
		g.sparse()
		key := make([]byte, 0, 2*len(g.links))
		for i, l := range g.links {
			key = append(key, byte(l[0]), byte(l[0]>>8), byte(l[1]), byte(l[1]>>8), byte(g.class[i]))
		}
		few := len(g.links) >= len(r.of) && plausible(len(r.of), len(g.links))
		if few && !seen[string(key)] {
			seen[string(key)] = true
			graphs = append(graphs, g)
		}
	}
	return graphs
}

// Bounds of the levels that latencies are sorted into.
const (
	levelGap  = .04 // relative
	mostShort = 6   // levels that may be links
	classGap  = .2  // relative, between the latencies of two classes of links
	mostBases = 60
	mostClass = 8
	sureLink  = .5 // share of the shortest link that a detour must be longer
)

// bases returns candidates for the common part of all latencies. If two paths join to a third, the base is in both of
// them, and once in the third.
func (r *routers) bases() []float64 {
	var all []float64
	for a := range r.d {
		for b := range a {
			if x := r.d[a][b]; x == x {
				all = append(all, x)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	var levels []float64
	start := 0
	for i := 1; i <= len(all); i++ {
		if i == len(all) || all[i] > all[i-1]*(1+levelGap) {
			levels = append(levels, all[(start+i-1)/2])
			start = i
		}
	}
	levels = levels[:min(len(levels), mostShort)]
	bases := []float64{0}
	for i, x := range levels {
		for j, y := range levels[i:] {
			for _, z := range levels[i+j+1:] {
				if base := x + y - z; base > 0 && base < levels[0] && len(bases) < mostBases {
					bases = append(bases, base)
				}
			}
		}
	}
	return bases
}

// sparse keeps the links with a longer detour, and sorts them into classes of latency.
func (g *graph) sparse() {
	shortest := math.Inf(1)
	for a := range g.of {
		for b := range a {
			if x := g.d[a][b] - g.baseUs; x < shortest {
				shortest = x
			}
		}
	}
	if shortest <= 0 {
		return
	}
	var links []unequalLink
	for a := range g.of {
		for b := range a {
			us := g.d[a][b] - g.baseUs
			if us < g.detourUs(a, b)-sureLink*shortest {
				links = append(links, unequalLink{[2]int{b, a}, us})
			}
		}
	}
	g.classify(links)
}

// detourUs returns the least latency between two vertices over a third, without the base.
func (g *graph) detourUs(a, b int) float64 {
	least := math.Inf(1)
	for c := range g.of {
		if x := g.d[a][c] + g.d[c][b]; c != a && c != b && x < least {
			least = x
		}
	}
	return least - 2*g.baseUs
}

// unequalLink is a link before its class is known.
type unequalLink struct {
	ends [2]int
	us   float64
}

// classify sorts links into classes, divided at gaps between their latencies.
func (g *graph) classify(links []unequalLink) {
	slices.SortFunc(links, func(x, y unequalLink) int { return cmp.Compare(x.us, y.us) })
	start := 0
	for i, l := range links {
		if i > 0 && l.us > links[i-1].us*(1+classGap) && len(g.hopUs) < mostClass-1 {
			g.hopUs = append(g.hopUs, links[(start+i-1)/2].us)
			start = i
		}
		g.links = append(g.links, l.ends)
		g.class = append(g.class, len(g.hopUs))
	}
	if len(links) > 0 {
		g.hopUs = append(g.hopUs, links[(start+len(links)-1)/2].us)
	}
}

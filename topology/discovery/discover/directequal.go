package discover

import (
	"cmp"
	"math"
	"slices"
)

// Nodes of a direct network with equal links see each other at a base plus a number of hops. The base is the work of
// both ends, so latencies do not add up along a path.

// Bounds of the search for the length of a hop.
const (
	combSample  = 1500 // latencies that the hop is estimated from
	mostLevels  = 600  // hops between the two nodes that are farthest apart
	combSteps   = 8    // steps of the search per level
	nearStrong  = .85  // share of the strongest comb that a longer hop needs
	leastComb   = .15  // resultant of a comb that is worth a try
	mostCombs   = 3    // combs that are tried
	nearestSeen = 24   // candidates for links at each node
	termLimit   = 12   // largest weight of one latency for or against a link, in nats
	repairs     = 3    // passes over the pairs that a first graph makes likely
	likelyHops  = 3    // between nodes that may have a link
	mostPoor    = 100  // nodes with too few links that are paired with each other
	slowLinkMax = 5    // largest weight of one slow latency against a link, in nats
	denseNodes  = 16   // so many nodes may have any links
	mostDegree  = 16   // links per node on average, if there are many nodes
)

// comb is latencies at equal steps.
type comb struct {
	hopUs, firstUs float64 // firstUs is the latency of one hop
	sigmaUs        float64

	oneHop, twoHops float64 // mean square of the difference between the latencies from two nodes, in hops
}

// equalLinks returns graphs of equal links that might explain the latencies.
func equalLinks(d [][]float64) []*graph {
	var graphs []*graph
	for _, c := range combs(d) {
		var ways [][][2]int
		for _, profiles := range []bool{true, false} {
			ways = append(ways, c.ways(d, c.links(d, c.nearest(d), profiles))...)
		}
		for i, links := range ways {
			again := slices.ContainsFunc(ways[:i], func(other [][2]int) bool { return slices.Equal(other, links) })
			if !again && len(links) >= len(d)-1 && plausible(len(d), len(links)) {
				graphs = append(graphs, &graph{
					routers: alone(d), links: links, class: make([]int, len(links)),
					hopUs: []float64{c.hopUs}, baseUs: c.firstUs - c.hopUs,
				})
			}
		}
	}
	return graphs
}

// ways returns a first graph, the same after repairs, and regular ones like it.
func (c comb) ways(d [][]float64, first [][2]int) [][][2]int {
	links := first
	for range repairs {
		if !plausible(len(d), len(links)) {
			return [][][2]int{first}
		}
		again := c.learnt(d, links).links(d, around(len(d), links), true)
		if slices.Equal(again, links) {
			break
		}
		links = again
	}
	if !plausible(len(d), len(links)) {
		return [][][2]int{first}
	}
	return append([][][2]int{first, links}, c.regular(d, links)...)
}

// combs returns hop lengths that fit the latencies, the longest first. Each is a frequency at which the phases of all
// latencies agree. Every distribution has a lobe about frequency zero, so the search begins beyond it.
func combs(d [][]float64) []comb {
	sample := sampleOf(d, combSample)
	if len(sample) == 0 {
		return nil
	}
	slices.Sort(sample)
	low, high := sample[len(sample)/200], sample[len(sample)-1-len(sample)/50] // the rest may be outliers
	if high-low < 1e-9*high {
		return nil
	}
	step := 1 / (combSteps * (high - low))
	strength := resultants(sample, low, step, combSteps*min(mostLevels, len(d)))
	var tops []int
	strongest := 0.
	falling := false
	for i := 1; i+1 < len(strength); i++ {
		falling = falling || strength[i] > strength[i-1]
		if falling && strength[i] >= strength[i-1] && strength[i] > strength[i+1] {
			tops = append(tops, i)
			strongest = max(strongest, strength[i])
		}
	}
	var found []comb
	for _, i := range tops {
		if strength[i] < max(nearStrong*strongest, leastComb) {
			continue
		}
		if c, ok := combAt(d, sample, float64(i)*step, step); ok {
			found = append(found, c)
		}
		if len(found) == mostCombs {
			break
		}
	}
	return found
}

// sampleOf returns some of the latencies.
func sampleOf(d [][]float64, most int) []float64 {
	step := max(1, len(d)*(len(d)-1)/2/most)
	if step > 1 && len(d)%step == 0 {
		step++
	}
	var sample []float64
	i := 0
	for a := range d {
		for b := a + 1; b < len(d); b++ {
			if i++; i%step == 0 && d[a][b] == d[a][b] {
				sample = append(sample, d[a][b])
			}
		}
	}
	return sample
}

// resultants returns the length of the mean phase at multiples of a frequency.
func resultants(sample []float64, low, step float64, count int) []float64 {
	re, im := make([]float64, count), make([]float64, count)
	for _, x := range sample {
		s, c := math.Sincos(2 * math.Pi * step * (x - low))
		pr, pi := 1., 0.
		for i := range count {
			re[i] += pr
			im[i] += pi
			pr, pi = pr*c-pi*s, pr*s+pi*c
		}
	}
	for i := range re {
		re[i] = math.Hypot(re[i], im[i]) / float64(len(sample))
	}
	return re
}

// combAt returns the comb near a frequency.
func combAt(d [][]float64, sample []float64, f, step float64) (comb, bool) {
	low := slices.Min(sample)
	at := func(f float64) (strength, phase float64) {
		var re, im float64
		for _, x := range sample {
			s, c := math.Sincos(2 * math.Pi * f * (x - low))
			re += c
			im += s
		}
		return math.Hypot(re, im) / float64(len(sample)), math.Atan2(im, re) / (2 * math.Pi)
	}
	best, phase := at(f)
	for width := step / 2; width > step/200; width /= 2 {
		for _, g := range []float64{f - width, f + width} {
			if r, p := at(g); r > best {
				best, phase, f = r, p, g
			}
		}
	}
	c := comb{hopUs: 1 / f, oneHop: 1, twoHops: 2}
	c.sigmaUs = c.hopUs * math.Sqrt(-2*math.Log(min(best, .9999))) / (2 * math.Pi)
	levels := map[int]int{}
	for a := range d {
		for b := a + 1; b < len(d); b++ {
			if x := (d[a][b]-low)*f - phase; x == x {
				levels[int(math.Round(x))]++
			}
		}
	}
	first, found := math.MaxInt, false
	for level, pairs := range levels {
		if 2*pairs >= len(d) && level < first {
			first, found = level, true
		}
	}
	c.firstUs = low + (float64(first)+phase)*c.hopUs
	return c, found && c.firstUs > .7*c.hopUs
}

// links returns the pairs that look one hop apart.
func (c comb) links(d [][]float64, pairs [][2]int, profiles bool) [][2]int {
	var links [][2]int
	for _, pair := range pairs {
		if c.evidence(d, pair, profiles) > 0 {
			links = append(links, pair)
		}
	}
	return links
}

// evidence returns the evidence for a link between two nodes and against two hops, in nats. With profiles, the
// latencies to all other nodes count too. The latencies from the ends of a link differ by one hop at most. In common
// lattices, the mean square is twice as large for nodes two hops apart. The mean has little noise, and the base
// cancels.
func (c comb) evidence(d [][]float64, pair [2]int, profiles bool) float64 {
	hop := c.hopUs
	sigma := max(c.sigmaUs, .02*hop)
	variance := sigma * sigma
	near := 0.
	if x := d[pair[0]][pair[1]] - c.firstUs; x == x {
		near = hop * (.5*hop - x) / variance
	}
	if !profiles {
		return near
	}
	one, two := c.oneHop*hop*hop, c.twoHops*hop*hop
	spread := (8*hop*hop*variance + 8*variance*variance + hop*hop*hop*hop) / float64(max(1, len(d)-2))
	seen := profile(d[pair[0]], d[pair[1]], 2*hop) - 2*variance
	return min(max(near, -slowLinkMax), termLimit) + (two-one)*((one+two)/2-seen)/spread
}

// regular returns graphs in which all nodes have the usual number of links of a first graph, one less or one more. In
// common lattices all nodes have the same number. The pairs with the best evidence come first, so that a link with an
// outlier as its own latency remains for the last two nodes.
func (c comb) regular(d [][]float64, links [][2]int) [][][2]int {
	type rankedPair struct {
		pair     [2]int
		evidence float64
	}
	learnt := c.learnt(d, links)
	var ranked []rankedPair
	for _, pair := range around(len(d), links) {
		ranked = append(ranked, rankedPair{pair, learnt.evidence(d, pair, true)})
	}
	slices.SortStableFunc(ranked, func(x, y rankedPair) int { return cmp.Compare(y.evidence, x.evidence) })
	usual := slices.Sorted(slices.Values(degrees(len(d), links)))[len(d)/2]
	var graphs [][][2]int
	for degree := usual - 1; degree <= usual+1; degree++ {
		have := make([]int, len(d))
		var chosen [][2]int
		for _, r := range ranked {
			if a, b := r.pair[0], r.pair[1]; have[a] < degree && have[b] < degree {
				have[a]++
				have[b]++
				chosen = append(chosen, r.pair)
			}
		}
		if 2*len(chosen) == degree*len(d) {
			slices.SortFunc(chosen, comparePairs)
			graphs = append(graphs, chosen)
		}
	}
	return graphs
}

// degrees returns the number of links of each node.
func degrees(nodes int, links [][2]int) []int {
	all := make([]int, nodes)
	for _, l := range links {
		all[l[0]]++
		all[l[1]]++
	}
	return all
}

// learnt returns the comb with the profiles of a first graph. Small odd sides make links differ less than by one hop.
func (c comb) learnt(d [][]float64, links [][2]int) comb {
	at := make([][]int, len(d))
	linked := map[[2]int]bool{}
	var one, two []float64
	see := func(a, b int) float64 { return profile(d[a], d[b], 2*c.hopUs) }
	for _, l := range links {
		at[l[0]], at[l[1]] = append(at[l[0]], l[1]), append(at[l[1]], l[0])
		linked[l] = true
		one = append(one, see(l[0], l[1]))
	}
	for _, near := range at {
		for i, a := range near {
			for _, b := range near[:i] {
				if !linked[[2]int{min(a, b), max(a, b)}] && len(two) < sampleLimit {
					two = append(two, see(a, b))
				}
			}
		}
	}
	if len(two) == 0 {
		return c
	}
	slices.Sort(two)
	noise, square := 2*c.sigmaUs*c.sigmaUs, c.hopUs*c.hopUs
	low, high := (median(one)-noise)/square, (two[len(two)/4]-noise)/square
	if high > low+.3 {
		c.oneHop, c.twoHops = low, high
	}
	return c
}

// nearest returns the pairs that may be links.
func (c comb) nearest(d [][]float64) [][2]int {
	seen := map[[2]int]bool{}
	var order []int
	for a, row := range d {
		order = order[:0]
		for b, us := range row {
			if b != a && us == us {
				order = append(order, b)
			}
		}
		slices.SortFunc(order, func(x, y int) int { return cmp.Compare(row[x], row[y]) })
		for i, b := range order {
			if i >= nearestSeen && (len(d) > 64 || row[b] > c.firstUs+c.hopUs/2) {
				break
			}
			seen[[2]int{min(a, b), max(a, b)}] = true
		}
	}
	pairs := make([][2]int, 0, len(seen))
	for p := range seen {
		pairs = append(pairs, p)
	}
	slices.SortFunc(pairs, comparePairs)
	return pairs
}

// profile returns the mean square of the difference between two rows, each difference limited.
func profile(x, y []float64, limit float64) float64 {
	sum, count := 0., 0
	for i := range x {
		diff := x[i] - y[i]
		if diff != diff {
			continue
		}
		sum += min(diff*diff, limit*limit)
		count++
	}
	if count == 0 {
		return limit * limit
	}
	return sum / float64(count)
}

package discover

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// shape describes a graph beyond its links.
type shape struct {
	kind  string
	known bool // all links follow from the order of the vertices
}

// shape recognises a graph by its degrees and distances.
func (g *graph) shape(far [][]float64) shape {
	if len(g.of) < len(g.at) {
		if g.isDragonfly() {
			return shape{kind: kindDragonfly}
		}
		return shape{kind: kindMixed}
	}
	if len(g.hopUs) > 1 {
		return shape{kind: kindDirect}
	}
	seen := signatures(far, g.hopUs[0])
	n := len(g.of)
	if len(g.links) == n && slices.Equal(seen, lattice([]int{n}, true)) {
		return shape{kindRing, true}
	}
	if n >= 8 && n&(n-1) == 0 {
		sides := []int{}
		for k := n; k > 1; k /= 2 {
			sides = append(sides, 2)
		}
		if slices.Equal(seen, lattice(sides, false)) {
			return shape{kindHypercube, true}
		}
	}
	ways := factors(n, 2)
	slices.SortStableFunc(ways, func(x, y []int) int { return cmp.Compare(len(x), len(y)) })
	for _, sides := range ways {
		if len(sides) > 4 {
			continue
		}
		if len(sides) > 1 && slices.Equal(seen, lattice(sides, true)) {
			return shape{kindTorus + " " + sidesName(sides), true}
		}
		if slices.Equal(seen, lattice(sides, false)) {
			return shape{kindDirect, true} // a line or a mesh
		}
	}
	return shape{kind: kindDirect}
}

func sidesName(sides []int) string {
	var b strings.Builder
	for i, side := range sides {
		if i > 0 {
			b.WriteByte('x')
		}
		fmt.Fprint(&b, side)
	}
	return b.String()
}

// factors returns the ways to write a number as a product of ascending factors from least on.
func factors(n, least int) [][]int {
	ways := [][]int{{n}}
	for f := least; f*f <= n; f++ {
		if n%f == 0 {
			for _, rest := range factors(n/f, f) {
				ways = append(ways, append([]int{f}, rest...))
			}
		}
	}
	return ways
}

// signatures returns how many vertices are how many hops away from each vertex, sorted.
func signatures(far [][]float64, hopUs float64) []string {
	all := make([]string, len(far))
	for a, row := range far {
		var count []int
		for _, us := range row {
			hops := int(math.Round(us / hopUs))
			for len(count) <= hops {
				count = append(count, 0)
			}
			count[hops]++
		}
		all[a] = fmt.Sprint(count)
	}
	slices.Sort(all)
	return all
}

// lattice returns the signatures of a grid. Closed means that the ends of each side are joined.
func lattice(sides []int, closed bool) []string {
	counts := [][]int{{1}}
	for _, side := range sides {
		var next [][]int
		starts := side
		if closed {
			starts = 1
		}
		for at := range starts {
			var one []int
			for b := range side {
				hops := max(at-b, b-at)
				if closed {
					hops = min(hops, side-hops)
				}
				for len(one) <= hops {
					one = append(one, 0)
				}
				one[hops]++
			}
			for _, before := range counts {
				next = append(next, convolve(before, one))
			}
		}
		counts = next
	}
	total := 1
	for _, side := range sides {
		total *= side
	}
	all := make([]string, 0, total)
	for _, c := range counts {
		for range total / len(counts) {
			all = append(all, fmt.Sprint(c))
		}
	}
	slices.Sort(all)
	return all
}

func convolve(x, y []int) []int {
	out := make([]int, len(x)+len(y)-1)
	for i, p := range x {
		for j, q := range y {
			out[i+j] += p * q
		}
	}
	return out
}

// isDragonfly reports whether the shortest links form groups in which every two routers are linked, with the same
// number of links between every two groups.
func (g *graph) isDragonfly() bool {
	local := slices.Index(g.hopUs, slices.Min(g.hopUs))
	n := len(g.of)
	group := make([]int, n)
	for i := range group {
		group[i] = i
	}
	for range n { // the least number in a group reaches all of it in fewer turns
		changed := false
		for i, l := range g.links {
			if low := min(group[l[0]], group[l[1]]); g.class[i] == local && group[l[0]] != group[l[1]] {
				group[l[0]], group[l[1]] = low, low
				changed = true
			}
		}
		if !changed {
			break
		}
	}
	size := map[int]int{}
	for _, x := range group {
		size[x]++
	}
	inside, between := 0, map[[2]int]int{}
	for _, l := range g.links {
		x, y := group[l[0]], group[l[1]]
		if x == y {
			inside++
			continue
		}
		between[[2]int{min(x, y), max(x, y)}]++
	}
	groups := len(size)
	if groups < 3 || len(between) != groups*(groups-1)/2 {
		return false
	}
	each := n / groups
	for _, s := range size {
		if s != each {
			return false
		}
	}
	links := len(g.links) - inside
	for _, k := range between {
		if k*len(between) != links {
			return false
		}
	}
	return each > 1 && inside == groups*each*(each-1)/2
}

// byDistance sorts all vertices by their distance.
func byDistance(order []int, far []float64) {
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(far[x], far[y]) })
}

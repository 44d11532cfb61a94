package discover

import (
	"cmp"
	"slices"
)

// plausible reports whether nodes may have so many links: not all, and few if there are many nodes.
func plausible(nodes, links int) bool {
	return links > 0 && links < nodes*(nodes-1)/2 && (nodes <= denseNodes || links <= mostDegree*nodes/2)
}

// around returns the pairs that a first graph makes likely links, though their own latency may be an outlier. These are
// nodes three hops apart at most, and nodes with fewer links than most.
func around(nodes int, links [][2]int) [][2]int {
	at := make([][]int, nodes)
	for _, l := range links {
		at[l[0]] = append(at[l[0]], l[1])
		at[l[1]] = append(at[l[1]], l[0])
	}
	have := degrees(nodes, links)
	usual := slices.Sorted(slices.Values(have))[nodes/2]
	var poor []int
	for a, degree := range have {
		if degree < usual && len(poor) < mostPoor {
			poor = append(poor, a)
		}
	}
	var pairs [][2]int
	for a := range nodes {
		likely := within(at, a, likelyHops)
		if have[a] < usual {
			likely = append(likely, poor...)
		}
		for _, b := range likely {
			if a < b {
				pairs = append(pairs, [2]int{a, b})
			}
		}
	}
	slices.SortFunc(pairs, comparePairs)
	return slices.Compact(pairs)
}

// within returns the nodes that are so many hops from a node at most.
func within(at [][]int, a, hops int) []int {
	seen := map[int]bool{a: true}
	all := []int{a}
	start := 0
	for range hops {
		end := len(all)
		for _, b := range all[start:end] {
			for _, c := range at[b] {
				if !seen[c] {
					seen[c] = true
					all = append(all, c)
				}
			}
		}
		start = end
	}
	return all[1:]
}

func comparePairs(x, y [2]int) int { return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1])) }

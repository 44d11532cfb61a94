package assign

import (
	"cmp"
	"slices"
)

// placeNearLinear returns the same result as placeLiteral, in time near-linear in nodes and jobs. The literal form
// looks at every collector for every job, and again for every node of a job that it spreads.
func placeNearLinear(l *Layout, jobs [][]int32, lim Limits) []Placement {
	order := make([]int32, len(jobs))
	total := 0
	for j := range order {
		order[j] = int32(j)
		total += len(jobs[j])
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(len(jobs[b]), len(jobs[a])), cmp.Compare(a, b))
	})
	f := newField(l)
	all := make([]int32, total)
	placed := make([]Placement, len(jobs))
	locals := 0
	for _, j := range order {
		nodes := jobs[j]
		at := all[:len(nodes):len(nodes)]
		all = all[len(nodes):]
		placed[j] = Placement{Local: len(nodes) == 1 && (lim.LocalMax == 0 || locals < lim.LocalMax), At: at}
		if placed[j].Local {
			locals++
			at[0] = l.Home[nodes[0]]
			continue
		}
		f.begin(nodes)
		if c := f.leastLoaded(len(nodes)); f.load[c]+int64(len(nodes)) > int64(lim.LMax) {
			f.distribute(nodes, at, lim.LDist)
		} else {
			f.add(c, int64(len(nodes)))
			for i := range at {
				at[i] = c
			}
		}
		f.end()
	}
	return placed
}

// leastLoaded is algorithm 2: the least load, then the least distance, then the lowest number.
func (f *field) leastLoaded(nodes int) int32 {
	best := int32(None)
	f.candidates(func(c int32) {
		if best == None || cmp.Or(cmp.Compare(f.load[c], f.load[best]),
			cmp.Compare(f.distance(c, nodes), f.distance(best, nodes)), cmp.Compare(c, best)) < 0 {
			best = c
		}
	})
	return best
}

// distribute is algorithm 3. It writes the collector of each node to at. While collectors are chosen, own and near
// count the nodes that are left.
func (f *field) distribute(nodes, at []int32, lDist int) {
	var chosen []int32
	taken := make(map[int32]int) // the job's children at a chosen collector
	left := len(nodes)
	for range (len(nodes) + lDist - 1) / lDist {
		c := f.leastLoaded(left)
		if _, again := taken[c]; again {
			break // it has no children left: nothing would change, and the search would find it again and again
		}
		chosen = append(chosen, c)
		taken[c] = f.own[c]
		left -= f.own[c]
		f.add(c, int64(f.own[c]))
		f.count(c, -f.own[c])
		if left == 0 {
			break
		}
	}
	for c, children := range taken { // from here on the whole job counts again
		f.count(c, children)
	}
	// The rest goes to the chosen in the order of load, distance and number. Each time only the first load changes.
	before := func(a, b int32) int {
		return cmp.Or(cmp.Compare(f.load[a], f.load[b]),
			cmp.Compare(f.distance(a, len(nodes)), f.distance(b, len(nodes))), cmp.Compare(a, b))
	}
	slices.SortFunc(chosen, before) // a sorted list is a heap
	for i, n := range nodes {
		if _, own := taken[f.Home[n]]; own {
			at[i] = f.Home[n]
			continue
		}
		at[i] = chosen[0]
		f.load[at[i]]++
		siftDown(chosen, before)
	}
	for _, c := range chosen {
		f.add(c, 0)
	}
}

// count changes the number of nodes at home at a collector, and below each vertex above it.
func (f *field) count(c int32, by int) {
	f.own[c] += by
	for k := range f.above {
		f.above[k].near[f.above[k].of[c]] += by
	}
}

// siftDown restores the order of a heap whose first entry has grown.
func siftDown(heap []int32, before func(a, b int32) int) {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && before(heap[child+1], heap[child]) < 0 {
			child++
		}
		if before(heap[i], heap[child]) <= 0 {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}

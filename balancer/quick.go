package balancer

import (
	"cmp"
	"slices"
)

// assignQuick returns what assign returns, in time near-linear in nodes and jobs where assign looks at every collector for every
// job, and for every node of a job that it spreads.
func assignQuick(l *layout, jobs [][]int32, lim limits) []placement {
	order := make([]int32, len(jobs))
	total := 0
	for j := range order {
		order[j] = int32(j)
		total += len(jobs[j])
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(len(jobs[b]), len(jobs[a])), cmp.Compare(a, b)) })
	f := newField(l)
	all := make([]int32, total)
	placed := make([]placement, len(jobs))
	locals := 0
	for _, j := range order {
		nodes := jobs[j]
		at := all[:len(nodes):len(nodes)]
		all = all[len(nodes):]
		placed[j] = placement{local: len(nodes) == 1 && (lim.localMax == 0 || locals < lim.localMax), at: at}
		if placed[j].local {
			locals++
			at[0] = l.home[nodes[0]]
			continue
		}
		f.take(nodes)
		if c := f.leastLoaded(len(nodes)); f.load[c]+int64(len(nodes)) > int64(lim.lMax) {
			f.distribute(nodes, at, lim.lDist)
		} else {
			f.add(c, int64(len(nodes)))
			for i := range at {
				at[i] = c
			}
		}
		f.drop()
	}
	return placed
}

// leastLoaded is algorithm 2: the least load, then the least distance, then the lowest number.
func (f *field) leastLoaded(nodes int) int32 {
	best := int32(-1)
	f.candidates(func(c int32) {
		if best < 0 || cmp.Or(cmp.Compare(f.load[c], f.load[best]), cmp.Compare(f.distance(c, nodes), f.distance(best, nodes)), cmp.Compare(c, best)) < 0 {
			best = c
		}
	})
	return best
}

// distribute is algorithm 3. It fills at. While collectors are chosen, own and near count the nodes that are left.
func (f *field) distribute(nodes, at []int32, lDist int) {
	var chosen []int32
	taken := make(map[int32]int) // children of the job that a chosen collector has
	left := len(nodes)
	for range (len(nodes) + lDist - 1) / lDist {
		c := f.leastLoaded(left)
		if _, again := taken[c]; again {
			break // it has no children left: nothing would change, and it would be found for ever
		}
		chosen = append(chosen, c)
		taken[c] = f.own[c]
		left -= f.own[c]
		f.add(c, int64(f.own[c]))
		f.near[f.sync[c]] -= f.own[c]
		f.own[c] = 0
		if left == 0 {
			break
		}
	}
	for c, children := range taken { // from here on the whole job counts again
		f.own[c] += children
		f.near[f.sync[c]] += children
	}
	// The rest goes to the chosen in the order of load, distance and number. Only the load of the first changes each time.
	before := func(a, b int32) int {
		return cmp.Or(cmp.Compare(f.load[a], f.load[b]), cmp.Compare(f.distance(a, len(nodes)), f.distance(b, len(nodes))), cmp.Compare(a, b))
	}
	slices.SortFunc(chosen, before) // a sorted list is a heap
	for i, n := range nodes {
		if _, own := taken[f.home[n]]; own {
			at[i] = f.home[n]
			continue
		}
		at[i] = chosen[0]
		f.load[at[i]]++
		sink(chosen, before)
	}
	for _, c := range chosen {
		f.add(c, 0)
	}
}

// sink puts the first of a heap where it belongs now.
func sink(heap []int32, before func(a, b int32) int) {
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
